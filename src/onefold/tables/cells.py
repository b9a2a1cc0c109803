"""Cells of a column as they stand in a file or a frame, and what they say: numbers, dates, texts."""

import math
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats, Mask, column_array
from onefold.exceptions import InvalidInputError

__all__ = ["NumberFormat", "cells_of", "moments_of", "numbers_of", "text_of", "texts_of", "without_unit"]

EPOCH = date(1970, 1, 1)
SECONDS_PER_DAY = 86_400
PLAIN = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
# A currency before a number; per cent, a currency or a unit behind it.
WITH_UNIT = re.compile(
    r"([-+]?)((?:[$€£¥]|[A-Z]{3}(?= )) ?)?([-+]?[0-9.,][0-9., ']*?)( ?(?:[%$€£¥]|[^\W\d_/]{1,8}))?"
)
# Blanks, apostrophes and minus signs as spreadsheets and web pages write them.
TYPED = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2019": "'", "\u2212": "-"})


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written in a column of texts.

    Parameters
    ----------
    decimal : str, default="."
        The decimal mark.
    group : str, default=""
        What stands between groups of digits; empty if nothing does.
    bare : bool, default=True
        Whether cells hold nothing but a number; otherwise a currency or unit around it is left out.
    """

    decimal: str = "."
    group: str = ""
    bare: bool = True

    def number(self, text: str) -> float:
        """Read a text; NaN if it is no number in this format."""
        if self.is_plain:  # as a whole column is read at once, so that no cell decides how another is read
            try:
                return float(_typed(text))
            except ValueError:
                return math.nan
        text = _typed(text)
        if not self.bare:
            text = without_unit(text)[0]
        if self.group:
            first, *others = text.split(self.decimal)[0].lstrip("+-").split(self.group)
            wrong = first == "0" or not 1 <= len(first) <= 3 or any(len(part) != 3 for part in others)
            if others and wrong:
                return math.nan
            text = text.replace(self.group, "")
        if self.decimal != ".":
            if "." in text:
                return math.nan
            text = text.replace(self.decimal, ".")
        return float(text) if PLAIN.fullmatch(text) else math.nan

    @property
    def is_plain(self) -> bool:
        """Whether this is how programs write numbers."""
        return self.decimal == "." and not self.group and self.bare


PLAIN_NUMBERS = NumberFormat()


def _typed(text: str) -> str:
    """The text with signs as programs write them; accountants put a negative number in brackets."""
    text = text.translate(TYPED)
    return f"-{text[1:-1]}" if text.startswith("(") and text.endswith(")") else text


def without_unit(text: str) -> tuple[str, str]:
    """Return the number in a text, and the currency or unit around it.

    Parameters
    ----------
    text : str
        Such as "$5" or "36 months".

    Returns
    -------
    number : str
        What may be a number; the whole text if there is no unit.
    unit : str
        The currency or unit.
    """
    found = WITH_UNIT.fullmatch(_typed(text))
    if found is None:
        return text, ""
    sign, before, number, behind = found.groups()
    return sign + number, f"{(before or '').strip()}{(behind or '').strip()}"


def cells_of(column: Any, missing_values: Collection[str] = ()) -> tuple[AnyArray, Mask]:
    """Return the cells of a column and which of them are missing.

    Parameters
    ----------
    column : array-like of shape (n_rows,)
        A NumPy array, a list, or a column of pandas or polars.
    missing_values : collection of str, default=()
        Texts that stand for a missing cell.

    Returns
    -------
    values : ndarray of shape (n_rows,)
        The cells: numbers, truth values, dates, or objects (texts are always objects).
    missing : ndarray of bool of shape (n_rows,)
        Whether a cell is missing.
    """
    hidden: Any = None
    if isinstance(column, np.ma.MaskedArray):
        hidden, column = np.ma.getmaskarray(column), column.data
    elif hasattr(column, "isna"):
        with suppress(ArithmeticError):  # NaN of a decimal number that signals: cells are looked at below
            hidden = np.asarray(column.isna(), dtype=np.bool_)
    elif hasattr(column, "is_null"):
        hidden = np.asarray(column.is_null(), dtype=np.bool_)
    values = _plain_array(column)
    if values.ndim != 1:
        raise InvalidInputError("a column of a table must have one cell for each row")
    if values.dtype.kind == "m":  # a length of time, in seconds
        values = values / np.timedelta64(1, "s")
    kind = values.dtype.kind
    if kind in "USTV":
        values = np.array([_decoded(cell) for cell in values.tolist()], dtype=object)
    elif kind not in "biufMO":
        raise InvalidInputError("the cells are neither numbers, nor dates, nor text")
    missing: Mask = np.zeros(len(values), dtype=np.bool_) if hidden is None else hidden.copy()
    if values.dtype.kind in "fM":
        missing |= np.isnan(values) if values.dtype.kind == "f" else np.isnat(values)
    elif values.dtype.kind == "O":
        tokens = frozenset(missing_values) | {""}
        try:
            missing |= _missing_among(values.tolist(), tokens)
        except TypeError:  # a list or another cell that is in no set: its text counts, and no other's
            values = _objects([_in_a_set(cell) for cell in values])
            missing |= _missing_among(values.tolist(), tokens)
    return values, missing


def _in_a_set(cell: Any) -> Any:
    """The cell, or its text if it cannot be a member of a set."""
    try:
        hash(cell)
    except TypeError:
        return text_of(cell)
    return cell


def _plain_array(column: Any) -> AnyArray:
    if hasattr(column, "to_numpy"):
        return column_array(column)
    if isinstance(column, np.ndarray):
        return column
    # Of texts and numbers NumPy would make texts, of truth values and numbers numbers, and of whole numbers
    # beside others rounded ones: each cell speaks for itself.
    cells = list(column)
    kinds = set(map(type, cells))
    if kinds in ({bool}, {int}, {float}):
        found = np.array(cells)
        if kinds != {int} or found.dtype.kind == "i":  # and not too long for 64 bits
            return found
    return _objects(cells)


def _objects(cells: list[Any]) -> AnyArray:
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def _decoded(cell: Any) -> Any:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell


def _missing_among(cells: list[Any], tokens: frozenset[str]) -> Mask:
    """Which cells are missing; equal ones are looked at once."""
    absent = {cell for cell in set(cells) if _is_missing(cell, tokens)}
    if not absent:
        return np.zeros(len(cells), dtype=np.bool_)
    return np.fromiter((cell in absent for cell in cells), np.bool_, len(cells))


def _is_missing(cell: Any, tokens: frozenset[str]) -> bool:
    if isinstance(cell, str):
        return cell in tokens or cell.strip() in tokens
    if cell is None:
        return True
    try:
        equal = cell == cell  # neither NaN nor a missing value of pandas equals itself
    except ArithmeticError:  # NaN of a decimal number that signals
        return True
    return not isinstance(equal, (bool, np.bool_)) or not equal


def text_of(cell: Any) -> str:
    """Return a cell as text; a whole number reads the same from a column of any type."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        return str(int(cell))
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").strip()
    try:
        return str(cell)
    except ValueError:  # a number of thousands of digits: no category
        return ""


