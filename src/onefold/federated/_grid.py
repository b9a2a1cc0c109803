"""Measures on a grid of equal cells between 0 and 1, and counting on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onefold.federated.aggregate import Array

__all__ = ["Counts", "bounded_measures", "cells_of", "counts_from", "relative_to_others"]

Counts = NDArray[np.int64]


def relative_to_others(values: Array) -> Array:
    """Each class's measure relative to the nearest other class: m / (m + other), 0 for near, 1 for far."""
    if values.shape[1] < 2:
        return np.zeros(values.shape)
    exact = values.astype(np.float64)
    order = np.sort(exact, axis=1)
    first, second = order[:, :1], order[:, 1:2]
    other = np.where(np.arange(values.shape[1]) == exact.argmin(axis=1)[:, None], second, first)
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = exact / (exact + other)
    # Infinitely far is far, unless all are; two that are at no distance are equally near.
    ratio = np.where(np.isinf(exact), np.where(np.isinf(other), 0.5, 1.0), ratio)
    return np.where((exact == 0) & (other == 0), 0.5, ratio)


def bounded_measures(values: Array, largest: float, unit: float) -> Array:
    """Measures on a scale from 0 to 1."""
    exact = values.astype(np.float64)
    if np.isfinite(largest):
        return np.asarray(exact / largest)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isinf(exact), 1.0, exact / (exact + unit))


def cells_of(fractions: Array, n_cells: int) -> NDArray[np.intp]:
    """Number of the cell each fraction falls into; what is not known counts as far."""
    return np.minimum((np.nan_to_num(fractions, nan=1.0) * n_cells).astype(np.intp), n_cells - 1)


def counts_from(table: Counts) -> Counts:
    """Rows in each cell or a farther one."""
    return np.asarray(np.cumsum(table[..., ::-1], axis=-1)[..., ::-1])
