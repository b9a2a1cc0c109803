"""Cells of a column as they stand in a file or a frame, and what they say: numbers, dates, texts."""

import math
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold._base.arrays import AnyArray, Floats, Mask, column_array, rounds_whole
from onefold.exceptions import InvalidInputError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS_PER_DAY = 86_400
PLAIN = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
LOOKS_LIKE_A_NUMBER = re.compile(r"[-+]?[.,]?[0-9][0-9.,]*([eE][-+]?[0-9]+)?")
# What a spreadsheet takes for the beginning of a formula, behind apostrophes or not.
FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")
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
        text = _typed(text)
        if self.is_plain:  # as a whole column is read at once, so that no cell decides how another is read
            try:
                return float(text)
            except ValueError:
                return math.nan
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


def guarded(text: str) -> str:
    """Return a text as it is written to a text file: a spreadsheet must not take it for a formula.

    Parameters
    ----------
    text : str
        A cell or the name of a column.

    Returns
    -------
    str
        The text, behind an apostrophe if it begins like a formula and is no number.
    """
    return f"'{text}" if FORMULA.match(text) and not LOOKS_LIKE_A_NUMBER.fullmatch(text) else text


def unguarded(text: str) -> str:
    """Return a text of a text file without the apostrophe that keeps it from being a formula.

    Parameters
    ----------
    text : str
        What :func:`guarded` returned, or a text of any other file.

    Returns
    -------
    str
        The text, without blanks around it.
    """
    return text[1:].strip() if text.startswith("'") and FORMULA.match(text) else text


# --- columns of texts that Arrow holds ---------------------------------------------------------------------

FIRST_DAY = date.min.toordinal() - EPOCH.toordinal()
SIMPLE_NUMBER = "^-?[0-9]{1,15}([.][0-9]{0,15})?$"


def is_texts(column: Any) -> bool:
    """Whether Arrow holds the column, and its cells are texts."""
    kind = column.type if isinstance(column, (pa.Array, pa.ChunkedArray)) else pa.null()
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def plain_column(column: Any) -> Any:
    """Return a column that Arrow holds as one of NumPy; any other column as it is.

    A missing value is None among texts and NaN among numbers.
    """
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_texts(column):
        return objects_of(column)
    if types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if types.is_nested(column.type) or types.is_binary(column.type) or types.is_large_binary(column.type):
        raise InvalidInputError("the cells are neither numbers, nor dates, nor text")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    values = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in chunks or [pa.array([])]])
    if types.is_integer(column.type) and rounds_whole(values):
        values = np.fromiter(column.to_pylist(), dtype=object, count=len(column))
    return values


def stripped(column: pa.Array) -> pa.Array:
    """Return texts without the blanks around them."""
    signs = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    blank = (signs - np.uint8(33) > 94).any()  # a sign that is no letter, digit or mark of ASCII
    return pc.utf8_trim_whitespace(column) if blank else column


def without_guards(column: pa.Array) -> pa.Array:
    """Return texts of a text file, of which :func:`unguarded` takes an apostrophe off; none has blanks."""
    marked = pc.starts_with(column, "'")
    if not pc.any(marked).as_py():
        return column
    texts = [unguarded(text).strip() for text in column.filter(marked).to_pylist()]
    return pc.replace_with_mask(column, marked, pa.array(texts, column.type))


def objects_of(column: pa.Array | pa.ChunkedArray) -> AnyArray:
    """Return texts as Python's, different ones once each, and None where a text is missing."""
    encoded = column.dictionary_encode("encode")
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    texts = np.array([None] if not chunks else chunks[-1].dictionary.to_pylist(), dtype=object)
    return texts[np.concatenate([np.empty(0, np.intp), *(chunk.indices for chunk in chunks)]).astype(np.intp)]


