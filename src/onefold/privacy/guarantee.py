"""What a release promises, to whom, and what it does not promise; and the terms of such a promise.

The terms are defined here for the whole package: the units of privacy, the relations between neighbouring
datasets, and the numbers that may stand for epsilon and delta.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from onefold._base.validation import Entry, Flag, Number, OneOf, Whole, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError

__all__ = [
    "DELTA",
    "DELTA_OR_ZERO",
    "EPSILON",
    "NOTHING",
    "POSITIVE",
    "RELATIONS",
    "UNITS",
    "Guarantee",
    "Pair",
    "check_relation",
    "number",
    "positive",
    "two_steps",
]

Pair = tuple[float, float]  # (epsilon, delta)
# What a change of the data changes: one entry of the table, or a whole record.
UNITS = ("entry", "record")
# What two neighbouring datasets differ in, as far as whole records go.
RELATIONS = {"replace": "replaced", "add-remove": "more or less"}
NOTHING: Pair = (math.inf, 1.0)

POSITIVE = Number(above=0)
EPSILON = Number(at_least=1e-12, at_most=1e6)
DELTA = Number(above=0, below=1)
DELTA_OR_ZERO = Number(at_least=0, below=1)


def number(name: str, value: Any, constraint: Number) -> float:
    """Return a parameter as a float, so that computing goes on in float64; refuse it outside its limits.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    value : object
        Its value.
    constraint : Number
        Its limits.

    Returns
    -------
    float
        The value.

    See Also
    --------
    positive : The same for positive numbers.

    Examples
    --------
    >>> from onefold.privacy.guarantee import DELTA, number
    >>> number("delta", 0.5, DELTA)
    0.5
    """
    check_parameter(name, value, constraint)
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return a positive and finite parameter as a float; refuse any other.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    value : object
        Its value.

    Returns
    -------
    float
        The value.

    See Also
    --------
    number : The same for other limits.

    Examples
    --------
    >>> from onefold.privacy.guarantee import positive
    >>> positive("sigma", 2)
    2.0
    """
    return number(name, value, POSITIVE)


PAIRS = ("entry", "record", "replaced", "labels")
PLAIN = (
    "unit",
    "n_features",
    "untouched_entries",
    "mechanism",
    "sensitivity",
    "neighbours",
    "labels_in_record",
    "n_owners",
)
CONSTRAINTS: dict[str, Entry] = {
    "unit": OneOf((*UNITS, "label")),
    "neighbours": OneOf(RELATIONS),
    "labels_in_record": Flag(),
    "n_owners": Whole(1),
}


