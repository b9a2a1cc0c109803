"""How much a querier may ask a site: a rate, a total that is never given back, and each signed query once.

Answers are functions of the site's rows unless the model is private, so every answer tells something. A guard
bounds how many rows each querier gets answered, per minute and for good. A server that carries queries could
send one again, to be answered once more at the querier's expense: a site remembers what it has answered for
as long as the signature counts, and refuses what it may have forgotten.
"""

import hashlib
import logging
import math
import sqlite3
import time
from collections.abc import Callable

from onefold._base.validation import Entry, Whole, check_parameter, check_parameters
from onefold.exceptions import QueryRefused
from onefold.federated.access.signatures import Signature, SumSignature
from onefold.federated.access.store import Place, opened, put_value, value_of
from onefold.federated.messages import FailureCode, check_name

__all__ = ["WINDOW_SECONDS", "QueryGuard", "Replays"]

CONSTRAINTS: dict[str, Entry] = {
    "per_minute": (Whole(1), None),
    "total": (Whole(1), None),
    "max_callers": Whole(1),
}
LOG = logging.getLogger(__name__)
MINUTE = 60.0
STEPS_PER_SECOND = 10  # so that a minute has at most 600 entries of a querier
# A signature counts for this long before and after the time it states.
WINDOW_SECONDS = 900.0
MOST_REMEMBERED = 10_000
MARK_DIGITS = 32


