"""Grocery photographs as network features, many classes with few samples (stands for 000 Tables 3 and 4).

Accuracy and per-class area under the ROC curve (KAHM: matching score, eq. 63), on the division that comes
with the data and on five random divisions of all rows, four fifths of every class for training.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from experiments.data import named
from experiments.harness import Outcome, Table, main, note, parser, printed_in, timed
from experiments.journal import Journal, add_resume
from experiments.kahm.contenders import (
    SCALINGS,
    SEARCH,
    SMALL_SEARCH,
    SVM,
    ChosenKAHM,
    ChosenSVM,
    Contender,
    Rows,
    contenders,
    mean_auc,
)
from onefold.datasets import Dataset

Entry = dict[str, Any]
DATASET = "grocery_store_effnetlite0"
TASKS = ("coarse", "fine")
QUICK_CLASSES, QUICK_FEATURES = 4, 160
HEADERS = (
    "method",
    "scaling",
    "accuracy, given split",
    "AUC, given split",
    "accuracy, 5 random",
    "± std",
    "AUC, 5 random",
    "fit s",
    "document accuracy",
    "document AUC",
)


@dataclass(frozen=True)
class Division:
    """Rows for training and for testing."""

    name: str
    X_train: Rows
    y_train: Rows
    X_test: Rows
    y_test: Rows


@dataclass(frozen=True)
class Result:
    """One method on one division."""

    division: str
    method: str
    scaling: str
    accuracy: float
    auc: float
    fit_seconds: float
    choice: str


def load(task: str, args: argparse.Namespace) -> Dataset:
    """The given division, the validation rows added to the training rows where the file holds them."""
    data = named.load(f"{DATASET}:{task}", args.data_dir, dtype=np.float32)
    path = Path(args.data_dir or os.environ["ONEFOLD_DATA"]) / f"{DATASET}.npz"
    with np.load(path, allow_pickle=False) as arrays:
        X = np.vstack([data.X_train, arrays["X_val"].astype(np.float32)])
        y = np.concatenate([data.y_train, arrays[f"y_{task}_val"].astype(np.int64)])
    return Dataset(X, y, data.X_test, data.y_test, data.name, data.feature_names, data.description)


def divisions(data: Dataset, n_random: int) -> Iterator[Division]:
    """The division that comes with the data, then random ones of all rows."""
    yield Division("given", data.X_train, data.y_train, data.X_test, data.y_test)
    X, y = np.vstack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    splitter = StratifiedShuffleSplit(n_random, test_size=0.2, random_state=0)
    for number, (train, test) in enumerate(splitter.split(X, y), start=1):
        yield Division(f"random {number}", X[train], y[train], X[test], y[test])


def reduced(data: Dataset) -> Dataset:
    """Only the first classes and some of the features, to see that everything runs."""
    step = -(-data.X_train.shape[1] // QUICK_FEATURES)
    train, test = data.y_train < QUICK_CLASSES, data.y_test < QUICK_CLASSES
    return Dataset(
        data.X_train[train, ::step],
        data.y_train[train],
        data.X_test[test, ::step],
        data.y_test[test],
        data.name,
        data.feature_names[::step],
        data.description,
    )


def judge(division: Division, method: str, scaling: str, contender: Contender) -> Entry:
    """Fit on the training rows, then look at the test rows once."""
    _, seconds = timed(lambda: contender.fit(division.X_train, division.y_train))
    scores = contender.scores(division.X_test)
    accuracy = float(np.mean(contender.classes_[scores.argmax(axis=1)] == division.y_test))
    auc = mean_auc(division.y_test, scores, contender.classes_)
    return vars(
        Result(division.name, method, scaling, accuracy, auc, seconds, getattr(contender, "choice", ""))
    )


def results(division: Division, task: str, args: argparse.Namespace, journal: Journal) -> Iterator[Result]:
    """Every method: on scaled rows, on rows as they are, and with everything chosen by cross-validation."""
    machines: dict[tuple[str, str], SVM] = {}

    def judged(part: Division, method: str, scaling: str, contender: Contender) -> Result:
        size = " of a small part" if args.quick else ""
        key = f"{task}{size}, {part.name}, {method}, {scaling}"
        entry = journal.run(key, functools.partial(judge, part, method, scaling, contender))
        return Result(**{name: entry[name] for name in Result.__dataclass_fields__})

    for scaling in ("[-1, 1]", "none"):
        scaler = SCALINGS[scaling]().fit(division.X_train)
        rows = scaler.transform(division.X_train), scaler.transform(division.X_test)
        scaled = Division(division.name, rows[0], division.y_train, rows[1], division.y_test)
        for method, contender in contenders(scaling).items():
            if not args.methods or method in args.methods:
                yield judged(scaled, method, scaling, contender)
                if isinstance(contender, SVM) and hasattr(contender, "search"):
                    machines[scaling, contender.kernel] = contender
    search = SMALL_SEARCH if args.quick else SEARCH
    chosen: dict[str, Contender] = {"KAHM, chosen": ChosenKAHM(search), "SVM, chosen": ChosenSVM(machines)}
    for method, contender in chosen.items():
        if not args.methods or method in args.methods:
            yield judged(division, method, "chosen", contender)


# What the document calls a method, where that is something else.
NAMES = {
    "deep network": "back-propagation training of a deep network",
    "deep fuzzy model": "deep fuzzy nonparametric model",
    "ensemble": "ensemble learning",
}


def printed_means(item: str, end: str) -> dict[str, float]:
    """The document's mean for every method, without what it says about the method in brackets."""
    rows = printed_in("000", item)
    return {
        row.removesuffix(end).partition(" (")[0].removesuffix(" Classifier"): value
        for row, value in rows.items()
        if row.endswith(end)
    }


