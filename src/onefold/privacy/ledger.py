"""What has been spent on the same people's data, release by release, and a limit that holds.

A ledger's file is a store (:mod:`onefold._base.state`) with one row per charge. A charge is on the disk
before the release it stands for is made: a crash can leave a release counted that was never made, not one
made that is not counted. Every row is sealed together with the one before it, so that damage and careless
edits show, and the seal also stands in the guarantee of the release: a ledger that lacks a charge which some
guarantee names is an older copy, and is refused until the charge is entered again.
"""

import hashlib
import json
import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, NoReturn

import numpy as np

from onefold._base.foreign import parse_json
from onefold._base.state import State
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
from onefold.privacy.guarantee import Charge, Guarantee
from onefold.privacy.terms import (
    DELTA,
    DELTA_OR_ZERO,
    EPSILON,
    NOTHING,
    POSITIVE,
    RELATIONS,
    UNITS,
    Pair,
    Relation,
    Unit,
    group,
    shown,
    two_steps,
)
from onefold.privacy.wording import assumptions

__all__ = ["LEDGER", "AnyLedger", "Event", "Ledger", "charge"]

# Checking the limit and entering the event are one step, whichever threads spend on a ledger in memory.
ONE_AT_A_TIME = threading.Lock()
# The last charge of each ledger that this process knows of: a file without it is an older copy.
NEWEST: dict[str, tuple[Charge, ...]] = {}
KIND = "ledger"
STEPS = (
    """
    CREATE TABLE charges (
        number INTEGER PRIMARY KEY, mark TEXT NOT NULL, about TEXT NOT NULL, terms TEXT NOT NULL,
        times INTEGER NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, stands_for TEXT NOT NULL
    ) STRICT;
    CREATE INDEX kinds ON charges (terms, times);
    CREATE INDEX recovered ON charges (stands_for) WHERE stands_for != ''
    """,
)
ABOUT = ("name", "mechanism", "labels", "conditions")  # what an event says that no total depends on
SALT = 16  # characters of a mark that are drawn; the others are a digest
UNRELEASED = "nothing was released with them, as the keeper of the ledger has declared"
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


class Row(NamedTuple):
    """A row of the store: a charge, and at number 0 the rules of the ledger."""

    number: int
    mark: str  # seals the row and the one before it
    about: str
    terms: str  # what totals depend on
    times: int
    epsilon: float  # sums so far, rounded up
    delta: float
    stands_for: str = ""  # mark of a lost charge that was entered again


