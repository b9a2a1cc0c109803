"""Membership inference by distances: can they tell who was in the training data?

The documents' score (000 eq. 69), the attack it stands for, and both for a fitted classifier in one call.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from onefold._base.arrays import Floats, Index
from onefold._base.progress import track
from onefold._base.validation import check_parameter
from onefold.audit.density import DensityDifference, density_difference, numbers_1d, sample_rows
from onefold.audit.intervals import CONFIDENCE, clopper_pearson
from onefold.exceptions import InvalidInputError

__all__ = [
    "AttackResult",
    "MembershipAudit",
    "OperatingPoint",
    "audit_membership",
    "distance_attack",
    "membership_inference_score",
]

FALSE_POSITIVE_RATES = (0.001, 0.01)
BLOCK_ROWS = 1000  # handed to the model at once, so that a progress bar moves
FEWEST_ROWS = 5
CAVEATS = (
    "Training and test rows that differ for another reason (time, place, preparation) look like a leak here.",
    "This is the simplest attack there is. Small numbers are no proof of privacy: shadow models see more, "
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
        DeLong interval (large samples) of ``auc``.
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

    @property
    def tpr_at_01_percent(self) -> float:
        """True-positive rate at 0.1 % false positives."""
        return self.points[0].tpr

    @property
    def tpr_at_1_percent(self) -> float:
        """True-positive rate at 1 % false positives."""
        return self.points[1].tpr

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the ROC curve as plain values for JSON.

        Returns
        -------
        dict
            The fields by name; one dict per operating point.
        """
        points = [
            {
                "fpr_limit": point.fpr_limit,
                "fpr": point.fpr,
                "tpr": point.tpr,
                "tpr_interval": list(point.tpr_interval),
                "resolved": point.resolved,
            }
            for point in self.points
        ]
        return {
            "auc": self.auc,
            "auc_interval": list(self.auc_interval),
            "confidence": self.confidence,
            "n_members": self.n_members,
            "n_nonmembers": self.n_nonmembers,
            "points": points,
        }


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
    fpr, tpr, thresholds = _roc(sign * members, sign * others)
    auc, interval = _auc(sign * members, sign * others, confidence)
    points = tuple(
        _operating_point(limit, fpr, tpr, sign * thresholds, len(members), len(others), confidence)
        for limit in FALSE_POSITIVE_RATES
    )
    n_members, n_others = len(members), len(others)
    return AttackResult(auc, interval, points, confidence, n_members, n_others, fpr, tpr, sign * thresholds)


def _roc(members: Floats, others: Floats) -> tuple[Floats, Floats, Floats]:
    """Return corners for thresholds from above all scores downwards; equal scores move together."""
    thresholds = np.unique(np.concatenate([members, others]))[::-1]
    found = np.searchsorted(np.sort(-members), -thresholds, side="right") / len(members)
    accused = np.searchsorted(np.sort(-others), -thresholds, side="right") / len(others)
    zero = np.zeros(1)
    return (
        np.concatenate([zero, accused]),
        np.concatenate([zero, found]),
        np.concatenate([[np.inf], thresholds]),
    )


def _auc(members: Floats, others: Floats, confidence: float) -> tuple[float, tuple[float, float]]:
    """Compute the Mann-Whitney probability and its interval (DeLong et al. 1988)."""
    m, n = len(members), len(others)
    beaten = _share_below(others, members)
    beating = 1 - _share_below(members, others)
    auc = float(beaten.mean())
    variance = _variance(beaten) / m + _variance(beating) / n
    reach = float(ndtri((1 + confidence) / 2) * np.sqrt(variance))
    return auc, (max(0.0, auc - reach), min(1.0, auc + reach))


def _share_below(sample: Floats, values: Floats) -> Floats:
    """Return the share of the sample below each value, ties counted half."""
    ordered = np.sort(sample)
    below = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return np.asarray(below / (2 * len(sample)))


