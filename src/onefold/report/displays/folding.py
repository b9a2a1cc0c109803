"""How far rows are from what a model has learned: histograms of distances of groups of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold.exceptions import InvalidInputError
from onefold.report.displays._display import AMBER, SLATE, TEAL, VIOLET, Display, bare, shortened

__all__ = ["FoldingDisplay"]

COLOURS = (TEAL, AMBER, SLATE, VIOLET)
BINS = 40


@dataclass(frozen=True)
class FoldingDisplay(Display):
    """Distances of groups of rows, as shares of each group.

    A model folds a query towards what it has learned; the distance is how far the query moves. Rows of the
    class are near, others are far: the less the histograms overlap, the better the model tells them apart.

    Parameters
    ----------
    edges : sequence of float
        Ends of the bins.
    counts : mapping of str to sequence of int
        Number of rows in each bin, for every group; the last bin also has the rows beyond it.
    label : str, default="distance"
        What the axis shows.

    See Also
    --------
    MembershipDisplay : What an attacker makes of distances.

    Examples
    --------
    >>> display = FoldingDisplay.from_distances({"near": [0.1, 0.2], "far": [0.8, 1.0]}, n_bins=2)
    >>> {name: list(counts) for name, counts in display.counts.items()}
    {'near': [2, 0], 'far': [0, 2]}
    """

    edges: Sequence[float]
    counts: Mapping[str, Sequence[int]]
    label: str = "distance"

    @classmethod
    def from_distances(
        cls, groups: Mapping[str, ArrayLike], n_bins: int = BINS, label: str = "distance"
    ) -> Self:
        """Count distances of groups of rows in common bins.

        Parameters
        ----------
        groups : mapping of str to array-like
            Distances of each group.
        n_bins : int, default=40
            Number of bins. They end where 99 % of every group are covered.
        label : str, default="distance"
            What the axis shows.

        Returns
        -------
        FoldingDisplay
            The display.
        """
        known = {name: np.asarray(values, dtype=np.float64).ravel() for name, values in groups.items()}
        if not known or any(not len(values) or not np.isfinite(values).all() for values in known.values()):
            raise InvalidInputError("every group needs at least one distance, and only finite ones")
        low = min(float(values.min()) for values in known.values())
        high = max(float(np.quantile(values, 0.99, method="higher")) for values in known.values())
        edges = np.linspace(low, high if high > low else low + 1.0, n_bins + 1)
        counts = {
            name: np.histogram(np.clip(values, low, edges[-1]), edges)[0].tolist()
            for name, values in known.items()
        }
        return cls(edges.tolist(), counts, label)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, n_bins: int = BINS) -> Self:
        """Measure how far rows are from their own class and from the nearest other one.

        Parameters
        ----------
        estimator : object
            A fitted classifier with ``distances``.
        X : array-like of shape (n_samples, n_features)
            Rows that the classifier was not fitted to: its own rows are nearer.
        y : array-like of shape (n_samples,)
            Their classes.
        n_bins : int, default=40
            Number of bins.

        Returns
        -------
        FoldingDisplay
            The display.
        """
        distances = np.asarray(estimator.distances(X), dtype=np.float64)
        classes = np.asarray(estimator.classes_).astype(str)
        own = np.asarray(y).astype(str)[:, np.newaxis] == classes
        if not own.any(axis=1).all():
            raise InvalidInputError("some rows are of a class that the classifier was not fitted to")
        others = np.where(own, np.inf, distances).min(axis=1)
        return cls.from_distances({"own class": distances[own], "nearest other class": others}, n_bins)

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            The middle distance of every group.
        """
        middles = (np.asarray(self.edges[1:]) + np.asarray(self.edges[:-1])) / 2
        told = []
        for name, counts in self.counts.items():
            half = np.searchsorted(np.cumsum(counts), sum(counts) / 2)
            told.append(f"{name}: half of {sum(counts)} rows are nearer than about {middles[half]:.3g}")
        return f"Histograms of the {self.label}: {', '.join(told)}."

    def _draw(self, axes: Any) -> None:
        for (name, counts), colour in zip(self.counts.items(), COLOURS, strict=False):
            shares = np.asarray(counts) / max(1, sum(counts))
            axes.stairs(shares, self.edges, fill=True, color=colour, alpha=0.35)
            axes.stairs(shares, self.edges, color=colour, linewidth=1.2, label=shortened(name, 32))
        axes.set_xlabel(self.label)
        axes.set_ylabel("share of the group")
        axes.legend(fontsize=9, frameon=False)
        bare(axes)
