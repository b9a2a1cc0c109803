"""The solver of the support vector machine: rough point, quadratic program, exact finish."""

from dataclasses import replace

import numpy as np
import pytest

from onefold.release import RobustSVM
from onefold.release.svm import (
    WIDTHS,
    MarginProblem,
    Point,
    _repair,
    _smooth_cost,
    first_size,
    kkt_residual,
    quadratic_program,
    smooth_point,
    solve,
    upper_factor,
)

RHO, THETA = 1e-2, 1.0


def rows(q: int = 3000, p: int = 4, apart: float = 0.7, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(q) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(q, p)) / np.sqrt(q)  # columns of unit length, as the coordinates make them
    X[:, 0] += apart * y / np.sqrt(q)
    return np.column_stack([X, np.full(q, 10.0 / np.sqrt(q))]) * y[:, None]


def problem(**options: object) -> MarginProblem:
    G = rows(**options)
    return MarginProblem(G, np.full(G.shape[1], 1.0 / len(G)), RHO, THETA)


def cost(of: MarginProblem, z: np.ndarray) -> float:
    xi = np.maximum(0.0, 1.0 - of.G @ z)
    return float(of.ridge @ z**2 / 2 + of.rho * xi @ xi / 2 + of.theta * xi.sum())


def test_program_without_settled_rows_has_the_solution_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most rows are left out of the program, and its solution is that of all rows."""
    whole = problem()
    assert first_size(whole) < len(whole.G) / 4
    near = smooth_point(whole, 100)[0].z
    quick, _ = quadratic_program(whole, near, 1e-10)
    monkeypatch.setattr("onefold.release.svm.FEWEST", len(whole.G))
    slow, _ = quadratic_program(whole, near, 1e-10)
    scale = np.abs(slow.z).max()
    assert quick.z == pytest.approx(slow.z, abs=1e-6 * scale)
    assert quick.omega == pytest.approx(slow.omega, abs=1e-3)
    assert cost(whole, quick.z) == pytest.approx(cost(whole, slow.z), rel=1e-10)


@pytest.mark.parametrize("factor", [0.0, -1.0, 3.0])
def test_program_takes_back_rows_settled_on_the_wrong_side(factor: float) -> None:
    whole = problem()
    right, few = quadratic_program(whole, smooth_point(whole, 100)[0].z, 1e-10)
    found, many = quadratic_program(whole, factor * right.z, 1e-10)
    assert found.z == pytest.approx(right.z, abs=1e-6 * np.abs(right.z).max())
    assert many > few


@pytest.mark.parametrize("width", WIDTHS)
def test_gradient_of_the_smooth_cost_matches_differences(width: float) -> None:
    whole = problem(q=200)
    z = np.random.default_rng(1).normal(size=5) * 5
    value, slope = _smooth_cost(z, whole, width)
    for direction in np.eye(5):
        step = 1e-6
        ahead, behind = (_smooth_cost(z + sign * step * direction, whole, width)[0] for sign in (1, -1))
        assert (ahead - behind) / (2 * step) == pytest.approx(slope @ direction, rel=2e-4, abs=1e-4)
    # it lies above the hinge, by a quarter of the width per row at most
    assert 0 <= value - cost(whole, z) <= THETA * width / 4 * 200


def test_smooth_point_is_near_the_solution() -> None:
    whole = problem()
    near, inside, steps = smooth_point(whole, 100)
    right, _ = quadratic_program(whole, near.z, 1e-10)
    assert 0 < cost(whole, near.z) - cost(whole, right.z) < 1e-3 * cost(whole, right.z)
    assert inside <= 100
    assert steps > 2
    assert near.omega == pytest.approx(right.omega, abs=1.1)


@pytest.mark.parametrize("theta", [1.0, 3.0])
def test_smooth_point_has_stationary_multipliers(theta: float) -> None:
    """It is stationary as the solution is: ridge z = G' omega up to the steps' precision."""
    whole = replace(problem(), theta=theta)
    near = smooth_point(whole, 100)[0]
    assert whole.ridge * near.z == pytest.approx(whole.G.T @ near.omega, abs=0.02 * theta)
    assert near.omega + near.varsigma == pytest.approx(theta + RHO * near.xi)


def test_point_from_weights_alone_is_complementary() -> None:
    whole = problem(q=50)
    at = Point.at(whole, np.random.default_rng(2).normal(size=5) * 5)
    assert np.all(at.xi * at.varsigma == 0)
    assert np.all(at.s * at.omega == 0)
    assert at.omega + at.varsigma == pytest.approx(THETA + RHO * at.xi)
    assert whole.G @ at.z + at.xi - at.s == pytest.approx(1.0)


@pytest.mark.parametrize("rho, theta", [(1e-2, 1.0), (1.0, 0.3), (1e-3, 20.0)])
@pytest.mark.parametrize("apart", [0.0, 1.0, 3.0])
def test_solve_reaches_the_rounding_level_on_many_rows(rho: float, theta: float, apart: float) -> None:
    G = rows(q=2500, apart=apart) * np.sqrt(2500)
    assert solve(G, rho, theta).residual < 1e-11


@pytest.mark.parametrize("theta", [1.0, 3.0])
def test_class_that_lies_on_the_margin_needs_no_program(
    theta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing to learn and unequal classes: alpha is exactly 0, and a whole class on the margin.

    No program of thousands of rows is needed for that: the rounded problem has multipliers already.
    """

    def refuse(*_: object) -> None:
        raise AssertionError("a program was solved")

    monkeypatch.setattr("onefold.release.svm.quadratic_program", refuse)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(4000, 6)) * 5, rng.random(4000) < 0.2
    svm = RobustSVM(theta=theta).fit(X, y)
    assert svm.kkt_residual_ < 1e-11
    assert np.abs(svm.coef_).max() < 1e-10
    assert svm.intercept_[0] == pytest.approx(-1.0, abs=1e-9)
    assert np.sum((svm.omega_ > 1e-6) & (svm.omega_ < theta - 1e-6)) > 2000


