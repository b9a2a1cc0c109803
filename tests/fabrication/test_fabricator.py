"""Noise, then smoothing: against the literal versions, and honest about what was looked at."""

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.fabrication import Fabricator, Smoother
from onefold.privacy import AnalyticGaussian, Box, Laplace, OptimalNoise, RandomisedLabels
from onefold.privacy.guarantee import FLOAT_SAMPLER, SEEDED
from reference import smoothing

NOISE = OptimalNoise(4.0, 1e-3, 1.0)
digits, digit_labels = load_digits(return_X_y=True)
digits = digits / 16.0


@pytest.fixture(
    params=[
        pytest.param((30, 8), id="small"),
        pytest.param((25, 40), id="p > N"),
        pytest.param((140, 6), id="large", marks=pytest.mark.merge),
    ]
)
def raw(request):
    n_samples, n_features = request.param
    rng = np.random.default_rng(1)
    return rng.normal(size=(n_samples, 3)) @ rng.normal(size=(3, n_features)) / 2


def test_documented_stopping_of_images_matches_the_reference_and_voids_the_guarantee(raw):
    noisy = NOISE.randomise(raw, 7)
    expected, steps = smoothing.documented_fabrication(noisy, raw, 5)
    maker = Fabricator(NOISE, 5, "documented")
    with pytest.warns(PrivacyLeakWarning, match="honest"):
        made = maker.fabricate(raw, random_state=7)
    assert maker.n_steps_ == [steps]
    np.testing.assert_allclose(made, expected, atol=1e-5)
    assert not maker.guarantee_.holds
    assert "raw data" in maker.guarantee_.voided_by[0]
    assert str(maker.guarantee_).startswith("VOID")


def test_documented_stopping_of_smoothed_rows_matches_the_reference(raw):
    noisy = NOISE.randomise(raw, 7)
    expected, steps = smoothing.documented_smoothing(noisy, raw, 5)
    maker = Fabricator(NOISE, 5, "documented", form="smoothed")
    with pytest.warns(PrivacyLeakWarning):
        made = maker.fabricate(raw, random_state=7)
    assert maker.n_steps_ == [steps]
    np.testing.assert_allclose(made, expected, atol=1e-5)


