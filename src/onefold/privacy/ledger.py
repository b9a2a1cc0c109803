"""What has been spent on the same people's data, release by release, and a limit that holds."""

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

from onefold._base.files import atomic_write, file_lock
from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError
from onefold.privacy import _accounting
from onefold.privacy._arguments import check_delta, positive
from onefold.privacy._event import Event, check_about, refuse_void
from onefold.privacy._ledger_files import digest_of, pack_ledger, unpack_ledger
from onefold.privacy.guarantee import RELATIONS, Guarantee

__all__ = ["Event", "Ledger"]

Pair = tuple[float, float]
KIND = ("limit_epsilon", "limit_delta", "unit", "how", "neighbours")
# Checking the limit and entering the event are one step, whichever threads spend.
ONE_AT_A_TIME = threading.Lock()


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
    * Threads may share a ledger; processes share a file through :meth:`shared`.
    * The ledger knows what it is told: a release that is not entered is not counted. Its file shows damage
      and careless edits, not those of somebody who means to deceive.

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
        check_about(unit, neighbours)
        self.unit, self.how, self.neighbours = unit, how, neighbours
        _composition(how)
        if how != "basic" and (limit_epsilon is None) != (limit_delta is None):
            raise InvalidInputError(f"a limit by {how} composition needs limit_epsilon and limit_delta")
        self._events: list[Event] = []
        self._seen: str | None = None  # digest of the file as this ledger knows it

    @property
    def events(self) -> tuple[Event, ...]:
        """What has been spent so far, in order."""
        return tuple(self._events)

    def spend(self, event: Event) -> None:
        """Enter a release, before it is made; raises and enters nothing if the limit would be exceeded."""
        if not isinstance(event, Event):
            raise InvalidInputError("spend takes an Event: see Event.of(mechanism, n_features)")
        with ONE_AT_A_TIME:
            self._check([*self._events, self._same_kind(event)])
            self._events.append(event)

    def spend_guarantee(self, guarantee: Guarantee, name: str, count: int = 1) -> None:
        """Enter a release by what its guarantee says about this ledger's unit and neighbouring relation."""
        refuse_void(guarantee)
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
        """Write the ledger as JSON, whole or not at all.

        A file that another ledger wrote since this one read it, or that this one never read, is not
        overwritten: what it has counted would be forgotten.
        """
        if Path(path).is_file() and digest_of(Path(path).read_bytes()) != self._seen:
            raise InvalidInputError(
                f"{os.fspath(path)} holds what this ledger has not read: load it, and spend on that"
            )
        kind = {name: getattr(self, name) for name in KIND}
        written = pack_ledger({**kind, "events": [asdict(event) for event in self._events]})
        with atomic_write(path) as file:
            file.write(written)
        self._seen = digest_of(written)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Ledger":
        """Read what ``save`` wrote; every event is checked again."""
        written = Path(path).read_bytes()
        plain = unpack_ledger(written)
        try:
            ledger = cls(**{name: plain[name] for name in KIND})
            known = {field.name for field in fields(Event)}
            for event in plain["events"]:
                if not isinstance(event, Mapping) or set(event) != known:
                    raise FileFormatError("this ledger holds an event that cannot be read")
                ledger._events.append(ledger._same_kind(Event(**event)))
        except (KeyError, TypeError, InvalidInputError):
            raise FileFormatError("this ledger is damaged") from None
        ledger._seen = digest_of(written)
        return ledger

    @classmethod
    @contextmanager
    def shared(cls, path: str | os.PathLike[str]) -> Iterator["Ledger"]:
        """The ledger at ``path``, for this process alone until the block ends, then saved.

        Whoever else asks for it waits. If the block fails, nothing is saved.

        Examples
        --------
        >>> with Ledger.shared("ledger.json") as ledger:  # doctest: +SKIP
        ...     ledger.spend(Event("survey", "record", 0.5))
        """
        with file_lock(path):
            ledger = cls.load(path)
            yield ledger
            ledger.save(path)


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
