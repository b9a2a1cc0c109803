"""A hostile site and a hostile server among honest ones, with Flower's real processes, TLS and node keys."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

import reference.hostile_site as liar_module
from onefold.federated.access.guard import QueryGuard
from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower import Site
from onefold.federated.flower.admission import site_log
from onefold.federated.flower.processes import CONNECTION, command, make_environment

pytestmark = pytest.mark.nightly

NAMES = ("north", "south", "west")
HONEST = NAMES[:2]
# What cannot be read is one word; what can be read and does not fit is found where answers are combined.
WORDS = {"other classes": "unlike-profile"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, make_federation: Any) -> Iterator[Any]:
    """Two honest sites, and west, which lies as the file ``lie`` says."""
    root = tmp_path_factory.mktemp("hostile")
    lies = root / "lies"
    lies.mkdir()
    (lies / "sitecustomize.py").write_text(Path(liar_module.__file__).read_text())
    (lies / "lie").write_text("")
    made = make_federation(root / "f")
    made.lies = lies
    try:
        made.start("server")
        for name in NAMES:
            fit = ("--data", made.root / f"{name}.npz", "--label", "y", "--per-minute", 1_000_000)
            made.start(name, *fit, modules=lies if name == "west" else None)
        made.wait_for_members(*NAMES)
        assert made.query("--timeout", 300)["answered"] == list(NAMES)  # it was let in as an honest site
        yield made
    finally:
        made.close()


def test_every_lie_leaves_the_site_out_and_says_so(hostile: Any) -> None:
    alone = hostile.expected(*HONEST).predict(hostile.X_test).tolist()
    for lie in sorted(set(liar_module.LIES) - {"plain"}):
        if lie == "stale":
            continue
        (hostile.lies / "lie").write_text(lie)
        told = hostile.query("--timeout", 300)
        assert (hostile.lies / "told").read_text() == lie
        assert (told["code"], told["partial"]) == (3, True), (lie, told)
        assert told["answered"] == list(HONEST), (lie, told)
        assert told["labels"] == alone, lie
        assert list(told["refused"]) == ["west"], (lie, told)
        assert told["refused"]["west"] == WORDS.get(lie, "internal"), (lie, told)
        assert "PARTIAL: without west" in told["stderr"], lie
    (hostile.lies / "lie").write_text("")
    assert hostile.query("--timeout", 300)["answered"] == list(NAMES)  # it is asked again next time


def test_old_answers_are_not_taken_for_new_ones(hostile: Any) -> None:
    (hostile.lies / "lie").write_text("stale")
    first = hostile.query("--timeout", 300)  # these are its real ones
    assert first["answered"] == list(NAMES)
    second = hostile.query("--timeout", 300)
    (hostile.lies / "lie").write_text("")
    assert second["answered"] == list(HONEST)
    assert list(second["refused"]) == ["west"]


def test_plain_answers_are_no_encrypted_ones(hostile: Any, tmp_path: Path) -> None:
    pytest.importorskip("seal")
    (hostile.lies / "lie").write_text("plain")
    told = hostile.query("--encrypted", "--keys", tmp_path, "--bound", 0.5, "--timeout", 300)
    (hostile.lies / "lie").write_text("")
    assert (hostile.lies / "told").read_text() == "plain"
    assert (told["code"], told["answered"]) == (3, list(HONEST))
    assert list(told["refused"]) == ["west"]


# --- the other way round ----------------------------------------------------------------------------------


APP = """
import json
from pathlib import Path

import numpy as np
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.site_app import ANSWERS, from_records, to_records
from onefold.federated.messages import Query
from onefold.federated.access.signatures import SigningKey

FOLDER, SERVER = Path(FOLDER_NAME), ServerFolder(Path(SERVER_NAME))
WARD = SigningKey("ward", bytes(range(32)))
server = ServerApp()
client = ClientApp()


