"""Requests and replies on disk, and what travels together."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from onefold.exceptions import FederationError, MessageError
from onefold.federated.flower import server_app
from onefold.federated.flower.folders import ServerFolder, private_folder
from onefold.federated.flower.server_app import Exchange, batches
from onefold.federated.flower.spool import STALE_SECONDS, Reply, Request, Spool
from onefold.federated.messages import Answers, Failure, FailureCode, Query
from reference.site_files import give_sign


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    folder = ServerFolder(private_folder(tmp_path / "server"))
    folder.prepare()
    return Spool(folder.spool)


def request(name: str, rows: int = 2, caller: str = "me", timeout: float = 5.0) -> Request:
    return Request(Query(name, np.arange(2.0 * rows).reshape(rows, 2)), caller, timeout)


def answers(query: str, site: str, rows: int = 2) -> Answers:
    return Answers(query, site, (1, 2), "euclidean", None, np.ones((rows, 2)))


def test_request_is_taken_once_and_its_reply_read_once(spool: Spool) -> None:
    give_sign(spool, ["north"])
    spool.submit(request("q1"))
    (taken,) = spool.take()
    assert (taken.query.id, taken.caller, taken.timeout) == ("q1", "me", 5.0)
    assert spool.take() == []
    spool.deliver("q1", Reply(("north", "south"), (answers("q1", "north"),)))
    reply = spool.wait("q1", 1)
    assert reply.expected == ("north", "south")
    np.testing.assert_array_equal(reply.messages[0].values, np.ones((2, 2)))
    with pytest.raises(FederationError, match="did not reply"):
        spool.wait("q1", 0.1)


def test_wait_without_a_server_ends_with_an_error(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onefold.federated.flower.spool.SILENT_LOOKS", 5)
    spool.submit(request("q1"))
    with pytest.raises(FederationError, match="not running"):
        spool.wait("q1", 1000)


@pytest.mark.parametrize("content", [b"", b"junk", b"\xff" * 100, (10**6).to_bytes(8, "little") + b"x"])
def test_malformed_request_is_dropped(spool: Spool, content: bytes) -> None:
    (spool.root / "requests" / "x.request").write_bytes(content)
    spool.submit(request("q1"))
    assert [taken.query.id for taken in spool.take()] == ["q1"]
    assert [path.name for path in (spool.root / "requests").iterdir()] == ["q1.taken"]


def test_query_id_with_a_path_is_refused(spool: Spool) -> None:
    with pytest.raises(MessageError):
        spool.deliver("../../x", Reply((), ()))
    with pytest.raises(MessageError):
        spool.submit(request("q", caller="a b"))


def test_sweep_drops_old_requests_and_replies(spool: Spool) -> None:
    spool.deliver("old", Reply((), ()))
    spool.deliver("new", Reply((), ()))
    long_ago = time.time() - STALE_SECONDS - 1
    os.utime(spool.root / "replies" / "old.reply", (long_ago, long_ago))
    spool.sweep()
    assert [path.name for path in (spool.root / "replies").iterdir()] == ["new.reply"]


def test_queries_of_one_querier_are_batched_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_app, "MOST_BYTES", 100)
    monkeypatch.setattr(server_app, "MOST_QUERIES", 3)
    waiting = [request(f"a{i}", rows=1) for i in range(4)] + [request("b", caller="you"), request("big", 10)]
    found = [[each.query.id for each in batch] for batch in batches(waiting)]
    assert found == [["a0", "a1", "a2"], ["a3"], ["b"], ["big"]]


def exchanged(*sites: str) -> Exchange:
    numbers = {str(number): site for number, site in enumerate(sites)}
    return Exchange([request("q1"), request("q2")], sites, numbers, time.monotonic() + 1000)


def test_exchange_gives_each_request_its_replies() -> None:
    open_ = exchanged("north", "south", "west", "east")
    open_.take("0", [answers("q2", "north"), answers("q1", "north")])
    open_.take("1", [Failure("none", "south", FailureCode.TOO_LARGE)])
    open_.take("2", None)
    assert not open_.is_over
    results = open_.results()
    codes = {m.site: getattr(m, "code", "answers") for m in results["q1"].messages}
    assert codes == {"north": "answers", "south": FailureCode.TOO_LARGE, "west": FailureCode.INTERNAL}
    assert results["q1"].expected == ("north", "south", "west", "east")
    assert all(message.query_id == "q2" for message in results["q2"].messages)


@pytest.mark.parametrize(
    "wrong", [answers("q1", "other"), answers("q3", "north"), answers("q1", "north", rows=3)]
)
def test_answers_to_another_query_or_by_another_site_are_failures(wrong: Answers) -> None:
    open_ = exchanged("north")
    open_.take("0", [wrong])
    assert all(isinstance(message, Failure) for message in open_.results()["q1"].messages)


def test_exchange_waits_a_while_for_a_site_that_went_away(monkeypatch: pytest.MonkeyPatch) -> None:
    open_ = exchanged("north")
    open_.lose("0")
    assert not open_.is_over
    monkeypatch.setattr(server_app, "RETURN_SECONDS", -1.0)
    gone = exchanged("north")
    gone.lose("0")
    assert gone.is_over
    assert gone.results()["q1"].messages == ()