def test_repair_moves_rows_to_the_other_side() -> None:
    above = np.array([True, True, False, False, False, False, False])
    below = np.array([False, False, True, True, False, False, False])
    margin = np.array([2.0, 0.5, 0.5, 2.0, 1.0, 1.0, 1.0])
    omega = np.array([0.0, 0.0, 1.0, 1.0, 0.5, -0.1, 1.1])
    assert _repair(margin, omega, 1.0, above, below)
    assert above.tolist() == [True, False, False, False, False, True, False]
    assert below.tolist() == [False, False, True, False, False, False, True]
    settled = np.array([True, False]), np.array([False, True])
    assert not _repair(np.array([2.0, 0.5]), np.array([0.0, 1.0]), 1.0, *settled)


@pytest.mark.parametrize("change", [1e-3, 1e-1])
def test_kkt_residual_sees_wrong_multipliers(change: float) -> None:
    G = rows(q=24, p=3) * np.sqrt(24)
    right = solve(G, 1e-2, 1.0)
    assert right.residual < 1e-12
    for place in (int(np.argmax(right.omega)), int(np.argmin(right.omega))):
        omega = right.omega.copy()
        omega[place] += change
        assert kkt_residual(G, 1e-2, 1.0, right.z, omega) > 1e-6
    assert kkt_residual(G, 1e-2, 1.0, right.z * (1 + change), right.omega) > 1e-6
    # (15b) as it is printed, with 1 in place of theta, does not hold for another theta
    other = solve(G, 1e-2, 3.0)
    assert kkt_residual(G, 1e-2, 1.0, other.z, other.omega) > 1e-3


def test_upper_factor_is_the_root_of_the_matrix() -> None:
    rng = np.random.default_rng(0)
    G, weights, ridge = rng.normal(size=(9, 4)), rng.uniform(size=9), rng.uniform(0.1, 1.0, 4)
    R = upper_factor(G, weights, ridge)
    assert np.array_equal(R, np.triu(R))
    np.testing.assert_allclose(R.T @ R, G.T @ (weights[:, np.newaxis] * G) + np.diag(ridge), atol=1e-12)


def test_upper_factor_counts_a_ridge_too_small_to_be_added() -> None:
    """1e20 + 4 is 1e20 in floating point, and the matrix singular; its root is not."""
    R = upper_factor(np.array([[1.0, 1.0]]), np.array([1e20]), np.array([1.0, 4.0]))
    assert np.prod(np.diag(R)) ** 2 == pytest.approx(5e20, rel=1e-9)  # (1e20 + 1) (1e20 + 4) - 1e40


def test_upper_factor_of_a_singular_matrix_is_invertible() -> None:
    R = upper_factor(np.array([[1.0, 1.0]]), np.array([1.0]), np.array([0.0, 0.0]))
    assert np.all(np.diag(R) != 0.0)
