"""How good a classifier is: right answers, classes taken for others, and whether it knows its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray
from onefold.exceptions import InvalidInputError
from onefold.report.displays._display import (
    INK,
    PAGE_WIDTH,
    PALE,
    SLATE,
    TEAL,
    VIOLET,
    Display,
    bare,
    in_lines,
    shortened,
)

__all__ = ["AccuracyDisplay", "CalibrationDisplay", "ConfusionDisplay"]

KIND_COLOURS = {"alone": PALE, "reference": PALE, "pooled": SLATE, "federated": TEAL, "private": VIOLET}
MANY_CLASSES = 20  # above this number the cells of a matrix are too small for text
FEW_CLASSES = 4  # up to this number they are wide
CONFIDENCE = 0.95
FEWEST = 25  # rows of a group that says something


@dataclass(frozen=True)
class AccuracyDisplay(Display):
    """One bar per classifier: the share of the test rows that it predicted right.

    Parameters
    ----------
    names : sequence of str
        The classifiers, from the top.
    values : sequence of float
        Their accuracies.
    kinds : sequence of {"alone", "reference", "pooled", "federated", "private"}
        What each of them is, which decides its colour.
    intervals : sequence of (float, float) or None, default=None
        Confidence interval of each accuracy; None draws none.
    label : str, default="accuracy on the test rows"
        What the axis shows.

    See Also
    --------
    ConfusionDisplay : Which classes are taken for which.

    Examples
    --------
    >>> display = AccuracyDisplay(["majority", "onefold"], [0.6, 0.9], ["reference", "federated"])
    >>> display.describe()
    'Bar chart of accuracy on the test rows: majority 0.600, onefold 0.900.'
    """

    names: Sequence[str]
    values: Sequence[float]
    kinds: Sequence[str]
    intervals: Sequence[Sequence[float]] | None = None
    label: str = "accuracy on the test rows"

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            Every classifier with its accuracy.
        """
        told = ", ".join(f"{name} {value:.3f}" for name, value in zip(self.names, self.values, strict=True))
        return f"Bar chart of {self.label}: {told}."

    def _size(self) -> tuple[float, float]:
        return PAGE_WIDTH, 0.9 + 0.34 * len(self.names)

    def _draw(self, axes: Any) -> None:
        places = range(len(self.names))
        axes.barh(places, self.values, color=[KIND_COLOURS[kind] for kind in self.kinds], height=0.7)
        ends = [(value, value) for value in self.values] if self.intervals is None else self.intervals
        for place, value, kind, (low, high) in zip(places, self.values, self.kinds, ends, strict=True):
            inside = min(value, low) > 0.15  # else the number would lie under the interval
            axes.text(
                0.012 if inside else max(value, high) + 0.012,
                place,
                f"{value:.3f}",
                va="center",
                color="white" if inside and KIND_COLOURS[kind] != PALE else INK,
                fontweight="bold" if kind == "federated" else "normal",
            )
        if self.intervals is not None:
            lows, highs = np.transpose(np.asarray(self.intervals, dtype=np.float64))
            away = np.abs(np.vstack([self.values - lows, highs - self.values]))
            axes.errorbar(self.values, places, xerr=away, fmt="none", ecolor=INK, elinewidth=1, capsize=3)
        axes.set_yticks(places, [shortened(name, 32) for name in self.names])
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel(self.label)
        axes.tick_params(axis="y", length=0)
        bare(axes, "top", "right", "left")


