"""Which rows are smoothed together: clusters of each class, found on what may be looked at."""

from collections.abc import Sequence

import numpy as np

from onefold._base.arrays import Array, Index
from onefold.models import branch_count, split

__all__ = ["divide_noisy", "divide_raw"]


def divide_raw(rows: Array, groups: Sequence[Index], branch_size: int) -> list[Index]:
    """Clusters of each group as the documents find them, on raw rows: what uses them is not private."""
    return [part for group in groups for part in split(rows, group, 1.0, branch_size, "kmeans", 0)]


def divide_noisy(rows: Array, groups: Sequence[Index], branch_size: int, variance: float) -> list[Index]:
    """Clusters of each group, found on rows with noise of known variance and on nothing else.

    Where the noise is larger than the data, k-means on the rows themselves follows the noise: it finds
    handfuls of outliers and one heap of the rest. So every principal component is first multiplied by the
    part of its variance that is not noise.
    """
    return [group[part] for group in groups for part in _clusters_of(rows[group], branch_size, variance)]


def _clusters_of(rows: Array, branch_size: int, variance: float) -> list[Index]:
    everything = np.arange(len(rows))
    if branch_count(len(rows), branch_size) == 1:
        return [everything]
    return split(_without_noise(rows, variance), everything, 1.0, branch_size, "kmeans", 0)


def _without_noise(rows: Array, variance: float) -> Array:
    """Principal components (N, r), each shrunk towards zero as its share of noise demands."""
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    n_rows, n_features = centred.shape
    if n_features <= n_rows:
        values, vectors = np.linalg.eigh(centred.T @ centred)
        components = centred @ vectors
    else:
        values, vectors = np.linalg.eigh(centred @ centred.T)
        components = vectors * np.sqrt(np.maximum(values, 0.0))
    kept = 1.0 - variance / np.maximum(values / n_rows, max(variance, np.finfo(np.float64).tiny))
    useful = kept > 0.0
    if not useful.any():  # nothing but noise, as far as anybody can tell: any division is as good
        useful[-1], kept[-1] = True, 1.0
    return np.asarray(components[:, useful] * kept[useful], dtype=rows.dtype)
