"""Gaussian calibration against the printed formula, published values, and itself."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError
from onefold.privacy import calibration
from onefold.privacy.samplers import _pi
from reference import mechanisms as literal

CASES = [(0.1, 1e-3), (1.0, 1e-5), (1.0, 0.2), (4.0, 1e-6), (10.0, 1e-5)]


@pytest.mark.parametrize("epsilon, delta", CASES)
def test_sigma_is_the_smallest_sufficient_one(epsilon: float, delta: float) -> None:
    sigma = calibration.gaussian_sigma(epsilon, delta, 2.0)
    assert literal.gaussian_delta(epsilon, sigma, 2.0) == pytest.approx(delta, rel=1e-6)
    assert calibration.gaussian_delta(epsilon, sigma, 2.0) <= delta
    assert calibration.gaussian_delta(epsilon, sigma * (1 - 1e-9), 2.0) > delta


@pytest.mark.parametrize("epsilon, delta", CASES)
def test_delta_by_quadrature(epsilon: float, delta: float) -> None:
    sigma = calibration.gaussian_sigma(epsilon, delta, 1.0)
    excess = literal.excess_by_quadrature(
        lambda v: np.exp(-(v**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi)),
        epsilon,
        1.0,
        reach=40 * sigma,
    )
    assert excess == pytest.approx(delta, rel=1e-4)


def test_published_values() -> None:
    assert calibration.mu_of(1.0, 1e-5) == pytest.approx(0.26805, abs=1e-5)
    assert calibration.gaussian_sigma(1.0, 1e-5, 1.0) == pytest.approx(3.7306, abs=1e-4)
    # At epsilon 0 the formula is the total variation: 2 Phi(mu / 2) - 1.
    assert calibration.gaussian_delta(0, 1.0, 1.0) == pytest.approx(math.erf(0.5 / math.sqrt(2)))
    assert calibration.epsilon_of(0.1, 0.5) == 0.0


@settings(max_examples=150, deadline=None)
@given(st.floats(1e-3, 200), st.floats(1e-12, 0.9))
def test_epsilon_of_inverts_mu_of(epsilon: float, delta: float) -> None:
    mu = calibration.mu_of(epsilon, delta)
    assert calibration.gaussian_delta(epsilon, 1.0, mu) <= delta
    back = calibration.epsilon_of(mu, delta)
    assert back == pytest.approx(epsilon, rel=1e-4, abs=1e-6)
    assert calibration.gaussian_epsilon(delta, 3.0, 3.0 * mu) == pytest.approx(back, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 50), st.floats(1e-9, 0.4), st.floats(1.01, 3))
def test_more_noise_is_more_private(mu: float, delta: float, factor: float) -> None:
    assert calibration.epsilon_of(mu * factor, delta) >= calibration.epsilon_of(mu, delta)
    assert calibration.gaussian_delta(1.0, 1.0, mu * factor) >= calibration.gaussian_delta(1.0, 1.0, mu)


def test_what_is_returned_is_on_the_safe_side() -> None:
    for mu, delta in zip(np.geomspace(1e-3, 50.0, 9), np.geomspace(1e-12, 0.5, 9)[::-1], strict=True):
        epsilon = calibration.epsilon_of(mu, delta)
        assert calibration._delta_of(epsilon, mu) <= delta
        if epsilon > 0:
            largest = calibration.mu_of(epsilon, delta)
            for l2 in np.linspace(0.1, 7.0, 12):  # whichever way the quotients are rounded
                assert l2 / calibration.gaussian_sigma(epsilon, delta, l2) <= largest


def test_large_losses_do_not_overflow() -> None:
    assert calibration.gaussian_epsilon(1e-5, 1.0, 1000.0) == pytest.approx(
        1000**2 / 2 + 4.265 * 1000, rel=1e-3
    )
    assert 0 <= calibration.gaussian_delta(1e5, 1.0, 1.0) < 1e-300
    assert calibration.gaussian_sigma(1e5, 1e-5, 1.0) < 0.01


def test_the_textbook_sigma_is_larger() -> None:
    for epsilon in (0.1, 0.5, 0.99):
        classical = calibration.classical_gaussian_sigma(epsilon, 1e-5, 3.0)
        assert classical == pytest.approx(literal.classical_sigma(epsilon, 1e-5, 3.0))
        assert calibration.gaussian_sigma(epsilon, 1e-5, 3.0) < classical
    # and wrong for a large epsilon, which is why Gaussian refuses it
    assert calibration.gaussian_delta(20.0, literal.classical_sigma(20.0, 1e-5, 1.0), 1.0) > 1e-5


@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf, None, "1"])
def test_invalid_arguments_are_refused(bad: object) -> None:
    good = {"epsilon": 1.0, "delta": 1e-5, "sigma": 1.0, "l2": 1.0, "mu": 1.0}
    for function, names in (
        (calibration.gaussian_sigma, ("epsilon", "delta", "l2")),
        (calibration.classical_gaussian_sigma, ("epsilon", "delta", "l2")),
        (calibration.gaussian_epsilon, ("delta", "sigma", "l2")),
        (calibration.gaussian_delta, ("epsilon", "sigma", "l2")),
        (calibration.mu_of, ("epsilon", "delta")),
        (calibration.epsilon_of, ("mu", "delta")),
    ):
        for name in names:
            if function is calibration.gaussian_delta and name == "epsilon" and bad == 0:
                continue  # allowed: the total variation
            arguments = {key: good[key] for key in names} | {name: bad}
            with pytest.raises(InvalidInputError, match=f"^{name} must"):
                function(**arguments)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    thinned([1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0], [1e-300, 1e-100, 1e-30, 1e-20, 1e-16, 1e-12, 1e-5]),
)
def test_tiny_epsilon_and_delta_are_kept_to_the_last_digit(epsilon: float, delta: float) -> None:
    """A difference of nearly equal numbers would lose all digits here: against a series of 450 decimals."""
    for mu, at in (
        (calibration.mu_of(epsilon, delta), epsilon),
        (0.7 * epsilon, calibration.epsilon_of(0.7 * epsilon, delta)),
    ):
        if at == 0:  # nothing is lost at all, and the formula at zero says so
            assert decimal_delta(0.0, mu) <= Decimal(delta)
            continue
        exact = decimal_delta(at, mu)
        assert exact <= Decimal(delta)
        if at > 1e-17:  # the smallest epsilon that is searched for
            assert exact > Decimal(delta) * Decimal("0.99")


def decimal_delta(epsilon: float, mu: float) -> Decimal:
    """Balle and Wang's formula in decimals, with the tails by the series of Phi(x) - 1/2."""
    with localcontext() as context:
        context.prec = 450
        e, m = Decimal(epsilon), Decimal(mu)

        def phi(x: Decimal) -> Decimal:
            term = total = x
            n = 1
            while abs(term) > Decimal(10) ** -420:
                n += 2
                term = term * x * x / n
                total += term
            return Decimal("0.5") + (-x * x / 2).exp() * total / (2 * _pi(450)).sqrt()

        return phi(m / 2 - e / m) - e.exp() * phi(-m / 2 - e / m)
