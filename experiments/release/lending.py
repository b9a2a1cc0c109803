"""002 Fig. 7: interest rates of Lending Club loans by linear regression without an intercept, sigma = 1e-5.

The fitness is the document's loss on the raw rows; scores are its negative, so that more is better. The
890000 loans of the document were not available; 10000 loans of the same platform take their place.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from experiments import harness
from experiments.harness import Outcome
from experiments.release import curves
from onefold.exceptions import InvalidInputError
from onefold.release import Curve, sweep

LAMS = (1e-4, 1e-2, 1e0, 1e2, 1e4, 1e6)
SIGMA = 1e-5
# The identifier-like job title, the target, and what is known only after the loan was granted.
LEFT_OUT = {"emp_title", "interest_rate", "balance", "loan_status", "issue_month"}


@cache
def rows(data_dir: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Columns without gaps scaled to [0, 1], texts as whole numbers as in the document, and the rate."""
    folder = data_dir or os.environ.get("ONEFOLD_DATA")
    path = Path(folder or "", "lending_club_openintro.npz")
    if folder is None or not path.is_file():
        raise InvalidInputError("lending_club_openintro.npz not found: set ONEFOLD_DATA or --data-dir")
    with np.load(path, allow_pickle=False) as file:
        columns = {str(name): file[f"c_{name}"] for name in file["columns"]}
    chosen = []
    for name, values in columns.items():
        if name in LEFT_OUT or name.startswith("paid"):
            continue
        numbers = np.unique(values, return_inverse=True)[1] if values.dtype.kind == "U" else values
        numbers = np.asarray(numbers, dtype=float)
        if np.isfinite(numbers).all() and np.ptp(numbers) > 0:
            chosen.append((numbers - numbers.min()) / np.ptp(numbers))
    return np.column_stack(chosen), columns["interest_rate"].astype(float)


def negative_loss(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """-(sigma |phi|^2 + mean squared error)."""
    return -float(SIGMA * model.coef_ @ model.coef_ + np.mean((y - model.predict(X)) ** 2))


def experiment(args: argparse.Namespace) -> Outcome:
    X, y = rows(args.data_dir)

    def one_piece(repetitions: int, seed: int) -> Curve:
        model = Ridge(alpha=SIGMA * len(X), fit_intercept=False)
        options = {"repetitions": repetitions, "random_state": seed, "scoring": negative_loss}
        return sweep(X, y, LAMS, model, sensitivity=1.0, **options)

    curve = curves.in_pieces(args, "lending", one_piece)
    return curves.outcome(f"Lending Club, {len(X)} loans, {X.shape[1]} columns in [0, 1]; -loss", curve)


def main(arguments: list[str] | None = None) -> int:
    return harness.main(__file__, curves.options(__doc__), experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
