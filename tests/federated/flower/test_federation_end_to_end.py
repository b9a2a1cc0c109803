"""The quick one of the tests with real processes: start, join, ask, compare with one process."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from onefold.exceptions import FederationError
from onefold.federated.flower import Federation

NAMES = ("north", "south", "west")

pytestmark = pytest.mark.merge  # real processes and TLS


def test_three_sites_over_tls_answer_as_one_process_would(federation: Any, tmp_path: Any) -> None:
    out = tmp_path / "predictions.npz"
    told = federation.query("--out", out, "--measures")
    assert told["code"] == 0, told
    assert told["answered"] == list(NAMES)
    assert not told["partial"]

    expected = federation.expected(*NAMES)
    with np.load(out) as found:
        # Bit for bit: the numbers travelled as arrays, and every site computed what we compute here.
        np.testing.assert_array_equal(found["measures"], expected.measures(federation.X_test))
        np.testing.assert_array_equal(found["prediction"], expected.predict(federation.X_test))
    assert told["accuracy"] == np.mean(expected.predict(federation.X_test) == federation.y_test)

    status = json.loads(federation.run("status", "--json").stdout)
    assert status["running"]
    assert {site["name"]: site["status"] for site in status["sites"]} == dict.fromkeys(NAMES, "member")
    assert all(site["guarantee"] is None for site in status["sites"])
    assert "NOT PRIVATE" in federation.output("north")


def test_notebook_asks_the_server_of_another_process_inside_an_event_loop(federation: Any) -> None:
    expected = federation.expected(*NAMES)
    rows = federation.X_test

    async def cell() -> None:
        with Federation(federation.server.root) as asked, ThreadPoolExecutor(2) as pool:
            asked.wait_for(NAMES)
            halves = pool.map(asked.query, (rows[:50], rows[50:]))
            found = np.concatenate([result.predictions for result in halves])
            np.testing.assert_array_equal(found, expected.predict(rows))
            checked = asked.query(rows, rule="checked", n_liars=1)
            assert (checked.answered, checked.partial, checked.missing) == (NAMES, False, ())
            assert asked.status().running

    asyncio.run(cell())
    assert Federation(federation.server.root).is_running  # leaving the block stopped nothing


def test_query_without_time_for_the_sites_ends_soon(federation: Any) -> None:
    # The run's own reply, not that nothing came in the minute in which it may hand over what came.
    with pytest.raises(FederationError, match="no answer can be used"):
        Federation(federation.server.root).query(federation.X_test, timeout=0.001)


def test_held_out_rows_are_hidden_in_the_query_and_not_in_the_result(federation: Any, tmp_path: Any) -> None:
    held_out = tmp_path / "held_out.npz"
    np.savez(held_out, X=federation.X_test[:60], kind=federation.y_test[:60])
    told = federation.query("--rule", "weighted", "--held-out", held_out, "--held-out-label", "kind")
    assert told["code"] == 0, told
    assert told["rows"] == len(federation.X_test)
    assert told["answered"] == list(NAMES)
    assert "not-trusted" not in told["outliers"].values()
    expected = federation.expected(*NAMES).predict(federation.X_test)
    assert told["labels"] == expected.tolist()


@pytest.mark.parametrize("encrypted", [False, True])
def test_query_over_the_network_brings_probabilities_and_sets(
    federation: Any, tmp_path: Any, encrypted: bool
) -> None:
    options: list[Any] = []
    if encrypted:
        pytest.importorskip("seal")
        options = ["--encrypted", "--keys", tmp_path / "keys", "--timeout", 300]
    labelled = tmp_path / "labelled.npz"
    np.savez(labelled, X=federation.X_test[:120], y=federation.y_test[:120])
    told = federation.query("--calibrate", labelled, "--probabilities", "--sets", "--alpha", 0.1, *options)
    assert told["code"] == 0, told
    assert "calibrated on 120 labelled rows" in told["stderr"]
    found, truth = np.array(told["probability"]), federation.y_test.astype(str)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.mean([right in each.split(" | ") for right, each in zip(truth, told["set"], strict=True)]) > 0.8
    assert ("foreign" in told) is not encrypted
    if not encrypted:
        assert np.array(told["classes"])[found.argmax(axis=1)].tolist() == told["labels"]
