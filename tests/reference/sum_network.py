"""A federation for encrypted sums in one process: server, three sites, and a network that answers at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Metadata
from flwr.app.message import make_message

from onefold.exceptions import FederationError
from onefold.federated import HolderKey, SchemaSum, SumHolder, SumParties
from onefold.federated.access.log import SiteLog
from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower import Federation, Site, SumRound
from onefold.federated.flower.server_app import Coordinator
from onefold.federated.flower.site_app import answer_message, to_records
from onefold.federated.flower.spool import Spool
from onefold.federated.flower.summing import decide_sum, take_step
from onefold.federated.messages import Bundle, Failure, SumParcel
from onefold.tables import Field, Schema

NAMES = ("north", "south", "west")
SCHEMA = Schema(
    (
        Field("age", low=0, high=100),
        Field("ward", "string", levels=("a", "b", "c")),
        Field("ill", "string", "label", levels=("no", "yes")),
    ),
    rows_about=300,
)
WARD = SigningKey("ward", bytes(32))


def write_rows(path: Path, seed: int, n: int = 100) -> None:
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(0, 100, n), rng.choice(list("abc"), n)
    ill = np.where(age > 50, "yes", "no")
    lines = [f"{a},{w},{i}" for a, w, i in zip(age, ward, ill, strict=True)]
    path.write_text("\n".join(["age,ward,ill", *lines]) + "\n")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Present:
    """A node as Flower lists it."""

    def __init__(self, node_id: int) -> None:
        self.node_id, self.last_activated_at = node_id, "today"


class Grid:
    """Flower's grid: what is sent to a site that is there is answered at once, by the site's own code."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._patch = root, monkeypatch
        self.there = set(NAMES)
        self._replies: dict[str, Any] = {}

    def get_nodes(self) -> list[Present]:
        return [Present(number) for number, name in enumerate(NAMES) if name in self.there]

    def send(
        self,
        kind: str,
        nodes: dict[str, int],
        messages: Any,
        timeout: float,
        caller: str,
        signatures: Any = (),
    ) -> dict[str, str]:
        numbers = {}
        for site, node in nodes.items():
            number = str(len(self._replies))
            about = {"run_id": 1, "message_id": number, "src_node_id": 1, "dst_node_id": node, "group_id": ""}
            metadata = Metadata(
                **about, reply_to_message_id="", created_at=time.time(), ttl=timeout, message_type=kind
            )
            envelope = make_message(metadata=metadata, content=to_records(messages, caller, signatures))
            self._patch.setenv("ONEFOLD_SITE", str(self.root / "sites" / NAMES[node]))
            self._replies[number] = answer_message(envelope, None)
            numbers[number] = site
        return numbers

    def pull_messages(self, numbers: Any) -> list[Any]:
        return [self._replies[number] for number in numbers]


class Network:
    """A server and three sites, which are key holders too, in this process."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.federation = Federation.create(root / "f", NAMES, insecure=True)
        self.root, self.share = root / "f", root / "share"
        self.share.mkdir()
        self.grid = Grid(self.root, monkeypatch)
        Spool(self.federation.folder.spool).open_run()  # a run takes up what is asked of it from its start on
        self.coordinator = Coordinator(self.grid, self.federation.folder)
        self.coordinator.send = self.grid.send  # type: ignore[method-assign]
        self.coordinator.reception._send = self.grid.send
        self.keys = {name: HolderKey.new(name) for name in NAMES}
        self.tables = {name: root / f"{name}.csv" for name in NAMES}
        for number, name in enumerate(NAMES):
            write_rows(self.tables[name], number)
            self.keys[name].save(root / f"{name}.key")
            self.site(name).folder.prepare()
            self.site(name).configure(sum_table=self.tables[name], sum_key=root / f"{name}.key")
        self.said: list[str] = []
        self._going = True
        self._thread = threading.Thread(target=self._run)
        self.coordinator.step()
        self.coordinator.step()  # who is there has said who it is
        self._thread.start()
        until(lambda: self.online() == set(NAMES))

    def _run(self) -> None:
        while self._going:
            self.coordinator._told = 0.0
            self.coordinator.step()

    def close(self) -> None:
        self._going = False
        self._thread.join()

    def online(self) -> set[str]:
        return set(self.coordinator.spool.status() or ())

    def leave(self, name: str) -> None:
        self.grid.there.discard(name)
        until(lambda: name not in self.online())

    def site(self, name: str) -> Site:
        return Site(self.root / "sites" / name)

    def contract(self, name: str = "spring", missing: int = 1, epsilon: float = 2.0) -> SchemaSum:
        holders = tuple(key.public for key in self.keys.values())
        parties = SumParties(NAMES, holders, 2, missing_sites=missing, colluding_sites=1)
        return SchemaSum(name, parties, SCHEMA, "moments", epsilon)

    def round(self, summed: SchemaSum, kind: type[SumRound] = SumRound, key: SigningKey = WARD) -> SumRound:
        folder = self.federation.folder
        return kind(folder, summed, self.share, key, purpose="triage", say=self.said.append)

    def wait_everywhere(self, summed: SchemaSum) -> str:
        """Ask for the first time; what the querier is told."""
        with pytest.raises(FederationError) as refused:
            self.round(summed).run()
        return str(refused.value)

    def approve(self, summed: SchemaSum, *names: str) -> None:
        self.wait_everywhere(summed)
        for name in names or NAMES:
            decide_sum(self.site(name).folder, "ward", summed.total.contract.round_id, approve=True)

    def events(self, name: str) -> list[str]:
        log = SiteLog(self.site(name).folder.store)
        log.verify()
        return [entry.event.value for entry in log]


def in_process(net: Network, summed: SchemaSum, folder: Path, sites: tuple[str, ...] = NAMES) -> Any:
    """The sum of the same messages, by the library alone."""
    asked, folder = net.round(summed), folder / "in-process"
    folder.mkdir()
    holders = [SumHolder(summed.total, key, folder) for key in net.keys.values()]
    return summed.total.together([asked.message_of(site) for site in sites], holders)


def asked(net: Network, name: str, step: str = "contribute", *rest: bytes, **change: Any) -> Any:
    """One step as a server may send it; what the site says."""
    summed = change.get("summed", net.contract())
    folder = net.site(name).folder
    parcel = SumParcel(
        change.get("id", "q1"),
        name,
        step,
        Bundle(
            (
                summed.to_bytes(),
                *rest,
            )
        ).to_bytes(),
    )
    digest = change.get("digest", summed.total.contract.digest)
    clock = change.get("clock")
    extra = {} if clock is None else {"clock": clock}
    key = change.get("key", WARD)
    signature = key.sign_step(parcel, folder.federation_id, digest, purpose="triage", **extra)
    sent = change.get("sent", parcel)
    reply = take_step(folder, sent, None if change.get("unsigned") else signature)
    return reply.code if isinstance(reply, Failure) else reply
