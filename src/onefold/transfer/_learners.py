"""Models of the target that begin with beliefs about every row and refine them on unlabelled rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array, Index
from onefold.models import Autoencoder, AutoencoderClassifier
from onefold.transfer._documented import adapted
from onefold.transfer._mixture import Mixture, Projection, fit_mixture

__all__ = ["AutoencoderModel", "GaussianModel", "Learner", "Model"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianModel:
    """A Gaussian per class in the target's principal directions."""

    projection: Projection
    mixture: Mixture
    present: Index  # classes it knows

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """Logarithms of densities, (n, C)."""
        return spread_out(self.mixture.scores(self.projection(rows)), self.present, n_classes)


@dataclass(frozen=True)
class AutoencoderModel:
    """An autoencoder per class."""

    classifier: AutoencoderClassifier
    present: Index

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """Minus the squared distances, (n, C)."""
        squares = self.classifier.distances(rows).astype(np.float64) ** 2
        return spread_out(-squares, self.present, n_classes)


class Model(Protocol):
    """A fitted model of the target."""

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """How well each class explains each row, (n, C)."""


@dataclass(frozen=True)
class Learner:
    """How models of the target are made: Gaussians, or autoencoders with growing n (001 eq. 82-83)."""

    projection: Projection
    estimator: Autoencoder | None
    components: Sequence[int]

    def learn(self, rows: Array, codes: Index, beliefs: Floats, present: Index) -> Model:
        """A model that begins with ``beliefs`` (n, C), of which only the classes ``present`` count."""
        own = beliefs[:, present] + np.finfo(float).tiny
        own = own / own.sum(axis=1, keepdims=True)
        positions = np.where(codes >= 0, np.searchsorted(present, np.maximum(codes, 0)), -1)
        if self.estimator is None:
            mixture = fit_mixture(self.projection(rows), positions, own)
            return GaussianModel(self.projection, mixture, present)
        labels = np.where(positions >= 0, positions, own.argmax(axis=1))
        for n in self.components:
            classifier = AutoencoderClassifier(adapted(self.estimator, n_components=int(n)))
            classifier.fit(rows, labels)  # (82)
            labels = np.where(positions >= 0, positions, classifier.predict(rows))  # (83)
        return AutoencoderModel(classifier, present[classifier.classes_])


def spread_out(scores: Floats, present: Index, n_classes: int) -> Floats:
    """Scores of some classes among those of all; a class that is not there is as unlikely as the worst."""
    found = np.repeat(scores.min(axis=1, keepdims=True), n_classes, axis=1)
    found[:, present] = scores
    return found