@dataclass(frozen=True)
class ConfusionDisplay(Display):
    """How many rows of each class (rows of the picture) were taken for each class (columns).

    Parameters
    ----------
    classes : sequence
        The classes.
    counts : sequence of sequences of int
        Number of rows by true class and predicted class.

    See Also
    --------
    CalibrationDisplay : Whether stated probabilities are true.

    Examples
    --------
    >>> ConfusionDisplay.from_predictions(["a", "a", "b"], ["a", "b", "b"]).counts
    [[1, 1], [0, 1]]
    """

    classes: Sequence[Any]
    counts: Sequence[Sequence[int]]

    @classmethod
    def from_predictions(cls, y_true: ArrayLike, y_pred: ArrayLike) -> Self:
        """Count true against predicted classes.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True classes.
        y_pred : array-like of shape (n_samples,)
            Predicted classes.

        Returns
        -------
        ConfusionDisplay
            The display.
        """
        true, predicted = _alike(y_true, y_pred)
        classes, codes = np.unique(np.concatenate([true, predicted]), return_inverse=True)
        counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
        np.add.at(counts, (codes[: len(true)], codes[len(true) :]), 1)
        return cls(classes.tolist(), counts.tolist())

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike) -> Self:
        """Ask a fitted classifier about rows of known class.

        Parameters
        ----------
        estimator : object
            A fitted classifier.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        ConfusionDisplay
            The display.
        """
        return cls.from_predictions(y, estimator.predict(X))

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            How many rows of each class were predicted right.
        """
        told = ", ".join(
            f"class {name}: {row[place]} of {sum(row)} right"
            for place, (name, row) in enumerate(zip(self.classes, self.counts, strict=True))
            if sum(row)
        )
        return f"Matrix of true against predicted classes: {told}."

    def _size(self) -> tuple[float, float]:
        n_classes = len(self.classes)
        few = n_classes <= FEW_CLASSES
        return PAGE_WIDTH, 1.2 + 0.42 * n_classes if few else min(5.2, 1.5 + 0.36 * n_classes)

    def _draw(self, axes: Any) -> None:
        counts = np.asarray(self.counts)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        axes.imshow(
            shares, cmap="GnBu", vmin=0, vmax=1, aspect="auto" if len(counts) <= FEW_CLASSES else "equal"
        )
        few = len(self.classes) <= MANY_CLASSES
        if few:
            for place, count in np.ndenumerate(counts):
                colour = "white" if shares[place] > 0.6 else INK if count else SLATE
                axes.text(place[1], place[0], str(count), ha="center", va="center", color=colour, fontsize=9)
            places, names = range(len(self.classes)), [str(name) for name in self.classes]
            axes.set_yticks(places, [shortened(name, 24) for name in names])
            short = [shortened(name, 12) for name in names]
            if len(names) <= FEW_CLASSES:  # the cells are wide enough for a few words
                axes.set_xticks(places, [in_lines(name) for name in names])
            else:
                axes.set_xticks(places, short, rotation=60 if max(map(len, short)) > 2 else 0)
        axes.set_xlabel("predicted class")
        axes.set_ylabel("true class")
        axes.tick_params(length=0)
        bare(axes, "top", "right", "left", "bottom")


@dataclass(frozen=True)
class CalibrationDisplay(Display):
    """Whether answers that are called 80 % sure are right in 80 of 100 cases.

    Rows are put in order of the probability of the predicted class and cut into groups of equal size.

    Parameters
    ----------
    stated : sequence of float
        Mean stated probability of each group.
    right : sequence of int
        Number of right answers of each group.
    rows : sequence of int
        Number of rows of each group.

    Attributes
    ----------
    error : float
        Mean distance between stated probability and share of right answers, weighted by rows.

    See Also
    --------
    ConfusionDisplay : Which classes are taken for which.

    Examples
    --------
    >>> import numpy as np
    >>> sure = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    >>> display = CalibrationDisplay.from_predictions(["a", "a", "b", "a"], sure, ["a", "b"], n_groups=2)
    >>> display.right, display.rows
    ([1, 2], [2, 2])
    """

    stated: Sequence[float]
    right: Sequence[int]
    rows: Sequence[int]

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, probabilities: ArrayLike, classes: ArrayLike, n_groups: int = 10
    ) -> Self:
        """Compare stated probabilities with what happened.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True classes.
        probabilities : array-like of shape (n_samples, n_classes)
            Stated probability of every class.
        classes : array-like of shape (n_classes,)
            The classes, in the order of the columns.
        n_groups : int, default=10
            Number of groups; fewer where there are fewer than 25 rows for each.

        Returns
        -------
        CalibrationDisplay
            The display.
        """
        sure = np.asarray(probabilities, dtype=np.float64)
        if sure.ndim != 2 or len(sure) == 0:
            raise InvalidInputError("probabilities must have one row per sample and one column per class")
        true, predicted = _alike(y_true, np.asarray(classes)[sure.argmax(axis=1)])
        order = np.argsort(sure.max(axis=1), kind="stable")
        groups = [
            part for part in np.array_split(order, min(n_groups, max(2, len(sure) // FEWEST))) if part.size
        ]
        hit = true == predicted
        return cls(
            [float(sure.max(axis=1)[part].mean()) for part in groups],
            [int(hit[part].sum()) for part in groups],
            [int(part.size) for part in groups],
        )

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, n_groups: int = 10) -> Self:
        """Ask a fitted classifier for probabilities of rows of known class.

        Parameters
        ----------
        estimator : object
            A fitted classifier with ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Rows that the classifier was not fitted to.
        y : array-like of shape (n_samples,)
            Their classes.
        n_groups : int, default=10
            Number of groups.

        Returns
        -------
        CalibrationDisplay
            The display.
        """
        return cls.from_predictions(y, estimator.predict_proba(X), estimator.classes_, n_groups)

    @property
    def error(self) -> float:
        """Mean distance between stated probability and share of right answers, weighted by rows."""
        rows = np.asarray(self.rows, dtype=np.float64)
        away = np.abs(np.asarray(self.stated) - np.asarray(self.right) / rows)
        return float(np.average(away, weights=rows))

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            Stated and true shares of each group.
        """
        told = ", ".join(
            f"{100 * sure:.0f} % stated, {100 * right / rows:.0f} % right"
            for sure, right, rows in zip(self.stated, self.right, self.rows, strict=True)
        )
        return f"Stated probability against share of right answers, {len(self.rows)} groups: {told}."

    def _draw(self, axes: Any) -> None:
        from onefold.audit import clopper_pearson

        shares = np.asarray(self.right) / np.asarray(self.rows)
        ends = np.transpose(
            [clopper_pearson(k, n, CONFIDENCE) for k, n in zip(self.right, self.rows, strict=True)]
        )
        low = min(0.95, float(min(ends[0].min(), min(self.stated))))
        axes.plot([0, 1], [0, 1], color=SLATE, linestyle="--", linewidth=1, label="as stated")
        away = np.abs(np.vstack([shares - ends[0], ends[1] - shares]))
        axes.errorbar(
            self.stated, shares, away, color=TEAL, marker="o", markersize=4, capsize=3, label="95 % intervals"
        )
        axes.set_xlim(max(0.0, low - 0.02), 1.0)
        axes.set_ylim(max(0.0, low - 0.02), 1.02)
        axes.set_xlabel("stated probability of the predicted class")
        axes.set_ylabel("share of right answers")
        axes.legend(fontsize=9, frameon=False)
        bare(axes)


def _alike(one: ArrayLike, other: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Two arrays of classes, as texts where their kinds differ."""
    first, second = np.asarray(one), np.asarray(other)
    if first.shape != second.shape or first.ndim != 1:
        raise InvalidInputError("true and predicted classes must be two lists of the same length")
    if first.dtype.kind != second.dtype.kind:
        return first.astype(str), second.astype(str)
    return first, second
