"""A network with the interface of Flower's grid that delays, reorders, doubles and loses; nodes go away."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Error
from flwr.app import Message as Envelope

from onefold.federated.flower.launch import NODE_UNAVAILABLE

from .clock import Clock

HEARTBEAT = 30.0  # after so many seconds Flower takes a node to be gone


@dataclass
class Node:
    """A site's connection, as Flower lists it."""

    node_id: int
    site: str
    last_activated_at: str
    online: bool = True
    gone_since: float = 0.0


@dataclass
class Flight:
    """A message on its way to a node, and its reply on the way back."""

    envelope: Any
    node: Node
    due: float
    replies: list[tuple[float, Any]] = field(default_factory=list)
    deliveries: int = 1


# How a site answers an envelope; None if it stopped and no reply left it.
Answer = Callable[[Node, Any], Any]


class Network:
    """Between the run at the server and the sites."""

    def __init__(
        self, source: random.Random, clock: Clock, answer: Answer, say: Callable[[str], None]
    ) -> None:
        self.random, self.clock, self.answer, self.say = source, clock, answer, say
        self.nodes: dict[int, Node] = {}
        self.flights: dict[str, Flight] = {}
        self.sent: list[Any] = []  # what can be sent again
        self.trouble = 0.0  # how likely each kind of trouble is
        self.on_push: Callable[[Node, Any], None] = lambda node, envelope: None
        self.on_pull: Callable[[Any], None] = lambda envelope: None
        self._numbers = 0
        self._activations = 0

    # --- nodes ----------------------------------------------------------------------------------------

    def connect(self, site: str, node_id: int | None = None) -> Node:
        """A site comes, with a new number or with one that it has already."""
        self._activations += 1
        for node in self.nodes.values():
            if node.site == site:
                self.disconnect(node)
        number = 100 + self._activations if node_id is None else node_id
        self.nodes[number] = Node(number, site, f"since {self._activations}")
        return self.nodes[number]

    def disconnect(self, node: Node) -> None:
        if node.online:
            node.online, node.gone_since = False, self.clock.now

    def node_of(self, site: str) -> Node | None:
        found = [node for node in self.nodes.values() if node.site == site and node.online]
        return found[-1] if found else None

    # --- Flower's grid --------------------------------------------------------------------------------

    def get_nodes(self) -> list[Node]:
        self._fail("the nodes")
        late = self.clock.now - HEARTBEAT
        return [node for node in self.nodes.values() if node.online or node.gone_since > late]

    def push_messages(self, envelopes: Iterable[Any]) -> list[str]:
        self._fail("messages to send")
        return [self._push(envelope) for envelope in envelopes]

    def pull_messages(self, numbers: Iterable[str]) -> list[Any]:
        self._fail("messages to fetch")
        found = []
        for number in numbers:
            flight = self.flights.get(number)
            if flight is None:
                continue
            ready = [reply for due, reply in flight.replies if due <= self.clock.now]
            gone = not flight.node.online and flight.node.gone_since <= self.clock.now - HEARTBEAT
            if ready:
                found.append(self.random.choice(ready))
            elif gone and not flight.replies:
                found.append(Envelope(Error(NODE_UNAVAILABLE, "node gone"), reply_to=flight.envelope))
            else:
                continue
            del self.flights[number]
            if self._happens():
                found.append(found[-1])
        self.random.shuffle(found)
        for envelope in found:
            self.on_pull(envelope)
        return found

    def _push(self, envelope: Any) -> str:
        node = self.nodes.get(envelope.metadata.dst_node_id)
        if node is None or (self.trouble and self.random.random() < 0.02):
            return ""  # as Flower says of what it does not take
        self._numbers += 1
        number = f"m{self._numbers}"
        envelope.metadata.__dict__["_message_id"] = number
        self.on_push(node, envelope)
        self.sent.append((node, envelope))
        flight = Flight(envelope, node, self.clock.now + self._delay())
        flight.deliveries += int(self._happens())
        if self._happens():
            self.say(f"lost {number}")
            flight.deliveries = 0
        self.flights[number] = flight
        return number

    # --- on the way -----------------------------------------------------------------------------------

    def carry(self) -> None:
        """Hand over what is due, in any order."""
        due = [f for f in self.flights.values() if f.deliveries and f.due <= self.clock.now]
        self.random.shuffle(due)
        for flight in due:
            if flight.node.online:
                flight.deliveries -= 1
                flight.due = self.clock.now + self._delay()
                reply = self.answer(flight.node, flight.envelope)
                if reply is None:  # whoever had the message is no more
                    flight.deliveries = 0
                elif self._happens():
                    self.say("lost a reply")
                else:
                    flight.replies.append((self.clock.now + self._delay(), reply))

    def _delay(self) -> float:
        return self.random.random() * (4.0 if self._happens() else 0.2)

    def _happens(self) -> bool:
        return self.random.random() < self.trouble

    def _fail(self, what: str) -> None:
        if self.trouble and self.random.random() < 0.02:
            raise ConnectionError(f"the SuperLink did not take {what}")