@dataclass(frozen=True)
class Guarantee:
    """Differential privacy of one release, for one entry and for a whole record.

    ``str(guarantee)`` states the promise in sentences, with what is not covered.

    Parameters
    ----------
    unit : {"entry", "record", "label"}
        What the noise was calibrated for.
    entry : tuple of two float
        (epsilon, delta) when one entry changes; epsilon is infinite where nothing is promised.
    record : tuple of two float
        (epsilon, delta) of a whole record, under the relation ``neighbours``.
    n_features : int
        Entries of a record.
    untouched_entries : float or None, default=None
        Expected number of entries released without any noise; None if it is not known.
    labels : tuple of two float or None, default=None
        (epsilon, delta) of each label. None means that labels and class sizes are NOT covered.
    voided_by : tuple of str, default=()
        Reasons why the numbers do not hold; empty when they do.
    mechanism : str, default=""
        Short description of the noise.
    sensitivity : float or None, default=None
        The change that the numbers are about, in the unit; None if it is not stated.
    neighbours : {"replace", "add-remove"}, default="replace"
        How neighbouring datasets differ in a record. "replace": one record is replaced by another; the
        number of records is public. "add-remove": there is one record more or less; their number is covered
        as well.
    replaced : tuple of two float or None, default=None
        (epsilon, delta) when a whole record is replaced. Under "add-remove" None stands for what always
        holds: one record less, then one more.
    labels_in_record : bool, default=False
        Whether the label is part of the record, so that ``record`` covers it.
    n_owners : int, default=1
        Number of sites with separate records to each of which this is promised.

    See Also
    --------
    Ledger : Adds up what several releases spend.
    Mechanism.guarantee : The guarantee of a noise.

    References
    ----------
    Document 000, Definition 10, and document 003, Definition 2, for one changed entry.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> guarantee = Laplace(0.5).guarantee(n_features=10)
    >>> guarantee.entry, guarantee.record, guarantee.holds
    ((0.5, 0.0), (5.0, 0.0), True)
    >>> guarantee.voided("the bounds of the data were inferred from the data").holds
    False
    """

    unit: str
    entry: Pair
    record: Pair
    n_features: int
    untouched_entries: float | None = None
    labels: Pair | None = None
    voided_by: tuple[str, ...] = ()
    mechanism: str = ""
    sensitivity: float | None = None
    neighbours: str = "replace"
    replaced: Pair | None = None
    labels_in_record: bool = False
    n_owners: int = 1

    def __post_init__(self) -> None:
        check_parameters(self, CONSTRAINTS)
        if self.labels_in_record and self.labels is None:
            raise InvalidInputError("labels_in_record=True needs labels: the (epsilon, delta) of a label")
        if isinstance(self.voided_by, str) or not all(isinstance(reason, str) for reason in self.voided_by):
            raise InvalidInputError("voided_by must be a tuple of reasons")
        object.__setattr__(self, "voided_by", tuple(self.voided_by))
        object.__setattr__(self, "entry", _pair("entry", self.entry))
        object.__setattr__(self, "record", _pair("record", self.record))
        object.__setattr__(self, "replaced", self._replacement())
        if self.labels is not None:
            object.__setattr__(self, "labels", _pair("labels", self.labels))

    def _replacement(self) -> Pair:
        """Return what holds for a replaced record: ``record`` itself, or two steps of add-remove."""
        if self.neighbours == "replace":
            if self.replaced not in (None, self.record):
                raise InvalidInputError("under neighbours='replace', replaced is what record says")
            return self.record
        return two_steps(self.record) if self.replaced is None else _pair("replaced", self.replaced)

    @property
    def holds(self) -> bool:
        """Whether nothing has voided the guarantee."""
        return not self.voided_by

    @property
    def record_with_label(self) -> Pair | None:
        """(epsilon, delta) of a record together with its label; None if labels are not covered."""
        if self.labels is None:
            return None
        if self.labels_in_record:
            return self.record
        return self.record[0] + self.labels[0], min(1.0, self.record[1] + self.labels[1])

    def voided(self, reason: str) -> "Guarantee":
        """Return the guarantee after a step that makes it void.

        Parameters
        ----------
        reason : str
            What makes it void.

        Returns
        -------
        Guarantee
            The guarantee with the reason added.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidInputError("say in words what voids the guarantee")
        if reason in self.voided_by:
            return self
        return replace(self, voided_by=(*self.voided_by, reason))

    def with_labels(self, epsilon: float, delta: float = 0.0) -> "Guarantee":
        """Return the guarantee of the same release together with private labels.

        Parameters
        ----------
        epsilon : float
            Privacy loss of each label.
        delta : float, default=0.0
            Probability with which it may be exceeded.

        Returns
        -------
        Guarantee
            The guarantee of both.
        """
        if self.labels_in_record:
            raise InvalidInputError("the label is part of the record here and covered already")
        return replace(self, labels=(epsilon, delta))

    def record_under(self, neighbours: str) -> Pair:
        """Return (epsilon, delta) of a whole record under a relation.

        A guarantee for records more or less covers replaced ones; the other way round nothing is promised.

        Parameters
        ----------
        neighbours : {"replace", "add-remove"}
            How neighbouring datasets differ in a record.

        Returns
        -------
        epsilon : float
            Privacy loss, infinite where nothing is promised.
        delta : float
            Probability with which it may be exceeded.
        """
        if check_relation(neighbours) == self.neighbours:
            return self.record
        return self.replaced or NOTHING if neighbours == "replace" else NOTHING

    def among_owners(self, other: "Guarantee") -> "Guarantee":
        """Return what each site is promised when several sites publish releases of their records.

        A record is at one site, so nothing adds up: the weaker of the two promises holds.

        Parameters
        ----------
        other : Guarantee
            The guarantee of other sites' releases, for the same unit, features and relation.

        Returns
        -------
        Guarantee
            The promise to each site.
        """
        if self._kind() != other._kind():
            raise InvalidInputError(
                "the releases are about different units, features or neighbouring relations"
            )
        pairs: dict[str, Any] = {name: _weaker(getattr(self, name), getattr(other, name)) for name in PAIRS}
        untouched = (self.untouched_entries, other.untouched_entries)
        return replace(
            self,
            **pairs,
            untouched_entries=None if None in untouched else sum(number or 0.0 for number in untouched),
            voided_by=tuple(dict.fromkeys((*self.voided_by, *other.voided_by))),
            mechanism=" / ".join(
                dict.fromkeys((*self.mechanism.split(" / "), *other.mechanism.split(" / ")))
            ),
            sensitivity=self.sensitivity if self.sensitivity == other.sensitivity else None,
            n_owners=self.n_owners + other.n_owners,
        )

    def _kind(self) -> tuple[object, ...]:
        return self.unit, self.n_features, self.neighbours, self.labels_in_record

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as plain values for JSON.

        Returns
        -------
        dict
            All parameters, with None for an infinite epsilon; ``holds``; and the sentences as ``text``.
        """
        plain = asdict(self)
        for name in PAIRS:
            if plain[name] is not None:
                epsilon, delta = plain[name]
                plain[name] = {"epsilon": epsilon if math.isfinite(epsilon) else None, "delta": delta}
        plain["voided_by"] = list(self.voided_by)
        return {**plain, "holds": self.holds, "text": str(self)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Guarantee":
        """Restore the guarantee that :meth:`to_dict` described, also in versions that named no relation.

        Parameters
        ----------
        plain : mapping
            The description.

        Returns
        -------
        Guarantee
            The guarantee.
        """
        try:
            known = {**_older(plain), **plain}
            pairs: dict[str, Any] = {name: _read_pair(known[name]) for name in PAIRS}
            return cls(**pairs, **{name: known[name] for name in PLAIN}, voided_by=known["voided_by"])
        except (KeyError, TypeError, AttributeError):
            raise InvalidInputError("this is not the description of a guarantee") from None

    def __str__(self) -> str:
        lines = [f"VOID: {reason}" for reason in self.voided_by]
        if self.voided_by:
            lines.append("The numbers below are what was aimed at; they do NOT hold.")
        lines += self._with_labels() if self.labels_in_record else [*self._features(), self._labels()]
        if self.n_owners > 1:
            lines.append(
                f"Holds for the records of each of {self.n_owners} sites, if no record is at two sites."
            )
        lines.append(f"Not covered: {self._gaps()}.")
        return "\n".join(lines)

    def _with_labels(self) -> list[str]:
        """Describe a release in which a record is a row with its label."""
        if not math.isfinite(self.record[0]):
            return ["No noise was added: nothing is promised to anybody."]
        lines = [f"Noise: {self.mechanism}, calibrated per record."] if self.mechanism else []
        pairs = {RELATIONS[self.neighbours]: self.record, RELATIONS["replace"]: self.replaced or NOTHING}
        lines += [
            f"Record, one record and its label {change}: {_words(pair, 'record')}."
            for change, pair in pairs.items()
        ]
        return lines

    def _gaps(self) -> str:
        gaps = [] if self.labels else ["labels", "class sizes"]
        if self.neighbours == "replace":
            gaps.append("the number of rows")
        return ", ".join([*gaps, "choices made by looking at the raw data"])

    def _features(self) -> list[str]:
        if self.unit == "label":
            return ["Features: not covered by this release of labels."]
        change = "" if self.sensitivity is None else f" (a change of at most {self.sensitivity:g})"
        entry_change, record_change = (change, "") if self.unit == "entry" else ("", change)
        size = f"A whole record of {self.n_features} entries{record_change}"
        lines = [
            f"One entry{entry_change}: {_words(self.entry, 'entry')}.",
            f"{size}, {RELATIONS[self.neighbours]}: {_words(self.record, 'record')}.",
        ]
        if self.neighbours == "add-remove":
            lines.append(f"A whole record, replaced: {_words(self.replaced or NOTHING, 'record')}.")
        if self.mechanism:
            lines.insert(0, f"Noise: {self.mechanism}, calibrated per {self.unit}.")
        if self.untouched_entries:
            lines.append(f"About {self.untouched_entries:.3g} entries are released untouched.")
        elif self.untouched_entries is None:
            lines.append("Some entries are released untouched; how many depends on the number of rows.")
        return lines

    def _labels(self) -> str:
        if self.labels is None:
            return "Labels and class sizes: NOT covered."
        text = f"Labels: {_words(self.labels, 'label')}"
        if self.unit != "label" and self.record_with_label is not None:
            text += f"; a record with its label: {_words(self.record_with_label, 'record with label')}"
        return f"{text}."


def _older(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meaning of descriptions without these names: replaced records, or records with labels."""
    moments = "neighbours" in plain
    return {
        "neighbours": "replace",
        "replaced": plain["entry"] if moments else None,
        "labels_in_record": moments,
        "n_owners": 1,
    }


def check_relation(neighbours: Any) -> str:
    """Return the name of a neighbouring relation, or refuse what is none.

    Parameters
    ----------
    neighbours : str
        A name.

    Returns
    -------
    str
        The same name.

    See Also
    --------
    Guarantee : Says under which relation it holds.

    Examples
    --------
    >>> from onefold.privacy.guarantee import check_relation
    >>> check_relation("add-remove")
    'add-remove'
    """
    check_parameter("neighbours", neighbours, CONSTRAINTS["neighbours"])
    return str(neighbours)


def two_steps(pair: Pair) -> Pair:
    """Return what holds for a replaced record where one record more or less is covered.

    Replacing is removing one record, then adding one: group privacy of two.

    Parameters
    ----------
    pair : tuple of two float
        (epsilon, delta) for one record more or less.

    Returns
    -------
    epsilon : float
        Privacy loss for a replaced record.
    delta : float
        Probability with which it may be exceeded.

    See Also
    --------
    Guarantee : States both pairs.

    Examples
    --------
    >>> from onefold.privacy.guarantee import two_steps
    >>> two_steps((0.5, 0.0))
    (1.0, 0.0)
    """
    epsilon, delta = pair
    larger = (1.0 + math.exp(min(epsilon, 700.0))) * delta
    return (2.0 * epsilon, larger) if larger < 1.0 else NOTHING


def _weaker(one: Pair | None, other: Pair | None) -> Pair | None:
    return None if one is None or other is None else (max(one[0], other[0]), max(one[1], other[1]))


def _words(pair: Pair, unit: str) -> str:
    epsilon, delta = pair
    if not math.isfinite(epsilon):
        return f"no bound on epsilon per {unit}"
    return f"epsilon {epsilon:.4g} per {unit}, delta {delta:.3g}"


def _pair(name: str, value: Any) -> Pair:
    try:
        epsilon, delta = (float(number) for number in value)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be a pair (epsilon, delta)") from None
    if not epsilon >= 0 or not 0 <= delta <= 1:
        raise InvalidInputError(f"{name} must have epsilon of at least 0 and delta in [0, 1]")
    return epsilon, delta


def _read_pair(value: Any) -> Pair | None:
    if value is None:
        return None
    epsilon = value["epsilon"]
    return (math.inf if epsilon is None else epsilon), value["delta"]
