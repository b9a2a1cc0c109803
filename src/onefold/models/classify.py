"""Classifiers that model each class by an autoencoder and ask which one folds a point least (000 Def. 7)."""

import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Index, Labels
from onefold._base.validation import Entry, Instance, OneOf, Whole, check_parameters, check_rows
from onefold.exceptions import InvalidInputError
from onefold.models.compose import Autoencoder
from onefold.models.folding import MEASURES
from onefold.models.kahm._estimator import WideKAHM
from onefold.models.pool import Pool, StackMemory
from onefold.models.scale import ScaleOption, unit_and_factor

__all__ = ["AutoencoderClassifier", "ClassModels", "FoldingClassifier"]

DEFAULT = WideKAHM()  # what a classifier without an estimator uses; it is never fitted


class ClassModels(ClassifierMixin, BaseEstimator, ABC):
    """One autoencoder per class, all fitted and queried together; subclasses say which autoencoder."""

    measure: str
    n_jobs: int | None
    pool_: Pool
    constraints: ClassVar[dict[str, Entry]] = {"measure": OneOf(MEASURES)}

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Model the rows of each class in ``X`` by an autoencoder of its own."""
        return self.fit_batches(X, y)

    def fit_batches(
        self, X: ArrayLike, y: ArrayLike, batches: ArrayLike | None = None, memory: StackMemory | None = None
    ) -> Self:
        """Like :meth:`fit`, with the division of each class into branches or batches given.

        Parameters
        ----------
        batches : whole numbers (n,): rows of one class with the same number share a machine, and machines are
            ordered by it. None divides as :meth:`fit` does. ``batches_`` holds what was used.
        memory : machines of an earlier fit, taken over where a fit would give the same.
        """
        samples, labels = check_rows(self, X, y)
        return self.fit_checked(samples, labels, batches, memory)

    def fit_checked(
        self, samples: Array, labels: Labels, batches: ArrayLike | None, memory: StackMemory | None
    ) -> Self:
        """Do what :meth:`fit_batches` does, for rows and labels that the caller has checked."""
        family = self.family
        family.check_parameters()
        with warnings.catch_warnings():
            # A site with few rows and many classes is nothing unusual here.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(labels)
        self.n_features_in_ = samples.shape[1]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        unit, factor = unit_and_factor(samples, family.scale, family.scale_matters)
        groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        self.scale_ = factor / unit
        if batches is None:
            branches = family.split_groups(samples, groups, unit)
        else:
            numbers = _numbers(batches, len(samples))
            branches = [_given(rows, numbers) for rows in groups]
        self.pool_ = family.fit_branches(samples, branches, unit, factor, self.n_jobs, memory)
        self.batches_ = _batch_of_each(branches, len(samples))
        return self

    def divide(self, X: Array, y: NDArray[Any], rows: Index) -> Index:
        """Numbers of the batches that :meth:`fit` would divide these rows into, class by class."""
        unit, _ = unit_and_factor(X, "auto")  # the unit does not depend on the scale
        groups = [rows[y[rows] == label] for label in np.unique(y[rows])]
        return _batch_of_each(self.family.split_groups(X, groups, unit), len(X))[rows]

    def distances(self, X: ArrayLike) -> Array:
        """Folding measure of each row by each class, (n, C); the smallest decides."""
        check_is_fitted(self)
        return self.pool_.measures(
            check_rows(self, X, reset=False), self.measure, self.family.n_probe, self.n_jobs
        )

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class whose autoencoder folds each row least (000 eq. 62, 004 eq. 118)."""
        nearest = self.distances(X).argmin(axis=1)  # the first of equal ones
        return np.asarray(self.classes_[nearest])

    def decision_function(self, X: ArrayLike) -> Array:
        """Minus the distances, (n, C); for two classes the advantage of the second, (n,)."""
        distances = self.distances(X)
        if len(self.classes_) == 2:
            return np.asarray(distances[:, 0] - distances[:, 1])
        return -distances

    def matching_score(self, X: ArrayLike) -> Array:
        """Class-matching score of each row, (n, C), in (1/e, 1] (000 eq. 63)."""
        distances = self.distances(X).astype(np.float64)
        largest = distances.max(axis=1, keepdims=True)
        squares = np.divide(distances, largest, out=np.ones_like(distances), where=largest > 0.0) ** 2
        return np.asarray(np.exp(-squares / squares.sum(axis=1, keepdims=True)))

    @property
    def machines_(self) -> list[Autoencoder]:
        """The autoencoder of each class, in the order of ``classes_``."""
        check_is_fitted(self)
        owned = [self.pool_.group(index) for index in range(len(self.classes_))]
        return [self.prototype().from_pool(pool, self.n_features_in_) for pool in owned]

    @property
    @abstractmethod
    def family(self) -> Autoencoder:
        """The autoencoder whose parameters the model of each class has; not to be changed or fitted."""

    def prototype(self) -> Autoencoder:
        """Return an unfitted autoencoder of the kind each class is modelled by."""
        return cast(Autoencoder, clone(self.family))


