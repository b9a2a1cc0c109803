"""A hostile site in this process: whatever it sends, it is left out, and the others are answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

import reference.hostile_site as liar
from onefold.federated import GlobalClassifier
from onefold.federated.flower.server_app import Coordinator
from onefold.federated.flower.site_app import ANSWERS
from onefold.federated.flower.spool import Request
from onefold.federated.messages import Answers, Failure, FailureCode, Query
from reference.fake_grid import FakeGrid, make_coordinator, step

ROWS = np.linspace(0.0, 1.0, 12).reshape(4, 3)


class LyingGrid(FakeGrid):
    """West lies in its answers, if there is a lie."""

    lie = ""

    def pull_messages(self, numbers: Any) -> list[Any]:
        found = super().pull_messages(numbers)
        for envelope in found:
            _, kind, fields, _ = liar.opened(envelope.content)
            if self.lie and kind == "answers" and fields["site"] == "west":
                envelope.content = liar.LIES[self.lie](envelope.content, ANSWERS)
        return found


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    monkeypatch.setattr(liar, "HERE", tmp_path)
    made = make_coordinator(tmp_path, monkeypatch, "north", "west")
    made.grid = LyingGrid(["north", "west"])
    step(made, 2)
    return made


def ask(run: Coordinator, name: str) -> dict[str, Any]:
    run.spool.submit(Request(Query(name, ROWS), "me", 60.0))
    step(run, 2)
    return {message.site: message for message in run.spool.wait(name, 1).messages}  # type: ignore[union-attr]


@pytest.mark.parametrize("lie", sorted(set(liar.LIES) - {"stale"}))
def test_lie_leaves_the_site_out_and_not_the_others(run: Coordinator, lie: str) -> None:
    run.grid.lie = lie
    said = ask(run, "q0")
    assert isinstance(said["north"], Answers)
    query = Query("q0", ROWS)
    profiles = {name: site.profile for name, site in run.registry.members.items()}
    result = GlobalClassifier().combine(said, ("north", "west"), query=query, profiles=profiles)
    assert (result.answered, result.partial) == (("north",), True)
    if lie not in ("other classes", "plain"):  # these are answers, and do not fit the profile or the rows
        assert isinstance(said["west"], Failure)
        assert said["west"].code is FailureCode.INTERNAL
    run.grid.lie = ""
    assert isinstance(ask(run, "q1")["west"], Answers)


def test_answers_to_an_earlier_query_are_a_failure(run: Coordinator) -> None:
    run.grid.lie = "stale"
    assert isinstance(ask(run, "q0")["west"], Answers)
    said = ask(run, "q1")
    assert isinstance(said["west"], Failure)
    assert isinstance(said["north"], Answers)
