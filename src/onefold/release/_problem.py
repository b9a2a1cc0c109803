"""The robust support vector machine (002 eq. 2) as arrays: the problem, and a point with multipliers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Mask", "Point", "Problem"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Problem:
    """min sum(ridge z^2) / 2 + rho xi.xi / 2 + theta sum(xi)  subject to  G z + xi >= 1,  xi >= 0."""

    G: Floats
    ridge: Floats
    rho: float
    theta: float


@dataclass(frozen=True)
class Point:
    """Weights, slacks xi, distances s above the margin, and the multipliers of both."""

    z: Floats
    xi: Floats
    s: Floats
    omega: Floats
    varsigma: Floats

    @classmethod
    def at(cls, problem: Problem, z: Floats) -> "Point":
        """Weights alone: every row's multipliers follow from its side of the margin."""
        s, xi = np.maximum(problem.G @ z - 1.0, 0.0), np.maximum(1.0 - problem.G @ z, 0.0)
        omega = np.where(xi > 0, problem.theta + problem.rho * xi, 0.0)  # (15b-d)
        return cls(z, xi, s, omega, problem.theta + problem.rho * xi - omega)
