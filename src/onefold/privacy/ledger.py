"""What has been spent on the same people's data, release by release, and a limit that holds."""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields

from onefold._base.files import atomic_write
from onefold._base.validation import check_whole_number
from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError
from onefold.privacy import _accounting
from onefold.privacy._arguments import check_delta, check_unit, positive
from onefold.privacy.guarantee import RELATIONS, Guarantee, check_relation
from onefold.privacy.mechanisms import Mechanism

__all__ = ["Event", "Ledger"]

FORMAT = 2  # 1 did not say which neighbouring relation it was about
Pair = tuple[float, float]


@dataclass(frozen=True)
class Event:
    """``count`` releases of the same kind from the same data.

    Parameters
    ----------
    name, mechanism : words for whoever reads the ledger
    unit : "entry" or "record": what changes
    epsilon, delta : guarantee of one release
    count : number of releases
    family : "laplace" or "gaussian" where the noise itself is known, which RDP and PLD make use of
    noise_multiplier : scale (Laplace) or standard deviation (Gaussian) over the change of one coordinate
    coordinates : coordinates with independent noise that change together
    atom : probability of no noise on one coordinate
    neighbours : for records, "replace" or "add-remove": see :class:`~onefold.privacy.Guarantee`
    """

    name: str
    unit: str
    epsilon: float
    delta: float = 0.0
    mechanism: str = ""
    count: int = 1
    family: str | None = None
    noise_multiplier: float | None = None
    coordinates: int = 1
    atom: float = 0.0
    neighbours: str = "replace"

    def __post_init__(self) -> None:
        _check_about(self.unit, self.neighbours)
        check_delta(self.delta, zero=True)
        check_delta(self.atom, zero=True)
        check_whole_number("count", self.count)
        check_whole_number("coordinates", self.coordinates)
        if self.epsilon != 0:
            positive("epsilon", self.epsilon)
        if self.family not in (None, "laplace", "gaussian") or (self.family is None) != (
            self.noise_multiplier is None
        ):
            raise InvalidInputError(
                "family must be 'laplace' or 'gaussian', and comes with a noise_multiplier"
            )
        if self.noise_multiplier is not None:
            positive("noise_multiplier", self.noise_multiplier)

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        n_features: int,
        name: str = "release",
        unit: str = "record",
        count: int = 1,
    ) -> "Event":
        """One release (or ``count``) of rows of ``n_features`` entries by a mechanism."""
        guarantee = mechanism.guarantee(n_features)
        _refuse_void(guarantee)
        epsilon, delta = guarantee.entry if check_unit(unit) == "entry" else guarantee.record
        parts = mechanism.accounting(unit, n_features)
        return cls(
            name, unit, epsilon, delta, guarantee.mechanism, count, neighbours=guarantee.neighbours, **parts
        )


def _check_about(unit: str, neighbours: str) -> None:
    check_unit(unit)
    if check_relation(neighbours) != "replace" and unit == "entry":
        raise InvalidInputError("entries are changed, not added: neighbours='add-remove' is for records")


def _refuse_void(guarantee: Guarantee) -> None:
    if not guarantee.holds:
        raise InvalidInputError("a void guarantee cannot be entered in a ledger: no number describes it")


