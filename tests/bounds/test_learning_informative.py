"""A bound above the trivial one says nothing; from how many samples on does it speak?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from onefold import bounds
from onefold.exceptions import InvalidInputError


def test_a_bound_at_the_trivial_value_is_not_informative() -> None:
    assert not bounds.is_informative(1.0)
    assert bounds.is_informative(np.nextafter(1.0, 0.0))
    assert not bounds.is_informative(0.3, trivial=0.25)
    assert bounds.is_informative([0.5, 2.0]).tolist() == [True, False]


@pytest.mark.parametrize("bad", [math.nan, -0.1])
def test_a_bound_that_is_no_bound_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInputError):
        bounds.is_informative(bad)


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_smallest_sample_against_the_closed_form(delta: float) -> None:
    expected = math.floor((3 + math.sqrt(8 * math.log(1 / delta))) ** 2) + 1
    assert bounds.smallest_informative_sample(lambda n: bounds.rkhs_risk_bound(n, delta)) == expected


def test_smallest_sample_is_informative_and_the_one_below_is_not() -> None:
    def bound(n_samples: int) -> object:
        return bounds.posterior_error_bound(n_samples, 0.05, feature_norm_squared=0.03)

    smallest = bounds.smallest_informative_sample(bound)
    assert bounds.is_informative(bound(smallest))
    assert not bounds.is_informative(bound(smallest - 1))


def test_a_bound_informative_from_the_first_sample_on() -> None:
    assert bounds.smallest_informative_sample(lambda n: 0.5 / n) == 1


def test_a_bound_that_is_never_informative_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="not informative"):
        bounds.smallest_informative_sample(lambda n: 2.0)


def test_held_out_bound_is_the_error_rate_at_which_so_few_errors_are_unlikely() -> None:
    for wrong, rows in ((0, 1), (0, 60), (8, 60), (59, 60)):
        bound = float(bounds.held_out_error_bound(wrong, rows, 0.05))
        assert binom.cdf(wrong, rows, bound) == pytest.approx(0.05, rel=1e-6)
    assert bounds.held_out_error_bound([0, 5], [0, 5]).tolist() == [1.0, 1.0]


def test_held_out_bound_fails_as_rarely_as_it_says_and_not_much_more_rarely() -> None:
    rng, rate = np.random.default_rng(0), 0.2
    wrong = rng.binomial(200, rate, 4000)
    failed = np.mean(bounds.held_out_error_bound(wrong, 200, 0.1) < rate)
    assert 0.06 < failed < 0.115


@pytest.mark.parametrize(
    "bad", [(3, 2, 0.05), (0.5, 2, 0.05), (-1, 2, 0.05), (1, 2, 0.0), (1, math.nan, 0.05)]
)
def test_held_out_bound_refuses_counts_that_are_none(bad) -> None:
    with pytest.raises(InvalidInputError):
        bounds.held_out_error_bound(*bad)
