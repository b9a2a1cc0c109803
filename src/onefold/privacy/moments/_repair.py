r"""Means and covariances from noisy moments: post-processing that uses only them and the noise levels.

The noise on a second-moment matrix of size d is :math:`\sigma` times a symmetric matrix with variance 1 on
the diagonal and 1/2 beside it. Its squared Frobenius norm is :math:`\sigma^2 d (d + 1) / 2` on average, and
its eigenvalues fill the interval :math:`\pm \sigma \sqrt{2 d}` (Wigner's semicircle). Both numbers are
public.
"""

import numpy as np

from onefold._base.arrays import Floats
from onefold._base.parallel import one_blas_thread, run_parallel

__all__ = ["covariances", "means", "noise_shares", "pooled", "raw_covariances"]


def means(counts: Floats, totals: Floats) -> Floats:
    """Estimate the mean of each class, in the unit ball; a class has at least one record."""
    found = totals / np.maximum(counts, 1.0)[:, None]
    return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1.0))


def raw_covariances(counts: Floats, totals: Floats, seconds: Floats, total_noise: Floats) -> Floats:
    """Estimate second moments about the class means; symmetric, not yet positive definite."""
    safe = np.maximum(counts, 1.0)
    centres = means(counts, totals)
    # The noise of a mean adds its variance to the outer product of the mean with itself: taken back.
    excess = (total_noise / safe) ** 2
    covariance = seconds / safe[:, None, None] - centres[:, :, None] * centres[:, None, :]
    return np.asarray(covariance + excess[:, None, None] * np.eye(totals.shape[1]))


def pooled(covariance: Floats, counts: Floats) -> Floats:
    """Average the covariances of the classes, weighted by their sizes."""
    weights = np.maximum(counts, 1.0)
    return np.asarray(np.tensordot(weights / weights.sum(), covariance, axes=1))


@one_blas_thread()  # a loaded release has the bits of the saved one, whatever the number of threads
def covariances(
    raw: Floats, counts: Floats, second_noise: Floats, shrinkage: float | None, floor: float, least: float
) -> Floats:
    """Shrink each class towards the pooled covariance, and raise its eigenvalues to ``floor`` noise levels.

    Eigenvalues are also raised to the share ``least`` of the mean pooled one: smaller variances are not
    credible. ``shrinkage=None`` takes what :func:`noise_shares` finds.
    """
    safe, size = np.maximum(counts, 1.0), raw.shape[1]
    centre = pooled(raw, counts)
    levels = second_noise / safe  # of the noise on each class's covariance
    weights = safe / safe.sum()
    repaired = np.empty_like(raw)
    smallest = max(least * float(np.trace(centre)) / size, np.finfo(float).tiny ** 0.5)
    shares = noise_shares(raw, counts, levels) if shrinkage is None else np.full(len(raw), shrinkage)

    def repair(code: int) -> None:
        share = shares[code]
        mixture = share * weights
        mixture[code] += 1.0 - share  # how much of each class's covariance goes into this one
        level = float(np.sqrt(np.sum((mixture * levels) ** 2)))
        matrix = (1.0 - share) * raw[code] + share * centre
        repaired[code] = _raised(matrix, max(floor * level * np.sqrt(2.0 * size), smallest))

    run_parallel(repair, range(len(raw)))
    return repaired


def noise_shares(raw: Floats, counts: Floats, levels: Floats) -> Floats:
    r"""Compute how far the covariance of each class is shrunk towards the pooled one, from the noise levels.

    Expected squared distances are compared: :math:`e_c`, what the noise of the release and the finite number
    of records would make of equal covariances, and what is found. Their difference, averaged over the
    classes, estimates how different classes really are, :math:`t`. One estimate serves all, since classes
    that are shrunk differently keep different amounts of noise, and log-determinants and inverses turn that
    into a preference for some of them. James and Stein's share :math:`s = e_c / (e_c + t)` is best for the
    covariance itself. Its inverse, which classifies, suffers more from noise than from pooling where the two
    are of a size: :math:`s + s^2 (1 - s)` is taken.
    """
    safe, size = np.maximum(counts, 1.0), raw.shape[1]
    weights, centre = safe / safe.sum(), pooled(raw, counts)
    # Of an average over classes each has its own part: (1 - w_c)^2 of its own variance, w^2 of the others'.
    variances = levels**2 * size * (size + 1) / 2.0 + max(float(np.trace(centre)), 0.0) ** 2 / safe
    explained = (1.0 - 2.0 * weights) * variances + np.sum(weights**2 * variances)
    found = np.sum((raw - centre) ** 2, axis=(1, 2))
    real = max(0.0, float(np.sum(weights * (found - explained))))
    if real == 0.0:
        return np.ones(len(raw))
    share = np.maximum(explained, 0.0) / (np.maximum(explained, 0.0) + real)
    return np.asarray(share + share**2 * (1.0 - share))


def _raised(matrix: Floats, smallest: float) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    raised = (vectors * np.maximum(values, smallest)) @ vectors.T
    return np.asarray((raised + raised.T) / 2.0)
