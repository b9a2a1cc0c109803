"""Digits in all three formats, and the command in this process or in one of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import onefold as package
from onefold.cli.app import main

# The very package the tests import, wherever the command is run.
SOURCE = os.pathsep.join([str(Path(package.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
Result = subprocess.CompletedProcess[str]
Command = Callable[..., Result]


@dataclass(frozen=True)
class Files:
    """The same rows three times; labels are called ``digit`` (in the NPZ file ``y``)."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    names: list[str]
    train: dict[str, Path]
    test: dict[str, Path]


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("digits")
    data = load_digits()
    rows = np.random.default_rng(0).permutation(len(data.target))[:700]
    X, y, names = data.data[rows], data.target[rows], [str(name) for name in data.feature_names]
    parts = {"train": (X[:400], y[:400]), "test": (X[400:], y[400:])}
    paths: dict[str, dict[str, Path]] = {}
    for part, (features, labels) in parts.items():
        paths[part] = {kind: folder / f"{part}.{kind}" for kind in ("csv", "npz", "parquet")}
        header = ",".join([*names, "digit"])
        table = np.column_stack([features, labels])
        np.savetxt(paths[part]["csv"], table, fmt="%g", delimiter=",", header=header, comments="")
        np.savez(paths[part]["npz"], X=features, y=labels)
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            continue
        columns = dict(zip(names, features.T, strict=True)) | {"digit": labels}
        pq.write_table(pa.table(columns), paths[part]["parquet"])
    return Files(*parts["train"], *parts["test"], names, paths["train"], paths["test"])


@pytest.fixture(scope="session")
def digits_model(digits: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the digits, fitted once for every test that only reads one."""
    path = tmp_path_factory.mktemp("model") / "digits.model"
    words = ["--label", "digit", "--raw", "--out", str(path), "--quiet"]
    assert main(["fit", str(digits.train["csv"]), *words]) == 0
    return path


@pytest.fixture
def onefold(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process, which saves the seconds of its imports; output and exit code."""

    def run(*arguments: object) -> Result:
        capsys.readouterr()  # what was said before belongs to another command
        words = [str(argument) for argument in arguments]
        code = main(words)
        return subprocess.CompletedProcess(words, code, *capsys.readouterr())

    return run


@pytest.fixture
def process() -> Command:
    """Run the command as a user does and hand back its output and exit code."""

    def run(*arguments: object, cwd: Path | None = None, **environment: str) -> Result:
        return subprocess.run(
            [sys.executable, "-m", "onefold", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": SOURCE, "OPENBLAS_NUM_THREADS": "1", **environment},
            check=False,
        )

    return run