class AutoencoderClassifier(ClassModels):
    """Classifier with one autoencoder per class (000 Def. 7 and 8).

    Parameters
    ----------
    estimator : autoencoder or None, default=None
        Unfitted autoencoder that is cloned for every class; None stands for ``WideKAHM()``.
    measure : {"euclidean", "rms", "product", "min", "max", "fuzzy"}, default="euclidean"
        How folding is measured: the distance between a point and its image, a combination of the Euclidean
        and angular parts of 004 eq. 102 (options 1 to 4), or what the membership of 003 eq. 2.162 leaves to
        one.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Replaces the autoencoder's own setting.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    machines_ : list
        The fitted autoencoder of each class.
    scale_ : float
        The factor at which the data is seen, the same for all classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import AutoencoderClassifier, WideKAHM
    >>> X, y = load_iris(return_X_y=True)
    >>> AutoencoderClassifier(WideKAHM(scale="auto")).fit(X, y).score(X, y) > 0.95
    True
    """

    constraints: ClassVar[dict[str, Entry]] = {
        **ClassModels.constraints,
        "estimator": (None, Instance(Autoencoder, "one of onefold's autoencoders, such as WideKAHM()")),
    }

    def __init__(
        self,
        estimator: Autoencoder | None = None,
        measure: str = "euclidean",
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.measure = measure
        self.n_jobs = n_jobs

    @property
    def family(self) -> Autoencoder:
        """The autoencoder that ``estimator`` is or stands for; not to be changed or fitted."""
        check_parameters(self, self.constraints)
        return DEFAULT if self.estimator is None else self.estimator


class FoldingClassifier(ClassModels):
    """Space-folding classifier: one-layer machines on small batches of consecutive rows (004 Remark 10).

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding of each machine.
    batch_size : int, default=100
        About how many rows of a class one machine models.
    measure : {"rms", "product", "min", "max", "euclidean", "fuzzy"}, default="rms"
        Space folding measure, 004 eq. 102; "rms" is the documents' choice.
    scale : None, "auto" or float, default=None
        As in :class:`KAHM`.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use.
    """

    constraints: ClassVar[dict[str, Entry]] = {**ClassModels.constraints, "batch_size": Whole(1)}

    def __init__(
        self,
        n_components: int = 20,
        batch_size: int = 100,
        measure: str = "rms",
        *,
        scale: ScaleOption = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.batch_size = batch_size
        self.measure = measure
        self.scale = scale
        self.n_jobs = n_jobs

    @property
    def family(self) -> Autoencoder:
        """A wide machine of one layer on batches of consecutive rows."""
        check_parameters(self, self.constraints)
        return WideKAHM(
            n_components=self.n_components,
            n_layers=1,
            branch_size=self.batch_size,
            partition="contiguous",
            scale=self.scale,
        )


def _numbers(batches: ArrayLike, n_rows: int) -> Index:
    numbers = np.asarray(batches)
    if numbers.shape != (n_rows,) or numbers.dtype.kind not in "iu":
        raise InvalidInputError("batches must be one whole number per row")
    return numbers.astype(np.intp)


def _batch_of_each(branches: list[list[Index]], n_rows: int) -> Index:
    found = np.zeros(n_rows, dtype=np.intp)
    for number, rows in (numbered for own in branches for numbered in enumerate(own)):
        found[rows] = number
    return found


def _given(rows: Index, numbers: Index) -> list[Index]:
    """The rows of one class by their numbers, each batch in the order of its rows."""
    order = np.argsort(numbers[rows], kind="stable")
    sizes = np.unique(numbers[rows], return_counts=True)[1]
    return np.split(rows[order], np.cumsum(sizes)[:-1])
