"""The three file formats behind :mod:`onefold.cli.tables`.

Each :class:`Source` first tells the names of its columns and then reads the ones asked for, so that a text
column nobody wants never has to be a number.
"""

from __future__ import annotations

import csv
import re
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onefold._base.optional import require
from onefold.exceptions import FileFormatError, InvalidInputError

Array = NDArray[Any]


class Source:
    """A file opened for reading; ``names`` are the candidate feature columns, ``extras`` the others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: list[str] | None = None
        self.extras: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""

    def read(self, features: list[int], keep: list[str]) -> tuple[Array, dict[str, Array]]:
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

    def read(self, features: list[int], keep: list[str]) -> tuple[Array, dict[str, Array]]:
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

    def _numbers(self, converters: dict[int | str, Any], width: int) -> Array:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # "no data": the caller says it better
                numbers: Array = np.loadtxt(
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
                raise FileFormatError(
                    f"{path}: feature_names must hold one distinct name for each column of X"
                )
            self.names = [str(name) for name in names]
        self.extras = list(self.arrays)

    def read(self, features: list[int], keep: list[str]) -> tuple[Array, dict[str, Array]]:
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

    def _check_lengths(self, arrays: list[Array]) -> None:
        lengths = {array.shape[0] if array.ndim else 0 for array in arrays}
        if len(lengths) > 1 or any(array.ndim != 1 for array in arrays[1:]):
            raise FileFormatError(f"{self.path}: the arrays do not have one entry for each row")


def _load_npz(path: Path) -> dict[str, Array]:
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

    def read(self, features: list[int], keep: list[str]) -> tuple[Array, dict[str, Array]]:
        """Read only the columns needed."""
        names = self.names or []
        wanted = [names[j] for j in features]
        try:
            table = self.file.read(columns=[*wanted, *keep])
        except (self.arrow.ArrowException, OSError) as error:
            raise FileFormatError(f"{self.path}: a damaged Parquet file") from error
        columns = [self._numbers(name, table.column(name)) for name in wanted]
        values = np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
        return values, {name: self._kept(name, table.column(name)) for name in keep}

    def _numbers(self, name: str, column: Any) -> Array:
        if column.null_count:
            raise InvalidInputError(f"{self.path}: column {name!r} has {column.null_count} missing value(s)")
        return as_numbers(self, name, column.to_numpy())

    def _kept(self, name: str, column: Any) -> Array:
        if column.null_count:
            raise InvalidInputError(f"{self.path}: column {name!r} has {column.null_count} missing value(s)")
        values: Array = column.to_numpy()
        return values.astype(str) if values.dtype.kind == "O" else values


def as_numbers(source: Source, name: str, values: Array) -> Array:
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
