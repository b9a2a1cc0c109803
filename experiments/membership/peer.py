"""Domain adaptation of skada on the same photographs, in an environment of its own; it sees raw rows.

python -m experiments.membership.peer build/skada             # makes the environment (needs a package index)
python -m experiments.membership.office --peer build/skada
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

REQUIREMENTS = ("skada==0.6.0",)
METHODS = ("source only", "CORAL", "subspace alignment")

# Run by the other environment: it must not import anything of this project.
SCRIPT = """
import json, sys, warnings
import numpy as np
from sklearn.linear_model import LogisticRegression
from skada import CORALAdapter, SubspaceAlignmentAdapter, make_da_pipeline
warnings.simplefilter("ignore")
data = np.load(sys.argv[1], allow_pickle=False)
X = np.vstack([data["X_source"], data["X_target"]])
known = np.concatenate([data["y_source"], np.full(len(data["X_target"]), -1)])
domain = np.concatenate([np.full(len(data["X_source"]), 1), np.full(len(data["X_target"]), -2)])
tested = data["tested"]
def linear():
    return LogisticRegression(C=100.0, max_iter=500)
found = {"source only": linear().fit(data["X_source"], data["y_source"]).predict(data["X_target"])}
for name, adapter in (
    ("CORAL", CORALAdapter(reg=0.01)),
    ("subspace alignment", SubspaceAlignmentAdapter(n_components=20)),
):
    model = make_da_pipeline(adapter, linear()).fit(X, known, sample_domain=domain)
    found[name] = model.predict(data["X_target"], sample_domain=domain[domain < 0])
right = {name: (labels == data["y_target"])[tested] for name, labels in found.items()}
print(json.dumps({name: float(np.mean(values)) for name, values in right.items()}))
"""


def python_of(folder: str | None) -> Path | None:
    """The interpreter of the peer's environment, if there is one."""
    if folder is None:
        return None
    for place in ("bin/python", "Scripts/python.exe"):
        if (Path(folder) / place).exists():
            return Path(folder) / place
    return None


def adapted(python: Path, arrays: dict[str, NDArray[np.generic]]) -> dict[str, float]:
    """Accuracy of each method on the tested rows of the target; none of them uses the target's labels."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, **arrays)  # type: ignore[arg-type]
        command = [str(python), "-c", SCRIPT, str(data)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(answer.stdout))


def make(folder: str) -> None:
    """Create the environment."""
    venv.create(folder, with_pip=True)
    python = python_of(folder)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.membership.peer FOLDER")
    make(sys.argv[1])