def _variance(values: Floats) -> float:
    # One value says nothing about its spread: take the largest a share can have.
    return float(values.var(ddof=1)) if len(values) > 1 else 0.25


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
    """What the distances of a classifier tell about who was in its training data.

    Made by :func:`audit_membership`.

    Parameters
    ----------
    attack : AttackResult
        Attack on the distance to the nearest class.
    own_class_attack : AttackResult or None
        Attack on the distance to the class each row belongs to, by somebody who knows it; needs labels.
    difference : DensityDifference
        Difference of the two densities of distances; its ``l2`` is the membership-inference score.
    accuracies : tuple of (float, float) or None
        Accuracy on the training and on the test rows; needs labels.
    n_shared : int
        Test rows that are training rows, too: they blur every number.
    distances : tuple of (ndarray, ndarray)
        Distances of the training and of the test rows to their nearest class.

    See Also
    --------
    audit_membership : Make the audit.
    onefold.report.membership_page : Show the audit as an HTML page.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import AutoencoderClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> audit = audit_membership(AutoencoderClassifier().fit(X[:20], y[:20]), X[:20], X[20:])
    >>> [name for name, value, interval in audit.rows()][0]
    'AUC, distance to the nearest class'
    """

    attack: AttackResult
    own_class_attack: AttackResult | None
    difference: DensityDifference
    accuracies: tuple[float, float] | None
    n_shared: int
    distances: tuple[Floats, Floats] = field(repr=False)

    @property
    def score(self) -> float:
        """The membership-inference score, 000 eq. 69."""
        return self.difference.l2

    def rows(self) -> list[tuple[str, float, str]]:
        """List name, value and interval of every number.

        Returns
        -------
        list of tuple of (str, float, str)
            One line per number; the interval is "" where there is none.
        """
        found = _attack_rows("nearest class", self.attack)
        if self.own_class_attack is not None:
            found += _attack_rows("own class", self.own_class_attack)
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
        found = [100 * point.tpr for point in attack.points]
        spoken = [
            f"AUC {attack.auc:.3f}: of one training row and one test row, the training row is the nearer one "
            f"in {100 * attack.auc:.1f} % of all pairs. 50 % is guessing.",
            f"Accusing at most 1 % of outsiders, this attack finds {found[1]:.2f} % of the training rows; at "
            f"most 0.1 %, {found[0]:.2f} %. Without a leak these would be 1 % and 0.1 %.",
        ]
        if not attack.points[0].resolved:
            few = f"{attack.n_nonmembers} test rows are too few to see a false-positive rate of 0.1 %"
            spoken.append(f"{few}: 1000 are needed.")
        spoken.append(
            "The membership-inference score is the area under the squared difference of the two densities of "
            "distances. Its unit is one over that of the distances: compare it only between models of data "
            "of the same scale."
        )
        if self.n_shared:
            spoken.append(f"{self.n_shared} test row(s) are training rows: the leak is larger than shown.")
        return [*spoken, *CAVEATS]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the curves as plain values for JSON.

        Returns
        -------
        dict
            Score, attacks, accuracies, shared rows and notes.
        """
        own = None if self.own_class_attack is None else self.own_class_attack.to_dict()
        accuracies = (
            None if self.accuracies is None else dict(zip(("train", "test"), self.accuracies, strict=True))
        )
        return {
            "membership_inference_score": self.score,
            "attack": self.attack.to_dict(),
            "own_class_attack": own,
            "accuracy": accuracies,
            "shared_rows": self.n_shared,
            "notes": self.notes(),
        }


def audit_membership(
    classifier: Any,
    X_train: ArrayLike,
    X_test: ArrayLike,
    y_train: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    show_progress: bool | None = False,
) -> MembershipAudit:
    """Attack a fitted classifier through its distances.

    Parameters
    ----------
    classifier : object
        A fitted classifier with ``distances``, such as one of onefold's.
    X_train : array-like of shape (n_train, n_features)
        The rows it was fitted on; at least five.
    X_test : array-like of shape (n_test, n_features)
        Rows of the same origin that it has not seen; at least five.
    y_train : array-like of shape (n_train,), default=None
        Classes of the training rows: adds the attack on the own class, and the accuracies.
    y_test : array-like of shape (n_test,), default=None
        Classes of the test rows; to be given together with ``y_train``.
    confidence : float, default=0.95
        Level of the intervals.
    show_progress : bool or None, default=False
        A bar on standard error; None: on a terminal, from two seconds on.

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
    if not hasattr(classifier, "distances"):
        raise InvalidInputError(f"a {type(classifier).__name__} has no distances to attack")
    if (y_train is None) != (y_test is None):
        raise InvalidInputError("give the classes of both the training and the test rows, or of neither")
    tables = sample_rows("X_train", X_train, FEWEST_ROWS), sample_rows("X_test", X_test, FEWEST_ROWS)
    train, test = (_distances(classifier, rows, show_progress) for rows in tables)
    nearest = train.min(axis=1), test.min(axis=1)
    own, accuracies = None, None
    if y_train is not None and y_test is not None:
        codes = [_codes(classifier, labels) for labels in (y_train, y_test)]
        own = distance_attack(_own(train, codes[0]), _own(test, codes[1]), confidence=confidence)
        accuracies = _accuracy(train, codes[0]), _accuracy(test, codes[1])
    return MembershipAudit(
        attack=distance_attack(*nearest, confidence=confidence),
        own_class_attack=own,
        difference=density_difference(*nearest),
        accuracies=accuracies,
        n_shared=_shared(*tables),
        distances=nearest,
    )


def _distances(classifier: Any, rows: Floats, show: bool | None) -> Floats:
    starts = range(0, len(rows), BLOCK_ROWS)
    bar = track(starts, len(starts), "measuring distances", show)
    parts = [classifier.distances(rows[start : start + BLOCK_ROWS]) for start in bar]
    return np.concatenate(parts).astype(np.float64)


def _codes(classifier: Any, labels: ArrayLike) -> Index:
    """Return the position of each label among the classes; a number equals the text that spells it."""
    places = {str(label): place for place, label in enumerate(classifier.classes_)}
    codes = [places.get(str(label), -1) for label in np.asarray(labels).tolist()]
    if -1 in codes:
        raise InvalidInputError("there are classes the model does not know")
    return np.array(codes, dtype=np.intp)


def _own(distances: Floats, codes: Index) -> Floats:
    if len(codes) != len(distances):
        raise InvalidInputError("there must be one class for each row")
    return distances[np.arange(len(codes)), codes]


def _accuracy(distances: Floats, codes: Index) -> float:
    return float(np.mean(distances.argmin(axis=1) == codes))


def _shared(train: Floats, test: Floats) -> int:
    known = {row.tobytes() for row in train + 0.0}  # + 0.0: the two zeros are one number
    return sum(row.tobytes() in known for row in test + 0.0)


def _attack_rows(kind: str, attack: AttackResult) -> list[tuple[str, float, str]]:
    rows = [(f"AUC, distance to the {kind}", attack.auc, _interval(attack.auc_interval))]
    for point in reversed(attack.points):
        name = f"members found at {100 * point.fpr_limit:g} % false positives, {kind}"
        rows.append((name, point.tpr, _interval(point.tpr_interval)))
    return rows


def _interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4f} to {ends[1]:.4f}"
