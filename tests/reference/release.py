"""Literal versions of 002: the machine of eq. 2, the noises of Thm 2.4 and 2.10 and Cor. 2.7, eq. 5.

Slow and obvious; nothing here is taken from the package.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, sqrtm
from scipy.optimize import minimize

Floats = NDArray[np.float64]


def robust_svm(X: Floats, y: Floats, rho: float, theta: float) -> tuple[Floats, float, Floats]:
    """alpha, beta and xi of (2), by a general solver for problems with inequalities."""
    q, p = X.shape

    def cost(v: Floats) -> float:
        alpha, beta, xi = v[:p], v[p], v[p + 1 :]
        return 0.5 * alpha @ alpha + rho / 2 * (beta**2 + xi @ xi) + theta * xi.sum()  # (2a)

    def slope(v: Floats) -> Floats:
        return np.concatenate([v[:p], [rho * v[p]], rho * v[p + 1 :] + theta])

    margins = np.column_stack([y[:, None] * X, y, np.eye(q)])
    found = minimize(
        cost,
        np.concatenate([np.zeros(p + 1), np.ones(q)]),
        jac=slope,
        method="SLSQP",
        bounds=[(None, None)] * (p + 1) + [(0, None)] * q,  # (2c)
        constraints={"type": "ineq", "fun": lambda v: margins @ v - 1, "jac": lambda v: margins},  # (2b)
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    return found.x[:p], float(found.x[p]), found.x[p + 1 :]


def conditions(
    X: Floats, y: Floats, rho: float, theta: float, alpha: Floats, beta: float, xi: Floats, omega: Floats
) -> float:
    """Largest violation of (15), row by row; (15b) with theta where the document prints 1."""
    varsigma = theta + rho * xi - omega
    worst = [np.max(np.abs(alpha - sum(omega[i] * y[i] * X[i] for i in range(len(X)))))]  # (15a)
    worst.append(abs(beta - sum(omega[i] * y[i] for i in range(len(X))) / rho))
    for i in range(len(X)):
        worst.append(max(0.0, -omega[i], -varsigma[i], -xi[i]))
        worst.append(max(0.0, 1 - xi[i] - y[i] * (alpha @ X[i] + beta)))
        worst.append(abs(omega[i] * (y[i] * (alpha @ X[i] + beta) - 1 + xi[i])))  # (15c)
        worst.append(abs(xi[i] * varsigma[i]))  # (15d)
    return float(max(worst))


def gaussian_density(n: Floats, lam: float, Pi: Floats) -> float:
    """(9)."""
    half = np.real(sqrtm(Pi))
    normaliser = np.sqrt(np.linalg.det(2 * np.pi * np.linalg.inv(half) / np.sqrt(lam)))
    return float(np.exp(-np.sqrt(lam) / 2 * n @ half @ n) / normaliser)


def fisher_information_2d(
    density: Callable[[Floats], float], reach: tuple[float, float], points: int
) -> Floats:
    """(5) in two dimensions: the trapezium rule, with central differences for the gradient."""
    axes = [np.linspace(-r, r, points) for r in reach]
    step = [axis[1] - axis[0] for axis in axes]
    total = np.zeros((2, 2))
    small = 1e-4
    for a in axes[0]:
        for b in axes[1]:
            n = np.array([a, b])
            gradient = np.array(
                [
                    (np.log(density(n + small * e)) - np.log(density(n - small * e))) / (2 * small)
                    for e in np.eye(2)
                ]
            )
            total += density(n) * np.outer(gradient, gradient) * step[0] * step[1]
    return total


def bounded_density(
    low: float, high: float, lam: float, vartheta: float, points: int = 2001
) -> tuple[Floats, Floats]:
    """Cor. 2.7 in one dimension by finite differences: (12a) in the coordinate v = sqrt(vartheta) n.

    Returns places n inside the interval and the density there.
    """
    v = np.linspace(np.sqrt(vartheta) * low, np.sqrt(vartheta) * high, points)
    h = v[1] - v[0]
    inner = v[1:-1]  # (12b): u vanishes at both ends
    operator = (
        np.diag(2 / h**2 + lam / (4 * vartheta) * inner**2)
        - np.diag(np.full(points - 3, 1 / h**2), 1)
        - np.diag(np.full(points - 3, 1 / h**2), -1)
    )
    u = np.linalg.eigh(operator)[1][:, 0]
    u = u / np.sqrt(np.sum(u**2) * h)  # (12c)
    return inner / np.sqrt(vartheta), np.sqrt(vartheta) * u**2


def correlated_noise_basis(X: Floats, y: Floats, alpha: Floats, omega: Floats) -> Floats:
    """Orthonormal basis Psi of the null space of Omega (Prop. 2.9, with omega where lambda is printed)."""
    q, p = X.shape
    weighted_sum = np.kron((omega * y)[None, :], np.eye(p))
    along = np.kron(np.eye(q), alpha[None, :])
    return null_space(np.vstack([weighted_sum, along]))


def correlated_bound(X: Floats, y: Floats, alpha: Floats, omega: Floats, m: float) -> float:
    """Least E||x_i - x_i hat||^2 over the rows under Thm 2.10: the trace of each row's noise covariance."""
    q, p = X.shape
    basis = correlated_noise_basis(X, y, alpha, omega)
    covariance = m * basis @ basis.T
    return float(min(np.trace(covariance[i * p : (i + 1) * p, i * p : (i + 1) * p]) for i in range(q)))
