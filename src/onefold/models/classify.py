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
from onefold._base.parallel import one_blas_thread
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
    """Base class: one autoencoder per class, all fitted and asked together.

    Subclasses say which autoencoder.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    machines_ : list of Autoencoder
        The fitted autoencoder of each class.
    batches_ : ndarray of int of shape (n_rows,)
        Number of each row's machine within its class.
    pool_ : Pool
        The machines of all classes.
    scale_ : float
        Factor by which machines multiply the data, the same for all classes.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    AutoencoderClassifier : Any autoencoder.
    FoldingClassifier : Small machines of one layer.

    References
    ----------
    Document 000, Definition 7.

    Examples
    --------
    >>> from onefold import FoldingClassifier
    >>> from onefold.models import ClassModels
    >>> isinstance(FoldingClassifier(), ClassModels)
    True
    """

    measure: str
    n_jobs: int | None
    _n_probe: int | None = None  # how many machines of a class are asked, those with the nearest centres
    pool_: Pool
    constraints: ClassVar[dict[str, Entry]] = {"measure": OneOf(MEASURES)}

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Model the rows of each class by an autoencoder of its own.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Class labels.

        Returns
        -------
        ClassModels
            The fitted classifier itself.
        """
        return self.fit_batches(X, y)

    def fit_batches(
        self, X: ArrayLike, y: ArrayLike, batches: ArrayLike | None = None, memory: StackMemory | None = None
    ) -> Self:
        """Fit as :meth:`fit` does, with the division of each class into batches given.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Class labels.
        batches : array-like of int of shape (n_rows,) or None, default=None
            Rows of one class with the same number share a machine, and machines are ordered by it. None
            divides as :meth:`fit` does.
        memory : StackMemory or None, default=None
            Machines of an earlier fit, taken over where a fit would give the same.

        Returns
        -------
        ClassModels
            The fitted classifier itself.
        """
        samples, labels = check_rows(self, X, y)
        return self.fit_checked(samples, labels, batches, memory)

    def fit_checked(
        self, samples: Array, labels: Labels, batches: ArrayLike | None, memory: StackMemory | None
    ) -> Self:
        """Fit as :meth:`fit_batches` does, to rows and labels that the caller has checked.

        Parameters
        ----------
        samples : ndarray of shape (n_rows, n_features)
            Finite rows of float32 or float64.
        labels : ndarray of shape (n_rows,)
            Class labels.
        batches : array-like of int of shape (n_rows,) or None
            Number of each row's machine within its class; None divides as :meth:`fit` does.
        memory : StackMemory or None
            Machines of an earlier fit, taken over where a fit would give the same.

        Returns
        -------
        ClassModels
            The fitted classifier itself.
        """
        self.__dict__.pop("guarantee_", None)  # it was about the rows of an earlier fit
        family = self.family
        check_parameters(self)
        check_parameters(family)
        with warnings.catch_warnings():
            # A site with few rows and many classes is nothing unusual here.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(labels)
        self.n_features_in_ = samples.shape[1]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        with one_blas_thread():
            unit, factor = unit_and_factor(samples, family.scale, family.scale_matters)
            if batches is None:
                branches = family.split_groups(samples, groups, unit)
            else:
                numbers = _numbers(batches, len(samples))
                branches = [_given(rows, numbers) for rows in groups]
            self.batches_ = _batch_of_each(branches, len(samples))
            self.pool_ = family.fit_branches(samples, branches, unit, factor, self.n_jobs, memory)
        self.scale_ = factor / unit
        return self

    @one_blas_thread()
    def divide(self, X: Array, y: NDArray[Any], rows: Index) -> Index:
        """Divide rows into the batches that :meth:`fit` would make, class by class.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Checked rows.
        y : ndarray of shape (n_rows,)
            Class labels.
        rows : ndarray of int
            Numbers of the rows to divide.

        Returns
        -------
        ndarray of int
            Batch of each of these rows within its class.
        """
        unit, _ = unit_and_factor(X, "auto")  # the unit does not depend on the scale
        groups = [rows[y[rows] == label] for label in np.unique(y[rows])]
        return _batch_of_each(self.family.split_groups(X, groups, unit), len(X))[rows]

    def distances(self, X: ArrayLike) -> Array:
        """Measure each row against each class; the smallest value decides.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Folding measure of each row by the autoencoder of each class.
        """
        check_is_fitted(self)
        queries = check_rows(self, X, reset=False)
        return self.pool_.measures(queries, self.measure, self._n_probe, self.n_jobs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class whose autoencoder folds each row least (000 eq. 62, 004 eq. 118).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Class labels.
        """
        nearest = self.distances(X).argmin(axis=1)  # the first of equal ones
        return np.asarray(self.classes_[nearest])

    def decision_function(self, X: ArrayLike) -> Array:
        """Return minus the distances, or for two classes the advantage of the second.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, n_classes) or (n_rows,)
            Decision values.
        """
        distances = self.distances(X)
        if len(self.classes_) == 2:
            return np.asarray(distances[:, 0] - distances[:, 1])
        return -distances

    def matching_score(self, X: ArrayLike) -> Array:
        """Compute the class-matching score of each row (000 eq. 63).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Scores in (1/e, 1]; the largest is that of the predicted class.
        """
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

    @property
    def partition(self) -> str:
        """How the rows of a class are divided: "contiguous", "kmeans", or "single" for not at all."""
        return str(getattr(self.family, "partition", "single"))

    def prototype(self) -> Autoencoder:
        """Return an unfitted autoencoder of the kind each class is modelled by.

        Returns
        -------
        Autoencoder
            A copy that the caller may change and fit.
        """
        return cast(Autoencoder, clone(self.family))


