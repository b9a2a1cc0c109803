"""Checks of what an audit is given: finite numbers, enough of them, proper probabilities."""

import numbers

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError

__all__ = ["Floats", "check_delta", "check_share", "generator", "numbers_1d", "sample_rows"]

Floats = NDArray[np.float64]


def sample_rows(name: str, values: ArrayLike, at_least: int = 1) -> Floats:
    """Samples as rows, (n, d); a 1-D array is taken as n samples of one number each."""
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be an array of numbers") from None
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InvalidInputError(f"{name} must be a 1-D or 2-D array of samples")
    if len(rows) < at_least:
        raise InvalidInputError(f"{name} must hold at least {at_least} samples")
    if not np.isfinite(rows).all():
        raise InvalidInputError(f"{name} holds values that are not finite")
    return rows


def numbers_1d(name: str, values: ArrayLike, at_least: int = 1) -> Floats:
    """A flat array of finite numbers."""
    rows = sample_rows(name, values, at_least)
    if rows.shape[1] != 1:
        raise InvalidInputError(f"{name} must be a 1-D array of numbers")
    return rows[:, 0]


def check_share(name: str, value: float) -> float:
    """A probability strictly between 0 and 1."""
    if not (isinstance(value, (int, float, np.number)) and 0 < value < 1):
        raise InvalidInputError(f"{name} must lie strictly between 0 and 1")
    return float(value)


def check_delta(value: float) -> float:
    """The delta of a guarantee: 0 or more, below 1."""
    if not (isinstance(value, (int, float, np.number)) and 0 <= value < 1):
        raise InvalidInputError("delta must be at least 0 and below 1")
    return float(value)


def generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """A generator of one's own: None asks the operating system for a seed."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, (bool, np.bool_))
    if not (random_state is None or (whole and random_state >= 0)):
        raise InvalidInputError("random_state must be None, a whole number from 0 on or a numpy Generator")
    return np.random.default_rng(random_state)
