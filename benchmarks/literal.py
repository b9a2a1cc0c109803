"""One machine as the documents compute it, with whole-matrix operations: the harder opponent for speed.

The versions in ``tests/reference`` go entry by entry, which alone costs them a factor. This one forms the
p x p covariance and an explicit inverse in every fixed-point step, as written, but lets numpy do each step.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Machine:
    """One fitted machine: samples, encoding matrix, inverse covariance of encodings, (K + lambda I)^-1."""

    Y: np.ndarray
    P: np.ndarray
    theta_inverse: np.ndarray
    inverse: np.ndarray

    def folding(self, X: np.ndarray) -> np.ndarray:
        """Space folding measure, option 1 (004 eq. 102-104)."""
        n, Z, E = len(self.P), self.Y @ self.P.T, X @ self.P.T
        cross = E @ self.theta_inverse @ Z.T
        own = np.einsum("ij,jk,ik->i", E, self.theta_inverse, E)
        samples = np.einsum("ij,jk,ik->i", Z, self.theta_inverse, Z)
        h = np.exp(-(own[:, None] + samples[None, :] - 2 * cross) / (2 * n)) @ self.inverse
        images = (h / h.sum(axis=1, keepdims=True)) @ self.Y
        euclidean = 1 - np.exp(-np.linalg.norm(X - images, axis=1))
        lengths = np.linalg.norm(X, axis=1) * np.linalg.norm(images, axis=1)
        angle = np.arccos(np.clip(np.einsum("ij,ij->i", X, images) / lengths, -1, 1)) / np.pi
        return np.sqrt((euclidean**2 + angle**2) / 2)


def fit(Y: np.ndarray, n: int, tolerance: float = 1e-12) -> Machine:
    """000 eq. 33-44."""
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
            return Machine(Y, P, theta_inverse, inverse)
        e = following
