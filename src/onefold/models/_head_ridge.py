"""The ridge of a head: its equations, its leave-one-out scores, and scores of rows outside the equations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from onefold._base.arrays import Floats, Mask
from onefold._base.lapack import cholesky, triangular_solve


@dataclass(frozen=True)
class System:
    """Centred equations of a ridge, in coordinates in which landmarks are an orthonormal system."""

    prior: Floats
    mean: Floats
    gram: Floats
    right: Floats
    n_rows: float

    def factor(self, penalty: float) -> Floats | None:
        """The factor of the equations with a penalty, if they have one."""
        found = np.array(self.gram, order="F")
        found[np.diag_indices_from(found)] += penalty
        return found if cholesky(found) else None


def ridge(
    system: System, penalty: float, seen: Floats, targets: Floats, apart: Sequence[Mask] = ()
) -> tuple[float, Floats, Floats]:
    """Error, solution, and scores of rows by the ridge without them: each alone, or all of a fold.

    The intercept is not penalised, hence the part 1/n of the leverage. Folds need every row of the equations.
    """
    factor = system.factor(penalty)
    if factor is None:
        return math.inf, np.zeros_like(system.right), np.tile(system.prior, (len(targets), 1))
    half, lifted = np.array(system.right, order="F"), np.array(seen, order="F")
    triangular_solve(factor, half)
    triangular_solve(factor, lifted)
    residuals = targets - (lifted.T @ half + system.prior)
    if apart:
        for mine in apart:
            own = lifted[:, mine]
            rest = np.eye(own.shape[1]) - 1.0 / system.n_rows - own.T @ own
            residuals[mine] = np.linalg.lstsq(rest, residuals[mine], rcond=None)[0]
    else:
        leverage = 1.0 / system.n_rows + (lifted**2).sum(axis=0)
        residuals /= np.maximum(1.0 - leverage, 1e-6)[:, None]
    left_out = targets - residuals
    solution = solve_triangular(factor, half, lower=True, trans="T")
    return error_of(left_out, targets), solution, left_out


def scores_without(system: System, penalty: float, seen: Floats) -> Floats:
    """Scores of rows that are not in the equations; shares of the classes if these have no solution."""
    factor = system.factor(penalty)
    if factor is None:
        return np.tile(system.prior, (seen.shape[1], 1))
    half, lifted = np.array(system.right, order="F"), np.array(seen, order="F")
    triangular_solve(factor, half)
    triangular_solve(factor, lifted)
    return np.asarray(lifted.T @ half + system.prior)


def error_of(scores: Floats, targets: Floats) -> float:
    """The mean over rows of the squared distance of their scores to their class."""
    return float(((scores - targets) ** 2).sum() / max(len(targets), 1))
