"""The one file format: arrays and a description in an uncompressed zip file, without pickle.

Layout of format 2
------------------
One member ``<name>.npy`` per array, so that ``numpy.load`` can look into a file, and last ``manifest.json``::

    {"format": 2, "kind": "private moments", "about": {...}, "sums": {"<name>.npy": "<SHA-256>", ...}}

The comment of the zip file is the SHA-256 sum of the manifest. Dates are fixed: equal contents give equal
files. The sums show damage and careless edits. They are no signature: take files from people you trust.

``kind`` says what the file holds, ``about`` describes it in JSON. A thing that contains another one keeps the
description of that in its own under a name, and its arrays under the same name and a slash: see :func:`nest`.

The format number
-----------------
``FORMAT`` is the layout of the container. Raise it when a program of the last version would misread a new
file; a new kind, or a new entry of ``about``, needs no new number as long as readers can do without it.
"""

import hashlib
import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import AnyArray, Arrays
from onefold._base.files import atomic_write
from onefold._base.foreign import NOT_READABLE, TOO_LARGE, claimed, parse_json
from onefold.exceptions import FileFormatError, InvalidInputError

FORMAT = 2
MANIFEST = "manifest.json"
SUFFIX = ".npy"
LARGEST_MANIFEST = 2**26
MOST_ARRAYS = 2**15  # more would need the 64-bit directory of large zip files
# Sums of larger arrays are taken in threads, while the next array is read.
LARGE = 2**16
THREADS = 4
LONGEST_KIND = 40  # shown in errors
LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, ..., lengths of the name and of the extra field
END_RECORD = struct.Struct("<4s8xL4xH")  # signature, ..., size of the directory, ..., length of the comment
LARGEST_DIRECTORY = 2**25  # a directory takes more than ten times its size in memory
LARGEST_PLAIN_ZIP = 2**31  # no smaller file has a reason for the second, 64-bit end record
KINDS = "biufU"
LARGEST_CHARACTER = 0x10FFFF

About = dict[str, Any]
Source = str | os.PathLike[str] | bytes


# --- writing ----------------------------------------------------------------------------------------------


def save_archive(
    path: str | os.PathLike[str],
    kind: str,
    about: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
) -> None:
    """Write an archive to ``path``, replacing what was there only when all is written.

    Only the user's account may read it: models hold rows, or what was learned from them.

    Parameters
    ----------
    path : path
        Where to write.
    kind : str
        What the archive holds.
    about : mapping
        Description, of JSON values; scalars of numpy are turned into Python's.
    arrays : mapping of str to ndarray
        Arrays of booleans, numbers or texts; their order in memory (C or Fortran) is kept.
    """
    with atomic_write(path) as file:
        write_archive(file, kind, about, arrays)


