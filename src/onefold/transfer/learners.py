"""Models of the target that learn from a handful of labelled rows and many rows without a label.

Least squares gives first beliefs about every row; Gaussians or autoencoders refine them on unlabelled rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone

from onefold._base.arrays import Array, Floats, Index, sizes_of
from onefold.exceptions import InvalidInputError
from onefold.models import Autoencoder, AutoencoderClassifier
from onefold.transfer._description import covariance_of

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0)  # in units of the mean square of a centred row
SHARPNESS = (2.0, 4.0, 8.0, 16.0, 32.0)  # factors on the scores
ROUNDS = 10
COMMON = 0.5  # share of the pooled covariance in that of each class
SMALLEST = 0.25  # least eigenvalue, in units of the mean one
SETTLED = 1e-3  # change of beliefs per row below which nothing is gained by going on
DOUBT = 1e-6  # beliefs below this do not count
MOST_DIRECTIONS = 64
ROWS_PER_DIRECTION = 20
FEWEST_DIRECTIONS = 20
OTHER_UNITS = 10.0  # a column that varies so many times as much as the median one has another unit
CONSTANT = 1e-12  # spread, in units of the largest, of a column that does not vary


# --- scores of classes ------------------------------------------------------------------------------------


def log_probabilities(scores: Floats) -> Floats:
    """Turn scores into logarithms of probabilities that add up to one."""
    return np.asarray(log_softmax(scores, axis=1))


def log_loss(scores: Floats, codes: Index) -> float:
    """Average minus the logarithm of the probability given to the right class."""
    return float(-log_probabilities(scores)[np.arange(len(codes)), codes].mean())


def check_present(present: Index, n_classes: int) -> None:
    """Refuse what are no ascending positions among the classes."""
    fitting = present.ndim == 1 and len(present) and present[0] >= 0 and present[-1] < n_classes
    if not fitting or (np.diff(present) <= 0).any():
        raise InvalidInputError("the classes of a model are not those of its classifier")


# --- units of columns -------------------------------------------------------------------------------------


def units_of(rows: Array) -> Floats:
    """Return what columns are divided by: their spread if they are measured in different units, else one.

    Penalties and principal directions mean something only where columns are comparable. Pixels, embeddings
    and encoded tables are, and are left as they are: no column varies much more than the median one.
    """
    spread = rows.std(axis=0, dtype=np.float64)
    varies = spread > CONSTANT * max(float(spread.max()), np.finfo(float).tiny ** 0.5)
    if not varies.any() or spread.max() <= OTHER_UNITS * np.median(spread[varies]):
        return np.ones(rows.shape[1])
    return np.where(varies, spread, 1.0)


# --- first beliefs: least squares -------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearModel:
    """Least squares with a penalty: scores that are linear in the rows."""

    mean: Floats
    weights: Floats  # (p, C)
    offset: Floats
    present: Index  # classes it knows
    loss: float = 0.0  # log loss of the labelled rows, each scored without itself

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other, as those of a foreign file."""
        check_present(self.present, sizes_of(self, mean="p", weights="pC", offset="C")["C"])

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """Return logarithms of probabilities, up to a constant of each row, (n, C)."""
        found = np.asarray((rows - self.mean) @ self.weights + self.offset, dtype=np.float64)
        return spread_out(found[:, self.present], self.present, n_classes)


def fit_least_squares(rows: Array, codes: Index, n_classes: int, units: Floats | float = 1.0) -> LinearModel:
    """Fit the indicator of each class, with the penalty that serves left-out rows best.

    Leaving a row out of least squares needs no second fit, so its scores on rows it has not seen are free:
    they choose the penalty and the scale at which scores become probabilities. Columns count in ``units``.
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    centred = (rows.astype(np.float64) - mean) / units
    wanted = np.eye(n_classes)[codes]
    offset = wanted.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    unit = max(float(values.mean()), np.finfo(float).tiny ** 0.5)
    turned = vectors.T @ (wanted - offset)
    trials = []
    for penalty in PENALTIES:
        shrunk = 1.0 / (np.maximum(values, 0.0) + penalty * unit)
        influence = np.maximum(values, 0.0) * shrunk
        fitted = vectors @ (influence[:, None] * turned)
        own = np.minimum(np.einsum("ij,j,ij->i", vectors, influence, vectors) + 1.0 / len(rows), 0.999)
        # What the fit without row i gives for row i: the residual grows by 1 / (1 - its own influence).
        left = wanted - (wanted - offset - fitted) / (1.0 - own)[:, None]
        for sharpness in SHARPNESS:
            trials.append((log_loss(sharpness * left, codes), sharpness, shrunk))
    loss, sharpness, shrunk = min(trials, key=lambda trial: trial[0])
    weights = (centred / units).T @ (vectors @ (shrunk[:, None] * turned))
    return LinearModel(mean, sharpness * weights, sharpness * offset, np.unique(codes), loss)


# --- one Gaussian per class -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Projection:
    """Rows in their leading principal directions."""

    mean: Floats
    axes: Floats  # (p, k)

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other, as those of a foreign file."""
        sizes_of(self, mean="p", axes="pk")

    def __call__(self, rows: Array) -> Floats:
        """Return coordinates, (n, k)."""
        return np.asarray((rows - self.mean) @ self.axes, dtype=np.float64)


