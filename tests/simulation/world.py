"""A whole federation in one process, driven by one seed: what happens, in which order, and what goes wrong.

The server's run, its list of sites and its log, the spool, and at each site the counters, the approvals, the
memory of signed queries, the log and the ledger are the real ones. Clock, network and disk are those of this
folder.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from onefold.exceptions import BudgetExceededError, FederationError, OnefoldError
from onefold.federated.access.signatures import SigningKey
from onefold.federated.declared import declared_moments
from onefold.federated.flower import Federation, site_app
from onefold.federated.flower import federation as federation_module
from onefold.federated.flower import site as site_module
from onefold.federated.flower.folders import SITE_VARIABLE, ServerFolder, SiteFolder
from onefold.federated.flower.keeping import model_of, sums_of
from onefold.federated.flower.registry import Registry, Status, _row
from onefold.federated.flower.server_app import Coordinator
from onefold.federated.flower.site_app import ANSWERS, answer_message, read_profile
from onefold.federated.flower.spool import Request, Spool
from onefold.federated.messages import Answers, Query
from onefold.privacy import Event, Ledger
from onefold.tables.schema import AS_THEY_STAND

from . import fitted
from .clock import Clock, begin
from .disk import Disk, Fault, Machine, Stopped, write_file
from .fitted import EPSILON, N_FITS, N_QUERIES, SCHEMA, Fitted, encoded
from .network import Network, Node
from .oracle import Grant, Oracle, Site
from .stage import NAMES, templates

KEYS = {name: SigningKey(name, bytes([number] * 32)) for number, name in enumerate(("ward", "lab"), 1)}
PURPOSES = ("", "triage")
FAR = 1e18
LIMIT = 2.0  # of a ledger, in the simulation's own releases of 0.5
PATIENCE = 8.0
MOST_STEPS = 6
# What a site may say to a query that it does not answer, when nothing is wrong with it.
LEGITIMATE = {
    "budget-spent",
    "rate-limited",
    "waiting-for-approval",
    "denied",
    "unsigned",
    "stale-signature",
    "stale",
    "replayed",
    "unknown-caller",
}


class Failed(AssertionError):
    """A seed that found something."""

    def __init__(self, seed: int, trace: list[str], error: BaseException) -> None:
        self.seed, self.trace, self.error = seed, trace, error
        told = "\n".join(f"  {line}" for line in trace[-40:])
        super().__init__(
            f"seed {seed}: {type(error).__name__}: {error}\n{told}\n"
            f"replay it with: python -m tests.simulation {seed}"
        )


def run(seed: int) -> list[str]:
    """The trace of one seed; :class:`Failed` if anything is not right. Inside :func:`ready` only."""
    world = World(seed)
    try:
        world.live()
    except Exception as error:
        raise Failed(seed, world.trace, error) from error
    finally:
        shutil.rmtree(world.root, ignore_errors=True)
    return world.trace


class World:
    """A server and its sites, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, random.Random(seed)
        self.trace: list[str] = []
        self.clock = Clock()
        begin(self.clock, self.random, self.sleep)
        self.kind = self.random.choice(fitted.KINDS)
        self.insecure = self.random.random() < 0.5
        memory = Path("/dev/shm")
        where = memory if memory.is_dir() else None
        self.root = Path(tempfile.mkdtemp(prefix="onefold-simulation-", dir=where))
        self.disk = Disk(self.random, self.clock, self.say)
        self.network = Network(self.random, self.clock, self.answer, self.say)
        self.network.on_push = lambda node, envelope: self.oracle.pushed(node.site, envelope)
        self.network.on_pull = lambda envelope: self.oracle.pulled(envelope)
        self._make_folders()
        self.federation = Federation(self.server.root)
        self.spool = Spool(self.server.spool)
        self.coordinator: Coordinator | None = None
        self.up_at: float | None = 0.0  # when the server starts; None while it runs
        self.depth = 0
        self.resting = False
        self.n_queries = 0
        self.n_nodes = 0
        self.open: dict[str, list[dict[str, Fitted]]] = {}  # queries that are waited for: members since
        self.requests: dict[str, int] = {}  # handed in without waiting: rows
        self.waits = 0

    def say(self, what: str) -> None:
        self.trace.append(f"{self.clock.now - 1000.0:8.2f} {'  ' * self.depth}{what}")

    def _make_folders(self) -> None:
        mode = "model" if self.kind == "model" or (self.kind == "moments" and self._chance(0.5)) else "query"
        files = templates()[mode, self.insecure]
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content, self.clock)
        self.server = ServerFolder(self.root / "server")
        self.server.prepare()
        self.machine = Machine("server", self.server.root)
        self.approval = self.random.choice(("anyone", "anyone", "queriers", "purposes"))
        self.sites: dict[str, Site] = {}
        for name in NAMES:
            folder = SiteFolder(self.root / "sites" / name)
            limits = {"per_minute": 10_000, "total": self.random.choice((7, 1_000_000))}
            limits["caller_total"] = self.random.choice((5, 1_000_000))
            sends = "raw-model" if mode == "model" else "answers"
            settings = replace(folder.settings, **limits, sends=sends, approval=self.approval)
            settings.save(folder.settings_file)
            folder.prepare()
            for key, each in KEYS.items():
                public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(each.key.public))
                line = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + f" {key}\n".encode()
                write_file(folder.root / f"{each.key.name}.pub", line, self.clock)
            Ledger(limit_epsilon=EPSILON * 3 if self.kind == "moments" else LIMIT).save(folder.ledger)
            made = Site(name, folder, Machine(name, folder.root), files[f"keys/{name}"].decode())
            self.sites[name] = made
            self.disk.settle(made.machine)
        self.disk.settle(self.machine)
        self.oracle = Oracle(self.kind, self.server, self.machine, self.sites, self.clock)

    # --- how it goes ----------------------------------------------------------------------------------

    def live(self) -> None:
        """Begin, let things happen, let them come to rest, and look."""
        with self.disk.attached():
            keys = "plaintext" if self.insecure else "node keys"
            self.say(f"{self.kind}, {keys}, {self.server.settings.mode} mode")
            for name in NAMES[: self.random.choice((2, 3))]:
                self.invite(self.sites[name])
                self.refit(self.sites[name], odd=False)
                if self.approval != "anyone":
                    self.approve(self.sites[name], "ward", "" if self.approval == "purposes" else None)
            for _ in range(4):
                self.tick(0.9)
            self.network.trouble = self.random.choice((0.0, 0.05, 0.2))
            for _ in range(self.random.randrange(5, 12)):
                self.act()
            self.rest()
            self.look_at_the_end()
            self.cut_everywhere()

    def act(self) -> None:
        """One thing that happens."""
        site = self.random.choice(list(self.sites.values()))
        what = self.random.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        getattr(self, what)(site)
        if self.depth == 0:
            self.tick(self.random.choice((0.3, 1.1, 1.1, 5.0)))

    def sleep(self, seconds: float) -> None:
        """Whoever waits lets the world go on; other things may happen meanwhile."""
        self.waits += 1
        self.depth += 1
        try:
            self.tick(max(seconds, 0.25 * min(self.waits, 40)))
            if self.depth == 1 and self.network.trouble and self._chance(0.1):
                self.act()
        finally:
            self.depth -= 1

    def tick(self, seconds: float) -> None:
        """Time passes: machines start again, messages arrive, the server's run goes round."""
        self.clock.now += seconds
        for machine in (self.machine, *(site.machine for site in self.sites.values())):
            if machine not in self.disk.running:
                self.disk.write_back(machine)
        self._wake()
        self.network.carry()
        if self.coordinator is not None:
            self._process(self.machine, self.coordinator.step, self._run_died)
            self._after_server()

    def _wake(self) -> None:
        if self.up_at is not None and self.clock.now >= self.up_at:
            self.start_server()
        for site in self.sites.values():
            if site.down_until is not None and self.clock.now >= site.down_until:
                self.start_site(site)

    # --- processes, and how they end -------------------------------------------------------------------

    def _process(self, machine: Machine, act: Callable[[], Any], died: Callable[[], None]) -> tuple[str, Any]:
        """Run something: "done", "refused" by an error of ours, "failed" by the system, or "stopped"."""
        try:
            return "done", self.disk.run(machine, act)
        except Stopped:
            died()
            if machine.stopped is not None:  # something else on this machine must end too
                raise
            return "stopped", None
        except OnefoldError as error:
            self.say(f"refused: {error}"[:150])
            return "refused", error
        except OSError as error:
            self.say(f"failed: {error.strerror or error}")
            return "failed", error

    def _run_died(self) -> None:
        self.coordinator = None
        self.up_at = self.clock.now + self.random.random() * 8
        self._lose_power(self.machine)

    def _operator_died(self) -> None:
        self._lose_power(self.machine)

    def _lose_power(self, machine: Machine) -> None:
        """With the server's power, Flower's memory of messages and nodes is gone."""
        if self.trace and "power at server" in "".join(self.trace[-3:]):
            self.coordinator = None
            self.up_at = self.clock.now + self.random.random() * 8
            self.network.flights.clear()
            for node in list(self.network.nodes.values()):
                if node.online:
                    self._connect(self.sites[node.site])

    def _at_server(self, what: str, act: Callable[[], Any]) -> tuple[str, Any]:
        """An operator's command on the server's machine."""
        self.say(what)
        outcome = self._process(self.machine, act, self._operator_died)
        self._after_server()
        return outcome

    def _after_server(self) -> None:
        members = self.oracle.look_at_server()
        for seen in self.open.values():
            if seen[-1] is not members:
                seen.append(members)

    def _at_site(self, site: Site, what: str, act: Callable[[], Any]) -> tuple[str, Any]:
        """Something that happens on a site's machine."""
        self.say(what)
        outcome = self._process(site.machine, act, lambda: self._site_died(site))
        self.oracle.look_at_site(site)
        return outcome

    def _site_died(self, site: Site) -> None:
        site_app._model.cache_clear()
        node = self.network.node_of(site.name)
        if "power" in self.trace[-1]:
            if node is not None:
                self.network.disconnect(node)
            site.down_until = self.clock.now + self.random.random() * 40

    # --- machines start ---------------------------------------------------------------------------------

    def start_server(self) -> None:
        """What starting the server does: make way for a new run, and begin one."""
        self.up_at = None

        def start() -> Coordinator:
            self.server.prepare()
            self.spool.open_run()
            made = Coordinator(self.network, self.server)
            made.spool.sweep()
            return made

        outcome, made = self._process(self.machine, start, self._run_died)
        if outcome == "failed":
            self.up_at = self.clock.now + 1.0
        elif outcome == "done":
            self.say("server runs")
            self.coordinator = made
            self.oracle.no_parts(self.machine)
            self._after_server()

    def start_site(self, site: Site) -> None:
        """A site connects, if it has anything to say."""
        site.down_until = None

        def start() -> bool:
            site.folder.prepare()
            try:
                profile = read_profile(site.folder)
            except FederationError:
                return False
            place = (sums_of if profile.sends_only_sums else model_of)(site.folder, profile)
            assert place.exists(), f"{site.name} has lost its model"
            return True

        outcome, has_model = self._at_site(site, f"{site.name} starts", start)
        if outcome == "failed":
            site.down_until = self.clock.now + 1.0
        elif outcome == "done":
            self.oracle.no_parts(site.machine)
            assert has_model or None in site.has, f"{site.name} has lost its model"
            if has_model:
                self._connect(site)

    def _connect(self, site: Site) -> None:
        known = self.network.node_of(site.name)
        entry = Registry(self.server).sites.get(site.name)
        number = None if entry is None else entry.node_id
        if self.insecure:
            number = known.node_id if known is not None and self._chance(0.3) else None
        elif number is None:
            return  # its key is not let in
        self.network.connect(site.name, number)

    def answer(self, node: Node, envelope: Any) -> Any:
        """The reply of a site, if it gets as far."""
        site = self.sites[node.site]
        os.environ[SITE_VARIABLE] = str(site.folder.root)
        kind = envelope.metadata.message_type
        outcome, reply = self._process(
            site.machine, lambda: answer_message(envelope, None), lambda: self._site_died(site)
        )
        if outcome == "done":
            said = "an error" if reply.has_error() else _told(reply)
            self.say(f"{site.name} to {kind}: {said}")
            self.oracle.left(site, envelope, reply)
        elif kind == ANSWERS:
            site.attempted += sum(
                len(q.features) for q in site_app.from_records(envelope.content) if isinstance(q, Query)
            )
        self.oracle.look_at_site(site)
        return reply

    # --- what happens: at the server ------------------------------------------------------------------

    def invite(self, site: Site) -> None:
        """The server's operator lets a site in, for the first time or again."""
        before = set(site.invited)
        site.invited |= {True}
        outcome, _ = self._at_server(f"invite {site.name}", lambda: self._invite(site))
        if outcome == "done":
            site.invited = {True}
        elif outcome == "refused":
            site.invited = before
        self._resolve(site)
        self._register(site)

    def _invite(self, site: Site) -> None:
        Registry(self.server).invite(site.name, site.public_key)

    def _register(self, site: Site) -> None:
        """Flower learns a new key, and the site comes with it."""
        entry = Registry(self.server).sites.get(site.name)
        if self.insecure or entry is None or entry.status is Status.REMOVED or entry.node_id is not None:
            return
        self.n_nodes += 1
        number = self.n_nodes
        outcome, _ = self._at_server(
            f"{site.name} is node {number}", lambda: Registry(self.server).set_node(site.name, number)
        )
        if outcome == "done" and site.down_until is None and None not in site.has:
            self.network.connect(site.name, number)

    def remove(self, site: Site) -> None:
        """The server's operator lets a site leave."""
        before = set(site.invited)
        site.invited |= {False}
        outcome, _ = self._at_server(f"remove {site.name}", lambda: self.federation.remove(site.name))
        if outcome == "done":
            site.invited = {False}
        elif outcome == "refused":
            site.invited = before
        self._resolve(site)

    def _resolve(self, site: Site) -> None:
        """What was stopped has happened or not: from now on it is what the list says."""
        if len(site.invited) > 1:
            entry = Registry(self.server).sites.get(site.name)
            site.invited = {entry is not None and entry.status is not Status.REMOVED}

    def query(self, site: Site) -> None:
        """Somebody asks, and waits for the result."""
        number, key, purpose = self._question()
        rows, before = fitted.asked(self.kind, number), self.waits
        self.n_queries += 1
        name = f"q{self.n_queries}"
        gone = {each.name for each in self.sites.values() if each.invited == {False}}
        self.open[name] = [self.oracle.look_at_server()]
        self.waits = 0
        schema = AS_THEY_STAND if isinstance(rows, np.ndarray) else SCHEMA
        asker = "desk" if key is None else key
        # Put back afterwards: tests with real processes run in the same interpreter.
        with patch.object(federation_module, "new_query_id", lambda: name):
            outcome, result = self._at_server(
                f"query {name}: {number + 1} row(s) by {'desk' if key is None else key.key.name}",
                lambda: self.federation.query(
                    rows,
                    schema=schema,
                    timeout=PATIENCE,
                    querier=asker,
                    purpose=purpose if key is not None else "",
                ),
            )
        seen, self.waits = self.open.pop(name), before
        if outcome == "done":
            self._check_result(name, result, encoded(self.kind, number), seen, gone)
        elif not self.network.trouble and outcome == "refused":
            self.last_error = result

    def _question(self) -> tuple[int, SigningKey | None, str]:
        keys = [None, *KEYS.values(), KEYS["ward"]]
        key = self.random.choice(keys if self.approval == "anyone" else keys[1:])
        return self.random.randrange(N_QUERIES), key, self.random.choice(("", *PURPOSES))

    def _check_result(
        self, name: str, result: Any, rows: np.ndarray, seen: list[dict[str, Fitted]], gone: set[str]
    ) -> None:
        took = {*result.answered, *result.missing, *result.refused}
        came, missing = list(result.answered), list(result.missing)
        said = f"{name}: answered {came} missing {missing} refused {result.refused}"
        self.say(said)
        assert took in [set(members) for members in seen], f"{said}, members were {[sorted(m) for m in seen]}"
        assert not took & gone, f"{name} counts sites that had left before"
        self.last = result
        if self.kind == "moments":
            assert np.array_equal(result.measures, fitted.of_moments(seen[0], rows)), f"{name} is another sum"
            return
        if self.server.settings.mode == "model":
            right = {site: fitted.answers(site, seen[0][site], rows) for site in result.answered}
        else:
            right = {site: self._right_answer(name, site, rows) for site in result.answered}
        assert np.array_equal(result.measures, fitted.combined(right, rows)), f"{name} is another answer"

    def _right_answer(self, name: str, site: str, rows: np.ndarray) -> Answers:
        """What came from a site, which was compared with its model when it left."""
        assert (name, site) in self.oracle.received, f"{name} has an answer of {site} that never came"
        found = self.oracle.received[name, site]
        assert found.values.shape[0] == len(rows)
        return found

    def request(self, site: Site) -> None:
        """Requests that are handed in together, some of them twice, and whose replies are fetched later."""
        if self.server.settings.mode == "model" or self.kind == "moments":
            return
        for _ in range(self.random.randrange(1, 3)):
            number, key, purpose = self._question()
            self.n_queries += 1
            query = Query(f"q{self.n_queries}", encoded(self.kind, number))
            signed = None if key is None else key.sign(query, self.server.federation_id, purpose=purpose)
            asker = "desk" if key is None else key.key.name
            asking = Request(query, asker, PATIENCE, signature=signed)
            for _ in range(self.random.choice((1, 1, 2))):
                self._at_server(f"request {query.id}", lambda asking=asking: self.spool.submit(asking))
            self.requests[query.id] = number + 1

    def fetch(self, site: Site) -> None:
        """Look for replies to such requests."""
        for name in list(self.requests):
            path = self.server.spool / "replies" / f"{name}.reply"
            if path.exists():
                outcome, reply = self._at_server(
                    f"fetch {name}", lambda name=name: self.spool.wait(name, 1.0)
                )
                if outcome == "done":
                    del self.requests[name]
                    for message in reply.messages:
                        if isinstance(message, Answers):
                            came = self.oracle.received[name, message.site]
                            assert np.array_equal(message.values, came.values), f"{name}: {message.site}"

    def replay(self, site: Site) -> None:
        """A server that lies sends something again, perhaps to another site."""
        old = [envelope for _, envelope in self.network.sent if envelope.metadata.message_type == ANSWERS]
        node = self.network.node_of(site.name)
        if old and node is not None:
            self.say(f"replay to {site.name}")
            self.answer(node, self.random.choice(old))

    # --- what happens: at a site ----------------------------------------------------------------------

    def refit(self, site: Site, odd: bool | None = None) -> None:
        """A site stops, fits other rows or forgets some, and comes back."""
        node = self.network.node_of(site.name)
        if node is not None:
            self.network.disconnect(node)
        odd = self._chance(0.1) if odd is None else odd
        new = fitted.fit(self.kind, N_FITS if odd else self._number(site))
        if self.kind != "moments" and not odd and self._chance(0.3):
            new = fitted.forgetting(self.kind, self.random.randrange(2), 3)
        before = list(site.has)
        if self.kind == "moments" and not odd and not self.resting and self._chance(0.2):
            outcome, made = self._at_site(
                site, f"{site.name} releases moments", lambda: self._release_moments(site)
            )
            new = made if outcome == "done" else site.has[-1]
        else:
            site.has.append(new)
            site.ever[new.digest] = new
            outcome, _ = self._at_site(site, f"{site.name} fits {new}", lambda: self._store(site, new))
        if outcome == "done":
            site.has = [new]
        elif outcome == "refused":  # before anything was touched
            site.has = before
        else:
            site.has = list(dict.fromkeys([*before, *site.has, None]))
        site_app._model.cache_clear()
        if site.down_until is None:
            site.down_until = self.clock.now + self.random.random()

    def _number(self, site: Site) -> int:
        """Which of the prepared fits; no two sites release the same moments."""
        if self.kind != "moments":
            return self.random.randrange(N_FITS)
        return NAMES.index(site.name) + len(NAMES) * self.random.randrange(2)

    def _store(self, site: Site, new: Fitted) -> None:
        own = site_module.Site(site.folder.root)
        if new.model is None:
            site_app.store_moments(site.folder, new.moments)
        else:
            own.store(new.model, send_plain_sums=self.kind == "sums")

    def _release_moments(self, site: Site) -> Fitted:
        def release(*arguments: Any, **options: Any) -> bytes:
            content = real(*arguments, **options)
            made = Fitted(hashlib.sha256(content).hexdigest(), moments=content)
            site.releases += 1
            site.has.append(made)
            site.ever[made.digest] = made
            return content

        real = site_module.release_moments
        table, agreed = fitted.table(self.random.randrange(N_FITS)), declared_moments(EPSILON, schema=SCHEMA)
        own = site_module.Site(site.folder.root)
        with patch.object(site_module, "release_moments", release):
            own.fit_moments(table, None, agreed, schema=SCHEMA, ledger=site.folder.ledger)
        return site.has[-1]  # type: ignore[return-value]

    def release(self, site: Site) -> None:
        """A site releases something else from the same rows, after entering it in its ledger."""
        if self.kind == "moments":
            return

        def spend() -> None:
            Ledger.load(site.folder.ledger).spend(Event("survey", "record", 0.5))

        outcome, error = self._at_site(site, f"{site.name} releases a survey", spend)
        site.releases += outcome == "done"
        assert outcome != "refused" or isinstance(error, BudgetExceededError), f"{site.name}: {error}"

    def approve(self, site: Site, name: str | None = None, purpose: str | None = None) -> None:
        """A data owner lets a querier ask."""
        mode = self.approval
        if name is None:
            name = self.random.choice(list(KEYS))
            purpose = self.random.choice(PURPOSES) if mode == "purposes" else None
        rows = None if purpose is None and self._chance(0.3) else self.random.randrange(1, 8)
        until = int(self.clock.time()) + 60 if self._chance(0.2) else None
        public = KEYS[name].key.public
        new = Grant(FAR if rows is None else rows, FAR if until is None else until)
        old = site.grants.get((public, purpose), Grant())
        site.grants[public, purpose] = Grant(max(old.rows, new.rows), max(old.until, new.until))
        denied = {key for key in site.denied if key[0] != public or key[1] not in (None, purpose)}
        lifted, site.denied = site.denied, denied
        who = str(site.folder.root / f"{name}.pub")
        outcome, _ = self._at_site(
            site,
            f"{site.name} approves {name} for {purpose!r}: {rows} row(s)",
            lambda: (
                site_module.Site(site.folder.root)
                .approvals()
                .approve(who, mode, purpose=purpose, rows=rows, until=until)
            ),
        )
        if outcome == "done":
            site.grants[public, purpose] = new
        elif outcome == "refused":
            site.grants[public, purpose], site.denied = old, lifted

    def deny(self, site: Site) -> None:
        """A data owner refuses a querier, also one that was approved."""
        name, mode = self.random.choice(list(KEYS)), self.approval
        purpose = self.random.choice((None, *PURPOSES)) if mode == "purposes" else None
        who = str(site.folder.root / f"{name}.pub")
        outcome, _ = self._at_site(
            site,
            f"{site.name} denies {name} for {purpose!r}",
            lambda: site_module.Site(site.folder.root).approvals().deny(who, mode, purpose=purpose),
        )
        if outcome == "done":
            site.denied.add((KEYS[name].key.public, purpose))

    # --- what goes wrong ------------------------------------------------------------------------------

    def crash(self, site: Site) -> None:
        """A process is killed, or a machine loses its power, at a step that is still to come."""
        machine = self.random.choice((self.machine, site.machine))
        kind, again = self.random.choice(("kill", "power")), self.random.choice((0, 0, 1))
        machine.fault = Fault(kind, self.random.randrange(MOST_STEPS), again=again)
        if self._chance(0.3):  # before or behind a commit
            machine.fault = Fault(kind, self.random.randrange(4), where="state.db", again=again)
        self.say(f"{kind} to come at {machine.name}, step {machine.fault.at} {machine.fault.where}")

    def fill(self, site: Site) -> None:
        """A disk is full for some steps."""
        machine = self.random.choice((self.machine, site.machine))
        machine.fault = Fault("full", self.random.randrange(MOST_STEPS), self.random.choice((1, 1, 5)))

    def jump(self, site: Site) -> None:
        """The clock is put forward or back."""
        seconds = self.random.choice((-5000.0, -60.0, -1.0, 1.0, 60.0, 5000.0))
        self.clock.offset += seconds
        self.say(f"clock jumps by {seconds:g} s")

    def leave(self, site: Site) -> None:
        """A site's connection breaks, for a short or a long time."""
        node = self.network.node_of(site.name)
        if node is not None:
            self.network.disconnect(node)
            site.down_until = self.clock.now + self.random.choice((1.0, 10.0, 45.0))
            self.say(f"{site.name} is away")

    def wait(self, site: Site) -> None:
        """Nothing happens for a while."""
        self.tick(self.random.choice((1.0, 10.0, 130.0)))

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    # --- the end --------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Nothing goes wrong any more, everybody is there, and has what the others take."""
        self.say("rest")
        self.resting = True  # no more releases, which a spent ledger would refuse
        self.network.trouble = 0.0
        for machine in (self.machine, *(site.machine for site in self.sites.values())):
            machine.fault = None
        self.up_at = None if self.coordinator is not None else self.clock.now
        self.tick(0.0)
        self.tick(40.0)  # whatever a killed process has left is on disk
        self._at_server("what was stopped is finished", Registry(self.server).recover)
        for site in self.sites.values():
            self._resolve(site)
            self._register(site)
            now = site.has[0] if len(site.has) == 1 else None
            if now is None or not now.fits:
                self.refit(site, odd=False)
            elif self.network.node_of(site.name) is None:
                site.down_until = self.clock.now
        self._settle()
        refused = [e for e in Registry(self.server).sites.values() if e.status is Status.REFUSED]
        for entry in refused:  # its operator was told, and starts it again
            self.say(f"{entry.name} was refused: {entry.reason}")
            self.sites[entry.name].down_until = self.clock.now
        if refused:
            self._settle()

    def _settle(self) -> None:
        for seconds in (1.2, 1.2, 1.2, 130.0, 1.2, 1.2, 1.2, 1.2):
            self.tick(seconds)

    def look_at_the_end(self) -> None:
        """Everybody who may take part does, with what it has now, and is asked and answers."""
        entries = Registry(self.server).sites
        members = self.oracle.look_at_server()
        for site in self.sites.values():
            if site.invited == {True}:
                entry = entries[site.name]
                assert entry.status is Status.MEMBER, f"{site.name} is {entry.status}: {entry.reason}"
                assert members[site.name] is site.has[0], f"{site.name} takes part with something older"
            self.oracle.look_at_site(site)
        self.oracle.leftovers()
        if members:
            self.last, self.last_error = None, None
            self.query(next(iter(self.sites.values())))
            if self.last is None:
                codes = str(self.last_error)
                assert "no answer can be used" in codes, f"no answer at the end: {codes}"
                assert all(any(f"{n} {c}" in codes for c in LEGITIMATE) for n in members), codes
            else:
                absent = set(self.last.missing) - set(self.last.refused)
                assert not absent, f"missing at the end: {absent}"
                assert set(self.last.refused.values()) <= LEGITIMATE, self.last.refused

    def cut_everywhere(self) -> None:
        """After a power cut everywhere, everything that was there still is."""
        before = self._plain_list()
        self.say("power cut everywhere")
        for machine in (self.machine, *(site.machine for site in self.sites.values())):
            self._cut(machine)
        self.coordinator = None
        self.network.flights.clear()
        self.start_server()
        assert self._plain_list() == before, "the power cut changed the list of sites"
        self.oracle.leftovers()
        for site in self.sites.values():
            self.start_site(site)
            self.oracle.look_closely(site)

    def _plain_list(self) -> dict[str, Any]:
        return {name: _row(entry) for name, entry in Registry(self.server).sites.items()}

    def _cut(self, machine: Machine) -> None:
        def cut() -> None:
            self.disk.stop(machine, "power", "at rest")
            raise Stopped

        try:
            self.disk.run(machine, cut)
        except Stopped:
            return


def _told(reply: Any) -> str:
    found = site_app.from_records(reply.content)
    return ", ".join(str(getattr(message, "code", type(message).__name__)) for message in found)


# What can happen, and how often.
ACTIONS = {
    "query": 10,
    "request": 4,
    "fetch": 2,
    "replay": 3,
    "remove": 3,
    "invite": 4,
    "refit": 4,
    "release": 2,
    "approve": 5,
    "deny": 1,
    "crash": 8,
    "fill": 2,
    "jump": 2,
    "leave": 3,
    "wait": 2,
}
