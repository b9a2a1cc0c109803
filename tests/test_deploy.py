"""The recipes in deploy/: units that systemd accepts, a compose file that fits the commands, a trial run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onefold.cli.app import build_parser

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
UNITS = ("onefold-server.service", "onefold-site@.service")

pytestmark = pytest.mark.skipif(not DEPLOY.is_dir(), reason="the recipes are not in this copy")


# --- systemd ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    # It wants the program to be there, which here it is not.
    (tmp_path / name).write_text(text.replace("/opt/onefold/bin/onefold", "/bin/true"))
    run = subprocess.run(
        [analyse, "verify", str(tmp_path / name)], capture_output=True, text=True, timeout=120
    )
    if "Failed to initialize manager" in run.stderr:
        pytest.skip("systemd-analyze cannot work here")
    assert run.returncode == 0, run.stderr
    assert name not in run.stderr, run.stderr  # an unknown option is a warning


@pytest.mark.parametrize("name", UNITS)
def test_the_command_of_a_unit_exists_and_runs_as_nobody_special(name: str) -> None:
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    command = re.search(r"^ExecStart=/opt/onefold/bin/onefold (.+)$", text, re.MULTILINE)
    assert command is not None
    build_parser(command[1].split()).parse_args(command[1].split())
    for line in ("User=onefold", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="):
        assert re.search(rf"^{line}$", text, re.MULTILINE)


# --- containers: no registry is asked, so what can be read is checked ---------------------------------------


@pytest.fixture
def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return found


def test_commands_of_the_compose_file_are_understood(services: dict[str, Any]) -> None:
    commands = [service["command"] for service in services.values() if "command" in service]
    assert len(commands) == 4
    for command in commands:
        build_parser(command).parse_args(command)


def test_containers_have_no_rights_and_no_root_but_for_the_volume(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert (service["user"] == "0:0") == (name == "volume")
        for script in re.findall(r"\./(\S+?):", " ".join(service["volumes"])):
            assert (DEPLOY / script).is_file()


def test_the_image_runs_as_an_ordinary_user() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001"]
    top = DEPLOY.parent
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            assert all((top / source).exists() for source in line.split()[1:-1])


# --- the trial run ----------------------------------------------------------------------------------------


def test_the_trial_refuses_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = subprocess.run(["bash", DEPLOY / "try.sh", tmp_path], capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert "not empty" in run.stderr


@pytest.mark.nightly  # tests/test_tutorials.py starts a federation by the same commands
def test_the_trial_starts_a_federation_and_asks_it(tmp_path: Path) -> None:
    """All steps but the installation, which needs the network and minutes."""
    pytest.importorskip("flwr")
    source = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "ENVIRONMENT": sys.prefix, "PYTHONPATH": source}
    run = subprocess.run(
        ["bash", DEPLOY / "try.sh", tmp_path / "new"],
        capture_output=True,
        text=True,
        timeout=500,
        env=environment,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "sites missing: none" in run.stdout
