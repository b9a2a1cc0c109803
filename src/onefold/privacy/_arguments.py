"""Checks of privacy parameters: finite numbers in range, or one clear line."""

import math
import numbers
from typing import Any

import numpy as np

from onefold.exceptions import InvalidInputError

__all__ = ["check_delta", "check_epsilon", "check_unit", "positive"]

UNITS = ("entry", "record")


def _number(name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InvalidInputError(f"{name} must be a number")
    try:
        return float(value)
    except OverflowError:
        raise InvalidInputError(f"{name} must be finite") from None


def positive(name: str, value: Any) -> float:
    """A finite number above zero; comparisons with NaN are false, so it does not pass."""
    number = _number(name, value)
    if not (number > 0 and math.isfinite(number)):
        raise InvalidInputError(f"{name} must be positive and finite")
    return number


def check_epsilon(value: Any) -> float:
    """A usable privacy loss."""
    epsilon = positive("epsilon", value)
    if epsilon > 1e6 or epsilon < 1e-12:
        raise InvalidInputError("epsilon must lie between 1e-12 and 1e6")
    return epsilon


def check_delta(value: Any, zero: bool = False) -> float:
    """A failure probability strictly between 0 and 1, or 0 where that is meant."""
    delta = _number("delta", value)
    if not (0 < delta < 1 or (zero and delta == 0)):
        raise InvalidInputError(f"delta must lie strictly between 0 and 1{' or be 0' * zero}")
    return delta


def check_unit(unit: Any) -> str:
    """What the guarantee is about."""
    if unit not in UNITS:
        raise InvalidInputError("unit must be 'entry' or 'record'")
    return str(unit)