class QueryGuard:
    """Counts the rows each querier asks about and refuses what is too much.

    Parameters
    ----------
    per_minute : int or None
        Rows a querier may ask about within any 60 seconds, to a tenth; None for no limit.
    total : int or None
        Rows a querier may ever ask about; None for no limit.
    place : Store, str, path or None, default=None
        The store of a folder, or a file in a folder that exists, shared by all processes of a site; None
        keeps the counts in memory. Deleting the file gives every querier its budget back.
    name : str, default="rows"
        What is counted, where one store has several guards.
    max_callers : int, default=1000
        How many queriers are known at most. The runtime must establish who asks: a querier that can choose
        its name afresh has no limit but this one.
    clock : callable, default=time.time
        Returns seconds since 1970. Putting the clock forward refills the minute, never the total.

    See Also
    --------
    MembershipLog : What happened to the membership.

    Notes
    -----
    *Guarantees.*

    * However many threads and processes ask at once, no querier is admitted for more than ``total`` rows.
    * A query is counted before it is answered, and whole or not at all; a refused one is not counted.
    * A file that cannot be read refuses everything: nothing is reset in silence.

    Examples
    --------
    >>> guard = QueryGuard(per_minute=100, total=150)
    >>> guard.admit("university", 100)
    >>> guard.remaining("university")
    50
    >>> guard.admit("university", 51)
    Traceback (most recent call last):
    onefold.exceptions.QueryRefused: the query is refused: budget-spent
    """

    def __init__(
        self,
        per_minute: int | None,
        total: int | None,
        place: Place = None,
        *,
        name: str = "rows",
        max_callers: int = 1000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.per_minute, self.total, self.max_callers = per_minute, total, max_callers
        check_parameters(self, CONSTRAINTS)
        self.store, self.name, self._clock = opened(place), name, clock

    def admit(self, caller: str, n_rows: int) -> None:
        """Count rows for a querier, or count nothing and raise.

        Parameters
        ----------
        caller : str
            Name of the querier.
        n_rows : int
            Rows of the query.

        Raises
        ------
        QueryRefused
            Its ``code`` is a :class:`~onefold.federated.messages.FailureCode`: ``budget-spent`` for good,
            ``rate-limited`` for now, ``unknown-caller`` when there are too many queriers.
        """
        check_name("a querier's name", caller)
        check_parameter("n_rows", n_rows, Whole(1))
        try:
            with self.store.transaction() as db:
                self._count(db, caller, int(n_rows), self._clock())
        except QueryRefused as refusal:
            LOG.warning("refused caller=%s rows=%d code=%s", caller, n_rows, refusal.code)
            raise
        LOG.info("admitted caller=%s rows=%d", caller, n_rows)

    def spent(self, caller: str) -> int:
        """Return how many rows this querier has been admitted for so far.

        Parameters
        ----------
        caller : str
            Name of the querier.

        Returns
        -------
        int
            The rows.
        """
        with self.store.reading() as db:
            return self._spent(db, check_name("a querier's name", caller)) or 0

    def remaining(self, caller: str) -> int | None:
        """Return how many rows of the total this querier has left.

        Parameters
        ----------
        caller : str
            Name of the querier.

        Returns
        -------
        int or None
            The rows; None without a total.
        """
        return None if self.total is None else max(self.total - self.spent(caller), 0)

    def _spent(self, db: sqlite3.Connection, caller: str) -> int | None:
        query = "SELECT rows FROM counts WHERE counter = ? AND caller = ?"
        row = db.execute(query, (self.name, caller)).fetchone()
        return None if row is None else int(row[0])

    def _count(self, db: sqlite3.Connection, caller: str, n_rows: int, now: float) -> None:
        """Count rows at the end of the current tenth of a second, or raise."""
        key, spent = (self.name, caller), self._spent(db, caller)
        if spent is None:
            known = db.execute("SELECT count(*) FROM counts WHERE counter = ?", (self.name,)).fetchone()[0]
            if known >= self.max_callers:
                raise QueryRefused(FailureCode.UNKNOWN_CALLER)
        if self.total is not None and (spent or 0) + n_rows > self.total:
            raise QueryRefused(FailureCode.BUDGET_SPENT)
        db.execute("DELETE FROM recent WHERE time <= ?", (now - MINUTE,))
        # Entries from the future mean the clock was put back: they count from now on.
        soon = now + 1.0 / STEPS_PER_SECOND
        db.execute("UPDATE recent SET time = ? WHERE time > ?", (soon, soon))
        query = "SELECT total(rows) FROM recent WHERE counter = ? AND caller = ?"
        lately = db.execute(query, key).fetchone()[0]
        if self.per_minute is not None and lately + n_rows > self.per_minute:
            raise QueryRefused(FailureCode.RATE_LIMITED)
        db.execute("INSERT OR REPLACE INTO counts VALUES (?, ?, ?)", (*key, (spent or 0) + n_rows))
        then = math.ceil(now * STEPS_PER_SECOND) / STEPS_PER_SECOND
        query = "UPDATE recent SET rows = rows + ? WHERE counter = ? AND caller = ? AND time = ?"
        if not db.execute(query, (n_rows, *key, then)).rowcount:
            db.execute("INSERT INTO recent VALUES (?, ?, ?, ?)", (*key, then, n_rows))


class Replays:
    """Remembers the queries that were answered, for as long as their signatures count.

    Parameters
    ----------
    place : Store, str, path or None
        The store of a folder, or a file in a folder that exists, shared by all processes of a site; None
        remembers in memory.
    clock : callable, default=time.time
        Returns seconds since 1970.
    most : int, default=10000
        How many queries are remembered; above that the oldest make way, and signatures as old count no more.

    Notes
    -----
    *Guarantees.*

    * However many threads and processes ask at once, :meth:`enter` returns once for each signature.
    * What was forgotten is not taken again, wherever the clock is put: a signature that is not younger than
      one that was forgotten is too old.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from onefold.federated.messages import Query
    >>> from onefold.federated.access.signatures import SigningKey
    >>> replays = Replays(tempfile.mkdtemp() + "/replays.db")
    >>> signature = SigningKey("ward", bytes(32)).sign(Query("q1", np.zeros((2, 3))), "ab" * 32)
    >>> replays.enter(signature)
    >>> replays.enter(signature)
    Traceback (most recent call last):
    onefold.exceptions.QueryRefused: the query is refused: replayed
    """

    def __init__(
        self,
        place: Place,
        *,
        clock: Callable[[], float] = time.time,
        most: int = MOST_REMEMBERED,
    ) -> None:
        self.store, self.most, self._clock = opened(place), most, clock

    def check(self, signature: Signature | SumSignature) -> None:
        """Refuse a signature that is too old, from the future, or entered already.

        Parameters
        ----------
        signature : Signature or SumSignature
            A genuine one.

        Raises
        ------
        QueryRefused
            With the code ``stale`` or ``replayed``.
        """
        with self.store.reading() as db:
            self._check(db, signature)

    def enter(self, signature: Signature | SumSignature) -> None:
        """Remember a signature, or raise as :meth:`check` does; on disk when this returns.

        Parameters
        ----------
        signature : Signature or SumSignature
            A genuine one.
        """
        with self.store.transaction() as db:
            self._check(db, signature)
            db.execute("INSERT INTO replays VALUES (?, ?)", (_mark(signature), signature.time))
            count = value_of(db, "replays.count", 0) + 1
            end = math.ceil(self._clock() - WINDOW_SECONDS) - 1  # what is as old is forgotten
            if count > self.most:
                end = max(end, db.execute("SELECT min(time) FROM replays").fetchone()[0])
            floor = db.execute("SELECT max(time) FROM replays WHERE time <= ?", (end,)).fetchone()[0]
            if floor is not None:
                put_value(db, "replays.floor", max(floor, value_of(db, "replays.floor", -1)))
                count -= db.execute("DELETE FROM replays WHERE time <= ?", (end,)).rowcount
            put_value(db, "replays.count", count)

    def _check(self, db: sqlite3.Connection, signature: Signature | SumSignature) -> None:
        if db.execute("SELECT 1 FROM replays WHERE mark = ?", (_mark(signature),)).fetchone():
            raise QueryRefused(FailureCode.REPLAYED)
        is_old = signature.time <= value_of(db, "replays.floor", -1)
        if is_old or abs(self._clock() - signature.time) > WINDOW_SECONDS:
            raise QueryRefused(FailureCode.STALE)


def _mark(signature: Signature | SumSignature) -> str:
    """One key, one query id: whatever else is stated, they are answered once."""
    return hashlib.sha256(f"{signature.public} {signature.query}".encode()).hexdigest()[:MARK_DIGITS]
