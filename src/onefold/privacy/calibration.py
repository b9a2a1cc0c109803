r"""How much Gaussian noise a guarantee needs, and what guarantee a noise gives (Balle and Wang 2018).

Adding :math:`N(0, \sigma^2 I)` to data whose neighbours lie at most ``l2`` apart is :math:`\mu`-Gaussian
private with :math:`\mu = l2 / \sigma`: the hardest pair to tell apart is N(0, 1) against N(mu, 1). It is
(epsilon, delta) private exactly when

.. math:: \delta \ge \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu).

Squares of mu add up over releases. Roots are returned on the safe side: what is promised is checked by
evaluating the formula again.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, log_ndtr

from onefold.privacy.terms import DELTA, EPSILON, number, positive

__all__ = [
    "classical_gaussian_sigma",
    "epsilon_of",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "mu_of",
]


# Relative error that evaluating the formula may have; delta is rounded up by it.
ROUNDING = 1e-10
SMALL_MU = 0.5
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


def _delta_of(epsilon: float, mu: float) -> float:
    """Evaluate the formula above, rounded up. In logarithms, since exp(epsilon) alone would overflow."""
    if mu < SMALL_MU:
        return _small_mu_delta(epsilon, mu) * (1.0 + ROUNDING)
    log_first = float(log_ndtr(mu / 2 - epsilon / mu))
    log_second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    if log_second >= log_first:  # both are equal up to rounding
        return 0.0
    return min(1.0, math.exp(log_first) * -math.expm1(log_second - log_first) * (1.0 + ROUNDING))


def _small_mu_delta(epsilon: float, mu: float) -> float:
    r"""Evaluate the same without a difference of nearly equal numbers.

    With :math:`R(t) = \Phi(-t) / \varphi(t)` and :math:`e^\epsilon \varphi(-\mu/2 - \epsilon/\mu) =
    \varphi(\mu/2 - \epsilon/\mu)` it is :math:`\varphi(t) (R(t) - R(t + \mu))` at :math:`t = \epsilon/\mu -
    \mu/2`, and :math:`R' = t R - 1` is integrated over an interval on which it is smooth.
    """
    start = epsilon / mu - mu / 2
    if start > 40:  # below the smallest float64
        return 0.0
    t = start + mu * (1.0 + NODES) / 2
    slope = 1.0 - t * math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))
    density = math.exp(-start * start / 2) / math.sqrt(2 * math.pi)
    return float(density * mu / 2 * np.dot(WEIGHTS, slope))


def _last_true(condition: Callable[[float], bool], low: float, high: float) -> float:
    """Find the largest x of [low, high] with ``condition``, which holds at ``low`` and fails at ``high``."""
    for _ in range(200):
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if condition(middle) else (low, middle)
    return low


def mu_of(epsilon: float, delta: float) -> float:
    """Compute the largest mu whose Gaussian privacy is (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        Privacy loss.
    delta : float
        Probability with which the loss may be exceeded.

    Returns
    -------
    float
        The parameter mu.

    See Also
    --------
    epsilon_of : The inverse.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy", 2018, Theorem 8.

    Examples
    --------
    >>> from onefold.privacy.calibration import mu_of
    >>> round(mu_of(1.0, 1e-5), 3)
    0.268
    """
    return _mu_of(number("epsilon", epsilon, EPSILON), number("delta", delta, DELTA))


@lru_cache(maxsize=256)
def _mu_of(epsilon: float, delta: float) -> float:
    return _last_true(lambda mu: _delta_of(epsilon, mu) <= delta, 1e-20, 1e20)


def epsilon_of(mu: float, delta: float) -> float:
    """Compute the smallest epsilon (0 included) that mu-Gaussian privacy gives at a delta.

    Parameters
    ----------
    mu : float
        Parameter of Gaussian privacy: distance of neighbours in standard deviations of the noise.
    delta : float
        Probability with which the loss may be exceeded.

    Returns
    -------
    float
        The privacy loss.

    See Also
    --------
    mu_of : The inverse.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy", 2018, Theorem 8.

    Examples
    --------
    >>> from onefold.privacy.calibration import epsilon_of
    >>> round(epsilon_of(0.5, 1e-5), 3)
    1.993
    """
    return loss_of(positive("mu", mu), number("delta", delta, DELTA))


@lru_cache(maxsize=256)
def loss_of(mu: float, delta: float) -> float:
    """Compute what :func:`epsilon_of` does, from numbers that the caller has checked."""
    if _delta_of(0.0, mu) <= delta:
        return 0.0
    above = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1.0  # the tail bound, always enough
    if _delta_of(1e-18, mu) <= delta:
        return 1e-18
    below = _last_true(lambda epsilon: _delta_of(epsilon, mu) > delta, 1e-18, above)
    return math.nextafter(below, math.inf)


def gaussian_delta(epsilon: float, sigma: float, l2: float) -> float:
    """Compute the smallest delta of Gaussian noise at an epsilon.

    Parameters
    ----------
    epsilon : float
        Privacy loss.
    sigma : float
        Standard deviation of the noise.
    l2 : float
        Largest Euclidean distance of neighbouring data.

    Returns
    -------
    float
        The probability with which epsilon may be exceeded.

    See Also
    --------
    gaussian_epsilon : The smallest epsilon at a delta.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy", 2018, Theorem 8.

    Examples
    --------
    >>> from onefold.privacy.calibration import gaussian_delta
    >>> round(gaussian_delta(1.0, sigma=2.0, l2=1.0), 6)
    0.00683
    """
    if epsilon != 0:
        epsilon = number("epsilon", epsilon, EPSILON)
    return _delta_of(epsilon, positive("l2", l2) / positive("sigma", sigma))


def gaussian_epsilon(delta: float, sigma: float, l2: float) -> float:
    """Compute the smallest epsilon of Gaussian noise at a delta.

    Parameters
    ----------
    delta : float
        Probability with which the loss may be exceeded.
    sigma : float
        Standard deviation of the noise.
    l2 : float
        Largest Euclidean distance of neighbouring data.

    Returns
    -------
    float
        The privacy loss.

    See Also
    --------
    gaussian_sigma : The noise that an epsilon needs.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy", 2018, Theorem 8.

    Examples
    --------
    >>> from onefold.privacy.calibration import gaussian_epsilon, gaussian_sigma
    >>> round(gaussian_epsilon(1e-5, gaussian_sigma(1.0, 1e-5, 2.0), 2.0), 9)
    1.0
    """
    return epsilon_of(positive("l2", l2) / positive("sigma", sigma), delta)


def gaussian_sigma(epsilon: float, delta: float, l2: float) -> float:
    """Compute the smallest standard deviation of Gaussian noise that is (epsilon, delta) private.

    Parameters
    ----------
    epsilon : float
        Privacy loss.
    delta : float
        Probability with which the loss may be exceeded.
    l2 : float
        Largest Euclidean distance of neighbouring data.

    Returns
    -------
    float
        The standard deviation.

    See Also
    --------
    onefold.privacy.AnalyticGaussian : Noise of this size.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy", 2018, Theorem 8.

    Examples
    --------
    >>> from onefold.privacy.calibration import gaussian_sigma
    >>> round(gaussian_sigma(1.0, 1e-5, 1.0), 4)
    3.7306
    """
    mu, l2 = mu_of(epsilon, delta), positive("l2", l2)
    return _sigma_of(positive("sigma", l2 / mu), mu, l2)


def unit_sigma(epsilon: float, delta: float) -> float:
    """Compute :func:`gaussian_sigma` for neighbours one apart, from numbers that the caller has checked."""
    mu = _mu_of(epsilon, delta)
    return _sigma_of(1.0 / mu, mu, 1.0)


def _sigma_of(sigma: float, mu: float, l2: float) -> float:
    while l2 / sigma > mu:  # the division may have rounded down
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def classical_gaussian_sigma(epsilon: float, delta: float, l2: float) -> float:
    """Compute the standard deviation of the textbooks, which is larger than needed.

    It is proved for epsilon below 1 only.

    Parameters
    ----------
    epsilon : float
        Privacy loss.
    delta : float
        Probability with which the loss may be exceeded.
    l2 : float
        Largest Euclidean distance of neighbouring data.

    Returns
    -------
    float
        The standard deviation.

    See Also
    --------
    gaussian_sigma : The smallest standard deviation.

    References
    ----------
    Document 003, Result 6.

    Examples
    --------
    >>> from onefold.privacy.calibration import classical_gaussian_sigma
    >>> round(classical_gaussian_sigma(0.5, 1e-5, 1.0), 4)
    9.6896
    """
    epsilon, delta = number("epsilon", epsilon, EPSILON), number("delta", delta, DELTA)
    return positive("l2", l2) * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
