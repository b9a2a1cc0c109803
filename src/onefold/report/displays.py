"""Pictures in scikit-learn's manner: numbers computed once, then drawn, told, stored (extra ``report``).

Here are what all pictures share and those of predictions; those of privacy are in ``curves``.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ValidationError

from onefold._base.arrays import AnyArray
from onefold._base.files import output_file
from onefold._base.optional import require
from onefold._base.records import CONFIG, _adapter, first_fault
from onefold.exceptions import InvalidInputError
from onefold.report.evaluation import confusion_of, of_one_kind

# Readable for colour-blind eyes: the colours differ in lightness too.
INK, TEAL, AMBER, SLATE, VIOLET, PALE = "#1f2933", "#0b7a75", "#d08c00", "#5b6b7f", "#3d348b", "#a9b4c2"
PAGE_WIDTH = 5.2  # inches, of a figure on a page
FORMATS = (".png", ".svg", ".pdf")
KIND_COLOURS = {"alone": PALE, "reference": PALE, "pooled": SLATE, "federated": TEAL, "private": VIOLET}
STYLES = ((TEAL, "o"), (AMBER, "s"), (SLATE, "^"), (VIOLET, "D"))
MANY_CLASSES = 20  # above this number the cells of a matrix are too small for text
FEW_CLASSES = 4  # up to this number they are wide
FEWEST = 25  # rows of a group that says something
CELLS = 24  # of observed and predicted numbers, in each direction


# --- what all displays share --------------------------------------------------------------------------------


class Display(ABC):
    """Numbers of a picture, computed once and drawn as often as wanted, as in scikit-learn.

    A class method such as ``from_estimator`` computes the numbers, :meth:`plot` draws them into given axes
    or a figure of their own, :meth:`describe` says them in words, and :attr:`numbers` gives them as plain
    values, from which :func:`onefold.report.displays.display_of` makes the same display again.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where the display was drawn last.
    figure_ : matplotlib.figure.Figure
        The figure of these axes.

    See Also
    --------
    ConfusionDisplay : True against predicted classes.
    FoldingDisplay : Distances of groups of rows.

    Examples
    --------
    >>> from onefold.report import ConfusionDisplay
    >>> display = ConfusionDisplay.from_predictions(["a", "a", "b"], ["a", "b", "b"])
    >>> display.numbers["counts"]
    [[1, 1], [0, 1]]
    """

    __pydantic_config__ = CONFIG

    ax_: Any
    figure_: Any

    @abstractmethod
    def _draw(self, axes: Any) -> None:
        """Draw into axes."""

    @abstractmethod
    def _words(self) -> str:
        """Say what :meth:`describe` returns."""

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            One or a few sentences with the numbers.
        """
        return self._words()

    def _height(self) -> float:
        """Height of a figure of its own, in inches."""
        return 3.4

    def plot(self, ax: Any = None) -> Self:
        """Draw the numbers.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw. None makes a figure that matplotlib's global state does not know.

        Returns
        -------
        Display
            This object, with ``ax_`` and ``figure_``.
        """
        axes = new_figure(PAGE_WIDTH, self._height()).add_subplot() if ax is None else ax
        self._draw(axes)
        # The pictures are not part of the numbers: a frozen display may be drawn too.
        object.__setattr__(self, "ax_", axes)
        object.__setattr__(self, "figure_", axes.figure)
        return self

    def to_svg(self) -> str:
        """Draw the numbers into a figure of their own.

        Returns
        -------
        str
            The figure as SVG text; the same numbers give the same text with the same matplotlib.
        """
        matplotlib = require("matplotlib", "report")
        target = io.StringIO()
        with matplotlib.rc_context({"svg.hashsalt": "onefold", "svg.fonttype": "path", "font.size": 10}):
            self.plot().figure_.savefig(target, format="svg", metadata={"Date": None}, transparent=True)
        return target.getvalue()

    @property
    def numbers(self) -> dict[str, Any]:
        """The fields by name and the name of the class, as plain values for JSON."""
        plain: dict[str, Any] = _adapter(type(self)).dump_python(self, mode="json")
        return {"display": type(self).__name__, **plain}


def display_of(numbers: Any) -> Display:
    """Make the display again whose :attr:`Display.numbers` these are."""
    plain = dict(numbers) if isinstance(numbers, Mapping) else {}
    kinds: dict[Any, type[Display]] = {each.__name__: each for each in Display.__subclasses__()}
    kind = kinds.get(str(plain.pop("display", None)))
    if kind is None:
        raise InvalidInputError("this describes no display that onefold knows")
    try:
        return _adapter(kind).validate_json(json.dumps(plain))
    except ValidationError as error:
        fault = first_fault(error)
        raise InvalidInputError(f"this does not describe a {kind.__name__}: {fault}") from None


