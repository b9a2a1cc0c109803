"""What a release promises, to whom, and what it does not promise."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from onefold.exceptions import InvalidInputError

__all__ = ["Guarantee"]

Pair = tuple[float, float]
UNITS = ("entry", "record", "label")
NOT_COVERED = "the number of rows, and choices made by looking at the raw data"


@dataclass(frozen=True)
class Guarantee:
    """Differential privacy of one release, for one entry and for a whole record.

    Parameters
    ----------
    unit : what the noise was calibrated for: "entry", "record" or "label"
    entry, record : (epsilon, delta) when one entry, or a whole row, is replaced; epsilon is infinite where
        nothing is promised
    n_features : entries of a record
    untouched_entries : expected number of entries released without any noise; None if not known
    labels : (epsilon, delta) of each label, or None: labels and class sizes are NOT covered
    voided_by : reasons why the numbers do not hold; empty when they do
    mechanism : short description of the noise
    sensitivity : the change the numbers are about, in the unit; None if not said
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

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise InvalidInputError("unit must be 'entry', 'record' or 'label'")
        if isinstance(self.voided_by, str):
            raise InvalidInputError("voided_by must be a tuple of reasons")
        object.__setattr__(self, "voided_by", tuple(self.voided_by))
        object.__setattr__(self, "entry", _pair("entry", self.entry))
        object.__setattr__(self, "record", _pair("record", self.record))
        if self.labels is not None:
            object.__setattr__(self, "labels", _pair("labels", self.labels))

    @property
    def holds(self) -> bool:
        """Nothing has voided the guarantee."""
        return not self.voided_by

    @property
    def record_with_label(self) -> Pair | None:
        """(epsilon, delta) when a row and its label are replaced together; None if labels are not covered."""
        if self.labels is None:
            return None
        return self.record[0] + self.labels[0], min(1.0, self.record[1] + self.labels[1])

    def voided(self, reason: str) -> "Guarantee":
        """The same release after a step that spoils it."""
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidInputError("say in words what voids the guarantee")
        if reason in self.voided_by:
            return self
        return replace(self, voided_by=(*self.voided_by, reason))

    def with_labels(self, epsilon: float, delta: float = 0.0) -> "Guarantee":
        """The same release with labels that are themselves private."""
        return replace(self, labels=(epsilon, delta))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite epsilon becomes None."""
        plain = asdict(self)
        for name in ("entry", "record", "labels"):
            if plain[name] is not None:
                epsilon, delta = plain[name]
                plain[name] = {"epsilon": epsilon if math.isfinite(epsilon) else None, "delta": delta}
        plain["voided_by"] = list(self.voided_by)
        return {**plain, "holds": self.holds, "text": str(self)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Guarantee":
        """The guarantee that ``to_dict`` described."""
        try:
            pairs: dict[str, Any] = {name: _read_pair(plain[name]) for name in ("entry", "record", "labels")}
            rest = ("unit", "n_features", "untouched_entries", "mechanism", "sensitivity")
            return cls(**pairs, **{name: plain[name] for name in rest}, voided_by=tuple(plain["voided_by"]))
        except (KeyError, TypeError, AttributeError):
            raise InvalidInputError("this is not the description of a guarantee") from None

    def __str__(self) -> str:
        lines = [f"VOID: {reason}" for reason in self.voided_by]
        if self.voided_by:
            lines.append("The numbers below are what was aimed at; they do NOT hold.")
        lines += [*self._features(), self._labels()]
        covered = "" if self.labels else "labels, class sizes, "
        lines.append(f"Not covered: {covered}{NOT_COVERED}.")
        return "\n".join(lines)

    def _features(self) -> list[str]:
        if self.unit == "label":
            return ["Features: not covered by this release of labels."]
        change = "" if self.sensitivity is None else f" (a change of at most {self.sensitivity:g})"
        entry_change, record_change = (change, "") if self.unit == "entry" else ("", change)
        lines = [
            f"One entry{entry_change}: {_words(self.entry, 'entry')}.",
            f"A whole record of {self.n_features} entries{record_change}: {_words(self.record, 'record')}.",
        ]
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
