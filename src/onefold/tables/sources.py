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
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold._base.arrays import AnyArray
from onefold._base.foreign import NOT_READABLE, claimed, parse_json
from onefold._base.optional import require
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldWarning
from onefold.tables.blocks import BLOCK_ROWS, MOST_CELLS, Source, own_errors
from onefold.tables.cells import (
    LOOKS_LIKE_A_NUMBER,
    column_from,
    is_texts,
    plain_column,
    stripped,
    text_of,
    unguarded,
    without_guards,
)
from onefold.tables.databases import DatabaseSource, is_address
from onefold.tables.inference import is_index

__all__ = ["BLOCK_ROWS", "Source", "check_header", "open_table"]

MOST_COLUMNS = 100_000
MOST_BYTES = 4 << 20  # without a line end
MOST_UNPACKED = 1 << 30  # bytes of an Excel workbook
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather")
DELIMITERS = ",;\t|"
SAMPLE_LINES, SAMPLE_CHARACTERS = 50, 1 << 18
CHUNK_CHARACTERS = 1 << 20  # that Arrow is handed at once
MOST_LINES_OF_A_CELL = 100  # that are read to end a chunk behind it
BEFORE_QUOTE = re.compile('(^|[^ ]) +"')
END = "\0"  # in no file, since NUL is refused: read inside a cell, it tells that a quote has no end


