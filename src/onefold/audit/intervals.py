"""Intervals of shares, areas and explained variances, and what shares say about epsilon.

Shares, and everything about epsilon, are exact for any number of trials. The interval of an area excludes 0.5
where the test of Mann and Whitney rejects; that of R2 is a large-sample one.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, expit, gammaln, ndtri, stdtrit, xlog1py, xlogy

from onefold._base.arrays import Floats
from onefold._base.validation import Number, check_parameter
from onefold.exceptions import InvalidInputError

__all__ = [
    "area_interval",
    "clopper_pearson",
    "epsilon_from_counts",
    "epsilon_from_guesses",
    "epsilon_from_rates",
    "gain_interval",
    "guessing_p_value",
    "mean_interval",
    "mean_share_interval",
    "r2_interval",
]

LARGEST_EPSILON = 60.0  # beyond this e^-epsilon is lost in a float64 next to 1
BISECTIONS = 60
CONFIDENCE = Number(above=0, below=1)
DELTA = Number(at_least=0, below=1)


def lower_limit(successes: ArrayLike, trials: ArrayLike, failure: float) -> Floats:
    """Return a number below the success probability, except with probability ``failure``."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, failure), 0.0)


def upper_limit(successes: ArrayLike, trials: ArrayLike, failure: float) -> Floats:
    """Return a number above the success probability, except with probability ``failure``."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - failure), 1.0)


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the exact two-sided confidence interval of a success probability.

    Parameters
    ----------
    successes : int
        How often it happened.
    trials : int
        How often it could have happened.
    confidence : float, default=0.95
        Probability that the interval holds the success probability.

    Returns
    -------
    tuple of (float, float)
        Lower and upper end.

    See Also
    --------
    audit_epsilon : Uses such limits to bound epsilon.

    References
    ----------
    C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26, 1934.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 100)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    _check_counts(successes, trials)
    check_parameter("confidence", confidence, CONFIDENCE)
    each = (1 - confidence) / 2
    return float(lower_limit(successes, trials, each)), float(upper_limit(successes, trials, each))


def gain_interval(won: int, lost: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute an interval of the difference of two shares that were counted on the same trials.

    It is above 0, or below, exactly where the sign test (McNemar, in its exact form) says so. Its width takes
    the number of trials on which the two differ as given.

    Parameters
    ----------
    won : int
        Trials in which only the first succeeded.
    lost : int
        Trials in which only the second did.
    trials : int
        All trials.
    confidence : float, default=0.95
        Level of the interval.

    Returns
    -------
    tuple of (float, float)
        Lower and upper end of the first share minus the second.

    See Also
    --------
    clopper_pearson : The interval of one share.

    References
    ----------
    Q. McNemar, "Note on the sampling error of the difference between correlated proportions or percentages",
    Psychometrika 12, 1947.

    Examples
    --------
    >>> [round(end, 3) for end in gain_interval(30, 10, 100)]
    [0.07, 0.298]
    """
    differ = won + lost
    if not differ:
        return 0.0, 0.0
    low, high = clopper_pearson(won, differ, confidence)
    return (2.0 * low - 1.0) * differ / trials, (2.0 * high - 1.0) * differ / trials


def mean_share_interval(
    successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95
) -> tuple[float, float]:
    """Compute an interval of the mean of independent shares, such as a balanced accuracy.

    The distances from the shares to the ends of their exact intervals are added in squares (Zou and Donner).
    Shares of 0 and 1 among many small ones would make that too narrow: it is no narrower than the interval of
    one share, of as many trials as give it the variance of the mean of equal shares.

    Parameters
    ----------
    successes : array-like of shape (n_shares,)
        How often it happened.
    trials : array-like of shape (n_shares,)
        How often it could have happened, at least once each.
    confidence : float, default=0.95
        Level of the interval.

    Returns
    -------
    tuple of (float, float)
        Lower and upper end.

    See Also
    --------
    clopper_pearson : The interval of one share.

    References
    ----------
    G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures: a general approach",
    Statistics in Medicine 27, 2008.

    Examples
    --------
    >>> [round(end, 3) for end in mean_share_interval([40, 10], [50, 20])]
    [0.512, 0.774]
    """
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    shares, failure = k / n, (1.0 - confidence) / 2.0
    below, above = shares - lower_limit(k, n, failure), upper_limit(k, n, failure) - shares
    middle, size = float(shares.mean()), len(shares)
    low, high = middle - np.linalg.norm(below) / size, middle + np.linalg.norm(above) / size
    alike = size**2 / np.sum(1.0 / n)  # trials of one share with the variance of the mean of equal ones
    equal_low, equal_high = (limit(middle * alike, alike, failure) for limit in (lower_limit, upper_limit))
    return min(float(low), float(equal_low)), max(float(high), float(equal_high))


