r"""BFV of SEAL for sums: numbers in the coefficients of polynomials, added by anybody, read with one key.

Sums need no products, so numbers are not spread over slots: one number is one coefficient, and the plain
modulus is :math:`t = 2^{59}`, the largest power of two that SEAL takes. One ciphertext holds 8192 numbers
modulo t, exactly, with no second modulus and no digits. It travels as bare coefficients, 32 bytes per number:
every length is known beforehand and every coefficient compared with its prime before SEAL sees it, and adding
ciphertexts needs no SEAL at all.

Whoever has the secret key also reads the error of a ciphertext. That of a sum depends a little on what single
sites encrypted: :math:`q m_i / t` is rounded at each. So the sum is *flooded* before it is given away, with
four uniform numbers of 57 binary digits per coefficient. ``docs/proofs/encrypted-sum.md`` has the proof.
"""

import base64
import binascii
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from onefold._base.arrays import Integers, Polynomials, Residues
from onefold._base.optional import require
from onefold._base.seal_bytes import ciphertext_bytes, plaintext_bytes, read_ciphertext, read_plaintext
from onefold.exceptions import InvalidInputError, MessageError

__all__ = ["PLAIN_BITS", "BfvKey", "CiphertextSum", "check_public", "ciphertext_size", "decrypt", "encrypt"]

DEGREE = 8192
# The largest that SEAL finds for 60 bits. 180 bits in all, where 218 are safe for 128 bits of security.
PRIMES = (1152921504606683137, 1152921504606748673, 1152921504606830593)
MODULI = np.array(PRIMES[:2], dtype=np.uint64)[:, None]  # of ciphertexts; the third is for fresh ones only
PLAIN_BITS = 59
FLOOD_BITS, SUMMANDS = 57, 4
# t (flood + errors of all sites) must stay below q / 2: 2^59 (2^58 + 2^27) is below 2^119 for 10 000 sites.
ONE = 2 * 2 * DEGREE * 8  # bytes of a ciphertext: two polynomials, two primes
SHAPE = (2, 2, DEGREE)
PLAIN_LEVEL = (0, 0, 0, 0)


class _Ring:
    """SEAL's context, the same for all sums: nothing in it is secret."""

    def __init__(self) -> None:
        self.seal = seal = require("seal", "fhe")
        settings = seal.EncryptionParameters(seal.scheme_type.bfv)
        settings.set_poly_modulus_degree(DEGREE)
        settings.set_coeff_modulus([seal.Modulus(prime) for prime in PRIMES])
        settings.set_plain_modulus(2**PLAIN_BITS)
        self.context = seal.SEALContext(settings, True, seal.sec_level_type.tc128)
        if not self.context.parameters_set():  # SEAL refuses what falls short of 128 bits of security
            raise InvalidInputError(f"SEAL refuses the parameters: {self.context.parameter_error_name()}")
        self.keys_level = self.context.key_context_data().parms_id()
        self.level = self.context.first_parms_id()


@lru_cache(maxsize=1)
def _ring() -> _Ring:
    return _Ring()


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Raise MessageError where SEAL refuses what has the right size and coefficients."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError, MemoryError):
        raise MessageError(f"{what} cannot be used by SEAL") from None


# --- keys -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BfvKey:
    """The secret key of the one who opens sums, and the public key that belongs to it."""

    secret: str = field(repr=False)
    public: str = field(repr=False)

    def __post_init__(self) -> None:
        _coefficients(self.secret, (3, DEGREE))
        check_public(self.public)

    @classmethod
    def new(cls) -> "BfvKey":
        """Make a pair of keys from the entropy of the operating system."""
        ring = _ring()
        maker = ring.seal.KeyGenerator(ring.context)
        secret = read_plaintext(maker.secret_key().to_string())
        public = read_ciphertext(maker.create_public_key().to_string())
        return cls(*(base64.b64encode(each.tobytes()).decode() for each in (secret, public)))


def check_public(public: str) -> None:
    """Refuse a text that is no public key of BFV."""
    _coefficients(public, (2, 3, DEGREE))


