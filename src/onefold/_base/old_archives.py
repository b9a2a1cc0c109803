"""Files of version 0.1, read as if they had been written as archives of today.

Version 0.1 had four layouts, all called format 1 (ledgers: 2) within their kind:

* models: a zip of arrays and ``manifest.json``, which describes the model beside its own entries;
* moments: a numpy ``.npz`` with the description as a text in an array ``about``;
* sources and transfer classifiers: a zip of ``about.json`` and of members that are arrays or whole files of
  the other kinds;
* ledgers: JSON with a digest.
"""

import hashlib
import io
import json
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Arrays
from onefold._base.stored_zip import StoredZip, parse_array
from onefold.exceptions import FileFormatError

__all__ = ["read_old"]

Old = tuple[str, dict[str, Any], Arrays]
MOMENTS = "onefold moments"
MOST_NESTED = 3  # a model in a source in a transfer classifier


def read_old(file: IO[bytes], depth: int = 0) -> Old:
    """Return kind, description and arrays of a file of version 0.1; anything else is refused."""
    file.seek(0)
    if file.read(1) == b"{":
        file.seek(0)
        return _read_ledger(file.read())
    archive = StoredZip(file)
    if "manifest.json" in archive.names:
        return _read_model(archive)
    if "about.npy" in archive.names:
        return _read_moments(archive)
    if "about.json" in archive.names and depth < MOST_NESTED:
        return _read_transfer(archive, depth)
    raise FileFormatError("not a file of onefold")


def _read_model(archive: StoredZip) -> Old:
    manifest = _described(archive, "manifest.json")
    if manifest.pop("format") != 1:
        raise FileFormatError("it has another format than it should have")
    sums = manifest.pop("sums")
    arrays = {
        name.removesuffix(".npy"): parse_array(name, _checked(archive, name, total))
        for name, total in sums.items()
    }
    return "model", manifest, arrays


def _read_moments(archive: StoredZip) -> Old:
    arrays = {name.removesuffix(".npy"): parse_array(name, archive.read(name)) for name in archive.names}
    about = json.loads(str(arrays.pop("about")))
    if (about.pop("kind"), about.pop("format")) != (MOMENTS, 1):
        raise FileFormatError("not a file of moments")
    return "private moments", about, arrays


def _read_transfer(archive: StoredZip, depth: int) -> Old:
    header = _described(archive, "about.json")
    if header["format"] != 1:
        raise FileFormatError("it has another format than it should have")
    about: dict[str, Any] = dict(header["about"])
    arrays: Arrays = {}
    for name, total in header["sums"].items():
        content = _checked(archive, name, total)
        if content[:6].tobytes() == np.lib.format.MAGIC_PREFIX:
            arrays[name] = parse_array(name, content)
        else:
            _, about[name], inner = read_old(io.BytesIO(content.tobytes()), depth + 1)
            arrays |= {f"{name}/{key}": array for key, array in inner.items()}
    return str(header["kind"]), about, arrays


def _read_ledger(written: bytes) -> Old:
    plain = json.loads(written)
    if not isinstance(plain, dict) or plain.get("format") != 2:
        raise FileFormatError("not a ledger of format 2")
    told = plain.pop("digest", None)
    if told != hashlib.sha256(json.dumps(plain, sort_keys=True, allow_nan=False).encode()).hexdigest():
        raise FileFormatError("this ledger was changed by something other than onefold")
    del plain["format"]
    return "ledger", plain, {}


def _described(archive: StoredZip, name: str) -> dict[str, Any]:
    text = archive.read(name).tobytes()
    if hashlib.sha256(text).hexdigest().encode() != archive.comment:
        raise FileFormatError("damaged: the description does not match its checksum")
    described: dict[str, Any] = json.loads(text)
    return described


def _checked(archive: StoredZip, name: str, total: str) -> NDArray[np.uint8]:
    content = archive.read(name)
    if hashlib.sha256(content.data).hexdigest() != total:
        raise FileFormatError(f"damaged: {name} does not match its checksum")
    return content
