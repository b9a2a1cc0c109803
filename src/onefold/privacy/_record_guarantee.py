"""What a release of moments promises: records together with their labels."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onefold.exceptions import InvalidInputError
from onefold.privacy.guarantee import Guarantee

__all__ = ["RecordGuarantee", "worst"]

Pair = tuple[float, float]
RELATIONS = {
    "add-remove": "one record and its label more or less",
    "replace": "one record and its label replaced",
}


@dataclass(frozen=True)
class RecordGuarantee(Guarantee):
    """Differential privacy of a record together with its label.

    ``record`` is about ``neighbours``. ``entry`` and ``labels`` are about a *change* of an entry or a label,
    which replaces the record: they hold the numbers for a replaced record, whatever the relation.
    """

    neighbours: str = "add-remove"
    n_owners: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours not in RELATIONS:
            raise InvalidInputError(f"neighbours must be one of {', '.join(RELATIONS)}")

    @property
    def record_with_label(self) -> Pair:
        """The label is part of the record here."""
        return self.record

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "RecordGuarantee":
        """The guarantee that ``to_dict`` described."""
        base = Guarantee.from_dict(plain)
        try:
            fields = {name: getattr(base, name) for name in Guarantee.__dataclass_fields__}
            return cls(**fields, neighbours=plain["neighbours"], n_owners=int(plain["n_owners"]))
        except (KeyError, TypeError, ValueError):
            raise InvalidInputError("this is not the description of a guarantee") from None

    def __str__(self) -> str:
        lines = [f"VOID: {reason}" for reason in self.voided_by]
        if self.voided_by:
            lines.append("The numbers below are what was aimed at; they do NOT hold.")
        if not math.isfinite(self.record[0]):
            return "\n".join([*lines, "No noise was added: nothing is promised to anybody."])
        lines.append(f"Noise: {self.mechanism}, calibrated per record.")
        lines.append(f"Record, {RELATIONS[self.neighbours]}: {_words(self.record, 'record')}.")
        if self.neighbours == "add-remove":
            lines.append(f"Record, {RELATIONS['replace']}: {_words(self.entry, 'record')}.")
        if self.n_owners > 1:
            lines.append(
                f"Holds for each of {self.n_owners} owners' records, if no record is with two owners."
            )
        size = "" if self.neighbours == "add-remove" else "the number of records, "
        lines.append(f"Not covered: {size}choices made by looking at the raw data.")
        return "\n".join(lines)


def _words(pair: Pair, unit: str) -> str:
    epsilon, delta = pair
    if not math.isfinite(epsilon):
        return f"no bound on epsilon per {unit}"
    return f"epsilon {epsilon:.4g} per {unit}, delta {delta:.3g}"


def worst(first: RecordGuarantee, second: RecordGuarantee) -> RecordGuarantee:
    """What every owner is promised when the releases of two groups of owners are added up."""

    def pair(name: str) -> Pair:
        mine, other = getattr(first, name), getattr(second, name)
        return max(mine[0], other[0]), max(mine[1], other[1])

    if first.neighbours != second.neighbours:
        raise InvalidInputError("the two releases are about different neighbouring relations")
    return RecordGuarantee(
        unit="record",
        entry=pair("entry"),
        record=pair("record"),
        labels=pair("labels"),
        n_features=first.n_features,
        untouched_entries=0.0,
        voided_by=tuple(dict.fromkeys((*first.voided_by, *second.voided_by))),
        mechanism=first.mechanism,
        sensitivity=first.sensitivity,
        neighbours=first.neighbours,
        n_owners=first.n_owners + second.n_owners,
    )
