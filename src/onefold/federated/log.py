"""Which sites joined, left and forgot rows: an append-only log in which each line vouches for the one before.

Each line is a JSON object with the SHA-256 sum of its content and of the line before it. A neighbour file
(``.head``) holds the number of lines and the last sum, so that cutting off the end is found as well. Whoever
can write to both files can write a new history: note :attr:`MembershipLog.head` elsewhere from time to time,
and pass it to :meth:`MembershipLog.verify`.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from onefold._base.files import append_at, file_lock, sync_file, write_whole
from onefold.exceptions import InvalidInputError, TamperedLogError
from onefold.federated.messages import check_name, is_text

__all__ = ["LogEntry", "MembershipEvent", "MembershipLog", "SiteEvent", "SiteLog"]

FIRST = "0" * 64  # what the first line names as the sum of the line before it
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
    """One line of the log.

    Parameters
    ----------
    number : int
        Place of the line, from 0.
    time : str
        When it was written, in ISO 8601.
    event : MembershipEvent or SiteEvent
        What happened.
    site : str
        Name of the site.
    facts : dict
        Plain values: counts, classes, whether it was exact.
    previous, sum : str
        SHA-256 sums of the line before and of this line.
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
    path : str or path
        The file; it is made at the first entry, in a folder that exists.
    clock : callable, default=time.time
        Returns seconds since 1970.

    See Also
    --------
    GlobalClassifier : Writes joining and leaving to a log.
    LocalModel.forget : Writes forgetting to a log.

    Notes
    -----
    *Guarantees.*

    * :meth:`append` returns when the entry is on disk; concurrent processes never lose or mix entries.
    * :meth:`verify` finds an edited, missing, added or moved line, unless the whole chain from there on and
      the head were written anew.

    Examples
    --------
    >>> import tempfile
    >>> log = MembershipLog(tempfile.mkdtemp() + "/members.log")
    >>> _ = log.append("join", "north", classes=3)
    >>> _ = log.append("leave", "north")
    >>> log.verify(), [entry.event.value for entry in log]
    (2, ['join', 'leave'])
    """

    _events: type[StrEnum] = MembershipEvent

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self._clock = clock

    @property
    def head(self) -> tuple[int, str]:
        """Number of entries and the sum of the last one: what to note elsewhere. It is on disk."""
        with file_lock(self.path):
            count, last, _ = self._recovered()
        return count, last

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
        with file_lock(self.path):
            count, last, size = self._recovered()
            content = {"number": count, "time": when, "event": kind.value, "site": name, "facts": plain}
            content["previous"] = last
            total = _sum(content)
            line = json.dumps({**content, "sum": total}, allow_nan=False).encode() + b"\n"
            append_at(self.path, size, line)
            self._write_head(count + 1, total, size + len(line))
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
            If a line was edited, added, moved or cut off.
        """
        with file_lock(self.path):
            entries, rest = self._parse()
            count, last, _ = self._head()
        # An unfinished last line was never acknowledged, and the next entry takes its place.
        if rest and len(entries) < count:
            raise TamperedLogError("the last line of the log is incomplete")
        sums = [FIRST, *(entry.sum for entry in entries)]
        # One line more than the head knows of is an entry whose writer stopped half way: it is whole.
        for number, total in ((count, last), *(() if head is None else (head,))):
            if number >= len(sums) or sums[number] != total:
                raise TamperedLogError("the log was cut: it lacks entries that it had")
        if len(entries) > count + 1:
            raise TamperedLogError("lines were added to the log by other means")
        return len(entries)

    def __iter__(self) -> Iterator[LogEntry]:
        with file_lock(self.path):
            entries, _ = self._parse()
        return iter(entries)

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

    def _consistent(self) -> tuple[int, str, int]:
        """Count, last sum and size of the log for the next entry; the quick check, by the last line only."""
        count, last, size = self._head()
        actual = self.path.stat().st_size if self.path.exists() else 0
        if actual == size:
            if size and self._last_line(size).get("sum") != last:
                raise TamperedLogError("the log was changed by other means: run verify")
            return count, last, size
        if actual < size:
            raise TamperedLogError("the log was cut: it lacks entries that it had")
        entries, rest = self._parse()  # a writer stopped between the line and the head, or within the line
        if len(entries) not in (count, count + 1) or [FIRST, *(e.sum for e in entries)][count] != last:
            raise TamperedLogError("the log was changed by other means: run verify")
        return len(entries), entries[-1].sum if entries else FIRST, actual - len(rest)

    def _recovered(self) -> tuple[int, str, int]:
        """The same, with a head that knows of a line whose writer stopped before it wrote the head.

        Otherwise a second such stop would leave two lines that the head does not know, as an edit does. The
        line is synced first: a head that a power failure leaves without its line would be a log that was cut.
        """
        count, last, size = self._consistent()
        if count != self._head()[0]:
            sync_file(self.path)
            self._write_head(count, last, size)
        return count, last, size

    @property
    def _head_path(self) -> Path:
        return Path(f"{os.fspath(self.path)}.head")

    def _head(self) -> tuple[int, str, int]:
        try:
            plain = json.loads(self._head_path.read_bytes())
            count, last, size = int(plain["count"]), str(plain["sum"]), int(plain["size"])
        except FileNotFoundError:
            if self.path.exists() and self.path.stat().st_size:
                entries, _ = self._parse()
                if len(entries) > 1:
                    raise TamperedLogError("the head of the log is missing") from None
            return 0, FIRST, 0
        except (ValueError, TypeError, KeyError, RecursionError):
            raise TamperedLogError("the head of the log is damaged") from None
        return count, last, size

    def _write_head(self, count: int, last: str, size: int) -> None:
        write_whole(self._head_path, json.dumps({"count": count, "sum": last, "size": size}).encode())

    def _last_line(self, size: int) -> dict[str, Any]:
        with open(self.path, "rb") as file:
            step = 4096
            while True:
                step = min(step, size)
                file.seek(size - step)
                tail = file.read(step)
                start = tail.rfind(b"\n", 0, -1)
                if start >= 0 or step == size:
                    break
                step *= 4
        try:
            plain = json.loads(tail[start + 1 :])
        except (ValueError, RecursionError):
            plain = None
        return plain if isinstance(plain, dict) else {}

    def _parse(self) -> tuple[list[LogEntry], bytes]:
        """All entries, each checked against the one before it, and an unfinished last line."""
        content = self.path.read_bytes() if self.path.exists() else b""
        *lines, rest = content.split(b"\n")
        entries: list[LogEntry] = []
        for number, line in enumerate(lines):
            previous = entries[-1].sum if entries else FIRST
            entries.append(_entry(line, number, previous, self._events))
        return entries, rest


