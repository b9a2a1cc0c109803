"""The bytes of SEAL objects: read and written in place where the binding has no function for it.

SEAL 4 writes, little endian and uncompressed: a header of 16 bytes, the 32 bytes that name a level, the
fixed fields, and an array behind a header of its own. A coefficient takes 8 bytes there. On the wire of the
federation it takes as many as its prime has, as one to three *planes* (the low 16 or 32 bits, and the rest),
which a server adds up over its clients without assembling them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import MessageError

__all__ = [
    "PlaneSums",
    "Polynomials",
    "ciphertext_bytes",
    "pack_planes",
    "packed_bytes",
    "packed_size",
    "read_ciphertext",
    "relabelled",
    "secret_rows",
    "shifted",
    "truncated",
]

Polynomials = NDArray[np.uint64]  # (number of polynomials, primes, N)
LevelId = Sequence[int]

HEADER = struct.Struct("<HBBBBHQ")  # magic, own size, version (2), compression, reserved, size of all
FIELDS = struct.Struct("<4Q?QQQdQ")  # level, is it transformed, polynomials, N, primes, scale, factor
COUNT = struct.Struct("<Q")
SECRET_FIELDS = struct.Struct("<4QQd")  # level, coefficients, scale
MAGIC = 0xA15E
VERSION = (4, 4)
PLANES = {1: "u1", 2: "<u2", 3: "<u2 u1", 4: "<u4", 5: "<u4 u1", 6: "<u4 <u2", 7: "<u4 <u2 u1", 8: "<u4 <u4"}


def _header(size: int) -> bytes:
    return HEADER.pack(MAGIC, HEADER.size, *VERSION, 0, 0, size)


def ciphertext_bytes(
    level: LevelId, polynomials: Polynomials, factor: int, transformed: bool = True
) -> bytes:
    """What SEAL reads as a ciphertext."""
    size, primes, degree = polynomials.shape
    fields = FIELDS.pack(*level, transformed, size, degree, primes, 1.0, factor)
    data = COUNT.pack(polynomials.size) + np.ascontiguousarray(polynomials, dtype="<u8").tobytes()
    body = fields + _header(HEADER.size + len(data)) + data
    return _header(HEADER.size + len(body)) + body


def relabelled(data: bytes, level: LevelId) -> bytes:
    """What SEAL wrote, under the name of a level (of another context), and with the factor 1."""
    fields = list(FIELDS.unpack_from(data, HEADER.size))
    fields[:4], fields[-1] = level, 1
    return b"".join(
        [data[: HEADER.size], FIELDS.pack(*fields), memoryview(data)[HEADER.size + FIELDS.size :]]
    )


def truncated(data: bytes, level: LevelId, n_primes: int) -> bytes:
    """What SEAL wrote, modulo the first primes only, and with the factor 1."""
    return ciphertext_bytes(level, read_ciphertext(data).polynomials[:, :n_primes], 1)


@dataclass(frozen=True)
class ReadCiphertext:
    """The parts of a ciphertext that SEAL wrote."""

    polynomials: Polynomials
    factor: int


def read_ciphertext(data: bytes) -> ReadCiphertext:
    """The parts of what SEAL wrote; only for bytes of this process, never for what was received."""
    *_, size, degree, primes, _, factor = FIELDS.unpack_from(data, HEADER.size)
    start = 2 * HEADER.size + FIELDS.size + COUNT.size
    flat = np.frombuffer(data, dtype="<u8", offset=start)
    return ReadCiphertext(flat.reshape(size, primes, degree), factor)


def secret_rows(data: bytes, rows: Sequence[int], level: LevelId, degree: int) -> bytes:
    """A secret key restricted to some of its primes, for a context that has only those."""
    start = 2 * HEADER.size + SECRET_FIELDS.size + COUNT.size
    kept = np.frombuffer(data, dtype="<u8", offset=start).reshape(-1, degree)[list(rows)]
    content = COUNT.pack(kept.size) + kept.tobytes()
    body = SECRET_FIELDS.pack(*level, kept.size, 1.0) + _header(HEADER.size + len(content)) + content
    return _header(HEADER.size + len(body)) + body


def _plane_types(prime: int) -> list[np.dtype[np.unsignedinteger]]:
    return [np.dtype(kind) for kind in PLANES[(prime.bit_length() + 7) // 8].split()]


def packed_bytes(prime_bits: Sequence[int], degree: int) -> int:
    """Bytes that a ciphertext takes on the wire, from the sizes of its primes."""
    return 2 * degree * sum((bits + 7) // 8 for bits in prime_bits)


def packed_size(primes: Sequence[int], degree: int) -> int:
    """Bytes that a ciphertext takes on the wire."""
    return packed_bytes([prime.bit_length() for prime in primes], degree)


def shifted(values: NDArray[np.uint64], bits: int, prime: int) -> NDArray[np.uint64]:
    """2^bits times numbers modulo a prime, a few bits at a time, so that 64 hold them."""
    while bits:
        step = min(bits, 64 - prime.bit_length())
        values = (values << np.uint64(step)) % np.uint64(prime)
        bits -= step
    return values


def pack_planes(polynomials: Polynomials, primes: Sequence[int]) -> bytes:
    """A ciphertext in as few whole bytes per coefficient as its primes need."""
    parts = []
    for index, prime in enumerate(primes):
        rest = polynomials[:, index]
        for kind in _plane_types(prime):
            parts.append(rest.astype(kind).tobytes())  # keeps the low bits
            rest = rest >> np.uint64(8 * kind.itemsize)
    return b"".join(parts)


def _zeros(kind: np.dtype[np.unsignedinteger], size: int) -> NDArray[np.unsignedinteger]:
    """Sums of numbers of some bytes, with room for 2^16 of them."""
    return np.zeros(size, dtype=np.uint64 if kind.itemsize > 2 else np.uint32)


class PlaneSums:
    """The sum of packed ciphertexts, of at most 2^16 of them."""

    def __init__(self, primes: Sequence[int], degree: int) -> None:
        self.primes, self.degree = tuple(primes), degree
        self._kinds = [_plane_types(prime) for prime in primes]
        self._sums = [[_zeros(kind, 2 * degree) for kind in kinds] for kinds in self._kinds]

    def add(self, data: memoryview) -> None:
        """One more ciphertext."""
        if data.nbytes != packed_size(self.primes, self.degree):
            raise MessageError("a ciphertext of the message does not have the size it must have")
        start = 0
        for kinds, sums in zip(self._kinds, self._sums, strict=True):
            for kind, total in zip(kinds, sums, strict=True):
                stop = start + kind.itemsize * total.size
                total += np.frombuffer(data[start:stop], dtype=kind)
                start = stop

    def total(self) -> Polynomials:
        """The sum, reduced modulo each prime."""
        rows = []
        for prime, kinds, sums in zip(self.primes, self._kinds, self._sums, strict=True):
            value = sums[-1].astype(np.uint64) % np.uint64(prime)
            for kind, plane in zip(kinds[-2::-1], sums[-2::-1], strict=True):
                value = (shifted(value, 8 * kind.itemsize, prime) + plane) % np.uint64(prime)
            rows.append(value.reshape(2, self.degree))
        return np.stack(rows, axis=1)