def _sealed(before: Row | None, row: Row, salt: str | None = None) -> Row:
    """The row in its place behind another, with its mark."""
    salt = token_hex(SALT // 2) if salt is None else salt
    number = 0 if before is None else before.number + 1
    content = json.dumps([salt, before and before.mark, *row._replace(number=number, mark="")])
    return row._replace(number=number, mark=salt + hashlib.sha256(content.encode()).hexdigest()[:32])


def _is_sealed(before: Row | None, row: Row) -> bool:
    try:
        return _sealed(before, row, row.mark[:SALT]) == row
    except TypeError:
        return False


def _event(row: Row) -> Event:
    return Event(**parse_json(row.about), **parse_json(row.terms), count=row.times)


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
    identity : str
        Drawn when the ledger was made; guarantees name it, with the number of their charge.

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
    * A ledger that was loaded from a file or saved to one belongs to it. ``spend`` reads and writes the file
      in one transaction, and returns when the event is on the disk. If the program or the machine stops, the
      file counts all that was released.
    * Threads and processes may spend at the same time. A copy of a ledger is the ledger itself; in another
      process it goes on in the file, and without a file it cannot be sent there.
    * Guarantees of releases carry the ledger's identity and the number and mark of their charge. A ledger
      that lacks a charge of which this process, or a guarantee that it is shown, knows is refused: see
      :meth:`check_counts` and :meth:`recover`.
    * A release that is not entered is not counted. The file shows damage and careless edits, but not the
      edits of somebody who means to deceive, nor that an older copy of it was put back where no later
      guarantee is at hand. Copying the file while somebody spends is no backup: :meth:`backup` is.

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
        unit: Unit = "record",
        how: str = "tightest",
        neighbours: Relation = "replace",
    ) -> None:
        self.limit_epsilon, self.limit_delta = limit_epsilon, limit_delta
        self.unit, self.how, self.neighbours = unit, how, neighbours
        check_parameters(self, CONSTRAINTS)
        limits = limit_epsilon, limit_delta
        self.limit_epsilon, self.limit_delta = (None if limit is None else float(limit) for limit in limits)
        refuse_added_entries(unit, neighbours)
        self._state: State | None = None
        # Without a file the same rows are in memory.
        self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._memory.close)
        self._memory.executescript(STEPS[0])
        rules = json.dumps({name: getattr(self, name) for name in CONSTRAINTS})
        self._first = _sealed(None, Row(0, "", rules, "", 0, 0.0, 0.0))
        self.identity = self._first.mark
        _insert(self._memory, self._first)

    @property
    def events(self) -> tuple[Event, ...]:
        """Events entered so far, in order."""
        rows = self._rows()
        try:
            return tuple(self._same_kind(_event(row)) for row in rows[1:])
        except (TypeError, InvalidInputError):
            raise self._damaged() from None

    @property
    def path(self) -> Path | None:
        """File that the ledger belongs to; None if it is in memory only."""
        return None if self._state is None else self._state.path

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
        self._enter(event)

    def _enter(self, event: Event) -> Charge:
        newest = NEWEST.get(self.identity, ())  # before the file: others may charge it meanwhile
        with self._open(change=True) as db:
            self._refuse_behind(db, *newest)
            charge = self._append(db, event)
        NEWEST[self.identity] = (charge,)
        return charge

    def _append(self, db: sqlite3.Connection, event: Event, stands_for: str = "") -> Charge:
        """Add the row of an event; one that stands for a lost charge is counted whatever the limit says."""
        before = self._last(db)
        row = self._row(self._same_kind(event), before, stands_for)
        if not stands_for:
            self._check(db, event, before, row)
        row = _sealed(before, row)
        _insert(db, row)
        return Charge(self.identity, row.number, row.mark, before.mark)

    def _row(self, event: Event, before: Row, stands_for: str) -> Row:
        """The row of an event, not yet sealed."""
        terms = asdict(event)
        count, about = terms.pop("count"), {name: terms.pop(name) for name in ABOUT}
        pairs = (before.epsilon, event.epsilon * count), (before.delta, event.delta * count)
        epsilon, delta = (math.nextafter(sum(pair), math.inf) if pair[1] else pair[0] for pair in pairs)
        return Row(0, "", json.dumps(about), json.dumps(terms), count, epsilon, delta, stands_for)

    def spend_guarantee(self, guarantee: Guarantee, name: str) -> Guarantee:
        """Enter a release by what its guarantee says about this ledger's unit and neighbouring relation.

        Labels count: a record is its features and its label, and a changed entry is a feature or the label. A
        release whose guarantee does not cover the labels is entered without them, and the event says so.

        Parameters
        ----------
        guarantee : Guarantee
            What the release promises; a void one is refused.
        name : str
            What is released.

        Returns
        -------
        Guarantee
            The guarantee that belongs to the release: with its charge, by which a ledger that does not have
            it is known to be an older copy.

        Raises
        ------
        BudgetExceededError
            If the limit would be exceeded; nothing is then entered.
        """
        charge = self._enter(self._event_of(guarantee, name))
        return replace(guarantee, charges=(*guarantee.charges, charge))

    def _event_of(self, guarantee: Guarantee, name: str) -> Event:
        """Return what the ledger counts of a guarantee."""
        refuse_void(guarantee)
        rows, labels = _spent(guarantee, self.unit, self.neighbours)
        epsilon, delta = rows[0] + labels[0], min(1.0, rows[1] + labels[1])
        if not math.isfinite(epsilon):
            self._refuse(guarantee)
        mu = _mu(guarantee, self.unit, self.neighbours, rows)
        gaussian: dict[str, Any] = {"family": "gaussian", "beside": labels}
        return Event(
            name,
            self.unit,
            epsilon,
            delta,
            guarantee.mechanism,
            neighbours=self.neighbours,
            labels="not covered" if guarantee.labels is None else "counted",
            conditions=assumptions(guarantee),
            **({} if mu is None else gaussian | {"noise_multiplier": 1 / mu}),
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

    def _check(self, db: sqlite3.Connection, event: Event, before: Row, row: Row) -> None:
        """Refuse an event beyond the limit; what is far within it costs the same however many there are."""
        tolerance = 1 + 1e-12  # ten times 0.1 may be entered in a budget of 1
        limits = self.limit_epsilon, self.limit_delta
        most = [math.inf if limit is None else limit * tolerance for limit in limits]
        if row.epsilon <= most[0] and row.delta <= most[1]:
            return  # no total is above basic
        events = [*self._kinds(db, before), event]
        added = compose(events, "basic")
        if added[0] <= most[0] and added[1] <= most[1]:
            return
        epsilon, delta = self._composed(events, self.how, enough=most[0])
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

    def _kinds(self, db: sqlite3.Connection, last: Row) -> list[Event]:
        """What was entered so far, with equal releases counted together."""
        rows = db.execute("SELECT terms, sum(times) FROM charges WHERE number > 0 GROUP BY terms")
        try:
            events = [Event("", count=count, **parse_json(terms)) for terms, count in rows]
        except (TypeError, InvalidInputError):
            raise self._damaged() from None
        sums = compose(events, "basic")
        if not np.allclose(sums, (last.epsilon, min(1.0, last.delta)), rtol=1e-9, atol=1e-300):
            raise self._damaged()
        return events

    def _composed(
        self, events: Sequence[Event], how: str, delta: float | None = None, enough: float = 0.0
    ) -> Pair:
        """Compose events at ``delta``, else at the delta of the limit, else at the sum of their deltas."""
        if delta is None and how != "basic" and self.limit_epsilon and events:
            delta = self.limit_delta or None
        return compose(events, how, delta, enough)

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
        return self._composed(self.events, self.how if how is None else how, delta)

    @property
    def spent(self) -> str:
        """What has been spent so far, in words."""
        events = self.events
        epsilon, delta = self._composed(events, self.how)
        change = f"{self.unit} {RELATIONS[self.neighbours]}"
        fixed = epsilon < self._composed(events, "basic")[0] and not all_gaussian(events)
        return f"epsilon {shown(epsilon, 6)} per {change}, delta {shown(delta, 3)}{FIXED * fixed}"

    def __str__(self) -> str:
        events = self.events
        n_releases = sum(event.count for event in events)
        change = f"{self.unit} {RELATIONS[self.neighbours]}"
        lines = [f"Releases entered: {n_releases}. Spent, by {self.how} composition:", self.spent]
        if any(event.labels != "counted" for event in events):
            lines.append("Not in these numbers: the labels of releases that do not say 'labels counted'.")
        limits = [] if self.limit_epsilon is None else [f"epsilon {self.limit_epsilon:g} per {change}"]
        limits += [] if self.limit_delta is None else [f"delta {self.limit_delta:g}"]
        lines.append(f"Limit: {', '.join(limits) or 'none'}")
        return "\n".join([*lines, *(f"  {event}" for event in events)])

    # --- charges that other things know of ----------------------------------------------------------------

    def check_counts(self, *guarantees: Guarantee) -> None:
        """Refuse a ledger that lacks the charge of a release that was made: an older copy was put back.

        Parameters
        ----------
        *guarantees : Guarantee
            Guarantees of releases, read before the ledger is; those of other ledgers say nothing about this.

        Raises
        ------
        InvalidInputError
            If a charge is missing; :meth:`recover` enters it.
        """
        with self._open() as db:
            self._refuse_behind(db, *(charge for promise in guarantees for charge in promise.charges))

    def recover(self, guarantees: Mapping[str, Guarantee], *, unreleased: bool = False) -> int:
        """Enter the charges that an older copy lacks, from the guarantees of the releases they stood for.

        They count whatever the limit says: the releases were made.

        Parameters
        ----------
        guarantees : mapping of str to Guarantee
            Guarantees by the names under which they are entered.
        unreleased : bool, default=False
            Declare that nothing was released with charges that come before these and of which there is no
            guarantee, as after a crash. Otherwise they are refused.

        Returns
        -------
        int
            Number of charges that were missing.
        """
        pairs = [(charge, name) for name, promise in guarantees.items() for charge in promise.charges]
        pairs = [pair for pair in pairs if pair[0].ledger == self.identity]
        if others := set(guarantees) - {name for _, name in pairs}:
            raise InvalidInputError(f"{min(others)}: the guarantee names no charge of this ledger")
        with self._open(change=True) as db:
            lost = {charge.mark: (charge, name) for charge, name in pairs}
            lost = {mark: one for mark, one in lost.items() if not _has(db, one[0].number, mark)}
            for charge, name in sorted(lost.values(), key=lambda one: one[0].number):
                number, before = charge.number - 1, charge.previous
                if before not in lost and not _has(db, number, before):
                    if not unreleased:
                        raise InvalidInputError(
                            f"charge {number} is missing too: give the guarantee of its release, or declare "
                            "that nothing was released with it (onefold ledger recover ... unreleased)"
                        )
                    gap = Event(f"lost charges up to {number}", self.unit, 0.0, conditions=(UNRELEASED,))
                    self._append(db, replace(gap, neighbours=self.neighbours), before)
                self._append(db, self._event_of(guarantees[name], name), charge.mark)
        return len(lost)

    def _refuse_behind(self, db: sqlite3.Connection, *charges: Charge) -> None:
        for charge in charges:
            if charge.ledger == self.identity and not _has(db, charge.number, charge.mark):
                raise InvalidInputError(
                    f"{self.path}: charge {charge.number} of this ledger, which a release names, is not in "
                    "it: was an older copy put back? onefold ledger recover enters what is missing"
                )

    # --- files ------------------------------------------------------------------------------------------

    def save(self, path: AnyPath) -> None:
        """Write the ledger to a new file, completely or not at all; from then on it belongs to that file.

        A ledger that is there is not overwritten: what it has counted would be lost.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        state = State(_file(path), KIND, STEPS)
        if self._state is not None and self._state.path == state.path and state.exists():
            return  # every charge is there already
        rows = self._rows()
        state.create()
        with state.transaction() as db:
            if db.execute("SELECT count(*) FROM charges").fetchone()[0]:
                raise InvalidInputError(
                    f"{os.fspath(path)} exists already and is a ledger: load it, and spend on that"
                )
            for row in rows:
                _insert(db, row)
        self._state = state

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
        ledger = cls._opened(path)
        _ = ledger.events
        return ledger

    @classmethod
    def _opened(cls, path: AnyPath) -> "Ledger":
        """The ledger in a file, of which only the rules are read."""
        where, state = os.fspath(path), State(_file(path), KIND, STEPS)
        if not has_ledger(path):
            raise InvalidInputError(
                f"there is no ledger at {where}: make one with onefold ledger new {where}, "
                "or save a Ledger there in Python"
            )
        with state.reading() as db:
            first = Row(*_first_row(db))
        try:
            rules = parse_json(first.about)
            if not _is_sealed(None, first) or set(rules) != set(CONSTRAINTS):
                raise TypeError
            ledger = cls(**rules)
        except (TypeError, InvalidInputError):
            raise FileFormatError(f"{where}: this ledger is damaged") from None
        ledger._first, ledger.identity, ledger._state = first, first.mark, state
        return ledger

    def backup(self, path: AnyPath) -> None:
        """Copy the ledger's file as it is at one moment, also while others spend, to a new file.

        Parameters
        ----------
        path : str or os.PathLike
            The copy; it is the same account, and not to be spent on while the other one is there.
        """
        if self._state is None:
            raise InvalidInputError("this ledger is in memory only: save it")
        self._state.backup(path)

    def __copy__(self) -> "Ledger":
        return self

    def __deepcopy__(self, memo: object) -> "Ledger":
        # Cloning an estimator copies its parameters: what the clone spends is spent on the same data.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._state is None:
            raise InvalidInputError(
                "save the ledger to a file before it goes to another process: a copy would count by itself"
            )
        return Ledger.load, (os.fspath(self._state.path),)

    # --- rows -------------------------------------------------------------------------------------------

    @contextmanager
    def _open(self, *, change: bool = False) -> Iterator[sqlite3.Connection]:
        """The rows as they are at one moment; of changes happens all that the block does, or nothing."""
        if self._state is None:
            with ONE_AT_A_TIME:
                yield self._memory
            return
        if self._state.exists() and self._state.path.stat().st_nlink > 1:  # its journal would not be shared
            raise InvalidInputError(
                f"{self.path}: the file has a second name (a hard link): remove it, or copy instead"
            )
        with self._state.transaction() if change else self._state.reading() as db:
            if _first_row(db) != self._first:
                raise InvalidInputError(f"{self.path}: holds another ledger than before")
            yield db

    def _rows(self) -> list[Row]:
        """All rows, each of them checked."""
        with self._open() as db:
            rows = [Row(*row) for row in db.execute("SELECT * FROM charges ORDER BY number")]
        if not all(_is_sealed(before, row) for before, row in zip([None, *rows], rows, strict=False)):
            raise self._damaged()
        return rows

    def _last(self, db: sqlite3.Connection) -> Row:
        rows = [Row(*row) for row in db.execute("SELECT * FROM charges ORDER BY number DESC LIMIT 2")]
        if not _is_sealed(rows[1] if len(rows) > 1 else None, rows[0]):
            raise self._damaged()
        return rows[0]

    def _damaged(self) -> FileFormatError:
        return FileFormatError(f"{self.path}: this ledger is damaged")


def has_ledger(path: AnyPath) -> bool:
    """Whether there is a ledger, and not only a file whose maker was interrupted."""
    state = State(_file(path), KIND, STEPS)
    if not state.exists() or not state.path.stat().st_size:  # of an empty file no store is made
        return False
    with state.reading() as db:
        return _first_row(db) is not None


def _first_row(db: sqlite3.Connection) -> Any:
    return db.execute("SELECT * FROM charges WHERE number = 0").fetchone()


def _insert(db: sqlite3.Connection, row: Row) -> None:
    db.execute(f"INSERT INTO charges VALUES ({', '.join('?' * len(row))})", row)


def _has(db: sqlite3.Connection, number: int, mark: str) -> bool:
    """Whether a charge is there, in its place or entered again."""
    rows = db.execute(
        "SELECT 1 FROM charges WHERE number = ? AND mark = ? OR stands_for = ? AND stands_for != ''",
        (number, mark, mark),
    )
    return rows.fetchone() is not None


AnyLedger = Ledger | AnyPath | tuple[Ledger | AnyPath | None, ...] | None
# The parameter of everything that releases.
LEDGER: Entry = (
    Instance(
        lambda ledger: all(isinstance(each, Ledger | str | os.PathLike) for each in _each(ledger)),
        "a Ledger, the path of a ledger's file or a tuple of them",
    ),
    None,
)


def charge(ledger: AnyLedger, guarantee: Guarantee, name: str) -> Guarantee:
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

    Returns
    -------
    Guarantee
        What belongs to the release: the guarantee with its charges.

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
    >>> promise = Guarantee("record", (0.5, 0.0), (0.5, 0.0), 4, labels=(8.0, 0.0))
    >>> counted = charge(ledger, promise, "survey")
    >>> ledger.total(), counted.charges[0].number
    ((8.5, 0.0), 1)
    """
    if ledger is None:
        return guarantee
    check_parameter("ledger", ledger, LEDGER)
    # All are opened, and the others asked, before the first counts: a refusal must not cost them anything.
    accounts = _accounts(ledger)
    for account in accounts[1:]:
        with account._open() as db:
            event, before = account._event_of(guarantee, name), account._last(db)
            account._check(db, event, before, account._row(event, before, ""))
    for account in accounts:
        guarantee = account.spend_guarantee(guarantee, name)
    return guarantee


def check_counts(ledger: AnyLedger, *guarantees: Guarantee) -> None:
    """Refuse ledgers that lack a charge of these guarantees: see :meth:`Ledger.check_counts`."""
    for account in _accounts(ledger):
        account.check_counts(*guarantees)


def all_of(*ledgers: AnyLedger) -> AnyLedger:
    """Return ledgers that were given in several places as one, each of them once."""
    accounts = tuple({_account(one): one for ledger in ledgers for one in _each(ledger)}.values())
    return accounts if len(accounts) > 1 else next(iter(accounts), None)


def _account(ledger: Any) -> object:
    """Return what two names of one account have in common."""
    path = ledger.path if isinstance(ledger, Ledger) else ledger
    return _file(path) if isinstance(path, str | os.PathLike) else id(ledger)


def _accounts(ledger: AnyLedger) -> list[Ledger]:
    return [one if isinstance(one, Ledger) else Ledger._opened(one) for one in _each(ledger)]


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
