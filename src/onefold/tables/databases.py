"""Tables in databases: PostgreSQL and SQLite, read through SQLAlchemy (extra ``sql``) and never written.

A statement is run in a read-only transaction and its rows arrive in blocks. What a database says about a
failure may repeat a cell or a part of the statement, so messages are made here, from the kind of failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from uuid import UUID

import numpy as np

from onefold._base.arrays import AnyArray
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError
from onefold.tables.blocks import MOST_CELLS, Source

__all__ = ["DatabaseAddress", "DatabaseSource", "is_address"]

SCHEMES = ("postgresql", "postgres", "sqlite")
FORM = "postgresql://USER@HOST:PORT/DATABASE#TABLE or sqlite:///FILE#TABLE"
SECONDS_TO_CONNECT = 10
EXACT_WHOLE = 2**53  # whole numbers up to here are exact in float64
QUOTED = re.compile(
    r"--[^\n]*|/\*.*?\*/|'[^']*'|\"[^\"]*\"|(?<!\w)(\$\w*\$).*?\1|(?P<open>(?:/\*|['\"]|(?<!\w)\$\w*\$).*)",
    re.DOTALL,
)  # comments, texts and quoted names, and what has no end
# What PostgreSQL reports by codes of the SQL standard, and what begins with two signs of them.
FAILURES = {
    "25006": "the statement changes the database; a SELECT that only reads is needed",
    "42501": "this user may not read the table",
    "57014": "the database cancelled the statement (a time limit?)",
    "22": "a value cannot be converted as the statement asks",
    "42": "the database does not accept the statement",  # and says why: about the statement, not about cells
    "53": "the database has too few resources",
    "57": "the database is shutting down or was interrupted",
}
# Signs of SQLite and libpq for what has no code; SQLite's reports about a statement name parts of it.
NAMED = re.compile(r'"(.*)"|: (.+)$', re.DOTALL)  # what a report names: in quotes, or behind a colon
ABOUT_STATEMENT = ("no such table", "no such column", "no such function", "syntax error", "incomplete input")
REPORTS = {
    "readonly database": "the statement changes the database; a SELECT that only reads is needed",
    "is not a database": "not a SQLite database, or a damaged one",
    "malformed": "a damaged SQLite database",
    "locked": "another program has locked the database; try again later",
    "password": "the database wants another password: set PGPASSWORD, use --password-file FILE or .pgpass",
    "does not exist": "the server knows no such database or user",
    "pg_hba.conf": "the server does not let this user in from this machine",
    "certificate": "the certificate of the server cannot be verified",
    "ssl": "server and address do not agree about encryption (see sslmode)",
    "refused": "cannot connect: nothing listens there",
    "no such file": "cannot connect: nothing listens there",
    "timeout": "cannot connect: no answer in time",
    "host name": "cannot connect: the host is not known",
    "resolve host": "cannot connect: the host is not known",
    "connection option": "the address has an option that PostgreSQL does not know",
    "connection": "cannot connect, or the connection broke: check host, port and network",
    "server": "cannot connect, or the connection broke: check host, port and network",
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


class DatabaseAddress(str):
    """Where a table is in a database; as a text it shows no password and no options.

    Parameters
    ----------
    text : str
        ``postgresql://USER@HOST:PORT/DATABASE`` or ``sqlite:///FILE`` (four slashes before an absolute path),
        with the name of a table after ``#`` unless ``table`` or ``query`` is given. A table of another
        namespace is written ``NAMESPACE.TABLE``. Options of libpq may follow a question mark:
        ``?sslmode=verify-full``. A password in the address is refused.
    table : str or None, default=None
        Name of the table or view.
    query : str or None, default=None
        A SELECT statement, instead of a table.
    password : str or None, default=None
        Password for PostgreSQL. None leaves it to libpq: ``PGPASSWORD`` or a ``.pgpass`` file.

    Attributes
    ----------
    file : Path or None
        The file of a SQLite database.

    See Also
    --------
    read_table : Reads the table.

    Examples
    --------
    >>> from onefold.tables import DatabaseAddress
    >>> print(DatabaseAddress("postgresql://ann@db.example.org/ward?sslmode=require", table="visits"))
    postgresql://ann@db.example.org/ward#visits
    """

    table: str | None
    query: str | None
    file: Path | None
    _parameters: dict[str, str]

    def __new__(  # noqa: D102 (the parameters are those of the class)
        cls, text: str, *, table: str | None = None, query: str | None = None, password: str | None = None
    ) -> Self:
        scheme, _, rest = str(text).partition("://")
        scheme = scheme.lower()
        if scheme not in SCHEMES:
            raise InvalidInputError(f"the address of a database must look like {FORM}")
        if ":" in rest.rpartition("@")[0]:
            raise InvalidInputError(
                "the address holds a password, which others on this machine can see: leave it out, and set "
                "PGPASSWORD or use --password-file FILE"
            )
        shown, fragment, file, parameters = (_sqlite if scheme == "sqlite" else _postgresql)(rest)
        if fragment and table is not None:
            raise InvalidInputError("the address names a table already: leave out the table beside it")
        table = fragment or table
        if (table is None) == (query is None):
            raise InvalidInputError(
                f"{shown}: name a table (ADDRESS#TABLE or --table NAME) or give a statement (--query FILE), "
                "one of them"
            )
        if query is not None:
            _check_statement(shown, query)
        self = super().__new__(cls, shown if table is None else f"{shown}#{table}")
        self.table, self.query, self.file = table, query, file
        self._parameters = parameters if password is None else parameters | {"password": password}
        return self

    def __getnewargs_ex__(self) -> Any:
        raise TypeError("an address of a database may hold a password and is not stored")

    @property
    def stem(self) -> str:
        """A name for files that are made from this table."""
        name = self.table or (self.file.stem if self.file else self._parameters.get("dbname", ""))
        return re.sub(r"[^\w.-]+", "_", name) or "table"

    def connect(self, *, private: bool = False) -> Any:
        """Open a connection that cannot write.

        Parameters
        ----------
        private : bool, default=False
            Whether a date that Python does not know is missing rather than an error.

        Returns
        -------
        Connection
            Of the module sqlite3 or psycopg.
        """
        if self.file is not None:
            import sqlite3

            address = f"file:{quote(str(self.file.absolute()))}?mode=ro"
            # SQLAlchemy hands a connection to no other thread.
            connection = sqlite3.connect(address, uri=True, check_same_thread=False)
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            connection.execute("PRAGMA query_only = ON")
            return connection
        psycopg = require("psycopg", "sql")
        opened = psycopg.connect(**self._parameters)
        if private:
            for name, loader in _lenient_loaders().items():
                opened.adapters.register_loader(name, loader)
        return opened


def _sqlite(rest: str) -> tuple[str, str, Path, dict[str, str]]:
    if not rest.startswith("/") or rest.strip("/") == "":
        raise InvalidInputError(f"the address of a database must look like {FORM}")
    path, _, table = rest[1:].partition("#")
    return f"sqlite:///{path}", unquote(table), Path(unquote(path)), {}


def _postgresql(rest: str) -> tuple[str, str, None, dict[str, str]]:
    try:
        parts = urlsplit(f"postgresql://{rest}")
        found = {
            "host": unquote(parts.hostname or ""),
            "port": str(parts.port or ""),
            "user": unquote(parts.username or ""),
            "dbname": unquote(parts.path.lstrip("/")),
        }
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise InvalidInputError(f"the address of a database must look like {FORM}") from None
    if any("password" in name.lower() for name in options):
        raise InvalidInputError(
            "the address holds a password, which others on this machine can see: leave it out, and set "
            "PGPASSWORD or use --password-file FILE"
        )
    known = {name: value for name, value in found.items() if value}
    defaults = {"connect_timeout": str(SECONDS_TO_CONNECT), "fallback_application_name": "onefold"}
    return (
        f"postgresql://{parts.netloc}{parts.path}",
        unquote(parts.fragment),
        None,
        defaults | known | options,
    )


def _check_statement(shown: str, statement: str) -> None:
    """Refuse what is no single SELECT; that nothing is written is the transaction's business."""
    if "\\'" in statement or any(found["open"] for found in QUOTED.finditer(statement)):
        raise InvalidInputError(
            f"{shown}: the statement has a quote or a comment without end, or a backslash before a quote"
        )
    bare = QUOTED.sub(" ", statement).strip().rstrip(";").strip()
    first = re.match(r"\(*\s*(\w*)", bare)
    if first is None or first[1].upper() not in ("SELECT", "WITH"):
        raise InvalidInputError(f"{shown}: the statement is not a SELECT; only reading is allowed")
    if ";" in bare:
        raise InvalidInputError(f"{shown}: more than one statement; give a single SELECT")


