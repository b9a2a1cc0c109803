"""Peers that need other packages than this project: an environment of their own runs a script for them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import MissingDependencyError


def python_of(folder: str | None) -> Path | None:
    """The interpreter of an environment, if there is one."""
    if folder is None:
        return None
    for place in ("bin/python", "Scripts/python.exe"):
        if (Path(folder) / place).exists():
            return Path(folder) / place
    return None


def answer_of(python: Path, script: str, arrays: dict[str, NDArray[np.generic]], *arguments: str) -> Any:
    """What a script prints as JSON; its arguments are a file with the arrays, then those given here."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, **arrays)  # type: ignore[arg-type]
        command = [str(python), "-c", script, str(data), *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        last = (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
        raise MissingDependencyError(f"the peer did not run in its environment ({python}): {last}")
    return json.loads(answer.stdout)


def main(module: str, requirements: Sequence[str]) -> None:
    """Create the environment in the folder that the command line names."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {module} FOLDER")
    venv.create(sys.argv[1], with_pip=True)
    python = python_of(sys.argv[1])
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
