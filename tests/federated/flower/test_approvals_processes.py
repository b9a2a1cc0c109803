"""Approval by the data owner in a real federation: TLS, node keys, and sites as init makes them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower.spool import Request
from onefold.federated.messages import Failure, Query

NAMES = ("north", "south", "west")
PATIENCE = 300.0


@pytest.mark.nightly  # before a merge, an encrypted sum of running sites is approved, too
def test_querier_waits_at_every_site_is_approved_and_the_server_cannot_ask_for_it(
    tmp_path: Path, make_federation: Callable[..., Any]
) -> None:
    made = make_federation(tmp_path / "f", whom=())

    def replies(query: Query, signature: Any) -> set[str]:
        """What the sites say to a request as a hostile server may make it."""
        made.spool.submit(Request(query, "ward", PATIENCE, signature=signature))
        found = made.spool.wait(query.id, PATIENCE).messages
        assert len(found) == len(NAMES)
        return {message.code if isinstance(message, Failure) else "answered" for message in found}

    try:
        made.start("server")
        for name in NAMES:
            made.start(name, "--data", made.root / f"{name}.npz", "--label", "y")
        made.wait_for_members(*NAMES)
        asked = ("query", made.test_file, "--label", "y", "--querier", "ward", "--purpose", "triage")
        first = made.run(*asked)
        assert first.returncode == 1
        assert "made a key" in first.stderr
        assert "waiting for approval at north, south, west" in first.stderr
        for name in NAMES:
            assert (
                made.run(
                    "approvals", "approve", "ward", "--folder", made.site(name).root, folder=False
                ).returncode
                == 0
            )
        second = made.run(*asked, "--json")
        assert second.returncode == 0, second.stderr
        told = json.loads(second.stdout)
        assert told["answered"] == list(NAMES)
        np.testing.assert_array_equal(told["labels"], made.expected(*NAMES).predict(made.X_test))

        rows = Query("q-forged", made.X_test[:4])
        federation = made.server.federation_id
        assert replies(rows, None) == {"unsigned"}
        forged = SigningKey("ward", os.urandom(32))
        assert replies(Query("q-2", rows.features), forged.sign(Query("q-2", rows.features), federation)) == {
            "waiting-for-approval"
        }
        other = forged.sign(Query("q-3", made.X_test[4:8]), federation)
        assert replies(Query("q-3", rows.features), other) == {"bad-signature"}
        for name in NAMES:
            export = ("log", "export", "--json", tmp_path / f"{name}.json", "--folder", made.site(name).root)
            assert made.run(*export, folder=False).returncode == 0
            log = json.loads((tmp_path / f"{name}.json").read_text())
            events = [entry["event"] for entry in log["entries"]]
            assert events == ["waiting", "approved", "answered", "waiting"]
            assert log["entries"][2]["facts"]["purpose"] == "triage"
    finally:
        made.close()
