"""Triangular factor of diag(ridge) + G' diag(weights) G."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, qr

__all__ = ["upper_factor"]

Floats = NDArray[np.float64]


def upper_factor(G: Floats, weights: Floats | float, ridge: Floats) -> Floats:
    """Upper triangular R with R'R equal to the matrix.

    Cholesky is four times faster; where the weights span so many powers of ten that forming the matrix loses
    its positive definiteness, an orthogonal factorisation of the square root does not.
    """
    scaled = np.sqrt(np.asarray(weights))[..., np.newaxis] * G
    system = scaled.T @ scaled  # a matrix times itself: numpy computes one half only
    system[np.diag_indices(len(system))] += ridge
    try:
        return np.asarray(cholesky(system, check_finite=False))
    except LinAlgError:
        root = np.vstack([scaled, np.diag(np.sqrt(ridge))])
        R = np.asarray(qr(root, mode="r", check_finite=False)[0][: len(system)])
        smallest = np.finfo(float).eps * np.abs(np.diag(R)).max() * 1e-3
        R[np.diag_indices(len(R))] += smallest * (np.abs(np.diag(R)) < smallest)  # exactly singular
        return R
