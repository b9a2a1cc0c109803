"""Noise, then smoothing: against the literal versions, and honest about what was looked at."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from onefold import AutoencoderClassifier, FoldingClassifier
from onefold.exceptions import PrivacyLeakWarning
from onefold.fabrication import Fabricator, PrivateClassifier, Smoother
from onefold.models.kahm import smooth
from onefold.privacy import AnalyticGaussian, Box, Laplace, OptimalNoise, RandomisedLabels
from reference import smoothing

NOISE = OptimalNoise(4.0, 1e-3)
digits, digit_labels = load_digits(return_X_y=True)
digits = digits / 16.0


@pytest.fixture(params=[(30, 8), (25, 40), (140, 6)], ids=["small", "p > N", "large"])
def raw(request):
    n_samples, n_features = request.param
    rng = np.random.default_rng(1)
    return rng.normal(size=(n_samples, 3)) @ rng.normal(size=(3, n_features)) / 2


@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_smoother_is_the_documents(raw, n_steps):
    expected = raw
    for _ in range(n_steps):
        expected = smoothing.smooth(expected, 5)
    np.testing.assert_allclose(Smoother(5, n_steps).smooth(raw), expected, atol=1e-6)


def test_smoothing_shrinks(raw):
    """004 Prop. 3: the spectral norm falls at every step."""
    norms = [np.linalg.norm(Smoother(5, steps).smooth(raw), 2) for steps in range(4)]
    assert all(np.diff(norms) < 0)


def test_documented_rules_are_the_documents_and_void_the_guarantee(raw):
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


def test_documented_smoothing_is_the_documents(raw):
    noisy = NOISE.randomise(raw, 7)
    expected, steps = smoothing.documented_smoothing(noisy, raw, 5)
    maker = Fabricator(NOISE, 5, "documented", form="smoothed")
    with pytest.warns(PrivacyLeakWarning):
        made = maker.fabricate(raw, random_state=7)
    assert maker.n_steps_ == [steps]
    np.testing.assert_allclose(made, expected, atol=1e-5)


@pytest.mark.parametrize("stopping", ["honest", 0, 2])
def test_honest_and_fixed_stopping_see_noisy_data_only(raw, stopping):
    """The result is a function of the noisy rows: other raw data with the same noisy rows changes nothing."""

    class Replay(Laplace):
        """A mechanism that returns rows made before, whatever it is given."""

        def randomise(self, X, random_state=None):
            return noisy.copy()

    noisy = Laplace(1.0).randomise(raw, 3)
    results = [Fabricator(Replay(1.0), 5, stopping).fabricate(rows) for rows in (raw, raw[::-1] * 5, noisy)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("stopping", ["honest", 1])
def test_the_division_of_large_classes_sees_noisy_data_only(stopping):
    """Clusters that are plain to see, in the noisy rows and elsewhere in other raw rows."""
    rng = np.random.default_rng(0)
    raw = rng.permutation(np.repeat([[0.0], [50.0], [100.0]], 30, axis=0)) + rng.normal(size=(90, 4))

    class Replay(Laplace):
        """A mechanism that returns rows made before, whatever it is given."""

        def randomise(self, X, random_state=None):
            return noisy.copy()

    noisy = Laplace(1.0).randomise(raw, 3)
    maker = Fabricator(Replay(1.0), 3, stopping, branch_size=30)
    expected = maker.fabricate(noisy)
    assert len(maker.n_steps_) == 3
    for other in (raw, raw[::-1].copy(), rng.permutation(raw)):
        np.testing.assert_array_equal(maker.fabricate(other), expected)


@pytest.mark.parametrize("epsilon", [0.7, 4.0])
def test_honest_stopping_is_the_plain_one(raw, epsilon):
    """The same steps and images as with all features kept and every step done by itself."""
    raw = raw[:40]  # entry by entry is slow
    mechanism = OptimalNoise(epsilon, 1e-3)
    noisy = mechanism.randomise(raw, 7)
    signs = np.random.default_rng(20230).integers(0, 2, size=raw.shape) * 2 - 1
    size = 0.01 * np.sqrt(mechanism.variance)
    expected, steps = smoothing.honest_fabrication(noisy, 5, mechanism.variance, signs, size)
    maker = Fabricator(mechanism, 5)
    made = maker.fabricate(raw, random_state=7)
    assert maker.n_steps_ == [steps]
    np.testing.assert_allclose(made, expected, atol=1e-5)


def test_a_search_that_starts_nearby_ends_at_the_same_place(raw):
    alone, disturbed = smooth(raw, 5), smooth(raw * 1.01 + 0.003, 5)
    again = smooth(raw, 5, near=disturbed)
    np.testing.assert_allclose(again.smoothed, alone.smoothed, atol=1e-9)
    np.testing.assert_allclose(again.images, alone.images, atol=1e-9)


def test_rows_may_be_given_in_any_orthonormal_basis(raw):
    n_features = raw.shape[1]
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(n_features + 3, n_features)))[0].T
    apart = smooth(raw @ basis, 5, n_features=n_features)
    np.testing.assert_allclose(apart.smoothed, smooth(raw, 5).smoothed @ basis, atol=1e-9)


def test_honest_stopping_makes_no_warning_and_keeps_the_guarantee(raw):
    maker = Fabricator(NOISE, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        maker.fabricate(raw)
    assert maker.guarantee_.holds
    assert maker.guarantee_.entry == (4.0, 1e-3)
    assert maker.guarantee_.record[0] == pytest.approx(4.0 * raw.shape[1])
    assert maker.guarantee_.labels is None
    json.dumps(maker.guarantee_.to_dict())


def test_honest_stopping_helps_and_stops():
    """Every step removed a fifth of the true error, which the rule cannot see; the next one would not."""
    raw = digits[digit_labels == 3]
    maker = Fabricator(OptimalNoise(2.0), form="smoothed")
    noisy = OptimalNoise(2.0).randomise(raw, 5)
    maker.fabricate(raw, random_state=5)
    errors = [np.square(Smoother(20, steps).smooth(noisy) - raw).sum() for steps in range(8)]
    left = np.divide(errors[1:], errors[:-1])
    (steps,) = maker.n_steps_
    assert 1 <= steps < 7
    assert (left[:steps] < 0.85).all()
    assert left[steps] > 0.75


def test_rows_stay_in_place_and_classes_apart():
    """Row i of the result stands for row i: classes far apart stay apart in any order of rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    X = 50.0 * y[:, None] + rng.normal(size=(200, 4))
    made = Fabricator(Laplace(1.0), 3).fabricate(X, y, random_state=0)
    assert np.array_equal(np.abs(made.mean(axis=1)[:, None] - [0, 50, 100]).argmin(axis=1), y)


