"""A guarantee in words: every line with an epsilon names its unit, and the condition under which it holds."""

import math
from typing import TYPE_CHECKING

from onefold._base.validation import OneOf, check_parameter
from onefold.privacy.terms import NOTHING, RELATIONS, UNITS, Pair, shown, shown_limit

if TYPE_CHECKING:
    from onefold.privacy.guarantee import Guarantee

__all__ = ["CHANGES", "UNSTATED", "assumptions", "at_most", "odds", "of_what", "sentences"]

UNSEEN = (
    "Not seen by onefold: what was fitted to the raw data before it came here (a scaler, a choice of "
    "columns), and other releases about the same people."
)
CHANGES = "changes by more than"
CERTAIN = 1e4  # odds that nobody tells from certainty
UNSTATED = f"nothing {CHANGES} the noise was made for (not checked)"


def sentences(guarantee: "Guarantee") -> list[str]:
    """Return the lines of a guarantee: what voids it, its numbers, its conditions, what it does not cover."""
    lines = [f"VOID: {reason}." for reason in guarantee.voided_by]
    if guarantee.voided_by:
        lines.append("The numbers below are what was aimed at; they do NOT hold.")
    if guarantee.labels_in_record:
        lines += _with_labels(guarantee)
    else:
        lines += [*_features(guarantee), *_labels(guarantee)]
    lines += _several_sites(guarantee)
    lines += [f"Provided that {condition}." for condition in guarantee.conditions]
    if guarantee.n_owners > 1:
        lines.append(
            f"Holds for the records of each of {guarantee.n_owners} sites, if no record is at two sites."
        )
    return [*lines, f"Not covered: {_gaps(guarantee)}.", UNSEEN]


def odds(guarantee: "Guarantee", unit: str) -> str:
    """Say what an attacker who knows everything else can be sure of."""
    check_parameter("unit", unit, OneOf(UNITS))
    pair, what = guarantee.entry, "one entry"
    if unit == "record":
        pair, what = guarantee.record_with_label or guarantee.record, "one record"
    elif unit == "person":
        pair = guarantee.person_with_labels or guarantee.person or NOTHING
        what = f"the records of one person{_rows(guarantee)}"
    if guarantee.labels is None and unit != "entry":  # what is not covered may be known for certain
        what = f"the features of {what}"
    if guarantee.neighbours == "add-remove" and unit != "entry":  # what they hold: two steps, see the text
        what = f"whether {what} {'is' if unit == 'record' else 'are'} in the data"
    if not guarantee.holds:
        return f"Nothing can be said about {what}: the guarantee is void."
    epsilon, delta = pair
    if not math.isfinite(epsilon) or delta >= 1.0:
        return f"Nothing is promised about {what}: an attacker may become certain."
    # The best test between two possibilities is right with probability (e^epsilon + delta) / (1 + e^epsilon).
    shrunk = math.exp(-epsilon)
    right = (1.0 + delta * shrunk) / (1.0 + shrunk)
    after = math.inf if epsilon > 700.0 else (math.exp(epsilon) + delta) / (1.0 - delta)
    text = f"An attacker who knows everything but {what}, and thinks two possibilities equally likely, "
    if after > CERTAIN:
        text += f"may be practically certain after seeing the release (epsilon {shown(epsilon)})"
    else:
        text += (
            f"is right after seeing the release in at most {shown(100 * right)} of 100 cases "
            f"(odds of at most {shown(after)} to 1)"
        )
    if delta:
        text += f"; this counts in a chance of up to {shown(delta, 3)} that the release discloses more"
    return f"{text}{', if the conditions are true' * bool(assumptions(guarantee))}."


def assumptions(guarantee: "Guarantee") -> tuple[str, ...]:
    """Return all that must be true for the numbers and that nobody has checked."""
    if guarantee.clipped:
        return guarantee.conditions
    if guarantee.sensitivity is not None:
        change = f"{at_most(of_what(guarantee), guarantee.sensitivity)} (not checked)"
    elif any(CHANGES in condition for condition in guarantee.conditions):
        return guarantee.conditions
    else:
        change = UNSTATED
    return change, *guarantee.conditions


def of_what(guarantee: "Guarantee") -> str:
    """Return what ``sensitivity`` is the change of."""
    return "record" if guarantee.unit == "person" else guarantee.unit


def at_most(what: str, change: float) -> str:
    """Say how large a change may be."""
    return f"no {what} {CHANGES} {shown_limit(change)}"


# --- lines ------------------------------------------------------------------------------------------------


def _limit(guarantee: "Guarantee") -> str:
    """Say under which condition a line is true."""
    below = _below(guarantee)
    if guarantee.clipped:
        return f", clipped to the declared domain{below}"
    first, *others = assumptions(guarantee)
    return below if len(others) < len(guarantee.conditions) else f", if {first}{below}"