class Ledger:
    """Adds up releases from the same data and refuses the one that would exceed the limit.

    Parameters
    ----------
    limit_epsilon, limit_delta : budget, or None for no limit
    unit : "record" or "entry"; events of the other unit are refused, since their numbers cannot be added
    neighbours : "replace" (default) or "add-remove": the relation that all numbers are about. An event under
        the other relation is refused. A guarantee for "add-remove" enters a ledger of replaced records by its
        number for those; the other way round it promises nothing and is refused
    how : composition the limit is checked with: "basic", "advanced", "rdp" or "pld"; all but the first need
        ``limit_delta``

    Guarantees
    ----------
    * Releases may be chosen in view of earlier ones for "basic". "advanced", "rdp" and "pld" also allow it
      as long as the budget of each release is fixed beforehand.
    * ``spend`` either records the event within the limit, or raises and records nothing.
    * The ledger knows what it is told: a release that is not entered is not counted.

    Examples
    --------
    >>> ledger = Ledger(limit_epsilon=2.0)
    >>> ledger.spend(Event("survey", "record", 1.5))
    >>> ledger.total()
    (1.5, 0.0)
    >>> ledger.spend(Event("survey again", "record", 1.0))
    Traceback (most recent call last):
    onefold.exceptions.BudgetExceededError: epsilon would be 2.5 per record, the limit is 2
    """

    def __init__(
        self,
        limit_epsilon: float | None = None,
        limit_delta: float | None = None,
        *,
        unit: str = "record",
        how: str = "basic",
        neighbours: str = "replace",
    ) -> None:
        self.limit_epsilon = None if limit_epsilon is None else positive("limit_epsilon", limit_epsilon)
        self.limit_delta = None if limit_delta is None else check_delta(limit_delta, zero=how == "basic")
        _check_about(unit, neighbours)
        self.unit, self.how, self.neighbours = unit, how, neighbours
        _composition(how)
        if how != "basic" and limit_epsilon is not None and limit_delta is None:
            raise InvalidInputError(f"a limit by {how} composition needs limit_delta")
        self._events: list[Event] = []

    @property
    def events(self) -> tuple[Event, ...]:
        """What has been spent so far, in order."""
        return tuple(self._events)

    def spend(self, event: Event) -> None:
        """Enter a release, before it is made; raises and enters nothing if the limit would be exceeded."""
        if not isinstance(event, Event):
            raise InvalidInputError("spend takes an Event: see Event.of(mechanism, n_features)")
        self._check([*self._events, self._same_kind(event)])
        self._events.append(event)

    def spend_guarantee(self, guarantee: Guarantee, name: str, count: int = 1) -> None:
        """Enter a release by what its guarantee says about this ledger's unit and neighbouring relation."""
        _refuse_void(guarantee)
        pair = guarantee.entry if self.unit == "entry" else guarantee.record_under(self.neighbours)
        if not math.isfinite(pair[0]):
            raise InvalidInputError(
                f"this guarantee promises nothing per {self.unit} {RELATIONS[self.neighbours]}: "
                "no ledger can count it"
            )
        self.spend(Event(name, self.unit, *pair, guarantee.mechanism, count, neighbours=self.neighbours))

    def total(self, how: str = "basic", delta: float | None = None) -> Pair:
        """(epsilon, delta) of everything spent. ``delta`` is required by all but "basic" composition."""
        return _total(self._events, how, delta)

    def _same_kind(self, event: Event) -> Event:
        """Numbers about different things are not added up."""
        if event.unit != self.unit:
            raise InvalidInputError(f"this ledger counts per {self.unit}, the event is per {event.unit}")
        if event.neighbours != self.neighbours:
            raise InvalidInputError(
                f"this ledger is about one record {RELATIONS[self.neighbours]}, "
                f"the event about one {RELATIONS[event.neighbours]}"
            )
        return event

    def _check(self, events: list[Event]) -> None:
        epsilon, delta = math.inf, math.inf
        if self.how == "basic" or self.limit_epsilon is not None:
            epsilon, delta = _total(events, self.how, None if self.how == "basic" else self.limit_delta)
        tolerance = 1 + 1e-12  # ten times 0.1 may be entered in a budget of 1
        if self.limit_epsilon is not None and not epsilon <= self.limit_epsilon * tolerance:
            raise BudgetExceededError(
                f"epsilon would be {epsilon:.6g} per {self.unit}, the limit is {self.limit_epsilon:g}"
            )
        if self.how == "basic" and self.limit_delta is not None and not delta <= self.limit_delta * tolerance:
            raise BudgetExceededError(
                f"delta would be {delta:.3g} per {self.unit}, the limit is {self.limit_delta:g}"
            )

    def __str__(self) -> str:
        epsilon, delta = self.total()
        lines = [f"{sum(event.count for event in self._events)} releases, basic composition:"]
        lines.append(f"epsilon {epsilon:.6g} per {self.unit} {RELATIONS[self.neighbours]}, delta {delta:.3g}")
        lines += [
            f"  {event.count} x {event.name} {event.mechanism}: epsilon {event.epsilon:.4g} per {event.unit},"
            f" delta {event.delta:.3g}"
            for event in self._events
        ]
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger as JSON, whole or not at all."""
        plain = {
            "format": FORMAT,
            "limit_epsilon": self.limit_epsilon,
            "limit_delta": self.limit_delta,
            "unit": self.unit,
            "how": self.how,
            "neighbours": self.neighbours,
            "events": [asdict(event) for event in self._events],
        }
        with atomic_write(path) as file:
            file.write(json.dumps(plain, indent=1, allow_nan=False).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Ledger":
        """Read what ``save`` wrote; every event is checked again."""
        try:
            with open(path, "rb") as file:
                plain = json.loads(file.read())
        except ValueError:
            raise FileFormatError("this file is not a ledger") from None
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise FileFormatError(f"this file is not a ledger of format {FORMAT}")
        try:
            kind = {name: plain[name] for name in ("unit", "how", "neighbours")}
            ledger = cls(plain["limit_epsilon"], plain["limit_delta"], **kind)
            known = {field.name for field in fields(Event)}
            for event in plain["events"]:
                if not isinstance(event, Mapping) or set(event) != known:
                    raise FileFormatError("this ledger holds an event that cannot be read")
                ledger._events.append(ledger._same_kind(Event(**event)))
        except (KeyError, TypeError, InvalidInputError):
            raise FileFormatError("this ledger is damaged") from None
        return ledger


def _total(events: list[Event], how: str, delta: float | None) -> Pair:
    compose = _composition(how)
    if not events:
        return 0.0, 0.0 if delta is None else check_delta(delta)
    if how == "basic":
        if delta is not None:
            raise InvalidInputError("basic composition adds up delta: leave it out")
        return _accounting.basic(events), min(1.0, math.fsum(event.delta * event.count for event in events))
    if delta is None:
        raise InvalidInputError(f"{how} composition needs delta")
    # Never worse than simply adding up, where that stays within the same delta.
    plain = min(1.0, math.fsum(event.delta * event.count for event in events))
    bound = _accounting.basic(events) if plain <= check_delta(delta) else math.inf
    return min(bound, compose(events, delta)), delta


def _composition(how: str) -> Callable[..., float]:
    if how not in _accounting.COMPOSITIONS:
        raise InvalidInputError(f"how must be one of {', '.join(_accounting.COMPOSITIONS)}")
    return _accounting.COMPOSITIONS[how]
