"""What predictions of classes and of numbers are worth, beside what is reached without the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Mask
from onefold.exceptions import printable

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
# Cells times classes beyond which a reference model would take longer than the model itself.
MOST_WORK = 60_000_000
MOST_BOOSTED_CLASSES = 30
SHOWN_CLASSES = 12
SHOWN_WORST = 3  # of more classes than are shown
SHOWN_CHARACTERS = 16
CLEAR_GAIN = 0.02  # of another model, from which on it is worth a word


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


def measures_of(*given: tuple[str, Any, tuple[float, float] | None, float]) -> list[Measure]:
    """Those that have an interval, of measures by name, value, interval and baseline."""
    return [
        Measure(name, value, interval, base) for name, value, interval, base in given if interval is not None
    ]


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


def numbers_of(evaluation: Evaluation | NumberEvaluation) -> dict[str, Any]:
    """What was measured, its outcomes and the verdict, as plain values for JSON."""
    numbers = {name: value for name, value in vars(evaluation).items() if value is not None}
    if isinstance(evaluation, Evaluation):
        numbers["missed"] = missed(evaluation.classes, evaluation.confusion, bounded=evaluation.bounded)
    outcomes = {measure.name: measure.outcome for measure in evaluation.measures}
    return numbers | {"outcomes": outcomes, "verdict": evaluation.verdict}


def rounded_up(number: float, digits: int) -> float:
    """The number with so many digits after the point, and no smaller: for upper bounds."""
    return math.ceil(number * 10.0**digits - DUST) / 10.0**digits


def rounded_down(number: float, digits: int) -> float:
    """The number with so many digits after the point, and no larger: for lower bounds."""
    return math.floor(number * 10.0**digits + DUST) / 10.0**digits


# --- classes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evaluation:
    """What predictions for rows of known class are worth.

    Attributes
    ----------
    accuracy, balanced_accuracy : float
        Share of the rows predicted right, and the mean of this share over the classes.
    majority : float
        Share that always answering the most frequent class would predict right.
    classes : list
        The classes, in the order of the confusion matrix.
    confusion : list of list of int
        Number of rows by true class (outer list) and predicted class.
    auc : float or None
        For two classes: chance that a row of the second class has the higher score of the two.
    linear, boosting : float or None
        Share that logistic regression and gradient boosting predict right; None if they were not tried.
    boosting_is_better : bool
        Whether boosting is ahead by more than two points and by more than chance explains.
    bounded : bool
        Whether the rows are independent of each other, so that shares of missed rows have bounds.
    gain_interval, balanced_interval, auc_interval : tuple of float or None
        95 % intervals of the accuracy less that of the most frequent class, of the balanced accuracy and of
        the area; None where the rows depend on each other.
    """

    rows: int
    accuracy: float
    balanced_accuracy: float
    majority: float
    classes: list[Any]
    confusion: list[list[int]]
    auc: float | None = None
    linear: float | None = None
    boosting: float | None = None
    boosting_is_better: bool = False
    bounded: bool = True
    gain_interval: tuple[float, float] | None = None
    balanced_interval: tuple[float, float] | None = None
    auc_interval: tuple[float, float] | None = None

    @property
    def measures(self) -> list[Measure]:
        """The measures beside what is reached without the model; none where there are no intervals."""
        present = sum(map(any, self.confusion))
        return measures_of(
            ("gain in accuracy", self.accuracy - self.majority, self.gain_interval, 0.0),
            ("balanced accuracy", self.balanced_accuracy, self.balanced_interval, 1.0 / max(present, 1)),
            ("AUC", self.auc, self.auc_interval, 0.5),
        )

    @property
    def verdict(self) -> str:
        """What follows from the measures, and what to do next."""
        return class_verdict(self.measures)

    def words(self, about: str, condition: str | None = None) -> list[str]:
        """The measures in lines; ``about`` says which rows they are about, ``condition`` when bounds hold."""
        beside = [f"guessing the majority {self.majority:.4f}"]
        if self.linear is not None:
            beside.append(f"a linear model {self.linear:.4f}")
        lines = [f"accuracy {self.accuracy:.4f} on {about} ({', '.join(beside)})"]
        auc = "" if self.auc is None else f", area under the ROC curve {self.auc:.4f}"
        lines.append(f"balanced accuracy {self.balanced_accuracy:.4f}{auc}")
        lines.append(self.verdict)
        if self.bounded and condition is not None:
            lines.append(condition)
        lines += in_words(missed(self.classes, self.confusion, bounded=self.bounded))
        lines += self._matrix()
        if self.boosting_is_better:
            lines.append(
                f"gradient boosting reaches {self.boosting:.4f} on the same rows: where the data may be in "
                "one place, it is the better tool for this table (HistGradientBoostingClassifier of "
                "scikit-learn)"
            )
        return lines

    def _matrix(self) -> list[str]:
        if len(self.classes) > SHOWN_CLASSES:
            return [f"the confusion matrix of {len(self.classes)} classes is in the output of --json"]
        names = [_short(printable(str(label))) for label in self.classes]
        first = max(len(name) for name in names)
        width = max(first, *(len(str(count)) for row in self.confusion for count in row))
        head = " " * (first + 4) + "  ".join(name.rjust(width) for name in names)
        rows = [
            f"  {name.ljust(first)}  " + "  ".join(str(count).rjust(width) for count in counts)
            for name, counts in zip(names, self.confusion, strict=True)
        ]
        return ["true class by row, predicted class by column:", head, *rows]


def missed(classes: list[Any], confusion: Any, *, bounded: bool) -> list[dict[str, Any]]:
    """Of each class that has rows how many are missed, and with what share at most, 95 % confidence each.

    The bound holds for rows that neither fitting nor choosing has used; for others leave it out.
    """
    from onefold.bounds import held_out_error_bound

    counts = np.asarray(confusion)
    found = []
    for label, mine, right in zip(classes, counts.sum(axis=1), np.diag(counts), strict=True):
        known = {"class": label, "rows": int(mine), "missed": int(mine - right)}
        if bounded:
            known["at_most"] = float(held_out_error_bound(mine - right, mine, 1.0 - CONFIDENCE))
        found += [known] if mine else []
    return found


def in_words(found: list[dict[str, Any]]) -> list[str]:
    """A line for each class, or of many classes for those with the largest shares."""
    share = [each.get("at_most", each["missed"] / each["rows"]) for each in found]
    worst = sorted(range(len(found)), key=lambda place: -share[place])
    shown = range(len(found)) if len(found) <= SHOWN_CLASSES else worst[:SHOWN_WORST]
    lines = []
    for place in shown:
        each = found[place]
        name, counts = _short(printable(str(each["class"]))), f"{each['missed']} of {each['rows']}"
        if "at_most" in each:
            lines.append(
                f"class {name}: at most {100 * rounded_up(share[place], 3):.1f} % of its rows are missed, "
                f"{100 * CONFIDENCE:.0f} % confidence ({counts} here)"
            )
        else:
            lines.append(f"class {name}: about {100 * share[place]:.1f} % of its rows are missed ({counts})")
    if len(shown) < len(found):
        lines.append(f"the other {len(found) - len(shown)} classes are no worse, see the output of --json")
    return lines


def of_one_kind(one: AnyArray, other: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Two arrays of classes, as texts where their kinds differ."""
    return (one, other) if one.dtype.kind == other.dtype.kind else (one.astype(str), other.astype(str))


