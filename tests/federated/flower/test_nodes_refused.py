"""Who is not let in, and what is not done, by a real server and real sites."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onefold.federated.flower.launch import SECRET_HEADER
from onefold.federated.flower.processes import (
    CONNECTION,
    ServerState,
    command,
    free_port,
    look_at,
    make_environment,
)
from onefold.federated.flower.setup import make_authority, make_node_key

pytestmark = pytest.mark.merge

NAMES = ("north", "south", "west")
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
SUPERNODE = "from flwr.supernode.cli import flower_supernode; flower_supernode()"
FLWR = "from flwr.cli.app import app; app()"


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
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

FOLDER = Path(FOLDER_NAME)
server = ServerApp()
client = ClientApp()


@client.query("answers")
def leak(message, context):
    (FOLDER / "foreign-code-ran").write_text("")
    raise ValueError("foreign code ran")


def query(features, **changes):
    header = {"version": 1, "kind": "query", "id": "q"} | changes
    return {
        "headers": ConfigRecord({"json": json.dumps([[header, {"features": ["x", 0, len(features)]}]])}),
        "arrays": ArrayRecord({"x": Array(features)}),
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
    found = {}
    for name, (kind, content) in CASES.items():
        nodes = list(grid.get_node_ids())
        messages = [Message(RecordDict(dict(content)), dst_node_id=n, message_type=kind) for n in nodes]
        replies = list(grid.send_and_receive(messages, timeout=300))
        found[name] = [
            {"error": str(r.error.code), "text": str(r.error.reason)}
            if r.has_error()
            else json.loads(r.content["headers"]["json"])[0][0]
            for r in replies
        ]
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
            assert set(reply) == {"version", "kind", "query_id", "site", "code"}
    assert not (tmp_path / "foreign-code-ran").exists()
