"""The kernel smoother, against its literal version."""

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.fabrication import Smoother
from onefold.models.kahm import smooth
from reference import smoothing


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


@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_smoother_matches_the_reference(raw, n_steps):
    expected = raw
    for _ in range(n_steps):
        expected = smoothing.smooth(expected, 5)
    np.testing.assert_allclose(Smoother(5, n_steps).smooth(raw), expected, atol=1e-6)


def test_every_smoothing_step_lowers_the_spectral_norm(raw):
    """004 Prop. 3: the spectral norm falls at every step."""
    norms = [np.linalg.norm(Smoother(5, steps).smooth(raw), 2) for steps in range(4)]
    assert all(np.diff(norms) < 0)


def test_smooth_started_from_a_nearby_result_ends_at_the_same_rows(raw):
    alone, disturbed = smooth(raw, 5), smooth(raw * 1.01 + 0.003, 5)
    again = smooth(raw, 5, near=disturbed)
    np.testing.assert_allclose(again.smoothed, alone.smoothed, atol=1e-9)
    np.testing.assert_allclose(again.images, alone.images, atol=1e-9)


def test_smooth_gives_the_same_rows_in_any_orthonormal_basis(raw):
    n_features = raw.shape[1]
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(n_features + 3, n_features)))[0].T
    apart = smooth(raw @ basis, 5, n_features=n_features)
    np.testing.assert_allclose(apart.smoothed, smooth(raw, 5).smoothed @ basis, atol=1e-9)


@pytest.mark.parametrize(
    "settings", [{"n_components": 0}, {"n_steps": -1}, {"n_steps": True}, {"n_steps": 0.5}]
)
def test_smoother_refuses_bad_parameters(raw, settings):
    with pytest.raises(InvalidInputError, match=f"{next(iter(settings))} must be a whole number"):
        Smoother(**settings).smooth(raw)
