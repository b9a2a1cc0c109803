"""Which encoders are fixed: a class that looks at rows in its own way may carry them into what it makes."""

import numpy as np
import pytest

from onefold.encoders import GradientHistograms, LowFrequencyDCT, RandomFeatures, learns
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.fabrication import MomentClassifier
from onefold.federated import release_moments
from onefold.privacy import Box, Laplace, PrivateMoments
from onefold.transfer import PrivateSource

RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 3)), np.arange(60) % 2


class Centred(RandomFeatures):
    """Fixed features of rows about their own mean."""

    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return super().fit(X)

    def transform(self, X):
        return super().transform(np.asarray(X) - self.mean_)


def test_only_encoders_of_single_records_are_fixed() -> None:
    assert not any(map(learns, (None, GradientHistograms(), LowFrequencyDCT(), RandomFeatures())))
    assert learns(Centred())
    assert learns(object())


@pytest.mark.parametrize(
    "mechanism", [PrivateMoments(1.0, classes=[0, 1]), Laplace(1.0, sensitivity=Box(-1, 1))]
)
def test_a_source_behind_an_encoder_that_looks_at_the_rows_promises_nothing(mechanism) -> None:
    with pytest.warns(PrivacyLeakWarning, match="fitted to the raw data"):
        assert not PrivateSource.fit(X, Y, mechanism, encoder=Centred(4)).guarantee_.holds
    assert PrivateSource.fit(X, Y, mechanism, encoder=RandomFeatures(4)).guarantee_.holds


def test_moments_behind_an_encoder_that_looks_at_the_rows_promise_nothing() -> None:
    encoder, agreed = Centred(4).fit(X), PrivateMoments(1.0, classes=[0, 1], centre=None)
    with pytest.warns(PrivacyLeakWarning, match="fitted to the raw data"):
        assert not MomentClassifier(1.0, encoder=Centred(4), classes=[0, 1]).fit(X, Y).guarantee_.holds
    with pytest.warns(PrivacyLeakWarning, match="fitted to the raw data"):
        assert not PrivateSource.from_moments(agreed.fit(encoder.transform(X), Y), encoder).guarantee_.holds
    with pytest.raises(InvalidInputError, match="the same public encoder"):
        release_moments(X, Y, agreed, Centred(4))
