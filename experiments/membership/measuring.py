"""One transfer measured: both strategies, and what each side does alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Table
from onefold.transfer import PrivateSource, TransferClassifier
from onefold.transfer.classifier import Documented

Rows = NDArray[Any]
COLUMNS = ("together", "target alone", "source alone")


def transfer(
    source: PrivateSource, strategy: str, X: Rows, seen: Rows, X_test: Rows, y_test: Rows, **options: Any
) -> dict[str, Any]:
    """Accuracy on test rows of the strategy, of the target alone and of the source alone."""
    model = TransferClassifier(source, strategy, **options).fit(X, seen)
    decision = model._strategy.decide(X_test, model._ways)
    found = {
        "together": decision.codes,
        "target alone": decision.alone,
        "source alone": _source_alone(model, X_test),
    }
    scores = {name: float(np.mean(model.classes_[codes] == y_test)) for name, codes in found.items()}
    return {
        "accuracy": scores["together"],
        **scores,
        "changed": float(np.mean(decision.codes != decision.alone)),
        "gain": model.source_gain_,
    }


def _source_alone(model: TransferClassifier, rows: Rows) -> Rows:
    """What the source says by itself."""
    strategy, way = model._strategy, model._ways[0]
    if isinstance(strategy, Documented):
        return np.asarray(strategy.expert_distances(rows, model._ways)[2].argmin(axis=1))
    for expert in strategy.experts:
        if expert.name == "source":
            of_source = way.description.scores(way(rows))
            scores = of_source if expert.model is None else expert.model.scores(way(rows), strategy.n_classes)
            return np.asarray(scores.argmax(axis=1))
    raise TypeError("a strategy with a source is needed")


def summary(label: list[object], runs: list[dict[str, Any]]) -> list[object]:
    """A row of a table: mean and standard deviation over the seeds, in per cent."""
    cells: list[object] = []
    for column in COLUMNS:
        values = 100.0 * np.array([run[column] for run in runs])
        spread = f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else ""
        cells.append(f"{values.mean():.2f}{spread}")
    changed = 100.0 * np.mean([run["changed"] for run in runs])
    seconds = np.mean([run["cpu_seconds"] for run in runs])
    peak = max(run["peak_mib"] for run in runs)
    return [*label, *cells, f"{changed:.1f}", round(float(seconds), 1), round(float(peak))]


def table(title: str, labels: Iterable[str], rows: list[list[object]]) -> Table:
    """Columns common to all tables here."""
    headers = (*labels, *COLUMNS, "decisions changed %", "CPU s", "peak MiB")
    return Table(title, headers, rows)


def mean(runs: list[dict[str, Any]], column: str = "together") -> float:
    """Mean over the seeds."""
    return float(np.mean([run[column] for run in runs]))