class SiteLog(MembershipLog):
    """The log of one site: what its data owner decided about queriers, and what left the site.

    It is kept like a :class:`MembershipLog`, by the site itself, with the events of :class:`SiteEvent`.

    Parameters
    ----------
    path : str or path
        The file; it is made at the first entry, in a folder that exists.
    clock : callable, default=time.time
        Returns seconds since 1970.

    See Also
    --------
    MembershipLog : The log of who came and went, at the server.

    Examples
    --------
    >>> import tempfile
    >>> log = SiteLog(tempfile.mkdtemp() + "/site.log")
    >>> log.append("answered", "north", querier="ward", rows=5).event
    <SiteEvent.ANSWERED: 'answered'>
    """

    _events = SiteEvent


def _entry(line: bytes, number: int, previous: str, events: type[StrEnum]) -> LogEntry:
    try:
        plain = json.loads(line)
        total = plain.pop("sum")
        entry = LogEntry(**{**plain, "event": events(plain["event"])}, sum=total)
        # Compare as written: another spacing or order of keys is an edit, too.
        same = json.dumps({**plain, "sum": total}).encode() == line
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise TamperedLogError(f"line {number + 1} of the log is no entry") from None
    if not same or _sum(plain) != total:
        raise TamperedLogError(f"line {number + 1} of the log was edited")
    if entry.number != number or entry.previous != previous:
        raise TamperedLogError(f"line {number + 1} of the log does not follow the line before it")
    return entry


def _sum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


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
