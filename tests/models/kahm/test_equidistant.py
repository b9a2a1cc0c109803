"""Batches with no more samples than components: their kernel matrix is known without looking at them."""

import numpy as np
import pytest

from onefold.models.hull import build_hull, centre
from onefold.models.kahm.core import regression_target, sample_kernel, solve_equidistant, solve_spectral


@pytest.mark.parametrize(("n_samples", "n_features"), [(2, 1), (2, 7), (5, 4), (5, 5), (20, 64), (64, 80)])
@pytest.mark.parametrize("factor", [1e-3, 1.0, 30.0])
def test_equidistant_samples_give_the_same_as_the_kernel_matrix(
    n_samples: int, n_features: int, factor: float
) -> None:
    rng = np.random.default_rng(n_samples)
    samples = rng.normal(size=(3, n_samples, n_features)) * [[[1.0]], [[10.0]], [[0.1]]] + rng.normal()
    hull = build_hull(*centre(samples), n_samples, 1e6)  # ranges judged so large that no component is dropped
    assert (hull.n_encoded == n_samples - 1).all()
    target = regression_target(hull, factor)
    kernel = sample_kernel(hull.points @ hull.encoder, hull.n_encoded)
    expected, found = solve_spectral(kernel, target), solve_equidistant(target)
    np.testing.assert_allclose(found.regularisation, expected.regularisation, rtol=1e-10)
    np.testing.assert_allclose(found.effective, expected.effective, rtol=1e-10)
    largest = np.abs(expected.solution).max()
    np.testing.assert_allclose(found.solution, expected.solution, rtol=1e-8, atol=1e-10 * largest)


def test_known_regularisation_is_used_as_it_is() -> None:
    samples = np.random.default_rng(0).normal(size=(2, 6, 9))
    target = regression_target(build_hull(*centre(samples), 5, 1.0), 1.0)
    known = np.array([[0.5, 0.25], [2.0, 1.0]])
    found = solve_equidistant(target, known)
    np.testing.assert_array_equal(found.regularisation, known[:, 0])
    np.testing.assert_array_equal(found.solved, known[:, 1])
    ones = 1.0 / (1.0 + 5.0 / np.e + known[:, 1])  # A 1 = (1 + 5/e + lambda) 1
    np.testing.assert_allclose(found.solution[:, :, -1], np.repeat(ones[:, None], 6, axis=1))
