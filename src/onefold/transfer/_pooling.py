"""Scores of several experts as one: each brought to its own scale, weights by held-out rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from onefold._base.arrays import Index

__all__ = ["bounded", "fit_weights", "log_loss", "log_probabilities", "pooled", "row_losses", "typical_lead"]

Floats = NDArray[np.float64]
LARGEST_WEIGHT = 20.0
# On squared weights, so that they stay finite where no held-out row is wrong, and so that experts that are as
# good as each other share.
PENALTY = 0.1
FARTHEST = 10.0  # typical leads by which a class can be behind: no expert is surer than that


def log_probabilities(scores: Floats) -> Floats:
    """Scores as logarithms of probabilities that add up to one."""
    moved = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(moved - np.log(np.exp(moved).sum(axis=1, keepdims=True)))


def row_losses(scores: Floats, codes: Index) -> Floats:
    """Minus the logarithm of the probability given to the right class of each row."""
    return np.asarray(-log_probabilities(scores)[np.arange(len(codes)), codes])


def log_loss(scores: Floats, codes: Index) -> float:
    """Their mean."""
    return float(row_losses(scores, codes).mean())


def typical_lead(scores: Floats) -> float:
    """Median lead of the best class over the second: the unit in which an expert's scores are counted."""
    if scores.shape[1] < 2:
        return 1.0
    top = np.partition(scores, -2, axis=1)[:, -2:]
    lead = float(np.median(top[:, 1] - top[:, 0]))
    return lead if np.isfinite(lead) and lead > 0.0 else 1.0


def bounded(scores: Floats, unit: float) -> Floats:
    """Scores relative to each row's best class, in typical leads."""
    return np.asarray(np.maximum((scores - scores.max(axis=1, keepdims=True)) / unit, -FARTHEST))


def pooled(experts: Sequence[Floats], weights: Floats) -> Floats:
    """A logarithmic pool: weighted sum of scores."""
    return np.asarray(sum(weight * scores for weight, scores in zip(weights, experts, strict=True)))


def fit_weights(experts: Sequence[Floats], codes: Index) -> Floats:
    """Weights of at least zero with which the pool explains held-out rows best.

    The scores must be of rows with known classes ``codes`` that the experts have not seen.
    """

    def loss(weights: Floats) -> tuple[float, Floats]:
        logs = log_probabilities(pooled(experts, weights))
        excess = np.exp(logs)
        excess[np.arange(len(codes)), codes] -= 1.0
        slope = np.array([float((excess * scores).sum()) / len(codes) for scores in experts])
        value = -float(logs[np.arange(len(codes)), codes].mean())
        return value + PENALTY * float(weights @ weights) / len(codes), slope + 2 * PENALTY * weights / len(
            codes
        )

    start = np.full(len(experts), 1.0 / len(experts))
    found = minimize(loss, start, jac=True, bounds=[(0.0, LARGEST_WEIGHT)] * len(experts), method="L-BFGS-B")
    return np.asarray(found.x)
