"""Which rows are smoothed together: parts of each class, found on what may be looked at."""

from collections.abc import Callable, Sequence

import numpy as np

from onefold._base.arrays import Array, Index
from onefold._base.parallel import run_parallel
from onefold.models import branch_count, consecutive, split

__all__ = ["divide_noisy", "divide_raw"]


def divide_raw(rows: Array, groups: Sequence[Index], branch_size: int) -> list[Index]:
    """Clusters of each group as the documents find them, on raw rows: what uses them is not private."""
    return [part for group in groups for part in split(rows, group, 1.0, branch_size, "kmeans", 0)]


def divide_noisy(
    rows: Array,
    groups: Sequence[Index],
    branch_size: int,
    variance: float,
    error: Callable[[Array], float] | None = None,
    n_jobs: int | None = None,
) -> list[Index]:
    """Parts of each group, found on rows with noise of known variance and on nothing else.

    Clusters help where they can be seen. Where the noise hides them, a row joins those whose noise is like
    its own, which smoothing then takes for data, and parts of consecutive rows are better. So both are
    tried, and the division with the smaller ``error``, estimated for each part from its rows, is taken.
    Without ``error`` there are clusters.
    """
    parts: list[Index] = []
    for group in groups:
        n_parts = branch_count(len(group), branch_size)
        if n_parts == 1:
            parts.append(group)
            continue
        clusters = _clusters(rows, group, branch_size, variance)
        batches = consecutive(group, n_parts)
        if error is not None:

            def total(division: list[Index], error: Callable[[Array], float] = error) -> float:
                return sum(run_parallel(lambda part: error(rows[part]), division, n_jobs))

            clusters = min(clusters, batches, key=total)
        parts += clusters
    return parts


def _clusters(rows: Array, group: Index, branch_size: int, variance: float) -> list[Index]:
    """k-means on principal components, each first multiplied by the part of its variance that is not noise.

    On rows with much noise k-means finds handfuls of outliers and one heap of the rest.
    """
    components = _without_noise(rows[group], variance)
    everything = np.arange(len(group))
    return [group[part] for part in split(components, everything, 1.0, branch_size, "kmeans", 0)]


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
