"""Deep fuzzy models, word for word from 003 Sec. 2.2-2.3 and as slowly as they are printed.

Liberties, all where the document is silent or cannot be followed: k-means starts from points far from each
other and makes at most 20 rounds; an input that does not vary has weight 0 instead of 1/0, and directions of
V without length are left out; the prior mean of a consequent is the mean of its output (zero in the document)
unless told otherwise; the prior precision grows by 1e-12 of the largest eigenvalue of beta K'K, so that the
inverse exists; a layer is added when precision grows by more than a millionth, and is left out otherwise
(step 16 prints the opposite of the text); no output is farther from the mean than the farthest output for a
sample. ``width`` multiplies the ranges of step 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, pi, sqrt

import numpy as np
from scipy import stats
from scipy.special import digamma, gammaln

from reference.membership import far_apart

Array = np.ndarray

A = B = LAMBDA = 1e-6  # Alg. 1, step 10
RESOLVED = 1e-12
GROWTH = 1e-6
ROUNDS = 20


def cluster_centroid(x: Array, M: int) -> Array:
    """Alg. 1, step 2: k-means."""
    centres = x[far_apart(x, M)].copy()
    previous = None
    for _ in range(ROUNDS):
        labels = [int(np.argmin(((centres - point) ** 2).sum(axis=1))) for point in x]
        if labels == previous:
            break
        previous = labels
        for m in range(len(centres)):
            members = [x[i] for i in range(len(x)) if labels[i] == m]
            if members:
                centres[m] = sum(members) / len(members)
    return centres


def fulfilment(x: Array, a: Array, w: Array) -> float:
    """(2.104), W being diagonal."""
    return exp(-0.5 * sum(w[k] * (x[k] - a[k]) ** 2 for k in range(len(w))))


def shares(rows: Array, a: Array, w: Array) -> Array:
    """(2.110)."""
    K = np.empty((len(rows), len(a)))
    for i, x in enumerate(rows):
        degrees = [fulfilment(x, centre, w) for centre in a]
        for m in range(len(a)):
            K[i, m] = degrees[m] / sum(degrees)
    return K


def weights(x: Array, width: float = 1.0) -> Array:
    """Alg. 1, step 3: the diagonal of W."""
    ranges = width * (x.max(axis=0) - x.min(axis=0))
    return np.array([r**-2.0 if r > 0.0 else 0.0 for r in ranges])


def directions(Y: Array, n: int) -> Array:
    """(2.147), (2.148): V, (p, n)."""
    P = sum(np.outer(y, y) for y in Y) / len(Y)
    values, vectors = np.linalg.eigh(P)
    return vectors[:, np.argsort(-values, kind="stable")[:n]]


@dataclass
class Layer:
    """Posterior of the consequents of one layer, and what bounds its outputs."""

    m: Array  # (M, p)
    beta: float
    mean: Array
    radius: float


def consequents(K: Array, Y: Array, prior: Array, steps: int = 1000) -> tuple[Array, float]:
    """Alg. 1, steps 10-14, output by output."""
    N, p = Y.shape
    M = K.shape[1]
    inner = K.T @ K
    largest = float(np.linalg.eigvalsh(inner)[-1])
    beta = 1.0
    m_hat = np.empty((M, p))
    for _ in range(steps):
        total = 0.0
        for j in range(p):
            Lambda_j = (LAMBDA + beta * RESOLVED * largest) * np.eye(M)
            Lambda_hat = Lambda_j + beta * inner  # (2.150)
            inverse = np.linalg.inv(Lambda_hat)
            m_hat[:, j] = inverse @ (Lambda_j @ np.full(M, prior[j]) + beta * K.T @ Y[:, j])  # (2.151)
            total += float(np.sum((Y[:, j] - K @ m_hat[:, j]) ** 2)) + float(np.trace(inverse @ inner))
        a_hat = A + p * N / 2  # (2.152)
        b_hat = B + total / 2  # (2.153)
        following = a_hat / b_hat  # (2.154)
        converged = abs(following - beta) <= 1e-10 * following
        beta = following
        if converged:
            break
    return m_hat, beta


def free_energy(K: Array, Y: Array, prior: Array) -> float:
    """(2.136) at its maximum: expected logarithms of the joint density, and entropies of the posteriors."""
    (N, p), M = Y.shape, K.shape[1]
    m_hat, beta = consequents(K, Y, prior)
    inner = K.T @ K
    precision = LAMBDA + beta * RESOLVED * float(np.linalg.eigvalsh(inner)[-1])
    covariance = np.linalg.inv(precision * np.eye(M) + beta * inner)
    shape = A + p * N / 2
    rate = shape / beta
    log_beta = float(digamma(shape)) - log(rate)
    total = 0.0
    for j in range(p):
        error = float(np.sum((Y[:, j] - K @ m_hat[:, j]) ** 2)) + float(np.trace(covariance @ inner))
        total += N / 2 * (log_beta - log(2 * pi)) - beta / 2 * error  # (2.127)
        away = float(np.sum((m_hat[:, j] - prior[j]) ** 2)) + float(np.trace(covariance))
        total += M / 2 * log(precision / (2 * pi)) - precision / 2 * away  # (2.126)
        total += float(stats.multivariate_normal(np.zeros(M), covariance).entropy())
    total += A * log(B) - float(gammaln(A)) + (A - 1) * log_beta - B * beta  # (2.125)
    return total + float(stats.gamma(shape, scale=1 / rate).entropy())


@dataclass
class Model:
    """The set of parameters that Alg. 1 returns."""

    a: Array
    V: Array
    w: Array
    layers: list[Layer]


def learn(
    x: Array, Y: Array, M: int, V: Array, n_layers: int = 5, width: float = 1.0, prior: Array | None = None
) -> Model:
    """Algorithm 1; ``V`` with fewer directions than ``x`` has inputs allows a single layer only."""
    a = cluster_centroid(x, M)
    w = weights(x, width)
    mean = Y.sum(axis=0) / len(Y)
    prior = mean if prior is None else prior
    layers: list[Layer] = []
    while len(layers) < n_layers:
        K = shares(x, a, w)
        m_hat, beta = consequents(K, Y, prior)
        if layers and not beta > layers[-1].beta * (1.0 + GROWTH):
            break
        outputs = K @ m_hat  # (2.155)
        radius = max(sqrt(float(np.sum((row - mean) ** 2))) for row in outputs)
        layers.append(Layer(m_hat, beta, mean, radius))
        if V.shape[1] < x.shape[1]:
            break
        x = np.array([V.T @ row for row in outputs])  # step 8
    return Model(a, V, w, layers)


def outputs(model: Model, x: Array) -> list[Array]:
    """Outputs of every layer for one input (2.116), (2.158), (2.161)."""
    found = []
    for layer in model.layers:
        output = (shares(x[None], model.a, model.w) @ layer.m)[0]
        length = sqrt(float(np.sum((output - layer.mean) ** 2)))
        if length > layer.radius:
            output = layer.mean + (output - layer.mean) * layer.radius / length
        found.append(output)
        x = model.V.T @ output
    return found


def fit_autoencoder(Y: Array, n: int, M: int, n_layers: int = 5, width: float = 1.0) -> Model:
    """Algorithm 2, without directions in which the samples do not vary."""
    V = directions(Y, min(n, Y.shape[1], len(Y)))
    x = np.array([V.T @ y for y in Y])  # (2.149)
    length = sqrt(float(np.mean(np.sum(Y**2, axis=1))))
    varies = (x.max(axis=0) - x.min(axis=0)) > 1e-12 * length
    return learn(x[:, varies], Y, M, V[:, varies], n_layers, width)


def image(model: Model, y: Array) -> Array:
    """Definition 9: the output of the last layer."""
    return outputs(model, model.V.T @ y)[-1]


def membership(model: Model, y: Array) -> float:
    """(2.162)."""
    return exp(-float(np.sum((y - image(model, y)) ** 2)) / (2 * len(y)))


def decide(owners: list[list[Model]], y: Array) -> int:
    """(2.166): ``owners[s][c]`` is the fuzzy set of class c of owner s."""
    n_classes = len(owners[0])
    values = [max(membership(owner[c], y) for owner in owners) for c in range(n_classes)]
    return int(np.argmax(values))
