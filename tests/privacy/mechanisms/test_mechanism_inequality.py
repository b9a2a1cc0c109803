"""P(O) <= exp(epsilon) P'(O) + delta for the worst event O, computed; broken when the noise is too small."""

import math
from fractions import Fraction

import numpy as np
import pytest

from onefold.privacy import AnalyticGaussian, Gaussian, Laplace, OptimalNoise, RandomisedLabels, samplers
from reference import mechanisms as literal

CASES = [
    (Laplace, 1.0, 0.0),
    (Laplace, 4.0, 0.0),
    (OptimalNoise, 1.0, 0.01),
    (OptimalNoise, 0.5, 0.3),
    (Gaussian, 0.9, 1e-3),
    (AnalyticGaussian, 1.0, 1e-3),
    (AnalyticGaussian, 6.0, 1e-5),
]
SLACK = 1e-7  # of the quadrature
each_case = pytest.mark.parametrize("kind, epsilon, delta", CASES)


def _excess(noise, d: float, shrink: float = 1.0, epsilon: float | None = None) -> float:
    """Worst event between noise on a value and on one farther away by ``d``; noise shrunk by a factor."""
    return literal.excess_by_quadrature(
        lambda v: noise.density(v / shrink) / shrink,
        noise.epsilon if epsilon is None else epsilon,
        d,
        noise.untouched_share,
        reach=60 * noise.scale,
    )


@each_case
def test_guarantee_holds_for_neighbours_at_the_declared_distance(kind, epsilon: float, delta: float) -> None:
    noise = kind(epsilon, delta, 1.5)
    for d in (1.5, -1.5, 0.7, 1e-3):
        assert _excess(noise, d) <= delta + SLACK


@each_case
def test_noise_of_two_thirds_the_scale_breaks_the_promise(kind, epsilon: float, delta: float) -> None:
    noise = kind(epsilon, delta, 1.5)
    assert _excess(noise, 1.5, shrink=2 / 3) > 1.02 * delta + 100 * SLACK
    assert _excess(noise, 1.5 * 1.5) > 1.02 * delta + 100 * SLACK


@pytest.mark.parametrize("kind, epsilon, delta", [case for case in CASES if case[0] is not Gaussian])
def test_stated_epsilon_is_needed(kind, epsilon: float, delta: float) -> None:
    noise = kind(epsilon, delta, 1.5)
    assert _excess(noise, 1.5, epsilon=0.95 * epsilon) > delta + 100 * SLACK
    if kind is not Laplace:
        assert _excess(noise, 1.5) == pytest.approx(delta, rel=1e-3)


def test_textbook_gaussian_has_more_noise_than_needed() -> None:
    assert _excess(Gaussian(0.9, 1e-3, 1.5), 1.5) < 0.1 * 1e-3


def test_a_record_of_two_entries_by_double_quadrature() -> None:
    """Both entries change: the product densities on a grid, against the record-level value."""
    for noise in (
        Laplace(0.5, sensitivity=1.0),
        OptimalNoise(0.5, 0.05, sensitivity=1.0),
        AnalyticGaussian(0.9, 0.01, sensitivity=1.0),
    ):
        epsilon, delta = noise.guarantee(2).record
        v = np.linspace(-30, 30, 1501) + 1e-6
        cell = v[1] - v[0]
        here, there = noise.density(v) * cell, noise.density(v - 1.0) * cell
        both, both_shifted = np.outer(here, here), np.outer(there, there)
        excess = np.maximum(both - math.exp(epsilon) * both_shifted, 0).sum()
        told = 1 - (1 - noise.untouched_share) ** 2
        assert excess + told <= delta + 1e-3
        # half the loss is not enough
        smaller = np.maximum(both - math.exp(0.5 * epsilon) * both_shifted, 0).sum()
        assert smaller + told > delta + 1e-2


