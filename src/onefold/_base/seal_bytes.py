"""The bytes of SEAL's own objects, which its Python binding cannot take apart.

SEAL 4 writes, little endian and uncompressed: a header of 16 bytes, the 32 bytes that name a level, the
fixed fields, and an array with a header of its own. A coefficient takes 8 bytes. Nothing here is for bytes of
others: what comes from elsewhere travels as bare coefficients, whose number and size are known, and gets its
header here.
"""

import struct
from collections.abc import Sequence

import numpy as np

from onefold._base.arrays import Polynomials, Residues

__all__ = [
    "LevelId",
    "ciphertext_bytes",
    "plaintext_bytes",
    "read_ciphertext",
    "read_plaintext",
    "relabelled",
]

LevelId = Sequence[int]

HEADER = struct.Struct("<HBBBBHQ")  # magic, own size, version (2), compression, reserved, size of all
FIELDS = struct.Struct("<4Q?QQQdQ")  # level, is it transformed, polynomials, N, primes, scale, factor
PLAIN_FIELDS = struct.Struct("<4QQd")  # level, coefficients, scale: of plaintexts and of secret keys
COUNT = struct.Struct("<Q")
MAGIC = 0xA15E
VERSION = (4, 4)


def _header(size: int) -> bytes:
    return HEADER.pack(MAGIC, HEADER.size, *VERSION, 0, 0, size)


def _whole(fields: bytes, coefficients: Residues) -> bytes:
    data = COUNT.pack(coefficients.size) + np.ascontiguousarray(coefficients, dtype="<u8").tobytes()
    body = fields + _header(HEADER.size + len(data)) + data
    return _header(HEADER.size + len(body)) + body


def ciphertext_bytes(level: LevelId, polynomials: Polynomials, transformed: bool = True) -> bytes:
    """Return what SEAL reads as a ciphertext with the factor 1, or as a public key."""
    size, primes, degree = polynomials.shape
    return _whole(FIELDS.pack(*level, transformed, size, degree, primes, 1.0, 1), polynomials)


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
    flat = np.frombuffer(data, dtype="<u8", offset=2 * HEADER.size + FIELDS.size + COUNT.size)
    return flat.reshape(size, primes, degree)


def plaintext_bytes(level: LevelId, coefficients: Residues) -> bytes:
    """Return what SEAL reads as a plaintext, whose level is four zeros, or as a secret key."""
    return _whole(PLAIN_FIELDS.pack(*level, coefficients.size, 1.0), coefficients)


def read_plaintext(data: bytes) -> Residues:
    """Return the coefficients of a plaintext or secret key that SEAL wrote in this process."""
    return np.frombuffer(data, dtype="<u8", offset=2 * HEADER.size + PLAIN_FIELDS.size + COUNT.size)
