"""Auxiliary inducing points: centroids of the inputs, and how many of them (001 eq. 51, Alg. 1 steps 3-8).

The document does not say where k-means starts. Here it starts from points far from each other, which depend
on the set of inputs and not on their order; starts for fewer points are beginnings of the same list.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import sparse

from onefold._base.arrays import Array, Index

__all__ = ["candidates", "centroids", "far_apart", "largest_count"]

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


def counts_from(largest: int) -> list[int]:
    """The counts Alg. 1 goes through, each 0.9 of the one before; one less where that is the same."""
    counts = [largest]
    while counts[-1] > 1:
        counts.append(min(math.ceil(0.9 * counts[-1]), counts[-1] - 1))
    return counts


def largest_count(largest: int, enough: Callable[[int], bool]) -> int:
    """The first count of Alg. 1 that leaves ``enough`` smoothing; 1 if none does.

    Fewer points leave more, so the place is found by growing steps and halving, not one by one.
    """
    counts = counts_from(largest)
    below, step = -1, 1  # the last place known to leave too little
    above = 0
    while above < len(counts) - 1 and not enough(counts[above]):
        below, above, step = above, min(above + step, len(counts) - 1), 2 * step
    while above - below > 1:
        middle = (above + below) // 2
        if enough(counts[middle]):
            above = middle
        else:
            below = middle
    return counts[above]
