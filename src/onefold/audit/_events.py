"""Events that tell releases of two datasets apart: what to look at in a release, and where to cut.

The event is chosen on releases that are not counted later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Floats
from onefold.audit.intervals import epsilon_from_rates, lower_limit, upper_limit

Look = Callable[[Floats], Floats]

MOST_CUTS = 600
RIDGE = 1e-6  # relative; small, because noise that cancels in one direction is what we hope to find


@dataclass(frozen=True)
class ReleaseEvent:
    """A number read off a release lies at or above a threshold, or below it, and where that is likelier."""

    name: str
    look: Look
    threshold: float
    above: bool
    likely_in_first: bool

    def hits(self, outputs: Floats) -> int:
        """Count the releases in which the event happens."""
        beyond = int(np.count_nonzero(self.look(outputs) >= self.threshold))
        return beyond if self.above else len(outputs) - beyond


def projection(change: Floats) -> Look:
    """Read the releases along the difference of the two datasets."""
    direction = change.ravel() / np.abs(change).max()
    direction /= np.linalg.norm(direction)
    return lambda outputs: np.asarray(outputs @ direction)


def discriminant(first: Floats, second: Floats) -> Look:
    """Learn Fisher's linear discriminant of two sets of releases."""
    both = np.concatenate([first, second])
    centre, scale = both.mean(axis=0), both.std(axis=0)
    scale[scale == 0] = 1.0

    def standardised(outputs: Floats) -> Floats:
        return np.asarray((outputs - centre) / scale)

    a, b = standardised(first), standardised(second)
    shift = b.mean(axis=0) - a.mean(axis=0)
    residual = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
    # (R^T R / n + ridge)^-1 shift, in whichever of the two shapes is smaller.
    n, d = residual.shape
    if d <= n:
        weights = np.linalg.solve(residual.T @ residual / n + RIDGE * np.eye(d), shift)
    else:
        inner = np.linalg.solve(residual @ residual.T / n + RIDGE * np.eye(n), residual @ shift / n)
        weights = (shift - residual.T @ inner) / RIDGE
    return lambda outputs: np.asarray(standardised(outputs) @ weights)


def spread(outputs: Floats) -> Floats:
    """Take the logarithm of the summed squares of each release about its mean.

    Too much or too little smoothing changes it, which no linear statistic sees.
    """
    centred = outputs - outputs.mean(axis=1, keepdims=True)
    return np.asarray(np.log(np.maximum((centred**2).sum(axis=1), np.finfo(np.float64).tiny)))


def choose_event(
    looks: Sequence[tuple[str, Look]], first: Floats, second: Floats, delta: float, failure: float
) -> ReleaseEvent:
    """Choose the statistic, threshold and direction that give the largest bound on these releases."""
    found = [_best_cut(name, look, first, second, delta, failure) for name, look in looks]
    return max(found, key=lambda pair: pair[0])[1]


def _best_cut(
    name: str, look: Look, first: Floats, second: Floats, delta: float, failure: float
) -> tuple[float, ReleaseEvent]:
    a, b = np.sort(look(first)), np.sort(look(second))
    cuts = _cuts(np.unique(np.concatenate([a, b])))
    n = len(a)
    above = [n - np.searchsorted(values, cuts, side="left") for values in (a, b)]
    best: tuple[float, ReleaseEvent] | None = None
    for up in (True, False):
        counts = above if up else [n - count for count in above]
        for in_first in (True, False):
            hits, false_hits = counts if in_first else counts[::-1]
            likely, unlikely = lower_limit(hits, n, failure), upper_limit(false_hits, n, failure)
            bounds = epsilon_from_rates(likely, unlikely, delta)
            # Where no cut shows anything, the one that separates best is still the one to try.
            worth = bounds + 1e-6 * (likely - unlikely)
            k = int(np.argmax(worth))
            if best is None or worth[k] > best[0]:
                best = float(worth[k]), ReleaseEvent(name, look, float(cuts[k]), up, in_first)
    assert best is not None  # there are four directions
    return best


def _cuts(values: Floats) -> Floats:
    """Return thresholds between neighbouring values; of very many a choice that is dense at both ends."""
    if len(values) == 1:
        return values
    cuts = values[:-1] + (values[1:] - values[:-1]) / 2
    if len(cuts) <= MOST_CUTS:
        return cuts
    tail = np.geomspace(1, len(cuts) // 2, MOST_CUTS // 4).astype(np.intp) - 1
    even = np.linspace(0, len(cuts) - 1, MOST_CUTS // 2).astype(np.intp)
    return np.asarray(cuts[np.unique(np.concatenate([tail, len(cuts) - 1 - tail, even]))])
