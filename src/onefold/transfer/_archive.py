"""Named runs of bytes in one file without pickle: uncompressed, listed, each with its checksum.

The sums show damage. They are no signature: take files from people you trust.
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import FileFormatError

__all__ = ["array_bytes", "array_from", "is_archive", "pack", "unpack"]

ABOUT = "about.json"
LARGEST_FILE = 2**34


def pack(kind: str, number: int, about: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """The bytes of a file of format ``kind``, version ``number``."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    header = {"kind": kind, "format": number, "about": dict(about), "sums": sums}
    text = json.dumps(header, indent=1, default=_plain).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {ABOUT: text, **parts}.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)
        archive.comment = hashlib.sha256(text).hexdigest().encode()
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError("only numbers, text and lists can be saved")


def unpack(kind: str, number: int, packed: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What was packed; anything else is refused."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members = archive.infolist()
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise FileFormatError("its parts are compressed")
            if sum(member.file_size for member in members) > min(len(packed), LARGEST_FILE):
                raise FileFormatError("its parts are larger than the whole")
            text = archive.read(ABOUT)
            if hashlib.sha256(text).hexdigest().encode() != archive.comment:
                raise FileFormatError("damaged: the description does not match its checksum")
            header = json.loads(text)
            if header["kind"] != kind:
                raise FileFormatError(f"it does not hold a {kind}")
            if header["format"] != number:
                raise FileFormatError(f"it has another format, this version reads format {number}")
            parts = {name: archive.read(name) for name in header["sums"]}
            about = dict(header["about"])
        for name, total in header["sums"].items():
            if hashlib.sha256(parts[name]).hexdigest() != total:
                raise FileFormatError(f"damaged: {name} does not match its checksum")
        return about, parts
    except FileFormatError:
        raise
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, TypeError, ValueError, AttributeError):
        raise FileFormatError(f"damaged, or not a {kind}") from None
    except (NotImplementedError, RuntimeError):
        raise FileFormatError(f"damaged, or not a {kind}") from None


def is_archive(kind: str, path: str | os.PathLike[str]) -> bool:
    """Does this look like a file of that kind?"""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(json.loads(archive.read(ABOUT))["kind"] == kind)
    except (zipfile.BadZipFile, OSError, KeyError, TypeError, ValueError, RuntimeError, EOFError):
        return False


def array_bytes(array: NDArray[Any]) -> bytes:
    """An array as the bytes of a ``.npy`` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def array_from(parts: Mapping[str, bytes], name: str, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """A finite array of float64 of the wanted shape; None stands for any length."""
    try:
        array = np.lib.format.read_array(io.BytesIO(parts[name]), allow_pickle=False)
    except (KeyError, ValueError, EOFError, OSError):
        raise FileFormatError(f"the array {name} cannot be read") from None
    fits = array.ndim == len(shape) and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != np.float64 or not np.isfinite(array).all():
        raise FileFormatError(f"the array {name} is not what it should be")
    return np.asarray(array)
