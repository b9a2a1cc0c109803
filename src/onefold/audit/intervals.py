"""Exact binomial statements, and what they say about epsilon.

Everything here is finite-sample: no normal approximation, no asymptotics.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, expit, gammaln, xlog1py, xlogy

from onefold._base.arrays import Floats
from onefold._base.validation import Number, check_parameter
from onefold.exceptions import InvalidInputError

__all__ = ["clopper_pearson", "epsilon_from_guesses", "epsilon_from_rates", "guessing_p_value"]

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
