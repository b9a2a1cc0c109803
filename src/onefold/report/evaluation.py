"""How good predictions are, beside guessing the majority, a linear model and boosting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Mask
from onefold.exceptions import printable
from onefold.report.verdicts import CONFIDENCE, Measure, class_verdict, rounded_up

# Cells times classes beyond which a reference model would take longer than the model itself.
MOST_WORK = 60_000_000
MOST_BOOSTED_CLASSES = 30
SHOWN_CLASSES = 12
SHOWN_WORST = 3  # of more classes than are shown
SHOWN_CHARACTERS = 16
CLEAR_GAIN = 0.02  # of another model, from which on it is worth a word


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
        given = (
            ("gain in accuracy", self.accuracy - self.majority, self.gain_interval, 0.0),
            ("balanced accuracy", self.balanced_accuracy, self.balanced_interval, 1.0 / max(present, 1)),
            ("AUC", self.auc, self.auc_interval, 0.5),
        )
        return [
            Measure(name, value, interval, baseline)
            for name, value, interval, baseline in given
            if value is not None and interval is not None
        ]

    @property
    def verdict(self) -> str:
        """What follows from the measures, and what to do next."""
        return class_verdict(self.measures)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; what was not measured is left out."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        lost = missed(self.classes, self.confusion, bounded=self.bounded)
        outcomes = {each.name: each.outcome for each in self.measures}
        return known | {"missed": lost, "outcomes": outcomes, "verdict": self.verdict}

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
    if predicted.dtype.kind != labels.dtype.kind:
        predicted, labels = predicted.astype(str), labels.astype(str)
        common = None if common is None else str(common)
    classes, codes = np.unique(np.concatenate([labels, predicted]), return_inverse=True)
    true, guessed = codes[: len(labels)], codes[len(labels) :]
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (true, guessed), 1)
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
    return Evaluation(
        rows=n_rows,
        accuracy=n_right / n_rows,
        balanced_accuracy=float((right[present] / sizes[present]).mean()),
        majority=size / n_rows,
        classes=np.asarray(classes).tolist(),
        confusion=counts.tolist(),
        bounded=bounded,
        gain_interval=gain_interval(n_right - both, size - both, n_rows, CONFIDENCE) if bounded else None,
        balanced_interval=mean_share_interval(right[present], sizes[present], CONFIDENCE)
        if bounded
        else None,
    )


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
    linear = _predicted(_linear(), train, labels[0], test) == labels[1]
    found = replace(found, linear=float(linear.mean()))
    if len(np.unique(labels[0])) > MOST_BOOSTED_CLASSES:
        return found
    boosted = _predicted(_boosting(), train, labels[0], test) == labels[1]
    gained, lost = int(np.sum(boosted & ~right)), int(np.sum(right & ~boosted))
    ahead, (low, _) = (gained - lost) / len(right), gain_interval(gained, lost, len(right), CONFIDENCE)
    return replace(found, boosting=float(boosted.mean()), boosting_is_better=ahead > CLEAR_GAIN and low > 0.0)


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def _boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0)


def _predicted(reference: Any, train: AnyArray, labels: AnyArray, test: AnyArray) -> AnyArray:
    return np.asarray(reference.fit(train, labels).predict(test))


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
