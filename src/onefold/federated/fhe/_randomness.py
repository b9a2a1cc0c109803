"""Random numbers that hide things: from the operating system, never from a generator with a seed."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

__all__ = ["nonzero", "uniform", "words"]


def words(count: int, kind: type[np.unsignedinteger] = np.uint16) -> NDArray[np.int64]:
    """Whole numbers uniform over all that ``kind`` holds (at most 32 bits)."""
    size = np.dtype(kind).itemsize
    return np.frombuffer(os.urandom(size * count), dtype=kind).astype(np.int64)


def uniform(count: int, modulus: int) -> NDArray[np.int64]:
    """Whole numbers uniform in 0 ... modulus - 1, exactly: what would favour small ones is drawn again."""
    last = 2**32 // modulus * modulus
    drawn = words(count, np.uint32)
    while (again := np.flatnonzero(drawn >= last)).size:
        drawn[again] = words(again.size, np.uint32)
    return drawn % modulus


def nonzero(count: int, modulus: int) -> NDArray[np.int64]:
    """Whole numbers uniform in 1 ... modulus - 1."""
    return 1 + uniform(count, modulus - 1)
