"""Displays of predicted numbers: observed against predicted, and the errors, both as counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold.exceptions import InvalidInputError
from onefold.report.displays._display import AMBER, INK, PAGE_WIDTH, TEAL, Display

__all__ = ["ErrorsDisplay", "ObservedDisplay"]

CELLS = 24  # in each direction
BARS = 30
SHARE = 0.01  # of the rows beyond either end of the errors that are drawn


@dataclass(frozen=True)
class ObservedDisplay(Display):
    """How many rows have which observed and which predicted number.

    Parameters
    ----------
    edges : sequence of float
        Ends of the cells, the same in both directions.
    counts : sequence of sequences of int
        Number of rows by predicted (outer sequence) and observed number.
    label : str, default="number"
        What is predicted, with its unit.
    observed : pair of float, default=(0.0, 0.0)
        Smallest and largest observed number.
    predicted : pair of float, default=(0.0, 0.0)
        Smallest and largest predicted number.

    See Also
    --------
    ErrorsDisplay : The differences of both.

    Examples
    --------
    >>> ObservedDisplay.from_predictions([1.0, 2.0, 3.0], [1.5, 2.0, 2.5]).describe()
    'Observed against predicted number, 3 rows: 1 to 3 observed, 1.5 to 2.5 predicted.'
    """

    edges: Sequence[float]
    counts: Sequence[Sequence[int]]
    label: str = "number"
    observed: Sequence[float] = (0.0, 0.0)
    predicted: Sequence[float] = (0.0, 0.0)

    @classmethod
    def from_predictions(cls, observed: ArrayLike, predicted: ArrayLike, label: str = "number") -> Self:
        """Count rows.

        Parameters
        ----------
        observed : array-like of shape (n,)
            The true numbers.
        predicted : array-like of shape (n,)
            What was predicted.
        label : str, default="number"
            What is predicted, with its unit.

        Returns
        -------
        ObservedDisplay
            The display.
        """
        truth, guess = _pair(observed, predicted)
        low, high = (float(end) for end in (min(truth.min(), guess.min()), max(truth.max(), guess.max())))
        edges = np.linspace(low, high if high > low else low + 1.0, CELLS + 1)
        counts = np.histogram2d(guess, truth, bins=(edges, edges))[0].astype(int)
        ends = [[float(each.min()), float(each.max())] for each in (truth, guess)]
        return cls(edges.tolist(), counts.tolist(), label, *ends)

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            The number of rows, and both ranges.
        """
        n_rows = sum(map(sum, self.counts))
        ranges = [f"{low:.4g} to {high:.4g}" for low, high in (self.observed, self.predicted)]
        return (
            f"Observed against predicted {self.label}, {n_rows} rows: {ranges[0]} observed, {ranges[1]} "
            "predicted."
        )

    def _size(self) -> tuple[float, float]:
        return PAGE_WIDTH, 4.2

    def _draw(self, axes: Any) -> None:
        counts = np.array(self.counts, dtype=float)
        shown = np.ma.masked_equal(counts, 0.0)
        drawn = axes.pcolormesh(self.edges, self.edges, shown, cmap="GnBu", vmin=0.0, rasterized=False)
        axes.figure.colorbar(drawn, ax=axes, label="rows")
        axes.plot(self.edges[:: len(self.edges) - 1], self.edges[:: len(self.edges) - 1], color=INK, lw=1)
        axes.set_xlabel(f"observed {self.label}".replace("$", r"\$"))
        axes.set_ylabel("predicted")


@dataclass(frozen=True)
class ErrorsDisplay(Display):
    """How many rows are predicted too low or too high by how much.

    Parameters
    ----------
    edges : sequence of float
        Ends of the bars; the first and the last bar also hold what lies beyond.
    counts : sequence of int
        Number of rows of each bar.
    label : str, default="number"
        What is predicted, with its unit.
    too_low : int, default=0
        Number of rows predicted too low.
    too_high : int, default=0
        Number of rows predicted too high.

    See Also
    --------
    ObservedDisplay : Both numbers of each row.

    Examples
    --------
    >>> ErrorsDisplay.from_predictions([1.0, 2.0, 3.0], [1.5, 2.0, 2.0]).describe()
    'Errors of the predicted number, predicted less observed: 1 row too low, 1 too high, 1 right.'
    """

    edges: Sequence[float]
    counts: Sequence[int]
    label: str = "number"
    too_low: int = 0
    too_high: int = 0

    @classmethod
    def from_predictions(cls, observed: ArrayLike, predicted: ArrayLike, label: str = "number") -> Self:
        """Count rows.

        Parameters
        ----------
        observed : array-like of shape (n,)
            The true numbers.
        predicted : array-like of shape (n,)
            What was predicted.
        label : str, default="number"
            What is predicted, with its unit.

        Returns
        -------
        ErrorsDisplay
            The display.
        """
        truth, guess = _pair(observed, predicted)
        errors = guess - truth
        ends = np.quantile(errors, [SHARE, 1.0 - SHARE])
        far = float(np.abs(ends).max()) or 1.0
        edges = np.linspace(-far, far, BARS + 1)
        counts = np.histogram(np.clip(errors, -far, far), bins=edges)[0]
        return cls(
            edges.tolist(), counts.tolist(), label, int(np.sum(errors < 0.0)), int(np.sum(errors > 0.0))
        )

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            How many rows are predicted too low, too high and right.
        """
        right = sum(self.counts) - self.too_low - self.too_high
        rows = "row" if self.too_low == 1 else "rows"
        return (
            f"Errors of the predicted {self.label}, predicted less observed: {self.too_low} {rows} too low, "
            f"{self.too_high} too high, {right} right."
        )

    def _draw(self, axes: Any) -> None:
        middles = (np.array(self.edges[1:]) + np.array(self.edges[:-1])) / 2.0
        width = self.edges[1] - self.edges[0]
        colours = [AMBER if middle < 0.0 else TEAL for middle in middles]
        axes.bar(middles, self.counts, width=0.95 * width, color=colours)
        axes.axvline(0.0, color=INK, linewidth=1)
        axes.set_xlabel(f"predicted less observed {self.label}".replace("$", r"\$"))
        axes.set_ylabel("rows")


def _pair(observed: ArrayLike, predicted: ArrayLike) -> tuple[Any, Any]:
    truth, guess = (np.asarray(part, dtype=np.float64) for part in (observed, predicted))
    if truth.ndim != 1 or truth.shape != guess.shape or not truth.size:
        raise InvalidInputError("observed and predicted must hold one number for each row, at least one")
    if not (np.isfinite(truth).all() and np.isfinite(guess).all()):
        raise InvalidInputError("observed and predicted must be finite numbers")
    return truth, guess
