"""Random numbers that hide everything in a result except the answer.

All of them come from the operating system, never from a generator with a seed. The server uses three kinds:

* *factors*: every mark is multiplied by a random non-zero number, so the querier sees that a class attains
  the minimum, not how many sites say so.
* *pads*: the summands of one answer get random numbers that add up to 0. What the querier decrypts are
  *shares* of the sum, uniform among all that have this sum. All other slots get uniform random numbers.
* *the flood*: whoever holds the secret key reads not only the message of a ciphertext but also its error, and
  the error depends on what the sites sent. The server adds t times a sum of four uniform numbers of
  :attr:`~.parameters.Parameters.flood_bits` bits. A sum of four has finite Fisher information (one uniform
  number has not), so the statistical distance grows with the square root of N instead of N.
"""

from __future__ import annotations

import os

import numpy as np

from onefold._base.arrays import Integers, Polynomials
from onefold.federated.fhe._layout import PLAIN_MODULUS, Layout, Slots
from onefold.federated.fhe._wire import shifted

LIMB_BITS = 16
SUMMANDS = 4


def _words(count: int, kind: type[np.unsignedinteger] = np.uint16) -> Integers:
    """Return whole numbers uniform over all that ``kind`` (at most 32 bits) holds."""
    size = np.dtype(kind).itemsize
    return np.frombuffer(os.urandom(size * count), dtype=kind).astype(np.int64)


def _uniform(count: int, modulus: int) -> Integers:
    """Return whole numbers uniform in 0 ... modulus - 1, exactly: numbers that would bias are drawn again."""
    last = 2**32 // modulus * modulus
    drawn = _words(count, np.uint32)
    while (again := np.flatnonzero(drawn >= last)).size:
        drawn[again] = _words(again.size, np.uint32)
    return drawn % modulus


def factors(layout: Layout) -> Slots:
    """Return random non-zero factors for one plane of marks; 1 in the check column, whose sum is public."""
    drawn = 1 + _uniform(2 * layout.row, PLAIN_MODULUS - 1)
    drawn[layout.positions() // layout.window == layout.n_columns - 1] = 1
    return drawn


def pads(layout: Layout, n_queries: int) -> Slots:
    """Return uniform random numbers for all slots; those of the summands of one answer add up to 0."""
    drawn = _uniform(2 * layout.row, PLAIN_MODULUS)
    summands = layout.summands(n_queries)
    drawn[summands[..., 0]] = -drawn[summands[..., 1:]].sum(axis=-1) % PLAIN_MODULUS
    return drawn


def flood(bits: int, degree: int, primes: list[int]) -> Polynomials:
    """Return the polynomials (t E, 0), not transformed, modulo each prime (of at most 60 bits)."""
    limbs = [sum(_words(degree) for _ in range(SUMMANDS)) for _ in range(bits // LIMB_BITS)]
    rest = bits % LIMB_BITS
    if rest:
        limbs.insert(0, sum(_words(degree) >> (LIMB_BITS - rest) for _ in range(SUMMANDS)))
    middle = SUMMANDS * (2**bits - 1) // 2
    rows = np.zeros((2, len(primes), degree), dtype=np.uint64)
    for index, prime in enumerate(primes):
        value = np.zeros(degree, dtype=np.uint64)
        for limb in limbs:  # from the highest: the sum of four numbers is the sum of their limbs
            value = (shifted(value, LIMB_BITS, prime) + np.asarray(limb, dtype=np.uint64)) % np.uint64(prime)
        value = (value + np.uint64(prime - middle % prime)) % np.uint64(prime)
        rows[0, index] = (shifted(value, LIMB_BITS, prime) + value) % np.uint64(prime)  # t = 2^16 + 1
    return rows
