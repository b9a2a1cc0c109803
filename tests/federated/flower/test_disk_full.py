"""A disk that fills up and gets room again: the server waits, says so once, and loses nothing."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold._base import files
from onefold.exceptions import FederationError, OnefoldError
from onefold.federated.flower import life, nodes, server_app
from onefold.federated.flower.nodes import ServerNode
from onefold.federated.flower.server_app import Coordinator
from onefold.federated.flower.site_app import PROFILE
from onefold.federated.flower.spool import Request
from onefold.federated.messages import Answers, Query
from reference.fake_grid import FakeGrid, make_coordinator, step
from reference.site_files import give_sign

ROWS = np.linspace(0.0, 1.0, 12).reshape(4, 3)


class Disk:
    """Full while it is told so, at every durable step."""

    def __init__(self) -> None:
        self.is_full, self.code = False, errno.ENOSPC

    def __call__(self, name: str, *what: Any) -> None:
        if self.is_full:
            raise OSError(self.code, os.strerror(self.code))


@pytest.fixture(autouse=True)
def disk() -> Iterator[Disk]:
    files.fault = made = Disk()
    yield made
    files.fault = None


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    made = make_coordinator(tmp_path, monkeypatch, "north", "south")
    step(made, 2)
    assert list(made.registry.members) == ["north", "south"]
    return made


def request(name: str) -> Request:
    return Request(Query(name, ROWS), "me", 1000.0)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_answers_that_came_on_a_full_disk_are_handed_over_when_there_is_room(
    code: int, run: Coordinator, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    run.grid.is_silent = True
    run.spool.submit(request("q0"))
    step(run)
    disk.is_full, disk.code = True, code
    run.grid.is_silent = False
    with caplog.at_level(logging.WARNING):
        step(run, 2 * server_app.MOST_FAILURES)  # no failure of a step ends the run
        assert run.spool.life().is_full
        assert not list((run.spool.root / "replies").iterdir())
        with pytest.raises(FederationError, match="the disk of the server is full"):
            run.spool.submit(request("q1"))
        disk.is_full = False
        step(run, 2)
    reply = run.spool.wait("q0", 1)
    assert [type(message) for message in reply.messages] == [Answers, Answers]
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "the disk is full",
        "there is room on the disk again",
    ]
    assert not run.spool.life().is_full
    run.spool.submit(request("q1"))
    step(run, 2)
    assert len(run.spool.wait("q1", 1).messages) == 2


def test_whoever_waits_on_a_full_disk_is_told_so(run: Coordinator, disk: Disk) -> None:
    run.spool.submit(request("q0"))
    disk.is_full = True
    run.pulse.is_full = True
    step(run, 3)
    assert not [kind for kind, _ in run.grid.sent if kind == server_app.ANSWERS]  # sites count nothing
    with pytest.raises(FederationError, match=r"did not reply within 0.1 s: the disk of the server is full"):
        run.spool.wait("q0", 0.1)


def test_site_that_comes_on_a_full_disk_is_asked_again_and_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    run = make_coordinator(tmp_path, monkeypatch, "north", "south")
    disk.is_full = True
    step(run, 2 * server_app.MOST_FAILURES)
    assert not run.registry.members
    assert len(run.grid.sent) <= 4  # it is not asked every second for what cannot be kept
    disk.is_full = False
    step(run, 4)
    assert list(run.registry.members) == ["north", "south"]
    assert run.registry.log.verify() == 2
    assert run.grid.sent.count((PROFILE, "north")) <= 2


def test_nothing_that_flower_handed_over_is_lost_when_one_message_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    """The profile of a site and answers of another come together, and the profile cannot be kept."""
    run = make_coordinator(tmp_path, monkeypatch, "north", "south")
    run.grid = FakeGrid(["north"])
    step(run, 2)
    run.spool.submit(request("q0"))
    run.grid.names, run.grid.is_silent = ["north", "south"], True
    step(run)  # south is asked what it is, north about the rows
    disk.is_full, run.grid.is_silent = True, False
    step(run, 3)
    disk.is_full = False
    step(run, 4)
    assert len(run.spool.wait("q0", 1).messages) == 1
    assert list(run.registry.members) == ["north", "south"]


def test_sign_of_life_is_given_on_a_full_disk(run: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = run.spool.life()
    inode = run.spool._alive.stat().st_ino
    run.pulse.is_full = True
    run.pulse.seen(["north"])
    with monkeypatch.context() as patch:
        patch.setattr(life, "open_file", no_room)
        run.pulse.beat()
    after = run.spool.life()
    assert run.spool._alive.stat().st_ino == inode  # written over the old one
    assert after.time > before.time
    assert (after.is_full, after.online) == (True, ("north",))


# --- the process beside the run ---------------------------------------------------------------------------


class FakeProcess:
    is_running = True

    def has(self, pid: int) -> bool:
        return False

    def end(self, pid: int) -> None:
        pass


def test_server_outlives_a_full_disk_and_starts_its_run_when_there_is_room(
    run: Coordinator, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(nodes.ServerFolder, "require_files", lambda *_: None)
    server = ServerNode(run.reception.folder, say=said.append)
    server._process = FakeProcess()  # type: ignore[assignment]
    server._seen = server.registry.stamp()
    controlled: list[list[str]] = []

    def control(*calls: list[str]) -> list[dict[str, Any]]:
        controlled.extend(calls)
        give_sign(server.spool, ["north"])
        return [{} for _ in calls]

    monkeypatch.setattr(server, "_control", control)
    disk.is_full = True
    for _ in range(10 * nodes.MOST_FAILURES + life.LOOKS):
        server.check()
    assert not controlled
    assert server.is_disk_full
    disk.is_full = False
    server.check()
    assert [call[0] for call in controlled] == ["run"]
    server._watchdog.is_there = lambda _: True
    server.check()
    assert not server.is_disk_full
    assert [line.split(":")[0] for line in said if "disk" in line] == [
        f"the disk is full ({server.folder.state})",
        "there is room on the disk again",
    ]


def test_failing_flower_command_is_no_failure_of_the_server_while_the_disk_is_full(
    run: Coordinator, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes.ServerFolder, "require_files", lambda *_: None)
    server = ServerNode(run.reception.folder)
    server._process = FakeProcess()  # type: ignore[assignment]

    def fail() -> None:
        raise FederationError("flwr run failed")

    monkeypatch.setattr(server, "_follow", fail)
    disk.is_full = True
    for _ in range(3 * nodes.MOST_FAILURES):
        server.check()
    disk.is_full = False
    for _ in range(nodes.MOST_FAILURES):
        server.check()
    with pytest.raises(OnefoldError, match="flwr run failed"):
        server.check()
