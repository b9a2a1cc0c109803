"""What the tests of transfer share: a generator, and a source of each kind, fitted once."""

from functools import cache

import numpy as np
import pytest

from onefold.privacy import OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource
from reference.domains import blobs


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@cache
def source_of(kind: str) -> PrivateSource:
    X, y = blobs(np.random.default_rng(20), 600)
    moments = PrivateMoments(8.0, classes=[0, 1, 2], radius=3)
    mechanism = OptimalNoise(8.0, sensitivity=1.0) if kind == "noise" else moments
    return PrivateSource.fit(X, y, mechanism, random_state=1)


@pytest.fixture(params=["noise", "moments"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(kind: str, rng: np.random.Generator) -> PrivateSource:
    blobs(rng, 600)  # the rows of the target are others than those of the source
    return source_of(kind)
