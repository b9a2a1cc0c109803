"""What the tests of transfer share: a generator, and a source of each kind."""

import numpy as np
import pytest

from onefold.privacy import OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource
from reference.domains import blobs


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture(params=["noise", "moments"])
def source(request: pytest.FixtureRequest, rng: np.random.Generator) -> PrivateSource:
    X, y = blobs(rng, 600)
    moments = PrivateMoments(8.0, classes=[0, 1, 2], radius=3)
    mechanism = OptimalNoise(8.0, sensitivity=1.0) if request.param == "noise" else moments
    return PrivateSource.fit(X, y, mechanism, random_state=1)
