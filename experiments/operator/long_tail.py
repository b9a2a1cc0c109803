"""Long-tailed image features over 20 sites (004 Tables 2, 7 and 9): methods, measures, batch sizes.

CIFAR-100 was not available, so Tables 4, 7 and 9 of the document stand beside results on CIFAR-10, of whose
50000 training images 20000 were available.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

import numpy as np

from experiments.harness import Outcome, Table, main, note, parser, printed_in
from experiments.journal import Journal, add_resume, positive
from experiments.operator import folding
from experiments.operator.comparison import compare
from experiments.operator.data import Task, images
from experiments.operator.folding import Rows
from experiments.operator.gradient_heads import Training
from onefold import datasets

IMBALANCES = (100.0, 50.0, 10.0)
ALPHA, N_CLIENTS, BATCH = 0.5, 20, 20
BATCHES = (20, 50, 100)


def owners_of(task: Task, args: argparse.Namespace, imbalance: float, seed: int) -> list[Rows]:
    """Classes thinned, then spread by Dirichlet."""
    n_clients = 5 if args.quick else N_CLIENTS
    return datasets.partition(
        task.y, n_clients, "long_tailed", alpha=ALPHA, imbalance=imbalance, random_state=seed
    )


def variations(
    journal: Journal, task: Task, args: argparse.Namespace, variants: dict[str, tuple[int, str]], table: str
) -> tuple[list[list[object]], dict[str, float]]:
    """One line per the document's name -> (batch size, measure), beside its numbers on CIFAR-100."""
    reported, rows, values = printed_in("004", table), [], {}
    for name, (batch_size, measure) in variants.items():
        row: list[object] = [measure if table == "Table 7" else batch_size]
        for imbalance in IMBALANCES:

            def work(seed: int, size: int, measure: str, rho: float) -> dict[str, Any]:
                parts = folding.clients(task, owners_of(task, args, rho, seed))
                return {"accuracy": folding.federate(task, parts, size, measure).accuracy}

            key = f"images {len(task.X)}/{len(task.X_test)} rho={imbalance:g} {measure} batch={batch_size}"
            found = [
                journal.run(
                    f"{key} seed={seed}",
                    partial(work, seed, batch_size, measure, imbalance),
                )["accuracy"]
                for seed in range(1 if args.quick else args.variant_seeds)
            ]
            values[f"rho={imbalance:g} {measure} batch={batch_size}"] = float(np.mean(found))
            row += [float(np.mean(found)), reported[f"{name}, rho {imbalance:g}"]]
        rows.append(row)
    return rows, values


def experiment(args: argparse.Namespace) -> Outcome:
    """Table 2 with gradient heads, then measures and batch sizes."""
    task, journal, outcome = images(args.data_dir, args.quick), Journal(args.resume), Outcome({}, [])
    seeds = 1 if args.quick else args.seeds
    start = Training(rounds=10 if args.quick else 100, clients_per_round=5)
    measures = {f"SFM-{k}": (BATCH, name) for k, name in enumerate(folding.MEASURES, 1)}
    batches = {f"batches of {size}": (size, "rms") for size in BATCHES}
    headers = ["", *(text for rho in IMBALANCES for text in (f"imbalance {rho:g}", "document, CIFAR-100"))]
    for title, variants, name in (
        ("Batch sizes on long-tailed CIFAR-10 (004 Table 9)", batches, "Table 9"),
        ("Measures on long-tailed CIFAR-10 (004 Table 7)", measures, "Table 7"),
    ):
        rows, values = variations(journal, task, args, variants, name)
        outcome.tables.append(Table(title, headers, rows))
        outcome.values.update(values)
    for imbalance in IMBALANCES:
        owners = [owners_of(task, args, imbalance, seed) for seed in range(seeds)]
        n_rows = sum(map(len, owners[0]))
        note(f"imbalance {imbalance:g}: {n_rows} images for training, {len(task.X_test)} for testing")
        key = f"images {len(task.X)}/{len(task.X_test)} rho={imbalance:g}"
        title = (
            f"Long-tailed CIFAR-10, imbalance {imbalance:g}, {n_rows} images, {len(owners[0])} sites, "
            f"Dirichlet {ALPHA:g}, batches of {BATCH}, partitions: {seeds}"
        )
        reported = printed_in("004", "Table 2")[f"SFM, rho {imbalance:g}"]
        table, values = compare(
            journal, key, title, [(task, rows) for rows in owners], BATCH, start, reported
        )
        outcome.tables.append(table)
        outcome.values.update(values)
    outcome.tables.append(missing_table())
    return outcome


def missing_table() -> Table:
    """Table 4 needs CIFAR-100."""
    reported = printed_in("004", "Table 4")
    rows = [[f"imbalance {rho:g}", "not available", reported[f"SFM, rho {rho:g}"]] for rho in IMBALANCES]
    return Table("Long-tailed CIFAR-100 (004 Table 4)", ("", "space folding", "document"), rows)


def options() -> argparse.ArgumentParser:
    """Common options, partitions, and where to keep what is done."""
    found = add_resume(parser(__doc__))
    found.add_argument(
        "--seeds", type=positive, default=3, help="number of partitions per imbalance (default: 3)"
    )
    found.add_argument(
        "--variant-seeds",
        type=positive,
        default=1,
        help="number of partitions used for batch sizes and measures (default: 1)",
    )
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
