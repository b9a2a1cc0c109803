"""The few tables that are open, each in a folder that only this account can read, and that is deleted."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onefold._base.confined import try_confined
from onefold._base.files import write_whole
from onefold.exceptions import InvalidInputError, OnefoldError
from onefold.tables import Schema, read_table

__all__ = ["OpenTable", "OpenTables"]

MOST_TABLES = 4
STALE_SECONDS = 3600.0
PREFIX = "onefold-try-"
MEGABYTES = 2048  # that reading a table may take
SUFFIXES = (".csv", ".parquet", ".npz")
MARKS = (b"\xff\xfe", b"\xfe\xff")  # with which a text in UTF-16 begins


@dataclass
class OpenTable:
    """One table that somebody tries: its folder, and what was proposed."""

    id: str
    name: str
    folder: tempfile.TemporaryDirectory[str]
    table: Path
    proposed: Schema
    n_rows: int
    used: float
    notes: tuple[str, ...] = ()
    closed: bool = False
    making: threading.Lock = field(default_factory=threading.Lock)
    forecasting: threading.Lock = field(default_factory=threading.Lock)
    forecasts: dict[Any, Any] = field(default_factory=dict)
    forecast_wanted: Any = None

    @property
    def root(self) -> Path:
        """Where its files are until it is closed."""
        return Path(self.folder.name)

    @contextmanager
    def told_by_name(self) -> Iterator[None]:
        """Errors call the table by the name that its owner knows, not by that of our copy."""
        with _told_by_name(self.table, self.name):
            yield

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let one at a time write into the folder; what is written into a folder that was closed goes too."""
        with self.making:
            try:
                if self.closed:
                    raise InvalidInputError("this table is closed: choose the file again")
                yield
            finally:
                if self.closed:
                    shutil.rmtree(self.root, ignore_errors=True)

    def close(self) -> None:
        """Delete the table and all that was made of it."""
        self.closed = True
        self.folder.cleanup()

    def propose(self, label: str | None) -> Schema:
        """Guess the schema from the rows, with this column as classes."""
        with self.told_by_name():
            self.proposed = _proposed(read_table(self.table), label)
        return self.proposed


class OpenTables:
    """The oldest goes when another comes, and each after an hour in which nobody has used it."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, OpenTable] = OrderedDict()
        self._alone = threading.RLock()
        sweep_dead()

    def close(self) -> None:
        """Delete everything."""
        with self._alone:
            for name in list(self._open):
                self.drop(name)

    def drop(self, name: str) -> None:
        """Delete one table and all that was made of it."""
        with self._alone:
            found = self._open.pop(name, None)
        if found is not None:
            found.close()

    def find(self, name: str) -> OpenTable:
        """A table that is open."""
        self.sweep()
        with self._alone:
            if name not in self._open:
                raise InvalidInputError("this table is closed: choose the file again")
            self._open[name].used = time.monotonic()
            return self._open[name]

    def sweep(self) -> None:
        """Delete tables that nobody has used for an hour."""
        now = time.monotonic()
        with self._alone:
            stale = [name for name, found in self._open.items() if now - found.used > STALE_SECONDS]
        for name in stale:
            self.drop(name)

    def add(self, name: str, content: bytes, label: str | None = None) -> OpenTable:
        """Take a table in, and propose its schema."""
        suffix = Path(name).suffix.lower()
        if suffix not in SUFFIXES:
            raise InvalidInputError(f"the name of a table must end in {', '.join(SUFFIXES)}")
        folder = tempfile.TemporaryDirectory(
            prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True
        )  # for this account only
        try:
            path = Path(folder.name) / f"private{suffix}"
            write_whole(path, content)
            with _told_by_name(path, Path(name).name):
                if suffix != ".csv":  # a few bytes can stand for very many there
                    try_confined("onefold.tables:read_table", path, megabytes=MEGABYTES)
                table = read_table(path)
                proposed = _proposed(table, label)
            notes = _notes(content) if suffix == ".csv" else ()
            known = (secrets.token_hex(8), Path(name).name, folder, path, proposed, table.n_rows)
            found = OpenTable(*known, time.monotonic(), notes)
        except BaseException:
            folder.cleanup()
            raise
        with self._alone:
            self._open[found.id] = found
            oldest = list(self._open)[:-MOST_TABLES]
        for each in oldest:
            self.drop(each)
        return found


def _proposed(table: Any, label: str | None) -> Schema:
    # From private rows, for their owner's eyes: `declared` keeps what a person confirms, and nothing else.
    return Schema.infer(table, label=label, source="private")


def _notes(content: bytes) -> tuple[str, ...]:
    """What its owner should know about how the text was read."""
    if content.startswith(MARKS):
        return ()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return ("The file is not in UTF-8 and was read as Windows-1252: look at letters with accents.",)
    return ()


@contextmanager
def _told_by_name(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    except OnefoldError as error:
        if str(path) not in str(error):
            raise
        raise InvalidInputError(str(error).replace(str(path), name)) from None


def sweep_dead() -> None:
    """Delete what programs have left behind that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not owner.isdigit():
            continue
        if not _is_running(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a program of somebody else has the number now; this one's owner has ended
        return False
    return True