def archive_bytes(kind: str, about: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """Return what :func:`save_archive` writes, as bytes."""
    content = io.BytesIO()
    write_archive(content, kind, about, arrays)
    return content.getvalue()


def write_archive(
    file: IO[bytes], kind: str, about: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> None:
    """Write an archive to an open, seekable file."""
    if len(arrays) > MOST_ARRAYS:
        raise InvalidInputError(f"one file holds at most {MOST_ARRAYS} arrays")
    sums: dict[str, str] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            sums[name + SUFFIX] = _write_array(archive, name + SUFFIX, np.asanyarray(array))
        manifest = {"format": FORMAT, "kind": kind, "about": dict(about), "sums": sums}
        text = json.dumps(manifest, indent=1, default=_plain, allow_nan=False).encode()
        archive.writestr(_member(MANIFEST), text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()


def _write_array(archive: zipfile.ZipFile, name: str, array: AnyArray) -> str:
    """Write an array as it lies in memory, and return its sum."""
    if array.dtype.kind not in KINDS:
        raise InvalidInputError(f"an array of {array.dtype} cannot be saved")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    in_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    rows = np.ascontiguousarray(array.T if in_columns else array)
    about = {"descr": array.dtype.str, "fortran_order": in_columns, "shape": array.shape}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, about)
    data = rows.reshape(-1).view(np.uint8).data
    member, total = _member(name), hashlib.sha256()
    member.file_size = header.tell() + data.nbytes  # tells zipfile whether 32 bits suffice
    with archive.open(member, "w") as file:
        for content in (header.getbuffer(), data):
            file.write(content)
            total.update(content)
    return total.hexdigest()


def _member(name: str) -> zipfile.ZipInfo:
    """Return an entry with a fixed date, so that equal contents give equal files."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _plain(value: Any) -> Any:
    """Return a scalar of numpy as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError("only numbers, texts, lists and dicts can be described")


# --- zip files without compression: no member is read before its size is checked ---------------------------


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


# --- reading ----------------------------------------------------------------------------------------------


def read_archive(
    source: Source, kind: str, wanted: Callable[[str], bool] | None = None
) -> tuple[About, Arrays]:
    """Read an archive of a kind; anything else is refused with one line.

    Parameters
    ----------
    source : path or bytes
        The file, or its content.
    kind : str
        What it must hold.
    wanted : function of a name to bool, optional
        Which arrays to read; None reads all. The others are not looked at.

    Returns
    -------
    about : dict
        The description, of JSON values. Nothing of it has been checked.
    arrays : dict of str to ndarray
        The arrays, each in memory of its own. Their sizes are true; numbers may be NaN.

    Raises
    ------
    FileFormatError
        It is damaged, of another kind, or of a newer format.
    InvalidInputError
        There is no file at the path.

    Examples
    --------
    >>> import numpy as np
    >>> content = archive_bytes("note", {"says": "hello"}, {"numbers": np.arange(3)})
    >>> about, arrays = read_archive(content, "note")
    >>> about["says"], arrays["numbers"].tolist()
    ('hello', [0, 1, 2])
    """
    with _opened(source, kind) as file:
        manifest, archive = _manifest(file)
        if manifest["kind"] != kind:
            raise FileFormatError(f"it holds a {manifest['kind'][:LONGEST_KIND]}, not a {kind}")
        return manifest["about"], _read_arrays(archive, manifest["sums"], wanted)


def kind_of(source: Source) -> str | None:
    """Return the kind of thing a file or its content holds; None if it is no archive of this package."""
    try:
        with _opened(source, "") as file:
            return str(_manifest(file)[0]["kind"])
    except InvalidInputError:
        return None


@contextmanager
def _opened(source: Source, kind: str) -> Iterator[IO[bytes]]:
    """The open file; whatever goes wrong while it is read becomes one line with its path."""
    where = ""
    if not isinstance(source, (bytes, bytearray, memoryview)):
        where = f"{os.fspath(source)}: "
        if not Path(source).is_file():
            raise InvalidInputError(f"there is no {kind} file at {os.fspath(source)}")
    try:
        with open(source, "rb") if where else io.BytesIO(source) as file:  # type: ignore[arg-type]
            yield file
    except FileFormatError as error:
        raise FileFormatError(f"{where}{error}") from None
    except MemoryError:
        raise FileFormatError(f"{where}{TOO_LARGE}") from None
    except NOT_READABLE:
        raise FileFormatError(f"{where}not a {kind} file, or damaged") from None


def _manifest(file: IO[bytes]) -> tuple[dict[str, Any], StoredZip]:
    """Return the manifest and the members of an archive."""
    archive = StoredZip(file)
    if MANIFEST not in archive.names:
        raise FileFormatError("not a file of onefold")
    if archive.size(MANIFEST) > LARGEST_MANIFEST:
        raise FileFormatError("its manifest is too large")
    text = archive.read(MANIFEST).tobytes()
    if hashlib.sha256(text).hexdigest().encode() != archive.comment:
        raise FileFormatError("damaged: the manifest does not match its checksum")
    manifest = parse_json(text)
    number = manifest["format"]
    if type(number) is not int or number != FORMAT:
        told = number if type(number) is int and abs(number) < 10**6 else "unknown"
        raise FileFormatError(f"it has format {told}, this version of onefold reads format {FORMAT}")
    kind, about, sums = (manifest[name] for name in ("kind", "about", "sums"))
    if not (isinstance(kind, str) and isinstance(about, dict) and isinstance(sums, dict)):
        raise FileFormatError("damaged: its manifest cannot be read")
    if sorted([*sums, MANIFEST]) != sorted(archive.names) or not all(n.endswith(SUFFIX) for n in sums):
        raise FileFormatError("damaged: its parts are not those it lists")
    return manifest, archive


def _read_arrays(archive: StoredZip, sums: Mapping[str, str], wanted: Callable[[str], bool] | None) -> Arrays:
    names = [name for name in sums if wanted is None or wanted(name.removesuffix(SUFFIX))]
    contents: dict[str, NDArray[np.uint8]] = {}
    with ThreadPoolExecutor(THREADS) as executor:
        totals = {}
        for name in names:
            content = contents[name] = archive.read(name)
            totals[name] = executor.submit(_sum, content).result if len(content) > LARGE else None
        for name, content in contents.items():
            total = totals[name]
            if (_sum(content) if total is None else total()) != sums[name]:
                raise FileFormatError(f"damaged: {name} does not match its checksum")
    most = archive.n_bytes
    return {name.removesuffix(SUFFIX): parse_array(name, content, most) for name, content in contents.items()}


def _sum(content: NDArray[np.uint8]) -> str:
    return hashlib.sha256(content.data).hexdigest()


# --- things inside things ---------------------------------------------------------------------------------


def nest(name: str, about: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> tuple[About, Arrays]:
    """Put a thing's description and arrays under a name, to be merged with those of what contains it.

    Parameters
    ----------
    name : str
        The name, without a slash.
    about : mapping
        Description of the inner thing.
    arrays : mapping of str to ndarray
        Its arrays.

    Returns
    -------
    about : dict
        ``{name: about}``.
    arrays : dict
        The arrays under ``name/``.

    Examples
    --------
    >>> import numpy as np
    >>> about, arrays = nest("moments", {"radius": 1.0}, {"counts": np.ones(2)})
    >>> about, list(arrays)
    ({'moments': {'radius': 1.0}}, ['moments/counts'])
    >>> part("moments", about, arrays)[0]
    {'radius': 1.0}
    """
    return {name: dict(about)}, {f"{name}/{inner}": array for inner, array in arrays.items()}


def part(name: str, about: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> tuple[About, Arrays]:
    """Return the description and the arrays that :func:`nest` put under a name."""
    inner = about.get(name)
    if not isinstance(inner, dict):
        raise FileFormatError(f"damaged: it does not describe its {name}")
    prefix = f"{name}/"
    found = {key[len(prefix) :]: array for key, array in arrays.items() if key.startswith(prefix)}
    return inner, found
