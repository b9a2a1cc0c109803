"""Tables in CSV, NPZ or Parquet files: what columns they have, and their cells in blocks of rows.

Texts of a CSV file stay texts here. Messages name columns, rows and lines and never repeat a cell, because
the cells may be private.
"""

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
from onefold.tables.cells import LOOKS_LIKE_A_NUMBER, unguarded
from onefold.tables.databases import DatabaseSource, is_address
from onefold.tables.inference import is_index

__all__ = ["BLOCK_ROWS", "Source", "check_header", "open_table"]

MOST_COLUMNS = 100_000
MOST_BYTES = 4 << 20  # without a line end
DELIMITERS = ",;\t|"
SAMPLE_LINES, SAMPLE_CHARACTERS = 50, 1 << 18
END = "\0"  # in no file, since NUL is refused: read inside a cell, it tells that a quote has no end


class CsvSource(Source):
    """Text with a header line, compressed by gzip or not; see :func:`scan` for what is understood."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        super().__init__(path)
        self.private = private
        try:
            self.encoding = _marked_encoding(path) if private else _encoding_of(path)
            self._file = io.TextIOWrapper(
                _open_bytes(path), encoding=self.encoding, errors=WESTERN_BYTES, newline=""
            )
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(f"{path}: not a file compressed by gzip, or a damaged one") from error
        self._lines = self._counted()
        self._line = self._first = self._size = 0  # lines read; where the row begins, and its characters
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
        # Excel's own first line; a quote or a blank separates no cells.
        told = re.fullmatch('sep=([^" ])', sample[0].strip("\r\n")) if sample else None
        if told:
            sample = sample[1:]
        if not sample:
            raise FileFormatError(f"{self.path}: the file is empty or does not start with a header line")
        self.delimiter = told[1] if told else _delimiter(sample[:1] if self.private else sample)
        rows = (row for row in self._rows() if any(cell.strip() for cell in row))
        names = [name.strip() for name in next(islice(rows, 1 if told else 0, None), [])]
        if not names:
            raise FileFormatError(f"{self.path}: the file does not start with a header line")
        if len(names) > MOST_COLUMNS:
            raise FileFormatError(f"{self.path}: the header line has more than {MOST_COLUMNS} columns")
        while len(names) > 1 and not names[-1]:
            names.pop()  # every line ends with delimiters, as of blank columns of a spreadsheet
        self.names = _names(self.path, names)

    def _counted(self) -> Iterator[str]:
        """The lines of the file; those of one row are not longer than they may be."""
        for line in self._file_lines:
            self._line += 1
            self._first = self._first if self._size else self._line
            self._size += len(line)
            if self._size > MOST_BYTES:
                raise self._too_long()
            yield line.replace(END, "\ufffd") if self.private else line

    def _too_long(self) -> FileFormatError:
        return FileFormatError(
            f"{self.path}: line {self._first} has a cell that is too long, or a quote without end"
        )

    def _sample(self) -> list[str]:
        """The first lines; they stay to be read."""
        lines, size = [], 0
        for line in islice(self._file, SAMPLE_LINES):
            lines.append(line)
            size += len(line)
            if size > SAMPLE_CHARACTERS and len(lines) > 1:
                break
        self._file_lines: Iterator[str] = chain(lines, self._file)
        return lines

    def _rows(self) -> Iterator[list[str]]:
        """The rows, each by itself: only one that has quotes is read by their rules, over several lines."""
        delimiter = self.delimiter or ","
        for line in self._lines:
            quoted = '"' in line
            if not quoted:
                row = line.rstrip("\r\n").split(delimiter) if line.strip("\r\n") else []
            else:
                lines = chain([line], self._lines, [END])
                try:
                    row = next(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
                except csv.Error:
                    raise self._too_long() from None
                if row[-1].endswith(END):
                    raise FileFormatError(f"{self.path}: the quote opened in line {self._first} has no end")
            self._size = 0
            yield [unguarded(cell.strip()) for cell in row] if quoted or "'" in line else row

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, AnyArray]]:
        """Texts without the blanks around them."""
        rows = max(1, min(rows, MOST_CELLS // len(self.names)))
        places = [self.names.index(name) for name in columns]
        fitting = filter(None, map(self._fitting, self._rows()))
        while block := list(islice(fitting, rows)):
            by_column = list(zip(*block, strict=True))
            yield {name: _texts(by_column[place]) for name, place in zip(columns, places, strict=True)}

    def _fitting(self, row: list[str]) -> list[str]:
        """The row without delimiters at its end, nothing for a blank line."""
        width = len(self.names)
        if len(row) == width:
            return row
        if not row or (width > 1 and len(row) == 1 and not row[0].strip()):
            return []
        if len(row) > width and not any(cell.strip() for cell in row[width:]):
            return row[:width]
        raise FileFormatError(
            f"{self.path}: line {self._first} has {len(row)} cells, the header line has {width}"
        )


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
    if decoder is None:
        warnings.warn(f"{path}: not in UTF-8: read as Windows-1252", OnefoldWarning, stacklevel=2)
    return encoding


UNDEFINED_IN_WINDOWS_1252 = b"\x81\x8d\x8f\x90\x9d"


def _open_bytes(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


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


def _texts(cells: Iterable[str]) -> AnyArray:
    values = list(map(str.strip, cells))
    return np.fromiter(values, dtype=object, count=len(values))


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

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, AnyArray]]:
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

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, AnyArray]]:
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

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, AnyArray]]:
        """The blocks of one file after the other; one file is open at a time."""
        for file in self._files:
            with ParquetSource(file) as part:
                yield from part._blocks(columns, rows)


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
        files. Or the address of a table in a database, ``sqlite:///FILE#TABLE``.
    private : bool, default=False
        Whether privacy is promised for the rows: then no row of a CSV file decides how others are read, or
        that something is said. Its delimiter follows from its header alone.

    Returns
    -------
    Source
        To be used in a ``with`` block.
    """
    if is_address(path):
        return DatabaseSource(str(path), private=private)
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
