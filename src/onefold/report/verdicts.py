"""Verdicts: a measure, what is reached without the model, and the interval that decides between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["CONFIDENCE", "Measure", "class_verdict", "number_verdict", "rounded_down", "rounded_up"]

CONFIDENCE = 0.95
DUST = 1e-9  # errors of float64, which move no bound to the next digit
MORE = "test on more rows, learn from more, or add columns that say more about it"
UNLIKE = "look whether these rows are like those that were learned from"
ONE_EACH = "measure it on one row of each person"
NOT_KNOWN = f"rows of one person are alike: whether this is better than guessing is not known; {ONE_EACH}"
NO_VERDICT = (
    "rows of one person are alike, or there are too few: whether this is better than always predicting "
    f"the mean is not known; {ONE_EACH}"
)


@dataclass(frozen=True)
class Measure:
    """A measure of predictions beside what is reached without them.

    Parameters
    ----------
    name : str
        What was measured.
    value : float
        What was found.
    interval : tuple of (float, float)
        Its 95 % interval.
    baseline : float
        What is reached without the model.

    See Also
    --------
    class_verdict : Says what follows for classes.
    number_verdict : The same for numbers.

    Examples
    --------
    >>> Measure("AUC", 0.73, (0.58, 0.83), 0.5).outcome
    'better'
    """

    name: str
    value: float
    interval: tuple[float, float]
    baseline: float

    @property
    def outcome(self) -> Literal["better", "worse", "not shown to differ"]:
        """On which side of the baseline the interval lies, if on any."""
        low, high = self.interval
        if low > self.baseline:
            return "better"
        return "worse" if high < self.baseline else "not shown to differ"

    def __str__(self) -> str:
        low, high = rounded_down(self.interval[0], 3), rounded_up(self.interval[1], 3)
        return f"{self.name} {self.value:.3f} ({100 * CONFIDENCE:.0f} % interval {low:.3f} to {high:.3f})"


def class_verdict(measures: Sequence[Measure]) -> str:
    """Say what predictions of classes are worth, and what to do next.

    Parameters
    ----------
    measures : sequence of Measure
        First the gain in accuracy over the most frequent class; last what says best whether the classes are
        told apart. None where the rows depend on each other.

    Returns
    -------
    str
        One line. It says "better" of useless predictions in at most 5 of 100 cases, half of them by each
        measure.

    See Also
    --------
    Measure : Decides by an interval.

    Examples
    --------
    >>> gain = Measure("gain", -0.01, (-0.05, 0.04), 0.0)
    >>> print(class_verdict([gain, Measure("AUC", 0.73, (0.58, 0.83), 0.5)]))
    AUC 0.730 (95 % interval 0.580 to 0.830): better than guessing; choose a threshold with --probabilities
    """
    if not measures:
        return NOT_KNOWN
    gain, apart = measures[0], measures[-1]
    if gain.outcome == "better":
        return f"{gain}: better than always answering the most frequent class"
    if apart.outcome == "better":
        return f"{apart}: better than guessing; choose a threshold with --probabilities"
    if apart.outcome == "worse":
        return f"{apart}: worse than guessing; look whether labels or columns were mixed up"
    if gain.outcome == "worse":
        return f"{gain}: worse than always answering the most frequent class; {MORE}"
    return f"{apart}: not shown to be better than guessing; {MORE}"


def number_verdict(measures: Sequence[Measure]) -> str:
    """Say what predicted numbers are worth, and what to do next.

    Parameters
    ----------
    measures : sequence of Measure
        First R2; last, if it was measured, by how much absolute errors are smaller than those of the median.
        None where there is no interval.

    Returns
    -------
    str
        One line.

    See Also
    --------
    Measure : Decides by an interval.

    Examples
    --------
    >>> print(number_verdict([Measure("R2", 0.4, (0.2, 0.6), 0.0)]))
    R2 0.400 (95 % interval 0.200 to 0.600): better than always predicting the mean
    """
    if not measures:
        return NO_VERDICT
    squared, absolute = measures[0], measures[-1]
    if squared.outcome != "not shown to differ":
        more = f"; {UNLIKE}" if squared.outcome == "worse" else ""
        return f"{squared}: {squared.outcome} than always predicting the mean{more}"
    if absolute.outcome == "better":
        return f"{absolute}: better than always predicting the median, except for few rows that are far off"
    return f"{squared}: not shown to be better than always predicting the mean; {MORE}"


def rounded_up(number: float, digits: int) -> float:
    """The number with so many digits after the point, and no smaller: for upper bounds."""
    return math.ceil(number * 10.0**digits - DUST) / 10.0**digits


def rounded_down(number: float, digits: int) -> float:
    """The number with so many digits after the point, and no larger: for lower bounds."""
    return math.floor(number * 10.0**digits + DUST) / 10.0**digits