def plain_values(column: pa.Array, tokens: Collection[str], *, days: bool) -> tuple[Floats, Mask] | None:
    """Return what texts without blanks around them say that are written as programs write numbers or days.

    Parameters
    ----------
    column : Array of strings
        The cells.
    tokens : collection of str
        Texts that stand for a missing cell.
    days : bool
        Read dates such as 2026-12-31 as days since 1970 instead of numbers.

    Returns
    -------
    tuple of ndarray or None
        Numbers with NaN where a cell is missing or says no number, and whether it is missing. None if some
        text is no date, so that they must be read one by one.
    """
    absent = pc.is_in(column, value_set=pa.array({*map(str.strip, tokens), "", None}, column.type))
    present = pc.if_else(absent, None, column)
    missing = absent.to_numpy(zero_copy_only=False)
    try:
        read = present.cast(pa.date32()).cast(pa.int32()) if days else present
        values = read.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return np.where(values < FIRST_DAY, np.nan, values) if days else values, missing  # no year is 0
    except pa.ArrowInvalid:
        if days:
            return None
    simple = pc.match_substring_regex(present, SIMPLE_NUMBER)
    values = pc.if_else(simple, present, None).cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
    others = pc.invert(pc.fill_null(simple, True))
    texts = column.filter(others).to_pylist()
    values[others.to_numpy(zero_copy_only=False)] = [PLAIN_NUMBERS.number(text) for text in texts]
    return values, missing


