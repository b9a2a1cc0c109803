"""Class means between source and target: empirical Bayes.

The source says where classes should be, labelled rows of the target where they seem to be. How far the two
domains are apart is estimated from the labelled rows in closed form, and says how much each side counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Floats, Index
from onefold.transfer._learners import Mixture
from onefold.transfer._pool import log_probabilities

CLOSEST = 0.02  # least squared distance of the domains, in units of a row's variance
LABELLED_ROUNDS, LABELLED_PRIOR = 2, 10.0  # rounds, and rows the source's covariance counts as, per direction
REFINED_ROUNDS, REFINED_PRIOR = 8, 2.0  # the same where unlabelled rows count


@dataclass(frozen=True)
class Prior:
    """What a source says about a target, in the target's coordinates."""

    means: Floats  # (C, k)
    within: Floats  # (k, k), covariance inside a class
    shift: Floats  # (k,), mean of the target's rows minus mean of the source's: known without labels


@dataclass(frozen=True)
class Distance:
    """How far the classes of the target are from where the source has them."""

    means: Floats  # (C, k), of the source, moved by the shift if that explains labelled rows better
    squared: float  # in each direction, in units of the variance inside a class
    is_moved: bool = False


def measure(prior: Prior, means: Floats, counts: Floats, whitening: Floats) -> Distance:
    """Estimate the distance of the domains from class means of ``counts`` labelled rows each.

    In whitened coordinates a mean of n rows is normal around the true one with variance 1/n, and the true one
    around the source's with variance t: the mean square of their difference, over k directions, minus 1/n
    estimates t. The evidence, the density of the labelled means under both, decides about the shift.
    """
    seen, size = counts > 0, means.shape[1]
    found = []
    for is_moved, moved in ((False, prior.means), (True, prior.means + prior.shift)):
        squares = (((means - moved)[seen] @ whitening) ** 2).sum(axis=1)
        t = max(CLOSEST, float(np.average(squares / size - 1.0 / counts[seen], weights=counts[seen])))
        spread = t + 1.0 / counts[seen]
        evidence = -0.5 * float(np.sum(size * np.log(spread) + squares / spread))
        found.append((evidence, Distance(moved, t, is_moved)))
    return max(found, key=lambda pair: pair[0])[1]


def combined(priors: Sequence[Prior], coordinates: Floats, codes: Index) -> Prior:
    """Combine what several sources say, each counted by how near it is to the labelled rows.

    Given its squared distance t, a source's mean is normal around the true one with variance t, so that 1/t
    is its weight. How far the combination is from the target is measured anew by :func:`fit_shrunk`: sources
    may all err in the same direction, and then many are no better than one.
    """
    if len(priors) == 1:
        return priors[0]
    known = codes >= 0
    certain = np.eye(len(priors[0].means))[codes[known]]
    counts = certain.sum(axis=0)
    labelled = certain.T @ coordinates[known] / np.maximum(counts, 1.0)[:, None]
    # One covariance for all, or the distances would be in different units.
    whitening = _whitening(np.mean([prior.within for prior in priors], axis=0))
    found = [measure(prior, labelled, counts, whitening) for prior in priors]
    weights = np.array([1.0 / distance.squared for distance in found])
    weights /= weights.sum()
    shifts = [
        np.zeros_like(prior.shift) if distance.is_moved else prior.shift
        for prior, distance in zip(priors, found, strict=True)
    ]
    return Prior(
        np.tensordot(weights, [distance.means for distance in found], axes=1),
        np.tensordot(weights, [prior.within for prior in priors], axes=1),
        weights @ np.array(shifts),
    )


def fit_shrunk(coordinates: Floats, codes: Index, prior: Prior, *, refine: bool) -> Mixture:
    """Fit a Gaussian per class with one covariance; ``codes`` are -1 where a row has no label.

    Means are weighed means of the rows and of the source (James and Stein), the covariance that of the rows
    and ``prior.within``. With ``refine`` unlabelled rows count too, as far as each class is believed.
    """
    rounds, strength = (REFINED_ROUNDS, REFINED_PRIOR) if refine else (LABELLED_ROUNDS, LABELLED_PRIOR)
    n_classes, size = prior.means.shape
    known = codes >= 0
    certain = np.eye(n_classes)[codes[known]]
    counts = certain.sum(axis=0)
    labelled = certain.T @ coordinates[known] / np.maximum(counts, 1.0)[:, None]
    beliefs = np.zeros((len(codes), n_classes))
    beliefs[known] = certain
    covariance, rows_of_source = prior.within, strength * size
    for last in [False] * (rounds - 1) + [True]:
        distance = measure(prior, labelled, counts, _whitening(covariance))
        total, sums = beliefs.sum(axis=0)[:, None], beliefs.T @ coordinates
        means = (sums + distance.means / distance.squared) / (total + 1.0 / distance.squared)
        # Scatter around these means, which are not those of the rows.
        crossed = sums.T @ means
        scatter = (coordinates * beliefs.sum(axis=1)[:, None]).T @ coordinates
        scatter += (means * total).T @ means - crossed - crossed.T
        covariance = (scatter + rows_of_source * prior.within) / (total.sum() + rows_of_source)
        fitted = _shared(means, covariance)
        if refine and not last:
            beliefs = np.exp(log_probabilities(fitted.scores(coordinates)))
            beliefs[known] = certain
    return fitted


def _shared(means: Floats, covariance: Floats) -> Mixture:
    """Return Gaussians of one covariance; what its determinant adds is the same for every class."""
    whitening = np.repeat(_whitening(covariance)[None], len(means), axis=0)
    return Mixture(means, whitening, np.zeros(len(means)))


def _whitening(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    least = max(1e-12 * float(values[-1]), np.finfo(float).tiny ** 0.5)
    return np.asarray(vectors / np.sqrt(np.maximum(values, least)))
