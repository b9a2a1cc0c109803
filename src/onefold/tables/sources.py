"""Tables in CSV, NPZ or Parquet files: what columns they have, and their cells in blocks of rows.

Texts of a CSV file stay texts here. Messages name columns, rows and lines and never repeat a cell, because
the cells may be private.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import re
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from onefold._base.arrays import AnyArray, rounds_whole
from onefold._base.foreign import NOT_READABLE, claimed
from onefold._base.optional import require
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldWarning
from onefold.tables.blocks import BLOCK_ROWS, MOST_CELLS, Source, own_errors
from onefold.tables.databases import DatabaseAddress, DatabaseSource, is_address
from onefold.tables.inference import is_index

__all__ = ["BLOCK_ROWS", "LOOKS_LIKE_A_NUMBER", "Source", "check_header", "open_table"]

MOST_COLUMNS = 100_000
MOST_BYTES = 4 << 20  # without a line end
DELIMITERS = ",;\t|"
SAMPLE_LINES, SAMPLE_CHARACTERS = 50, 1 << 18
LOOKS_LIKE_A_NUMBER = re.compile(r"[-+]?[.,]?[0-9][0-9.,]*([eE][-+]?[0-9]+)?")
# A line no file can contain, since NUL is refused: whether it is read as a line of its own tells whether all
# quotes before it are closed.
END = "\0"


class CsvSource(Source):
    """Text with a header line, compressed by gzip or not; see :func:`scan` for what is understood."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        super().__init__(path)
        self.private = private
        try:
            self.encoding = _marked_encoding(path) if private else _encoding_of(path)
            self._file = _open_text(path, self.encoding, WESTERN_BYTES if private else "strict")
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(f"{path}: not a file compressed by gzip, or a damaged one") from error
        self._lines: Iterator[str] = self._file
        if private:
            self._lines = (line.replace(END, "\ufffd") for line in self._file)
        self._line = 0  # lines read so far
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_header(self) -> None:
        sample = [line for line in self._sample() if line.strip()]
        told = re.fullmatch("sep=(.)", sample[0].strip()) if sample else None  # Excel's own first line
        if told:
            sample = sample[1:]
        if not sample:
            raise FileFormatError(f"{self.path}: the file is empty or does not start with a header line")
        self.delimiter = told[1] if told else _delimiter(sample[:1] if self.private else sample)
        reader = self._reader()
        rows = (row for row in reader if any(cell.strip() for cell in row))
        try:
            names = [name.strip() for name in next(islice(rows, 1 if told else 0, None))]
        except csv.Error:
            raise FileFormatError(
                f"{self.path}: the header line has a cell that is too long, or a quote without end"
            ) from None
        self._line = reader.line_num
        if names[-1].endswith(END):
            raise FileFormatError(f"{self.path}: the header line has a quote without end")
        if len(names) > MOST_COLUMNS:
            raise FileFormatError(f"{self.path}: the header line has more than {MOST_COLUMNS} columns")
        while len(names) > 1 and not names[-1]:
            names.pop()  # every line ends with delimiters, as of blank columns of a spreadsheet
        self.names = _names(self.path, names)

    def _sample(self) -> list[str]:
        """The first lines; they stay to be read."""
        lines, size = [], 0
        for line in islice(self._lines, SAMPLE_LINES):
            lines.append(line)
            size += len(line)
            if size > SAMPLE_CHARACTERS and len(lines) > 1:
                break
        self._stream: Iterator[str] = chain(lines, self._lines)
        return lines

    def _reader(self, lines: Iterable[str] = ()) -> Any:
        """Rows of the lines, then of the file; its limit does not depend on what others set in ``csv``."""
        self._size = 0  # characters since the last row
        bounded = self._bounded(chain(lines, self._stream, [END]))
        return csv.reader(bounded, delimiter=self.delimiter or ",", skipinitialspace=True)

    def _bounded(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self._size += len(line)
            if self._size > MOST_BYTES:
                raise csv.Error("a row is too long")
            yield line

    def _blocks(
        self, columns: Sequence[str], rows: int, numbers: Collection[str]
    ) -> Iterator[dict[str, AnyArray]]:
        """Read block after block; a block without quotes takes a shorter way."""
        rows = max(1, min(rows, MOST_CELLS // len(self.names)))
        while lines := list(islice(self._stream, rows)):
            text = "".join(lines)
            block = None if '"' in text else self._fast(text, lines, columns, numbers)
            if block is None:
                block = self._careful(lines, columns)
            else:
                self._line += len(lines)
            if block is not None:
                yield block

    def _fast(
        self, text: str, lines: list[str], columns: Sequence[str], numbers: Collection[str]
    ) -> dict[str, AnyArray] | None:
        """The block by NumPy's own parser, None where something in it needs care."""
        kinds: list[Any] = [np.float64 if name in numbers else object for name in self.names]
        tries = [kinds] if np.float64 in kinds else []
        for kind in [*tries, [object] * len(kinds)]:
            cells = self._parse(lines, kind)
            if cells is not None:
                blanks = not text.isascii() or " " in text or "\t" in text
                return {name: _column(cells, self.names, name, blanks) for name in columns}
        return None

    def _parse(self, lines: list[str], kinds: list[Any]) -> AnyArray | None:
        one_kind = len(set(kinds)) == 1
        dtype = kinds[0] if one_kind else [(f"f{j}", kind) for j, kind in enumerate(kinds)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about a block of blank lines
                cells: AnyArray = np.loadtxt(
                    lines, dtype=dtype, delimiter=self.delimiter, comments=None, ndmin=2 if one_kind else 1
                )
        except ValueError:
            return None  # its text repeats a cell: whoever looks again says what is wrong
        fits = cells.size and (not one_kind or cells.shape[1] == len(kinds))
        return cells if fits else None

    def _careful(self, lines: list[str], columns: Sequence[str]) -> dict[str, AnyArray] | None:
        """The block by the rules of quoting, line by line; None where it has no row."""
        width, found = len(self.names), []
        reader = self._reader(lines)
        first = 1
        try:
            for row in reader:
                self._size = 0
                if row and row[-1].endswith(END):
                    if row == [END]:
                        break
                    raise FileFormatError(
                        f"{self.path}: the quote opened in line {self._line + first} has no end"
                    )
                if len(row) != width:
                    row = self._fitting(row, self._line + first)
                if row:
                    found.append(row)
                if reader.line_num >= len(lines):
                    break
                first = reader.line_num + 1
        except csv.Error:
            raise FileFormatError(
                f"{self.path}: line {self._line + first} has a cell that is too long, or a quote without end"
            ) from None
        self._line += reader.line_num
        if not found:
            return None
        by_column = list(zip(*found, strict=True))
        return {name: _texts(by_column[self.names.index(name)]) for name in columns}

    def _fitting(self, row: list[str], line: int) -> list[str]:
        """The row without delimiters at its end, nothing for a blank line."""
        width = len(self.names)
        if not row or (width > 1 and len(row) == 1 and not row[0].strip()):
            return []
        if len(row) > width and not any(cell.strip() for cell in row[width:]):
            return row[:width]
        raise FileFormatError(f"{self.path}: line {line} has {len(row)} cells, the header line has {width}")


def _encoding_of(path: Path) -> str:
    """The encoding of a text file, told from all its bytes; what cannot be text is refused."""
    with _open_bytes(path) as file:
        chunk = file.read(MOST_BYTES)
        if not chunk:
            raise FileFormatError(f"{path}: the file is empty")
        wide = chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = "utf-16" if wide else "utf-8-sig"
        decoder: Any = codecs.getincrementaldecoder(encoding)()
        western = not wide
        while chunk:
            following = file.read(MOST_BYTES)
            if len(chunk) == MOST_BYTES and b"\n" not in chunk and b"\r" not in chunk:
                raise FileFormatError(f"{path}: a line is longer than {MOST_BYTES >> 20} MB")
            if not wide and b"\0" in chunk:
                raise FileFormatError(f"{path}: not a text file, or one in UTF-16 that does not say so")
            if not chunk.isascii() or wide:
                western = western and not any(code in chunk for code in UNDEFINED_IN_WINDOWS_1252)
                try:
                    if decoder is not None and END in decoder.decode(chunk, final=not following):
                        raise FileFormatError(
                            f"{path}: the file has NUL characters: it is damaged, or no text"
                        )
                except UnicodeDecodeError:
                    decoder = None
                if decoder is None and not western:
                    raise FileFormatError(f"{path}: not a text file in UTF-8, UTF-16 or Windows-1252")
            chunk = following
    if decoder is not None:
        return encoding
    warnings.warn(f"{path}: not in UTF-8: read as Windows-1252", OnefoldWarning, stacklevel=2)
    return "cp1252"


UNDEFINED_IN_WINDOWS_1252 = b"\x81\x8d\x8f\x90\x9d"


def _open_bytes(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _open_text(path: Path, encoding: str, errors: str) -> IO[str]:
    return io.TextIOWrapper(_open_bytes(path), encoding=encoding, errors=errors, newline="")


def _marked_encoding(path: Path) -> str:
    """The encoding that a file says it has, UTF-8 if it says nothing: no cell decides."""
    with _open_bytes(path) as file:
        start = file.read(2)
    return "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _western(error: UnicodeError) -> tuple[str, int]:
    """Read bytes that are no UTF-8 as Windows-1252, and no byte besides them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


WESTERN_BYTES = "onefold-western-bytes"
codecs.register_error(WESTERN_BYTES, _western)


def _delimiter(sample: list[str]) -> str:
    """The delimiter that gives the header more than one cell and most of the lines as many."""
    best, choice = (0.0, 0), ","
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True)]
        except csv.Error:
            continue
        if widths[0] > 1:
            score = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
            if score > best:
                best, choice = score, delimiter
    return choice


def _names(path: Path | str, names: list[str]) -> tuple[str, ...]:
    """The names in a header line; messages tell positions, since without a header the names would be data."""
    if not names[0]:  # the index that pandas and R write
        taken = sum(is_index(name) for name in names)
        names[0] = f"Unnamed: 0.{taken}" if taken else "Unnamed: 0"
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if not name:
            raise FileFormatError(
                f"{path}: column {position} has no name in the header line: give it one, or add a "
                "header line if there is none"
            )
        if name in seen:
            raise FileFormatError(
                f"{path}: columns {seen[name]} and {position} have one name: rename one, or add a header "
                "line if there is none"
            )
        seen[name] = position
    check_header(path, names)
    return tuple(names)


def check_header(path: Path | str, names: Collection[str]) -> None:
    """Refuse names of columns that are a record: without a header line, the first one would be released.

    Parameters
    ----------
    path : Path or str
        The file, or the address in a database.
    names : collection of str
        The names of its columns, or of its features.
    """
    told = [name for name in names if not is_index(name)]
    numbered = [list(map(str, range(start, start + len(told)))) for start in (0, 1)]
    if told and told not in numbered and all(LOOKS_LIKE_A_NUMBER.fullmatch(name) for name in told):
        raise FileFormatError(
            f"{path}: the first line holds numbers, as a record does: is there a header line? If not, "
            "add a line with names of columns"
        )


def _column(cells: AnyArray, names: Sequence[str], name: str, blanks: bool) -> AnyArray:
    position = names.index(name)
    values = cells[f"f{position}"] if cells.dtype.names else cells[:, position]
    if values.dtype.kind != "O":
        return values
    return _texts(values.tolist()) if blanks else values


def _texts(cells: Iterable[str]) -> AnyArray:
    stripped = [cell.strip() for cell in cells]
    values = np.empty(len(stripped), dtype=object)
    values[:] = stripped
    return values


class NpzSource(Source):
    """NumPy arrays: a matrix ``X`` beside 1-D columns, or 1-D columns only. Pickled objects are refused."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._arrays = _load_npz(path)
        matrix = self._arrays.pop("X", None)
        if matrix is not None:
            if matrix.ndim < 2:
                raise FileFormatError(f"{path}: the array X must have rows and columns")
            matrix = matrix.reshape(matrix.shape[0], int(np.prod(matrix.shape[1:])))
            names = self._arrays.pop("feature_names", None)
            self.named = names is not None
            told = [f"x{j}" for j in range(matrix.shape[1])] if names is None else list(map(str, names.flat))
            if len(told) != matrix.shape[1] or len({*told, *self._arrays}) < len(told) + len(self._arrays):
                raise FileFormatError(f"{path}: feature_names must hold one distinct name per column of X")
            self.matrix = tuple(told)
            self._arrays = {name: matrix[:, j] for j, name in enumerate(told)} | self._arrays
        self.names = tuple(self._arrays)

    def _blocks(
        self, columns: Sequence[str], rows: int, numbers: Collection[str]
    ) -> Iterator[dict[str, AnyArray]]:
        """Slices of the arrays."""
        chosen = {name: self._arrays[name] for name in columns}
        shapes = {array.shape for array in chosen.values()}
        if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
            raise FileFormatError(f"{self.path}: the arrays do not have one entry for each row")
        for start in range(0, next(iter(shapes))[0] if shapes else 0, rows):
            yield {name: array[start : start + rows] for name, array in chosen.items()}


LARGEST_RATIO = 1032  # deflate makes no byte into more than this many


def _check_claims(path: Path) -> None:
    """Refuse arrays that claim more than the file can hold, before memory is set aside for them."""
    size = path.stat().st_size
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        claimed(sum(member.compress_size for member in members), size)
        for member in members:
            packed = LARGEST_RATIO if member.compress_type == zipfile.ZIP_DEFLATED else 1
            most = claimed(member.file_size, packed * member.compress_size)
            with archive.open(member) as file:
                shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
                held = most - file.tell()
            if dtype.kind != "O" and math.prod(shape) * dtype.itemsize != held:
                raise FileFormatError("damaged: an array does not have the size it claims")
            for side in shape:
                claimed(int(side), LARGEST_RATIO * size)


def _load_npz(path: Path) -> dict[str, AnyArray]:
    try:
        _check_claims(path)
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise FileFormatError("not an NPZ archive")
            return {name: archive[name] for name in archive.files}
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
    except (MemoryError, PermissionError):
        raise
    except NOT_READABLE as error:
        if "allow_pickle" in str(error) and zipfile.is_zipfile(path):
            raise FileFormatError(
                f"{path}: arrays of Python objects are refused; store numbers or text"
            ) from None
        raise FileFormatError(f"{path}: not an NPZ archive, or a damaged one") from error


class ParquetSource(Source):
    """Parquet through pyarrow (extra ``parquet``)."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._arrow = require("pyarrow", "parquet")
        parquet = require("pyarrow.parquet", "parquet")
        try:
            self._file = parquet.ParquetFile(path)
        except (self._arrow.ArrowException, OSError) as error:
            raise FileFormatError(f"{path}: not a Parquet file, or a damaged one") from error
        self.names = tuple(self._file.schema_arrow.names)
        if len(set(self.names)) != len(self.names):
            self.close()
            raise FileFormatError(f"{path}: two columns have the same name")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def kinds(self) -> dict[str, str]:
        """What each column holds, as far as its type says: one of a few words."""
        known = {field.name: self._kind(field.type) for field in self._file.schema_arrow}
        return {name: kind for name, kind in known.items() if kind}

    def _kind(self, type_: Any) -> str:
        types = self._arrow.types
        if types.is_dictionary(type_):
            type_ = type_.value_type
        if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
            return "numbers"
        if types.is_temporal(type_):
            return "dates"
        if types.is_boolean(type_):
            return "truth values"
        return "" if types.is_null(type_) else "texts"

    def _blocks(
        self, columns: Sequence[str], rows: int, numbers: Collection[str]
    ) -> Iterator[dict[str, AnyArray]]:
        """Record batches; a missing value is None among texts and NaN among numbers."""
        try:
            for batch in self._file.iter_batches(batch_size=rows, columns=list(columns)):
                yield {name: self._plain(name, batch.column(name)) for name in columns}
        except (self._arrow.ArrowException, OSError) as error:
            raise FileFormatError(f"{self.path}: a damaged Parquet file") from error

    def _plain(self, name: str, column: Any) -> AnyArray:
        types = self._arrow.types
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if types.is_decimal(column.type):
            column = column.cast(self._arrow.float64())
        if types.is_nested(column.type) or types.is_binary(column.type) or types.is_large_binary(column.type):
            raise InvalidInputError(f"{self.path}: column {name!r} holds neither numbers nor texts")
        values: AnyArray = column.to_numpy(zero_copy_only=False)
        if types.is_integer(column.type) and rounds_whole(values):
            values = np.empty(len(column), dtype=object)
            values[:] = column.to_pylist()
        return values


class ParquetFolder(Source):
    """Parquet files of one folder as one table, in the order of their names."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        super().__init__(path)
        self._files = sorted(file for file in path.iterdir() if _is_part(file))
        if not self._files:
            raise InvalidInputError(f"{path}: the folder has no .parquet file (folders inside are not read)")
        kinds: dict[str, str] = {}
        for file in self._files:
            with ParquetSource(file) as part:
                self.names = self.names or part.names
                if set(part.names) != set(self.names):
                    odd = sorted(set(part.names) ^ set(self.names))[0]
                    raise FileFormatError(
                        f"{file}: other columns than in {self._files[0].name}: column {odd!r} is in one only"
                    )
                for name, kind in ({} if private else part.kinds).items():
                    if kinds.setdefault(name, kind) != kind:
                        raise FileFormatError(
                            f"{file}: column {name!r} holds {kind}, {kinds[name]} in an earlier file"
                        )

    def _blocks(
        self, columns: Sequence[str], rows: int, numbers: Collection[str]
    ) -> Iterator[dict[str, AnyArray]]:
        """The blocks of one file after the other; one file is open at a time."""
        for file in self._files:
            with ParquetSource(file) as part:
                yield from part._blocks(columns, rows, numbers)


def _is_part(file: Path) -> bool:
    # Programs that write such folders put notes for themselves beside the files: _SUCCESS, _metadata.
    return file.suffix.lower() in (".parquet", ".pq") and file.name[0] not in "._" and file.is_file()


READERS: dict[str, type[Source]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".npz": NpzSource,
    ".parquet": ParquetSource,
    ".pq": ParquetSource,
}


def open_table(path: str | Path, *, private: bool = False) -> Source:
    """Open a table with the reader that its name asks for.

    Parameters
    ----------
    path : path or str
        A file ending in .csv, .tsv, .npz or .parquet; .csv.gz and .tsv.gz are read too. A folder of Parquet
        files. Or a :class:`DatabaseAddress`, or its text.
    private : bool, default=False
        Whether privacy is promised for the rows: then no row of a CSV file decides how others are read, or
        that something is said. Delimiter and encoding follow from its header and byte-order mark; bytes that
        are no UTF-8 are read as Windows-1252, one by one.

    Returns
    -------
    Source
        To be used in a ``with`` block.
    """
    if is_address(path):
        found = path if isinstance(path, DatabaseAddress) else DatabaseAddress(str(path))
        return DatabaseSource(found, private=private)
    path = Path(path)
    if path.is_dir():
        return ParquetFolder(path, private=private)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    reader = READERS.get((suffixes[:-1] if compressed else suffixes)[-1] if suffixes[compressed:] else "")
    if reader is None or (compressed and reader is not CsvSource):
        raise InvalidInputError(f"{path}: the name must end in .csv, .csv.gz, .tsv, .npz or .parquet")
    if not path.exists():
        raise InvalidInputError(f"{path}: no such file")
    if not path.is_file():
        raise InvalidInputError(f"{path}: not a file")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    with own_errors(path):
        return CsvSource(path, private=private) if reader is CsvSource else reader(path)
