"""K-means: samples of one group in branches or batches, and centroids of inputs.

Branches are those of 000 Def. 5 and 004 Remarks 10-11. Centroids of inputs (001 eq. 51, 003 Alg. 1 step 2):
the documents do not say where k-means starts. Here it starts from points far from each other, which depend
on the set of inputs and not on their order; starts for fewer points are beginnings of the same list.
"""

import warnings
from itertools import pairwise

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from onefold._base.arrays import Array, Index
from onefold._base.parallel import one_blas_thread, one_openmp_thread

__all__ = [
    "PARTITIONS",
    "FarApart",
    "branch_count",
    "candidates",
    "clusters",
    "consecutive",
    "means",
    "split",
]

# --- branches: the samples of one group in parts -------------------------------------------------------


PARTITIONS = ("contiguous", "kmeans")
# k-means makes unequal clusters and a machine costs the cube of its size: larger ones are split once more.
LARGEST_CLUSTER = 2.0
# k-means compares every row with every centre. More clusters than this are found by dividing larger ones, so
# that the time is linear in the number of rows and not its square.
MOST_CLUSTERS = 128
# Centres of many clusters are found on this many rows, evenly spaced, but at least 100 for each cluster; then
# every row is assigned.
ROWS_FOR_CENTRES = 50000


def branch_count(n_samples: int, branch_size: int) -> int:
    """Count the branches of so many samples: N / size rounded, at least one (000 eq. 59, 004 eq. 119).

    Parameters
    ----------
    n_samples : int
        Number of samples N.
    branch_size : int
        Number of samples that a branch should hold.

    Returns
    -------
    int
        Number of branches.

    See Also
    --------
    split : Divides the samples.

    Examples
    --------
    >>> from onefold.models import branch_count
    >>> branch_count(2600, 1000), branch_count(3, 1000)
    (3, 1)
    """
    return max(1, int(np.floor(n_samples / branch_size + 0.5)))


def split(
    X: Array, rows: Index, unit: float, branch_size: int, partition: str, random_state: object = None
) -> list[Index]:
    """Divide rows into branches.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Checked rows.
    rows : ndarray of int
        Numbers of the rows to divide.
    unit : float
        Power of two by which the data is divided first, so that k-means can square it.
    branch_size : int
        Number of rows that a branch should hold.
    partition : {"kmeans", "contiguous"}
        Clusters, or batches of consecutive rows.
    random_state : int, RandomState or None, default=None
        Seed of k-means.

    Returns
    -------
    list of ndarray of int
        Numbers of the rows of each branch; every row is in exactly one.

    See Also
    --------
    consecutive : Batches of consecutive rows.

    References
    ----------
    Document 000, Definition 5, eq. 58-59; document 004, Remarks 10 and 11.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models import split
    >>> [len(part) for part in split(np.zeros((5, 1)), np.arange(5), 1.0, 2, "contiguous")]
    [2, 2, 1]
    """
    n_branches = branch_count(len(rows), branch_size)
    if n_branches == 1:
        return [rows]
    if partition == "contiguous":
        return consecutive(rows, n_branches)
    samples = X[rows] if unit == 1.0 else X[rows] / X.dtype.type(unit)
    return [rows[part] for part in _kmeans(samples, branch_size, random_state)]


def consecutive(rows: Index, n_parts: int) -> list[Index]:
    """Divide rows into parts of consecutive ones, the larger parts first (004 eq. 119-120).

    Parameters
    ----------
    rows : ndarray of int
        Numbers of rows.
    n_parts : int
        Number of parts.

    Returns
    -------
    list of ndarray of int
        The parts; their sizes differ by at most one.

    See Also
    --------
    split : Divides rows into branches.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models import consecutive
    >>> [part.tolist() for part in consecutive(np.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    size, larger = divmod(len(rows), n_parts)
    edges = [part * size + min(part, larger) for part in range(n_parts + 1)]
    return [rows[start:stop] for start, stop in pairwise(edges)]


def _kmeans(X: Array, branch_size: int, random_state: object) -> list[Index]:
    """Clusters of rows (000 eq. 58), none much larger than a branch should be."""
    branches: list[Index] = []
    count = branch_count(len(X), branch_size)
    if count > MOST_CLUSTERS:
        count = min(-(-count // MOST_CLUSTERS), MOST_CLUSTERS)  # clusters of clusters
    for rows in _clusters(X, count, random_state):
        if len(rows) <= LARGEST_CLUSTER * branch_size:
            branches.append(rows)
        elif len(rows) == len(X):  # equal rows, which k-means cannot tell apart, are cut where they stand
            branches += consecutive(rows, branch_count(len(rows), branch_size))
        else:
            branches += [rows[part] for part in _kmeans(X[rows], branch_size, random_state)]
    return branches


def _clusters(X: Array, n_clusters: int, random_state: object) -> list[Index]:
    model = KMeans(n_clusters, n_init=1, max_iter=100, random_state=random_state)
    X = X.astype(np.float32, copy=False)  # where a row belongs needs no more digits
    at_most = max(ROWS_FOR_CENTRES, 100 * n_clusters)
    with warnings.catch_warnings(), one_blas_thread(), one_openmp_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        if len(X) <= at_most:
            labels = model.fit_predict(X)
        else:
            labels = model.fit(X[:: -(-len(X) // at_most)]).predict(X)
    found = [np.flatnonzero(labels == cluster) for cluster in range(n_clusters)]
    return [rows for rows in found if len(rows)]


# --- centroids of inputs -------------------------------------------------------------------------------


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


def clusters(x: Array, start: Array, rounds: int = ROUNDS) -> tuple[Array, Index]:
    """k-means from the given centres (001 eq. 51), and the cluster of each input.

    A centre without inputs stays where it is.
    """
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
