"""The package's own mechanisms on trial: none may be convicted, and the same with a planted mistake must be.

Each bound fails with probability 1e-4 by design, so all tests of this file together are wrong about an honest
mechanism with a probability below one in a hundred.
"""

from typing import Any

import numpy as np
import pytest
from tests.tiers import first_of, later, thinned

from onefold.audit import EpsilonAudit, audit_epsilon, audit_epsilon_one_run
from onefold.privacy import AnalyticGaussian, Box, Gaussian, Laplace, OptimalNoise, RandomisedLabels

CONFIDENCE = 0.9999
LOW, HIGH = np.zeros((60, 40)), np.ones((60, 40))

# Mechanism, what it claims, trials that suffice to see half of the noise. Gaussian noise shows its epsilon
# only in the tails, so it takes more of them.
ADDITIVE = [
    (OptimalNoise, 1.0, {"delta": 1e-5}, 20_000),
    (OptimalNoise, 0.2, {"delta": 0.05}, 200_000),
    (Laplace, 1.0, {}, 20_000),
    (Laplace, 4.0, {}, 20_000),
    (AnalyticGaussian, 1.0, {"delta": 1e-5}, 400_000),
    (AnalyticGaussian, 4.0, {"delta": 1e-5}, 400_000),
    (Gaussian, 0.9, {"delta": 1e-2}, 400_000),
]


def halved(kind: type) -> type:
    """The mechanism with half of its noise and all of its claims."""

    class Halved(kind):
        def _draw_steps(self, size: int, stream: Any) -> Any:
            return super()._draw_steps(size, stream) // 2

    return Halved


def forgetful(kind: type, column: int) -> type:
    """The mechanism without noise on one column."""

    class Forgetful(kind):
        def _noisy(self, values: Any, random_state: Any) -> Any:
            noisy = super()._noisy(values, random_state)
            noisy[:, column] = values[:, column]
            return noisy

    return Forgetful


def game(mechanism: Any, n_trials: int, size: float = 1.0, seed: int = 0) -> EpsilonAudit:
    x = np.array([[0.3]])
    return audit_epsilon(
        mechanism, x, x + size, mechanism.delta, n_trials, CONFIDENCE, stacked=True, random_state=seed
    )


@pytest.mark.parametrize("kind, epsilon, options, n_trials", later(ADDITIVE, first_of(lambda case: case[0])))
def test_audit_accepts_each_mechanism_and_contradicts_half_of_its_noise(
    kind: type, epsilon: float, options: dict, n_trials: int
) -> None:
    honest = kind(epsilon, **options, sensitivity=1.0)
    assert honest.guarantee(1).entry[0] == pytest.approx(epsilon)
    for seed in range(2):
        assert not game(honest, n_trials, seed=seed).contradicts(epsilon)
    assert game(halved(kind)(epsilon, **options, sensitivity=1.0), n_trials).contradicts(epsilon)


def test_audit_of_a_large_epsilon_says_that_trials_are_too_few() -> None:
    audit = game(halved(OptimalNoise)(8.0, sensitivity=1.0), 2000)
    assert audit.detectable < 8.0
    assert not audit.contradicts(8.0)
    assert game(OptimalNoise(8.0, sensitivity=1.0), 400_000).epsilon_lower < 8.0


@pytest.mark.parametrize("size", [0.01, 30.0])
def test_noise_grows_with_the_declared_sensitivity(size: float) -> None:
    for kind in (OptimalNoise, Laplace, AnalyticGaussian):
        assert 0.8 < game(kind(2.0, sensitivity=size), 100_000, size).epsilon_lower <= 2.0
        # Noise for a third of the change that happens; as a function, because the audit checks declarations.
        short = kind(2.0, sensitivity=size / 3).randomise
        x = np.array([[0.0]])
        audit = audit_epsilon(short, x, x + size, 1e-5, 100_000, CONFIDENCE, stacked=True, random_state=0)
        assert audit.contradicts(2.0)


@pytest.mark.parametrize("kind, epsilon, options, _", ADDITIVE)
def test_one_run_accepts_every_mechanism(kind: type, epsilon: float, options: dict, _: int) -> None:
    honest = kind(epsilon, **options, sensitivity=1.0)
    for seed in range(3):
        audit = audit_epsilon_one_run(honest, LOW, HIGH, honest.delta, CONFIDENCE, random_state=seed)
        assert (audit.unit, audit.counts["canaries"]) == ("entry", 2400)
        assert not audit.contradicts(epsilon)


@pytest.mark.parametrize(("kind", "epsilon"), thinned([OptimalNoise, Laplace], [1.0, 2.0]))
def test_one_run_contradicts_half_of_the_noise(kind: type, epsilon: float) -> None:
    short = halved(kind)(epsilon, sensitivity=1.0)
    audit = audit_epsilon_one_run(short, LOW, HIGH, short.delta, 0.999, random_state=0)
    assert audit.contradicts(epsilon)


