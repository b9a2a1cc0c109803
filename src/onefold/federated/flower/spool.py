"""Between the one who asks and the run at the server: a folder of requests and one of replies.

Only the server's account can enter the folder, so every request is from that account. Files appear
whole or not at all; a request that nobody fetched and a reply that nobody read are swept away later.

A request stays in its folder until it is answered, under another name once the run has taken it. What is in
there is thus all that waits or is on its way. When it is too much, no more is taken: whoever asks is told to
try again, and in how many seconds.
"""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

from onefold._base.files import is_disk_full, open_file, write_whole
from onefold._base.records import Record, record
from onefold.exceptions import FederationError, MessageError, OnefoldError, ServerBusyError
from onefold.federated.access.signatures import AnySignature, QuerierName
from onefold.federated.flower.folders import QUEUE, private_folder
from onefold.federated.flower.life import LifeSign, Pulse
from onefold.federated.messages import CARRIED, Message, Query, QueryKey, check_digest, check_name

if TYPE_CHECKING:
    from onefold.federated.flower.parcels import ParcelRequest

AnyRequest = TypeVar("AnyRequest", "Request", "ParcelRequest")
STALE_SECONDS = 3600.0
# Evaluation keys are large, and asked for again when they are gone.
UNUSED_KEYS_SECONDS = 30 * 24 * 3600.0
SILENT_LOOKS = 600
LOOKS_PER_STATUS = 10
NOT_RUNNING = "the server is not running: start it with onefold federate server, or Federation.start()"
DISK_FULL = "the disk of the server is full: nothing is asked until there is room on it"
# Who asks waits this long beyond the time of the sites, unless it says otherwise.
GRACE = 60.0
MOST_BYTES = 2**30  # of requests that wait or are on their way
SOON, LATE = 2.0, 300.0  # the shortest and the longest time after which to try again
UNKNOWN_PACE = 15.0
# Why the run has no reply, and what is said then.
RESTARTED, NO_ROOM = "restarted", "disk-full"
TROUBLES = {
    RESTARTED: "the server was started again while it carried this query: ask again (sites that have "
    "answered it have counted its rows)",
    NO_ROOM: DISK_FULL,
}


@record
class Request(Record, kind="request"):
    """A query, who asks, how many seconds the sites have, under which query key, and the signature.

    From ``until`` on, in seconds since 1970, nobody waits for the reply.
    """

    error = MessageError

    query: Annotated[Query, CARRIED]
    caller: QuerierName
    timeout: float
    lock: Annotated[QueryKey, CARRIED] | None = None
    signature: Annotated[AnySignature, CARRIED] | None = None
    until: float | None = None

    @property
    def id(self) -> str:
        """Id of what is asked."""
        return self.query.id


@record
class Reply(Record, kind="reply"):
    """Who was expected to answer, and what came: answers and failures; or the trouble that the run had."""

    error = MessageError

    expected: tuple[str, ...]
    messages: tuple[Annotated[Message, CARRIED], ...]
    trouble: str = ""


