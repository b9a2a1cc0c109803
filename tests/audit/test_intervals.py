"""Exact limits: against scipy's binomial distribution, and by counting how often they fail."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from onefold.audit import clopper_pearson
from onefold.audit.intervals import epsilon_from_guesses, epsilon_from_rates, guessing_p_value
from onefold.exceptions import InvalidInputError


@pytest.mark.parametrize("k, n", [(0, 1), (1, 1), (0, 50), (3, 50), (50, 50), (499, 1000), (7, 100000)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_clopper_pearson_matches_scipy(k: int, n: int, confidence: float) -> None:
    expected = binomtest(k, n).proportion_ci(confidence, method="exact")
    assert clopper_pearson(k, n, confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_clopper_pearson_covers_as_often_as_its_confidence_says() -> None:
    rng = np.random.default_rng(0)
    for p in (0.01, 0.3):
        limits = [clopper_pearson(int(k), 80, 0.9) for k in rng.binomial(80, p, 1500)]
        inside = [low <= p <= high for low, high in limits]
        assert np.mean(inside) > 0.9 - 3 * np.sqrt(0.09 / 1500)


def test_epsilon_from_rates_inverts_the_inequality() -> None:
    assert epsilon_from_rates(0.5, 0.5 * np.exp(-2.0), 0.0) == pytest.approx(2.0)
    assert epsilon_from_rates(0.5 + 0.01, 0.5 * np.exp(-2.0), 0.01) == pytest.approx(2.0)
    assert epsilon_from_rates(0.1, 0.5, 0.0) == 0.0
    assert epsilon_from_rates(0.001, 0.5, 0.01) == 0.0


@pytest.mark.parametrize("r, v", [(1, 1), (10, 0), (10, 7), (10, 10), (400, 300)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_p_value_without_delta_is_the_binomial_tail(r: int, v: int, epsilon: float) -> None:
    q = np.exp(epsilon) / (1 + np.exp(epsilon))
    assert guessing_p_value(500, r, v, epsilon, 0.0) == pytest.approx(binom.sf(v - 1, r, q), rel=1e-9)


@pytest.mark.parametrize("m, r, v, epsilon", [(20, 10, 8, 0.5), (1000, 200, 180, 1.0), (50, 50, 50, 2.0)])
def test_p_value_adds_the_term_of_delta(m: int, r: int, v: int, epsilon: float) -> None:
    delta, q = 1e-3, 1 / (1 + np.exp(-epsilon))
    masses = [binom.pmf(v - j, r, q) for j in range(1, m + 1)]
    steepest = max(sum(masses[:i]) / i for i in range(1, m + 1))
    expected = min(1.0, binom.sf(v - 1, r, q) + 2 * m * delta * steepest)
    assert guessing_p_value(m, r, v, epsilon, delta) == pytest.approx(expected, rel=1e-9)
    assert expected > binom.sf(v - 1, r, q)


def test_epsilon_from_guesses_is_where_the_p_value_crosses() -> None:
    bound = epsilon_from_guesses(1000, 200, 180, 1e-5, 0.95)
    assert guessing_p_value(1000, 200, 180, bound - 1e-6, 1e-5) < 0.05
    assert guessing_p_value(1000, 200, 180, bound + 1e-6, 1e-5) > 0.05
    assert 0 < epsilon_from_guesses(1000, 200, 180, 1e-3, 0.95) < bound  # more delta, weaker bound
    assert epsilon_from_guesses(1000, 200, 180, 1e-5, 0.999) < bound
    assert epsilon_from_guesses(1000, 200, 100, 0.0) == 0.0
    assert epsilon_from_guesses(10, 10, 10, 0.5) == 0.0  # with such a delta everything is allowed


def test_epsilon_from_guesses_fails_as_seldom_as_its_confidence_says() -> None:
    # Exact randomised response, all coins guessed: the hardest case for the bound.
    epsilon, r = 1.0, 300
    right = np.random.default_rng(1).binomial(r, 1 / (1 + np.exp(-epsilon)), size=1500)
    bounds = {int(v): epsilon_from_guesses(r, r, int(v), 0.0, 0.9) for v in np.unique(right)}
    failed = np.mean([bounds[int(v)] > epsilon for v in right])
    assert failed < 0.1 + 3 * np.sqrt(0.09 / 1500)
    assert failed > 0.05  # and it is not needlessly weak
    assert np.median([bounds[int(v)] for v in right]) > 0.75


@pytest.mark.parametrize("counts", [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(counts: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError):
        clopper_pearson(*counts)
    with pytest.raises(InvalidInputError):
        epsilon_from_guesses(100, counts[1], counts[0], 0.0)


@pytest.mark.parametrize("confidence", [0.0, 1.0, float("nan"), "0.9"])
def test_confidence_outside_0_and_1_is_refused(confidence: object) -> None:
    with pytest.raises(InvalidInputError, match="confidence"):
        clopper_pearson(1, 2, confidence)  # type: ignore[arg-type]
