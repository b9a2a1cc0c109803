r"""A linear discriminant from class sums and ONE noisy second moment: numbers only, all post-processing.

Second moments of C classes cost :math:`C p^2/2` numbers, each with the noise of the release. Where that noise
is larger than what it hides, one moment of all records together and the class sums say more. This file holds
the public rule that decides between the two, and the discriminant of the second kind:

1. *Thinning.* Noise W of the law of the release makes two matrices of one, :math:`A_1 = A + W/2` and
   :math:`A_2 = A - 2W`, whose noises are independent: their covariance is
   :math:`\sigma^2 - \frac12 \cdot 2 \sigma^2 = 0`. Directions are chosen by the first and measured by the
   second, so what noise made look large is not believed twice.
2. *Spectrum.* Eigenvalues of :math:`A_1` are drawn together as best for additive Wigner noise, then towards
   their mean, which keeps the trace: a ridge that raises the trace would let the sizes of classes rule.
3. *Means* are shrunk along each eigenvector by how much of what is seen there is noise (empirical Bayes).
4. *Discriminant* in the span of the C means, with a covariance that the second matrix measures.

Much noise leaves the nearest of shrunken means; none leaves the linear discriminant of the records. Where the
noise is moderate nothing is gained by thinning: :func:`plain_discriminant` measures all directions with the
whole matrix.
"""

import math
from typing import NamedTuple

import numpy as np

from onefold._base.arrays import Floats
from onefold._base.fixed_point import denoised_spectrum

# A class's second moment is worth its noise up to this many of its mean eigenvalues.
MOST_CLASS_NOISE = 5.0
# What one second moment of all records may get of the budget that it and the class sums share.
POOLED_PARTS = (0.42, 0.105)
# Thinning must be independent of the noise of the release, and needs no secret. Its seed is public and fixed,
# so that a release makes the same classifier wherever it is loaded; no other code draws from this stream.
THINNING_SEED = 0x0DE201E7A1B
# How far a spectrum is drawn towards its mean, as a share of the radius of its noise.
FLATTENING = 0.4
# Eigenvalues inside the span of the means, in units of what is expected there: floors with and without noise.
NOISY_FLOOR, LEAST_FLOOR = 0.5, 0.1
# Noise on one moment, in its mean eigenvalues, up to which all directions are measured with the whole matrix,
# and the ridge there as a share of the noise: chosen on training rows of four datasets.
MODERATE_NOISE, PLAIN_RIDGE = 7.0, 0.2
# Between-class share of the trace that is credible.
LEAST_BETWEEN, MOST_BETWEEN = 0.001, 0.8


class LinearHead(NamedTuple):
    """Scores ``rows @ weights + offsets`` of embedded rows."""

    weights: Floats  # (p, C)
    offsets: Floats  # (C,)


class NoiseOfMoments(NamedTuple):
    """How large the noise of a release would be: see :func:`noise_of_moments`."""

    of_class: float
    of_pooled: float
    of_means: float


def noise_of_moments(
    size: float, n_features: int, n_classes: int, total: float, second: float
) -> NoiseOfMoments:
    r"""Compute the noise of both kinds of release before either is made, from public and released numbers.

    ``total`` and ``second`` are deviations of the noise that the whole budget would put on class sums and
    second moments. The eigenvalues of noise of deviation :math:`\sigma` fill :math:`\pm\sigma\sqrt{2p}`;
    n records of norm one have eigenvalues of :math:`n/p` on average. ``of_class`` and ``of_pooled`` are the
    quotients for a class (at a share of 0.7) and for all (0.4); ``of_means`` is the noise of a class mean.
    """
    records = max(size, 1.0)
    radius = n_features * math.sqrt(2.0 * n_features) * second / records
    return NoiseOfMoments(
        n_classes * radius / math.sqrt(0.7), radius / math.sqrt(0.4), n_classes * total / records
    )


def noise_drowns_classes(counts: Floats, mu: float, n_features: int, sensitivity: float = 1.0) -> bool:
    """Whether the noise on the second moment of a class is far larger than what it is added to."""
    second = sensitivity / mu
    expected = noise_of_moments(float(counts.sum()), n_features, len(counts), second, second)
    return expected.of_class > MOST_CLASS_NOISE


def pooled_part(noise: NoiseOfMoments) -> float:
    """Return the part of one second moment in what it and the class sums have together.

    A moment whose noise would drown it gets little, unless the sums are so exact that they need no more.
    """
    return POOLED_PARTS[0 if noise.of_means < 0.005 or noise.of_pooled < 4.0 else 1]


