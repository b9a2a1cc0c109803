"""Checks of the arguments of a bound: arrays or scalars in, float64 out, one clear line when out of range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Mask
from onefold.exceptions import InvalidInputError

FloatOrArray = np.float64 | Floats


def _checked(name: str, value: ArrayLike, fits: Callable[[Floats], Mask], rule: str) -> Floats:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be a number or an array of numbers") from None
    # Every comparison with NaN is false, so a NaN never passes.
    if not np.all(fits(numbers)):
        raise InvalidInputError(f"{name} must {rule}")
    return numbers


def positive(name: str, value: ArrayLike) -> Floats:
    """Finite numbers above zero."""
    return _checked(name, value, lambda x: (x > 0) & (x < np.inf), "be positive and finite")


def non_negative(name: str, value: ArrayLike) -> Floats:
    """Finite numbers, zero allowed."""
    return _checked(name, value, lambda x: (x >= 0) & (x < np.inf), "be non-negative and finite")


def count(name: str, value: ArrayLike) -> Floats:
    """Whole numbers from one on, as float64 so that squares cannot overflow."""
    numbers = positive(name, value)
    rule = "be a whole number of at least 1"
    return _checked(name, numbers, lambda x: (x >= 1) & (x == np.floor(x)), rule)


def confidence(name: str, value: ArrayLike) -> Floats:
    """Failure probabilities, strictly between 0 and 1."""
    return _checked(name, value, lambda x: (x > 0) & (x < 1), "lie strictly between 0 and 1")


def fraction(name: str, value: ArrayLike) -> Floats:
    """Shares of a whole: above 0, at most 1."""
    return _checked(name, value, lambda x: (x > 0) & (x <= 1), "lie in (0, 1]")


def squared_error(name: str, value: ArrayLike) -> Floats:
    """Mean squared errors between numbers of [0, 1]: they lie in [0, 1] themselves."""
    return _checked(name, value, lambda x: (x >= 0) & (x <= 1), "lie in [0, 1]")
