"""Classifiers fitted to private rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from onefold import AutoencoderClassifier, FoldingClassifier
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.fabrication import PrivateClassifier
from onefold.privacy import AnalyticGaussian, Box, Laplace, OptimalNoise
from onefold.privacy.guarantee import SEEDED

digits, digit_labels = load_digits(return_X_y=True)
digits = digits / 16.0
PIXELS = Box(0, 1)


@pytest.mark.parametrize("fabricate", [True, False])
@pytest.mark.parametrize("classifier", [None, FoldingClassifier(), KNeighborsClassifier(3)], ids=repr)
def test_private_classifier_works_with_any_classifier(classifier, fabricate):
    train, test = slice(0, 1200), slice(1200, None)
    model = PrivateClassifier(classifier, OptimalNoise(8.0, sensitivity=PIXELS), fabricate)
    model.fit(digits[train], digit_labels[train])
    assert model.score(digits[test], digit_labels[test]) > 0.8
    assert model.guarantee_.holds
    assert model.guarantee_.entry == (8.0, 1e-5)
    clone(model)


def test_private_classifier_without_smoothing_is_fitted_to_the_noisy_rows():
    """000 Def. 12, literally: the classifier on the output of the mechanism."""
    model = PrivateClassifier(
        AutoencoderClassifier(), AnalyticGaussian(2.0, sensitivity=PIXELS), False, random_state=3
    )
    model.fit(digits[:500], digit_labels[:500])
    noisy = AnalyticGaussian(2.0, sensitivity=PIXELS).randomise(digits[:500], np.random.default_rng(3))
    expected = AutoencoderClassifier().fit(noisy, digit_labels[:500])
    np.testing.assert_array_equal(model.distances(digits[500:600]), expected.distances(digits[500:600]))


def test_private_classifier_with_documented_stopping_has_a_void_guarantee():
    model = PrivateClassifier(
        KNeighborsClassifier(), OptimalNoise(4.0, 1e-3, PIXELS), stopping="documented", random_state=0
    )
    with pytest.warns(PrivacyLeakWarning):
        model.fit(digits[:100], digit_labels[:100])
    assert not model.guarantee_.holds


def test_private_classifier_without_a_mechanism_is_refused_in_one_line():
    """There was an OptimalNoise(1.0) for entries that change by 1, which nobody had said."""
    with pytest.raises(
        InvalidInputError, match=r"mechanism must be a noise .* with a declared domain"
    ) as told:
        PrivateClassifier().fit(digits[:20], digit_labels[:20])
    assert "\n" not in str(told.value)


def test_seed_of_a_private_classifier_voids_its_guarantee():
    model = PrivateClassifier(KNeighborsClassifier(), OptimalNoise(4.0, sensitivity=PIXELS), random_state=0)
    assert model.fit(digits[:100], digit_labels[:100]).guarantee_.voided_by == (SEEDED,)


def test_private_classifier_promises_persons_something():
    people = np.arange(100) // 5
    noise = AnalyticGaussian(8.0, sensitivity=PIXELS, unit="person", rows_per_person=3)
    model = PrivateClassifier(KNeighborsClassifier(3), noise).fit(digits[:100], digit_labels[:100], people)
    assert model.guarantee_.person == (8.0, 1e-5)
    assert model.classifier_.n_samples_fit_ == 60
    with pytest.raises(InvalidInputError, match="go together"):
        model.fit(digits[:300], digit_labels[:300])


def test_a_fit_that_fails_leaves_the_promise_of_the_classifier_that_is_there():
    model = PrivateClassifier(KNeighborsClassifier(3), OptimalNoise(8.0, sensitivity=PIXELS), False)
    model.fit(digits[:50], digit_labels[:50])
    model.set_params(mechanism=OptimalNoise(0.1, sensitivity=PIXELS), classifier=KNeighborsClassifier(-1))
    with pytest.raises(ValueError, match="n_neighbors"):
        model.fit(digits[:50], digit_labels[:50])
    assert model.guarantee_.entry == (8.0, 1e-5)


def test_probabilities_are_those_of_the_classifier_if_it_has_any() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = np.clip(0.25 * rng.standard_normal((120, 3)) + 0.5 * y[:, None] + 0.25, 0, 1)
    noise = Laplace(20.0, sensitivity=Box(0, 1))
    model = PrivateClassifier(FoldingClassifier(3, 20, scale="auto"), noise, random_state=0).fit(X, y)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))
    assert not hasattr(PrivateClassifier(LinearSVC(), noise), "predict_proba")
