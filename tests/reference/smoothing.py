"""The smoother of 000 Def. 13 / 004 Def. 6 and the documents' stopping rules, literally."""

import numpy as np

from reference.kahm import fit_shrunk, image, memberships


def smooth(Y: np.ndarray, n: int) -> np.ndarray:
    """000 eq. 81: every sample's image times the sum of its memberships."""
    machine = fit_shrunk(Y, n)
    return np.array([memberships(machine, y).sum() * image(machine, y) for y in Y])


def images(Y: np.ndarray, n: int) -> np.ndarray:
    machine = fit_shrunk(Y, n)
    return np.array([image(machine, y) for y in Y])


def modelling_error(Y: np.ndarray, n: int) -> float:
    """000 eq. 88."""
    return float(sum(np.linalg.norm(y - image) for y, image in zip(Y, images(Y, n), strict=True)))


def documented_fabrication(noisy: np.ndarray, raw: np.ndarray, n: int) -> tuple[np.ndarray, int]:
    """000 Def. 14: the images after the smallest number of steps with eq. 92, and that number."""
    allowed = modelling_error(raw, n)
    rows, steps = noisy, 0
    while modelling_error(rows, n) > allowed:
        rows, steps = smooth(rows, n), steps + 1
    return images(rows, n), steps


def documented_smoothing(noisy: np.ndarray, raw: np.ndarray, n: int) -> tuple[np.ndarray, int]:
    """004 eq. 144-145 with Frobenius norms."""
    rows, steps = smooth(noisy, n), 1
    while np.linalg.norm(smooth(rows, n) - raw) < np.linalg.norm(rows - raw):
        rows, steps = smooth(rows, n), steps + 1
    return rows, steps


def honest_fabrication(
    noisy: np.ndarray, n: int, variance: float, signs: np.ndarray, size: float
) -> tuple[np.ndarray, int]:
    """Images after the last step that removes a fifth of Stein's estimate of the error.

    The divergence is measured on a copy disturbed by ``size`` times ``signs``; all features are kept.
    """
    rows, disturbed, lowest, steps = noisy, noisy + size * signs, noisy.size * variance, 0
    while True:
        smoothed, beside = smooth(rows, n), smooth(disturbed, n)
        divergence = np.sum(signs * (beside - smoothed)) / size
        risk = np.sum((noisy - smoothed) ** 2) - noisy.size * variance + 2 * variance * divergence
        if risk > 0.8 * lowest:
            return images(rows, n), steps
        rows, disturbed, lowest, steps = smoothed, beside, risk, steps + 1
