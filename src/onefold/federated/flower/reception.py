"""Meeting the sites: who is there, under which name, and what do they say about themselves."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onefold.exceptions import OnefoldError
from onefold.federated.flower.folders import ServerFolder, write_private
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.site_app import KEPT_OUT, MODEL, PROFILE
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import Failure, Message, ModelParcel, Profile, to_parts

__all__ = ["Reception"]

LOG = logging.getLogger(__name__)
# A site has this long to say what it is, and is asked again when it has not.
PATIENCE = 120.0
NOBODY = "server"

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
        self._send = send
        self._nodes: dict[int, str] = {}  # nodes that are there -> since when, as Flower says
        self._greeted: dict[int, str] = {}  # nodes that were asked, and since when they were there then
        self._names: dict[int, str] = {}  # node -> site
        self._asked: dict[str, tuple[int, str, float]] = {}  # Flower's number -> node, kind, until when
        self._profiles: dict[str, Profile] = {}  # sites whose model is still awaited

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
        for node, since in self._nodes.items():
            known = self.settings.insecure or node in self._names
            if known and self._greeted.get(node) != since:
                self._greeted[node] = since
                self._ask(PROFILE, node)

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
        elif kind != KEPT_OUT and node in self._names:
            code = message.code.value if isinstance(message, Failure) else "no-profile"
            self.registry.refuse(self._names[node], code)
            self._tell_if_kept_out(node)

    def _learn_names(self, gone: set[int]) -> None:
        if self.settings.insecure:
            for node in gone:
                self._names.pop(node, None)
            return
        sites = self.registry.sites.values()
        self._names = {
            site.node_id: site.name
            for site in sites
            if site.node_id is not None and site.status is not Status.REMOVED
        }

    def _ask(self, kind: str, node: int) -> None:
        for number in self._send(kind, {"": node}, [], PATIENCE, NOBODY):
            self._asked[number] = (node, kind, time.monotonic() + PATIENCE)

    def _meet(self, node: int, profile: Profile) -> None:
        known = self.registry.sites.get(profile.site)
        if self.settings.insecure and known is not None and known.status is not Status.REMOVED:
            self._names[node] = profile.site
        name = self._names.get(node)
        if name is None:
            return
        if self.settings.mode == "query" or self._has_model(name, profile):
            self.registry.admit(name, profile)
            self._tell_if_kept_out(node)
            return
        self._profiles[name] = profile
        self._ask(MODEL, node)

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

    def _tell_if_kept_out(self, node: int) -> None:
        """Its owner would wait for queries that never come."""
        if self.registry.sites[self._names[node]].status is Status.REFUSED:
            self._ask(KEPT_OUT, node)


def _is_the_model(path: Path, profile: Profile) -> bool:
    """Whether a file holds the model that a profile speaks of, with the guarantee it speaks of."""
    try:
        found = replace(LocalModel.load(path).profile(profile.site), columns=profile.columns)
        return to_parts(found) == to_parts(profile)
    except OnefoldError:
        return False