def project(rows: Array) -> Projection:
    """Find as many principal directions as so many rows can bear; columns count in their units."""
    mean, units = rows.mean(axis=0, dtype=np.float64), units_of(rows)
    wanted = int(np.clip(len(rows) // ROWS_PER_DIRECTION, FEWEST_DIRECTIONS, MOST_DIRECTIONS))
    if rows.shape[1] <= wanted:
        return Projection(mean, np.diag(1.0 / units))
    if len(rows) < rows.shape[1]:
        centred = (rows - mean) / units
        left = np.linalg.eigh(centred @ centred.T)[1][:, ::-1][:, :wanted]
        axes = np.linalg.qr(centred.T @ left)[0]
    else:
        covariance = covariance_of(rows) / np.outer(units, units)
        axes = np.linalg.eigh(covariance)[1][:, ::-1][:, :wanted]
    return Projection(mean, np.asarray(axes / units[:, None], dtype=np.float64))


@dataclass(frozen=True)
class Mixture:
    """A Gaussian per class, classes equally likely."""

    means: Floats  # (C', k), of the classes that there are
    whitening: Floats
    offsets: Floats

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other, as those of a foreign file."""
        sizes_of(self, means="Ck", whitening="Ckk", offsets="C")

    def scores(self, coordinates: Floats) -> Floats:
        """Return the logarithm of the density of each class, up to a constant, (n, C')."""
        found = np.empty((len(coordinates), len(self.means)))
        for code in range(len(self.means)):
            seen = (coordinates - self.means[code]) @ self.whitening[code]
            found[:, code] = self.offsets[code] - 0.5 * np.einsum("ij,ij->i", seen, seen)
        return found


def fit_mixture(coordinates: Floats, codes: Index, beliefs: Floats, rounds: int = ROUNDS) -> Mixture:
    """Fit Gaussians by expectation-maximisation, beginning with ``beliefs``, class probabilities (n, C').

    Rows with a label (``codes`` of at least 0) keep it.
    """
    fixed, certain = (codes >= 0)[:, None], np.eye(beliefs.shape[1])[np.maximum(codes, 0)]
    current = np.where(fixed, certain, beliefs)
    for _ in range(rounds):
        mixture = _maximise(coordinates, current)
        before = current
        current = np.where(fixed, certain, np.exp(log_probabilities(mixture.scores(coordinates))))
        if np.abs(current - before).sum() < SETTLED * len(codes):
            break
    return _maximise(coordinates, current)


def _maximise(coordinates: Floats, beliefs: Floats) -> Mixture:
    """Compute means and covariances for given beliefs; covariances half pooled, since rows are few."""
    weights = beliefs + 1e-9  # a class without any belief keeps a trace
    sizes = weights.sum(axis=0)
    means = weights.T @ coordinates / sizes[:, None]
    size = coordinates.shape[1]
    scatter = np.empty((len(sizes), size, size))
    for code in range(len(sizes)):
        mine = weights[:, code] > DOUBT  # beliefs are nearly certain: most rows have no part in a class
        centred = coordinates[mine] - means[code]
        scatter[code] = (centred * weights[mine, code][:, None]).T @ centred
    together = scatter.sum(axis=0) / sizes.sum()
    least = max(SMALLEST * float(np.trace(together)) / size, np.finfo(float).tiny ** 0.5)
    values, vectors = np.linalg.eigh((1.0 - COMMON) * scatter / sizes[:, None, None] + COMMON * together)
    values = np.maximum(values, least)
    return Mixture(means, vectors / np.sqrt(values)[:, None, :], -0.5 * np.log(values).sum(axis=1))


# --- models of the target ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class GaussianModel:
    """A Gaussian per class in the target's principal directions."""

    projection: Projection
    mixture: Mixture
    present: Index  # classes it knows

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other, as those of a foreign file."""
        if self.mixture.means.shape != (len(self.present), self.projection.axes.shape[1]):
            raise InvalidInputError("the parts of a model do not fit each other")

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """Return logarithms of densities, (n, C)."""
        return spread_out(self.mixture.scores(self.projection(rows)), self.present, n_classes)


@dataclass(frozen=True)
class AutoencoderModel:
    """An autoencoder per class."""

    classifier: AutoencoderClassifier
    present: Index

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other, as those of a foreign file."""
        if len(self.classifier.classes_) != len(self.present):
            raise InvalidInputError("the parts of a model do not fit each other")

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """Return minus the squared distances, (n, C)."""
        squares = self.classifier.distances(rows).astype(np.float64) ** 2
        return spread_out(-squares, self.present, n_classes)


@dataclass(frozen=True)
class Learner:
    """Makes models of the target: Gaussians, or autoencoders with growing n (001 eq. 82-83)."""

    projection: Projection
    estimator: Autoencoder | None
    components: Sequence[int]

    def learn(
        self, rows: Array, codes: Index, beliefs: Floats, present: Index
    ) -> GaussianModel | AutoencoderModel:
        """Fit a model that begins with ``beliefs`` (n, C), of which only the classes ``present`` count."""
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


def spread_out(
    scores: Floats, present: Index, n_classes: int, others: Callable[..., Floats] = np.min
) -> Floats:
    """Spread scores of some classes over all; one that is not there is as unlikely as the worst of them."""
    found = np.repeat(others(scores, axis=1, keepdims=True), n_classes, axis=1)
    found[:, present] = scores
    return found


def adapted(prototype: Autoencoder, **parameters: Any) -> Autoencoder:
    """Copy an autoencoder with other parameters; those that its kind does not have are left out."""
    copy = clone(prototype)
    known = copy.get_params(deep=False)
    return cast(
        Autoencoder, copy.set_params(**{name: value for name, value in parameters.items() if name in known})
    )
