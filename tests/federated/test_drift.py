"""Warnings that queries lie farther away than members: rare without a reason, certain with one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from onefold import FoldingClassifier
from onefold.exceptions import InvalidInputError
from onefold.federated import LocalModel, drift
from onefold.federated.drift import (
    FALSE_ALARM,
    FEWEST,
    SECONDS_OF_WEEK,
    DriftWatch,
    held_out_rows,
    log_evidence,
    trial_distances,
    usual_distances,
)
from onefold.tables import Field, Schema

ALARM = math.log(2.0 / FALSE_ALARM)


# --- the test itself: both halves of the stated rate, each against an exact or a simulated value ------------


@pytest.mark.parametrize("n_rows", [1, 7, 60])
@pytest.mark.parametrize("share", [0.05, 0.126, 0.3])
def test_evidence_is_one_on_average_at_the_largest_usual_share_and_less_below(
    n_rows: int, share: float
) -> None:
    counts = np.arange(n_rows + 1)
    evidence = np.exp([log_evidence(n_rows, int(count), share) for count in counts])
    assert evidence @ binom.pmf(counts, n_rows, share) == pytest.approx(1.0, rel=1e-9)
    assert evidence @ binom.pmf(counts, n_rows, share / 2) < 1.0
    assert evidence @ binom.pmf(counts, n_rows, share * 1.5) > 1.0


@pytest.mark.parametrize("n_held_out", [FEWEST, 200, 1000])
def test_usual_share_is_exceeded_by_one_choice_of_held_out_rows_in_two_hundred(n_held_out: int) -> None:
    rng = np.random.default_rng(3)
    draws = np.sort(rng.exponential(size=(20_000, n_held_out)), axis=1)
    place = n_held_out - int(0.1 * (n_held_out + 1))
    known = usual_distances(draws[0])
    assert known is not None
    assert known["limits"][1] == draws[0, place]
    beyond = np.exp(-draws[:, place])  # the true share of rows beyond the limit
    found = np.mean(beyond > drift._largest_usual(n_held_out))
    assert 0.003 < found < 0.007  # 0.005, four standard deviations to either side


def alarms(n_weeks: int, stretch: float, n_held_out: int, n_queries: int = 30, n_rows: int = 20) -> float:
    """Share of weeks with a warning, looked at after every query."""
    rng = np.random.default_rng(8)
    share, found = drift._largest_usual(n_held_out), 0
    for _ in range(n_weeks):
        known = usual_distances(rng.exponential(size=n_held_out))
        assert known is not None
        beyond = stretch * rng.exponential(size=(n_queries, n_rows)) > known["limits"][1]
        counts = np.cumsum(beyond.sum(axis=1))
        looks = [log_evidence((k + 1) * n_rows, int(count), share) for k, count in enumerate(counts)]
        found += max(looks) >= ALARM
    return found / n_weeks


def test_false_warnings_are_rarer_than_stated_and_true_ones_come() -> None:
    for n_held_out in (FEWEST, 400):
        assert alarms(1000, 1.0, n_held_out) <= FALSE_ALARM
    assert alarms(100, 2.0, 400) > 0.95
    assert alarms(100, 3.0, FEWEST) > 0.8


# --- the counts ---------------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path) -> DriftWatch:
    known = usual_distances(np.arange(1, 101) / 100.0)
    assert known is not None
    (tmp_path / "distances.json").write_text(json.dumps({**known, "model": "a" * 64}))
    clock = [10.0 * SECONDS_OF_WEEK]
    watch = DriftWatch(tmp_path / "distances.json", "a" * 64, clock=lambda: clock[0])
    watch.times = clock  # type: ignore[attr-defined]
    return watch


def test_counts_are_kept_by_weeks_and_rows_are_not(watched: DriftWatch) -> None:
    assert watched.held_out == 100
    assert (
        watched.count([0.1, 0.555, 0.93, 0.999, 2.0, 2.0]) is False
    )  # equal distances of a query count once
    (week,) = watched.weeks()
    assert (week.rows, week.beyond, week.drifted) == (5, (4, 3, 1), False)
    assert week == watched.this_week()
    for number in range(12):
        watched.times[0] = (11 + number) * SECONDS_OF_WEEK  # type: ignore[attr-defined]
        watched.count([0.2])
    assert len(watched.weeks()) == drift.MOST_WEEKS
    assert "0.555" not in watched.path.read_text()
    assert watched.path.stat().st_mode & 0o077 == 0


def test_warning_comes_once_a_week(watched: DriftWatch) -> None:
    rng = np.random.default_rng(0)
    warned = [watched.count(1.0 + rng.random(10)) for _ in range(20)]
    assert sum(warned) == 1
    week = watched.this_week()
    assert week is not None
    assert week.drifted
    watched.count(0.5 * rng.random(1000))  # what was told stays told in its week
    assert watched.weeks()[-1].drifted
    watched.times[0] += SECONDS_OF_WEEK  # type: ignore[attr-defined]
    assert watched.this_week() is None
    assert watched.count(0.5 * rng.random(1000)) is False
    assert not watched.weeks()[-1].drifted


def test_counts_of_another_model_or_damaged_ones_are_not_used(watched: DriftWatch) -> None:
    other = DriftWatch(watched.path, "b" * 64)
    assert not other.is_available
    assert other.count([9.0] * 3) is False
    assert watched.is_available
    for text in (
        "{",
        "[]",
        '{"model": 1}',
        json.dumps({"model": "a" * 64, "limits": [1, 2], "held_out": 50}),
    ):
        watched.path.write_text(text)
        assert watched.count([9.0]) is False
        assert watched.weeks() == []
    watched.path.unlink()
    assert watched.count([9.0]) is False
    assert not watched.path.exists()


# --- what is usual ------------------------------------------------------------------------------------------


def test_all_rows_of_a_held_out_person_go_and_one_of_them_is_measured() -> None:
    person = np.repeat(np.arange(300), 3)
    labels = np.where(np.arange(900) < 897, person % 2, 2)  # the third class is the last person's
    left, measured = held_out_rows(labels, person)
    held = np.setdiff1d(np.arange(900), left)
    assert set(person[left]).isdisjoint(person[held])
    assert len(measured) == len(set(person[measured])) == len(set(person[held])) == 60
    assert set(labels[left]) == {0, 1, 2}
    left, measured = held_out_rows(labels[:300], person[:300])  # too few persons
    assert len(left) == 300
    assert len(measured) == 0


def test_class_of_few_rows_does_not_disappear_from_the_trial_fit() -> None:
    labels = np.array(["many"] * 500 + ["one"])
    for seed in range(30):
        left, measured = held_out_rows(labels, random_state=seed)
        assert 500 in left
        assert 500 not in measured
        assert len(np.unique(np.concatenate([left, measured]))) == 501


def rows(rng: np.random.Generator, n: int, shift: float = 0.0) -> np.ndarray:
    return rng.normal(size=(n, 4)) * 0.1 + np.where(np.arange(n) % 2, 0.7, 0.3)[:, None] + shift


@pytest.mark.parametrize("shift, drifted", [(0.0, False), (0.25, True)])
def test_model_tells_rows_like_its_own_from_others(shift: float, drifted: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    X, y = rows(rng, 600), np.arange(600) % 2
    model = LocalModel(FoldingClassifier(measure="euclidean")).fit(X, y)
    known = trial_distances(model, X, y)
    assert known is not None
    (tmp_path / "d").write_text(json.dumps({**known, "model": "m"}))
    watch = DriftWatch(tmp_path / "d", "m")
    warned = [watch.count(model.answers(rows(rng, 20, shift)).min(axis=1)) for _ in range(20)]
    assert any(warned) is drifted


def test_trial_holds_out_persons_of_a_table() -> None:
    """A person's two rows are the same: with the other one in the model the distance is small."""
    rng = np.random.default_rng(2)
    names = [f"x{place}" for place in range(30)]
    schema = Schema(
        [
            Field("who", "string", "person"),
            *(Field(name, low=0, high=1) for name in names),
            Field("kind", "string", "label", levels=("x", "y")),
        ]
    )
    half = rng.random((240, 30))
    values = np.repeat(half, 2, axis=0)
    table = dict(zip(names, values.T, strict=True))
    table["kind"] = np.where(values[:, 0] < 0.5, "x", "y")
    named = {**table, "who": [f"p{row // 2}" for row in range(480)]}
    model = LocalModel(FoldingClassifier(measure="euclidean"), schema=schema)
    apart = trial_distances(model, named)
    alike = trial_distances(model, {**table, "who": [f"p{row}" for row in range(480)]})
    assert apart is not None
    assert alike is not None
    assert apart["limits"][0] > 2.0 * alike["limits"][0]


def test_trial_that_fails_does_not_fail_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    X, y = rows(rng, 300), np.arange(300) % 2
    model = LocalModel(FoldingClassifier(measure="euclidean")).fit(X, y)

    def refuse(*_: object, **__: object) -> None:
        raise InvalidInputError("too few rows for this estimator")

    monkeypatch.setattr(LocalModel, "fit", refuse)
    assert trial_distances(model, X, y) is None
