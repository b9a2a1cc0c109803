"""Interior-point steps (Mehrotra 1992) for the robust support vector machine (002 eq. 2).

Eliminating all that has the length of the data from the Newton step leaves one positive definite system
of size p + 1, so a step costs one product G' H G.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from onefold.release._factor import upper_factor

__all__ = ["Point", "interior_point", "start"]

Floats = NDArray[np.float64]
MOST_STEPS = 100
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


def start(G: Floats, rho: float, theta: float) -> Point:
    """Where the steps begin: no weights, every row half way between its bounds."""
    q, width = G.shape
    return Point(np.zeros(width), np.ones(q), np.ones(q), np.full(q, theta / 2), np.full(q, theta / 2 + rho))


def interior_point(
    at: Point, G: Floats, ridge: Floats, rho: float, theta: float, precision: float
) -> tuple[Point, int]:
    """A point close to the solution, strictly inside, and the number of steps it took from ``at``.

    ``ridge`` weighs the squares of z: sum(ridge z^2) / 2 is what (2) minimises beside the slacks.
    ``precision`` is relative, of the gap and of feasibility.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for step in range(MOST_STEPS):
            ahead = _step(at, G, ridge, rho, theta, precision)
            # Where rounding has eaten the rest, the finish goes on from here.
            if ahead is None or not all(np.isfinite(part).all() for part in ahead.parts):
                return at, step
            at = ahead
    return at, MOST_STEPS


def _step(at: Point, G: Floats, ridge: Floats, rho: float, theta: float, precision: float) -> Point | None:
    """Predict, correct, move; None when ``at`` is close enough."""
    missing = _missing(at, G, ridge, rho, theta)
    if _close(at, missing, ridge, rho, theta, precision) or not at.gap > 0:
        return None
    direction = _newton(at, G, ridge, rho, missing)
    ahead = direction(at.omega * at.s, at.varsigma * at.xi)
    predicted = max(at.moved(at.room(ahead), ahead).gap, 0.0)
    aim = at.gap / (2 * len(G)) * (predicted / at.gap) ** 3
    d = direction(
        at.omega * at.s + ahead.omega * ahead.s - aim,
        at.varsigma * at.xi + ahead.varsigma * ahead.xi - aim,
    )
    return at.moved(TO_THE_BOUNDARY * at.room(d), d)


Missing = tuple[Floats, Floats, Floats]


def _missing(at: Point, G: Floats, ridge: Floats, rho: float, theta: float) -> Missing:
    """What the linear conditions lack: stationarity in z and in xi, and the margins."""
    return (
        ridge * at.z - G.T @ at.omega,
        rho * at.xi + theta - at.omega - at.varsigma,
        G @ at.z + at.xi - 1.0 - at.s,
    )


def _close(at: Point, missing: Missing, ridge: Floats, rho: float, theta: float, precision: float) -> bool:
    objective = ridge @ at.z**2 / 2 + rho * (at.xi @ at.xi) / 2 + theta * at.xi.sum()
    sizes = (1.0 + float(np.abs(ridge * at.z).max()), theta, 1.0)
    lacking = max(float(np.abs(r).max()) / size for r, size in zip(missing, sizes, strict=True))
    return bool(at.gap <= precision * objective and lacking <= precision)


def _newton(
    at: Point, G: Floats, ridge: Floats, rho: float, missing: Missing
) -> Callable[[Floats, Floats], Point]:
    """Factor the system once; the function solves it for given complementary products."""
    r_z, r_xi, r_s = missing
    D, W = rho + at.varsigma / at.xi, at.omega / at.s
    factor = upper_factor(G, D * W / (D + W), ridge)

    def direction(r_omega: Floats, r_varsigma: Floats) -> Point:
        a = -r_xi - r_varsigma / at.xi
        b = a - r_omega / at.s - W * r_s
        dz = cho_solve((factor, False), G.T @ (D / (D + W) * b - a) - r_z, check_finite=False)
        Gdz = G @ dz
        d_xi = (b - W * Gdz) / (D + W)
        d_s = Gdz + d_xi + r_s
        d_omega = -(r_omega + at.omega * d_s) / at.s
        d_varsigma = -(r_varsigma + at.varsigma * d_xi) / at.xi
        return Point(dz, d_xi, d_s, d_omega, d_varsigma)

    return direction
