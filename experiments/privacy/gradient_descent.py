"""A linear softmax classifier trained by full-batch gradient descent with record-level privacy.

The opponent of one-shot moments: every step looks at all records and pays for it. A record's gradient is
clipped to norm c, so the sum of gradients changes by at most c when a record is added or removed; Gaussian
noise of standard deviation c sqrt(T) / mu on each of T sums makes the whole run mu-Gaussian private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onefold.privacy.calibration import mu_of

Floats = NDArray[np.float64]


@dataclass
class PrivateGradientDescent:
    """Weights found in ``n_steps`` noisy steps with momentum; the average over the second half is used."""

    epsilon: float | None
    delta: float = 1e-5
    n_steps: int = 60
    rate: float = 8.0
    clip: float = 0.2
    momentum: float = 0.9
    seed: int | None = None

    def fit(self, X: Floats, y: NDArray[np.intp], n_classes: int) -> PrivateGradientDescent:
        """The rows are in the unit ball; their number is taken as known for the step size only."""
        rng = np.random.default_rng(self.seed)
        rows = _with_constant(X)
        weights = np.zeros((rows.shape[1], n_classes))
        velocity, average = np.zeros_like(weights), np.zeros_like(weights)
        sigma = (
            0.0
            if self.epsilon is None
            else self.clip * math.sqrt(self.n_steps) / mu_of(self.epsilon, self.delta)
        )
        for step in range(self.n_steps):
            gradient = clipped_gradient(rows, y, weights, self.clip) + rng.normal(0.0, sigma, weights.shape)
            velocity = self.momentum * velocity - self.rate / self.clip * gradient / len(rows)
            weights = weights + velocity
            average += weights * (step >= self.n_steps // 2)
        self.weights_ = average
        return self

    def predict(self, X: Floats) -> NDArray[np.intp]:
        """Class with the largest score."""
        return np.asarray((_with_constant(X) @ self.weights_).argmax(axis=1))


def clipped_gradient(rows: Floats, y: NDArray[np.intp], weights: Floats, clip: float) -> Floats:
    """Sum over records of the gradient of the logistic loss, each shortened to norm ``clip`` at most.

    A record's gradient is the outer product of its row and of (probabilities - truth): its norm is the
    product.
    """
    scores = rows @ weights
    errors = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(y)), y] -= 1.0
    norms = np.linalg.norm(errors, axis=1) * np.linalg.norm(rows, axis=1)
    errors /= np.maximum(norms / clip, 1.0)[:, None]
    return np.asarray(rows.T @ errors)


def _with_constant(X: Floats) -> Floats:
    """Rows scaled so that with a constant entry they stay in the unit ball."""
    return np.hstack([X, np.ones((len(X), 1))]) / math.sqrt(2.0)
