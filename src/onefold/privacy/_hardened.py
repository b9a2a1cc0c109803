r"""Integer noise whose probabilities are exact, drawn without trusting a rounded logarithm.

A float sampler leaks: the values :math:`x + v` it can reach depend on x (see ``docs/guarantees.md``). Here
a coin of probability p is a comparison of uniform random binary digits with the digits of p. Eight digits
decide it nearly always; where they tie, more are drawn, as many as it takes. No statistical distance
remains.

* A geometric variable, :math:`P(G = g) = (1 - a) a^g` with :math:`a = e^{-t}`, has independent binary
  digits: digit j is one with probability :math:`1 / (1 + e^{t 2^j})`. What lies above the J lowest digits is
  geometric again, with :math:`a^{2^J}`, and is counted by tossing that coin.
* The discrete Laplace variable :math:`P(K = k) \propto a^{|k|}` is 0 with probability tanh(t/2), and
  otherwise a random sign times 1 + G. An atom of further mass at 0 only changes the probability of 0.
* The rounded Gaussian is :math:`\pm\lfloor \sigma |z| + 1/2 \rfloor` with the infinitely precise z that
  belongs to the uniform variable; wherever float64 cannot tell the integer for sure, exact arithmetic
  decides.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from onefold.privacy._exact import Probability, exponential, gaussian_magnitude, logistic, tanh_half
from onefold.privacy._streams import ByteStream

__all__ = ["LaplaceTable", "bernoulli", "discrete_laplace", "laplace_table", "rounded_gaussian"]

BLOCK = 1 << 15  # entries drawn at once: working arrays stay in the cache
MOST_DIGITS = 56  # of a geometric variable, so that it fits an integer of 64 bits
LARGEST = 1 << 61  # results saturate here, far beyond any probability that could be observed

Integers = NDArray[np.int64]
Coins = NDArray[np.bool_]


def bernoulli(stream: ByteStream, probability: Probability, size: int) -> Coins:
    """Independent coins, each True with exactly the given probability."""
    return _coins(stream, (probability,), np.uint8(probability.digits(0, 8)), size)


def _coins(
    stream: ByteStream, probabilities: tuple[Probability, ...], first: NDArray[np.uint8] | np.uint8, size: int
) -> Coins:
    """Coins whose probabilities follow each other in turn; ``first`` holds their first eight digits."""
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
    """Coins for exp(-t |k|), of which a further share ``atom`` is moved to 0."""
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
        tails = (words >> np.uint64(1)).astype(np.int64)
        # P(|z| > x) = tail; ndtri of half the tail is -x
        z = -ndtri((tails + 0.5) * 2.0**-64)
        places = sigma * z + 0.5
        block[:] = places  # towards zero, which is the floor of a positive number
        doubt = DOUBT * sigma * (1 + z)
        inside = (places - block > doubt) & (block + 1 - places > doubt) & (tails >= SMALLEST_SAFE)
        for i in np.flatnonzero(~inside):
            block[i] = gaussian_magnitude(stream, sigma, int(tails[i]), 63)
        np.negative(block, out=block, where=(words & np.uint64(1)).view(np.int64) > 0)
    return noise
