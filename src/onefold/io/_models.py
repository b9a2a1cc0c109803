"""Models to files and bytes, and back."""

import io as bytes_io
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from onefold._base.files import atomic_write
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.io._archive import Arrays, read_archive, write_archive
from onefold.io._assembly import assemble
from onefold.io._contents import Model, arrays_of, description_of

__all__ = ["from_bytes", "load", "load_extras", "save", "to_bytes"]

EXTRA = "extra/"  # arrays that came with a model and are no part of it


def save(
    model: Model, path: str | os.PathLike[str], extras: Mapping[str, NDArray[Any]] | None = None
) -> None:
    """Write a fitted model to ``path``, replacing what was there only when all is written.

    A ``guarantee_`` of the model is written too. ``extras`` are further arrays, for :func:`load_extras`.
    """
    with atomic_write(path) as file:
        _write(model, file, extras or {})


def to_bytes(model: Model) -> bytes:
    """What :func:`save` writes, as bytes."""
    content = bytes_io.BytesIO()
    _write(model, content, {})
    return content.getvalue()


def _write(model: Model, file: IO[bytes], extras: Mapping[str, NDArray[Any]]) -> None:
    about = description_of(model)
    write_archive(file, about, arrays_of(model) | {f"{EXTRA}{name}.npy": extras[name] for name in extras})


def load(path: str | os.PathLike[str]) -> Any:
    """The model saved at ``path``; a damaged, foreign or newer file is refused."""
    return _read(_existing(path), os.fspath(path), assemble)


def from_bytes(content: bytes, largest_machine: int | None = None) -> Any:
    """The model that :func:`to_bytes` wrote; anything else is refused.

    Rebuilding a machine of N samples takes N x N numbers: ``largest_machine`` refuses larger ones, for bytes
    from somebody who may want to exhaust this machine.
    """

    def assemble_small(manifest: dict[str, Any], arrays: Arrays) -> Any:
        sizes = [array.shape[1] for name, array in arrays.items() if name.endswith("/centred.npy")]
        if largest_machine is not None and max(sizes, default=0) > largest_machine:
            raise FileFormatError(f"it has a machine of more than {largest_machine} samples")
        return assemble(manifest, arrays)

    return _read(bytes_io.BytesIO(content), "a model", assemble_small)


def load_extras(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The further arrays that were given to :func:`save`."""
    found: dict[str, NDArray[Any]] = _read(
        _existing(path),
        os.fspath(path),
        lambda _, arrays: {name[len(EXTRA) : -4]: array for name, array in arrays.items()},
        extras=True,
    )
    return found


def _existing(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    if not Path(path).is_file():
        raise InvalidInputError(f"there is no model file at {os.fspath(path)}")
    return path


def _read(source: Any, name: str, make: Callable[[dict[str, Any], Arrays], Any], extras: bool = False) -> Any:
    """Something made of the manifest and the arrays of a file; every failure becomes one clear line."""
    try:
        return make(*read_archive(source, lambda member: member.startswith(EXTRA) == extras))
    except FileFormatError as error:
        raise FileFormatError(f"{name}: {error}") from None
    except (zipfile.BadZipFile, EOFError, OSError):
        raise FileFormatError(f"{name}: not a model file, or truncated") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, NotImplementedError):
        raise FileFormatError(f"{name}: the contents are not those of a model") from None
