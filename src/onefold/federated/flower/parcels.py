"""Carries the steps of encrypted sums: each to one site and back, through a folder of the server.

Nothing here looks inside. The one who asks hands in a parcel for a site; the run at the server sends it and
puts down what came back. A site that is not there is said to be absent at once: whoever asks decides when to
ask again. A request that nobody waits for any more is dropped, and no site is asked. What cannot be written
on a full disk is kept until there is room.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from onefold._base.records import Record, record
from onefold.exceptions import MessageError
from onefold.federated.access.signatures import QuerierName, SentSignature, SumSignature
from onefold.federated.flower.site_app import NO_QUERY
from onefold.federated.flower.spool import Mailbox, Reply
from onefold.federated.messages import CARRIED, Failure, FailureCode, Message, SumParcel

LOG = logging.getLogger(__name__)
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

    @property
    def id(self) -> str:
        """Id of the parcel."""
        return self.parcel.query_id


class ParcelSpool(Mailbox[ParcelRequest]):
    """The folder between the one who asks and the run at the server."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, ParcelRequest, "parcels", "parcels")

    def wait(self, parcel: SumParcel, seconds: float) -> SumParcel | Failure | str:
        """What came back for a parcel of ours, or why nothing did."""
        reply = self.reply_to(parcel.query_id, seconds)
        found = reply.messages[0] if reply.messages else reply.trouble or ABSENT
        if not isinstance(found, SumParcel | Failure | str):
            raise MessageError("the server's reply is none to a step of an encrypted sum")
        return found


# Nodes, messages, seconds, who asks and the signatures; gives Flower's number of each message.
Send = Callable[
    [dict[str, int], Sequence[Message], float, str, Sequence[SentSignature | None]], dict[str, str]
]


class Carrier:
    """The part of the run at the server that takes parcels to sites and brings back what they say."""

    def __init__(self, spool: ParcelSpool, send: Send) -> None:
        self.spool, self._send = spool, send
        self._open: dict[str, tuple[ParcelRequest, float]] = {}  # Flower's number -> request, deadline

    @property
    def waiting(self) -> list[str]:
        """Numbers of messages whose replies are awaited."""
        return list(self._open)

    def look(self, online: Mapping[str, int]) -> None:
        """Send what has been handed in, and give up what took too long."""
        for request in self.spool.take():
            site = request.parcel.site
            number = self._sent(request, online[site]) if site in online else ""
            if number:
                self._open[number] = (request, time.monotonic() + request.timeout)
            else:
                self._reply(request, UNSENT if site in online else ABSENT)
        for number, (request, deadline) in list(self._open.items()):
            if time.monotonic() > deadline:
                del self._open[number]
                self._reply(request, SLOW)

    def _reply(self, request: ParcelRequest, found: Message | str) -> None:
        said: tuple[Any, ...] = ((), found) if isinstance(found, str) else ((found,),)
        self.spool.outbox[request.id] = Reply((request.parcel.site,), *said)

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
        found: Message | str = ABSENT
        if messages is not None:
            site = request.parcel.site
            found = fitting(request.id, site, messages, lambda m: isinstance(m, SumParcel | Failure))
        self._reply(request, found)


def fitting(
    query_id: str, site: str, messages: Sequence[Message] | None, suits: Callable[[Any], bool]
) -> Message:
    """The one message of a site's reply that belongs to a request, or the failure that it amounts to."""
    for message in messages or ():
        if suits(message) and (message.query_id, message.site) == (query_id, site):  # type: ignore[attr-defined]
            return message
    # A failure without a query speaks for all of them.
    failed = [m.code for m in messages or () if isinstance(m, Failure) and m.query_id == NO_QUERY]
    return Failure(query_id, site, failed[0] if failed else FailureCode.INTERNAL)
