"""Approval by the data owner: which queriers a site answers, for which purpose and how many rows.

What was decided is in the site's store, and every decision is in the site's log when it counts
(:class:`~onefold.federated.access.log.SiteLog`). A querier is its signing key: names are what queriers call
themselves, and a second key under a known name is a stranger.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from onefold.exceptions import FileFormatError, InvalidInputError, QueryRefused
from onefold.federated.access.log import SiteEvent, SiteLog
from onefold.federated.access.signatures import PUBLIC_SUFFIX, QuerierKey
from onefold.federated.messages import FailureCode

__all__ = ["MODES", "Approval", "Approvals", "Asking", "OwnerDecision", "end_of_day"]

# Whom a site answers: anybody; queriers that were approved; what was approved of each querier and purpose.
MODES = ("anyone", "queriers", "purposes")
MOST_WAITING = 100
SHORTEST_ID = 8
SHOWN_PURPOSES = 5


class Asking(Protocol):
    """What is asked of a data owner: by whom, for what, how much. Signatures of queries are of this kind."""

    @property
    def key(self) -> QuerierKey:
        """Name and public key of the querier."""

    @property
    def public(self) -> str:
        """Public key of the querier."""

    @property
    def purpose(self) -> str:
        """What it is for, in one line."""

    @property
    def amount(self) -> int:
        """How much is asked for."""


class OwnerDecision(StrEnum):
    """What the data owner has decided about a querier."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"


@dataclass(frozen=True)
class Approval:
    """What a data owner has decided about a querier, and how much was asked and answered under it.

    Parameters
    ----------
    querier : QuerierKey
        The querier.
    purpose : str or None
        What it holds for; None for every purpose.
    decision : OwnerDecision
        What was decided.
    answered : int, default=0
        Rows answered under it so far.
    asked : int, default=0
        Rows that were asked for first since the last decision and not answered, because nobody has decided or
        it was too much; 0 if nothing waits.
    allowed : int or None, default=None
        Rows that may be answered in all; None for no limit but the site's.
    until : int or None, default=None
        When it ends, in seconds since 1970; None for no end.
    stated : str, default=""
        The purpose that the querier stated then.

    See Also
    --------
    Approvals : Keeps them.

    Examples
    --------
    >>> Approval(QuerierKey("ward", "00" * 32), None, OwnerDecision.APPROVED, answered=5, allowed=8).left
    3
    """

    querier: QuerierKey
    purpose: str | None
    decision: OwnerDecision
    answered: int = 0
    asked: int = 0
    allowed: int | None = None
    until: int | None = None
    stated: str = ""

    @property
    def left(self) -> int | None:
        """Rows that may still be answered; None for no limit but the site's."""
        return None if self.allowed is None else max(self.allowed - self.answered, 0)

    def covers(self, n_rows: int, now: float) -> bool:
        """Return whether so many rows may be answered now.

        Parameters
        ----------
        n_rows : int
            The rows.
        now : float
            Seconds since 1970.

        Returns
        -------
        bool
            False as well where nothing was decided yet.
        """
        in_time = self.until is None or now <= self.until
        return (
            self.decision is OwnerDecision.APPROVED and in_time and (self.left is None or n_rows <= self.left)
        )

    @property
    def plain(self) -> dict[str, Any]:
        """All fields as plain values; the querier by name, id and public key."""
        return asdict(self) | self.querier.plain


Key = tuple[str, str | None]  # public key, purpose
COLUMNS = ("name", "public", "purpose", "decision", "answered", "asked", "allowed", "until", "stated")
NAMES = ", ".join(COLUMNS)


