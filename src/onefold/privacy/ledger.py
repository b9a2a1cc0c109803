"""What has been spent on the same people's data, release by release, and a limit that holds.

A ledger's file is an archive with checksums, so that damage and careless edits show. A ledger that belongs to
a file writes every event there, synced, before the release it stands for is made: a crash can leave a release
counted that was never made, not one made that is not counted.
"""

import hashlib
import math
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NoReturn

from onefold._base.archive import archive_bytes, read_archive
from onefold._base.files import file_lock, read_saved, write_whole
from onefold._base.validation import Entry, Instance, OneOf, check_parameter, check_parameters
from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError
from onefold.privacy.calibration import mu_of
from onefold.privacy.composition import (
    COMPOSITIONS,
    Event,
    all_gaussian,
    compose,
    refuse_added_entries,
    refuse_void,
)
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.terms import (
    DELTA,
    DELTA_OR_ZERO,
    EPSILON,
    NOTHING,
    POSITIVE,
    RELATIONS,
    UNITS,
    Pair,
    group,
    shown,
    two_steps,
)
from onefold.privacy.wording import assumptions

__all__ = ["LEDGER", "AnyLedger", "Event", "Ledger", "charge"]

# Checking the limit and entering the event are one step, whichever threads spend.
ONE_AT_A_TIME = threading.Lock()
# Files of ledgers that this process has locked, by thread: who waits for its own lock waits for ever.
LOCKED: set[tuple[int, Path]] = set()
ARCHIVE_KIND = "ledger"
FIXED = ", if no budget was chosen in view of earlier releases (else: basic composition)"
NONE: Pair = (0.0, 0.0)

CONSTRAINTS: dict[str, Entry] = {
    "limit_epsilon": (POSITIVE, None),
    "limit_delta": (DELTA_OR_ZERO, None),
    "unit": OneOf(UNITS),
    "how": OneOf(COMPOSITIONS),
    "neighbours": OneOf(RELATIONS),
}

AnyPath = str | os.PathLike[str]


