"""001 Tables 4-15: photographs of ten things from four collections, three labels per class in the target.

Each pair is measured with and without noise on the source's rows, beside a linear support vector machine on
the labelled rows of the target alone. The rows without a label are those that are tested.
"""

from __future__ import annotations

import argparse
import sys
from itertools import permutations
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from experiments import harness
from experiments.harness import Outcome, Table, documented, parser
from experiments.journal import Journal, add_resume, positive
from experiments.membership import domains
from experiments.membership.measuring import transfer
from onefold import WideMembershipAutoencoder
from onefold.privacy import OptimalNoise
from onefold.transfer import PrivateSource

DELTA = 1e-5
PAIRS = tuple(permutations(domains.SOURCE_ROWS, 2))
METHODS = ("documented 0.1", "default 0.1", "documented none", "default none")
SHOWN = ("SVM", "target alone", *METHODS, "source alone none")


def svm(target: str, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """A linear machine on the labelled rows alone."""
    X, y = domains.photographs(target, args.data_dir)
    seen = domains.with_few_labels(y, domains.TARGET_LABELS, seed)
    known = seen >= 0
    machine = LinearSVC(random_state=0).fit(X[known], y[known])
    return {"accuracy": float(np.mean(machine.predict(X[~known]) == y[~known]))}


def run(pair: tuple[str, str], method: str, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One seed of one pair: other rows of the source, other labels, other noise."""
    strategy, epsilon = method.split(" ")
    X, y = domains.photographs(pair[0], args.data_dir)
    chosen = domains.with_few_labels(y, domains.SOURCE_ROWS[pair[0]], seed + 1000) >= 0
    noise = None if epsilon == "none" else OptimalNoise(float(epsilon), DELTA)
    machine = WideMembershipAutoencoder(random_state=0)
    source = PrivateSource.fit(X[chosen], y[chosen], noise, estimator=machine, random_state=seed)
    X, y = domains.photographs(pair[1], args.data_dir)
    seen = domains.with_few_labels(y, domains.TARGET_LABELS, seed)
    free = seen < 0
    return transfer(source, strategy, X, seen, X[free], y[free])


def experiment(args: argparse.Namespace) -> Outcome:
    journal = Journal(args.resume)
    seeds = range(1 if args.quick else args.seeds)
    pairs = PAIRS[:1] if args.quick else PAIRS
    printed = documented(__file__, "office")
    rows: list[list[object]] = []
    values: dict[str, float] = {}
    for pair in pairs:
        name = " to ".join(pair)
        found = {"SVM": [_svm(journal, pair[1], args, seed)["accuracy"] for seed in seeds]}
        for method in METHODS:
            runs = [
                journal.run(
                    f"office {name} {method} seed {seed}",
                    lambda pair=pair, method=method, seed=seed: run(pair, method, args, seed),  # type: ignore[misc]
                )
                for seed in seeds
            ]
            found[method] = [entry["accuracy"] for entry in runs]
            if method == "default none":
                found["target alone"] = [entry["target alone"] for entry in runs]
                found["source alone none"] = [entry["source alone"] for entry in runs]
        rows.append([name, *(_cell(found[column]) for column in SHOWN), *printed[name]])
        values |= {f"{name} {column}": float(np.mean(found[column])) for column in SHOWN}
    for column in SHOWN:
        values[f"mean {column}"] = float(np.mean([values[f"{' to '.join(p)} {column}"] for p in pairs]))
    average = [f"{100 * values[f'mean {column}']:.2f}" for column in SHOWN]
    document = np.mean([printed[" to ".join(pair)] for pair in pairs], axis=0).round(1).tolist()
    rows.append(["mean", *average, *document])
    headers = ("pair", *SHOWN, "document, SVM", "document, epsilon 0.1")
    title = f"Office and Caltech, {len(seeds)} seeds, accuracy in %; epsilon per entry of a row, delta 1e-5"
    return Outcome(values, [Table(title, headers, rows)])


def _svm(journal: Journal, target: str, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    return journal.run(f"office {target} SVM seed {seed}", lambda: svm(target, args, seed))


def _cell(scores: list[float]) -> str:
    values = 100.0 * np.array(scores)
    spread = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{spread}"


def main(arguments: list[str] | None = None) -> int:
    options = add_resume(parser(__doc__))
    options.add_argument("--seeds", type=positive, default=5, help="runs per pair (5)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
