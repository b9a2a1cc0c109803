"""What must be true of a federation, whatever happened: the fold of what was acknowledged, and what has left.

It is told what operators asked for, how it ended, and every reply that leaves a site. An operation that was
stopped may have happened or not; nothing else may differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onefold.federated.access.log import MembershipLog, SiteEvent, SiteLog
from onefold.federated.flower.admission import approvals_of, exported_log
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.site_app import ANSWERS, MODEL, SUMS, caller_of, from_records, signatures_of
from onefold.federated.messages import Answers, ModelParcel, PlainSums, PrivateSums, PublicScores, Query
from onefold.privacy import Ledger

from . import fitted
from .clock import Clock
from .disk import Machine
from .fitted import Fitted

ANYBODY = "all-callers"


@dataclass
class Grant:
    """What a data owner may have allowed: rows that may still leave, and until when."""

    rows: float = 0.0
    until: float = 0.0


@dataclass
class Site:
    """What is known about a site without looking at its disk."""

    name: str
    folder: SiteFolder
    machine: Machine
    public_key: str
    invited: set[bool] = field(default_factory=lambda: {False})  # both if an operation was stopped
    has: list[Fitted | None] = field(default_factory=lambda: [None])  # several if a fit was stopped
    ever: dict[str, Fitted] = field(default_factory=dict)  # everything that it may ever have had
    down_until: float | None = None
    attempted: int = 0  # rows that it was asked for
    left: Counter[str] = field(default_factory=Counter)  # rows that left, by account
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)  # signed queries: key, id
    logged: set[str] = field(default_factory=set)  # queries whose answers left
    grants: dict[tuple[str, str | None], Grant] = field(default_factory=dict)
    denied: set[tuple[str, str | None]] = field(default_factory=set)
    releases: int = 0  # that spent from the ledger
    head: tuple[int, str] | None = None


class Oracle:
    """The state that a federation should have."""

    def __init__(
        self, kind: str, server: ServerFolder, machine: Machine, sites: dict[str, Site], clock: Clock
    ) -> None:
        self.kind, self.server, self.machine, self.sites, self.clock = kind, server, machine, sites, clock
        self.scores: dict[str, bytes] = {}  # by query
        self.asked: dict[str, set[str]] = {}  # by query: who was sent it
        self.received: dict[tuple[str, str], Answers] = {}  # query, site: what came to the server first
        self.head: tuple[int, str] | None = None
        self.members: dict[str, Fitted] = {}
        self._stamp: Any = None
        self._known: dict[Path, tuple[Any, Any]] = {}

    # --- the server -----------------------------------------------------------------------------------

    def look_at_server(self) -> dict[str, Fitted]:
        """Members now, after checking the list of sites and its log."""
        stamp = _stamp(self.server.store.path)
        if stamp == self._stamp:
            return self.members
        registry = Registry(self.server)
        sites = registry.sites
        registry.log.verify(self.head)
        if self.machine.killed_at is None:
            self.head = _head(registry.log)
        members = {name for name, entry in sites.items() if entry.status is Status.MEMBER}
        noted = set(registry.log.members())
        assert members == noted, f"members are {sorted(members)}, in the log {sorted(noted)}"
        for name, site in self.sites.items():
            inside = name in sites and sites[name].status is not Status.REMOVED
            assert inside in site.invited, f"{name}: in the list is {inside}, acknowledged was {site.invited}"
        self.members = {}
        for name in sorted(members):
            profile = sites[name].profile
            assert profile is not None, f"{name} is a member without a profile"
            known = self.sites[name].ever
            assert profile.model_digest in known, f"{name} takes part with a model it never had"
            self.members[name] = known[profile.model_digest]
        self._stamp = stamp
        return self.members

    def leftovers(self) -> None:
        """Nothing of a site that was removed is at the server."""
        for name, entry in Registry(self.server).sites.items():
            if entry.status is Status.REMOVED:
                for path in (self.server.models / f"{name}.onefold", self.server.sums_of(name)):
                    assert not path.exists(), f"{path.name} of a site that was removed is still there"

    def pushed(self, name: str, envelope: Any) -> None:
        """A message goes to a site."""
        if envelope.metadata.message_type != ANSWERS:
            return
        messages = from_records(envelope.content)
        scores = messages[0].content if isinstance(messages[0], PublicScores) else None
        members = self.look_at_server()
        for query in (message for message in messages if isinstance(message, Query)):
            again = query.id in self.scores
            assert self.sites[name].invited != {False}, f"{name} was removed and is asked {query.id}"
            if not again:
                self.scores[query.id] = scores or b""
                self.asked[query.id] = set()
            assert again or name in members, f"{name} is asked {query.id} and is no member"
            self.asked[query.id].add(name)
            if self.kind == "sums" and not again:
                assert scores == fitted.offset(members).to_bytes(), f"scores of {query.id}"
            assert (scores or b"") == self.scores[query.id], f"different scores for {query.id}"

    def pulled(self, envelope: Any) -> None:
        """A message arrives at the server."""
        if envelope.has_error() or envelope.metadata.message_type != ANSWERS:
            return
        for message in from_records(envelope.content):
            if isinstance(message, Answers):
                self.received.setdefault((message.query_id, message.site), message)

    # --- a reply leaves a site ------------------------------------------------------------------------

    def left(self, site: Site, envelope: Any, reply: Any) -> None:
        kind = envelope.metadata.message_type
        replies = [] if reply.has_error() else from_records(reply.content)
        if kind == ANSWERS:
            self._answers_left(site, envelope, replies)
        for message in replies:
            content = message.content if isinstance(message, ModelParcel | PlainSums | PrivateSums) else None
            if kind in (MODEL, SUMS) and content is not None:
                assert any(each is not None for each in site.has), f"{site.name} has nothing to send"
                if self.kind == "sums":
                    digests = [fitted.sums_of(each) for each in site.has if each is not None]
                    assert content in digests, f"{site.name} sent sums that it never made"

    def _answers_left(self, site: Site, envelope: Any, replies: list[Any]) -> None:
        messages = from_records(envelope.content)
        queries = {message.id: message for message in messages if isinstance(message, Query)}
        scores = messages[0] if isinstance(messages[0], PublicScores) else None
        signatures, caller = signatures_of(envelope.content), caller_of(envelope.content)
        site.attempted += sum(len(query.features) for query in queries.values())
        for message in replies:
            if not isinstance(message, Answers):
                continue
            query, signature = queries[message.query_id], signatures.get(message.query_id)
            rows = len(query.features)
            offset = None if scores is None else fitted.opened(scores.content)
            able = [each for each in site.has if each is not None and each.model is not None]
            right = [fitted.answers(site.name, each, query.features, offset).values for each in able]
            assert any(np.array_equal(message.values, values) for values in right), (
                f"{site.name} answered {query.id} otherwise than its model does"
            )
            self._may_leave(site, signature, rows, query.id)
            site.left[ANYBODY] += rows
            site.left[caller if signature is None else f"key.{signature.key.id}"] += rows
            site.logged.add(query.id)

    def _may_leave(self, site: Site, signature: Any, rows: int, query: str) -> None:
        mode = site.folder.settings.approval
        if signature is None:
            assert mode == "anyone", f"{site.name} answered {query}, which nobody signed"
            return
        once = (signature.public, query)
        site.answered[once] += 1
        assert site.answered[once] == 1, f"{site.name} answered {query} twice"
        whole, part = (signature.public, None), (signature.public, signature.purpose)
        assert not site.denied & {whole, part}, f"{site.name} answered {query} of a querier that was denied"
        if mode == "anyone":
            return
        grant = site.grants.get(part if mode == "purposes" else whole, Grant())
        grant.rows -= rows
        assert grant.rows >= 0, f"{site.name} answered {query} beyond what was approved"
        assert self.clock.time() <= grant.until + 1, f"{site.name} answered {query} after the approval ended"

    # --- a site's disk --------------------------------------------------------------------------------

    def look_at_site(self, site: Site) -> None:
        """Everything opens; what left is counted, and no more was counted than allowed or asked for."""
        folder, settings = site.folder, site.folder.settings
        totals, callers, noted, approvals = self._read(folder.store.path, lambda path: _kept(site))
        counted = totals.get(ANYBODY, 0)
        assert site.left[ANYBODY] <= counted <= min(settings.total, site.attempted), (
            f"{site.name}: {site.left[ANYBODY]} row(s) left of {site.attempted} asked, {counted} counted, "
            f"limit {settings.total}"
        )
        for account, rows in site.left.items():
            if account != ANYBODY:
                assert rows <= callers.get(account, 0) <= settings.caller_total, f"{site.name}: {account}"
        assert site.logged <= noted, f"{site.name}: answers left that are not in its log"
        for entry in approvals:
            assert entry.allowed is None or entry.answered <= entry.allowed, f"{site.name}: too many approved"
        ledger = self._read(folder.ledger, Ledger.load)
        spent = ledger.total()[0]
        assert len(ledger.events) >= site.releases, f"{site.name}: releases that the ledger does not have"
        assert ledger.limit_epsilon is not None
        assert spent <= ledger.limit_epsilon, f"{site.name}: more spent than the limit"

    def _read(self, path: Path, read: Callable[[Path], Any]) -> Any:
        """What is in a file, read again when the file is another one."""
        stamp = _stamp(path)
        if path not in self._known or self._known[path][0] != stamp:
            self._known[path] = (stamp, read(path))
        return self._known[path][1]

    def look_closely(self, site: Site) -> None:
        """The slow checks of a site: signatures in its log, and what it remembers of signed queries."""
        self._known.clear()
        self.look_at_site(site)
        exported_log(site.folder, site.head)
        with site.folder.store.reading() as db:
            (known,) = db.execute("SELECT count(*) FROM replays").fetchone()
        assert known <= sum(site.answered.values()) + site.attempted

    def no_parts(self, machine: Machine) -> None:
        """No half-written file is left."""
        found = [path.name for path in machine.root.rglob("*.part") if path.parent != machine.root]
        assert not [name for name in found if name != "alive.part"], f"left at {machine.name}: {found}"


def _stamp(path: Path) -> Any:
    found = path.stat() if path.exists() else None
    return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def _head(log: MembershipLog) -> tuple[int, str] | None:
    """What an auditor notes, without changing anything."""
    entries = list(log)
    return (len(entries), entries[-1].sum) if entries else None


def _kept(site: Site) -> tuple[dict[str, int], dict[str, int], set[str], tuple[Any, ...]]:
    """Rows counted for everybody and by account, queries that the log has as answered, and approvals.

    The log begins as it did when it was last looked at.
    """
    log = SiteLog(site.folder.store)
    log.verify(site.head)
    if site.machine.killed_at is None:
        site.head = _head(log)
    noted = {entry.facts["query"] for entry in log if entry.event is SiteEvent.ANSWERED}
    with site.folder.store.reading() as db:
        rows = db.execute("SELECT counter, caller, rows FROM counts").fetchall()
    totals, callers = (
        {caller: count for counter, caller, count in rows if counter == name} for name in ("rows", "callers")
    )
    return totals, callers, noted, approvals_of(site.folder).entries()
