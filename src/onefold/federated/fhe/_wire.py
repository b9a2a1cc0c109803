"""The bytes of ciphertexts in messages.

A coefficient takes 8 bytes where SEAL writes it. In a message it takes as many bytes as its prime has, in one
to three *planes* (the low 16 or 32 bits, and the rest). The server adds planes over sites without assembling
the coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Polynomials
from onefold._base.seal_bytes import LevelId, plaintext_bytes, read_plaintext
from onefold.exceptions import MessageError

PLANES = {1: "u1", 2: "<u2", 3: "<u2 u1", 4: "<u4", 5: "<u4 u1", 6: "<u4 <u2", 7: "<u4 <u2 u1", 8: "<u4 <u4"}


def secret_rows(data: bytes, rows: Sequence[int], level: LevelId, degree: int) -> bytes:
    """Return a secret key restricted to some of its primes, for a context that has only those."""
    return plaintext_bytes(level, read_plaintext(data).reshape(-1, degree)[list(rows)])


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
