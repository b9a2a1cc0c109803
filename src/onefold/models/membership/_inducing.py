"""How many auxiliary inducing points a membership-mapping has (001 Alg. 1 steps 3-8)."""

import math
from collections.abc import Callable

__all__ = ["counts_from", "largest_count"]


def counts_from(largest: int) -> list[int]:
    """The counts Alg. 1 goes through, each 0.9 of the one before; one less where that is the same."""
    counts = [largest]
    while counts[-1] > 1:
        counts.append(min(math.ceil(0.9 * counts[-1]), counts[-1] - 1))
    return counts


def largest_count(largest: int, enough: Callable[[int], bool]) -> int:
    """The first count of Alg. 1 that leaves ``enough`` smoothing; 1 if none does.

    Fewer points leave more, so the place is found by growing steps and halving, not one by one.
    """
    counts = counts_from(largest)
    below, step = -1, 1  # the last place known to leave too little
    above = 0
    while above < len(counts) - 1 and not enough(counts[above]):
        below, above, step = above, min(above + step, len(counts) - 1), 2 * step
    while above - below > 1:
        middle = (above + below) // 2
        if enough(counts[middle]):
            above = middle
        else:
            below = middle
    return counts[above]
