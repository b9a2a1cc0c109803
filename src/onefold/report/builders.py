"""Reports of everything that is fitted, released or attacked: the verdict first, then the evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from onefold.privacy.terms import shown
from onefold.report.curves import FoldingDisplay, MembershipDisplay
from onefold.report.displays import AccuracyDisplay, ConfusionDisplay, Display, ObservedDisplay
from onefold.report.document import Report, Section
from onefold.report.evaluation import (
    Evaluation,
    Measure,
    NumberEvaluation,
    missed,
    rounded_down,
    rounded_up,
)

if TYPE_CHECKING:
    from onefold.audit import AttackResult, MembershipAudit
    from onefold.privacy import Guarantee

Facts = Mapping[str, Any]  # names and values, in the order in which they are shown
Card = Mapping[str, str]
# Fields of a model card that only people can fill in.
CARD = ("intended use", "not intended for", "data", "limits", "contact")
HOLDS_ROWS = (
    "It promises no privacy: the file contains the rows that it was fitted to. Guard it like the data."
)
TARGET = (
    "Nothing is promised about the rows of the target: the file holds them, or their means and covariances."
)
LARGE = 20.0  # an epsilon that no longer protects: odds of 10^8 to 1
FIRM = 6.0  # an epsilon up to which the bound says something: 99.75 of 100
WEAK = (
    "At this epsilon the bound says little. Attacks that are known usually find less, but that is no promise."
)
RAW_ROWS = (
    "The measures on this page come from raw rows and are covered by no epsilon: do not publish this page."
)
HOLDS_SUMS = (
    "It promises no privacy: the file holds exact sums over the rows that it was fitted to, and may hold "
    "errors of single rows. Guard it like the data."
)
APPROXIMATE = (
    "The interval of R2 is a large-sample approximation, for independent rows that the model was not fitted "
    "to."
)
PICTURES = "The picture counts rows by their numbers: a cell with one row tells about where this row lies."
INDEPENDENT = "Intervals and bounds hold if the rows are independent and the model was not fitted to them."
ALIKE = "Rows of one person are alike: there are no intervals and bounds."
HIDDEN = (
    "Measured on the {rows} labelled rows, each while its label was hidden. The intervals hold for "
    "independent rows, and only roughly: the labels that are left in are nearly the same every time."
)
NOT_PRIVATE = "The numbers are computed from raw rows and are not private."
LABELS = "Labels and class sizes are not covered."
MAKERS = "These lines were written by people; onefold cannot check them."
NO_CARD = (
    "Nothing is stated about its intended use, what it is not intended for, its data, its limits and whom to "
    "ask. The option --card takes these texts from a file."
)
FAITHFUL = "The pages of a report show the numbers of the JSON file beside them and no others."


# --- what is promised ---------------------------------------------------------------------------------------


def privacy_verdict(guarantee: Guarantee) -> list[str]:
    """Say what a guarantee means for the widest unit that it protects: a person, a record or an entry.

    A unit with an epsilon above 20 is called practically not protected.

    Parameters
    ----------
    guarantee : Guarantee
        What is promised.

    Returns
    -------
    list of str
        What an attacker can be sure of, then what is not covered.
    """
    if not guarantee.holds:
        return [f"No privacy is promised: {'; '.join(guarantee.voided_by)}."]
    labels = [LABELS] if guarantee.labels is None else []
    person = math.inf if guarantee.person is None else (guarantee.person_with_labels or guarantee.person)[0]
    record = (guarantee.record_with_label or guarantee.record)[0]
    if person <= LARGE:
        return [guarantee.odds("person"), *labels]
    if record <= LARGE:
        # Of a weak promise, what was asked for comes first.
        asked = guarantee.unit == "entry" and guarantee.entry[0] <= FIRM < record
        more = f"A person with several records is {_weak(person)} as a person."
        weak = [WEAK] if record > FIRM else []
        return [guarantee.odds("entry")] * asked + [guarantee.odds("record"), *weak, more, *labels]
    entry = [guarantee.odds("entry")] if math.isfinite(guarantee.entry[0]) else []
    if entry or math.isfinite(record):
        return [*entry, f"A whole record is {_weak(record)}, and neither is a person.", *labels]
    return ["No privacy is promised: no noise bounds what can be learned about a record."]


def _weak(epsilon: float) -> str:
    """Say that a unit is not covered, or that its epsilon is too large to mean anything."""
    if not math.isfinite(epsilon):
        return "not covered"
    return f"practically not protected (epsilon {shown(epsilon)})"


def _bound(number: float) -> float | str:
    """A number of a promise with the digits that pages show, rounded up."""
    if not math.isfinite(number):
        return "no bound"
    return rounded_up(number, 4) if 1e-3 <= number < 1e5 else float(shown(number))


def privacy_sections(guarantee: Guarantee) -> list[Section]:
    """List what a guarantee promises, and apart from it what it does not cover.

    Parameters
    ----------
    guarantee : Guarantee
        What is promised.

    Returns
    -------
    list of Section
        Two sections.
    """
    lines = str(guarantee).split("\n")
    gaps = [line for line in lines if line.startswith("Not ") or "NOT covered" in line]
    kept = [line for line in lines if line not in gaps]
    pairs = {
        "one entry": guarantee.entry,
        "one record": guarantee.record,
        "one record, replaced": guarantee.replaced,
        "one record with its label": guarantee.record_with_label,
        "one person": guarantee.person,
    }
    rows = [[name, *map(_bound, pair)] for name, pair in pairs.items() if pair is not None]
    promised = Section(
        "What is promised",
        ["These numbers do NOT hold, because the guarantee is void."] if not guarantee.holds else [],
        headers=["unit", "epsilon", "delta"],
        rows=rows,
        notes=kept,
    )
    return [promised, Section("What is not covered", notes=gaps)]


# --- models -------------------------------------------------------------------------------------------------


def of_model(
    title: str,
    facts: Facts,
    *,
    evaluation: Evaluation | NumberEvaluation | None = None,
    about: str = "rows that the model was not fitted to",
    evidence: Mapping[str, Display] | None = None,
    guarantee: Guarantee | Sequence[Guarantee] | None = None,
    card: Card | None = None,
    estimated: Mapping[str, Any] | None = None,
) -> Report:
    """Report on a model that predicts classes or numbers.

    Parameters
    ----------
    title : str
        Heading of the page.
    facts : mapping of str to Any
        What was learned from what: names and values.
    evaluation : Evaluation, NumberEvaluation or None, default=None
        How good predictions of rows of known class or number are; None if there were no such rows.
    about : str, default="rows that the model was not fitted to"
        Which rows these were.
    evidence : mapping of str to Display or None, default=None
        Further pictures under their headings, such as calibration and distances.
    guarantee : Guarantee, sequence of Guarantee or None, default=None
        What is promised, by each of several sources; None for a model of rows, whose file contains them.
    card : mapping of str to str or None, default=None
        What people say about the model: any of the fields of a model card.
    estimated : mapping of str to Any or None, default=None
        The model's own estimate of its accuracy or error, where no rows were held out. An accuracy beside a
        guarantee is left out: the rows that such a model left out were made, not real.

    Returns
    -------
    Report
        The report.
    """
    if guarantee is not None and "accuracy" in (estimated or {}):
        estimated = None
    told, sections = _goodness(evaluation, about, estimated)
    promises = list(guarantee) if isinstance(guarantee, Sequence) else [guarantee] if guarantee else []
    promise: list[Section] = []
    if not promises:
        verdict = [*told, HOLDS_ROWS]
    elif not any(math.isfinite(each.entry[0]) or math.isfinite(each.record[0]) for each in promises):
        verdict = [*told, HOLDS_SUMS]  # no noise was added
    else:
        if isinstance(guarantee, Sequence):
            lines, promise = _of_sources(promises)
        else:
            lines, promise = privacy_verdict(promises[0]), privacy_sections(promises[0])
        verdict = [*lines, *told, *([] if evaluation is None else [RAW_ROWS])]
    return _page("model", title, verdict, facts, [*sections, *_pictures(evidence), *promise], card)


def _page(
    kind: str, title: str, verdict: list[str], facts: Facts, sections: list[Section], card: Card | None
) -> Report:
    """A page of what was made: first from what, last what its makers say and the digests."""
    first = facts_section(f"What was {'made' if kind == 'table' else 'learned'} from what", facts)
    said = {**dict.fromkeys(CARD), **card} if card else {}
    makers = Section("What its makers say", [MAKERS if card else NO_CARD], said)
    return Report(kind, title, verdict, [first, *sections, makers, files_section(facts)])


def _pictures(evidence: Mapping[str, Display] | None) -> list[Section]:
    return [
        Section(name, [PICTURES] if isinstance(display, ObservedDisplay) else (), display=display)
        for name, display in (evidence or {}).items()
    ]


def _goodness(
    found: Evaluation | NumberEvaluation | None, about: str, estimated: Mapping[str, Any] | None
) -> tuple[list[str], list[Section]]:
    """The verdict on accuracy or error, and the sections that show it."""
    if found is None:
        return _guess(estimated)
    if isinstance(found, NumberEvaluation):
        return _errors(found, about)
    interval = accuracy_ends(found.accuracy, found.rows) if found.bounded else None
    told = [_right(found, interval, "rows", "class"), f"{found.verdict}."]
    if found.boosting_is_better:
        told.append(
            f"Gradient boosting, which needs the data in one place, gets {100 * (found.boosting or 0):.0f}."
        )
    return told, [_accuracies(found, about, interval), _per_class(found)]


def _guess(estimated: Mapping[str, Any] | None) -> tuple[list[str], list[Section]]:
    """What a model says of itself."""
    if estimated is None:
        return ["How good it is was not measured: no rows with known answers were given."], []
    if "accuracy" in estimated:
        told = (
            f"About {100 * estimated['accuracy']:.0f} of 100 rows are predicted right, by the model's own "
            f"estimate from rows that it left out; always answering the most frequent class would get "
            f"{100 * estimated['majority']:.0f}."
        )
        shown = {
            "accuracy": estimated["accuracy"],
            "balanced accuracy": estimated["balanced_accuracy"],
            "most frequent class": estimated["majority"],
        }
        return [told, f"{estimated['verdict']}."], [Section("Estimated accuracy", facts=shown)]
    beside = estimated.get("rmse_of_the_mean")
    mean = "" if beside is None else f"; always predicting the mean would be off by {beside:.4g}"
    if "one_deviation_more" in estimated:
        low, high = estimated["one_deviation_less"], estimated["one_deviation_more"]
        mean += f"; one standard deviation of the noise in this estimate is {low:.4g} to {high:.4g}"
    told = f"By its own estimate predictions are off by {estimated['rmse']:.4g} (root mean square){mean}."
    shown = {name.replace("_", " "): value for name, value in estimated.items()}
    return [told], [Section("Estimated error", facts=shown)]


def _errors(found: NumberEvaluation, about: str) -> tuple[list[str], list[Section]]:
    told = (
        f"Predictions are off by {found.rmse:.4g} (root mean square); always predicting the mean would be "
        f"off by {found.rmse_of_the_mean:.4g}."
    )
    ends = None if found.r2_interval is None else [round(end, 4) for end in found.r2_interval]
    facts = {
        "rows": found.rows,
        "root mean square error": found.rmse,
        "the same for the mean": found.rmse_of_the_mean,
        "mean absolute error": found.mean_absolute_error,
        "that of the median": found.absolute_error_of_the_median,
        "R2": found.r2,
        "95 % interval of R2": ends,
        "share of numbers inside their intervals": found.covered,
        "share that was aimed at": found.level,
    }
    why = ALIKE if ends is None else APPROXIMATE
    return [told, f"{found.verdict}."], [Section("Error", [f"Measured on {about}.", why], _measured(facts))]


def _measured(values: Facts) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def accuracy_ends(share: float, rows: int) -> tuple[float, float]:
    """The 95 % confidence interval of an accuracy.

    Parameters
    ----------
    share : float
        Share of the rows that were predicted right.
    rows : int
        Number of independent rows.

    Returns
    -------
    tuple of (float, float)
        Its ends.
    """
    from onefold.audit import clopper_pearson

    return clopper_pearson(round(share * rows), rows)


def accuracy_section(
    values: Mapping[str, float],
    rows: int | None,
    text: Sequence[str] = (),
    facts: Facts | None = None,
    label: str = "accuracy on the test rows",
    kinds: Sequence[str] = (),
) -> Section:
    """Accuracies as bars, with their intervals if the number of independent rows is known.

    Unless there are ``kinds``, the last one is of the model and all others are there to compare with.
    """
    kinds = kinds or [*["reference"] * (len(values) - 1), "federated"]
    ends = None if not rows else [accuracy_ends(value, rows) for value in values.values()]
    bars = AccuracyDisplay(list(values), list(values.values()), kinds, ends, label)
    return Section("Accuracy", text, facts or {}, display=bars)


def outward(interval: Sequence[float], digits: int = 4) -> list[float]:
    """Both ends of an interval, rounded so that it becomes no smaller."""
    return [rounded_down(interval[0], digits), rounded_up(interval[1], digits)]


def _right(
    found: Evaluation | HeldOutAccuracy, interval: Sequence[float] | None, rows: str, label: str
) -> str:
    """An accuracy in a sentence, beside what guessing gets."""
    low, high = (0.0, 0.0) if interval is None else outward(interval, 2)
    spread = "" if interval is None else f" (95 % confidence: {100 * low:.0f} to {100 * high:.0f})"
    return (
        f"{100 * found.accuracy:.0f} of 100 {rows} are predicted right{spread}; always answering the most "
        f"frequent {label} would get {100 * found.majority:.0f}."
    )


def _accuracies(found: Evaluation, about: str, interval: tuple[float, float] | None) -> Section:
    values = {"most frequent class": found.majority, "linear model": found.linear}
    values |= {"gradient boosting": found.boosting, "this model": found.accuracy}
    facts = {
        "rows": found.rows,
        "accuracy": found.accuracy,
        "95 % interval of the accuracy": None if interval is None else outward(interval),
        "balanced accuracy": found.balanced_accuracy,
        "area under the ROC curve": found.auc,
    }
    facts |= {f"95 % interval of the {each.name}": outward(each.interval) for each in found.measures}
    rows, why = (found.rows, INDEPENDENT) if found.bounded else (None, ALIKE)
    return accuracy_section(_measured(values), rows, [f"Measured on {about}.", why], _measured(facts))


def _per_class(found: Evaluation) -> Section:
    headers = ["class", "rows", "missed"]
    lost = missed(found.classes, found.confusion, bounded=found.bounded)
    rows = [[str(each["class"]), each["rows"], each["missed"]] for each in lost]
    if found.bounded:
        headers += ["share missed at most, 95 % confidence"]
        rows = [[*row, rounded_up(each["at_most"], 4)] for row, each in zip(rows, lost, strict=True)]
    display = ConfusionDisplay(found.classes, found.confusion)
    return Section("Which class is taken for which", headers=headers, rows=rows, display=display)


def facts_section(title: str, facts: Facts) -> Section:
    """What is for reading; the long sums stand at the end."""
    return Section(title, facts={name: value for name, value in facts.items() if not _is_sum(name)})


def files_section(facts: Facts) -> Section:
    """The digests among the facts, for whoever wants to know that this is the file.

    Parameters
    ----------
    facts : mapping of str to Any
        Names and values; digests have names that say so.

    Returns
    -------
    Section
        The section.
    """
    kept = {name: value for name, value in facts.items() if _is_sum(name)}
    return Section("Files that this page is about", facts=kept, notes=[FAITHFUL])


def _is_sum(name: str) -> bool:
    return name.startswith(("SHA-256", "digest"))


# --- tables that are given away -----------------------------------------------------------------------------


def of_table(
    title: str,
    guarantee: Guarantee,
    facts: Facts,
    *,
    evidence: Mapping[str, Display] | None = None,
    quality: Sequence[Section] = (),
    worth: Sequence[str] = (),
    card: Card | None = None,
) -> Report:
    """Report on a table that was released, fabricated or synthesized.

    Parameters
    ----------
    title : str
        Heading of the page.
    guarantee : Guarantee
        What is promised.
    facts : mapping of str to Any
        What was made from what: names and values.
    evidence : mapping of str to Display or None, default=None
        Pictures under their headings, such as the privacy-utility curve.
    quality : sequence of Section, default=()
        What is known about the use of the table.
    worth : sequence of str, default=()
        The same in sentences for the verdict.
    card : mapping of str to str or None, default=None
        What people say about the table: any of the fields of a model card.

    Returns
    -------
    Report
        The report.
    """
    sections = [*privacy_sections(guarantee), *quality, *_pictures(evidence)]
    return _page("table", title, [*privacy_verdict(guarantee), *worth], facts, sections, card)


def _of_sources(promises: Sequence[Guarantee]) -> tuple[list[str], list[Section]]:
    """Verdict and sections about the promises of sources: different records, so no number is about all."""
    told = [privacy_verdict(promise) for promise in promises]
    shared = [line for line in told[0] if len(told) > 1 and all(line in lines for lines in told)]
    verdict, sections = [], []
    for number, (promise, lines) in enumerate(zip(promises, told, strict=True), 1):
        whose = "the source" if len(promises) == 1 else f"source {number}"
        own = " ".join(line for line in lines if line not in shared)
        verdict += [f"About the rows of {whose}: {own}"] if own else []
        found = privacy_sections(promise)
        if len(promises) > 1:
            found = [replace(section, title=f"Source {number}: {section.title}") for section in found]
        sections += found
    every = [f"About the rows of every source: {' '.join(shared)}"] if shared else []
    return [*verdict, *every], sections


def of_transfer(
    title: str,
    facts: Facts,
    told: Sequence[str],
    guarantees: Sequence[Guarantee],
    experts: Section,
    card: Card | None = None,
    accuracy: HeldOutAccuracy | None = None,
) -> Report:
    """Report on a classifier that a private source has helped.

    Parameters
    ----------
    title : str
        Heading of the page.
    facts : mapping of str to Any
        What was learned from what: names and values.
    told : sequence of str
        What the source was worth, in sentences; the first one is part of the verdict.
    guarantees : sequence of Guarantee
        What is promised about the rows of each source.
    experts : Section
        The weights that were found.
    card : mapping of str to str or None, default=None
        What people say about the model.
    accuracy : HeldOutAccuracy or None, default=None
        How good predictions of labelled rows were while their labels were hidden.

    Returns
    -------
    Report
        The report.
    """
    lines, promised = _of_sources(guarantees)
    measured = [] if accuracy is None else [_held_out(accuracy)]
    first = [] if accuracy is None else [accuracy.in_words()]
    sections = [*measured, Section("What the source was worth", notes=told), experts, *promised]
    return _page("transfer", title, [*first, *told[:1], *lines, TARGET], facts, sections, card)


@dataclass(frozen=True)
class HeldOutAccuracy:
    """How good a transferred classifier is on labelled rows, each while its label was hidden.

    Parameters
    ----------
    rows : int
        Number of these rows.
    accuracy : float
        Share of them that are predicted right.
    majority : float
        Share that the most frequent label alone gets right.
    without : float
        Share that are predicted right without the source.
    """

    rows: int
    accuracy: float
    majority: float
    without: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the accuracy, for independent rows."""
        return accuracy_ends(self.accuracy, self.rows)

    @property
    def source_gain(self) -> Measure:
        """What the source adds to the accuracy, if predictions with and without it differ wherever they can.

        How many rows are right with the source alone is not kept, so the interval is the widest one.
        """
        from onefold.audit.intervals import gain_interval

        right, other = round(self.rows * self.accuracy), round(self.rows * self.without)
        most = min(right + other, 2 * self.rows - right - other)
        won, lost = (most + right - other) // 2, (most - right + other) // 2
        interval = gain_interval(won, lost, self.rows)
        return Measure("gain by the source", self.accuracy - self.without, interval, 0.0)

    def in_words(self) -> str:
        """Say it in one sentence, beside what guessing gets."""
        return _right(self, self.interval, "held-out labelled rows", "label")


