"""How much a querier may ask a site: a rate, and a total that is never given back.

Answers are functions of the site's rows unless the model is private, so every answer tells something. A guard
bounds how many rows each querier gets answered, per minute and for good.
"""

import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from onefold._base.files import file_lock, write_whole
from onefold._base.validation import Entry, Whole, check_parameter, check_parameters
from onefold.exceptions import FileFormatError, QueryRefused
from onefold.federated.messages import FailureCode, check_name

__all__ = ["QueryGuard"]

CONSTRAINTS: dict[str, Entry] = {
    "per_minute": (Whole(1), None),
    "total": (Whole(1), None),
    "max_callers": Whole(1),
}
LOG = logging.getLogger(__name__)
FORMAT = 1
MINUTE = 60.0
STEPS_PER_SECOND = 10
# Of each querier: rows ever answered, and (time, rows) of what was answered in the last minute.
Account = dict[str, Any]


class QueryGuard:
    """Counts the rows each querier asks about and refuses what is too much.

    Parameters
    ----------
    per_minute : int or None
        Rows a querier may ask about within any 60 seconds, to a tenth; None for no limit.
    total : int or None
        Rows a querier may ever ask about; None for no limit.
    path : str, path or None, default=None
        File that keeps the counts, shared by all processes of a site; None keeps them in memory. Its folder
        must exist. Deleting the file gives every querier its budget back.
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
        path: str | os.PathLike[str] | None = None,
        *,
        max_callers: int = 1000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.per_minute, self.total, self.max_callers = per_minute, total, max_callers
        check_parameters(self, CONSTRAINTS)
        self.path = None if path is None else Path(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._accounts: dict[str, Account] = {}  # used without a path only

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
        with self._locked():
            accounts = self._read()
            account = accounts.get(caller, {"total": 0, "recent": []})
            now = self._clock()
            # Entries from the future mean the clock was put back: they count from now on.
            soon = now + 1.0 / STEPS_PER_SECOND
            recent = [[min(then, soon), rows] for then, rows in account["recent"] if now - then < MINUTE]
            code = self._objection(caller in accounts, len(accounts), account["total"], recent, n_rows)
            if code is None:
                _enter(recent, now, int(n_rows))
                accounts[caller] = {"total": account["total"] + int(n_rows), "recent": recent}
                self._write(accounts)
        if code is not None:
            LOG.warning("refused caller=%s rows=%d code=%s", caller, n_rows, code)
            raise QueryRefused(code)
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
        with self._locked():
            account = self._read().get(check_name("a querier's name", caller))
        return 0 if account is None else int(account["total"])

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

    def _objection(
        self, known: bool, n_callers: int, spent: int, recent: list[Any], n_rows: int
    ) -> FailureCode | None:
        if not known and n_callers >= self.max_callers:
            return FailureCode.UNKNOWN_CALLER
        if self.total is not None and spent + n_rows > self.total:
            return FailureCode.BUDGET_SPENT
        if self.per_minute is not None and sum(rows for _, rows in recent) + n_rows > self.per_minute:
            return FailureCode.RATE_LIMITED
        return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        other: AbstractContextManager[Any] = self._lock if self.path is None else file_lock(self.path)
        with other:
            yield

    def _read(self) -> dict[str, Account]:
        if self.path is None:
            return self._accounts
        try:
            plain = json.loads(self.path.read_bytes())
            accounts = {
                str(caller): {"total": _count(account["total"]), "recent": _entries(account["recent"])}
                for caller, account in plain["callers"].items()
            }
            if plain["format"] != FORMAT:
                raise ValueError
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise FileFormatError("the file with the query counts is damaged: no query is answered") from None
        return accounts

    def _write(self, accounts: dict[str, Account]) -> None:
        if self.path is not None:
            content = json.dumps({"format": FORMAT, "callers": accounts}, allow_nan=False).encode()
            write_whole(self.path, content)


def _enter(recent: list[list[Any]], now: float, n_rows: int) -> None:
    """Count rows at the end of the current tenth of a second, so that a minute has at most 600 entries."""
    then = math.ceil(now * STEPS_PER_SECOND) / STEPS_PER_SECOND
    if recent and recent[-1][0] == then:
        recent[-1][1] += n_rows
    else:
        recent.append([then, n_rows])


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def _entries(value: Any) -> list[list[Any]]:
    return [[float(then), _count(rows)] for then, rows in value]
