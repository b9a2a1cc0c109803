"""Centroids of inputs by k-means (001 eq. 51, 003 Alg. 1 step 2).

The documents do not say where k-means starts. Here it starts from points far from each other, which depend
on the set of inputs and not on their order; starts for fewer points are beginnings of the same list.
"""

import numpy as np
from scipy import sparse

from onefold._base.arrays import Array, Index

__all__ = ["candidates", "centroids", "far_apart"]

ROUNDS = 20  # of k-means
# Centroids of very many inputs are found on this many of them, evenly spaced.
ROWS_FOR_CENTROIDS = 5000


def candidates(x: Array) -> Array:
    """The inputs that centroids are found on."""
    return x[:: -(-len(x) // ROWS_FOR_CENTROIDS)]


def far_apart(x: Array, at_most: int) -> Index:
    """The input nearest the mean, then the one farthest from those chosen, and so on; distinct ones only."""
    gaps = _squared_distances(x, x.mean(axis=0))
    chosen = [int(np.argmin(gaps))]
    gaps = _squared_distances(x, x[chosen[0]])
    while len(chosen) < at_most:
        following = int(np.argmax(gaps))
        if not gaps[following] > 0.0:
            break
        chosen.append(following)
        np.minimum(gaps, _squared_distances(x, x[following]), out=gaps)
    return np.array(chosen, dtype=np.intp)


def _squared_distances(x: Array, point: Array) -> Array:
    differences = x - point
    return np.asarray(np.einsum("nk,nk->n", differences, differences))


def centroids(x: Array, start: Array) -> Array:
    """k-means from the given centres (001 eq. 51); a centre without inputs stays where it is."""
    centres = start.copy()
    labels = np.full(len(x), -1)
    for _ in range(ROUNDS):
        scores = x @ (-2.0 * centres.T)
        scores += np.einsum("mk,mk->m", centres, centres)
        nearest = scores.argmin(axis=1)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
        belongs = sparse.csr_matrix(
            (np.ones(len(x)), (labels, np.arange(len(x)))), shape=(len(centres), len(x))
        )
        counts = np.bincount(labels, minlength=len(centres))
        occupied = counts > 0
        centres[occupied] = (belongs @ x)[occupied] / counts[occupied, None]
    return centres
