"""One message to some sites and what has come back of it so far."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onefold.federated.flower.site import NO_QUERY
from onefold.federated.flower.spool import Reply, Request
from onefold.federated.messages import Answers, Failure, FailureCode, Message, SealedAnswers

__all__ = ["Exchange", "batches"]

# Queries of one caller that wait together go out together, up to this size in all.
MOST_BYTES = 64 * 2**20
MOST_QUERIES = 64
# A site whose connection broke while it was asked may come back within this time.
RETURN_SECONDS = 20.0


@dataclass
class Exchange:
    """Requests that went out together, who is expected to answer, and who has."""

    requests: Sequence[Request]
    expected: tuple[str, ...]
    waiting: dict[str, str]  # Flower's number of a message -> the site it went to
    deadline: float
    replies: dict[str, list[Message]] = field(default_factory=dict)
    absent: dict[str, float] = field(default_factory=dict)  # site that went away -> until when to wait for it

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be waited for."""
        now = time.monotonic()
        hoped_for = [site for site, until in self.absent.items() if now < until]
        return now > self.deadline or not (self.waiting or hoped_for)

    def lose(self, message_id: str) -> None:
        """Note that a site went away with our message; it may come back and be asked again."""
        self.absent[self.waiting.pop(message_id)] = time.monotonic() + RETURN_SECONDS

    def take(self, message_id: str, messages: Sequence[Message] | None) -> None:
        """Note what a site replied; None if its reply was none of a federation."""
        site = self.waiting.pop(message_id)
        for request in self.requests:
            self.replies.setdefault(request.query.id, []).append(_fitting(request, site, messages))

    def results(self) -> Mapping[str, Reply]:
        """The reply to each request: what came, from whoever answered in time."""
        return {
            request.query.id: Reply(self.expected, tuple(self.replies.get(request.query.id, ())))
            for request in self.requests
        }


def _fitting(request: Request, site: str, messages: Sequence[Message] | None) -> Message:
    """The one message of a site's reply that belongs to a request, or the failure it amounts to."""
    for message in messages or ():
        if not isinstance(message, Answers | SealedAnswers | Failure) or message.site != site:
            continue
        if message.query_id == request.query.id and _is_what_was_asked(request, message):
            return message
    # A failure without a query speaks for all of them.
    for message in messages or ():
        if isinstance(message, Failure) and message.query_id == NO_QUERY:
            return Failure(request.query.id, site, message.code)
    return Failure(request.query.id, site, FailureCode.INTERNAL)


def _is_what_was_asked(request: Request, message: Message) -> bool:
    """Answers in clear where none were sealed, and only sealed ones where there is a lock; or a failure."""
    if isinstance(message, Answers):
        return request.lock is None and len(message.values) == len(request.query.features)
    return isinstance(message, Failure) or request.lock is not None


def batches(requests: Sequence[Request]) -> list[list[Request]]:
    """Requests that can travel together: of one caller and one patience, and not too large.

    Sealed answers are large: such a request goes alone.
    """
    found: list[list[Request]] = []
    sizes: list[int] = []
    for request in requests:
        size = int(request.query.features.nbytes)
        for number, batch in enumerate(found):
            alike = (batch[0].caller, batch[0].timeout) == (request.caller, request.timeout)
            alike = alike and batch[0].lock is None and request.lock is None
            if alike and len(batch) < MOST_QUERIES and sizes[number] + size <= MOST_BYTES:
                batch.append(request)
                sizes[number] += size
                break
        else:
            found.append([request])
            sizes.append(size)
    return found