# --- hardened: exact sums over the integers ---------------------------------------------------------------


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid so coarse that sums are short and that forgetting the rounding would show."""
    monkeypatch.setattr(samplers, "FINENESS", 2)
    monkeypatch.setattr(samplers, "RECORD_FINENESS", 0)


def _pmf(noise) -> np.ndarray:
    """The distribution the sampler really has, from the very numbers it compares random digits with."""
    if isinstance(noise, AnalyticGaussian):
        sigma = float(noise._lattice.steps) * noise._sigma
        return literal.rounded_gaussian_pmf(sigma, math.ceil(40 * sigma))
    table = noise._table
    ones = [float(p) for p in table.digits]
    low = literal.geometric_pmf_from_digits(ones, 1 << len(ones))
    above = float(table.above)
    geometric = np.concatenate([low * (1 - above) * above**h for h in range(40)])
    zero = float(table.zero)
    return np.concatenate([(1 - zero) / 2 * geometric[::-1], [zero], (1 - zero) / 2 * geometric])


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("d", [1.0, 1.37, 0.9])
@each_case
def test_rounded_neighbours_lie_within_the_counted_steps(
    kind, epsilon: float, delta: float, d: float
) -> None:
    noise = kind(epsilon, delta, d)
    pmf = _pmf(noise)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    start = np.linspace(-3, 3, 1001)
    steps = noise._lattice.round(start + d) - noise._lattice.round(start)
    for shift in np.unique(steps):
        assert literal.excess_by_summation(pmf, epsilon, int(shift)) <= delta + 1e-12
        assert literal.excess_by_summation(pmf, epsilon, -int(shift)) <= delta + 1e-12
    assert steps.max() <= noise._lattice.steps


@pytest.mark.usefixtures("coarse")
def test_rounding_can_enlarge_a_change_and_is_counted() -> None:
    """Calibrated without the extra step, some pairs of neighbours would be told apart too well."""
    noise = Laplace(1.0, sensitivity=1.37)
    start = np.linspace(-3, 3, 1001)
    worst = (noise._lattice.round(start + 1.37) - noise._lattice.round(start)).max()
    unaware = Fraction(1.37) / Fraction(noise._lattice.step)
    assert worst > unaware
    pmf = literal.discrete_laplace_pmf(float(1 / unaware), 0.0, 2000)
    assert literal.excess_by_summation(pmf, 1.0, int(worst)) > 1e-3


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("kind", [Laplace, OptimalNoise, AnalyticGaussian])
def test_rounded_records_lie_within_the_counted_steps(kind) -> None:
    """Rows that differ by the declared size, rounded: the change in steps stays within what was paid for."""
    rng = np.random.default_rng(0)
    p, size = 5, 2.3
    noise = kind(1.0, 0.0 if kind is Laplace else 1e-3, size, unit="record", n_features=p)
    order = 1 if kind is not AnalyticGaussian else 2
    start, direction = rng.normal(size=(4000, p)), rng.normal(size=(4000, p)) * (rng.random((4000, p)) < 0.6)
    direction[:, 0] += 1e-3
    change = size * direction / np.linalg.norm(direction, ord=order, axis=1, keepdims=True) * (1 - 1e-12)
    steps = noise._lattice.round(start + change) - noise._lattice.round(start)
    largest = np.linalg.norm(steps, ord=order, axis=1).max()
    assert largest <= float(noise._lattice.steps) * (1 + 1e-12)
    assert largest > size / noise._lattice.step  # rounding does enlarge the change


@pytest.mark.parametrize("kind, epsilon, delta", CASES)
def test_the_fine_grid_costs_a_millionth(kind, epsilon: float, delta: float) -> None:
    plain, hardened = kind(epsilon, delta, 1.37, sampler="float"), kind(epsilon, delta, 1.37)
    assert 1 < hardened.scale / plain.scale < 1 + 2e-6
    assert hardened._lattice.step < 1e-6 * 1.37


def test_randomised_labels_by_their_matrix() -> None:
    for epsilon, k in ((0.1, 2), (1.0, 10), (5.0, 3)):
        labels = RandomisedLabels(epsilon, k)
        keep, switch = labels.keep_probability, labels.switch_probability
        assert keep + (k - 1) * switch == pytest.approx(1)
        assert keep / switch == pytest.approx(math.exp(epsilon), rel=1e-12)
