"""The literal fuzzy models against numbers worked out by hand."""

from math import exp

import numpy as np
import pytest

from reference import fuzzy


def test_fulfilment_of_two_inputs_is_the_product_of_memberships() -> None:
    value = fuzzy.fulfilment(np.array([0.0, 1.0]), np.array([2.0, 1.5]), np.array([0.25, 4.0]))
    assert value == pytest.approx(exp(-0.5 * (0.25 * 4.0 + 4.0 * 0.25)))


def test_shares_of_two_fuzzy_sets_add_up_to_one() -> None:
    """At one centre of two sets one width apart: 1 and exp(-1/2), divided by their sum."""
    K = fuzzy.shares(np.array([[0.0], [0.5]]), np.array([[0.0], [1.0]]), np.array([1.0]))
    other = exp(-0.5)
    np.testing.assert_allclose(K, [[1 / (1 + other), other / (1 + other)], [0.5, 0.5]])


def test_weights_are_inverse_squared_ranges() -> None:
    x = np.array([[0.0, 1.0, 7.0], [4.0, 1.5, 7.0], [2.0, 1.2, 7.0]])
    np.testing.assert_allclose(fuzzy.weights(x), [1 / 16, 4.0, 0.0])
    np.testing.assert_allclose(fuzzy.weights(x, 0.5), [1 / 4, 16.0, 0.0])


def test_encoder_uses_the_second_moment_without_centring() -> None:
    """Samples (5, 1) and (5, -1): the second moment is diag(25, 1), the covariance diag(0, 1)."""
    V = fuzzy.directions(np.array([[5.0, 1.0], [5.0, -1.0]]), 1)
    np.testing.assert_allclose(np.abs(V[:, 0]), [1.0, 0.0])


def test_single_rule_concludes_the_mean() -> None:
    """K is a column of ones. With y = 3, 5 and a prior at 4: m = 4, and (2.154) says

    beta = (1e-6 + 1) / (1e-6 + (2 + 2 / (1e-6 + 2 beta)) / 2), so beta is close to 1/2.
    """
    Y = np.array([[3.0], [5.0]])
    m, beta = fuzzy.consequents(np.ones((2, 1)), Y, np.array([4.0]))
    assert m[0, 0] == pytest.approx(4.0)
    assert beta == pytest.approx(1.000001 / (1e-6 + 1 + 1 / (1e-6 + 2 * beta)), rel=1e-8)
    assert beta == pytest.approx(0.5, rel=1e-5)


def test_prior_at_zero_shrinks_the_consequent() -> None:
    Y = np.array([[3.0], [5.0]])
    m, beta = fuzzy.consequents(np.ones((2, 1)), Y, np.zeros(1))
    assert m[0, 0] == pytest.approx(8 * beta / (1e-6 + 2 * beta), rel=1e-9)
    assert m[0, 0] < 4.0


def test_two_rules_far_apart_conclude_their_own_means() -> None:
    """K is the identity, twice: consequents are the means of the two groups."""
    K = np.repeat(np.eye(2), 2, axis=0)
    Y = np.array([[0.0], [2.0], [10.0], [14.0]])
    m, beta = fuzzy.consequents(K, Y, Y.mean(axis=0))
    np.testing.assert_allclose(m[:, 0], [1.0, 12.0], rtol=1e-4)
    # (2.153): 1 + 1 + 4 + 4 = 10, and the trace is 2 * 2 / (2 beta): 4 / beta = 10 + 2 / beta.
    assert beta == pytest.approx(0.2, rel=1e-4)


def test_membership_of_a_known_distance_is_gaussian() -> None:
    """One rule: every image is the mean, (0, 1)."""
    model = fuzzy.fit_autoencoder(np.array([[0.0, 0.0], [0.0, 2.0]]), 2, 1)
    np.testing.assert_allclose(fuzzy.image(model, np.array([7.0, 7.0])), [0.0, 1.0], atol=1e-12)
    assert fuzzy.membership(model, np.array([1.0, 3.0])) == pytest.approx(exp(-5 / 4))


def test_nearest_fuzzy_set_of_all_sites_decides() -> None:
    def around(*centre: float) -> fuzzy.Model:
        steps = np.array([[0.5, 0.0], [-0.5, 0.0]])
        return fuzzy.fit_autoencoder(np.array(centre) + steps, 2, 1)

    owners = [[around(0.0, 0.0), around(4.0, 0.0)], [around(8.0, 0.0), around(12.0, 0.0)]]
    assert [fuzzy.decide(owners, np.array([x, 0.0])) for x in (0.5, 3.5, 7.5, 11.0)] == [0, 1, 0, 1]


def test_layers_stop_when_the_precision_falls() -> None:
    Y = np.random.default_rng(5).normal(size=(20, 4))
    deep = fuzzy.fit_autoencoder(Y, 3, 10, n_layers=4)
    betas = [layer.beta for layer in deep.layers]
    assert betas == sorted(betas)
    assert len(fuzzy.outputs(deep, deep.V.T @ Y[0])) == len(betas)
