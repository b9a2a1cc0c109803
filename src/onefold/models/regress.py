r"""Regression by space folding: machines of clusters say how near a row is, local outputs are mixed by that.

The rows of each cluster have machines of their own. A query x has a folding measure :math:`D_c` between 0 and
1 to each cluster (004 eq. 102), whose shares are :math:`(1 - D_c)^\alpha`, of the nearest k clusters only,
scaled to a sum of one. The prediction is the mixture of the clusters' local outputs by these shares.

Two ways to divide the rows are known. Clusters of *outputs* with their mean as local output are how the
authors of the documents describe regression with kernel affine hull machines in public code. Clusters of
*inputs* have a ridge regression of their own as local output; one cluster is a ridge regression. (Clusters of
pairs (x, y) would choose rows by their output, which draws every local regression to its cluster's mean.)
"""

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Floats, Index, sizes_of
from onefold._base.stored import Stored
from onefold._base.validation import (
    Entry,
    Number,
    OneOf,
    Whole,
    check_parameter,
    check_parameters,
    check_rows,
)
from onefold.exceptions import InvalidInputError
from onefold.models.classify import FoldingClassifier
from onefold.models.clusters import clusters
from onefold.models.preparation import Preparation
from onefold.models.ridge import PairSums, ridge_of

__all__ = ["FoldingRegressor", "mixed_outputs"]

PARTITIONS = ("outputs", "inputs")
N_CLUSTERS = {"outputs": (5, 10, 20, 40), "inputs": (1, 2, 4, 8, 16)}  # that are compared
POWERS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
NEAREST = (1, 2, 4, 8, 1000)
FEWEST = 10  # rows that a cluster should have on average
MOST_HELD_OUT, MOST_COMPARED = 1000, 4000  # rows on which settings are compared
SEED = 20260118  # public: which rows are held out, and where clusters start