class Mailbox(Generic[AnyRequest]):
    """Requests of one kind, the replies to them, and the run's sign of life beside them.

    Parameters
    ----------
    root : the spool's folder. kind : class of the requests. requests, replies : folders in it.
    """

    def __init__(
        self, root: Path, kind: type[AnyRequest], requests: str = "requests", replies: str = "replies"
    ) -> None:
        self.root = root
        self._kind: type[AnyRequest] = kind
        self._requests, self._replies = root / requests, root / replies
        self.expired = 0  # requests that were dropped because nobody waited for them any more
        self.outbox: dict[str, Reply] = {}  # what the run has to deliver, and could not on a full disk

    def submit(self, request: AnyRequest, patience: float | None = None) -> None:
        """Hand a request in; after ``patience`` seconds nobody waits for its reply.

        A :class:`ServerBusyError` if too many wait already, a :class:`FederationError` if the disk is full.
        """
        latest = time.time() + (request.timeout + GRACE if patience is None else patience)
        until = latest if request.until is None else min(request.until, latest)
        content = replace(request, until=until).to_bytes()
        sign = self.life()
        if sign is not None and sign.is_full:
            raise FederationError(DISK_FULL)
        self._check_queue(len(content), sign)
        try:
            write_whole(self._request(request.id), content)
        except OSError as error:
            if is_disk_full(error):
                raise FederationError(DISK_FULL) from None
            raise

    def _check_queue(self, size: int, sign: LifeSign | None) -> None:
        """Refuse a request of a size if too much waits or is on its way."""

    def take(self) -> list[AnyRequest]:
        """Requests that have come in, oldest first; those that nobody waits for any more are dropped.

        They stay in the folder under another name until they are delivered, withdrawn or given up.
        """
        found = []
        for path in sorted(self._requests.glob("*.request"), key=_age):
            request = None
            with suppress(OSError, OnefoldError):  # not one of ours: it is dropped
                request = in_time(self._kind.from_bytes(path.read_bytes()))
                self.expired += request is None
            if request is None:
                path.unlink(missing_ok=True)
                continue
            with suppress(FileNotFoundError):  # withdrawn meanwhile
                path.replace(path.with_suffix(".taken"))
                found.append(request)
        return found

    def is_awaited(self, query_id: str) -> bool:
        """Whether a request that was taken has not been withdrawn."""
        return self._taken(query_id).exists()

    def hand_over(self) -> None:
        """Deliver what is in the outbox, if somebody waits for it."""
        for query_id in list(self.outbox):
            if self.is_awaited(query_id):
                self.deliver(query_id, self.outbox[query_id])
            del self.outbox[query_id]

    def deliver(self, query_id: str, reply: Reply) -> None:
        """Put down what came."""
        write_whole(self._reply(query_id), reply.to_bytes())
        self._taken(query_id).unlink(missing_ok=True)

    def reply_to(self, query_id: str, seconds: float, is_busy: Callable[[], bool] = lambda: False) -> Reply:
        """The reply to a request of ours; later than ``seconds`` only while it is being worked on."""
        path = self._reply(query_id)
        deadline = time.monotonic() + seconds
        looks = silent = 0
        is_running = True
        while not path.exists():
            if looks % LOOKS_PER_STATUS == 0:
                is_running = self.status() is not None
            looks += 1
            # Many looks in a row: the run may be starting again, or the whole machine may have paused.
            silent = 0 if is_running else silent + 1
            if silent > SILENT_LOOKS:
                raise FederationError(NOT_RUNNING)
            if time.monotonic() > deadline and not is_busy() and not path.exists():
                raise FederationError(f"the server did not reply within {seconds:g} s{self._why_late()}")
            time.sleep(0.05)
        reply = Reply.from_bytes(path.read_bytes())
        path.unlink()
        return reply

    def _why_late(self) -> str:
        sign = self.life()
        if sign is None:
            return ""
        if sign.is_full:
            return f": {DISK_FULL}"
        return "" if sign.is_fresh else f": it is busy ({sign.doing})"

    def withdraw(self, query_ids: Iterable[str]) -> None:
        """Drop requests of ours that nobody has fetched yet, and replies that nobody will read."""
        for query_id in query_ids:
            for path in (self._request(query_id), self._taken(query_id), self._reply(query_id)):
                path.unlink(missing_ok=True)

    def sweep(self, but: Collection[str] = ()) -> None:
        """Drop what nobody will fetch any more; not the queries that are still being worked on."""
        for path in {*self._requests.iterdir(), *self._replies.iterdir()}:
            if _age(path) < time.time() - STALE_SECONDS and path.stem not in but:
                path.unlink(missing_ok=True)

    def _request(self, query_id: str) -> Path:
        return self._requests / f"{check_name('a query id', query_id)}.request"

    def _taken(self, query_id: str) -> Path:
        return self._request(query_id).with_suffix(".taken")

    def _reply(self, query_id: str) -> Path:
        return self._replies / f"{check_name('a query id', query_id)}.reply"

    # --- the run --------------------------------------------------------------------------------------------

    def pulse(self, queue: int = QUEUE) -> Pulse:
        """What gives the sign of life of the run that is wanted now, in this process."""
        made = Pulse(self._alive, self.question, queue, self._run_name)
        made.is_wanted = lambda: self._run_name == made.run
        return made

    def life(self) -> LifeSign | None:
        """The last sign of life of the run that is wanted; None if there is none."""
        sign = LifeSign.last(self._alive)
        return sign if sign is not None and sign.run == self._run_name else None

    @property
    def _run_name(self) -> str:
        return (self.current_run or b"").decode("ascii", "replace")

    def status(self) -> tuple[str, ...] | None:
        """Sites the run sees, as it said last; None if there is no run.

        A run whose process is there has not ended, however long it has said nothing.
        """
        sign = self.life()
        return sign.online if sign is not None and (sign.is_fresh or sign.is_there) else None

    @property
    def question(self) -> Path:
        """The file by which the watchdog asks the run whether it is there; it answers by removing it."""
        return self.root / "question"

    def open_run(self) -> None:
        """Make way for a new run: any other ends, so that there is never more than one for long."""
        self._alive.unlink(missing_ok=True)
        self.question.unlink(missing_ok=True)
        write_whole(self._run, secrets.token_hex(16).encode())

    def close_run(self) -> None:
        """Ask the run to end."""
        self._run.unlink(missing_ok=True)
        self._alive.unlink(missing_ok=True)

    @property
    def current_run(self) -> bytes | None:
        """What the run that is wanted finds when it starts; None if none is wanted."""
        try:
            return self._run.read_bytes()
        except FileNotFoundError:
            return None

    @property
    def _alive(self) -> Path:
        return self.root / "alive"

    @property
    def _run(self) -> Path:
        return self.root / "run"


