"""Curves of utility: any learner, noises matched as they say, repetitions that can be joined."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from onefold.exceptions import InvalidInputError
from onefold.privacy import Box, FisherGaussian
from onefold.release import NOISES, RobustSVM, sweep


def clouds(n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(n, 3)), rng.normal(size=(n, 3)) + 3]), np.repeat(["no", "yes"], n)


@pytest.mark.parametrize("estimator", [None, RobustSVM(theta=0.1), LogisticRegression()])
def test_scores_rise_with_lam(estimator: object) -> None:
    X, y = clouds()
    curve = sweep(X, y, [1e-8, 1e8], estimator, repetitions=4, random_state=1, sensitivity=1.0)
    assert curve.baseline > 0.97
    for noise in NOISES:
        assert curve.scores[noise].shape == (2, 4)
        assert curve.mean(noise)[0] < 0.85
        assert curve.mean(noise)[1] == pytest.approx(curve.baseline, abs=0.01)


def test_sweep_scores_a_regression_on_other_rows() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0]
    test = {"X_test": X[200:], "y_test": y[200:], "scoring": "r2"}
    curve = sweep(X[:200], y[:200], [1e-2, 1e6], LinearRegression(), sensitivity=1.0, **test)
    assert curve.baseline == pytest.approx(1.0)
    assert curve.measure == "r2"
    assert curve.mean("optimal")[0] < 0.5 < 0.99 < curve.mean("optimal")[1]


def test_sweep_fits_on_noisy_rows_and_scores_on_raw_ones() -> None:
    X, y = clouds(10)
    seen = []

    class Learner(RobustSVM):
        def fit(self, rows, labels):
            seen.append(np.array(rows))
            return super().fit(rows, labels)

    def on_raw_rows(model, rows, labels) -> float:
        return float(np.array_equal(rows, X) and np.array_equal(labels, y))

    options = {"repetitions": 2, "scoring": on_raw_rows, "random_state": 0, "sensitivity": 1.0}
    curve = sweep(X, y, [1.0, 4.0], Learner(), **options)
    assert curve.baseline == 1.0
    assert all(values.min() == 1.0 for values in curve.scores.values())
    assert sum(np.array_equal(rows, X) for rows in seen) == 1  # the baseline


def test_sweep_passes_weights_to_the_noise() -> None:
    X, y = clouds(10)
    options = {"noises": ["optimal"], "repetitions": 1, "sensitivity": 1.0}
    curve = sweep(X, y, [16.0], Pi=[1.0, 16.0, 81.0], **options)
    assert curve.strengths[0].standard_errors == pytest.approx((1 / 2, 1 / 4, 1 / 6))


def test_sweep_clips_the_rows_it_learns_from_to_the_declared_domain() -> None:
    """Before, the noise of the curve was added to rows that a release would have clipped."""
    X, y = clouds(10)
    seen = []

    class Learner(RobustSVM):
        def fit(self, rows, labels):
            seen.append(np.array(rows))
            return super().fit(rows, labels)

    sweep(X, y, [1e24], Learner(), repetitions=1, sensitivity=Box(0, 1, 3), random_state=0)
    assert len(seen) == 4
    for rows in seen[:3]:
        assert rows == pytest.approx(np.clip(X, 0, 1), abs=1e-3)
    assert np.array_equal(seen[3], X)  # the baseline


def test_noises_have_equal_bound_or_equal_variance() -> None:
    noise, rng = FisherGaussian(1e-2, [1.0, 16.0], sensitivity=1.0), np.random.default_rng(3)
    draws = {name: draw(noise, (200000, 2), rng) for name, draw in NOISES.items()}
    sigma = noise.standard_errors(2)
    variances = {name: np.var(values, axis=0) / sigma**2 for name, values in draws.items()}
    assert variances["optimal"] == pytest.approx([1, 1], rel=0.02)
    assert variances["Laplace, equal bound"] == pytest.approx([2, 2], rel=0.04)  # 1/b^2 = 1/sigma^2
    assert variances["Laplace, equal variance"] == pytest.approx([1, 1], rel=0.04)


def test_curve_has_strengths_and_scores() -> None:
    X, y = clouds(20)
    curve = sweep(X, y, [1.0, 10.0], repetitions=2, sensitivity=0.5, delta=1e-6, random_state=0)
    assert curve.lams.tolist() == [1.0, 10.0]
    noise = FisherGaussian(1.0, sensitivity=0.5, delta=1e-6)
    assert (curve.strengths[0].epsilon, 1e-6) == noise.guarantee(3).record
    assert curve.scores["optimal"].shape == (2, 2)


def test_curves_can_be_joined_and_noises_compared() -> None:
    X, y = clouds(30)
    one, two = (sweep(X, y, [1e-3], repetitions=3, random_state=seed, sensitivity=1.0) for seed in (0, 1))
    both = one.joined(two)
    assert both.scores["optimal"].shape == (1, 6)
    mean, error = both.difference("optimal", "Laplace, equal bound")
    differences = both.scores["optimal"][0] - both.scores["Laplace, equal bound"][0]
    assert mean[0] == pytest.approx(differences.mean())
    assert error[0] == pytest.approx(differences.std(ddof=1) / math.sqrt(6))
    single = sweep(X, y, [1.0], repetitions=1, sensitivity=1.0)
    assert np.isnan(single.standard_error("optimal")).all()
    for lam, noises in ((1.0, list(NOISES)), (1e-3, ["optimal"])):
        with pytest.raises(InvalidInputError, match="different"):
            one.joined(sweep(X, y, [lam], noises=noises, repetitions=1, sensitivity=1.0))


def test_sweep_repeats_with_a_seed() -> None:
    X, y = clouds(20)
    options = {"repetitions": 2, "random_state": 5, "sensitivity": 1.0}
    one, two = (sweep(X, y, [1e-2], **options).scores["optimal"] for _ in range(2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    "change",
    [
        {"lams": []},
        {"lams": [-1.0]},
        {"noises": ["gauss"]},
        {"noises": []},
        {"repetitions": 0},
        {"y": [1]},
        {"X": [["a"]]},
        {"sensitivity": None},
    ],
)
def test_sweep_refuses_bad_input_in_one_line(change: dict) -> None:
    X, y = clouds(10)
    arguments = {"X": X, "y": y, "lams": [1.0], "sensitivity": 1.0} | change
    with pytest.raises(InvalidInputError) as caught:
        sweep(arguments.pop("X"), arguments.pop("y"), arguments.pop("lams"), **arguments)
    assert "\n" not in str(caught.value)