def _coefficients(text: str, shape: tuple[int, ...]) -> Polynomials:
    """Read coefficients modulo all three primes; SEAL is not asked."""
    size = 8 * int(np.prod(shape))
    if not isinstance(text, str) or len(text) != 4 * (-(-size // 3)):
        raise InvalidInputError("a key of BFV has the wrong length: make it with scheme bfv")
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInputError("a key of BFV is damaged") from None
    found = np.frombuffer(content, dtype="<u8")
    if found.size != np.prod(shape) or (found.reshape(shape) >= np.array(PRIMES, np.uint64)[:, None]).any():
        raise InvalidInputError("a key of BFV is damaged")
    return found.reshape(shape)


# --- ciphertexts ------------------------------------------------------------------------------------------


def ciphertext_size(length: int) -> int:
    """Return the bytes of the ciphertexts of a vector."""
    return ONE * -(-length // DEGREE)


def encrypt(public: str, numbers: Residues) -> bytes:
    """Encrypt numbers modulo t under a public key."""
    ring = _ring()
    with _refusing("the public key of the holder"):
        key = ring.context.from_public_str(
            ciphertext_bytes(ring.keys_level, _coefficients(public, (2, 3, DEGREE)))
        )
        encryptor = ring.seal.Encryptor(ring.context, key)
    parts = []
    for start in range(0, len(numbers), DEGREE):
        plain = ring.seal.Plaintext()
        plain.load_bytes(ring.context, plaintext_bytes(PLAIN_LEVEL, numbers[start : start + DEGREE]))
        parts.append(read_ciphertext(encryptor.encrypt(plain).to_string()).tobytes())
    return b"".join(parts)


def _foreign(content: bytes, length: int) -> Polynomials:
    """Ciphertexts of others: of the right size, every coefficient below its prime."""
    if len(content) != ciphertext_size(length):
        raise MessageError("the ciphertexts have the wrong length")
    found = np.frombuffer(content, dtype="<u8").reshape(-1, *SHAPE)
    if any((each >= MODULI).any() for each in found):
        raise MessageError("the ciphertexts have coefficients that are too large")
    return found


class CiphertextSum:
    """The sum of the ciphertexts of several vectors of one length, which needs no key and no SEAL."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._total: Any = None  # a contract of a few bytes may be of very many numbers

    def add(self, content: bytes) -> None:
        """Add the ciphertexts of one more vector; refuse what are none."""
        more = _foreign(content, self._length)
        if self._total is None:
            self._total = more.astype(np.uint64)
            return
        for total, each in zip(self._total, more, strict=True):
            total += each
            np.minimum(total, total - MODULI, out=total)  # below the prime the difference is huge

    def flooded(self) -> bytes:
        """Return the sum with so much error that the errors of single summands do not show."""
        parts = []
        for total in self._total:
            error = (flood() % MODULI.astype(np.int64)).astype(np.uint64)
            hidden = np.stack([(total[0] + error) % MODULI, total[1]])
            parts.append(hidden.astype("<u8", copy=False).tobytes())
        return b"".join(parts)


def flood() -> Integers:
    """Return what is added to the first polynomial of a ciphertext, from the entropy of the system."""
    drawn = np.frombuffer(os.urandom(8 * SUMMANDS * DEGREE), dtype="<u8") >> np.uint64(64 - FLOOD_BITS)
    middle = SUMMANDS * (2**FLOOD_BITS - 1) // 2
    return np.asarray(drawn.astype(np.int64).reshape(SUMMANDS, DEGREE).sum(axis=0) - middle)


def decrypt(secret: str, content: bytes, length: int) -> Residues:
    """Return the numbers modulo t that ciphertexts stand for."""
    found = _foreign(content, length)
    ring = _ring()
    rows = _coefficients(secret, (3, DEGREE)).ravel()
    with _refusing("the secret key"):
        key = ring.context.from_secret_str(plaintext_bytes(ring.keys_level, rows))
        decryptor = ring.seal.Decryptor(ring.context, key)
    numbers = np.zeros((len(found), DEGREE), dtype=np.uint64)
    for row, polynomials in zip(numbers, found, strict=True):
        cipher = ring.seal.Ciphertext()
        with _refusing("a ciphertext"):
            cipher.load_bytes(ring.context, ciphertext_bytes(ring.level, polynomials, transformed=False))
            known = read_plaintext(decryptor.decrypt(cipher).to_bytes())
        row[: len(known)] = known  # SEAL leaves out zeros at the end
    return numbers.ravel()[:length]
