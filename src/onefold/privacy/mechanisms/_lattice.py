"""The dyadic grid of the hardened samplers, and what rounding to it costs."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError
from onefold.privacy._hardened import LARGEST
from onefold.privacy.mechanisms._data import Floats

__all__ = ["Lattice", "lattice_for"]

# The step is this many binary digits finer than the sensitivity and than the noise, ...
FINENESS = 20
# ... and for records at least this much finer than the share of one feature.
RECORD_FINENESS = 12
SMALLEST_EXPONENT, LARGEST_EXPONENT = -900, 900
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
        return math.ldexp(1.0, self.exponent)

    def apart(self, change: float, n_entries: int, norm: int) -> Fraction:
        """Bound on the steps between rounded values whose difference has the given size."""
        return _steps(change, self.exponent, n_entries, norm)

    def round(self, values: Floats) -> NDArray[np.int64]:
        """Nearest multiples, in steps. Scaling by a power of two is exact; so is the rounding."""
        with np.errstate(over="ignore"):
            units = np.rint(np.ldexp(values, -self.exponent))
        if units.size and not np.abs(units).max() <= LARGEST_UNITS:
            raise InvalidInputError(
                "values are too large for this sensitivity: centre or rescale the data first"
            )
        return units.astype(np.int64)

    def value(self, units: NDArray[np.int64]) -> Floats:
        """Back to numbers; any rounding here happens to private integers only."""
        return np.ldexp(np.clip(units, -LARGEST, LARGEST).astype(np.float64), self.exponent)


def lattice_for(sensitivity: float, ratio: float, n_entries: int, norm: int) -> Lattice:
    """Grid for noise of scale ``ratio`` x ``sensitivity`` on changes of ``n_entries`` entries at once."""
    if ratio > LARGEST_RATIO:
        raise InvalidInputError("epsilon is too small for the hardened sampler (about 1e-6 is the least)")
    share = (n_entries - 1).bit_length()  # ceil(log2) of the number of entries
    fineness = max(FINENESS, RECORD_FINENESS + share) if n_entries > 1 else FINENESS
    exponent = math.frexp(min(sensitivity, sensitivity * ratio))[1] - 1 - fineness
    if not SMALLEST_EXPONENT <= exponent <= LARGEST_EXPONENT:
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
