"""How long Flower's loop at a site sleeps: briefly for its own answer, longer for the next message."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from onefold.federated.flower import Federation, launch
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.processes import make_environment


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], list[float]]:
    """What was slept, and the clock: its last number is the time now."""
    slept: list[float] = []
    clock = [1000.0]
    monkeypatch.setattr(launch.time, "sleep", slept.append)
    monkeypatch.setattr(launch.time, "monotonic", lambda: clock[-1])
    monkeypatch.setattr(launch._Impatient, "asked", 0.0)
    return slept, clock


def test_site_looks_for_messages_more_often_while_it_is_asked(naps: tuple[list[float], list[float]]) -> None:
    slept, clock = naps
    launch._Impatient.sleep(3)
    launch._Impatient.sleep(0.5)
    launch._Impatient.sleep(3)
    clock.append(clock[-1] + launch.ASKED_SECONDS)
    launch._Impatient.sleep(3)
    own, busy, idle = launch.OWN_ANSWER_SLEEP, launch.SLEEP_WHILE_ASKED, launch.LONGEST_SLEEP
    assert slept == [idle, own, busy, idle]
    assert own < busy < idle


@pytest.mark.merge
def test_naps_of_flower_are_told_apart_by_their_length() -> None:
    """3 s for a message, 0.5 s for the site's own answer: other numbers would be taken for the wrong one."""
    source = inspect.getsource(importlib.import_module("flwr.supernode.start_client_internal"))
    found = {float(text) for text in re.findall(r"time\.sleep\(([\d.]+)\)", source)}
    assert {seconds < launch.FLOWER_SLEEP for seconds in found} == {True, False}
    assert min(found) > launch.OWN_ANSWER_SLEEP
    assert max(found) > launch.LONGEST_SLEEP


def test_only_a_site_looks_often_for_something_to_start(tmp_path: Path) -> None:
    federation = Federation.create(tmp_path / "f", ["north"], insecure=True)
    folders = federation.folder, SiteFolder(tmp_path / "f" / "sites" / "north")
    seconds = [float(make_environment(each)["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"]) for each in folders]
    assert seconds[1] < seconds[0]
