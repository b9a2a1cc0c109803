"""When does a bound say anything? Squared errors between numbers of [0, 1] never exceed 1 anyway."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.bounds._arguments import non_negative, positive
from onefold.exceptions import InvalidInputError

_LARGEST_SAMPLE = 2**62


def is_informative(bound: ArrayLike, trivial: float = 1.0) -> np.bool_ | NDArray[np.bool_]:
    """Whether a bound is below what is known without it.

    Parameters
    ----------
    bound : value or values of a bound.
    trivial : the value the bounded quantity cannot exceed anyway; 1 for squared errors in [0, 1].

    Examples
    --------
    >>> from onefold.bounds import rkhs_risk_bound
    >>> is_informative(rkhs_risk_bound([60, 70], delta=0.05)).tolist()
    [False, True]
    """
    return non_negative("bound", bound) < positive("trivial", trivial)


def smallest_informative_sample(bound: Callable[[int], object], trivial: float = 1.0) -> int:
    """The smallest number of samples from which on a decreasing bound is informative.

    Parameters
    ----------
    bound : function of the number of samples N, not increasing in N.
    trivial : see :func:`is_informative`.

    Examples
    --------
    Document 004's Theorem 1 at 95 % says nothing below 63 samples; Theorem 4 for a class holding a tenth of
    the data carries the square of that tenth in its denominator:

    >>> from onefold.bounds import posterior_error_bound, rkhs_risk_bound
    >>> smallest_informative_sample(lambda n: rkhs_risk_bound(n, delta=0.05))
    63
    >>> smallest_informative_sample(lambda n: posterior_error_bound(n, delta=0.05, feature_norm_squared=0.1))
    623389
    """

    def informative(n_samples: int) -> bool:
        return bool(is_informative(bound(n_samples), trivial))  # type: ignore[arg-type]

    high = 1
    while not informative(high):
        high *= 2
        if high > _LARGEST_SAMPLE:
            raise InvalidInputError("the bound is not informative for any number of samples up to 2**62")
    low = high // 2  # not informative (or 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if informative(middle) else (middle, high)
    return high
