"""What the private classifiers are measured on: digits, groceries, heart rates and stress, for 000 Sec. 6.2.

Values lie in ranges that are declared, not found, except for the groceries: their scaling to [-1, 1] looks at
the training rows, as in the document, and no guarantee covers that. The ranges of the stress data are round
numbers, but they were read off the same file: somebody who knows no such recordings could not declare them.
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

from experiments.data import named
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
    persons: Rows | None = None  # whom the training rows are about, where that is known
    rows_per_person: int | None = None  # at most, by the plan of the recordings


@dataclass(frozen=True)
class Source:
    """One table of the document: its settings (epsilon, n), and where the rows come from.

    Every table lists one setting twice, and its means count that one twice.
    """

    title: str
    document: str  # the table as the register names it
    settings: tuple[tuple[float, int], ...]
    twice: tuple[float, int]
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
    named.load("cogload_rr:rr", args.data_dir)  # says what is wrong when there is no such file
    path = Path(args.data_dir or os.environ["ONEFOLD_DATA"]) / "cogload_rr.npz"
    with np.load(path, allow_pickle=False) as arrays:
        X = np.clip(arrays["rr_train"].astype(np.float64), SHORTEST, LONGEST)
        y, users = arrays["y_train"], arrays["user_train"]
    training = half_of_everybody(users, seed)
    return Division(X[training], y[training], X[~training], y[~training], X[training])


def half_of_everybody(persons: Rows, seed: int) -> Rows:
    """Which rows are for training: half of every person's, drawn at random."""
    rng = np.random.default_rng(seed)
    training = np.zeros(len(persons), dtype=bool)
    for person in np.unique(persons):
        rows = rng.permutation(np.flatnonzero(persons == person))
        training[rows[: len(rows) // 2]] = True
    return training


# The file repeats one mean, one minimum and one maximum under the names of eleven signals, and holds eight
# answers to a questionnaire, which tell persons apart. These are the sixteen columns that are measurements
# and differ: the range of each, and whether its logarithm is taken (of the minimum, which is negative, the
# size).
STRESS_COLUMNS: dict[str, tuple[float, float, bool]] = {
    "BVP_mean": (0.0, 2.0, False),
    "BVP_min": (10.0, 2000.0, True),
    "BVP_max": (10.0, 2000.0, True),
    "BVP_std": (1.0, 500.0, True),
    "BVP_peak_freq": (0.0, 0.3, False),
    "net_acc_std": (1e-3, 1.0, True),
    "EDA_phasic_std": (1e-4, 10.0, True),
    "EDA_smna_std": (1e-4, 10.0, True),
    "EDA_tonic_std": (1e-4, 10.0, True),
    "TEMP_std": (0.005, 0.2, True),
    "TEMP_slope": (-0.005, 0.005, False),
    "ACC_x_std": (1e-7, 1e-4, True),
    "ACC_y_std": (1e-4, 0.1, True),
    "ACC_z_std": (1e-7, 1e-4, True),
    "0_std": (1e-4, 0.1, True),
    "Resp_std": (0.1, 20.0, True),
}
STRESS = 2  # the label, beside amusement and baseline, which are no stress
WINDOWS = 84  # of half a minute, at most, in the 42 minutes that one person was recorded


@dataclass(frozen=True)
class Recordings:
    """Windows of all persons in [0, 1], whether they are of stress, and whose they are."""

    X: Rows
    y: Rows
    persons: Rows


def stress_recordings(args: argparse.Namespace) -> Recordings:
    """Half minutes of a wrist band and a breathing belt, 15 persons."""
    named.load("wesad_features", args.data_dir)  # says what is wrong when there is no such file
    path = Path(args.data_dir or os.environ["ONEFOLD_DATA"]) / "wesad_features.npz"
    with np.load(path, allow_pickle=False) as arrays:
        names = [str(name) for name in arrays["feature_names"]]
        raw = {name: arrays["X"][:, names.index(name)].astype(np.float64) for name in STRESS_COLUMNS}
        y, persons = (arrays["y"] == STRESS).astype(np.int64), arrays["subject"]
    X = np.column_stack([_scaled(raw[name], *STRESS_COLUMNS[name]) for name in STRESS_COLUMNS])
    return Recordings(X, y, persons)


def _scaled(values: Rows, low: float, high: float, logarithm: bool) -> Rows:
    """To [0, 1]; what lies outside of the declared range is moved to its end."""
    sizes = np.clip(np.abs(values) if logarithm else values, low, high)
    found: Rows = np.log(sizes / low) / np.log(high / low) if logarithm else (sizes - low) / (high - low)
    return found


def stress(args: argparse.Namespace, seed: int) -> Division:
    """As in the document: half of every person's rows for training, so that everybody is known."""
    data = stress_recordings(args)
    training = half_of_everybody(data.persons, seed)
    rows = data.X[training], data.y[training], data.X[~training], data.y[~training]
    return Division(*rows, data.X[training], data.persons[training], WINDOWS // 2)


def stress_of_others(args: argparse.Namespace, seed: int) -> Division:
    """About half of the persons for training, the others for testing."""
    data = stress_recordings(args)
    numbers = np.arange(len(data.y))[:, None]
    split = datasets.train_test_split(numbers, data.y, 0.5, seed, groups=data.persons)
    training, testing = split[0][:, 0], split[2][:, 0]
    rows = data.X[training], data.y[training], data.X[testing], data.y[testing]
    return Division(*rows, data.X[training], data.persons[training], WINDOWS)


TABLE_7 = ((8.0, 5), (16.0, 5), (24.0, 5), *((32.0, n_components) for n_components in (5, 1, 3, 7, 10, 15)))

SOURCES = {
    "digits": Source(
        "MNIST",
        "Table 5",
        (
            *((epsilon, 20) for epsilon in (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 16.0)),
            *((32.0, n_components) for n_components in (5, 10, 15, 20, 25)),
        ),
        (32.0, 20),
        1,
        digits,
    ),
    "groceries": Source(
        "Groceries, coarse classes (document: other photographs and features)",
        "Table 6",
        ((5.0, 20), (8.0, 20), (16.0, 20), *((32.0, n_components) for n_components in (5, 10, 15, 20, 25))),
        (32.0, 20),
        3,
        groceries,
    ),
    "heart-rates": Source(
        "Heart rates under load and at rest (document: other recordings)",
        "Table 7",
        TABLE_7,
        (32.0, 5),
        10,
        heart_rates,
    ),
    "stress": Source(
        "Stress, half of every person's rows (document: other recordings)",
        "Table 7",
        TABLE_7,
        (32.0, 5),
        10,
        stress,
    ),
    "stress-others": Source(
        "Stress of persons who are not in training (document: other recordings)",
        "Table 7",
        TABLE_7,
        (32.0, 5),
        10,
        stress_of_others,
    ),
}
