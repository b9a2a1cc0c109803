"""The same query twice: a site answers each signed query once, and none that is too old.

A server that carries queries could send one again, to be answered once more at the querier's expense. A site
remembers what it has answered for as long as the signature counts, and refuses what it may have forgotten.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from onefold._base.files import file_lock, write_whole
from onefold._base.foreign import parse_json
from onefold.exceptions import FileFormatError, QueryRefused
from onefold.federated.messages import FailureCode
from onefold.federated.signatures import Signature, SumSignature

__all__ = ["WINDOW_SECONDS", "Replays"]

FORMAT = 1
# A signature counts for this long before and after the time it states.
WINDOW_SECONDS = 900.0
MOST_REMEMBERED = 10_000
MARK_DIGITS = 32


class Replays:
    """Remembers the queries that were answered, for as long as their signatures count.

    Parameters
    ----------
    path : str or path-like
        File of what is remembered, shared by all processes of a site.
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
    >>> from onefold.federated.queriers import SigningKey
    >>> replays = Replays(tempfile.mkdtemp() + "/replays.json")
    >>> signature = SigningKey("ward", bytes(32)).sign(Query("q1", np.zeros((2, 3))), "ab" * 32)
    >>> replays.enter(signature)
    >>> replays.enter(signature)
    Traceback (most recent call last):
    onefold.exceptions.QueryRefused: the query is refused: replayed
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        most: int = MOST_REMEMBERED,
    ) -> None:
        self.path, self.most, self._clock = Path(path), most, clock

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
        with file_lock(self.path):
            self._objection(signature, *self._read())

    def enter(self, signature: Signature | SumSignature) -> None:
        """Remember a signature, or raise as :meth:`check` does; on disk when this returns.

        Parameters
        ----------
        signature : Signature or SumSignature
            A genuine one.
        """
        with file_lock(self.path):
            floor, known = self._read()
            self._objection(signature, floor, known)
            known[_mark(signature)] = signature.time
            kept = sorted(known.items(), key=lambda item: item[1], reverse=True)
            fresh = [item for item in kept[: self.most] if self._clock() - item[1] <= WINDOW_SECONDS]
            forgotten = kept[len(fresh) :]
            floor = max([floor, *(then for _, then in forgotten)])
            plain = {"format": FORMAT, "floor": floor, "known": dict(fresh)}
            write_whole(self.path, json.dumps(plain).encode())

    def _objection(self, signature: Signature | SumSignature, floor: int, known: Mapping[str, int]) -> None:
        if _mark(signature) in known:
            raise QueryRefused(FailureCode.REPLAYED)
        if signature.time <= floor or abs(self._clock() - signature.time) > WINDOW_SECONDS:
            raise QueryRefused(FailureCode.STALE)

    def _read(self) -> tuple[int, dict[str, int]]:
        try:
            plain = parse_json(self.path.read_bytes())
            known = {str(mark): int(then) for mark, then in plain["known"].items()}
            if plain["format"] != FORMAT:
                raise ValueError
            return int(plain["floor"]), known
        except FileNotFoundError:
            return -1, {}
        except (FileFormatError, ValueError, TypeError, KeyError, AttributeError):
            raise FileFormatError("the file of answered queries is damaged: no query is answered") from None


def _mark(signature: Signature | SumSignature) -> str:
    """One key, one query id: whatever else is stated, they are answered once."""
    return hashlib.sha256(f"{signature.public} {signature.query}".encode()).hexdigest()[:MARK_DIGITS]
