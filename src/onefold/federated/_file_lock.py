"""One process (and one thread) at a time: see :mod:`onefold._base.file_lock`."""

from onefold._base.file_lock import file_lock

__all__ = ["file_lock"]