@pytest.mark.parametrize("stopping", ["honest", 0, 2])
def test_honest_and_fixed_stopping_depend_on_noisy_rows_only(raw, stopping):
    """The result is a function of the noisy rows: other raw data with the same noisy rows changes nothing."""

    class Replay(Laplace):
        """A mechanism that returns rows made before, whatever it is given."""

        def randomise(self, X, random_state=None):
            return noisy.copy()

    noisy = Laplace(1.0, sensitivity=1.0).randomise(raw, 3)
    results = [
        Fabricator(Replay(1.0, sensitivity=1.0), 5, stopping).fabricate(rows)
        for rows in (raw, raw[::-1] * 5, noisy)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("stopping", ["honest", 1])
def test_division_of_large_classes_depends_on_noisy_rows_only(stopping):
    """Clusters that are plain to see, in the noisy rows and elsewhere in other raw rows."""
    rng = np.random.default_rng(0)
    raw = rng.permutation(np.repeat([[0.0], [50.0], [100.0]], 30, axis=0)) + rng.normal(size=(90, 4))

    class Replay(Laplace):
        """A mechanism that returns rows made before, whatever it is given."""

        def randomise(self, X, random_state=None):
            return noisy.copy()

    noisy = Laplace(1.0, sensitivity=1.0).randomise(raw, 3)
    maker = Fabricator(Replay(1.0, sensitivity=1.0), 3, stopping, branch_size=30)
    expected = maker.fabricate(noisy)
    assert len(maker.n_steps_) == 3
    for other in (raw, raw[::-1].copy(), rng.permutation(raw)):
        np.testing.assert_array_equal(maker.fabricate(other), expected)


@pytest.mark.parametrize("epsilon", [0.7, 4.0])
def test_honest_stopping_matches_the_entry_by_entry_reference(raw, epsilon):
    """The same steps and images as with all features kept and every step done by itself."""
    raw = raw[:40]  # entry by entry is slow
    mechanism = OptimalNoise(epsilon, 1e-3, 1.0)
    noisy = mechanism.randomise(raw, 7)
    signs = np.random.default_rng(20230).integers(0, 2, size=raw.shape) * 2 - 1
    size = 0.01 * np.sqrt(mechanism.variance)
    expected, steps = smoothing.honest_fabrication(noisy, 5, mechanism.variance, signs, size)
    maker = Fabricator(mechanism, 5)
    made = maker.fabricate(raw, random_state=7)
    assert maker.n_steps_ == [steps]
    np.testing.assert_allclose(made, expected, atol=1e-5)


def test_honest_stopping_keeps_the_guarantee_without_a_warning(raw):
    maker = Fabricator(NOISE, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        maker.fabricate(raw)
    assert maker.guarantee_.holds
    assert maker.guarantee_.entry == (4.0, 1e-3)
    assert maker.guarantee_.record[0] == pytest.approx(4.0 * raw.shape[1])
    assert maker.guarantee_.labels is None
    json.dumps(maker.guarantee_.to_dict())


def test_honest_stopping_stops_when_a_step_removes_less_than_a_fifth_of_the_error():
    """Every step removed a fifth of the true error, which the rule cannot see; the next one would not."""
    raw = digits[digit_labels == 3]
    maker = Fabricator(OptimalNoise(2.0, sensitivity=1.0), form="smoothed")
    noisy = OptimalNoise(2.0, sensitivity=1.0).randomise(raw, 5)
    maker.fabricate(raw, random_state=5)
    errors = [np.square(Smoother(20, steps).smooth(noisy) - raw).sum() for steps in range(8)]
    left = np.divide(errors[1:], errors[:-1])
    (steps,) = maker.n_steps_
    assert 1 <= steps < 7
    assert (left[:steps] < 0.85).all()
    assert left[steps] > 0.75


def test_fabricated_rows_keep_their_place_and_their_class():
    """Row i of the result stands for row i: classes far apart stay apart in any order of rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    X = 50.0 * y[:, None] + rng.normal(size=(200, 4))
    made = Fabricator(Laplace(1.0, sensitivity=1.0), 3).fabricate(X, y, random_state=0)
    assert np.array_equal(np.abs(made.mean(axis=1)[:, None] - [0, 50, 100]).argmin(axis=1), y)


def test_large_classes_are_fabricated_in_branches():
    maker = Fabricator(OptimalNoise(8.0, sensitivity=1.0), 5, branch_size=100)
    made = maker.fabricate(digits[:700], random_state=0)
    assert len(maker.n_steps_) >= 5
    assert made.shape == (700, 64)


def test_fabricate_repeats_with_a_seed_and_differs_without(raw):
    maker = Fabricator(NOISE, 5)
    assert not np.array_equal(maker.fabricate(raw), maker.fabricate(raw))
    np.testing.assert_array_equal(maker.fabricate(raw, random_state=1), maker.fabricate(raw, random_state=1))


def test_data_frames_keep_names_and_declared_ranges():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 80, size=60), "weight": rng.normal(70, 5, size=60)})
    box = Box([0, 0], [120, 200])
    made = Fabricator(Laplace(1.0, sensitivity=box), 2, clip=True).fabricate(frame)
    assert list(made.columns) == ["age", "weight"]
    assert made.min().min() >= 0
    assert made["age"].max() <= 120


def test_values_outside_the_declared_range_are_clipped_before_the_noise():
    """Without clipping a value far outside would be released nearly as it is, whatever epsilon says."""
    rows = np.full((200, 3), 0.5)
    rows[7] = 1e6
    noise = Laplace(1.0, sensitivity=Box(0, 1))
    maker = Fabricator(noise, 2, stopping=0, form="smoothed")
    assert np.abs(maker.fabricate(rows)).max() < 100
    assert maker.guarantee_.clipped
    assert "clipped to the declared domain" in str(maker.guarantee_)


def test_number_as_sensitivity_is_the_callers_word_on_the_entry_and_the_record_line():
    maker = Fabricator(Laplace(1.0, sensitivity=2.0), 2)
    maker.fabricate(np.ones((20, 3)))
    lines = [line for line in str(maker.guarantee_).splitlines() if line.startswith(("One entry", "A whole"))]
    assert len(lines) == 2
    assert all("no entry changes by more than 2 (not checked)" in line for line in lines)
    assert not maker.guarantee_.clipped


@pytest.mark.parametrize("seed", [0, np.random.default_rng(0)], ids=["number", "generator"])
def test_seed_voids_the_guarantee_of_noisy_and_fabricated_rows(raw, seed):
    maker = Fabricator(NOISE, 5)
    for make in (maker.fabricate, maker.randomise):
        make(raw, random_state=seed)
        assert maker.guarantee_.voided_by == (SEEDED,)
        make(raw)
        assert maker.guarantee_.holds


def test_float_sampler_voids_the_guarantee(raw):
    maker = Fabricator(OptimalNoise(4.0, 1e-3, 1.0, sampler="float"), 5)
    maker.fabricate(raw)
    assert maker.guarantee_.voided_by == (FLOAT_SAMPLER,)


def test_documented_stopping_leaves_the_guarantee_of_rows_that_are_only_noisy(raw):
    maker = Fabricator(NOISE, 5, "documented")
    assert not maker.promise(raw.shape[1]).holds
    maker.randomise(raw)
    assert maker.guarantee_.holds


@pytest.mark.parametrize("unit", ["record", "person"])
def test_noise_for_records_or_persons_takes_the_number_of_features_from_the_data(unit):
    """Honest stopping needs the variance, which is not known before the data come."""
    rows, people = digits[:120], np.arange(120) // 3
    most = 3 if unit == "person" else None
    noise = AnalyticGaussian(4.0, sensitivity=Box(0, 1), unit=unit, rows_per_person=most)
    maker = Fabricator(noise, 5)
    assert maker.fabricate(rows, person=people if most else None).shape == rows.shape
    assert getattr(maker.guarantee_, unit) == (4.0, 1e-5)
    known = AnalyticGaussian(4.0, sensitivity=Box(0, 1, 64), unit=unit, rows_per_person=most)
    expected = Fabricator(known, 5).fabricate(rows, None, 3, people if most else None)
    np.testing.assert_array_equal(maker.fabricate(rows, None, 3, people if most else None), expected)


# --- persons ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit, expected", [("entry", 24.0), ("record", 6.0), ("person", 1.0)])
def test_person_is_promised_something_and_rows_above_the_limit_are_dropped(unit, expected):
    people = np.repeat(["a", "b", "c"], [40, 5, 15])
    rows, labels = np.random.default_rng(0).random((60, 4)), np.arange(60)
    noise = Laplace(1.0, sensitivity=Box(0, 1), unit=unit, rows_per_person=6)
    maker = Fabricator(noise, 2, stopping=0)
    assert maker.randomise(rows, labels, person=people).shape == (17, 4)
    kept = people[maker.labels_]
    assert [int(np.sum(kept == name)) for name in "abc"] == [6, 5, 6]
    assert maker.guarantee_.person[0] == pytest.approx(expected, rel=1e-4)
    assert maker.guarantee_.rows_per_person == 6
    assert "whom each row is about is taken as known" in str(maker.guarantee_)
    first = maker.labels_
    maker.fabricate(rows, labels, person=people)
    assert not np.array_equal(maker.labels_, first)  # dropped at random


def test_dropped_rows_leave_no_trace_in_what_is_kept():
    """The rows of a person that are dropped are dropped before clipping, noise and smoothing see them."""
    rows = np.vstack([np.zeros((50, 2)), np.full((1, 2), 1e5)])
    noise = Laplace(50.0, sensitivity=1.0, rows_per_person=25)
    maker = Fabricator(noise, 2, stopping=0, form="smoothed")
    largest = [np.abs(maker.fabricate(rows, None, seed, np.zeros(51))).max() for seed in range(40)]
    assert 8 < sum(value > 9e4 for value in largest) < 32  # kept with probability 25 / 51
    assert all(value > 9e4 or value < 2 for value in largest)


def test_persons_and_a_limit_on_their_rows_go_together(raw):
    with pytest.raises(InvalidInputError, match="go together"):
        Fabricator(NOISE).fabricate(raw, person=np.zeros(len(raw)))
    limited = Fabricator(Laplace(1.0, sensitivity=1.0, rows_per_person=2))
    for make in (limited.fabricate, limited.randomise):
        with pytest.raises(InvalidInputError, match="go together"):
            make(raw)
    with pytest.raises(InvalidInputError, match="one for each row"):
        limited.fabricate(raw, person=[1, 2])


def test_label_mechanism_randomises_labels_and_is_in_the_guarantee():
    y = np.arange(120) % 3
    maker = Fabricator(NOISE, 5, label_mechanism=RandomisedLabels(1.0, [0, 1, 2]))
    maker.fabricate(digits[:120], y, random_state=0)
    assert maker.guarantee_.labels == (1.0, 0.0)
    assert 0.2 < np.mean(maker.labels_ == y) < 0.95


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mechanism": "laplace"}, "mechanism must be a noise .* with a declared domain"),
        ({"mechanism": None}, "mechanism must be a noise .* with a declared domain"),
        ({"stopping": "never"}, "stopping"),
        ({"stopping": -1}, "stopping"),
        ({"stopping": 1.5}, "stopping"),
        ({"n_components": 0}, "n_components"),
        ({"form": "raw"}, "form"),
        ({"branch_size": 0}, "branch_size"),
    ],
)
def test_fabricator_refuses_bad_parameters_in_one_line(raw, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        Fabricator(**{"mechanism": NOISE, **settings}).fabricate(raw)
    assert "\n" not in str(caught.value)
