"""Interior-point steps (Mehrotra 1992) for the robust support vector machine (002 eq. 2).

Eliminating all that has the length of the data from the Newton step leaves one positive definite system
of size p + 1, so a step costs one product G' H G.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

__all__ = ["Point", "interior_point"]

Floats = NDArray[np.float64]
MOST_STEPS = 200
PRECISION = 1e-9  # relative, of gap and feasibility
TO_THE_BOUNDARY = 0.995


@dataclass(frozen=True)
class Point:
    """Weights, slacks xi, distances s above the margin, and the multipliers of both."""

    z: Floats
    xi: Floats
    s: Floats
    omega: Floats
    varsigma: Floats

    def moved(self, far: float, d: "Point") -> "Point":
        """A step of length ``far`` in direction ``d``."""
        return Point(*(v + far * dv for v, dv in zip(self.parts, d.parts, strict=True)))

    @property
    def parts(self) -> tuple[Floats, ...]:
        """All five, in order."""
        return self.z, self.xi, self.s, self.omega, self.varsigma

    @property
    def gap(self) -> float:
        """Sum of the complementary products."""
        return float(self.omega @ self.s + self.varsigma @ self.xi)

    def room(self, d: "Point") -> float:
        """How far along ``d`` everything but z stays positive, at most 1."""
        shrinking = max(float(np.max(-dv / v)) for v, dv in zip(self.parts[1:], d.parts[1:], strict=True))
        return 1.0 / max(shrinking, 1.0)


def interior_point(G: Floats, ridge: Floats, rho: float, theta: float) -> tuple[Point, int]:
    """A point close to the solution, strictly inside, and the number of steps it took.

    ``ridge`` weighs the squares of z: sum(ridge z^2) / 2 is what (2) minimises beside the slacks.
    """
    q, width = G.shape
    at = Point(np.zeros(width), np.ones(q), np.ones(q), np.full(q, theta / 2), np.full(q, theta / 2 + rho))
    for step in range(MOST_STEPS):
        missing = _missing(at, G, ridge, rho, theta)
        if _close(at, missing, ridge, rho, theta):
            return at, step
        direction = _newton(at, G, ridge, rho, missing)
        ahead = direction(at.omega * at.s, at.varsigma * at.xi)
        predicted = at.moved(at.room(ahead), ahead).gap
        aim = at.gap / (2 * q) * (predicted / at.gap) ** 3
        d = direction(
            at.omega * at.s + ahead.omega * ahead.s - aim,
            at.varsigma * at.xi + ahead.varsigma * ahead.xi - aim,
        )
        at = at.moved(TO_THE_BOUNDARY * at.room(d), d)
    return at, MOST_STEPS


Missing = tuple[Floats, Floats, Floats]


def _missing(at: Point, G: Floats, ridge: Floats, rho: float, theta: float) -> Missing:
    """What the linear conditions lack: stationarity in z and in xi, and the margins."""
    return (
        ridge * at.z - G.T @ at.omega,
        rho * at.xi + theta - at.omega - at.varsigma,
        G @ at.z + at.xi - 1.0 - at.s,
    )


def _close(at: Point, missing: Missing, ridge: Floats, rho: float, theta: float) -> bool:
    objective = ridge @ at.z**2 / 2 + rho * (at.xi @ at.xi) / 2 + theta * at.xi.sum()
    sizes = (1.0 + float(np.abs(ridge * at.z).max()), theta, 1.0)
    lacking = max(float(np.abs(r).max()) / size for r, size in zip(missing, sizes, strict=True))
    return bool(at.gap <= PRECISION * objective and lacking <= PRECISION)


def _newton(
    at: Point, G: Floats, ridge: Floats, rho: float, missing: Missing
) -> Callable[[Floats, Floats], Point]:
    """Factor the system once; the function solves it for given complementary products."""
    r_z, r_xi, r_s = missing
    D, W = rho + at.varsigma / at.xi, at.omega / at.s
    system = G.T @ ((D * W / (D + W))[:, np.newaxis] * G)
    system[np.diag_indices(G.shape[1])] += ridge
    factor = cho_factor(system, check_finite=False)

    def direction(r_omega: Floats, r_varsigma: Floats) -> Point:
        a = -r_xi - r_varsigma / at.xi
        b = a - r_omega / at.s - W * r_s
        dz = cho_solve(factor, G.T @ (D / (D + W) * b - a) - r_z, check_finite=False)
        Gdz = G @ dz
        d_xi = (b - W * Gdz) / (D + W)
        d_s = Gdz + d_xi + r_s
        d_omega = -(r_omega + at.omega * d_s) / at.s
        d_varsigma = -(r_varsigma + at.varsigma * d_xi) / at.xi
        return Point(dz, d_xi, d_s, d_omega, d_varsigma)

    return direction