def column_from(cells: list[Any]) -> Any:
    """Return values that Python holds as a column: an array where all are of one kind, otherwise objects."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    if len(kinds) == 1 and kinds <= {int, float, bool, str}:
        with suppress(pa.ArrowException, ValueError, OverflowError):  # long whole numbers, half characters
            return stripped(pa.array(cells)) if kinds == {str} else plain_column(pa.array(cells))
    return np.fromiter(cells, dtype=object, count=len(cells))


# --- columns of any kind -----------------------------------------------------------------------------------


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
    column = plain_column(column)
    hidden = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else False
    values = column_array(np.ma.getdata(column) if isinstance(column, np.ma.MaskedArray) else column)
    if values.ndim != 1:
        raise InvalidInputError("a column of a table must have one cell for each row")
    kind = values.dtype.kind
    if kind == "m":
        values = _seconds(values)
    elif kind == "M" and values.dtype.str[-3:-1] in FINER:  # Python has no smaller unit
        values = values.astype("datetime64[us]")
    elif kind in "USTVO":
        values, missing = _plain_cells(values.tolist(), frozenset(map(str.strip, missing_values)) | {""})
        return values, missing | hidden
    elif kind not in "biufM":
        raise InvalidInputError("the cells are neither numbers, nor dates, nor text")
    return values, missing_in(values) | hidden


FINER = ("ns", "ps", "fs", "as")


def _plain_cells(cells: list[Any], tokens: frozenset[str]) -> tuple[AnyArray, Mask]:
    """Cells as plain Python values, texts without the blanks around them, and which of them are missing."""
    kinds = set(map(type, cells))
    if kinds <= {str, type(None)}:
        plain = list(map(str.strip, cells)) if kinds == {str} else [cell and cell.strip() for cell in cells]
        absent: frozenset[str | None] = tokens | {None}
        missing = np.fromiter(map(absent.__contains__, plain), np.bool_, len(plain))
    else:
        plain = [_plain_cell(cell) for cell in cells]
        absences = (cell is None or (isinstance(cell, str) and cell in tokens) for cell in plain)
        missing = np.fromiter(absences, np.bool_, len(plain))
    return np.fromiter(plain, dtype=object, count=len(plain)), missing


def _plain_cell(cell: Any) -> Any:
    """A cell of any type as a text, a number, a truth value, a date, or None where it is missing.

    It depends on nothing but the cell, and can be compared with any other.
    """
    if isinstance(cell, (str, bytes, bytearray)):
        return text_of(cell)
    if isinstance(cell, (timedelta, np.timedelta64)):
        exact = getattr(cell, "to_timedelta64", lambda: np.timedelta64(cell))()
        return _plain_cell(float(_seconds(np.array([exact]))[0]))
    if isinstance(cell, np.datetime64):
        if np.isnat(cell):
            return None
        plain = cell.astype("datetime64[us]").item() if cell.dtype.str[-3:-1] in FINER else cell.item()
        return plain if isinstance(plain, date) else cell  # beyond the calendar
    if isinstance(cell, np.generic):
        cell = cell.item()
    try:
        equal = cell == cell  # neither NaN nor a missing value of pandas equals itself
    except (ArithmeticError, TypeError, ValueError):
        equal = not isinstance(cell, Number)  # NaN of a decimal number that signals
    if cell is None or equal is cell is not True or (isinstance(equal, (bool, np.bool_)) and not equal):
        return None
    if isinstance(cell, datetime) and hasattr(cell, "to_pydatetime"):
        return cell.to_pydatetime(warn=False)  # of pandas
    return cell if isinstance(cell, (Number, date)) else text_of(cell)


def _seconds(lengths: AnyArray) -> Floats:
    """Lengths of time in seconds, the same from any unit: whole ones, and the rest by itself."""
    if lengths.dtype.str[-3:-1] in ("[M", "[Y"):  # as long as the month is
        return np.full(lengths.shape, np.nan)
    whole = lengths.astype("timedelta64[s]")
    seconds: Floats = whole.astype(np.float64) + (lengths - whole) / np.timedelta64(1, "s")
    return np.where(np.isnat(lengths), np.nan, seconds)


def text_of(cell: Any) -> str:
    """Return a cell as text; a whole number, or a day, reads the same from a column of any type."""
    if isinstance(cell, str):
        return str(cell).strip()
    if isinstance(cell, (float, np.floating)):
        return str(int(cell)) if float(cell).is_integer() else str(float(cell))
    if isinstance(cell, (bytes, bytearray)):
        return cell.decode("utf-8", "replace").strip()
    if isinstance(cell, (date, np.datetime64)):
        text = cell.isoformat() if isinstance(cell, date) else str(cell.astype("datetime64[us]"))
        return text.removesuffix(".000000").removesuffix("T00:00:00")
    try:
        return str(cell)
    except ValueError:  # a number of thousands of digits: no category
        return ""


def texts_of(values: AnyArray) -> Iterable[str]:
    """Return the cells as texts, one by one."""
    cells = values if values.dtype.kind == "M" else values.tolist()
    return (cell if type(cell) is str else text_of(cell) for cell in cells)


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
        with suppress(ValueError, ArithmeticError):  # some cell is no number: one by one
            found[~missing] = present.astype(np.float64)
            return found
    found[~missing] = [_number(cell, written) for cell in present.tolist()]
    return found


def _number(cell: Any, written: NumberFormat) -> float:
    if isinstance(cell, str):
        return written.number(cell.strip())
    if isinstance(cell, np.datetime64):
        return math.nan  # of which NumPy would make a number
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
        found[~missing] = present.astype(f"datetime64[{'D' if days else 's'}]").astype(np.int64)
    elif values.dtype.kind == "O":
        read = moment_reader(pattern, days=days)
        cells = present.tolist()
        # Not of equal dates: one moment in two time zones is equal, and may be on two days.
        texts = {cell: read(cell) for cell in {cell for cell in cells if isinstance(cell, str)}}
        moments = (texts[cell] if isinstance(cell, str) else read(cell) for cell in cells)
        found[~missing] = np.fromiter(moments, np.float64, len(cells))
    return found


def moment_reader(pattern: str, *, days: bool) -> Callable[[Any], float]:
    """Return the function that reads one date; it returns NaN for what is none."""

    def moment_of(cell: Any) -> float:
        if isinstance(cell, str):
            try:
                cell = _from_text(cell.strip(), pattern)
            except (ValueError, re.error):  # the latter is about the pattern: see declarations
                return math.nan
        if isinstance(cell, datetime) and not days:  # whole seconds, as in an array of dates
            aware = cell if cell.tzinfo else cell.replace(tzinfo=UTC)
            return float((aware - EPOCH) // timedelta(seconds=1))
        if isinstance(cell, date):
            return float((cell.toordinal() - EPOCH.toordinal()) * (1 if days else SECONDS_PER_DAY))
        if isinstance(cell, np.datetime64):
            return float(cell.astype(f"datetime64[{'D' if days else 's'}]").astype(np.int64))
        return math.nan

    return moment_of


def _from_text(text: str, pattern: str) -> datetime:
    if pattern != "default":
        return datetime.strptime(text, pattern)
    if text[4:5] != "-":  # not a week, and not a number of eight digits
        raise ValueError("not a date")
    return datetime.fromisoformat(text)


def missing_in(values: AnyArray) -> AnyArray:
    """Which entries are missing: NaN, NaT, None or masked."""
    data, masked = np.ma.getdata(values), np.ma.getmaskarray(values)
    if data.dtype.kind == "O":
        # NaN is the one value that differs from itself.
        return masked | np.array([cell is None or cell != cell for cell in data], dtype=np.bool_)
    absent = {"f": np.isnan, "M": np.isnat}.get(data.dtype.kind)
    return masked if absent is None else masked | absent(data)
