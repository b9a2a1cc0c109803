"""Kernel affine hull machines, word for word from the documents and as slowly as they are printed.

Sources: 000 Sec. 3-4 (Def. 1-8) and 004 App. A (Alg. 1). Everything is float64, every matrix is formed in
full, every inverse is explicit, every query is treated alone. The only liberties are the two degenerate
cases the documents leave open: one sample, or no component left (n = 0), is the constant map onto the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

Array = np.ndarray

SMALLEST_RANGE = 1e-3  # 004 Alg. 1, step 3


def sample_covariance(Y: Array) -> Array:
    """The p x p sample covariance of the rows of Y, one outer product at a time."""
    N, p = Y.shape
    mean = Y.sum(axis=0) / N
    total = np.zeros((p, p))
    for y in Y:
        total += np.outer(y - mean, y - mean)
    return total / (N - 1)


def encoding_matrix(Y: Array, n: int) -> Array:
    """P of Def. 1: row i is the eigenvector of the i-th largest eigenvalue of the sample covariance."""
    eigenvalues, eigenvectors = np.linalg.eigh(sample_covariance(Y))
    descending = np.argsort(eigenvalues)[::-1]
    return eigenvectors[:, descending[:n]].T


def subspace_dimension(Y: Array, n_components: int) -> int:
    """004 Alg. 1 with ``n_components`` in the place of 20: n shrinks while an encoded range is too small."""
    N, p = Y.shape
    n = min(n_components, p, N - 1)
    while n > 0:
        encoded = Y @ encoding_matrix(Y, n).T
        ranges = [encoded[:, j].max() - encoded[:, j].min() for j in range(n)]
        if min(ranges) >= SMALLEST_RANGE:
            break
        n -= 1
    return n


def kernel(a: Array, b: Array, theta_inverse: Array) -> float:
    """000 eq. 35."""
    n = len(a)
    difference = a - b
    return exp(-float(difference @ theta_inverse @ difference) / (2 * n))


def residual(Y: Array, K: Array, e: float, tau: float) -> float:
    """R(e, tau) of 000 eq. 42, column by column."""
    N, p = Y.shape
    smoother = K @ np.linalg.inv(K + (e + tau) * np.eye(N))
    total = 0.0
    for j in range(p):
        total += float(np.sum((Y[:, j] - smoother @ Y[:, j]) ** 2))
    return total / (p * N)


def regularisation(Y: Array, K: Array, tolerance: float = 1e-13, steps: int = 500) -> float:
    """lambda* of 000 eq. 40, by the iteration of eq. 43 from the middle of the interval of eq. 44."""
    N, p = Y.shape
    mean_square = float(np.sum(Y**2)) / (p * N)
    tau = 2 * mean_square
    e = 0.5 * mean_square
    for _ in range(steps):
        following = residual(Y, K, e, tau)
        converged = abs(following - e) <= tolerance * following
        e = following
        if converged:
            break
    return e + tau


@dataclass
class Machine:
    """A_{Y,n} of 000 Def. 1; ``n == 0`` marks the constant map onto the mean."""

    Y: Array
    n: int
    P: Array
    theta_inverse: Array
    encoded: Array
    K: Array
    lambda_star: float


def fit(Y: Array, n: int) -> Machine:
    """The machine A_{Y,n} for a given subspace dimension n."""
    Y = np.asarray(Y, dtype=np.float64)
    N, p = Y.shape
    if N == 1 or n == 0:
        return Machine(Y, 0, np.zeros((0, p)), np.zeros((0, 0)), np.zeros((N, 0)), np.ones((N, N)), np.nan)
    P = encoding_matrix(Y, n)
    centred = Y - np.ones((N, 1)) * (Y.sum(axis=0) / N)
    theta = P @ centred.T @ centred @ P.T / (N - 1)  # 000 eq. 36
    theta_inverse = np.linalg.inv(theta)
    encoded = Y @ P.T
    K = np.empty((N, N))
    for i in range(N):
        for j in range(N):
            K[i, j] = kernel(encoded[i], encoded[j], theta_inverse)  # 000 eq. 39
    return Machine(Y, n, P, theta_inverse, encoded, K, regularisation(Y, K))


def fit_shrunk(Y: Array, n_components: int) -> Machine:
    """One machine with the subspace dimension of 004 Alg. 1."""
    Y = np.asarray(Y, dtype=np.float64)
    return fit(Y, subspace_dimension(Y, n_components))


def memberships(machine: Machine, y: Array) -> Array:
    """(h_1(Py), ..., h_N(Py)) of 000 eq. 38."""
    N = len(machine.Y)
    if machine.n == 0:
        return np.full(N, 1.0 / N)
    code = machine.P @ y
    values = np.array([kernel(code, other, machine.theta_inverse) for other in machine.encoded])
    return np.linalg.inv(machine.K + machine.lambda_star * np.eye(N)) @ values


def image(machine: Machine, y: Array) -> Array:
    """A_{Y,n}(y) of 000 eq. 33."""
    h = memberships(machine, y)
    total = h.sum()
    result = np.zeros(machine.Y.shape[1])
    for weight, sample in zip(h, machine.Y, strict=True):
        result += weight / total * sample
    return result


def distance(machine: Machine, y: Array) -> float:
    """Gamma_A of 000 eq. 48."""
    return float(np.linalg.norm(y - image(machine, y)))


def modelling_error(machine: Machine) -> float:
    """r of 000 eq. 88."""
    return sum(distance(machine, y) for y in machine.Y)


def left_out_distance(machine: Machine, i: int) -> float:
    """Distance of sample i from its image under the machine of the others, encoding and lambda kept."""
    others = np.arange(len(machine.Y)) != i
    without = Machine(
        machine.Y[others],
        machine.n,
        machine.P,
        machine.theta_inverse,
        machine.encoded[others],
        machine.K[np.ix_(others, others)],
        machine.lambda_star,
    )
    return distance(without, machine.Y[i])


def image_bound(machine: Machine) -> float:
    """The first bound of 000 eq. 46 on the norm of any image."""
    spectrum = np.linalg.eigvalsh(machine.K)
    ratio = (machine.lambda_star + spectrum[-1]) / (machine.lambda_star + max(spectrum[0], 0.0))
    return float(np.linalg.norm(machine.Y, 2) * ratio)


def fit_deep(Y: Array, n_components: int, n_layers: int) -> list[Machine]:
    """A_{Y,n}, A_{Y,n-1}, ..., at most n of them (000 Def. 3 asks for L <= n)."""
    Y = np.asarray(Y, dtype=np.float64)
    n = subspace_dimension(Y, n_components)
    return [fit(Y, n - layer) for layer in range(max(1, min(n_layers, n)))]


def layers(machines: Sequence[Machine], y: Array) -> list[Array]:
    """M_1(y), ..., M_L(y) of 000 eq. 51."""
    outputs = []
    current = y
    for machine in machines:
        current = image(machine, current)
        outputs.append(current)
    return outputs


def deep_image(machines: Sequence[Machine], y: Array) -> Array:
    """D(y) of 000 eq. 50 and 52: the layer whose image lies nearest to y."""
    return min(layers(machines, y), key=lambda output: float(np.linalg.norm(y - output)))


def deep_distance(machines: Sequence[Machine], y: Array) -> float:
    """Gamma_D of 000 eq. 53."""
    return float(np.linalg.norm(y - deep_image(machines, y)))


def fit_wide(Y: Array, partition: Sequence[Array], n_components: int, n_layers: int) -> list[list[Machine]]:
    """One deep machine per subset (000 eq. 57); the partition (eq. 58) is given as arrays of row numbers."""
    Y = np.asarray(Y, dtype=np.float64)
    return [fit_deep(Y[rows], n_components, n_layers) for rows in partition]


def wide_image(branches: Sequence[Sequence[Machine]], y: Array) -> Array:
    """W(y) of 000 eq. 55-56: the branch whose image lies nearest to y."""
    candidates = [deep_image(branch, y) for branch in branches]
    return min(candidates, key=lambda output: float(np.linalg.norm(y - output)))


def wide_distance(branches: Sequence[Sequence[Machine]], y: Array) -> float:
    """Gamma_W of 000 eq. 60."""
    return float(np.linalg.norm(y - wide_image(branches, y)))


def classify(distances: Sequence[float]) -> int:
    """000 eq. 62: the number of the class at the smallest distance."""
    best = 0
    for c in range(1, len(distances)):
        if distances[c] < distances[best]:
            best = c
    return best


def matching_score(distances: Sequence[float]) -> Array:
    """000 eq. 63 for every class."""
    total = sum(d * d for d in distances)
    return np.array([exp(-(d * d) / total) for d in distances])