class CsvSource(Source):
    """Text with a header line, compressed by gzip or not; see :func:`scan` for what is understood.

    Arrow parses the rows. Where a file has a form that its parser reads otherwise, as blanks before a quote
    or delimiters at the end of some lines, the rest of the file is read line by line to the same cells.
    """

    def __init__(self, path: Path, *, private: bool = False) -> None:
        super().__init__(path, private=private)
        try:
            self.encoding = _encoding_of(path, private)
            self._open()
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(f"{path}: not a file compressed by gzip, or a damaged one") from error

    def _open(self) -> None:
        """Open the file, and read its header line."""
        self._file = io.TextIOWrapper(
            _open_bytes(Path(self.path)), encoding=self.encoding, errors=WESTERN_BYTES, newline=""
        )
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
        first = self._file.readlines(SAMPLE_CHARACTERS)
        self._start = iter(first)  # they stay to be read
        self._lines = self._counted()
        csv.field_size_limit(max(csv.field_size_limit(), MOST_BYTES))  # of this process: lines are counted
        sample = [line for line in first[:SAMPLE_LINES] if line.strip()]
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
        self._width = len(names)
        while len(names) > 1 and not names[-1]:
            names.pop()  # every line ends with delimiters, as of blank columns of a spreadsheet
        self.names = _names(self.path, names)

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """Texts without the blanks around them."""
        done = 0
        try:
            for batch in self._batches([self.names.index(name) for name in columns]):
                done += len(batch)
                for start in range(0, len(batch), rows):
                    yield dict(zip(columns, batch.slice(start, rows).columns, strict=True))
        except pa.ArrowInvalid:  # it does not say what is wrong with which line, and may repeat a cell
            self.close()
            self._open()
            yield from self._read_lines(columns, rows, done)

    # --- by Arrow ------------------------------------------------------------------------------------------

    def _batches(self, places: list[int]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows; an error of Arrow says that a line is not as Arrow reads it."""
        from pyarrow import csv as arrow_csv

        kinds = dict.fromkeys(map(str, range(self._width)), pa.string())
        chosen = [*map(str, places), *list(kinds)[len(self.names) :]]
        options = (
            arrow_csv.ReadOptions(use_threads=False, block_size=4 * MOST_BYTES, column_names=list(kinds)),
            arrow_csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                # A line of another width: a blank one is skipped.
                invalid_row_handler=lambda row: (
                    "error" if row.actual_columns > 1 or row.text.strip() else "skip"
                ),
            ),
            arrow_csv.ConvertOptions(check_utf8=False, column_types=kinds, include_columns=chosen),
        )
        for chunk in self._chunks():
            # Arrow's own memory: its threads then never ask for the interpreter, also after an error.
            (memory := pa.BufferOutputStream()).write(chunk)
            cells = arrow_csv.read_csv(pa.BufferReader(memory.getvalue()), *options).combine_chunks()
            if {END}.union(*(column[-1:].to_pylist() for column in cells.columns)) != {END}:
                raise pa.ArrowInvalid("a quote has no end, or not in this chunk")
            columns = [stripped(column.chunk(0)[:-1]) for column in cells.columns]
            if any(pc.any(pc.not_equal(column, "")).as_py() for column in columns[len(places) :]):
                raise pa.ArrowInvalid("cells behind those of the last column")
            kept = list(map(without_guards, columns[: len(places)]))
            yield pa.RecordBatch.from_arrays(kept, chosen[: len(kept)])

    def _chunks(self) -> Iterator[bytes]:
        """Whole lines in UTF-8, and behind them a row that is no row where a quote has no end."""
        marks = {"", "\n", "\r", self.delimiter}
        end = f"\n{(self.delimiter or ',').join([END] * self._width)}\n"
        text = "".join(self._start)
        while text := text + self._file.read(CHUNK_CHARACTERS):
            for _ in range(MOST_LINES_OF_A_CELL):
                text += self._file.readline(MOST_BYTES)
                if text.count('"') % 2 == 0:
                    break
            blanks = ' "' in text and not marks.isdisjoint(BEFORE_QUOTE.findall(text))
            if blanks or len(text) > MOST_BYTES // 2:  # no row is longer than one may be
                raise pa.ArrowInvalid("blanks before a quote, or a long line")
            yield ((text.replace(END, "\ufffd") if self.private else text) + end).encode()
            text = ""

    # --- line by line --------------------------------------------------------------------------------------

    def _read_lines(self, columns: Sequence[str], rows: int, done: int) -> Iterator[dict[str, Any]]:
        """The rows behind the first ``done``."""
        rows = max(1, min(rows, MOST_CELLS // len(self.names)))
        places = [self.names.index(name) for name in columns]
        fitting = islice(filter(None, map(self._fitting, self._rows())), done, None)
        while block := list(islice(fitting, rows)):
            by_column = list(zip(*block, strict=True))
            yield {name: pa.array(by_column[place]) for name, place in zip(columns, places, strict=True)}

    def _counted(self) -> Iterator[str]:
        """The lines of the file; those of one row are not longer than they may be."""
        for line in chain(self._start, self._file):
            self._line += 1
            self._first = self._first if self._size else self._line
            self._size += len(line)
            if self._size > MOST_BYTES:
                raise FileFormatError(
                    f"{self.path}: line {self._first} has a cell that is too long, or a quote without end"
                )
            yield line.replace(END, "\ufffd") if self.private else line

    def _rows(self) -> Iterator[list[str]]:
        """The rows; those in quotes go over several lines."""
        lines = chain(self._lines, [END])
        for row in csv.reader(lines, delimiter=self.delimiter or ",", skipinitialspace=True):
            if row and row[-1].endswith(END):
                if self._size:
                    raise FileFormatError(f"{self.path}: the quote opened in line {self._first} has no end")
                return
            self._size = 0
            yield [unguarded(cell.strip()) for cell in row]

    def _fitting(self, row: list[str]) -> list[str]:
        """The row without delimiters at its end, nothing for a blank line."""
        width = len(self.names)
        if len(row) >= width and not any(row[width:]):
            return row[:width]
        if row in ([], [""]):
            return []
        raise FileFormatError(
            f"{self.path}: line {self._first} has {len(row)} cells, the header line has {width}"
        )


def _encoding_of(path: Path, private: bool) -> str:
    """The encoding of a text file; what cannot be text is refused, unless no cell may decide."""
    with _open_bytes(path) as file:
        chunk = file.read(MOST_BYTES)
        if not chunk:
            raise FileFormatError(f"{path}: the file is empty")
        wide = chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = "utf-16" if wide else "utf-8-sig"
        if private:
            return encoding
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


def _western(error: Any) -> tuple[str, int]:
    """Read bytes that are no UTF-8 as Windows-1252, and no byte besides them."""
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


WESTERN_BYTES = "onefold-western-bytes"
codecs.register_error(WESTERN_BYTES, _western)


def _delimiter(sample: list[str]) -> str:
    """The delimiter that gives the header more than one cell and most of the lines as many."""

    def score(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True)]
        return (widths.count(widths[0]) / len(widths), widths[0]) if widths[0] > 1 else (0.0, 0)

    return max(DELIMITERS, key=score)


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


class NpzSource(Source):
    """NumPy arrays: a matrix ``X`` beside 1-D columns, or 1-D columns only. Pickled objects are refused."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        super().__init__(path, private=private)
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
    """A Parquet or Arrow file, or those of one folder in the order of their names, of any length."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        super().__init__(path, private=private)
        self._parts = sorted(filter(_is_part, path.iterdir())) if path.is_dir() else [path]
        if not self._parts:
            raise InvalidInputError(
                f"{path}: the folder has no .parquet file and no .arrow file (folders inside are not read)"
            )
        kinds: dict[str, str] = {}
        for part in self._parts:
            self._check_columns(part, kinds)

    def _check_columns(self, part: Path, kinds: dict[str, str]) -> None:
        """Compare the columns of a file with those of the files before it."""
        try:
            with pa.OSFile(str(part)) as file:
                reader = _arrow_reader(part, file)
                schema = getattr(reader, "schema_arrow", reader.schema)
        except (pa.ArrowException, OSError) as error:
            raise FileFormatError(f"{part}: not a Parquet file or one of Arrow, or a damaged one") from error
        if len(set(schema.names)) != len(schema.names):
            raise FileFormatError(f"{part}: two columns have the same name")
        self.names = self.names or tuple(schema.names)
        if odd := sorted(set(schema.names) ^ set(self.names)):
            first = self._parts[0].name
            raise FileFormatError(f"{part}: other columns than in {first}: column {odd[0]!r} is in one only")
        for field in () if self.private else schema:
            kind = _kind(field.type)
            if kind and kinds.setdefault(field.name, kind) != kind:
                raise FileFormatError(
                    f"{part}: column {field.name!r} holds {kind}, {kinds[field.name]} in an earlier file"
                )

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """Record batches of one file after the other."""
        for part in self._parts:
            try:
                with pa.OSFile(str(part)) as file:
                    for batch in _arrow_batches(_arrow_reader(part, file), list(columns), rows):
                        if len(batch):
                            yield {name: self._plain(name, batch.column(name)) for name in columns}
            except (pa.ArrowException, OSError) as error:
                raise FileFormatError(f"{part}: a damaged file") from error

    def _plain(self, name: str, column: pa.Array) -> Any:
        try:
            return column if is_texts(column) else plain_column(column)
        except InvalidInputError:
            raise InvalidInputError(f"{self.path}: column {name!r} holds neither numbers nor texts") from None


def _arrow_reader(part: Path, file: Any) -> Any:
    """Reads by this thread alone: one of Arrow's would go on reading a file that is refused."""
    from pyarrow import ipc, parquet

    if part.suffix.lower() in PARQUET:
        return parquet.ParquetFile(file, pre_buffer=False)
    return ipc.open_file(file, options=ipc.IpcReadOptions(use_threads=False))


def _arrow_batches(reader: Any, columns: list[str], rows: int) -> Iterator[Any]:
    if hasattr(reader, "iter_batches"):
        yield from reader.iter_batches(rows, columns=columns, use_threads=False)
        return
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number).select(columns)
        batch.validate(full=True)  # its lengths and offsets are only claims
        yield from (batch.slice(start, rows) for start in range(0, len(batch), rows))


