"""Reports on predicted numbers: how far predictions are off, beside always predicting the mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from onefold.report.builders import (
    ALIKE,
    HOLDS_ROWS,
    card_section,
    files_section,
    learned_section,
    privacy_sections,
    privacy_verdict,
)
from onefold.report.displays import Display
from onefold.report.document import Report, Section
from onefold.report.verdicts import CONFIDENCE, Measure, number_verdict

if TYPE_CHECKING:
    from onefold.federated import RegressionSimulation
    from onefold.privacy import Guarantee

__all__ = ["SIMULATED", "NumberEvaluation", "evaluate_numbers", "of_number_simulation", "of_numbers"]

HOLDS_SUMS = (
    "It promises no privacy: the file holds exact sums over the rows that it was fitted to, and errors of "
    "single rows. Guard it like the data."
)
RAW_ERRORS = (
    "The errors on this page come from raw rows and are covered by no epsilon: do not publish this page."
)
SIMULATED = (
    "The errors come from raw rows, those of one model without any noise, and no epsilon covers them: keep "
    "them to yourself. The promise is about what each site would send, and about nothing else here."
)
APPROXIMATE = (
    "The interval of R2 is a large-sample approximation, for independent rows that the model was not fitted "
    "to."
)
PICTURES = "The pictures count rows by their numbers: a cell with one row tells about where this row lies."


@dataclass(frozen=True)
class NumberEvaluation:
    """What predictions of numbers are worth.

    Attributes
    ----------
    rows : int
        Number of rows with a known number.
    rmse, rmse_of_the_mean : float
        Root of the mean squared error, and that of always predicting the mean.
    mean_absolute_error, absolute_error_of_the_median : float
        Mean of the absolute errors, and that of always predicting the median: no other number has less.
    r2 : float
        Share of the variance that is explained; NaN where all numbers are equal.
    r2_interval : tuple of float or None
        95 % interval of this share; None where rows depend on each other or say nothing.
    gain_interval : tuple of float or None
        The same for how much smaller absolute errors are than those of the median.
    covered, level : float or None
        Share of the numbers inside their intervals, and the share that was aimed at.
    """

    rows: int
    rmse: float
    rmse_of_the_mean: float
    mean_absolute_error: float
    absolute_error_of_the_median: float
    r2: float
    r2_interval: tuple[float, float] | None = None
    gain_interval: tuple[float, float] | None = None
    covered: float | None = None
    level: float | None = None

    @property
    def measures(self) -> list[Measure]:
        """The measures beside the mean alone; none where there are no intervals."""
        if self.r2_interval is None or self.gain_interval is None:
            return []
        gain = self.absolute_error_of_the_median - self.mean_absolute_error
        return [
            Measure("R2", self.r2, self.r2_interval, 0.0),
            Measure("gain in absolute error", gain, self.gain_interval, 0.0),
        ]

    @property
    def verdict(self) -> str:
        """What follows from the measures, and what to do next."""
        return number_verdict(self.measures)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; what was not measured is left out."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        told = {"outcomes": {each.name: each.outcome for each in self.measures}}
        return known | told | {"verdict": self.verdict}

    def words(self, about: str) -> list[str]:
        """The measures in lines; ``about`` says which rows they are about."""
        alone = f"root mean square; the mean alone {self.rmse_of_the_mean:.4g}"
        line = f"{about}: error {self.rmse:.4g} ({alone}), R2 {self.r2:.3f}"
        if self.covered is not None:
            line += f", {100 * self.covered:.0f} % of the numbers are in their intervals"
        return [line, self.verdict]


def evaluate_numbers(
    predicted: ArrayLike,
    observed: ArrayLike,
    *,
    mean: float | None = None,
    ends: tuple[ArrayLike, ArrayLike] | None = None,
    level: float | None = None,
    bounded: bool = True,
) -> NumberEvaluation:
    """Compare predicted numbers with the true ones.

    Parameters
    ----------
    predicted : array-like of shape (n,)
        What was predicted.
    observed : array-like of shape (n,)
        The true numbers.
    mean : float or None, default=None
        What always predicting the mean would say, known from the rows that were learned from; None takes the
        mean of ``observed``.
    ends : pair of array-like of shape (n,) or None, default=None
        Lower and upper ends of intervals.
    level : float or None, default=None
        Share of the numbers that the intervals aim at.
    bounded : bool, default=True
        Whether the rows are independent of each other, so that R2 has an interval.

    Returns
    -------
    NumberEvaluation
        The measures.

    Examples
    --------
    >>> found = evaluate_numbers([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
    >>> round(found.rmse, 3), round(found.r2, 3), found.rmse < found.rmse_of_the_mean
    (0.577, 0.786, True)
    """
    from onefold.audit.intervals import mean_interval, r2_interval

    guess, truth = (np.asarray(part, dtype=np.float64) for part in (predicted, observed))
    errors, constant = np.abs(guess - truth), float(truth.mean()) if mean is None else mean
    of_the_median = np.abs(np.median(truth) - truth)  # the mean is beaten by other constants in skewed laws
    squared, spread = float(np.mean(errors**2)), float(np.var(truth))
    interval = r2_interval(guess, truth, CONFIDENCE) if bounded else None
    gain = None if interval is None else mean_interval(of_the_median - errors, CONFIDENCE)
    inside = None
    if ends is not None:
        low, high = (np.asarray(end, dtype=np.float64) for end in ends)
        inside = float(np.mean((low <= truth) & (truth <= high)))
    return NumberEvaluation(
        len(truth),
        math.sqrt(squared),
        math.sqrt(float(np.mean((constant - truth) ** 2))),
        float(np.mean(errors)),
        float(np.mean(of_the_median)),
        1.0 - squared / spread if spread > 0.0 else math.nan,
        interval,
        gain,
        inside,
        None if inside is None else level,
    )


def of_numbers(
    title: str,
    facts: Mapping[str, Any],
    *,
    evaluation: NumberEvaluation | None = None,
    about: str = "rows that the model was not fitted to",
    evidence: Mapping[str, Display] | None = None,
    guarantee: Guarantee | None = None,
    card: Mapping[str, str] | None = None,
    estimated: Mapping[str, float] | None = None,
) -> Report:
    """Report on a model that predicts numbers.

    Parameters
    ----------
    title : str
        Heading of the page.
    facts : mapping of str to Any
        What was learned from what: names and values.
    evaluation : NumberEvaluation or None, default=None
        How good predictions of rows with known numbers are; None if there were no such rows.
    about : str, default="rows that the model was not fitted to"
        Which rows these were.
    evidence : mapping of str to Display or None, default=None
        Pictures under their headings.
    guarantee : Guarantee or None, default=None
        What is promised about sums; one that does not hold promises nothing. None for a model of rows, whose
        file contains them.
    card : mapping of str to str or None, default=None
        What people say about the model: any of the fields of a model card.
    estimated : mapping of str to float or None, default=None
        The model's own estimate of its error, where no rows were held out.

    Returns
    -------
    Report
        The report.

    Examples
    --------
    >>> page = of_numbers("Costs", {"rows": 3}, evaluation=evaluate_numbers([1.0, 2.0], [1.0, 3.0]))
    >>> page.verdict[0]
    'Predictions are off by 0.7071 (root mean square); always predicting the mean would be off by 1.'
    """
    told, sections = _goodness(evaluation, about, estimated)
    verdict, promise = [*told, HOLDS_ROWS], list[Section]()
    if guarantee is not None and not math.isfinite(guarantee.record[0]):  # no noise was added
        verdict = [*told, HOLDS_SUMS]
    elif guarantee is not None:
        raw = [RAW_ERRORS] if guarantee.holds and evaluation is not None else []
        verdict, promise = [*privacy_verdict(guarantee), *told, *raw], privacy_sections(guarantee)
    pictures = [Section(name, [PICTURES], display=display) for name, display in (evidence or {}).items()]
    return Report(
        "model",
        title,
        verdict,
        [
            learned_section("What was learned from what", facts),
            *sections,
            *pictures,
            *promise,
            card_section(card),
            files_section(facts),
        ],
    )


def _goodness(
    found: NumberEvaluation | None, about: str, estimated: Mapping[str, float] | None
) -> tuple[list[str], list[Section]]:
    """The verdict on the error, and the section that shows it."""
    if found is None:
        if estimated is None:
            return ["How good it is was not measured: no rows with known numbers were given."], []
        beside = estimated.get("rmse_of_the_mean")
        mean = "" if beside is None else f"; always predicting the mean would be off by {beside:.4g}"
        if "one_deviation_more" in estimated:
            low, high = estimated["one_deviation_less"], estimated["one_deviation_more"]
            mean += f"; one standard deviation of the noise in this estimate is {low:.4g} to {high:.4g}"
        told = f"By its own estimate predictions are off by {estimated['rmse']:.4g} (root mean square){mean}."
        shown = {name.replace("_", " "): value for name, value in estimated.items()}
        return [told], [Section("Estimated error", facts=shown)]
    told = (
        f"Predictions are off by {found.rmse:.4g} (root mean square); always predicting the mean would be "
        f"off by {found.rmse_of_the_mean:.4g}."
    )
    facts: dict[str, Any] = {
        "rows": found.rows,
        "root mean square error": found.rmse,
        "the same for the mean": found.rmse_of_the_mean,
        "mean absolute error": found.mean_absolute_error,
        "that of the median": found.absolute_error_of_the_median,
        "R2": found.r2,
    }
    if found.r2_interval is not None:
        facts["95 % interval of R2"] = [round(end, 4) for end in found.r2_interval]
    if found.covered is not None:
        facts["share of numbers inside their intervals"] = found.covered
        facts["share that was aimed at"] = found.level
    why = APPROXIMATE if found.r2_interval is not None else ALIKE
    return [told, f"{found.verdict}."], [Section("Error", [f"Measured on {about}.", why], facts)]


def of_number_simulation(
    title: str, result: RegressionSimulation, settings: Mapping[str, Any], told: Sequence[str]
) -> Report:
    """Report on a federation for numbers that was simulated in one process.

    Parameters
    ----------
    title : str
        Heading of the page.
    result : RegressionSimulation
        What :func:`onefold.federated.simulate_regression` returned.
    settings : mapping of str to Any
        Parameters of the run.
    told : sequence of str
        The result in words.

    Returns
    -------
    Report
        The report.
    """
    rows = [["always the mean", result.rmse_mean, None]]
    alone = zip(result.rmse_alone, result.r2_alone.tolist(), strict=True)
    rows += [[f"site {place} alone", *pair] for place, pair in enumerate(alone, 1)]
    rows += [["together, one round", result.rmse, result.r2]]
    rows += [["all rows in one place, without noise", result.rmse_pooled, result.r2_pooled]]
    lead = (
        f"Together the sites are off by {result.rmse:.4g} (root mean square) in one round; alone by "
        f"{min(result.rmse_alone):.4g} to {max(result.rmse_alone):.4g}, and always predicting the mean by "
        f"{result.rmse_mean:.4g}."
    )
    lead += f" {simulated_verdict(result)}."
    verdict, promise = [lead, "No noise was added: this says nothing about privacy."], list[Section]()
    if result.guarantee.holds:
        verdict = [lead, SIMULATED, *privacy_verdict(result.guarantee)]
        promise = privacy_sections(result.guarantee)
    sections = [
        Section("The numbers", headers=["model", "root mean square error", "R2"], rows=rows),
        Section("In words", notes=[line for line in told if line.strip()]),
        Section("Settings", facts=settings),
        *promise,
    ]
    return Report("comparison", title, verdict, sections)


def simulated_verdict(result: RegressionSimulation) -> str:
    """What the numbers that a simulated federation predicts are worth."""
    if result.r2_interval is None:
        return number_verdict([])
    return number_verdict([Measure("R2", result.r2, result.r2_interval, 0.0)])