def _below(guarantee: "Guarantee") -> str:
    return ", under the conditions below" * bool(guarantee.conditions)


def _words(pair: Pair, unit: str) -> str:
    epsilon, delta = pair
    if not math.isfinite(epsilon):
        return f"no bound on epsilon per {unit}"
    return f"epsilon {shown(epsilon)} per {unit}, delta {shown(delta, 3)}"


def _noise(guarantee: "Guarantee") -> list[str]:
    if not guarantee.mechanism:
        return []
    return [f"Noise: {guarantee.mechanism}, calibrated per {guarantee.unit}."]


def _with_labels(guarantee: "Guarantee") -> list[str]:
    """Describe a release in which a record is a row with its label."""
    if not math.isfinite(guarantee.record[0]):
        return ["No noise was added: nothing is promised to anybody."]
    pairs = {RELATIONS[guarantee.neighbours]: guarantee.record}
    pairs[RELATIONS["replace"]] = guarantee.replaced or NOTHING
    lines = [
        f"Record, one record and its label {change}{_limit(guarantee)}: {_words(pair, 'record')}."
        for change, pair in pairs.items()
    ]
    return [*_noise(guarantee), *lines, _people(guarantee)]


def _features(guarantee: "Guarantee") -> list[str]:
    if guarantee.unit == "label":
        return ["Features: not covered by this release of labels."]
    limit, change = _limit(guarantee), RELATIONS[guarantee.neighbours]
    whole = f"A whole record of {guarantee.n_features} entries"
    lines = [
        *_noise(guarantee),
        f"One entry{limit}: {_words(guarantee.entry, 'entry')}.",
        f"{whole}, {change}{limit}: {_words(guarantee.record, 'record')}.",
    ]
    if guarantee.neighbours == "add-remove":
        lines.append(f"{whole}, replaced{limit}: {_words(guarantee.replaced or NOTHING, 'record')}.")
    lines.append(_people(guarantee))
    if guarantee.untouched_entries:
        number = shown(guarantee.untouched_entries)
        lines.append(f"Entries released without noise, expected number: {number}.")
    elif guarantee.untouched_entries is None:
        lines.append("Some entries are released without noise; how many depends on the number of rows.")
    return lines


def _people(guarantee: "Guarantee") -> str:
    if guarantee.person is None:
        return "A person with several records: NOT covered as a person."
    change = RELATIONS[guarantee.neighbours]
    words = _words(guarantee.person, "person")
    return f"One person{_rows(guarantee)}, {change}{_limit(guarantee)}: {words}."


def _rows(guarantee: "Guarantee") -> str:
    rows = guarantee.rows_per_person
    return "" if rows is None else f" with at most {rows} record{'s' * (rows != 1)}"


def _labels(guarantee: "Guarantee") -> list[str]:
    if guarantee.labels is None:
        return ["Labels and class sizes: NOT covered."]
    limit = _limit(guarantee)
    lines = [f"One label of the declared classes{_below(guarantee)}: {_words(guarantee.labels, 'label')}."]
    if guarantee.unit == "label":
        return lines
    record = _words(guarantee.record_with_label or NOTHING, "record with label")
    lines.append(f"A record with its label{limit}: {record}.")
    if guarantee.person is not None:
        person = _words(guarantee.person_with_labels or NOTHING, "person with labels")
        lines.append(f"One person{_rows(guarantee)}, with their labels{limit}: {person}.")
    return lines


def _several_sites(guarantee: "Guarantee") -> list[str]:
    """Say what a person known to several sites is promised."""
    if guarantee.person is None or not math.isfinite(guarantee.person[0]):
        return []
    told = ", ".join(f"{_words(guarantee.at_sites(n), 'person')} at {n} sites" for n in (2, 5))
    shared = _words(guarantee.at_sites(2, shared_noise=True), "person")
    who = (
        "A person" if guarantee.labels_in_record or guarantee.labels is None else "A person, without labels,"
    )
    return [
        f"{who} known to several sites that release the same{_limit(guarantee)}: {told}; if 2 sites share "
        f"one noise, {shared}."
    ]


def _gaps(guarantee: "Guarantee") -> str:
    gaps = [] if guarantee.labels else ["labels", "class sizes"]
    if guarantee.neighbours == "replace":
        # Rows about nobody and those beyond a limit are left out, which the number of rows shows.
        whose = guarantee.rows_per_person is not None
        gaps.append(f"the number of rows{' and which rows belong to whom' * whose}")
    return ", ".join([*gaps, "choices made by looking at the raw data", "refusals and their messages"])
