"""A unit for numbers so large or small that their squares are not representable."""

import math

import numpy as np

from onefold._base.arrays import Array

__all__ = ["unit_of"]


def unit_of(values: Array) -> float:
    """A power of two near the largest entry, where squares could overflow or vanish; else one."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or 1e-60 < largest < 1e60:
        return 1.0
    return 2.0 ** max(min(round(math.log2(largest)), 1020), -1020)
