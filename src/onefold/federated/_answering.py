"""Answering queries with one number per class: what every kind of local model shares."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold import io
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.aggregate import Array, check_answers
from onefold.federated.messages import Answers, ModelParcel, Profile, Query, check_guarantee, plain_labels
from onefold.models import maximum_of
from onefold.privacy import Guarantee

__all__ = ["Answering", "ClassModels", "align"]


# Samples of one machine in a parcel: its rebuilding takes the square of this in memory, and the cube in time.
LARGEST_MACHINE = 10_000


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


class Answering:
    """A fitted classifier in the role of an owner: answers, profile, and a parcel if it is private."""

    _digest: str | None = None
    _version: int = 0  # counts the fits, so that others can tell whether what they know is still true

    def _fitted(self) -> Any:
        raise NotImplementedError

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels this owner has rows of, sorted."""
        return np.asarray(self._fitted().classes_)

    @property
    def measure(self) -> str:
        """Name of the measure in which answers are given."""
        return str(self._fitted().measure)

    @property
    def scale(self) -> float | None:
        """Scale at which a folding measure sees the data; None for the distance, which has its units."""
        if self.measure == "euclidean":
            return None
        return float(getattr(self._fitted(), "scale_", 1.0))

    @property
    def guarantee_(self) -> Guarantee | None:
        """What the fitted model promises about the rows it was fitted on; None if they are raw."""
        found: Guarantee | None = getattr(self._fitted(), "guarantee_", None)
        return found

    @property
    def is_private(self) -> bool:
        """Whether a guarantee holds for everything this model gives away."""
        return self.guarantee_ is not None and self.guarantee_.holds

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

    def answer(self, query: Query, site: str) -> Answers:
        """The message that answers a query."""
        values = self.answers(query.features)
        return Answers(query.id, site, plain_labels(self.classes_), self.measure, self.scale, values)

    def profile(self, site: str) -> Profile:
        """What the owner says about itself at joining."""
        guarantee = None if self.guarantee_ is None else self.guarantee_.to_dict()
        n_features = int(self._fitted().n_features_in_)
        classes = plain_labels(self.classes_)
        return Profile(site, classes, self.measure, self.scale, n_features, guarantee, self.digest())

    def digest(self) -> str:
        """SHA-256 sum of the fitted model, as its file would have it."""
        if self._digest is None:
            self._digest = hashlib.sha256(io.to_bytes(self._fitted())).hexdigest()
        return self._digest

    def to_parcel(self, site: str) -> ModelParcel:
        """The model as a message; refused unless a guarantee holds for it."""
        if not self.is_private:
            raise InvalidInputError(
                "only a private model may travel: this one holds raw rows, or its guarantee is void"
            )
        return ModelParcel(site, io.to_bytes(self._fitted()))

    @classmethod
    def from_parcel(cls, parcel: ModelParcel) -> Self:
        """The model in a parcel; one without a guarantee that holds is refused."""
        try:
            estimator = io.from_bytes(parcel.content, LARGEST_MACHINE)
        except InvalidInputError:
            raise MessageError("the parcel holds no model") from None
        guarantee = getattr(estimator, "guarantee_", None)
        if guarantee is None or not guarantee.holds or not hasattr(estimator, "distances"):
            raise MessageError("the parcel holds no classifier with a guarantee that holds")
        check_guarantee(guarantee.to_dict())
        if hasattr(estimator, "n_jobs"):
            estimator.n_jobs = None  # how many threads answer is for this machine to say
        return cls._of(estimator)

    @classmethod
    def _of(cls, estimator: Any) -> Self:
        raise NotImplementedError


def _distinct(classes: ArrayLike) -> NDArray[Any]:
    labels = np.asarray(classes)
    if labels.ndim != 1 or labels.size == 0 or len(np.unique(labels)) != labels.size:
        raise InvalidInputError("classes must be a list of distinct labels")
    return labels
