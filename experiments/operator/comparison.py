"""One table per setting: space folding in one round beside gradient heads, and what each of them sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from experiments.harness import Table
from experiments.journal import Journal
from experiments.operator import folding, gradient_heads
from experiments.operator.data import Task
from experiments.operator.folding import Rows
from experiments.operator.gradient_heads import Training

HEADERS = (
    "method",
    "accuracy",
    "± std",
    "rounds",
    "level after",
    "join up MB",
    "join down MB",
    "query up kB",
    "query down kB",
    "train s",
    "query ms",
)
HIDDEN = 128
HEADS = {
    "FedAvg, linear": (None, False),
    "FedProx, linear": (None, True),
    "FedAvg, one hidden layer": (HIDDEN, False),
    "FedProx, one hidden layer": (HIDDEN, True),
}
# A linear head is an order of magnitude smaller: it may take more rounds.
LINEAR_ROUNDS = 3
MEGA, KILO = 1e6, 1e3


def folding_cells(
    journal: Journal, key: str, task: Task, owners: Sequence[Rows], batch_size: int
) -> dict[str, Any]:
    """The federation, the mean site alone, and all rows in one place."""

    def work() -> dict[str, Any]:
        parts = folding.clients(task, owners)
        found = folding.federate(task, parts, batch_size, weigh=True)
        up, down = folding.query_bytes(task, len(owners))
        together = folding.pooled(task, owners, batch_size)
        return {**asdict(found), "pooled": together, "query_up": up, "query_down": down}

    return journal.run(f"{key} folding batch={batch_size}", work)


def head_cell(
    journal: Journal,
    key: str,
    name: str,
    task: Task,
    owners: Sequence[Rows],
    training: Training,
    seed: int,
) -> dict[str, Any]:
    """A head with its training as chosen, on all training rows; its curve on test rows is only reported."""

    def work() -> dict[str, Any]:
        def watch(parameters: gradient_heads.Parameters) -> float:
            return folding.accuracy(gradient_heads.scores(parameters, task.X_test).argmax(axis=1), task)

        parts = folding.clients(task, owners)
        head = gradient_heads.train(parts, len(task.classes), training, seed, watch)
        travelling = head.n_bytes * min(training.clients_per_round, len(owners)) * training.rounds
        return {
            "accuracy": head.curve[training.rounds],
            "train_seconds": head.seconds,
            "bytes": travelling,
            "training": asdict(training),
            "curve": {str(number): score for number, score in head.curve.items()},
        }

    return journal.run(f"{key} {name} {_label(training)}", work)


def _label(training: Training) -> str:
    """Everything that decides the result, in short."""
    return (
        f"E={training.local_epochs} rate={training.rate:g} mu={training.mu:g} rounds={training.rounds} "
        f"of {training.clients_per_round}"
    )


def chosen_training(
    journal: Journal, key: str, name: str, task: Task, owners: Sequence[Rows], start: Training
) -> Training:
    """Options by held-out training rows, once per setting."""
    hidden, proximal = HEADS[name]
    rounds = start.rounds if hidden else LINEAR_ROUNDS * start.rounds
    if proximal:
        averaging = chosen_training(journal, key, name.replace("FedProx", "FedAvg"), task, owners, start)
        candidates = gradient_heads.proximal_candidates(averaging, rounds)
    else:
        candidates = gradient_heads.averaging_candidates(replace(start, hidden=hidden, rounds=rounds))

    def work() -> dict[str, Any]:
        parts = folding.clients(task, owners)
        return asdict(gradient_heads.choose(candidates, parts, len(task.classes), seed=0))

    found = journal.run(f"{key} choice {name} of {rounds} rounds", work)
    return Training(**{field: found[field] for field in Training.__dataclass_fields__})


def rows_of(
    folded: Sequence[dict[str, Any]], heads: dict[str, list[dict[str, Any]]], n_test: int
) -> list[list[object]]:
    """The rows of one setting, means over its partitions."""

    def mean(cells: Sequence[dict[str, Any]], name: str) -> float:
        return float(np.mean([cell[name] for cell in cells]))

    def spread(cells: Sequence[dict[str, Any]], name: str) -> float | None:
        return float(np.std([cell[name] for cell in cells], ddof=1)) if len(cells) > 1 else None

    up, down = mean(folded, "query_up") / KILO, mean(folded, "query_down") / KILO
    fit, asked = mean(folded, "fit_seconds"), 1000.0 * mean(folded, "answer_seconds") / n_test
    answer = [mean(folded, "accuracy"), spread(folded, "accuracy")]
    models = mean(folded, "model_bytes") / MEGA
    rows: list[list[object]] = [
        ["space folding, queries travel", *answer, 1, None, 0.0, 0.0, up, down, fit, asked],
        ["space folding, models travel", *answer, 1, None, models, 0.0, 0.0, 0.0, fit, asked],
        ["space folding, rows in one place", mean(folded, "pooled"), spread(folded, "pooled")],
        ["space folding, a site alone", mean(folded, "alone"), spread(folded, "alone")],
    ]
    for name, cells in heads.items():
        rounds = float(np.mean([cell["training"]["rounds"] for cell in cells]))
        sent = mean(cells, "bytes") / MEGA
        train = mean(cells, "train_seconds")
        level = level_after(folded, cells)
        score = [mean(cells, "accuracy"), spread(cells, "accuracy")]
        rows.append([name, *score, rounds, level, sent, sent, 0.0, 0.0, train])
    return [[*row, *[None] * (len(HEADERS) - len(row))] for row in rows]


def level_after(folded: Sequence[dict[str, Any]], heads: Sequence[dict[str, Any]]) -> str:
    """Rounds after which a head is as accurate as folding on the same partition; seen every few rounds."""
    found = []
    for ours, head in zip(folded, heads, strict=True):
        curve = {int(number): score for number, score in head["curve"].items()}
        found += [min((number for number, score in curve.items() if score >= ours["accuracy"]), default=0)]
    reached = sorted(number for number in found if number)
    if not reached:
        return "never"
    span = f"{reached[0]}" if reached[0] == reached[-1] else f"{reached[0]} to {reached[-1]}"
    missed = len(found) - len(reached)
    return span + (f", never in {missed} of {len(found)}" if missed else "")


def compare(
    journal: Journal,
    key: str,
    title: str,
    tasks: Sequence[tuple[Task, Sequence[Rows]]],
    batch_size: int,
    start: Training,
    reported: float | None,
) -> tuple[Table, dict[str, float]]:
    """All methods on every partition of one setting; options of the heads are chosen on the first."""
    folded, heads = [], {name: [] for name in HEADS}  # type: ignore[var-annotated]
    for seed, (task, owners) in enumerate(tasks):
        folded.append(folding_cells(journal, f"{key} seed={seed}", task, owners, batch_size))
    for name in HEADS:
        training = chosen_training(journal, key, name, *tasks[0], start)
        for seed, (task, owners) in enumerate(tasks):
            heads[name].append(head_cell(journal, f"{key} seed={seed}", name, task, owners, training, seed))
    rows = rows_of(folded, heads, len(tasks[0][0].y_test))
    if reported is not None:
        rows.append(["document's, space folding", reported, *[None] * (len(HEADERS) - 2)])
    values = {f"{key} {row[0]}": float(str(row[1])) for row in rows[1 : -1 if reported is not None else None]}
    return Table(title, HEADERS, rows), values
