"""Ordinary tables: accuracy beside peers, private synthetic tables, and what both cost.

The first rows are no ratios but accuracies, held against the goals for these tables; the scripts behind them
are in ``experiments/tables``.
"""

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC

from benchmarks.data import FULL, QUICK, Sizes
from benchmarks.timing import Row, best, peak_above
from experiments.tables import accuracy, synthesis
from experiments.tables.data import NEEDS_FILES, TABLES
from onefold import AutoencoderClassifier
from onefold.exceptions import InvalidInputError
from onefold.fabrication import TableSynthesizer
from onefold.tables import Field, Schema

SPLITS = 3
TRAINING_ROWS = 2500
ACCURACY_GOALS = {
    "Adult": 0.838,
    "Lending 07-10": 0.885,
    "Lending openintro": 0.695,
    "wine": 0.95,
    "cancer": 0.955,
}
AUC_GOALS = {("Adult", 1.0): 0.885}


def rows(sizes: Sizes) -> list[Row]:
    """Accuracy, private accuracy, times, and a large table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*accuracies(sizes), *private(sizes), *times(sizes), large(sizes)]


def _there(sizes: Sizes) -> list[str]:
    """The tables that can be had here, small ones only for a quick look."""
    found = []
    for name in TABLES:
        if sizes is QUICK and name in NEEDS_FILES:
            continue
        try:
            TABLES[name](os.environ.get("ONEFOLD_DATA"))
        except InvalidInputError:
            continue
        found.append(name)
    return found


def accuracies(sizes: Sizes) -> list[Row]:
    """Default classifier on every table, mean of three splits, and the distance to the better peer."""
    found, gaps = [], {}
    for name in _there(sizes):
        table = TABLES[name](os.environ.get("ONEFOLD_DATA"))
        splits = [
            accuracy.scores(table, seed, TRAINING_ROWS) for seed in range(1 if sizes is QUICK else SPLITS)
        ]
        mean = {method: float(np.mean([each[method] for each in splits])) for method in accuracy.METHODS}
        gaps[name] = 100 * (max(mean["SVC"], mean["boosting"]) - mean["onefold"])
        goal = f">= {ACCURACY_GOALS[name]}" if name in ACCURACY_GOALS and sizes is not QUICK else None
        found.append(Row(f"{name}: accuracy", mean["onefold"], goal, mean))
    goals = (None, None) if sizes is QUICK else ("<= 2", "<= 6")
    found.append(
        Row("mean distance to the better peer, points", float(np.mean([*gaps.values()])), goals[0], gaps)
    )
    found.append(Row("largest distance to the better peer, points", max(gaps.values()), goals[1], gaps))
    return found


def private(sizes: Sizes) -> list[Row]:
    """AUC of boosting that is trained on a private synthetic table."""
    names = [name for name in synthesis.NAMES if name in _there(sizes)]
    found = []
    for name in names:
        table = TABLES[name](os.environ.get("ONEFOLD_DATA"))
        for epsilon in (1.0,) if sizes is QUICK else synthesis.EPSILONS:
            measured = synthesis.one(table, epsilon, 1, 40_000)
            goal = f">= {AUC_GOALS[name, epsilon]}" if (name, epsilon) in AUC_GOALS else None
            found.append(Row(f"{name}: AUC, epsilon {epsilon:g}", measured["boosting AUC"], goal, measured))
    return found


def times(sizes: Sizes) -> list[Row]:
    """Fitting and asking, against boosting and SVC on the same encoded rows."""
    n_rows = 500 if sizes is QUICK else 10_000
    X, y = generated(n_rows, 12)
    schema = Schema([*(Field(f"x{place}", low=-5, high=5) for place in range(12))])
    columns = {f"x{place}": X[:, place] for place in range(12)}
    ours = best(lambda: AutoencoderClassifier(schema=schema).fit(columns, y), 1)
    peers: dict[str, Callable[[], Any]] = {
        "boosting": lambda: HistGradientBoostingClassifier().fit(X, y),
        "SVC": lambda: SVC().fit(X, y),
    }
    theirs = {name: best(fit, 1) for name, fit in peers.items()}
    details = {"seconds": ours, **theirs}
    return [Row(f"fit {n_rows} rows: time / {name}", ours / theirs[name], None, details) for name in peers]


def generated(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with a rule on the first three of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)


def large(sizes: Sizes) -> Row:
    """Synthesize a table of many rows and columns: time per cell against a small one, and memory."""
    n_rows, n_columns = (2000, 10) if sizes is QUICK else (1_000_000, 60) if sizes is FULL else (100_000, 30)
    X, y = generated(n_rows, n_columns)
    fields = [Field(f"x{place}", low=-5, high=5) for place in range(n_columns)]
    schema = Schema([*fields, Field("y", "integer", role="label", levels=(0, 1))], rows_about=n_rows)
    columns = {f"x{place}": X[:, place] for place in range(n_columns)} | {"y": y}

    def synthesize() -> object:
        return TableSynthesizer(schema, 1.0).fit(columns).sample()

    _, seconds, memory = peak_above(synthesize)
    details = {"seconds": seconds, "peak_bytes": memory, "rows": n_rows, "columns": n_columns}
    return Row(f"synthesize {n_rows} x {n_columns}: peak memory / table", memory / X.nbytes, None, details)
