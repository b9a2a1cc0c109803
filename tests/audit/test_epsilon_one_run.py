"""One run with many canaries: nothing false, and a good part of the truth."""

import numpy as np
import pytest

from onefold.audit import audit_epsilon_one_run
from onefold.audit.intervals import epsilon_from_guesses
from onefold.exceptions import InvalidInputError

LOW = np.zeros((80, 50))
HIGH = LOW + 1.0


def laplace(scale: float):
    return lambda data, rng: data + rng.laplace(scale=scale, size=data.shape)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_one_run_bound_is_below_and_near_the_true_epsilon(epsilon: float) -> None:
    for seed in range(5):
        audit = audit_epsilon_one_run(laplace(1 / epsilon), LOW, HIGH, 1e-6, 0.999, random_state=seed)
        assert 0.5 * epsilon < audit.epsilon_lower < epsilon


@pytest.mark.parametrize("scale", [0.5, 0.25])
def test_one_run_contradicts_a_claim_with_too_little_noise(scale: float) -> None:
    for seed in range(5):
        audit = audit_epsilon_one_run(laplace(scale), LOW, HIGH, 1e-6, 0.999, random_state=seed)
        assert 1.0 < audit.epsilon_lower < 1 / scale


def test_one_run_bound_fails_as_seldom_as_its_confidence_says() -> None:
    failed = [
        audit_epsilon_one_run(laplace(1.0), LOW[:10], HIGH[:10], 0.0, 0.8, random_state=seed).contradicts(1.0)
        for seed in range(400)
    ]
    assert np.mean(failed) < 0.2 + 3 * np.sqrt(0.16 / 400)


def test_one_run_counts_canaries_guesses_and_right_guesses() -> None:
    # What is released is known: the coins themselves, on a scale where some are clearer than others.
    seen = {}

    def reveal(data, rng):
        seen["coins"] = data == HIGH
        return data

    audit = audit_epsilon_one_run(reveal, LOW, HIGH, 1e-5, 0.95, n_guesses=100, random_state=0)
    assert audit.counts == {"canaries": 4000, "guesses": 100, "right_guesses": 100}
    assert audit.epsilon_lower == audit.detectable == epsilon_from_guesses(4000, 100, 100, 1e-5, 0.95)
    assert 0.45 < seen["coins"].mean() < 0.55

    def lie(data, rng):
        return 1.0 - data

    assert audit_epsilon_one_run(lie, LOW, HIGH, 1e-5, random_state=0).counts["right_guesses"] == 0


def test_one_run_guesses_the_clearest_canaries() -> None:
    # Every second column says nothing and stays near the middle: abstaining finds the others.
    def half_blind(data, rng):
        blurred = 0.5 + 0.1 * rng.normal(size=data.shape)
        blurred[:, ::2] = data[:, ::2]
        return blurred

    all_of_them = audit_epsilon_one_run(half_blind, LOW, HIGH, 0.0, n_guesses=4000, random_state=0)
    a_quarter = audit_epsilon_one_run(half_blind, LOW, HIGH, 0.0, random_state=0)
    assert a_quarter.counts["right_guesses"] == a_quarter.counts["guesses"] == 1000
    assert a_quarter.epsilon_lower > 5 > 1.5 > all_of_them.epsilon_lower


def test_one_run_takes_records_as_canaries() -> None:
    # Per entry (1, 0) private, so a row of 50 equal changes is plain to see: the unit is in the result.
    entry = audit_epsilon_one_run(laplace(1), LOW, HIGH, 0.0, random_state=0)
    record = audit_epsilon_one_run(laplace(1), LOW, HIGH, 0.0, unit="record", n_guesses=40, random_state=0)
    assert (entry.unit, record.unit) == ("entry", "record")
    assert record.counts == {"canaries": 80, "guesses": 40, "right_guesses": 40}
    assert record.epsilon_lower > 2.5 > 1 > entry.epsilon_lower
    calibrated = audit_epsilon_one_run(
        laplace(50), LOW, HIGH, 0.0, unit="record", n_guesses=80, random_state=0
    )
    assert not calibrated.contradicts(1.0)


def test_one_run_takes_only_entries_that_differ_as_canaries() -> None:
    other = LOW.copy()
    other[3:7, 5] = -2.0
    seen = []
    audit = audit_epsilon_one_run(
        lambda d, r: seen.append(d) or d, LOW, other, 0.0, n_guesses=4, random_state=1
    )
    assert audit.counts == {"canaries": 4, "guesses": 4, "right_guesses": 4}
    assert set(np.unique(seen[0])) <= {0.0, -2.0}
    untouched = np.ones_like(LOW, dtype=bool)
    untouched[3:7, 5] = False
    assert not seen[0][untouched].any()


def test_one_run_uses_given_scores() -> None:
    def count(data, rng):
        return data.sum(axis=1) + rng.normal(scale=0.01, size=len(data))

    audit = audit_epsilon_one_run(
        count, LOW, HIGH, 0.0, unit="record", scores=lambda sums: sums - 25, n_guesses=80, random_state=0
    )
    assert audit.counts["right_guesses"] == 80
    assert audit.statistic == "given scores"


@pytest.mark.parametrize(
    "changes",
    [
        {"x": LOW[0]},
        {"x": LOW[:5]},
        {"x_prime": LOW},
        {"n_guesses": 0},
        {"n_guesses": 4001},
        {"unit": "unchecked"},
        {"delta": 2.0},
        {"confidence": 0.0},
        {"scores": lambda output: [1.0, 2.0]},
        {"mechanism": lambda data, rng: data[:3]},
    ],
)
def test_one_run_refuses_bad_input_in_one_line(changes: dict) -> None:
    good = {"mechanism": laplace(1), "x": LOW, "x_prime": HIGH, "delta": 0.0, "random_state": 0}
    with pytest.raises(InvalidInputError) as caught:
        audit_epsilon_one_run(**{**good, **changes})
    assert "\n" not in str(caught.value)
