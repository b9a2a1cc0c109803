"""Document 004's bounds: values by hand, planted errors, frequencies on a distribution known exactly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold import bounds
from onefold.exceptions import InvalidInputError

E2 = math.exp(-2.0)  # log(1/delta) = 2, so that every root below is a whole number over sqrt(N)

# (call, value worked out by hand from the document's formula); N = 10^4, sqrt(N) = 100.
BY_HAND = [
    ("rkhs_risk_bound", {"n_samples": 10_000, "delta": E2}, 0.03 + 0.04),
    ("risk_bound", {"n_samples": 10_000, "delta": E2, "feature_norm_squared": 0.2}, 0.07 * 25),
    (
        "risk_bound",
        {"n_samples": 10_000, "delta": E2, "feature_norm_squared": 0.2, "gap": 0.25},
        0.07 * 25 + 0.25,
    ),
    ("direct_risk_bound", {"n_samples": 10_000, "delta": 2 * E2, "feature_norm_squared": 0.2}, 2 / 4000),
    (
        "prediction_error_bound",
        {"n_samples": 10_000, "delta": E2, "feature_norm_squared": 0.5, "label_noise": 0.1},
        0.07 * 4 + 0.1,
    ),
    ("posterior_error_bound", {"n_samples": 10_000, "delta": E2, "feature_norm_squared": 0.5}, 0.07 * 4),
    ("rademacher_bound", {"n_samples": 10_000}, 0.01),
    (
        "hypothesis_prediction_error_bound",
        {
            "n_samples": 10_000,
            "delta": E2,
            "class_frequency": 0.5,
            "empirical_error": 0.2,
            "label_noise": 0.1,
        },
        0.2 + 0.04 + 0.01,
    ),
    (
        "hypothesis_prediction_error_bound",
        {
            "n_samples": 10_000,
            "delta": E2,
            "class_frequency": 1.0,
            "empirical_error": 0.2,
            "label_noise": 0.1,
        },
        0.1 + 0.07,
    ),
    (
        "hypothesis_posterior_error_bound",
        {"n_samples": 10_000, "delta": E2, "class_frequency": 0.5, "empirical_error": 0.2},
        0.25,
    ),
    (
        "hypothesis_posterior_error_bound",
        {"n_samples": 10_000, "delta": E2, "class_frequency": 0.5, "empirical_error": 0.9},
        0.28,
    ),
    ("folding_posterior_error_bound", {"n_samples": 10_000, "delta": E2, "class_frequency": 0.1}, 0.05),
]


@pytest.mark.parametrize(("name", "arguments", "value"), BY_HAND)
def test_values_worked_out_by_hand(name: str, arguments: dict, value: float) -> None:
    assert getattr(bounds, name)(**arguments) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, d, c: (3 / n + np.sqrt(8 * np.log(1 / d) / n)) / c**2,  # 3/N for 3/sqrt(N)
        lambda n, d, c: (3 / np.sqrt(n) + np.sqrt(8 * np.log(1 / d)) / n) / c**2,  # N outside the root
        lambda n, d, c: (
            (3 / np.sqrt(n) + np.sqrt(np.log(1 / d) / (8 * n))) / c**2
        ),  # 8 below instead of above
        lambda n, d, c: (3 / np.sqrt(n) + np.sqrt(8 * np.log(1 / d) / n)) / c,  # the frequency not squared
        lambda n, d, c: (3 / np.sqrt(n) + np.sqrt(8 * np.log10(1 / d) / n)) / c**2,  # the wrong logarithm
    ],
)
def test_the_values_by_hand_tell_plausible_errors_apart(wrong) -> None:
    right = bounds.posterior_error_bound(10_000, E2, 0.2)
    assert wrong(10_000, E2, 0.2) != pytest.approx(right, rel=0.05)
    assert right == pytest.approx(1.75, rel=1e-12)


@given(
    n=st.integers(1, 10**9),
    delta=st.floats(1e-12, 0.999),
    frequency=st.floats(1e-3, 1.0),
    noise=st.floats(0.0, 1.0),
)
def test_more_data_and_less_confidence_never_raise_a_bound(n, delta, frequency, noise) -> None:
    for name, extra in [
        ("rkhs_risk_bound", {}),
        ("risk_bound", {"feature_norm_squared": frequency}),
        ("direct_risk_bound", {"feature_norm_squared": frequency}),
        ("prediction_error_bound", {"feature_norm_squared": frequency, "label_noise": noise}),
        (
            "hypothesis_prediction_error_bound",
            {"class_frequency": frequency, "empirical_error": noise, "label_noise": noise},
        ),
        ("folding_posterior_error_bound", {"class_frequency": frequency}),
    ]:
        bound = getattr(bounds, name)
        value = bound(n, delta, **extra)
        assert value > 0
        assert bound(4 * n, delta, **extra) < value or noise > 0
        assert bound(4 * n, delta, **extra) <= value
        assert bound(n, delta / 2, **extra) >= value


def test_four_times_the_data_halves_what_is_not_noise() -> None:
    for n in (1, 100, 10**8):
        assert bounds.rkhs_risk_bound(4 * n, 0.05) == pytest.approx(bounds.rkhs_risk_bound(n, 0.05) / 2)
        assert bounds.rademacher_bound(4 * n) == pytest.approx(bounds.rademacher_bound(n) / 2)
        assert bounds.direct_risk_bound(4 * n, 0.05, 0.3) == pytest.approx(
            bounds.direct_risk_bound(n, 0.05, 0.3) / 4
        )


def test_limits_for_infinitely_many_samples() -> None:
    assert bounds.posterior_error_bound(1e30, 0.01, 0.1) < 1e-11
    assert bounds.prediction_error_bound(1e30, 0.01, 0.1, label_noise=0.2) == pytest.approx(0.2)
    assert bounds.hypothesis_posterior_error_bound(1e30, 0.01, 0.1, empirical_error=0.2, gap=0.1) == (
        pytest.approx(0.1)
    )


def test_arrays_broadcast() -> None:
    n, delta = np.array([10, 1000, 100_000]), np.array([[0.1], [0.01]])
    values = bounds.rkhs_risk_bound(n, delta)
    assert values.shape == (2, 3)
    for row, column in itertools.product(range(2), range(3)):
        # Vector instructions may give a logarithm of many numbers another last digit than that of one.
        assert values[row, column] == pytest.approx(
            bounds.rkhs_risk_bound(n[column], delta[row, 0]), rel=1e-14
        )


def test_the_second_branch_never_wins_for_a_usual_confidence() -> None:
    delta = np.linspace(1e-6, 0.79, 200)
    first = 4 / 10 + np.sqrt(np.log(1 / delta) / 200)
    np.testing.assert_allclose(bounds.folding_posterior_error_bound(100, delta, 1.0), first, rtol=1e-12)
    assert bounds.folding_posterior_error_bound(100, 0.9, 1.0) < 4 / 10 + np.sqrt(np.log(1 / 0.9) / 200)


def test_the_direct_bound_is_smaller_wherever_the_documents_bound_is_informative() -> None:
    n, delta, norm = np.meshgrid(
        np.logspace(0, 8, 30).round(), np.logspace(-8, -0.01, 30), np.linspace(0.01, 1, 30)
    )
    documented = bounds.risk_bound(n, delta, norm)
    informative = bounds.is_informative(documented)
    assert informative.any()
    assert np.all(bounds.direct_risk_bound(n, delta, norm)[informative] < documented[informative])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rkhs_risk_bound", {"n_samples": 0, "delta": 0.1}),
        ("rkhs_risk_bound", {"n_samples": 2.5, "delta": 0.1}),
        ("rkhs_risk_bound", {"n_samples": math.nan, "delta": 0.1}),
        ("rkhs_risk_bound", {"n_samples": math.inf, "delta": 0.1}),
        ("rkhs_risk_bound", {"n_samples": "many", "delta": 0.1}),
        ("rkhs_risk_bound", {"n_samples": 10, "delta": 0.0}),
        ("rkhs_risk_bound", {"n_samples": 10, "delta": 1.0}),
        ("rkhs_risk_bound", {"n_samples": 10, "delta": [0.1, math.nan]}),
        ("risk_bound", {"n_samples": 10, "delta": 0.1, "feature_norm_squared": 0.0}),
        ("risk_bound", {"n_samples": 10, "delta": 0.1, "feature_norm_squared": 1.1}),
        ("risk_bound", {"n_samples": 10, "delta": 0.1, "feature_norm_squared": 0.5, "gap": math.nan}),
        ("direct_risk_bound", {"n_samples": 10, "delta": 0.1, "feature_norm_squared": math.nan}),
        (
            "prediction_error_bound",
            {"n_samples": 10, "delta": 0.1, "feature_norm_squared": 0.5, "label_noise": -0.1},
        ),
        ("rademacher_bound", {"n_samples": -4}),
        ("folding_posterior_error_bound", {"n_samples": 10, "delta": 0.1, "class_frequency": math.nan}),
        (
            "hypothesis_posterior_error_bound",
            {"n_samples": 10, "delta": 0.1, "class_frequency": 0.5, "empirical_error": 1.5},
        ),
    ],
)
def test_arguments_out_of_range_are_refused_in_one_line(name: str, arguments: dict) -> None:
    with pytest.raises(InvalidInputError) as caught:
        getattr(bounds, name)(**arguments)
    assert "\n" not in str(caught.value)


# A distribution known exactly: five places x with probabilities and posteriors of the class.
PLACES = np.array([0.1, 0.3, 0.2, 0.25, 0.15])
POSTERIOR = np.array([0.05, 0.2, 0.5, 0.8, 0.95])


def _draws(n_samples: int, repeats: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each place is drawn, and how often with the class: (repeats, places) each."""
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n_samples, PLACES, size=repeats)
    return drawn, rng.binomial(drawn, POSTERIOR)


