"""Parameters for (Q, C, bits): ring, primes and noise, chosen so that the answer is right and 128 bits safe.

The primes, from the last to be dropped to the first: two of the *base*, in which the last product and the
flooding take place; one that the random factors of the marks cost; and one per product of the zero test. The
largest sum of all bits that is safe is SEAL's table (the homomorphic encryption standard, 128 bits, ternary
secrets).

The noise is estimated without any ciphertext. The circuit that runs on ciphertexts runs here on *figures*: a
bound on log2 of the largest coefficient of "message + t error". The rules are those of random errors (sizes
add as roots of sums of squares), which holds since the mean of SEAL's rounding is taken off (see
:mod:`onefold.federated.fhe.seal`). The tests compare the figures with measured noise, and so does
:meth:`onefold.federated.fhe.Querier.evaluation_keys` for every new set of keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product

import numpy as np

from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe.circuit import (
    PLAIN_MODULUS,
    Combination,
    Engine,
    Layout,
    Slots,
    layouts,
    pick,
    second_pass,
    zero_test,
)

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

PLAIN_BITS = math.log2(PLAIN_MODULUS)
ERROR_BITS = math.log2(3.2)  # standard deviation of fresh errors in SEAL
HEAVY_BITS = 2.0  # by which the noise of powers of powers is above that of independent factors
TAIL_BITS = 3.0  # the largest of N coefficients lies within 2^3 standard deviations

SETTING = {"n_clients": Whole(1, MOST_CLIENTS), "n_classes": Whole(1, MOST_CLASSES), "bits": Whole(1)}


@dataclass(frozen=True)
class Parameters:
    """One choice of encryption parameters, the same for all roles.

    Everything follows from ``n_clients``, ``n_classes`` and ``bits``; :func:`choose` makes the choice.

    Parameters
    ----------
    n_clients : int
        Largest number of sites that may answer.
    n_classes : int
        Number of classes.
    bits : int
        Bits of a quantised measure.
    degree : int
        Degree N of the ring.
    prime_bits : tuple of int
        Bits of each prime, from the last to be dropped to the first.
    special_bits : int
        Bits of the special prime that key switching uses.
    chains : tuple of int
        Number of primes of each SEAL context, from the full one down to that of the last product.
    noise_bits : float, default=0.0
        Bound on the bits of noise of a result before flooding.
    rotations : tuple of tuple of int, default=()
        For each context, the rotations that need keys.

    See Also
    --------
    choose : The parameters for a setting.

    Examples
    --------
    >>> from onefold.federated.fhe.parameters import choose
    >>> parameters = choose(n_clients=4, n_classes=10)
    >>> parameters.degree, parameters.modulus_bits
    (16384, 256)
    """

    n_clients: int
    n_classes: int
    bits: int
    degree: int
    prime_bits: tuple[int, ...]
    special_bits: int
    chains: tuple[int, ...]
    noise_bits: float = 0.0
    rotations: tuple[tuple[int, ...], ...] = ()

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
        return self.chains[1]

    @property
    def row(self) -> int:
        """Slots in a row."""
        return self.degree // 2

    @property
    def n_columns(self) -> int:
        """Number of classes plus one for the check column."""
        return self.n_classes + 1

    @property
    def flood_bits(self) -> int:
        """Bits w of the four uniform numbers whose sum, times t, is added to a result.

        Hellinger's distance bounds what shifts by the noise of N coefficients change:
        1/2 sqrt(N I) 2^noise / (t 2^w) <= 2^-FLOOD_SECURITY.
        """
        root = 0.5 * math.log2(self.degree * FISHER_OF_FOUR)
        return math.ceil(self.noise_bits - PLAIN_BITS + root - 1 + FLOOD_SECURITY)

    @property
    def modulus_bits(self) -> int:
        """Bits of all primes, the special one included."""
        return sum(self.prime_bits) + self.special_bits

    @property
    def budget_bits(self) -> float:
        """Bits left when a result is decrypted."""
        # The sum of four numbers below 2^w lies within 2^(w + 1) of its middle.
        flooded = self.flood_bits + 1 + PLAIN_BITS + 0.01
        return sum(self.prime_bits[:BASE_PRIMES]) - 1 - flooded

    def layouts(self, n_rows: int) -> list[tuple[Layout, slice]]:
        """Return the layout of each ciphertext of a query, with the rows it holds.

        Parameters
        ----------
        n_rows : int
            Rows of the query.

        Returns
        -------
        list of (Layout, slice)
            One pair per ciphertext.
        """
        return layouts(self.n_values, self.n_columns, self.row, n_rows)

    def message_primes(self, layout: Layout) -> list[int]:
        """Return the number of primes of each ciphertext that a site sends for one layout, in their order.

        Parameters
        ----------
        layout : Layout
            One of :meth:`layouts`.

        Returns
        -------
        list of int
            Thermometer, the two parts of the digits if there are two, planes of marks.
        """
        digits = [] if self.digits == 1 else [self.hot_primes, self.hot_primes - 1]
        return [len(self.prime_bits), *digits, *[self.mark_primes] * layout.planes]

    def message_size(self, n_rows: int) -> int:
        """Return the bytes of the ciphertexts that one site sends about a query.

        Parameters
        ----------
        n_rows : int
            Rows of the query.

        Returns
        -------
        int
            Bytes of ``content`` in :class:`onefold.federated.fhe.messages.EncryptedAnswers`.
        """
        return sum(
            ciphertext_size(self.prime_bits[:n_primes], self.degree)
            for layout, _ in self.layouts(n_rows)
            for n_primes in self.message_primes(layout)
        )


def ciphertext_size(prime_bits: Sequence[int], degree: int) -> int:
    """Return the bytes of a ciphertext in a message, from the sizes of its primes."""
    return 2 * degree * sum((bits + 7) // 8 for bits in prime_bits)


# --- the choice -------------------------------------------------------------------------------------------


def choose(n_clients: int, n_classes: int, bits: int = 8) -> Parameters:
    """Choose the smallest ring, and in it the smallest primes, that give right and safe answers.

    Parameters
    ----------
    n_clients : int
        Largest number of sites that may answer, at most 200.
    n_classes : int
        Number of classes, at most 100 and less than 2^bits.
    bits : {4, 5, 6, 8, 10, 12, 16}, default=8
        Bits of a quantised measure.

    Returns
    -------
    Parameters
        They leave at least two bits of noise budget at the end.

    Raises
    ------
    InvalidInputError
        If a number is out of range, or no parameters of 128-bit security fit.

    See Also
    --------
    onefold.federated.fhe.Querier : Makes keys with these parameters.

    Examples
    --------
    >>> from onefold.federated.fhe.parameters import choose
    >>> choose(10, 10).message_size(n_rows=1)
    1835008
    """
    setting = {"n_clients": n_clients, "n_classes": n_classes, "bits": bits}
    for name, number in setting.items():
        check_parameter(name, number, SETTING[name])
    if bits not in BITS:
        raise InvalidInputError(f"bits must be one of {', '.join(map(str, BITS))}")
    if 2 ** DIGIT_BITS.get(int(bits), int(bits)) < n_classes + 1:
        raise InvalidInputError("n_classes must be less than 2^bits: use more bits")
    return _chosen(int(n_clients), int(n_classes), int(bits))  # numpy's would not go into JSON


@cache
def _chosen(n_clients: int, n_classes: int, bits: int) -> Parameters:
    for degree in SAFE_BITS:
        for base, blinding in sorted(product(BASE_SIZES, BLINDING_SIZES), key=_mark_size):
            found = _parameters((n_clients, n_classes, bits), degree, base, blinding)
            if found is not None:
                return found
    raise InvalidInputError("no parameters of 128-bit security fit these numbers of sites and classes")


def _mark_size(sizes: tuple[int, int]) -> tuple[int, int]:
    """Return the bytes of a coefficient of the marks, which are most of a message; then the bits."""
    base, blinding = sizes
    return ciphertext_size([base] * BASE_PRIMES + [blinding], 1), BASE_PRIMES * base + blinding


def _parameters(setting: tuple[int, int, int], degree: int, base: int, blinding: int) -> Parameters | None:
    for special in SPECIAL_SIZES:
        blank = _blank(setting, degree, (base, blinding, special))
        if blank.row >= blank.n_values and blank.modulus_bits <= SAFE_BITS[degree]:
            fits = _with_noise(blank, 1).budget_bits >= MARGIN_BITS
            found = _with_noise(blank, blank.row // blank.n_values) if fits else None
            return found if found is not None and found.budget_bits >= MARGIN_BITS else None
    return None


def _blank(setting: tuple[int, int, int], degree: int, sizes: tuple[int, int, int]) -> Parameters:
    """Return a chain of primes, from the sizes of base primes, of the one for factors, of the special one."""
    n_clients, _, bits = setting
    base, blinding, special = sizes
    usual, levels = _usual_bits(degree, special), _level_bits(n_clients, degree, special)
    chain = (base,) * BASE_PRIMES + (blinding, *levels)
    chains: tuple[int, ...] = (len(chain), BASE_PRIMES + 1)
    if bits in DIGIT_BITS:
        # A product that selects, with a sum over positions; and one with the selection, summed over sites.
        excess = _excess_bits(n_clients, degree, special)
        chain = (*chain, usual + 8, usual + 4 + excess, *levels)
        chains = (len(chain), len(chain) - len(levels), BASE_PRIMES + 1)
    return Parameters(*setting, degree, chain, special, chains)


def _with_noise(blank: Parameters, most: int) -> Parameters:
    """Return it with noise and rotations of all ways of spreading a query over up to ``most`` blocks."""
    figures = NoiseFigures(blank.degree, blank.prime_bits, blank.special_bits)
    noise, spread = 0.0, 1
    while spread <= most:
        layout = Layout(blank.n_values, blank.n_columns, blank.row, spread)
        noise = max(noise, _result(figures, blank, layout).bits + SLACK_BITS)
        spread *= 2
    steps = []
    for above, below in zip(blank.chains, (*blank.chains[1:], 0), strict=True):
        steps.append(tuple(sorted({step for level, step in figures.steps if below < level <= above})))
    return replace(blank, noise_bits=noise, rotations=tuple(steps))


def _result(figures: NoiseFigures, chosen: Parameters, layout: Layout) -> Figure:
    """Return the noise of a result when all sites answer."""
    counts = figures.fresh(len(chosen.prime_bits), chosen.n_clients)
    if chosen.digits == 1:
        below = zero_test(figures, chosen.n_clients, counts)
        marks = [figures.fresh(chosen.mark_primes, chosen.n_clients)] * layout.planes
        return pick(figures, layout, below, marks, _no_factors)
    hot, low = (figures.fresh(n_primes, 1) for n_primes in (chosen.hot_primes, chosen.hot_primes - 1))
    mark = figures.fresh(chosen.mark_primes, 1)  # one plane stands for all, which are alike
    sent = [(hot, low, [mark])] * chosen.n_clients
    below, marks = second_pass(figures, layout, chosen.n_clients, counts, sent)
    return pick(figures, layout, below, marks * layout.planes, _no_factors)


def _no_factors(_: Layout) -> Slots:
    """Return nothing: noise figures do not depend on which factors are drawn."""
    return np.zeros(0, dtype=np.int64)


def _usual_bits(degree: int, special: int) -> int:
    """Return the size of a prime that brings the noise of a product of settled ciphertexts to the floor."""
    endless = NoiseFigures(degree, (40,) * 64, special)
    settled = Figure(64, endless.floor)
    return math.ceil(endless.multiply(settled, settled).bits - endless.floor + DAMPING_BITS)


@cache
def _level_bits(n_clients: int, degree: int, special: int) -> tuple[int, ...]:
    """Return a prime per product of the zero test; the first has the noise of all sites to bring down."""
    endless = NoiseFigures(degree, (40,) * 64, special)
    counts = endless.fresh(64, n_clients)
    depth = 64 - zero_test(endless, n_clients, counts).n_primes
    if depth == 0:
        return ()
    first = math.ceil(endless.multiply(counts, counts).bits - endless.floor + DAMPING_BITS)
    return (_usual_bits(degree, special),) * (depth - 1) + (first,)


@cache
def _excess_bits(n_clients: int, degree: int, special: int) -> int:
    """Return the bits of noise of h above the floor: coefficients of the last sums are as large as t."""
    levels = _level_bits(n_clients, degree, special)
    figures = NoiseFigures(degree, (40, *levels), special)
    counts = figures.fresh(len(figures.prime_bits), n_clients)
    return math.ceil(zero_test(figures, n_clients, counts).bits - figures.floor)


# --- the noise --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """Primes left, and bits of noise."""

    n_primes: int
    bits: float


def _together(*bits: float) -> float:
    """Return the noise of a sum of independent errors."""
    largest = max(bits)
    return largest + 0.5 * math.log2(sum(4.0 ** (each - largest) for each in bits))


@dataclass
class NoiseFigures(Engine[Figure]):
    """The operations of the circuit on noise figures; ``steps`` collects the rotations they use."""

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
        """Return the figure of a sum of fresh ciphertexts."""
        return Figure(n_primes, self.floor + 0.5 * math.log2(summands))

    def _aligned(self, *values: Figure) -> list[Figure]:
        """Return all with as many primes as the one that has the fewest; that changes no noise."""
        level = min(value.n_primes for value in values)
        return [Figure(level, value.bits) for value in values]

    def combine(self, sum_: Combination[Figure]) -> Figure:
        """Add with coefficients of at most t / 2 in size."""
        values = self._aligned(*(value for _, value in sum_.terms))
        if all(abs(coefficient) == 1 for coefficient, _ in sum_.terms):
            return Figure(values[0].n_primes, _together(*(value.bits for value in values)))
        return Figure(values[0].n_primes, _together(*(value.bits + PLAIN_BITS - 1 for value in values)))

    def add(self, a: Figure, b: Figure) -> Figure:
        """Add independent errors."""
        a, b = self._aligned(a, b)
        return Figure(a.n_primes, _together(a.bits, b.bits))

    def multiply(self, a: Figure, b: Figure) -> Figure:
        """Multiply sizes, times the root of N; the tail was counted in both factors."""
        a, b = self._aligned(a, b)
        return Figure(a.n_primes, a.bits + b.bits + self.root - TAIL_BITS + 1)

    def relinearise(self, a: Figure) -> Figure:
        """Add what a key switch adds: an error per prime times its digit, divided by the special prime."""
        largest = max(self.prime_bits[: a.n_primes])
        digits = PLAIN_BITS + ERROR_BITS + largest + self.root + 0.5 * math.log2(a.n_primes / 12) + TAIL_BITS
        return Figure(a.n_primes, _together(a.bits, digits - self.special_bits, self.floor))

    def settle(self, a: Figure) -> Figure:
        """Switch keys once and drop one prime."""
        bits = self.relinearise(a).bits - self.prime_bits[a.n_primes - 1] + HEAVY_BITS
        return Figure(a.n_primes - 1, _together(bits, self.floor))

    def rotate(self, a: Figure, steps: int) -> Figure:
        """Switch keys once."""
        self.steps.add((a.n_primes, steps))
        return self.relinearise(a)

    def scale_slots(self, a: Figure, slots: Slots) -> Figure:
        """Multiply by a polynomial with coefficients anywhere below t."""
        return Figure(a.n_primes, a.bits + PLAIN_BITS - 0.5 * math.log2(12) + self.root + 1)

    def shift_slots(self, a: Figure, slots: Slots) -> Figure:
        """Add a message of at most t."""
        return Figure(a.n_primes, _together(a.bits, PLAIN_BITS))
