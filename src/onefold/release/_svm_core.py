"""Numbers of the robust support vector machine (002 eq. 2): interior-point steps, then an exact finish.

With z = (alpha, sqrt(rho) beta) and rows g_i = y_i (x_i, 1 / sqrt(rho)) the problem is

    min  z.z / 2 + rho xi.xi / 2 + theta sum(xi)    subject to    G z + xi >= 1,  xi >= 0.

The interior-point steps find which rows lie on the margin; a last linear system then holds them there
exactly, which takes the conditions (15) from nine digits to the rounding level.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular, svd

from onefold.release._factor import upper_factor
from onefold.release._interior import Point, interior_point, start

__all__ = ["Solution", "kkt_residual", "solve"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Nine digits tell the rows on the margin apart, except where many rows almost coincide.
PRECISIONS = (1e-9, 1e-12, 1e-15)
MOST_REPAIRS = 10
ROUNDING = 1e-12
ENOUGH = 1e-11


@dataclass(frozen=True)
class Solution:
    """Weights z, slacks, multipliers of the margins, and how well they satisfy the conditions."""

    z: Floats
    xi: Floats
    omega: Floats
    residual: float
    steps: int


def solve(G: Floats, rho: float, theta: float) -> Solution:
    """The unique minimiser, and multipliers for it."""
    V, ridge = _coordinates(G)
    H = G @ V
    at, steps = start(H, rho, theta), 0
    found: list[Solution] = []
    for precision in PRECISIONS:
        at, more = interior_point(at, H, ridge, rho, theta, precision)
        steps += more
        found.append(_solution(G, rho, theta, V @ at.z, np.minimum(at.omega, theta + rho * at.xi), steps))
        for v, omega in _finish(at, H, ridge, rho, theta):
            found.append(_solution(G, rho, theta, V @ v, omega, steps))
            if found[-1].residual <= ENOUGH:
                return found[-1]
    return min(found, key=lambda solution: solution.residual)


def _finish(at: Point, H: Floats, ridge: Floats, rho: float, theta: float) -> Iterator[tuple[Floats, Floats]]:
    """Solutions that hold rows on the margin exactly, each with rows moved that the last one contradicts."""
    # Of a complementary pair the smaller one is about to vanish.
    above, below = at.s > at.omega, at.xi > at.varsigma
    for _ in range(MOST_REPAIRS):
        v, omega = _held(H, ridge, rho, theta, ~(above | below), below, at.omega)
        yield v, omega
        if not _repair(H @ v, omega, theta, above, below):
            return


def _coordinates(G: Floats) -> tuple[Floats, Floats]:
    """V and weights such that z = V v turns z.z into sum(weights v^2), and no column of G V is long.

    Columns in units that differ by six powers of ten would otherwise cost the steps all their digits. What
    lies outside the span of the rows is left out: z = G' omega lies inside.
    """
    R = qr(G, mode="r", check_finite=False)[0][: min(G.shape)]
    _, lengths, directions = svd(R, full_matrices=False, check_finite=False)
    short = 1.0 / np.maximum(lengths, 1.0)
    return directions.T * short, short**2


def kkt_residual(G: Floats, rho: float, theta: float, z: Floats, omega: Floats) -> float:
    """Largest violation of (15), each line relative to the size of its own terms; 0 is exact.

    (15b) is printed with 1 in place of theta.
    """
    margin = G @ z
    xi = np.maximum(0.0, 1.0 - margin)
    most = theta + rho * xi
    absolute = np.abs(G)
    size = 1.0 + absolute @ np.abs(z)
    stationary = np.abs(z - G.T @ omega) / (1.0 + absolute.T @ np.abs(omega))  # (15a)
    outside = np.maximum(-omega, omega - most) / most  # multipliers are not negative
    lost = np.minimum(xi / size, (most - omega) / most)  # (15b, d): omega = theta + rho xi where xi > 0
    idle = np.minimum(np.maximum(margin - 1.0, 0.0) / size, np.abs(omega) / most)  # (15c)
    return float(max(np.max(violated) for violated in (stationary, outside, lost, idle)))


def _solution(G: Floats, rho: float, theta: float, z: Floats, omega: Floats, steps: int) -> Solution:
    xi = np.maximum(0.0, 1.0 - G @ z)
    return Solution(z, xi, omega, kkt_residual(G, rho, theta, z, omega), steps)


def _held(
    G: Floats, ridge: Floats, rho: float, theta: float, on: Mask, below: Mask, near: Floats
) -> tuple[Floats, Floats]:
    """Weights and multipliers when rows ``on`` lie exactly on the margin and rows ``below`` have slack.

    (ridge + rho B'B) z - E' w = (theta + rho) B' 1 and E z = 1, in the coordinates of a triangular factor.
    """
    B, E = G[below], G[on]
    R = upper_factor(B, rho, ridge)
    free = solve_triangular(R, (theta + rho) * B.sum(axis=0), trans="T", check_finite=False)
    V = solve_triangular(R, E.T, trans="T", check_finite=False).T
    held = free + np.linalg.lstsq(V, 1.0 - V @ free, rcond=None)[0]
    z = solve_triangular(R, held, check_finite=False)
    omega = np.zeros(len(G))
    omega[below] = theta + rho * (1.0 - B @ z)
    # Equal rows may share their multiplier in many ways: take the one closest to the interior point.
    lacking = ridge * z - G.T @ omega - E.T @ near[on]
    omega[on] = near[on] + np.linalg.lstsq(E.T, lacking, rcond=None)[0]
    return z, omega


def _repair(margin: Floats, omega: Floats, theta: float, above: Mask, below: Mask) -> bool:
    """Move rows that turned out to be on the wrong side; False if there are none."""
    on = ~(above | below)
    to_margin = (above & (margin < 1.0 - ROUNDING)) | (below & (margin > 1.0 + ROUNDING))
    to_above, to_below = on & (omega < 0.0), on & (omega > theta)
    above[:] = (above & ~to_margin) | to_above
    below[:] = (below & ~to_margin) | to_below
    return bool((to_margin | to_above | to_below).any())
