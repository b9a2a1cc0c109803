"""A server and its sites without a network, for tests of what they send each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onefold.federated.flower import Federation, Site, site_app
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.server_app import Reception
from onefold.federated.flower.site_app import KEPT_OUT, MODEL, PROFILE, SUMS
from onefold.federated.messages import Message, from_bytes

NAMES = ("north", "south", "west")


class Present:
    """A node as Flower lists it."""

    def __init__(self, node_id: int, since: str) -> None:
        self.node_id, self.last_activated_at = node_id, since


class InProcessNetwork:
    """A server and its sites in this process: a message that is sent is answered at once."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.federation = Federation.create(root / "f", NAMES, insecure=True, **settings)
        self.server, self.root = self.federation.folder, root / "f"
        self.reception = Reception(self.server, Registry(self.server), self.send)
        self.kinds: list[str] = []
        self.told: dict[str, str] = {}
        self.changed: Message | None = None
        self._replies: dict[str, list[Message]] = {}

    def folder(self, name: str) -> SiteFolder:
        return SiteFolder(self.root / "sites" / name)

    def site(self, name: str) -> Site:
        return Site(self.folder(name).root)

    def send(self, kind: str, nodes: dict[str, int], messages: Any, *_: object) -> dict[str, str]:
        numbers = {}
        for site, node in nodes.items():
            folder = self.folder(NAMES[node])
            self.kinds.append(kind)
            reply: Message = site_app.read_profile(folder)
            if kind == SUMS:
                reply = site_app._sums(folder) if self.changed is None else self.changed
            elif kind == MODEL:
                reply = site_app.model_parcel(folder)
            elif kind == KEPT_OUT:
                self.told[NAMES[node]] = messages[0].reason
            else:
                assert kind == PROFILE
            number = str(len(self._replies))
            self._replies[number] = [from_bytes(reply.to_bytes())]
            numbers[number] = site
        return numbers

    def look(self, name: str) -> Status:
        self.reception.look([Present(NAMES.index(name), str(len(self._replies)))])
        while self.reception.waiting:
            for number in self.reception.waiting:
                self.reception.take(number, self._replies[number])
        return self.reception.registry.sites[name].status

    def own_ledger(self, name: str) -> Path | None:
        """The ledger in the folder of a site, if there is one."""
        path = self.folder(name).ledger
        return path if path.exists() else None
