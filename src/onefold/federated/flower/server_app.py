"""The run at the server: one that lasts, instead of one per query.

It meets the sites that come and asks them once what they are: in model mode for their model, and for sums
those that send private moments or have agreed to send plain sums. It carries queries to the sites and their
numbers back, and does not combine answers; encrypted numbers it hands on to a process that adds them up
without reading them. Queries about private moments never come here: no site has to be asked.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flwr.app import Message as Envelope
from flwr.serverapp import Grid, ServerApp

from onefold.exceptions import FederationError, MessageError, OnefoldError
from onefold.federated.flower.evaluation import Evaluations
from onefold.federated.flower.folders import SERVER_VARIABLE, ServerFolder, log_to, write_private
from onefold.federated.flower.launch import NODE_UNAVAILABLE
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.sightings import Sightings
from onefold.federated.flower.site_app import (
    ANSWERS,
    FACTS,
    KEPT_OUT,
    MODEL,
    NO_QUERY,
    PROFILE,
    SEALED,
    SUMS,
    from_records,
    to_records,
)
from onefold.federated.flower.spool import Reply, Request, Spool
from onefold.federated.flower.sums import KeptSums, SiteSums
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import (
    LONGEST_TEXT,
    MOMENTS,
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
    to_parts,
)
from onefold.federated.queriers import AnySignature

__all__ = ["Coordinator", "Exchange", "Reception", "app", "batches"]

LOG = logging.getLogger(__name__)
PAUSE = 0.1
SIGN_OF_LIFE = 1.0
MOST_FAILURES = 50

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
        self.reception = Reception(folder, self.registry, self.send)
        self.evaluations = Evaluations(self.spool)
        self.sightings = self.reception.sightings
        self.open: list[Exchange] = []
        self._run = self.spool.current_run
        self._told = 0.0

    def run(self) -> None:
        """Go round until asked to stop; a passing failure of the network does not end the run."""
        failures = 0
        self.spool.sweep()
        while self._run is not None and self.spool.current_run == self._run:
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
        """Look once at everything there is to look at."""
        if time.monotonic() - self._told > SIGN_OF_LIFE:
            self.reception.look(self.grid.get_nodes())
            self.spool.report(self.reception.online)
            self.reception.note_online()
            self._told = time.monotonic()
        for batch in batches(self.spool.take()):
            self.open.append(self.ask(batch))
        self.fetch()
        self.ask_again()
        for exchange in [exchange for exchange in self.open if exchange.is_over]:
            if exchange.requests[0].lock is not None:
                self.evaluations.begin(exchange.requests, exchange.expected, exchange.replies)
            else:
                for query_id, reply in exchange.results().items():
                    self.spool.deliver(query_id, reply)
            self.open.remove(exchange)
        self.evaluations.look()

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
        except Exception as error:  # the other queries of this step must not be lost with it
            LOG.error("queries could not be sent error=%s", type(error).__name__)

    def send(
        self,
        kind: str,
        nodes: dict[str, int],
        messages: Sequence[Message],
        timeout: float,
        caller: str,
        signatures: Sequence[AnySignature | None] = (),
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
        waiting += self.reception.waiting
        if not waiting:
            return
        for envelope in self.grid.pull_messages(waiting):
            number = str(envelope.metadata.reply_to_message_id)
            gone = envelope.has_error() and envelope.error.code == NODE_UNAVAILABLE
            messages = _opened(envelope)
            self.reception.take(number, messages)
            for exchange in self.open:
                if number in exchange.waiting and gone:
                    exchange.lose(number)
                elif number in exchange.waiting:
                    self.sightings.count(exchange.waiting[number], messages, exchange.sizes)
                    exchange.take(number, messages)
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
    """Answers in clear without a query key, only encrypted ones with a query key; or a failure."""
    if isinstance(message, Answers):
        return request.lock is None and len(message.values) == len(request.query.features)
    return isinstance(message, Failure) or request.lock is not None


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
        self._asked: dict[str, tuple[int, str, float]] = {}  # Flower's number -> node, kind, until when
        self._profiles: dict[str, Profile] = {}  # sites whose model or sums are still awaited

    @property
    def online(self) -> dict[str, int]:
        """Sites that are there and known by name, with their nodes."""
        return {name: node for node, name in self._names.items() if node in self._nodes}

    @property
    def waiting(self) -> list[str]:
        """Numbers of messages whose replies are awaited."""
        return list(self._asked)

    def look(self, nodes: Iterable[Any]) -> None:
        """Take note of who is there now, and greet those who have come or come back."""
        before = set(self._nodes)
        self._nodes = {int(node.node_id): str(node.last_activated_at) for node in nodes}
        self._learn_names(before - set(self._nodes))
        now = time.monotonic()
        for number, (node, _, until) in list(self._asked.items()):
            if now > until:
                del self._asked[number]
                self._greeted.pop(node, None)
        for node, name in self._removed.items():
            if node in self._nodes and self._greeted.get(node) != self._nodes[node]:
                self._greeted[node] = self._nodes[node]
                self._ask(KEPT_OUT, node, Refusal(name, REMOVED_REASON))
        for node, since in self._nodes.items():
            known = self.settings.insecure or node in self._names
            if known and self._greeted.get(node) != since:
                self._greeted[node] = since
                self._ask(PROFILE, node)

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
        message = messages[0] if messages else None
        if kind == PROFILE and isinstance(message, Profile):
            self._meet(node, message)
        elif kind == MODEL and isinstance(message, ModelParcel):
            self._keep_model(node, message)
        elif kind == SUMS and isinstance(message, PlainSums | PrivateSums):
            self._keep_sums(node, message)
        elif kind == FACTS:  # sites of version 0.1 tell nothing
            if isinstance(message, SiteFacts) and node in self._names:
                self.sightings.keep(self._names[node], message)
        elif kind != KEPT_OUT and node in self._names:
            code = message.code.value if isinstance(message, Failure) else "no-profile"
            self.registry.refuse(self._names[node], code)
            self._tell_if_kept_out(node)

    def _learn_names(self, gone: set[int]) -> None:
        if self.settings.insecure:
            for node in gone:
                self._names.pop(node, None)
            return
        sites = [site for site in self.registry.sites.values() if site.node_id is not None]
        names = {site.node_id: site.name for site in sites if site.node_id is not None}
        removed = {site.name for site in sites if site.status is Status.REMOVED}
        for node in [node for node, name in names.items() if name in removed and node not in self._removed]:
            self._greeted.pop(node, None)  # it was greeted as a site that takes part
        self._removed = {node: name for node, name in names.items() if name in removed}
        self._names = {node: name for node, name in names.items() if name not in removed}

    def _ask(self, kind: str, node: int, *told: Message) -> None:
        for number in self._send(kind, {"": node}, told, PATIENCE, NOBODY):
            self._asked[number] = (node, kind, time.monotonic() + PATIENCE)

    def _meet(self, node: int, profile: Profile) -> None:
        known = self.registry.sites.get(profile.site)
        if self.settings.insecure and known is not None and known.status is not Status.REMOVED:
            self._names[node] = profile.site
        if self.settings.insecure and known is not None and known.status is Status.REMOVED:
            self._names.pop(node, None)
            self._ask(KEPT_OUT, node, Refusal(profile.site, REMOVED_REASON))
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
        self._ask(MODEL if self._sends_a_model(profile) else SUMS, node)

    def _sends_a_model(self, profile: Profile) -> bool:
        """Whether a model travels: private moments are sent in both modes, and are all there is."""
        return self.settings.mode == "model" and profile.measure != MOMENTS

    def _has_what_it_sends(self, name: str, profile: Profile) -> bool:
        """Whether nothing has to travel before the site takes part."""
        if self._sends_a_model(profile):
            return self._has_model(name, profile)
        return profile.sums is None or self.sums.holds(name, profile)

    def _has_model(self, name: str, profile: Profile) -> bool:
        path = self.folder.models / f"{name}.onefold"
        return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == profile.model_digest

    def _keep_model(self, node: int, parcel: ModelParcel) -> None:
        name = self._names.get(node, "")
        profile = self._profiles.pop(name, None)
        if profile is None or parcel.site != name:
            return
        path = self.folder.models / f"{name}.onefold"
        write_private(path, parcel.content)
        if not _is_the_model(path, profile):
            path.unlink()
            self.registry.refuse(name, "other-model")
        elif self.registry.admit(name, profile) is not Status.MEMBER:
            path.unlink()
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

    def _tell_if_kept_out(self, node: int) -> None:
        """Its operator would wait for queries that never come."""
        site = self.registry.sites[self._names[node]]
        if site.status is Status.REFUSED:
            self._ask(KEPT_OUT, node, Refusal(site.name, site.reason or "not-accepted"))


def _is_the_model(path: Path, profile: Profile) -> bool:
    """Whether a file holds the model that a profile speaks of, with the guarantee it speaks of."""
    try:
        found = replace(LocalModel.load_untrusted(path).profile(profile.site), columns=profile.columns)
        return to_parts(found) == to_parts(profile)
    except Exception:  # a site sends what it likes: nothing of it may end the run
        return False
