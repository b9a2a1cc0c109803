"""Meeting sites without a network: who is taken, who is told that it is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold._base.arrays import Arrays
from onefold.federated import LocalModel, local_model
from onefold.federated.contract import schema_fields
from onefold.federated.flower import server_app
from onefold.federated.flower.asking import ask_members
from onefold.federated.flower.folders import ServerFolder, ServerSettings, private_folder
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.server_app import GATHER_SECONDS, PATIENCE, Coordinator, Reception
from onefold.federated.flower.site_app import KEPT_OUT, MODEL, PROFILE
from onefold.federated.flower.spool import Request
from onefold.federated.messages import (
    Answers,
    Failure,
    FailureCode,
    Message,
    ModelParcel,
    Profile,
    Query,
    Refusal,
)
from onefold.tables import Field, Schema
from reference.forging import forged, with_array
from reference.site_files import give_sign


@dataclass
class Present:
    """A node as Flower lists it."""

    node_id: int
    last_activated_at: str = "today"


class Post:
    """Takes messages to nodes and remembers them."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        self.messages: list[Message] = []

    def __call__(
        self, kind: str, nodes: dict[str, int], messages: Sequence[Message], timeout: float, caller: str
    ) -> dict[str, str]:
        self.sent += [(kind, node) for node in nodes.values()]
        self.messages += messages
        return {str(len(self.sent) - 1): site for site in nodes}


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def reception(tmp_path: Path, post: Post, request: pytest.FixtureRequest) -> Reception:
    folder = ServerFolder(private_folder(tmp_path / "server"))
    ServerSettings("127.0.0.1", 8443, getattr(request, "param", "query")).save(folder.settings_file)
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
    (told,) = post.messages
    assert isinstance(told, Refusal)
    assert (told.site, told.reason) == ("south", "other-features")
    reception.take("2", [profile("south", 4)])  # that it has heard it is no news
    assert len(post.sent) == 3
    assert list(reception.registry.members) == ["north"]


def test_site_without_a_profile_is_told_that_it_is_kept_out(reception: Reception, post: Post) -> None:
    reception.take("1", [Failure("none", "south", FailureCode.NOT_READY)])
    assert reception.registry.sites["south"].reason == "not-ready"
    assert post.sent[2:] == [(KEPT_OUT, 1)]


