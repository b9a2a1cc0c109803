r"""Random numbers for noise: where the bits come from, exact integer noise, and the grid it lives on.

A float sampler leaks: the values :math:`x + v` it can reach depend on x (``docs/proofs/sampling.md``). The
hardened samplers draw whole numbers instead, whose probabilities are exact. A coin of probability p is a
comparison of uniform random binary digits with the digits of p. Eight digits nearly always decide it; where
they tie, more are drawn, as many as it takes. No statistical distance remains.

* A geometric variable, :math:`P(G = g) = (1 - a) a^g` with :math:`a = e^{-t}`, has independent binary
  digits: digit j is one with probability :math:`1 / (1 + e^{t 2^j})`. What lies above the J lowest digits is
  geometric again, with :math:`a^{2^J}`, and is counted by tossing that coin.
* The discrete Laplace variable :math:`P(K = k) \propto a^{|k|}` is 0 with probability tanh(t/2), and
  otherwise a random sign times 1 + G. An atom of further mass at 0 only changes the probability of 0.
* The rounded Gaussian is :math:`\pm\lfloor \sigma |z| + 1/2 \rfloor` with the infinitely precise z that
  belongs to the uniform variable; wherever float64 cannot determine the integer with certainty, exact
  arithmetic decides.
"""

import math
import numbers
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from onefold._base.arrays import Floats, Integers, Mask
from onefold.exceptions import InvalidInputError

try:  # an interpreter may be built without it
    # Five times the speed of os.urandom; seeded from the system, and reseeded by itself after a fork.
    from ssl import RAND_bytes as _system_bytes
except ImportError:  # pragma: no cover
    _system_bytes = os.urandom

__all__ = [
    "SAMPLERS",
    "ByteStream",
    "LaplaceTable",
    "Lattice",
    "Probability",
    "RandomState",
    "bernoulli",
    "byte_stream",
    "discrete_laplace",
    "generator",
    "keep_probability",
    "laplace_table",
    "lattice_for",
    "rounded_gaussian",
]


# --- which sampler -----------------------------------------------------------------------------------------

SAMPLERS = ("hardened", "float")


# --- the source of the bits -------------------------------------------------------------------------------

RandomState: TypeAlias = int | np.random.Generator | None


def _is_seed(random_state: object) -> bool:
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, (bool, np.bool_))
    return whole and random_state >= 0  # type: ignore[operator]


