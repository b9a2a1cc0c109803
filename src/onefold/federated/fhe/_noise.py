"""How large the noise of a ciphertext is, in bits, without any ciphertext.

The same circuit that runs on ciphertexts runs here on figures: a bound on log2 of the largest coefficient
of "message + t error". The rules are those of random errors (sizes add as roots of sums of squares), which
holds since the mean of SEAL's rounding is taken off (see :mod:`._ciphertexts`); they are compared with
measured noise in the tests, and at every set-up by :class:`~onefold.federated.fhe.Querier`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from onefold.federated.fhe._circuit import PLAIN_MODULUS
from onefold.federated.fhe._engine import Combination
from onefold.federated.fhe._layout import Slots

__all__ = ["Figure", "NoiseFigures"]

PLAIN_BITS = math.log2(PLAIN_MODULUS)
ERROR_BITS = math.log2(3.2)  # standard deviation of fresh errors in SEAL
HEAVY_BITS = 2.0  # by which the noise of powers of powers is above that of independent factors
TAIL_BITS = 3.0  # the largest of N coefficients lies within 2^3 standard deviations


@dataclass(frozen=True)
class Figure:
    """Primes left, and bits of noise."""

    n_primes: int
    bits: float


def together(*bits: float) -> float:
    """The noise of a sum of independent errors."""
    largest = max(bits)
    return largest + 0.5 * math.log2(sum(4.0 ** (each - largest) for each in bits))


@dataclass
class NoiseFigures:
    """The operations on noise figures; ``steps`` collects the rotations that were asked for."""

    degree: int
    prime_bits: Sequence[int]
    special_bits: int
    steps: set[tuple[int, int]] = field(default_factory=set)  # primes left, rotation

    @property
    def root(self) -> float:
        """log2 of the square root of N, by which a product of polynomials outgrows its factors."""
        return 0.5 * math.log2(self.degree)

    @property
    def floor(self) -> float:
        """What a change of modulus leaves at best: t times a rounding, and one times the secret."""
        return PLAIN_BITS + 0.5 * math.log2(self.degree * 2 / 3 / 3) + TAIL_BITS

    def fresh(self, n_primes: int, summands: int) -> Figure:
        """The sum of some fresh ciphertexts."""
        return Figure(n_primes, self.floor + 0.5 * math.log2(summands))

    def lowered(self, a: Figure, n_primes: int) -> Figure:
        """With fewer primes."""
        bits = a.bits
        for size in self.prime_bits[n_primes : a.n_primes][::-1]:
            bits = together(bits - size + HEAVY_BITS, self.floor)
        return Figure(n_primes, bits)

    def _aligned(self, *values: Figure) -> list[Figure]:
        """With as many primes as the one that has the fewest; that changes no noise."""
        level = min(value.n_primes for value in values)
        return [Figure(level, value.bits) for value in values]

    def combine(self, sum_: Combination[Figure]) -> Figure:
        """A coefficient is at most t / 2 in size."""
        values = self._aligned(*(value for _, value in sum_.terms))
        if all(abs(coefficient) == 1 for coefficient, _ in sum_.terms):
            return Figure(values[0].n_primes, together(*(value.bits for value in values)))
        return Figure(values[0].n_primes, together(*(value.bits + PLAIN_BITS - 1 for value in values)))

    def sum_of_products(
        self,
        pairs: Sequence[tuple[Combination[Figure], Figure | None]],
        extra: Figure | None,
        aim: tuple[Figure, Figure] | None = None,
    ) -> Figure:
        """Each product is of a combination and one value."""
        made = [] if extra is None else [extra]
        for sum_, partner in pairs:
            value = self.combine(sum_)
            made.append(value if partner is None else self.multiply(value, partner))
        aligned = self._aligned(*made)
        return Figure(aligned[0].n_primes, together(*(each.bits for each in aligned)))

    def add(self, a: Figure, b: Figure) -> Figure:
        """Independent errors."""
        a, b = self._aligned(a, b)
        return Figure(a.n_primes, together(a.bits, b.bits))

    def multiply(self, a: Figure, b: Figure) -> Figure:
        """Sizes multiply, times the root of N; the tail was counted in both factors."""
        a, b = self._aligned(a, b)
        return Figure(a.n_primes, a.bits + b.bits + self.root - TAIL_BITS + 1)

    def _switched(self, a: Figure) -> Figure:
        """What a key switch adds: an error per prime times its digit, divided by the special prime."""
        largest = max(self.prime_bits[: a.n_primes])
        digits = PLAIN_BITS + ERROR_BITS + largest + self.root + 0.5 * math.log2(a.n_primes / 12) + TAIL_BITS
        return Figure(a.n_primes, together(a.bits, digits - self.special_bits, self.floor))

    def relinearise(self, a: Figure) -> Figure:
        """One key switch."""
        return self._switched(a)

    def settle(self, a: Figure) -> Figure:
        """One key switch, one prime."""
        return self.lowered(self._switched(a), a.n_primes - 1)

    def rotate(self, a: Figure, steps: int) -> Figure:
        """One key switch."""
        self.steps.add((a.n_primes, steps))
        return self._switched(a)

    def scale_slots(self, a: Figure, slots: Slots) -> Figure:
        """Times a polynomial with coefficients anywhere below t."""
        return Figure(a.n_primes, a.bits + PLAIN_BITS - 0.5 * math.log2(12) + self.root + 1)

    def shift_slots(self, a: Figure, slots: Slots) -> Figure:
        """A message of at most t."""
        return Figure(a.n_primes, together(a.bits, PLAIN_BITS))
