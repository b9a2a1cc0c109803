"""Membership inference by answers: can they tell who was in the training data?

The documents' score (000 eq. 69), the attack it stands for, and all that a fitted classifier answers in one
call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import roc_curve

from onefold._base.arrays import Floats, Index, Labels, Mask
from onefold._base.parallel import run_parallel
from onefold._base.validation import OneOf, Whole, check_parameter
from onefold.audit.density import DensityDifference, density_difference, numbers_1d, sample_rows
from onefold.audit.intervals import CONFIDENCE, area_interval, clopper_pearson
from onefold.exceptions import InvalidInputError
from onefold.privacy.samplers import generator
from onefold.tables import Schema

__all__ = [
    "AttackResult",
    "LikelihoodRatioAttack",
    "MembershipAudit",
    "OperatingPoint",
    "audit_membership",
    "distance_attack",
    "likelihood_ratio_attack",
    "membership_inference_score",
    "own_class_score",
]

FALSE_POSITIVE_RATES = (0.001, 0.01)
FEWEST_ROWS = 5
# What can be attacked; RIGHT is 1 where the predicted class is the true one.
NEAREST, OWN = DISTANCES = ("distance to the nearest class", "distance to the own class")
LARGEST, SURE, RIGHT = "largest probability", "probability of the own class", "predicted class"
CAVEATS = (
    "Training and test rows that differ for another reason (time, place, preparation) look like a leak here.",
    "These are the simplest attacks. Small numbers are no proof of privacy: shadow models see more, "
    "and only noise with a guarantee bounds every attack.",
)


def membership_inference_score(
    train_distances: ArrayLike, test_distances: ArrayLike, *, random_state: int = 0
) -> float:
    """Integrate the squared difference between the densities of two sets of distances (000 eq. 69).

    Parameters
    ----------
    train_distances : array-like of shape (n_train,)
        Distance of each training row to the nearest class (000 eq. 67-68):
        ``classifier.distances(X).min(axis=1)``.
    test_distances : array-like of shape (n_test,)
        The same for rows that were not in the training data.
    random_state : int, default=0
        Seed of the cross-validation folds; the same seed gives the same score.

    Returns
    -------
    float
        0 when membership leaves no trace in the distances. **It has a unit**, one over that of the distances:
        the score of ``c * distances`` is the score divided by ``c``, so scores compare only between distances
        of one scale, and there is no upper limit. AUC and true-positive rates (:func:`distance_attack`) have
        no unit. Two samples of one distribution do not give exactly 0 but a little more, about 0.03, 0.004
        and 0.0002 for 100, 1000 and 10000 standard normal numbers each.

    See Also
    --------
    distance_attack : Rates of an attack on the same distances, without a unit.
    audit_membership : Score and attacks for a fitted classifier in one call.

    References
    ----------
    Document 000, eq. 67-69.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> train, test = rng.normal(1.0, 0.1, size=200), rng.normal(2.0, 0.1, size=200)
    >>> membership_inference_score(train, test) > 1.0
    True
    """
    train = numbers_1d("train_distances", train_distances, at_least=5)
    test = numbers_1d("test_distances", test_distances, at_least=5)
    return density_difference(train, test, random_state=random_state).l2


@dataclass(frozen=True)
class OperatingPoint:
    """What an attack finds when it may accuse few outsiders.

    Parameters
    ----------
    fpr_limit : float
        The rate of false accusations allowed.
    fpr : float
        The rate reached, at most the limit.
    tpr : float
        Share of members found.
    tpr_interval : tuple of (float, float)
        Clopper-Pearson interval of ``tpr`` at this threshold; that the threshold itself was read off the same
        non-members is not in it.
    threshold : float
        A score at or beyond it is called a member; infinite when nobody is.
    resolved : bool
        Whether there are enough non-members to see ``fpr_limit`` at all (one false alarm stays within it).

    See Also
    --------
    AttackResult : Holds two operating points.

    Examples
    --------
    >>> point = distance_attack([1.0, 2.0, 3.0], [2.5, 4.0]).points[1]
    >>> point.fpr_limit, round(point.tpr, 3), point.resolved
    (0.01, 0.667, False)
    """

    fpr_limit: float
    fpr: float
    tpr: float
    tpr_interval: tuple[float, float]
    threshold: float
    resolved: bool


@dataclass(frozen=True)
class AttackResult:
    """How well one number per point separates members from others.

    Parameters
    ----------
    auc : float
        Probability that a member looks more like a member than an outsider does, ties counted half; 0.5 is
        guessing.
    auc_interval : tuple of (float, float)
        Interval of ``auc``. Of members and others of one law it excludes 0.5 no more often than the
        confidence says.
    points : tuple of OperatingPoint
        At false-positive rates 0.1 % and 1 %.
    confidence : float
        Level of all intervals.
    n_members : int
        Members that were scored.
    n_nonmembers : int
        Non-members that were scored.
    fpr : ndarray
        False-positive rates of the ROC curve from (0, 0) to (1, 1), one corner for each distinct score.
    tpr : ndarray
        Its true-positive rates.
    thresholds : ndarray
        The score at each corner.

    See Also
    --------
    distance_attack : Makes the result from scores.

    Examples
    --------
    >>> result = distance_attack([1.0, 2.0, 3.0], [2.5, 4.0])
    >>> round(result.auc, 3), result.n_members
    (0.833, 3)
    """

    auc: float
    auc_interval: tuple[float, float]
    points: tuple[OperatingPoint, ...]
    confidence: float
    n_members: int
    n_nonmembers: int
    fpr: Floats = field(repr=False)
    tpr: Floats = field(repr=False)
    thresholds: Floats = field(repr=False)

    def verdict(self, by: str) -> str:
        """Say what follows from the interval of the AUC.

        Parameters
        ----------
        by : str
            What was attacked.

        Returns
        -------
        str
            One sentence.
        """
        low, high = self.auc_interval
        seen = low > 0.5 or high < 0.5
        return (
            f"AUC {self.auc:.3f} ({100 * self.confidence:.3g} % interval {low:.3f} to {high:.3f}; 0.5 is "
            f"guessing) by the {by}: "
            + (
                "members can be told from outsiders."
                if seen
                else "no leak was seen; other attacks may see one."
            )
        )

    def rows(self, by: str) -> list[tuple[str, float, str]]:
        """List name, value and interval of every number.

        Parameters
        ----------
        by : str
            What was attacked.

        Returns
        -------
        list of tuple of (str, float, str)
            One line per number.
        """
        found = [(f"AUC, {by}", self.auc, _interval(self.auc_interval))]
        for point in reversed(self.points):
            heading = f"members found at {100 * point.fpr_limit:g} % false positives"
            found.append((heading, point.tpr, _interval(point.tpr_interval)))
        return found


def distance_attack(
    member_scores: ArrayLike,
    nonmember_scores: ArrayLike,
    *,
    larger_is_member: bool = False,
    confidence: float = 0.95,
) -> AttackResult:
    """Call near points members: the simplest membership-inference attack, over all thresholds.

    Parameters
    ----------
    member_scores : array-like of shape (n_members,)
        One number for each member: by default a distance, where small says member.
    nonmember_scores : array-like of shape (n_nonmembers,)
        One number for each non-member.
    larger_is_member : bool, default=False
        True for scores of the other direction, such as likelihood ratios.
    confidence : float, default=0.95
        Level of the intervals.

    Returns
    -------
    AttackResult
        AUC, operating points and the ROC curve.

    See Also
    --------
    likelihood_ratio_attack : A sharper attack with shadow models.

    Examples
    --------
    >>> round(distance_attack([1.0, 2.0, 3.0], [2.5, 4.0]).auc, 3)
    0.833
    """
    check_parameter("confidence", confidence, CONFIDENCE)
    members = numbers_1d("member_scores", member_scores)
    others = numbers_1d("nonmember_scores", nonmember_scores)
    sign = 1.0 if larger_is_member else -1.0
    # Corners for thresholds from above all scores downwards; equal scores move together.
    sizes = len(members), len(others)
    scores = sign * np.concatenate([members, others])
    fpr, tpr, thresholds = roc_curve(np.repeat([1, 0], sizes), scores, drop_intermediate=False)
    auc, interval = area_interval(sign * members, sign * others, confidence)
    points = tuple(
        _operating_point(limit, fpr, tpr, sign * thresholds, *sizes, confidence)
        for limit in FALSE_POSITIVE_RATES
    )
    return AttackResult(auc, interval, points, confidence, *sizes, fpr, tpr, sign * thresholds)


def _operating_point(
    limit: float, fpr: Floats, tpr: Floats, thresholds: Floats, m: int, n: int, confidence: float
) -> OperatingPoint:
    last = int(np.searchsorted(fpr, limit * (1 + 1e-12), side="right")) - 1
    found = round(float(tpr[last]) * m)
    return OperatingPoint(
        fpr_limit=limit,
        fpr=float(fpr[last]),
        tpr=float(tpr[last]),
        tpr_interval=clopper_pearson(found, m, confidence),
        threshold=float(thresholds[last]),
        resolved=n * limit >= 1 - 1e-9,
    )


# --- a fitted classifier ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MembershipAudit:
    """What the answers of a classifier tell about who was in its training data.

    Made by :func:`audit_membership`.

    Parameters
    ----------
    attacks : dict of str to AttackResult
        One attack for each kind of answer, by name. Their intervals hold together.
    answers : dict of str to (ndarray, ndarray)
        What was attacked: the answers to the training and to the test rows.
    confidence : float
        Level at which all intervals hold together.
    difference : DensityDifference or None
        Difference of the two densities of distances to the nearest class; its ``l2`` is the
        membership-inference score. None for a classifier without distances.
    accuracies : tuple of (float, float) or None
        Accuracy of the predicted classes on the training and on the test rows; needs labels.
    n_shared : int
        Test rows that are training rows, too: they blur every number.

    See Also
    --------
    audit_membership : Make the audit.
    onefold.report.builders.of_membership : Make a page of the audit.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import AutoencoderClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> audit = audit_membership(AutoencoderClassifier().fit(X[:20], y[:20]), X[:20], X[20:])
    >>> list(audit.attacks)
    ['distance to the nearest class', 'largest probability']
    """

    attacks: dict[str, AttackResult]
    answers: dict[str, tuple[Floats, Floats]] = field(repr=False)
    confidence: float
    difference: DensityDifference | None
    accuracies: tuple[float, float] | None
    n_shared: int

    @property
    def strongest(self) -> str:
        """The answer whose interval is farthest from guessing; if none excludes it, whose AUC is."""

        def strength(name: str) -> tuple[float, float]:
            attack = self.attacks[name]
            low, high = attack.auc_interval
            return max(low - 0.5, 0.5 - high, 0.0), abs(attack.auc - 0.5)

        return max(self.attacks, key=strength)

    @property
    def attack(self) -> AttackResult:
        """The strongest attack."""
        return self.attacks[self.strongest]

    @property
    def verdict(self) -> str:
        """What follows from the strongest attack, in one sentence."""
        return self.attack.verdict(self.strongest)

    @property
    def score(self) -> float | None:
        """The membership-inference score, 000 eq. 69."""
        return None if self.difference is None else self.difference.l2

    def rows(self) -> list[tuple[str, float, str]]:
        """List name, value and interval of every number.

        Returns
        -------
        list of tuple of (str, float, str)
            One line per number, of members found by the strongest attack alone; the interval is "" where
            there is none.
        """
        found = [attack.rows(name)[0] for name, attack in self.attacks.items()]
        found += self.attack.rows(self.strongest)[1:]
        if self.score is not None:
            found.append(("membership-inference score", self.score, ""))
        if self.accuracies is not None:
            found += [("accuracy, training rows", self.accuracies[0], "")]
            found += [("accuracy, test rows", self.accuracies[1], "")]
        return found

    def notes(self) -> list[str]:
        """Say what the numbers mean, and what they do not mean.

        Returns
        -------
        list of str
            One or two sentences each.
        """
        attack = self.attack
        few, many = (f"{100 * p.tpr:.2f} % ({_interval(p.tpr_interval)})" for p in attack.points)
        spoken = [
            self.verdict,
            f"The strongest of {len(self.attacks)} attacks: each interval has {100 * attack.confidence:.3g} "
            f"%, so that all hold together with {100 * self.confidence:g} %.",
            f"AUC {attack.auc:.3f}: of one training row and one test row, the training row looks more like "
            f"one in {100 * attack.auc:.1f} % of all pairs.",
            f"Accusing at most 1 % of outsiders, this attack finds {many} of the training rows; at most 0.1 "
            f"%, {few}.",
        ]
        if not attack.points[0].resolved:
            short = f"{attack.n_nonmembers} test rows are too few to see a false-positive rate of 0.1 %"
            spoken.append(f"{short}: 1000 are needed.")
        if self.score is not None:
            spoken.append(
                "The membership-inference score is the area under the squared difference of the densities "
                "of distances to the nearest class. Its unit is one over that of the distances: compare it "
                "only between models of data of the same scale."
            )
        if self.n_shared:
            spoken.append(f"{self.n_shared} test row(s) are training rows: the leak is larger than shown.")
        return [*spoken, *CAVEATS]


def audit_membership(
    classifier: Any,
    X_train: Any,
    X_test: Any,
    y_train: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
) -> MembershipAudit:
    """Attack a fitted classifier through everything that it answers: distances, probabilities, classes.

    Parameters
    ----------
    classifier : object
        A fitted classifier, one of onefold's or any with ``predict``.
    X_train : array-like of shape (n_train, n_features), or table
        The rows it was fitted on, as it takes them; at least five.
    X_test : array-like of shape (n_test, n_features), or table
        Rows of the same origin that it has not seen; at least five.
    y_train : array-like of shape (n_train,), default=None
        Classes of the training rows: adds attacks by somebody who knows them, and the accuracies.
    y_test : array-like of shape (n_test,), default=None
        Classes of the test rows; to be given together with ``y_train``.
    confidence : float, default=0.95
        Level at which all intervals hold together: of k attacks each fails with a k-th of the rest
        (Bonferroni).

    Returns
    -------
    MembershipAudit
        Every number, and words on what they mean.

    See Also
    --------
    likelihood_ratio_attack : A sharper attack, which fits shadow models.

    References
    ----------
    Document 000, eq. 67-69.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import AutoencoderClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> audit = audit_membership(AutoencoderClassifier().fit(X[:20], y[:20]), X[:20], X[15:])
    >>> audit.n_shared
    5
    """
    check_parameter("confidence", confidence, CONFIDENCE)
    if (y_train is None) != (y_test is None):
        raise InvalidInputError("give the classes of both the training and the test rows, or of neither")
    schema = Schema.of(getattr(classifier, "schema", None))
    given = {"X_train": X_train, "X_test": X_test}
    rows = [sample_rows(name, schema.transform(X), FEWEST_ROWS) for name, X in given.items()]
    tables = rows if schema.plain else list(given.values())
    parts = [_answers(classifier, X, y) for X, y in zip(tables, (y_train, y_test), strict=True)]
    if not parts[0]:
        raise InvalidInputError(
            f"a {type(classifier).__name__} has no distances and no probabilities: give y_train and y_test "
            "to attack its classes"
        )
    answers = {name: (parts[0][name], parts[1][name]) for name in parts[0]}
    each = 1.0 - (1.0 - confidence) / len(answers)
    near, right = answers.get(NEAREST), answers.get(RIGHT)
    return MembershipAudit(
        attacks={
            name: distance_attack(*pair, larger_is_member=name not in DISTANCES, confidence=each)
            for name, pair in answers.items()
        },
        answers=answers,
        confidence=confidence,
        difference=None if near is None else density_difference(*near),
        accuracies=None if right is None else (float(right[0].mean()), float(right[1].mean())),
        n_shared=_shared(*rows),
    )


def _answers(classifier: Any, X: Any, y: ArrayLike | None) -> dict[str, Floats]:
    """What somebody who asks gets for each row, one number for each kind of answer."""
    found: dict[str, Floats] = {}
    predicted = _codes(classifier, classifier.predict(X))
    own = None if y is None else _codes(classifier, y)
    if own is not None and len(own) != len(predicted):
        raise InvalidInputError("there must be one class for each row")
    places = np.arange(len(predicted))
    if hasattr(classifier, "distances"):
        distances = np.asarray(classifier.distances(X), dtype=np.float64)
        found[NEAREST] = distances.min(axis=1)
        if own is not None:
            found[OWN] = distances[places, own]
    if hasattr(classifier, "predict_proba"):
        shares = np.asarray(classifier.predict_proba(X), dtype=np.float64)
        found[LARGEST] = shares.max(axis=1)
        if own is not None:
            found[SURE] = shares[places, own]
    if own is not None:
        found[RIGHT] = (predicted == own).astype(np.float64)
    return found


def _codes(
    classifier: Any, labels: ArrayLike, refusal: str = "there are classes the model does not know"
) -> Index:
    """Return the position of each label among the classes; a number equals the text that spells it."""
    places = {str(label): place for place, label in enumerate(classifier.classes_)}
    codes = [places.get(str(label), -1) for label in np.asarray(labels).tolist()]
    if -1 in codes:
        raise InvalidInputError(refusal)
    return np.array(codes, dtype=np.intp)


def _shared(train: Floats, test: Floats) -> int:
    known = {row.tobytes() for row in train + 0.0}  # + 0.0: the two zeros are one number
    return sum(row.tobytes() in known for row in test + 0.0)


def _interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4f} to {ends[1]:.4f}"


# --- shadow models: the likelihood-ratio attack of Carlini et al. (2022) ------------------------------------
#
# A distance that is small says little by itself: some points are easy for every model. Shadow models, fitted
# on random halves of the data, show for each point how it looks when it is in and when it is out; the attack
# asks which of the two the audited model resembles.

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
    >>> int(attack.members.sum())
    30
    """

    result: AttackResult
    baseline: AttackResult
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
    own = _codes(model, y, "every class must be known to every model: too few rows of some class")
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
    firsts = [_half(labels, rng) for _ in range(n_shadows // 2)]
    halves = [half for first in firsts for half in (first, ~first)]
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


def _log_odds(probabilities: Floats, own: Index) -> Floats:
    """Compute log p - log(1 - p) for the own class, 1 - p summed over the others to keep its digits."""
    rows = np.arange(len(own))
    mine = probabilities[rows, own].copy()
    probabilities[rows, own] = 0.0
    others = probabilities.sum(axis=1)
    log_odds: Floats = np.log(np.maximum(mine, SMALLEST_SHARE)) - np.log(np.maximum(others, SMALLEST_SHARE))
    return log_odds
