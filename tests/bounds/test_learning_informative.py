"""A bound above the trivial one says nothing; from how many samples on does it speak?"""

from __future__ import annotations

import math

import numpy as np
import pytest

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