def _held_out(found: HeldOutAccuracy) -> Section:
    values = {
        "most frequent label": found.majority,
        "without the source": found.without,
        "this model": found.accuracy,
    }
    facts = {
        "labelled rows": found.rows,
        "accuracy": found.accuracy,
        "95 % interval of the accuracy": outward(found.interval),
    }
    label = "accuracy on held-out labelled rows"
    return accuracy_section(values, found.rows, [HIDDEN.format(rows=found.rows)], facts, label)


# --- attacks ------------------------------------------------------------------------------------------------


def of_membership(audit: MembershipAudit, title: str, facts: Facts) -> Report:
    """Report on an attack that asks who was in the training data of a model.

    Parameters
    ----------
    audit : MembershipAudit
        What :func:`onefold.audit.audit_membership` returned.
    title : str
        Heading of the page.
    facts : mapping of str to Any
        What was attacked: names and values.

    Returns
    -------
    Report
        The report.
    """
    what = audit.strongest
    answers = audit.answers[what]
    return of_distances(audit.attack, answers, title, facts, audit.rows(), audit.notes(), what)


def of_distances(
    attack: AttackResult,
    distances: tuple[Any, Any],
    title: str,
    facts: Facts,
    rows: Sequence[Sequence[Any]],
    notes: Sequence[str],
    what: str,
) -> Report:
    """Report on an attack that takes rows with certain answers, such as near ones, for members.

    Parameters
    ----------
    attack : AttackResult
        What :func:`onefold.audit.distance_attack` returned.
    distances : tuple of two array-like
        Distances, or other answers, of members and of others.
    title : str
        Heading of the page.
    facts : mapping of str to Any
        What was attacked: names and values.
    rows : sequence of (str, float, str)
        Name, value and interval of every number.
    notes : sequence of str
        What the numbers mean, and what they do not mean.
    what : str
        What the distances are.

    Returns
    -------
    Report
        The report.
    """
    verdict = [attack.verdict(what), f"{NOT_PRIVATE} Do not publish this page."]
    groups = dict(zip(("rows that were learned from", "other rows"), distances, strict=True))
    level, said = f"{100 * attack.confidence:.3g} % interval", (NOT_PRIVATE, verdict[0])
    sections = [
        facts_section("What was attacked", facts),
        Section("The numbers", headers=["what", "value", level], rows=[list(row) for row in rows]),
        Section("Members found against outsiders accused", display=MembershipDisplay.from_attack(attack)),
        Section(f"Members and others: {what}", display=FoldingDisplay.from_distances(groups, label=what)),
        Section("What this means, and what it does not", notes=[line for line in notes if line not in said]),
    ]
    if any(map(_is_sum, facts)):
        sections.append(replace(files_section(facts), notes=()))
    return Report("audit", title, verdict, sections)
