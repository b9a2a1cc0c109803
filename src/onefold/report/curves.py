"""Pictures of distances, of what privacy costs, as measured or forecast, and of what an attacker finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold.exceptions import InvalidInputError
from onefold.privacy.terms import shown
from onefold.report.displays import AMBER, INK, SLATE, STYLES, TEAL, Display, bare, labelled, shortened
from onefold.report.document import Section

if TYPE_CHECKING:
    from onefold.audit import AttackResult
    from onefold.release import Curve
    from onefold.tables import Schema

BINS = 40
SMALLEST_RATE = 1e-4
MOST_CORNERS = 400
HIGH = 0.85  # a score below which its number is written, so that nothing is cut
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
STEPS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # around the epsilon of a release
MOCK_CELLS = 600_000  # of made-up rows: beyond these the error of a count stays, and counts for less
FEWEST_ROWS = 2000  # of them, however many columns there are
NEAR = 0.1  # of the range of a column
CELLS = "rows in the right cell, worst column"
NUMBERS = "numbers near their place"
HEADING = "What another epsilon would give"
FREE = "No private row was read for this curve, and it costs no epsilon."
HOW = {
    CELLS: "A forecast. As many rows as the released number says are made up from the schema alone and "
    "counted with the same noise. The curve shows the share of rows that noise leaves in the right cell of a "
    "single column, for the column where this share is smallest. It does not say how good a model of the "
    "table will be.",
    NUMBERS: "Computed from the noise alone: the share of numbers that it moves by no more than a tenth of "
    "the range of their column, before anything is clipped or smoothed. It does not say how good a model of "
    "the table will be.",
}

WORTH = {
    CELLS: "What it is worth, by a forecast: noise leaves {share} of 100 rows in the right cell of a "
    "column, even of the worst one.",
    NUMBERS: "What it is worth: noise moves {share} of 100 numbers by no more than a tenth of the range "
    "of their column.",
}


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

    def _words(self) -> str:
        middles = (np.asarray(self.edges[1:]) + np.asarray(self.edges[:-1])) / 2
        told = []
        for name, counts in self.counts.items():
            half = np.searchsorted(np.cumsum(counts), sum(counts) / 2)
            told.append(f"{name}: half of {sum(counts)} rows are nearer than about {middles[half]:.3g}")
        return f"Histograms of the {self.label}: {', '.join(told)}."

    def _draw(self, axes: Any) -> None:
        for (name, counts), (colour, _) in zip(self.counts.items(), STYLES, strict=False):
            shares = np.asarray(counts) / max(1, sum(counts))
            axes.stairs(shares, self.edges, fill=True, color=colour, alpha=0.35)
            axes.stairs(shares, self.edges, color=colour, linewidth=1.2, label=shortened(name, 32))
        labelled(axes, self.label, "share of the group")


@dataclass(frozen=True)
class PrivacyUtilityDisplay(Display):
    """Utility against epsilon: how much is lost for which promise.

    Parameters
    ----------
    epsilons : sequence of float
        Epsilons in rising order.
    scores : mapping of str to sequence of float
        Mean score at each epsilon, for every kind of noise or method.
    spreads : mapping of str to sequence of float, default={}
        Standard error of each mean; groups that are missing have none.
    references : mapping of str to float, default={}
        Scores to compare with, such as that without noise and that of guessing.
    marked : float or None, default=None
        Epsilon of the release that the picture is about.
    measure : str, default="accuracy"
        What the scores are.
    unit : str, default="record"
        What epsilon protects.
    whole : bool, default=False
        Whether the axis of the scores reaches from 0 to 1, so that small differences look small.
    errors : mapping of str to sequence of float, default={}
        What an adversary is left with at each epsilon, drawn below the scores: one name, such as
        "least squared error of a record", with its values.

    See Also
    --------
    MembershipDisplay : What an attacker finds.

    Examples
    --------
    >>> display = PrivacyUtilityDisplay([0.5, 1.0], {"moments": [0.8, 0.9]}, marked=1.0)
    >>> display.describe()
    'Accuracy against epsilon per record: moments 0.800 at 0.5, 0.900 at 1. This release is at epsilon 1.'
    """

    epsilons: Sequence[float]
    scores: Mapping[str, Sequence[float]]
    spreads: Mapping[str, Sequence[float]] = field(default_factory=dict)
    references: Mapping[str, float] = field(default_factory=dict)
    marked: float | None = None
    measure: str = "accuracy"
    unit: str = "record"
    whole: bool = False
    errors: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        groups = (self.scores, self.spreads, self.errors)
        lengths = {len(values) for group in groups for values in group.values()}
        if not self.scores or lengths != {len(self.epsilons)}:
            raise InvalidInputError("every method needs one score for each epsilon")

    @classmethod
    def from_curve(
        cls, curve: Curve, marked: float | None = None, errors: Mapping[str, Sequence[float]] | None = None
    ) -> Self:
        """Take the scores of a sweep over strengths of noise.

        Parameters
        ----------
        curve : Curve
            What :func:`onefold.release.sweep` returned.
        marked : float or None, default=None
            Epsilon of the release that the picture is about.
        errors : mapping of str to sequence of float or None, default=None
            What an adversary is left with, by the strengths of the curve. None takes the bound on the squared
            error of a record.

        Returns
        -------
        PrivacyUtilityDisplay
            The display.
        """
        order = np.argsort([strength.epsilon for strength in curve.strengths], kind="stable")
        least = errors or {"least squared error of a record": [each.bound for each in curve.strengths]}
        return cls(
            [float(curve.strengths[place].epsilon) for place in order],
            {name: curve.mean(name)[order].tolist() for name in curve.scores},
            {name: np.nan_to_num(curve.standard_error(name))[order].tolist() for name in curve.scores},
            {"raw rows": float(curve.baseline)},
            marked,
            curve.measure,
            f"record at delta {curve.strengths[0].delta:g}, labels not covered",
            errors={name: np.asarray(values)[order].tolist() for name, values in least.items()},
        )

    def _words(self) -> str:
        told = [f"{name} {_along(self.epsilons, scores, '.3f')}" for name, scores in self.scores.items()]
        told += [f"{name} {score:.3f}" for name, score in self.references.items()]
        told += [f"{name} {_along(self.epsilons, values, '.3g')}" for name, values in self.errors.items()]
        here = "" if self.marked is None else f" This release is at epsilon {shown(self.marked)}."
        return f"{self.measure.capitalize()} against epsilon per {self.unit}: {'; '.join(told)}.{here}"

    def _height(self) -> float:
        return 5.6 if self.errors else 3.4

    def _draw(self, axes: Any) -> None:
        scale = f"epsilon per {self.unit}: left private, right useful"
        if self.errors:
            self._draw_errors(axes, scale)
            scale = ""
        for (name, score), line in zip(self.references.items(), ("-", "--", ":", "-."), strict=False):
            axes.axhline(score, color=INK, linewidth=1, linestyle=line, label=shortened(name, 32))
        for (name, scores), (colour, mark) in zip(self.scores.items(), STYLES, strict=False):
            spread = 2 * np.asarray(self.spreads.get(name, np.zeros(len(scores))))
            axes.errorbar(
                self.epsilons,
                scores,
                spread,
                color=colour,
                marker=mark,
                markersize=4,
                capsize=2,
                label=shortened(name, 32),
            )
        if self.whole and len(self.scores) == 1:  # there is room for the numbers themselves
            for epsilon, score in zip(self.epsilons, next(iter(self.scores.values())), strict=True):
                axes.annotate(
                    f"{score:.2f}",
                    (epsilon, score),
                    (0, -14 if score > HIGH else 7),
                    textcoords="offset points",
                    ha="center",
                    fontsize=9,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8},
                )
        if self.marked is not None:
            axes.axvline(self.marked, color=AMBER, linewidth=2, alpha=0.6, label="this release", zorder=1)
        axes.set_xscale("log")
        axes.set_xticks(self.epsilons, [shown(epsilon, 3) for epsilon in self.epsilons])
        axes.minorticks_off()
        if self.whole:
            axes.set_ylim(0.0, 1.02)
        labelled(axes, scale, self.measure)

    def _draw_errors(self, axes: Any, scale: str) -> None:
        """Draw errors into the lower part of the place that the axes had."""
        halves = axes.get_subplotspec().subgridspec(2, 1, height_ratios=(3, 2))
        axes.set_subplotspec(halves[0])
        below = axes.figure.add_subplot(halves[1], sharex=axes)
        for name, values in self.errors.items():
            below.loglog(self.epsilons, values, color=TEAL, marker="o", markersize=4)
            below.set_ylabel(shortened(name, 40), fontsize=9)
        below.set_xlabel(scale)
        bare(below)


@dataclass(frozen=True)
class MembershipDisplay(Display):
    """Members that an attacker finds against outsiders whom he accuses, on logarithmic axes.

    Small rates matter most: an attacker who is sure about a few members has hurt these.

    Parameters
    ----------
    accused : sequence of float
        Shares of outsiders that are taken for members.
    found : sequence of float
        Shares of members that are found at each of them.
    auc : float
        Area under the curve; 0.5 is guessing.
    interval : (float, float) or None, default=None
        Confidence interval of the area.

    See Also
    --------
    onefold.audit.audit_membership : Attack a classifier.

    Examples
    --------
    >>> from onefold.audit import distance_attack
    >>> round(MembershipDisplay.from_attack(distance_attack([1.0, 2.0], [3.0, 4.0])).auc, 3)
    1.0
    """

    accused: Sequence[float]
    found: Sequence[float]
    auc: float
    interval: Sequence[float] | None = None

    @classmethod
    def from_attack(cls, attack: AttackResult) -> Self:
        """Take the curve of an attack, thinned evenly on the logarithmic axis.

        Parameters
        ----------
        attack : AttackResult
            What :func:`onefold.audit.distance_attack` returned.

        Returns
        -------
        MembershipDisplay
            The display.
        """
        grid = np.geomspace(SMALLEST_RATE, 1.0, MOST_CORNERS)
        found = attack.tpr[np.searchsorted(attack.fpr, grid, side="right") - 1]
        return cls(
            grid.tolist(), found.tolist(), float(attack.auc), [float(end) for end in attack.auc_interval]
        )

    def _words(self) -> str:
        small, large = (
            100 * self.found[max(0, int(np.searchsorted(self.accused, rate, side="right")) - 1)]
            for rate in (1e-3, 1e-2)
        )
        return (
            f"ROC curve on logarithmic axes: {small:.2f} % of members found at 0.1 % false positives, "
            f"{large:.2f} % at 1 %, AUC {self.auc:.3f}. The dashed line is guessing."
        )

    def _height(self) -> float:
        return 3.6

    def _draw(self, axes: Any) -> None:
        ends = (SMALLEST_RATE, 1.0)
        axes.loglog(ends, ends, color=SLATE, linestyle="--", linewidth=1, label="guessing")
        axes.loglog(
            self.accused,
            np.maximum(self.found, SMALLEST_RATE),
            color=TEAL,
            linewidth=2,
            drawstyle="steps-post",
            label=f"attack, AUC {self.auc:.3f}",
        )
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        labelled(axes, "share of outsiders accused", "share of members found", loc="lower right")


def _along(places: Sequence[float], values: Sequence[float], how: str) -> str:
    """Numbers in words, each with its place."""
    return ", ".join(f"{value:{how}} at {shown(at, 3)}" for at, value in zip(places, values, strict=True))


# --- forecasts: what is declared and released gives them, no row is read -----------------------------------


def table_forecast(
    schema: Schema,
    epsilon: float | None,
    n_rows: int,
    unit: str = "record",
    delta: float = 1e-5,
    neighbours: Literal["add-remove", "replace"] = "add-remove",
    epsilons: Sequence[float] = EPSILONS,
) -> PrivacyUtilityDisplay:
    """Forecast the share of rows in the right cell of the worst column of a synthetic table.

    Rows are made up from the schema, no more than the curve needs, for a number of rows that is declared or
    released.

    Parameters
    ----------
    schema : Schema
        The schema of the table.
    epsilon : float or None
        Epsilon of the release that is marked, if there is one.
    n_rows : int
        Number of rows, declared or from noisy counts.
    unit : {"record", "person"}, default="record"
        What epsilon protects.
    delta : float, default=1e-5
        Delta of all releases.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        How neighbouring tables differ.
    epsilons : sequence of float, default=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
        Where the curve is computed besides.

    Returns
    -------
    PrivacyUtilityDisplay
        The curve.

    See Also
    --------
    noise_forecast : The same for noise on single numbers.

    Examples
    --------
    >>> from onefold.tables import Field, Schema
    >>> schema = Schema([Field("age", low=0, high=100), Field("sick", "boolean")])
    >>> shares = table_forecast(schema, 1.0, 1000).scores["forecast"]
    >>> bool(shares[0] < shares[-1] <= 1.0)
    True
    """
    from onefold.fabrication import TableSynthesizer, mock_table

    records = schema.without_person()
    own = schema if unit == "person" else records
    made_up = min(max(n_rows, 20), max(MOCK_CELLS // max(len(schema.fields), 1), FEWEST_ROWS))
    mock: dict[str, Any] = dict(mock_table(records, made_up, random_state=0))
    if unit == "person" and own.person is not None:
        mock[own.person.name] = [f"p{place // (own.rows_per_person or 1)}" for place in range(made_up)]
    wanted = sorted(epsilons if epsilon is None else {*epsilons, float(epsilon)})
    shares = []
    for each in wanted:
        counted = TableSynthesizer(own, each, delta, neighbours=neighbours, random_state=0).fit(mock)
        worst = max(counted.expected_errors_.values(), default=0.0)
        shares.append(float(max(0.0, 1.0 - worst * made_up / max(made_up, n_rows))))
    return _forecast(wanted, shares, epsilon, CELLS, unit)


def noise_forecast(
    noise_at: Callable[[float], Any],
    epsilon: float | None,
    width: float,
    unit: str = "entry",
    epsilons: Sequence[float] | None = None,
) -> PrivacyUtilityDisplay:
    """Compute the share of numbers that noise leaves within a tenth of their range, around an epsilon.

    Parameters
    ----------
    noise_at : callable
        The noise for an epsilon: a mechanism with ``cdf``, or Gaussian noise with ``standard_errors``.
    epsilon : float or None
        Epsilon of the release that is marked, if there is one.
    width : float
        Width of the declared range of a column, in the units of the noise.
    unit : {"entry", "record", "person"}, default="entry"
        What epsilon protects.
    epsilons : sequence of float or None, default=None
        Where the curve is computed; None takes eighths to eightfolds of ``epsilon``.

    Returns
    -------
    PrivacyUtilityDisplay
        The curve.

    See Also
    --------
    table_forecast : The same for tables that are drawn from noisy counts.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> curve = noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=1.0), 1.0, 1.0)
    >>> round(curve.scores["forecast"][curve.epsilons.index(1.0)], 3)  # 1 - exp(-0.1)
    0.095
    """
    places = [step * (epsilon or 1.0) for step in STEPS] if epsilons is None else list(epsilons)
    shares = [near(noise_at(each), NEAR * width) for each in places]
    return _forecast(places, shares, epsilon, NUMBERS, unit)


def _forecast(
    epsilons: Sequence[float], shares: Sequence[float], marked: float | None, measure: str, unit: str
) -> PrivacyUtilityDisplay:
    scores = {"forecast": shares}
    return PrivacyUtilityDisplay(epsilons, scores, marked=marked, measure=measure, unit=unit, whole=True)


def near(noise: Any, reach: float) -> float:
    """How likely noise is no larger than ``reach``."""
    if hasattr(noise, "cdf"):
        return float(noise.cdf(reach) - noise.cdf(-reach))
    return math.erf(reach / (float(noise.standard_errors(noise.n_features or 1)[0]) * math.sqrt(2.0)))


def curve_section(curve: PrivacyUtilityDisplay) -> Section:
    """Show a forecast, and say what it was made from.

    Parameters
    ----------
    curve : PrivacyUtilityDisplay
        What :func:`table_forecast` or :func:`noise_forecast` returned.

    Returns
    -------
    Section
        The picture under its heading.

    See Also
    --------
    onefold.report.builders.of_table : Takes it among the sections about quality.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> curve = noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=1.0), 1.0, 1.0)
    >>> curve_section(curve).title
    'What another epsilon would give'
    """
    return Section(HEADING, [HOW[curve.measure], FREE], display=curve)


def worth(curve: PrivacyUtilityDisplay) -> str:
    """Say what the marked release of a forecast is worth.

    Parameters
    ----------
    curve : PrivacyUtilityDisplay
        What :func:`table_forecast` or :func:`noise_forecast` returned.

    Returns
    -------
    str
        One sentence for the verdict.

    See Also
    --------
    curve_section : Shows all of the forecast.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> worth(noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=1.0), 1.0, 1.0))
    'What it is worth: noise moves 10 of 100 numbers by no more than a tenth of the range of their column.'
    """
    marked = 0.0 if curve.marked is None else curve.marked
    place = min(range(len(curve.epsilons)), key=lambda each: abs(curve.epsilons[each] - marked))
    return WORTH[curve.measure].format(share=f"{100 * curve.scores['forecast'][place]:.0f}")
