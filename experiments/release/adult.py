"""002 Fig. 6: the Adult census rows, columns scaled by declared ranges, categories one-hot.

Every repetition fits on a random part of the training rows (``--rows``) and scores on all raw test rows;
the three noises of a repetition share the part. ``--rows 0`` takes all training rows. ``--whole`` fits on all
48842 rows and scores on the same rows without noise, as the document does.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache

import numpy as np

from experiments import harness
from experiments.data import named
from experiments.harness import Outcome
from experiments.release import curves
from onefold.privacy import Box
from onefold.release import Curve, sweep

LAMS = (1e-3, 1e-1, 1e0, 1e1, 1e2, 1e4)
WHOLE_LAMS = (1e2, 1e3, 1e4)  # below, the machine of all rows is the majority class, whatever the noise
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
    data = named.load("adult", data_dir)
    names = [str(name).replace("_", "-") for name in data.feature_names]
    low, high = np.array([RANGES.get(name, (0, 1)) for name in names], dtype=float).T
    train, test = (np.clip((X - low) / (high - low), 0, 1) for X in (data.X_train, data.X_test))
    return train, data.y_train, test, data.y_test


def experiment(args: argparse.Namespace) -> Outcome:
    X, y, X_test, y_test = rows(args.data_dir)
    if args.whole:
        X = X_test = np.vstack([X, X_test])
        y = y_test = np.concatenate([y, y_test])
    size = 500 if args.quick else 0 if args.whole else args.rows
    size = size or len(X)
    measured = {"scoring": "accuracy", "X_test": X_test, "y_test": y_test, "sensitivity": Box(0, 1)}

    def one_piece(repetitions: int, seed: int) -> Curve:
        if args.whole and not args.quick:
            return sweep(X, y, WHOLE_LAMS, repetitions=repetitions, random_state=seed, **measured)
        whole = None
        for k in range(repetitions):
            rng = np.random.default_rng([seed, k])
            part = rng.permutation(len(X))[:size]
            curve = sweep(X[part], y[part], LAMS, repetitions=1, random_state=rng, **measured)
            whole = curve if whole is None else whole.joined(curve)
        assert whole is not None
        return whole

    curve = curves.in_pieces(args, f"adult {size}", one_piece)
    found = curves.outcome(
        f"Adult, {size} rows of {len(X)} per repetition, scored on {len(X_test)} raw rows", curve
    )
    if not args.whole:
        return found
    # Under names of its own: both curves are kept in one file.
    values = {f"whole, {name}": value for name, value in found.values.items()}
    return Outcome(values, found.tables, {"whole": found.details})


def main(arguments: list[str] | None = None) -> int:
    options = curves.options(__doc__)
    options.add_argument(
        "--rows", type=int, default=2000, help="number of training rows per repetition (default: 2000)"
    )
    options.add_argument("--whole", action="store_true", help="fit all rows and score on the same rows")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