def area_interval(
    first: ArrayLike, second: ArrayLike, confidence: float = 0.95
) -> tuple[float, tuple[float, float]]:
    """Compute the area under the ROC curve and its interval.

    The interval holds every area from which the one that was seen is no farther than chance explains, with
    the variance that Newcombe gives for it and a correction for continuity. At 0.5 this variance is that of
    the test of Mann and Whitney, also with ties: two samples of one law are told apart no more often than the
    confidence says, and few numbers, or perfectly ordered ones, have no interval without width.

    Parameters
    ----------
    first : array-like of shape (n_first,)
        Scores that are expected to be higher.
    second : array-like of shape (n_second,)
        Scores of the others.
    confidence : float, default=0.95
        Level of the interval.

    Returns
    -------
    area : float
        Chance that a score of the first kind is higher than one of the second; half of equal scores.
    interval : tuple of (float, float)
        Its ends.

    See Also
    --------
    onefold.audit.distance_attack : Uses it for members and others.

    References
    ----------
    R. G. Newcombe, "Confidence intervals for an effect size measure based on the Mann-Whitney statistic. Part
    2: asymptotic methods and evaluation", Statistics in Medicine 25, 2006, method 5.

    Examples
    --------
    >>> area, (low, high) = area_interval([3.0, 4.0, 5.0], [1.0, 2.0, 3.5])
    >>> round(area, 3), low < 0.5 < high
    (0.889, True)
    """
    check_parameter("confidence", confidence, CONFIDENCE)
    one, other = (np.asarray(part, dtype=np.float64) for part in (first, second))
    m, n = len(one), len(other)
    ordered, all_scores = np.sort(other), np.concatenate([one, other])
    below = np.searchsorted(ordered, one, "left") + np.searchsorted(ordered, one, "right")
    area = float(below.mean()) / (2 * n)
    _, equal = np.unique(all_scores, return_counts=True)
    size = float(m + n)
    untied = 1.0 - float(np.sum(equal.astype(np.float64) ** 3 - equal)) / max(size**3 - size, 1.0)
    deviations = float(ndtri((1.0 + confidence) / 2.0))
    # Half of the least change of the area when two rows with neighbouring scores change places.
    step = float(np.min(equal[:-1] + equal[1:], initial=size)) / (4.0 * m * n)

    def is_near(true: float) -> bool:
        spread = 1.0 + (size / 2.0 - 1.0) * ((1.0 - true) / (2.0 - true) + true / (1.0 + true))
        variance = untied * true * (1.0 - true) * spread / (m * n)
        return abs(area - true) - step <= deviations * math.sqrt(variance)

    ends = []
    for far in (0.0, 1.0):
        near = area
        if is_near(far):
            near = far
        for _ in range(BISECTIONS):
            middle = (near + far) / 2.0
            near, far = (middle, far) if is_near(middle) else (near, middle)
        ends.append(near)
    return area, (ends[0], ends[1])


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Compute Student's interval of a mean.

    Parameters
    ----------
    values : array-like of shape (n,)
        At least two independent numbers.
    confidence : float, default=0.95
        Level of the interval.

    Returns
    -------
    tuple of (float, float)
        Lower and upper end.

    See Also
    --------
    r2_interval : Uses it for what each row adds to R2.

    Examples
    --------
    >>> [round(end, 3) for end in mean_interval([1.0, 2.0, 3.0, 4.0])]
    [0.446, 4.554]
    """
    numbers = np.asarray(values, dtype=np.float64)
    reach = float(stdtrit(len(numbers) - 1, (1.0 + confidence) / 2.0))
    wide = reach * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return float(numbers.mean()) - wide, float(numbers.mean()) + wide


def r2_interval(
    predicted: ArrayLike, observed: ArrayLike, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Compute an interval of the explained share of the variance, by the delta method.

    Parameters
    ----------
    predicted : array-like of shape (n,)
        What was predicted, for independent rows that were not learned from.
    observed : array-like of shape (n,)
        The true numbers.
    confidence : float, default=0.95
        Level of the interval.

    Returns
    -------
    tuple of (float, float) or None
        Lower and upper end, at most 1; None for fewer than three rows, or where all numbers are equal.

    See Also
    --------
    mean_interval : The interval of a mean.

    Examples
    --------
    >>> low, high = r2_interval([1.0, 2.0, 3.0, 5.0], [1.5, 2.0, 3.5, 4.0])
    >>> round(low, 2), high
    (0.15, 1.0)
    """
    guess, truth = (np.asarray(part, dtype=np.float64) for part in (predicted, observed))
    spread = float(np.var(truth))
    if len(truth) < 3 or not spread > 0.0:
        return None
    errors = (guess - truth) ** 2
    # What each row adds to 1 - mean(e^2) / var(y), to first order.
    parts = 1.0 - errors / spread + errors.mean() * ((truth - truth.mean()) ** 2 / spread - 1.0) / spread
    low, high = mean_interval(parts, confidence)
    return low, min(high, 1.0)


