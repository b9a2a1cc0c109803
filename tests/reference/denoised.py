"""The linear discriminant of one noisy second moment, number by number, from two thinned copies of it."""

import math

import numpy as np


def without_noise(values, sigma, trace):
    """Eigenvalues in ascending order without the noise: shift, shrink, ascend, cut at 0, rescale."""
    p = len(values)
    w = [value - (sum(values) - trace) / p for value in values]
    v = sigma**2 * p / 2
    d = []
    for j in range(p):
        h = sum((w[j] - w[i]) / ((w[j] - w[i]) ** 2 + v / p) for i in range(p) if w[i] != w[j]) / p
        d.append(w[j] - 2 * v * h)
    # The nearest ascending numbers, by their minimax formula.
    d = [max(min(float(np.mean(d[a : b + 1])) for b in range(j, p)) for a in range(j + 1)) for j in range(p)]
    d = [max(value, 0.0) for value in d]
    return [value * trace / sum(d) for value in d] if sum(d) > 0 else [trace / p] * p


def spectrum(values, sigma, trace, total):
    """Eigenvalues without the noise, flattened."""
    p = len(values)
    d = without_noise(values, sigma, trace)
    ridge = 0.4 * sigma * math.sqrt(2 * p) * p / trace + min(p / total, 1.0)
    a = ridge / (1 + ridge)
    return np.array([(1 - a) * value + a * trace / p for value in d])


def discriminant(counts, sums, first, other, sum_noise, second_noise, trace=1.0):
    """Return the scores of classes as a function of a row, from two thinned copies of the moment."""
    n_classes, p = sums.shape
    n = [max(count, 1.0) for count in counts]
    total = sum(n)
    grand = sum(sums) / total
    w, U = np.linalg.eigh(first / total)
    d = spectrum(list(w), second_noise * math.sqrt(1.25) / total, trace, total)
    M = np.array([U.T @ (sums[c] / n[c] - grand) for c in range(n_classes)])
    tau = [(sum_noise[c] / n[c]) ** 2 for c in range(n_classes)]
    kappa = sum(n[c] / total * M[c, j] ** 2 for c in range(n_classes) for j in range(p))
    kappa -= p * sum(n[c] / total * (1 - n[c] / total) * tau[c] for c in range(n_classes))
    kappa = min(max(kappa / trace - (n_classes - 1) / total, 0.001), 0.8)
    shrunk = np.zeros((n_classes, p))
    for c in range(n_classes):
        for j in range(p):
            prior = kappa * d[j]
            shrunk[c, j] = M[c, j] * prior / (prior + tau[c] + (1 - kappa) * d[j] / n[c])
    shrunk -= sum(n[c] / total * shrunk[c] for c in range(n_classes))
    # Gram and Schmidt on the discriminating directions: any orthonormal basis of their span will do.
    basis = []
    for c in range(n_classes):
        rest = shrunk[c] / d
        length = np.linalg.norm(rest)
        for _ in range(2):
            rest = rest - sum(((rest @ q) * q for q in basis), np.zeros(p))
        if length > 0 and np.linalg.norm(rest) > 1e-8 * length:
            basis.append(rest / np.linalg.norm(rest))
    if not basis:
        return lambda x: np.log(np.array(n) / total)
    Q = np.array(basis).T
    k = Q.shape[1]
    m = shrunk @ Q
    S = (U @ Q).T @ other @ (U @ Q) / total
    S -= sum(n[c] / total * np.outer(m[c], m[c]) for c in range(n_classes))
    s0 = 2 * np.trace(Q.T @ np.diag(d) @ Q) / k
    radius = second_noise * math.sqrt(5) / total * math.sqrt(2 * k)
    omega = s0**2 / (s0**2 + radius**2)
    values, V = np.linalg.eigh(omega * S + (1 - omega) * s0 * np.eye(k))
    floor = min(0.5 * s0, max(radius, 0.1 * s0))
    S = V @ np.diag([max(value, floor) for value in values]) @ V.T
    inverse = np.linalg.inv(S)

    def scores(x):
        z = (U @ Q).T @ (x - grand)
        return np.array(
            [
                z @ inverse @ m[c] - m[c] @ inverse @ m[c] / 2 + math.log(n[c] / total)
                for c in range(n_classes)
            ]
        )

    return scores
