"""The one store: the SQLite file of a ledger, a site or a server, changed in whole transactions.

What must not be lost is a row of a table. :meth:`State.transaction` is the only way to change one: it either
happens as a whole and is on the disk when the block ends (WAL, ``synchronous=FULL``), or not at all, whatever
dies or fills up meanwhile. Processes and threads exclude each other; nobody waits for ever.

Every transaction opens the file anew and closes it: nothing is carried over a fork, a file that was removed
or replaced is not written on, and between transactions the file is whole by itself. Copying it while somebody
writes is no backup: :meth:`State.backup` is. A transaction inside another one of the same object and thread
is a part of it: several tables change together, or none.

The number of the layout is SQLite's ``user_version``. A store is a list of steps; opening an older file takes
the missing ones inside one transaction, after a backup beside it. A newer file is refused by name.
"""

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from onefold._base.files import make_file, step, sync_file
from onefold.exceptions import FileFormatError, InvalidInputError

PATIENCE = 60.0  # seconds that one waits for others
PAUSE = 0.005
# "onefold" as a number of 32 bits: a database of another program is refused before it is touched.
APPLICATION = 0x6F6E6566
MAGIC = b"SQLite format 3\0"
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class State:
    """One SQLite file with the tables that its steps make.

    Parameters
    ----------
    path : path
        The file; :meth:`create` makes it.
    kind : str
        What it holds, as errors name it.
    steps : sequence of str
        SQL of each version of the layout, from the first on; the number of steps is the version.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str, steps: Sequence[str]) -> None:
        self.path, self.kind, self.steps = Path(path), kind, tuple(steps)
        self._thread = threading.local()  # its ``db`` is the transaction that is open

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.is_file()

    def create(self) -> None:
        """Make the file with its tables, for the user's account alone, if it is not there."""
        if self.exists():
            return
        step("make", self.path)
        try:
            make_file(self.path)
        except FileExistsError:
            return  # somebody else makes the tables, or the next transaction does
        try:
            with self.transaction():
                pass
        except Exception:
            self.path.unlink(missing_ok=True)
            raise
        sync_file(self.path)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Change the tables: all that the block does happens, and is on the disk when it ends, or nothing."""
        if getattr(self._thread, "db", None) is not None:
            with _part(self._thread.db) as db:
                yield db
            return
        with self._opened() as db:
            self._begin(db)
            try:
                self._migrate(db)
                self._thread.db = db
                yield db
                step("commit", self.path)
                db.execute("COMMIT")
                step("committed", self.path)
            except BaseException:
                if db.in_transaction:
                    with suppress(sqlite3.Error):
                        db.execute("ROLLBACK")
                raise
            finally:
                self._thread.db = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Look at the tables as they are at one moment; an older layout is brought up to date first."""
        if getattr(self._thread, "db", None) is not None:
            yield self._thread.db
            return
        with self._opened() as db:
            if self._version(db) < len(self.steps):
                self._begin(db)
                self._migrate(db)
                db.execute("COMMIT")
            db.execute("BEGIN")
            yield db

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Copy the store as it is at one moment, also while others write, to a file that is not there yet."""
        place = Path(target)
        try:
            make_file(place)
        except FileExistsError:
            raise InvalidInputError(f"{place}: exists already; name a new file for the backup") from None
        try:
            with self._opened() as source, closing(sqlite3.connect(place, isolation_level=None)) as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")
            sync_file(place)
        except BaseException:
            place.unlink(missing_ok=True)
            raise

    # --- opening --------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection; whatever SQLite says becomes one line with the path, a full disk a system's error."""
        if not self.exists():
            raise InvalidInputError(f"there is no {self.kind} at {self.path}")
        with open(self.path, "rb") as file:
            if file.read(len(MAGIC)) not in (b"", MAGIC):  # a short file would count as empty
                raise FileFormatError(f"{self.path}: not a {self.kind} file, or damaged")
        try:
            with closing(
                sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            ) as db:
                db.execute("PRAGMA synchronous=FULL")
                db.execute("PRAGMA trusted_schema=OFF")
                yield db
        except sqlite3.Error as error:
            raise self._told(error) from error
        except UnicodeDecodeError:  # SQLite quotes what it cannot read
            raise FileFormatError(f"{self.path}: damaged") from None

    def _told(self, error: sqlite3.Error) -> Exception:
        code = getattr(error, "sqlite_errorcode", 0)
        if code in FULL:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        if code & 0xFF in BUSY:
            return OSError(errno.EBUSY, "another process keeps it locked", str(self.path))
        if code & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
            return OSError(errno.EACCES, "cannot be read or written", str(self.path))
        return FileFormatError(f"{self.path}: not a {self.kind} file, or damaged")

    def _begin(self, db: sqlite3.Connection) -> None:
        """Lock the store for writing; WAL is turned on before, which SQLite does not wait for by itself."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    db.execute("PRAGMA journal_mode=WAL")
                db.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in BUSY or time.monotonic() > end:
                    raise
                time.sleep(PAUSE)

    def _version(self, db: sqlite3.Connection) -> int:
        """Version of the file's layout; files of other programs and of newer versions are refused."""
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        application = db.execute("PRAGMA application_id").fetchone()[0]
        empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        computed = "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')"
        if (not empty and application != APPLICATION) or db.execute(computed).fetchone():
            raise FileFormatError(f"{self.path}: not a {self.kind} file")
        if version > len(self.steps):
            raise FileFormatError(
                f"{self.path}: a {self.kind} of format {version}, this version of onefold reads up to "
                f"{len(self.steps)}: install a newer onefold"
            )
        return version

    def _migrate(self, db: sqlite3.Connection) -> None:
        """Take the steps that the file lacks, inside the transaction that is open, after a backup."""
        version = self._version(db)
        if version == len(self.steps):
            return
        if version:
            copy = self.path.with_name(f"{self.path.name}.{version}.backup")
            if not copy.exists():
                self.backup(copy)
        for text in self.steps[version:]:
            for statement in filter(None, map(str.strip, text.split(";"))):
                db.execute(statement)
        db.execute(f"PRAGMA application_id={APPLICATION}")
        db.execute(f"PRAGMA user_version={len(self.steps)}")


@contextmanager
def _part(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A part of a transaction: what it did is undone if it fails, whatever becomes of the rest."""
    db.execute("SAVEPOINT part")
    try:
        yield db
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk has undone everything already
            db.execute("ROLLBACK TO part")
            db.execute("RELEASE part")
        raise
    db.execute("RELEASE part")
