"""Reading tables from CSV, NPZ or Parquet: columns of numbers, class labels, identifiers.

:func:`read_table` reads any format; :func:`labels_of` turns one of its columns into class labels. Messages
name columns and row numbers and never repeat a cell, because the cells may be private.
"""

from __future__ import annotations

import csv
import re
import warnings
import zipfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import numpy as np

from onefold._base.arrays import AnyArray
from onefold._base.optional import require
from onefold.cli.console import busy
from onefold.exceptions import FileFormatError, InvalidInputError

SHOWN_NAMES = 5
# Leading zeros mean a code ("007"), not a number. 18 digits always fit 64 bits.
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0*)?")
DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][-+]?[0-9]+)?")


# --- file formats ----------------------------------------------------------------------------------------


class Source:
    """A file opened for reading; ``names`` are the candidate feature columns, ``extras`` the others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: list[str] | None = None
        self.extras: list[str] = []
        self.matrix: AnyArray | None = None  # the array X of an NPZ file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""

    def require_column(self, name: str) -> None:
        """Refuse the name of a column that the file does not have."""
        known = [*(self.names or ()), *self.extras]
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise InvalidInputError(f"{self.path}: there is no column {name!r} among its {len(known)}{hint}")

    def read(self, features: list[int], keep: list[str]) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Feature matrix of the given columns, and the kept columns by name."""
        raise NotImplementedError

    def not_numeric(self, name: str, row: int | None = None) -> InvalidInputError:
        """The error for a feature column that does not hold numbers."""
        where = "" if row is None else f" (row {row})"
        return InvalidInputError(f"{self.path}: column {name!r} is not numeric{where}")


class CsvSource(Source):
    """Text with a header line; comma, semicolon or tab is told from the header."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            with path.open(encoding="utf-8-sig", newline="") as lines:
                first = lines.readline()
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path}: not a text file in UTF-8") from error
        if not first.strip():
            raise FileFormatError(f"{path}: the file is empty or does not start with a header line")
        self.delimiter = max(",;\t", key=first.count)
        self.names = [name.strip() for name in next(csv.reader([first], delimiter=self.delimiter))]
        self._check_header(self.names)

    def _check_header(self, names: list[str]) -> None:
        # Positions, not names: without a header line the "names" would be somebody's data.
        seen: dict[str, int] = {}
        for position, name in enumerate(names, 1):
            if not name:
                raise FileFormatError(f"{self.path}: column {position} has no name in the header line")
            if name in seen:
                raise FileFormatError(
                    f"{self.path}: columns {seen[name]} and {position} have one name: is there a header?"
                )
            seen[name] = position

    def read(self, features: list[int], keep: list[str]) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Parse the whole file once; text columns become codes on the way."""
        names = self.names or []
        used = set(features)
        codes: dict[str, dict[str, int]] = {name: {} for name in keep}
        converters: dict[int | str, Any] = {
            j: (_coder(codes[name]) if name in codes else _nothing)
            for j, name in enumerate(names)
            if name in codes or j not in used
        }
        numbers = self._numbers(converters, len(names))
        kept = {}
        for name, book in codes.items():
            column = numbers[:, names.index(name)].astype(np.intp)
            kept[name] = np.array(list(book), dtype=str)[column] if book else np.empty(0, dtype=str)
        if features == list(range(len(names))):
            return numbers, kept
        return numbers[:, features], kept

    def _numbers(self, converters: dict[int | str, Any], width: int) -> AnyArray:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # "no data": the caller says it better
                numbers: AnyArray = np.loadtxt(
                    self.path.resolve(),
                    delimiter=self.delimiter,
                    skiprows=1,
                    ndmin=2,
                    comments=None,
                    quotechar='"',
                    encoding="utf-8-sig",
                    converters=converters or None,
                )
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{self.path}: not a text file in UTF-8") from error
        except ValueError as error:
            # The cause is dropped on purpose: its text repeats the offending cell.
            raise self._explain(str(error)) from None
        if numbers.size == 0:
            return np.empty((0, width))
        if numbers.shape[1] != width:
            raise FileFormatError(
                f"{self.path}: the header has {width} columns and the rows have {numbers.shape[1]}"
            )
        return numbers

    def _explain(self, message: str) -> InvalidInputError:
        names = self.names or []
        cell = re.search(r"at row (\d+), column (\d+)\.$", message)
        if cell and 0 < int(cell[2]) <= len(names):
            name, row = names[int(cell[2]) - 1], int(cell[1]) + 1
            if message.startswith("could not convert string ''"):
                return InvalidInputError(f"{self.path}: column {name!r} has an empty cell in row {row}")
            return self.not_numeric(name, row)
        ragged = re.search(r"columns changed from (\d+) to (\d+) at row (\d+)", message)
        if ragged:
            return FileFormatError(
                f"{self.path}: row {ragged[3]} has {ragged[2]} columns, the rows before it {ragged[1]}"
            )
        return FileFormatError(f"{self.path}: the rows do not fit the header line of {len(names)} columns")


