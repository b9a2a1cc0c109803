"""Writing result files: a file appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from onefold.exceptions import InvalidInputError

__all__ = ["write_atomically"]


def write_atomically(path: str | Path, write: Callable[[IO[bytes]], None]) -> None:
    """Call ``write`` on a temporary file beside ``path``, then move it into place.

    Raises
    ------
    InvalidInputError
        When the file cannot be written; nothing is left behind.
    """
    path = Path(path)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                write(file)
            os.chmod(name, 0o666 & ~_umask())  # mkstemp makes private files; results are ordinary ones
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written ({error.strerror or 'I/O error'})") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
