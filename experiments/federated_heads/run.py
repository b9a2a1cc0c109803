"""Accuracy of one-round federations beside their peers, paired over the same splits at 10 and 100 sites.

Test rows are looked at once: every choice (penalty, preparation, learning rate) is made on training rows.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments import harness
from experiments.federated_heads import ours, peers, summary
from experiments.federated_heads.data import BUNDLED, SOURCES, Task, read
from experiments.harness import Outcome
from experiments.journal import Journal, add_resume, positive

Cell = dict[str, Any]
GROUPS = ("closed", "trained", "ours")


def parts_of(task: Task, n_sites: int) -> list[peers.Part]:
    """Rows and labels of every site."""
    X, y = task.X, task.y
    return [(X[rows], y[rows]) for rows in task.sites(n_sites)]


def judged(task: Task, fit: Callable[[], peers.Fitted]) -> Cell:
    """Accuracy on the queries, bytes a site sends once, and processor seconds to fit and per query."""
    start = time.process_time()
    head = fit()
    fitted = time.process_time()
    right = float(np.mean(head.predict(task.X_test) == task.y_test))
    query = (time.process_time() - fitted) / len(task.test)
    return {
        "accuracy": right,
        "bytes": head.up,
        "query_bytes": 0.0,  # the head is public: whoever asks needs nobody
        "fit": fitted - start,
        "query_ms": 1e3 * query,
        "rounds": head.rounds,
        "chosen": head.chosen,
    }


def closed_cells(journal: Journal, task: Task, key: str) -> dict[str, Cell]:
    """Heads that are the same however rows are spread: judged once per split."""
    parts, n = parts_of(task, 10), len(task.classes)
    methods = dict(peers.CLOSED)
    if task.source.kind == "table":
        methods["boosting, rows pooled"] = peers.boosting
    return {
        name: journal.run(f"{key} {name}", lambda f=fit: judged(task, lambda: f(parts, n, task.seed)))
        for name, fit in methods.items()
    }


class Trained:
    """Heads with settings that are chosen at the first split and kept for the others."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}

    def cells(self, journal: Journal, task: Task, n_sites: int, key: str) -> dict[str, Cell]:
        """FedPFT and FedAvg; an entry of the journal keeps its setting."""
        parts, n = parts_of(task, n_sites), len(task.classes)
        found = {}
        for name, fit in (("FedPFT", peers.sampled), ("FedAvg, 50 rounds", peers.averaged)):

            def run(name: str = name, fit: Callable[..., Any] = fit) -> peers.Fitted:
                place = f"{task.source.name} {n_sites} {name}"
                head, self.settings[place] = fit(parts, n, task.seed, self.settings.get(place))
                return head

            found[name] = journal.run(f"{key} sites={n_sites} {name}", lambda run=run: judged(task, run))
        return found


def own_cells(journal: Journal, task: Task, n_sites: int, key: str) -> dict[str, Cell]:
    """The library's federations."""
    return {
        name: journal.run(f"{key} sites={n_sites} {name}", lambda run=run: run(task, n_sites))
        for name, run in ours.FEDERATIONS.items()
    }


def experiment(args: argparse.Namespace) -> Outcome:
    names = args.sets or (BUNDLED if args.quick else tuple(SOURCES))
    most, most_test, splits = (200, 100, 2) if args.quick else (args.rows, args.queries, args.splits)
    journal, trained = Journal(args.resume), Trained()
    found: dict[tuple[str, int], dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        source = read(name, args.data_dir)
        for seed in range(splits):
            task = source.split(seed, most, most_test, args.validate)
            judged_on = {"rows": " validate", "clusters": " validate clusters"}.get(args.validate, "")
            key = f"{name} seed={seed} rows={most}/{most_test}{judged_on}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                closed = closed_cells(journal, task, key) if "closed" in args.only else {}
                if "ours" in args.only:  # as exact sums are the same however rows are spread
                    closed["moments"] = journal.run(f"{key} moments", lambda t=task: ours.moments(t, 10))
                for n_sites in (10,) if args.quick else args.sites:
                    cells = dict(closed)
                    if "trained" in args.only:
                        cells |= trained.cells(journal, task, n_sites, key)
                    if "ours" in args.only:
                        cells |= own_cells(journal, task, n_sites, key)
                        cells[summary.OURS] = cells[ours.recommended(task)]
                    for method, cell in cells.items():
                        found[source.name, n_sites][method].append(cell)
    tables = [summary.accuracy_table(found, splits), summary.cost_table(found)]
    if args.markdown:
        Path(args.markdown).write_text("\n\n".join(map(summary.markdown, tables)) + "\n", encoding="utf-8")
    details = {f"{name}, {n} sites": cells for (name, n), cells in found.items()}
    return Outcome(summary.values(found), tables, details)


def main(arguments: list[str] | None = None) -> int:
    options = add_resume(harness.parser(__doc__))
    options.add_argument("--sets", nargs="+", metavar="NAME", help=f"which data: {', '.join(SOURCES)}")
    options.add_argument("--rows", type=positive, default=4000, help="most training rows (default: 4000)")
    options.add_argument("--queries", type=positive, default=3000, help="most test rows (default: 3000)")
    options.add_argument("--splits", type=positive, default=5, help="number of splits (default: 5)")
    options.add_argument("--sites", type=positive, nargs="+", default=[10, 100], help="(default: 10 100)")
    options.add_argument(
        "--validate",
        nargs="?",
        const="rows",
        choices=("rows", "clusters"),
        help="judge on training rows held out, to try things out: some rows, or clusters unlike the others",
    )
    options.add_argument(
        "--only",
        nargs="+",
        choices=GROUPS,
        default=list(GROUPS),
        help="run only these: peers in closed form, peers that are trained, onefold's own",
    )
    options.add_argument("--markdown", metavar="FILE", help="also write the tables for the documentation")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
