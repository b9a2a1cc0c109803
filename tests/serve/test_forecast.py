"""What the pages say that an attacker could learn is true, and as sharp as it can be."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from scipy.optimize import linprog

from onefold.exceptions import InvalidInputError
from onefold.serve.tables import DELTA, curve, learnable, narrowest, rightest
from onefold.tables import Field, Schema

SCHEMA = Schema(
    (
        Field("age", "integer", low=0, high=120, unit="years", missing="indicator"),
        Field("weight", low=30, high=150),
        Field("visit", "date", low=18_000, high=19_000),
        Field("seen", "datetime", low=0, high=86_400 * 1000),
        Field("ward", "string", levels=("north", "south", "east")),
        Field("sick", "boolean", role="label"),
    ),
    rows_about=500,
)


def best_attack(n_values: int, n_guessed: int, epsilon: float, *, replaced: bool) -> float:
    """How often the best guess is right under the worst of all mechanisms: a linear program over them all.

    Unknowns are the probabilities of every output given every value of the cell and, last, no row at all. An
    output may as well be the guess that is made of it.
    """
    guesses = list(combinations(range(n_values), n_guessed))
    shape = (n_values + 1, len(guesses))
    values = range(n_values)
    pairs = list(permutations(values, 2))
    if not replaced:
        pairs = [pair for value in values for pair in ((value, n_values), (n_values, value))]
    bounds = []
    for one, other in pairs:
        for output in range(len(guesses)):
            line = np.zeros(shape)
            line[one, output], line[other, output] = 1.0, -math.exp(epsilon)
            bounds.append(line.ravel())
    sums = np.kron(np.eye(shape[0]), np.ones(shape[1]))
    right = np.zeros(shape)
    for output, guess in enumerate(guesses):
        right[list(guess), output] = -1.0 / n_values
    found = linprog(right.ravel(), np.array(bounds), np.zeros(len(bounds)), sums, np.ones(shape[0]))
    return -float(found.fun)


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize(("n_values", "n_guessed"), [(2, 1), (3, 1), (5, 1), (5, 2), (6, 3)])
def test_bound_is_what_the_best_attack_on_the_worst_mechanism_reaches(
    n_values: int, n_guessed: int, replaced: bool
) -> None:
    for epsilon in (0.1, 0.7, 2.0):
        reached = best_attack(n_values, n_guessed, epsilon, replaced=replaced)
        bound = rightest(n_guessed / n_values, epsilon, replaced=replaced, delta=0.0)
        assert bound == pytest.approx(reached, abs=1e-6)


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 16.0])
def test_narrowest_guess_is_where_the_bound_reaches_one_half(epsilon: float, replaced: bool) -> None:
    share = narrowest(epsilon, replaced=replaced)
    assert 0.0 < share <= 0.5
    assert rightest(share, epsilon, replaced=replaced) == pytest.approx(0.5)
    assert rightest(share * 0.99, epsilon, replaced=replaced) < 0.5


def test_delta_counts() -> None:
    """A mechanism that tells everything with probability delta, and else nothing."""
    for chance in (0.1, 0.5):
        reached = DELTA + (1.0 - DELTA) * chance
        for replaced in (True, False):
            assert rightest(chance, 1e-9, replaced=replaced) >= reached - 1e-8


def test_columns_are_told_in_their_own_units() -> None:
    told = {each["column"]: each for each in learnable(SCHEMA, "record", 1.0)["columns"]}
    assert told["age"]["before"] == "± 29.8 years"  # half of 121 ages are open: 60.5 of them
    assert told["age"]["after"] == "± 10.6 years or wider"  # (121 (1/2 - delta) / e - 1) / 2, rounded down
    assert told["weight"]["after"] == "± 11 or wider"
    assert told["visit"]["after"].endswith("days or wider")
    assert told["seen"]["before"] == "± 250 days"
    assert told["ward"] == {
        "column": "ward",
        "before": "33.3 of 100 right",
        "after": "at most 75.5 of 100 right",
        "moved": None,
    }
    assert told["sick"]["before"] == "50 of 100 right"
    entries = {each["column"]: each for each in learnable(SCHEMA, "entry", 1.0)["columns"]}
    assert entries["sick"]["after"] == "at most 73.2 of 100 right"
    assert entries["age"]["moved"].endswith(" years")
    assert learnable(SCHEMA, "record", 16.0)["columns"][0]["after"] == "the very value"


def test_noise_cannot_move_a_value_farther_than_its_range() -> None:
    moved = float(learnable(SCHEMA, "entry", 0.05)["columns"][1]["moved"])
    assert 0.0 < moved <= 120.0


@pytest.mark.parametrize("unit", ["record", "entry"])
def test_curve_rises_with_epsilon(unit: str) -> None:
    found = curve(SCHEMA, unit)
    (shares,) = found.scores.values()
    assert 0.0 <= shares[0] < shares[-1] <= 1.0
    assert found.unit == unit


def test_wishes_that_cannot_be_kept_are_refused() -> None:
    for unit, epsilon in (("record", True), ("record", math.nan), ("planet", 1.0), ("person", 1.0)):
        with pytest.raises(InvalidInputError):
            learnable(SCHEMA, unit, epsilon)
