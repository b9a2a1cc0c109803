"""Files and locks: written whole or not at all, read with one clear error, changed one process at a time.

Every file is made for the user's account alone, from its first byte on. Only what is meant to be handed out
(``public=True``: schemas, guarantees, tables with a guarantee, reports, public keys) gets the permissions
that the umask leaves. Files of secrets are read here too, and refused if another account may read them.

Every step that is to survive a crash (making, writing, syncing, renaming and removing a file) passes a fault
point first. Tests end the process at each of them in turn, or let the disk be full there.
"""

import errno
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from onefold.exceptions import FileFormatError, InvalidInputError

T = TypeVar("T")

# What tests put here is called before every durable step, with the name of the step and what it works on.
fault: Callable[..., None] | None = None
PART = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.part", re.DOTALL)


def step(name: str, *what: Any) -> None:
    """Let a test end the process, or fill the disk, before a durable step."""
    if fault is not None:
        fault(name, *what)


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, public: bool = False) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` when the block ends well, and leaves no trace otherwise.

    When this returns, the file is synced, and its folder too where the system can do that: neither a crash
    nor a power failure undoes it. What a writer of the same file left behind when it was killed is removed.
    Only the user's account may read it, unless it is ``public``.
    """
    target = Path(path)
    _refuse_no_folder(target)
    sweep_parts(target.parent, target.name)
    handle, name = _new_part(target, public)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            step("write", file)
            file.flush()
            step("sync", file)
            os.fsync(file.fileno())
            if sys.platform != "win32":  # the lock is held until the name is right: nobody sweeps it away
                _rename(name, target)
        if sys.platform == "win32":
            _rename(name, target)
        _sync_folder(target.parent)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        _name(error, target)
        raise


def _name(error: BaseException, path: str | os.PathLike[str]) -> None:
    """Let an error of the system say whose file it is about: a full disk does not."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = os.fspath(path)


def _rename(name: str, target: Path) -> None:
    step("rename", target)
    os.replace(name, target)


def _new_part(target: Path, public: bool) -> tuple[int, str]:
    """An open file beside ``target``, locked as long as it is open: see :func:`sweep_parts`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        step("make", target)
        name = str(target.parent / f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            handle = os.open(name, flags, _mode(public))
        except FileExistsError:
            continue
        if _lock_part(handle) and os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # swept away before it was locked: another one


def sweep_parts(folder: str | os.PathLike[str], name: str | None = None) -> None:
    """Remove what writers that were killed left in a folder; what is being written is locked, and stays.

    ``name`` is the file whose leavings are removed; None removes those of all files.
    """
    with os.scandir(folder) as entries:
        parts = [(each.path, PART.fullmatch(each.name)) for each in entries if each.name.endswith(".part")]
    found = [path for path, part in parts if part is not None and name in (None, part["name"])]
    for path in found:
        try:
            handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        except OSError:  # gone meanwhile, or not ours
            continue
        try:
            if _lock_part(handle):
                step("sweep", path)
                Path(path).unlink(missing_ok=True)
        except OSError:  # open in another process, where that forbids it
            continue
        finally:
            os.close(handle)


def sync_file(path: str | os.PathLike[str]) -> None:
    """Put on disk what somebody who was killed may have written to a file without doing so."""
    handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        step("sync", handle)
        os.fsync(handle)
    finally:
        os.close(handle)
    _sync_folder(Path(path).parent)


def remove_file(path: str | os.PathLike[str], missing_ok: bool = False) -> None:
    """Remove a file for good: a power failure does not bring it back. It must be there unless missing_ok."""
    if missing_ok and not Path(path).exists():
        return
    step("remove", path)
    os.unlink(path)
    _sync_folder(Path(path).parent)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or what it was raised from, says that there is no room left for this account."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def has_room(folder: str | os.PathLike[str], size: int = 2**20) -> bool:
    """Whether so many bytes can be written in a folder; nothing is left there."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(size))
            step("write", file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if is_disk_full(error):
            return False
        raise
    return True


def write_whole(path: str | os.PathLike[str], content: bytes, *, public: bool = False) -> None:
    """Bytes into a file, all of them or none; only the user's account may read it, unless it is public."""
    with atomic_write(path, public=public) as file:
        file.write(content)


@contextmanager
def output_file(path: str | os.PathLike[str], *, public: bool = False) -> Iterator[IO[bytes]]:
    """Open a file that somebody asked for, as :func:`atomic_write` does; failing to write it is bad input."""
    try:
        with atomic_write(path, public=public) as file:
            yield file
    except OSError as error:
        reason = error.strerror or "I/O error"
        raise InvalidInputError(f"{os.fspath(path)}: cannot be written ({reason})") from error


def open_file(path: str | os.PathLike[str], mode: str) -> IO[Any]:
    """Open a file of the user's account to write or append as the work goes on, such as a log."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda name, flags: os.open(name, flags, _mode(False)))


def make_file(path: str | os.PathLike[str]) -> None:
    """Make an empty file of the user's account; one that is there raises FileExistsError."""
    _refuse_no_folder(Path(path))
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _mode(public=False)))


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder that only the user's account can enter; one that is there is left as it is."""
    place = Path(path)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def read_saved(
    path: str | os.PathLike[str], missing: str, read: Callable[[bytes], T], *, secret: bool = False
) -> T:
    """What ``read`` makes of a file's bytes; its errors are told with the path, as is a file not there.

    A file of secrets is refused if another account may read it. What is looked at is the file that was
    opened: nobody can put another one in its place meanwhile.
    """
    place = os.fspath(path)
    if not Path(path).is_file():
        raise InvalidInputError(f"{missing} at {place}")
    with open(path, "rb") as file:
        if secret and os.name != "nt" and os.fstat(file.fileno()).st_mode & 0o077:
            raise InvalidInputError(f"{place}: others can read this key: run chmod 600 {place}")
        content = file.read()
    try:
        return read(content)
    except FileFormatError as error:
        raise FileFormatError(f"{place}: {error}") from None


def _refuse_no_folder(target: Path) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", str(target.parent))


def _mode(public: bool) -> int:
    """Permissions of a new file, of which the system takes away what the umask says."""
    return 0o666 if public else 0o600


@contextmanager
def file_lock(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of ``path`` while the block runs; others wait. The system frees it if we die.

    The lock is on a neighbour, ``path`` with ``.lock`` appended, since ``path`` itself may be replaced. Each
    call opens that file anew, so threads of one process exclude each other as processes do.
    """
    neighbour = Path(f"{os.fspath(path)}.lock")
    _refuse_no_folder(neighbour)
    handle = os.open(neighbour, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(handle)
        yield
    finally:
        os.close(handle)  # closing frees the lock


if sys.platform == "win32":
    import msvcrt
    import time

    def _acquire(handle: int) -> None:
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
                return
            except OSError:  # gave up after ten attempts: try again
                time.sleep(0.05)

    def _lock_part(handle: int) -> bool:
        """Whether a file may be removed: here nobody can remove one that is open."""
        return True

    def _sync_folder(folder: Path) -> None:
        """Do nothing: this system does not sync folders."""

else:
    import fcntl

    def _acquire(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _lock_part(handle: int) -> bool:
        """Lock a file that is being written, if nobody has; the system frees it if we die."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _sync_folder(folder: Path) -> None:
        """Write the names in a folder to the disk: until then a power failure may undo a renaming."""
        step("sync folder", folder)
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno != errno.EINVAL:  # what a file system says that cannot sync folders
                raise
        finally:
            os.close(handle)
