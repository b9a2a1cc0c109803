"""What the launcher closes, by itself: the gate in front of Flower's ports, and the programs it refuses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onefold.federated.flower import launch
from onefold.federated.flower.launch import LARGEST_REQUEST, SECRET_HEADER, Gate

SECRET = "s" * 64


def send(
    path: str, headers: dict[str, str] | None = None, body: list[bytes] | None = None
) -> tuple[int, int]:
    """Status of one request to a gated application, and how many bytes the application read of it."""
    seen = 0
    sent: list[dict[str, Any]] = []
    parts = [{"type": "http.request", "body": part, "more_body": True} for part in body or []]
    parts.append({"type": "http.request", "body": b"", "more_body": False})

    async def application(scope: Any, receive: Any, reply: Any) -> None:
        nonlocal seen
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            seen += len(message["body"])
            if not message["more_body"]:
                break
        await reply({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    async def reply(message: dict[str, Any]) -> None:
        sent.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "path": path, "headers": pairs}
    asyncio.run(Gate(application, SECRET, ("/v1/fleet/", "/health"))(scope, receive, reply))
    return (sent[0]["status"] if sent else 0), seen


@pytest.mark.parametrize(
    "path", ["/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/", "/v1/fleet"]
)
def test_gate_wants_the_secret_for_all_but_the_sites_own_paths(path: str) -> None:
    assert send(path)[0] == 403
    assert send(path, {SECRET_HEADER: "s" * 63})[0] == 403
    assert send(path, {SECRET_HEADER: SECRET})[0] == 200


def test_gate_lets_the_requests_of_sites_through() -> None:
    assert send("/v1/fleet/pull-messages", body=[b"abc"]) == (200, 3)


def test_gate_refuses_a_request_that_is_too_large() -> None:
    length = {"content-length": str(LARGEST_REQUEST + 1)}
    assert send("/v1/fleet/push-object", length)[0] == 413
    assert send("/v1/fleet/push-object", {"content-length": "-1"})[0] == 413


def test_gate_cuts_off_a_request_longer_than_it_said() -> None:
    megabyte = b"x" * 2**20
    status, seen = send("/v1/fleet/push-object", {"content-length": "10"}, [megabyte] * 30)
    assert status == 0
    assert seen <= LARGEST_REQUEST


@pytest.mark.parametrize("program", ["flwr-agentapp", "flwr-simulation", "flwr-connector", "rm"])
def test_launcher_refuses_programs_it_does_not_need(program: str) -> None:
    done = subprocess.run(
        [sys.executable, launch.__file__, program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "onefold: this program of Flower is not used here\n"


def test_launcher_refuses_a_short_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.write_text("short")
    monkeypatch.setenv(launch.SECRET_VARIABLE, os.fspath(path))
    with pytest.raises(SystemExit, match="too short"):
        launch._secret()
