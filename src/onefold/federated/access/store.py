"""The tables of a site's folder and of a server's: what is decided, counted and noted, in one file.

The classes that use a table take the folder's :class:`Store`, or the path of a file of their own. What they
change inside one ``store.transaction()`` happens together.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onefold._base.state import State

__all__ = ["Place", "Store", "opened", "put_value", "value_of"]

TABLES = (
    """
    CREATE TABLE singles (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT;
    CREATE TABLE log (number INTEGER PRIMARY KEY, entry TEXT NOT NULL, sum TEXT NOT NULL) STRICT;
    CREATE TABLE counts (
        counter TEXT NOT NULL, caller TEXT NOT NULL, rows INTEGER NOT NULL CHECK (rows >= 0),
        PRIMARY KEY (counter, caller)
    ) STRICT;
    CREATE TABLE recent (
        counter TEXT NOT NULL, caller TEXT NOT NULL, time REAL NOT NULL,
        rows INTEGER NOT NULL CHECK (rows >= 0)
    ) STRICT;
    CREATE INDEX recent_callers ON recent (counter, caller);
    CREATE INDEX recent_times ON recent (time);
    CREATE TABLE replays (mark TEXT PRIMARY KEY, time INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE INDEX replay_times ON replays (time);
    CREATE TABLE approvals (
        number INTEGER PRIMARY KEY, subject TEXT NOT NULL, name TEXT NOT NULL, public TEXT NOT NULL,
        purpose TEXT, decision TEXT NOT NULL, answered INTEGER NOT NULL CHECK (answered >= 0),
        asked INTEGER NOT NULL CHECK (asked >= 0), allowed INTEGER, until INTEGER, stated TEXT NOT NULL
    ) STRICT;
    CREATE INDEX approval_keys ON approvals (subject, public, purpose);
    CREATE TABLE forgotten (mark TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE sites (
        name TEXT PRIMARY KEY, public_key TEXT NOT NULL, status TEXT NOT NULL, node_id TEXT,
        profile BLOB, reason TEXT
    ) STRICT;
    CREATE TABLE sightings (
        site TEXT PRIMARY KEY, last_seen REAL, queries INTEGER NOT NULL, rows INTEGER NOT NULL,
        version TEXT, flower TEXT, declared_rows INTEGER, budget TEXT
    ) STRICT
    """,
)


class Store(State):
    """The tables of one folder, made when they are first used.

    Parameters
    ----------
    path : path or None, default=None
        The file, in a folder that exists; None keeps the tables in memory, for this process alone.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__("memory" if path is None else path, "federation state", TABLES)
        self._lock = threading.RLock()
        self._memory: sqlite3.Connection | None = None
        if path is None:
            self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if self._memory is None:
            self.create()
            with super()._opened() as db:
                yield db
            return
        with self._lock:
            try:
                yield self._memory
            finally:
                if self._memory.in_transaction:
                    self._memory.execute("ROLLBACK")


Place = Store | str | os.PathLike[str] | None


def opened(place: Place) -> Store:
    """The store that a class was given, or that of a file of its own; None keeps it in memory."""
    return place if isinstance(place, Store) else Store(place)


def value_of(db: sqlite3.Connection, name: str, default: Any) -> Any:
    """A value of which there is one."""
    row = db.execute("SELECT value FROM singles WHERE name = ?", (name,)).fetchone()
    return default if row is None else row[0]


def put_value(db: sqlite3.Connection, name: str, value: Any) -> None:
    """Put a value of which there is one."""
    db.execute("INSERT OR REPLACE INTO singles VALUES (?, ?)", (name, value))
