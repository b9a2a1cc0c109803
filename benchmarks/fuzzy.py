"""Deep fuzzy autoencoders: one fit against the document's algorithm in whole-matrix steps.

The version in ``tests/reference`` goes output by output and would make any ratio look good. This one follows
003 Alg. 1 and 2 as written, with k-means and an explicit inverse in every step of beta, but factors once for
all outputs and lets numpy and scikit-learn do each step.
"""

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.data import Sizes, digits
from benchmarks.timing import Row, best
from onefold import DeepFuzzyAutoencoder

PRIOR = 1e-6


def shares(x: np.ndarray, a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """003 eq. 2.110."""
    left, right = x * np.sqrt(w), a * np.sqrt(w)
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)[None, :] - 2 * left @ right.T
    K = np.exp(-0.5 * squares)
    return K / K.sum(axis=1, keepdims=True)


def consequents(K: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, float]:
    """003 Alg. 1, steps 10-14, all outputs together; the prior mean is the mean of the outputs."""
    (N, p), M = Y.shape, K.shape[1]
    prior, beta = PRIOR * Y.mean(axis=0), 1.0
    while True:
        inverse = np.linalg.inv(PRIOR * np.eye(M) + beta * K.T @ K)
        m = inverse @ (prior + beta * K.T @ Y)
        trace = p * np.trace(inverse @ K.T @ K)
        following = (PRIOR + p * N / 2) / (PRIOR + 0.5 * (np.sum((Y - K @ m) ** 2) + trace))
        if abs(following - beta) <= 1e-8 * following:
            return m, following
        beta = following


def fit(Y: np.ndarray, n: int, n_layers: int) -> list[float]:
    """003 Alg. 2; the precisions of the layers that were kept."""
    _, vectors = np.linalg.eigh(Y.T @ Y / len(Y))
    V = vectors[:, ::-1][:, :n]
    x = Y @ V
    a = KMeans(len(Y) // 2, n_init=1, random_state=0).fit(x).cluster_centers_
    w = np.ptp(x, axis=0) ** -2.0
    precisions: list[float] = []
    while len(precisions) < n_layers:
        K = shares(x, a, w)
        m, beta = consequents(K, Y)
        if precisions and not beta > precisions[-1]:
            break
        precisions.append(beta)
        x = K @ m @ V
    return precisions


def rows(sizes: Sizes) -> list[Row]:
    """One deep autoencoder on digits, n = 20, at most five layers."""
    Y, name = digits(sizes.machine)
    model = DeepFuzzyAutoencoder(20, 5)
    ours = best(lambda: model.fit(Y), 5)
    found: list[list[float]] = []
    literal = best(lambda: found.append(fit(Y, 20, 5)), 2)
    return [
        Row(
            f"DeepFuzzyAutoencoder.fit, {len(Y)} {name}, n=20: time of the literal version / ours",
            literal / ours,
            ">= 10",
            {
                "literal_seconds": literal,
                "seconds": ours,
                "rules": model.n_rules_,
                "precisions": model.precisions_,
                "literal_precisions": found[0],
            },
        )
    ]
