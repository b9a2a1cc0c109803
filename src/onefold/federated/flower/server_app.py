"""The run at the server: one that lasts, instead of one per query.

It meets the sites that come and asks them once what they are: in model mode for their model, and for sums
those that send private moments or have agreed to send plain sums. It carries queries to the sites and their
numbers back, and does not combine answers; encrypted numbers it hands on to a process that adds them up
without reading them. Queries about private moments never come here: no site has to be asked.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import Message as Envelope
from flwr.serverapp import Grid, ServerApp
from prometheus_client import generate_latest

from onefold._base.files import has_room, is_disk_full, open_file, remove_file, write_whole
from onefold.exceptions import FederationError, MessageError, OnefoldError
from onefold.federated.access.signatures import SentSignature
from onefold.federated.flower.evaluation import Evaluations
from onefold.federated.flower.folders import SERVER_VARIABLE, ServerFolder, log_to
from onefold.federated.flower.launch import NODE_UNAVAILABLE
from onefold.federated.flower.numbers import OF_THE_RUN, Numbers
from onefold.federated.flower.parcels import Carrier, ParcelSpool, fitting
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.site_app import (
    ANSWERS,
    FACTS,
    KEPT_OUT,
    MODEL,
    PROFILE,
    SEALED,
    SUM_STEP,
    SUMS,
    from_records,
    to_records,
)
from onefold.federated.flower.spool import Reply, Request, Spool
from onefold.federated.flower.status import Sightings
from onefold.federated.flower.sums import KeptSums, SiteSums
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import (
    LONGEST_TEXT,
    Answers,
    Failure,
    FailureCode,
    Message,
    ModelParcel,
    PlainSums,
    PrivateSums,
    Profile,
    PublicScores,
    Refusal,
    SealedAnswers,
    SiteFacts,
    digest_of,
)

LOG = logging.getLogger(__name__)
PAUSE = 0.1
SIGN_OF_LIFE = 1.0
MOST_FAILURES = 50
SWEEP_SECONDS = 600.0

app = ServerApp()


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Any) -> None:
    """Serve until asked to stop."""
    folder = ServerFolder(Path(os.environ[SERVER_VARIABLE]))
    log_to(folder.run_log)
    Coordinator(grid, folder).run()


class Coordinator:
    """Carries messages between the spool and the sites."""

    def __init__(self, grid: Any, folder: ServerFolder) -> None:
        self.grid = grid
        self.spool = Spool(folder.spool)
        self.registry = Registry(folder)
        with suppress(OSError):  # on a full disk this is done later, by the first step that finds room
            self.registry.recover()
        self.reception = Reception(folder, self.registry, self.send)
        self.evaluations = Evaluations(self.spool)
        self.carrier = Carrier(ParcelSpool(folder.spool), lambda *what: self.send(SUM_STEP, *what))
        self.sightings = self.reception.sightings
        self.open: list[Exchange] = []
        self.metrics = Numbers(OF_THE_RUN)
        self._numbers = folder.run_numbers
        self.pulse = self.spool.pulse(folder.settings.queue)
        self._taken: list[Request] = []  # not sent yet
        self._arrived: deque[Any] = deque()  # Flower has handed these over, and has them no more
        self._run = self.spool.current_run
        self._told = 0.0
        self._swept: float | None = None
        self._said_full = False

    def run(self) -> None:
        """Go round until asked to stop; a passing failure of the network does not end the run."""
        failures = 0
        with self.pulse:
            while self._run is not None and self.spool.current_run == self._run:
                self.pulse.turn("going round")
                try:
                    self.step()
                    failures = 0
                except Exception as error:
                    failures += 1
                    LOG.error("step failed error=%s", type(error).__name__)
                    if failures > MOST_FAILURES:
                        raise
                time.sleep(PAUSE)

    def step(self) -> None:
        """Look once at everything there is to look at; on a full disk, wait until there is room."""
        try:
            self._go_round()
        except Exception as error:
            if not is_disk_full(error):
                raise
            self.pulse.is_full = True
        if self.pulse.is_full and not self._said_full:
            LOG.error("the disk is full: %s; waiting until there is room", self.spool.root)
            self._said_full = True

    def _go_round(self) -> None:
        now = time.monotonic()
        if self._swept is None or now - self._swept > SWEEP_SECONDS:
            self._sweep()
            self._swept = now
        if now - self._told > SIGN_OF_LIFE:
            self._look()
            self._told = now
        if self._may_send() and not self.pulse.is_full:  # a full disk: what is taken could not be answered
            self._taken += self.spool.take()
            self.metrics.tell("onefold_queries_total", self.spool.expired, outcome="expired")
            self.spool.expired = 0
        if not self.pulse.is_full:
            self.carrier.look(self.reception.online)
        self.pulse.at("sending queries")
        for batch in batches(self._taken):
            self.open.append(self.ask(batch))
            sent = {request.query.id for request in batch}
            self._taken = [request for request in self._taken if request.query.id not in sent]
        self.pulse.at("fetching answers")
        self.fetch()
        self.ask_again()
        self.pulse.at("handing answers over")
        for exchange in [exchange for exchange in self.open if exchange.is_over]:
            if exchange.requests[0].lock is not None:
                self.evaluations.keep(exchange.replies)
                self.evaluations.begin(exchange.requests, exchange.expected, exchange.replies)
            else:
                self.spool.outbox |= exchange.results()
            self.open.remove(exchange)
            self._count(exchange)
        self.spool.hand_over()
        self.carrier.spool.hand_over()
        self.evaluations.look()

    def _may_send(self) -> bool:
        """Whether requests go out now: a site answers one message at a time, so those that come meanwhile
        wait a moment and travel together.
        """
        return all(time.monotonic() - exchange.started > GATHER_SECONDS for exchange in self.open)

    def _look(self) -> None:
        """See who is there, and whether there is room on the disk again."""
        if self.pulse.is_full and has_room(self.spool.root):
            self.pulse.is_full = self._said_full = False
            LOG.warning("there is room on the disk again: going on")
        self.pulse.at("looking for sites")
        self.reception.look(self.grid.get_nodes(), greets=not self.pulse.is_full)
        self.pulse.seen(self.reception.online)
        self.pulse.beat()
        with suppress(OSError):  # nothing depends on them
            part = self._numbers.with_suffix(".part")
            with open_file(part, "wb") as file:
                file.write(generate_latest(self.metrics))
            part.replace(self._numbers)
        if not self.pulse.is_full:
            self.registry.finish_removals()
            self.reception.note_online()

    def _count(self, exchange: Exchange) -> None:
        """Count queries that have come to an end."""
        self.pulse.ended(len(exchange.requests))
        took = time.monotonic() - exchange.started
        for request in exchange.requests:
            found = exchange.answered[request.query.id]
            whole = "answered" if found == len(exchange.expected) else "partial"
            self.metrics.tell("onefold_queries_total", outcome=whole if found else "unanswered")
            self.metrics.tell("onefold_query_rows_total", len(request.query.features))
            self.metrics.tell("onefold_query_seconds", took)

    def _count_reply(self, site: str, messages: Sequence[Message]) -> None:
        """Count what a site replied to queries."""
        for message in messages:
            outcome = message.code.value if isinstance(message, Failure) else "answered"
            self.metrics.tell("onefold_answers_total", site=site, outcome=outcome)
            size = message.values.nbytes if isinstance(message, Answers) else 0
            size = len(message.content) if isinstance(message, SealedAnswers) else size
            self.metrics.tell("onefold_bytes_total", size, direction="received")

    def _sweep(self) -> None:
        """Drop what nobody will fetch; the first time also what an earlier run did not bring to an end."""
        if self._swept is None:
            self.spool.give_up(self.evaluations.queries)
            self.registry.recover()
        requests = [*self._taken, *(request for exchange in self.open for request in exchange.requests)]
        mine = {request.query.id for request in requests}
        self.spool.sweep(mine | set(self.spool.outbox) | self.evaluations.queries)
        self.carrier.spool.sweep()

    def ask(self, requests: Sequence[Request]) -> Exchange:
        """Send queries to every connected site that takes part."""
        members = self.registry.members
        expected = tuple(members)
        present = {site: node for site, node in self.reception.online.items() if site in expected}
        exchange = Exchange(requests, expected, {}, time.monotonic() + requests[0].timeout)
        try:
            exchange.scores = self.reception.sums.scores(members)
        except OnefoldError as error:  # a damaged file: without all sums no answer is the right one
            LOG.error("no scores: %s", error)
            exchange.fail(FailureCode.NOT_READY)
            return exchange
        self._send_question(exchange, present, requests[0].timeout)
        return exchange

    def ask_again(self) -> None:
        """Send queries once more to sites that went away with them and have come back."""
        for exchange in self.open:
            back = {s: node for s, node in self.reception.online.items() if s in exchange.absent}
            left = exchange.deadline - time.monotonic()
            if not back or left <= 0:
                continue
            for site in back:
                del exchange.absent[site]
            self._send_question(exchange, back, left)

    def _send_question(self, exchange: Exchange, nodes: dict[str, int], timeout: float) -> None:
        """Send the queries of an exchange; if Flower does not take them, these sites will not answer."""
        queries: list[Message] = [request.query for request in exchange.requests]
        first = exchange.requests[0]
        kind = ANSWERS if first.lock is None else SEALED
        messages = queries if exchange.scores is None else [exchange.scores, *queries]
        messages = messages if first.lock is None else [first.lock, *messages]
        try:
            signatures = [request.signature for request in exchange.requests]
            exchange.waiting |= self.send(kind, nodes, messages, timeout, first.caller, signatures)
            size = sum(request.query.features.nbytes for request in exchange.requests)
            self.metrics.tell("onefold_bytes_total", size * len(nodes), direction="sent")
        except Exception as error:  # the other queries of this step must not be lost with it
            LOG.error("queries could not be sent error=%s", type(error).__name__)

    def send(
        self,
        kind: str,
        nodes: dict[str, int],
        messages: Sequence[Message],
        timeout: float,
        caller: str,
        signatures: Sequence[SentSignature | None] = (),
    ) -> dict[str, str]:
        """Send the same to some nodes; Flower's number of each message, with the site it went to."""
        envelopes = [
            Envelope(
                to_records(messages, caller, signatures), dst_node_id=node, message_type=kind, ttl=timeout
            )
            for node in nodes.values()
        ]
        numbers = list(self.grid.push_messages(envelopes)) if envelopes else []
        pairs = zip(numbers, nodes, strict=False)  # fewer numbers than nodes: the push was refused
        return {str(number): site for number, site in pairs if number}

    def fetch(self) -> None:
        """Take in what has come back."""
        waiting = [number for exchange in self.open for number in exchange.waiting]
        waiting += self.reception.waiting + self.carrier.waiting
        if waiting:
            self._arrived += self.grid.pull_messages(waiting)
        while self._arrived:
            envelope = self._arrived.popleft()
            number = str(envelope.metadata.reply_to_message_id)
            gone = envelope.has_error() and envelope.error.code == NODE_UNAVAILABLE
            messages = _opened(envelope)
            try:
                self.reception.take(number, messages)
                self.carrier.take(number, None if gone else messages or [])
            except Exception as error:  # what else has come must not be lost with it
                LOG.error("a reply was not taken error=%s", type(error).__name__)
            for exchange in self.open:
                if number in exchange.waiting and gone:
                    exchange.lose(number)
                elif number in exchange.waiting:
                    site = exchange.waiting[number]
                    self.sightings.count(site, messages, exchange.sizes)
                    self._count_reply(site, exchange.take(number, messages))
                    self.evaluations.keep(exchange.replies)


