"""The bytes of ciphertexts: SEAL's own, which its Python binding cannot take apart, and those of messages.

SEAL 4 writes, little endian and uncompressed: a header of 16 bytes, the 32 bytes that name a level, the
fixed fields, and an array with a header of its own. A coefficient takes 8 bytes there. In a message it
takes as many bytes as its prime has, in one to three *planes* (the low 16 or 32 bits, and the rest). The
server adds planes over sites without assembling the coefficients.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Polynomials
from onefold.exceptions import MessageError

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


def ciphertext_bytes(level: LevelId, polynomials: Polynomials, transformed: bool = True) -> bytes:
    """Return what SEAL reads as a ciphertext with the factor 1."""
    size, primes, degree = polynomials.shape
    fields = FIELDS.pack(*level, transformed, size, degree, primes, 1.0, 1)
    data = COUNT.pack(polynomials.size) + np.ascontiguousarray(polynomials, dtype="<u8").tobytes()
    body = fields + _header(HEADER.size + len(data)) + data
    return _header(HEADER.size + len(body)) + body


def relabelled(data: bytes, level: LevelId) -> bytes:
    """Return what SEAL wrote, under the name of a level (of another context), and with the factor 1."""
    fields = list(FIELDS.unpack_from(data, HEADER.size))
    fields[:4], fields[-1] = level, 1
    return b"".join(
        [data[: HEADER.size], FIELDS.pack(*fields), memoryview(data)[HEADER.size + FIELDS.size :]]
    )


def read_ciphertext(data: bytes) -> Polynomials:
    """Return the polynomials of what SEAL wrote in this process; never use it on received bytes."""
    *_, size, degree, primes, _, _ = FIELDS.unpack_from(data, HEADER.size)
    start = 2 * HEADER.size + FIELDS.size + COUNT.size
    flat = np.frombuffer(data, dtype="<u8", offset=start)
    return flat.reshape(size, primes, degree)


def secret_rows(data: bytes, rows: Sequence[int], level: LevelId, degree: int) -> bytes:
    """Return a secret key restricted to some of its primes, for a context that has only those."""
    start = 2 * HEADER.size + SECRET_FIELDS.size + COUNT.size
    kept = np.frombuffer(data, dtype="<u8", offset=start).reshape(-1, degree)[list(rows)]
    content = COUNT.pack(kept.size) + kept.tobytes()
    body = SECRET_FIELDS.pack(*level, kept.size, 1.0) + _header(HEADER.size + len(content)) + content
    return _header(HEADER.size + len(body)) + body


def _plane_types(prime: int) -> list[np.dtype[np.unsignedinteger]]:
    return [np.dtype(kind) for kind in PLANES[(prime.bit_length() + 7) // 8].split()]


def packed_bytes(prime_bits: Sequence[int], degree: int) -> int:
    """Return the bytes of a ciphertext in a message, from the sizes of its primes."""
    return 2 * degree * sum((bits + 7) // 8 for bits in prime_bits)


def packed_size(primes: Sequence[int], degree: int) -> int:
    """Return the bytes of a ciphertext in a message, from its primes."""
    return packed_bytes([prime.bit_length() for prime in primes], degree)


def shifted(values: NDArray[np.uint64], bits: int, prime: int) -> NDArray[np.uint64]:
    """Return 2^bits times numbers modulo a prime, shifting so few bits at a time that 64 bits suffice."""
    while bits:
        step = min(bits, 64 - prime.bit_length())
        values = (values << np.uint64(step)) % np.uint64(prime)
        bits -= step
    return values


def pack_planes(polynomials: Polynomials, primes: Sequence[int]) -> bytes:
    """Return a ciphertext in as few whole bytes per coefficient as its primes need."""
    parts = []
    for index, prime in enumerate(primes):
        rest = polynomials[:, index]
        for kind in _plane_types(prime):
            parts.append(rest.astype(kind).tobytes())  # keeps the low bits
            rest = rest >> np.uint64(8 * kind.itemsize)
    return b"".join(parts)


def _zeros(kind: np.dtype[np.unsignedinteger], size: int) -> NDArray[np.unsignedinteger]:
    """Return zeros in which 2^16 numbers of this kind can be added without overflow."""
    return np.zeros(size, dtype=np.uint64 if kind.itemsize > 2 else np.uint32)


class PlaneSums:
    """The sum of packed ciphertexts, of at most 2^16 of them."""

    def __init__(self, primes: Sequence[int], degree: int) -> None:
        self.primes, self.degree = tuple(primes), degree
        self._kinds = [_plane_types(prime) for prime in primes]
        self._sums = [[_zeros(kind, 2 * degree) for kind in kinds] for kinds in self._kinds]

    def add(self, data: memoryview) -> None:
        """Add one more ciphertext; raise MessageError if it does not have the right size."""
        if data.nbytes != packed_size(self.primes, self.degree):
            raise MessageError("a ciphertext of the message has the wrong size")
        start = 0
        for kinds, sums in zip(self._kinds, self._sums, strict=True):
            for kind, total in zip(kinds, sums, strict=True):
                stop = start + kind.itemsize * total.size
                total += np.frombuffer(data[start:stop], dtype=kind)
                start = stop

    def total(self) -> Polynomials:
        """Return the sum, reduced modulo each prime."""
        rows = []
        for prime, kinds, sums in zip(self.primes, self._kinds, self._sums, strict=True):
            value = sums[-1].astype(np.uint64) % np.uint64(prime)
            for kind, plane in zip(kinds[-2::-1], sums[-2::-1], strict=True):
                value = (shifted(value, 8 * kind.itemsize, prime) + plane) % np.uint64(prime)
            rows.append(value.reshape(2, self.degree))
        return np.stack(rows, axis=1)


def unpack_planes(data: memoryview, primes: Sequence[int], degree: int) -> Polynomials:
    """Return the polynomials of one packed ciphertext."""
    sums = PlaneSums(primes, degree)
    sums.add(data)
    return sums.total()
