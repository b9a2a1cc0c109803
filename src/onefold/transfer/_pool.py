"""How three experts decide together: scores on one scale, weights judged by held-out rows, a decision.

The experts are the target alone, the mapping (what the source knows, carried over to the target) and the
source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.stats import binom

from onefold._base.arrays import Array, Floats, Index, Mask

EXPERTS = ("target", "mapping", "source")
TARGET_ALONE = (1.0, 0.0, 0.0)
LUCK = 0.1  # how likely guessing may be to get as many held-out rows right as the source does
LARGEST_WEIGHT = 20.0
# On squared weights, so that they stay finite where no held-out row is wrong, and so that experts that are as
# good as each other share.
PENALTY = 0.1
FARTHEST = 10.0  # typical leads by which a class can be behind: no expert is surer than that


@dataclass(frozen=True)
class Decision:
    """What a strategy decides about some rows."""

    distances: Floats  # (n, C); the smallest decides
    expert: Index  # (n,), positions in EXPERTS: who decided
    alone: Index  # (n,), class by the target alone

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


def row_losses(scores: Floats, codes: Index) -> Floats:
    """Return minus the logarithm of the probability given to the right class of each row."""
    return np.asarray(-log_probabilities(scores)[np.arange(len(codes)), codes])


def log_loss(scores: Floats, codes: Index) -> float:
    """Average the losses of the rows."""
    return float(row_losses(scores, codes).mean())


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


def fit_weights(experts: Sequence[Floats], codes: Index) -> Floats:
    """Find weights of at least zero with which the pool explains held-out rows best.

    The scores must be of rows with known classes ``codes`` that the experts have not seen.
    """

    def loss(weights: Floats) -> tuple[float, Floats]:
        logs = log_probabilities(pooled(experts, weights))
        excess = np.exp(logs)
        excess[np.arange(len(codes)), codes] -= 1.0
        slope = np.array([float((excess * scores).sum()) / len(codes) for scores in experts])
        value = -float(logs[np.arange(len(codes)), codes].mean())
        value += PENALTY * float(weights @ weights) / len(codes)
        return value, slope + 2 * PENALTY * weights / len(codes)

    start = np.full(len(experts), 1.0 / len(experts))
    found = minimize(loss, start, jac=True, bounds=[(0.0, LARGEST_WEIGHT)] * len(experts), method="L-BFGS-B")
    return np.asarray(found.x)


# --- what a source is worth -------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldOut:
    """Rows whose labels were hidden, and what the experts said about them."""

    experts: list[Floats]  # scores of target, mapping and source, (n, C) each
    truth: Index  # codes of the hidden labels
    fair: Mask  # another row of the class was left to the target: only then it can be compared

    @property
    def lonely(self) -> bool:
        """Whether most rows are the only ones of their class."""
        return 2 * int(np.count_nonzero(self.fair)) < len(self.truth)

    def of_fair_rows(self) -> "HeldOut":
        """Return the rows that can be compared."""
        fair = self.fair
        return HeldOut([scores[fair] for scores in self.experts], self.truth[fair], fair[fair])


def weigh(held: HeldOut, known: Index, n_classes: int) -> tuple[Floats, float]:
    """Weigh the experts, and measure the accuracy that the source adds on held-out rows.

    Where the source does not help, the target decides alone and the gain is 0.

    ``known`` are the codes that have labels in the target.
    """
    complete, lonely = len(known) == n_classes, held.lonely
    if complete and not lonely:
        held = held.of_fair_rows()
    own, truth = held.experts[0], held.truth
    # The target cannot know the classes that are missing: then it has no say in the pool.
    experts = held.experts if complete else [np.zeros_like(own), *held.experts[1:]]
    weights = fit_weights(experts, truth)
    together = pooled(experts, weights)
    right, alone = together.argmax(axis=1) == truth, (own.argmax(axis=1) == truth).astype(np.float64)
    if lonely:  # of a class it was not shown the target can only guess
        alone[~held.fair] = 1.0 / n_classes
    gain = float(right.mean() - alone.mean())
    places = np.searchsorted(known, truth)
    before = row_losses(fit_weights([own], truth)[0] * own[:, known], places)
    after = row_losses(together[:, known], places)
    if complete:
        by_luck = lonely and _may_be_luck(right, n_classes)
        helps = gain >= 0.0 and _explains_more(before, after) and not by_luck
    else:  # labelled rows cannot show what only the source knows
        helps = _explains_hardly_less(before, after)
    return (weights, gain) if helps else (np.array(TARGET_ALONE), 0.0)


def _explains_more(before: Floats, after: Floats) -> bool:
    """Tell whether the loss is lower by more than two further weights lower it, as Akaike counts them."""
    return bool(after.mean() + 2.0 / len(before) < before.mean())


def _explains_hardly_less(before: Floats, after: Floats) -> bool:
    """Tell whether the loss is higher by no more than its standard error."""
    return bool(after.mean() < before.mean() + (after - before).std() / np.sqrt(len(before)))


def _may_be_luck(right: Mask, n_classes: int) -> bool:
    """Tell whether guessing would get as many right with a probability that cannot be neglected."""
    return not binom.sf(right.sum() - 1, len(right), 1.0 / n_classes) < LUCK