class DatabaseSource(Source):
    """The rows of a table or of a SELECT statement.

    Parameters
    ----------
    address : DatabaseAddress
        Where the table is.
    private : bool, default=False
        Whether no row may decide that there is an error.
    """

    def __init__(self, address: DatabaseAddress, *, private: bool = False) -> None:
        super().__init__(address)
        self.private = private
        self._sql = require("sqlalchemy", "sql")
        if address.file is None:
            require("psycopg", "sql")
        elif not address.file.is_file():
            raise InvalidInputError(f"{address}: no such file")
        dialect = "sqlite://" if address.file is not None else "postgresql+psycopg://"
        self._engine = self._sql.create_engine(
            dialect, creator=lambda: address.connect(private=private), poolclass=self._sql.pool.NullPool
        )
        self._connection: Any = None
        try:
            self._open(address)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the transaction and close the connection."""
        if self._connection is not None:
            with suppress(self._sql.exc.SQLAlchemyError):  # it may be gone already
                self._connection.close()
            self._connection = None
        self._engine.dispose()

    def _open(self, address: DatabaseAddress) -> None:
        options: dict[str, Any] = {"stream_results": True, "no_parameters": True}
        if address.file is None:
            options |= {"postgresql_readonly": True, "isolation_level": "REPEATABLE READ"}
        self._connection = self._asked(lambda: self._engine.connect().execution_options(**options))
        statement = address.query or f"SELECT * FROM {self._quoted(str(address.table))}"
        # Without its end: the statement becomes a part of another one.
        self._rows = self._asked(lambda: self._connection.exec_driver_sql(statement.strip().rstrip(";")))
        names = tuple(str(name) for name in self._rows.keys())  # noqa: SIM118 (no mapping)
        if len(set(names)) != len(names):
            raise InvalidInputError(f"{self.path}: two columns have the same name; name them with AS")
        self.names = names
        self._codes = [column[1] for column in self._rows.cursor.description]

    def _quoted(self, name: str) -> str:
        """The table as a statement names it; exactly this one, whatever signs its name has."""
        namespace, _, table = name.rpartition(".")
        inspector = self._asked(lambda: self._sql.inspect(self._connection))
        if not self._asked(lambda: inspector.has_table(table, schema=namespace or None)):
            known = self._asked(
                lambda: [
                    *inspector.get_table_names(schema=namespace or None),
                    *inspector.get_view_names(schema=namespace or None),
                ]
            )
            near = get_close_matches(table, known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise InvalidInputError(f"{self.path}: there is no table {name!r}{hint}")
        quoted = self._engine.dialect.identifier_preparer.quote_identifier
        return ".".join(quoted(part) for part in (namespace, table) if part)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (self._sql.exc.SQLAlchemyError, UnicodeError) as error:
            reason = _reason(error)
        # Outside, so that no cause comes along, which may show a cell.
        raise InvalidInputError(f"{self.path}: {reason}")

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, AnyArray]]:
        """Rows as the database sends them; a missing value is None among texts and NaN among numbers."""
        rows = max(1, min(rows, MOST_CELLS // max(len(self.names), 1)))
        places = {name: self.names.index(name) for name in columns}
        while found := self._asked(lambda: self._rows.fetchmany(rows)):
            yield {
                name: self._plain(name, [row[place] for row in found], self._codes[place])
                for name, place in places.items()
            }

    def _plain(self, name: str, cells: list[Any], code: Any) -> AnyArray:
        """A column of a block; PostgreSQL says of what type, in SQLite each cell has its own."""
        kinds = {_kind(cell) for cell in cells if cell is not None} or {KINDS_BY_CODE.get(code, "text")}
        if "other" in kinds and not self.private:
            raise InvalidInputError(
                f"{self.path}: column {name!r} holds neither numbers, nor dates, nor texts: leave it out, or "
                "CAST it in the statement"
            )
        if kinds <= {"whole", "number"}:
            small = all(abs(cell) <= EXACT_WHOLE for cell in cells if type(cell) is int)
            if kinds == {"whole"} and None not in cells and (small or all(abs(c) < 2**63 for c in cells)):
                return np.array(cells, dtype=np.int64)
            if small:
                return np.array([np.nan if cell is None else float(cell) for cell in cells])
        if kinds == {"truth"} and None not in cells:
            return np.array(cells, dtype=np.bool_)
        if kinds == {"date"}:
            return np.array(cells, dtype="datetime64[D]")
        if kinds == {"moment"}:
            return np.array([cell and _in_utc(cell) for cell in cells], dtype="datetime64[us]")
        values = np.empty(len(cells), dtype=object)
        values[:] = [_cell(cell) for cell in cells]
        return values


# Types by the numbers that PostgreSQL gives them: int8, int2, int4; float4, float8, numeric; and so on. They
# matter for a block in which all values are missing.
KINDS_BY_CODE = dict.fromkeys((20, 21, 23, 700, 701, 1700), "number") | {
    1082: "date",
    1114: "moment",
    1184: "moment",
}


def _kind(cell: Any) -> str:
    """What a value of a database is."""
    if isinstance(cell, bool):
        return "truth"
    if isinstance(cell, int):
        return "whole"
    if isinstance(cell, (float, Decimal)):
        return "number"
    if isinstance(cell, datetime):
        return "moment"
    if isinstance(cell, date):
        return "date"
    return "text" if isinstance(cell, (str, UUID)) else "other"


def _cell(cell: Any) -> Any:
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, UUID):
        return str(cell)
    if isinstance(cell, datetime):
        return _in_utc(cell)
    return float(cell) if isinstance(cell, Decimal) else cell


def _in_utc(moment: datetime) -> datetime:
    with suppress(OverflowError):  # at the ends of the calendar, hours of a time zone are left out
        moment = moment if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(tzinfo=None)


def _lenient_loaders() -> dict[str, Any]:
    """Loaders for dates that Python does not know, such as infinity: they are missing."""
    psycopg, kinds = require("psycopg", "sql"), require("psycopg.types.datetime", "sql")

    def lenient(base: Any) -> Any:
        def load(self: Any, data: Any) -> Any:
            try:
                return base.load(self, data)
            except psycopg.DataError:
                return None

        return type(base.__name__, (base,), {"load": load})

    loaders = {"date": "DateLoader", "timestamp": "TimestampLoader", "timestamptz": "TimestamptzLoader"}
    return {name: lenient(getattr(kinds, loader)) for name, loader in loaders.items()}


def _reason(error: Exception) -> str:
    """Why a database refused, in our words where its own may repeat a cell."""
    cause: Any = getattr(error, "orig", None) or error
    code, text = getattr(cause, "sqlstate", None), str(cause)
    if code is not None:
        reason = FAILURES.get(code) or FAILURES.get(code[:2], "the database refused the request")
        if reason == FAILURES["42"] and _names_no_cell(cause.diag.message_primary, error):
            reason += f": {cause.diag.message_primary}"
        return f"{reason} (code {code})"
    if type(cause).__module__ == "sqlite3" and any(sign in text for sign in ABOUT_STATEMENT):
        return f"{FAILURES['42']}: {text}" if _names_no_cell(text, error) else FAILURES["42"]
    if isinstance(cause, UnicodeError):
        return "a text is not in the encoding that the database declares"
    if type(cause).__name__ == "DataError":
        return "a value does not fit its type in Python, such as a date before the year 1"
    known = (reason for sign, reason in REPORTS.items() if sign in text.lower())
    return next(known, "the database refused the request")


def _names_no_cell(text: str | None, error: Exception) -> bool:
    """Whether whatever a report names is in the statement itself, so that it can come from no cell.

    A search in full text, or a conversion to the name of a table, takes cells for parts of a statement.
    """
    statement = getattr(error, "statement", None)
    if not text or not statement:
        return False
    named = [part for quoted in NAMED.findall(text) for part in quoted if part]
    return all(part.strip() in statement for part in named if part not in ABOUT_STATEMENT)
