"""002 Fig. 6: the Adult census rows, columns scaled by declared ranges, categories one-hot.

Every repetition fits on a random part of the training rows (``--rows``) and scores on all raw test rows;
the three noises of a repetition share the part. ``--rows 0`` takes all training rows.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache

import numpy as np

from experiments import harness
from experiments.harness import Outcome
from experiments.release import curves
from onefold import datasets
from onefold.release import Curve, RobustSVM, sweep

LAMS = (1e-3, 1e-1, 1e0, 1e1, 1e2, 1e4)
# Declared from what the columns mean; the other columns are 0 or 1.
RANGES = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}


@cache
def rows(data_dir: str | None) -> tuple[np.ndarray, ...]:
    """Both parts with every column in [0, 1]."""
    data = datasets.load("adult", data_dir)
    names = [str(name).replace("_", "-") for name in data.feature_names]
    low, high = np.array([RANGES.get(name, (0, 1)) for name in names], dtype=float).T
    train, test = (np.clip((X - low) / (high - low), 0, 1) for X in (data.X_train, data.X_test))
    return train, data.y_train, test, data.y_test


def experiment(args: argparse.Namespace) -> Outcome:
    X, y, X_test, y_test = rows(args.data_dir)
    size = 500 if args.quick else args.rows or len(X)

    def one_piece(repetitions: int, seed: int) -> Curve:
        whole = None
        for k in range(repetitions):
            rng = np.random.default_rng([seed, k])
            part = rng.permutation(len(X))[:size]
            curve = sweep(
                X[part],
                y[part],
                LAMS,
                RobustSVM(),
                repetitions=1,
                scoring="accuracy",
                X_test=X_test,
                y_test=y_test,
                random_state=rng,
            )
            whole = curve if whole is None else whole.joined(curve)
        assert whole is not None
        return whole

    curve = curves.in_pieces(args, f"adult {size}", one_piece)
    return curves.outcome(
        f"Adult, {size} rows of {len(X)} per repetition, {len(X_test)} raw test rows", curve
    )


def main(arguments: list[str] | None = None) -> int:
    options = curves.options(__doc__)
    options.add_argument("--rows", type=int, default=2000, help="training rows per repetition (2000)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