def _coder(book: dict[str, int]) -> Any:
    """Number the texts of a column in order of appearance."""
    return lambda text: book.setdefault(text.strip(), len(book))


def _nothing(_: str) -> float:
    return 0.0


class NpzSource(Source):
    """NumPy arrays: a matrix ``X`` beside 1-D columns, or 1-D columns only. Pickled objects are refused."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.arrays = _load_npz(path)
        self.matrix = self.arrays.pop("X", None)
        if self.matrix is None:
            self.names = list(self.arrays)
            return
        if self.matrix.ndim < 2:
            raise FileFormatError(f"{path}: the array X must have rows and columns")
        self.matrix = self.matrix.reshape(self.matrix.shape[0], int(np.prod(self.matrix.shape[1:])))
        names = self.arrays.pop("feature_names", None)
        if names is not None:
            if names.shape != self.matrix.shape[1:] or len(set(names.tolist())) != names.size:
                raise FileFormatError(f"{path}: feature_names must hold one distinct name per column of X")
            self.names = [str(name) for name in names]
        self.extras = list(self.arrays)

    def read(self, features: list[int], keep: list[str]) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Columns of ``X``, or the named 1-D arrays side by side."""
        if self.matrix is None:
            names = self.names or []
            columns = [as_numbers(self, names[j], self.arrays[names[j]]) for j in features]
            self._check_lengths([*columns, *(self.arrays[name] for name in keep)])
            values = np.column_stack(columns) if columns else np.empty((len(self.arrays[keep[0]]), 0))
        else:
            chosen = self.matrix if self.names is None else self.matrix[:, features]
            values = as_numbers(self, "X", chosen)
            self._check_lengths([values, *(self.arrays[name] for name in keep)])
        return values, {name: self.arrays[name] for name in keep}

    def _check_lengths(self, arrays: list[AnyArray]) -> None:
        lengths = {array.shape[0] if array.ndim else 0 for array in arrays}
        if len(lengths) > 1 or any(array.ndim != 1 for array in arrays[1:]):
            raise FileFormatError(f"{self.path}: the arrays do not have one entry for each row")