def texts_of(values: AnyArray) -> Iterable[str]:
    """Return the cells as texts, one by one."""
    return (text_of(cell) for cell in values.tolist())


def numbers_of(values: AnyArray, missing: Mask, written: NumberFormat) -> Floats:
    """Return cells as numbers: NaN where a cell is missing or says no number.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        The cells.
    missing : ndarray of bool of shape (n_rows,)
        Which cells are missing.
    written : NumberFormat
        How numbers are written in texts.

    Returns
    -------
    ndarray of shape (n_rows,)
        The numbers.
    """
    if values.dtype.kind in "biuf":
        return np.where(missing, np.nan, values.astype(np.float64))
    found = np.full(len(values), np.nan)
    if values.dtype.kind == "M":
        return found  # a date is no number
    present = values[~missing]
    # Of other cells, such as dates, NumPy makes numbers in ways that depend on their neighbours.
    if written.is_plain and {str, float, int, bool}.issuperset(map(type, present.tolist())):
        try:
            found[~missing] = present.astype(np.float64)
        except (ValueError, ArithmeticError):
            pass  # some cell is no number: one by one
        else:
            return found
    found[~missing] = [_number(cell, written) for cell in present.tolist()]
    return found


def _number(cell: Any, written: NumberFormat) -> float:
    if isinstance(cell, str):
        return written.number(cell.strip())
    try:
        return float(cell)
    except OverflowError:  # as a text of so many digits reads
        return math.inf if cell > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def moments_of(values: AnyArray, missing: Mask, pattern: str, *, days: bool) -> Floats:
    """Return cells as days or seconds since 1970: NaN where a cell is missing or says no date.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        The cells.
    missing : ndarray of bool of shape (n_rows,)
        Which cells are missing.
    pattern : str
        How dates are written in texts: "default" for ISO 8601, or a pattern of ``strptime``.
    days : bool
        Count days instead of seconds.

    Returns
    -------
    ndarray of shape (n_rows,)
        Days or seconds.
    """
    found = np.full(len(values), np.nan)
    present = values[~missing]
    if values.dtype.kind == "M":
        unit = "D" if days else "s"
        found[~missing] = present.astype(f"datetime64[{unit}]").astype(np.int64)
    elif values.dtype.kind == "O":
        read = moment_reader(pattern, days=days)
        known: dict[Any, float] = {}
        for place, cell in zip(np.flatnonzero(~missing), present.tolist(), strict=True):
            if not isinstance(cell, (str, date)):
                continue  # no date, and perhaps nothing that a dict can hold
            if cell not in known:
                known[cell] = read(cell)
            found[place] = known[cell]
    return found


def moment_reader(pattern: str, *, days: bool) -> Callable[[Any], float]:
    """Return the function that reads one date; it returns NaN for what is none."""

    def read(cell: Any) -> float:
        if isinstance(cell, str):
            try:
                cell = _from_text(cell.strip(), pattern)
            except (ValueError, re.error):  # the latter is about the pattern: see declarations
                return math.nan
        if isinstance(cell, datetime):
            if days:
                return float((cell.date() - EPOCH).days)
            return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp()
        if isinstance(cell, date):
            return float((cell - EPOCH).days * (1 if days else SECONDS_PER_DAY))
        return math.nan

    return read


def _from_text(text: str, pattern: str) -> datetime:
    if pattern != "default":
        return datetime.strptime(text, pattern)
    if text[4:5] != "-":  # not a week, and not a number of eight digits
        raise ValueError("not a date")
    return datetime.fromisoformat(text)
