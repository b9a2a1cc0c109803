"""The support vector machine with a unique solution (002 eq. 2), for two classes, and its solver.

With z = (alpha, sqrt(rho) beta) and rows g_i = y_i (x_i, 1 / sqrt(rho)) the problem is

    min  z.z / 2 + rho xi.xi / 2 + theta sum(xi)    subject to    G z + xi >= 1,  xi >= 0.

scipy's L-BFGS finds roughly where the rows lie, Clarabel which of them lie on the margin; a last linear
system then holds them there exactly, which takes the conditions (15) from nine digits to the rounding level.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, qr, solve_triangular, svd
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Floats, Labels, Mask
from onefold._base.validation import Entry, Number, check_parameters, check_rows
from onefold.exceptions import InvalidInputError

__all__ = ["RobustSVM", "signs"]

CLOSE = 1e-6
CONSTRAINTS: dict[str, Entry] = {"rho": Number(above=0), "theta": Number(above=0)}
# Nine digits tell the rows on the margin apart, except where many rows almost coincide.
PRECISIONS = (1e-9, 1e-12, 1e-15)
MOST_REPAIRS = 10
ROUNDING = 1e-12
ENOUGH = 1e-11


class RobustSVM(ClassifierMixin, BaseEstimator):
    r"""Linear support vector machine with a unique solution, so that a release can keep it exactly.

    .. math:: \min \tfrac12 \alpha^\top\alpha + \tfrac\rho2 (\beta^2 + \xi^\top\xi) + \theta 1^\top\xi
        \quad\text{subject to}\quad y_i(\alpha^\top x_i + \beta) \ge 1 - \xi_i, \; \xi_i \ge 0.

    Parameters
    ----------
    rho : float, default=0.01
        Weight of the quadratic terms; a small one comes close to the usual machine (002 Prop. 2.1).
    theta : float, default=1.0
        Weight of the slacks, as ``C`` elsewhere.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The two classes; the second one counts as +1.
    coef_ : ndarray of shape (1, n_features)
        Weights alpha of the hyperplane.
    intercept_ : ndarray of shape (1,)
        Intercept beta of the hyperplane.
    omega_ : ndarray of shape (n_samples,)
        Multiplier of each training row's margin; :func:`release_utility_preserving` needs it.
    xi_ : ndarray of shape (n_samples,)
        Slack of each training row.
    kkt_residual_ : float
        Largest violation of the optimality conditions (002 eq. 15), relative to their terms.
    n_iter_ : int
        Steps of the solvers.

    See Also
    --------
    release_utility_preserving : Publish rows under which this machine stays the same.

    Notes
    -----
    scipy's L-BFGS finds the rows that may lie on the margin, Clarabel solves the quadratic program in them,
    and a linear system takes what is left of the error to the rounding level. Time grows with rows x
    features^2 and memory with rows x features. Multipliers of rows exactly on the margin are not unique when
    there are more than p + 1 of them (duplicates); the classifier is.

    References
    ----------
    Document 002, eq. 2, eq. 15 and Proposition 2.1.

    Examples
    --------
    >>> svm = RobustSVM().fit([[0.0], [2.0]], [0, 1])
    >>> [round(float(v), 3) for v in (svm.coef_[0, 0], svm.intercept_[0])], svm.predict([[3.0]]).tolist()
    ([1.0, -1.0], [1])
    """

    classes_: Labels
    coef_: Floats
    intercept_: Floats
    omega_: Floats
    xi_: Floats
    kkt_residual_: float
    n_iter_: int

    def __init__(self, rho: float = 1e-2, theta: float = 1.0) -> None:
        self.rho = rho
        self.theta = theta

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the machine for rows of two classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        RobustSVM
            This object.
        """
        check_parameters(self, CONSTRAINTS)
        rows, labels = check_rows(self, X, y)
        _check_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            found = "1 class" if len(self.classes_) == 1 else f"{len(self.classes_)} classes"
            raise InvalidInputError(
                f"RobustSVM needs two classes, y has {found}. Only binary classification is supported."
            )
        root = math.sqrt(self.rho)
        y_signs = 2.0 * codes - 1.0
        G = np.column_stack([rows, np.full(len(rows), 1.0 / root)]).astype(np.float64)
        G *= y_signs[:, np.newaxis]
        solution = solve(G, float(self.rho), float(self.theta))
        self.coef_, self.intercept_ = solution.z[np.newaxis, :-1], solution.z[-1:] / root
        self.omega_, self.xi_ = solution.omega, solution.xi
        self.kkt_residual_, self.n_iter_ = solution.residual, solution.steps
        if not self.kkt_residual_ <= CLOSE:
            warnings.warn(
                "the machine is only approximately optimal (see kkt_residual_): rescale the columns",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Compute alpha.x + beta for each row: positive for the second class, 1 on its margin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Decision values.
        """
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False)
        return np.asarray(rows @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: ArrayLike) -> Labels:
        """Predict the class on whose side of the hyperplane each row lies.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        side = (self.decision_function(X) > 0).astype(np.intp)
        return np.asarray(self.classes_[side])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def signs(svm: RobustSVM, y: Any) -> Floats:
    """Return labels as -1 and +1, in the order of a fitted machine's classes."""
    labels = np.asarray(y)
    if labels.ndim != 1 or not np.isin(labels, svm.classes_).all():
        raise InvalidInputError("y must hold the classes the machine was fitted on, one per row")
    return np.where(labels == svm.classes_[1], 1.0, -1.0)


def _check_targets(labels: Any) -> None:
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise InvalidInputError(str(error).splitlines()[0]) from None


# --- the problem ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarginProblem:
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
    def at(cls, problem: MarginProblem, z: Floats) -> "Point":
        """Build the point of given weights: a row's multipliers follow from its side of the margin."""
        s, xi = np.maximum(problem.G @ z - 1.0, 0.0), np.maximum(1.0 - problem.G @ z, 0.0)
        omega = np.where(xi > 0, problem.theta + problem.rho * xi, 0.0)  # (15b-d)
        return cls(z, xi, s, omega, problem.theta + problem.rho * xi - omega)


def kkt_residual(G: Floats, rho: float, theta: float, z: Floats, omega: Floats) -> float:
    """Measure the largest violation of (15), each line relative to the size of its own terms; 0 is exact.

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


# --- where the rows lie, roughly: rounded corners ---------------------------------------------------------


# Half the width of the rounding, in margins: a wide one is quick, a narrow one close to the hinge.
WIDTHS = (0.3, 0.03, 0.003, 3e-4, 3e-5)
CLOSE_WIDTH = 0.03
MOST_SMOOTH_STEPS = 100
SMOOTH_PRECISION = 1e-9  # of the objective: the rows that matter are found again, exactly


def smooth_point(problem: MarginProblem, few: int) -> tuple[Point, int, int]:
    """Find a point near the solution; count the rows within its rounding (``few`` if possible), and steps.

    More than ``few`` lie on the margin together, as a whole class does when noise leaves nothing to learn.
    """
    options = {"maxiter": MOST_SMOOTH_STEPS, "maxcor": 20, "ftol": SMOOTH_PRECISION, "gtol": 0.0}
    z, steps = np.zeros(problem.G.shape[1]), 0
    for width in WIDTHS:
        found = minimize(_smooth_cost, z, args=(problem, width), jac=True, method="L-BFGS-B", options=options)
        z, steps = found.x, steps + int(found.nit)
        inside = int(np.sum(np.abs(problem.G @ z - 1.0) < width))
        if inside <= few and width <= CLOSE_WIDTH:
            break
    return _smooth_point_of(problem, z, width), inside, steps


def _smooth_cost(z: Floats, problem: MarginProblem, width: float) -> tuple[float, Floats]:
    """Compute (2a) and its gradient; within ``width`` of the margin a parabola replaces the hinge."""
    lacking = 1.0 - problem.G @ z
    xi = np.maximum(lacking, 0.0)
    into = np.clip(lacking, -width, width) + width
    hinge = np.maximum(lacking - width, 0.0) + into**2 / (4.0 * width)
    cost = problem.ridge @ z**2 / 2 + problem.rho * (xi @ xi) / 2 + problem.theta * hinge.sum()
    pull = problem.theta * into / (2.0 * width) + problem.rho * xi
    return float(cost), problem.ridge * z - problem.G.T @ pull


def _smooth_point_of(problem: MarginProblem, z: Floats, width: float) -> Point:
    """Take rows within the rounding to be on the margin; their slopes are multipliers already."""
    point = Point.at(problem, z)
    lacking = 1.0 - problem.G @ z
    on = np.abs(lacking) < width
    point.omega[on] = problem.theta * (lacking[on] + width) / (2.0 * width)
    point.varsigma[on] = problem.theta - point.omega[on]
    point.s[on] = point.xi[on] = 0.0
    return point


# --- which rows lie on the margin: a quadratic program ----------------------------------------------------


# Rows in the first program. At most one per weight lies on the margin, duplicates aside.
FEWEST = 500
PER_WEIGHT = 5


def first_size(problem: MarginProblem) -> int:
    """Return how many rows are not settled in the first program."""
    return max(FEWEST, PER_WEIGHT * len(problem.ridge))


def quadratic_program(problem: MarginProblem, near: Floats, precision: float) -> tuple[Point, int]:
    """Solve to ``precision``, and count Clarabel's steps; rows are settled by the margins at ``near``.

    A row settled above the margin costs nothing; one settled below it costs theta xi + rho xi^2 / 2 with
    xi = 1 - g.z, which joins the quadratic form of z. Where the solution leaves every settled row on its
    side, it solves the whole problem; rows that changed sides are unsettled and the program is solved again.
    """
    margin = problem.G @ near
    order = np.argsort(np.abs(margin - 1.0), kind="stable")
    size, steps = first_size(problem), 0
    moved = np.zeros(len(margin), dtype=bool)
    while True:
        unsettled = moved.copy()
        unsettled[order[:size]] = True
        above, below = ~unsettled & (margin >= 1.0), ~unsettled & (margin < 1.0)
        point, more = _solve_program(problem, unsettled, below, precision)
        steps += more
        now = problem.G @ point.z
        wrong = (above & (now < 1.0)) | (below & (now > 1.0))
        if not wrong.any():
            return point, steps
        size *= 2  # in the end every row takes part, and none is settled wrongly
        if wrong.sum() <= size:
            moved |= wrong


def _solve_program(
    problem: MarginProblem, unsettled: Mask, below: Mask, precision: float
) -> tuple[Point, int]:
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
    settings: Any = clarabel.DefaultSettings()
    settings.verbose = False
    settings.direct_solve_method = "qdldl"  # one thread: the same result everywhere
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = precision
    found = clarabel.DefaultSolver(P, linear, A, b, cones, settings).solve()
    # Its answer is for the unsettled rows; the others follow from their side.
    point = Point.at(problem, np.array(found.x)[: problem.G.shape[1]])
    point.s[unsettled], point.xi[unsettled] = np.split(np.array(found.s), 2)
    point.omega[unsettled], point.varsigma[unsettled] = np.split(np.array(found.z), 2)
    return point, int(found.iterations)


# --- the exact finish -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solution:
    """Weights z, slacks, multipliers of the margins, and how well they satisfy the conditions."""

    z: Floats
    xi: Floats
    omega: Floats
    residual: float
    steps: int


def solve(G: Floats, rho: float, theta: float) -> Solution:
    """Find the unique minimiser, and multipliers for it."""
    V, ridge = _coordinates(G)
    problem = MarginProblem(G @ V, ridge, rho, theta)
    best: Solution | None = None
    for at, steps in _points(problem):
        for v, omega in _finish(at, problem):
            found = _solution(G, rho, theta, V @ v, omega, steps)
            best = min(best or found, found, key=lambda solution: solution.residual)
            if best.residual <= ENOUGH:
                return best
    assert best is not None  # there is a point for every precision
    return best


def _points(problem: MarginProblem) -> Iterator[tuple[Point, int]]:
    """Yield ever better points, each with the steps taken so far."""
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


def _finish(at: Point, problem: MarginProblem) -> Iterator[tuple[Floats, Floats]]:
    """Yield what the point says, then solutions that hold rows on the margin exactly.

    Each moves the rows that the last one contradicts.
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
    """Return V and weights such that z = V v turns z.z into sum(weights v^2), with no long column of G V.

    Columns in units that differ by six powers of ten would otherwise cost the steps all their digits. What
    lies outside the span of the rows is left out: z = G' omega lies inside.
    """
    R = qr(G, mode="r", check_finite=False)[0][: min(G.shape)]
    _, lengths, directions = svd(R, full_matrices=False, check_finite=False)
    short = 1.0 / np.maximum(lengths, 1.0)
    return directions.T * short, short**2


def _solution(G: Floats, rho: float, theta: float, z: Floats, omega: Floats, steps: int) -> Solution:
    xi = np.maximum(0.0, 1.0 - G @ z)
    residual = kkt_residual(G, rho, theta, z, omega)
    return Solution(z, xi, omega, residual if residual >= 0 else np.inf, steps)  # NaN is no solution


def _held(problem: MarginProblem, on: Mask, below: Mask, near: Floats) -> tuple[Floats, Floats]:
    """Solve for rows ``on`` that lie exactly on the margin and rows ``below`` that have slack.

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


def upper_factor(G: Floats, weights: Floats | float, ridge: Floats) -> Floats:
    """Return upper triangular R with R'R = diag(ridge) + G' diag(weights) G.

    Cholesky is four times faster; where the weights span so many powers of ten that forming the matrix loses
    its positive definiteness, an orthogonal factorisation of the square root does not.
    """
    scaled = np.sqrt(np.asarray(weights))[..., np.newaxis] * G
    system = scaled.T @ scaled  # a matrix times itself: numpy computes one half only
    system[np.diag_indices(len(system))] += ridge
    try:
        return np.asarray(cholesky(system, check_finite=False))
    except LinAlgError:
        root = np.vstack([scaled, np.diag(np.sqrt(ridge))])
        R = np.asarray(qr(root, mode="r", check_finite=False)[0][: len(system)])
        smallest = np.finfo(float).eps * np.abs(np.diag(R)).max() * 1e-3
        R[np.diag_indices(len(R))] += smallest * (np.abs(np.diag(R)) < smallest)  # exactly singular
        return R