@server.main()
def main(grid, context):
    federation = SERVER.federation_id
    query = Query("fair", np.full((5, 3), 0.5))
    signature = WARD.sign(query, federation, purpose="triage")
    other = Query("fair", np.full((5, 3), 0.25))
    old = Query("old", query.features)
    many = [Query(f"many{number}", query.features) for number in range(4)]
    cases = {
        "unsigned": ([query], []),
        "changed rows": ([other], [signature]),
        "fair": ([query], [signature]),
        "replayed": ([query], [signature]),
        "stale": ([old], [WARD.sign(old, federation, clock=lambda: 1e9)]),
        "another federation": ([old], [WARD.sign(old, "cd" * 32)]),
        "too many": (many, [WARD.sign(each, federation) for each in many]),
    }
    found = {}
    for name, (queries, signatures) in cases.items():
        content = to_records(queries, "server-says", signatures)
        nodes = list(grid.get_node_ids())
        messages = [Message(content, dst_node_id=node, message_type=ANSWERS) for node in nodes]
        found[name] = {}
        for reply in grid.send_and_receive(messages, timeout=300):
            for said in from_records(reply.content):
                word = getattr(said, "code", "answers")
                found[name].setdefault(said.site, []).append(str(word))
    (FOLDER / "found.part").write_text(json.dumps(found))
    (FOLDER / "found.part").rename(FOLDER / "found.json")
"""


def test_hostile_server_gets_failures_and_no_counter_moves_for_them(
    hostile: Any, tmp_path: Path, wait_for: Any
) -> None:
    """Whoever holds the server's secret sends what it likes; north wants signatures, south encryption."""
    north, south = hostile.site("north"), hostile.site("south")
    before = [folder.settings_file.read_bytes() for folder in (north, south)]
    guard = QueryGuard(None, None, north.store)
    spent = guard.spent("all-callers")
    replace(north.settings, approval="queriers", caller_total=12).save(north.settings_file)
    replace(south.settings, sends="sealed-answers").save(south.settings_file)
    ward = SigningKey("ward", bytes(range(32)))
    Site(north.root).approvals().approve(_public(ward, tmp_path), "queriers")
    n_entries = len(list(site_log(north)))

    app = tmp_path / "app"
    (app / "hostile").mkdir(parents=True)
    (app / "hostile" / "__init__.py").write_text("")
    text = APP.replace("FOLDER_NAME", repr(str(tmp_path))).replace(
        "SERVER_NAME", repr(str(hostile.server.root))
    )
    (app / "hostile" / "apps.py").write_text(text)
    project = (hostile.server.app / "pyproject.toml").read_text()
    text = project.replace("onefold_federation.apps", "hostile.apps")
    (app / "pyproject.toml").write_text(text)
    try:
        done = subprocess.run(
            command("flwr"),
            input=json.dumps(["run", str(app), CONNECTION, "--format", "json"]) + "\n",
            env=make_environment(hostile.server),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert '"success": true' in done.stdout, done.stdout + done.stderr
        wait_for((tmp_path / "found.json").exists, "the hostile run to end", 300)
    finally:
        for folder, content in zip((north, south), before, strict=True):
            folder.settings_file.write_bytes(content)
    replies = json.loads((tmp_path / "found.json").read_text())
    found = {case: said["north"] for case, said in replies.items()}
    assert found == {
        "unsigned": ["unsigned"],
        "changed rows": ["bad-signature"],
        "fair": ["answers"],
        "replayed": ["replayed"],
        "stale": ["stale"],
        "another federation": ["bad-signature"],
        "too many": ["answers", "budget-spent", "budget-spent", "budget-spent"],
    }
    assert {word for said in replies.values() for word in said["south"]} == {"sealed-only"}
    assert guard.spent("all-callers") - spent == 10  # two answers about five rows each, and nothing else
    own = QueryGuard(None, None, north.store, name="callers")
    assert own.spent(f"key.{ward.key.id}") == 10
    answered = [entry for entry in list(site_log(north))[n_entries:] if entry.event.value == "answered"]
    assert [entry.facts["query"] for entry in answered] == ["fair", "many0"]
    (approval,) = [each for each in Site(north.root).approvals().entries() if each.querier.name == "ward"]
    assert approval.answered == 10
    assert hostile.query("--timeout", 300)["answered"] == list(NAMES)  # the federation goes on


def _public(key: SigningKey, folder: Path) -> str:
    """A file of a public key, as a querier hands it over."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.key.public))
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    path = folder / f"{key.key.name}.pub"
    path.write_bytes(public.public_bytes(*form) + b" " + key.key.name.encode() + b"\n")
    return str(path)
