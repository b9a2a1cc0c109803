"""One process (and one thread) at a time: an advisory lock on a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["file_lock"]


@contextmanager
def file_lock(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of ``path`` while the block runs; others wait. The system frees it if we die.

    The lock is on a neighbour, ``path`` with ``.lock`` appended, since ``path`` itself may be replaced. Each
    call opens that file anew, so threads of one process exclude each other as processes do.
    """
    neighbour = Path(f"{os.fspath(path)}.lock")
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

else:
    import fcntl

    def _acquire(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)
