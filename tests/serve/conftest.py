"""The running pages, for tests that click."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of a test are counted in a ledger of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Start the command with more arguments; the address that it prints. All end with the session."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **more: Any) -> str:
        ledger = tmp_path_factory.mktemp("account") / "ledger"
        command = [sys.executable, "-m", "onefold", "serve", "--json", "--ledger", str(ledger)]
        command += map(str, arguments)
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more))
        output = running[-1].stdout
        assert output is not None
        told = ""
        while not told.endswith("}\n"):
            line = output.readline()
            assert line, "onefold serve has ended"
            told += line
        address: str = json.loads(told)["address"]
        return address

    yield start
    for process in running:
        process.terminate()
        process.wait(30)
