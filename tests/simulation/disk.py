"""A disk that forgets what was not synced, tears what was being written, and fills up.

Files are real ones, in memory where the system has that. What the disk promises is kept beside them: the
content of each file when it was last synced, and the names in each folder when that was. Of everything later,
a power cut leaves what the seed says. Whoever is stopped unwinds like an exception, which no killed process
can; what it does to its files on the way is undone.
"""

from __future__ import annotations

import errno
import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onefold._base import files

from .clock import Clock

WRITE_BACK = 35.0
SQLITE, JOURNALS = b"SQLite format 3\0", ("-wal", "-shm")
Image = dict[str, bytes]  # files below a folder


class Stopped(BaseException):
    """The process was killed, or its machine has lost its power."""


@dataclass
class Fault:
    """What is to happen at a step from now: "kill", "power" or "full".

    Parameters
    ----------
    kind : what happens. at : how many steps are passed before. steps : for how many the disk is full.
    where : only steps on files whose names end so count. again : how often it happens again soon after.
    """

    kind: str
    at: int
    steps: int = 1
    where: str = ""
    again: int = 0


@dataclass
class Machine:
    """A folder, what of it would survive a power cut, and what is to happen to it next."""

    name: str
    root: Path
    names: dict[str, dict[str, int]] = field(default_factory=dict)  # folder -> name -> file, as last synced
    synced: dict[int, bytes] = field(default_factory=dict)  # file -> content, as last synced
    fault: Fault | None = None
    was_full: bool = False
    killed_at: float | None = None  # since then files may show what a power cut would take back
    stopped: str | None = None  # how, from the moment it happens until it is up again
    image: Image = field(default_factory=dict)  # what is left then


