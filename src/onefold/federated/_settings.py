"""How a local model comes from rows: which classifier, which noise, which division into batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator, PrivateClassifier
from onefold.federated._rows import Index, Rows
from onefold.federated.aggregate import Array
from onefold.models import AutoencoderClassifier
from onefold.models import ClassModels as Divisible
from onefold.privacy import Guarantee, Mechanism, OptimalNoise, RandomisedLabels

__all__ = ["RowChecks", "Settings"]


class RowChecks(ClassifierMixin, BaseEstimator):
    """What rows must be like: their number of features, and their names if they have any."""

    @classmethod
    def like(cls, estimator: Any) -> RowChecks:
        """The checks of a fitted classifier."""
        checks = cls()
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(checks, name, getattr(estimator, name))
        return checks


@dataclass(eq=False)
class Settings:
    """The settings of a :class:`LocalModel`, with those of a PrivateClassifier unfolded."""

    classifier: Any
    mechanism: Mechanism | None
    fabricate: bool
    label_mechanism: RandomisedLabels | None
    random_state: Any
    stopping: str | int = "honest"
    n_components: int = 20
    branch_size: int = 1000
    must_be_private: bool = False  # the model was loaded with a guarantee: no raw row may get in

    @classmethod
    def of(cls, model: Any) -> Settings:
        """The settings of a local model."""
        private = model.estimator
        if not isinstance(private, PrivateClassifier):
            settings = cls(
                private, model.mechanism, model.fabricate, model.label_mechanism, model.random_state
            )
        elif model.mechanism is not None or model.label_mechanism is not None:
            raise InvalidInputError("a PrivateClassifier has its own mechanism: give it in one place only")
        else:
            settings = cls(
                private.classifier,
                OptimalNoise(1.0) if private.mechanism is None else private.mechanism,
                private.fabricate,
                private.label_mechanism,
                private.random_state,
                private.stopping,
                private.n_components,
                private.branch_size,
            )
        if settings.label_mechanism is not None and settings.mechanism is None:
            raise InvalidInputError("label_mechanism needs a mechanism: raw rows give their labels away")
        settings.must_be_private = getattr(getattr(model, "_settings", None), "must_be_private", False)
        return settings

    def prototype(self) -> Any:
        """An unfitted classifier."""
        prototype = AutoencoderClassifier() if self.classifier is None else clone(self.classifier)
        if not hasattr(prototype, "distances") or not hasattr(prototype, "measure"):
            raise InvalidInputError(
                "the estimator needs distances(X) and a measure, as onefold's classifiers have"
            )
        return prototype

    def maker(self) -> Fabricator:
        """What makes private rows."""
        if self.mechanism is None:
            raise InvalidInputError("the mechanism is unknown: load the model with like=LocalModel(...)")
        return Fabricator(
            self.mechanism,
            self.n_components,
            self.stopping,
            self.branch_size,
            label_mechanism=self.label_mechanism,
        )

    def prepare(self, samples: Array, labels: NDArray[Any]) -> tuple[Rows, Guarantee | None]:
        """Rows as the classifier may see them, in one batch per class yet, and the guarantee."""
        numbers, zeros = np.arange(len(samples)), np.zeros(len(samples), dtype=np.intp)
        if self.mechanism is None:
            if self.must_be_private:
                raise InvalidInputError(
                    "this model is private: load it with like=LocalModel(...) to name its noise"
                )
            return Rows(samples.copy(), labels.copy(), numbers, zeros, len(samples)), None
        maker = self.maker()
        rng = None if self.random_state is None else np.random.default_rng(self.random_state)
        if self.fabricate and self.stopping == "documented":  # void anyway, and cannot be done again
            values = maker.fabricate(samples, labels, rng)
            return Rows(values, np.asarray(maker.labels_), numbers, zeros, len(samples)), maker.guarantee_
        noisy = maker.randomise(samples, labels, rng)
        private, guarantee = np.asarray(maker.labels_), maker.guarantee_
        if not self.fabricate:
            return Rows(noisy, private, numbers, zeros, len(samples)), guarantee
        values = maker.smooth(noisy, private)
        return Rows(values, private, numbers, zeros, len(samples), noisy), guarantee

    def divided(self, rows: Rows, given: Index | None = None) -> Rows:
        """Rows in batches: the given ones, or as the classifier divides them."""
        if given is not None:
            return replace(rows, batches=given, clustered=())
        return self.divided_again(rows, np.unique(rows.labels))

    def divided_again(self, rows: Rows, labels: NDArray[Any]) -> Rows:
        """Rows of these classes in new batches, whatever batches they were in."""
        prototype = self.prototype()
        mine = np.flatnonzero(np.isin(rows.labels, labels))
        if not isinstance(prototype, Divisible) or not mine.size:
            return rows
        batches = rows.batches.copy()
        batches[mine] = prototype.divide(rows.values, rows.labels, mine)
        clustered = [label for label in rows.clustered if label not in labels]
        if self.partition() == "kmeans":
            several = [label for label in labels if batches[rows.labels == label].max(initial=0) > 0]
            clustered += [label.item() if isinstance(label, np.generic) else label for label in several]
        return replace(rows, batches=batches, clustered=tuple(clustered))

    def partition(self) -> str:
        """How the classifier divides a class."""
        prototype = self.prototype()
        family = prototype.prototype() if isinstance(prototype, Divisible) else None
        return str(getattr(family, "partition", "single"))
