"""Which auxiliary inducing points a membership-mapping has, and how many (001 Alg. 1 steps 3-8)."""

import math
from collections.abc import Callable

import numpy as np

from onefold._base.arrays import Array, Index
from onefold.models._centroids import FarApart, candidates, clusters, means

__all__ = ["Centres", "counts_from", "largest_count"]

ROUNDS = 6  # of k-means: with 20, distances of digits from their images are 0.02 % smaller
ROUNDS_AGAIN = 2  # of k-means that goes on from the clusters of the layer before
# How the smoothing that is left falls with the number of points, where only one number was tried.
USUAL_DECAY = 2.0


class Centres:
    """Centroids of inputs for any number of clusters (001 eq. 51).

    Inputs of a further layer are nearly those of the layer before: k-means goes on from its clusters, the
    first ones where there are to be fewer.
    """

    def __init__(self, x: Array, before: Index | None = None) -> None:
        self._inputs = candidates(x)
        self._far: FarApart | None = None
        self._means = None if before is None else means(self._inputs, before)[1]

    def __call__(self, count: int) -> tuple[Array, Index]:
        """At most ``count`` of them, (count, n), and the cluster of each input."""
        if self._means is None:
            return clusters(self._inputs, self._inputs[self._starts(count)], ROUNDS)
        return clusters(self._inputs, self._means[:count], ROUNDS_AGAIN)

    def at_most(self, count: int) -> int:
        """``count``, or the number of distinct inputs where that is less."""
        inputs = self._inputs
        if inputs.shape[1] and len(np.unique(inputs[:, 0])) >= count:
            return count if self._means is None else min(count, len(self._means))
        self._means = None  # clusters may have become one
        return len(self._starts(count))

    def _starts(self, count: int) -> Index:
        if self._far is None:
            self._far = FarApart(self._inputs)
        return self._far.first(count)


def counts_from(largest: int) -> list[int]:
    """The counts Alg. 1 goes through, each 0.9 of the one before; one less where that is the same."""
    counts = [largest]
    while counts[-1] > 1:
        counts.append(min(math.ceil(0.9 * counts[-1]), counts[-1] - 1))
    return counts


def largest_count(largest: int, smoothing: Callable[[int], float], needed: float, guess: int) -> int:
    """The first count of Alg. 1 that leaves the smoothing ``needed``; 1 if none does.

    Fewer points leave more, so the place is searched for between counts known to leave enough and too
    little: where a power of the count through the last two values says, and halfway every fourth time.
    """
    counts = counts_from(largest)
    below, above = -1, len(counts) - 1  # places that leave too little, and enough or nothing to lose
    tried: list[tuple[int, float]] = []
    while above - below > 1:
        place = sum(count > guess for count in counts) if len(tried) % 4 < 3 else (below + above) // 2
        place = min(max(place, below + 1), above - 1)
        tried.append((counts[place], smoothing(counts[place])))
        below, above = (below, place) if tried[-1][1] >= needed else (place, above)
        guess = _extrapolate(tried, needed)
    return counts[above]


def _extrapolate(tried: list[tuple[int, float]], needed: float) -> int:
    """The count that would leave just what is needed, if smoothing were a power of the count."""
    (count, left), decay = tried[-1], USUAL_DECAY
    if not left > 0.0:
        return count // 2
    if len(tried) > 1 and tried[-2][1] > 0.0:
        other, left_there = tried[-2]
        decay = math.log(left / left_there) / math.log(other / count)
    exponent = math.log(left / needed) / max(decay, 0.5)
    return int(count * math.exp(min(exponent, 20.0)))