@pytest.mark.parametrize("reception", ["model"], indirect=True)
def test_new_site_that_is_paused_is_asked_later(
    reception: Reception, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    reception.take("0", [profile("north", 3)])
    assert post.sent[2:] == [(MODEL, 0)]
    reception.take("2", [Failure("none", "north", FailureCode.PAUSED)])
    assert reception.registry.sites["north"].status is Status.INVITED
    reception.look([Present(0), Present(1)])
    assert post.sent[2:] == [(MODEL, 0)]  # neither kept out nor asked at once
    now = time.monotonic() + PATIENCE + 1
    monkeypatch.setattr(server_app.time, "monotonic", lambda: now)
    reception.look([Present(0)])
    assert post.sent[3:] == [(PROFILE, 0)]


@pytest.fixture
def plaintext(tmp_path: Path, post: Post) -> Reception:
    folder = ServerFolder(private_folder(tmp_path / "server"))
    ServerSettings("127.0.0.1", 8443, "model", insecure=True).save(folder.settings_file)
    folder.prepare()
    registry = Registry(folder)
    registry.invite("north", "")
    made = Reception(folder, registry, post)
    made.look([Present(0)])
    assert post.sent == [(PROFILE, 0)]
    return made


def test_paused_site_of_a_plaintext_federation_is_not_asked_at_every_look(
    plaintext: Reception, post: Post
) -> None:
    plaintext.take("0", [profile("north", 3)])
    plaintext.take("1", [Failure("none", "north", FailureCode.PAUSED)])
    plaintext.look([Present(0)])
    assert post.sent[1:] == [(MODEL, 0)]


def test_removed_site_for_sums_only_is_not_asked_in_a_plaintext_federation(
    plaintext: Reception, post: Post
) -> None:
    without_model = [Failure("none", "north", FailureCode.NO_MODEL)]
    plaintext.take("0", without_model)
    plaintext.look([Present(0)])
    assert list(plaintext.online) == ["north"]
    assert len(post.sent) == 1  # it has said all there is to say
    plaintext.registry.remove("north")
    plaintext.look([Present(0)])
    assert not plaintext.online
    assert post.sent[1:] == [(KEPT_OUT, 0)]
    plaintext.registry.invite("north", "")
    plaintext.look([Present(0)])
    assert post.sent[2:] == [(PROFILE, 0)]
    plaintext.take("2", without_model)
    assert list(plaintext.online) == ["north"]


def test_queries_that_flower_does_not_take_are_answered_without_the_sites(
    reception: Reception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be lost otherwise, and whoever asked would wait for the whole timeout."""
    for number, name in enumerate(("north", "south")):
        reception.take(str(number), [profile(name, 3)])
    coordinator = Coordinator(None, reception.folder)
    coordinator.reception, coordinator._told = reception, float("inf")

    def refuse(*_: object) -> dict[str, str]:
        raise OSError("the message is expired")

    monkeypatch.setattr(coordinator, "send", refuse)
    for number in range(2):
        coordinator.spool.submit(Request(Query(f"q{number}", np.zeros((1, 3))), "me", 60.0 + number))
    give_sign(coordinator.spool, ["north"])
    coordinator.step()
    for number in range(2):
        reply = coordinator.spool.wait(f"q{number}", 1)
        assert (reply.expected, reply.messages) == (("north", "south"), ())


def test_queries_that_come_while_sites_answer_travel_together_and_do_not_wait_long(
    reception: Reception, monkeypatch: pytest.MonkeyPatch
) -> None:
    reception.take("0", [profile("north", 3)])
    coordinator = Coordinator(None, reception.folder)
    coordinator.reception, coordinator._told = reception, float("inf")
    sent: list[list[str]] = []

    def send(kind: str, nodes: dict[str, int], messages: Any, *_: object) -> dict[str, str]:
        sent.append(sorted(message.id for message in messages))
        return {f"m{len(sent)}": "north"}

    def submit(*names: str) -> None:
        for name in names:
            coordinator.spool.submit(Request(Query(name, np.zeros((1, 3))), "me", 60.0))

    monkeypatch.setattr(coordinator, "send", send)
    monkeypatch.setattr(coordinator, "fetch", lambda: None)
    submit("a")
    coordinator.step()
    submit("b", "c")
    coordinator.step()
    assert sent == [["a"]]  # the site answers one message at a time
    coordinator.open[0].take("m1", None)
    coordinator.step()
    coordinator.step()
    assert sent == [["a"], ["b", "c"]]
    submit("d")
    coordinator.open[0].started -= 2 * GATHER_SECONDS  # the site is slow, or gone
    coordinator.step()
    assert sent[2:] == [["d"]]


# --- model mode: what a site sends is not to be trusted ---------------------------------------------------


def sent_model(tmp_path: Path) -> tuple[Profile, bytes]:
    y = np.arange(40) % 2
    X = np.random.default_rng(0).random((40, 3)) + y[:, None]
    model = LocalModel(keep_rows=False).fit(X, y)
    model.save(tmp_path / "model.onefold", with_rows=False)
    return model.profile("north"), (tmp_path / "model.onefold").read_bytes()


def without_classes(header: dict[str, Any], arrays: Arrays) -> None:
    del arrays["model/fitted/classes_"]
    del header["fields"]["model"]["fitted"]["classes_"]


def with_names(names: Any) -> Callable[[bytes], bytes]:
    """Let the model be one of columns that have names."""
    return lambda content: forged(
        content, lambda header, _: header["fields"]["model"]["fitted"].update(feature_names_in_=names)
    )


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "no model at all": lambda _: b"nonsense",
    "cut short": lambda content: content[:-200],
    "fewer weights": lambda content: with_array(content, "weights", lambda array: array[:-1]),
    "machines of nobody": lambda content: with_array(content, "owners/0", lambda array: array + 7),
    "not a number": lambda content: with_array(content, "hull/mean", lambda array: array * np.nan),
    "no classes": lambda content: with_array(content, "classes_", lambda array: array[:0]),
    "classes left out": lambda content: forged(content, without_classes),
    "names that are none": with_names(7),
    "another model": with_names(list("abc")),
}


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open models in this process: tests/_base/test_confined.py is about the child that tries them first."""
    monkeypatch.setattr(local_model, "try_confined", lambda _, path: local_model.try_model(path))


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("reception", ["model"], indirect=True)
@pytest.mark.parametrize("change", CHANGES)
def test_parcel_without_the_announced_model_is_refused_and_deleted(
    reception: Reception, post: Post, tmp_path: Path, change: str
) -> None:
    profile, content = sent_model(tmp_path)
    reception.take("0", [profile])
    assert post.sent[2:] == [(MODEL, 0)]
    reception.take("2", [ModelParcel("north", CHANGES[change](content))])
    assert reception.registry.sites["north"].reason == "other-model"
    assert post.sent[3:] == [(KEPT_OUT, 0)]
    assert list(reception.folder.models.iterdir()) == []


@pytest.mark.parametrize("reception", ["model"], indirect=True)
@pytest.mark.merge
def test_model_that_was_announced_is_kept_and_not_asked_for_again(
    reception: Reception, post: Post, tmp_path: Path
) -> None:
    profile, content = sent_model(tmp_path)
    reception.take("0", [profile])
    reception.take("2", [ModelParcel("north", content)])
    assert list(reception.registry.members) == ["north"]
    assert (reception.folder.models / "north.onefold").read_bytes() == content
    again = Reception(reception.folder, reception.registry, post)  # a server that was started again
    again.look([Present(0)])
    again.take(str(len(post.sent) - 1), [profile])
    assert [kind for kind, _ in post.sent].count(MODEL) == 1
    again.look([Present(0, "tomorrow")])
    again.take(str(len(post.sent) - 1), [replace(profile, model_digest="ab" * 32)])  # it was fitted anew
    assert [kind for kind, _ in post.sent].count(MODEL) == 2


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("reception", ["model"], indirect=True)
def test_model_of_a_schema_is_kept_only_with_the_schema_that_was_announced(
    reception: Reception, post: Post, tmp_path: Path
) -> None:
    schema = Schema([Field("age", low=0, high=100), Field("sick", "boolean", "label")])
    other = Schema([Field("age", low=0, high=120), Field("sick", "boolean", "label")])
    table = {"age": [10, 20, 70, 80], "sick": [False, False, True, True]}
    model = LocalModel(schema=schema, keep_rows=False).fit(table)
    model.save(tmp_path / "model.onefold", with_rows=False)
    content, profile = (tmp_path / "model.onefold").read_bytes(), model.profile("north")
    lying = replace(profile, schema=other.digest, schema_fields=schema_fields(other.field_digests))
    reception.take("0", [lying])
    reception.take("2", [ModelParcel("north", content)])
    assert reception.registry.sites["north"].reason == "other-model"
    reception.look([Present(0, "tomorrow")])
    reception.take("4", [profile])
    reception.take("5", [ModelParcel("north", content)])
    assert list(reception.registry.members) == ["north"]


# --- what goes wrong for a moment ---------------------------------------------------------------------------


def newcomer(made: Reception, post: Post) -> Present:
    """The site of node 0, which has come again; nobody has asked it yet."""
    post.sent.clear()
    return Present(0, "later")


def test_site_is_asked_again_if_flower_did_not_take_the_question(reception: Reception, post: Post) -> None:
    node = newcomer(reception, post)
    reception._send = lambda *_: {}
    reception.look([node])
    reception._send = post
    reception.look([node])
    reception.look([node])
    assert post.sent == [(PROFILE, 0)]


def test_site_is_asked_again_if_the_question_failed(reception: Reception, post: Post) -> None:
    node = newcomer(reception, post)

    def fail(*_: object) -> dict[str, str]:
        raise ConnectionError

    reception._send = fail
    with pytest.raises(ConnectionError):
        reception.look([node])
    reception._send = post
    reception.look([node])
    assert post.sent == [(PROFILE, 0)]


def test_site_is_asked_again_if_the_disk_was_full_when_it_answered(
    reception: Reception, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(reception.registry, "admit", full)
        with pytest.raises(OSError, match="No space"):
            reception.take("0", [profile("north", 3)])
    post.sent.clear()
    reception.look([Present(0), Present(1)])
    assert post.sent == [(PROFILE, 0)]


def test_member_that_could_not_say_what_it_has_is_asked_again_later(
    reception: Reception, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    reception.take("0", [profile("north", 3)])
    reception.take("1", [profile("south", 3)])
    reception.look([Present(0, "later"), Present(1)])
    reception.take("2", [Failure("none", "north", FailureCode.NOT_READY)])
    post.sent.clear()
    reception.look([Present(0, "later"), Present(1)])
    assert post.sent == []
    reception._later = dict.fromkeys(reception._later, 0.0)
    reception.look([Present(0, "later"), Present(1)])
    assert post.sent == [(PROFILE, 0)]


def test_plaintext_site_that_is_invited_while_it_is_there_is_asked(tmp_path: Path, post: Post) -> None:
    folder = ServerFolder(private_folder(tmp_path / "server"))
    ServerSettings("127.0.0.1", 8443, insecure=True).save(folder.settings_file)
    folder.prepare()
    registry = Registry(folder)
    made = Reception(folder, registry, post)
    made.look([Present(7)])
    made.take("0", [profile("north", 3)])  # nobody knows it
    made.look([Present(7)])
    assert post.sent == [(PROFILE, 7)]
    registry.invite("north", "")
    made.look([Present(7)])
    made.take("1", [profile("north", 3)])
    assert list(registry.members) == ["north"]
    registry.remove("north")
    made.look([Present(7)])
    made.look([Present(7)])
    assert post.sent == [(PROFILE, 7), (PROFILE, 7), (KEPT_OUT, 7)]
    registry.invite("north", "")
    made.look([Present(7)])
    made.look([Present(7)])
    assert post.sent[3:] == [(PROFILE, 7)]


def test_model_of_another_profile_is_not_answered_with(tmp_path: Path) -> None:
    """As a server finds it that was stopped between keeping a model and entering it in its list."""
    folder = ServerFolder(private_folder(tmp_path / "server"))
    ServerSettings("127.0.0.1", 8443, "model").save(folder.settings_file)
    folder.prepare()
    models = [LocalModel().fit(np.eye(4)[:, :2] + shift, [0, 0, 1, 1]) for shift in (0.0, 1.0)]
    for model in models:
        model.save(folder.models / "north.onefold", with_rows=False)
    registry = Registry(folder)
    registry.invite("north", "key-north")
    query = Query("q", np.zeros((1, 2)))
    for model, answers in zip(models, (False, True), strict=True):
        registry.admit("north", model.profile("north"))
        (found,) = ask_members(folder, [query], "me", 1.0)
        assert isinstance(found.messages["north"], Answers) == answers