def new_figure(width: float, height: float) -> Any:
    """A figure of its own, which matplotlib's global state does not know."""
    return require("matplotlib.figure", "report").Figure(figsize=(width, height), layout="constrained")


def figure_format(path: str) -> str:
    """What the name of a figure asks for, such as "png"; refuse other names, and a missing matplotlib."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InvalidInputError(f"{path}: the name of a figure must end in {', '.join(FORMATS)}")
    require("matplotlib.figure", "report")
    return suffix[1:]


def write_figure(path: str, figure: Any) -> None:
    """Write a figure to a file that ends in .png, .svg or .pdf, whole or not at all.

    Parameters
    ----------
    path : str
        The file.
    figure : matplotlib.figure.Figure
        The figure, such as ``figure_`` of a display that was drawn.
    """
    kind = figure_format(path)
    with output_file(path, public=True) as file:
        figure.savefig(file, format=kind, dpi=150)


def shortened(name: str, most: int = 22) -> str:
    """A name of limited length, with the dollar signs escaped that matplotlib would read as a formula."""
    text = name if len(name) <= most else name[: most - 1] + "…"
    return text.replace("$", r"\$")


def in_lines(name: str, width: int = 12, most: int = 3) -> str:
    """A name in a few short lines, for an axis."""
    return shortened(
        "\n".join(wrap(name, width, max_lines=most, placeholder="…")) or name, width * most + most
    )


def bare(axes: Any, *sides: str) -> None:
    """Take away some of the four lines around axes, by default those above and on the right."""
    for side in sides or ("top", "right"):
        axes.spines[side].set_visible(False)


def labelled(axes: Any, x: str, y: str, **legend: Any) -> None:
    """Name both axes, and what was drawn."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(fontsize=9, frameon=False, **legend)
    bare(axes)


