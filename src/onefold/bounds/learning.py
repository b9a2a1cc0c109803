r"""Error bounds of the learning problem of document 004, one function per statement.

Setting. A fixed feature map :math:`\Phi : R^n \to [0, 1]` stands for one class, :math:`f(x) = P(y = 1 | x)`
is the posterior to be learnt, and :math:`h = \Phi \cdot \frac{1}{N \|\Phi\|^2} \sum_i y_i \Phi(x_i)` is the
learnt solution (004 eq. 81), where :math:`\|\Phi\|^2 = E[\Phi(x)^2]`. Each bound holds with probability at
least 1 - delta over the N independent samples, under the condition of its *Holds* line.

Two conditions are missing in the document; both are shown by counterexample in the tests.

* *Posterior on the line of the feature map.* The kernel has rank one, so :math:`(J^*)^{-1} J^* f` (004 eq.
  71) is not f but its projection onto the multiples of :math:`\Phi`. With :math:`\Phi = 1` and a posterior
  that varies, the error tends to the variance of f while (70), (73), (77) tend to their limits without it.
  The exact remedy is one more term: ``gap``, the squared distance :math:`\min_a E[(f - a \Phi)^2]`. The
  default 0 is the document's claim.
* *Feature map chosen without the sample.* In 004 eq. 238 a map that depends on the signs leaves their
  expectation. Over all maps into [0, 1] the complexity (93) does not decrease at all (some map fits any
  signs), so Theorem 5 and the first branches of (95), (96), (114) hold for a map fixed in advance, not for
  one fitted to the data.

All functions are vectorised: arguments may be arrays that broadcast against each other.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from onefold._base.arrays import Floats, Mask
from onefold.exceptions import InvalidInputError
from onefold.privacy.terms import number_array

__all__ = [
    "direct_risk_bound",
    "folding_posterior_error_bound",
    "held_out_error_bound",
    "hypothesis_posterior_error_bound",
    "hypothesis_prediction_error_bound",
    "is_informative",
    "posterior_error_bound",
    "prediction_error_bound",
    "rademacher_bound",
    "risk_bound",
    "rkhs_risk_bound",
    "smallest_informative_sample",
]

FloatOrArray = np.float64 | Floats


# --- arguments: arrays or scalars in, float64 out, one line when out of range ------------------------------


def _checked(name: str, value: ArrayLike, fits: Callable[[Floats], Mask], rule: str) -> Floats:
    # Every comparison with NaN is false, so a NaN never passes.
    return number_array(value, f"{name} must {rule}", fits)


def positive(name: str, value: ArrayLike) -> Floats:
    """Finite numbers above zero."""
    return _checked(name, value, lambda x: (x > 0) & (x < np.inf), "be positive and finite")


def non_negative(name: str, value: ArrayLike) -> Floats:
    """Finite numbers, zero allowed."""
    return _checked(name, value, lambda x: (x >= 0) & (x < np.inf), "be non-negative and finite")


def count(name: str, value: ArrayLike) -> Floats:
    """Whole numbers from one on, as float64 so that squares cannot overflow."""
    numbers = positive(name, value)
    rule = "be a whole number of at least 1"
    return _checked(name, numbers, lambda x: (x >= 1) & (x == np.floor(x)), rule)


def confidence(name: str, value: ArrayLike) -> Floats:
    """Failure probabilities, strictly between 0 and 1."""
    return _checked(name, value, lambda x: (x > 0) & (x < 1), "lie strictly between 0 and 1")


def fraction(name: str, value: ArrayLike) -> Floats:
    """Shares of a whole: above 0, at most 1."""
    return _checked(name, value, lambda x: (x > 0) & (x <= 1), "lie in (0, 1]")


def squared_error(name: str, value: ArrayLike) -> Floats:
    """Mean squared errors between numbers of [0, 1]: they lie in [0, 1] themselves."""
    return _checked(name, value, lambda x: (x >= 0) & (x <= 1), "lie in [0, 1]")


_LARGEST_SAMPLE = 2**62


def rkhs_risk_bound(n_samples: ArrayLike, delta: ArrayLike) -> FloatOrArray:
    r"""Bound the risk of the sample approximation inside the kernel's space.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.
    delta : array-like of float
        Probability with which the bound may fail, strictly between 0 and 1.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    risk_bound : The same for the learnt solution.
    direct_risk_bound : A bound of rate 1/N, which the document does not have.

    Notes
    -----
    Derivation: the two parts of the error, from the finite sample and from the label noise, have mean norms
    of at most :math:`2/\sqrt N` and :math:`1/\sqrt N`; replacing one sample moves their sum by at most 4/N,
    so McDiarmid's inequality adds :math:`\sqrt{8 \log(1/\delta) / N}`.

    *Holds*: always. 004 eq. 186 loses a square, harmlessly: the norm is at most 1, so its square is smaller
    still. See :func:`direct_risk_bound` for the rate 1/N that the lost square gave away.

    References
    ----------
    Document 004, Theorem 1, eq. 64.

    Examples
    --------
    With delta = exp(-2) the second root is 4/sqrt(N): together 7/sqrt(N).

    >>> import math
    >>> from onefold.bounds import rkhs_risk_bound
    >>> round(float(rkhs_risk_bound(100, math.exp(-2))), 12)
    0.7
    """
    n = count("n_samples", n_samples)
    log_term = np.log(1.0 / confidence("delta", delta))
    return 3.0 / np.sqrt(n) + np.sqrt(8.0 * log_term / n)


def risk_bound(
    n_samples: ArrayLike, delta: ArrayLike, feature_norm_squared: ArrayLike, gap: ArrayLike = 0.0
) -> FloatOrArray:
    r"""Bound the risk E[(h - f)^2] of the learnt solution against the best one.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.
    delta : array-like of float
        Probability with which the bound may fail, strictly between 0 and 1.
    feature_norm_squared : array-like of float
        E[Phi(x)^2], above 0 and at most 1; under the normalisation of 004 eq. 85 the class frequency.
    gap : array-like of float, default=0.0
        Squared distance of the posterior from the multiples of the map, min over a of E[(f - a Phi)^2], from
        0 to 1.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    direct_risk_bound : A smaller bound of rate 1/N.

    Notes
    -----
    Derivation: leaving the kernel's space divides by :math:`\|\Phi\|^2`, so the squared error of
    :func:`rkhs_risk_bound` is divided by :math:`(\|\Phi\|^2)^2`; h lies on the line of :math:`\Phi`, so by
    Pythagoras the squared distance ``gap`` of the posterior from that line is added.

    *Holds*: with the true ``gap``; the document's version (``gap=0``) only for a posterior that is a
    multiple of the map.

    References
    ----------
    Document 004, Theorem 2, eq. 70.

    Examples
    --------
    >>> import math
    >>> from onefold.bounds import risk_bound
    >>> round(float(risk_bound(10_000, math.exp(-2), feature_norm_squared=0.5)), 12)
    0.28
    >>> round(float(risk_bound(10_000, math.exp(-2), feature_norm_squared=0.5, gap=0.02)), 12)
    0.3
    """
    norm_squared = fraction("feature_norm_squared", feature_norm_squared)
    return rkhs_risk_bound(n_samples, delta) / norm_squared**2 + squared_error("gap", gap)


def direct_risk_bound(
    n_samples: ArrayLike, delta: ArrayLike, feature_norm_squared: ArrayLike, gap: ArrayLike = 0.0
) -> FloatOrArray:
    r"""Bound the risk E[(h - f)^2] of the learnt solution at the rate 1/N.

    The documents do not have this bound.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.
    delta : array-like of float
        Probability with which the bound may fail, strictly between 0 and 1.
    feature_norm_squared : array-like of float
        E[Phi(x)^2], above 0 and at most 1; under the normalisation of 004 eq. 85 the class frequency.
    gap : array-like of float, default=0.0
        Squared distance of the posterior from the multiples of the map, min over a of E[(f - a Phi)^2], from
        0 to 1.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    risk_bound : The bound of the document.

    Notes
    -----
    Derivation: h and the projection of f are multiples of :math:`\Phi`; their difference is :math:`\Phi /
    \|\Phi\|^2` times the deviation of the mean of the :math:`y_i \Phi(x_i)`, numbers of [0, 1], from its
    expectation. Hoeffding's inequality bounds that deviation by :math:`\sqrt{\log(2/\delta) / (2N)}`.
    Square, multiply by :math:`\|\Phi\|^2`, add the ``gap``. Below :func:`risk_bound` whenever that one is
    informative.

    *Holds*: always, with the true ``gap``.

    References
    ----------
    Hoeffding, "Probability inequalities for sums of bounded random variables", 1963, Theorem 2.

    Examples
    --------
    >>> import math
    >>> from onefold.bounds import direct_risk_bound
    >>> round(float(direct_risk_bound(100, 2 * math.exp(-2), feature_norm_squared=0.5)), 12)
    0.02
    """
    n = count("n_samples", n_samples)
    log_term = np.log(2.0 / confidence("delta", delta))
    norm_squared = fraction("feature_norm_squared", feature_norm_squared)
    return log_term / (2.0 * n * norm_squared) + squared_error("gap", gap)


def prediction_error_bound(
    n_samples: ArrayLike,
    delta: ArrayLike,
    feature_norm_squared: ArrayLike,
    label_noise: ArrayLike,
    gap: ArrayLike = 0.0,
) -> FloatOrArray:
    r"""Bound the mean squared error E[(y - h)^2] of predicting the label.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.
    delta : array-like of float
        Probability with which the bound may fail, strictly between 0 and 1.
    feature_norm_squared : array-like of float
        E[Phi(x)^2], above 0 and at most 1; under the normalisation of 004 eq. 85 the class frequency.
    label_noise : array-like of float
        E[(y - f(x))^2] = E[f (1 - f)], from 0 to 1; no predictor gets below it.
    gap : array-like of float, default=0.0
        Squared distance of the posterior from the multiples of the map, min over a of E[(f - a Phi)^2], from
        0 to 1.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    posterior_error_bound : The error of estimating the posterior.

    Notes
    -----
    Derivation: the label is posterior plus noise of conditional mean zero, so the error is the risk of
    :func:`risk_bound` plus the mean squared noise.

    *Holds*: as :func:`risk_bound`.

    References
    ----------
    Document 004, Theorem 3, eq. 73.

    Examples
    --------
    >>> import math
    >>> from onefold.bounds import prediction_error_bound
    >>> value = prediction_error_bound(10_000, math.exp(-2), feature_norm_squared=0.5, label_noise=0.1)
    >>> round(float(value), 12)
    0.38
    """
    return risk_bound(n_samples, delta, feature_norm_squared, gap) + squared_error("label_noise", label_noise)


def posterior_error_bound(
    n_samples: ArrayLike, delta: ArrayLike, feature_norm_squared: ArrayLike, gap: ArrayLike = 0.0
) -> FloatOrArray:
    r"""Bound the mean squared error E[(h - P(y = 1 | x))^2] of estimating the posterior.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.
    delta : array-like of float
        Probability with which the bound may fail, strictly between 0 and 1.
    feature_norm_squared : array-like of float
        E[Phi(x)^2], above 0 and at most 1; under the normalisation of 004 eq. 85 the class frequency.
    gap : array-like of float, default=0.0
        Squared distance of the posterior from the multiples of the map, min over a of E[(f - a Phi)^2], from
        0 to 1.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    prediction_error_bound : The error of predicting the label.

    Notes
    -----
    Derivation: for a label in {0, 1} the best prediction in the mean square is the posterior itself, so
    this is :func:`risk_bound` read differently.

    *Holds*: as :func:`risk_bound`; the convergence to zero claimed after it (004 eq. 80) needs ``gap = 0``.

    References
    ----------
    Document 004, Theorem 4, eq. 77.

    Examples
    --------
    >>> import math
    >>> from onefold.bounds import posterior_error_bound
    >>> round(float(posterior_error_bound(10_000, math.exp(-2), feature_norm_squared=0.5)), 12)
    0.28
    """
    return risk_bound(n_samples, delta, feature_norm_squared, gap)


def rademacher_bound(n_samples: ArrayLike) -> FloatOrArray:
    r"""Bound the Rademacher complexity of the hypotheses, empirical and expected.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    hypothesis_prediction_error_bound : Uses the complexity.

    Notes
    -----
    Derivation: a hypothesis is :math:`a \Phi` with a in [0, 1], so its correlation with random signs is at
    most :math:`|\sum_i \sigma_i \Phi(x_i)| / N`, whose root mean square is at most :math:`1/\sqrt N` for
    one fixed map.

    *Holds*: for one map fixed in advance; over all maps into [0, 1], as stated, the complexity is at least
    (1 - class frequency) / 2 for every N when no sample occurs twice.

    References
    ----------
    Document 004, Theorem 5, eq. 93 and 94.

    Examples
    --------
    >>> from onefold.bounds import rademacher_bound
    >>> rademacher_bound([25, 100]).tolist()
    [0.2, 0.1]
    """
    return 1.0 / np.sqrt(count("n_samples", n_samples))


def _empirical_bound(n_samples: ArrayLike, delta: ArrayLike, empirical_error: ArrayLike) -> FloatOrArray:
    # 004 eq. 290: symmetrisation doubles the complexity, the squared loss (slope at most 2) doubles it again,
    # and McDiarmid with differences of 1/N gives the last root.
    n = count("n_samples", n_samples)
    log_term = np.log(1.0 / confidence("delta", delta))
    return (
        squared_error("empirical_error", empirical_error)
        + 4.0 * rademacher_bound(n)
        + np.sqrt(log_term / (2.0 * n))
    )


def hypothesis_prediction_error_bound(
    n_samples: ArrayLike,
    delta: ArrayLike,
    class_frequency: ArrayLike,
    empirical_error: ArrayLike,
    label_noise: ArrayLike,
    gap: ArrayLike = 0.0,
) -> FloatOrArray:
    r"""Bound the error of predicting the label by training error or theory, whichever is less.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.
    delta : array-like of float
        Probability with which the bound may fail, strictly between 0 and 1.
    class_frequency : array-like of float
        Share of the class, above 0 and at most 1.
    empirical_error : array-like of float
        Mean squared error on the training samples, from 0 to 1.
    label_noise : array-like of float
        E[(y - f(x))^2] = E[f (1 - f)], from 0 to 1; no predictor gets below it.
    gap : array-like of float, default=0.0
        Squared distance of the posterior from the multiples of the map, min over a of E[(f - a Phi)^2], from
        0 to 1.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    hypothesis_posterior_error_bound : The error of estimating the posterior.

    Notes
    -----
    Derivation: the first branch is the training error plus four complexities (:func:`rademacher_bound`,
    doubled by symmetrisation and by the slope of the squared loss) plus McDiarmid's
    :math:`\sqrt{\log(1/\delta)/(2N)}`; the second is :func:`prediction_error_bound` with the class
    frequency for :math:`\|\Phi\|^2` (004 eq. 85).

    *Holds*: for a map fixed in advance and the true ``gap``, with probability 1 - 2 delta: the minimum of
    two bounds that may each fail with probability delta may fail with their sum.

    References
    ----------
    Document 004, Theorem 6, eq. 95.

    Examples
    --------
    >>> import math
    >>> from onefold.bounds import hypothesis_prediction_error_bound
    >>> arguments = dict(class_frequency=0.5, empirical_error=0.15, label_noise=0.1)
    >>> round(float(hypothesis_prediction_error_bound(10_000, math.exp(-2), **arguments)), 12)
    0.2
    """
    from_training = _empirical_bound(n_samples, delta, empirical_error)
    from_theory = prediction_error_bound(
        n_samples, delta, fraction("class_frequency", class_frequency), label_noise, gap
    )
    return np.minimum(from_training, from_theory)


def hypothesis_posterior_error_bound(
    n_samples: ArrayLike,
    delta: ArrayLike,
    class_frequency: ArrayLike,
    empirical_error: ArrayLike,
    gap: ArrayLike = 0.0,
) -> FloatOrArray:
    r"""Bound the error of estimating the posterior by training error or theory, whichever is less.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.
    delta : array-like of float
        Probability with which the bound may fail, strictly between 0 and 1.
    class_frequency : array-like of float
        Share of the class, above 0 and at most 1.
    empirical_error : array-like of float
        Mean squared error on the training samples, from 0 to 1.
    gap : array-like of float, default=0.0
        Squared distance of the posterior from the multiples of the map, min over a of E[(f - a Phi)^2], from
        0 to 1.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    hypothesis_prediction_error_bound : The error of predicting the label.

    Notes
    -----
    Derivation: the error against the posterior is the error against the label minus the label noise, hence
    at most the first branch of :func:`hypothesis_prediction_error_bound`; the second is
    :func:`posterior_error_bound` with the class frequency for :math:`\|\Phi\|^2`.

    *Holds*: as :func:`hypothesis_prediction_error_bound`.

    References
    ----------
    Document 004, Theorem 7, eq. 96.

    Examples
    --------
    >>> import math
    >>> from onefold.bounds import hypothesis_posterior_error_bound
    >>> round(float(hypothesis_posterior_error_bound(10_000, math.exp(-2), 0.5, empirical_error=0.15)), 12)
    0.2
    >>> round(float(hypothesis_posterior_error_bound(10_000, math.exp(-2), 1.0, empirical_error=0.15)), 12)
    0.07
    """
    from_training = _empirical_bound(n_samples, delta, empirical_error)
    from_theory = posterior_error_bound(n_samples, delta, fraction("class_frequency", class_frequency), gap)
    return np.minimum(from_training, from_theory)


def folding_posterior_error_bound(
    n_samples: ArrayLike, delta: ArrayLike, class_frequency: ArrayLike, gap: ArrayLike = 0.0
) -> FloatOrArray:
    r"""Bound the error of the space-folding decision as an estimate of the posterior.

    Parameters
    ----------
    n_samples : array-like of int
        Number of samples N.
    delta : array-like of float
        Probability with which the bound may fail, strictly between 0 and 1.
    class_frequency : array-like of float
        Share of the class, above 0 and at most 1.
    gap : array-like of float, default=0.0
        Squared distance of the posterior from the multiples of the map, min over a of E[(f - a Phi)^2], from
        0 to 1.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    hypothesis_posterior_error_bound : The same with a training error.

    Notes
    -----
    Derivation: :func:`hypothesis_posterior_error_bound` with no training error, because Assumption 2 says
    that the decision map reproduces every training label. For delta below 0.8 the second branch never wins,
    whatever the class frequency: the number is the first one.

    *Holds*: not in general. A map that reproduces the training labels was fitted to them, and a decision in
    {0, 1} stays at E[(decision - f)^2] >= E[min(f, 1 - f)^2] for every N: a posterior of 1/2 everywhere
    keeps the error at 1/4. Read it only where classes hardly overlap, and as the document's number rather
    than a promise.

    References
    ----------
    Document 004, Proposition 2, eq. 114.

    Examples
    --------
    >>> import math
    >>> from onefold.bounds import folding_posterior_error_bound
    >>> round(float(folding_posterior_error_bound(10_000, math.exp(-2), class_frequency=0.1)), 12)
    0.05
    """
    return hypothesis_posterior_error_bound(n_samples, delta, class_frequency, 0.0, gap)


# --- from rows held out: no theorem of the documents, and the one that says something at any size -----------


def held_out_error_bound(n_errors: ArrayLike, n_rows: ArrayLike, delta: ArrayLike = 0.05) -> FloatOrArray:
    """Bound the share of rows that a classifier gets wrong, from its errors on rows held out.

    The bound is the error rate at which so few errors would have probability delta (Clopper and Pearson).

    *Holds* with probability 1 - delta for rows that were drawn like the rows to come, and that neither
    fitting nor choosing has used. For rows of one class it bounds the share of that class's rows that are
    missed; each such bound holds by itself.

    *Derivation.* The errors are binomial. The probability of at most k falls with the error rate, from 1 to
    0, and equals delta at the (1 - delta)-quantile of the Beta distribution with parameters k + 1 and n - k.

    Parameters
    ----------
    n_errors : array-like of int
        k, rows held out that were answered wrongly.
    n_rows : array-like of int
        n, rows held out; 0 gives the bound 1.
    delta : array-like of float, default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    prediction_error_bound : The documents' bound, which needs far more rows to say anything.

    References
    ----------
    C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26 (1934).

    Examples
    --------
    >>> from onefold.bounds import held_out_error_bound
    >>> held_out_error_bound([0, 4, 60], [60, 60, 60]).round(3).tolist()
    [0.049, 0.146, 1.0]
    """
    wrong, rows = non_negative("n_errors", n_errors), non_negative("n_rows", n_rows)
    if np.any(wrong != np.floor(wrong)) or np.any(rows != np.floor(rows)) or np.any(wrong > rows):
        raise InvalidInputError("n_errors and n_rows must be whole numbers, and no more errors than rows")
    risk = confidence("delta", delta)
    left = np.maximum(rows - wrong, 0.5)  # where no row was right the bound is 1 anyway
    return np.where(wrong == rows, 1.0, betaincinv(wrong + 1.0, left, 1.0 - risk))[()]


# --- does a bound say anything? squared errors between numbers of [0, 1] never exceed 1 --------------------


def is_informative(bound: ArrayLike, trivial: float = 1.0) -> np.bool_ | Mask:
    """Tell whether a bound is below what is known without it.

    Parameters
    ----------
    bound : array-like of float
        Value or values of a bound.
    trivial : float, default=1.0
        The value that the bounded quantity cannot exceed anyway; 1 for squared errors between numbers of
        [0, 1].

    Returns
    -------
    bool or ndarray of bool
        True where the bound is informative.

    See Also
    --------
    smallest_informative_sample : The number of samples from which on a bound is informative.

    Examples
    --------
    >>> from onefold.bounds import is_informative, rkhs_risk_bound
    >>> is_informative(rkhs_risk_bound([60, 70], delta=0.05)).tolist()
    [False, True]
    """
    return non_negative("bound", bound) < positive("trivial", trivial)


def smallest_informative_sample(bound: Callable[[int], object], trivial: float = 1.0) -> int:
    """Find the smallest number of samples from which on a decreasing bound is informative.

    Parameters
    ----------
    bound : callable
        Function of the number of samples N, not increasing in N.
    trivial : float, default=1.0
        The value that the bounded quantity cannot exceed anyway; see :func:`is_informative`.

    Returns
    -------
    int
        The number of samples.

    See Also
    --------
    is_informative : Whether given values of a bound are informative.

    Examples
    --------
    Document 004's Theorem 1 at 95 % says nothing below 63 samples; Theorem 4 for a class holding a tenth of
    the data carries the square of that tenth in its denominator:

    >>> from onefold.bounds import posterior_error_bound, rkhs_risk_bound, smallest_informative_sample
    >>> smallest_informative_sample(lambda n: rkhs_risk_bound(n, delta=0.05))
    63
    >>> smallest_informative_sample(lambda n: posterior_error_bound(n, delta=0.05, feature_norm_squared=0.1))
    623389
    """

    def informative(n_samples: int) -> bool:
        return bool(is_informative(bound(n_samples), trivial))  # type: ignore[arg-type]

    high = 1
    while not informative(high):
        high *= 2
        if high > _LARGEST_SAMPLE:
            raise InvalidInputError("the bound is not informative for any number of samples up to 2**62")
    low = high // 2  # not informative (or 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if informative(middle) else (middle, high)
    return high