def test_delta_limits_what_one_run_can_show() -> None:
    # About 4 m delta / r is the smallest failure probability that leaves anything to show: here 1.6e-4.
    for confidence, shown in ((0.9995, True), (0.9999, False)):
        audit = audit_epsilon_one_run(lambda data, rng: data, LOW, HIGH, 1e-5, confidence, random_state=0)
        assert (audit.detectable > 0) == (audit.epsilon_lower > 0) == shown


@pytest.mark.parametrize("kind", [Laplace, AnalyticGaussian])
def test_mechanism_for_records_is_accepted_for_records(kind: type) -> None:
    pixels = Box(0, 1, n_features=5)
    x, other = np.zeros((1, 5)), np.ones((1, 5))
    record = kind(1.5, sensitivity=pixels, unit="record")
    audit = audit_epsilon(record, x, other, record.delta, 100_000, CONFIDENCE, stacked=True, random_state=0)
    assert audit.unit == "record"
    assert 0.5 < audit.epsilon_lower <= 1.5
    entry = kind(1.5, sensitivity=Box(0, 1))
    audit = audit_epsilon(
        entry, x, other, entry.delta, 100_000, CONFIDENCE, unit="record", stacked=True, random_state=0
    )
    assert audit.contradicts(1.5)  # a guarantee for an entry is none for a record
    assert not audit.contradicts(entry.guarantee(5).record[0])


@pytest.mark.parametrize("classes", [2, 5])
def test_randomised_labels_are_accepted_and_half_their_noise_is_contradicted(classes: int) -> None:
    def audit(labels: RandomisedLabels) -> EpsilonAudit:
        return audit_epsilon(labels, [0], [1], 0.0, 100_000, CONFIDENCE, stacked=True, random_state=1)

    assert 0.9 < audit(RandomisedLabels(1.0, classes)).epsilon_lower <= 1.0
    assert audit(RandomisedLabels(1.3, classes)).contradicts(1.0)


# --- further planted mistakes -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [OptimalNoise, Laplace, AnalyticGaussian])
def test_column_without_noise_is_contradicted_alone(kind: type) -> None:
    leak = forgetful(kind, column=2)(1.0, sensitivity=1.0)
    x = np.zeros((4, 5))
    for column in (1, 2, 4):
        other = x.copy()
        other[1, column] = 1.0
        audit = audit_epsilon(leak, x, other, leak.delta, 400, CONFIDENCE, random_state=0)
        assert audit.contradicts(1.0) == (column == 2)


def test_column_without_noise_is_found_in_one_run() -> None:
    leak = forgetful(OptimalNoise, column=7)(1.0, sensitivity=1.0)
    caught = []
    for column in range(20):
        other = LOW.copy()
        other[:, column] = 1.0
        audit = audit_epsilon_one_run(
            leak, LOW, other, leak.delta, CONFIDENCE, n_guesses=60, random_state=column
        )
        if audit.contradicts(1.0):
            caught.append(column)
    assert caught == [7]


def test_mechanism_that_seeds_its_generator_anew_is_contradicted() -> None:
    noise = OptimalNoise(1.0, sensitivity=1.0)
    x, other = np.zeros((3, 2)), np.zeros((3, 2))
    other[2, 1] = 1.0

    def always_the_same(data: Any, rng: Any) -> Any:
        return noise.randomise(data, random_state=7)

    audit = audit_epsilon(always_the_same, x, other, 1e-5, 400, CONFIDENCE, random_state=0)
    assert audit.contradicts(2.0)
    assert audit.epsilon_lower == audit.detectable


def test_seed_used_for_two_releases_is_contradicted() -> None:
    # The seed is secret and new each time, but serves two tables: their difference is that of the data.
    noise = OptimalNoise(1.0, sensitivity=1.0)
    x, other = np.zeros((3, 2)), np.zeros((3, 2))
    other[2, 1] = 1.0
    public = np.full((3, 2), 0.5)

    def two_tables(data: Any, rng: Any, reuse: bool) -> Any:
        first, second = rng.integers(2**31, size=2)
        return np.stack(
            [noise.randomise(data, int(first)), noise.randomise(public, int(first if reuse else second))]
        )

    reused = audit_epsilon(
        lambda d, r: two_tables(d, r, True), x, other, 1e-5, 400, CONFIDENCE, random_state=0
    )
    honest = audit_epsilon(
        lambda d, r: two_tables(d, r, False), x, other, 1e-5, 400, CONFIDENCE, random_state=0
    )
    assert reused.contradicts(2.0)
    assert not honest.contradicts(1.0)
