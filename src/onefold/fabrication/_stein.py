"""Smoothing stopped by Stein's unbiased estimate of the error.

Smoothing depends on distances between rows only: where there are more features than rows, it is done on the
rows' coordinates in a basis of the space they span.
"""

import math
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array
from onefold.fabrication._steps import MAXIMUM_STEPS, Fabrication, Step
from onefold.models.kahm import Smoothing

__all__ = ["honest"]

# Size of the disturbance that measures the divergence, in standard deviations of the noise.
DISTURBANCE = 0.01
# A step must leave no more than this part of the estimated error. Many more steps, each of which removes a
# little of it, go on drawing rows together, and with them the classes: on 60000 digits at epsilon 1 a hundred
# steps halve the error that one step leaves and cost a point of accuracy.
WORTHWHILE = 0.8


@dataclass(frozen=True)
class _Pair:
    """Rows and a slightly disturbed copy, both as coordinates in one orthonormal basis."""

    rows: Array  # (N, r)
    disturbed: Array  # (N, r)
    basis: Array | None = None  # (p, r); None: the features themselves

    def features(self, coordinates: Array) -> Array:
        """Coordinates in the space of the data."""
        if self.basis is None:
            return coordinates
        return np.asarray(coordinates @ self.basis.T, dtype=coordinates.dtype)

    def coordinates(self, features: Array) -> Array:
        """Rows of the space of the data in the basis, without what is outside it."""
        return features if self.basis is None else np.asarray(features @ self.basis)

    def spanned(self) -> "_Pair":
        """The same in a basis of no more dimensions than there are rows."""
        stacked = np.concatenate([self.rows, self.disturbed])
        n_rows, width = stacked.shape
        if width <= n_rows:
            return self
        basis, coordinates = np.linalg.qr(stacked.T.astype(np.float64))
        rows, disturbed = np.split(coordinates.T.astype(stacked.dtype), 2)
        return _Pair(rows, disturbed, basis)


class _Risk:
    """|Y - F|^2 - N p v + 2 v div F for results F given by their coordinates."""

    def __init__(self, noisy: Array, signs: Array, variance: float) -> None:
        self.noisy, self.signs, self.variance = noisy, signs, variance
        self.size = DISTURBANCE * math.sqrt(variance)
        self.constant = _product(noisy, noisy) - noisy.size * variance

    def seen_in(self, pair: _Pair) -> None:
        """From now on results are given in the basis of the pair."""
        self.noisy_inside, self.signs_inside = pair.coordinates(self.noisy), pair.coordinates(self.signs)

    def __call__(self, result: Array, beside: Array) -> float:
        divergence = _product(self.signs_inside, beside - result) / self.size
        misfit = _product(result, result) - 2.0 * _product(self.noisy_inside, result)
        return self.constant + misfit + 2.0 * self.variance * divergence


def honest(noisy: Array, step: Step, variance: float) -> Fabrication:
    """Stop where another step removes less than a fifth of Stein's unbiased estimate of the error.

    For a result F(Y) from rows with noise of known variance v on each of the N p entries, the expected
    squared error is estimated by |Y - F|^2 - N p v + 2 v div F. The divergence is measured by smoothing a
    second, slightly disturbed copy along: the smoothers depend on the rows themselves, and taking them as
    given would underestimate it and stop too early. Only noisy rows and public numbers enter: this is
    post-processing.
    """
    n_features = noisy.shape[1]
    risk, pair = _start(noisy, variance)
    lowest = noisy.size * variance  # of the noisy rows themselves
    near: Smoothing | None = None
    for n_steps in range(MAXIMUM_STEPS + 1):
        near = result = step(pair.rows, n_features=n_features, near=near)
        beside = step(pair.disturbed, n_features=n_features, near=near)
        found = risk(result.smoothed, beside.smoothed)
        if not found <= WORTHWHILE * lowest or n_steps == MAXIMUM_STEPS:
            break
        pair, lowest = _Pair(result.smoothed, beside.smoothed, pair.basis), found
    return Fabrication(pair.features(pair.rows), pair.features(result.images), n_steps)


def _start(noisy: Array, variance: float) -> tuple[_Risk, _Pair]:
    rng = np.random.default_rng(20230)  # the disturbance has nothing to do with the data and may be known
    signs = (rng.integers(0, 2, size=noisy.shape) * 2 - 1).astype(noisy.dtype)
    risk = _Risk(noisy, signs, variance)
    pair = _Pair(noisy, noisy + noisy.dtype.type(risk.size) * signs).spanned()
    risk.seen_in(pair)
    return risk, pair


def _product(a: Array, b: Array) -> float:
    return float(np.einsum("ij,ij->", a, b, dtype=np.float64))
