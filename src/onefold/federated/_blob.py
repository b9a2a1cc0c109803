"""A header and some arrays as one checksummed run of bytes, without pickle.

Layout: 8 bytes of magic, 4 bytes length of the header (little endian), the header as JSON, the arrays one
after the other as the header lists them (little endian, row by row), and the SHA-256 sum of all before it.
The sum shows damage on the way. It is no signature: who sent the bytes is for the transport to establish.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import MessageError

__all__ = ["pack", "unpack"]

MAGIC = b"onefold\x01"
LENGTH_BYTES = 4
SUM_BYTES = hashlib.sha256().digest_size
LARGEST_HEADER = 16 * 2**20
KINDS: dict[str, np.dtype[Any]] = {"<f4": np.dtype("<f4"), "<f8": np.dtype("<f8"), "|u1": np.dtype("u1")}
MOST_ARRAYS = 16


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """One run of bytes from a header of JSON values and named arrays."""
    little = {name: np.asarray(array, dtype=array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    listing = [[name, array.dtype.str, list(array.shape)] for name, array in little.items()]
    text = json.dumps({"header": dict(header), "arrays": listing}, allow_nan=False).encode()
    parts = [MAGIC, len(text).to_bytes(LENGTH_BYTES, "little"), text]
    content = b"".join([*parts, *(array.tobytes() for array in little.values())])
    return content + hashlib.sha256(content).digest()


def unpack(data: bytes, max_bytes: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays, still unchecked; anything but a whole, undamaged blob is refused."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise MessageError("a message must be bytes")
    view = memoryview(data).cast("B")
    start = len(MAGIC) + LENGTH_BYTES
    if view.nbytes > max_bytes:
        raise MessageError("the message is larger than allowed")
    if view.nbytes < start + SUM_BYTES or view[: len(MAGIC)] != MAGIC:
        raise MessageError("these bytes are not a message of this version")
    content = view[:-SUM_BYTES]
    if hashlib.sha256(content).digest() != view[-SUM_BYTES:]:
        raise MessageError("the message is damaged: its checksum does not match")
    length = int.from_bytes(view[len(MAGIC) : start], "little")
    if length > min(LARGEST_HEADER, content.nbytes - start):
        raise MessageError("the message is damaged: its header does not fit")
    header, listing = _parse(bytes(content[start : start + length]))
    return header, _arrays(content[start + length :], listing)


def _parse(text: bytes) -> tuple[dict[str, Any], list[Any]]:
    try:
        plain = json.loads(text.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise MessageError("the header of the message cannot be read") from None
    if not isinstance(plain, dict) or set(plain) != {"header", "arrays"}:
        raise MessageError("the header of the message cannot be read")
    header, listing = plain["header"], plain["arrays"]
    if not isinstance(header, dict) or not isinstance(listing, list) or len(listing) > MOST_ARRAYS:
        raise MessageError("the header of the message cannot be read")
    return header, listing


def _no_constant(_: str) -> Any:
    raise ValueError("NaN and Infinity are no JSON")


def _arrays(content: memoryview, listing: list[Any]) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    offset = 0
    for entry in listing:
        name, kind, shape = _array_entry(entry)
        size = math.prod(shape) * KINDS[kind].itemsize
        if name in found or offset + size > content.nbytes:
            raise MessageError("the arrays of the message do not fit")
        flat = np.frombuffer(content[offset : offset + size], dtype=KINDS[kind])
        found[name] = flat.reshape(shape).astype(KINDS[kind].newbyteorder("="), copy=False)
        offset += size
    if offset != content.nbytes:
        raise MessageError("the arrays of the message do not fit")
    return found


def _array_entry(entry: Any) -> tuple[str, str, list[int]]:
    if isinstance(entry, list) and len(entry) == 3:
        name, kind, shape = entry
        plain = isinstance(name, str) and isinstance(kind, str) and kind in KINDS and isinstance(shape, list)
        if plain and len(shape) <= 2 and all(type(side) is int and 0 <= side < 2**48 for side in shape):
            return name, kind, shape
    raise MessageError("the arrays of the message do not fit")
