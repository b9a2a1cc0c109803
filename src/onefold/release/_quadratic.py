"""Problem (2) as a quadratic program for Clarabel, in the rows that may lie on the margin.

A row settled above the margin costs nothing; one settled below it costs theta xi + rho xi^2 / 2 with
xi = 1 - g.z, which joins the quadratic form of z. Where the solution leaves every settled row on its side,
it solves the whole problem; rows that changed sides are unsettled and the program is solved again.
"""

from typing import Any

import numpy as np
from scipy import sparse

from onefold.release._problem import Floats, Mask, Point, Problem

__all__ = ["first_size", "quadratic_program"]

# Rows in the first program. At most one per weight lies on the margin, duplicates aside.
FEWEST = 500
PER_WEIGHT = 5


def first_size(problem: Problem) -> int:
    """Rows that are not settled in the first program."""
    return max(FEWEST, PER_WEIGHT * len(problem.ridge))


def quadratic_program(problem: Problem, near: Floats, precision: float) -> tuple[Point, int]:
    """The solution to ``precision`` and Clarabel's steps; rows are settled by the margins at ``near``."""
    margin = problem.G @ near
    order = np.argsort(np.abs(margin - 1.0), kind="stable")
    size, steps = first_size(problem), 0
    moved = np.zeros(len(margin), dtype=bool)
    while True:
        unsettled = moved.copy()
        unsettled[order[:size]] = True
        above, below = ~unsettled & (margin >= 1.0), ~unsettled & (margin < 1.0)
        point, more = _solve(problem, unsettled, below, precision)
        steps += more
        now = problem.G @ point.z
        wrong = (above & (now < 1.0)) | (below & (now > 1.0))
        if not wrong.any():
            return point, steps
        size *= 2  # in the end every row takes part, and none is settled wrongly
        if wrong.sum() <= size:
            moved |= wrong


def _solve(problem: Problem, unsettled: Mask, below: Mask, precision: float) -> tuple[Point, int]:
    import clarabel  # only a fit needs it

    G, B = problem.G[unsettled], problem.G[below]
    m = len(G)
    quadratic = np.diag(problem.ridge) + problem.rho * (B.T @ B)
    P = sparse.block_diag([np.triu(quadratic), problem.rho * sparse.eye_array(m)], format="csc")
    linear = np.concatenate([-(problem.theta + problem.rho) * B.sum(axis=0), np.full(m, problem.theta)])
    slack = -sparse.eye_array(m)
    # Clarabel's form: A x + s = b with s >= 0, for x = (z, xi).
    A = sparse.block_array([[sparse.csc_array(-G), slack], [None, slack]], format="csc")
    b = np.concatenate([-np.ones(m), np.zeros(m)])
    cones = [clarabel.NonnegativeConeT(2 * m)]
    found = clarabel.DefaultSolver(P, linear, A, b, cones, _settings(clarabel, precision)).solve()
    answer = np.array(found.x), np.array(found.s), np.array(found.z)
    return _whole(problem, unsettled, *answer), int(found.iterations)


def _settings(clarabel: Any, precision: float) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.direct_solve_method = "qdldl"  # one thread: the same result everywhere
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = precision
    return settings


def _whole(problem: Problem, unsettled: Mask, x: Floats, s: Floats, multipliers: Floats) -> Point:
    """Clarabel's answer for the unsettled rows; the others follow from their side."""
    z, xi = np.split(x, [problem.G.shape[1]])
    point = Point.at(problem, z)
    m = len(xi)
    point.xi[unsettled], point.s[unsettled] = s[m:], s[:m]
    point.omega[unsettled], point.varsigma[unsettled] = multipliers[:m], multipliers[m:]
    return point
