"""Checks of the arguments of a bound: arrays or scalars in, float64 out, one clear line when out of range."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Mask
from onefold.exceptions import InvalidInputError

FloatOrArray = np.float64 | Floats


def _as_floats(name: str, value: ArrayLike) -> Floats:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be a number or an array of numbers") from None
    return numbers


def _require(condition: Mask, message: str) -> None:
    # Every comparison with NaN is false, so a NaN never passes.
    if not np.all(condition):
        raise InvalidInputError(message)


def positive(name: str, value: ArrayLike) -> Floats:
    """Finite numbers above zero."""
    numbers = _as_floats(name, value)
    _require((numbers > 0) & (numbers < np.inf), f"{name} must be positive and finite")
    return numbers


def non_negative(name: str, value: ArrayLike) -> Floats:
    """Finite numbers, zero allowed."""
    numbers = _as_floats(name, value)
    _require((numbers >= 0) & (numbers < np.inf), f"{name} must be non-negative and finite")
    return numbers


def count(name: str, value: ArrayLike) -> Floats:
    """Whole numbers from one on, as float64 so that squares cannot overflow."""
    numbers = positive(name, value)
    _require((numbers >= 1) & (numbers == np.floor(numbers)), f"{name} must be a whole number of at least 1")
    return numbers


def confidence(name: str, value: ArrayLike) -> Floats:
    """Failure probabilities, strictly between 0 and 1."""
    numbers = _as_floats(name, value)
    _require((numbers > 0) & (numbers < 1), f"{name} must lie strictly between 0 and 1")
    return numbers


def fraction(name: str, value: ArrayLike) -> Floats:
    """Shares of a whole: above 0, at most 1."""
    numbers = _as_floats(name, value)
    _require((numbers > 0) & (numbers <= 1), f"{name} must lie in (0, 1]")
    return numbers


def squared_error(name: str, value: ArrayLike) -> Floats:
    """Mean squared errors between numbers of [0, 1]: they lie in [0, 1] themselves."""
    numbers = _as_floats(name, value)
    _require((numbers >= 0) & (numbers <= 1), f"{name} must lie in [0, 1]")
    return numbers
