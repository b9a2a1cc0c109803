"""Splitting the samples of one class into branches or batches (000 Def. 5, 004 Remarks 10-11)."""

import warnings
from itertools import pairwise

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from onefold._base.arrays import Array, Index
from onefold._base.parallel import one_openmp_thread
from onefold.exceptions import InvalidInputError

__all__ = ["PARTITIONS", "branch_count", "check_partition", "consecutive", "split"]


PARTITIONS = ("contiguous", "kmeans")
# k-means makes unequal clusters and a machine costs the cube of its size: larger ones are split once more.
LARGEST_CLUSTER = 2.0
# Centres of many clusters are found on this many rows, evenly spaced, but at least 100 for each cluster; then
# every row is assigned.
ROWS_FOR_CENTRES = 50000


def branch_count(n_samples: int, branch_size: int) -> int:
    """N / size rounded to the nearest whole number, at least one (000 eq. 59, 004 eq. 119)."""
    return max(1, int(np.floor(n_samples / branch_size + 0.5)))


def split(
    X: Array, rows: Index, unit: float, branch_size: int, partition: str, random_state: object = None
) -> list[Index]:
    """The rows of each branch; every row is in exactly one."""
    n_branches = branch_count(len(rows), branch_size)
    if n_branches == 1:
        return [rows]
    if partition == "contiguous":
        return consecutive(rows, n_branches)
    samples = X[rows] if unit == 1.0 else X[rows] / X.dtype.type(unit)
    return [rows[part] for part in _kmeans(samples, branch_size, random_state)]


def consecutive(rows: Index, n_parts: int) -> list[Index]:
    """Parts of consecutive rows, the larger ones first; sizes differ by at most one (004 eq. 119-120)."""
    size, larger = divmod(len(rows), n_parts)
    edges = [part * size + min(part, larger) for part in range(n_parts + 1)]
    return [rows[start:stop] for start, stop in pairwise(edges)]


def _kmeans(X: Array, branch_size: int, random_state: object) -> list[Index]:
    """Clusters of rows (000 eq. 58), none much larger than a branch should be."""
    branches: list[Index] = []
    for rows in _clusters(X, branch_count(len(X), branch_size), random_state):
        if len(rows) <= LARGEST_CLUSTER * branch_size:
            branches.append(rows)
        elif len(rows) == len(
            X
        ):  # duplicated rows, which k-means cannot tell apart, are cut where they stand
            branches += consecutive(rows, branch_count(len(rows), branch_size))
        else:
            branches += [rows[part] for part in _kmeans(X[rows], branch_size, random_state)]
    return branches


def _clusters(X: Array, n_clusters: int, random_state: object) -> list[Index]:
    model = KMeans(n_clusters, n_init=1, max_iter=100, random_state=random_state)
    X = X.astype(np.float32, copy=False)  # where a row belongs needs no more digits
    at_most = max(ROWS_FOR_CENTRES, 100 * n_clusters)
    with warnings.catch_warnings(), one_openmp_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        if len(X) <= at_most:
            labels = model.fit_predict(X)
        else:
            labels = model.fit(X[:: -(-len(X) // at_most)]).predict(X)
    found = [np.flatnonzero(labels == cluster) for cluster in range(n_clusters)]
    return [rows for rows in found if len(rows)]


def check_partition(partition: str) -> None:
    """Refuse an unknown way of splitting."""
    if partition not in PARTITIONS:
        raise InvalidInputError(f"partition must be one of {', '.join(PARTITIONS)}")
