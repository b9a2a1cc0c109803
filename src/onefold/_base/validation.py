"""Checks of parameters and of queries, each failing with one clear line."""

import numbers
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from onefold._base.arrays import Array
from onefold.exceptions import InvalidInputError

__all__ = ["check_rows", "check_whole_number", "in_precision"]


# float32 stays float32; everything else becomes float64.
FLOATS = (np.float64, np.float32)


def check_whole_number(name: str, value: Any, at_least: int = 1, or_none: bool = False) -> None:
    """Refuse a parameter that is not a whole number of at least ``at_least``."""
    if or_none and value is None:
        return
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or value < at_least:
        raise InvalidInputError(f"{name} must be a whole number of at least {at_least}{' or None' * or_none}")


def check_rows(
    estimator: Any, X: Any, y: Any = "no_validation", reset: bool = True, numeric_outputs: bool = False
) -> Any:
    """Rows of ``X``, and labels with ``y``: scikit-learn's checks, with one line and no data in errors.

    With ``numeric_outputs`` there may be several numbers per row in ``y`` instead of a label.
    """
    outputs = {"multi_output": True, "y_numeric": True} if numeric_outputs else {}
    try:
        return validate_data(estimator, X, y, reset=reset, dtype=list(FLOATS), **outputs)
    except ValueError as error:
        message = str(error)
        if "Reshape your data" in message:  # the original prints the array
            raise InvalidInputError(
                "expected a 2D table of rows. Reshape your data: X.reshape(1, -1) is a single row"
            ) from None
        if "could not convert" in message:  # the original quotes the cell
            raise InvalidInputError("X holds text where numbers are needed") from None
        raise InvalidInputError(message.splitlines()[0]) from None


def in_precision(rows: Array, dtype: np.dtype) -> Array:
    """Rows in another precision; what is beyond its range becomes its largest number."""
    if rows.dtype != dtype:
        largest = np.finfo(dtype).max
        rows = np.clip(rows, -largest, largest).astype(dtype)
    return np.ascontiguousarray(rows)