def _load_npz(path: Path) -> dict[str, AnyArray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise FileFormatError(f"{path}: not an NPZ archive")
            return {name: archive[name] for name in archive.files}
    except FileFormatError:
        raise
    except (ValueError, TypeError, EOFError, OSError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error) and zipfile.is_zipfile(path):
            raise FileFormatError(
                f"{path}: arrays of Python objects are refused; store numbers or text"
            ) from None
        raise FileFormatError(f"{path}: not an NPZ archive, or a damaged one") from error


class ParquetSource(Source):
    """Parquet through pyarrow (extra ``parquet``)."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.arrow = require("pyarrow", "parquet")
        parquet = require("pyarrow.parquet", "parquet")
        try:
            self.file = parquet.ParquetFile(path)
        except (self.arrow.ArrowException, OSError) as error:
            raise FileFormatError(f"{path}: not a Parquet file, or a damaged one") from error
        self.names = list(self.file.schema_arrow.names)
        if len(set(self.names)) != len(self.names):
            self.file.close()
            raise FileFormatError(f"{path}: two columns have the same name")

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def read(self, features: list[int], keep: list[str]) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Read only the columns needed."""
        names = self.names or []
        wanted = [names[j] for j in features]
        try:
            table = self.file.read(columns=[*wanted, *keep])
        except (self.arrow.ArrowException, OSError) as error:
            raise FileFormatError(f"{self.path}: a damaged Parquet file") from error
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.null_count:
                raise InvalidInputError(
                    f"{self.path}: column {name!r} has {column.null_count} missing value(s)"
                )
        columns = [as_numbers(self, name, table.column(name).to_numpy()) for name in wanted]
        values = np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
        kept = {name: table.column(name).to_numpy() for name in keep}
        return values, {name: v.astype(str) if v.dtype.kind == "O" else v for name, v in kept.items()}


def as_numbers(source: Source, name: str, values: AnyArray) -> AnyArray:
    """Floating-point values: ``float32`` stays, everything else becomes ``float64``."""
    if values.dtype.kind not in "fiub":
        raise source.not_numeric(name)
    single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return np.ascontiguousarray(values, dtype=np.float32 if single else np.float64)


READERS: dict[str, type[Source]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".npz": NpzSource,
    ".parquet": ParquetSource,
    ".pq": ParquetSource,
}


def open_source(path: Path) -> Source:
    """The reader for a file, told by its suffix."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInputError(f"{path}: the name must end in .csv, .npz or .parquet")
    if not path.exists():
        raise InvalidInputError(f"{path}: no such file")
    if not path.is_file():
        raise InvalidInputError(f"{path}: not a file")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    try:
        return reader(path)
    except PermissionError as error:
        raise InvalidInputError(f"{path}: permission denied") from error


# --- tables of numbers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Feature values of a file, with the columns that were asked for as they are.

    Attributes
    ----------
    path : Path
        The file.
    names : tuple of str or None
        Name of each feature column; None when the file does not name them (an array ``X`` in an NPZ).
    values : ndarray of shape (n_rows, n_features)
        ``float64``, or ``float32`` where the file itself holds nothing wider than that.
    kept : dict of str to ndarray
        The columns named in ``keep``: whole numbers or strings, in row order.
    ignored : int
        How many columns of the file were not used.
    """

    path: Path
    names: tuple[str, ...] | None
    values: AnyArray
    kept: dict[str, AnyArray]
    ignored: int

    @property
    def in_float64(self) -> AnyArray:
        """The values for noise: a single record may be why a file keeps a column in another type."""
        return self.values.astype(np.float64, copy=False)


def read_table(
    path: str | Path,
    *,
    keep: Sequence[str] = (),
    ignore: Collection[str] = (),
    features: Sequence[str] | None = None,
    quiet: bool = True,
) -> Table:
    """Read a file of rows.

    Parameters
    ----------
    path : path
        A file ending in .csv, .tsv, .npz or .parquet.
    keep : sequence of str
        Columns that are no features and are handed back unchanged (a label, an identifier).
    ignore : collection of str
        Columns to leave out.
    features : sequence of str, optional
        The features wanted, in this order; further columns are then left out. Default: every column that is
        neither kept nor ignored, in the order of the file.
    quiet : bool
        Show no clock while a large file is read.

    Returns
    -------
    Table
    """
    path = Path(path)
    with busy(f"reading {path}", quiet), open_source(path) as source:
        for name in [*keep, *ignore]:
            source.require_column(name)
            if name in (features or ()):
                raise InvalidInputError(f"column {name!r} is a feature of the model: use another column")
        wanted = _feature_columns(source, set(keep) | set(ignore), features)
        values, kept = source.read(wanted, list(dict.fromkeys(keep)))
    names = None if source.names is None else tuple(source.names[j] for j in wanted)
    if values.shape[0] == 0:
        raise InvalidInputError(f"{path}: the table has no rows")
    if values.shape[1] == 0:
        raise InvalidInputError(f"{path}: no feature column is left")
    _require_finite(path, names, values)
    unused = (
        0 if source.names is None else len(source.names) - len(wanted) - len(set(keep) & set(source.names))
    )
    return Table(path, names, values, kept, unused)


def _feature_columns(source: Source, taken: set[str], features: Sequence[str] | None) -> list[int]:
    """Positions of the feature columns in the file, in the order they are wanted."""
    if source.names is None:
        return []
    if features is None:
        chosen = [j for j, name in enumerate(source.names) if name not in taken]
        if not chosen:
            raise InvalidInputError(f"{source.path}: no feature column is left")
        return chosen
    position = {name: j for j, name in enumerate(source.names)}
    missing = [name for name in features if name not in position]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:SHOWN_NAMES])
        more = ", ..." if len(missing) > SHOWN_NAMES else ""
        raise InvalidInputError(
            f"{source.path}: {len(missing)} of the model's {len(features)} features missing: {shown}{more}"
        )
    return [position[name] for name in features]


