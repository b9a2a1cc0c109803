"""Domain adaptation of skada on the same photographs, in an environment of its own; it sees raw rows.

python -m experiments.membership.peer build/skada             # makes the environment (needs a package index)
python -m experiments.membership.office --peer build/skada
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments import other_environment
from experiments.other_environment import answer_of

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


def adapted(python: Path, arrays: dict[str, NDArray[np.generic]]) -> dict[str, float]:
    """Accuracy of each method on the tested rows of the target; none of them uses the target's labels."""
    return dict(answer_of(python, SCRIPT, arrays))


if __name__ == "__main__":
    other_environment.main("experiments.membership.peer", REQUIREMENTS)