def epsilon_from_rates(likely: ArrayLike, unlikely: ArrayLike, delta: float) -> Floats:
    """Compute the smallest epsilon that allows an event with these probabilities under two datasets.

    From P(E) <= e^epsilon P'(E) + delta: epsilon >= log((P(E) - delta) / P'(E)), and never below 0.

    Parameters
    ----------
    likely : array-like
        Probability of the event under one dataset, or a number below it.
    unlikely : array-like
        Its probability under the other dataset, or a number above it.
    delta : float
        The delta of the claim.

    Returns
    -------
    ndarray
        Epsilon, at least 0.
    """
    excess = np.asarray(likely, dtype=np.float64) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(np.maximum(excess, 0.0)) - np.log(np.asarray(unlikely, dtype=np.float64))
    return np.where(excess > 0, np.maximum(bound, 0.0), 0.0)


def epsilon_from_counts(
    hits: ArrayLike, false_hits: ArrayLike, trials: int, delta: float, failure: float
) -> Floats:
    """Bound epsilon from below by how often an event happened under each of two datasets.

    Parameters
    ----------
    hits : array-like
        How often it happened under the dataset where it is likelier.
    false_hits : array-like
        How often under the other.
    trials : int
        Releases of each dataset.
    delta : float
        The delta of the claim.
    failure : float
        Probability with which each of the two confidence limits may be wrong.

    Returns
    -------
    ndarray
        The bound, at least 0.
    """
    return epsilon_from_rates(
        lower_limit(hits, trials, failure), upper_limit(false_hits, trials, failure), delta
    )


def guessing_p_value(n_canaries: int, n_guesses: int, n_correct: int, epsilon: float, delta: float) -> float:
    """Bound the probability of so many right guesses in one run of an (epsilon, delta) mechanism.

    Theorem 5.2 of Steinke, Nasr and Jagielski (2023): with pure privacy the number of right guesses is
    dominated by a binomial variable B of success probability e^epsilon / (1 + e^epsilon); delta adds at most
    2 m delta max_i P(v - i <= B < v) / i for m canaries and v right guesses.

    Parameters
    ----------
    n_canaries : int
        Coins that were thrown.
    n_guesses : int
        Coins that were guessed.
    n_correct : int
        Right guesses.
    epsilon : float
        The claim.
    delta : float
        Its delta.

    Returns
    -------
    float
        The bound, at most 1.
    """
    q = expit(epsilon)
    v, r = n_correct, n_guesses
    tail = 1.0 if v == 0 else float(betainc(v, r - v + 1, q))  # P(B >= v)
    if v == 0 or delta == 0:
        return tail
    below = np.arange(v - 1, -1, -1)  # v - 1, v - 2, ..., 0
    log_choose = gammaln(r + 1) - gammaln(below + 1) - gammaln(r - below + 1)
    masses = np.exp(log_choose + xlogy(below, q) + xlog1py(r - below, -q))
    steepest = float(np.max(np.cumsum(masses) / np.arange(1, v + 1)))
    return min(1.0, tail + 2 * n_canaries * delta * steepest)


def epsilon_from_guesses(
    n_canaries: int, n_guesses: int, n_correct: int, delta: float, confidence: float = 0.95
) -> float:
    """Bound epsilon from below by the guesses of one run.

    Parameters
    ----------
    n_canaries : int
        Coins that were thrown.
    n_guesses : int
        Coins that were guessed.
    n_correct : int
        Right guesses.
    delta : float
        The delta of the claim.
    confidence : float, default=0.95
        Probability that the bound holds.

    Returns
    -------
    float
        The bound, at least 0.

    Examples
    --------
    >>> round(epsilon_from_guesses(n_canaries=100, n_guesses=100, n_correct=90, delta=0.0), 3)
    1.631
    """
    _check_counts(n_correct, n_guesses)
    _check_counts(n_guesses, n_canaries)
    check_parameter("delta", delta, DELTA)
    check_parameter("confidence", confidence, CONFIDENCE)
    failure = 1 - confidence

    def rejected(epsilon: float) -> bool:
        return guessing_p_value(n_canaries, n_guesses, n_correct, epsilon, delta) <= failure

    if not rejected(0.0):
        return 0.0
    low, high = 0.0, LARGEST_EPSILON
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


def _check_counts(part: int, whole: int) -> None:
    if not (0 <= part <= whole and whole >= 1):
        raise InvalidInputError("counts must satisfy 0 <= part <= whole, with at least one trial")
