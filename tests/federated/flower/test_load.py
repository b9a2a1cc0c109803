"""Too many queries at once: refused with a time to try again, in turns, and never sent when nobody waits."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.cli.app import main
from onefold.exceptions import FederationError, InvalidInputError, MessageError, ServerBusyError
from onefold.federated.flower import Federation, asking, server_app, spool
from onefold.federated.flower.life import LifeSign
from onefold.federated.flower.site_app import ANSWERS
from onefold.federated.flower.spool import Reply, Request
from onefold.federated.messages import Answers, Bundle, Query
from reference.fake_grid import FakeGrid, make_coordinator, step

ROWS = np.linspace(0.0, 1.0, 12).reshape(4, 3)


def request(name: str, rows: np.ndarray = ROWS, **more: Any) -> Request:
    return Request(Query(name, rows), "me", 60.0, **more)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> server_app.Coordinator:
    """A run that may hold two queries, with a site that has joined."""
    made = make_coordinator(tmp_path, monkeypatch, "north", queue=2)
    step(made, 2)
    assert list(made.registry.members) == ["north"]
    return made


def asked(run: server_app.Coordinator) -> list[str]:
    return [site for kind, site in run.grid.sent if kind == ANSWERS]


# --- the limit --------------------------------------------------------------------------------------------


def test_query_beyond_the_limit_is_refused_with_a_time_until_another_is_answered(
    run: server_app.Coordinator,
) -> None:
    run.grid.is_silent = True
    run.spool.submit(request("q0"))
    step(run)  # it is on its way, and counts
    run.spool.submit(request("q1"))
    with pytest.raises(ServerBusyError, match=r"busy: 2 queries wait already; try again in about 15 s") as no:
        run.spool.submit(request("q2"))
    assert no.value.seconds == spool.UNKNOWN_PACE
    assert isinstance(no.value, FederationError)
    assert run.spool.refusals.stat().st_size == 1
    run.grid.is_silent = False
    step(run, 2)
    assert run.spool.wait("q0", 1).expected == ("north",)
    run.spool.submit(request("q2"))


def test_time_to_try_again_follows_from_the_pace_of_the_run(run: server_app.Coordinator) -> None:
    sign = LifeSign(time.time(), pid=os.getpid(), pace=0.25, queue=2)
    for number in range(2):
        run.spool.submit(request(f"q{number}"))
    for pace, seconds in ((0.25, 8.0), (100.0, spool.SOON), (0.001, spool.LATE)):
        replace(sign, pace=pace).leave(run.spool._alive)
        with pytest.raises(ServerBusyError) as no:
            run.spool.submit(request("more"))
        assert no.value.seconds == seconds


def test_run_tells_its_pace(run: server_app.Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run.pulse.pace is None
    now = time.monotonic()
    for number in range(20):
        monkeypatch.setattr(time, "monotonic", lambda later=now + number: later)
        run.pulse.ended(3)
    monkeypatch.setattr(time, "monotonic", lambda: now + 30)
    assert run.pulse.pace == pytest.approx(2.0)  # sixty in thirty seconds
    monkeypatch.setattr(time, "monotonic", lambda: now + 1000)
    assert run.pulse.pace is None


def test_large_queries_are_limited_by_their_bytes(
    run: server_app.Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MOST_BYTES", 3000)
    run.spool.submit(request("q0", np.ones((1000, 3))))  # alone it is taken, however large
    with pytest.raises(ServerBusyError, match="MiB wait already"):
        run.spool.submit(request("q1"))


def test_query_that_was_withdrawn_makes_room_and_gets_no_reply(run: server_app.Coordinator) -> None:
    run.grid.is_silent = True
    for number in range(2):
        run.spool.submit(request(f"q{number}"))
    step(run)
    run.spool.withdraw(["q0", "q1"])
    run.spool.submit(request("q2"))
    run.grid.is_silent = False
    step(run, 2)
    assert [path.name for path in (run.spool.root / "replies").iterdir()] == ["q2.reply"]


def test_query_that_nobody_waits_for_any_more_is_not_sent(run: server_app.Coordinator) -> None:
    run.spool.submit(request("late"), patience=-1.0)
    run.spool.submit(request("soon"), patience=30.0)
    step(run)
    assert asked(run) == ["north"]
    assert [path.name for path in (run.spool.root / "requests").iterdir()] == []
    assert run.metrics.get_sample_value("onefold_queries_total", {"outcome": "expired"}) == 1


def test_time_that_a_query_has_waited_is_not_given_to_the_sites(run: server_app.Coordinator) -> None:
    run.spool.submit(request("q0"), patience=30.0)
    (taken,) = run.spool.take()
    assert 0 < taken.timeout <= 30.0


def test_new_run_tells_those_who_wait_for_what_the_last_one_carried(
    run: server_app.Coordinator, tmp_path: Path
) -> None:
    run.grid.is_silent = True
    run.spool.submit(request("q0"))
    step(run)
    again = server_app.Coordinator(FakeGrid(["north"]), run.reception.folder)
    step(again)
    with pytest.raises(FederationError, match="started again while it carried this query: ask again"):
        run.spool.wait("q0", 1)
    assert asked(again) == []  # sites that have answered would count its rows twice


def test_sweep_leaves_a_query_that_takes_hours_alone(run: server_app.Coordinator) -> None:
    run.grid.is_silent = True
    run.spool.submit(Request(Query("slow", ROWS), "me", 1e5))
    run.spool.submit(request("lost"))
    step(run)
    run.open = [each for each in run.open if each.requests[0].query.id == "slow"]
    long_ago = time.time() - spool.STALE_SECONDS - 1
    for path in (run.spool.root / "requests").iterdir():
        os.utime(path, (long_ago, long_ago))
    run._swept = -server_app.SWEEP_SECONDS
    step(run)
    assert [path.name for path in (run.spool.root / "requests").iterdir()] == ["slow.taken"]


def test_limit_is_a_setting(run: server_app.Coordinator) -> None:
    folder = run.reception.folder
    assert json.loads(folder.settings_file.read_text())["queue"] == 2
    assert run.spool.life().queue == 2
    for wrong in (0, True, 2.5, "9"):
        with pytest.raises(InvalidInputError, match="queue: Input should be"):
            replace(folder.settings, queue=wrong)


# --- who asks ---------------------------------------------------------------------------------------------


@pytest.fixture
def federation(run: server_app.Coordinator, monkeypatch: pytest.MonkeyPatch) -> Federation:
    """Whoever sleeps lets the run go round."""
    monkeypatch.setattr(time, "sleep", lambda _: step(run))
    folder = run.reception.folder
    replace(folder.settings, insecure=True).save(folder.settings_file)  # for a signature without certificates
    return Federation(folder.root)


def test_command_says_busy_with_a_code_of_its_own(
    federation: Federation, run: server_app.Coordinator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.grid.is_silent = True
    for number in range(2):
        run.spool.submit(request(f"q{number}"))
    np.savez(tmp_path / "rows.npz", X=ROWS)
    code = main(["federate", "query", str(tmp_path / "rows.npz"), "--folder", str(federation.folder.root)])
    assert code == 4
    assert "the server is busy: 2 queries wait already; try again in about" in capsys.readouterr().err
    with pytest.raises(ServerBusyError):
        federation.query(ROWS)
    assert run.spool.waiting()[0] == 2


@pytest.mark.parametrize("together", [1, 3, 128])
def test_long_table_is_asked_about_in_turns_as_room_allows(
    together: int, federation: Federation, run: server_app.Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "TOGETHER", together)
    rows = np.linspace(0.0, 1.0, 21).reshape(7, 3)
    found = federation.query(rows, batch_size=1)
    assert found.predictions.tolist() == [1 if row < 0.5 else 2 for row in rows[:, 0]]
    assert run.spool.waiting() == (0, 0)


def test_silent_run_whose_process_is_there_is_busy_and_not_gone(
    run: server_app.Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "SILENT_LOOKS", 3)
    sign = LifeSign.last(run.spool._alive)
    assert sign is not None
    old = replace(sign, time=time.time() - 1000, doing="sending queries")
    old.leave(run.spool._alive)
    os.utime(run.spool._alive, (old.time, old.time))
    assert run.spool.status() == ("north",)
    with pytest.raises(FederationError, match=r"did not reply within 0.5 s: it is busy \(sending queries\)"):
        run.spool.wait("q0", 0.5)
    replace(old, born="0").leave(run.spool._alive)  # another process has its number
    os.utime(run.spool._alive, (old.time, old.time))
    assert run.spool.status() is None
    with pytest.raises(FederationError, match="not running"):
        run.spool.wait("q0", 1000)


# --- what is not one of ours ------------------------------------------------------------------------------

DEEP = b'{"expected":' * 100_000 + b"1" + b"}" * 100_000


@pytest.mark.parametrize("meta", [DEEP, b"[1]", b"{}", b"3", b'{"caller": [], "timeout": {}}'])
def test_requests_and_replies_that_are_not_ours_end_nothing(run: server_app.Coordinator, meta: bytes) -> None:
    (run.spool.root / "requests" / "x.request").write_bytes(Bundle((meta,)).to_bytes())
    step(run)
    assert run.spool.waiting() == (0, 0)
    with pytest.raises(MessageError):
        Reply.from_bytes(Bundle((meta,)).to_bytes())
    run.spool._alive.write_bytes(meta)
    assert run.spool.status() is None


# --- numbers ----------------------------------------------------------------------------------------------


def test_run_counts_queries_answers_rows_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(site: str, query: Query) -> list[Any]:
        wrong = Answers("other", site, (1, 2), "euclidean", None, np.ones((4, 2)))
        return (
            [wrong]
            if site == "south"
            else [Answers(query.id, site, (1, 2), "euclidean", None, np.ones((4, 2)))]
        )

    run = make_coordinator(tmp_path, monkeypatch, "north", "south", answer=answer)
    step(run, 2)
    run.spool.submit(request("q0"))
    step(run, 3)
    text = run.reception.folder.run_numbers.read_text()
    for name, labels, value in (
        ("queries_total", {"outcome": "partial"}, 1),
        ("query_rows_total", {}, 4),
        ("query_seconds_count", {}, 1),
        ("answers_total", {"site": "north", "outcome": "answered"}, 1),
        ("answers_total", {"site": "south", "outcome": "internal"}, 1),
        ("bytes_total", {"direction": "sent"}, 2 * ROWS.nbytes),
        ("bytes_total", {"direction": "received"}, 64),
    ):
        assert run.metrics.get_sample_value(f"onefold_{name}", labels) == value, name
        assert f"onefold_{name}" in text
    assert "me" not in {part.strip('"') for line in text.splitlines() for part in line.split("=")}
    sign = run.spool.life()
    assert sign is not None
    assert sign.pace is not None
