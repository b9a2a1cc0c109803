"""Least-squares density difference, word for word from Sugiyama et al. 2013 and as slowly as it is printed.

One basis function at every pooled sample, explicit inverses, loops over samples, folds and candidates. Widths
are in the unit of the samples; the regularisation is the paper's lambda, added to the diagonal of H as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, pi

import numpy as np

Array = np.ndarray


def basis(x: Array, centre: Array, width: float) -> float:
    difference = x - centre
    return exp(-float(difference @ difference) / (2 * width**2))


def overlap(centres: Array, width: float) -> Array:
    """H: the integral of the product of two basis functions."""
    b, d = centres.shape
    H = np.empty((b, b))
    for k in range(b):
        for j in range(b):
            difference = centres[k] - centres[j]
            H[k, j] = (pi * width**2) ** (d / 2) * exp(-float(difference @ difference) / (4 * width**2))
    return H


def mean_difference(X: Array, X_prime: Array, centres: Array, width: float) -> Array:
    """h: the mean of each basis function over one sample minus its mean over the other."""
    h = np.empty(len(centres))
    for j, centre in enumerate(centres):
        first = sum(basis(x, centre, width) for x in X) / len(X)
        second = sum(basis(x, centre, width) for x in X_prime) / len(X_prime)
        h[j] = first - second
    return h


def fit(X: Array, X_prime: Array, centres: Array, width: float, ridge: float) -> tuple[Array, Array, Array]:
    """theta, H and h."""
    H = overlap(centres, width)
    h = mean_difference(X, X_prime, centres, width)
    theta = np.linalg.inv(H + ridge * np.eye(len(centres))) @ h
    return theta, H, h


def value(x: Array, theta: Array, centres: Array, width: float) -> float:
    return sum(weight * basis(x, centre, width) for weight, centre in zip(theta, centres, strict=True))


def distances(theta: Array, H: Array, h: Array) -> tuple[float, float, float]:
    """The three estimates of the squared L2 distance: combined, linear, quadratic."""
    linear, quadratic = float(h @ theta), float(theta @ H @ theta)
    return 2 * linear - quadratic, linear, quadratic


def held_out_criterion(
    X: Array, X_prime: Array, centres: Array, width: float, ridge: float, folds: Array, folds_prime: Array
) -> float:
    """Mean over the folds of theta.H.theta - 2 h.theta with theta from the others and h from the fold."""
    scores = []
    for t in range(int(folds.max()) + 1):
        theta, H, _ = fit(X[folds != t], X_prime[folds_prime != t], centres, width, ridge)
        h = mean_difference(X[folds == t], X_prime[folds_prime == t], centres, width)
        scores.append(float(theta @ H @ theta) - 2 * float(h @ theta))
    return sum(scores) / len(scores)


def choose(
    X: Array,
    X_prime: Array,
    centres: Array,
    widths: Sequence[float],
    relative_ridges: Sequence[float],
    folds: Array,
    folds_prime: Array,
) -> tuple[float, float]:
    """Width and relative ridge (lambda over the diagonal of H) with the smallest held-out criterion."""
    best = (np.inf, 0.0, 0.0)
    for width in widths:
        diagonal = (pi * width**2) ** (centres.shape[1] / 2)
        for relative in relative_ridges:
            score = held_out_criterion(X, X_prime, centres, width, relative * diagonal, folds, folds_prime)
            if score < best[0]:
                best = (score, width, relative)
    return best[1], best[2]


def gaussian_l2(mean_1: float, sd_1: float, mean_2: float, sd_2: float) -> float:
    """Integral of the squared difference of two normal densities, in closed form."""

    def product(m: float, variance: float) -> float:
        return exp(-(m**2) / (2 * variance)) / (2 * pi * variance) ** 0.5

    own = product(0.0, 2 * sd_1**2) + product(0.0, 2 * sd_2**2)
    return own - 2 * product(mean_1 - mean_2, sd_1**2 + sd_2**2)