class Disk:
    """All machines of a world; :meth:`run` is a process of one of them."""

    def __init__(self, source: random.Random, clock: Clock, say: Callable[[str], None]) -> None:
        self.random, self.clock, self.say = source, clock, say
        self.running: list[Machine] = []
        self.steps = 0
        self._folders: dict[int, str] = {}

    # --- processes ------------------------------------------------------------------------------------

    def run(self, machine: Machine, act: Callable[[], Any]) -> Any:
        """What the act returns; :class:`Stopped` if it was stopped, whatever it made of that."""
        self.running.append(machine)
        try:
            value = act()
        except BaseException:
            if machine.stopped is None:
                raise
            value = None
        finally:
            self.running.pop()
        if machine.stopped is None:
            return value
        self._restore(machine)
        if machine.stopped == "power" and machine in self.running:
            raise Stopped  # whatever else runs there ends too
        if machine.stopped == "power":
            self.settle(machine)
        else:
            machine.killed_at = self.clock.now
        machine.stopped, machine.image = None, {}
        raise Stopped

    def at_step(self, step: str, *what: Any) -> None:
        """The fault point of ``onefold._base.files``: before everything that is to last."""
        self.steps += 1
        if not self.running:
            return
        machine = self.running[-1]
        fault = machine.fault
        if fault is None or machine.stopped is not None or not str(what[0]).endswith(fault.where):
            return
        if fault.at > 0:
            fault.at -= 1
        elif fault.kind == "full" and step in ("sweep", "remove"):
            return  # takes no room
        elif fault.kind == "full":
            fault.steps -= 1
            if fault.steps <= 0:
                machine.fault = None
            machine.was_full = True
            self.say(f"disk full at {machine.name}: {step}")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        else:
            self._tear(step, what)
            self.stop(machine, fault.kind, step)
            raise Stopped

    def stop(self, machine: Machine, kind: str, where: str) -> None:
        """Note what is left at the moment at which a process or a machine stops."""
        fault, machine.fault, machine.stopped = machine.fault, None, kind
        if fault is not None and fault.again:
            machine.fault = Fault(kind, self.random.randrange(3), where=fault.where, again=fault.again - 1)
        self.say(f"{kind} at {machine.name}: {where}")
        machine.image = self._files(machine) if kind == "kill" else self._after_cut(machine)

    def _tear(self, step: str, what: Any) -> None:
        """Let a part of what is being written get through."""
        if step == "write" and self.random.random() < 0.5:
            what[0].flush()

    def write_back(self, machine: Machine) -> None:
        """Put down what has been waiting for a while, as systems do by themselves."""
        if machine.killed_at is not None and self.clock.now - machine.killed_at > WRITE_BACK:
            self.settle(machine)

    # --- what lasts -----------------------------------------------------------------------------------

    def settle(self, machine: Machine) -> None:
        """Everything that is there lasts."""
        machine.names, machine.synced, machine.killed_at = {}, {}, None
        for folder, entries in self._listing(machine).items():
            machine.names[folder] = entries
            for name, number in entries.items():
                machine.synced[number] = Path(folder, name).read_bytes()

    def sync_file(self, handle: int) -> None:
        """The content of an open file lasts."""
        content = os.pread(handle, os.fstat(handle).st_size, 0)
        self.running[-1].synced[os.fstat(handle).st_ino] = content

    def sync_folder(self, folder: str) -> None:
        """The names in a folder last."""
        self.running[-1].names[folder] = _entries(folder)

    def _after_cut(self, machine: Machine) -> Image:
        """Of every name and content that was not synced, the old or the new, or a part of the new."""
        left: Image = {}
        now = self._listing(machine)
        for folder in sorted(now):
            before = machine.names.get(folder, {})
            left |= self._databases(folder, before)
            for name in sorted({*before, *now[folder]}):
                if ".db" in name:
                    continue
                choices = [table[name] for table in (before, now[folder]) if name in table]
                number: int | None = choices[-1]
                if name not in before or name not in now[folder] or choices[0] != choices[1]:
                    gone = [None] if name not in before or name not in now[folder] else []
                    number = self.random.choice([*choices, *gone])
                if name.endswith(JOURNALS):  # what SQLite has written there is synced when it must be
                    number = now[folder].get(name)
                if number is not None:
                    fresh = Path(folder, name) if number == now[folder].get(name) else None
                    left[os.path.join(folder, name)] = self._content(machine, number, fresh)
        return left

    def _databases(self, folder: str, before: dict[str, int]) -> Image:
        """What SQLite has written, which it syncs itself; a new file may be gone with its name."""
        files = sorted(Path(folder).glob("*.db"))
        made = [path for path in files if path.name in before or self.random.random() < 0.5]
        parts = [Path(f"{path}{part}") for path in made for part in ("", "-wal", "-shm")]
        return {str(path): path.read_bytes() for path in parts if path.exists()}

    def _content(self, machine: Machine, number: int, path: Path | None) -> bytes:
        old = machine.synced.get(number, b"")
        new = old if path is None else path.read_bytes()
        if new == old or new.startswith(SQLITE) or (path is not None and path.name.endswith(JOURNALS)):
            return new  # the store is trusted to keep its promise: see tests/_base/test_state.py
        pairs = enumerate(zip(old, new, strict=False))
        start = next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))
        torn = new[: self.random.randrange(start, len(new) + 1)]
        return self.random.choice([old, new, torn])

    # --- real files -----------------------------------------------------------------------------------

    def _listing(self, machine: Machine) -> dict[str, dict[str, int]]:
        return {folder: _entries(folder) for folder, _, _ in os.walk(machine.root)}

    def _files(self, machine: Machine) -> Image:
        found = [(folder, name) for folder, names in self._listing(machine).items() for name in names]
        return {str(Path(folder, name)): Path(folder, name).read_bytes() for folder, name in found}

    def _restore(self, machine: Machine) -> None:
        now = self._files(machine)
        for path in now.keys() - machine.image.keys():
            os.unlink(path)
        for path, content in machine.image.items():
            if now.get(path) != content:
                Path(path).unlink(
                    missing_ok=True
                )  # another file, also where a process still has the old one open
                write_file(Path(path), content, self.clock)

    # --- the module os as onefold._base.files sees it ---------------------------------------------------

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Be the disk of this process while the block runs."""
        old = files.os, files.fault
        files.os, files.fault = _System(self), self.at_step  # type: ignore[assignment]
        try:
            yield
        finally:
            files.os, files.fault = old  # type: ignore[assignment]


class _System:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._folders: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        handle = os.open(path, flags, mode)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            self._folders[handle] = os.fspath(path)
        return handle

    def close(self, handle: int) -> None:
        self._folders.pop(handle, None)
        os.close(handle)

    def fsync(self, handle: int) -> None:
        if not self._disk.running:
            return
        if handle in self._folders:
            self._disk.sync_folder(self._folders[handle])
        else:
            self._disk.sync_file(handle)

    def replace(self, source: Any, target: Any) -> None:
        self._disk.clock.now += 0.001  # no two files of one age
        os.utime(source, (self._disk.clock.time(),) * 2)
        os.replace(source, target)


def _entries(folder: str) -> dict[str, int]:
    """Files in a folder, without the locks: they are empty, and made again."""
    with os.scandir(folder) as found:
        return {e.name: e.inode() for e in found if not e.is_dir() and not e.name.endswith(".lock")}


def write_file(path: Path, content: bytes, clock: Clock) -> None:
    """A file of the simulated time."""
    path.write_bytes(content)
    path.chmod(0o600)
    os.utime(path, (clock.time(),) * 2)
