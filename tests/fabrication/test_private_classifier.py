"""Classifiers fitted to private rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from onefold import AutoencoderClassifier, FoldingClassifier
from onefold.exceptions import PrivacyLeakWarning
from onefold.fabrication import PrivateClassifier
from onefold.privacy import AnalyticGaussian, OptimalNoise

digits, digit_labels = load_digits(return_X_y=True)
digits = digits / 16.0


@pytest.mark.parametrize("fabricate", [True, False])
@pytest.mark.parametrize("classifier", [None, FoldingClassifier(), KNeighborsClassifier(3)], ids=repr)
def test_private_classifier_works_with_any_classifier(classifier, fabricate):
    train, test = slice(0, 1200), slice(1200, None)
    model = PrivateClassifier(classifier, OptimalNoise(8.0), fabricate, random_state=0)
    model.fit(digits[train], digit_labels[train])
    assert model.score(digits[test], digit_labels[test]) > 0.8
    assert model.guarantee_.holds
    assert model.guarantee_.entry == (8.0, 1e-5)
    clone(model)


def test_private_classifier_without_smoothing_is_fitted_to_the_noisy_rows():
    """000 Def. 12, literally: the classifier on the output of the mechanism."""
    model = PrivateClassifier(AutoencoderClassifier(), AnalyticGaussian(2.0), False, random_state=3)
    model.fit(digits[:500], digit_labels[:500])
    noisy = AnalyticGaussian(2.0).randomise(digits[:500], np.random.default_rng(3))
    expected = AutoencoderClassifier().fit(noisy, digit_labels[:500])
    np.testing.assert_array_equal(model.distances(digits[500:600]), expected.distances(digits[500:600]))


def test_private_classifier_with_documented_stopping_has_a_void_guarantee():
    model = PrivateClassifier(
        KNeighborsClassifier(), OptimalNoise(4.0, 1e-3), stopping="documented", random_state=0
    )
    with pytest.warns(PrivacyLeakWarning):
        model.fit(digits[:300], digit_labels[:300])
    assert not model.guarantee_.holds
