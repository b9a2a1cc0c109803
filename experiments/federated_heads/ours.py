"""The library's own federations, as a user would call them: folding, moments and both joined."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from experiments.federated_heads.data import Floats, Task
from onefold import AutoencoderClassifier, FoldingClassifier
from onefold.federated import GlobalClassifier, LocalModel

FLOAT_BYTES = 4
DOCUMENTED_LENGTH = 10.0  # document 004 multiplies embeddings by ten


def prepared(task: Task) -> tuple[Floats, Floats]:
    """Rows of length one, a public rule; columns of tables stay as the schema encodes them."""
    if task.source.kind == "table":
        return task.X, task.X_test
    return _unit(task.X), _unit(task.X_test)


def _unit(X: Floats) -> Floats:
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12), dtype=np.float32)


def folding(task: Task, n_sites: int, classifier: ClassifierMixin, factor: float = 1.0) -> dict[str, Any]:
    """Every site fits and answers; the smallest answer for a class counts. Nothing is sent but answers."""
    X, queries = prepared(task)
    X, queries = factor * X, factor * queries
    y, classes = task.y, np.arange(len(task.classes))
    server = GlobalClassifier(classes=classes, measure=classifier.measure)
    fit = query = 0.0
    for number, rows in enumerate(task.sites(n_sites)):
        start = time.process_time()
        model = LocalModel(classifier, keep_rows=False).fit(X[rows], y[rows])
        fitted = time.process_time()
        server.add(number, model.answers(queries, classes))
        query += time.process_time() - fitted
        fit += fitted - start
    right = float(np.mean(server.predict() == task.y_test))
    return {
        "accuracy": right,
        "bytes": 0.0,
        "query_bytes": FLOAT_BYTES * (X.shape[1] + len(classes)),
        "fit": fit,
        "query_ms": 1e3 * query / len(queries),
        "rounds": 0,
        "chosen": "",
    }


def documented(task: Task, n_sites: int) -> dict[str, Any]:
    """The documents' minimum rule at their own settings."""
    classifier = FoldingClassifier(batch_size=100, regularisation="documented", n_jobs=1)
    return folding(task, n_sites, classifier, DOCUMENTED_LENGTH)


def default_folding(task: Task, n_sites: int) -> dict[str, Any]:
    """The library's folding federation without any setting."""
    return folding(task, n_sites, AutoencoderClassifier(n_jobs=1))


FEDERATIONS = {"folding, documented": documented, "folding": default_folding}
