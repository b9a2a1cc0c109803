"""The triangular factor, also where forming the matrix would lose it."""

import numpy as np
import pytest

from onefold.release._factor import upper_factor


def test_it_is_the_root_of_the_matrix() -> None:
    rng = np.random.default_rng(0)
    G, weights, ridge = rng.normal(size=(9, 4)), rng.uniform(size=9), rng.uniform(0.1, 1.0, 4)
    R = upper_factor(G, weights, ridge)
    assert np.array_equal(R, np.triu(R))
    np.testing.assert_allclose(R.T @ R, G.T @ (weights[:, np.newaxis] * G) + np.diag(ridge), atol=1e-12)


def test_a_ridge_too_small_to_be_added_still_counts() -> None:
    """1e20 + 4 is 1e20 in floating point, and the matrix singular; its root is not."""
    R = upper_factor(np.array([[1.0, 1.0]]), np.array([1e20]), np.array([1.0, 4.0]))
    assert np.prod(np.diag(R)) ** 2 == pytest.approx(5e20, rel=1e-9)  # (1e20 + 1) (1e20 + 4) - 1e40


def test_a_singular_matrix_gets_a_factor_that_can_be_solved_with() -> None:
    R = upper_factor(np.array([[1.0, 1.0]]), np.array([1.0]), np.array([0.0, 0.0]))
    assert np.all(np.diag(R) != 0.0)
