"""A first classifier from a handful of labelled rows: least squares with a penalty, all folds at once.

Leaving a row out of least squares needs no second fit, so its scores on rows it has not seen are free: they
choose the penalty and the scale at which scores become probabilities.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array, Index
from onefold.transfer._pooling import log_loss

__all__ = ["Ridge", "fit_ridge"]

Floats = NDArray[np.float64]
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0)  # in units of the mean square of a centred row
SHARPNESS = (2.0, 4.0, 8.0, 16.0, 32.0)  # factors on the scores


@dataclass(frozen=True)
class Ridge:
    """Scores that are linear in the rows."""

    mean: Floats
    weights: Floats  # (p, C)
    offset: Floats
    held_out: Floats  # scores of the labelled rows, each without itself, (n, C)
    loss: float  # their log loss

    def scores(self, rows: Array) -> Floats:
        """Logarithms of probabilities, up to a constant of each row, (n, C)."""
        return np.asarray((rows - self.mean) @ self.weights + self.offset, dtype=np.float64)


def fit_ridge(rows: Array, codes: Index, n_classes: int) -> Ridge:
    """Least squares on the indicator of each class, with the penalty that serves left-out rows best."""
    mean = rows.mean(axis=0, dtype=np.float64)
    centred = rows.astype(np.float64) - mean
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
            trials.append((log_loss(sharpness * left, codes), sharpness, shrunk, left))
    loss, sharpness, shrunk, left = min(trials, key=lambda trial: trial[0])
    weights = centred.T @ (vectors @ (shrunk[:, None] * turned))
    return Ridge(mean, sharpness * weights, sharpness * offset, sharpness * left, loss)