def _opened(envelope: Any) -> list[Message] | None:
    """What is in an envelope of Flower; None if it is an error or nothing of a federation."""
    if envelope.has_error():
        LOG.warning("a reply is an error of Flower code=%d", envelope.error.code)
        return None
    try:
        return from_records(envelope.content)
    except MessageError:
        LOG.warning("a reply could not be read")
        return None


# --- one message to some sites ------------------------------------------------------------------------------


# Queries of one querier that wait together go out together, up to this size in all.
MOST_BYTES = 64 * 2**20
MOST_QUERIES = 64
# Requests wait for the answers to those before them, but no longer than this: a site may be slow, or gone.
GATHER_SECONDS = 2.0
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
    started: float = field(default_factory=lambda: time.monotonic())  # looked up late: clocks are replaced
    answered: Counter[str] = field(default_factory=Counter)  # how many sites have answered each query
    scores: PublicScores | None = None  # what sites add to their answers: the same for all, also later

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be waited for."""
        now = time.monotonic()
        hoped_for = [site for site, until in self.absent.items() if now < until]
        return now > self.deadline or not (self.waiting or hoped_for)

    @property
    def sizes(self) -> dict[str, int]:
        """Number of rows of each query."""
        return {request.query.id: len(request.query.features) for request in self.requests}

    def fail(self, code: FailureCode) -> None:
        """Note that no site can be asked."""
        for request in self.requests:
            query = request.query.id
            self.replies[query] = [Failure(query, site, code) for site in self.expected]

    def lose(self, message_id: str) -> None:
        """Note that a site went away with our message; it may come back and be asked again."""
        self.absent[self.waiting.pop(message_id)] = time.monotonic() + RETURN_SECONDS

    def take(self, message_id: str, messages: Sequence[Message] | None) -> list[Message]:
        """Note what a site replied, and return it; None if its reply was none of a federation."""
        site = self.waiting.pop(message_id)
        found = [
            fitting(request.id, site, messages, partial(_is_what_was_asked, request))
            for request in self.requests
        ]
        for request, message in zip(self.requests, found, strict=True):
            self.replies.setdefault(request.query.id, []).append(message)
            self.answered[request.query.id] += not isinstance(message, Failure)
        return found

    def results(self) -> Mapping[str, Reply]:
        """The reply to each request: what came, from whoever answered in time."""
        return {
            request.query.id: Reply(self.expected, tuple(self.replies.get(request.query.id, ())))
            for request in self.requests
        }


def _is_what_was_asked(request: Request, message: Message) -> bool:
    """Answers in clear without a query key, only encrypted ones with a query key; or a failure."""
    if isinstance(message, Answers):
        return request.lock is None and len(message.values) == len(request.query.features)
    return isinstance(message, Failure) or (isinstance(message, SealedAnswers) and request.lock is not None)


def batches(requests: Sequence[Request]) -> list[list[Request]]:
    """Requests that can travel together: of one querier and one patience, and not too large.

    Encrypted answers are large: such a request goes alone.
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


