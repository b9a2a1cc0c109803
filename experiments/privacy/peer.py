"""Logistic regression of diffprivlib, in an environment of its own because it needs an older scikit-learn.

python -m experiments.privacy.peer build/peer      # makes the environment (needs a package index)
python -m experiments.privacy.record_level --peer build/peer
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments import other_environment
from experiments.other_environment import answer_of

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


def logistic_regression(
    python: Path, arrays: dict[str, NDArray[np.generic]], epsilon: float, seeds: list[int]
) -> list[tuple[float, float]]:
    """Accuracy and seconds for each seed."""
    found = answer_of(python, SCRIPT, arrays, str(epsilon), json.dumps(seeds))
    return [(float(accuracy), float(seconds)) for accuracy, seconds in found]


if __name__ == "__main__":
    other_environment.main("experiments.privacy.peer", REQUIREMENTS)
