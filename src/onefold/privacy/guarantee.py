"""What a release promises, to whom, under which conditions, and what it does not promise."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from onefold._base.records import _adapter, record
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import FileFormatError, InvalidInputError, printable
from onefold.privacy.calibration import epsilon_of
from onefold.privacy.terms import (
    NOTHING,
    RELATIONS,
    UNITS,
    AtLeastOne,
    Losses,
    Pair,
    Relation,
    Sentences,
    Value,
    added,
    check_relation,
    checked_pair,
    group,
    multiplied,
    root,
    two_steps,
)
from onefold.privacy.wording import CHANGES, UNSTATED, assumptions, at_most, odds, of_what, sentences

__all__ = ["FLOAT_SAMPLER", "NOTHING", "RELATIONS", "SEEDED", "Guarantee", "check_relation", "two_steps"]

SEEDED = "the noise was drawn from a seed: whoever knows it can take the noise away"
FLOAT_SAMPLER = "the float sampler was chosen: the numbers hold in exact arithmetic only"
PAIRS = ("entry", "record", "replaced", "labels", "person")
ALL_UNITS = ("label", *UNITS)  # from the narrowest to the widest


@record
class Charge(Value):
    """The entry of a release in a ledger, by which an older copy of the ledger is known."""

    ledger: str  # its identity
    number: int
    mark: str  # seals the entry
    previous: str  # mark of the entry before it


@record
class Guarantee(Value):
    """Differential privacy of one release: of one entry, of a whole record, and of a person.

    ``str(guarantee)`` states the promise in sentences, with what is not covered.

    Parameters
    ----------
    unit : {"entry", "record", "person", "label"}
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
        The change of the unit that the numbers are about; None if it is not stated.
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
    person : tuple of two float or None, default=None
        (epsilon, delta) of all records of one person, under the relation ``neighbours``. None means that a
        person with several records is NOT covered as a person.
    rows_per_person : int or None, default=None
        Largest number of records of the persons that ``person`` is about; None where it is about everybody.
    clipped : bool, default=False
        Whether values were clipped to a declared domain. If not, nobody has checked that changes are no
        larger than ``sensitivity``, and every line says so.
    conditions : tuple of str, default=()
        What the caller has declared and onefold cannot see. The numbers hold only if all of it is true.
    mu : float or None, default=None
        Gaussian privacy of a person (of a record, where persons are not covered) under ``neighbours``, if the
        noise is Gaussian.
    schema : str or None, default=None
        Digest of the schema that the release rests on; None without one, or where parts rest on different
        ones.
    charges : tuple of Charge, default=()
        Its entries in ledgers: identity of the ledger, number of the entry, its mark and that of the entry
        before it.

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
    >>> guarantee = Laplace(0.5, sensitivity=1.0).guarantee(n_features=10)
    >>> guarantee.entry, guarantee.record, guarantee.holds
    ((0.5, 0.0), (5.0, 0.0), True)
    >>> guarantee.voided("the bounds of the data were inferred from the data").holds
    False
    """

    unit: Literal["label", "entry", "record", "person"]
    entry: Losses
    record: Losses
    n_features: AtLeastOne
    untouched_entries: Annotated[float, Field(ge=0)] | None = None
    labels: Losses | None = None
    voided_by: Sentences = ()
    mechanism: str = ""
    sensitivity: Annotated[float, Field(gt=0)] | None = None
    neighbours: Relation = "replace"
    replaced: Losses | None = None
    labels_in_record: bool = False
    n_owners: AtLeastOne = 1
    person: Losses | None = None
    rows_per_person: AtLeastOne | None = None
    clipped: bool = False
    conditions: Sentences = ()
    mu: Annotated[float, Field(ge=0)] | None = None
    schema: str | None = None
    charges: Annotated[tuple[Charge, ...], Field(strict=False)] = ()

    def __post_init__(self) -> None:
        if self.labels_in_record and self.labels is None:
            raise InvalidInputError("labels_in_record=True needs labels: the (epsilon, delta) of a label")
        if self.neighbours == "replace" and self.replaced not in (None, self.record):
            raise InvalidInputError("under neighbours='replace', replaced is what record says")
        if self.replaced is None:
            pair = self.record if self.neighbours == "replace" else two_steps(self.record)
            object.__setattr__(self, "replaced", pair)

    @property
    def holds(self) -> bool:
        """Whether nothing has voided the guarantee."""
        return not self.voided_by

    @property
    def record_with_label(self) -> Pair | None:
        """(epsilon, delta) of a record together with its label; None if labels are not covered."""
        if self.labels is None:
            return None
        return self.record if self.labels_in_record else _both(self.record, self.labels)

    @property
    def person_with_labels(self) -> Pair | None:
        """(epsilon, delta) of a person and the labels of its records; None if either is not covered.

        Each label has noise of its own, so their losses add up.
        """
        if self.person is None or self.labels is None:
            return None
        if self.labels_in_record:
            return self.person
        rows = self.rows_per_person or math.inf
        epsilon, delta = self.labels
        return _both(self.person, (multiplied(rows, epsilon), min(1.0, multiplied(rows, delta))))

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
        return self._with("voided_by", reason)

    def provided(self, condition: str) -> "Guarantee":
        """Return the guarantee under a further condition, which the caller answers for and which is printed.

        Parameters
        ----------
        condition : str
            What must be true, as it reads after "provided that".

        Returns
        -------
        Guarantee
            The guarantee with the condition added.
        """
        return self._with("conditions", condition)

    def seeded(self, random_state: Any) -> "Guarantee":
        """Return the guarantee of a release whose noise came from ``random_state``: void unless it is None.

        Parameters
        ----------
        random_state : int, Generator or None
            The source of the noise; None is the operating system.

        Returns
        -------
        Guarantee
            The guarantee, void if the noise can be drawn again.
        """
        return self if random_state is None else self.voided(SEEDED)

    def _with(self, name: str, sentence: str) -> "Guarantee":
        if not isinstance(sentence, str) or not sentence.strip():
            raise InvalidInputError(f"{name} needs a sentence that says what and why")
        known: tuple[str, ...] = getattr(self, name)
        return self if sentence in known else replace(self, **{name: (*known, sentence)})  # type: ignore[arg-type]

    def with_labels(self, epsilon: float, delta: float = 0.0) -> "Guarantee":
        """Return the guarantee of the same release together with private labels.

        Labels that were randomised before count as well: what both lose adds up.

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
        told = checked_pair((epsilon, delta))
        return replace(self, labels=told if self.labels is None else _both(self.labels, told))

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

        A record is at one site, so nothing adds up: what both promise holds.

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
        return replace(self.join(other), n_owners=self.n_owners + other.n_owners)

    def _kind(self) -> tuple[object, ...]:
        return self.unit, self.n_features, self.neighbours, self.labels_in_record

    def join(self, other: "Guarantee") -> "Guarantee":
        """Return what holds for records of which each is in one of two releases.

        Nothing in it is smaller than in either part: the larger epsilon, the larger delta, every condition,
        every reason for which one of them is void. Where only one part promises something, nothing is
        promised. Entries released without noise are counted in both.

        Parameters
        ----------
        other : Guarantee
            The guarantee of the other release.

        Returns
        -------
        Guarantee
            What both promise.
        """
        relation = self.neighbours if self.neighbours == other.neighbours else "replace"
        both = (self, other)
        pairs: dict[str, Any] = {name: _larger(*(getattr(part, name) for part in both)) for name in PAIRS}
        pairs["record"] = _larger(*(part.record_under(relation) for part in both))
        if relation == "replace":
            pairs["replaced"] = pairs["record"]
        if self.neighbours != other.neighbours:
            pairs["person"] = None  # stated under one relation, which is not that of the other part
        # Labels alone do not stand for records that were released as well.
        units = {self.unit, other.unit} - {"label"} or {"label"}
        unit = min(units, key=ALL_UNITS.index)
        untouched = (self.untouched_entries, other.untouched_entries)
        sensitivity, conditions = _assumed(self, other, unit)
        names = [name for part in both for name in part.mechanism.split(" / ") if name]
        return replace(
            self,
            **pairs,
            unit=unit,
            neighbours=relation,
            n_features=max(self.n_features, other.n_features),
            untouched_entries=None if None in untouched else sum(number or 0.0 for number in untouched),
            voided_by=tuple(dict.fromkeys((*self.voided_by, *other.voided_by))),
            conditions=conditions,
            mechanism=" / ".join(dict.fromkeys(names)),
            sensitivity=sensitivity,
            clipped=self.clipped and other.clipped,
            labels_in_record=self.labels_in_record and other.labels_in_record,
            n_owners=max(self.n_owners, other.n_owners),
            rows_per_person=_fewest(self, other),
            mu=_gaussian(self, other),
            schema=self.schema if self.schema == other.schema else None,
            charges=tuple(dict.fromkeys((*self.charges, *other.charges))),
        )

    def _widest(self) -> Pair:
        """Return what ``mu`` is about: the pair of a person, or of a record where persons are not covered."""
        return self.record if self.person is None else self.person

    def at_sites(self, n_sites: int, shared_noise: bool = False) -> Pair:
        """Return (epsilon, delta) of a person, or of a record, that several sites know.

        Parameters
        ----------
        n_sites : int
            Number of sites that know the person.
        shared_noise : bool, default=False
            Whether the sites' sums get noise once, together. With noise of its own at every site Gaussian
            privacy grows by the root of their number, with shared noise by the number itself.

        Returns
        -------
        epsilon : float
            Privacy loss, infinite where nothing is promised.
        delta : float
            Probability with which it may be exceeded.
        """
        check_parameter("n_sites", n_sites, Whole(1))
        pair = epsilon, delta = self._widest()
        if n_sites == 1:
            return pair
        if not math.isfinite(epsilon):
            return NOTHING
        if self.mu and 0 < delta < 1:
            grown = multiplied(self.mu, n_sites if shared_noise else root(n_sites))
            return max(epsilon, epsilon_of(grown, delta)), delta
        if shared_noise:
            return group(pair, n_sites)
        return multiplied(n_sites, epsilon), min(1.0, multiplied(n_sites, delta))

    def odds(self, unit: str = "record") -> str:
        """Say for a data-protection officer what an attacker who knows everything else can be sure of.

        Parameters
        ----------
        unit : {"entry", "record", "person"}, default="record"
            What the attacker does not know.

        Returns
        -------
        str
            Odds before and after, or that nothing is promised.
        """
        return odds(self, unit)

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as plain values for JSON.

        Returns
        -------
        dict
            All parameters, with None for an infinite epsilon; ``holds``; the sentences as ``text``; and what
            an attacker can be sure of as ``odds``. ``schema`` and ``charges`` are left out where there is
            nothing to say. ``guarantee.schema.json`` in this folder describes it.
        """
        plain = READER.dump_python(self, mode="json").items()
        plain = {name: value for name, value in plain if value or name not in ("schema", "charges")}
        told = {unit: self.odds(unit) for unit in UNITS}
        return {**plain, "holds": self.holds, "text": str(self), "odds": told}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Guarantee":
        """Restore the guarantee that :meth:`to_dict` described.

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
            known = {"schema": None, "charges": (), **plain}
            given = {field.name: known[field.name] for field in fields(cls)}
            found = READER.validate_json(json.dumps(given))
        except (KeyError, TypeError, ValidationError):
            raise FileFormatError("this is not the description of a guarantee") from None
        if plain.get("holds", found.holds) != found.holds:
            raise FileFormatError("this guarantee says whether it holds in two ways")
        return found

    def _kept_parts(self, compact: bool) -> Any:
        """JSON values of all fields, for records that hold a guarantee."""
        return READER.dump_python(self, mode="json")

    def __str__(self) -> str:
        return "\n".join(map(printable, sentences(self)))


