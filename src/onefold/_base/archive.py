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
import os
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
from onefold._base.foreign import NOT_READABLE, TOO_LARGE, parse_json
from onefold._base.stored_zip import KINDS, StoredZip, parse_array
from onefold.exceptions import FileFormatError, InvalidInputError

__all__ = [
    "FORMAT",
    "archive_bytes",
    "kind_of",
    "nest",
    "part",
    "read_archive",
    "save_archive",
    "write_archive",
]

FORMAT = 2
MANIFEST = "manifest.json"
SUFFIX = ".npy"
LARGEST_MANIFEST = 2**26
MOST_ARRAYS = 2**15  # more would need the 64-bit directory of large zip files
# Sums of larger arrays are taken in threads, while the next array is read.
LARGE = 2**16
THREADS = 4
LONGEST_KIND = 40  # shown in errors

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
