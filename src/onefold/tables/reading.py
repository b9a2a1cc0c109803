"""Tables opened for reading: text files, whatever else their name asks for, and tables in memory.

A source yields blocks of rows, so that a file of any length can be read; :func:`gather` joins them. Texts
stay texts here. Messages name columns, rows and lines and never repeat a cell: the cells may be private.
"""

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold._base.arrays import column_array, rounds_whole
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldWarning
from onefold.tables import formats
from onefold.tables.cells import is_texts, plain_column, stripped, unguarded, without_guards
from onefold.tables.columns import named, names_of
from onefold.tables.formats import MOST_BYTES

DELIMITERS = ",;\t|"
SAMPLE_LINES, SAMPLE_CHARACTERS = 50, 1 << 18
CHUNK_CHARACTERS = 1 << 20  # that Arrow is handed at once
MOST_LINES_OF_A_CELL = 100  # that are read to end a chunk behind it
BEFORE_QUOTE = re.compile('(^|[^ ]) +"')
END = "\0"  # in no file, since NUL is refused: read inside a cell, it tells that a quote has no end


class CsvSource(formats.Source):
    """Text with a header line, compressed by gzip or not.

    What is found out: the delimiter (comma, semicolon, tab or bar; the one that cuts most of the first lines
    into as many cells as the header), and the encoding (UTF-8, or UTF-16 by its byte-order mark; bytes that
    are no UTF-8 are read as Windows-1252, with a warning). Cells in quotes may hold delimiters and line ends.
    Blank lines are skipped, and so are delimiters at the end of a line that no cell follows. A line with too
    few or too many cells is an error.

    Arrow parses the rows. Where a file has a form that its parser reads otherwise, as blanks before a quote
    or delimiters at the end of some lines, the rest of the file is read line by line to the same cells.
    """

    def _open(self) -> None:
        """Open the file, and take the names from its header line."""
        try:
            encoding = _encoding_of(self.path, self.private)
            self._file = self._opened.enter_context(
                io.TextIOWrapper(
                    formats.open_packed(self.path),
                    encoding=encoding,
                    errors=formats.WESTERN_BYTES,
                    newline="",
                )
            )
            self._start_reading()
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(f"{self.path}: not a file compressed by gzip, or a damaged one") from error

    def _start_reading(self) -> None:
        self._line = self._first = self._size = 0  # lines read; where the row begins, and its characters
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
        if len(names) > formats.MOST_COLUMNS:
            raise FileFormatError(
                f"{self.path}: the header line has more than {formats.MOST_COLUMNS} columns"
            )
        self._width = len(names)
        while len(names) > 1 and not names[-1]:
            names.pop()  # every line ends with delimiters, as of blank columns of a spreadsheet
        self.names = formats.checked_names(self.path, names)

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """Texts without the blanks around them."""
        done = 0
        try:
            for batch in self._batches([self.names.index(name) for name in columns]):
                done += len(batch)
                for start in range(0, len(batch), rows):
                    yield dict(zip(columns, batch.slice(start, rows).columns, strict=True))
        except pa.ArrowInvalid:  # it does not say what is wrong with which line, and may repeat a cell
            self._file.seek(0)
            self._start_reading()
            yield from self._line_by_line(columns, rows, done)

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

    def _line_by_line(self, columns: Sequence[str], rows: int, done: int) -> Iterator[dict[str, Any]]:
        """The rows behind the first ``done``."""
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
    with formats.open_packed(path) as file:
        start = file.read(MOST_BYTES)
        if not start:
            raise FileFormatError(f"{path}: the file is empty")
        wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = "utf-16" if wide else "utf-8-sig"
        if private:
            return encoding
        decoder: Any = codecs.getincrementaldecoder(encoding)()
        western = not wide
        for chunk in chain([start], iter(lambda: file.read(MOST_BYTES), b""), [b""]):
            if len(chunk) == MOST_BYTES and b"\n" not in chunk and b"\r" not in chunk:
                raise FileFormatError(f"{path}: a line is longer than {MOST_BYTES >> 20} MB")
            if not wide and b"\0" in chunk:
                raise FileFormatError(f"{path}: not a text file, or one in UTF-16 that does not say so")
            if chunk and chunk.isascii() and not wide:
                continue
            western = western and not any(code in chunk for code in UNDEFINED_IN_WINDOWS_1252)
            try:
                if decoder is not None and END in decoder.decode(chunk, final=not chunk):
                    raise FileFormatError(f"{path}: the file has NUL characters: it is damaged, or no text")
            except UnicodeDecodeError:
                decoder = None
            if decoder is None and not western:
                raise FileFormatError(f"{path}: not a text file in UTF-8, UTF-16 or Windows-1252")
    if decoder is None:
        warnings.warn(f"{path}: not in UTF-8: read as Windows-1252", OnefoldWarning, stacklevel=2)
    return encoding


UNDEFINED_IN_WINDOWS_1252 = b"\x81\x8d\x8f\x90\x9d"


