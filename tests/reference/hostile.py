"""Changed versions of a valid file: damage, and forgeries whose checksums and lengths are right.

Damage is cheap to refuse, because every format has sums. What matters are forgeries: one value of a
description, or one array, is replaced by something that no program of ours would write.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from onefold._base.records import METADATA, SUM_LENGTH, kind_of, pack

__all__ = ["damaged", "deep", "forgeries", "record_of", "repaired"]

DEEP = "a text that becomes a list in a list in a list"
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**9,
    2**63,
    10**30,
    0.5,
    1e308,
    "",
    "\x1b[31mred\n",
    "x" * 2000,
    [],
    {},
    [[0]],
    {"class": "KAHM", "parameters": {}},
    DEEP,
)
LENGTHS = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f", b"\xff" * 8)


def deep(text: bytes, depth: int = 20_000) -> bytes:
    """The JSON text with lists in lists where :data:`DEEP` stood."""
    return text.replace(json.dumps(DEEP).encode(), b"[" * depth + b"]" * depth)


# --- damage -----------------------------------------------------------------------------------------------


def damaged(sample: bytes, seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Flipped bits, cut ends, and fields of lengths that became huge or nothing."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        place, content = int(rng.integers(len(sample))), bytearray(sample)
        if number % 3 == 0:
            content[place] ^= 1 << int(rng.integers(8))
        elif number % 3 == 1:
            del content[place:]
        else:
            length = LENGTHS[int(rng.integers(len(LENGTHS)))]
            content[place : place + len(length)] = length[: len(sample) - place]
        yield f"damage {number} at {place}", bytes(content)


# --- forgeries --------------------------------------------------------------------------------------------


def forgeries(sample: bytes, keep: Any = None) -> Iterator[tuple[str, bytes]]:
    """Every value of a description and every array replaced in turn; ``keep(what)`` chooses among them."""
    if kind_of(sample) is not None:
        yield from _records(sample, keep)
    elif zipfile.is_zipfile(io.BytesIO(sample)):
        yield from _archives(sample, keep)
    elif sample[:1] in b"{[":
        yield from _texts(sample, keep)


def _chosen(keep: Any, what: str) -> bool:
    return keep is None or bool(keep(what))


def _texts(sample: bytes, keep: Any) -> Iterator[tuple[str, bytes]]:
    lines = sample.rstrip(b"\n").split(b"\n") if sample.count(b"\n{") else [sample]
    for number, line in enumerate(lines):
        for what, plain in _variants(json.loads(line)):
            if _chosen(keep, what):
                changed = [*lines[:number], deep(json.dumps(plain).encode()), *lines[number + 1 :]]
                yield what, b"\n".join(changed) + b"\n"


def _records(sample: bytes, keep: Any) -> Iterator[tuple[str, bytes]]:
    """Values of the header, and arrays: texts, numbers and bytes that are records are changed inside too."""
    end = 8 + int.from_bytes(sample[:8], "little")
    header = json.loads(json.loads(sample[8:end])["__metadata__"][METADATA][SUM_LENGTH:])
    arrays = load(sample)
    for what, plain in _variants(header):
        if _chosen(keep, what):
            yield what, record_of(deep(json.dumps(plain).encode()).decode(), arrays)
    about = (header["kind"], header["version"], header["fields"])
    for name, array in arrays.items():
        inner = array.tobytes()
        if array.dtype == np.uint8 and kind_of(inner) is not None:
            for what, changed in forgeries(inner, keep):
                forged = np.frombuffer(changed, dtype=np.uint8)
                yield f"{name} {what}", pack(*about, {**arrays, name: forged})
        for what, content in _arrays(_saved(array)):
            if not what.startswith(("claims", "as texts")) and _chosen(keep, f"{name} {what}"):
                yield f"{name} {what}", pack(*about, {**arrays, name: np.load(io.BytesIO(content))})
        if _chosen(keep, f"{name} is missing"):
            yield f"{name} is missing", pack(*about, {k: v for k, v in arrays.items() if k != name})
        for shape in ([10**13, 0], [2**40, 2**40]):
            if _chosen(keep, f"{name} claims {shape}"):
                raw = json.loads(sample[8:end])
                raw[name]["shape"] = shape
                text = json.dumps(raw).encode()
                yield f"{name} claims {shape}", len(text).to_bytes(8, "little") + text + sample[end:]


def record_of(text: str, arrays: dict[str, Any]) -> bytes:
    """A record with any header text, whose sum is right."""
    total = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        total.update(f"{name}\0{arrays[name].dtype.str}\0{arrays[name].shape}".encode())
        total.update(np.ascontiguousarray(arrays[name]).tobytes())
    return bytes(save(arrays, metadata={METADATA: total.hexdigest() + text}))


def _archives(sample: bytes, keep: Any) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(sample)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    for name, content in members.items():
        if name.endswith(".json"):
            variants = (
                (what, deep(json.dumps(plain).encode())) for what, plain in _variants(json.loads(content))
            )
        elif content.startswith(np.lib.format.MAGIC_PREFIX):
            variants = _arrays(content)
        else:
            variants = iter(())
        for what, changed in variants:
            if _chosen(keep, f"{name} {what}"):
                yield f"{name} {what}", repaired(zipped({**members, name: changed}))
        if _chosen(keep, f"{name} is missing"):
            yield f"{name} is missing", repaired(zipped({k: v for k, v in members.items() if k != name}))


def _variants(plain: Any) -> Iterator[tuple[str, Any]]:
    for path in [(), *_paths(plain)]:
        for value in VALUES:
            yield f"{path} = {str(value)[:40]!r}", _with(plain, path, value)
        if path and isinstance(path[-1], str):
            yield f"{path} is missing", _without(plain, path)
            yield f"{path} twice", _with(plain, (*path[:-1], path[-1] + "\x1b[2J"), 1)


def _paths(plain: Any) -> Iterator[tuple[Any, ...]]:
    items: Any = ()
    if isinstance(plain, dict):
        items = plain.items()
    elif isinstance(plain, list):
        items = list(enumerate(plain))[:3]
    for key, value in items:
        yield (key,)
        for rest in _paths(value):
            yield (key, *rest)


def _with(plain: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    found = copy.deepcopy(plain)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return found


def _without(plain: Any, path: tuple[Any, ...]) -> Any:
    found = copy.deepcopy(plain)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return found


def _arrays(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Arrays of other sizes, types and values, and headers that claim what is not there."""
    array = np.load(io.BytesIO(content))
    for side in (0, 30_000, 10**9, 10**13):
        for shape in ((side, 0), (0, side), (1, side, 0), (side, side), (side,)):
            yield f"claims {shape}", _npy(array.dtype.str, shape, b"")
    if array.ndim:
        for axis in range(array.ndim):
            yield f"empty along {axis}", _saved(np.take(array, [], axis=axis))
            yield f"doubled along {axis}", _saved(np.concatenate([array, array], axis=axis))
        yield "without its last", _saved(array.ravel()[:-1])
    yield "one more axis", _saved(array[None])
    yield "as bytes", _saved(np.frombuffer(array.tobytes(), dtype=np.uint8))
    yield "as texts", _saved(np.full(array.shape, "\x1b[31m"))
    yield "as truth values", _saved(np.ones(array.shape, dtype=bool))
    for value in (np.nan, np.inf, -np.inf, 1e308, -1.0, 0.0):
        yield f"all {value}", _saved(np.full(array.shape, value))
    for whole in (-(2**63), 2**63 - 1, 10**9, -1, 0, 30_000):
        yield f"all {whole}", _saved(np.full(array.shape, whole, dtype=np.int64))
        if array.size and array.dtype.kind in "iu":
            one = array.astype(np.int64)
            one.flat[0] = whole
            yield f"first {whole}", _saved(one)


def _npy(code: str, shape: tuple[int, ...], data: bytes) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": code, "fortran_order": False, "shape": shape})
    return out.getvalue() + data


def _saved(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, np.ascontiguousarray(array))
    return out.getvalue()


# --- right checksums --------------------------------------------------------------------------------------


def zipped(members: dict[str, bytes], comment: bytes = b"") -> bytes:
    """A zip file without compression."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
        archive.comment = comment
    return out.getvalue()


def repaired(content: bytes) -> bytes:
    """The content with the checksums that a forger would compute; unchanged where it has none."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
        name = next(name for name in members if name in ("manifest.json", "about.json"))
        plain = json.loads(members[name])
        sums = {each: hashlib.sha256(data).hexdigest() for each, data in members.items() if each != name}
        if isinstance(plain["sums"], dict):
            plain["sums"] = {each: sums.get(each, total) for each, total in plain["sums"].items()}
            members[name] = json.dumps(plain).encode()
    except Exception:  # not so much as a zip file, or one too deep to be written anew
        if "members" not in locals() or "name" not in locals():
            return content
    return zipped(members, hashlib.sha256(members[name]).hexdigest().encode())