def generator(random_state: RandomState) -> np.random.Generator:
    """Generator for choices that are no noise: fresh entropy of the system for ``None``."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or _is_seed(random_state):
        return np.random.default_rng(random_state)
    raise InvalidInputError("random_state must be None, a whole number of at least 0, or a numpy Generator")


class ByteStream:
    """Independent uniform words from a source of random bytes."""

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source = source

    def octets(self, size: int) -> NDArray[np.uint8]:
        """Words of 8 bits."""
        return np.frombuffer(self._source(size), dtype=np.uint8)

    def words(self, size: int) -> NDArray[np.uint64]:
        """Words of 64 bits; the byte order is fixed so that a seed means the same everywhere."""
        return np.frombuffer(self._source(8 * size), dtype="<u8").astype(np.uint64, copy=False)

    def uniform(self, size: int) -> Floats:
        """Floats strictly between 0 and 1; like the next two, for the float sampler."""
        return ((self.words(size) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def laplace(self, size: int) -> Floats:
        """Float Laplace variables of scale one."""
        words = self.words(size)
        tails = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return np.log(tails) * np.where(words & np.uint64(1), 1.0, -1.0)

    def normal(self, size: int) -> Floats:
        """Float Gaussian variables of standard deviation one."""
        return np.asarray(ndtri(self.uniform(size)))

    def integer(self, bits: int) -> int:
        """A uniform Python integer below ``2**bits``, for a whole number of bytes."""
        return int.from_bytes(self._source(bits // 8), "little")


def byte_stream(random_state: RandomState) -> ByteStream:
    """Stream of all noise: the system's cryptographic generator for ``None``.

    OpenSSL keeps the buffer, and throws it away in a forked process; one of our own would give parent and
    child the same noise. With a seed the bytes come from numpy's generator: reproducible, for tests, and not
    secret.
    """
    return ByteStream(_system_bytes if random_state is None else generator(random_state).bytes)


# --- probabilities to any number of digits ----------------------------------------------------------------

GUARD = 64  # binary digits computed beyond those asked for
MOST_EXPONENT = 10**9  # of a decimal number


class Probability:
    """An irrational number of (0, 1), computed in whatever precision the decimal context has.

    Irrational, as exp of a rational number other than 0 always is: no finite string of digits ties for ever.
    """

    def __init__(self, compute: Callable[[], Decimal]) -> None:
        self._compute = compute
        self._known: dict[tuple[int, int], int] = {}

    def __float__(self) -> float:
        return float(_in_precision(self._compute, 128))

    def digits(self, skip: int, count: int) -> int:
        """``count`` binary digits after the first ``skip`` ones, as an integer."""
        key = (skip, count)
        if key not in self._known:
            self._known[key] = self._floor(skip + count) % (1 << count)
        return self._known[key]

    def _floor(self, n: int) -> int:
        """floor(2**n p). The computed digits are trusted only where their error cannot carry."""
        precision = n + GUARD
        while True:
            scaled = _scaled(_in_precision(self._compute, precision), precision)
            rest = scaled % (1 << (precision - n))
            error = 1 << (GUARD // 2)  # far above the few last places the evaluation can be wrong by
            if error < rest < (1 << (precision - n)) - error:
                return scaled >> (precision - n)
            precision += GUARD


def _in_precision(compute: Callable[[], Decimal], bits: int) -> Decimal:
    with localcontext() as context:
        context.prec = int(bits * 0.30103) + 30
        context.Emax, context.Emin = MOST_EXPONENT, -MOST_EXPONENT
        return compute()


def _scaled(value: Decimal, bits: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << bits) // denominator


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def logistic(x: Fraction) -> Probability:
    """1 / (1 + exp(x))."""
    return Probability(lambda: 1 / (1 + _decimal(x).exp()))


def exponential(x: Fraction) -> Probability:
    """exp(-x)."""
    return Probability(lambda: (-_decimal(x)).exp())


def tanh_half(x: Fraction, atom: Fraction) -> Probability:
    """atom + (1 - atom) tanh(x / 2)."""

    def compute() -> Decimal:
        a = (-_decimal(x)).exp()
        return _decimal(atom) + (1 - _decimal(atom)) * (1 - a) / (1 + a)

    return Probability(compute)


@lru_cache(maxsize=64)
def keep_probability(epsilon: Fraction, n_classes: int) -> Probability:
    """exp(epsilon) / (exp(epsilon) + n_classes - 1), written so that a large epsilon cannot overflow."""
    return Probability(lambda: 1 / (1 + (n_classes - 1) * (-_decimal(epsilon)).exp()))


@lru_cache(maxsize=8)
def _pi(precision: int) -> Decimal:
    """pi by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239), in integers."""
    unit = 10 ** (precision + 10)

    def arctan_of_inverse(n: int) -> int:
        power, total, k = unit // n, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    return Decimal(16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) / Decimal(unit)


def gaussian_tail(x: Fraction, bits: int) -> int:
    """floor(2**bits P(|z| > x)) for a standard Gaussian z, up to one unit either way.

    P(|z| <= x) = sqrt(2/pi) exp(-x^2/2) (x + x^3/3 + x^5/(3 5) + ...), a series of positive terms.
    """
    with localcontext() as context:
        context.prec = precision = int(bits * 0.30103) + 30
        context.Emax, context.Emin = MOST_EXPONENT, -MOST_EXPONENT
        value = _decimal(x)
        square = value * value
        term = total = value
        n = 1
        while term > total * Decimal(10) ** -precision:
            n += 2
            term = term * square / n
            total += term
        inside = (2 / _pi(precision)).sqrt() * (-square / 2).exp() * total
        return _scaled(max(1 - inside, Decimal(0)), bits)


def gaussian_magnitude(stream: ByteStream, sigma: float, tail: int, bits: int) -> int:
    """floor(sigma |z| + 1/2) where the tail P(|z'| > |z|) starts with the given binary digits.

    The answer is k exactly when the tail lies between those of (k + 1/2) / sigma and (k - 1/2) / sigma.
    Digits are drawn until both comparisons are decided; a float only says where to begin.
    """
    while tail < 1 << 60:
        tail, bits = (tail << 64) | stream.integer(64), bits + 64
    k = int(sigma * -float(ndtri(tail / (1 << (bits + 1)))) + 0.5)
    while True:
        lower = gaussian_tail(Fraction(2 * k + 1, 2) / Fraction(sigma), bits)
        upper = gaussian_tail(Fraction(2 * k - 1, 2) / Fraction(sigma), bits) if k > 0 else 2 << bits
        if tail < lower - 1:
            k += 1
        elif tail > upper + 1:
            k -= 1
        elif lower + 1 < tail < upper - 1:
            return k
        else:
            tail, bits = (tail << 64) | stream.integer(64), bits + 64


# --- exact integer noise ----------------------------------------------------------------------------------

BLOCK = 1 << 15  # entries drawn at once: working arrays stay in the cache
MOST_DIGITS = 56  # of a geometric variable, so that it fits an integer of 64 bits
LARGEST = 1 << 61  # results saturate here, far beyond any probability that could be observed


def bernoulli(stream: ByteStream, probability: Probability, size: int) -> Mask:
    """Independent coins, each True with exactly the given probability."""
    return _coins(stream, (probability,), np.uint8(probability.digits(0, 8)), size)


def _coins(
    stream: ByteStream, probabilities: tuple[Probability, ...], first: NDArray[np.uint8] | np.uint8, size: int
) -> Mask:
    """Mask whose probabilities follow each other in turn; ``first`` holds their first eight digits."""
    octets = stream.octets(size)
    coins = octets < first
    tied = np.flatnonzero(octets == first)
    known = 8
    while tied.size:
        following = np.array(
            [probability.digits(known, 64) for probability in probabilities], dtype=np.uint64
        )
        wanted = following[tied % len(probabilities)]
        words = stream.words(tied.size)
        coins[tied] = words < wanted
        tied = tied[words == wanted]
        known += 64
    return coins


@dataclass(frozen=True)
class LaplaceTable:
    """The coins that make up one discrete Laplace distribution."""

    t: Fraction  # P(K = k) is proportional to exp(-t |k|)
    zero: Probability
    digits: tuple[Probability, ...]  # of the geometric variable, lowest first, a multiple of eight
    above: Probability


@lru_cache(maxsize=64)
def laplace_table(t: Fraction, atom: Fraction = Fraction(0)) -> LaplaceTable:
    """Mask for exp(-t |k|), of which a further share ``atom`` is moved to 0."""
    count = 0
    while t * 2**count < 8 and count < MOST_DIGITS:  # above the digits only exp(-8) or less is left
        count += 8
    return LaplaceTable(
        t=t,
        zero=tanh_half(t, atom),
        digits=tuple(logistic(t * 2**j) for j in range(count)),
        above=exponential(t * 2**count),
    )


def discrete_laplace(stream: ByteStream, table: LaplaceTable, size: int) -> Integers:
    """Independent draws of K."""
    noise = np.empty(size, dtype=np.int64)
    for start in range(0, size, BLOCK):
        block = noise[start : start + BLOCK]
        block[:] = _geometric(stream, table, len(block))
        block += 1
        _random_signs(stream, block)
        block[bernoulli(stream, table.zero, len(block))] = 0
    return noise


def _geometric(stream: ByteStream, table: LaplaceTable, size: int) -> Integers:
    """Independent draws of G: eight binary digits of every one of them at a time, side by side in a byte."""
    total = np.zeros(size, dtype=np.int64)
    for low in range(0, len(table.digits), 8):
        group = table.digits[low : low + 8]
        first = np.tile(np.array([p.digits(0, 8) for p in group], dtype=np.uint8), size)
        octets = np.packbits(_coins(stream, group, first, 8 * size), bitorder="little")
        total |= octets.astype(np.int64) << low
    step = 1 << len(table.digits)
    above = np.flatnonzero(bernoulli(stream, table.above, size))
    while above.size:
        total[above] = np.minimum(total[above], 2 * LARGEST - step) + step
        above = above[bernoulli(stream, table.above, above.size)]
    return total


def _random_signs(stream: ByteStream, values: Integers) -> None:
    bits = np.unpackbits(stream.octets((len(values) + 7) // 8), count=len(values))
    np.negative(values, out=values, where=bits.view(np.bool_))


# Relative to 1 + z, and far wider than the error of ndtri in float64 (a test compares it with exact tails).
DOUBT = 2.0**-45
SMALLEST_SAFE = 1 << 47  # below, the 63 binary digits of a tail leave more doubt than that


def rounded_gaussian(stream: ByteStream, sigma: float, size: int) -> Integers:
    """Independent draws of a Gaussian of standard deviation ``sigma``, rounded to whole numbers."""
    noise = np.empty(size, dtype=np.int64)
    for start in range(0, size, BLOCK):
        block = noise[start : start + BLOCK]
        words = stream.words(len(block))
        tails = (words >> np.uint64(1)).view(np.int64)
        z = tails + 0.5
        z *= 2.0**-64
        ndtri(z, out=z)  # P(|z| > x) = tail; ndtri of half the tail is -x
        places = z * -sigma
        places += 0.5
        block[:] = places  # towards zero, which is the floor of a positive number
        doubt = np.subtract(1.0, z, out=z)
        doubt *= DOUBT * sigma
        # How far the place is from the middle of its cell, whose ends are half a step away.
        places -= block
        places -= 0.5
        np.abs(places, out=places)
        places += doubt
        inside = places < 0.5
        inside &= tails >= SMALLEST_SAFE
        for i in np.flatnonzero(~inside):
            block[i] = gaussian_magnitude(stream, sigma, int(tails[i]), 63)
        np.negative(block, out=block, where=(words & np.uint64(1)).view(np.int64) > 0)
    return noise


# --- the grid ---------------------------------------------------------------------------------------------

# The step is this many binary digits finer than the sensitivity and than the noise, ...
FINENESS = 20
# ... and for records at least this much finer than the share of one feature.
RECORD_FINENESS = 12
STEP_EXPONENTS = range(-900, 901)
LARGEST_RATIO = 2.0**20
LARGEST_UNITS = 2.0**60


@dataclass(frozen=True)
class Lattice:
    """Multiples of ``2**exponent``.

    ``steps`` bounds how many steps neighbouring values lie apart once they are rounded. Rounding moves a
    value by half a step at most, so an entry that changes by d changes by at most floor(d / step) + 1
    steps, and p entries by p steps more than before in the sum of absolute values, by sqrt(p) more in
    Euclidean length.
    """

    exponent: int
    steps: Fraction

    @property
    def step(self) -> float:
        """Distance between neighbouring points of the grid."""
        return math.ldexp(1.0, self.exponent)

    def apart(self, change: float, n_entries: int, norm: int) -> Fraction:
        """Bound on the steps between rounded values whose difference has the given size."""
        return _steps(change, self.exponent, n_entries, norm)

    def round(self, values: Floats) -> Integers:
        """Nearest multiples, in steps. Scaling by a power of two is exact; so is the rounding."""
        with np.errstate(over="ignore"):
            units = np.rint(np.ldexp(values, -self.exponent))
        if units.size and not np.abs(units).max() <= LARGEST_UNITS:
            raise InvalidInputError("values are too large for this sensitivity: centre or rescale the data")
        return units.astype(np.int64)

    def value(self, units: Integers) -> Floats:
        """Back to numbers; any rounding here happens to private integers only."""
        return np.ldexp(np.clip(units, -LARGEST, LARGEST).astype(np.float64), self.exponent)


def lattice_for(sensitivity: float, ratio: float, n_entries: int, norm: int) -> Lattice:
    """Grid for noise of scale ``ratio`` x ``sensitivity`` on changes of ``n_entries`` entries at once."""
    if ratio > LARGEST_RATIO:
        raise InvalidInputError("epsilon is too small for the hardened sampler (about 1e-6 is the least)")
    share = (n_entries - 1).bit_length()  # ceil(log2) of the number of entries
    fineness = max(FINENESS, RECORD_FINENESS + share) if n_entries > 1 else FINENESS
    exponent = math.frexp(min(sensitivity, sensitivity * ratio))[1] - 1 - fineness
    if exponent not in STEP_EXPONENTS:
        raise InvalidInputError(
            "sensitivity is too large or too small for the hardened sampler: rescale the data"
        )
    return Lattice(exponent, _steps(sensitivity, exponent, n_entries, norm))


def _steps(change: float, exponent: int, n_entries: int, norm: int) -> Fraction:
    size = Fraction(change) / Fraction(2) ** exponent
    if n_entries == 1:
        return Fraction(math.floor(size) + 1)
    if norm == 1:
        return Fraction(math.floor(size) + n_entries)
    return size + Fraction(math.nextafter(math.sqrt(n_entries), math.inf))