def _kind(type_: Any) -> str:
    """What a column holds, as far as its type says: one of a few words."""
    is_a, type_ = pa.types, getattr(type_, "value_type", type_)  # of a dictionary
    kinds = {
        "numbers": is_a.is_integer(type_) or is_a.is_floating(type_) or is_a.is_decimal(type_),
        "dates": is_a.is_temporal(type_),
        "truth values": is_a.is_boolean(type_),
        "": is_a.is_null(type_),
    }
    return next((word for word, holds in kinds.items() if holds), "texts")


def _is_part(file: Path) -> bool:
    # Programs that write such folders put notes for themselves beside the files: _SUCCESS, _metadata.
    return file.suffix.lower() in (*PARQUET, *ARROW) and file.name[0] not in "._" and file.is_file()


class JsonLinesSource(Source):
    """A JSON object in every line: its keys are columns, and what a line does not name is missing there."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        super().__init__(path, private=private)
        names = dict.fromkeys(name for row in self._rows() for name in row)
        self.names = _names(path, [*names] or [""])

    def _rows(self) -> Iterator[dict[str, Any]]:
        with _open_bytes(Path(self.path)) as file:
            for number, line in enumerate(iter(lambda: file.readline(MOST_BYTES), b""), 1):
                try:
                    row = parse_json(line.decode("utf-8-sig", WESTERN_BYTES)) if line.strip() else {}
                except FileFormatError:
                    row = None
                if not isinstance(row, dict) or len(row) > MOST_COLUMNS:
                    raise FileFormatError(f"{self.path}: line {number} is no JSON object, or too long")
                if row:
                    yield row

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        lines = self._rows()
        while block := list(islice(lines, rows)):
            cells = {name: [row.get(name) for row in block] for name in columns}
            nested = (name for name in columns for cell in cells[name] if isinstance(cell, (dict, list)))
            if not self.private and (name := next(nested, None)):
                raise InvalidInputError(f"{self.path}: column {name!r} holds neither numbers nor texts")
            yield {name: column_from(column) for name, column in cells.items()}


class ExcelSource(Source):
    """The first sheet of an Excel workbook (extra ``excel``); formulas are what Excel calculated."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        super().__init__(path, private=private)
        excel = require("openpyxl", "excel")
        try:
            with zipfile.ZipFile(path) as archive:
                claimed(sum(member.file_size for member in archive.infolist()), MOST_UNPACKED)
            with warnings.catch_warnings(action="ignore"):
                self._book = excel.load_workbook(path, read_only=True, data_only=True)
            self._lines = self._book.worksheets[0].iter_rows(values_only=True)
        except (*NOT_READABLE, FileFormatError) as error:
            raise FileFormatError(f"{path}: not an Excel workbook, a damaged or too large one") from error
        names = [*next(filter(any, self._lines), ("",))]
        while len(names) > 1 and names[-1] is None:
            names.pop()
        self.names = _names(path, ["" if name is None else text_of(name) for name in names])

    def close(self) -> None:
        """Close the file."""
        self._book.close()

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        width = len(self.names)
        lines = (line for line in self._lines if any(cell is not None for cell in line))
        while True:
            with warnings.catch_warnings(action="ignore"):  # they may repeat a cell
                block = list(islice(lines, rows))
            if not block:
                return
            if any(cell is not None for line in block for cell in line[width:]):
                raise FileFormatError(f"{self.path}: a row has more cells than the header line has names")
            full = [(*line, *[None] * width)[:width] for line in block]
            by_column = dict(zip(self.names, map(list, zip(*full, strict=True)), strict=True))
            yield {name: column_from(by_column[name]) for name in columns}


