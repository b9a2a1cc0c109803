"""The one wire format: a header and some arrays as a checksummed run of bytes, without pickle.

A frame is 8 bytes of magic, 4 bytes with the length of the header (little endian), the header as JSON, the
arrays one after the other as the header lists them (little endian, row by row), and the SHA-256 sum of all
before it. The sum shows damage on the way. It is no signature: who sent the bytes is for the transport to
establish.

The last byte of the magic is the format number. A frame that older programs would misread gets a new number;
an array of a new type needs none, since older programs refuse it.

Several frames, or other runs of bytes, can be joined in one file (:func:`join_frames`).
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Arrays
from onefold._base.foreign import parse_json
from onefold.exceptions import MessageError

MAGIC = b"onefold\x01"
LENGTH_BYTES = 4
SUM_BYTES = hashlib.sha256().digest_size
LARGEST_HEADER = 16 * 2**20
DTYPES: dict[str, np.dtype[Any]] = {code: np.dtype(code) for code in ("<f4", "<f8", "<i8", "<u8", "|u1")}
MOST_ARRAYS = 16
MOST_DIMENSIONS = 2
JOINED_LENGTH_BYTES = 8


def pack_frame(header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """Pack a header of JSON values and named arrays into one run of bytes.

    Parameters
    ----------
    header : mapping
        JSON values; NaN and infinity are not among them.
    arrays : mapping of str to ndarray
        Arrays of float32, float64, int64, uint64 or uint8 with at most two dimensions.

    Returns
    -------
    bytes
        The frame.

    Examples
    --------
    >>> import numpy as np
    >>> frame = pack_frame({"kind": "query"}, {"rows": np.eye(2)})
    >>> header, arrays = unpack_frame(frame, max_bytes=1000)
    >>> header, arrays["rows"].shape
    ({'kind': 'query'}, (2, 2))
    """
    little = {name: np.asarray(array, dtype=array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    listing = [[name, array.dtype.str, list(array.shape)] for name, array in little.items()]
    text = json.dumps({"header": dict(header), "arrays": listing}, allow_nan=False).encode()
    parts = [MAGIC, len(text).to_bytes(LENGTH_BYTES, "little"), text]
    content = b"".join([*parts, *(array.tobytes() for array in little.values())])
    return content + hashlib.sha256(content).digest()


def unpack_frame(data: bytes, max_bytes: int) -> tuple[dict[str, Any], Arrays]:
    """Unpack a frame; anything but a whole, undamaged frame is refused.

    What the header says and which arrays there are is not checked here: that is for the caller.

    Parameters
    ----------
    data : bytes
        The frame; the arrays are read-only views of it.
    max_bytes : int
        Size above which a frame is refused before it is looked at.

    Returns
    -------
    header : dict
        JSON values.
    arrays : dict of str to ndarray
        The named arrays.

    Raises
    ------
    MessageError
        The bytes are too many, damaged, or no frame of this format.
    """
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


def join_frames(frames: Iterable[bytes]) -> bytes:
    """Join several frames, or other runs of bytes, into one file's content, each after its length."""
    return b"".join(len(frame).to_bytes(JOINED_LENGTH_BYTES, "little") + frame for frame in frames)


def split_frames(content: bytes) -> list[bytes]:
    """Split what :func:`join_frames` joined; content that was cut off is refused with MessageError."""
    found, offset = [], 0
    while offset < len(content):
        start = offset + JOINED_LENGTH_BYTES
        offset = start + int.from_bytes(content[offset:start], "little")
        if offset > len(content):
            raise MessageError("the file is cut off")
        found.append(content[start:offset])
    return found


def _parse(text: bytes) -> tuple[dict[str, Any], list[Any]]:
    try:
        plain = parse_json(text.decode("utf-8"))
    except ValueError:
        raise MessageError("the header of the message cannot be read") from None
    if not isinstance(plain, dict) or set(plain) != {"header", "arrays"}:
        raise MessageError("the header of the message cannot be read")
    header, listing = plain["header"], plain["arrays"]
    if not isinstance(header, dict) or not isinstance(listing, list) or len(listing) > MOST_ARRAYS:
        raise MessageError("the header of the message cannot be read")
    return header, listing


def _arrays(content: memoryview, listing: list[Any]) -> Arrays:
    found: Arrays = {}
    offset = 0
    for entry in listing:
        name, code, shape = _array_entry(entry)
        dtype = DTYPES[code]
        size = math.prod(shape) * dtype.itemsize
        if max(shape, default=0) > len(content):  # as of an array that has rows and no columns
            raise MessageError("the arrays of the message do not fit")
        if name in found or offset + size > content.nbytes:
            raise MessageError("the arrays of the message do not fit")
        flat = np.frombuffer(content[offset : offset + size], dtype=dtype)
        found[name] = flat.reshape(shape).astype(dtype.newbyteorder("="), copy=False)
        offset += size
    if offset != content.nbytes:
        raise MessageError("the arrays of the message do not fit")
    return found


def _array_entry(entry: Any) -> tuple[str, str, list[int]]:
    if isinstance(entry, list) and len(entry) == 3:
        name, code, shape = entry
        plain = isinstance(name, str) and isinstance(code, str) and code in DTYPES and isinstance(shape, list)
        if (
            plain
            and len(shape) <= MOST_DIMENSIONS
            and all(type(side) is int and 0 <= side < 2**48 for side in shape)
        ):
            return name, code, shape
    raise MessageError("the arrays of the message do not fit")
