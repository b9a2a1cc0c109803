"""How experts decide together: scores on one scale, weights between a prior and held-out rows, a decision.

Weights start from what is known before a label is seen and move as far as held-out labelled rows ask for.
No test switches the source off: with few labels the prior decides, with many the labels do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import minimize

from onefold._base.arrays import Array, Floats, Index, Labels, Mask

THREE = ("target", "mapping", "source")  # the experts of (87)
PRIOR = {  # weight of each expert before a label is seen
    "target": 0.3,
    "least squares": 0.05,
    "shrunk": 0.15,
    "refined": 0.3,
    "mapping": 0.3,
    "source": 0.2,
}
OF_TARGET = ("target", "least squares")  # experts that the source has no part in
STRENGTH = 5.0  # of the prior: loss for a weight that is one away from it
FARTHEST = 10.0  # typical leads by which a class can be behind: no expert is surer than that


@dataclass(frozen=True)
class Decision:
    """What a strategy decides about some rows."""

    distances: Floats  # (n, C); the smallest decides
    names: tuple[str, ...]  # of the experts
    expert: Index  # (n,), positions in names: who decided
    alone: Index  # (n,), class by the target alone

    @property
    def deciders(self) -> Labels:
        """Name of the expert that decided each row."""
        return np.asarray(np.array(self.names)[self.expert])

    @property
    def codes(self) -> Index:
        """Position of the class of each row."""
        return np.asarray(self.distances.argmin(axis=1))


class Strategy(Protocol):
    """A fitted way to decide."""

    def decide(self, rows: Array) -> Decision:
        """Decide rows of the target."""


# --- pooling scores ---------------------------------------------------------------------------------------


def log_probabilities(scores: Floats) -> Floats:
    """Turn scores into logarithms of probabilities that add up to one."""
    moved = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(moved - np.log(np.exp(moved).sum(axis=1, keepdims=True)))


def log_loss(scores: Floats, codes: Index) -> float:
    """Average minus the logarithm of the probability given to the right class."""
    return float(-log_probabilities(scores)[np.arange(len(codes)), codes].mean())


def typical_lead(scores: Floats) -> float:
    """Return the median lead of the best class over the second: the unit of an expert's scores."""
    if scores.shape[1] < 2:
        return 1.0
    top = np.partition(scores, -2, axis=1)[:, -2:]
    lead = float(np.median(top[:, 1] - top[:, 0]))
    return lead if np.isfinite(lead) and lead > 0.0 else 1.0


def bounded(scores: Floats, unit: float) -> Floats:
    """Return scores relative to each row's best class, in typical leads."""
    return np.asarray(np.maximum((scores - scores.max(axis=1, keepdims=True)) / unit, -FARTHEST))


def pooled(experts: Sequence[Floats], weights: Floats) -> Floats:
    """Pool scores logarithmically: their weighted sum."""
    return np.asarray(sum(weight * scores for weight, scores in zip(weights, experts, strict=True)))


def fit_weights(experts: Sequence[Floats], codes: Index, prior: Floats) -> Floats:
    """Find weights of at least zero that explain held-out rows and stay near the prior.

    They minimise the sum of the rows' log losses plus ``STRENGTH`` times the squared distance from the prior,
    a convex function. The scores must be of rows with known classes ``codes`` that experts have not seen.
    """
    rows = np.arange(len(codes))
    stacked = np.stack(list(experts))

    def loss(weights: Floats) -> tuple[float, Floats]:
        logs = log_probabilities(np.tensordot(weights, stacked, axes=1))
        excess = np.exp(logs)
        excess[rows, codes] -= 1.0
        away = weights - prior
        value = -float(logs[rows, codes].sum()) + STRENGTH * float(away @ away)
        return value, np.einsum("enc,nc->e", stacked, excess) + 2.0 * STRENGTH * away

    found = minimize(loss, prior, jac=True, bounds=[(0.0, None)] * len(prior), method="L-BFGS-B")
    return np.asarray(found.x if found.x.any() else prior)  # experts without any weight decide nothing


# --- what a source is worth -------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldOut:
    """Rows whose labels were hidden, and what the experts said about them."""

    names: tuple[str, ...]
    experts: list[Floats]  # scores, (n, C) each
    truth: Index  # codes of the hidden labels
    fair: Mask  # another row of the class was left to the target: only then it can know the class
    fold: Index  # in which the row was hidden
    prior: Floats


@dataclass(frozen=True)
class Weighed:
    """Weights of experts, and what held-out rows say about them."""

    weights: Floats
    alone: Floats  # weights without the source: of the experts of the target, zero for the others
    gain: float = 0.0  # accuracy with the source minus accuracy without
    accuracy: float | None = None


def weigh(held: HeldOut) -> Weighed:
    """Weigh the experts with and without the source, and compare both on held-out rows.

    A fold is compared with weights that its own rows had no part in. Of a class that it was not shown the
    target can only guess.
    """
    own = np.array([name in OF_TARGET for name in held.names])
    # The target's experts have no say about a class that was hidden from them altogether.
    experts = [
        np.where(held.fair[:, None], scores, 0.0) if mine else scores
        for mine, scores in zip(own, held.experts, strict=True)
    ]
    n_classes = experts[0].shape[1]

    def both(rows: Mask) -> tuple[Floats, Floats]:
        chosen = [scores[rows] for scores in experts]
        weights = fit_weights(chosen, held.truth[rows], held.prior)
        alone = np.zeros(len(own))
        mine = [scores for scores, is_own in zip(chosen, own, strict=True) if is_own]
        alone[own] = fit_weights(mine, held.truth[rows], held.prior[own])
        return weights, alone

    right, without = np.empty(len(held.truth)), np.empty(len(held.truth))
    for fold in np.unique(held.fold):
        rows = held.fold == fold
        for weights, into in zip(both(~rows), (right, without), strict=True):
            said = pooled([scores[rows] for scores in experts], weights)
            into[rows] = said.argmax(axis=1) == held.truth[rows]
    without[~held.fair] = 1.0 / n_classes
    weights, alone = both(np.ones(len(right), dtype=bool))
    if own.all():  # there is no source
        fair = right[held.fair]
        return Weighed(weights, alone, 0.0, float(fair.mean()) if len(fair) else None)
    return Weighed(weights, alone, float(right.mean() - without.mean()), float(right.mean()))
