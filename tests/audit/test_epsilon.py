"""The game between two neighbours: it must not accuse the innocent, and must catch noise that is wrong."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from onefold.audit import audit_epsilon, audit_epsilon_one_run
from onefold.exceptions import InvalidInputError

X = np.zeros((3, 4))
NEIGHBOUR = X.copy()
NEIGHBOUR[1, 2] = 1.0


def laplace(scale: float):
    return lambda data, rng: data + rng.laplace(scale=scale, size=data.shape)


def test_bound_is_below_and_near_the_true_epsilon() -> None:
    for epsilon in (0.5, 1.0, 3.0):
        audit = audit_epsilon(
            laplace(1 / epsilon), X, NEIGHBOUR, 0.0, 200_000, 0.999, stacked=True, random_state=1
        )
        assert 0.85 * epsilon < audit.epsilon_lower <= epsilon
        assert not audit.contradicts(epsilon)
        assert audit.contradicts(0.5 * epsilon)


@pytest.mark.parametrize("scale", [0.5, 0.7])
def test_claim_with_too_little_noise_is_contradicted(scale: float) -> None:
    audit = audit_epsilon(laplace(scale), X, NEIGHBOUR, 0.0, 6000, 0.99, random_state=2)
    assert 1.0 < audit.epsilon_lower < 1 / scale
    assert audit.contradicts(1.0)


@pytest.mark.merge
def test_release_that_ignores_the_data_is_contradicted_as_seldom_as_stated() -> None:
    # Choosing the event on the counted trials would fail here: some threshold always looks telling.
    accused = [
        audit_epsilon(
            lambda data, rng: rng.normal(size=3), [0.0], [1.0], 0.0, 120, 0.8, random_state=seed
        ).epsilon_lower
        > 0
        for seed in range(400)
    ]
    assert np.mean(accused) < 0.2


@pytest.mark.merge
def test_bound_fails_as_seldom_as_its_confidence_says() -> None:
    # Randomised response has the loss in every output: nothing is looser than the limits themselves.
    epsilon = 1.0
    keep = np.exp(epsilon) / (1 + np.exp(epsilon))

    def response(data, rng):
        return data if rng.random() < keep else 1 - data

    bounds = np.array(
        [
            audit_epsilon(
                response, [0.0], [1.0], 0.0, 800, 0.8, statistic=float_of, random_state=seed
            ).epsilon_lower
            for seed in range(200)
        ]
    )
    assert np.mean(bounds > epsilon) < 0.2
    assert np.median(bounds) > 0.6


def float_of(output) -> float:
    return float(np.ravel(output)[0])


def test_delta_lowers_the_bound() -> None:
    # Reveals the data with probability 0.05, else nothing: (0, 0.05) private, so nothing may be found.
    def reveals(data, rng):
        return data[0] if rng.random() < 0.05 else -1.0

    granted = audit_epsilon(reveals, [0.0], [1.0], 0.05, 20_000, 0.99, random_state=0)
    denied = audit_epsilon(reveals, [0.0], [1.0], 0.0, 20_000, 0.99, random_state=0)
    assert granted.epsilon_lower == 0.0
    assert denied.epsilon_lower > 4


def test_swapping_the_neighbours_gives_the_same_finding() -> None:
    def one_sided(data, rng):  # a zero is always told, a one only half of the time
        return float(data[0] == 1 and rng.random() < 0.5)

    there = audit_epsilon(one_sided, [0.0], [1.0], 0.0, 4000, random_state=3)
    back = audit_epsilon(one_sided, [1.0], [0.0], 0.0, 4000, random_state=4)
    assert there.epsilon_lower > 5
    assert back.epsilon_lower > 5


def test_learnt_statistic_is_not_counted_on_its_training_releases() -> None:
    # In 200 numbers a discriminant separates any few releases perfectly, and no others.
    wide, other = np.zeros((10, 20)), np.zeros((10, 20))
    other[3, 4] = 1.0
    for seed in range(3):
        audit = audit_epsilon(laplace(0.25), wide, other, 0.0, 400, random_state=seed)
        assert audit.statistic == "projection on the change"
        assert 1.5 < audit.epsilon_lower < 4.0


@pytest.mark.parametrize("stacked", [False, True])
def test_audit_without_a_seed_hands_no_generator_to_a_mechanism(stacked: bool) -> None:
    # The entropy that users get is part of what is audited.
    handed = []

    class Noise:
        def randomise(self, data, random_state=None):
            handed.append(random_state)
            return data + np.random.default_rng(random_state).laplace(size=data.shape)

    audit_epsilon(Noise(), X, NEIGHBOUR, 0.0, 16, stacked=stacked)
    audit_epsilon_one_run(Noise(), X, NEIGHBOUR, 0.0, n_guesses=1)
    assert set(handed) == {None}
    audit_epsilon(Noise(), X, NEIGHBOUR, 0.0, 16, stacked=stacked, random_state=0)
    assert isinstance(handed[-1], np.random.Generator)


# --- planted mistakes of other kinds ----------------------------------------------------------------------


def test_constant_seed_is_contradicted() -> None:
    def seeded(data, rng):
        return data + np.random.default_rng(7).laplace(size=data.shape)

    audit = audit_epsilon(seeded, X, NEIGHBOUR, 0.0, 400, 0.99, random_state=0)
    assert audit.epsilon_lower == audit.detectable > 3


def test_noise_used_for_two_releases_is_contradicted() -> None:
    # Nobody knows the noise, but the two releases differ by exactly the difference of their data.
    def twice(data, rng, fresh: bool):
        noise = rng.laplace(size=(2, *data.shape))
        return np.stack([data + noise[0], np.zeros_like(data) + noise[int(fresh)]])

    reused = audit_epsilon(lambda d, r: twice(d, r, False), X, NEIGHBOUR, 0.0, 1000, 0.99, random_state=0)
    fresh = audit_epsilon(lambda d, r: twice(d, r, True), X, NEIGHBOUR, 0.0, 1000, 0.99, random_state=0)
    assert reused.epsilon_lower == reused.detectable > 4
    assert reused.statistic == "learnt linear discriminant"
    assert not fresh.contradicts(1.0)


def test_one_noise_value_for_a_whole_table_is_contradicted() -> None:
    audit = audit_epsilon(lambda d, r: d + r.laplace(), X, NEIGHBOUR, 0.0, 1000, 0.99, random_state=0)
    assert audit.contradicts(3.0)


def test_spread_that_depends_on_the_data_is_contradicted() -> None:
    # The mean tells nothing; how far the numbers scatter does.
    def scattered(data, rng):
        return rng.normal(scale=1.0 + data.sum(), size=40)

    assert audit_epsilon(scattered, X, NEIGHBOUR, 0.0, 1000, 0.99, random_state=0).contradicts(2.5)


def test_mechanism_that_overwrites_its_input_spoils_no_other_trial() -> None:
    def spoils(data, rng):
        data += rng.laplace(size=data.shape)
        return data

    audit = audit_epsilon(spoils, X, NEIGHBOUR, 0.0, 20_000, 0.999, random_state=0)
    assert 0.7 < audit.epsilon_lower < 1.0


# --- the object -------------------------------------------------------------------------------------------


def test_same_seed_gives_the_same_audit_with_any_n_jobs() -> None:
    audits = [audit_epsilon(laplace(1), X, NEIGHBOUR, 0.0, 500, random_state=5, n_jobs=n) for n in (1, 3)]
    assert audits[0] == audits[1]
    assert audits[0] != audit_epsilon(laplace(1), X, NEIGHBOUR, 0.0, 500, random_state=6)


def test_bound_and_detectable_follow_from_the_counts() -> None:
    from onefold.audit import clopper_pearson

    audit = audit_epsilon(laplace(0.5), X, NEIGHBOUR, 0.01, 2000, 0.9, random_state=5)
    n = audit.counts["counted_trials_each"]
    assert n == 1000
    likely = clopper_pearson(audit.counts["hits"], n, 0.9)[0]  # each side may fail with probability 0.05
    unlikely = clopper_pearson(audit.counts["false_hits"], n, 0.9)[1]
    assert audit.epsilon_lower == pytest.approx(np.log((likely - 0.01) / unlikely))
    assert audit.detectable == pytest.approx(np.log((0.05 ** (1 / n) - 0.01) / (1 - 0.05 ** (1 / n))))


def test_text_names_unit_confidence_and_limits() -> None:
    audit = audit_epsilon(laplace(0.5), X, NEIGHBOUR, 1e-5, 2000, 0.9, random_state=5)
    text = str(audit)
    for part in (
        f"{audit.epsilon_lower:.3f}",
        "delta 1e-05",
        "unit: entry",
        "confidence 0.9",
        "does not show",
        "so few",
    ):
        assert part in text
    nothing = str(audit_epsilon(laplace(100), X, NEIGHBOUR, 0.0, 100, random_state=0))
    assert "This shows: nothing against any claim" in nothing
    assert json.loads(json.dumps(asdict(audit)))["counts"] == audit.counts
    with pytest.raises(InvalidInputError):
        audit.contradicts(float("nan"))


def test_neighbours_that_differ_too_much_are_refused() -> None:
    two_rows, two_entries = X.copy(), X.copy()
    two_rows[:2, 0] = 1.0
    two_entries[0, :2] = 1.0
    for other, unit in [
        (two_rows, "entry"),
        (two_rows, "record"),
        (two_entries, "entry"),
        (X, "entry"),
        (X[:2], "entry"),
    ]:
        with pytest.raises(InvalidInputError, match="x_prime"):
            audit_epsilon(laplace(1), X, other, 0.0, 16, unit=unit)
    assert audit_epsilon(laplace(1), X, two_entries, 0.0, 16, unit="record", random_state=0).unit == "record"
    audit = audit_epsilon(laplace(1), X, two_rows, 0.0, 16, unit="unchecked", random_state=0)
    assert "not checked to be neighbours" in str(audit)

    class Declared:
        sensitivity, unit = 0.5, "entry"

        def randomise(self, data, random_state):
            return data

    with pytest.raises(InvalidInputError, match="sensitivity"):
        audit_epsilon(Declared(), X, NEIGHBOUR, 0.0, 16)
    assert audit_epsilon(Declared(), X, NEIGHBOUR / 2, 0.0, 16).unit == "entry"


@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism": 3},
        {"x": "data"},
        {"x": [[np.nan] * 4] * 3},
        {"delta": -1e-9},
        {"delta": float("nan")},
        {"delta": 1.0},
        {"n_trials": 7},
        {"n_trials": 10.5},
        {"confidence": 1.0},
        {"unit": "person"},
        {"random_state": "seed"},
        {"random_state": np.random.RandomState(0)},
        {"statistic": lambda output: output},
        {"statistic": lambda output: float("nan")},
        {"mechanism": lambda data, rng: "secret"},
        {"mechanism": lambda data, rng: rng.random(int(rng.integers(1, 3)))},
        {"mechanism": lambda data, rng: data[:1], "stacked": True},
    ],
)
def test_audit_epsilon_refuses_bad_input_in_one_line(changes: dict) -> None:
    good = {"mechanism": laplace(1), "x": X, "x_prime": NEIGHBOUR, "delta": 0.0, "n_trials": 64}
    with pytest.raises(InvalidInputError) as caught:
        audit_epsilon(**{**good, **changes})
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