def test_large_classes_are_split_after_the_noise():
    maker = Fabricator(OptimalNoise(8.0), 5, branch_size=100)
    made = maker.fabricate(digits[:700], random_state=0)
    assert len(maker.n_steps_) >= 5
    assert made.shape == (700, 64)


def test_no_seed_gives_other_noise_and_a_seed_the_same(raw):
    maker = Fabricator(NOISE, 5)
    assert not np.array_equal(maker.fabricate(raw), maker.fabricate(raw))
    np.testing.assert_array_equal(maker.fabricate(raw, random_state=1), maker.fabricate(raw, random_state=1))


def test_frames_keep_names_types_and_declared_ranges():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(20, 80, size=60), "weight": rng.normal(70, 5, size=60).astype(np.float32)},
        index=[f"p{i}" for i in range(60)],
    )
    box = Box([0, 0], [120, 200])
    made = Fabricator(Laplace(1.0, sensitivity=box), 2, clip=True).fabricate(frame, random_state=0)
    assert list(made.columns) == ["age", "weight"]
    assert list(made.index) == list(frame.index)
    assert list(made.dtypes) == list(frame.dtypes)
    assert made.min().min() >= 0
    assert made["age"].max() <= 120


def test_labels_can_be_randomised():
    y = np.arange(120) % 3
    maker = Fabricator(NOISE, 5, label_mechanism=RandomisedLabels(1.0, [0, 1, 2]))
    maker.fabricate(digits[:120], y, random_state=0)
    assert maker.guarantee_.labels == (1.0, 0.0)
    assert 0.2 < np.mean(maker.labels_ == y) < 0.95


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mechanism": "laplace"}, "mechanism"),
        ({"stopping": "never"}, "stopping"),
        ({"stopping": -1}, "stopping"),
        ({"stopping": 1.5}, "stopping"),
        ({"n_components": 0}, "n_components"),
        ({"form": "raw"}, "form"),
        ({"branch_size": 0}, "branch_size"),
    ],
)
def test_bad_parameters(raw, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        Fabricator(**{"mechanism": NOISE, **settings}).fabricate(raw)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fabricate", [True, False])
@pytest.mark.parametrize("classifier", [None, FoldingClassifier(), KNeighborsClassifier(3)], ids=repr)
def test_private_classifier_with_any_classifier(classifier, fabricate):
    train, test = slice(0, 1200), slice(1200, None)
    model = PrivateClassifier(classifier, OptimalNoise(8.0), fabricate, random_state=0)
    model.fit(digits[train], digit_labels[train])
    assert model.score(digits[test], digit_labels[test]) > 0.8
    assert model.guarantee_.holds
    assert model.guarantee_.entry == (8.0, 1e-5)
    clone(model)


def test_private_classifier_without_smoothing_is_a_fit_to_noisy_rows():
    """000 Def. 12, literally: the classifier on the output of the mechanism."""
    model = PrivateClassifier(AutoencoderClassifier(), AnalyticGaussian(2.0), False, random_state=3)
    model.fit(digits[:500], digit_labels[:500])
    noisy = AnalyticGaussian(2.0).randomise(digits[:500], np.random.default_rng(3))
    expected = AutoencoderClassifier().fit(noisy, digit_labels[:500])
    np.testing.assert_array_equal(model.distances(digits[500:600]), expected.distances(digits[500:600]))


def test_private_classifier_says_when_its_guarantee_is_void():
    model = PrivateClassifier(KNeighborsClassifier(), NOISE, stopping="documented", random_state=0)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(digits[:300], digit_labels[:300])
    assert not model.guarantee_.holds
