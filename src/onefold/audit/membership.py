"""Can distances tell who was in the training data? The documents' score, and the attack it stands for."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from onefold.audit._samples import Floats, check_share, numbers_1d
from onefold.audit.density import density_difference
from onefold.audit.intervals import clopper_pearson

__all__ = ["AttackResult", "OperatingPoint", "distance_attack", "membership_inference_score"]

FALSE_POSITIVE_RATES = (0.001, 0.01)


def membership_inference_score(
    train_distances: ArrayLike, test_distances: ArrayLike, *, random_state: int = 0
) -> float:
    """Integral of the squared difference between the densities of two sets of distances (000 eq. 69).

    Parameters
    ----------
    train_distances, test_distances : array of shape (n,)
        Distance of each training and of each test point to the nearest class (000 eq. 67-68):
        ``classifier.distances(X).min(axis=1)``.
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

    """
    train = numbers_1d("train_distances", train_distances, at_least=5)
    test = numbers_1d("test_distances", test_distances, at_least=5)
    return density_difference(train, test, random_state=random_state).l2


@dataclass(frozen=True)
class OperatingPoint:
    """What an attack finds when it may accuse few outsiders.

    Attributes
    ----------
    fpr_limit : float
        The rate of false accusations allowed.
    fpr : float
        The rate reached, at most the limit.
    tpr : float
        Share of members found.
    tpr_interval : (float, float)
        Clopper-Pearson interval of ``tpr`` at this threshold; that the threshold itself was read off the same
        non-members is not in it.
    threshold : float
        A score at or beyond it is called a member; infinite when nobody is.
    resolved : bool
        Whether there are enough non-members to see ``fpr_limit`` at all (one false alarm stays within it).
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

    Attributes
    ----------
    auc : float
        Probability that a member looks more like a member than an outsider does, ties counted half; 0.5 is
        guessing.
    auc_interval : (float, float)
        DeLong interval (large samples) of ``auc``.
    points : tuple of OperatingPoint
        At false-positive rates 0.1 % and 1 %.
    confidence : float
        Level of all intervals.
    n_members, n_nonmembers : int
    fpr, tpr, thresholds : ndarray
        The ROC curve from (0, 0) to (1, 1), one corner for each distinct score.
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
        """Everything but the ROC curve, ready for JSON."""
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
    member_scores, nonmember_scores : array of shape (n,)
        One number for each member and each non-member: by default distances, where small says member.
    larger_is_member : bool, default=False
        True for scores of the other direction, such as likelihood ratios.
    confidence : float, default=0.95
        Level of the intervals.

    Returns
    -------
    AttackResult

    Examples
    --------
    >>> distance_attack([1.0, 2.0, 3.0], [2.5, 4.0]).auc
    0.8333333333333334
    """
    check_share("confidence", confidence)
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
    """Corners of the curve for thresholds from above all scores downwards; equal scores move together."""
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
    """Mann-Whitney probability, and its interval from the variance of the placements (DeLong et al. 1988)."""
    m, n = len(members), len(others)
    beaten = _share_below(others, members)
    beating = 1 - _share_below(members, others)
    auc = float(beaten.mean())
    variance = _variance(beaten) / m + _variance(beating) / n
    reach = float(ndtri((1 + confidence) / 2) * np.sqrt(variance))
    return auc, (max(0.0, auc - reach), min(1.0, auc + reach))


def _share_below(sample: Floats, values: Floats) -> Floats:
    """Share of the sample below each value, ties counted half."""
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
