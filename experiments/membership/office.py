"""001 Tables 4-15: photographs of ten things from four collections, three labels per class in the target.

Each pair is measured with and without noise on the source's rows, beside a linear support vector machine on
the labelled rows of the target alone. The rows without a label are those that are tested.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from experiments import harness
from experiments.harness import Outcome, Table, parser, printed_in
from experiments.journal import Journal, add_resume, positive
from experiments.membership import domains, peer
from experiments.membership.measuring import transfer
from experiments.other_environment import python_of
from onefold import WideMembershipAutoencoder
from onefold.privacy import OptimalNoise
from onefold.transfer import PrivateSource

DELTA = 1e-5
PAIRS = tuple(permutations(domains.SOURCE_ROWS, 2))
METHODS = ("default none", "default 0.1", "documented 0.1", "documented none")
LEARNED = "default none"  # the run whose experts are shown alone


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
    chosen = _chosen(y, pair, seed)
    noise = None if epsilon == "none" else OptimalNoise(float(epsilon), DELTA, sensitivity=1.0)
    machine = WideMembershipAutoencoder(random_state=0)
    source = PrivateSource.fit(X[chosen], y[chosen], noise, estimator=machine, random_state=seed)
    X, y = domains.photographs(pair[1], args.data_dir)
    seen = domains.with_few_labels(y, domains.TARGET_LABELS, seed)
    free = seen < 0
    return transfer(source, strategy, X, seen, X[free], y[free])


def experiment(args: argparse.Namespace) -> Outcome:
    journal, python = Journal(args.resume), python_of(args.peer)
    seeds = range(1 if args.quick else args.seeds)
    pairs = PAIRS[:1] if args.quick else PAIRS
    found = {pair: measure(journal, python, pair, args, seeds) for pair in pairs}
    printed = {pair: _printed(number) for number, pair in enumerate(PAIRS, 4)}
    shown = list(found[pairs[0]])
    rows: list[list[object]] = [
        [_name(pair), *(_cell(scores) for scores in found[pair].values()), *printed[pair]] for pair in pairs
    ]
    values = {f"{_name(pair)} {name}": float(np.mean(found[pair][name])) for pair in pairs for name in shown}
    for name in shown:
        values[f"mean {name}"] = float(np.mean([values[f"{_name(pair)} {name}"] for pair in pairs]))
    document = np.mean([printed[pair] for pair in pairs], axis=0).round(1).tolist()
    rows.append(["mean", *(f"{100 * values[f'mean {name}']:.1f}" for name in shown), *document])
    headers = ("pair", *shown, "document, SVM", "document, epsilon 0.1")
    title = f"Office and Caltech, {len(seeds)} seeds, accuracy in %; epsilon per entry of a row, delta 1e-5"
    return Outcome(values, [Table(title, headers, rows)])


def _printed(number: int) -> list[float]:
    """The document's two numbers in percent: the SVM of labelled target rows, and the proposed method."""
    numbers = printed_in("001", f"Table {number}")
    rows = ("SVM on the labelled target rows, VGG-FC6", "proposed, epsilon 0.1 per entry, VGG-FC6")
    return [round(100 * numbers[row], 1) for row in rows]


def measure(
    journal: Journal, python: Path | None, pair: tuple[str, str], args: argparse.Namespace, seeds: range
) -> dict[str, list[float]]:
    """Accuracies of every method for one pair, by seed."""
    found = {"SVM": [_svm(journal, pair[1], args, seed)["accuracy"] for seed in seeds]}
    for method in args.methods:
        runs = [
            journal.run(
                f"office {_name(pair)} {method} seed {seed}",
                lambda method=method, seed=seed: run(pair, method, args, seed),  # type: ignore[misc]
            )
            for seed in seeds
        ]
        if method == LEARNED:
            found |= {name: [entry[name] for entry in runs] for name in ("target alone", "source alone")}
        found[method] = [entry["accuracy"] for entry in runs]
    if python is not None:
        runs = [
            journal.run(f"office {_name(pair)} skada seed {seed}", partial(_skada, python, pair, args, seed))
            for seed in seeds
        ]
        found |= {f"skada, {name}": [entry[name] for entry in runs] for name in peer.METHODS}
    return found


def _skada(python: Path, pair: tuple[str, str], args: argparse.Namespace, seed: int) -> dict[str, Any]:
    (X, y), (Z, z) = (domains.photographs(name, args.data_dir) for name in pair)
    chosen = _chosen(y, pair, seed)
    tested = domains.with_few_labels(z, domains.TARGET_LABELS, seed) < 0
    arrays = {"X_source": X[chosen], "y_source": y[chosen], "X_target": Z, "y_target": z, "tested": tested}
    return dict(peer.adapted(python, arrays))


def _chosen(y: domains.Rows, pair: tuple[str, str], seed: int) -> domains.Rows:
    """Rows of the source that are used."""
    return domains.with_few_labels(y, domains.SOURCE_ROWS[pair[0]], seed + 1000) >= 0


def _name(pair: tuple[str, str]) -> str:
    return " to ".join(pair)


def _svm(journal: Journal, target: str, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    return journal.run(f"office {target} SVM seed {seed}", lambda: svm(target, args, seed))


def _cell(scores: list[float]) -> str:
    values = 100.0 * np.array(scores)
    spread = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{spread}"


def main(arguments: list[str] | None = None) -> int:
    options = add_resume(parser(__doc__))
    options.add_argument(
        "--seeds", type=positive, default=5, help="number of runs per pair of domains (default: 5)"
    )
    options.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), help="methods to run (default: all)"
    )
    options.add_argument(
        "--peer", metavar="FOLDER", help="environment with skada, made by experiments.membership.peer"
    )
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
