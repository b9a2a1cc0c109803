"""Constants of private sums of pairs, chosen on training rows alone.

A private regression has four constants that no data owner should have to think about: which share of the
squared length of a pair its output gets, which share of the privacy budget the sums get (the products get
most of the rest), how far eigenvalues must lie apart before that is believed, and how far from the middle of
its range the mean of the outputs is expected to be. Here they are compared on
generated rows and on rows of the pools of training rows of :mod:`experiments.tables.regression`, which no
test row is in: part of them is fitted, the others are predicted. Every table is fitted twice, to few rows and
to many. The error is in units of that of the mean, averaged over tables, numbers of rows, splits, epsilons
and draws of the noise. All candidates get the same noise.

The share of the output is part of the format of files and messages: others are measured, so that a reader
sees what they would gain, and the other constants are chosen beside the one of the format.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from unittest.mock import patch

import numpy as np

from experiments import harness
from experiments.harness import Outcome, Table
from experiments.tables.data import GRANTED, Rows
from experiments.tables.regression import BUNDLED, TABLES, pools
from experiments.tables.small_regression import generated_pairs
from onefold import MomentRegressor
from onefold.fabrication import maps, moment_regressor
from onefold.models import ridge
from onefold.tables import Schema

OUTPUT_SHARES = (0.1, 0.3, 0.5, 0.7)
SUM_SHARES = (0.1, 0.28, 0.45)
DOUBTS = (1.0, 4.0, 16.0)
MIDDLES = (1.0 / 12.0, 1.0 / 6.0, 1.0 / 3.0)
EPSILONS = (1.0, 8.0)
COUNT_SHARE, CENTRE_SHARE = 0.02, 0.05  # the second is part of the format and gets nothing: none is released
FITTED = 0.7  # share of the training rows that are fitted; the others are predicted
FEW = 200  # fitted rows of the tables that are made small
COLUMNS = (5, 30)  # of the generated tables
Constants = tuple[float, float, float, float]  # share of the output, share of the sums, doubt, middle


def generated(width: int) -> Rows:
    """Correlated columns that explain half of the variance."""
    X, y = generated_pairs("normal", width, 0.5, 5000, np.random.default_rng(width))
    return Rows(f"{width} columns", {f"x{k}": X[:, k] for k in range(width)} | {"y": y}, "y")


def used() -> Constants:
    """The constants that the package has."""
    return maps.OUTPUT_SHARE, moment_regressor.SHARES[2], ridge.DOUBT, ridge.MIDDLE


def inner_split(table: Rows, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to predict, all from the pool of training rows."""
    pool = np.random.default_rng(seed).permutation(pools(table)[0])
    n_fitted = round(FITTED * len(pool))
    return pool[:n_fitted][:most], pool[n_fitted:][:most]


def relative_error(table: Rows, constants: Constants, seed: int, most: int, draws: int) -> float:
    """Root mean squared error in units of that of the mean, averaged over epsilons and draws."""
    fitted, predicted = inner_split(table, seed, most)
    rows, queries = table.part(fitted), table.part(predicted)
    y, truth = (np.asarray(table.y[part], dtype=float) for part in (fitted, predicted))
    schema = Schema.infer(rows, table.label, task="regression").confirm(ground=GRANTED, by="experiments")
    alone = np.sqrt(np.mean((y.mean() - truth) ** 2))
    of_output, of_sums, doubt, middle = constants
    shares = (CENTRE_SHARE, COUNT_SHARE, of_sums, 1.0 - COUNT_SHARE - of_sums)
    with (
        patch.object(maps, "OUTPUT_SHARE", of_output),
        patch.object(moment_regressor, "SHARES", shares),
        patch.object(ridge, "DOUBT", doubt),
        patch.object(ridge, "MIDDLE", middle),
    ):
        found = [
            MomentRegressor(epsilon, schema=schema, random_state=draw).fit(rows).predict(queries)
            for epsilon in EPSILONS
            for draw in range(draws)
        ]
    return float(np.mean([np.sqrt(np.mean((each - truth) ** 2)) for each in found]) / alone)


def experiment(args: argparse.Namespace) -> Outcome:
    names = BUNDLED if args.quick else tuple(TABLES)
    splits, draws, most = (1, 1, 300) if args.quick else (args.splits, args.draws, args.rows)
    tables = [TABLES[name](args.data_dir) for name in names] + [generated(width) for width in COLUMNS]
    pools_of = [(table, size) for size in (FEW, most) for table in tables]
    found: dict[Constants, np.ndarray] = {}

    def measure(constants: Constants) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[constants] = np.array(
                [
                    [relative_error(table, constants, seed, size, draws) for seed in range(splits)]
                    for table, size in pools_of
                ]
            )

    def best_of_format() -> Constants:
        same = [each for each in found if each[0] == maps.OUTPUT_SHARE]
        return min(same, key=lambda each: found[each].mean())

    # First the two shares together, then the others beside the best share of the sums.
    for of_output, of_sums in itertools.product(OUTPUT_SHARES, SUM_SHARES):
        measure(constants := (of_output, of_sums, *used()[2:]))
        harness.note(f"{of_output:g} {of_sums:g}: {found[constants].mean():.4f}")
    best = best_of_format()
    for doubt, middle in itertools.product(DOUBTS, MIDDLES):
        if (constants := (*best[:2], doubt, middle)) not in found:
            measure(constants)
    if used() not in found:
        measure(used())
    best = best_of_format()
    any_share = min(found, key=lambda each: found[each].mean())
    values = {
        "output share": best[0],
        "share of the sums": best[1],
        "doubt": best[2],
        "middle": best[3],
        "error of the chosen": float(found[best].mean()),
        "best output share": any_share[0],
        "error of the best output share": float(found[any_share].mean()),
        "error of those in the package": float(found[used()].mean()),
        f"error of the chosen, {FEW} rows": float(found[best][: len(tables)].mean()),
    }
    lines = [
        [
            *(f"{each:.3g}" for each in constants),
            *(f"{value:.4f}" for value in errors.mean(axis=1)),
            f"{errors.mean():.4f}",
        ]
        for constants, errors in sorted(found.items())
    ]
    title = f"error of private sums in units of that of the mean, on training rows, mean of {splits} splits"
    columns = [f"{table.name}, {FEW}" for table in tables] + [table.name for table in tables]
    headers = ["output share", "sums", "doubt", "middle", *columns, "mean"]
    return Outcome(values, [Table(title, headers, lines, 4)], seeds=range(splits))


def main(arguments: list[str] | None = None) -> int:
    options = harness.parser(__doc__)
    options.add_argument(
        "--rows", type=int, default=3000, help="largest number of fitted rows (default: 3000)"
    )
    options.add_argument("--splits", type=int, default=2, help="number of inner splits (default: 2)")
    options.add_argument("--draws", type=int, default=2, help="draws of the noise (default: 2)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