def confusion_of(true: AnyArray, predicted: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The classes, number of rows by true and predicted class, and places of the true classes."""
    classes, codes = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(counts, (codes[: len(true)], codes[len(true) :]), 1)
    return classes, counts, codes[: len(true)]


def evaluate(
    predicted: AnyArray,
    labels: AnyArray,
    *,
    scores: AnyArray | None = None,
    common: Any = None,
    bounded: bool = True,
) -> Evaluation:
    """Compare predictions with the true classes.

    ``scores`` are higher for the second of two classes; ``common`` is the most frequent class of the rows
    that were learned from, by default that of ``labels``.
    """
    if predicted.dtype.kind != labels.dtype.kind and common is not None:
        common = str(common)
    classes, confusion, true = confusion_of(*of_one_kind(labels, predicted))
    result = evaluate_counts(classes, confusion, common=common, bounded=bounded)
    two = len(classes) == 2 and bool(np.all(confusion.sum(axis=1)))
    if scores is None or scores.ndim != 1 or not two or not np.isfinite(scores).all():
        return result
    from onefold.audit.intervals import area_interval

    area, interval = area_interval(scores[true == 1], scores[true == 0], CONFIDENCE)
    return replace(result, auc=area, auc_interval=interval if bounded else None)


def evaluate_counts(
    classes: AnyArray, confusion: AnyArray, *, common: Any = None, bounded: bool = True
) -> Evaluation:
    """Measure what a confusion matrix tells: true classes by row, predicted ones by column."""
    from onefold.audit.intervals import gain_interval, mean_share_interval

    counts = np.asarray(confusion)
    sizes, right = counts.sum(axis=1), np.diag(counts)
    present, n_rows, n_right = sizes > 0, int(counts.sum()), int(right.sum())
    constant = np.arange(len(sizes)) == sizes.argmax() if common is None else np.asarray(classes) == common
    size, both = int(sizes[constant].sum()), int(right[constant].sum())
    found = Evaluation(
        rows=n_rows,
        accuracy=n_right / n_rows,
        balanced_accuracy=float((right[present] / sizes[present]).mean()),
        majority=size / n_rows,
        classes=np.asarray(classes).tolist(),
        confusion=counts.tolist(),
        bounded=bounded,
    )
    if not bounded:
        return found
    gain = gain_interval(n_right - both, size - both, n_rows, CONFIDENCE)
    balanced = mean_share_interval(right[present], sizes[present], CONFIDENCE)
    return replace(found, gain_interval=gain, balanced_interval=balanced)


def estimate(model: Any, *, bounded: bool = True) -> Evaluation | None:
    """What a model says of itself, from rows that it left out; None if it left out none.

    These rows are nearly independent: intervals hold roughly.
    """
    found = getattr(model, "cross_validated_", None)
    return None if found is None else evaluate_counts(model.classes_, found["confusion"], bounded=bounded)


def with_references(
    found: Evaluation, right: Mask, rows: tuple[AnyArray, AnyArray], labels: tuple[AnyArray, AnyArray]
) -> Evaluation:
    """Add what a linear model and boosting reach: fitted to the first rows, asked about the second.

    ``right`` says which of the second rows the model itself predicted right.
    """
    from onefold.audit.intervals import gain_interval

    train, test = rows
    work = train.size * len(np.unique(labels[0]))
    if work > MOST_WORK:
        return found
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    reference = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    linear = np.asarray(reference.fit(train, labels[0]).predict(test)) == labels[1]
    found = replace(found, linear=float(linear.mean()))
    if len(np.unique(labels[0])) > MOST_BOOSTED_CLASSES:
        return found
    reference = HistGradientBoostingClassifier(random_state=0)
    boosted = np.asarray(reference.fit(train, labels[0]).predict(test)) == labels[1]
    gained, lost = int(np.sum(boosted & ~right)), int(np.sum(right & ~boosted))
    ahead, (low, _) = (gained - lost) / len(right), gain_interval(gained, lost, len(right), CONFIDENCE)
    return replace(found, boosting=float(boosted.mean()), boosting_is_better=ahead > CLEAR_GAIN and low > 0.0)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


# --- numbers ----------------------------------------------------------------------------------------------


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
        gain = self.absolute_error_of_the_median - self.mean_absolute_error
        return measures_of(
            ("R2", self.r2, self.r2_interval, 0.0),
            ("gain in absolute error", gain, self.gain_interval, 0.0),
        )

    @property
    def verdict(self) -> str:
        """What follows from the measures, and what to do next."""
        return number_verdict(self.measures)

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
