"""Flower's runner exits with 0 when a run fails; ours does not, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onefold.exceptions import FederationError
from onefold.federated.flower import nodes
from onefold.federated.flower.nodes import copy_app

pytestmark = pytest.mark.nightly

BROKEN = """
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()


@server.main()
def main(grid, context):
    raise ValueError("this run fails")
"""


def write_broken_app(folder: Path) -> Path:
    copy_app(folder)
    (folder / "onefold_federation" / "apps.py").write_text(BROKEN)
    return folder


def test_server_whose_run_fails_does_not_start(
    tmp_path: Path, make_federation: Any, processes_below: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_federation(tmp_path / "f")
    monkeypatch.setattr(nodes, "copy_app", write_broken_app)
    monkeypatch.setattr(nodes, "RUN_SECONDS", 20.0)
    with pytest.raises(FederationError, match="the run at the server did not start"):
        nodes.ServerNode(made.server).start()
    assert not processes_below(made.root)


def test_server_whose_flower_command_fails_does_not_start(
    tmp_path: Path, make_federation: Any, processes_below: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_federation(tmp_path / "f")
    monkeypatch.setattr(nodes, "copy_app", lambda folder: folder / "nowhere")
    with pytest.raises(FederationError, match=r"flwr run .* failed, see"):
        nodes.ServerNode(made.server).start()
    assert not processes_below(made.root)
    assert "nowhere" in made.server.process_log.read_text()
