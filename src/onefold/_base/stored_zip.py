"""Zip files without compression, read with suspicion: no member is read before its size is checked."""

import io
import math
import struct
import zipfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import AnyArray
from onefold._base.foreign import claimed
from onefold.exceptions import FileFormatError

__all__ = ["KINDS", "StoredZip", "parse_array"]

LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, ..., lengths of the name and of the extra field
END_RECORD = struct.Struct("<4s8xL4xH")  # signature, ..., size of the directory, ..., length of the comment
LARGEST_DIRECTORY = 2**25  # a directory takes more than ten times its size in memory
LARGEST_PLAIN_ZIP = 2**31  # no smaller file has a reason for the second, 64-bit end record
KINDS = "biufU"
LARGEST_CHARACTER = 0x10FFFF


class StoredZip:
    """The members of an uncompressed zip file, none of which shares bytes with another.

    Parameters
    ----------
    file : binary file
        Open for reading, and seekable.

    Attributes
    ----------
    n_bytes : int
        Size of the file.
    comment : bytes
        The comment at the end of the file.
    names : list of str
        The names of the members, in the order of the directory.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        size = self.n_bytes = file.seek(0, io.SEEK_END)
        _check_directory(file, size)
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            self.comment = archive.comment
        if any(each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1 for each in members):
            raise FileFormatError("its parts are compressed")
        if sum(each.file_size for each in members) > size:
            raise FileFormatError("damaged: its parts are larger than the whole")
        self._places = {each.filename: self._place(each) for each in members}
        self.names = list(self._places)
        taken = sorted((each.header_offset, sum(self._places[each.filename])) for each in members)
        ends = [end for _, end in taken]
        overlap = any(start < end for (start, _), end in zip(taken[1:], ends, strict=False))
        if overlap or len(self.names) != len(members) or (ends and max(ends) > size):
            raise FileFormatError("damaged: its parts share their bytes")

    def _place(self, member: zipfile.ZipInfo) -> tuple[int, int]:
        """Where the content of a member begins, and its size."""
        self._file.seek(member.header_offset)
        signature, name, extra = LOCAL_HEADER.unpack(self._file.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04" or member.file_size != member.compress_size:
            raise FileFormatError("damaged: its directory is wrong")
        return member.header_offset + LOCAL_HEADER.size + name + extra, member.file_size

    def size(self, name: str) -> int:
        """Size of a member in bytes."""
        return self._places[name][1]

    def read(self, name: str) -> NDArray[np.uint8]:
        """Read a member into memory of its own."""
        start, size = self._places[name]
        content = np.empty(size, dtype=np.uint8)
        self._file.seek(start)
        if self._file.readinto(content.data) != size:  # type: ignore[attr-defined]
            raise FileFormatError("truncated")
        return content


def _check_directory(file: IO[bytes], size: int) -> None:
    """Refuse directories that take much memory, before they are read."""
    tail_size = min(
        size, END_RECORD.size + 20 + 2**16
    )  # with a locator before, and the longest comment behind
    file.seek(size - tail_size)
    tail = file.read(tail_size)
    found = tail.rfind(b"PK\x05\x06")
    if found < 0:
        raise zipfile.BadZipFile
    _, directory, _ = END_RECORD.unpack_from(tail, found)
    # Its values replace those of the plain end record.
    second = tail[max(found - 20, 0) : found].startswith(b"PK\x06\x07")
    if directory > LARGEST_DIRECTORY or (second and size < LARGEST_PLAIN_ZIP):
        raise FileFormatError("it has too many parts")


def parse_array(name: str, content: NDArray[np.uint8], most: int) -> AnyArray:
    """Return the array in the content of a ``.npy`` file, on the same memory, in the order it was written.

    Only booleans, numbers of up to eight bytes and texts are arrays here: nothing that could be executed. No
    side may be longer than ``most``, the bytes of the whole file: an array of 10^9 rows without columns takes
    no bytes, and whatever is done for each of its rows takes them all.
    """
    stream = io.BytesIO(content[: 2**16].tobytes())
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, in_columns, dtype = readers[version](stream)
    data = content[stream.tell() :]
    plain = dtype.kind in KINDS and (dtype.kind == "U" or dtype.itemsize <= 8)
    if not plain or dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise FileFormatError(f"damaged: {name} does not have the size it claims")
    for side in shape:
        claimed(int(side), most)
    array: AnyArray = data.view(dtype).reshape(shape[::-1] if in_columns else shape)
    _check_values(name, dtype, data)
    if not array.flags.aligned:  # numpy takes slower routines for such memory, with other last digits
        array = array.copy()
    return array.T if in_columns else array


def _check_values(name: str, dtype: np.dtype[Any], data: NDArray[np.uint8]) -> None:
    """Refuse bytes that stand for no boolean and for no character."""
    codes = np.dtype(np.uint32).newbyteorder(dtype.byteorder) if dtype.kind == "U" else np.dtype(np.uint8)
    largest = {"U": LARGEST_CHARACTER, "b": 1}.get(dtype.kind)
    if largest is not None and data.view(codes).max(initial=0) > largest:
        raise FileFormatError(f"damaged: {name} holds what is no text or truth value")
