"""Class labels as a file holds them: whole numbers or text, the same from every format."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.cli.tables import Table
from onefold.exceptions import InvalidInputError

Array = NDArray[Any]

# Leading zeros mean a code ("007"), not a number. 18 digits always fit 64 bits.
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0*)?")
DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][-+]?[0-9]+)?")


def labels_of(table: Table, name: str) -> Array:
    """Column ``name`` of a table as class labels: ``int64`` or text, no missing values.

    Text that spells whole numbers becomes numbers: a model fitted on a CSV file understands an NPZ file.
    """
    column = table.kept[name]
    kind = column.dtype.kind
    if kind in "US":
        return _from_text(table, name, column.astype(str))
    if kind == "b":
        return column.astype(str)
    if kind in "iu":
        return column.astype(np.int64)
    if kind == "f":
        return _from_floats(table, name, column)
    raise InvalidInputError(f"{table.path}: label column {name!r} holds neither numbers nor text")


def require_two_classes(table: Table, name: str, labels: Array) -> None:
    """Refuse a label column with a single class."""
    if np.unique(labels).size < 2:
        raise InvalidInputError(
            f"{table.path}: label column {name!r} has one class only, at least two are needed"
        )


def identifiers_of(table: Table, name: str) -> Array:
    """Column ``name`` of a table as it stands: text, or ``int64`` when all entries are whole numbers."""
    column = table.kept[name]
    if column.dtype.kind in "US":
        column = column.astype(str)
        if all(WHOLE.fullmatch(text) and "." not in text for text in column):
            return column.astype(np.int64)
    return column


def agreement(predicted: Array, labels: Array) -> float:
    """Share of rows predicted right; labels of another type are compared as text."""
    if predicted.dtype.kind != labels.dtype.kind:
        predicted, labels = predicted.astype(str), labels.astype(str)
    return float(np.mean(predicted == labels))


def _from_text(table: Table, name: str, column: Array) -> Array:
    distinct, inverse = np.unique(column, return_inverse=True)
    missing = np.isin(np.char.lower(np.char.strip(distinct)), ["", "nan"])
    if missing.any():
        raise _missing(table, name, missing[inverse])
    if all(WHOLE.fullmatch(text) for text in distinct):
        return np.array([int(text.partition(".")[0]) for text in distinct], dtype=np.int64)[inverse]
    if all(DECIMAL.fullmatch(text) for text in distinct) and any("." in text for text in distinct):
        raise _continuous(table, name)
    return column


def _from_floats(table: Table, name: str, column: Array) -> Array:
    if np.isnan(column).any():
        raise _missing(table, name, np.isnan(column))
    if not np.all(np.isfinite(column) & (column == np.round(column)) & (np.abs(column) < 2**53)):
        raise _continuous(table, name)
    return column.astype(np.int64)


def _missing(table: Table, name: str, mask: Array) -> InvalidInputError:
    row = int(np.argmax(mask)) + 1
    return InvalidInputError(f"{table.path}: label column {name!r} has a missing value in row {row}")


def _continuous(table: Table, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{table.path}: label column {name!r} holds fractions; classes must be text or whole numbers"
    )
