"""BFV with Python's whole numbers, one coefficient at a time, from the definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def whole(residues: Sequence[int], primes: Sequence[int]) -> int:
    """The number below the product of the primes that has these residues (Chinese remainder theorem)."""
    q = math.prod(primes)
    parts = (r * (q // p) * pow(q // p, -1, p) for r, p in zip(residues, primes, strict=True))
    return sum(parts) % q


def phase(first: Sequence[int], second: Sequence[int], secret: Sequence[int], at: int, q: int) -> int:
    """Coefficient ``at`` of first + second * secret modulo X^N + 1 and q, between -q/2 and q/2."""
    n = len(secret)
    total = first[at]
    for j in range(n):
        # X^j times X^(at - j); beyond N the sign turns.
        total += second[j] * secret[at - j] if j <= at else -second[j] * secret[n + at - j]
    found = total % q
    return found - q if found > q // 2 else found


def opened(phase_: int, q: int, t: int) -> tuple[int, Fraction]:
    """The number modulo t that a phase stands for, and how far the phase is from that number's."""
    number = round(Fraction(t * phase_, q))
    return number % t, phase_ - Fraction(q * number, t)
