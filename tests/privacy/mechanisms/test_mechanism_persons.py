"""Persons: the noise for k rows, the grid for all their entries, and what records and entries keep of it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError
from onefold.privacy import (
    AnalyticGaussian,
    Ball,
    BoundedFisherNoise,
    Box,
    Event,
    FisherGaussian,
    Gaussian,
    Laplace,
    OptimalNoise,
    samplers,
)
from onefold.privacy.terms import group, multiplied, root, round_up
from reference import mechanisms as literal

KINDS = [Laplace, OptimalNoise, Gaussian, AnalyticGaussian]
NORMS = {Laplace: 1, OptimalNoise: 1, Gaussian: 2, AnalyticGaussian: 2}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_sampler = pytest.mark.parametrize("sampler", ["float", "hardened"])


def make(kind, sensitivity, **options):
    return kind(0.5, 0.0 if kind is Laplace else 1e-3, sensitivity, **options)


@pytest.mark.parametrize(("sampler", "kind", "rows"), thinned(["float", "hardened"], KINDS, [1, 2, 3, 10]))
def test_noise_for_a_person_is_that_of_so_many_records(kind, sampler: str, rows: int) -> None:
    """k times in the sum of absolute changes, the root of k in Euclidean length; never rounded down."""
    box = Box(0.1, 0.4, n_features=3)
    person = make(kind, box, unit="person", rows_per_person=rows, sampler=sampler)
    record = make(kind, box, unit="record", sampler=sampler)
    exact = rows if NORMS[kind] == 1 else math.sqrt(rows)
    assert person.scale == pytest.approx(exact * record.scale, rel=1e-3)
    needed = Fraction(record.sensitivity) * (rows if NORMS[kind] == 1 else 1)
    got = Fraction(person._change)
    assert got >= needed if NORMS[kind] == 1 else got**2 >= needed**2 * rows
    promise = person.guarantee(3)
    assert promise.person == (0.5, person.delta)
    assert promise.rows_per_person == rows
    assert promise.record[0] <= 0.5
    if rows == 1:
        assert person.scale == record.scale
        assert promise.record == promise.person


@pytest.mark.parametrize(("sampler", "kind"), thinned(["float", "hardened"], KINDS))
def test_the_lines_of_a_person_a_record_and_an_entry_agree(kind, sampler: str) -> None:
    """Losses grow from the entry to the record to the person, and from few rows to many."""
    box, p = Box([0, 0, 0], [1, 2, 3]), 3
    for options in ({}, {"unit": "record"}, {"unit": "person", "rows_per_person": 4}):
        noise = make(kind, box, sampler=sampler, **options)
        told = [noise.guarantee(p, rows_per_person=rows) for rows in (1, 2, 3, 4, 5, 9)]
        for promise in told:
            assert promise.entry[0] <= promise.record[0] <= promise.person[0]
            assert promise.entry[1] <= promise.record[1] * (1 + 1e-12) <= promise.person[1] * (1 + 1e-11)
        assert [promise.person[0] for promise in told] == sorted(promise.person[0] for promise in told)
        if noise.unit != "person":
            assert noise.guarantee(p).person is None
            assert noise.guarantee(p).rows_per_person is None


def test_what_a_record_keeps_of_noise_for_a_person() -> None:
    box = Box(0, 1, n_features=4)
    laplace = Laplace(2.0, sensitivity=box, unit="person", rows_per_person=5).guarantee(4)
    assert laplace.record[0] == pytest.approx(0.4, rel=1e-3)
    assert laplace.entry[0] == pytest.approx(0.1, rel=1e-3)
    gaussian = AnalyticGaussian(2.0, 1e-3, box, unit="person", rows_per_person=5)
    assert literal.gaussian_delta(gaussian.guarantee(4).record[0], gaussian.scale, 2.0) == pytest.approx(
        1e-3, rel=1e-2
    )
    optimal = OptimalNoise(2.0, 1e-3, box, unit="person", rows_per_person=5)
    assert optimal.guarantee(4).person == (2.0, 1e-3)
    share = optimal.untouched_share  # one of twenty entries untouched: delta; one of four: less
    assert 1 - (1 - share) ** 20 == pytest.approx(1e-3)
    assert (1 - Fraction(share)) ** 20 >= 1 - Fraction(1e-3)
    assert optimal.guarantee(4).record[1] == pytest.approx(1 - (1 - share) ** 4)
    assert optimal.guarantee(4).entry[1] == share


@pytest.mark.parametrize("kind", [Laplace, OptimalNoise, AnalyticGaussian])
def test_rounded_rows_of_a_person_lie_within_the_counted_steps(kind, monkeypatch) -> None:
    """A coarse grid on which rounding shows: k rows of p entries may all be rounded away from each other."""
    monkeypatch.setattr(samplers, "FINENESS", 2)
    monkeypatch.setattr(samplers, "RECORD_FINENESS", 0)
    rng, p, k, size = np.random.default_rng(0), 4, 3, 2.3
    order = NORMS[kind]
    noise = make(kind, size, unit="person", rows_per_person=k, n_features=p)
    start, direction = rng.normal(size=(4000, k, p)), rng.normal(size=(4000, k, p))
    change = size * direction / np.linalg.norm(direction, ord=order, axis=2, keepdims=True) * (1 - 1e-12)
    steps = (noise._lattice.round(start + change) - noise._lattice.round(start)).reshape(4000, -1)
    largest = np.linalg.norm(steps, ord=order, axis=1).max()
    paid = float(noise._lattice.steps)
    assert largest <= paid * (1 + 1e-12)
    assert largest > (k if order == 1 else math.sqrt(k)) * size / noise._lattice.step  # rounding does enlarge
    # one row of them, and one entry, by the factors that their lines are computed from
    row = np.linalg.norm(steps.reshape(4000, k, p), ord=order, axis=2).max()
    assert row <= paid * noise._record_factor(p) * (1 + 1e-12)
    entry_noise = make(kind, 1.37, n_features=None)
    several = entry_noise._person_factor(p, k) * float(entry_noise._lattice.steps)
    moved = entry_noise._lattice.round(start + 1.37) - entry_noise._lattice.round(start)
    assert np.linalg.norm(moved.reshape(4000, -1), ord=order, axis=1).max() <= several * (1 + 1e-12)


@every_kind
def test_a_ball_moves_all_entries_of_a_person_too(kind) -> None:
    noise = make(kind, Ball(1.0), unit="person", rows_per_person=3)
    promise = noise.guarantee(50)
    assert promise.entry == promise.record
    assert promise.record[0] < promise.person[0] == 0.5


def test_row_noise_of_a_person_adds_up() -> None:
    """Every row has noise of its own: mu grows by the root of k; bounded noise by basic composition."""
    fisher = FisherGaussian(1e-2, sensitivity=Box(0, 1))
    promise = fisher.guarantee(5, rows_per_person=9)
    assert promise.mu == pytest.approx(3 * fisher.mu(5))
    assert literal.gaussian_delta(promise.person[0], 1.0, promise.mu) == pytest.approx(1e-5, rel=1e-6)
    assert promise.person[0] < 9 * promise.record[0]
    bounded = BoundedFisherNoise(1e-4, (-60, 60), sensitivity=Box(0, 1)).guarantee(2, rows_per_person=3)
    assert bounded.person == (multiplied(3, bounded.record[0]), multiplied(3, bounded.record[1]))
    assert fisher.guarantee(5).person is None


def test_an_accountant_is_told_about_persons_only_where_their_rows_are_known() -> None:
    unknown = AnalyticGaussian(1.0, sensitivity=Box(0, 1), unit="record")
    assert unknown.accounting("person", 3) == {}
    with pytest.raises(InvalidInputError, match="rows_per_person"):
        Event.of(unknown, 3, unit="person")
    known = AnalyticGaussian(1.0, sensitivity=Box(0, 1), unit="record", rows_per_person=4)
    multiplier = known.accounting("person", 3)["noise_multiplier"]
    assert multiplier == pytest.approx(known.accounting("record", 3)["noise_multiplier"] / 2)


# --- numbers are rounded up -------------------------------------------------------------------------------


def test_roots_products_and_groups_are_rounded_up() -> None:
    for n in range(1, 2000):
        assert Fraction(root(n)) ** 2 >= n
        assert root(n) == pytest.approx(math.sqrt(n), rel=1e-15)
    assert (root(1), root(4), root(784)) == (1.0, 2.0, 28.0)
    rng = np.random.default_rng(0)
    for a, b in rng.lognormal(size=(500, 2)).tolist():
        assert Fraction(multiplied(a, b)) >= Fraction(a) * Fraction(b)
        assert multiplied(a, b) <= math.nextafter(a * b, math.inf)
    assert multiplied(0.5, 10) == 5.0
    assert multiplied(math.inf, 2.0) == math.inf
    assert round_up(Fraction(10) ** 400) == math.inf


def test_group_privacy_by_its_definition() -> None:
    """Chained: P(O) <= e^eps P1(O) + delta, k times over."""
    for epsilon, delta, size in ((0.5, 1e-3, 3), (1.0, 1e-6, 7), (2.0, 0.0, 4), (0.1, 1e-2, 1)):
        factor, rest = 1.0, 0.0
        for _ in range(size):
            factor, rest = factor * math.exp(epsilon), rest + factor * delta
        found = group((epsilon, delta), size)
        assert found[0] == pytest.approx(math.log(factor))
        assert found[1] == pytest.approx(rest)
    assert group((1.0, 1e-3), 8) == (math.inf, 1.0)  # beyond 1: nothing
    assert group((400.0, 1e-300), 2) == (math.inf, 1.0)
    assert group((math.inf, 1.0), 2) == (math.inf, 1.0)