class Ledger:
    """Add up releases from the same data, and refuse the one that would exceed a limit.

    Parameters
    ----------
    limit_epsilon : float or None, default=None
        Largest total epsilon; None sets no limit.
    limit_delta : float or None, default=None
        Largest total delta; None sets no limit. With ``limit_epsilon`` it is also the delta at which the
        total epsilon is stated; otherwise that is the sum of the releases' deltas.
    unit : {"record", "entry", "person"}, default="record"
        What changes between neighbouring datasets. An event of another unit is refused, since its numbers
        cannot be added to these.
    how : {"tightest", "basic"}, default="tightest"
        Composition that the limit is checked with. "tightest" is the smallest of all sound totals: Gaussian
        noise adds up in mu, and beside other releases it is composed by privacy-loss distributions where the
        extra ``accounting`` is installed, else in closed form. "basic" adds up epsilons and deltas.
    neighbours : {"replace", "add-remove"}, default="replace"
        The relation that all numbers are about. An event under the other relation is refused. A guarantee
        for "add-remove" enters a ledger of replaced records by its number for those; the other way round it
        promises nothing and is refused.

    Attributes
    ----------
    events : tuple of Event
        What has been spent so far, in order.
    spent : str
        What has been spent so far, in words.
    path : Path or None
        File that the ledger belongs to; None if it is in memory only.

    See Also
    --------
    Event : One entry of a ledger.
    charge : Enter a release in a ledger or in a ledger's file.
    Guarantee : What a single release promises.

    Notes
    -----
    *Guarantees.*

    * Releases may be chosen in view of earlier ones. Where all noise is Gaussian, and by "basic" composition,
      so may their budgets; otherwise "tightest" needs budgets that are fixed beforehand.
    * ``spend`` either records the event within the limit, or raises and records nothing.
    * A ledger that was loaded from a file or saved to one belongs to it. ``spend`` first reads what others
      have spent there, and returns when the event is in the file and the file and its folder are synced. If
      the program or the machine stops, the file counts all that was released.
    * Threads and processes may spend at the same time. A copy of a ledger is the ledger itself; in another
      process it goes on in the file, and without a file it cannot be sent there.
    * A release that is not entered is not counted. The file shows damage and careless edits, but not the
      edits of somebody who means to deceive, nor that an older copy of it was put back.

    References
    ----------
    Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", 2017, Theorem 3.5. Dong,
    Roth and Su, "Gaussian differential privacy", 2022, Corollary 3.3.

    Examples
    --------
    >>> from onefold.privacy import Event, Ledger
    >>> ledger = Ledger(limit_epsilon=2.0)
    >>> ledger.spend(Event("survey", "record", 1.5))
    >>> ledger.total()
    (1.5, 0.0)
    >>> ledger.spend(Event("survey again", "record", 1.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onefold.exceptions.BudgetExceededError: epsilon would be 2.5 per record, the limit is 2 for one...
    """

    def __init__(
        self,
        limit_epsilon: float | None = None,
        limit_delta: float | None = None,
        *,
        unit: str = "record",
        how: str = "tightest",
        neighbours: str = "replace",
    ) -> None:
        self.limit_epsilon, self.limit_delta = limit_epsilon, limit_delta
        self.unit, self.how, self.neighbours = unit, how, neighbours
        check_parameters(self, CONSTRAINTS)
        self.limit_epsilon = None if limit_epsilon is None else float(limit_epsilon)
        self.limit_delta = None if limit_delta is None else float(limit_delta)
        refuse_added_entries(unit, neighbours)
        self._events: list[Event] = []
        self._path: Path | None = None  # the file that this ledger belongs to
        self._seen: str | None = None  # digest of that file as this ledger knows it
        self._open = False  # whether its lock is held: see shared

    @property
    def events(self) -> tuple[Event, ...]:
        """Events entered so far, in order."""
        return tuple(self._events)

    @property
    def path(self) -> Path | None:
        """File that the ledger belongs to; None if it is in memory only."""
        return self._path

    # --- spending ---------------------------------------------------------------------------------------

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
        OSError
            If the ledger belongs to a file that cannot be written; the event is then not entered.
        """
        if not isinstance(event, Event):
            raise InvalidInputError("spend takes an Event: see Event.of(mechanism, n_features)")
        # First the lock of the file, then that of the threads: never the other way round.
        with self._alone(self._path), ONE_AT_A_TIME:
            if self._path is not None:
                self._read_again(self._path)
            events = [*self._events, self._same_kind(event)]
            self._check(events)
            if self._path is not None:
                self._write(self._path, events)
            self._events = events

    def spend_guarantee(self, guarantee: Guarantee, name: str, count: int = 1) -> None:
        """Enter a release by what its guarantee says about this ledger's unit and neighbouring relation.

        Labels count: a record is its features and its label, and a changed entry is a feature or the label. A
        release whose guarantee does not cover the labels is entered without them, and the event says so.

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
        self.spend(self._event_of(guarantee, name, count))

    def _event_of(self, guarantee: Guarantee, name: str, count: int = 1) -> Event:
        """Return what the ledger counts of a guarantee."""
        refuse_void(guarantee)
        rows, labels = _spent(guarantee, self.unit, self.neighbours)
        epsilon, delta = rows[0] + labels[0], min(1.0, rows[1] + labels[1])
        if not math.isfinite(epsilon):
            self._refuse(guarantee)
        mu = _mu(guarantee, self.unit, self.neighbours, rows)
        family: dict[str, Any] = {}
        if mu is not None:
            family = {"family": "gaussian", "noise_multiplier": 1 / mu, "beside": labels}
        return Event(
            name,
            self.unit,
            epsilon,
            delta,
            guarantee.mechanism,
            count,
            neighbours=self.neighbours,
            labels="not covered" if guarantee.labels is None else "counted",
            conditions=assumptions(guarantee),
            **family,
        )

    def _refuse(self, guarantee: Guarantee) -> NoReturn:
        """Say why a guarantee has no number for this ledger."""
        if self.unit == "person" and guarantee.rows_per_person is None:
            raise InvalidInputError(
                "this ledger counts per person, and the guarantee promises nothing per person: "
                "say whose rows they are, and limit the rows of a person with rows_per_person"
            )
        raise InvalidInputError(
            f"this guarantee promises nothing per {self.unit} {RELATIONS[self.neighbours]}: "
            "no ledger can count it"
        )

    def _same_kind(self, event: Event) -> Event:
        """Return the event, or refuse one whose numbers are about something else."""
        if event.unit != self.unit:
            raise InvalidInputError(f"this ledger counts per {self.unit}, the event is per {event.unit}")
        if event.neighbours != self.neighbours:
            raise InvalidInputError(
                f"this ledger is about one {self.unit} {RELATIONS[self.neighbours]}, "
                f"the event about one {RELATIONS[event.neighbours]}"
            )
        return event

    def _check(self, events: list[Event]) -> None:
        """Refuse events beyond the limit."""
        tolerance = 1 + 1e-12  # ten times 0.1 may be entered in a budget of 1
        most = [math.inf if limit is None else limit * tolerance for limit in self._limits]
        added = compose(events, "basic")
        if added[0] <= most[0] and added[1] <= most[1]:
            return  # no total is above basic
        epsilon, delta = self._composed(events, self.how)
        if not delta <= most[1] or math.isinf(epsilon):
            raise BudgetExceededError(
                f"delta would be {shown(added[1], 3)} per {self.unit}, the limit is {self.limit_delta:g} "
                f"for one {RELATIONS[self.neighbours]}"
            )
        if not epsilon <= most[0]:
            raise BudgetExceededError(
                f"epsilon would be {shown(epsilon, 6)} per {self.unit}, the limit is {self.limit_epsilon:g} "
                f"for one {RELATIONS[self.neighbours]}: ask for a smaller epsilon, or release nothing more"
            )

    @property
    def _limits(self) -> tuple[float | None, float | None]:
        return self.limit_epsilon, self.limit_delta

    def _composed(self, events: list[Event], how: str, delta: float | None = None) -> Pair:
        """Compose events at ``delta``, else at the delta of the limit, else at the sum of their deltas."""
        if delta is None and how != "basic" and self.limit_epsilon and events:
            delta = self.limit_delta or None
        return compose(events, how, delta)

    # --- telling ----------------------------------------------------------------------------------------

    def total(self, how: str | None = None, delta: float | None = None) -> Pair:
        """Compute what has been spent so far.

        Parameters
        ----------
        how : {"tightest", "basic"} or None, default=None
            Composition to use; None takes the one that the limit is checked with.
        delta : float or None, default=None
            Total delta at which epsilon is stated. None takes ``limit_delta`` if both limits are set, else
            the sum of the releases' deltas, at which no total is above "basic". Not for "basic".

        Returns
        -------
        epsilon : float
            Total privacy loss.
        delta : float
            Probability with which it may be exceeded.
        """
        return self._composed(self._events, self.how if how is None else how, delta)

    @property
    def spent(self) -> str:
        """What has been spent so far, in words."""
        epsilon, delta = self.total()
        change = f"{self.unit} {RELATIONS[self.neighbours]}"
        fixed = epsilon < self.total("basic")[0] and not all_gaussian(self._events)
        return f"epsilon {shown(epsilon, 6)} per {change}, delta {shown(delta, 3)}{FIXED * fixed}"

    def __str__(self) -> str:
        n_releases = sum(event.count for event in self._events)
        change = f"{self.unit} {RELATIONS[self.neighbours]}"
        lines = [f"Releases entered: {n_releases}. Spent, by {self.how} composition:", self.spent]
        if any(event.labels != "counted" for event in self._events):
            lines.append("Not in these numbers: the labels of releases that do not say 'labels counted'.")
        limits = [] if self.limit_epsilon is None else [f"epsilon {self.limit_epsilon:g} per {change}"]
        limits += [] if self.limit_delta is None else [f"delta {self.limit_delta:g}"]
        lines.append(f"Limit: {', '.join(limits) or 'none'}")
        return "\n".join([*lines, *(f"  {event}" for event in self._events)])

    # --- files ------------------------------------------------------------------------------------------

    def save(self, path: AnyPath) -> None:
        """Write the ledger to a file, completely or not at all; from then on it belongs to that file.

        A file that another ledger has written since this one read it, or that this one has never read, is
        not overwritten: what it has counted would be lost.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        target = _file(path)
        with self._alone(target), ONE_AT_A_TIME:
            if target.is_file() and _digest(target.read_bytes()) != self._seen:
                raise InvalidInputError(
                    f"{os.fspath(path)} holds what this ledger has not read: load it, and spend on that"
                )
            self._write(target, self._events)
            self._path = target

    @classmethod
    def load(cls, path: AnyPath) -> "Ledger":
        """Read a ledger from a file, to which it then belongs; every event is checked again.

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
        _refuse_missing(path)
        ledger = read_saved(path, "there is no ledger", cls._from_bytes)
        ledger._path = _file(path)
        return ledger

    @classmethod
    @contextmanager
    def shared(cls, path: AnyPath) -> Iterator["Ledger"]:
        """Open the ledger in a file for this process alone, until the ``with`` block ends.

        Other processes that ask for it wait. What the block spends is in the file at once and stays there if
        the block raises.

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
        _refuse_missing(path)  # before a lock is made beside it
        with _locked(_file(path)):
            ledger = cls.load(path)
            ledger._open = True
            try:
                yield ledger
            finally:
                ledger._open = False

    def __copy__(self) -> "Ledger":
        return self

    def __deepcopy__(self, memo: object) -> "Ledger":
        # Cloning an estimator copies its parameters: what the clone spends is spent on the same data.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise InvalidInputError(
                "save the ledger to a file before it goes to another process: a copy would count by itself"
            )
        return Ledger.load, (os.fspath(self._path),)

    @contextmanager
    def _alone(self, path: Path | None) -> Iterator[None]:
        """Hold the lock of the file, if there is one."""
        with nullcontext() if path is None or (self._open and path == self._path) else _locked(path):
            yield

    def _read_again(self, path: Path) -> None:
        """Take over what others have written since; the file is what counts."""
        if not path.is_file():
            raise InvalidInputError(
                f"the file of this ledger is gone: put {path} back, or save the ledger to another file"
            )
        if _digest(path.read_bytes()) == self._seen:
            return
        fresh = Ledger.load(path)
        if fresh._events[: len(self._events)] != self._events:
            raise InvalidInputError(
                f"{path} does not hold what this ledger has spent there: was an older copy put back?"
            )
        for name in (*CONSTRAINTS, "_events", "_seen"):
            setattr(self, name, getattr(fresh, name))

    def _write(self, path: Path, events: list[Event]) -> None:
        kind = {name: getattr(self, name) for name in CONSTRAINTS}
        plain = {**kind, "events": [asdict(event) for event in events]}
        written = archive_bytes(ARCHIVE_KIND, plain, {})
        write_whole(path, written)
        self._seen = _digest(written)

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


OneLedger = Ledger | AnyPath | None
AnyLedger = OneLedger | tuple[OneLedger, ...]
# The parameter of everything that releases.
LEDGER: Entry = (
    Instance(
        lambda ledger: all(isinstance(each, Ledger | str | os.PathLike) for each in _each(ledger)),
        "a Ledger, the path of a ledger's file or a tuple of them",
    ),
    None,
)


def charge(ledger: AnyLedger, guarantee: Guarantee, name: str) -> None:
    """Enter a release in a ledger before it is made; everything that takes a ledger calls this first.

    Parameters
    ----------
    ledger : Ledger, str, os.PathLike, tuple of them or None
        The ledger, or the path of its file, which is locked, read and written; None counts nothing. Of
        several, such as those of a dataset and of a person responsible, each must have room for the release.
    guarantee : Guarantee
        What the release promises; a void one is refused.
    name : str
        What is released.

    Raises
    ------
    BudgetExceededError
        If a limit would be exceeded: nothing may be released. Nothing is then entered either, unless others
        spend on one of several ledgers at the same moment.

    See Also
    --------
    Ledger.spend_guarantee : What counts of a guarantee.

    Examples
    --------
    >>> from onefold.privacy import Guarantee, Ledger
    >>> from onefold.privacy.ledger import charge
    >>> ledger = Ledger(limit_epsilon=10.0)
    >>> charge(ledger, Guarantee("record", (0.5, 0.0), (0.5, 0.0), 4, labels=(8.0, 0.0)), "survey")
    >>> ledger.total()
    (8.5, 0.0)
    """
    if ledger is None:
        return
    check_parameter("ledger", ledger, LEDGER)
    # All are opened, and the others asked, before the first counts: a refusal must not cost them anything.
    accounts = [one if isinstance(one, Ledger) else Ledger.load(one) for one in _each(ledger)]
    for account in accounts[1:]:
        account._check([*account.events, account._event_of(guarantee, name)])
    for account in accounts:
        account.spend_guarantee(guarantee, name)


def all_of(*ledgers: AnyLedger) -> AnyLedger:
    """Return ledgers that were given in several places as one, each of them once."""
    found: list[OneLedger] = []
    for each in (each for ledger in ledgers for each in _each(ledger)):
        if all(_account(each) != _account(known) for known in found):
            found.append(each)
    return (tuple(found) if len(found) > 1 else found[0]) if found else None


def _account(ledger: Any) -> object:
    """Return what two names of one account have in common."""
    path = ledger.path if isinstance(ledger, Ledger) else ledger
    return _file(path) if isinstance(path, str | os.PathLike) else id(ledger)


def _each(ledger: Any) -> tuple[Any, ...]:
    found = ledger if isinstance(ledger, tuple) else (ledger,)
    return tuple(each for each in found if each is not None)


def _spent(guarantee: Guarantee, unit: str, neighbours: str) -> tuple[Pair, Pair]:
    """Return what a release spends per unit: by its rows, and by labels with noise of their own."""
    labels = guarantee.labels
    if labels is not None and unit == "person":
        rows = guarantee.rows_per_person
        labels = NOTHING if rows is None else group(labels, rows)
    if guarantee.unit == "label":  # one label per record; how many there are is not covered
        return (NOTHING if labels is None or neighbours != "replace" else labels), NONE
    if unit == "entry":  # either a feature is changed or the label
        pairs = [guarantee.entry] if labels is None else [guarantee.entry, labels]
        return (max(epsilon for epsilon, _ in pairs), max(delta for _, delta in pairs)), NONE
    pair = guarantee.record_under(neighbours) if unit == "record" else _of_person(guarantee, neighbours)
    return pair, NONE if labels is None or guarantee.labels_in_record else labels


def _mu(guarantee: Guarantee, unit: str, neighbours: str, pair: Pair) -> float | None:
    """Return mu of what a ledger counts, if all noise of the rows is Gaussian.

    A guarantee states mu of its widest unit. Its other lines are about smaller or larger changes under the
    same noise, of which the pair holds: no mu above that of the pair is possible.
    """
    epsilon, delta = pair
    apart = unit == "entry" and guarantee.labels is not None and not guarantee.labels_in_record
    if not guarantee.mu or apart or not (DELTA.accepts(delta) and EPSILON.accepts(epsilon)):
        return None
    widest = "record" if guarantee.person is None else "person"
    stated = guarantee.mu if (unit, neighbours) == (widest, guarantee.neighbours) else 0.0
    return max(stated, mu_of(epsilon, delta))  # the pair is what was promised, whatever mu says


def _of_person(guarantee: Guarantee, neighbours: str) -> Pair:
    """Return what a release spends on the rows of a person; replacing one is removing, then adding."""
    if guarantee.person is None or guarantee.neighbours == neighbours:
        return guarantee.person or NOTHING
    return two_steps(guarantee.person) if neighbours == "replace" else NOTHING


def _file(path: AnyPath) -> Path:
    """Return the file itself: replacing a link to it would begin a second account."""
    return Path(os.path.realpath(path))


def _refuse_missing(path: AnyPath) -> None:
    if not Path(path).is_file():
        where = os.fspath(path)
        raise InvalidInputError(
            f"there is no ledger at {where}: make one with onefold ledger new {where}, "
            "or save a Ledger there in Python"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a ledger's file, which this thread must not hold already."""
    holder = threading.get_ident(), path
    if holder in LOCKED:
        raise InvalidInputError(
            f"{path} is open in a block of Ledger.shared: spend on the ledger of that block, not on the file"
        )
    if path.is_file() and path.stat().st_nlink > 1:  # the other name would keep what was spent until now
        raise InvalidInputError(
            f"{path}: the file has a second name (a hard link): remove it, or copy instead"
        )
    with file_lock(path):
        LOCKED.add(holder)
        try:
            yield
        finally:
            LOCKED.discard(holder)


def _digest(written: bytes) -> str:
    """Return what tells one content of a file from another."""
    return hashlib.sha256(written).hexdigest()
