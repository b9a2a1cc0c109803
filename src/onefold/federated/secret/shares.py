r"""Shamir's secret sharing of whole numbers, vectorised: t of n shares give the numbers, fewer give nothing.

Numbers are residues modulo the prime :math:`p = 2^{61} - 1`. One prime of 61 binary digits was chosen over
two of 31 with the Chinese remainder theorem: sums of 64-bit statistics fit without a second pass, and
reducing modulo a Mersenne prime is a shift and an addition. A product of two residues is computed in halves
of 31 and
30 digits, so that nothing leaves 64 bits.

The secret is the value at 0 of a polynomial of degree t - 1, share i its value at i. Instead of coefficients
the shares 1 to t - 1 are drawn: any t values determine the polynomial, so drawing t - 1 of them uniformly is
drawing the coefficients uniformly. Drawn shares can be sent as the key of the generator that drew them, 32
bytes each.
"""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from onefold._base.arrays import Integers, Residues
from onefold._base.optional import require

__all__ = [
    "MODULUS",
    "SEED_BYTES",
    "add_shares",
    "combine_shares",
    "expand_seed",
    "new_seed",
    "split_secret",
    "to_residues",
]

MODULUS = 2**61 - 1
SEED_BYTES = 32
BLOCK = 2**14  # numbers at a time: working arrays stay in the cache
HALF, REST = 31, 30  # digits of the lower and the upper part of a residue
LOW, MIDDLE, ALL = np.uint64(2**HALF - 1), np.uint64(2**REST - 1), np.uint64(MODULUS)
BY_HALF, BY_REST, BY_ALL = np.uint64(HALF), np.uint64(REST), np.uint64(61)


# --- arithmetic modulo p ----------------------------------------------------------------------------------


def _reduced(values: Residues) -> Residues:
    """Residues of numbers below 2**64: the upper three digits count once more."""
    found = (values & ALL) + (values >> BY_ALL)
    return np.where(found >= ALL, found - ALL, found)


def _times(values: Residues, factor: int) -> Residues:
    """Products with a factor from 0 to p - 1."""
    if MODULUS - factor < 2**HALF:  # a small negative number
        return _reduced(ALL - _times(values, MODULUS - factor))
    high, low = values >> BY_HALF, values & LOW
    first, second = np.uint64(factor >> HALF), np.uint64(factor & (2**HALF - 1))
    middle = high * second  # below 2**61
    total = low * second  # below 2**62
    if first:
        middle += low * first  # below 2**62
        total += (high * first) << np.uint64(1)  # 2**62 is 2 modulo p; below 2**61
    # The middle counts 2**31 times: its digits from 30 on count as 2**61, which is 1.
    total += middle >> BY_REST
    total += (middle & MIDDLE) << BY_HALF
    return _reduced(total)


def _combined(parts: Sequence[Residues], weights: Sequence[int]) -> Residues:
    """Sum of weights times vectors."""
    found = np.empty(len(parts[0]), dtype=np.uint64)
    for start in range(0, len(found), BLOCK):
        block = slice(start, start + BLOCK)
        total = np.zeros(len(found[block]), dtype=np.uint64)
        for part, weight in zip(parts, weights, strict=True):
            if weight:
                total = _reduced(total + _times(part[block], weight))
        found[block] = total
    return found


def _weights(points: Sequence[int], at: int) -> list[int]:
    """Weights by which values at ``points`` give the value at another point (Lagrange)."""
    found = []
    for own in points:
        top = bottom = 1
        for other in points:
            if other != own:
                top, bottom = top * (at - other) % MODULUS, bottom * (own - other) % MODULUS
        found.append(top * pow(bottom, -1, MODULUS) % MODULUS)
    return found


# --- random residues --------------------------------------------------------------------------------------


def new_seed() -> bytes:
    """Return a key for :func:`expand_seed`, from the entropy of the operating system."""
    return os.urandom(SEED_BYTES)


def expand_seed(seed: bytes, length: int) -> Residues:
    """Return the uniform residues that a key stands for, by AES-256 in counter mode.

    Of every 64 random bits 61 are used. The one value in 2**61 that is no residue is drawn again, so that all
    residues are equally likely.
    """
    ciphers = require("cryptography.hazmat.primitives.ciphers", "federated")
    stream = ciphers.Cipher(ciphers.algorithms.AES(seed), ciphers.modes.CTR(bytes(16))).encryptor()
    found = np.frombuffer(stream.update(bytes(8 * length)), dtype="<u8") & ALL
    while (outside := np.flatnonzero(found == ALL)).size:
        found[outside] = np.frombuffer(stream.update(bytes(8 * outside.size)), dtype="<u8") & ALL
    return found


# --- shares -----------------------------------------------------------------------------------------------


def to_residues(numbers: Integers) -> Residues:
    """Return the residues of whole numbers between -p/2 and p/2."""
    return np.where(numbers < 0, numbers + MODULUS, numbers).astype(np.uint64)


def split_secret(secret: Integers, drawn: Sequence[Residues], n_shares: int) -> list[Residues]:
    """Return the shares that are not drawn: numbers ``len(drawn) + 1`` to ``n_shares``.

    Parameters
    ----------
    secret : ndarray of int64
        Whole numbers between -p/2 and p/2.
    drawn : sequence of ndarray of uint64
        Shares 1 to t - 1, uniform residues.
    n_shares : int
        Number of all shares.

    Returns
    -------
    list of ndarray of uint64
        The other shares.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.array([5, 7], dtype=np.uint64)
    >>> two, three = split_secret(np.array([-1, 3]), [one], 3)
    >>> combine_shares({1: one, 3: three}).tolist()
    [-1, 3]
    """
    known = [to_residues(secret), *drawn]
    return [_combined(known, _weights(range(len(known)), point)) for point in range(len(known), n_shares + 1)]


def combine_shares(shares: Mapping[int, Residues], at: int = 0) -> Integers:
    """Return what shares stand for: the value at 0, as numbers between -p/2 and p/2, or another share.

    Parameters
    ----------
    shares : mapping of int to ndarray of uint64
        Exactly t shares by their numbers, or sums of shares of several secrets.
    at : int, default=0
        Which share to compute; 0 is the secret.

    Returns
    -------
    ndarray of int64
        The sum of the secrets, or residues of a share.
    """
    points = sorted(shares)
    found = _combined([shares[point] for point in points], _weights(points, at)).astype(np.int64)
    return found if at else np.where(found > MODULUS // 2, found - MODULUS, found)


def add_shares(total: Residues, share: Residues) -> Residues:
    """Return the sum of two vectors of residues."""
    return _reduced(total + share)
