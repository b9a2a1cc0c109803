"""How much a caller may ask a site: a rate, and a total that is never given back.

Answers are functions of the owner's rows unless the model is private, so every answer tells something. A
guard bounds how many rows each caller gets answered, per minute and for good.
"""

from __future__ import annotations

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

from onefold._base.files import atomic_write, file_lock
from onefold._base.validation import check_whole_number
from onefold.exceptions import FileFormatError, QueryRefused
from onefold.federated.messages import FailureCode, check_name

__all__ = ["QueryGuard"]

LOG = logging.getLogger(__name__)
FORMAT = 1
MINUTE = 60.0
STEPS_PER_SECOND = 10
# Of each caller: rows ever answered, and (time, rows) of what was answered in the last minute.
Account = dict[str, Any]


class QueryGuard:
    """Counts the rows each caller asks about and refuses what is too much.

    Parameters
    ----------
    per_minute : rows a caller may ask about within any 60 seconds, to a tenth; None for no limit.
    total : rows a caller may ever ask about; None for no limit.
    path : file that keeps the counts, shared by all processes of a site; None keeps them in memory. Its
        folder must exist. Deleting the file gives every caller its budget back.
    max_callers : how many callers are known at most. Who the caller is must be established by the runtime: a
        caller that can choose its name afresh has no limit but this one.
    clock : seconds since 1970. Putting the clock forward refills the minute, never the total.

    Guarantees
    ----------
    * However many threads and processes ask at once, no caller is admitted for more than ``total`` rows.
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
        check_whole_number("per_minute", per_minute, or_none=True)
        check_whole_number("total", total, or_none=True)
        check_whole_number("max_callers", max_callers)
        self.per_minute, self.total, self.max_callers = per_minute, total, max_callers
        self.path = None if path is None else Path(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._accounts: dict[str, Account] = {}  # used without a path only

    def admit(self, caller: str, n_rows: int) -> None:
        """Count ``n_rows`` for the caller, or count nothing and raise.

        What is raised is a :class:`~onefold.exceptions.QueryRefused`; its ``code`` is a
        :class:`~onefold.federated.messages.FailureCode`: ``budget-spent`` for good, ``rate-limited`` for now,
        ``unknown-caller`` when there are too many callers.
        """
        check_name("a caller", caller)
        check_whole_number("n_rows", n_rows)
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
        """Rows this caller has been admitted for so far."""
        with self._locked():
            account = self._read().get(check_name("a caller", caller))
        return 0 if account is None else int(account["total"])

    def remaining(self, caller: str) -> int | None:
        """Rows of the total that this caller has left; None without a total."""
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
        if self.path is None:
            return
        with atomic_write(self.path, private=True) as file:
            file.write(json.dumps({"format": FORMAT, "callers": accounts}, allow_nan=False).encode())


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
