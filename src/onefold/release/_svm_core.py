"""Numbers of the robust support vector machine (002 eq. 2): a quadratic program, then an exact finish.

With z = (alpha, sqrt(rho) beta) and rows g_i = y_i (x_i, 1 / sqrt(rho)) the problem is

    min  z.z / 2 + rho xi.xi / 2 + theta sum(xi)    subject to    G z + xi >= 1,  xi >= 0.

scipy's L-BFGS finds roughly where the rows lie, Clarabel which of them lie on the margin; a last linear
system then holds them there exactly, which takes the conditions (15) from nine digits to the rounding level.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular, svd

from onefold.release._factor import upper_factor
from onefold.release._problem import Floats, Mask, Point, Problem
from onefold.release._quadratic import first_size, quadratic_program
from onefold.release._smooth import smooth_point

__all__ = ["Solution", "kkt_residual", "solve"]

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
    problem = Problem(G @ V, ridge, rho, theta)
    best: Solution | None = None
    for at, steps in _points(problem):
        for v, omega in _finish(at, problem):
            found = _solution(G, rho, theta, V @ v, omega, steps)
            best = min(best or found, found, key=lambda solution: solution.residual)
            if best.residual <= ENOUGH:
                return best
    assert best is not None  # there is a point for every precision
    return best


def _points(problem: Problem) -> Iterator[tuple[Point, int]]:
    """Ever better points, and the steps it took."""
    size = first_size(problem)
    at, inside, steps = smooth_point(problem, size // 2)
    if inside > size:  # rows that lie on the margin together
        yield at, steps
    for precision in PRECISIONS:
        better, more = quadratic_program(problem, at.z, precision)
        steps += more
        if np.isfinite(np.concatenate([better.z, better.omega])).all():
            at = better
        yield at, steps


def _finish(at: Point, problem: Problem) -> Iterator[tuple[Floats, Floats]]:
    """What the point says, then solutions that hold rows on the margin exactly.

    Each has those rows moved that the last one contradicts.
    """
    yield at.z, np.clip(at.omega, 0.0, problem.theta + problem.rho * at.xi)
    # Of a complementary pair the one that is smaller, each in its own unit, is about to vanish; multipliers
    # are tiny where the entries are huge.
    above, below = at.s * np.max(at.omega) > at.omega, at.xi * problem.theta > at.varsigma
    for _ in range(MOST_REPAIRS):
        v, omega = _held(problem, ~(above | below), below, at.omega)
        yield v, omega
        if not _repair(problem.G @ v, omega, problem.theta, above, below):
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
    residual = kkt_residual(G, rho, theta, z, omega)
    return Solution(z, xi, omega, residual if residual >= 0 else np.inf, steps)  # NaN is no solution


def _held(problem: Problem, on: Mask, below: Mask, near: Floats) -> tuple[Floats, Floats]:
    """Weights and multipliers when rows ``on`` lie exactly on the margin and rows ``below`` have slack.

    (ridge + rho B'B) z - E' w = (theta + rho) B' 1 and E z = 1, in the coordinates of a triangular factor.
    """
    B, E = problem.G[below], problem.G[on]
    R = upper_factor(B, problem.rho, problem.ridge)
    pull = (problem.theta + problem.rho) * B.sum(axis=0)
    free = solve_triangular(R, pull, trans="T", check_finite=False)
    V = solve_triangular(R, E.T, trans="T", check_finite=False).T
    held = free + np.linalg.lstsq(V, 1.0 - V @ free, rcond=None)[0]
    z = solve_triangular(R, held, check_finite=False)
    omega = np.zeros(len(problem.G))
    omega[below] = problem.theta + problem.rho * (1.0 - B @ z)
    # Equal rows may share their multiplier in many ways: take the one closest to the program's.
    lacking = problem.ridge * z - problem.G.T @ omega - E.T @ near[on]
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
