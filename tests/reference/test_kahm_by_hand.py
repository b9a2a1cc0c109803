"""The literal machine against values worked out by hand."""

from math import exp, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq

from reference import kahm

TWO_POINTS = np.array([[-1.0], [1.0]])
OFF_DIAGONAL = exp(-1.0)  # theta = 2, n = 1: exp(-4 / (2 * 2))
ODD, EVEN = 1.0 - OFF_DIAGONAL, 1.0 + OFF_DIAGONAL  # the two eigenvalues of K


def two_point_lambda() -> float:
    # (-1, 1) is the odd eigenvector of K, so R(e, 2) = ((e + 2) / (ODD + e + 2))^2, and mean square is 1.
    return 2.0 + brentq(lambda e: ((e + 2) / (ODD + e + 2)) ** 2 - e, 0.0, 1.0, xtol=1e-15)


def test_kernel_and_lambda_of_two_points_equal_values_by_hand() -> None:
    machine = kahm.fit(TWO_POINTS, 1)
    np.testing.assert_allclose(machine.K, [[1.0, OFF_DIAGONAL], [OFF_DIAGONAL, 1.0]], rtol=1e-14)
    assert machine.lambda_star == pytest.approx(two_point_lambda(), rel=1e-12)


def test_image_of_two_points_equals_the_value_by_hand() -> None:
    machine = kahm.fit(TWO_POINTS, 1)
    lam = two_point_lambda()
    expected = (ODD / (ODD + lam)) / (EVEN / (EVEN + lam))
    np.testing.assert_allclose(kahm.image(machine, np.array([1.0])), [expected], rtol=1e-12)
    np.testing.assert_allclose(kahm.image(machine, np.array([0.0])), [0.0], atol=1e-15)
    assert kahm.distance(machine, np.array([1.0])) == pytest.approx(1.0 - expected, rel=1e-12)
    assert kahm.modelling_error(machine) == pytest.approx(2 * (1.0 - expected), rel=1e-12)


def test_encoder_is_orthonormal_with_falling_variances(rng: np.random.Generator) -> None:
    Y = rng.normal(size=(9, 4)) * [4.0, 3.0, 2.0, 1.0]
    np.testing.assert_allclose(kahm.sample_covariance(Y), np.cov(Y, rowvar=False), rtol=1e-12, atol=1e-13)
    P = kahm.encoding_matrix(Y, 3)
    np.testing.assert_allclose(P @ P.T, np.eye(3), atol=1e-12)
    variances = np.diag(P @ np.cov(Y, rowvar=False) @ P.T)
    assert np.all(np.diff(variances) < 0)


def test_theta_is_the_covariance_of_the_codes(rng: np.random.Generator) -> None:
    machine = kahm.fit(rng.normal(size=(12, 5)), 3)
    theta = np.cov(machine.encoded, rowvar=False)
    np.testing.assert_allclose(np.linalg.inv(theta), machine.theta_inverse, rtol=1e-10, atol=1e-12)


def test_lambda_solves_its_fixed_point_equation(rng: np.random.Generator) -> None:
    Y = rng.normal(size=(15, 6)) + 1.0
    machine = kahm.fit(Y, 4)
    tau = 2 * np.mean(Y**2)
    e = machine.lambda_star - tau
    assert 0 < e < np.mean(Y**2)
    assert kahm.residual(Y, machine.K, e, tau) == pytest.approx(e, rel=1e-12)


def test_memberships_at_the_samples_equal_the_smoother_matrix(rng: np.random.Generator) -> None:
    machine = kahm.fit(rng.normal(size=(8, 3)), 2)
    smoother = np.linalg.solve(machine.K + machine.lambda_star * np.eye(8), machine.K)
    for j, y in enumerate(machine.Y):
        np.testing.assert_allclose(kahm.memberships(machine, y), smoother[:, j], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "n_components", "expected"),
    [
        ((1, 5), 20, 0),
        ((2, 5), 20, 1),
        ((30, 5), 20, 5),
        ((30, 5), 3, 3),
        ((4, 50), 20, 3),
        ((40, 50), 20, 20),
    ],
)
def test_number_of_components_is_limited_by_samples_and_features(
    shape: tuple[int, int], n_components: int, expected: int, rng: np.random.Generator
) -> None:
    assert kahm.subspace_dimension(rng.normal(size=shape), n_components) == expected


def test_components_with_a_small_range_are_dropped() -> None:
    t = np.linspace(-1.0, 1.0, 11)
    Y = np.column_stack([t, 4e-4 * np.cos(7 * t), np.zeros(11)])
    assert kahm.subspace_dimension(Y, 3) == 1
    assert kahm.subspace_dimension(1e3 * Y, 3) == 2
    assert kahm.subspace_dimension(1e-4 * Y, 3) == 0


def test_degenerate_machine_maps_onto_the_mean() -> None:
    query = np.array([5.0, -7.0])
    np.testing.assert_array_equal(kahm.image(kahm.fit_shrunk(np.array([[1.0, 2.0]]), 20), query), [1.0, 2.0])
    constant = np.tile([3.0, 4.0], (6, 1))
    np.testing.assert_allclose(kahm.image(kahm.fit_shrunk(constant, 20), query), [3.0, 4.0], rtol=1e-15)
    assert len(kahm.fit_deep(constant, 20, 5)) == 1


def test_deep_machine_takes_the_nearest_layer(rng: np.random.Generator) -> None:
    machines = kahm.fit_deep(rng.normal(size=(20, 6)), 4, 3)
    assert [machine.n for machine in machines] == [4, 3, 2]
    y = rng.normal(size=6)
    first = kahm.image(machines[0], y)
    second = kahm.image(machines[1], first)
    third = kahm.image(machines[2], second)
    np.testing.assert_array_equal(kahm.layers(machines, y), [first, second, third])
    smallest = min(np.linalg.norm(y - z) for z in (first, second, third))
    assert kahm.deep_distance(machines, y) == pytest.approx(smallest, rel=1e-14)


def test_layers_stop_at_one_component(rng: np.random.Generator) -> None:
    assert [machine.n for machine in kahm.fit_deep(rng.normal(size=(20, 3)), 20, 5)] == [3, 2, 1]


def test_wide_machine_takes_the_nearest_branch(rng: np.random.Generator) -> None:
    Y = np.vstack([rng.normal(size=(10, 3)), rng.normal(size=(10, 3)) + 20.0])
    branches = kahm.fit_wide(Y, [np.arange(10), np.arange(10, 20)], 2, 2)
    y = Y[3]
    np.testing.assert_array_equal(kahm.wide_image(branches, y), kahm.deep_image(branches[0], y))
    assert kahm.wide_distance(branches, y) == kahm.deep_distance(branches[0], y)
    assert kahm.wide_distance(branches, y) < kahm.deep_distance(branches[1], y)


def test_classifier_rule_and_matching_score_by_hand() -> None:
    assert kahm.classify([3.0, 1.0, 2.0]) == 1
    assert kahm.classify([1.0, 1.0]) == 0
    np.testing.assert_allclose(kahm.matching_score([3.0, 4.0]), [exp(-9 / 25), exp(-16 / 25)], rtol=1e-15)


def test_bound_on_images_of_two_points_equals_the_value_by_hand() -> None:
    lam = two_point_lambda()
    assert kahm.image_bound(kahm.fit(TWO_POINTS, 1)) == pytest.approx(
        sqrt(2) * (lam + EVEN) / (lam + ODD), rel=1e-12
    )
