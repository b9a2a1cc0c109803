"""What a source is worth to a target: weights of three experts, judged by rows whose labels were hidden."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from onefold._base.arrays import Index
from onefold.transfer._pooling import fit_weights, pooled, row_losses

__all__ = ["TARGET_ALONE", "HeldOut", "weigh"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
TARGET_ALONE = (1.0, 0.0, 0.0)
LUCK = 0.1  # how likely guessing may be to get as many held-out rows right as the source does


@dataclass(frozen=True)
class HeldOut:
    """Rows whose labels were hidden, and what the experts said about them.

    Attributes
    ----------
    experts : scores of target, mapping and source, (n, C) each
    truth : codes of the hidden labels
    fair : was another row of the class left to the target? Only then can it be compared
    """

    experts: list[Floats]
    truth: Index
    fair: Mask

    @property
    def lonely(self) -> bool:
        """Are most rows the only ones of their class?"""
        return 2 * int(np.count_nonzero(self.fair)) < len(self.truth)

    def of_fair_rows(self) -> "HeldOut":
        """The rows that can be compared."""
        fair = self.fair
        return HeldOut([scores[fair] for scores in self.experts], self.truth[fair], fair[fair])


def weigh(held: HeldOut, known: Index, n_classes: int) -> tuple[Floats, float]:
    """Weights of the experts and the held-out accuracy that the source adds; of the target alone if none.

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
        helps = (
            gain >= 0.0 and _explains_more(before, after) and not (lonely and _may_be_luck(right, n_classes))
        )
    else:  # labelled rows cannot show what only the source knows
        helps = _explains_hardly_less(before, after)
    return (weights, gain) if helps else (np.array(TARGET_ALONE), 0.0)


def _explains_more(before: Floats, after: Floats) -> bool:
    """Is the loss lower by more than two further weights lower it, as Akaike counts them?"""
    return bool(after.mean() + 2.0 / len(before) < before.mean())


def _explains_hardly_less(before: Floats, after: Floats) -> bool:
    """Is the loss higher by no more than its standard error?"""
    return bool(after.mean() < before.mean() + (after - before).std() / np.sqrt(len(before)))


def _may_be_luck(right: Mask, n_classes: int) -> bool:
    """Would guessing get as many right, with a probability that cannot be neglected?"""
    return not binom.sf(right.sum() - 1, len(right), 1.0 / n_classes) < LUCK
