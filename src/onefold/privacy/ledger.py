"""What has been spent on the same people's data, release by release, and a limit that holds.

Releases are events. A release that is (epsilon, delta) private is no worse than this one: with probability
delta it discloses everything, otherwise it is a coin that is epsilon private (Kairouz, Oh and Viswanath
2017). The first parts of all releases are joined exactly, and only what is left of the total delta is spent
on composing the second parts.

A ledger's file is an archive with checksums, so that damage and careless edits show.
"""

import hashlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from onefold._base.archive import archive_bytes, read_archive
from onefold._base.files import file_lock, read_saved, write_whole
from onefold._base.optional import require
from onefold._base.validation import Entry, Instance, Number, OneOf, Whole, check_parameter, check_parameters
from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.mechanisms.mechanism import Mechanism
from onefold.privacy.mechanisms.rows import RowNoise
from onefold.privacy.terms import DELTA, DELTA_OR_ZERO, POSITIVE, RELATIONS, UNITS, Pair, number

__all__ = ["Event", "Ledger"]

# Checking the limit and entering the event are one step, whichever threads spend.
ONE_AT_A_TIME = threading.Lock()
ARCHIVE_KIND = "ledger"
EXTRA = "accounting"
PLD_INTERVAL = 1e-4


# --- events -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """One or several releases of the same kind from the same data, as a ledger counts them.

    Parameters
    ----------
    name : str
        What was released, for the reader of the ledger.
    unit : {"entry", "record"}
        What changes between neighbouring datasets.
    epsilon : float
        Privacy loss of one release.
    delta : float, default=0.0
        Probability with which one release may exceed ``epsilon``.
    mechanism : str, default=""
        The noise, for the reader of the ledger.
    count : int, default=1
        Number of releases.
    family : {"laplace", "gaussian"} or None, default=None
        The noise itself where it is known: "rdp" and "pld" composition then give smaller totals.
    noise_multiplier : float or None, default=None
        Scale (Laplace) or standard deviation (Gaussian) divided by the change of one coordinate. Required
        with ``family``, and only then.
    coordinates : int, default=1
        Number of coordinates with independent noise that change together.
    atom : float, default=0.0
        Probability that a coordinate gets no noise.
    neighbours : {"replace", "add-remove"}, default="replace"
        How neighbouring datasets differ in a record: see :class:`Guarantee`.

    See Also
    --------
    Ledger : Adds up events and enforces a limit.
    Guarantee : What a single release promises.

    Examples
    --------
    >>> from onefold.privacy import Event, Laplace
    >>> event = Event.of(Laplace(0.5), n_features=3, name="survey")
    >>> event.epsilon, event.family, event.coordinates
    (1.5, 'laplace', 3)
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
    constraints: ClassVar[dict[str, Entry]] = {
        "name": Instance(str, "a text"),
        "mechanism": Instance(str, "a text"),
        "unit": OneOf(UNITS),
        "neighbours": OneOf(RELATIONS),
        "epsilon": Number(at_least=0),
        "delta": DELTA_OR_ZERO,
        "atom": DELTA_OR_ZERO,
        "count": Whole(1),
        "coordinates": Whole(1),
        "family": (OneOf(("laplace", "gaussian")), None),
        "noise_multiplier": (POSITIVE, None),
    }

    def __post_init__(self) -> None:
        check_parameters(self)
        _refuse_added_entries(self.unit, self.neighbours)
        if (self.family is None) != (self.noise_multiplier is None):
            raise InvalidInputError("family and noise_multiplier must be given together, or neither of them")

    @classmethod
    def of(
        cls,
        mechanism: Mechanism | RowNoise,
        n_features: int,
        name: str = "release",
        unit: str = "record",
        count: int = 1,
    ) -> "Event":
        """Describe releases of rows by a mechanism.

        Parameters
        ----------
        mechanism : Mechanism, FisherGaussian or BoundedFisherNoise
            The noise.
        n_features : int
            Entries of a row.
        name : str, default="release"
            What is released.
        unit : {"record", "entry"}, default="record"
            What changes between neighbouring datasets.
        count : int, default=1
            Number of releases.

        Returns
        -------
        Event
            The event, with the family of the noise where an accountant knows it.
        """
        guarantee = mechanism.guarantee(n_features)
        _refuse_void(guarantee)
        check_parameter("unit", unit, cls.constraints["unit"])
        epsilon, delta = guarantee.entry if unit == "entry" else guarantee.record
        parts = mechanism.accounting(unit, n_features)
        return cls(
            name, unit, epsilon, delta, guarantee.mechanism, count, neighbours=guarantee.neighbours, **parts
        )


