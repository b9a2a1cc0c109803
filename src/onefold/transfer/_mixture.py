"""One Gaussian per class, fitted to labelled and unlabelled rows together by expectation-maximisation."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array, Index
from onefold.transfer._description import covariance_of
from onefold.transfer._pooling import log_probabilities

__all__ = ["Mixture", "Projection", "fit_mixture", "project"]

Floats = NDArray[np.float64]
ROUNDS = 10
COMMON = 0.5  # share of the pooled covariance in that of each class
SMALLEST = 0.25  # least eigenvalue, in units of the mean one
SETTLED = 1e-3  # change of beliefs per row below which nothing is gained by going on
DOUBT = 1e-6  # beliefs below this do not count
MOST_DIRECTIONS = 64
ROWS_PER_DIRECTION = 20
FEWEST_DIRECTIONS = 20


@dataclass(frozen=True)
class Projection:
    """Rows in their leading principal directions."""

    mean: Floats
    axes: Floats  # (p, k)

    def __call__(self, rows: Array) -> Floats:
        """Coordinates, (n, k)."""
        return np.asarray((rows - self.mean) @ self.axes, dtype=np.float64)


def project(rows: Array) -> Projection:
    """As many directions as so many rows can bear."""
    mean = rows.mean(axis=0, dtype=np.float64)
    wanted = int(np.clip(len(rows) // ROWS_PER_DIRECTION, FEWEST_DIRECTIONS, MOST_DIRECTIONS))
    if rows.shape[1] <= wanted:
        return Projection(mean, np.eye(rows.shape[1]))
    if len(rows) < rows.shape[1]:
        centred = rows - mean
        left = np.linalg.eigh(centred @ centred.T)[1][:, ::-1][:, :wanted]
        axes = np.linalg.qr(centred.T @ left)[0]
    else:
        axes = np.linalg.eigh(covariance_of(rows))[1][:, ::-1][:, :wanted]
    return Projection(mean, np.asarray(axes, dtype=np.float64))


@dataclass(frozen=True)
class Mixture:
    """A Gaussian per class, classes equally likely."""

    means: Floats  # (C', k), of the classes that there are
    whitening: Floats
    offsets: Floats

    def scores(self, coordinates: Floats) -> Floats:
        """Logarithm of the density of each class, up to a constant, (n, C')."""
        found = np.empty((len(coordinates), len(self.means)))
        for code in range(len(self.means)):
            seen = (coordinates - self.means[code]) @ self.whitening[code]
            found[:, code] = self.offsets[code] - 0.5 * np.einsum("ij,ij->i", seen, seen)
        return found


def fit_mixture(coordinates: Floats, codes: Index, beliefs: Floats, rounds: int = ROUNDS) -> Mixture:
    """Gaussians that begin with ``beliefs``, the probabilities of each row's class, (n, C').

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
    """Means and covariances for given beliefs; covariances half pooled, since rows are few."""
    weights = beliefs + 1e-9  # a class that nobody believes in any more keeps a trace
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
