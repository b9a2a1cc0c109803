"""One machine as the documents compute it, with whole-matrix operations: the fair opponent for speed.

The versions in ``tests/reference`` go entry by entry and would make any ratio look good. This one forms the
p x p covariance and an explicit inverse in every fixed-point step, as written, but lets numpy do each step.
"""

import numpy as np


def fit(Y: np.ndarray, n: int, tolerance: float = 1e-12) -> tuple[np.ndarray, np.ndarray, float]:
    """Encoding matrix P, inverse of K + lambda I, and lambda (000 eq. 33-44)."""
    N, p = Y.shape
    values, vectors = np.linalg.eigh(np.cov(Y.T))
    P = vectors[:, np.argsort(values)[::-1][:n]].T
    Z = Y @ P.T
    theta_inverse = np.linalg.inv(np.cov(Z.T))
    inner = Z @ theta_inverse @ Z.T
    squares = np.diag(inner)
    K = np.exp(-(squares[:, None] + squares[None, :] - 2 * inner) / (2 * n))
    mean_square = np.sum(Y**2) / (p * N)
    e = 0.5 * mean_square
    while True:
        inverse = np.linalg.inv(K + (e + 2 * mean_square) * np.eye(N))
        following = np.sum((Y - K @ inverse @ Y) ** 2) / (p * N)
        if abs(following - e) <= tolerance * following:
            return P, inverse, e + 2 * mean_square
        e = following
