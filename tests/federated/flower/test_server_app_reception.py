"""Meeting sites without a network: who is taken, who is told that it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from onefold.federated.flower.folders import ServerFolder, ServerSettings, private_folder
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.server_app import Reception
from onefold.federated.flower.site_app import KEPT_OUT, PROFILE
from onefold.federated.messages import Failure, FailureCode, Message, Profile


@dataclass
class Present:
    """A node as Flower lists it."""

    node_id: int
    last_activated_at: str = "today"


class Post:
    """Takes messages to nodes and remembers them."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []

    def __call__(
        self, kind: str, nodes: dict[str, int], messages: Sequence[Message], timeout: float, caller: str
    ) -> dict[str, str]:
        self.sent += [(kind, node) for node in nodes.values()]
        return {str(len(self.sent) - 1): site for site in nodes}


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def reception(tmp_path: Path, post: Post) -> Reception:
    folder = ServerFolder(private_folder(tmp_path / "server"))
    ServerSettings("127.0.0.1", 8443).save(folder.settings_file)
    folder.prepare()
    registry = Registry(folder)
    for number, name in enumerate(("north", "south")):
        registry.invite(name, f"key-{name}")
        registry.set_node(name, number)
    made = Reception(folder, registry, post)
    made.look([Present(0), Present(1)])
    assert post.sent == [(PROFILE, 0), (PROFILE, 1)]
    return made


def profile(site: str, n_features: int) -> Profile:
    return Profile(site, (1, 2), "euclidean", None, n_features, None, "ab" * 32)


def test_site_that_does_not_fit_is_told_that_it_is_kept_out(reception: Reception, post: Post) -> None:
    reception.take("0", [profile("north", 3)])
    assert len(post.sent) == 2  # a member is told nothing
    reception.take("1", [profile("south", 4)])
    assert post.sent[2:] == [(KEPT_OUT, 1)]
    assert reception.registry.sites["south"].reason == "other-features"
    reception.take("2", [profile("south", 4)])  # that it has heard it is no news
    assert len(post.sent) == 3
    assert list(reception.registry.members) == ["north"]


def test_site_without_a_profile_is_told_that_it_is_kept_out(reception: Reception, post: Post) -> None:
    reception.take("1", [Failure("none", "south", FailureCode.NOT_READY)])
    assert reception.registry.sites["south"].reason == "not-ready"
    assert post.sent[2:] == [(KEPT_OUT, 1)]
