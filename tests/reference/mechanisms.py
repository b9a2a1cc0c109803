"""The noise of the documents, one entry at a time, and privacy losses straight from the definition.

Sources: 000 eq. 74-77, 003 Result 6. Nothing here looks at the package.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erfc, exp, inf, log, sqrt

import numpy as np


def optimal_density(v: float, epsilon: float, delta: float, d: float) -> float:
    """000 eq. 74 away from zero."""
    return (1 - delta) * epsilon / (2 * d) * exp(-epsilon / d * abs(v))


def optimal_cdf(v: float, epsilon: float, delta: float, d: float) -> float:
    """000 eq. 75; 004 eq. 129 has the wrong sign in the first case."""
    if v < 0:
        return (1 - delta) / 2 * exp(epsilon / d * v)
    if v == 0:
        return (1 + delta) / 2
    return 1 - (1 - delta) / 2 * exp(-epsilon / d * v)


def optimal_inverse(t: float, epsilon: float, delta: float, d: float) -> float:
    """000 eq. 76."""
    if t < (1 - delta) / 2:
        return d / epsilon * log(2 * t / (1 - delta))
    if t <= (1 + delta) / 2:
        return 0.0
    return -d / epsilon * log(2 * (1 - t) / (1 - delta))


def optimal_matrix(
    Y: np.ndarray, epsilon: float, delta: float, d: float, rng: np.random.Generator
) -> np.ndarray:
    """000 eq. 77, entry by entry."""
    noisy = np.array(Y, dtype=float)
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            t = rng.uniform(np.nextafter(0, 1), 1)
            noisy[i, j] += optimal_inverse(t, epsilon, delta, d)
    return noisy


def classical_sigma(epsilon: float, delta: float, d: float) -> float:
    """003 Result 6."""
    return d * sqrt(2 * log(1.25 / delta)) / epsilon


def gaussian_cdf(x: float) -> float:
    return erfc(-x / sqrt(2)) / 2


def gaussian_delta(epsilon: float, sigma: float, l2: float) -> float:
    """Balle and Wang 2018, Theorem 8, as printed."""
    a, b = l2 / (2 * sigma), epsilon * sigma / l2
    return gaussian_cdf(a - b) - exp(epsilon) * gaussian_cdf(-a - b)


def excess_by_quadrature(
    density: Callable[[np.ndarray], np.ndarray],
    epsilon: float,
    shift: float,
    atom: float = 0.0,
    reach: float = 200.0,
    n: int = 400_001,
) -> float:
    """sup over events O of P(v in O) - exp(epsilon) P(v + shift in O), for a density plus an atom at zero.

    The best event holds the points where the difference is positive, so the supremum is the integral of the
    positive part. The two atoms sit at different points: the one of the first distribution counts in full.
    """
    v = np.linspace(-reach, reach, n) + 1e-7  # the midpoint rule, off the atoms
    difference = density(v) - exp(epsilon) * density(v - shift)
    # At 0 the other distribution has no mass worth an integral, at ``shift`` the first one has none.
    return float(np.sum(np.maximum(difference, 0)) * (v[1] - v[0])) + (atom if shift else 0.0)


def excess_by_summation(pmf: np.ndarray, epsilon: float, shift: int) -> float:
    """The same for integers: ``pmf`` is centred, and everything beyond its ends counts as lost."""
    shifted = np.zeros_like(pmf)
    if shift > 0:
        shifted[shift:] = pmf[:-shift]
    elif shift < 0:
        shifted[:shift] = pmf[-shift:]
    else:
        shifted = pmf
    return float(np.sum(np.maximum(pmf - exp(epsilon) * shifted, 0)))


def discrete_laplace_pmf(t: float, atom: float, reach: int) -> np.ndarray:
    """P(K = k) for k = -reach ... reach: exp(-t |k|), normalised, with a further atom at 0."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-t * np.abs(k)) * (1 - exp(-t)) / (1 + exp(-t))
    return (1 - atom) * weights + atom * (k == 0)


def rounded_gaussian_pmf(sigma: float, reach: int) -> np.ndarray:
    """P(round(sigma z) = k) for k = -reach ... reach."""
    edges = [-inf, *((k + 0.5) / sigma for k in range(-reach, reach)), inf]
    upper = np.array([erfc(x / sqrt(2)) / 2 if x > -inf else 1.0 for x in edges])
    return upper[:-1] - upper[1:]


def geometric_pmf_from_digits(ones: list[float], n: int) -> np.ndarray:
    """Distribution of an integer with independent binary digits, given their probabilities of a one."""
    g, pmf = np.arange(n), np.ones(n)
    for j, p in enumerate(ones):
        pmf *= np.where(g >> j & 1, p, 1 - p)
    return pmf
