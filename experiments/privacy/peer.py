"""Logistic regression of diffprivlib, in an environment of its own because it needs an older scikit-learn.

python -m experiments.privacy.peer build/peer      # makes the environment (needs a package index)
python -m experiments.privacy.record_level --peer build/peer
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

REQUIREMENTS = ("diffprivlib==0.6.6", "scikit-learn>=1.7,<1.8")

# Run by the other environment: it must not import anything of this project.
SCRIPT = """
import json, sys, time, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
data = np.load(sys.argv[1], allow_pickle=False)
found = []
for seed in json.loads(sys.argv[3]):
    model = LogisticRegression(epsilon=float(sys.argv[2]), data_norm=1.0, max_iter=200, random_state=seed)
    start = time.perf_counter()
    model.fit(data["X"], data["y"])
    seconds = time.perf_counter() - start
    found.append([float(np.mean(model.predict(data["X_test"]) == data["y_test"])), seconds])
print(json.dumps(found))
"""


def python_of(folder: str | None) -> Path | None:
    """The interpreter of the peer's environment, if there is one."""
    if folder is None:
        return None
    for place in ("bin/python", "Scripts/python.exe"):
        if (Path(folder) / place).exists():
            return Path(folder) / place
    return None


def logistic_regression(
    python: Path, arrays: dict[str, NDArray[np.generic]], epsilon: float, seeds: list[int]
) -> list[tuple[float, float]]:
    """Accuracy and seconds for each seed."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, **arrays)  # type: ignore[arg-type]
        command = [str(python), "-c", SCRIPT, str(data), str(epsilon), json.dumps(seeds)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(float(accuracy), float(seconds)) for accuracy, seconds in json.loads(answer.stdout)]


def make(folder: str) -> None:
    """Create the environment."""
    venv.create(folder, with_pip=True)
    python = python_of(folder)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.privacy.peer FOLDER")
    make(sys.argv[1])
