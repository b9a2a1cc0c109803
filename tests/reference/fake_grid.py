"""A stand-in for Flower: messages to sites are answered in this process, when they are fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.supercore.task_identity import TaskIdentity

from onefold.federated.flower.folders import ServerFolder, ServerSettings, private_folder
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.server_app import Coordinator
from onefold.federated.flower.site_app import ANSWERS, FACTS, PROFILE, from_records, to_records
from onefold.federated.messages import Answers, Message, Profile, Query, SiteFacts

Answer = Callable[[str, Query], Sequence[Message]]


def fair(site: str, query: Query) -> list[Message]:
    """What an honest site answers: how far each row is from two points."""
    values = abs(query.features[:, :1] - [[0.0, 1.0]])
    return [Answers(query.id, site, (1, 2), "euclidean", None, values)]


class FakeGrid:
    """Nodes 0, 1, ... are the sites of these names; ``answer`` says what each of them replies to a query."""

    def __init__(self, names: Sequence[str], answer: Answer = fair) -> None:
        self.names, self.answer = list(names), answer
        self.sent: list[tuple[str, str]] = []
        self.is_silent = False  # takes messages and brings no replies
        self._replies: dict[str, Any] = {}

    def get_nodes(self) -> list[Any]:
        return [SimpleNamespace(node_id=n, last_activated_at="today") for n in range(len(self.names))]

    def push_messages(self, envelopes: Iterable[Any]) -> list[str]:
        numbers = []
        for envelope in envelopes:
            site, kind = self.names[envelope.metadata.dst_node_id], str(envelope.metadata.message_type)
            self.sent.append((kind, site))
            numbers.append(str(len(self.sent)))
            self._replies[numbers[-1]] = self._reply(site, kind, envelope.content)
        return numbers

    def _reply(self, site: str, kind: str, content: Any) -> list[Message]:
        if kind == ANSWERS:
            queries = [message for message in from_records(content) if isinstance(message, Query)]
            return [message for query in queries for message in self.answer(site, query)]
        if kind == FACTS:
            return [SiteFacts(site, "0", "0", None, None)]
        assert kind == PROFILE, kind
        return [Profile(site, (1, 2), "euclidean", None, 3, None, "ab" * 32)]

    def pull_messages(self, numbers: Iterable[str]) -> list[Any]:
        found = [number for number in numbers if number in self._replies and not self.is_silent]
        return [
            SimpleNamespace(
                metadata=SimpleNamespace(reply_to_message_id=number),
                content=to_records(self._replies.pop(number)),
                has_error=lambda: False,
            )
            for number in found
        ]


def make_coordinator(
    root: Path, monkeypatch: pytest.MonkeyPatch, *names: str, answer: Answer = fair, **settings: Any
) -> Coordinator:
    """A run over a stand-in for Flower, whose sites have not been met yet."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    folder = ServerFolder(private_folder(root / "server"))
    ServerSettings("127.0.0.1", 8443, **settings).save(folder.settings_file)
    folder.prepare()
    registry = Registry(folder)
    for number, name in enumerate(names):
        registry.invite(name, f"key-{name}")
        registry.set_node(name, number)
    return Coordinator(FakeGrid(names, answer), folder)


def step(coordinator: Coordinator, times: int = 1) -> None:
    """Go round, looking for sites each time."""
    for _ in range(times):
        coordinator._told = 0.0
        coordinator.step()
