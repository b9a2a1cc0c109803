"""Which sites joined, left and forgot rows: an append-only log whose entries vouch for those before them.

Each entry is a JSON text that names the SHA-256 sum of the text before it. The number of entries and the last
sum are kept besides, so that cutting off the end is found as well. Whoever can write to the file can write a
new history: note :attr:`MembershipLog.head` elsewhere from time to time, and pass it to
:meth:`MembershipLog.verify`.
"""

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from onefold.exceptions import InvalidInputError, TamperedLogError
from onefold.federated.access.store import Place, opened, put_value, value_of
from onefold.federated.messages import check_name, is_text

__all__ = ["LogEntry", "MembershipEvent", "MembershipLog", "SiteEvent", "SiteLog"]

FIRST = "0" * 64  # what the first entry names as the sum of the one before it
LONGEST_LIST = 10_000


class MembershipEvent(StrEnum):
    """What can happen to the membership of a federation."""

    JOIN = "join"
    LEAVE = "leave"
    REJOIN = "re-join"
    FORGET = "forget"
    CLASS_ADDED = "class-added"
    CLASS_REMOVED = "class-removed"
    BATCH_ADDED = "batch-added"
    BATCH_REMOVED = "batch-removed"


class SiteEvent(StrEnum):
    """What a site notes about itself: what its data owner decided, and what left it."""

    APPROVED = "approved"  # a querier may ask
    DENIED = "denied"  # a querier may not
    WAITING = "waiting"  # a querier asked for the first time, or for more than it may
    ANSWERED = "answered"  # answers to one query left
    MODEL_SENT = "model-sent"
    SUMS_SENT = "sums-sent"
    PAUSED = "paused"  # nobody is answered
    RESUMED = "resumed"
    UPDATED = "updated"  # the model or the moments were made anew
    PERSON_FORGOTTEN = "person-forgotten"  # which person is not noted
    SUM_STEP = "sum-step"  # a part in an encrypted sum left: encrypted shares, a signature or an answer


@dataclass(frozen=True)
class LogEntry:
    """One entry of the log.

    Parameters
    ----------
    number : int
        Place of the entry, from 0.
    time : str
        When it was written, in ISO 8601.
    event : MembershipEvent or SiteEvent
        What happened.
    site : str
        Name of the site.
    facts : dict
        Plain values: counts, classes, whether it was exact.
    previous, sum : str
        SHA-256 sums of the entry before and of this one.
    """

    number: int
    time: str
    event: Any
    site: str
    facts: dict[str, Any]
    previous: str
    sum: str


