r"""Means and covariances out of noisy moments: post-processing that knows only them and the noise levels.

The noise on a second-moment matrix of size d is :math:`\sigma` times a symmetric matrix with variance 1 on
the diagonal and 1/2 beside it. Its squared Frobenius norm is :math:`\sigma^2 d (d + 1) / 2` on average, and
its eigenvalues fill the interval :math:`\pm \sigma \sqrt{2 d}` (Wigner's semicircle). Both numbers are
public.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["covariances", "means", "pooled"]

Floats = NDArray[np.float64]


def means(counts: Floats, totals: Floats) -> Floats:
    """Mean of each class, in the unit ball where the records are; a class has one record at least."""
    found = totals / np.maximum(counts, 1.0)[:, None]
    return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1.0))


def raw_covariances(counts: Floats, totals: Floats, seconds: Floats, total_noise: Floats) -> Floats:
    """Second moments about the class means; symmetric, not yet definite."""
    safe = np.maximum(counts, 1.0)
    centres = means(counts, totals)
    # The noise of a mean adds its variance to the outer product of the mean with itself: taken back.
    excess = (total_noise / safe) ** 2
    covariance = seconds / safe[:, None, None] - centres[:, :, None] * centres[:, None, :]
    return np.asarray(covariance + excess[:, None, None] * np.eye(totals.shape[1]))


def pooled(covariance: Floats, counts: Floats) -> Floats:
    """Average of the classes' covariances, by their sizes."""
    weights = np.maximum(counts, 1.0)
    return np.asarray(np.tensordot(weights / weights.sum(), covariance, axes=1))


def covariances(
    raw: Floats, counts: Floats, second_noise: Floats, shrinkage: float | None, floor: float, least: float
) -> Floats:
    """Each class shrunk towards the pooled covariance, its eigenvalues raised to ``floor`` noise levels.

    Nor stay they below the share ``least`` of the mean pooled one: such variances are not believed anyway.


    ``shrinkage=None`` takes for each class the share of its squared distance from the pooled covariance that
    the noise explains (the estimate of James and Stein with a known noise level).
    """
    safe, size = np.maximum(counts, 1.0), raw.shape[1]
    centre = pooled(raw, counts)
    levels = second_noise / safe  # of the noise on each class's covariance
    weights = safe / safe.sum()
    repaired = np.empty_like(raw)
    smallest = max(least * float(np.trace(centre)) / size, np.finfo(float).tiny ** 0.5)
    for code in range(len(raw)):
        share = _noise_share(raw[code] - centre, levels[code]) if shrinkage is None else shrinkage
        mixture = share * weights
        mixture[code] += 1.0 - share  # how much of each class's covariance goes into this one
        level = float(np.sqrt(np.sum((mixture * levels) ** 2)))
        matrix = (1.0 - share) * raw[code] + share * centre
        repaired[code] = _raised(matrix, max(floor * level * np.sqrt(2.0 * size), smallest))
    return repaired


def _noise_share(difference: Floats, level: float) -> float:
    size = len(difference)
    explained, found = level**2 * size * (size + 1) / 2.0, float(np.sum(difference**2))
    return min(1.0, explained / found) if found > 0.0 else 1.0


def _raised(matrix: Floats, smallest: float) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    raised = (vectors * np.maximum(values, smallest)) @ vectors.T
    return np.asarray((raised + raised.T) / 2.0)
