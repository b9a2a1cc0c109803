"""Parameters for (Q, C, bits): ring, primes and noise, chosen so that the answer is right and 128 bits safe.

The primes, from the last to go to the first: three of the *base* in which the last product, the sums and
the flooding take place; one that the random factors of the marks cost; and one per product of the zero
test. The largest sum of all bits that is safe is SEAL's table (the homomorphic encryption standard, 128
bits, ternary secrets).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe._circuit import PLAIN_MODULUS, pick
from onefold.federated.fhe._layout import Layout
from onefold.federated.fhe._noise import PLAIN_BITS, Figure, NoiseFigures
from onefold.federated.fhe._zero_test import ZeroTest

__all__ = ["BITS", "FLOOD_SECURITY", "MOST_CLASSES", "MOST_CLIENTS", "Parameters", "choose"]

MOST_CLIENTS, MOST_CLASSES = 200, 100
BITS = (4, 5, 6, 8, 10, 12)
SAFE_BITS = {8192: 218, 16384: 438, 32768: 881}
BASE_PRIMES = 3
BASE_SIZES = (40, 41, 42, 43, 44)
BLINDING_BITS = 24
SPECIAL_BITS = 32
FLOOD_SECURITY = 40  # the result is within 2^-40 (statistical distance) of one that tells the answer only
FISHER_OF_FOUR = 3.6  # at least the Fisher information of a sum of four uniform numbers on [0, 1)
SLACK_BITS = (
    3  # by which the noise may be above its figure: rotated copies of one ciphertext are not independent
)
MARGIN_BITS = 2  # left at decryption, after everything


@dataclass(frozen=True)
class Parameters:
    """One choice, the same for all roles: it follows from the first three fields."""

    n_clients: int
    n_classes: int
    bits: int
    degree: int
    prime_bits: tuple[int, ...]
    special_bits: int
    noise_bits: float  # bound on the noise of a result before flooding
    rotations: tuple[int, ...]

    @property
    def mark_primes(self) -> int:
        """Primes with which marks are sent: the base and the one for the random factors."""
        return BASE_PRIMES + 1

    @property
    def n_values(self) -> int:
        """Values of a measure."""
        return int(2**self.bits)

    @property
    def row(self) -> int:
        """Slots in a row."""
        return self.degree // 2

    @property
    def n_columns(self) -> int:
        """The classes, and the check."""
        return self.n_classes + 1

    @property
    def flood_bits(self) -> int:
        """Bits w of the four uniform numbers whose sum, times t, is added to a result.

        Hellinger's distance bounds what shifts by the noise of N coefficients change:
        1/2 sqrt(N I) 2^noise / (t 2^w) <= 2^-FLOOD_SECURITY.
        """
        return flood_bits(self.noise_bits, self.degree)

    @property
    def modulus_bits(self) -> int:
        """Bits of all primes, the special one included."""
        return sum(self.prime_bits) + self.special_bits

    @property
    def budget_bits(self) -> float:
        """Bits left when a result is decrypted."""
        return sum(self.prime_bits[:BASE_PRIMES]) - 1 - flooded_bits(self.noise_bits, self.degree)


def flood_bits(noise_bits: float, degree: int) -> int:
    """See :attr:`Parameters.flood_bits`."""
    root = 0.5 * math.log2(degree * FISHER_OF_FOUR)
    return math.ceil(noise_bits - PLAIN_BITS + root - 1 + FLOOD_SECURITY)


def flooded_bits(noise_bits: float, degree: int) -> float:
    """Bits of noise after flooding: the sum of four numbers below 2^w lies within 2^(w + 1) of its middle."""
    return flood_bits(noise_bits, degree) + 1 + PLAIN_BITS + 0.01


@cache
def choose(n_clients: int, n_classes: int, bits: int = 8) -> Parameters:
    """The smallest ring, and in it the smallest primes, that leave :data:`MARGIN_BITS` of noise."""
    check_whole_number("n_clients", n_clients)
    check_whole_number("n_classes", n_classes)
    if n_clients > MOST_CLIENTS or n_classes > MOST_CLASSES:
        raise InvalidInputError(f"at most {MOST_CLIENTS} clients and {MOST_CLASSES} classes are supported")
    if bits not in BITS:
        raise InvalidInputError(f"bits must be one of {', '.join(map(str, BITS))}")
    if 2**bits < n_classes + 1:
        raise InvalidInputError("2^bits must be larger than n_classes")
    for degree in SAFE_BITS:
        for base in BASE_SIZES:
            found = _parameters(n_clients, n_classes, bits, degree, base)
            if found is not None:
                return found
    raise InvalidInputError("no parameters of 128-bit security fit these numbers of clients and classes")


def _parameters(n_clients: int, n_classes: int, bits: int, degree: int, base: int) -> Parameters | None:
    if degree // 2 < 2**bits:
        return None
    primes = (base,) * BASE_PRIMES + (BLINDING_BITS, *_level_bits(n_clients, degree))
    if sum(primes) + SPECIAL_BITS > SAFE_BITS[degree]:
        return None
    figures = NoiseFigures(degree, primes, SPECIAL_BITS)
    noise = 0.0
    spread = 1
    while spread <= degree // 2 // 2**bits:  # every way of spreading queries is used
        layout = Layout(2**bits, n_classes + 1, degree // 2, spread)
        noise = max(noise, _result(figures, n_clients, layout).bits + SLACK_BITS)
        spread *= 2
    found = Parameters(
        n_clients, n_classes, bits, degree, primes, SPECIAL_BITS, noise, tuple(sorted(figures.steps))
    )
    return found if found.budget_bits >= MARGIN_BITS else None


def _result(figures: NoiseFigures, n_clients: int, layout: Layout) -> Figure:
    counts = figures.fresh(n_clients)
    marks = [figures.lowered(counts, BASE_PRIMES + 1)] * layout.planes
    below = ZeroTest(n_clients, PLAIN_MODULUS).evaluate(figures, counts)
    return pick(figures, layout, below, marks)


def _level_bits(n_clients: int, degree: int) -> tuple[int, ...]:
    """A prime per product of the zero test, large enough to bring the noise back to the floor."""
    endless = NoiseFigures(degree, (40,) * 64, SPECIAL_BITS)
    counts = endless.fresh(n_clients)
    depth = 64 - ZeroTest(n_clients, PLAIN_MODULUS).evaluate(endless, counts).n_primes
    if depth == 0:
        return ()
    settled = Figure(64, endless.floor)
    usual = math.ceil(endless.multiply(settled, settled).bits - endless.floor + 1)
    first = math.ceil(endless.multiply(counts, counts).bits - endless.floor + 1)
    return (usual,) * (depth - 1) + (first,)