# --- meeting the sites --------------------------------------------------------------------------------------


# A site has this long to say what it is, and is asked again when it has not.
PATIENCE = 120.0
NOBODY = "server"
REMOVED_REASON = "removed: the server's operator has taken this site out of the federation"

Send = Callable[[str, dict[str, int], Sequence[Message], float, str], dict[str, str]]


class Reception:
    """Knows which site is behind which node, and asks newcomers for their profile and model.

    With node keys, Flower has checked the site's signature and the registry knows its number. In a plaintext
    federation a site is who it says it is.
    """

    def __init__(self, folder: ServerFolder, registry: Registry, send: Send) -> None:
        self.folder = folder
        self.registry = registry
        self.settings = folder.settings
        self.sums = KeptSums(folder)
        self.sightings = Sightings(folder)
        self._send = send
        self._removed: dict[int, str] = {}  # nodes of sites that were removed: they are told, and not asked
        self._nodes: dict[int, str] = {}  # nodes that are there -> since when, as Flower says
        self._greeted: dict[int, str] = {}  # nodes that were asked, and since when they were there then
        self._names: dict[int, str] = {}  # node -> site
        self._said: dict[int, str] = {}  # in a plaintext federation: node -> what it calls itself
        self._asked: dict[str, tuple[int, str, float]] = {}  # Flower's number -> node, kind, until when
        self._later: dict[int, float] = {}  # nodes that did not say what was asked, and when to ask again
        self._modelless: set[int] = set()  # nodes of sites for encrypted sums only
        self._profiles: dict[str, Profile] = {}  # sites whose model or sums are still awaited

    @property
    def online(self) -> dict[str, int]:
        """Sites that are there and known by name, with their nodes."""
        return {name: node for node, name in self._names.items() if node in self._nodes}

    @property
    def waiting(self) -> list[str]:
        """Numbers of messages whose replies are awaited."""
        return list(self._asked)

    def look(self, nodes: Iterable[Any], greets: bool = True) -> None:
        """Take note of who is there now, and greet those who have come or come back."""
        before = set(self._nodes)
        self._nodes = {int(node.node_id): str(node.last_activated_at) for node in nodes}
        self._learn_names(before - set(self._nodes))
        now = time.monotonic()
        for number, (node, _, until) in list(self._asked.items()):
            if now > until:
                del self._asked[number]
                self._greeted.pop(node, None)
        for node in [node for node, then in self._later.items() if now > then]:
            del self._later[node]
            self._greeted.pop(node, None)
        if not greets:
            return
        for node, name in self._removed.items():
            if node in self._nodes and self._greeted.get(node) != self._nodes[node]:
                self._greet(KEPT_OUT, node, Refusal(name, REMOVED_REASON))
        for node, since in self._nodes.items():
            known = self.settings.insecure and node not in self._removed
            if (known or node in self._names) and self._greeted.get(node) != since:
                self._greet(PROFILE, node)

    def note_online(self) -> None:
        """Note who is there, and ask sites now and then for what they tell about themselves."""
        self.sightings.see(self.online)
        for name in self.sightings.to_ask():
            self._ask(FACTS, self.online[name])

    def take(self, number: str, messages: Sequence[Message] | None) -> None:
        """A reply to a question of ours, perhaps."""
        if number not in self._asked:
            return
        node, kind, _ = self._asked.pop(number)
        try:
            self._receive(node, kind, messages[0] if messages else None)
        except Exception:  # as on a full disk: it is asked again
            self._greeted.pop(node, None)
            raise

    def _receive(self, node: int, kind: str, message: Message | None) -> None:
        if kind == PROFILE and isinstance(message, Profile):
            self._meet(node, message)
        elif kind == MODEL and isinstance(message, ModelParcel):
            self._keep_model(node, message)
        elif kind == SUMS and isinstance(message, PlainSums | PrivateSums):
            self._keep_sums(node, message)
        elif isinstance(message, Failure) and message.code is FailureCode.NO_MODEL:
            self._meet_without_model(node, message.site)
        elif kind == FACTS:
            if isinstance(message, SiteFacts) and node in self._names:
                self.sightings.keep(self._names[node], message)
        elif isinstance(message, Failure) and message.code is FailureCode.PAUSED:
            self._later[node] = time.monotonic() + PATIENCE  # no objection to the site, whoever it is
        elif kind != KEPT_OUT and node in self._names:
            code = message.code.value if isinstance(message, Failure) else "no-profile"
            self.registry.refuse(self._names[node], code)
            self._tell_if_kept_out(node)
            if self._is_member(node):  # it stays one, with what it had, and is asked again for what it has
                self._later[node] = time.monotonic() + PATIENCE

    def _learn_names(self, gone: set[int]) -> None:
        if self.settings.insecure:
            self._follow_said(gone)
            return
        sites = [site for site in self.registry.sites.values() if site.node_id is not None]
        names = {site.node_id: site.name for site in sites if site.node_id is not None}
        removed = {site.name for site in sites if site.status is Status.REMOVED}
        for node in [node for node, name in names.items() if name in removed and node not in self._removed]:
            self._greeted.pop(node, None)  # it was greeted as a site that takes part
        self._removed = {node: name for node, name in names.items() if name in removed}
        self._names = {node: name for node, name in names.items() if name not in removed}

    def _follow_said(self, gone: set[int]) -> None:
        """In a plaintext federation: who was invited or removed since it said who it is, is greeted anew."""
        for node in gone:
            self._names.pop(node, None)
            self._said.pop(node, None)
        sites = self.registry.sites
        asked = {node for node, kind, _ in self._asked.values() if kind in (PROFILE, MODEL, SUMS)}
        known = {node: sites[name] for node, name in self._said.items() if name in sites}
        removed = {node: site.name for node, site in known.items() if site.status is Status.REMOVED}
        invited = {node for node, site in known.items() if site.status is Status.INVITED} - asked
        self._modelless -= gone | removed.keys()
        invited -= self._modelless | self._later.keys()  # they were greeted, and stay invited
        for node in invited | (removed.keys() - self._removed.keys()):
            self._greeted.pop(node, None)
        for node in removed:
            self._names.pop(node, None)
        self._removed = removed

    def _greet(self, kind: str, node: int, *told: Message) -> None:
        """Ask a node that has come; at the next look again, unless Flower has taken the message."""
        if self._ask(kind, node, *told):
            self._greeted[node] = self._nodes[node]

    def _ask(self, kind: str, node: int, *told: Message) -> bool:
        """Send, and say whether Flower has taken the message."""
        numbers = list(self._send(kind, {"": node}, told, PATIENCE, NOBODY))
        self._asked |= {number: (node, kind, time.monotonic() + PATIENCE) for number in numbers}
        return bool(numbers)

    def _meet(self, node: int, profile: Profile) -> None:
        if self.settings.insecure:
            self._name(node, profile.site)
        name = self._names.get(node)
        if name is None:
            return
        # A site that does not fit is not asked for anything of its rows.
        if self._has_what_it_sends(name, profile) or self.registry.objection(name, profile) is not None:
            if self.registry.admit(name, profile) is not Status.MEMBER or profile.sums is None:
                self.sums.drop(name)
            self._tell_if_kept_out(node)
            return
        self._profiles[name] = profile
        if not self._ask(MODEL if self._sends_a_model(profile) else SUMS, node):
            self._greeted.pop(node, None)

    def _name(self, node: int, name: str) -> None:
        """Take a site's word for who it is."""
        known = self.registry.sites.get(name)
        self._said[node] = name
        self._names.pop(node, None)
        if known is not None and known.status is Status.REMOVED:
            self._removed[node] = name
            self._ask(KEPT_OUT, node, Refusal(name, REMOVED_REASON))
        elif known is not None:
            self._names[node] = name

    def _meet_without_model(self, node: int, name: str) -> None:
        """A site for encrypted sums only: it is there, and no query goes to it."""
        if self.settings.insecure:
            self._name(node, name)
        if node in self._names:
            self._modelless.add(node)

    def _sends_a_model(self, profile: Profile) -> bool:
        """Whether a model travels: sums that are all there is are sent in both modes."""
        return self.settings.mode == "model" and not profile.sends_only_sums

    def _has_what_it_sends(self, name: str, profile: Profile) -> bool:
        """Whether nothing has to travel before the site takes part."""
        if self._sends_a_model(profile):
            return self._has_model(name, profile)
        return profile.sums is None or self.sums.holds(name, profile)

    def _has_model(self, name: str, profile: Profile) -> bool:
        path = self.folder.models / f"{name}.onefold"
        return path.exists() and digest_of(path.read_bytes()) == profile.model_digest

    def _keep_model(self, node: int, parcel: ModelParcel) -> None:
        name = self._names.get(node, "")
        profile = self._profiles.pop(name, None)
        if profile is None or parcel.site != name:
            return
        path = self.folder.models / f"{name}.onefold"
        write_whole(path, parcel.content)
        if not _is_the_model(path, profile):
            remove_file(path)
            self.registry.refuse(name, "other-model")
        elif self.registry.admit(name, profile) is not Status.MEMBER:
            remove_file(path)
        self._tell_if_kept_out(node)

    def _keep_sums(self, node: int, sums: SiteSums) -> None:
        name = self._names.get(node, "")
        profile = self._profiles.pop(name, None)
        if profile is None:
            return
        objection = None
        try:
            self.sums.keep(name, sums, profile, self.registry.members)
        except FederationError:
            objection = "not-ready: the server cannot read the sums of another site"
        except OnefoldError as error:
            objection = f"sums-refused: {error}"[:LONGEST_TEXT]
        if self.registry.admit(name, profile, objection) is not Status.MEMBER:
            self.sums.drop(name)
        self._tell_if_kept_out(node)

    def _is_member(self, node: int) -> bool:
        site = self.registry.sites.get(self._names.get(node, ""))
        return site is not None and site.status is Status.MEMBER

    def _tell_if_kept_out(self, node: int) -> None:
        """Its operator would wait for queries that never come."""
        site = self.registry.sites[self._names[node]]
        if site.status is Status.REFUSED:
            self._ask(KEPT_OUT, node, Refusal(site.name, site.reason or "not-accepted"))


def _is_the_model(path: Path, profile: Profile) -> bool:
    """Whether a file holds the model that a profile speaks of, with the guarantee it speaks of."""
    try:
        found = replace(LocalModel.load_untrusted(path).profile(profile.site), columns=profile.columns)
        return found.to_bytes() == profile.to_bytes()
    except Exception:  # a site sends what it likes: nothing of it may end the run
        return False
