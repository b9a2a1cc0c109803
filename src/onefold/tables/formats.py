"""What every source of a table can do, and those that hold values: arrays, Parquet, JSON, Excel, databases.

A source names its columns, and hands out its cells in blocks of rows. Messages name columns, rows and lines
and never repeat a cell, because the cells may be private. What a database says about a failure may repeat
one, so messages are made here, from its code.
"""

import codecs
import gzip
import math
import re
import sqlite3
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote
from uuid import UUID

import numpy as np
import pyarrow as pa

from onefold._base.arrays import AnyArray
from onefold._base.foreign import NOT_READABLE, claimed, parse_json
from onefold._base.optional import require
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError
from onefold.tables.cells import LOOKS_LIKE_A_NUMBER, column_from, is_texts, plain_column, text_of
from onefold.tables.columns import similar_name
from onefold.tables.inference import is_index

BLOCK_ROWS = 20_000
MOST_CELLS = 2_000_000  # of a block: wide tables have blocks of fewer rows
MOST_COLUMNS = 100_000
MOST_BYTES = 4 << 20  # without a line end
MOST_UNPACKED = 1 << 30  # bytes of an Excel workbook
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather")


class Source(AbstractContextManager["Source"]):
    """A table opened for reading.

    Parameters
    ----------
    path : Path or str
        The file or folder, or the address in a database: what messages begin with.
    private : bool, default=False
        Whether no row may decide how others are read, or that something is said.

    Attributes
    ----------
    names : tuple of str
        The columns.
    delimiter : str or None
        What separates the cells of a text file.
    matrix : tuple of str or None
        The columns that stand in one array ``X`` of an NPZ file.
    named : bool
        Whether the file names all its columns; those of an array ``X`` without names are called x0, x1, ...
    """

    def __init__(self, path: Any, *, private: bool = False) -> None:
        self.path, self.private = path, private
        self.names: tuple[str, ...] = ()
        self.delimiter: str | None = None
        self.matrix: tuple[str, ...] | None = None
        self.named = True
        with ExitStack() as self._opened:
            self._open()
            self._opened = self._opened.pop_all()

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _open(self) -> None:
        """Find out the names of the columns; what is to be closed is entered in ``_opened``."""
        raise NotImplementedError

    def require(self, names: Iterable[str]) -> None:
        """Refuse names of columns that the file does not have.

        Parameters
        ----------
        names : iterable of str
            Columns that are needed.
        """
        for name in names:
            if name not in self.names:
                hint = similar_name(name, self.names)
                if self.delimiter is not None and len(self.names) == 1:
                    hint = hint or ": does the header line come first, with the names of all columns?"
                raise InvalidInputError(
                    f"{self.path}: there is no column {name!r} among its {len(self.names)}{hint}"
                )

    def blocks(self, columns: Sequence[str], rows: int = BLOCK_ROWS) -> Iterator[dict[str, Any]]:
        """Yield the columns asked for, in blocks of rows.

        A table without rows is an error, unless it is read privately: then it has one block, without rows.

        Parameters
        ----------
        columns : sequence of str
            Columns of the file.
        rows : int, default=20000
            Number of rows in a block, fewer where the table is very wide.

        Yields
        ------
        dict of str to ndarray or Array
            The columns, in the order asked for; texts may be arrays of Arrow, which fields read fast.
        """
        empty = True
        with own_errors(self.path):
            for block in self._blocks(columns, max(1, min(rows, MOST_CELLS // max(len(self.names), 1)))):
                empty = False
                yield block
        if empty and not self.private:
            raise InvalidInputError(f"{self.path}: the table has no rows")
        if empty:
            yield {name: np.empty(0, dtype=object) for name in columns}

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """The blocks of this format; texts may be arrays of Arrow."""
        raise NotImplementedError

    def _strange_cells(self, name: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self.path}: column {name!r} holds neither numbers, nor dates, nor texts: leave it out, or "
            "convert (CAST) it"
        )


@contextmanager
def own_errors(path: Path | str) -> Iterator[None]:
    """Let whatever goes wrong while a table is read become one line that begins with its place.

    Parameters
    ----------
    path : Path or str
        Where the table is.
    """
    try:
        yield
    except OnefoldError:
        raise
    except PermissionError as error:
        raise InvalidInputError(f"{path}: permission denied") from error
    except MemoryError:
        raise InvalidInputError(f"{path}: not enough memory for this table; try fewer rows") from None
    except NOT_READABLE as error:
        raise FileFormatError(f"{path}: cannot be read, or is damaged") from error


# --- names of columns ---------------------------------------------------------------------------------------


def checked_names(path: Path | str, names: list[str]) -> tuple[str, ...]:
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


# --- arrays of NumPy ----------------------------------------------------------------------------------------

LARGEST_RATIO = 1032  # deflate makes no byte into more than this many


class NpzSource(Source):
    """NumPy arrays: a matrix ``X`` beside 1-D columns, or 1-D columns only. Pickled objects are refused."""

    def _open(self) -> None:
        arrays = self._checked_arrays()
        matrix = arrays.pop("X", None)
        if matrix is not None:
            if matrix.ndim < 2:
                raise FileFormatError(f"{self.path}: the array X must have rows and columns")
            matrix = matrix.reshape(matrix.shape[0], math.prod(matrix.shape[1:]))
            names = arrays.pop("feature_names", None)
            self.named = names is not None
            told = [f"x{j}" for j in range(matrix.shape[1])] if names is None else list(map(str, names.flat))
            if len(told) != matrix.shape[1] or len({*told, *arrays}) < len(told) + len(arrays):
                raise FileFormatError(
                    f"{self.path}: feature_names must hold one distinct name per column of X"
                )
            self.matrix = tuple(told)
            arrays = dict(zip(told, matrix.T, strict=True)) | arrays
        self._arrays, self.names = arrays, tuple(arrays)

    def _checked_arrays(self) -> dict[str, AnyArray]:
        try:
            _check_claims(self.path)
            with np.load(self.path, allow_pickle=False) as archive:
                return dict(archive)
        except (MemoryError, PermissionError):
            raise
        except NOT_READABLE as error:
            reason = "not an NPZ archive, or a damaged one"
            if isinstance(error, FileFormatError):
                reason = str(error)
            elif "allow_pickle" in str(error):
                reason = "arrays of Python objects are refused; store numbers or text"
            raise FileFormatError(f"{self.path}: {reason}") from None

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, AnyArray]]:
        """Slices of the arrays."""
        chosen = {name: self._arrays[name] for name in columns}
        shapes = {array.shape for array in chosen.values()}
        if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
            raise FileFormatError(f"{self.path}: the arrays do not have one entry for each row")
        for start in range(0, next(iter(shapes))[0] if shapes else 0, rows):
            yield {name: array[start : start + rows] for name, array in chosen.items()}


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


