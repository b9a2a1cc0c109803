"""What the private classifiers are measured on: digits, groceries and heart rates, as 000 Sec. 6.2 has them.

Values lie in ranges that are declared, not found, except for the groceries: their scaling to [-1, 1] looks at
the training rows, as in the document, and no guarantee covers that.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import MinMaxScaler

from experiments.kahm import grocery, mnist
from onefold import datasets

Rows = NDArray[Any]
MEMBERS = 10000  # training rows whose distances are compared with those of the test rows
SHORTEST, LONGEST = 0.3, 2.0  # seconds between two beats, 200 to 30 a minute; beyond are artefacts


@dataclass(frozen=True)
class Division:
    """Rows for training and for testing, and the training rows whose membership is asked for."""

    X: Rows
    y: Rows
    X_test: Rows
    y_test: Rows
    members: Rows


@dataclass(frozen=True)
class Source:
    """One table of the document: its settings (epsilon, n), and where the rows come from."""

    title: str
    document: str  # the table as expected.json names it
    settings: tuple[tuple[float, int], ...]
    n_seeds: int
    load: Callable[[argparse.Namespace, int], Division]


def digits(args: argparse.Namespace, seed: int) -> Division:
    """All of MNIST; membership is asked for a fixed random sample of the training digits."""
    data = mnist.load(args)
    chosen = np.random.default_rng(0).permutation(len(data.X_train))[:MEMBERS]
    return Division(data.X_train, data.y_train, data.X_test, data.y_test, data.X_train[chosen])


def groceries(args: argparse.Namespace, seed: int) -> Division:
    """Coarse classes, random divisions of all rows, four fifths of every class for training."""
    data = grocery.load("coarse", args)
    data = grocery.reduced(data) if args.quick else data
    X, y = np.vstack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    train, test = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=seed).split(X, y))
    scaler = MinMaxScaler((-1, 1)).fit(X[train])
    rows = scaler.transform(X[train])
    return Division(rows, y[train], scaler.transform(X[test]), y[test], rows)


def heart_rates(args: argparse.Namespace, seed: int) -> Division:
    """Thirty seconds of beats under cognitive load or at rest; half of every person's rows for training."""
    datasets.load("cogload_rr:rr", args.data_dir)  # says what is wrong when there is no such file
    path = Path(args.data_dir or os.environ["ONEFOLD_DATA"]) / "cogload_rr.npz"
    with np.load(path, allow_pickle=False) as arrays:
        X = np.clip(arrays["rr_train"].astype(np.float64), SHORTEST, LONGEST)
        y, users = arrays["y_train"], arrays["user_train"]
    rng = np.random.default_rng(seed)
    training = np.zeros(len(y), dtype=bool)
    for user in np.unique(users):
        rows = rng.permutation(np.flatnonzero(users == user))
        training[rows[: len(rows) // 2]] = True
    return Division(X[training], y[training], X[~training], y[~training], X[training])


SOURCES = {
    "digits": Source(
        "MNIST", "table_5", tuple((epsilon, 20) for epsilon in (1.0, 2.0, 4.0, 8.0, 16.0)), 1, digits
    ),
    "groceries": Source(
        "Groceries, coarse classes (document: other photographs and features)",
        "table_6",
        ((5.0, 20), (8.0, 20), (16.0, 20), (32.0, 20)),
        3,
        groceries,
    ),
    "heart-rates": Source(
        "Heart rates under load and at rest (document: other recordings)",
        "table_7",
        ((8.0, 5), (16.0, 5), (24.0, 5), (32.0, 5), (32.0, 1), (32.0, 3), (32.0, 10), (32.0, 15)),
        10,
        heart_rates,
    ),
}
