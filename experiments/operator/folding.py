"""A federation of space-folding classifiers: one round, and what it costs (004 Sec. 3.7 and Fig. 4)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.operator.data import Floats, Labels, Task
from onefold import FoldingClassifier
from onefold.federated import GlobalClassifier, LocalModel

MEASURES = ("rms", "product", "min", "max")  # options 1 to 4 of 004 eq. 102
FLOAT_BYTES = 4
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Federated:
    """What a federation got right, alone and together, and what it took."""

    accuracy: float
    alone: float  # mean accuracy of the sites' own models
    fit_seconds: float  # of all sites together
    answer_seconds: float  # of all sites together, for all test rows
    model_bytes: int  # of all sites' models in files, if the server is to answer alone


def clients(task: Task, owners: Sequence[Rows]) -> list[tuple[Floats, Labels]]:
    """Rows and labels of every site."""
    return [(task.X[rows], task.y[rows]) for rows in owners]


def batch_numbers(y: Labels, batch_size: int) -> Labels:
    """Batch of each row: consecutive rows of one class, as the classifier will take them (004 Remark 10)."""
    numbers, following = np.empty(len(y), dtype=np.intp), 0
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        for part in np.array_split(rows, max(1, int(np.floor(len(rows) / batch_size + 0.5)))):
            numbers[part], following = following, following + 1
    return numbers


def federate(
    task: Task,
    parts: Sequence[tuple[Floats, Labels]],
    batch_size: int,
    measure: str = "rms",
    weigh: bool = False,
) -> Federated:
    """Every site fits and answers; the smallest answer for a class counts (004 eq. 105 and 106)."""
    server = GlobalClassifier(classes=task.classes, measure=measure)
    classifier = FoldingClassifier(
        batch_size=batch_size, measure=measure, n_jobs=1, regularisation="documented"
    )
    alone, fit_seconds, answer_seconds, n_bytes = [], 0.0, 0.0, 0
    for number, (X, y) in enumerate(parts):
        start = time.process_time()
        model = LocalModel(classifier, keep_rows=False).fit(X, y)  # nothing is to be forgotten here
        fitted = time.process_time()
        answers = model.answers(task.X_test, task.classes)
        answer_seconds += time.process_time() - fitted
        fit_seconds += fitted - start
        server.add(number, answers)
        alone.append(accuracy(task.classes[answers.argmin(axis=1)], task))
        n_bytes += stored_bytes(model) if weigh else 0
    together = accuracy(server.predict(), task)
    return Federated(together, float(np.mean(alone)), fit_seconds, answer_seconds, n_bytes)


def pooled(task: Task, owners: Sequence[Rows], batch_size: int, measure: str = "rms") -> float:
    """Accuracy of one classifier on the rows of all sites in one place."""
    held = np.sort(np.concatenate(owners))
    model = FoldingClassifier(batch_size=batch_size, measure=measure, n_jobs=1, regularisation="documented")
    return accuracy(model.fit(task.X[held], task.y[held]).predict(task.X_test), task)


def accuracy(predicted: NDArray[np.generic], task: Task) -> float:
    """Share of test rows that are right."""
    return float(np.mean(predicted == task.y_test))


def stored_bytes(model: LocalModel) -> int:
    """Size of the file that would travel to a server that answers alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        model.save(path)
        return sum(file.stat().st_size for file in Path(folder).iterdir())


def query_bytes(task: Task, n_clients: int) -> tuple[int, int]:
    """Bytes up (answers) and down (the query) for one query that all sites answer."""
    n_features = task.X.shape[1]
    return n_clients * len(task.classes) * FLOAT_BYTES, n_clients * n_features * FLOAT_BYTES
