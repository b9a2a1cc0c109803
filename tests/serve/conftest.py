"""The running pages, for tests that click."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Start the command with more arguments; the address that it prints. All end with the session."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **more: Any) -> str:
        command = [sys.executable, "-m", "onefold", "serve", "--json", *map(str, arguments)]
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
