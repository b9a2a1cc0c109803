"""Membership inference by shadow models: the likelihood-ratio attack of Carlini et al. (2022).

A distance that is small says little by itself: some points are easy for every model. Shadow models, fitted on
random halves of the data, show for each point how it looks when it is in and when it is out; the attack asks
which of the two the audited model resembles.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from onefold._base.arrays import Floats, Index, Labels, Mask
from onefold._base.parallel import run_parallel
from onefold._base.validation import OneOf, Whole, check_parameter
from onefold.audit.density import sample_rows
from onefold.audit.membership import AttackResult, distance_attack
from onefold.exceptions import InvalidInputError
from onefold.privacy.samplers import generator

__all__ = ["LikelihoodRatioAttack", "likelihood_ratio_attack", "own_class_score"]

VARIANTS = ("online", "offline")
# Fewer shadow models than this on one side: a variance of each point's own would be mostly chance.
ENOUGH_FOR_VARIANCES = 32
SMALLEST_SHARE = 1e-9  # votes of a forest are exactly 0 or 1: their log-odds must stay comparable

Fit = Callable[[Floats, Labels, int], Any]
Score = Callable[[Any, Floats, Labels], ArrayLike]


@dataclass(frozen=True)
class LikelihoodRatioAttack:
    """Outcome of an attack with shadow models; made by :func:`likelihood_ratio_attack`.

    Parameters
    ----------
    result : AttackResult
        The attack by likelihood ratios.
    baseline : AttackResult
        The attack by the same scores without shadow models: one threshold for all points.
    variant : str
        "online" or "offline".
    n_shadows : int
        Number of shadow models.
    log_ratios : ndarray of shape (n_samples,)
        For each point: large says member.
    members : ndarray of shape (n_samples,)
        Which points the audited model was fitted on.

    See Also
    --------
    likelihood_ratio_attack : Make the attack.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    >>> attack = likelihood_ratio_attack(KNeighborsClassifier(3), X, y, n_shadows=4, random_state=0)
    >>> attack.variant, int(attack.members.sum())
    ('online', 30)
    """

    result: AttackResult
    baseline: AttackResult
    variant: str
    n_shadows: int
    log_ratios: Floats = field(repr=False)
    members: Mask = field(repr=False)


def own_class_score(model: Any, X: Floats, y: Labels) -> Floats:
    """Score how much a classifier takes each row for its own class, on a scale that a normal law fits.

    The score is minus the distance to the own class where the model has ``distances``; else the log-odds of
    the own class (``predict_proba``); else its margin over the best other class (``decision_function``).

    Parameters
    ----------
    model : object
        A fitted classifier.
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of shape (n_samples,)
        Their classes.

    Returns
    -------
    ndarray of shape (n_samples,)
        Scores, large where the model looks sure.

    See Also
    --------
    likelihood_ratio_attack : Uses this score by default.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 0, 1, 1])
    >>> model = KNeighborsClassifier(2).fit(X, y)
    >>> (own_class_score(model, X, y) > 0).tolist()
    [True, True, True, True]
    """
    classes = np.asarray(model.classes_)
    own = np.searchsorted(classes, y)
    own = np.minimum(own, len(classes) - 1)
    if not np.array_equal(classes[own], y):
        raise InvalidInputError("every class must be known to every model: too few rows of some class")
    rows = np.arange(len(y))
    if hasattr(model, "distances"):
        return -np.asarray(model.distances(X), dtype=np.float64)[rows, own]
    if hasattr(model, "predict_proba"):
        return _log_odds(np.asarray(model.predict_proba(X), dtype=np.float64), own)
    values = np.asarray(model.decision_function(X), dtype=np.float64)
    if values.ndim == 1:  # two classes: the advantage of the second
        return np.where(own == 1, values, -values)
    mine = values[rows, own]
    values[rows, own] = -np.inf
    return np.asarray(mine - values.max(axis=1))


def likelihood_ratio_attack(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    score: Score | None = None,
    members: ArrayLike | None = None,
    variant: str = "online",
    n_shadows: int = 16,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    random_state: int | np.random.Generator | None = None,
) -> LikelihoodRatioAttack:
    """Attack a model that is fitted here on half of the data, with shadow models fitted on other halves.

    Parameters
    ----------
    model : classifier or function
        A classifier, cloned and fitted (its ``random_state`` is set where it has one), or a function
        ``fit(X, y, seed)`` that returns a fitted model: anything, noise and fabrication included.
    X : array-like of shape (n_samples, n_features)
        Points, at least four of each class.
    y : array-like of shape (n_samples,)
        Their classes.
    score : callable, default=None
        ``score(fitted, X, y)``: one number for each row, large where it looks known; None takes
        :func:`own_class_score`. It should be roughly normal over models.
    members : ndarray of bool of shape (n_samples,), default=None
        Rows the audited model is fitted on; None takes a random half of each class.
    variant : {"online", "offline"}, default="online"
        Online: compare the fits with and without the point. Offline: only the fits without it, as by somebody
        who prepared the shadow models before knowing whom to look for; it is weaker.
    n_shadows : int, default=16
        An even number of shadow models, in pairs on complementary halves: each point is in half of them.
    confidence : float, default=0.95
        Level of the intervals.
    n_jobs : int or None, default=None
        Threads, one model each.
    random_state : int, Generator or None, default=None
        Seeds the halves and the models; the number of threads changes nothing.

    Returns
    -------
    LikelihoodRatioAttack
        The attack, and a baseline without shadow models.

    See Also
    --------
    distance_attack : An attack without shadow models.

    Notes
    -----
    It bounds nothing: a better attack may exist. A failed attack is no proof of privacy; a successful one
    is a proof of leakage.

    References
    ----------
    N. Carlini et al., "Membership inference attacks from first principles", IEEE S&P 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    >>> attack = likelihood_ratio_attack(KNeighborsClassifier(1), X, y, n_shadows=4, random_state=0)
    >>> attack.baseline.auc > 0.6  # nearest neighbours know their own rows
    True
    """
    check_parameter("n_shadows", n_shadows, Whole(2))
    check_parameter("variant", variant, OneOf(VARIANTS))
    if n_shadows % 2:
        raise InvalidInputError("n_shadows must be even: shadow models come in pairs on complementary halves")
    rows, labels = sample_rows("X", X, at_least=2), np.asarray(y)
    if labels.shape != (len(rows),):
        raise InvalidInputError("y must hold one class for each row of X")
    rng, fit, measure = generator(random_state), _fitter(model), score or own_class_score
    chosen = _half(labels, rng) if members is None else _mask(members, len(rows))
    halves = [half for _ in range(n_shadows // 2) for half in _pair(labels, rng)]
    seeds = rng.integers(2**31, size=n_shadows + 1).tolist()

    def scores_of(job: tuple[Mask, int]) -> Floats:
        inside, seed = job
        found = np.asarray(measure(fit(rows[inside], labels[inside], seed), rows, labels), dtype=np.float64)
        if found.shape != (len(rows),) or not np.isfinite(found).all():
            raise InvalidInputError("score must return one finite number for each row")
        return found

    jobs = list(zip([chosen, *halves], seeds, strict=True))
    target, *others = run_parallel(scores_of, jobs, n_jobs, "fitting shadow models", None)
    ratios = _log_ratios(target, np.stack(others), np.stack(halves), variant)
    return LikelihoodRatioAttack(
        result=distance_attack(ratios[chosen], ratios[~chosen], larger_is_member=True, confidence=confidence),
        baseline=distance_attack(
            target[chosen], target[~chosen], larger_is_member=True, confidence=confidence
        ),
        variant=variant,
        n_shadows=n_shadows,
        log_ratios=ratios,
        members=chosen,
    )


def _log_ratios(target: Floats, scores: Floats, inside: Mask, variant: str) -> Floats:
    """Compute the log-likelihood ratio of in against out; offline the deviations above the out-mean."""
    out_mean, out_deviation = _normal_fit(scores, ~inside)
    if variant == "offline":
        return np.asarray((target - out_mean) / out_deviation)
    in_mean, in_deviation = _normal_fit(scores, inside)
    within = -0.5 * ((target - in_mean) / in_deviation) ** 2 - np.log(in_deviation)
    without = -0.5 * ((target - out_mean) / out_deviation) ** 2 - np.log(out_deviation)
    return np.asarray(within - without)


def _normal_fit(scores: Floats, used: Mask) -> tuple[Floats, Floats]:
    """Compute mean and deviation of each point's scores over the models that are used for it."""
    counts = used.sum(axis=0)
    means = np.where(used, scores, 0.0).sum(axis=0) / counts
    squares = np.where(used, (scores - means) ** 2, 0.0).sum(axis=0)
    if counts.min() >= ENOUGH_FOR_VARIANCES:
        variances = squares / (counts - 1)
    else:
        # One variance for all points; with a single model on each side only the spread over points is left.
        freedom = float((counts - 1).sum())
        shared = squares.sum() / freedom if freedom else scores.var()
        variances = np.full(len(counts), shared)
    # A model that answers the same whatever the half must give a ratio of 1, not 0 / 0.
    floor = 1e-12 * max(float(np.mean(scores**2)), 1e-300)
    return means, np.sqrt(np.maximum(variances, floor))


