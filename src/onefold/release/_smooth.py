"""Where the rows lie about the margin, roughly: problem (2) with rounded corners, by scipy's L-BFGS."""

import numpy as np
from scipy.optimize import minimize

from onefold.release._problem import Floats, Point, Problem

__all__ = ["smooth_point"]

# Half the width of the rounding, in margins: a wide one is quick, a narrow one close to the hinge.
WIDTHS = (0.3, 0.03, 0.003, 3e-4, 3e-5)
CLOSE = 0.03
MOST_STEPS = 100
PRECISION = 1e-9  # of the objective: the rows that matter are found again, exactly


def smooth_point(problem: Problem, few: int) -> tuple[Point, int, int]:
    """A point near the solution, how many rows lie within its rounding, and steps: ``few`` if possible.

    More than that lie on the margin together, as all rows of a class do when noise leaves nothing to learn.
    """
    options = {"maxiter": MOST_STEPS, "maxcor": 20, "ftol": PRECISION, "gtol": 0.0}
    z, steps = np.zeros(problem.G.shape[1]), 0
    for width in WIDTHS:
        found = minimize(_cost, z, args=(problem, width), jac=True, method="L-BFGS-B", options=options)
        z, steps = found.x, steps + int(found.nit)
        inside = int(np.sum(np.abs(problem.G @ z - 1.0) < width))
        if inside <= few and width <= CLOSE:
            break
    return _point(problem, z, width), inside, steps


def _cost(z: Floats, problem: Problem, width: float) -> tuple[float, Floats]:
    """(2a) and its gradient; within ``width`` of the margin a parabola takes the hinge's place."""
    lacking = 1.0 - problem.G @ z
    xi = np.maximum(lacking, 0.0)
    into = np.clip(lacking, -width, width) + width
    hinge = np.maximum(lacking - width, 0.0) + into**2 / (4.0 * width)
    cost = problem.ridge @ z**2 / 2 + problem.rho * (xi @ xi) / 2 + problem.theta * hinge.sum()
    pull = problem.theta * into / (2.0 * width) + problem.rho * xi
    return float(cost), problem.ridge * z - problem.G.T @ pull


def _point(problem: Problem, z: Floats, width: float) -> Point:
    """Rows within the rounding are taken to be on the margin; their slopes are multipliers already."""
    point = Point.at(problem, z)
    lacking = 1.0 - problem.G @ z
    on = np.abs(lacking) < width
    point.omega[on] = problem.theta * (lacking[on] + width) / (2.0 * width)
    point.varsigma[on] = problem.theta - point.omega[on]
    point.s[on] = point.xi[on] = 0.0
    return point
