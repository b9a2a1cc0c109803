"""Bounded noise on a dyadic grid: whole numbers drawn by comparing whole numbers, for hardened releases.

The noise of one column is rounded to multiples of a power of two, and so is the value it is added to. Adding
then loses nothing: what comes out depends on the value only through its place on the grid. That place moves
by at most one step more than the value does, and rounding the noise afterwards tells nobody anything.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError
from onefold.privacy._streams import ByteStream
from onefold.privacy.mechanisms._ground_state import GroundState
from onefold.privacy.mechanisms._lattice import LARGEST_EXPONENT, SMALLEST_EXPONENT, Lattice

__all__ = ["TOTAL_VARIATION", "CellTable", "cell_table", "grid_for"]

Integers = NDArray[np.int64]
# The step is finer by this many binary digits than the noise and its bounds, and than the change.
FINENESS, CHANGE_FINENESS = 10, 7
MOST_CELLS = 1 << 18
BITS = 62  # of a probability
# On no event do the table and the rounded noise differ by more. It covers the error of the series (1e-12 of
# the largest u, times the root of the width), the sums, and rounding every cell to 62 binary digits.
TOTAL_VARIATION = 1e-11


def grid_for(scale: float, low: float, high: float, change: float) -> Lattice:
    """The grid of noise with free standard deviation ``scale`` between ``low`` and ``high``."""
    finest = min(math.ldexp(min(scale, high - low), -FINENESS), math.ldexp(change, -CHANGE_FINENESS))
    exponent = math.frexp(finest)[1] - 1
    if not SMALLEST_EXPONENT <= exponent <= LARGEST_EXPONENT:
        raise InvalidInputError("the noise is too small or too large for the hardened sampler")
    return Lattice(exponent, Fraction(change) / Fraction(2) ** exponent + 1)


@dataclass(frozen=True)
class CellTable:
    """Noise in steps: ``first``, ``first`` + 1, ... with probabilities that end at ``upto`` / 2**62."""

    first: int
    upto: Integers

    def sample(self, stream: ByteStream, size: int) -> Integers:
        """Independent draws. Whole numbers are compared with whole numbers: no probability is rounded."""
        uniform = (stream.words(size) >> np.uint64(64 - BITS)).astype(np.int64)
        return self.first + np.searchsorted(self.upto, uniform, side="right").astype(np.int64)


@lru_cache(maxsize=64)
def cell_table(state: GroundState, scale: float, exponent: int) -> CellTable:
    """Probabilities of the noise ``scale`` x ``state`` rounded to multiples of ``2**exponent``."""
    step = math.ldexp(1.0, exponent) / scale
    first, last = round(state.low / step), round(state.high / step)
    if last - first >= MOST_CELLS:
        raise InvalidInputError(
            "the noise is too strong for the hardened sampler: at most about 30 times the change of a value"
        )
    edges = (np.arange(first, last + 2, dtype=np.float64) - 0.5) * step
    weights = np.rint(state.masses(edges) * 2.0**BITS).astype(np.int64)
    weights[np.argmax(weights)] += 2**BITS - weights.sum()
    return CellTable(first, np.cumsum(weights))
