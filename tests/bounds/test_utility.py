"""How far models move with noise: the bounds against simulation, and the constant against differences."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.bounds import loss_utility_bound, ridge_lipschitz_constant, svm_utility_bound
from onefold.exceptions import InvalidInputError
from onefold.release import RobustSVM

SIGMA = 1e-2


def regression(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The minimiser of 002 Sec. 3.2.3."""
    return np.linalg.solve(SIGMA * np.eye(X.shape[1]) + X.T @ X / len(X), X.T @ y / len(X))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def records(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(40, 3))
    return X, X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=40)


def test_constant_is_the_largest_derivative_by_a_record(records: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = records
    step, norms = 1e-6, []
    for record in range(len(X)):
        columns = []
        for feature in range(X.shape[1]):
            moved = X.copy()
            moved[record, feature] += step
            columns.append((regression(moved, y) - regression(X, y)) / step)
        norms.append(np.linalg.norm(np.array(columns).T, 2))
    assert ridge_lipschitz_constant(X, y, SIGMA) == pytest.approx(max(norms), rel=1e-4)


def test_regression_on_released_rows_is_as_near_as_the_bound_says(
    records: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> None:
    X, y = records
    raw, c, tolerance = regression(X, y), ridge_lipschitz_constant(X, y, SIGMA), 0.02
    deviation = 0.5 * tolerance / (c * len(X) * np.sqrt(3))  # the bound then says 3 / 4
    bound = loss_utility_bound(len(X), c, tolerance, 3 * deviation**2)
    assert bound == pytest.approx(0.75)
    moved = [
        np.linalg.norm(regression(X + deviation * rng.normal(size=X.shape), y) - raw) for _ in range(300)
    ]
    assert np.mean(np.array(moved) <= tolerance) >= bound
    # A constant that is far too small promises what does not hold.
    lie = loss_utility_bound(len(X), c / 1000, tolerance / 100, 3 * deviation**2)
    assert np.mean(np.array(moved) <= tolerance / 100) < lie


def test_machine_on_released_rows_is_as_near_as_the_bound_says(rng: np.random.Generator) -> None:
    X = rng.normal(size=(20, 2))
    X[10:, 1] += 5.0
    y = np.repeat([0, 1], 10)

    def solution(rows: np.ndarray) -> np.ndarray:
        svm = RobustSVM().fit(rows, y)
        return np.concatenate([svm.coef_[0], svm.intercept_, svm.xi_])

    raw, step, columns = solution(X), 1e-5, []
    for place in np.ndindex(X.shape):
        moved = X.copy()
        moved[place] += step
        columns.append((solution(moved) - raw) / step)
    c, tolerance = float(np.linalg.norm(np.array(columns).T, 2)), 1e-2
    deviation = 0.5 * tolerance / (c * np.sqrt(2 * len(X)))
    bound = svm_utility_bound(len(X), c, tolerance, 2 * deviation**2)
    assert bound == pytest.approx(0.75)
    near = [
        np.linalg.norm(solution(X + deviation * rng.normal(size=X.shape)) - raw) <= tolerance
        for _ in range(40)
    ]
    assert np.mean(near) >= bound


def test_bounds_fall_with_noise_and_never_below_zero() -> None:
    found = svm_utility_bound(10, 1.0, 1.0, np.array([0.0, 0.01, 0.05, 1.0]))
    np.testing.assert_allclose(found, [1.0, 0.9, 0.5, 0.0])
    np.testing.assert_allclose(loss_utility_bound(10, 1.0, 1.0, 0.005), 0.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: svm_utility_bound(0, 1, 1, 1), "n_records"),
        (lambda: svm_utility_bound(5, -1, 1, 1), "lipschitz"),
        (lambda: loss_utility_bound(5, 1, 0, 1), "tolerance"),
        (lambda: loss_utility_bound(5, 1, 1, float("nan")), "noise_trace"),
        (lambda: ridge_lipschitz_constant([[1.0]], [1.0, 2.0], 1.0), "one number for each"),
        (lambda: ridge_lipschitz_constant([[np.nan]], [1.0], 1.0), "finite"),
        (lambda: ridge_lipschitz_constant([[1.0]], [1.0], 0.0), "penalty"),
    ],
)
def test_bad_input_gets_one_clear_line(call, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()
