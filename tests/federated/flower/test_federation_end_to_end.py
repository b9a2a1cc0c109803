"""The quick one of the tests with real processes: start, join, ask, compare with one process."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

NAMES = ("north", "south", "west")


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
