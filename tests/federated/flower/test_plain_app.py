"""The plain Flower app: written, imported, run by a stand-in for Flower, and run by Flower itself."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import onefold
from onefold.cli.app import main
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.flower import write_plain_app
from onefold.federated.flower.processes import free_port

NAMES = ("north", "south")


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n_rows) % 2
    return np.random.default_rng(seed).random((n_rows, 3)) * 0.3 + 0.6 * y[:, None], y


X, Y = make_rows(20, 9)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model file for each site."""
    found = {}
    for number, name in enumerate(NAMES):
        found[name] = tmp_path_factory.mktemp(name) / "model.onefold"
        LocalModel().fit(*make_rows(60, number)).save(found[name], with_rows=False)
    return found


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The app in a folder that Python imports from."""
    root = write_plain_app(tmp_path / "app")
    monkeypatch.syspath_prepend(root)
    yield root
    for name in [name for name in sys.modules if name.startswith("onefold_app")]:
        del sys.modules[name]


def is_written(path: Path) -> bool:
    """Whether a file of arrays is there, and whole."""
    try:
        with np.load(path) as found:
            return bool(found.files)
    except (OSError, EOFError, ValueError, BadZipFile):
        return False


def expected(models: dict[str, Path]) -> GlobalClassifier:
    classifier = GlobalClassifier()
    for name, path in models.items():
        classifier.add(name, LocalModel.load(path))
    return classifier


class FakeGrid:
    """Hands messages to the ClientApp at once; node i has the i-th configuration."""

    def __init__(self, client: Any, configurations: list[dict[str, Any]]) -> None:
        self.client, self.configurations = client, configurations

    def get_node_ids(self) -> list[int]:
        return list(range(1, len(self.configurations) + 1))

    def send_and_receive(self, messages: list[Message], timeout: float) -> list[Message]:
        found = []
        for message in messages:
            node = message.metadata.dst_node_id
            context = Context(1, node, self.configurations[node - 1], RecordDict(), {})
            found.append(self.client.app(message, context))
        return found


@pytest.fixture
def apps(written: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    for name, value in (("_run_id", 1), ("_node_id", 1), ("_task_id", 1)):
        monkeypatch.setattr(TaskIdentity, name, value)
    client = importlib.import_module("onefold_app.client_app")
    return client, importlib.import_module("onefold_app.server_app")


ASK = {"rule": "min", "n_liars": 1, "min_sites": 1, "timeout": 5.0}


def test_written_app_names_two_apps_that_import(written: Path, apps: tuple[Any, Any]) -> None:
    project = tomllib.loads((written / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    for reference in project["components"].values():
        module, _, name = reference.partition(":")
        assert hasattr(importlib.import_module(module), name)
    assert Path(apps[0].__file__).is_relative_to(written)
    assert set(project["config"]) == {"queries", "out", "rule", "n-liars", "min-sites", "timeout"}


def test_command_writes_the_app_and_refuses_a_folder_that_is_not_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "app"
    assert main(["federate", "app", str(place), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"app": str(place)}
    assert main(["federate", "app", str(place)]) == 2
    assert "there is something already" in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match="there is something already"):
        write_plain_app(place / "pyproject.toml")


def test_app_predicts_what_one_process_would(apps: tuple[Any, Any], models: dict[str, Path]) -> None:
    client, server = apps
    grid = FakeGrid(client, [{"site": name, "model": str(path)} for name, path in models.items()])
    result = server.ask(grid, X, **ASK)
    np.testing.assert_array_equal(result.labels, expected(models).predict(X))
    assert (result.answered, result.partial) == (NAMES, False)


def test_site_without_budget_or_model_is_left_out_without_error_text(
    apps: tuple[Any, Any], models: dict[str, Path]
) -> None:
    client, server = apps
    poor = {"site": "south", "model": str(models["south"]), "total": len(X) - 1}
    lost = {"site": "west", "model": "/nowhere/secret-name.onefold"}
    grid = FakeGrid(client, [{"site": "north", "model": str(models["north"])}, poor, lost])
    result = server.ask(grid, X, **ASK)
    assert (result.answered, result.refused) == (("north",), {"south": "budget-spent"})
    (models["south"].parent / "guard.db").unlink(missing_ok=True)
    ask = Message(RecordDict(), dst_node_id=3, message_type="query.profile")
    (reply,) = grid.send_and_receive([ask], 1.0)
    assert reply.has_error()
    assert reply.error.reason == "the site failed"  # not the path, nor anything else


def test_too_few_sites_is_a_timeout(apps: tuple[Any, Any]) -> None:
    client, server = apps
    with pytest.raises(TimeoutError, match="0 of 2 sites are connected"):
        server.ask(FakeGrid(client, []), X, **{**ASK, "min_sites": 2, "timeout": 0.01})


@pytest.mark.nightly
def test_app_runs_on_a_plain_superlink(written: Path, models: dict[str, Path], tmp_path: Path) -> None:
    """Flower's own programs, started as its documentation says, in plaintext on this machine."""
    port, home = free_port(), tmp_path / "flower"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "own"\n[superlink.own]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    np.savez(tmp_path / "new.npz", X=X)
    source = str(Path(onefold.__file__).parents[1])
    scripts = sysconfig.get_path("scripts")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]),
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }

    def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "flower.log").open("ab") as log:
            command = [f"{scripts}/{program}", "--insecure", "--host", "127.0.0.1", *arguments]
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    started = [
        start("flower-superlink", "--port", str(port), "--disable-runtime-dependency-installation"),
        *(
            start(
                "flower-supernode",
                *("--superlink", f"127.0.0.1:{port}", "--port", str(free_port())),
                *("--node-config", f'site="{name}" model="{path}"'),
            )
            for name, path in models.items()
        ),
    ]
    out = tmp_path / "predictions.npz"
    settings = f'queries="{tmp_path / "new.npz"}" out="{out}" min-sites=2 timeout=300.0'
    run = [f"{scripts}/flwr", "run", str(written), "own", "--run-config", settings]
    try:
        deadline = time.monotonic() + 400
        done: Any = None
        while not is_written(out):
            assert time.monotonic() < deadline, (tmp_path / "flower.log").read_text()[-3000:]
            if done is None or done.returncode != 0:  # the SuperLink may not be up yet
                done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
            time.sleep(1)
        with np.load(out) as found:
            np.testing.assert_array_equal(found["predictions"], expected(models).predict(X))
            assert found["answered"].tolist() == list(NAMES)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(300)