class Spool(Mailbox[Request]):
    """The queries that wait or are on their way, and what came back."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, Request)

    def _check_queue(self, size: int, sign: LifeSign | None) -> None:
        count, present = self.waiting()
        most = QUEUE if sign is None else sign.queue
        if count < most and (count == 0 or present + size <= MOST_BYTES):
            return
        pace = None if sign is None else sign.pace
        seconds = UNKNOWN_PACE if pace is None else min(max(count / pace, SOON), LATE)
        self._note_refusal()
        what = f"{count} queries wait" if count >= most else f"queries of {present / 2**20:.0f} MiB wait"
        raise ServerBusyError(
            f"the server is busy: {what} already; try again in about {math.ceil(seconds)} s", seconds
        )

    def waiting(self) -> tuple[int, int]:
        """How many requests wait or are on their way, and their bytes."""
        sizes = []
        with os.scandir(self._requests) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # answered meanwhile
                    sizes.append(entry.stat().st_size)
        return len(sizes), sum(sizes)

    def _note_refusal(self) -> None:
        """Let the file of refusals grow by a byte: several processes may do so at once."""
        with suppress(OSError), open_file(self.refusals, "ab") as file:
            file.write(b".")

    @property
    def refusals(self) -> Path:
        """A file with a byte for each request that was refused because too many waited."""
        return self.root / "refusals"

    def give_up(self, but: Collection[str] = ()) -> None:
        """Tell those who wait for requests that an earlier run took and did not answer; all but some."""
        for path in self._requests.glob("*.taken"):
            if path.stem not in but:
                self.deliver(path.stem, Reply((), (), RESTARTED))

    def wait(self, query_id: str, seconds: float, is_busy: Callable[[], bool] = lambda: False) -> Reply:
        """The reply to a query of ours, as :meth:`reply_to`; refused if the run had trouble with it."""
        reply = self.reply_to(query_id, seconds, is_busy)
        if reply.trouble:
            raise FederationError(TROUBLES.get(reply.trouble, "the server could not carry this query"))
        return reply

    def sweep(self, but: Collection[str] = ()) -> None:
        """Drop what nobody will fetch any more, and evaluation keys that were not used for long."""
        super().sweep(but)
        for path in private_folder(self.root / "keys").iterdir():
            if _age(path) < time.time() - UNUSED_KEYS_SECONDS:
                path.unlink(missing_ok=True)

    def keys(self, key_id: str) -> Path:
        """Where the evaluation keys of a querier are, if they are: for the server to compute with."""
        return private_folder(self.root / "keys") / f"{check_digest(key_id)}.keys"

    def job(self, query_id: str) -> Path:
        """The folder where encrypted answers to a query are gathered."""
        return private_folder(self.root / "sealed") / check_name("a query id", query_id)


def in_time(request: AnyRequest) -> AnyRequest | None:
    """A request with the time that is left to the sites; None if nobody waits for its reply any more.

    One that has waited for long leaves the sites less time: afterwards nobody reads their answers.
    """
    left = math.inf if request.until is None else request.until - time.time()
    return None if left <= 0 else replace(request, timeout=min(request.timeout, left))


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
