"""What the sites of a federation answer about test rows: the measures that are then combined."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from experiments.harness import note
from experiments.operator import folding
from experiments.operator.data import Task, german_news, newsgroups
from onefold import FoldingClassifier, datasets
from onefold.federated import LocalModel

ALPHA, BATCH, SEED = 0.1, 100, 0
N_HELD_OUT = 500
NEWS, GERMAN, DIGITS = "20 Newsgroups", "German news", "digits"
CLIENTS = {NEWS: 100, GERMAN: 20, DIGITS: 4}


@dataclass(frozen=True)
class Measures:
    """What the sites answer about the test rows, (Q, n, C) with NaN for missing classes, and the truth."""

    answers: NDArray[np.float64]
    y: NDArray[np.intp]

    @property
    def exact(self) -> NDArray[np.intp]:
        """The decisions of the measures as they are (004 eq. 105 and 106)."""
        return np.asarray(np.nanmin(self.answers, axis=0, initial=np.inf).argmin(axis=1))

    @property
    def held_out(self) -> NDArray[np.intp]:
        """Rows for fitting the map: every so-many-th."""
        n_rows = len(self.y)
        return np.linspace(0, n_rows - 1, min(N_HELD_OUT, n_rows // 2)).astype(np.intp)

    @property
    def others(self) -> NDArray[np.intp]:
        """The rows on which it is judged."""
        return np.setdiff1d(np.arange(len(self.y)), self.held_out)


Lazy = Callable[[], Measures]


def load_task(name: str, args: argparse.Namespace) -> Task:
    """Data scaled as in the other experiments; digits are divided by their largest entry."""
    if name == NEWS:
        return newsgroups(args.data_dir, args.quick)
    if name == GERMAN:
        return german_news(args.data_dir, "sentence", SEED)
    X, y = load_digits(return_X_y=True)
    X_train, y_train, X_test, y_test = datasets.train_test_split(
        X.astype(np.float32) / np.float32(16), y, test_size=0.4, random_state=SEED
    )
    return Task(DIGITS, X_train, y_train, X_test, y_test)


def lazily(name: str, args: argparse.Namespace) -> Lazy:
    """The measures of a federation, made when they are first needed."""

    @cache
    def measures() -> Measures:
        kept = None if args.resume is None or args.quick else answers_file(args.resume, name + of_rows(args))
        if kept is not None and kept.exists():
            with np.load(kept, allow_pickle=False) as found:
                return Measures(found["answers"], found["y"])
        made = federation_answers(name, args)
        if kept is not None:
            np.savez(kept, answers=made.answers, y=made.y)
        return made

    return measures


def test_rows(args: argparse.Namespace) -> int | None:
    """How many test rows are asked about; None for all."""
    return getattr(args, "test_rows", None)


def of_rows(args: argparse.Namespace) -> str:
    """What a key says about test rows that are not all of them."""
    return "" if test_rows(args) is None else f" of {test_rows(args)} rows"


def answers_file(resume: str, name: str) -> Path:
    """Beside the finished pieces: what the sites answered, which is most of the work."""
    return Path(resume).with_name(f"answers-{name.replace(' ', '-')}.npz")


def federation_answers(name: str, args: argparse.Namespace) -> Measures:
    """Every site fits its rows and answers about the test rows."""
    task = load_task(name, args)
    n_clients = min(CLIENTS[name], 5) if args.quick else CLIENTS[name]
    X_test, y_test = task.X_test, task.y_test
    if test_rows(args) is not None:  # evenly: the first rows of a file may be of few classes
        asked = np.linspace(0, len(y_test) - 1, min(test_rows(args) or 0, len(y_test))).astype(np.intp)
        X_test, y_test = X_test[asked], y_test[asked]
    owners = datasets.partition(task.y, n_clients, "dirichlet", alpha=ALPHA, random_state=SEED)
    answers = np.full((len(owners), len(X_test), len(task.classes)), np.nan)
    for number, (X, y) in enumerate(folding.clients(task, owners)):
        classifier = FoldingClassifier(batch_size=BATCH, measure="rms", n_jobs=1, regularisation="documented")
        model = LocalModel(classifier, keep_rows=False).fit(X, y)
        columns = np.searchsorted(task.classes, model.classes_)
        answers[number][:, columns] = model.answers(X_test)
    note(f"{name}: {len(owners)} sites answered {len(X_test)} rows")
    return Measures(answers, y_test)