class MembershipLog:
    """An append-only, hash-chained log of the membership.

    Parameters
    ----------
    place : Store, str or path
        The store of a folder; or a file, which is made at the first entry, in a folder that exists.
    clock : callable, default=time.time
        Returns seconds since 1970.

    See Also
    --------
    GlobalClassifier : Writes joining, leaving and forgetting to a log.
    LocalModel.forget : Says what a log may keep of it.

    Notes
    -----
    *Guarantees.*

    * :meth:`append` returns when the entry is on disk; concurrent processes never lose or mix entries.
    * :meth:`verify` finds an edited, missing, added or moved entry, unless the whole chain from there on and
      the head were written anew.

    Examples
    --------
    >>> import tempfile
    >>> log = MembershipLog(tempfile.mkdtemp() + "/members.db")
    >>> _ = log.append("join", "north", classes=3)
    >>> _ = log.append("leave", "north")
    >>> log.verify(), [entry.event.value for entry in log]
    (2, ['join', 'leave'])
    """

    _events: type[StrEnum] = MembershipEvent

    def __init__(self, place: Place, *, clock: Callable[[], float] = time.time) -> None:
        self.store = opened(place)
        self._clock = clock

    @property
    def head(self) -> tuple[int, str]:
        """Number of entries and the sum of the last one: what to note elsewhere. It is on disk."""
        with self.store.reading() as db:
            return self._head(db)

    def append(self, event: StrEnum | str, site: str, **facts: Any) -> LogEntry:
        """Write one entry.

        Parameters
        ----------
        event : MembershipEvent or str
            What happened; one of the events of this kind of log.
        site : str
            Name of the site.
        **facts : dict
            Plain values and no personal data: counts, classes, whether it was exact.

        Returns
        -------
        LogEntry
            The entry, which is on disk.
        """
        kind, name, plain = _event(event, self._events), check_name("a site's name", site), _facts(facts)
        when = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        with self.store.transaction() as db:
            count, last = self._head(db)
            content = {"number": count, "time": when, "event": kind.value, "site": name, "facts": plain}
            text = json.dumps(content | {"previous": last}, sort_keys=True, allow_nan=False)
            total = _sum(text)
            db.execute("INSERT INTO log VALUES (?, ?, ?)", (count, text, total))
            put_value(db, "head", f"{count + 1} {total}")
        return LogEntry(count, when, kind, name, plain, last, total)

    def verify(self, head: tuple[int, str] | None = None) -> int:
        """Check that the log is as it was written.

        Parameters
        ----------
        head : tuple of (int, str) or None, default=None
            A :attr:`head` noted earlier: the log must still begin with what it stood for.

        Returns
        -------
        int
            Number of entries.

        Raises
        ------
        TamperedLogError
            If an entry was edited, added, moved or cut off.
        """
        with self.store.reading() as db:
            entries, (count, last) = self._entries(db), _noted_head(db)
        sums = [FIRST, *(entry.sum for entry in entries)]
        for number, total in ((count, last), *(() if head is None else (head,))):
            if number >= len(sums) or sums[number] != total:
                raise TamperedLogError("the log was cut: it lacks entries that it had")
        if len(entries) > count:
            raise TamperedLogError("entries were added to the log by other means")
        return len(entries)

    def __iter__(self) -> Iterator[LogEntry]:
        with self.store.reading() as db:
            return iter(self._entries(db))

    def members(self) -> tuple[str, ...]:
        """Return the sites that take part according to the log.

        Returns
        -------
        tuple of str
            Their names, in the order in which they joined.
        """
        present: dict[str, None] = {}
        for entry in self:
            if entry.event is MembershipEvent.LEAVE:
                present.pop(entry.site, None)
            elif entry.event in (MembershipEvent.JOIN, MembershipEvent.REJOIN):
                present[entry.site] = None
        return tuple(present)

    def _head(self, db: sqlite3.Connection) -> tuple[int, str]:
        """Number of entries and the last sum; the quick check, by the last entry only."""
        count, last = _noted_head(db)
        row = db.execute("SELECT number, sum FROM log ORDER BY number DESC LIMIT 1").fetchone()
        if (row or (-1, FIRST)) != (count - 1, last):
            raise TamperedLogError("the log was changed by other means: run verify")
        return count, last

    def _entries(self, db: sqlite3.Connection) -> list[LogEntry]:
        """All entries, each checked against the one before it."""
        entries: list[LogEntry] = []
        for number, text, total in db.execute("SELECT number, entry, sum FROM log ORDER BY number"):
            previous = entries[-1].sum if entries else FIRST
            entries.append(_entry(text, total, len(entries), previous, self._events))
            if number != len(entries) - 1:
                raise TamperedLogError(f"entry {len(entries)} of the log is missing")
        return entries


class SiteLog(MembershipLog):
    """The log of one site: what its data owner decided about queriers, and what left the site.

    It is kept like a :class:`MembershipLog`, by the site itself, with the events of :class:`SiteEvent`.

    Parameters
    ----------
    place : Store, str or path
        The store of a folder; or a file, which is made at the first entry, in a folder that exists.
    clock : callable, default=time.time
        Returns seconds since 1970.

    See Also
    --------
    MembershipLog : The log of who came and went, at the server.

    Examples
    --------
    >>> import tempfile
    >>> log = SiteLog(tempfile.mkdtemp() + "/site.db")
    >>> log.append("answered", "north", querier="ward", rows=5).event
    <SiteEvent.ANSWERED: 'answered'>
    """

    _events = SiteEvent


def _noted_head(db: sqlite3.Connection) -> tuple[int, str]:
    count, _, total = str(value_of(db, "head", f"0 {FIRST}")).partition(" ")
    if not count.isdecimal() or len(count) > 15:
        raise TamperedLogError("the head of the log is damaged")
    return int(count), total


def _entry(text: str, total: str, number: int, previous: str, events: type[StrEnum]) -> LogEntry:
    if not isinstance(text, str) or _sum(text) != total:
        raise TamperedLogError(f"entry {number + 1} of the log was edited")
    try:
        plain = json.loads(text)
        entry = LogEntry(**{**plain, "event": events(plain["event"])}, sum=total)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise TamperedLogError(f"entry {number + 1} of the log is none") from None
    if entry.number != number or entry.previous != previous:
        raise TamperedLogError(f"entry {number + 1} of the log does not follow the one before it")
    return entry


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _event(event: StrEnum | str, events: type[StrEnum]) -> StrEnum:
    try:
        return events(event)
    except ValueError:
        raise InvalidInputError(f"event must be one of {', '.join(events)}") from None


def _facts(facts: dict[str, Any]) -> dict[str, Any]:
    if not all(name.isascii() and name.isidentifier() and _is_fact(value) for name, value in facts.items()):
        raise InvalidInputError("facts must be plain numbers, short texts, or short lists of them")
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}


def _is_fact(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= LONGEST_LIST and all(
            not isinstance(v, (list, tuple)) and _is_fact(v) for v in value
        )
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int) or is_text(value)
