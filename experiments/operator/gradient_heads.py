"""The opponent: heads on the same features, trained by federated averaging (FedAvg) and FedProx, in numpy.

In every round the server sends the parameters to some of the sites; each takes mini-batch gradient steps on
its own rows and sends the parameters back; the server averages them, weighted by the numbers of rows. FedProx
adds mu / 2 times the squared distance to the parameters received to what the sites minimise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Labels = NDArray[np.intp]
Parameters = list[Floats]
Client = tuple[Floats, Labels]

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Training:
    """How a head is trained; ``hidden`` None stands for a linear head, ``mu`` 0 for FedAvg."""

    hidden: int | None = None
    rate: float = 0.03
    local_epochs: int = 1
    mu: float = 0.0
    rounds: int = 100
    clients_per_round: int = 10
    batch: int = 32


@dataclass
class Head:
    """Parameters after training, and the scores that a watcher gave along the way."""

    parameters: Parameters
    seconds: float
    curve: dict[int, float] = field(default_factory=dict)  # round -> score

    def predict(self, X: Floats) -> Labels:
        """Class with the largest score."""
        return np.asarray(scores(self.parameters, X).argmax(axis=1))

    @property
    def n_bytes(self) -> int:
        """Size of the parameters as they travel."""
        return FLOAT_BYTES * sum(part.size for part in self.parameters)


def initial(n_features: int, n_classes: int, hidden: int | None, rng: np.random.Generator) -> Parameters:
    """A linear head starts at zero, a hidden layer with He's scale."""
    if hidden is None:
        return [np.zeros((n_features, n_classes), np.float32), np.zeros(n_classes, np.float32)]
    first = rng.normal(0.0, np.sqrt(2.0 / n_features), (n_features, hidden))
    second = rng.normal(0.0, np.sqrt(1.0 / hidden), (hidden, n_classes))
    return [
        first.astype(np.float32),
        np.zeros(hidden, np.float32),
        second.astype(np.float32),
        np.zeros(n_classes, np.float32),
    ]


def scores(parameters: Parameters, X: Floats) -> Floats:
    """Scores of each row by each class; one hidden layer of rectified units where there is one."""
    if len(parameters) == 2:
        return np.asarray(X @ parameters[0] + parameters[1])
    hidden = np.maximum(X @ parameters[0] + parameters[1], 0.0)
    return np.asarray(hidden @ parameters[2] + parameters[3])


def gradient(parameters: Parameters, X: Floats, y: Labels) -> Parameters:
    """Gradient of the mean cross-entropy."""
    linear = len(parameters) == 2
    hidden = X if linear else np.maximum(X @ parameters[0] + parameters[1], 0.0)
    errors = hidden @ parameters[-2] + parameters[-1]
    errors -= errors.max(axis=1, keepdims=True)
    np.exp(errors, out=errors)
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(y)), y] -= 1.0
    errors /= len(y)
    last = [hidden.T @ errors, errors.sum(axis=0)]
    if linear:
        return last
    back = (errors @ parameters[2].T) * (hidden > 0.0)
    return [X.T @ back, back.sum(axis=0), *last]


def local_steps(
    received: Parameters, client: Client, training: Training, rng: np.random.Generator
) -> Parameters:
    """What one site does in one round."""
    X, y = client
    parameters = [part.copy() for part in received]
    rate = np.float32(training.rate)
    for _ in range(training.local_epochs):
        order = rng.permutation(len(X))
        for start in range(0, len(X), training.batch):
            rows = order[start : start + training.batch]
            slopes = gradient(parameters, X[rows], y[rows])
            for part, slope, old in zip(parameters, slopes, received, strict=True):
                if training.mu:
                    slope = slope + np.float32(training.mu) * (part - old)
                part -= rate * slope
    return parameters


def train(
    clients: Sequence[Client],
    n_classes: int,
    training: Training,
    seed: int,
    watch: Callable[[Parameters], float] | None = None,
    every: int = 5,
) -> Head:
    """Federated training; ``watch`` scores the global parameters every few rounds, at no cost in seconds."""
    rng = np.random.default_rng([seed, 20])
    current = initial(clients[0][0].shape[1], n_classes, training.hidden, rng)
    head, watched = Head(current, 0.0), 0.0
    start = time.process_time()
    for number in range(1, training.rounds + 1):
        chosen = rng.choice(len(clients), min(training.clients_per_round, len(clients)), replace=False)
        weights = np.array([len(clients[client][0]) for client in chosen], dtype=np.float64)
        weights /= weights.sum()
        total = [np.zeros_like(part) for part in current]
        for client, weight in zip(chosen, weights, strict=True):
            sent = local_steps(current, clients[client], training, rng)
            for sum_, part in zip(total, sent, strict=True):
                sum_ += np.float32(weight) * part
        current = total
        if watch is not None and (number % every == 0 or number == training.rounds):
            pause = time.process_time()
            head.curve[number] = watch(current)
            watched += time.process_time() - pause
    head.parameters, head.seconds = current, time.process_time() - start - watched
    return head


def mean_recall(predicted: Labels, y: Labels) -> float:
    """Accuracy averaged over classes: what a balanced test set will ask for, whatever the training rows."""
    return float(np.mean([np.mean(predicted[y == label] == label) for label in np.unique(y)]))


# What is tried, (local epochs, rate); the held-out rows decide.
STEPS = ((1, 0.1), (1, 0.3), (5, 0.03), (5, 0.1))
PROXIMAL = (0.01, 0.1, 1.0)
NEARLY = 0.002  # fewer rounds are taken where they cost at most this much held-out accuracy


def choose(candidates: Sequence[Training], clients: Sequence[Client], n_classes: int, seed: int) -> Training:
    """The best of several trainings, with as many rounds as it needs, by rows that every site holds out."""
    kept, held = hold_out(clients, seed)
    X, y = (np.concatenate(parts) for parts in zip(*held, strict=True))

    def watch(parameters: Parameters) -> float:
        return mean_recall(scores(parameters, X).argmax(axis=1), y)

    found = []
    for training in candidates:
        curve = train(kept, n_classes, training, seed, watch).curve
        best = max(curve.values())
        rounds = min(number for number, score in curve.items() if score >= best - NEARLY)
        found.append((best, replace(training, rounds=rounds)))
    return max(found, key=lambda pair: pair[0])[1]


def averaging_candidates(start: Training) -> list[Training]:
    """Candidates for FedAvg: local epochs and learning rates."""
    return [replace(start, local_epochs=epochs, rate=rate) for epochs, rate in STEPS]


def proximal_candidates(averaging: Training, rounds: int) -> list[Training]:
    """FedProx: the steps chosen for FedAvg, held back more or less."""
    return [replace(averaging, mu=mu, rounds=rounds) for mu in PROXIMAL]


def hold_out(clients: Sequence[Client], seed: int, share: float = 0.2) -> tuple[list[Client], list[Client]]:
    """Every site keeps four fifths of its rows, at least one."""
    rng = np.random.default_rng([seed, 21])
    kept, held = [], []
    for X, y in clients:
        order = rng.permutation(len(X))
        n_held = min(round(share * len(X)), len(X) - 1)
        kept.append((X[order[n_held:]], y[order[n_held:]]))
        held.append((X[order[:n_held]], y[order[:n_held]]))
    return kept, held