def _fitter(model: Any) -> Fit:
    if hasattr(model, "fit") and hasattr(model, "get_params"):

        def fit(X: Floats, y: Labels, seed: int) -> Any:
            fresh = clone(model)
            names = [n for n in fresh.get_params() if n == "random_state" or n.endswith("__random_state")]
            return fresh.set_params(**dict.fromkeys(names, seed)).fit(X, y)

        return fit
    if not callable(model):
        raise InvalidInputError("model must be a classifier or a function fit(X, y, seed)")
    function: Fit = model
    return function


def _mask(members: ArrayLike, n: int) -> Mask:
    mask = np.asarray(members)
    if mask.dtype != bool or mask.shape != (n,) or mask.all() or not mask.any():
        raise InvalidInputError("members must be a mask over the rows with both members and others")
    return mask


def _half(labels: Labels, rng: np.random.Generator) -> Mask:
    """Choose a random half of each class; of an odd class the larger half by a coin."""
    inside = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        if len(rows) < 4:
            raise InvalidInputError("the attack needs at least four rows of every class")
        inside[rows[: (len(rows) + int(rng.integers(2))) // 2]] = True
    return inside


def _pair(labels: Labels, rng: np.random.Generator) -> tuple[Mask, Mask]:
    first = _half(labels, rng)
    return first, ~first


def _log_odds(probabilities: Floats, own: Index) -> Floats:
    """Compute log p - log(1 - p) for the own class, 1 - p summed over the others to keep its digits."""
    rows = np.arange(len(own))
    mine = probabilities[rows, own].copy()
    probabilities[rows, own] = 0.0
    others = probabilities.sum(axis=1)
    log_odds: Floats = np.log(np.maximum(mine, SMALLEST_SHARE)) - np.log(np.maximum(others, SMALLEST_SHARE))
    return log_odds
