"""The watchdog asks before it replaces a run, and a run that is busy goes on saying that it is there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr")

from onefold.federated.flower import life, nodes, server_app
from onefold.federated.flower.folders import ServerFolder, ServerSettings, private_folder
from onefold.federated.flower.life import LifeSign, Watchdog, born
from onefold.federated.flower.nodes import ServerNode
from onefold.federated.flower.server_app import Coordinator
from onefold.federated.flower.spool import Spool
from reference.fake_grid import make_coordinator

ME = os.getpid()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    folder = ServerFolder(private_folder(tmp_path / "server"))
    ServerSettings("127.0.0.1", 8443, insecure=True).save(folder.settings_file)
    folder.prepare()
    return Spool(folder.spool)


class Dog(Watchdog):
    """A watchdog whose clock is put by hand, and who is told whether the process of the run is there."""

    def __init__(self, spool: Spool) -> None:
        self.now, self.there = 0.0, True
        super().__init__(spool, lambda _: self.there, lambda: self.now)

    def looks(self, times: int = 20) -> str | None:
        return next((why for why in (self.why_replace() for _ in range(times)) if why is not None), None)


def give_sign(spool: Spool, age: float = 0.0, **more: Any) -> None:
    then = time.time() - age
    LifeSign(then, pid=ME, born=born(ME), **more).leave(spool._alive)
    os.utime(spool._alive, (then, then))


def test_run_that_answers_is_never_replaced_however_old_its_sign_is(spool: Spool) -> None:
    dog = Dog(spool)
    give_sign(spool, age=10_000.0, doing="fetching answers")
    for _ in range(50):
        assert dog.looks() is None
        assert spool.question.exists()  # it was asked
        dog.now += life.ANSWER_SECONDS
        spool.question.unlink()  # as a run does


def test_run_that_is_there_and_does_not_answer_is_replaced_after_a_long_time(spool: Spool) -> None:
    dog = Dog(spool)
    give_sign(spool, age=60.0, doing="fetching answers")
    assert dog.looks() is None
    dog.now += life.ANSWER_SECONDS
    assert dog.looks() is None
    dog.now += 1.0
    assert dog.looks() == "its process is there and has not answered for 121 s (fetching answers)"


def test_run_whose_process_has_ended_is_replaced_though_its_sign_is_fresh(spool: Spool) -> None:
    dog = Dog(spool)
    give_sign(spool)
    assert dog.looks() is None
    dog.there = False
    assert dog.looks(life.LOOKS) is None
    assert dog.looks(1) == "its process has ended"
    assert not spool.question.exists()


def test_run_without_a_sign_is_replaced(spool: Spool) -> None:
    assert Dog(spool).looks() == "it has given no sign of life"


def test_run_that_is_stuck_in_one_step_is_replaced(spool: Spool) -> None:
    dog = Dog(spool)
    give_sign(spool, busy=life.LONGEST_STEP - 1, doing="fetching answers")
    assert dog.looks() is None
    give_sign(spool, busy=life.LONGEST_STEP + 1, doing="fetching answers")
    assert dog.looks() == "it has been fetching answers for 901 s"


# --- the run ----------------------------------------------------------------------------------------------


class SlowGrid:
    """Takes for ever to say who is there."""

    def __init__(self) -> None:
        self.asked, self.release = threading.Event(), threading.Event()

    def get_nodes(self) -> list[Any]:
        self.asked.set()
        self.release.wait()
        return []


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    made = make_coordinator(tmp_path, monkeypatch)
    made.spool.open_run()
    run = Coordinator(SlowGrid(), made.reception.folder)
    thread = threading.Thread(target=run.run)
    thread.start()
    run.grid.asked.wait()
    yield run
    run.spool.close_run()
    run.grid.release.set()
    thread.join()


def test_run_in_a_long_step_says_that_it_is_there_and_what_it_does(busy: Coordinator, wait_for: Any) -> None:
    signs = set()

    def is_told() -> bool:
        sign = busy.spool.life()
        if sign is not None:
            signs.add(sign.time)
            assert sign.is_fresh
            assert sign.is_there
        return len(signs) > 2 and sign is not None and sign.doing == "looking for sites" and sign.busy > 1.0

    wait_for(is_told, "three signs of life")
    dog = Watchdog(busy.spool, lambda pid: pid == ME)
    assert [dog.why_replace() for _ in range(20)] == [None] * 20
    busy.spool.question.touch()
    wait_for(lambda: not busy.spool.question.exists(), "the answer")


def test_run_that_was_replaced_says_nothing_any_more(busy: Coordinator) -> None:
    busy.spool.open_run()
    busy.pulse.beat()
    assert busy.spool.life() is None


# --- the server -------------------------------------------------------------------------------------------


class FakeProcess:
    """Flower's process, and the run as one of those it started."""

    def __init__(self) -> None:
        self.is_running, self.runs, self.ended = True, {ME}, []

    def has(self, pid: int) -> bool:
        return pid in self.runs

    def end(self, pid: int) -> None:
        self.ended.append(pid)


@pytest.fixture
def server(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> Any:
    said: list[str] = []
    made = ServerNode(ServerFolder(spool.root.parent.parent), say=said.append)
    made._process, made.said = FakeProcess(), said  # type: ignore[assignment, attr-defined]
    monkeypatch.setattr(nodes, "require", lambda *_: SimpleNamespace())
    return made


def test_busy_run_is_left_alone_and_a_dead_one_is_replaced_with_the_reason_in_the_log(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr(server, "start_run", lambda: (started.append(1), server._watchdog.reset()))
    give_sign(server.spool, age=100.0)
    for _ in range(30):
        server.check()
    assert not started
    server._process.runs.clear()
    for _ in range(life.LOOKS + 1):
        server.check()
    assert len(started) == server.restarts == 1
    assert server._process.ended == [ME]
    assert server.said == ["the run at the server is started again: its process has ended"]
    assert server.said[0] in server.folder.run_log.read_text()


def test_run_without_a_network_ends_so_that_another_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_coordinator(tmp_path, monkeypatch)
    made.spool.open_run()
    run = Coordinator(SlowGrid(), made.reception.folder)
    monkeypatch.setattr(server_app, "PAUSE", 0.0)

    def fail() -> None:
        raise ConnectionError("nobody there")

    monkeypatch.setattr(run.grid, "get_nodes", fail)
    with pytest.raises(ConnectionError):
        run.run()