def table(task: str, found: list[Result]) -> tuple[Table, dict[str, float]]:
    """One line per method and scaling, the most accurate on random divisions first."""
    printed = [
        printed_means("Table 3", ", mean"),
        printed_means("Table 4", ", mean of the five (not printed)"),
    ]
    rows: list[list[Any]] = []
    values: dict[str, float] = {}
    for method, scaling in dict.fromkeys((result.method, result.scaling) for result in found):
        mine = [result for result in found if (result.method, result.scaling) == (method, scaling)]
        given, random = mine[0], mine[1:]
        accuracy = np.array([result.accuracy for result in random])
        auc = float(np.mean([result.auc for result in random]))
        name = method.split(",")[0]
        rows.append([method, scaling, given.accuracy, given.auc, float(accuracy.mean())])
        rows[-1] += [float(accuracy.std(ddof=1)), auc, round(given.fit_seconds, 2)]
        rows[-1] += [means.get(NAMES.get(name, name)) for means in printed]
        key = f"{task} {method} {scaling}"
        values |= {f"{key} accuracy given": given.accuracy, f"{key} AUC given": given.auc}
        values |= {f"{key} accuracy random": float(accuracy.mean()), f"{key} AUC random": auc}
    rows.sort(key=lambda row: -row[4])
    title = f"Groceries, {task} classes (document: other photographs and features)"
    return Table(title, HEADERS, rows, named_by=2), values


def experiment(args: argparse.Namespace) -> Outcome:
    """All methods on all divisions of the chosen tasks."""
    tables: list[Table] = []
    values: dict[str, float] = {}
    details: dict[str, Any] = {}
    rows: dict[str, int] = {}
    journal = Journal(args.resume)
    for task in args.tasks or (TASKS[:1] if args.quick else TASKS):
        data = load(task, args)
        note(f"{task}: {len(data.X_train)} rows for training, {len(data.X_test)} for testing")
        rows |= {f"{task}, given, training": len(data.X_train), f"{task}, given, test": len(data.X_test)}
        parts = divisions(reduced(data) if args.quick else data, 2 if args.quick else 5)
        found = [result for division in parts for result in results(division, task, args, journal)]
        lines, numbers = table(task, found)
        tables.append(lines)
        values |= numbers
        details[task] = [vars(result) for result in found]
    return Outcome(values, tables, details, seeds=[0], rows=rows)


def options() -> argparse.ArgumentParser:
    """Common options, and which labels to predict."""
    found = parser(__doc__)
    found.add_argument(
        "--tasks", nargs="+", choices=TASKS, help="classes to run: 43 coarse or 81 fine ones (default: both)"
    )
    methods = [*contenders("[-1, 1]"), "KAHM, chosen", "SVM, chosen"]
    found.add_argument("--methods", nargs="+", choices=methods, help="methods to run (default: all)")
    return add_resume(found)


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
