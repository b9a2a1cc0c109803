"""The library's own federations, as a user would call them: folding, moments and both joined."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from experiments.federated_heads.data import Floats, Task
from onefold import FoldingClassifier
from onefold.federated import GlobalClassifier, LocalModel, simulate
from onefold.federated.contract import default_classifier

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
    """The machines of the joined federation, without the sums."""
    schema = task.source.schema
    small = FoldingClassifier(batch_size=50) if schema is None else default_classifier(schema)
    return folding(task, n_sites, small.set_params(measure="euclidean", n_jobs=1))


def simulated(task: Task, n_sites: int, method: str) -> dict[str, Any]:
    """A federation by :func:`simulate`; tables are given as tables."""
    sites = task.sites(n_sites)
    source = task.source
    if source.table is None or source.schema is None:
        X, asked = prepared(task)
        given: dict[str, Any] = {"X": X, "y": task.y, "X_test": asked, "y_test": task.y_test}
    else:
        rows, queries = source.table.part(task.train), source.table.part(task.test)
        given = {"X": rows, "y": None, "X_test": queries, "y_test": None, "schema": source.schema}
    start = time.process_time()
    found = simulate(
        given.pop("X"),
        given.pop("y"),
        len(sites),
        sites,
        method=method,
        pooled=False,
        show_progress=False,
        **given,
    )
    return {
        "accuracy": found.federated,
        "bytes": found.sum_bytes / len(sites),
        "query_bytes": (found.query_bytes + found.answer_bytes) / len(sites) / found.n_test,
        "fit and query": time.process_time() - start,
        "rounds": 1,
        "chosen": "",
    }


def moments(task: Task, n_sites: int) -> dict[str, Any]:
    """Exact sums of every site, once; whoever has the sum answers queries without the sites."""
    return simulated(task, n_sites, "moments")


def joined(task: Task, n_sites: int) -> dict[str, Any]:
    """Folding joined with exact sums."""
    return simulated(task, n_sites, "joined")


FEDERATIONS = {"folding, documented": documented, "folding": default_folding, "joined": joined}


def recommended(task: Task) -> str:
    """What ``simulate(method="auto")`` takes: sums alone for tables, both for all other rows."""
    return "moments" if task.source.kind == "table" else "joined"