def check_header(path: Path, names: Collection[str]) -> None:
    """Refuse names of columns that are a record: without a header line, the first one would be released."""
    numbered = [list(map(str, range(start, start + len(names)))) for start in (0, 1)]
    if names and list(names) not in numbered and all(DECIMAL.fullmatch(name) for name in names):
        raise InvalidInputError(
            f"{path}: the first line holds numbers, as a record does: add a line with names of columns"
        )


def _require_finite(path: Path, names: tuple[str, ...] | None, values: AnyArray) -> None:
    # One pass without a mask of the whole table: a sum is finite unless an entry is not (or it overflows).
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    row, column = np.unravel_index(np.argmin(np.isfinite(values)), values.shape)
    if not np.isfinite(values[row, column]):
        where = f"column {names[column]!r}" if names is not None else f"feature {int(column) + 1}"
        raise InvalidInputError(f"{path}: {where} has a NaN or infinite value in row {int(row) + 1}")


# --- class labels ----------------------------------------------------------------------------------------


def read_labelled(
    path: str,
    label: str,
    *,
    keep: Sequence[str] = (),
    ignore: Collection[str] = (),
    features: Sequence[str] | None = None,
    two_classes: bool = True,
    quiet: bool = True,
) -> tuple[Table, AnyArray]:
    """Read a table and its class labels, at least two unless ``two_classes`` is False."""
    table = read_table(path, keep=[label, *keep], ignore=ignore, features=features, quiet=quiet)
    labels = labels_of(table, label)
    if two_classes and np.unique(labels).size < 2:
        raise InvalidInputError(f"{path}: label column {label!r} has one class only, at least two are needed")
    return table, labels


def labels_of(table: Table, name: str) -> AnyArray:
    """Column ``name`` of a table as class labels: ``int64`` or text, no missing values.

    Text that spells whole numbers becomes numbers: a model fitted on a CSV file understands an NPZ file.
    """
    return as_labels(f"{table.path}: label column {name!r}", table.kept[name])


def as_labels(where: str, column: AnyArray) -> AnyArray:
    """A column as class labels; ``where`` begins the message of an error."""
    kind = column.dtype.kind
    if kind in "US":
        return _labels_of_text(where, column.astype(str))
    if kind == "b":
        return column.astype(str)
    if kind in "iu":
        return column.astype(np.int64)
    if kind != "f":
        raise InvalidInputError(f"{where} holds neither numbers nor text")
    if np.isnan(column).any():
        raise _missing(where, np.isnan(column))
    if not np.all(np.isfinite(column) & (column == np.round(column)) & (np.abs(column) < 2**53)):
        raise _fractions(where)
    return column.astype(np.int64)


def _labels_of_text(where: str, column: AnyArray) -> AnyArray:
    distinct, inverse = distinct_texts(where, column)
    if all(WHOLE.fullmatch(text) for text in distinct):
        return np.array([int(text.partition(".")[0]) for text in distinct], dtype=np.int64)[inverse]
    if all(DECIMAL.fullmatch(text) for text in distinct) and any("." in text for text in distinct):
        raise _fractions(where)
    return column


def distinct_texts(where: str, column: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The distinct texts of a column and the number of each row's; an empty cell or ``nan`` is an error."""
    distinct, inverse = np.unique(column, return_inverse=True)
    missing = np.isin(np.char.lower(np.char.strip(distinct)), ["", "nan"])
    if missing.any():
        raise _missing(where, missing[inverse])
    return distinct, inverse


def _missing(where: str, mask: AnyArray) -> InvalidInputError:
    return InvalidInputError(f"{where} has a missing value in row {int(np.argmax(mask)) + 1}")


def _fractions(where: str) -> InvalidInputError:
    return InvalidInputError(f"{where} holds fractions; classes must be text or whole numbers")


def identifiers_of(table: Table, name: str) -> AnyArray:
    """Column ``name`` of a table as it stands: text, or ``int64`` when all entries are whole numbers."""
    column = table.kept[name]
    if column.dtype.kind in "US":
        column = column.astype(str)
        if all(WHOLE.fullmatch(text) and "." not in text for text in column):
            return column.astype(np.int64)
    return column


def agreement(predicted: AnyArray, labels: AnyArray) -> float:
    """Share of rows predicted right; labels of another type are compared as text."""
    if predicted.dtype.kind != labels.dtype.kind:
        predicted, labels = predicted.astype(str), labels.astype(str)
    return float(np.mean(predicted == labels))
