"""The literal membership-mappings against numbers worked out by hand."""

from math import exp

import numpy as np
import pytest

from reference import membership


def test_kernel_of_two_points_equals_the_value_by_hand() -> None:
    value = membership.kernel(np.array([0.0, 1.0]), np.array([2.0, 1.5]), np.array([0.25, 4.0]), 3.0)
    assert value == pytest.approx(3.0 * exp(-0.5 * (0.25 * 4.0 + 4.0 * 0.25)))


def test_weights_are_inverse_squared_ranges() -> None:
    x = np.array([[0.0, 1.0, 7.0], [4.0, 1.5, 7.0], [2.0, 1.2, 7.0]])
    np.testing.assert_allclose(membership.weights(x), [1 / 16, 4.0, 0.0])


def test_tau_of_one_inducing_point_equals_the_value_by_hand() -> None:
    """K_aa = 1 (and the jitter), so the trace is the sum of the squared kernel values."""
    x, a, w = np.array([[-1.0], [1.0]]), np.array([[0.0]]), np.array([0.25])
    squared = 2 * exp(-0.25) / (1 + membership.JITTER)
    assert membership.tau(x, a, w) == pytest.approx((2 - squared) / 1.1)
    assert membership.tau(x, a, w, 5.0) == pytest.approx(5.0 * (2 - squared) / 1.1)  # (55)


def test_mapping_with_one_inducing_point_is_a_scaled_mean() -> None:
    """Two inputs at +-1 with outputs 3 and 5, M = 1: (48) is g k 8 / (2 k^2 + tau1 + 1 / (s^2 b))."""
    x, y = np.array([[-1.0], [1.0]]), np.array([[3.0], [5.0]])
    mapping = membership.learn(x, y, 1)
    k = exp(-0.125)
    tau1 = (2 - 2 * k * k) / 1.1
    assert mapping.tau == pytest.approx(tau1)
    assert mapping.sigma2 == pytest.approx(1.0 / tau1)  # the variance of 3 and 5 is 1
    ridge = tau1 + 1 / (mapping.sigma2 * mapping.beta)
    expected = 8 * k / (2 * k * k + ridge)
    np.testing.assert_allclose(membership.predict(mapping, np.array([0.0])), [expected], rtol=1e-6)
    outputs = k * expected
    assert 1 / mapping.beta == pytest.approx(((3 - outputs) ** 2 + (5 - outputs) ** 2) / 2, rel=1e-8)  # (58)


def test_centroids_of_two_groups_are_their_means() -> None:
    x = np.array([[0.0], [1.0], [10.0], [12.0]])
    np.testing.assert_allclose(np.sort(membership.cluster_centroid(x, 2)[0][:, 0]), [0.5, 11.0])


def test_centroids_start_from_the_clusters_of_the_layer_before() -> None:
    """The first two clusters have the means 0.5 and 4; the input 10 of the third one goes to the second."""
    x = np.array([[0.0], [1.0], [4.0], [10.0]])
    found, labels = membership.cluster_centroid(x, 2, [0, 0, 1, 2])
    np.testing.assert_allclose(found[:, 0], [0.5, 7.0])
    assert labels == [0, 0, 1, 1]


def test_loop_over_inducing_points_ends_below_ten_points() -> None:
    """One input, hardly any kernel variance left by nine points: 0.9 x 9 rounds up to 9 again."""
    x = np.linspace(0.0, 1.0, 18)[:, None]
    w = membership.weights(x)
    assert membership.tau(x, membership.cluster_centroid(x, 9)[0], w) < membership.KAPPA
    assert len(membership.learn(x, x, 9).a) < 9


def test_deep_autoencoder_takes_the_nearest_layer() -> None:
    Y = np.random.default_rng(3).normal(size=(20, 4))
    deep = membership.fit_deep(Y, 3, 4, 10)
    assert [len(P) for P in deep.encoders] == [3, 2, 1, 1]
    gaps = [np.linalg.norm(Y[0] - image) for image in membership.layers(deep, Y[0])]
    assert np.linalg.norm(Y[0] - membership.deep_image(deep, Y[0])) == pytest.approx(min(gaps))