def _refuse_added_entries(unit: str, neighbours: str) -> None:
    """Refuse a relation that the unit does not allow: a record can be added or removed, an entry cannot."""
    if unit == "entry" and neighbours != "replace":
        raise InvalidInputError("entries are changed, not added: neighbours='add-remove' is for records")


def _refuse_void(guarantee: Guarantee) -> None:
    """Refuse a guarantee that does not hold: there is no number to count."""
    if not guarantee.holds:
        raise InvalidInputError("a void guarantee cannot be entered in a ledger: no number describes it")


# --- composition: from events to an epsilon ---------------------------------------------------------------


def _basic(events: Sequence[Event], delta: float | None = None) -> float:
    """Add up the epsilons of all releases; their deltas add up as well."""
    return math.fsum(event.epsilon * event.count for event in events)


def _left(delta: float, disclosed: Sequence[tuple[float, int]]) -> float:
    """Return what remains of the total ``delta``: 1 - (1 - delta) / product of (1 - delta_i)."""
    log_kept = math.fsum(count * math.log1p(-mass) for mass, count in disclosed)
    left = -math.expm1(math.log1p(-delta) - log_kept)
    if not left > 0:
        raise InvalidInputError("delta must be larger than what the releases have spent of it already")
    return left


def _advanced(events: Sequence[Event], delta: float) -> float:
    """Bound the total by Kairouz, Oh and Viswanath 2017, Theorem 3.5, for releases of different size."""
    left = _left(delta, [(event.delta, event.count) for event in events])
    drift = math.fsum(e.count * e.epsilon * math.tanh(e.epsilon / 2) for e in events)
    squares = math.fsum(e.count * e.epsilon**2 for e in events)
    return min(_basic(events), drift + math.sqrt(2 * math.log(1 / left) * squares))


def _disclosing(events: Sequence[Event]) -> list[tuple[float, int]]:
    """List the probabilities of full disclosure: atoms of known noise, delta of unknown mechanisms."""
    return [
        (event.delta, event.count) if event.family is None else (event.atom, event.count * event.coordinates)
        for event in events
    ]


def _rdp(events: Sequence[Event], delta: float) -> float:
    """Compose by Rényi differential privacy, with the accountant of dp-accounting."""
    left = _left(delta, _disclosing(events))
    library: Any = require("dp_accounting", EXTRA)
    accountant = require("dp_accounting.rdp", EXTRA).RdpAccountant(
        neighboring_relation=library.NeighboringRelation.REPLACE_ONE
    )
    for event in events:
        times = event.count * event.coordinates if event.family else event.count
        if event.family == "gaussian":
            accountant.compose(library.GaussianDpEvent(event.noise_multiplier), times)
        elif event.family == "laplace":
            accountant.compose(library.LaplaceDpEvent(event.noise_multiplier), times)
        elif event.epsilon > 0:  # the coin: a truthful answer is exp(epsilon) times as likely as the other
            noise = 2 / (1 + math.exp(min(event.epsilon, 700.0)))
            accountant.compose(library.RandomizedResponseDpEvent(noise, 2), times)
    return float(accountant.get_epsilon(left))


def _pld(events: Sequence[Event], delta: float) -> float:
    """Compose privacy-loss distributions of dp-accounting, rounded to the pessimistic side."""
    left = _left(delta, _disclosing(events))
    library: Any = require("dp_accounting.pld.privacy_loss_distribution", EXTRA)
    common: Any = require("dp_accounting.pld.common", EXTRA)
    # Coarser for large losses: the number of intervals stays bounded.
    largest = max(event.epsilon / (event.coordinates if event.family else 1) for event in events)
    interval = max(PLD_INTERVAL, largest * 1e-5)
    options = {"value_discretization_interval": interval}
    total = None
    for event in events:
        times = event.count * event.coordinates if event.family else event.count
        if event.family == "gaussian":
            one = library.from_gaussian_mechanism(event.noise_multiplier, **options)
        elif event.family == "laplace":
            one = library.from_laplace_mechanism(event.noise_multiplier, **options)
        else:
            parameters = common.DifferentialPrivacyParameters(event.epsilon, 0.0)
            one = library.from_privacy_parameters(parameters, **options)
        several = one.self_compose(times) if times > 1 else one
        total = several if total is None else total.compose(several)
    assert total is not None  # callers pass at least one event
    return float(total.get_epsilon_for_delta(left))