READER = _adapter(Guarantee)


def _both(one: Pair, other: Pair) -> Pair:
    """What holds for two releases about the same thing."""
    return added(one[0], other[0]), min(1.0, added(one[1], other[1]))


def _larger(one: Pair | None, other: Pair | None) -> Pair | None:
    return None if one is None or other is None else (max(one[0], other[0]), max(one[1], other[1]))


def _fewest(one: Guarantee, other: Guarantee) -> int | None:
    """Records of a person of whom both parts speak; a part without a number speaks of all."""
    if one.person is None or other.person is None:
        return None
    known = [rows for rows in (one.rows_per_person, other.rows_per_person) if rows is not None]
    return min(known, default=None)


def _gaussian(one: Guarantee, other: Guarantee) -> float | None:
    """mu of both, where they speak of the same unit at the same delta; otherwise it would say too little."""
    kinds = [(part.person is None, part.neighbours, part._widest()[1]) for part in (one, other)]
    unlike = one.mu is None or other.mu is None or kinds[0] != kinds[1]
    return None if unlike else max(one.mu or 0.0, other.mu or 0.0)


def _assumed(one: Guarantee, other: Guarantee, unit: str) -> tuple[float | None, tuple[str, ...]]:
    """Largest change that both parts cover, and the conditions of both, with what they assume of changes.

    Values that were clipped need no assumption. Changes of entries are comparable: the smaller one is left.
    Sizes of records are not, unless they are the same: each noise has its own measure of them.
    """
    sensitivity, words = _joint_change(one, other, unit)
    conditions = dict.fromkeys((*one.conditions, *other.conditions, *words))
    unstated = any(assumptions(part)[:1] == (UNSTATED,) for part in (one, other))
    if unstated and (sensitivity is not None or any(CHANGES in condition for condition in conditions)):
        conditions[UNSTATED] = None  # the other part's words would take its place
    return sensitivity, tuple(conditions)


def _joint_change(one: Guarantee, other: Guarantee, unit: str) -> tuple[float | None, tuple[str, ...]]:
    unchecked = [part for part in (one, other) if not part.clipped and part.sensitivity is not None]
    if not unchecked:
        clipped = one.clipped and other.clipped and one.sensitivity == other.sensitivity
        return (one.sensitivity if clipped else None), ()
    changes = {part.sensitivity for part in unchecked if part.sensitivity is not None}
    if all(of_what(part) == unit == "entry" for part in unchecked):
        return min(changes), ()
    families = {part.mechanism.split(" ")[0] for part in unchecked}
    alike = all(part.unit == unit for part in unchecked)
    if alike and len(changes) == len(families) == 1:
        return changes.pop(), ()
    words = (
        f"{at_most(of_what(part), part.sensitivity or 0.0)} in the release with "
        f"{part.mechanism or 'unnamed noise'}, which nothing checks"
        for part in unchecked
    )
    return None, tuple(dict.fromkeys(words))
