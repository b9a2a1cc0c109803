"""Noise that drowns the noise: what is left in a result of how it was computed is hidden from the key holder.

Whoever holds the secret key reads not only the message but also the error of a ciphertext, and that error
is a function of what the clients sent. So a fresh encryption of 0 is added, which makes the polynomials
new, and t times a sum of four uniform numbers of :attr:`~._parameters.Parameters.flood_bits` bits, from the
operating system. The sum of four has finite Fisher information (one uniform number has not), so the
distance grows with the root of N instead of N.
"""

from __future__ import annotations

import numpy as np

from onefold.federated.fhe._randomness import words
from onefold.federated.fhe._wire import Polynomials, shifted

__all__ = ["flood"]

LIMB_BITS = 16
SUMMANDS = 4


def flood(bits: int, degree: int, primes: list[int]) -> Polynomials:
    """The polynomials (t E, 0), not transformed, modulo each prime (of at most 60 bits)."""
    limbs = [sum(words(degree) for _ in range(SUMMANDS)) for _ in range(bits // LIMB_BITS)]
    rest = bits % LIMB_BITS
    if rest:
        limbs.insert(0, sum(words(degree) >> (LIMB_BITS - rest) for _ in range(SUMMANDS)))
    middle = SUMMANDS * (2**bits - 1) // 2
    rows = np.zeros((2, len(primes), degree), dtype=np.uint64)
    for index, prime in enumerate(primes):
        value = np.zeros(degree, dtype=np.uint64)
        for limb in limbs:  # from the highest: the sum of four numbers is the sum of their limbs
            value = (shifted(value, LIMB_BITS, prime) + np.asarray(limb, dtype=np.uint64)) % np.uint64(prime)
        value = (value + np.uint64(prime - middle % prime)) % np.uint64(prime)
        rows[0, index] = (shifted(value, LIMB_BITS, prime) + value) % np.uint64(prime)  # t = 2^16 + 1
    return rows