@dataclass(eq=False, repr=False)
class FoldingRegressor(Stored, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Space-folding regression: local outputs of clusters, mixed by how near their machines find a row.

    Parameters
    ----------
    partition : {"auto", "outputs", "inputs"}, default="auto"
        What is divided into clusters: outputs, each cluster answering with its mean, or inputs, each
        answering with a ridge regression of its own. "auto" compares both on held-out rows.
    n_clusters : int or "auto", default="auto"
        Number of clusters; "auto" compares 5 to 40 clusters of outputs and 1 to 16 of inputs.
    power : float or "auto", default="auto"
        Exponent of one minus the folding measure: the larger, the more the nearest cluster decides. "auto"
        is chosen together with the number of clusters.
    n_nearest : int or "auto", default="auto"
        Number of clusters that are mixed, the nearest ones. "auto" is chosen in the same way.
    n_components : int, default=20
        Dimension of the encoding of each machine.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.

    Attributes
    ----------
    machines_ : FoldingClassifier
        Machines of the clusters; its classes are their numbers.
    weights_ : ndarray of shape (n_clusters, n_outputs, n_features)
        Weights of the local outputs, for standardised columns.
    offsets_ : ndarray of shape (n_clusters, n_outputs)
        What is added to them.
    partition_ : str
        What was divided.
    power_ : float
        The exponent.
    n_nearest_ : int
        How many clusters are mixed.
    residuals_ : ndarray of shape (n_held_out, n_outputs)
        Absolute errors, sorted, of rows that were held out when the settings were compared.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    FoldingClassifier : The same machines for classes.
    onefold.fabrication.MomentRegressor : Sums only, with a guarantee if there is noise.

    Notes
    -----
    *Settings.* A fifth of the rows, at most 1000, is held out once; the settings with the smallest squared
    error there are fitted again to all rows. Predictions stay within the range of the fitted outputs.

    *What it gives away.* The machines are made of the rows: nothing is promised. An answer
    (:meth:`answers`) is the distance to the nearest cluster and one number per output, both functions of
    the raw rows.

    References
    ----------
    Document 004, eq. 102; document 000, Remark 5.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import FoldingRegressor
    >>> X = np.random.default_rng(0).uniform(size=(400, 2))
    >>> y = np.abs(X[:, 0] - 0.5) + X[:, 1]
    >>> bool(FoldingRegressor().fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9)
    True
    """

    partition: str = "auto"
    n_clusters: int | str = "auto"
    power: float | str = "auto"
    n_nearest: int | str = "auto"
    _: KW_ONLY
    n_components: int = 20
    n_jobs: int | None = None

    constraints: ClassVar[dict[str, Entry]] = {
        "partition": OneOf(("auto", *PARTITIONS)),
        "n_clusters": (Whole(1), "auto"),
        "power": (Number(above=0), "auto"),
        "n_nearest": (Whole(1), "auto"),
        "n_components": Whole(1),
    }

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Compare settings on held-out rows, and fit machines and local outputs to all rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Outputs.

        Returns
        -------
        FoldingRegressor
            The fitted estimator itself.
        """
        check_parameters(self, self.constraints)
        given, outputs = check_rows(self, X, y, numeric_outputs=True)
        self._one_output = np.ndim(outputs) == 1
        rows = np.asarray(given, dtype=np.float64)
        targets = np.asarray(outputs, dtype=np.float64).reshape(len(rows), -1)
        self._ranges = np.array([targets.min(axis=0), targets.max(axis=0)])
        self.preparation_ = Preparation.of(rows)
        prepared = np.asarray(self.preparation_.apply(rows), dtype=np.float64)
        rng = np.random.default_rng(SEED)
        order = rng.permutation(len(rows))
        n_held = min(len(rows) // 5, MOST_HELD_OUT)
        held, others = order[:n_held], order[n_held : n_held + MOST_COMPARED]
        self._choose(prepared, targets, others, held)
        self._fit_clusters(prepared, targets, self.partition_, self._n_chosen)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Compute the output of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Outputs, of the shape that ``y`` had.
        """
        return self.answers(X)[1]

    def answers(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Return what a site answers with: how far a row is from its rows, and what it predicts.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        distances : ndarray of shape (n_rows,)
            Folding measure to the nearest cluster, from 0 to 1.
        outputs : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Predictions.
        """
        check_is_fitted(self, "machines_")
        rows = np.asarray(check_rows(self, X, reset=False), dtype=np.float64)
        prepared = np.asarray(self.preparation_.apply(rows), dtype=np.float64)
        distances = np.asarray(self.machines_.distances(prepared), dtype=np.float64)
        found = mixed_outputs(distances, self._local(prepared), self.power_, self.n_nearest_)
        found = np.clip(found, *self._ranges)
        return distances.min(axis=1), found[:, 0] if self._one_output else found

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> Floats:
        """Compute an interval for each row that holds the output of about the share ``level`` of rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.
        level : float, default=0.9
            The share, between 0 and 1.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            Lowest and highest output: the prediction less and plus a quantile of ``residuals_``. These
            rows also decided about the settings, and the final fit has seen them: no promise.
        """
        check_parameter("level", level, Number(above=0, below=1))
        middle = self.predict(X)
        if not self._one_output or not len(self.residuals_):
            raise InvalidInputError("intervals need one output, and five rows to fit at least")
        place = math.ceil(float(level) * (len(self.residuals_) + 1)) - 1
        width = self.residuals_[min(place, len(self.residuals_) - 1), 0]
        return np.column_stack([middle - width, middle + width])

    def _choose(self, rows: Floats, targets: Floats, others: Index, held: Index) -> None:
        """Compare partitions, numbers of clusters, powers and numbers of nearest ones on held-out rows."""
        spread = targets.std(axis=0)
        spread[spread == 0.0] = 1.0
        powers = POWERS if self.power == "auto" else (float(self.power),)
        nearest = NEAREST if self.n_nearest == "auto" else (int(self.n_nearest),)
        kinds = PARTITIONS if self.partition == "auto" else (self.partition,)

        def tried(kind: str, size: int) -> Iterator[tuple[float, str, int, float, int, Floats]]:
            """Error of each setting, the setting, and what it is wrong by."""
            if not held.size:  # nothing to compare with
                yield 0.0, kind, size, powers[len(powers) // 2], nearest[-1], np.empty((0, 1))
                return
            self._fit_clusters(rows[others], targets[others], kind, size)
            distances = np.asarray(self.machines_.distances(rows[held]), dtype=np.float64)
            local = self._local(rows[held])
            for power in powers if size > 1 else powers[:1]:
                for count in dict.fromkeys(min(each, size) for each in nearest):
                    found = np.clip(mixed_outputs(distances, local, power, count), *self._ranges)
                    errors = np.abs(found - targets[held])
                    yield float(np.mean((errors / spread) ** 2)), kind, size, power, count, errors

        sizes = ((kind, size) for kind in kinds for size in self._sizes(kind, len(others)))
        best = min((each for pair in sizes for each in tried(*pair)), key=itemgetter(0))
        _, self.partition_, self._n_chosen, self.power_, self.n_nearest_, errors = best
        self.residuals_ = np.sort(errors, axis=0)

    def _sizes(self, kind: str, n_rows: int) -> tuple[int, ...]:
        if self.n_clusters != "auto":
            return (min(int(self.n_clusters), n_rows),)
        return tuple(size for size in N_CLUSTERS[kind] if n_rows >= FEWEST * size) or (1,)

    def _fit_clusters(self, rows: Floats, targets: Floats, kind: str, n_clusters: int) -> None:
        """Divide the rows, and fit machines and local outputs of every cluster."""
        labels = _divided(rows, targets, kind, n_clusters)
        self.machines_ = FoldingClassifier(
            self.n_components, preparation=None, head=None, n_jobs=self.n_jobs
        ).fit(rows, labels)
        width, n_outputs = rows.shape[1], targets.shape[1]
        n_found = int(labels.max()) + 1
        self.weights_ = np.zeros((n_found, n_outputs, width))
        self.offsets_ = np.zeros((n_found, n_outputs))
        for cluster in range(n_found):
            mine = labels == cluster
            for output in range(n_outputs):
                if kind == "outputs":
                    self.offsets_[cluster, output] = targets[mine, output].mean()
                else:
                    found = ridge_of(PairSums.of(rows[mine], targets[mine, output]))
                    self.weights_[cluster, output] = found.weights
                    self.offsets_[cluster, output] = found.offset

    def _local(self, rows: Floats) -> Floats:
        """Local outputs, (n_rows, n_clusters, n_outputs)."""
        return np.asarray(np.einsum("np,ckp->nck", rows, self.weights_) + self.offsets_)

    # --- files ----------------------------------------------------------------------------------------------

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept."""
        return super()._kept() | {
            "machines_": FoldingClassifier,
            "preparation_": Preparation,
            **dict.fromkeys(("weights_", "offsets_", "_ranges", "residuals_"), Floats),
            "power_": float,
            "n_nearest_": int,
            "partition_": str,
            "_one_output": bool,
        }

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become fitted; what does not fit together is refused."""
        super()._take_over(values)
        sizes = sizes_of(self, weights_="cop", offsets_="co", _ranges="2o", residuals_="hO")
        known = {"c": len(self.machines_.classes_), "p": self.n_features_in_}
        fitting = (
            known.items() <= sizes.items()
            and self.machines_.n_features_in_ == len(self.preparation_.scale) == sizes["p"]
            and (sizes["o"] == 1 or (sizes["o"] > 1 and not self._one_output))
        )
        if not fitting or self.partition_ not in PARTITIONS or self.n_nearest_ < 1 or not self.power_ > 0:
            raise InvalidInputError("the numbers are not those of a fitted model")


def _divided(rows: Floats, targets: Floats, kind: str, n_clusters: int) -> Index:
    """Return the number of each row's cluster; every number up to the largest occurs."""
    if kind == "outputs" and targets.shape[1] == 1:  # equally many rows each, equal outputs together
        edges = np.quantile(targets[:, 0], np.linspace(0.0, 1.0, n_clusters + 1)[1:-1])
        labels = np.searchsorted(np.unique(edges), targets[:, 0], side="right")
    else:
        spread = targets.std(axis=0)
        points = rows if kind == "inputs" else targets / np.where(spread > 0.0, spread, 1.0)
        rng = np.random.default_rng(SEED)
        start = points[np.sort(rng.permutation(len(points))[:n_clusters])]
        labels = clusters(points, start)[1]
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def mixed_outputs(distances: Array, outputs: Array, power: float, n_nearest: int) -> Floats:
    """Mix outputs by shares that fall with the folding measure.

    Parameters
    ----------
    distances : ndarray of shape (n_rows, n_parts)
        Folding measures, from 0 to 1.
    outputs : ndarray of shape (n_rows, n_parts, n_outputs)
        What each part would answer.
    power : float
        Exponent of one minus the measure.
    n_nearest : int
        Number of parts that count, the nearest ones.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        Mixed outputs.

    Examples
    --------
    >>> import numpy as np
    >>> distances, outputs = np.array([[0.0, 0.5]]), np.array([[[1.0], [4.0]]])
    >>> mixed_outputs(distances, outputs, 1.0, 2).tolist()
    [[2.0]]
    """
    # Relative to the nearest part, so that no power makes all shares vanish.
    logs = np.log(np.maximum(1.0 - np.asarray(distances, dtype=np.float64), 1e-12))
    logs -= logs.max(axis=1, keepdims=True)
    shares = np.exp(power * logs)
    if n_nearest < shares.shape[1]:
        order = np.argsort(distances, axis=1, kind="stable")
        np.put_along_axis(shares, order[:, n_nearest:], 0.0, axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("nc,nck->nk", shares, outputs))