def denoised_discriminant(
    counts: Floats,
    sums: Floats,
    second: Floats,
    sum_noise: Floats,
    second_noise: float,
    *,
    unit_rows: bool = True,
) -> LinearHead:
    """Compute a linear discriminant from the counts and sums of classes and the second moment of all.

    ``unit_rows`` says that embedded records have norm one, so that the trace is known; else it is estimated
    from the noisy moment, whose trace is far less noisy than its eigenvalues.
    """
    n_classes, size = sums.shape
    sizes = np.maximum(counts, 1.0)
    total = float(sizes.sum())
    prior = sizes / total
    grand = sums.sum(axis=0) / total
    rank = min(n_classes - 1, size)
    if rank == 0:
        return LinearHead(np.zeros((size, n_classes)), np.log(prior))
    first, other = thinned(second, second_noise)
    level = second_noise * math.sqrt(1.25) / total
    trace = 1.0 if unit_rows else _trace(second / total, second_noise / total)
    values, vectors = np.linalg.eigh(first / total)
    spectrum = flattened(denoised_spectrum(values, level, trace), level, trace, total)
    means = sums / sizes[:, None] - grand
    taus = (sum_noise / sizes) ** 2
    shrunk = shrunken_means(means @ vectors, taus, spectrum, sizes, trace)
    shrunk -= prior @ shrunk
    directions = np.linalg.svd((shrunk / spectrum).T * np.sqrt(prior), full_matrices=False)[0][:, :rank]
    span = vectors @ directions
    inside = shrunk @ directions  # (C, rank)
    within = span.T @ other @ span / total - (inside.T * prior) @ inside
    expected = 2.0 * float(np.sum(spectrum[:, None] * directions**2)) / rank
    within = _trusted(within, expected, second_noise * math.sqrt(5.0 * 2.0 * rank) / total)
    solved = np.linalg.solve(within, inside.T)  # (rank, C)
    weights = span @ solved
    offsets = np.log(prior) - 0.5 * np.sum(inside.T * solved, axis=0) - grand @ weights
    return LinearHead(np.asarray(weights), np.asarray(offsets))


def plain_discriminant(
    counts: Floats, sums: Floats, second: Floats, sum_noise: Floats, second_noise: float
) -> LinearHead:
    """Compute a linear discriminant with the covariance inside classes, its spectrum denoised and raised."""
    size = sums.shape[1]
    sizes = np.maximum(counts, 1.0)
    total = float(sizes.sum())
    prior = sizes / total
    grand = sums.sum(axis=0) / total
    means = sums / sizes[:, None]
    means = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1.0) - grand
    # The noise of the means is in their outer products, too, and is taken back.
    noise = float(np.sum(prior * np.minimum((sum_noise / sizes) ** 2, 1.0 / size)))
    within = second / total - np.outer(grand, grand) - (means.T * prior) @ means + noise * np.eye(size)
    values, vectors = np.linalg.eigh(within)
    level = second_noise / total
    trace = max(float(values.sum()), level * math.sqrt(size), 1e-12)
    spectrum = denoised_spectrum(values, level, trace)
    ridge = PLAIN_RIDGE * level * math.sqrt(2.0 * size) + (0.01 + min(size / total, 1.0)) * trace / size
    weights = vectors @ ((vectors.T @ means.T) / (spectrum + ridge)[:, None])
    offsets = np.log(prior) - 0.5 * np.sum(means.T * weights, axis=0) - grand @ weights
    return LinearHead(np.asarray(weights), np.asarray(offsets))


def noise_is_moderate(counts: Floats, n_features: int, second_noise: float) -> bool:
    """Whether the noise on one second moment is a few times its mean eigenvalue at most."""
    total = float(np.maximum(counts, 1.0).sum())
    return n_features * math.sqrt(2.0 * n_features) * second_noise / total <= MODERATE_NOISE


def thinned(second: Floats, noise: float) -> tuple[Floats, Floats]:
    """Make two matrices of one whose noises are independent, with 1.25 and 5 times its variance."""
    if noise == 0.0:
        return second, second
    stream = np.random.Generator(np.random.Philox(THINNING_SEED))
    drawn = stream.standard_normal(second.shape)
    # (Z + Z') / 2 has variance 1 on the diagonal and 1/2 beside it, like the noise of a release.
    extra = (drawn + drawn.T) * (noise / 2.0)
    return second + extra / 2.0, second - 2.0 * extra


def flattened(spectrum: Floats, level: float, trace: float, total: float) -> Floats:
    """Draw eigenvalues towards their mean, the more the noisier and the fewer records; their sum stays."""
    size = len(spectrum)
    radius = level * math.sqrt(2.0 * size) * size / trace
    amount = FLATTENING * radius + min(size / total, 1.0)
    share = amount / (1.0 + amount)
    return (1.0 - share) * spectrum + share * trace / size


def shrunken_means(means: Floats, taus: Floats, spectrum: Floats, sizes: Floats, trace: float) -> Floats:
    """Shrink centred class means in the coordinates of the eigenvectors.

    The between-class share of the trace is estimated from the means themselves, less what noise (``taus``,
    variances per class) and finitely many records add; along an eigenvector classes are taken to differ in
    proportion to its eigenvalue.
    """
    n_classes, size = means.shape
    prior = sizes / sizes.sum()
    seen = float(prior @ np.sum(means**2, axis=1))
    noise = size * float(np.sum(prior * (1.0 - prior) * taus))
    share = float(
        np.clip((seen - noise) / trace - (n_classes - 1) / sizes.sum(), LEAST_BETWEEN, MOST_BETWEEN)
    )
    between = share * spectrum
    spread = taus[:, None] + (1.0 - share) * spectrum / sizes[:, None]
    return np.asarray(means * between / (between + spread))


def _trace(second: Floats, level: float) -> float:
    """Estimate the trace of a noisy moment of rows of norm one at most; never below its own noise."""
    noise = level * math.sqrt(len(second))
    return min(max(float(np.trace(second)), noise, 1e-12), 1.0)


def _trusted(within: Floats, expected: float, noise: float) -> Floats:
    """Mix a noisy covariance with a multiple of one, and keep its eigenvalues away from zero."""
    share = expected**2 / (expected**2 + noise**2)
    values, vectors = np.linalg.eigh(share * within + (1.0 - share) * expected * np.eye(len(within)))
    floor = min(NOISY_FLOOR * expected, max(noise, LEAST_FLOOR * expected))
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)