COMPOSITIONS: dict[str, Callable[..., float]] = {
    "basic": _basic,
    "advanced": _advanced,
    "rdp": _rdp,
    "pld": _pld,
}


# --- the ledger -------------------------------------------------------------------------------------------

CONSTRAINTS: dict[str, Entry] = {
    "limit_epsilon": (POSITIVE, None),
    "limit_delta": (DELTA_OR_ZERO, None),
    "unit": OneOf(UNITS),
    "how": OneOf(COMPOSITIONS),
    "neighbours": OneOf(RELATIONS),
}


class Ledger:
    """Add up releases from the same data, and refuse the one that would exceed a limit.

    Parameters
    ----------
    limit_epsilon : float or None, default=None
        Largest total epsilon; None sets no limit.
    limit_delta : float or None, default=None
        Largest total delta; None sets no limit. Every composition but "basic" needs it with
        ``limit_epsilon``.
    unit : {"record", "entry"}, default="record"
        What changes between neighbouring datasets. An event of the other unit is refused, since its numbers
        cannot be added to these.
    how : {"basic", "advanced", "rdp", "pld"}, default="basic"
        Composition that the limit is checked with. "rdp" and "pld" need the extra ``accounting``.
    neighbours : {"replace", "add-remove"}, default="replace"
        The relation that all numbers are about. An event under the other relation is refused. A guarantee
        for "add-remove" enters a ledger of replaced records by its number for those; the other way round it
        promises nothing and is refused.

    Attributes
    ----------
    events : tuple of Event
        What has been spent so far, in order.

    See Also
    --------
    Event : One entry of a ledger.
    Guarantee : What a single release promises.

    Notes
    -----
    *Guarantees.*

    * For "basic" composition, releases may be chosen in view of earlier ones. "advanced", "rdp" and "pld"
      also allow it as long as the budget of each release is fixed beforehand.
    * ``spend`` either records the event within the limit, or raises and records nothing.
    * Threads may share a ledger; processes share a file through :meth:`shared`.
    * A release that is not entered is not counted. The file shows damage and careless edits, but not the
      edits of somebody who means to deceive.

    References
    ----------
    Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", 2017, Theorem 3.5, for
    "advanced" composition.

    Examples
    --------
    >>> from onefold.privacy import Event, Ledger
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
        self.limit_epsilon, self.limit_delta = limit_epsilon, limit_delta
        self.unit, self.how, self.neighbours = unit, how, neighbours
        check_parameters(self, CONSTRAINTS)
        if how != "basic":
            check_parameter("limit_delta", limit_delta, (DELTA, None))
        self.limit_epsilon = None if limit_epsilon is None else float(limit_epsilon)
        self.limit_delta = None if limit_delta is None else float(limit_delta)
        _refuse_added_entries(unit, neighbours)
        if how != "basic" and (limit_epsilon is None) != (limit_delta is None):
            raise InvalidInputError(f"a limit by {how} composition needs limit_epsilon and limit_delta")
        self._events: list[Event] = []
        self._seen: str | None = None  # digest of the file as this ledger knows it

    @property
    def events(self) -> tuple[Event, ...]:
        """Events entered so far, in order."""
        return tuple(self._events)

    def spend(self, event: Event) -> None:
        """Enter releases before they are made.

        Parameters
        ----------
        event : Event
            The releases, of this ledger's unit and neighbouring relation.

        Raises
        ------
        BudgetExceededError
            If the limit would be exceeded; the event is then not entered.
        """
        if not isinstance(event, Event):
            raise InvalidInputError("spend takes an Event: see Event.of(mechanism, n_features)")
        with ONE_AT_A_TIME:
            self._check([*self._events, self._same_kind(event)])
            self._events.append(event)

    def spend_guarantee(self, guarantee: Guarantee, name: str, count: int = 1) -> None:
        """Enter a release by what its guarantee says about this ledger's unit and neighbouring relation.

        Parameters
        ----------
        guarantee : Guarantee
            What the release promises; a void one is refused.
        name : str
            What is released.
        count : int, default=1
            Number of releases.

        Raises
        ------
        BudgetExceededError
            If the limit would be exceeded; nothing is then entered.
        """
        _refuse_void(guarantee)
        pair = guarantee.entry if self.unit == "entry" else guarantee.record_under(self.neighbours)
        if not math.isfinite(pair[0]):
            raise InvalidInputError(
                f"this guarantee promises nothing per {self.unit} {RELATIONS[self.neighbours]}: "
                "no ledger can count it"
            )
        self.spend(Event(name, self.unit, *pair, guarantee.mechanism, count, neighbours=self.neighbours))

    def total(self, how: str = "basic", delta: float | None = None) -> Pair:
        """Compute what has been spent so far.

        Parameters
        ----------
        how : {"basic", "advanced", "rdp", "pld"}, default="basic"
            Composition to use.
        delta : float or None, default=None
            Total delta at which epsilon is stated; required by every composition but "basic", which adds up
            the deltas of the events.

        Returns
        -------
        epsilon : float
            Total privacy loss.
        delta : float
            Probability with which it may be exceeded.
        """
        return _total(self._events, how, delta)

    def _same_kind(self, event: Event) -> Event:
        """Return the event, or refuse one whose numbers are about something else."""
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
        """Write the ledger to a file, completely or not at all.

        A file that another ledger has written since this one read it, or that this one has never read, is
        not overwritten: what it has counted would be lost.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        if Path(path).is_file() and _digest(Path(path).read_bytes()) != self._seen:
            raise InvalidInputError(
                f"{os.fspath(path)} holds what this ledger has not read: load it, and spend on that"
            )
        kind = {name: getattr(self, name) for name in CONSTRAINTS}
        events = [asdict(event) for event in self._events]
        written = archive_bytes(ARCHIVE_KIND, {**kind, "events": events}, {})
        write_whole(path, written)
        self._seen = _digest(written)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Ledger":
        """Read a ledger from a file; every event is checked again.

        Parameters
        ----------
        path : str or os.PathLike
            A file written by :meth:`save`.

        Returns
        -------
        Ledger
            The ledger.

        Raises
        ------
        FileFormatError
            If the file is damaged or holds no ledger.
        InvalidInputError
            If there is no such file.
        """
        return read_saved(path, "there is no ledger", cls._from_bytes)

    @classmethod
    def _from_bytes(cls, written: bytes) -> "Ledger":
        plain, _ = read_archive(written, ARCHIVE_KIND)
        try:
            ledger = cls(**{name: plain[name] for name in CONSTRAINTS})
            known = {field.name for field in fields(Event)}
            for event in plain["events"]:
                if not isinstance(event, Mapping) or set(event) != known:
                    raise FileFormatError("this ledger holds an event that cannot be read")
                ledger._events.append(ledger._same_kind(Event(**event)))
        except (KeyError, TypeError, InvalidInputError):
            raise FileFormatError("this ledger is damaged") from None
        ledger._seen = _digest(written)
        return ledger

    @classmethod
    @contextmanager
    def shared(cls, path: str | os.PathLike[str]) -> Iterator["Ledger"]:
        """Open the ledger in a file for this process alone, and save it at the end of the ``with`` block.

        Other processes that ask for it wait. If the block raises, nothing is saved.

        Parameters
        ----------
        path : str or os.PathLike
            A file written by :meth:`save`.

        Yields
        ------
        Ledger
            The ledger.

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
    check_parameter("how", how, CONSTRAINTS["how"])
    if how == "basic" and delta is not None and events:
        raise InvalidInputError("basic composition adds up delta: leave it out")
    if delta is not None:
        delta = number("delta", delta, DELTA)
    if not events:
        return 0.0, delta or 0.0
    spent = _basic(events), min(1.0, math.fsum(event.delta * event.count for event in events))
    if how == "basic":
        return spent
    if delta is None:
        raise InvalidInputError(f"{how} composition needs delta")
    composed = COMPOSITIONS[how](events, delta)
    # Never worse than simply adding up, where that stays within the same delta.
    return min(composed, spent[0]) if spent[1] <= delta else composed, delta


def _digest(written: bytes) -> str:
    """Return what tells one content of a file from another."""
    return hashlib.sha256(written).hexdigest()