READERS: dict[str, type[Source]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".jsonl": JsonLinesSource,
    ".ndjson": JsonLinesSource,
    ".npz": NpzSource,
    ".xlsx": ExcelSource,
    **dict.fromkeys((*PARQUET, *ARROW), ParquetSource),
}


def open_table(path: str | Path, *, private: bool = False) -> Source:
    """Open a table with the reader that its name asks for.

    Parameters
    ----------
    path : path or str
        A file ending in .csv, .tsv, .jsonl, .xlsx, .npz, .parquet or .arrow; also .gz behind .csv, .tsv and
        .jsonl. A folder of Parquet or Arrow files. Or the address of a table in a database,
        ``sqlite:///FILE#TABLE``.
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
        return ParquetSource(path, private=private)
    name = path.name.lower()
    reader = READERS.get(Path(name.removesuffix(".gz")).suffix)
    if reader is None or (name.endswith(".gz") and reader not in (CsvSource, JsonLinesSource)):
        raise InvalidInputError(
            f"{path}: the name must end in .csv, .csv.gz, .tsv, .jsonl, .xlsx, .npz, .parquet or .arrow"
        )
    if not path.is_file():
        raise InvalidInputError(f"{path}: {'not a' if path.exists() else 'no such'} file")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    with own_errors(path):
        return reader(path, private=private)
