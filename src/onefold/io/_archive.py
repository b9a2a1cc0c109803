"""A zip archive of arrays and one manifest, with checksums: written, and read with suspicion."""

import hashlib
import io as bytes_io
import json
import math
import zipfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import FileFormatError

__all__ = ["FORMAT", "Arrays", "read_archive", "write_archive"]

FORMAT = 1
MANIFEST = "manifest.json"

Arrays = dict[str, NDArray[Any]]


def write_archive(file: IO[bytes], about: dict[str, Any], arrays: Arrays) -> None:
    """The arrays, then a manifest with the format, what ``about`` says, and a checksum of every array."""
    sums: dict[str, str] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = bytes_io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(_member(name), content.getbuffer())
            sums[name] = hashlib.sha256(content.getbuffer()).hexdigest()
        text = json.dumps({"format": FORMAT, **about, "sums": sums}, indent=1).encode()
        archive.writestr(_member(MANIFEST), text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()


def read_archive(source: Any, wanted: Callable[[str], bool]) -> tuple[dict[str, Any], Arrays]:
    """The manifest and the arrays whose names are ``wanted``, all of them as they were written."""
    with zipfile.ZipFile(source) as archive:
        manifest = _read_manifest(archive)
        sums = {name: total for name, total in manifest["sums"].items() if wanted(name)}
        return manifest, {name: _read_array(archive, name, total) for name, total in sums.items()}


def _member(name: str) -> zipfile.ZipInfo:
    """An archive entry with a fixed date, so that equal models give equal files."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _read_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
        raise FileFormatError("not a model file: its parts are compressed")
    parts = sum(entry.file_size for entry in archive.infolist())
    if archive.fp is not None and parts > archive.fp.seek(0, 2):  # parts that share their bytes
        raise FileFormatError("damaged: its parts are larger than the whole")
    text = archive.read(MANIFEST)
    if hashlib.sha256(text).hexdigest().encode() != archive.comment:
        raise FileFormatError("damaged: the manifest does not match its checksum")
    manifest: dict[str, Any] = json.loads(text)
    if manifest["format"] != FORMAT:
        raise FileFormatError(f"it has format {manifest['format']}, this version reads format {FORMAT}")
    return manifest


def _read_array(archive: zipfile.ZipFile, name: str, total: str) -> NDArray[Any]:
    content = archive.read(name)
    if hashlib.sha256(content).hexdigest() != total:
        raise FileFormatError(f"damaged: {name} does not match its checksum")
    stream = bytes_io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(stream)
    # Before memory is set aside for it:
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise FileFormatError(f"damaged: {name} does not have the size it claims")
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