class AutoencoderClassifier(ClassModels):
    """Classifier with one autoencoder per class.

    Parameters
    ----------
    estimator : Autoencoder or None, default=None
        Unfitted autoencoder that models every class; None stands for ``WideKAHM()``.
    measure : {"euclidean", "rms", "product", "min", "max", "fuzzy"}, default="euclidean"
        How folding is measured: the distance between a point and its image, a combination of the Euclidean
        and angular parts of 004 eq. 102 (options 1 to 4), or one minus the membership of 003 eq. 2.162.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Replaces the autoencoder's own setting.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    machines_ : list of Autoencoder
        The fitted autoencoder of each class.
    batches_ : ndarray of int of shape (n_rows,)
        Number of each row's machine within its class.
    scale_ : float
        Factor by which machines multiply the data, the same for all classes.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    FoldingClassifier : Small machines of one layer.

    References
    ----------
    Document 000, Definitions 7 and 8.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import AutoencoderClassifier, WideKAHM
    >>> X, y = load_iris(return_X_y=True)
    >>> AutoencoderClassifier(WideKAHM(scale="auto")).fit(X, y).score(X, y) > 0.95
    True
    """

    constraints: ClassVar[dict[str, Entry]] = {
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
        return DEFAULT if self.estimator is None else self.estimator

    @property
    def _n_probe(self) -> int | None:  # type: ignore[override]
        return self.family.n_probe


class FoldingClassifier(ClassModels):
    """Space-folding classifier: one-layer machines on small batches of consecutive rows.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding of each machine.
    batch_size : int, default=100
        Number of rows of a class that one machine should model.
    measure : {"rms", "product", "min", "max", "euclidean", "fuzzy"}, default="rms"
        Space folding measure, 004 eq. 102; the documents use "rms".
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data; images and distances stay in the units of ``X``.
        "auto" brings the mean square of the entries to 0.1, where the regularisation neither vanishes nor
        dominates.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    machines_ : list of WideKAHM
        The fitted machines of each class.
    batches_ : ndarray of int of shape (n_rows,)
        Number of each row's machine within its class.
    scale_ : float
        Factor by which machines multiply the data, the same for all classes.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    AutoencoderClassifier : Any autoencoder.

    References
    ----------
    Document 004, Remark 10.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import FoldingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> FoldingClassifier(scale="auto").fit(X, y).score(X, y) > 0.95
    True
    """

    constraints: ClassVar[dict[str, Entry]] = {"batch_size": Whole(1)}

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
