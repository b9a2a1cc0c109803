"""Centroids of inputs by k-means (001 eq. 51, 003 Alg. 1 step 2).

The documents do not say where k-means starts. Here it starts from points far from each other, which depend
on the set of inputs and not on their order; starts for fewer points are beginnings of the same list.
"""

import numpy as np

from onefold._base.arrays import Array, Index

__all__ = ["FarApart", "candidates", "centroids", "clusters", "far_apart", "means"]

ROUNDS = 20  # of k-means
# Centroids of very many inputs are found on this many of them, evenly spaced.
ROWS_FOR_CENTROIDS = 5000


def candidates(x: Array) -> Array:
    """The inputs that centroids are found on."""
    return x[:: -(-len(x) // ROWS_FOR_CENTROIDS)]


class FarApart:
    """The input nearest the mean, then the one farthest from those chosen, and so on; distinct ones only.

    As many are chosen as were asked for so far.
    """

    def __init__(self, x: Array) -> None:
        self._columns = np.ascontiguousarray(x.T)  # so that squares are summed over long rows
        nearest = int(np.argmin(self._squared_distances(x.mean(axis=0))))
        self._gaps = self._squared_distances(x[nearest])
        self._chosen = [nearest]

    def first(self, at_most: int) -> Index:
        """The first so many of them; fewer where there are not so many distinct inputs."""
        while len(self._chosen) < at_most:
            following = int(np.argmax(self._gaps))
            if not self._gaps[following] > 0.0:
                break
            self._chosen.append(following)
            np.minimum(self._gaps, self._squared_distances(self._columns[:, following]), out=self._gaps)
        return np.array(self._chosen[:at_most], dtype=np.intp)

    def _squared_distances(self, point: Array) -> Array:
        differences = self._columns - point[:, None]
        differences *= differences
        return np.asarray(differences.sum(axis=0))


def far_apart(x: Array, at_most: int) -> Index:
    """The first ``at_most`` inputs of :class:`FarApart`."""
    return FarApart(x).first(at_most)


def centroids(x: Array, start: Array, rounds: int = ROUNDS) -> Array:
    """k-means from the given centres (001 eq. 51); a centre without inputs stays where it is."""
    return clusters(x, start, rounds)[0]


def clusters(x: Array, start: Array, rounds: int = ROUNDS) -> tuple[Array, Index]:
    """The same, with the cluster of each input."""
    centres = start.copy()
    labels = np.full(len(x), -1)
    scores = np.empty((len(x), len(start)))
    rows, columns = np.column_stack([x, np.ones(len(x))]), np.empty((len(start), x.shape[1] + 1))
    for _ in range(rounds):
        # Half the squared distances without what is the same for all centres, from one product.
        np.negative(centres, out=columns[:, :-1])
        columns[:, -1] = 0.5 * np.einsum("mk,mk->m", centres, centres)
        nearest = np.matmul(rows, columns.T, out=scores).argmin(axis=1)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
        occupied, found = means(x, labels)
        centres[occupied] = found
    return centres, labels


def means(x: Array, labels: Index) -> tuple[Index, Array]:
    """The labels that occur, ascending, and the mean of the inputs of each."""
    counts = np.bincount(labels)
    occupied = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[occupied]
    grouped = x[np.argsort(labels, kind="stable")]
    return occupied, np.asarray(np.add.reduceat(grouped, starts, axis=0) / counts[occupied, None])
