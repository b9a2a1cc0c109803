"""Carries the steps of encrypted sums: each to one site and back, through a folder of the server.

Nothing here looks inside. The one who asks hands in a parcel for a site; the run at the server sends it and
puts down what came back. A site that is not there is said to be absent at once: whoever asks decides when to
ask again. A request that nobody waits for any more is dropped, and no site is asked. What cannot be written
on a full disk is kept until there is room.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from onefold._base.files import write_whole
from onefold._base.records import Record, record
from onefold.exceptions import FederationError, MessageError, OnefoldError
from onefold.federated.access.signatures import QuerierName, SentSignature, SumSignature
from onefold.federated.flower.folders import private_folder
from onefold.federated.flower.spool import (
    DISK_FULL,
    GRACE,
    NOT_RUNNING,
    SILENT_LOOKS,
    STALE_SECONDS,
    Reply,
    Spool,
    in_time,
    write_request,
)
from onefold.federated.messages import CARRIED, Failure, FailureCode, Message, SumParcel, check_name

LOG = logging.getLogger(__name__)
PAUSE = 0.05
# Why a site has said nothing, in words for whoever asks.
ABSENT = "is not connected"
SLOW = "has not replied in time"
UNSENT = "could not be asked: the server's network did not take the message"


@record
class ParcelRequest(Record, kind="parcel request"):
    """A parcel for a site, who asks, how many seconds the site has, and the querier's signature.

    From ``until`` on, in seconds since 1970, nobody waits for the reply.
    """

    error = MessageError

    parcel: Annotated[SumParcel, CARRIED]
    caller: QuerierName
    timeout: float
    signature: Annotated[SumSignature, CARRIED]
    until: float | None = None


class ParcelSpool:
    """The folder between the one who asks and the run at the server."""

    def __init__(self, root: Path) -> None:
        self._spool = Spool(root)
        self.root = root / "parcels"

    def submit(self, request: ParcelRequest) -> None:
        """Hand a request in; a :class:`FederationError` if the disk is full."""
        sign = self._spool.life()
        if sign is not None and sign.is_full:
            raise FederationError(DISK_FULL)
        latest = time.time() + request.timeout + GRACE
        until = latest if request.until is None else min(request.until, latest)
        private_folder(self.root)
        content = replace(request, until=until).to_bytes()
        write_request(self._path(request.parcel.query_id, "request"), content)

    def requests(self) -> list[ParcelRequest]:
        """Requests that have come in; those that nobody waits for any more are dropped.

        They stay in the folder until they are :meth:`done`.
        """
        found = []
        for path in sorted(self.root.glob("*.request")):
            request = None
            with suppress(OSError, OnefoldError):  # not one of ours: it is dropped
                request = in_time(ParcelRequest.from_bytes(path.read_bytes()))
            if request is None:
                path.unlink(missing_ok=True)
            else:
                found.append(request)
        return found

    def done(self, parcel: SumParcel) -> None:
        """Drop a request that was sent, or whose reply is known."""
        self._path(parcel.query_id, "request").unlink(missing_ok=True)

    def deliver(self, parcel: SumParcel, found: Message | str) -> None:
        """Put down what came, or why nothing did."""
        said = Reply((parcel.site,), (), found) if isinstance(found, str) else Reply((parcel.site,), (found,))
        write_whole(self._path(parcel.query_id, "reply"), said.to_bytes())

    def wait(self, parcel: SumParcel, seconds: float) -> SumParcel | Failure | str:
        """What came back for a parcel of ours, or why nothing did."""
        path, deadline, silent = self._path(parcel.query_id, "reply"), time.monotonic() + seconds, 0
        while not path.exists():
            silent = 0 if self._spool.status() is not None else silent + 1
            if silent > SILENT_LOOKS:
                raise FederationError(NOT_RUNNING)
            if time.monotonic() > deadline and not path.exists():
                raise FederationError(f"the server did not reply within {seconds:g} s")
            time.sleep(PAUSE)
        content = path.read_bytes()
        path.unlink()
        reply = Reply.from_bytes(content)
        found = reply.messages[0] if reply.messages else reply.trouble or ABSENT
        if not isinstance(found, SumParcel | Failure | str):
            raise MessageError("the server's reply is none to a step of an encrypted sum")
        return found

    def withdraw(self, parcels: Sequence[SumParcel]) -> None:
        """Drop what nobody waits for any more."""
        for parcel in parcels:
            for kind in ("request", "reply"):
                self._path(parcel.query_id, kind).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Drop what nobody will fetch any more."""
        for path in private_folder(self.root).iterdir():
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - STALE_SECONDS:
                    path.unlink()

    def _path(self, query_id: str, kind: str) -> Path:
        return self.root / f"{check_name('a query id', query_id)}.{kind}"


