"""Transfer from a private source, word for word from 001 Sec. 4.2 and 5, and as slowly as it is printed.

Liberties: those of ``membership``; rows that come out of the source's classes are handed in by class; one
branch per class (N below 1000); eigenvectors have their largest entry positive, where the document leaves
the sign open.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from reference.membership import Deep, Mapping, deep_image, fit_deep, learn, predict

Array = np.ndarray


def transformation_matrix(samples: Array, n_st: int) -> Array:
    """V: rows are eigenvectors of the sample covariance matrix, the largest eigenvalue first."""
    mean = sum(samples) / len(samples)
    covariance = sum(np.outer(y - mean, y - mean) for y in samples) / len(samples)
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-values)[:n_st]
    V = vectors[:, order].T
    return np.array([row if row[np.argmax(np.abs(row))] > 0 else -row for row in V])


def to_source(rows: Array, noisy_source: Array) -> Array:
    """(79)."""
    p_sr, p_tg = noisy_source.shape[1], rows.shape[1]
    if p_sr == p_tg:
        return rows
    n_st = min(ceil(p_sr / 2), p_tg)
    V_sr, V_tg = transformation_matrix(noisy_source, n_st), transformation_matrix(rows, n_st)
    return np.array([V_sr.T @ (V_tg @ y) for y in rows])


def classifier(rows: Array, labels: Array, n: int, ratio: float, n_layers: int) -> dict[int, Deep]:
    """Algorithm 4, one branch per class."""
    found = {}
    for c in sorted(set(labels.tolist())):
        own = rows[labels == c]
        found[c] = fit_deep(own, n, n_layers, ceil(ratio * len(own)))
    return found


def squared(y: Array, image: Array) -> float:
    return float(sum((y - image) ** 2))


def classify(y: Array, machines: dict[int, Deep]) -> int:
    """(71)."""
    return min(machines, key=lambda c: squared(y, deep_image(machines[c], y)))


@dataclass
class Transfer:
    """Everything rule (87) needs."""

    source: dict[int, Deep]
    target: dict[int, Deep]
    mapping: Mapping
    mean: Array
    labels: Array  # of the target's rows, after the last step

    def experts(self, y: Array) -> dict[int, tuple[float, float, float]]:
        """The three squared distances of (87), class by class; y is in the source's space."""
        found = {}
        for c in self.source:
            image = deep_image(self.source[c], y)
            mapped = predict(self.mapping, image) + self.mean
            own = squared(y, deep_image(self.target[c], y)) if c in self.target else float("inf")
            found[c] = (own, squared(y, mapped), squared(y, image))
        return found

    def decide(self, y: Array) -> int:
        """(87)."""
        experts = self.experts(y)
        return min(experts, key=lambda c: min(experts[c]))


def transfer(
    source_rows: Array, source_labels: Array, rows: Array, labels: Array, components: tuple[int, ...], L: int
) -> Transfer:
    """(80)-(86), for noisy source rows and target rows of the source's space; labels of -1 are unknown."""
    source = classifier(source_rows, source_labels, min(20, source_rows.shape[1]), 0.5, L)
    free = labels == -1
    smallest = min(int(np.sum(labels == c)) for c in set(labels[~free].tolist()))
    machines = classifier(rows[~free], labels[~free], max(1, min(20, smallest - 1)), 1.0, 1)
    current = labels.copy()
    for i in np.flatnonzero(free):
        current[i] = classify(rows[i], machines)
    for n in components:
        machines = classifier(rows, current, n, 0.5, L)  # (82)
        for i in np.flatnonzero(free):
            current[i] = classify(rows[i], machines)  # (83)
    images = np.array([deep_image(source[int(c)], y) for y, c in zip(rows, current, strict=True)])  # (84)
    mean = rows.sum(axis=0) / len(rows)
    mapping = learn(images, rows - mean, min(ceil(len(rows) / 2), 1000))  # (85), (86)
    return Transfer(source, machines, mapping, mean, current)
