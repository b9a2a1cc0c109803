"""Which rows are smoothed together: parts of each class, found on what may be looked at."""

from collections.abc import Sequence

import numpy as np

from onefold._base.arrays import Array, Index
from onefold.models import branch_count, consecutive, split

__all__ = ["divide_noisy", "divide_raw"]

# Clusters count as visible if the rows vary so many times as much as the noise where they vary most. For
# 60000 digits that is 4 to 6 at epsilon 1, where batches give the better classifier, and 11 to 18 at epsilon
# 2, where clusters do.
VISIBLE = 8.0


def divide_raw(rows: Array, groups: Sequence[Index], branch_size: int) -> list[Index]:
    """Clusters of each group as the documents find them, on raw rows: what uses them is not private."""
    return [part for group in groups for part in split(rows, group, 1.0, branch_size, "kmeans", 0)]


def divide_noisy(rows: Array, groups: Sequence[Index], branch_size: int, variance: float) -> list[Index]:
    """Parts of each group, found on rows with noise of known variance and on nothing else.

    Clusters help where they can be seen. Where nearly all there is to see is noise, a row joins those whose
    noise is like its own, which smoothing then takes for data, and parts of consecutive rows are better.
    Each group is divided for itself, so that what happens to one changes nothing in the others.
    """
    parts: list[Index] = []
    for group in groups:
        n_parts = branch_count(len(group), branch_size)
        components = _without_noise(rows[group], variance) if n_parts > 1 else None
        if components is None:
            parts += consecutive(group, n_parts)
        else:
            everything = np.arange(len(group))
            found = split(components, everything, 1.0, branch_size, "kmeans", 0)
            parts += [group[part] for part in found]
    return parts


def _without_noise(rows: Array, variance: float) -> Array | None:
    """Principal components (N, r), each multiplied by the part of its variance that is not noise.

    On rows with much noise k-means finds handfuls of outliers and one heap of the rest. None if there is
    nothing to be seen for noise.
    """
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    n_rows, n_features = centred.shape
    if n_features <= n_rows:
        values, vectors = np.linalg.eigh(centred.T @ centred)
        components = centred @ vectors
    else:
        values, vectors = np.linalg.eigh(centred @ centred.T)
        components = vectors * np.sqrt(np.maximum(values, 0.0))
    variances = values / n_rows
    if not variances[-1] > VISIBLE * variance:
        return None
    useful = variances > variance
    kept = 1.0 - variance / variances[useful]
    return np.asarray(components[:, useful] * kept, dtype=rows.dtype)