def _delimiter(sample: list[str]) -> str:
    """The delimiter that gives the header more than one cell and most of the lines as many."""

    def score(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True)]
        return (widths.count(widths[0]) / len(widths), widths[0]) if widths[0] > 1 else (0.0, 0)

    return max(DELIMITERS, key=score)


# --- tables of any kind -------------------------------------------------------------------------------------

READERS: dict[str, type[formats.Source]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".jsonl": formats.JsonLinesSource,
    ".ndjson": formats.JsonLinesSource,
    ".npz": formats.NpzSource,
    ".xlsx": formats.ExcelSource,
    **dict.fromkeys((*formats.PARQUET, *formats.ARROW), formats.ParquetSource),
}
SUFFIXES = (".gz", ".sql", *READERS)


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, Any]):
    """Columns of a file: a mapping from their names to arrays of one length.

    Parameters
    ----------
    path : Path or str
        The file or folder, or the address in a database.
    columns : dict of str to ndarray
        The columns, in the order of the file or as asked for. Those that a schema has read are of a type that
        only a schema understands. Texts may be held by Arrow until somebody asks the table for them.
    n_rows : int
        Number of rows.
    """

    path: Path | str
    columns: dict[str, Any]
    n_rows: int

    def __getitem__(self, name: str) -> Any:
        column = self.columns[name] = plain_column(self.columns[name])
        return column

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def stem_of(path: str) -> str:
    """Return the name of a table without folder and suffixes, from which the names of results are made.

    Parameters
    ----------
    path : str
        A file or an address that :func:`read_table` understands.

    Returns
    -------
    str
        Its name.
    """
    name = Path(path.rpartition("#")[2] if formats.is_address(path) else path).name
    while Path(name).suffix.lower() in SUFFIXES:
        name = Path(name).stem
    return name


def open_table(path: Any, *, private: bool = False) -> formats.Source:
    """Open a table with the reader that its name asks for.

    Parameters
    ----------
    path : path, str or table
        A table in memory, of any kind. Or a file ending in .csv, .tsv, .jsonl, .xlsx, .npz, .parquet or
        .arrow; also .gz behind .csv, .tsv and .jsonl. Or a folder of Parquet or Arrow files, or the address
        of a table in a database, ``sqlite:///FILE#TABLE``.
    private : bool, default=False
        Whether privacy is promised for the rows: then no row of a CSV file decides how others are read, or
        that something is said. Its delimiter follows from its header alone.

    Returns
    -------
    Source
        To be used in a ``with`` block.
    """
    if not isinstance(path, (str, Path)):
        return Held(path, private=private)
    if formats.is_address(path):
        return formats.DatabaseSource(str(path), private=private)
    path = Path(path)
    if path.is_dir():
        return formats.ParquetSource(path, private=private)
    name = path.name.lower()
    reader = READERS.get(Path(name.removesuffix(".gz")).suffix)
    if reader is None or (name.endswith(".gz") and reader not in (CsvSource, formats.JsonLinesSource)):
        raise InvalidInputError(
            f"{path}: the name must end in .csv, .csv.gz, .tsv, .jsonl, .xlsx, .npz, .parquet or .arrow"
        )
    if not path.is_file():
        raise InvalidInputError(f"{path}: {'not a' if path.exists() else 'no such'} file")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    with formats.own_errors(path):
        return reader(path, private=private)


def gather(source: formats.Source, columns: Sequence[str]) -> Table:
    """Read columns of an open file to its end, as they stand.

    Parameters
    ----------
    source : Source
        The open file.
    columns : sequence of str
        The columns wanted.

    Returns
    -------
    Table
        The columns, in the order asked for.
    """
    blocks = list(source.blocks(columns))
    # One column after the other, so that no more than one is there twice.
    found = {name: join_blocks([block.pop(name) for block in blocks]) for name in dict.fromkeys(columns)}
    return Table(source.path, found, len(next(iter(found.values()))))


class Held(formats.Source):
    """A table in memory: a frame, a dict of columns, or an array without names."""

    def _open(self) -> None:
        table = self.path
        self.path = getattr(table, "path", None) or "the table"
        if getattr(table, "ndim", 0) == 2 and not hasattr(table, "columns"):
            table = {f"x{number}": column for number, column in enumerate(np.asarray(table).T)}
            self.matrix, self.named = tuple(table), False
        self.table = table
        self.names = tuple(names_of(table))

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        found = {name: named(self.table, name) for name in columns}
        yield {
            name: column if is_texts(column) else column_array(plain_column(column))
            for name, column in found.items()
        }


def join_blocks(parts: list[Any]) -> Any:
    """Join blocks of a column to one array; no cell of one block changes what those of another are."""
    if all(map(is_texts, parts)):
        return pa.chunked_array([chunk for part in parts for chunk in getattr(part, "chunks", [part])])
    parts = list(map(plain_column, parts))
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) == 1 or kinds <= {*"iuf"}:
        joined = np.concatenate(parts)
        if kinds <= {"f"} or not rounds_whole(joined):
            return joined
    return np.fromiter(chain.from_iterable(parts), dtype=object, count=sum(map(len, parts)))
