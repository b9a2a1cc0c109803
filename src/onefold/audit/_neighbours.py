"""Datasets an audit compares: arrays of numbers that differ as the unit of the claim allows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Index
from onefold.audit._samples import Floats
from onefold.exceptions import InvalidInputError

__all__ = ["canary_numbers", "check_neighbours", "dataset", "release_of", "unit_of"]

UNITS = ("entry", "record", "unchecked")


def dataset(name: str, values: ArrayLike) -> Floats:
    """A copy of finite numbers of any shape."""
    try:
        data = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be an array of numbers") from None
    if data.size == 0 or not np.isfinite(data).all():
        raise InvalidInputError(f"{name} must hold finite numbers")
    return data


def release_of(mechanism: Any) -> Callable[[Any, np.random.Generator], Any]:
    """The function ``release(X, random_state)`` to be audited."""
    # A fabricator can do both: what it publishes is the first.
    method = getattr(mechanism, "fabricate", None) or getattr(mechanism, "randomise", None)
    if callable(method):
        return lambda data, rng: method(data, random_state=rng)
    if not callable(mechanism):
        raise InvalidInputError(
            "mechanism must have fabricate or randomise, or be a function release(X, random_state)"
        )
    function: Callable[[Any, np.random.Generator], Any] = mechanism
    return function


def unit_of(mechanism: Any, unit: str | None) -> str:
    """The unit asked for, else the mechanism's own, else one entry."""
    chosen = unit or getattr(_noise_of(mechanism), "unit", None) or "entry"
    if chosen not in UNITS:
        raise InvalidInputError(f"unit must be one of {', '.join(UNITS)}")
    return str(chosen)


def _noise_of(mechanism: Any) -> Any:
    """What declares unit and sensitivity: the mechanism, or the one inside a fabricator."""
    return getattr(mechanism, "mechanism", mechanism)


def check_neighbours(mechanism: Any, first: Floats, second: Floats, unit: str) -> None:
    """Refuse two datasets the claim says nothing about."""
    if first.shape != second.shape:
        raise InvalidInputError("x and x_prime must have the same shape")
    if unit == "unchecked":
        return
    change = second - first
    rows = change.reshape(len(change) if change.ndim else 1, -1)
    if np.count_nonzero(rows.any(axis=1)) != 1:
        raise InvalidInputError("x and x_prime must differ in exactly one row; unit='unchecked' lifts this")
    if unit == "entry" and np.count_nonzero(change) != 1:
        raise InvalidInputError("x and x_prime must differ in exactly one entry; unit='record' allows a row")
    _check_size(mechanism, change, unit)


def canary_numbers(mechanism: Any, first: Floats, second: Floats, unit: str) -> tuple[Index, int]:
    """For each entry the number of the canary it belongs to (-1: none), and how many canaries there are."""
    if first.shape != second.shape or first.ndim != 2:
        raise InvalidInputError("x and x_prime must be 2-D and of the same shape")
    if unit == "unchecked":
        raise InvalidInputError("unit must be entry or record here")
    change = second - first
    if not change.any():
        raise InvalidInputError("x and x_prime are equal: there is no canary")
    _check_size(mechanism, change, unit)
    changed = change != 0
    if unit == "record":
        changed = np.broadcast_to(changed.any(axis=1, keepdims=True), change.shape)
        numbers = np.cumsum(changed[:, 0])[:, None] - 1
    else:
        numbers = np.cumsum(changed).reshape(change.shape) - 1
    return np.where(changed, numbers, -1), int(numbers.max()) + 1


def _check_size(mechanism: Any, change: Floats, unit: str) -> None:
    # How a record's sensitivity is measured (L1 or L2) is the mechanism's affair: only entries are compared.
    allowed: Any = getattr(_noise_of(mechanism), "sensitivity", None)
    known = unit == "entry" and isinstance(allowed, (int, float))
    if known and np.abs(change).max() > allowed * (1 + 1e-9):
        raise InvalidInputError("x and x_prime differ by more than the sensitivity of the mechanism")
