"""What Flower's processes see: no telemetry, no downloads, and the only programs they may start."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from pathlib import Path

from onefold.federated.flower import launch
from onefold.federated.flower.folders import ServerFolder, SiteFolder, write_private

__all__ = ["MARK", "command", "make_environment", "write_connection"]

# Every process of one start carries the same random mark, by which none of them is left behind.
MARK = "ONEFOLD_MARK"
SERVER_VARIABLE = "ONEFOLD_SERVER"
SITE_VARIABLE = launch.SITE_VARIABLE
CONNECTION = "onefold"
SETTINGS = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "PYTHONUNBUFFERED": "1",
}
# What would send these processes elsewhere than to their own server.
UNWANTED = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSLKEYLOGFILE")


def make_environment(folder: ServerFolder | SiteFolder) -> dict[str, str]:
    """Environment variables for the processes of one folder; writes the programs and the secret they need."""
    folder.prepare()
    _write_programs(folder.commands)
    if not folder.secret.exists():
        write_private(folder.secret, secrets.token_hex(32).encode())
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FLWR_", "ONEFOLD_")) and name.upper() not in UNWANTED
    }
    own = SERVER_VARIABLE if isinstance(folder, ServerFolder) else SITE_VARIABLE
    return {
        **kept,
        **SETTINGS,
        "PATH": os.pathsep.join([str(folder.commands.resolve()), kept.get("PATH", os.defpath)]),
        "FLWR_HOME": str(folder.flower_home.resolve()),
        launch.SECRET_VARIABLE: str(folder.secret.resolve()),
        launch.PARENT_VARIABLE: str(os.getpid()),
        own: str(folder.root.resolve()),
        MARK: secrets.token_hex(16),
    }


def command(program: str, *arguments: str) -> list[str]:
    """How to start one of Flower's programs."""
    return [sys.executable, str(Path(launch.__file__).resolve()), program, *arguments]


def _write_programs(folder: Path) -> None:
    for program in launch.PROGRAMS:
        path = folder / program
        text = f'#!/bin/sh\nexec {shlex.join(command(program))} "$@"\n'
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_private(path, text.encode())
            path.chmod(0o700)


def write_connection(folder: ServerFolder, address: str) -> None:
    """Where Flower's own command finds the SuperLink."""
    ca = json.dumps(str(folder.ca.resolve()))  # a JSON string is a TOML string
    security = "insecure = true" if folder.settings.insecure else f"root-certificates = {ca}"
    lines = ["[superlink]", f'default = "{CONNECTION}"', "", f"[superlink.{CONNECTION}]"]
    lines += [f'address = "{address}"', security, ""]
    write_private(folder.flower_home / "config.toml", "\n".join(lines).encode())
