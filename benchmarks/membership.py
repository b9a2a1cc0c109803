"""Membership-mappings: a deep autoencoder against the document's algorithm, a wide one on very many rows.

The version in ``tests/reference`` goes entry by entry and would make any ratio look good. This one follows
001 Alg. 1 and 2 as written, with k-means and an explicit inverse for every number of inducing points
tried and all outputs in every step of beta, but lets numpy and scikit-learn do each step.
"""

import math

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.data import Sizes, digits
from benchmarks.timing import Row, best, peak_above
from onefold import DeepMembershipAutoencoder, WideMembershipAutoencoder

KAPPA, NU, JITTER = 0.1, 2.1, 1e-8


def kernel(x: np.ndarray, a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """001 eq. 17 at sigma^2 = 1."""
    left, right = x * np.sqrt(w), a * np.sqrt(w)
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)[None, :] - 2 * left @ right.T
    return np.exp(-0.5 * np.maximum(squares, 0.0))


def attempt(x: np.ndarray, w: np.ndarray, M: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Inducing points by k-means, K_aa, K_xa and tau(M, 1)."""
    a = KMeans(M, n_init=1, random_state=0).fit(x).cluster_centers_
    K_aa, K_xa = kernel(a, a, w) + JITTER * np.eye(M), kernel(x, a, w)
    trace = np.trace(np.linalg.inv(K_aa) @ K_xa.T @ K_xa)
    return a, K_aa, K_xa, (len(x) - trace) / (NU + M - 2)


def learn(x: np.ndarray, y: np.ndarray, M: int) -> tuple[np.ndarray, int]:
    """001 Alg. 1: the outputs for the samples, and the number of inducing points."""
    w = np.ptp(x, axis=0) ** -2.0
    _, K_aa, K_xa, tau = attempt(x, w, M)
    while tau < KAPPA and M > 1:
        M = min(math.ceil(0.9 * M), M - 1)
        _, K_aa, K_xa, tau = attempt(x, w, M)
    variance = y.var(axis=0).mean()
    sigma2 = 1.0 if tau >= variance else variance / tau
    K_aa, K_xa, tau, beta = sigma2 * K_aa, sigma2 * K_xa, sigma2 * tau, 1.0
    while True:
        alpha = np.linalg.inv(K_xa.T @ K_xa + tau * K_aa + K_aa / beta) @ K_xa.T @ y  # eq. 49
        following = 1.0 / np.mean((y - K_xa @ alpha) ** 2)  # eq. 58
        if abs(following - beta) <= 1e-8 * following:
            return K_xa @ alpha, M
        beta = following


def fit(Y: np.ndarray, n: int, n_layers: int, M: int) -> list[int]:
    """001 Alg. 2 on deviations from the mean; the number of inducing points of each layer."""
    centred = Y - Y.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov(Y.T))
    outputs, counts = centred, []
    for layer in range(n_layers):
        P = vectors[:, ::-1][:, : max(n - layer, 1)].T
        outputs, M = learn(outputs @ P.T, centred, M)
        counts.append(M)
    return counts


def against_literal(sizes: Sizes) -> Row:
    """One deep autoencoder on digits, n = 20, L = 5."""
    Y, name = digits(sizes.machine)
    model = DeepMembershipAutoencoder(20, 5)
    ours = best(lambda: model.fit(Y), 5)
    counts: list[int] = []
    literal = best(lambda: counts.extend(fit(Y, 20, 5, len(Y) // 2)), 2)
    return Row(
        f"DeepMembershipAutoencoder.fit, {len(Y)} {name}, n=20, L=5: time of the literal version / ours",
        literal / ours,
        ">= 10",
        {
            "literal_seconds": literal,
            "seconds": ours,
            "inducing": model.n_inducing_,
            "literal_inducing": counts[:5],
        },
    )


def clustered(n_rows: int) -> np.ndarray:
    """Rows of 100 features around 40 centres, along 12 directions and a little beside them."""
    rng = np.random.default_rng(0)
    along = rng.normal(size=(n_rows, 12)) @ rng.normal(size=(12, 100))
    centres = 3.0 * rng.normal(size=(40, 100))[rng.integers(40, size=n_rows)]
    return (along + centres + 0.3 * rng.normal(size=(n_rows, 100))).astype(np.float32)


def many_rows(sizes: Sizes) -> list[Row]:
    """The wide form on 100 rows per sample of a machine, in units of k-means into as many clusters."""
    X = clustered(100 * sizes.machine)
    model = WideMembershipAutoencoder(20, 5, random_state=0)
    _, seconds, peak = peak_above(lambda: model.fit(X))
    plain = KMeans(max(len(X) // 1000, 1), n_init=1, max_iter=100, random_state=0)
    _, kmeans, _ = peak_above(lambda: plain.fit(X))
    what = f"WideMembershipAutoencoder.fit, {len(X)} x 100 float32, n=20, L=5"
    details = {
        "seconds": seconds,
        "kmeans_seconds": kmeans,
        "peak_mib": peak / 2**20,
        "data_mib": X.nbytes / 2**20,
        "branches": len(model.branches_),
        "largest_inducing": max(max(branch.n_inducing_) for branch in model.branches_),
    }
    return [
        Row(f"{what}: time / one k-means into as many clusters", seconds / kmeans, "<= 6", details),
        Row(f"{what}: peak memory above the data / data", peak / X.nbytes, "<= 6", details),
    ]


def rows(sizes: Sizes) -> list[Row]:
    """All benchmarks of membership-mappings."""
    return [against_literal(sizes), *many_rows(sizes)]
