"""The machine of 002 eq. 2: unique, exact, the same as a general solver's, and a scikit-learn estimator."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.tiers import examples, thinned

from onefold.exceptions import InvalidInputError
from onefold.release import RobustSVM
from reference import release as literal

WISCONSIN = load_breast_cancer(return_X_y=True)


def cloud(seed: int, q: int = 24, p: int = 3, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(q) % 2, 1.0, -1.0)
    return rng.normal(size=(q, p)) + apart * y[:, None], y


def doubled(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A third of the rows twice: multipliers are then not unique."""
    again = len(X) // 3
    return np.vstack([X, X[:again]]), np.concatenate([y, y[:again]])


@parametrize_with_checks([RobustSVM()])
def test_robust_svm_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "points, weights",
    thinned([(0, 1.0), (1, 0.0), (2, 4.0)], [(1e-2, 1.0), (1.0, 0.3), (5.0, 4.0)]),
)
def test_robust_svm_equals_a_general_solver(points: tuple[int, float], weights: tuple[float, float]) -> None:
    (seed, apart), (rho, theta) = points, weights
    X, y = cloud(seed, apart=apart)
    alpha, beta, xi = literal.robust_svm(X, y, rho, theta)
    svm = RobustSVM(rho, theta).fit(X, y)
    assert svm.coef_[0] == pytest.approx(alpha, abs=2e-5)
    assert svm.intercept_[0] == pytest.approx(beta, abs=2e-5)
    assert svm.xi_ == pytest.approx(xi, abs=2e-5)


@given(
    seed=st.integers(0, 10**6),
    q=st.integers(2, 40),
    p=st.integers(1, 60),
    apart=st.sampled_from([0.0, 0.5, 5.0]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    rho=st.sampled_from([1e-4, 1e-2, 1.0, 100.0]),
    theta=st.sampled_from([1e-2, 1.0, 50.0]),
)
@settings(max_examples=examples(25, 60), deadline=None)
def test_robust_svm_satisfies_the_optimality_conditions(
    seed: int, q: int, p: int, apart: float, scale: float, rho: float, theta: float
) -> None:
    X, y = doubled(*cloud(seed, q, p, apart))
    X *= scale
    svm = RobustSVM(rho, theta).fit(X, y)
    worst = literal.conditions(X, y, rho, theta, svm.coef_[0], svm.intercept_[0], svm.xi_, svm.omega_)
    size = max(1.0, np.abs(svm.omega_).sum() * max(scale, 1 / rho))
    assert worst < 1e-7 * size
    assert svm.kkt_residual_ < 1e-7  # the program's own digits, should the exact finish fail


@pytest.mark.parametrize(
    "seed, q, p, apart, rho, theta",
    [
        (0, 40, 19, 0.0, 1e-4, 1.0),
        (18486, 33, 7, 5.0, 100.0, 0.01),
        (886272, 22, 9, 5.0, 1.0, 0.01),
        (971762, 39, 17, 5.0, 1e-4, 1.0),
    ],
)
def test_robust_svm_reaches_rounding_with_huge_entries(
    seed: int, q: int, p: int, apart: float, rho: float, theta: float
) -> None:
    """Multipliers are then a billion times smaller than margins; rows must be told apart all the same."""
    X, y = doubled(*cloud(seed, q, p, apart))
    assert RobustSVM(rho, theta).fit(1e3 * X, y).kkt_residual_ < 1e-11


def test_robust_svm_matches_two_rows_by_hand() -> None:
    """Rows at 0 and 2: by symmetry both lie on the margin, alpha = 1 and beta = -1 up to the pull of rho."""
    svm = RobustSVM(rho=1e-6, theta=10.0).fit([[0.0], [2.0]], ["no", "yes"])
    assert svm.coef_[0, 0] == pytest.approx(1.0, abs=1e-5)
    assert svm.intercept_[0] == pytest.approx(-1.0, abs=1e-5)
    assert svm.predict([[0.9], [1.1]]).tolist() == ["no", "yes"]


def test_robust_svm_with_small_rho_is_the_usual_machine() -> None:
    X, y = cloud(3, q=60)
    usual = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y)
    svm = RobustSVM(rho=1e-7, theta=1.0).fit(X, y)
    assert svm.coef_ == pytest.approx(usual.coef_, abs=1e-4)
    assert svm.intercept_ == pytest.approx(usual.intercept_, abs=1e-3)


def test_robust_svm_reproduces_the_number_of_the_document() -> None:
    """002 Sec. 3.2.1: 28.4 m; raw features, whose units differ by six powers of ten."""
    X, y = WISCONSIN
    svm = RobustSVM(rho=1e-2, theta=1.0).fit(X, y)
    c = svm.omega_ / np.linalg.norm(svm.omega_)
    assert 29 * (1 - np.max(c**2)) == pytest.approx(28.4127, abs=1e-4)
    assert svm.kkt_residual_ < 1e-12


def test_robust_svm_solves_columns_in_very_different_units() -> None:
    X, y = cloud(5, q=80, p=4)
    units = np.array([1e-4, 1.0, 1e3, 1e6])
    svm = RobustSVM().fit(X * units, y)
    assert svm.kkt_residual_ < 1e-9
    assert svm.score(X * units, y) > 0.9


def test_robust_svm_accepts_text_classes_and_data_frames() -> None:
    X, y = cloud(6)
    frame = pd.DataFrame(X, columns=list("abc"))
    words = np.where(y > 0, "sick", "healthy")
    svm = RobustSVM().fit(frame, words)
    assert svm.classes_.tolist() == ["healthy", "sick"]
    assert list(svm.feature_names_in_) == list("abc")
    assert svm.score(frame, words) > 0.8
    assert svm.coef_ == pytest.approx(RobustSVM().fit(X.astype(np.float32), y).coef_, abs=1e-5)


def test_robust_svm_works_in_pipelines_and_searches() -> None:
    X, y = WISCONSIN
    model = make_pipeline(StandardScaler(), RobustSVM())
    assert cross_val_score(model, X, y, cv=3).mean() > 0.95
    search = GridSearchCV(model, {"robustsvm__theta": [0.01, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.95


@pytest.mark.parametrize("name", ["rho", "theta"])
@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", None, True])
def test_robust_svm_refuses_bad_parameters(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{name} must[^\n]*$"):
        RobustSVM(**{name: value}).fit(*cloud(0))


def test_robust_svm_refuses_other_than_two_classes() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInputError, match="3 classes"):
        RobustSVM().fit(X, y)
    with pytest.raises(InvalidInputError, match="1 class"):
        RobustSVM().fit(X[:50], y[:50])
    with pytest.raises(InvalidInputError, match="label"):
        RobustSVM().fit(X, np.linspace(0.1, 0.7, len(X)))