def _risks(phi: np.ndarray, n_samples: int, repeats: int = 4000, seed: int = 0) -> np.ndarray:
    """E[(h - f)^2], exactly, of the solution 004 eq. 81 in every repetition."""
    _, positive = _draws(n_samples, repeats, seed)
    norm_squared = PLACES @ phi**2
    h = (positive @ phi / (n_samples * norm_squared))[:, None] * phi
    return (h - POSTERIOR) ** 2 @ PLACES


def _gap(phi: np.ndarray) -> float:
    factor = (PLACES @ (phi * POSTERIOR)) / (PLACES @ phi**2)
    return float(PLACES @ (POSTERIOR - factor * phi) ** 2)


MAPS = {
    "posterior": POSTERIOR,
    "half the posterior": POSTERIOR / 2,
    "decision": (POSTERIOR > 0.5).astype(float),
    "constant": np.ones(5),
    "wrong way round": 1.0 - POSTERIOR,
}


@pytest.mark.parametrize("delta", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("n_samples", [5, 50, 500])
@pytest.mark.parametrize("phi", MAPS.values(), ids=MAPS.keys())
def test_the_risk_stays_below_the_bounds_often_enough(phi, n_samples, delta) -> None:
    norm_squared, gap = float(PLACES @ phi**2), _gap(phi)
    risks = _risks(phi, n_samples)
    slack = 3 * math.sqrt(delta * (1 - delta) / len(risks))
    for bound in (bounds.risk_bound, bounds.direct_risk_bound):
        held = np.mean(risks <= bound(n_samples, delta, norm_squared, gap))
        assert held >= 1 - delta - slack


@pytest.mark.parametrize("n_samples", [5, 50, 500])
def test_the_risk_inside_the_kernels_space(n_samples) -> None:
    phi = MAPS["wrong way round"]  # Theorem 1 asks nothing of the map
    _, positive = _draws(n_samples, 4000, seed=1)
    deviation = positive @ phi / n_samples - PLACES @ (phi * POSTERIOR)
    risks = deviation**2 * (PLACES @ phi**2)
    assert np.mean(risks <= bounds.rkhs_risk_bound(n_samples, 0.05)) >= 0.95


def test_a_direct_bound_too_small_by_five_would_be_noticed() -> None:
    """The frequency test has teeth: a fifth of the bound fails it."""
    phi, delta = MAPS["constant"], 0.1
    excess = _risks(phi, 500) - _gap(phi)
    assert np.mean(excess <= bounds.direct_risk_bound(500, delta, 1.0)) >= 1 - delta
    assert np.mean(excess <= bounds.direct_risk_bound(500, delta, 1.0) / 5) < 1 - delta


def test_without_the_gap_the_documents_theorem_fails() -> None:
    """004 Thm 2 as printed: a constant map, plenty of data, and the inequality never holds."""
    n_samples, delta = 10**6, 0.05
    risks = _risks(MAPS["constant"], n_samples, repeats=200)
    assert _gap(MAPS["constant"]) > 0.05
    assert np.mean(risks <= bounds.risk_bound(n_samples, delta, 1.0)) == 0.0
    assert np.mean(risks <= bounds.risk_bound(n_samples, delta, 1.0, gap=_gap(MAPS["constant"]))) == 1.0


@pytest.mark.parametrize("n_samples", [20, 200])
@pytest.mark.parametrize("phi", MAPS.values(), ids=MAPS.keys())
def test_the_training_error_branch_holds_for_a_fixed_map(phi, n_samples) -> None:
    """004 Thm 6-7, first branch, for the solution in the form of eq. 88, which stays in [0, 1]."""
    delta, frequency = 0.1, 1.0
    drawn, positive = _draws(n_samples, 4000, seed=2)
    h = (positive @ phi / np.maximum(positive.sum(axis=1), 1))[:, None] * phi
    per_place = positive * (1 - h) ** 2 + (drawn - positive) * h**2
    training_error = np.clip(per_place.sum(axis=1) / n_samples, 0, 1)
    noise = float(PLACES @ (POSTERIOR * (1 - POSTERIOR)))
    error = (h - POSTERIOR) ** 2 @ PLACES
    prediction = bounds.hypothesis_prediction_error_bound(n_samples, delta, frequency, training_error, 1.0)
    posterior = bounds.hypothesis_posterior_error_bound(n_samples, delta, frequency, training_error, 1.0)
    assert np.mean(error + noise <= prediction) >= 1 - delta
    assert np.mean(error <= posterior) >= 1 - delta


def _signs(n_samples: int) -> np.ndarray:
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n_samples)))