# Nodes, messages, seconds, who asks and the signatures; gives Flower's number of each message.
Send = Callable[
    [dict[str, int], Sequence[Message], float, str, Sequence[SentSignature | None]], dict[str, str]
]


class Carrier:
    """The part of the run at the server that takes parcels to sites and brings back what they say."""

    def __init__(self, spool: ParcelSpool, send: Send) -> None:
        self._spool, self._send = spool, send
        self._open: dict[str, tuple[ParcelRequest, float]] = {}  # Flower's number -> request, deadline
        self._outbox: list[tuple[ParcelRequest, Message | str]] = []  # what is not written yet

    @property
    def waiting(self) -> list[str]:
        """Numbers of messages whose replies are awaited."""
        return list(self._open)

    def look(self, online: Mapping[str, int]) -> None:
        """Send what has been handed in, and give up what took too long."""
        for request in self._spool.requests():
            site = request.parcel.site
            number = self._sent(request, online[site]) if site in online else ""
            if number:
                self._open[number] = (request, time.monotonic() + request.timeout)
            else:
                self._outbox.append((request, UNSENT if site in online else ABSENT))
            self._spool.done(request.parcel)
        for number, (request, deadline) in list(self._open.items()):
            if time.monotonic() > deadline:
                del self._open[number]
                self._outbox.append((request, SLOW))

    def hand_over(self) -> None:
        """Put down what has come; what cannot be written stays here for the next time."""
        while self._outbox:
            request, found = self._outbox[0]
            if in_time(request) is not None:
                self._spool.deliver(request.parcel, found)
            del self._outbox[0]

    def sweep(self) -> None:
        """Drop what nobody will fetch any more."""
        self._spool.sweep()

    def _sent(self, request: ParcelRequest, node: int) -> str:
        """Flower's number of the message; empty if Flower does not take it."""
        nodes, site = {request.parcel.site: node}, request.parcel.site
        try:
            sent = self._send(nodes, [request.parcel], request.timeout, request.caller, [request.signature])
        except Exception as error:  # nothing else of this step must be lost with it
            LOG.error("a parcel could not be sent error=%s", type(error).__name__)
            return ""
        return next((number for number, where in sent.items() if where == site), "")

    def take(self, number: str, messages: Sequence[Message] | None) -> None:
        """A reply to a parcel, perhaps; None if the site went away with it."""
        if number not in self._open:
            return
        request, _ = self._open.pop(number)
        found = ABSENT if messages is None else _fitting(request.parcel, messages)
        self._outbox.append((request, found))


def _fitting(parcel: SumParcel, messages: Sequence[Message]) -> Message:
    """The message of a site's reply that belongs to a parcel, or the failure that it amounts to."""
    for message in messages:
        if not isinstance(message, SumParcel | Failure) or message.site != parcel.site:
            continue
        if message.query_id == parcel.query_id:
            return message
    for message in messages:
        if isinstance(message, Failure):  # one without a request speaks for it
            return Failure(parcel.query_id, parcel.site, message.code)
    return Failure(parcel.query_id, parcel.site, FailureCode.INTERNAL)