def _heat(axes: Any, counts: AnyArray, shades: AnyArray, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Counts as colours, with numbers and names as far as there is room for them."""
    axes.imshow(shades, cmap="GnBu", vmin=0, vmax=1, aspect="auto")
    if len(columns) <= MANY_CLASSES:
        for place, count in np.ndenumerate(counts):
            colour = "white" if shades[place] > 0.6 else INK if count else SLATE
            size = 9 if count < 1000 else 7
            axes.text(place[1], place[0], str(count), ha="center", va="center", color=colour, fontsize=size)
        few = len(columns) <= FEW_CLASSES  # the cells are wide enough for a few words
        names = [in_lines(name) if few else shortened(name, 12) for name in columns]
        turned = 60 if not few and max(map(len, names)) > 2 else 0
        axes.set_xticks(range(len(columns)), names, rotation=turned)
    if len(rows) <= MANY_CLASSES:
        axes.set_yticks(range(len(rows)), [shortened(name, 24) for name in rows])
    axes.tick_params(length=0)
    bare(axes, "top", "right", "left", "bottom")


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

    def _words(self) -> str:
        told = ", ".join(f"{name} {value:.3f}" for name, value in zip(self.names, self.values, strict=True))
        return f"Bar chart of {self.label}: {told}."

    def _height(self) -> float:
        return 0.9 + 0.34 * len(self.names)

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
        classes, counts, _ = confusion_of(*_alike(y_true, y_pred))
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

    def _words(self) -> str:
        told = ", ".join(
            f"class {name}: {row[place]} of {sum(row)} right"
            for place, (name, row) in enumerate(zip(self.classes, self.counts, strict=True))
            if sum(row)
        )
        return f"Matrix of true against predicted classes: {told}."

    def _height(self) -> float:
        n_classes = len(self.classes)
        return 1.2 + 0.42 * n_classes if n_classes <= FEW_CLASSES else min(5.2, 1.5 + 0.36 * n_classes)

    def _draw(self, axes: Any) -> None:
        counts, names = np.asarray(self.counts), [str(name) for name in self.classes]
        _heat(axes, counts, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), names, names)
        if len(names) > FEW_CLASSES:
            axes.set_aspect("equal")
        axes.set_xlabel("predicted class")
        axes.set_ylabel("true class")


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

    def _words(self) -> str:
        told = ", ".join(
            f"{100 * sure:.0f} % stated, {100 * right / rows:.0f} % right"
            for sure, right, rows in zip(self.stated, self.right, self.rows, strict=True)
        )
        return f"Stated probability against share of right answers, {len(self.rows)} groups: {told}."

    def _draw(self, axes: Any) -> None:
        from onefold.audit import clopper_pearson

        shares = np.asarray(self.right) / np.asarray(self.rows)
        ends = np.transpose([clopper_pearson(*pair) for pair in zip(self.right, self.rows, strict=True)])
        low = min(0.95, float(min(ends[0].min(), min(self.stated))))
        axes.plot([0, 1], [0, 1], color=SLATE, linestyle="--", linewidth=1, label="as stated")
        away = np.abs(np.vstack([shares - ends[0], ends[1] - shares]))
        axes.errorbar(
            self.stated, shares, away, color=TEAL, marker="o", markersize=4, capsize=3, label="95 % intervals"
        )
        axes.set_xlim(max(0.0, low - 0.02), 1.0)
        axes.set_ylim(max(0.0, low - 0.02), 1.02)
        labelled(axes, "stated probability of the predicted class", "share of right answers")


def _alike(one: ArrayLike, other: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Two arrays of classes, as texts where their kinds differ."""
    first, second = np.asarray(one), np.asarray(other)
    if first.shape != second.shape or first.ndim != 1:
        raise InvalidInputError("true and predicted classes must be two lists of the same length")
    return of_one_kind(first, second)


@dataclass(frozen=True)
class ClassCountsDisplay(Display):
    """Samples of each class (columns) at each site (rows), as a heat map.

    Parameters
    ----------
    sites : sequence of str
        Names of the sites.
    classes : sequence of str
        Names of the classes.
    counts : sequence of sequences of int
        Number of samples by site and class.

    See Also
    --------
    AccuracyDisplay : How good each site is alone, and all together.

    Examples
    --------
    >>> ClassCountsDisplay(["north"], ["a", "b"], [[3, 0]]).describe()
    'Heat map of samples per site and class: north holds 3 samples of 1 classes.'
    """

    sites: Sequence[str]
    classes: Sequence[str]
    counts: Sequence[Sequence[int]]

    def _words(self) -> str:
        told = ", ".join(
            f"{name} holds {sum(row)} samples of {sum(count > 0 for count in row)} classes"
            for name, row in zip(self.sites, self.counts, strict=True)
        )
        return f"Heat map of samples per site and class: {told}."

    def _height(self) -> float:
        return 1.3 + 0.34 * len(self.counts)

    def _draw(self, axes: Any) -> None:
        counts = np.asarray(self.counts)
        _heat(axes, counts, counts / max(int(counts.max(initial=0)), 1), self.sites, self.classes)
        axes.set_xlabel("class")


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
    too_low : int, default=0
        Number of rows predicted too low.
    too_high : int, default=0
        Number of rows predicted too high.

    See Also
    --------
    ConfusionDisplay : The same for classes.

    Examples
    --------
    >>> ObservedDisplay.from_predictions([1.0, 2.0, 3.0], [1.5, 2.0, 2.5]).describe()
    'Observed against predicted number, 3 rows: 1 to 3 and 1.5 to 2.5; 1 predicted too low, 1 too high.'
    """

    edges: Sequence[float]
    counts: Sequence[Sequence[int]]
    label: str = "number"
    observed: Sequence[float] = (0.0, 0.0)
    predicted: Sequence[float] = (0.0, 0.0)
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
        ObservedDisplay
            The display.
        """
        truth, guess = _pair(observed, predicted)
        low, high = (float(end) for end in (min(truth.min(), guess.min()), max(truth.max(), guess.max())))
        edges = np.linspace(low, high if high > low else low + 1.0, CELLS + 1)
        counts = np.histogram2d(guess, truth, bins=(edges, edges))[0].astype(int)
        seen, told = ([float(each.min()), float(each.max())] for each in (truth, guess))
        too_low, too_high = int(np.sum(guess < truth)), int(np.sum(guess > truth))
        return cls(edges.tolist(), counts.tolist(), label, seen, told, too_low, too_high)

    def _words(self) -> str:
        n_rows = sum(map(sum, self.counts))
        ranges = [f"{low:.4g} to {high:.4g}" for low, high in (self.observed, self.predicted)]
        return (
            f"Observed against predicted {self.label}, {n_rows} rows: {ranges[0]} and {ranges[1]}; "
            f"{self.too_low} predicted too low, {self.too_high} too high."
        )

    def _height(self) -> float:
        return 4.2

    def _draw(self, axes: Any) -> None:
        counts = np.array(self.counts, dtype=float)
        shown = np.ma.masked_equal(counts, 0.0)
        drawn = axes.pcolormesh(self.edges, self.edges, shown, cmap="GnBu", vmin=0.0, rasterized=False)
        axes.figure.colorbar(drawn, ax=axes, label="rows")
        axes.plot(self.edges[:: len(self.edges) - 1], self.edges[:: len(self.edges) - 1], color=INK, lw=1)
        axes.set_xlabel(f"observed {self.label}".replace("$", r"\$"))
        axes.set_ylabel("predicted")


def _pair(observed: ArrayLike, predicted: ArrayLike) -> tuple[Any, Any]:
    truth, guess = (np.asarray(part, dtype=np.float64) for part in (observed, predicted))
    if truth.ndim != 1 or truth.shape != guess.shape or not truth.size:
        raise InvalidInputError("observed and predicted must hold one number for each row, at least one")
    if not (np.isfinite(truth).all() and np.isfinite(guess).all()):
        raise InvalidInputError("observed and predicted must be finite numbers")
    return truth, guess
