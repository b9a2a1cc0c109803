"""Cases that were wrong once: each pins one of them down."""

import numpy as np
import pytest

from onefold import KAHM, AutoencoderClassifier


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_samples", [128, 129, 200])
@pytest.mark.parametrize("value", [0.0, 3.7])
def test_equal_samples_in_many_dimensions_map_to_one_point(n_samples, dtype, value):
    X = np.full((n_samples, n_samples + 100), value, dtype=dtype)
    machine = KAHM(scale=1.0).fit(X)
    np.testing.assert_allclose(machine.transform(X[:2] + 1), X[:2], atol=1e-5)
    np.testing.assert_allclose(machine.distance(X[:1]), 0.0, atol=1e-4)


@pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")
@pytest.mark.parametrize("size", [1e140, 1e200, 1e300])
@pytest.mark.parametrize("n_features", [5, 300])
def test_huge_data_in_large_machines_gives_finite_images(size, n_features):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, n_features)) / 10
    X[200:] += 3.0
    y = np.repeat([0, 1], 200)
    model = AutoencoderClassifier().fit(X * size, y)
    assert np.isfinite(model.distances(X * size)).all()
    assert model.score(X * size, y) == 1.0


def test_memberships_of_extreme_queries_are_finite():
    machine = KAHM().fit(np.random.default_rng(0).normal(size=(200, 500)))
    assert np.isfinite(machine.membership(np.full((1, 500), 8e307))).all()
