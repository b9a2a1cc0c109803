"""What an owner of data does: fit a model at home, and answer queries with one number per class."""

from __future__ import annotations

import os
from typing import Any, Protocol, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from onefold import io
from onefold.exceptions import InvalidInputError
from onefold.federated.aggregate import Array, check_answers
from onefold.models import AutoencoderClassifier, maximum_of

__all__ = ["ClassModels", "LocalModel", "align"]


class ClassModels(Protocol):
    """A classifier that can say how far a row is from each of its classes."""

    measure: str
    classes_: NDArray[Any]

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Model each class of the data."""

    def distances(self, X: ArrayLike) -> Array:
        """Measure of each row by each class, (n, C)."""


def align(answers: Array, own: NDArray[Any], classes: NDArray[Any], missing: float) -> Array:
    """Answers for the classes ``own`` as columns for ``classes``; classes not owned answer ``missing``."""
    if not np.all(np.isin(own, classes)):
        raise InvalidInputError("a client answers for a class that is not among the classes asked for")
    aligned = np.full((len(answers), len(classes)), missing, dtype=answers.dtype)
    order = np.argsort(classes, kind="stable")
    aligned[:, order[np.searchsorted(classes, own, sorter=order)]] = answers
    return aligned


class LocalModel:
    """The model of one owner: fitted on the owner's rows, asked for one number per row and class.

    Parameters
    ----------
    estimator : a classifier with ``distances``, ``classes_`` and ``measure``; it is cloned, not changed.
        None stands for ``AutoencoderClassifier()``.

    Attributes
    ----------
    estimator_ : the fitted classifier.
    classes_ : labels this owner has rows of, sorted.
    measure : the measure in which answers are given.

    Notes
    -----
    An answer reveals how close a query is to the owner's rows, and :meth:`save` writes those rows to the
    file: without noise on the data neither is private. Owners whose answers are to be compared must use the
    same features, the same measure and, for the space folding measures, the same ``scale``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.9]])
    >>> owner = LocalModel().fit(X, ["low", "low", "high", "high"])
    >>> owner.answers(X[:1], classes=["high", "low", "other"]).argmin()
    np.int64(1)
    >>> owner.answers(X[:1], classes=["high", "low", "other"])[0, 2]
    np.float64(inf)
    """

    def __init__(self, estimator: ClassModels | None = None) -> None:
        self.estimator = estimator

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Model every class the owner has rows of."""
        prototype = AutoencoderClassifier() if self.estimator is None else clone(self.estimator)
        if not hasattr(prototype, "distances") or not hasattr(prototype, "measure"):
            raise InvalidInputError(
                "the estimator needs distances(X) and a measure, as onefold's classifiers have"
            )
        self.estimator_ = cast(ClassModels, prototype)
        self.estimator_.fit(X, y)
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels this owner has rows of, sorted."""
        return self._fitted().classes_

    @property
    def measure(self) -> str:
        """Name of the measure in which answers are given."""
        return self._fitted().measure

    @property
    def scale(self) -> float | None:
        """Scale at which a folding measure sees the data; None for the distance, which has its units."""
        if self.measure == "euclidean":
            return None
        return float(getattr(self._fitted(), "scale_", 1.0))

    def answers(self, X: ArrayLike, classes: ArrayLike | None = None) -> Array:
        """Measure of each row by each class, (n, C); a class the owner lacks answers the measure's maximum.

        Parameters
        ----------
        X : queries (n, p).
        classes : labels of the columns, in any order, including all the owner's; its own when None.
        """
        own = self.classes_
        largest = maximum_of(self.measure)
        distances = check_answers(self._fitted().distances(X), 2, largest)
        if classes is None:
            return distances
        return align(distances, own, _distinct(classes), largest)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, without pickle. The file holds the owner's rows."""
        io.save(cast(Any, self._fitted()), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model that :meth:`save` wrote."""
        estimator = io.load(path)
        if not hasattr(estimator, "distances"):
            raise InvalidInputError("the file holds no classifier")
        model = cls(clone(estimator))
        model.estimator_ = estimator
        return model

    def _fitted(self) -> ClassModels:
        if not hasattr(self, "estimator_"):
            raise NotFittedError("this LocalModel has not been fitted: call fit(X, y) first")
        return self.estimator_


def _distinct(classes: ArrayLike) -> NDArray[Any]:
    labels = np.asarray(classes)
    if labels.ndim != 1 or labels.size == 0 or len(np.unique(labels)) != labels.size:
        raise InvalidInputError("classes must be a list of distinct labels")
    return labels
