"""A real federation on this machine for the tests of a file: a server and three sites, TLS and node keys."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import onefold
from onefold import AutoencoderClassifier, WideKAHM

pytest.importorskip("flwr")

from onefold.cli.app import main
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.processes import free_port
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.spool import Spool
from reference.sum_network import Network

SOURCE = os.pathsep.join([str(Path(onefold.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
NAMES = ("north", "south", "west")
# Generous: other work, or a pause of the whole machine, must not fail a test.
PATIENCE = 400.0
KEYS = tempfile.TemporaryDirectory(prefix="onefold-keys-")


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.2)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "onefold", "federate", *map(str, arguments)]


def environment(modules: Path | None = None) -> dict[str, str]:
    path = SOURCE if modules is None else os.pathsep.join([str(modules), SOURCE])
    # No key of a test goes to the user's own folder, and all commands of a session find the same ones.
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "XDG_DATA_HOME": KEYS.name}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of a federation in this process: another one would load everything again."""
    words = ["federate", *map(str, arguments)]
    with (
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
        patch.dict(os.environ, environment()),
    ):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def processes_below(root: Path) -> dict[int, str]:
    """Flower's processes of any folder below ``root``, whoever started them."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = entry.read_bytes().split(b"\0")
            line = (entry.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        ours = [v for v in variables if v.startswith((b"ONEFOLD_SERVER=", b"ONEFOLD_SITE="))]
        if any(str(root).encode() in v for v in ours):
            found[int(entry.parent.name)] = line
    return found


@dataclass
class Federation:
    """Folders and running commands of one federation."""

    root: Path
    models: dict[str, LocalModel]
    test_file: Path
    X_test: np.ndarray
    y_test: np.ndarray
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def server(self) -> ServerFolder:
        return ServerFolder(self.root / "server")

    @property
    def registry(self) -> Registry:
        return Registry(self.server)

    @property
    def spool(self) -> Spool:
        return Spool(self.server.spool)

    def site(self, name: str) -> SiteFolder:
        return SiteFolder(self.root / "sites" / name)

    def run(self, *arguments: object, folder: bool = True) -> subprocess.CompletedProcess[str]:
        return run(*arguments, *(("--folder", self.server.root) if folder else ()))

    def query(self, *options: object) -> dict[str, Any]:
        """Ask about the test rows; what the command says, with its exit code."""
        done = self.run("query", self.test_file, "--label", "y", "--json", *options)
        assert done.stdout, done.stderr
        return {**json.loads(done.stdout), "code": done.returncode, "stderr": done.stderr}

    def start(self, name: str, *arguments: object, modules: Path | None = None) -> None:
        """Start the server, or a site, and leave it running; ``modules`` come before those installed."""
        what = ("server", "--folder", self.server.root)
        if name != "server":
            what = ("site", "--folder", self.site(name).root)
        with (self.root / f"{name}.out").open("ab") as output:
            self.running[name] = subprocess.Popen(
                command(*what, *arguments), stdout=output, stderr=output, env=environment(modules)
            )

    def stop(self, name: str, number: int = signal.SIGTERM) -> int:
        process = self.running.pop(name)
        process.send_signal(number)
        return process.wait(PATIENCE)

    def output(self, name: str) -> str:
        return (self.root / f"{name}.out").read_text()

    def online(self) -> set[str]:
        return set(self.spool.status() or ())

    def wait_for_members(self, *names: str) -> None:
        wait_for(lambda: set(self.registry.members) == set(names), f"members {names}")
        wait_for(lambda: set(names) <= self.online(), f"{names} online")

    def expected(self, *names: str) -> GlobalClassifier:
        """The same federation in this process."""
        classifier = GlobalClassifier()
        for name in sorted(names):
            classifier.add(name, self.models[name])
        return classifier

    def close(self) -> None:
        sites = [name for name in self.running if name != "server"]
        for name in sites:
            self.running[name].terminate()  # all at once, then wait for each
        for name in [*sites, "server"]:
            if name in self.running:
                self.stop(name)
        wait_for(lambda: not processes_below(self.root), "all processes to end")


def make_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Three blobs of which each site has two; the rows are not aligned with any grid."""
    rng = np.random.default_rng(7)
    centres = np.array([[0.2, 0.2, 0.5], [0.8, 0.3, 0.5], [0.5, 0.8, 0.4]])
    y = np.arange(390) % 3
    X = centres[y] + 0.08 * rng.standard_normal((390, 3))
    return X[:240], y[:240], X[240:], y[240:]


def make_federation(root: Path, *options: object, whom: tuple[str, ...] = ("--answer-anyone",)) -> Federation:
    """Folders, data and models; nothing runs yet. Sites answer anyone unless ``whom`` says otherwise."""
    X, y, X_test, y_test = make_data()
    port = free_port()
    made = run("init", root, "--sites", *NAMES, "--port", port, *whom, *options)
    assert made.returncode == 0, made.stderr
    models = {}
    for number, name in enumerate(NAMES):
        rows = np.flatnonzero((y != number) & (np.arange(len(y)) % 2 == number % 2))
        np.savez(root / f"{name}.npz", X=X[rows], y=y[rows])
        # What the command makes of its default options.
        estimator = AutoencoderClassifier(WideKAHM(scale="auto", random_state=0))
        models[name] = LocalModel(estimator, keep_rows=False).fit(X[rows], y[rows])
    np.savez(root / "test.npz", X=X_test, y=y_test)
    return Federation(root, models, root / "test.npz", X_test, y_test)


@pytest.fixture(scope="session", name="wait_for")
def _wait_for() -> Callable[..., None]:
    return wait_for


@pytest.fixture(scope="session", name="processes_below")
def _processes_below() -> Callable[[Path], dict[int, str]]:
    return processes_below


@pytest.fixture(scope="session", name="make_federation")
def _make_federation() -> Callable[..., Federation]:
    return make_federation


@pytest.fixture(scope="module")  # it costs time as long as it runs
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A running federation with three members."""
    made = make_federation(tmp_path_factory.mktemp("federation") / "f")
    try:
        made.start("server")
        for name in NAMES:
            fit = ("--data", made.root / f"{name}.npz", "--label", "y", "--per-minute", 1_000_000)
            made.start(name, *fit)
        made.wait_for_members(*NAMES)
        yield made
    finally:
        made.close()


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A server and sites for encrypted sums, in this process."""
    made = Network(tmp_path, monkeypatch)
    yield made
    made.close()
