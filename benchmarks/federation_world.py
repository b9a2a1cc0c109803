"""A federation to be measured: rows like embeddings, a hundred sites, gradient heads on the same rows."""

from dataclasses import dataclass

import numpy as np

from benchmarks.data import Sizes
from experiments.operator.gradient_heads import Head, Training, train
from onefold import FoldingClassifier
from onefold.datasets import partition
from onefold.federated import GlobalClassifier, LocalModel

FEATURES, CLASSES, BATCH, CLIENTS = 512, 20, 100, 100
HEADS = {
    "linear head": Training(rate=0.1, local_epochs=1, rounds=100),
    "hidden layer": Training(hidden=128, rate=0.1, local_epochs=5, rounds=100),
}

Heads = dict[str, tuple[Head, Training]]


@dataclass(frozen=True)
class World:
    """Rows like embeddings, which site has which, the sites' models, and a server."""

    X: np.ndarray
    y: np.ndarray
    owners: list[np.ndarray]
    members: list[LocalModel]
    server: GlobalClassifier


def embeddings(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes with overlap, float32, entries of the size of scaled sentence embeddings."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n_rows)
    centres = np.float32(0.25) * rng.standard_normal((CLASSES, FEATURES), dtype=np.float32)
    X = rng.standard_normal((n_rows, FEATURES), dtype=np.float32)
    X *= np.float32(0.45)
    for label, centre in enumerate(centres):
        X[y == label] += centre
    return X, y


def member(X: np.ndarray, y: np.ndarray) -> LocalModel:
    """One site's model."""
    return LocalModel(FoldingClassifier(batch_size=BATCH), keep_rows=False).fit(X, y)


def world(sizes: Sizes) -> World:
    """A hundred sites with unequal shares of every class."""
    X, y = embeddings(sizes.small_rows)
    owners = partition(y, CLIENTS, "dirichlet", alpha=1.0, random_state=0)
    members = [member(X[rows], y[rows]) for rows in owners]
    server = GlobalClassifier(classes=np.arange(CLASSES))
    for number, model in enumerate(members):
        server.add(number, model)
    return World(X, y, owners, members, server)


def heads(found: World) -> Heads:
    """FedAvg on the same rows at the same sites."""
    parts = [(found.X[rows], found.y[rows]) for rows in found.owners]
    return {name: (train(parts, CLASSES, training, 0), training) for name, training in HEADS.items()}
