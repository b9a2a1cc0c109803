"""A running server with three sites, over TLS: what it answers, in clear and encrypted, and whom it refuses.

These tests are in one file because they share its processes, which take long to start.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.exceptions import FederationError
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.quantiser import in_every_look
from onefold.federated.fhe.roles import SecretKey
from onefold.federated.flower import Federation
from onefold.federated.flower.launch import SECRET_HEADER
from onefold.federated.flower.processes import (
    CONNECTION,
    ServerState,
    command,
    free_port,
    look_at,
    make_environment,
)
from onefold.federated.flower.rounding import fitted_knots
from onefold.federated.flower.setup import make_authority, make_node_key
from onefold.federated.flower.site_app import quantised
from onefold.federated.messages import Query, QueryKey

pytestmark = pytest.mark.merge

NAMES = ("north", "south", "west")
DIGEST = "0" * 64
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
SUPERNODE = "from flwr.supernode.cli import flower_supernode; flower_supernode()"
FLWR = "from flwr.cli.app import app; app()"


# --- answers ------------------------------------------------------------------------------------------------


def test_three_sites_over_tls_answer_as_one_process_would(federation: Any, tmp_path: Any) -> None:
    out = tmp_path / "predictions.npz"
    told = federation.query("--out", out, "--measures")
    assert told["code"] == 0, told
    assert told["answered"] == list(NAMES)
    assert not told["partial"]

    expected = federation.expected(*NAMES)
    with np.load(out) as found:
        # Bit for bit: the numbers travelled as arrays, and every site computed what we compute here.
        np.testing.assert_array_equal(found["measures"], expected.measures(federation.X_test))
        np.testing.assert_array_equal(found["prediction"], expected.predict(federation.X_test))
    assert told["accuracy"] == np.mean(expected.predict(federation.X_test) == federation.y_test)

    status = json.loads(federation.run("status", "--json").stdout)
    assert status["running"]
    assert {site["name"]: site["status"] for site in status["sites"]} == dict.fromkeys(NAMES, "member")
    assert all(site["guarantee"] is None for site in status["sites"])
    assert "NOT PRIVATE" in federation.output("north")


def test_notebook_asks_the_server_of_another_process_inside_an_event_loop(federation: Any) -> None:
    expected = federation.expected(*NAMES)
    rows = federation.X_test

    async def cell() -> None:
        with Federation(federation.server.root) as asked, ThreadPoolExecutor(2) as pool:
            asked.wait_for(NAMES)
            halves = pool.map(asked.query, (rows[:50], rows[50:]))
            found = np.concatenate([result.predictions for result in halves])
            np.testing.assert_array_equal(found, expected.predict(rows))
            checked = asked.query(rows, rule="checked", n_liars=1)
            assert (checked.answered, checked.partial, checked.missing) == (NAMES, False, ())
            assert asked.status().running

    asyncio.run(cell())
    assert Federation(federation.server.root).is_running  # leaving the block stopped nothing


def test_query_without_time_for_the_sites_ends_soon(federation: Any) -> None:
    # The run's own reply, not that nothing came in the minute in which it may hand over what came.
    with pytest.raises(FederationError, match="no answer can be used"):
        Federation(federation.server.root).query(federation.X_test, timeout=0.001)


def test_held_out_rows_are_hidden_in_the_query_and_not_in_the_result(federation: Any, tmp_path: Any) -> None:
    held_out = tmp_path / "held_out.npz"
    np.savez(held_out, X=federation.X_test[:60], kind=federation.y_test[:60])
    told = federation.query("--rule", "weighted", "--held-out", held_out, "--held-out-label", "kind")
    assert told["code"] == 0, told
    assert told["rows"] == len(federation.X_test)
    assert told["answered"] == list(NAMES)
    assert "not-trusted" not in told["outliers"].values()
    expected = federation.expected(*NAMES).predict(federation.X_test)
    assert told["labels"] == expected.tolist()


@pytest.mark.parametrize("encrypted", [False, True])
def test_query_over_the_network_brings_probabilities_and_sets(
    federation: Any, tmp_path: Any, encrypted: bool
) -> None:
    options: list[Any] = []
    if encrypted:
        pytest.importorskip("seal")
        options = ["--encrypted", "--keys", tmp_path / "keys", "--timeout", 300]
    labelled = tmp_path / "labelled.npz"
    np.savez(labelled, X=federation.X_test[:120], y=federation.y_test[:120])
    told = federation.query("--calibrate", labelled, "--probabilities", "--sets", "--alpha", 0.1, *options)
    assert told["code"] == 0, told
    assert "calibrated on 120 labelled rows" in told["stderr"]
    found, truth = np.array(told["probability"]), federation.y_test.astype(str)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.mean([right in each.split(" | ") for right, each in zip(truth, told["set"], strict=True)]) > 0.8
    assert ("foreign" in told) is not encrypted
    if not encrypted:
        assert np.array(told["classes"])[found.argmax(axis=1)].tolist() == told["labels"]


# --- encrypted answers --------------------------------------------------------------------------------------


@pytest.fixture
def _seal() -> None:
    pytest.importorskip("seal")


def plain_labels(
    federation: Any, names: tuple[str, ...], bits: int, bound: float, looks: int = 1, knots: Any = ()
) -> np.ndarray:
    """What the same numbers of the same sites say without encryption."""
    models = [federation.models[name] for name in names]
    classes = sorted({int(label) for model in models for label in model.classes_})
    lock = QueryKey(
        DIGEST, tuple(classes), bits, bound, 1.0, min(knots, default=0.0), b"no key", looks, tuple(knots)
    )
    query = Query("q", federation.X_test)
    values = np.stack([quantised(model.answer(query, "any"), lock) for model in models])
    return np.asarray(classes)[np.argmax(in_every_look(clear_argmin(values), looks), axis=1)]


def secret_of(path: Path) -> bytes:
    """Some bytes from the middle of a secret key."""
    secret = SecretKey.load(path).secret
    return secret[len(secret) // 2 :][:64]


def holders(secret: bytes, *roots: Path) -> list[Path]:
    """Files in which these bytes are; the server may clear one away meanwhile."""
    found = []
    for path in [path for root in roots for path in root.rglob("*") if path.is_file()]:
        with suppress(FileNotFoundError):
            found += [path] if secret in path.read_bytes() else []
    return found


@pytest.mark.usefixtures("_seal")
def test_encrypted_query_predicts_what_the_same_numbers_say_in_clear(
    federation: Any, wait_for: Callable[..., None], tmp_path: Path
) -> None:
    keys, out = tmp_path / "keys", tmp_path / "predictions.npz"
    server = federation.server.spool
    known = set((server / "keys").glob("*"))  # of other tests, which may come first
    told = federation.query("--encrypted", "--keys", keys, "--out", out)
    assert told["code"] == 0, told
    assert (told["answered"], told["partial"], told["bits"]) == (list(NAMES), False, 8)

    assert (told["looks"], len(told["knots"])) == (4, 65)
    assert told["bytes_per_site"] > 3 * told["bytes_in_one_look"] > 0
    assert tuple(told["knots"]) == fitted_knots(federation.X_test, "euclidean", None)
    expected = plain_labels(federation, NAMES, 8, told["bound"], told["looks"], told["knots"])
    with np.load(out) as found:
        np.testing.assert_array_equal(found["prediction"], expected)
        assert set(found) == {"prediction"}
    assert told["accuracy"] == np.mean(expected == federation.y_test)
    np.testing.assert_array_equal(expected, federation.query()["labels"])  # nothing is lost

    # Nothing of the query is left at the server once its run has looked.
    wait_for(lambda: not any((server / "sealed").iterdir()), "the run to clear away sealed answers")
    # The secret key is in its own folder, for its owner, and nowhere else.
    (key,) = keys.glob("*.key")
    assert key.stat().st_mode & 0o077 == keys.stat().st_mode & 0o077 == 0
    secret = secret_of(key)
    assert holders(secret, tmp_path) == [key]
    assert holders(secret, federation.root) == []
    # What the server keeps is what it computes with.
    assert [path.stem for path in (server / "keys").iterdir() if path not in known] == [told["key"]]


@pytest.mark.nightly
@pytest.mark.usefixtures("_seal")
def test_second_encrypted_query_reuses_keys_and_misses_a_killed_site(
    federation: Any, tmp_path: Path, wait_for: Any
) -> None:
    options = (
        "--encrypted",
        "--keys",
        tmp_path / "keys",
        "--bits",
        6,
        "--bound",
        0.5,
        "--batch",
        100,
        "--looks",
        2,
    )
    first = federation.query(*options)
    assert first["code"] == 0, first
    assert first["labels"] == plain_labels(federation, NAMES, 6, 0.5, 2).tolist()
    federation.stop("west")
    try:
        wait_for(lambda: "west" not in federation.online(), "west to be gone")
        told = federation.query(*options)
    finally:
        federation.start("west")
        federation.wait_for_members(*NAMES)
    assert told["code"] == 3, told
    assert (told["answered"], told["missing"], told["partial"]) == (["north", "south"], ["west"], True)
    assert told["key"] == first["key"]
    assert told["labels"] == plain_labels(federation, NAMES[:2], 6, 0.5, 2).tolist()


@pytest.mark.usefixtures("_seal")
def test_querier_elsewhere_hands_over_a_query_key_and_decrypts_the_file(
    federation: Any, tmp_path: Path
) -> None:
    keys, lock, sealed = (tmp_path / name for name in ("keys", "q.querykey", "answers.encrypted"))
    fit = ("--fit-on", federation.test_file, "--ignore", "y", "--looks", 2)
    options = ("--sites", 3, "--classes", 0, 1, 2, *fit, "--keys", keys)
    made = federation.run("querykey", lock, *options, "--json", folder=False)
    assert made.returncode == 0, made.stderr
    (key,) = keys.glob("*.key")

    # The server's owner asks without any secret.
    asked = federation.run(
        "query", federation.test_file, "--ignore", "y", "--encrypted", "--query-key", lock, "--out", sealed
    )
    assert asked.returncode == 0, asked.stderr
    assert holders(secret_of(key), lock.parent, federation.root) == [key]

    options = ("--keys", keys, "--data", federation.test_file, "--label", "y", "--json")
    told = json.loads(federation.run("decrypt", sealed, *options, folder=False).stdout)
    knots = fitted_knots(federation.X_test, "euclidean", None)
    expected = plain_labels(federation, NAMES, 8, knots[-1], 2, knots)
    assert told["labels"] == expected.tolist()
    assert told["accuracy"] == np.mean(expected == federation.y_test)

    # Nobody else opens it, and no other key does.
    other = tmp_path / "other"
    refused = federation.run("decrypt", sealed, "--keys", other, folder=False)
    assert refused.returncode == 1
    assert "the secret key of this query is not here" in refused.stderr


@pytest.mark.nightly
@pytest.mark.usefixtures("_seal")
def test_running_site_without_the_extra_answers_no_encryption(make_federation: Any, tmp_path: Path) -> None:
    made = make_federation(tmp_path / "f")
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "seal.py").write_text("raise ImportError('not installed')\n")
    try:
        made.start("server")
        for name in NAMES:
            more = ("--send-encrypted-only",) if name == "south" else ()
            fit = ("--data", made.root / f"{name}.npz", "--label", "y", *more)
            made.start(name, *fit, modules=tmp_path / "stub" if name == "west" else None)
        made.wait_for_members(*NAMES)
        told = made.query("--encrypted", "--keys", tmp_path / "keys", "--bound", 0.5, "--looks", 1)
        in_clear = made.query()
    finally:
        made.close()
    assert told["code"] == in_clear["code"] == 3
    assert told["refused"] == {"west": "no-encryption"}
    assert told["labels"] == plain_labels(made, NAMES[:2], 8, 0.5).tolist()
    # The other way round: one who gives encrypted answers only does not answer in clear.
    assert in_clear["refused"] == {"south": "sealed-only"}


# --- who is refused -----------------------------------------------------------------------------------------


def outsider(federation: Any, home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Flower's own SuperNode, as anybody could start it, until it gives up."""
    address = f"127.0.0.1:{federation.server.settings.port}"
    own = ["--superlink", address, "--port", str(free_port()), "--max-retries", "1", "--isolation", "process"]
    return subprocess.run(
        [sys.executable, "-c", SUPERNODE, *own, *options],
        env={**os.environ, **QUIET, "FLWR_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode != 0 and "SuperNode ID" not in done.stdout + done.stderr


def test_supernode_with_an_unknown_key_is_refused(federation: Any, tmp_path: Path) -> None:
    make_node_key(tmp_path / "key", tmp_path / "key.pub")
    ca = str(federation.server.ca)
    key = str(tmp_path / "key")
    assert refused(
        outsider(federation, tmp_path, "--root-certificates", ca, "--auth-supernode-private-key", key)
    )


def test_supernode_without_a_key_is_refused(federation: Any, tmp_path: Path) -> None:
    assert refused(outsider(federation, tmp_path, "--root-certificates", str(federation.server.ca)))


def test_supernode_with_another_authority_is_refused(federation: Any, tmp_path: Path) -> None:
    make_authority(tmp_path / "ca.crt", tmp_path / "ca.key", "other")
    key = str(federation.site("north").key)
    options = ("--root-certificates", str(tmp_path / "ca.crt"), "--auth-supernode-private-key", key)
    assert refused(outsider(federation, tmp_path, *options))
    assert look_at("127.0.0.1", federation.server.settings.port, tmp_path / "ca.crt") is ServerState.UNTRUSTED


def test_supernode_in_plaintext_is_refused(federation: Any, tmp_path: Path) -> None:
    assert refused(outsider(federation, tmp_path, "--insecure"))
    assert look_at("127.0.0.1", federation.server.settings.port, None) is ServerState.OTHER


def post(federation: Any, path: str, headers: dict[str, str], body: bytes = b"") -> int:
    context = ssl.create_default_context(cafile=str(federation.server.ca))
    port = federation.server.settings.port
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    try:
        connection.request("POST", path, body, {"content-type": "application/x-protobuf", **headers})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/v1/control/list-nodes", "/v1/control/start-run", "/v1/runtime/acquire-task"]
)
def test_server_wants_the_secret_for_what_starts_code(federation: Any, path: str) -> None:
    assert post(federation, path, {}) == 403
    assert post(federation, path, {SECRET_HEADER: "0" * 64}) == 403


def test_server_refuses_a_request_that_is_too_large(federation: Any) -> None:
    assert post(federation, "/v1/fleet/push-object", {"content-length": str(10**9)}) == 413


def test_flwr_command_without_the_secret_is_refused(federation: Any, tmp_path: Path) -> None:
    config = (federation.server.flower_home / "config.toml").read_text()
    (tmp_path / "config.toml").write_text(config)
    done = subprocess.run(
        [sys.executable, "-c", FLWR, "supernode", "list", CONNECTION, "--format", "json"],
        env={**os.environ, **QUIET, "FLWR_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert '"success": true' not in done.stdout
    assert '"node-id"' not in done.stdout


HOSTILE = """
import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from onefold._base.records import pack, plain_of
from onefold.federated.flower.site_app import from_records
from onefold.federated.messages import Bundle

FOLDER = Path(FOLDER_NAME)
server = ServerApp()
client = ClientApp()


@client.query("answers")
def leak(message, context):
    (FOLDER / "foreign-code-ran").write_text("")
    raise ValueError("foreign code ran")


def query(features, version=1):
    fields = {"id": "q", "features": {"array": "features"}}
    bundle = Bundle((pack("query", version, fields, {"features": features}),)).to_bytes()
    array = Array(np.frombuffer(bundle, dtype=np.uint8))
    return {
        "messages": ArrayRecord({"bundle": array}),
        "caller": ConfigRecord({"name": "hostile"}),
    }


CASES = {
    "fair": ("query.answers", query(np.full((1, 3), 0.5))),
    "garbage": ("query.answers", {"x": ConfigRecord({"y": b"junk"})}),
    "empty": ("query.answers", {}),
    "no caller": ("query.answers", {k: v for k, v in query(np.ones((1, 3))).items() if k != "caller"}),
    "NaN": ("query.answers", query(np.full((1, 3), np.nan))),
    "version": ("query.answers", query(np.ones((1, 3)), version=2)),
    "features": ("query.answers", query(np.ones((1, 4)))),
    "oversized": ("query.answers", query(np.zeros((100_001, 3)))),
    "unknown": ("query.nothing", query(np.ones((1, 3)))),
    "train": ("train", query(np.ones((1, 3)))),
    "model": ("query.model", {"caller": ConfigRecord({"name": "hostile"})}),
}


@server.main()
def main(grid, context):
    waiting = {}
    for name, (kind, content) in CASES.items():
        nodes = list(grid.get_node_ids())
        messages = [Message(RecordDict(dict(content)), dst_node_id=n, message_type=kind) for n in nodes]
        waiting |= dict.fromkeys(grid.push_messages(messages), name)
    found = {name: [] for name in CASES}
    while waiting:
        time.sleep(0.2)
        for r in grid.pull_messages(list(waiting)):
            found[waiting.pop(r.metadata.reply_to_message_id)].append(
                {"error": str(r.error.code), "text": str(r.error.reason)}
                if r.has_error()
                else plain_of(said := from_records(r.content)[0], {}) | {"kind": said.kind}
            )
    (FOLDER / "found.part").write_text(json.dumps(found))
    (FOLDER / "found.part").rename(FOLDER / "found.json")
"""
EXPECTED = {
    "garbage": "malformed",
    "empty": "malformed",
    "no caller": "malformed",
    "NaN": "malformed",
    "version": "malformed",
    "features": "wrong-features",
    "oversized": "too-large",
    "unknown": "malformed",
    "train": "malformed",
    "model": "not-private",
}


def test_hostile_run_gets_fixed_words_and_runs_no_code_at_a_site(
    federation: Any, tmp_path: Path, wait_for: Any
) -> None:
    """Even whoever holds the server's secret: sites run their own application and say nothing else."""
    app = tmp_path / "app"
    (app / "hostile").mkdir(parents=True)
    (app / "hostile" / "__init__.py").write_text("")
    (app / "hostile" / "apps.py").write_text(HOSTILE.replace("FOLDER_NAME", repr(str(tmp_path))))
    project = (federation.server.app / "pyproject.toml").read_text()
    (app / "pyproject.toml").write_text(project.replace("onefold_federation", "hostile"))
    done = subprocess.run(
        command("flwr"),
        input=json.dumps(["run", str(app), CONNECTION, "--format", "json"]) + "\n",
        env=make_environment(federation.server),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert '"success": true' in done.stdout, done.stdout + done.stderr
    wait_for((tmp_path / "found.json").exists, "the hostile run to end", 500)
    found = json.loads((tmp_path / "found.json").read_text())
    assert sorted(reply["site"] for reply in found["fair"]) == sorted(NAMES)
    assert {reply["kind"] for reply in found["fair"]} == {"answers"}
    for case, code in EXPECTED.items():
        assert len(found[case]) == len(NAMES), case
        for reply in found[case]:
            assert (reply.get("kind"), reply.get("code")) == ("failure", code), (case, reply)
            assert set(reply) == {"kind", "query_id", "site", "code"}
    assert not (tmp_path / "foreign-code-ran").exists()