class Approvals:
    """What the data owner of one site has decided; safe for several processes.

    Parameters
    ----------
    log : SiteLog
        Where decisions are noted; they are kept in the same store.
    site : str
        Name of the site.
    subject : str, default="query"
        What is decided about, where one store has several lists.
    clock : callable, default=time.time
        Returns seconds since 1970.

    Notes
    -----
    *Guarantees.*

    * No more rows are counted under an approval than it allows, however many processes ask at once.
    * A decision is in the log, or it does not count. A file that cannot be read refuses every query.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from onefold.federated.messages import Query
    >>> from onefold.federated.access.signatures import SigningKey
    >>> approvals = Approvals(SiteLog(tempfile.mkdtemp() + "/site.db"), "north")
    >>> asked = SigningKey("ward", bytes(32)).sign(Query("q1", np.zeros((2, 3))), "ab" * 32)
    >>> approvals.admit(asked, 2, "queriers")
    Traceback (most recent call last):
    onefold.exceptions.QueryRefused: the query is refused: waiting-for-approval
    >>> [each.left for each in approvals.approve("ward", "queriers", rows=10)]
    [10]
    >>> approvals.admit(asked, 2, "queriers")
    """

    def __init__(
        self,
        log: SiteLog,
        site: str,
        *,
        subject: str = "query",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.log, self.site, self.subject, self._clock = log.store, log, site, subject, clock

    def entries(self) -> tuple[Approval, ...]:
        """Return everything that was decided or waits, what waits first.

        Returns
        -------
        tuple of Approval
            The entries.
        """
        with self.store.reading() as db:
            entries = self._entries(db).values()
        return tuple(
            sorted(entries, key=lambda entry: (not entry.asked, entry.querier.name, entry.purpose or ""))
        )

    # --- at a query -----------------------------------------------------------------------------------

    def admit(self, signature: Asking, n_rows: int, mode: str, *, count: bool = True) -> None:
        """Count rows under what was approved, or note that they wait and raise.

        Parameters
        ----------
        signature : Asking
            A genuine Signature or KeySignature, or anything else that says who asks for what.
        n_rows : int
            Rows of the query.
        mode : {"anyone", "queriers", "purposes"}
            Whom the site answers.
        count : bool, default=True
            Count the rows; False only looks, and notes what waits.

        Raises
        ------
        QueryRefused
            With the code ``waiting-for-approval``, ``denied``, or ``unknown-caller`` if too many wait.
        """
        with self._changing() as entries:
            if any(entry.decision is OwnerDecision.DENIED for entry in _held(entries, signature)):
                raise QueryRefused(FailureCode.DENIED)
            if mode == "anyone":
                return
            key = (signature.public, signature.purpose if mode == "purposes" else None)
            entry = entries.get(key)
            if entry is not None and entry.covers(n_rows, self._clock()):
                if count:
                    entries[key] = replace(entry, answered=entry.answered + n_rows, asked=0)
                return
            self._let_wait(entries, key, signature)
        # Outside of the block, which keeps what was changed only if it ends well.
        raise QueryRefused(FailureCode.WAITING)

    def _let_wait(self, entries: dict[Key, Approval], key: Key, signature: Asking) -> None:
        entry = entries.get(key)
        if entry is None:
            if sum(each.decision is OwnerDecision.WAITING for each in entries.values()) >= MOST_WAITING:
                raise QueryRefused(FailureCode.UNKNOWN_CALLER)
            entry = Approval(signature.key, key[1], OwnerDecision.WAITING)
        if entry.asked == 0:
            # Noted once, and kept as it was noted until somebody decides: a querier that asks for more while
            # the data owner looks at the list must not be given more than the list showed.
            self._note(SiteEvent.WAITING, entry, asked=signature.amount, stated=signature.purpose)
            entries[key] = replace(entry, asked=max(signature.amount, 1), stated=signature.purpose)

    # --- decisions ------------------------------------------------------------------------------------

    def approve(
        self,
        who: str,
        mode: str,
        *,
        purpose: str | None = None,
        rows: int | None = None,
        until: int | None = None,
        every: bool = False,
    ) -> tuple[Approval, ...]:
        """Let a querier ask.

        Parameters
        ----------
        who : str
            Name or id of a querier that has asked, or the file of its public key, ending in ``.pub``.
        mode : {"anyone", "queriers", "purposes"}
            Whom the site answers: with "purposes" an approval is for one purpose.
        purpose : str or None, default=None
            The purpose; None takes the one that waits, and every purpose unless ``mode`` is "purposes".
        rows : int or None, default=None
            Rows that may be answered from now on. None allows what the list shows if the approval is for
            one purpose, and any number otherwise; the site's own limits hold in any case.
        until : int or None, default=None
            When it ends, in seconds since 1970.
        every : bool, default=False
            Without a purpose, approve all that wait; otherwise several are refused, and named.

        Returns
        -------
        tuple of Approval
            What was approved.

        Raises
        ------
        InvalidInputError
            If no such querier has asked, several have the name, several purposes wait, or purpose or rows are
            missing.
        """
        if rows is not None and (type(rows) is not int or rows < 1):
            raise InvalidInputError("rows must be a whole number from 1 on")
        if every and purpose is not None:
            raise InvalidInputError("either one purpose (--purpose TEXT) or all that wait (--all), not both")
        made = []
        with self._changing() as entries:
            chosen = self._chosen(entries, who, mode, purpose)
            if len(chosen) > 1 and not every:
                named = ", ".join(repr(entry.purpose) for entry in chosen[:SHOWN_PURPOSES])
                rest = ", ..." if len(chosen) > SHOWN_PURPOSES else ""
                raise InvalidInputError(
                    f"{len(chosen)} purposes of this querier wait ({named}{rest}): name one (--purpose TEXT) "
                    "or approve all of them (--all)"
                )
            for entry in chosen:
                more = rows
                if more is None and entry.purpose is not None:
                    more = entry.asked or None
                    if more is None:
                        raise InvalidInputError("nothing is asked for now: say how many rows (--rows N)")
                allowed = None if more is None else entry.answered + more
                new = replace(entry, decision=OwnerDecision.APPROVED, asked=0, allowed=allowed, until=until)
                self._note(SiteEvent.APPROVED, new, allowed=allowed, until=until)
                if new.purpose is not None:
                    _lift(entries, new.querier.public)
                entries[new.querier.public, new.purpose] = new
                made.append(new)
        return tuple(made)

    def deny(self, who: str, mode: str, *, purpose: str | None = None) -> tuple[Approval, ...]:
        """Refuse a querier, also one that was approved before.

        Parameters
        ----------
        who : str
            As in :meth:`approve`.
        mode : {"anyone", "queriers", "purposes"}
            Whom the site answers.
        purpose : str or None, default=None
            The purpose; None refuses the querier for every purpose.

        Returns
        -------
        tuple of Approval
            What was refused.
        """
        with self._changing() as entries:
            querier = self._querier(entries, who)
            old = entries.get((querier.public, purpose))
            new = Approval(querier, purpose, OwnerDecision.DENIED, 0 if old is None else old.answered)
            self._note(SiteEvent.DENIED, new)
            entries[querier.public, purpose] = new
            if purpose is None:  # nothing of this querier waits any more
                for key, entry in list(entries.items()):
                    if key[0] == querier.public and entry.asked:
                        entries[key] = replace(entry, decision=OwnerDecision.DENIED, asked=0)
        return (new,)

    def _chosen(
        self, entries: Mapping[Key, Approval], who: str, mode: str, purpose: str | None
    ) -> list[Approval]:
        querier = self._querier(entries, who)
        if purpose is not None and mode != "purposes":
            raise InvalidInputError(
                "this site approves queriers for every purpose: leave out the purpose, or start it with "
                "--approve"
            )
        mine = [entry for key, entry in entries.items() if key[0] == querier.public]
        if purpose is None:
            waiting = [entry for entry in mine if entry.asked]
            if waiting:
                return waiting
            if mode == "purposes":
                raise InvalidInputError(
                    "nothing of this querier waits: say for which purpose (--purpose TEXT)"
                )
        known = entries.get((querier.public, purpose))
        return [Approval(querier, purpose, OwnerDecision.WAITING) if known is None else known]

    def _querier(self, entries: Mapping[Key, Approval], who: str) -> QuerierKey:
        """The one querier of a name, of the beginning of an id, or of a file."""
        if who.endswith(PUBLIC_SUFFIX):
            return QuerierKey.load(who)
        known = {entry.querier.public: entry.querier for entry in entries.values()}
        found = [key for key in known.values() if who == key.id]  # first: a name may look like an id
        found = found or [key for key in known.values() if who == key.name or _begins(key.id, who)]
        if not found:
            raise InvalidInputError(
                f"no querier {who} has asked: give a name or an id from the list, or the file of its public "
                "key (.pub)"
            )
        if len(found) > 1:
            ids = ", ".join(key.id for key in found)
            raise InvalidInputError(f"{who} means several keys: give the whole id of one ({ids})")
        return found[0]

    def _note(self, event: SiteEvent, entry: Approval, **facts: Any) -> None:
        about = entry.querier.plain
        self.log.append(event, self.site, **about, purpose=entry.purpose, answered=entry.answered, **facts)

    # --- the table ------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[dict[Key, Approval]]:
        with self.store.transaction() as db:
            entries = self._entries(db)
            before = dict(entries)
            yield entries
            if entries != before:
                db.execute("DELETE FROM approvals WHERE subject = ?", (self.subject,))
                plain = [{**entry.plain, "name": entry.querier.name} for entry in entries.values()]
                rows = [(self.subject, *map(each.get, COLUMNS)) for each in plain]
                marks = ", ".join("?" * (len(COLUMNS) + 1))
                db.executemany(f"INSERT INTO approvals (subject, {NAMES}) VALUES ({marks})", rows)

    def _entries(self, db: sqlite3.Connection) -> dict[Key, Approval]:
        query = f"SELECT {NAMES} FROM approvals WHERE subject = ? ORDER BY number"
        return {(row[1], row[2]): _entry(row) for row in db.execute(query, (self.subject,))}


def _held(entries: Mapping[Key, Approval], signature: Asking) -> list[Approval]:
    """What was decided about this querier as a whole, and about this purpose."""
    keys: tuple[Key, ...] = ((signature.public, None), (signature.public, signature.purpose))
    return [entries[key] for key in keys if key in entries]


def _lift(entries: dict[Key, Approval], public: str) -> None:
    """Let a querier that was refused as a whole be decided about by purpose; what it had stays refused."""
    whole = entries.get((public, None))
    if whole is None or whole.decision is not OwnerDecision.DENIED:
        return
    del entries[public, None]
    for key, entry in list(entries.items()):
        if key[0] == public:
            entries[key] = replace(entry, decision=OwnerDecision.DENIED, asked=0)


def _begins(whole: str, start: str) -> bool:
    return len(start) >= SHORTEST_ID and whole.startswith(start)


def _entry(row: tuple[Any, ...]) -> Approval:
    name, public, purpose, decision, *rest = row
    try:
        return Approval(QuerierKey(name, public), purpose, OwnerDecision(decision), *rest)
    except (ValueError, InvalidInputError):
        raise FileFormatError("the list of approvals is damaged: no query is answered") from None


def end_of_day(text: str) -> int:
    """Return the end of a day in universal time, in seconds since 1970.

    Parameters
    ----------
    text : str
        The day, as 2027-01-31.

    Returns
    -------
    int
        Its last second.

    Raises
    ------
    InvalidInputError
        If it is no day.

    Examples
    --------
    >>> end_of_day("1970-01-01")
    86399
    """
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInputError(f"{text!r} is no day: write it as 2027-01-31") from None
    return int((day + timedelta(days=1)).timestamp()) - 1