@pytest.mark.parametrize("n_samples", [1, 4, 12])
def test_complexity_of_one_fixed_map_by_counting_all_signs(n_samples) -> None:
    phi = np.random.default_rng(3).uniform(size=n_samples)
    # sup over a in [0, 1] of a * sum_i sigma_i phi_i
    complexity = np.mean(np.maximum(_signs(n_samples) @ phi, 0.0)) / n_samples
    assert complexity <= bounds.rademacher_bound(n_samples)


def test_complexity_over_all_maps_does_not_shrink() -> None:
    """004 eq. 238 takes a map that depends on the signs out of their expectation: Thm 5 fails."""
    n_samples, of_class = 12, 3
    signs = _signs(n_samples)
    # The map that is 1 on the class and wherever the sign is +1 gives this hypothesis (eq. 88):
    hypothesis = np.where(np.arange(n_samples) < of_class, 1.0, signs > 0)
    complexity = np.mean(np.sum(signs * hypothesis, axis=1)) / n_samples
    assert complexity == pytest.approx((1 - of_class / n_samples) / 2)
    assert complexity > bounds.rademacher_bound(n_samples)


def test_a_memorising_decision_breaks_proposition_2() -> None:
    """Labels are coin tosses: every decision in {0, 1} is wrong by exactly 1/4, and the bound tends to 0."""
    error = np.mean((np.array([0.0, 1.0]) - 0.5) ** 2)
    assert error == 0.25
    assert error > bounds.folding_posterior_error_bound(10_000, 0.05, class_frequency=0.5)
