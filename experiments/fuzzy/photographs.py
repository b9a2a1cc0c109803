"""Photographs as network features: the fuzzy classifier beside its peers (stands for 003 Tables 4.2 to 4.4).

Grocery photographs of 43 classes take the place of Freiburg's (Table 4.2). Ten classes of Caltech-256, with
30 or 60 photographs of each for training and all others for testing, take that of Caltech-101 and Caltech-256
(Tables 4.3 and 4.4); there accuracy is averaged over classes. Features have mean zero and variance one over
the training rows, a class has one fuzzy set with half as many rules as rows, and noise is for an entry that
changes by at most 0.1 at epsilon 0.1 and delta 1e-6, as in the document. That promise is per entry. It covers
neither labels nor the means and variances, which come from raw rows here as they do there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from experiments.harness import Outcome, Table, main, parser, printed_in
from experiments.journal import Journal, add_resume, positive
from experiments.kahm import grocery
from experiments.kahm.contenders import SVM, Plain, Rows, contenders
from experiments.membership.domains import OFFICE, with_few_labels
from onefold import AutoencoderClassifier, WideFuzzyAutoencoder, datasets
from onefold.privacy import OptimalNoise
from onefold.privacy.calibration import classical_gaussian_sigma

EPSILON, DELTA, CHANGE = 0.1, 1e-6, 0.1
PRIVATE, GAUSSIAN, PLAIN = (
    "proposed, (0.1, 1e-6) per entry",
    "Gaussian, (0.1, 1e-6) per entry",
    "proposed, without noise",
)
# The register's name of a peer, and that among the contenders of document 000.
PEERS = {
    "1-NN": "1-NN",
    "2-NN": "2-NN",
    "4-NN": "4-NN",
    "naive Bayes": "naive Bayes",
    "decision tree": "decision tree",
    "SVM": "SVM, linear",
    "ensemble learning": "ensemble",
    "random forest": "random forest",
}
METHODS = (PRIVATE, GAUSSIAN, PLAIN, *PEERS)
# Table -> photographs per class for training; None: the division that comes with the groceries.
TABLES: dict[str, int | None] = {"Table 4.2": None, "Table 4.3": 30, "Table 4.4": 60}
QUICK_PER_CLASS = 10


@dataclass(frozen=True)
class Division:
    """Standardised rows for training and for testing."""

    X: Rows
    y: Rows
    X_test: Rows
    y_test: Rows
    by_class: bool  # accuracy averaged over classes

    def accuracy(self, predicted: Rows) -> float:
        right = predicted == self.y_test
        if not self.by_class:
            return float(right.mean())
        return float(np.mean([right[self.y_test == label].mean() for label in np.unique(self.y_test)]))


def division(table: str, args: argparse.Namespace, seed: int) -> Division:
    """Rows of one table; the groceries are divided as they come, so that their seed is that of the noise."""
    per_class = TABLES[table]
    if per_class is None:
        data = grocery.load("coarse", args)
        data = grocery.reduced(data) if args.quick else data
        X, y, X_test, y_test = data.X_train, data.y_train, data.X_test, data.y_test
    else:
        data = datasets.load(f"{OFFICE}:caltech10", args.data_dir, dtype=np.float32)
        rows, labels = np.vstack([data.X_train, data.X_test]), np.append(data.y_train, data.y_test)
        chosen = with_few_labels(labels, QUICK_PER_CLASS if args.quick else per_class, seed) >= 0
        X, y, X_test, y_test = rows[chosen], labels[chosen], rows[~chosen], labels[~chosen]
    scaler = StandardScaler().fit(X)
    return Division(scaler.transform(X), y, scaler.transform(X_test), y_test, per_class is not None)


def noisy(method: str, X: Rows, seed: int) -> Rows:
    """Training rows as a method sees them."""
    if method == PRIVATE:
        mechanism = OptimalNoise(EPSILON, delta=DELTA, sensitivity=CHANGE)
        return np.asarray(mechanism.randomise(X.astype(np.float64), random_state=seed), dtype=np.float32)
    if method == GAUSSIAN:
        sigma = classical_gaussian_sigma(EPSILON, DELTA, CHANGE)
        return np.asarray(X + np.random.default_rng(seed).normal(scale=sigma, size=X.shape), dtype=np.float32)
    return X


def judge(method: str, part: Division, seed: int) -> dict[str, Any]:
    """Fit on the training rows, then look at the test rows once."""
    if method in PEERS:
        model: Plain | SVM = contenders("[-1, 1]")[PEERS[method]]  # type: ignore[assignment]
        model.fit(part.X, part.y)
        predicted = model.classes_[model.scores(part.X_test).argmax(axis=1)]
    else:
        machine = WideFuzzyAutoencoder(20, max_rules=1000, branch_size=2000, random_state=seed)
        fuzzy = AutoencoderClassifier(machine, measure="fuzzy").fit(noisy(method, part.X, seed), part.y)
        predicted = fuzzy.predict(part.X_test)
    return {"accuracy": part.accuracy(predicted), "training": len(part.y), "test": len(part.y_test)}


def methods_of(table: str, asked: Sequence[str]) -> Iterator[str]:
    """What the document compares in a table, as far as it was asked for."""
    return (method for method in METHODS if method in printed_in("003", table) and method in asked)


def is_random(table: str, method: str) -> bool:
    """Whether another seed gives another number: everything is, but peers on a division that is given."""
    return TABLES[table] is not None or method in (PRIVATE, GAUSSIAN)


def experiment(args: argparse.Namespace) -> Outcome:
    """Every method of every table, means over seeds."""
    journal = Journal(args.resume)
    values: dict[str, float] = {}
    sizes: dict[str, int] = {}
    tables = []
    for table in args.tables:
        printed = printed_in("003", table)
        divisions: dict[int, Division] = {}
        rows: list[list[Any]] = []
        for method in methods_of(table, args.methods):
            seeds = range(1 if args.quick or not is_random(table, method) else args.seeds)
            found = [
                journal.run(
                    f"{'quick ' if args.quick else ''}{table}, {method}, seed {seed}",
                    _work(method, table, args, seed, divisions),
                )
                for seed in seeds
            ]
            accuracy = np.array([entry["accuracy"] for entry in found])
            spread = float(accuracy.std(ddof=1)) if len(found) > 1 else None
            rows.append([method, float(accuracy.mean()), spread, len(found), printed[method]])
            values[f"{table}/{method}"] = float(accuracy.mean())
            sizes |= {f"{table}, {part}": found[0][part] for part in ("training", "test")}
        headers = ("method", "accuracy", "± std", "seeds", "document, other photographs")
        tables.append(Table(f"Stand-in for 003 {table}", headers, rows))
    return Outcome(values, tables, seeds=list(range(1 if args.quick else args.seeds)), rows=sizes)


def _work(
    method: str, table: str, args: argparse.Namespace, seed: int, divisions: dict[int, Division]
) -> Callable[[], dict[str, Any]]:
    """One piece of work; the division of a seed is made once, and only if something is left to do."""

    def work() -> dict[str, Any]:
        if seed not in divisions:
            divisions[seed] = division(table, args, seed)
        return judge(method, divisions[seed], seed)

    return work


def options() -> argparse.ArgumentParser:
    """Common options, and which tables."""
    found = add_resume(parser(__doc__))
    found.add_argument(
        "--tables", nargs="+", choices=tuple(TABLES), default=list(TABLES), help="tables (default: all)"
    )
    found.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), help="methods to run (default: all)"
    )
    found.add_argument(
        "--seeds", type=positive, default=3, metavar="N", help="number of seeds per setting (default: 3)"
    )
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
