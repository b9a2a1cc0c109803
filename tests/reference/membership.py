"""Membership-mappings, word for word from 001 Sec. 3 and as slowly as they are printed.

Liberties, all where the document is silent or cannot be followed: k-means starts from points far from each
other and makes at most 6 rounds, in further layers 2 from the clusters of the layer before; K_aa gets a
jitter of 1e-8 of its diagonal; an input that does not vary has weight 0 instead of 1/0; M loses at least one
point per round, so that the loop of Alg. 1 ends; a mapping models deviations from the mean where told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp

import numpy as np

from reference.kahm import encoding_matrix

Array = np.ndarray

NU = 2.1  # (52)
KAPPA = 0.1  # Alg. 1, step 2
JITTER = 1e-8
ROUNDS = 6
ROUNDS_AGAIN = 2


def kernel(a: Array, b: Array, w: Array, sigma2: float) -> float:
    """(17)."""
    return sigma2 * exp(-0.5 * sum(w[k] * (a[k] - b[k]) ** 2 for k in range(len(w))))


def matrix(rows: Array, columns: Array, w: Array, sigma2: float) -> Array:
    """(21), (22)."""
    K = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            K[i, j] = kernel(row, column, w, sigma2)
    return K


def far_apart(x: Array, M: int) -> list[int]:
    """The point nearest the mean, then again and again the one farthest from those chosen; no repetition."""
    chosen = [int(np.argmin(((x - x.mean(axis=0)) ** 2).sum(axis=1)))]
    while len(chosen) < M:
        gaps = [min(float(((x[i] - x[c]) ** 2).sum()) for c in chosen) for i in range(len(x))]
        if not max(gaps) > 0.0:
            break
        chosen.append(int(np.argmax(gaps)))
    return chosen


def distinct(x: Array) -> int:
    """Number of values of the first component, a lower bound of the number of distinct inputs."""
    return len({float(value) for value in x[:, 0]}) if x.shape[1] else 1


def cluster_centroid(x: Array, M: int, before: list[int] | None = None) -> tuple[Array, list[int]]:
    """(51): k-means, from clusters found before where there are some; and the cluster of each input."""
    if before is None:
        centres, rounds = x[far_apart(x, M)].copy(), ROUNDS
    else:
        groups = [[x[i] for i in range(len(x)) if before[i] == m] for m in range(max(before) + 1)]
        centres, rounds = np.array([sum(group) / len(group) for group in groups if group][:M]), ROUNDS_AGAIN
    previous: list[int] = []
    for _ in range(rounds):
        labels = [int(np.argmin(((centres - point) ** 2).sum(axis=1))) for point in x]
        if labels == previous:
            break
        previous = labels
        for m in range(len(centres)):
            members = [x[i] for i in range(len(x)) if labels[i] == m]
            if members:
                centres[m] = sum(members) / len(members)
    return centres, previous


def weights(x: Array) -> Array:
    """(53)."""
    ranges = x.max(axis=0) - x.min(axis=0)
    return np.array([r**-2.0 if r > 0.0 else 0.0 for r in ranges])


def inducing_kernel(a: Array, w: Array, sigma2: float) -> Array:
    """K_aa, with the jitter."""
    return matrix(a, a, w, sigma2) + JITTER * sigma2 * np.eye(len(a))


def tau(x: Array, a: Array, w: Array, sigma2: float = 1.0) -> float:
    """(54)."""
    K_xa = matrix(x, a, w, sigma2)
    trace = float(np.trace(np.linalg.inv(inducing_kernel(a, w, sigma2)) @ K_xa.T @ K_xa))
    return max(len(x) * sigma2 - trace, 0.0) / (NU + len(a) - 2.0)


@dataclass
class Mapping:
    """The set of parameters that Alg. 1 returns, and what led to it."""

    alpha: Array
    a: Array
    sigma2: float
    w: Array
    beta: float
    tau: float  # at sigma^2 = 1
    clusters: list[int]


def alpha(K_xa: Array, K_aa: Array, y: Array, level: float, beta: float) -> Array:
    """(49), with tau(M, sigma^2) as ``level``."""
    inner = K_xa.T @ K_xa + level * K_aa + K_aa / beta
    return np.linalg.solve(inner, K_xa.T @ y)


def learn(x: Array, y: Array, M_max: int, before: list[int] | None = None, steps: int = 200) -> Mapping:
    """Algorithm 1."""
    w = weights(x)
    M = M_max
    before = before if distinct(x) >= M else None
    a, clusters = cluster_centroid(x, M, before)
    M = len(a)  # no more points than there are distinct inputs
    while tau(x, a, w) < KAPPA and M > 1:
        M = min(ceil(0.9 * M), M - 1)
        a, clusters = cluster_centroid(x, M, before)
    level = tau(x, a, w)
    variance = float(np.mean([np.var(y[:, j]) for j in range(y.shape[1])]))
    sigma2 = 1.0 if level >= variance else variance / max(level, 1e-12)  # steps 9-13
    K_xa, K_aa, smoothing = matrix(x, a, w, sigma2), inducing_kernel(a, w, sigma2), tau(x, a, w, sigma2)
    beta = 1.0
    for _ in range(steps):
        outputs = K_xa @ alpha(K_xa, K_aa, y, smoothing, beta)
        error = float(np.mean((y - outputs) ** 2))
        following = 1.0 / max(error, 1e-300)  # (58)
        converged = abs(following - beta) <= 1e-11 * following
        beta = following
        if converged or error < 1e-28 * variance:
            break
    return Mapping(alpha(K_xa, K_aa, y, smoothing, beta), a, sigma2, w, beta, level, clusters)


def predict(mapping: Mapping, x: Array) -> Array:
    """(60)."""
    G = np.array([kernel(x, point, mapping.w, mapping.sigma2) for point in mapping.a])
    return mapping.alpha.T @ G


@dataclass
class Deep:
    """What Alg. 2 returns, for deviations from ``mean``."""

    mean: Array
    mappings: list[Mapping]
    encoders: list[Array]


def fit_deep(Y: Array, n: int, n_layers: int, M_max: int, centred: bool = True) -> Deep:
    """Algorithm 2, on deviations from the mean if ``centred``; n at most N - 1 and the rank of the data."""
    mean = Y.sum(axis=0) / len(Y)
    deviations = Y - mean
    tolerance = 1e-7 * np.linalg.norm(deviations)
    rank = int(np.linalg.matrix_rank(deviations, tol=tolerance)) if np.any(deviations) else 0
    n = min(n, len(Y) - 1, rank)
    origin = mean if centred else np.zeros(Y.shape[1])
    mappings: list[Mapping] = []
    encoders: list[Array] = []
    outputs = Y - origin
    for layer in range(1, n_layers + 1):
        n_l = max(n - layer + 1, min(n, 1))
        P = encoding_matrix(Y, n_l) if n_l else np.zeros((0, Y.shape[1]))
        x = np.array([P @ y for y in outputs]).reshape(len(Y), n_l)  # (61)
        limit = M_max if layer == 1 else len(mappings[-1].a)  # (62)
        mappings.append(learn(x, Y - origin, limit, mappings[-1].clusters if mappings else None))
        encoders.append(P)
        outputs = np.array([predict(mappings[-1], row) for row in x])
    return Deep(origin, mappings, encoders)


def layers(deep: Deep, y: Array) -> list[Array]:
    """Output of every layer (63)."""
    found = []
    current = y - deep.mean
    for mapping, P in zip(deep.mappings, deep.encoders, strict=True):
        current = predict(mapping, P @ current)
        found.append(current + deep.mean)
    return found


def deep_image(deep: Deep, y: Array) -> Array:
    """(64), (65)."""
    return min(layers(deep, y), key=lambda image: float(np.sum((y - image) ** 2)))


def wide_image(branches: list[Deep], y: Array) -> Array:
    """(69), (70)."""
    images = [deep_image(branch, y) for branch in branches]
    return min(images, key=lambda image: float(np.sum((y - image) ** 2)))
