"""Tables in PostgreSQL and SQLite, read through SQLAlchemy (extra ``sql``) and never written.

An address is a URL of SQLAlchemy, and after ``#`` the name of a table or view, or of a file with one SELECT
statement. What a database says about a failure may repeat a cell, so messages are made here, from its code.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

from onefold._base.optional import require
from onefold.exceptions import InvalidInputError
from onefold.tables.blocks import MOST_CELLS, Source
from onefold.tables.cells import column_from

__all__ = ["DatabaseSource", "is_address", "split_address"]

FORM = "postgresql://USER@HOST:PORT/DATABASE#TABLE or sqlite:///FILE#TABLE, or #FILE.sql with a SELECT"
# Every transaction of a session only reads, and moments are written in UTC.
POSTGRESQL = {
    "connect_timeout": 10,
    "options": "-c default_transaction_read_only=on -c timezone=UTC -c datestyle=ISO",
}
# By codes of the SQL standard, or how they begin, of SQLite, and where there is none by the kind of error.
FAILURES = {
    "25006": "the statement changes the database; a SELECT that only reads is needed",
    "SQLITE_READONLY": "the statement changes the database; a SELECT that only reads is needed",
    "42501": "this user may not read the table",
    "42": "the database does not accept the statement",
    "SQLITE_ERROR": "the database does not accept the statement",
    "22": "a value cannot be converted as the statement asks",
    "SQLITE_NOTADB": "not a SQLite database, or a damaged one",
    "SQLITE_CORRUPT": "a damaged SQLite database",
    "SQLITE_BUSY": "another program has locked the database; try again later",
    "ProgrammingError": "the database does not accept the statement",
    "OperationalError": "cannot connect: check host, port, user, database and password (PGPASSWORD, .pgpass)",
}


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
    """The rows of a table, or of a SELECT statement.

    Parameters
    ----------
    address : str
        Where the table is.
    private : bool, default=False
        Whether no row may decide that there is an error.
    """

    def __init__(self, address: str, *, private: bool = False) -> None:
        url, asked = split_address(address)
        super().__init__(f"{address.partition('#')[0].partition('?')[0]}#{asked}", private=private)
        self._sql = require("sqlalchemy", "sql")
        options: dict[str, Any] = {"poolclass": self._sql.pool.NullPool}
        if url.drivername == "sqlite":
            if not Path(url.database or "").is_file():
                raise InvalidInputError(f"{self.path}: no such file")
            engine = self._sql.create_engine("sqlite://", creator=lambda: _reading(url.database), **options)
        else:
            require("psycopg", "sql")
            url = url.set(drivername="postgresql+psycopg")
            engine = self._sql.create_engine(url, connect_args=POSTGRESQL, **options)
        self._connection = self._asked(engine.connect)
        try:
            self._open(asked)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the transaction and close the connection."""
        self._connection.close()

    def _open(self, asked: str) -> None:
        connection = self._connection.execution_options(stream_results=True, no_parameters=True)
        if self._connection.dialect.name == "postgresql":  # dates are texts, since Python lacks some of them
            adapters = connection.connection.driver_connection.adapters
            for name in ("date", "timestamp", "timestamptz"):
                adapters.register_loader(name, require("psycopg.types.string", "sql").TextLoader)
        statement = _statement(asked) if asked.endswith(".sql") else f"SELECT * FROM {self._quoted(asked)}"
        self._rows = self._asked(lambda: connection.exec_driver_sql(statement))
        if not self._rows.returns_rows:
            raise InvalidInputError(f"{self.path}: the statement gives no table; a SELECT is needed")
        self.names = tuple(str(name) for name in self._rows.keys())  # noqa: SIM118 (no mapping)
        if len(set(self.names)) != len(self.names):
            raise InvalidInputError(f"{self.path}: two columns have the same name; name them with AS")

    def _quoted(self, name: str) -> str:
        """The table as a statement names it; exactly this one, whatever signs its name has."""
        namespace, _, table = name.rpartition(".")
        schema = namespace or None
        inspector = self._asked(lambda: self._sql.inspect(self._connection))
        if not self._asked(lambda: inspector.has_table(table, schema)):
            known = self._asked(lambda: inspector.get_table_names(schema) + inspector.get_view_names(schema))
            near = get_close_matches(table, known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise InvalidInputError(f"{self.path}: there is no table {name!r}{hint}")
        quoted = self._connection.dialect.identifier_preparer.quote_identifier
        return ".".join(quoted(part) for part in (namespace, table) if part)

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
        rows = max(1, min(rows, MOST_CELLS // max(len(self.names), 1)))
        places = {name: self.names.index(name) for name in columns}
        while found := self._asked(lambda: self._rows.fetchmany(rows)):
            yield {name: self._plain(name, [row[place] for row in found]) for name, place in places.items()}

    def _plain(self, name: str, cells: list[Any]) -> Any:
        if not self.private and not all(isinstance(cell, KNOWN) for cell in cells):
            raise InvalidInputError(
                f"{self.path}: column {name!r} holds neither numbers, nor dates, nor texts: leave it out, or "
                "CAST it in the statement"
            )
        texts = (str(cell) if isinstance(cell, UUID) else cell for cell in cells)
        return column_from([float(cell) if isinstance(cell, Decimal) else cell for cell in texts])


KNOWN = (type(None), int, float, Decimal, str, UUID)


def _reading(file: str) -> Any:
    """A connection to a SQLite file that cannot write, whatever the bytes of its texts are."""
    address = f"file:{quote(str(Path(file).absolute()))}?mode=ro"
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
