"""Files and locks: written whole or not at all, read with one clear error, changed one process at a time."""

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from onefold.exceptions import FileFormatError, InvalidInputError

__all__ = ["atomic_write", "file_lock", "output_file", "read_saved", "write_whole"]

T = TypeVar("T")


@contextmanager
def atomic_write(path: str | os.PathLike[str], private: bool = False) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` when the block ends well, and leaves no trace otherwise.

    When this returns, the file is synced, and its folder too where the system can do that: neither a crash
    nor a power failure undoes it.
    ``private`` keeps it readable by its owner only; otherwise the usual permissions apply.
    """
    target = Path(path)
    _refuse_no_folder(target)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not private:
            os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
        _sync_folder(target.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_whole(path: str | os.PathLike[str], content: bytes, private: bool = False) -> None:
    """Bytes into a file, all of them or none."""
    with atomic_write(path, private) as file:
        file.write(content)


@contextmanager
def output_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that somebody asked for, as :func:`atomic_write` does; failing to write it is bad input."""
    try:
        with atomic_write(path) as file:
            yield file
    except OSError as error:
        reason = error.strerror or "I/O error"
        raise InvalidInputError(f"{os.fspath(path)}: cannot be written ({reason})") from error


def read_saved(path: str | os.PathLike[str], missing: str, read: Callable[[bytes], T]) -> T:
    """What ``read`` makes of a file's bytes; its errors are told with the path, as is a file not there."""
    if not Path(path).is_file():
        raise InvalidInputError(f"{missing} at {os.fspath(path)}")
    try:
        return read(Path(path).read_bytes())
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from None


def _refuse_no_folder(target: Path) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", str(target.parent))


def _umask() -> int:
    """The process's permission mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


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

    def _sync_folder(folder: Path) -> None:
        """Do nothing: this system does not sync folders."""

else:
    import fcntl

    def _acquire(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _sync_folder(folder: Path) -> None:
        """Write the names in a folder to the disk: until then a power failure may undo a renaming."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno != errno.EINVAL:  # what a file system says that cannot sync folders
                raise
        finally:
            os.close(handle)
