"""Files of encrypted queries that go between a querier's machine and the server's: neither holds a secret.

A *lock file* holds what the sites answer under and what the server computes with. A *sealed file* holds what
the server computed; only the querier's key opens it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.files import atomic_write
from onefold._base.frames import pack_frame, unpack_frame
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated.messages import Lock, from_bytes, to_bytes

FORMAT = 1
MAX_BYTES = 2**32


@dataclass(frozen=True, eq=False)
class SealedPart:
    """What came back for one query.

    ``refused`` holds the codes of those who did not answer and said why, ``content`` the result of ``sites``.
    """

    query_id: str
    n_rows: int
    expected: tuple[str, ...]
    refused: dict[str, str]
    sites: tuple[str, ...]
    content: bytes = field(repr=False)


def save_lock(path: Path, lock: Lock, evaluation_keys: bytes) -> None:
    """Write a lock file."""
    arrays = {"lock": to_bytes(lock), "keys": evaluation_keys}
    _write(path, {"kind": "lock", "format": FORMAT}, arrays)


def load_lock(path: Path) -> tuple[Lock, bytes]:
    """What :func:`save_lock` wrote."""
    _, arrays = _read(path, "lock")
    try:
        lock = from_bytes(arrays["lock"])
    except (MessageError, KeyError):
        lock = None
    if not isinstance(lock, Lock) or "keys" not in arrays:
        raise FileFormatError(f"{path}: is no lock file of this version")
    return lock, arrays["keys"]


def save_sealed(path: Path, lock: Lock, parts: list[SealedPart]) -> None:
    """Write a sealed file."""
    listing = [
        [p.query_id, p.n_rows, list(p.expected), p.refused, list(p.sites), len(p.content)] for p in parts
    ]
    header = {
        "kind": "sealed",
        "format": FORMAT,
        "key_id": lock.key_id,
        "classes": list(lock.classes),
        "parts": listing,
    }
    _write(path, header, {"content": b"".join(part.content for part in parts)})


def load_sealed(path: Path) -> tuple[str, list[Any], list[SealedPart]]:
    """What :func:`save_sealed` wrote: the name of the key, the classes, and the parts."""
    header, arrays = _read(path, "sealed")
    parts, start = [], 0
    try:
        for query_id, n_rows, expected, refused, sites, length in header["parts"]:
            content = arrays["content"][start : start + length]
            refusals = {str(site): str(code) for site, code in refused.items()}
            names = tuple(map(str, expected)), tuple(map(str, sites))
            parts.append(SealedPart(str(query_id), int(n_rows), names[0], refusals, names[1], content))
            start += length
        key_id, classes = str(header["key_id"]), list(header["classes"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileFormatError(f"{path}: is no sealed file of this version") from None
    return key_id, classes, parts


def _write(path: Path, header: dict[str, Any], contents: dict[str, bytes]) -> None:
    arrays = {name: np.frombuffer(content, dtype=np.uint8) for name, content in contents.items()}
    try:
        with atomic_write(path) as file:
            file.write(pack_frame(header, arrays))
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written ({error.strerror or 'I/O error'})") from None


def _read(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    try:
        header, arrays = unpack_frame(path.read_bytes(), MAX_BYTES)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except MessageError:
        raise FileFormatError(f"{path}: is no {kind} file of this version, or is damaged") from None
    if header.get("kind") != kind or header.get("format") != FORMAT:
        raise FileFormatError(f"{path}: is no {kind} file of this version")
    return header, {name: array.tobytes() for name, array in arrays.items()}