# --- Parquet and Arrow --------------------------------------------------------------------------------------


class ParquetSource(Source):
    """A Parquet or Arrow file, or those of one folder in the order of their names, of any length."""

    def _open(self) -> None:
        is_folder = self.path.is_dir()
        self._parts = sorted(filter(_is_part, self.path.iterdir())) if is_folder else [self.path]
        if not self._parts:
            raise InvalidInputError(
                f"{self.path}: the folder has no .parquet file and no .arrow file (folders inside are not "
                "read)"
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
            raise self._strange_cells(name) from None


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


# --- rows of Python's values --------------------------------------------------------------------------------


def open_packed(path: Path) -> IO[bytes]:
    """The bytes of a file, compressed by gzip or not."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _western(error: Any) -> tuple[str, int]:
    """Read bytes that are no UTF-8 as Windows-1252, and no byte besides them."""
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


WESTERN_BYTES = "onefold-western-bytes"
codecs.register_error(WESTERN_BYTES, _western)


class JsonLinesSource(Source):
    """A JSON object in every line: its keys are columns, and what a line does not name is missing there."""

    def _open(self) -> None:
        names = dict.fromkeys(name for row in self._rows() for name in row)
        self.names = checked_names(self.path, [*names] or [""])

    def _rows(self) -> Iterator[dict[str, Any]]:
        with open_packed(self.path) as file:
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
                raise self._strange_cells(name)
            yield {name: column_from(column) for name, column in cells.items()}


class ExcelSource(Source):
    """The first sheet of an Excel workbook (extra ``excel``); formulas are what Excel calculated."""

    def _open(self) -> None:
        excel = require("openpyxl", "excel")
        try:
            with zipfile.ZipFile(self.path) as archive:
                claimed(sum(member.file_size for member in archive.infolist()), MOST_UNPACKED)
            with warnings.catch_warnings(action="ignore"):
                book = excel.load_workbook(self.path, read_only=True, data_only=True)
            self._opened.callback(book.close)
            self._lines = book.worksheets[0].iter_rows(values_only=True)
        except NOT_READABLE as error:
            raise FileFormatError(
                f"{self.path}: not an Excel workbook, a damaged or too large one"
            ) from error
        names = [*next(filter(any, self._lines), ("",))]
        while len(names) > 1 and names[-1] is None:
            names.pop()
        self.names = checked_names(self.path, ["" if name is None else text_of(name) for name in names])

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


# --- databases ----------------------------------------------------------------------------------------------

FORM = "postgresql://USER@HOST:PORT/DATABASE#TABLE or sqlite:///FILE#TABLE, or #FILE.sql with a SELECT"
# Every transaction of a session only reads, and moments are written in UTC.
POSTGRESQL = {
    "connect_timeout": 10,
    "options": "-c default_transaction_read_only=on -c timezone=UTC -c datestyle=ISO",
}
READS_ONLY = "the statement changes the database; a SELECT that only reads is needed"
NOT_ACCEPTED = "the database does not accept the statement"
# By codes of the SQL standard, or how they begin, of SQLite, and where there is none by the kind of error.
FAILURES = {
    "25006": READS_ONLY,
    "SQLITE_READONLY": READS_ONLY,
    "42501": "this user may not read the table",
    "42": NOT_ACCEPTED,
    "SQLITE_ERROR": NOT_ACCEPTED,
    "22": "a value cannot be converted as the statement asks",
    "SQLITE_NOTADB": "not a SQLite database, or a damaged one",
    "SQLITE_CORRUPT": "a damaged SQLite database",
    "SQLITE_BUSY": "another program has locked the database; try again later",
    "ProgrammingError": NOT_ACCEPTED,
    "OperationalError": "cannot connect: check host, port, user, database and password (PGPASSWORD, .pgpass)",
}
CELL_TYPES = (type(None), int, float, Decimal, str, UUID)


def is_address(text: object) -> bool:
    """Whether a text is the address of a database rather than the name of a file.

    Parameters
    ----------
    text : object
        What names a table.

    Returns
    -------
    bool
        Whether it begins with a scheme such as ``postgresql://``.
    """
    return isinstance(text, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def split_address(address: str) -> tuple[Any, str]:
    """Split an address into the database and what is read there.

    Parameters
    ----------
    address : str
        A URL without a password, ``#``, and a table or a file that ends in .sql.

    Returns
    -------
    tuple of URL and str
        The URL of SQLAlchemy, and what stands after ``#``.
    """
    sql = require("sqlalchemy", "sql")
    place, _, asked = address.partition("#")
    try:
        url = sql.make_url(place)
    except (sql.exc.ArgumentError, ValueError):
        url = None
    if url is not None and (url.password is not None or any("password" in name for name in url.query)):
        raise InvalidInputError(
            "the address holds a password, which others on this machine can see: leave it out, and set "
            "PGPASSWORD or write it to .pgpass"
        )
    if url is None or url.drivername not in ("postgresql", "sqlite") or (url.host and not url.database):
        raise InvalidInputError(f"the address of a database must look like {FORM}")
    if not asked:
        raise InvalidInputError(f"{place}: name a table or a file with a SELECT: {FORM}")
    return url, asked


class DatabaseSource(Source):
    """The rows of a table, or of a SELECT statement, read through SQLAlchemy (extra ``sql``).

    An address is a URL of SQLAlchemy, and after ``#`` the name of a table or view, or of a file with one
    SELECT statement. Nothing is ever written.
    """

    def _open(self) -> None:
        address = self.path
        url, asked = split_address(address)
        self.path = f"{address.partition('#')[0].partition('?')[0]}#{asked}"
        self._sql = require("sqlalchemy", "sql")
        options: dict[str, Any] = {"connect_args": POSTGRESQL}
        if url.drivername == "sqlite":
            file = Path(url.database or "")
            if not file.is_file():
                raise InvalidInputError(f"{self.path}: no such file")
            url, options = "sqlite://", {"creator": lambda: _sqlite_reader(file)}
        else:
            require("psycopg", "sql")
            url = url.set(drivername="postgresql+psycopg")
        engine = self._sql.create_engine(url, poolclass=self._sql.pool.NullPool, **options)
        connection = self._opened.enter_context(closing(self._asked(engine.connect)))
        connection = connection.execution_options(stream_results=True, no_parameters=True)
        if connection.dialect.name == "postgresql":  # dates are texts, since Python lacks some of them
            adapters = connection.connection.driver_connection.adapters
            for name in ("date", "timestamp", "timestamptz"):
                adapters.register_loader(name, require("psycopg.types.string", "sql").TextLoader)
        by_statement = asked.endswith(".sql")
        statement = _statement(asked) if by_statement else self._all_of(connection, asked)
        self._rows = self._asked(lambda: connection.exec_driver_sql(statement))
        if not self._rows.returns_rows:
            raise InvalidInputError(f"{self.path}: the statement gives no table; a SELECT is needed")
        self.names = tuple(str(name) for name in self._rows.keys())  # noqa: SIM118 (no mapping)
        if len(set(self.names)) != len(self.names):
            raise InvalidInputError(f"{self.path}: two columns have the same name; name them with AS")

    def _all_of(self, connection: Any, name: str) -> str:
        """The statement for all rows of exactly this table, whatever signs its name has."""
        namespace, _, table = name.rpartition(".")
        inspector = self._asked(lambda: self._sql.inspect(connection))
        schema = namespace or None
        if not self._asked(lambda: inspector.has_table(table, schema)):
            names = self._asked(lambda: inspector.get_table_names(schema) + inspector.get_view_names(schema))
            raise InvalidInputError(f"{self.path}: there is no table {name!r}{similar_name(table, names)}")
        quoted = connection.dialect.identifier_preparer.quote_identifier
        return f"SELECT * FROM {'.'.join(quoted(part) for part in (namespace, table) if part)}"

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._sql.exc.SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
        name = type(cause).__name__
        code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or name
        reason = FAILURES.get(code) or FAILURES.get(code[:2], "the database refused the request")
        # Outside, so that no cause comes along, which may show a cell.
        raise InvalidInputError(f"{self.path}: {reason} ({name if code == name else f'{name}, code {code}'})")

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """Rows as the database sends them; a missing value is None among texts and NaN among numbers."""
        places = {name: self.names.index(name) for name in columns}
        while block := self._asked(lambda: self._rows.fetchmany(rows)):
            yield {name: self._column(name, [row[place] for row in block]) for name, place in places.items()}

    def _column(self, name: str, cells: list[Any]) -> Any:
        if not self.private and not all(isinstance(cell, CELL_TYPES) for cell in cells):
            raise self._strange_cells(name)
        plain = {UUID: str, Decimal: float}
        return column_from([plain[type(cell)](cell) if type(cell) in plain else cell for cell in cells])


def _sqlite_reader(file: Path) -> Any:
    """A connection to a SQLite file that cannot write, whatever the bytes of its texts are."""
    address = f"file:{quote(str(file.absolute()))}?mode=ro"
    # SQLAlchemy hands a connection to no other thread.
    connection = sqlite3.connect(address, uri=True, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)  # which would make a file
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


def _statement(path: str) -> str:
    try:
        # Without its end: the statement becomes a part of another one.
        return Path(path).read_text(encoding="utf-8-sig").strip().rstrip(";")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: not a text in UTF-8") from None
