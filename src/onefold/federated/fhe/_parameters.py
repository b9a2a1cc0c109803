"""Parameters for (Q, C, bits): ring, primes and noise, chosen so that the answer is right and 128 bits safe.

The primes, from the last to go to the first: two of the *base* in which the last product and the flooding
take place; one that the random factors of the marks cost; and one per product of the zero
test. The largest sum of all bits that is safe is SEAL's table (the homomorphic encryption standard, 128
bits, ternary secrets).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe._circuit import PLAIN_MODULUS, pick
from onefold.federated.fhe._layout import Layout, Slots
from onefold.federated.fhe._noise import PLAIN_BITS, Figure, NoiseFigures
from onefold.federated.fhe._two_digits import race
from onefold.federated.fhe._wire import packed_bytes
from onefold.federated.fhe._zero_test import ZeroTest

__all__ = ["BITS", "FLOOD_SECURITY", "MOST_CLASSES", "MOST_CLIENTS", "Parameters", "choose"]

MOST_CLIENTS, MOST_CLASSES = 200, 100
BITS = (4, 5, 6, 8, 10, 12, 16)
DIGIT_BITS = {16: 8}  # measures of so many bits are taken digit by digit
SAFE_BITS = {8192: 218, 16384: 438, 32768: 881}
BASE_PRIMES = 2
BASE_SIZES = (52, 54, 56, 58, 60)
BLINDING_SIZES = (24, 28, 30, 32)
SPECIAL_SIZES = (48, 44, 40, 36, 32)  # the larger, the less noise: as much as is safe
DAMPING_BITS = 3  # by which a dropped prime is larger than what brings the noise of a product to the floor
FLOOD_SECURITY = 40  # the result is within 2^-40 (statistical distance) of one that tells the answer only
FISHER_OF_FOUR = 3.2  # at least the Fisher information of a sum of four uniform numbers on [0, 1)
SLACK_BITS = 3  # by which noise may be above its figure: rotated copies of a ciphertext are not independent
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
    rooms: tuple[int, ...]  # primes of each context, from the full one down to where marks are picked
    noise_bits: float = 0.0  # bound on the noise of a result before flooding
    rotations: tuple[tuple[int, ...], ...] = ()  # that each room needs keys for

    @property
    def digits(self) -> int:
        """Digits of a measure."""
        return 2 if self.bits in DIGIT_BITS else 1

    @property
    def n_values(self) -> int:
        """Values of a digit."""
        return int(2 ** DIGIT_BITS.get(self.bits, self.bits))

    @property
    def pick_primes(self) -> int:
        """Primes left when the marks are picked: the base and the one that their random factors cost."""
        return BASE_PRIMES + 1

    @property
    def mark_primes(self) -> int:
        """Primes with which marks are sent: one more if they first have to be weighed."""
        return self.pick_primes + self.digits - 1

    @property
    def hot_primes(self) -> int:
        """Primes with which the one-hot high digit is sent; the thermometer of the low one has one less."""
        return self.rooms[1]

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


def choose(n_clients: int, n_classes: int, bits: int = 8) -> Parameters:
    """The smallest ring, and in it the smallest primes, that leave :data:`MARGIN_BITS` of noise."""
    for name, number in (("n_clients", n_clients), ("n_classes", n_classes), ("bits", bits)):
        check_whole_number(name, number)
    n_clients, n_classes, bits = int(n_clients), int(n_classes), int(bits)  # numpy's would not go into JSON
    if n_clients > MOST_CLIENTS or n_classes > MOST_CLASSES:
        raise InvalidInputError(f"at most {MOST_CLIENTS} clients and {MOST_CLASSES} classes are supported")
    if bits not in BITS:
        raise InvalidInputError(f"bits must be one of {', '.join(map(str, BITS))}")
    if 2 ** DIGIT_BITS.get(bits, bits) < n_classes + 1:
        raise InvalidInputError("2^bits must be larger than n_classes")
    return _chosen(n_clients, n_classes, bits)


@cache
def _chosen(n_clients: int, n_classes: int, bits: int) -> Parameters:
    for degree in SAFE_BITS:
        for base, blinding in sorted(product(BASE_SIZES, BLINDING_SIZES), key=_mark_bytes):
            found = _parameters((n_clients, n_classes, bits), degree, base, blinding)
            if found is not None:
                return found
    raise InvalidInputError("no parameters of 128-bit security fit these numbers of clients and classes")


def _mark_bytes(sizes: tuple[int, int]) -> tuple[int, int]:
    """Bytes of a coefficient of the marks, which are most of a message; then bits."""
    base, blinding = sizes
    return packed_bytes([base] * BASE_PRIMES + [blinding], 1), BASE_PRIMES * base + blinding


def _parameters(setting: tuple[int, int, int], degree: int, base: int, blinding: int) -> Parameters | None:
    for special in SPECIAL_SIZES:
        blank = _blank(setting, degree, (base, blinding, special))
        if blank.row >= blank.n_values and blank.modulus_bits <= SAFE_BITS[degree]:
            fits = _with_noise(blank, 1).budget_bits >= MARGIN_BITS
            found = _with_noise(blank, blank.row // blank.n_values) if fits else None
            return found if found is not None and found.budget_bits >= MARGIN_BITS else None
    return None


def _blank(setting: tuple[int, int, int], degree: int, sizes: tuple[int, int, int]) -> Parameters:
    """A chain of primes, from the sizes of those of the base, the one for random factors, the special one."""
    n_clients, _, bits = setting
    base, blinding, special = sizes
    usual, levels = _usual_bits(degree, special), _level_bits(n_clients, degree, special)
    chain = (base,) * BASE_PRIMES + (blinding, *levels)
    rooms: tuple[int, ...] = (len(chain), BASE_PRIMES + 1)
    if bits in DIGIT_BITS:
        # A product that selects, with a sum over positions; and one with the selection, summed over clients.
        excess = _excess_bits(n_clients, degree, special)
        chain = (*chain, usual + 8, usual + 4 + excess, *levels)
        rooms = (len(chain), len(chain) - len(levels), BASE_PRIMES + 1)
    return Parameters(*setting, degree, chain, special, rooms)


def _with_noise(blank: Parameters, most: int) -> Parameters:
    """With the noise and the rotations of all ways of spreading a query over up to ``most`` blocks."""
    figures = NoiseFigures(blank.degree, blank.prime_bits, blank.special_bits)
    noise, spread = 0.0, 1
    while spread <= most:
        layout = Layout(blank.n_values, blank.n_columns, blank.row, spread)
        noise = max(noise, _result(figures, blank, layout).bits + SLACK_BITS)
        spread *= 2
    steps = []
    for above, below in zip(blank.rooms, (*blank.rooms[1:], 0), strict=True):
        steps.append(tuple(sorted({step for level, step in figures.steps if below < level <= above})))
    return replace(blank, noise_bits=noise, rotations=tuple(steps))


def _result(figures: NoiseFigures, chosen: Parameters, layout: Layout) -> Figure:
    """The noise of a result when all clients answer."""
    if chosen.digits == 1:
        counts = figures.fresh(len(chosen.prime_bits), chosen.n_clients)
        below = ZeroTest(chosen.n_clients, PLAIN_MODULUS).evaluate(figures, counts)
        marks = [figures.fresh(chosen.mark_primes, chosen.n_clients)] * layout.planes
        return pick(figures, layout, below, marks, _no_factors)
    hot, low = (figures.fresh(n_primes, 1) for n_primes in (chosen.hot_primes, chosen.hot_primes - 1))
    mark = figures.fresh(chosen.mark_primes, 1)  # one plane stands for all, which are alike
    counts = figures.fresh(len(chosen.prime_bits), chosen.n_clients)
    below, marks = race(figures, layout, chosen.n_clients, counts, [(hot, low, [mark])] * chosen.n_clients)
    return pick(figures, layout, below, marks * layout.planes, _no_factors)


def _no_factors(_: Layout) -> Slots:
    """Noise figures do not depend on which factors are drawn."""
    return np.zeros(0, dtype=np.int64)


def _usual_bits(degree: int, special: int) -> int:
    """The size of a prime that brings the noise of a product of settled ciphertexts back to the floor."""
    endless = NoiseFigures(degree, (40,) * 64, special)
    settled = Figure(64, endless.floor)
    return math.ceil(endless.multiply(settled, settled).bits - endless.floor + DAMPING_BITS)


@cache
def _level_bits(n_clients: int, degree: int, special: int) -> tuple[int, ...]:
    """A prime per product of the zero test; the first one has the noise of all clients to bring down."""
    endless = NoiseFigures(degree, (40,) * 64, special)
    counts = endless.fresh(64, n_clients)
    depth = 64 - ZeroTest(n_clients, PLAIN_MODULUS).evaluate(endless, counts).n_primes
    if depth == 0:
        return ()
    first = math.ceil(endless.multiply(counts, counts).bits - endless.floor + DAMPING_BITS)
    return (_usual_bits(degree, special),) * (depth - 1) + (first,)


@cache
def _excess_bits(n_clients: int, degree: int, special: int) -> int:
    """By how much the noise of h is above the floor: coefficients of the last sums are as large as t."""
    levels = _level_bits(n_clients, degree, special)
    figures = NoiseFigures(degree, (40, *levels), special)
    counts = figures.fresh(len(figures.prime_bits), n_clients)
    found = ZeroTest(n_clients, PLAIN_MODULUS).evaluate(figures, counts)
    return math.ceil(found.bits - figures.floor)
