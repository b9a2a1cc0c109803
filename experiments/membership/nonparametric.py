"""003 Sec. 3, nonparametric deep transfer: does it win where the target has many labels?

The document describes the method in words, without numbers. Photographs of two collections, and digits of
scikit-learn moved by one pixel and turned into their negatives, each with twenty labels per class in the
target. The source has twenty raw rows per class (five hundred digits), without noise: nothing here is
private. Beside the strategy "nonparametric" stand the same machines on the target alone, the default
strategy, and a linear support vector machine that sees only the labelled rows of the target.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from experiments import harness
from experiments.harness import Outcome, Table, parser
from experiments.journal import Journal, add_resume, positive
from experiments.membership import domains
from experiments.membership.domains import Rows
from experiments.membership.measuring import transfer
from onefold import WideMembershipAutoencoder
from onefold.transfer import PrivateSource

LABELS = 20
DIGITS = "digits to moved negatives"
PAIRS = ("amazon to caltech10", DIGITS)
METHODS = ("nonparametric", "target alone", "source alone", "default", "linear SVM on the labels")
Part = tuple[Rows, Rows]


def parts(pair: str, args: argparse.Namespace, seed: int) -> tuple[Part, Part]:
    """Rows and labels of source and target."""
    if pair == DIGITS:
        return digits(seed)
    name, _, target = pair.partition(" to ")
    X, y = domains.photographs(name, args.data_dir)
    chosen = domains.with_few_labels(y, LABELS, seed + 1000) >= 0
    return (X[chosen], y[chosen]), domains.photographs(target, args.data_dir)


def digits(seed: int) -> tuple[Part, Part]:
    """Five hundred digits, and the others one pixel further right, white and black exchanged."""
    data = load_digits()
    order = np.random.default_rng([3, seed]).permutation(len(data.target))
    own, others = order[:500], order[500:]
    moved = 1.0 - np.roll(data.images[others] / 16.0, 1, axis=2)
    return (data.data[own] / 16.0, data.target[own]), (moved.reshape(len(others), -1), data.target[others])


def run(pair: str, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """All methods on one draw of rows and labels; rows without a label are tested."""
    source_part, (X, y) = parts(pair, args, seed)
    seen = domains.with_few_labels(y, LABELS, seed)
    known = seen >= 0
    source = PrivateSource.fit(
        *source_part, None, estimator=WideMembershipAutoencoder(random_state=0), random_state=seed
    )
    found = {}
    for strategy in ("nonparametric", "default"):
        scores = transfer(source, strategy, X, seen, X[~known], y[~known])
        found[strategy] = scores["accuracy"]
        if strategy == "nonparametric":
            found |= {side: scores[side] for side in ("target alone", "source alone")}
    machine = LinearSVC(random_state=0).fit(X[known], y[known])
    found["linear SVM on the labels"] = float(np.mean(machine.predict(X[~known]) == y[~known]))
    return {**found, "tested": int(np.sum(~known))}


def experiment(args: argparse.Namespace) -> Outcome:
    journal = Journal(args.resume)
    seeds = range(1 if args.quick else args.seeds)
    values: dict[str, float] = {}
    rows: list[list[object]] = []
    sizes = {}
    for pair in (DIGITS,) if args.quick else args.pairs:
        found = [
            journal.run(f"NDT {pair}, {LABELS} labels, seed {seed}", partial(run, pair, args, seed))
            for seed in seeds
        ]
        cells = []
        for method in METHODS:
            accuracy = np.array([entry[method] for entry in found])
            values[f"{pair}/{method}"] = float(accuracy.mean())
            spread = f" ± {100 * accuracy.std(ddof=1):.1f}" if len(found) > 1 else ""
            cells.append(f"{100 * accuracy.mean():.1f}{spread}")
        rows.append([pair, *cells])
        sizes[f"{pair}, tested"] = found[0]["tested"]
    title = f"Nonparametric transfer, {LABELS} labels per class in the target, accuracy in %"
    return Outcome(values, [Table(title, ("pair", *METHODS), rows)], seeds=list(seeds), rows=sizes)


def main(arguments: list[str] | None = None) -> int:
    options = add_resume(parser(__doc__))
    options.add_argument("--seeds", type=positive, default=3, help="number of runs per pair (default: 3)")
    options.add_argument(
        "--pairs", nargs="+", choices=PAIRS, default=list(PAIRS), help="pairs to run (default: all)"
    )
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
