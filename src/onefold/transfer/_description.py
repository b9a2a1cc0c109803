"""Descriptions of a source, made of private rows or of private moments.

A description lives in the *source space*: the space of the source's rows, or of its encoded rows. It knows no
raw row, so that anything computed from it is post-processing.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from onefold._base.arrays import Array, Floats, Labels, sizes_of
from onefold._base.parallel import one_blas_thread
from onefold.exceptions import InvalidInputError
from onefold.models import AutoencoderClassifier
from onefold.models.ridge import QuadraticScores
from onefold.privacy import PrivateMoments

# Principal directions of a class that a moment description folds onto: as many as the autoencoders keep.
KEPT_DIRECTIONS = 20
SPREAD_DIRECTIONS = 128  # of the covariance inside a class that a source of rows keeps
# Values of rows that are worked on together.
BLOCK_VALUES = 4_000_000


@dataclass(frozen=True)
class RowDescription:
    """One autoencoder per class, fitted to private rows (001 Alg. 6), and the mean of each class."""

    classifier: AutoencoderClassifier
    means: Floats
    counts: Floats
    spread: Floats  # (r, q): its square is the covariance inside a class, but for ``rest``
    rest: float  # variance in every direction besides

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other, as those of a foreign file."""
        sizes = sizes_of(self, means="Cq", counts="C", spread="rq")
        fitting = (sizes["C"], sizes["q"]) == (len(self.classes), self.classifier.n_features_in_)
        if not fitting or self.counts.min() < 1.0 or self.rest < 0.0:
            raise InvalidInputError("the numbers are not those of a description")

    @property
    def classes(self) -> Labels:
        """Labels of the classes."""
        return np.asarray(self.classifier.classes_)

    def within(self, axes: Floats) -> Floats | None:
        """Return the covariance inside a class along axes; None where noise hides it."""
        if not (self.spread.any() or self.rest):
            return None
        seen = self.spread @ axes
        return np.asarray(seen.T @ seen + self.rest * axes.T @ axes)

    def place(self, rows: Array) -> Array:
        """Leave rows as they are."""
        return rows

    def scores(self, rows: Array) -> Floats:
        """Return minus the squared distances."""
        return -(self.classifier.distances(rows).astype(np.float64) ** 2)

    def image(self, rows: Array, code: int) -> Array:
        """Return placed rows as the autoencoder of one class gives them back (001 eq. 69)."""
        return np.asarray(self._machines[code].transform(rows))

    @cached_property
    def _machines(self) -> list[Any]:
        return self.classifier.machines_


@dataclass(frozen=True)
class MomentDescription:
    """One Gaussian per class, with the repaired moments of a release for whole records."""

    moments: PrivateMoments

    @property
    def classes(self) -> Labels:
        """Labels of the classes."""
        return np.asarray(self.moments.classes_)

    @property
    def means(self) -> Floats:
        """Mean of each class."""
        return self.moments.means_

    @property
    def counts(self) -> Floats:
        """Noisy sizes, at least one."""
        return np.maximum(self.moments.counts_, 1.0)

    @cached_property
    def covariances(self) -> Floats:
        """Repaired covariance of each class, (C, q, q); of a table one for all, as its classifier has."""
        if self.moments.guarantee_.schema is not None:
            return self.moments.covariances(1.0)
        return self.moments.covariances_

    def within(self, axes: Floats) -> Floats | None:
        """Return the covariance inside a class along axes."""
        together = np.tensordot(self.counts / self.counts.sum(), self.covariances, axes=1)
        return np.asarray(axes.T @ together @ axes)

    def place(self, rows: Array) -> Array:
        """Clip rows and see them from the release's centre."""
        return self.moments.embed(rows)

    def scores(self, rows: Array) -> Floats:
        """Return the logarithm of density times size, up to a constant."""
        return self._gaussians.of(rows)

    @one_blas_thread()
    def image(self, rows: Array, code: int) -> Array:
        """Project onto the class's mean and leading principal directions: a linear autoencoder."""
        axes, mean = self._axes[code], self.means[code]
        return np.asarray(mean + ((rows - mean) @ axes) @ axes.T)

    @cached_property
    @one_blas_thread()
    def _gaussians(self) -> QuadraticScores:
        return QuadraticScores.of_gaussians(self.means, self.covariances, np.log(self.counts))

    @cached_property
    @one_blas_thread()
    def _axes(self) -> Floats:
        kept = min(KEPT_DIRECTIONS, max(1, self.covariances.shape[1] // 2))
        return np.asarray(np.linalg.eigh(self.covariances)[1][:, :, -kept:])


Description = RowDescription | MomentDescription


def covariance_of(rows: Array) -> Floats:
    """Compute the sample covariance, (q, q), in blocks so that single precision is not doubled in memory."""
    mean = rows.mean(axis=0, dtype=np.float64)
    total = np.zeros((rows.shape[1], rows.shape[1]))
    step = max(1, BLOCK_VALUES // rows.shape[1])
    for start in range(0, len(rows), step):
        centred = rows[start : start + step] - mean
        total += centred.T @ centred
    return np.asarray(total / len(rows))


@one_blas_thread()
def spread_within(covariance: Floats, noise: float) -> tuple[Floats, float]:
    """Return a factor and a rest of the covariance inside a class, without the variance of known noise.

    At most ``SPREAD_DIRECTIONS`` directions are kept, the rest is the same in all directions. Both are zero
    where the noise is more than the data: then nothing useful is left.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = values[::-1] - noise
    values = np.maximum(values, 0.0) if float(values.mean()) >= noise else np.zeros(len(values))
    kept = vectors[:, ::-1][:, :SPREAD_DIRECTIONS]
    rest = float(values[SPREAD_DIRECTIONS:].mean()) if len(values) > SPREAD_DIRECTIONS else 0.0
    factors = np.sqrt(np.maximum(values[:SPREAD_DIRECTIONS] - rest, 0.0))
    return np.asarray(factors[:, None] * kept.T), rest


@one_blas_thread()
def leading_directions(covariance: Floats, count: int) -> Floats:
    """Return leading eigenvectors as rows (001 Sec. 4.2), the largest entry of each positive."""
    vectors = np.linalg.eigh(covariance)[1][:, ::-1][:, :count].T
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
    return np.asarray(vectors * np.where(largest < 0.0, -1.0, 1.0))
