"""20 Newsgroups over 100 sites (004 Table 1): space folding beside gradient heads on equal features."""

from __future__ import annotations

import argparse
import sys

from experiments.harness import Outcome, main, note, parser, printed_in
from experiments.journal import Journal, add_resume, positive
from experiments.operator.comparison import compare
from experiments.operator.data import newsgroups
from experiments.operator.gradient_heads import Training
from onefold import datasets

ALPHAS = (5.0, 1.0, 0.1)
N_CLIENTS, BATCH = 100, 100


def experiment(args: argparse.Namespace) -> Outcome:
    """One table per concentration of the Dirichlet distribution."""
    task, journal = newsgroups(args.data_dir, args.quick), Journal(args.resume)
    n_clients, seeds = (10, 1) if args.quick else (N_CLIENTS, args.seeds)
    start = Training(rounds=10 if args.quick else 100, clients_per_round=10)
    note(f"{len(task.X)} rows for training, {len(task.X_test)} for testing, {n_clients} sites")
    outcome = Outcome({}, [])
    for alpha in args.alphas or ALPHAS:
        owners = [
            datasets.partition(task.y, n_clients, "dirichlet", alpha=alpha, random_state=seed)
            for seed in range(seeds)
        ]
        key = f"newsgroups {len(task.X)}/{len(task.X_test)} alpha={alpha:g}"
        spread = f"{n_clients} sites, Dirichlet {alpha:g}"
        title = f"20 Newsgroups, {spread}, batches of {BATCH}, partitions: {seeds}"
        reported = printed_in("004", "Table 1")[f"SFM, alpha {alpha:g}"]
        table, values = compare(
            journal, key, title, [(task, rows) for rows in owners], BATCH, start, reported
        )
        outcome.tables.append(table)
        outcome.values.update(values)
    return outcome


def options() -> argparse.ArgumentParser:
    """Common options, partitions, and where to keep what is done."""
    found = add_resume(parser(__doc__))
    found.add_argument(
        "--alphas", nargs="+", type=float, choices=ALPHAS, help="values of alpha to run (default: all)"
    )
    found.add_argument(
        "--seeds", type=positive, default=3, help="number of partitions per setting (default: 3)"
    )
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
