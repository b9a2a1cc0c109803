"""One audit of a fitted classifier: every number on membership, and plain words on what they mean."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.progress import track
from onefold.audit._samples import Floats, sample_rows
from onefold.audit.density import DensityDifference, density_difference
from onefold.audit.membership import AttackResult, distance_attack
from onefold.exceptions import InvalidInputError

__all__ = ["MembershipAudit", "audit_membership"]

BLOCK_ROWS = 1000  # handed to the model at once, so that a progress bar moves
FEWEST_ROWS = 5
CAVEATS = (
    "Training and test rows that differ for another reason (time, place, preparation) look like a leak here.",
    "This is the simplest attack there is. Small numbers are no proof of privacy: shadow models see more, "
    "and only noise with a guarantee bounds every attack.",
)


@dataclass(frozen=True)
class MembershipAudit:
    """What the distances of a classifier tell about who was in its training data.

    Attributes
    ----------
    attack : AttackResult
        On the distance to the nearest class.
    own_class_attack : AttackResult or None
        On the distance to the class each row belongs to, by somebody who knows it; needs labels.
    difference : DensityDifference
        Of the two densities of distances; its ``l2`` is the membership-inference score.
    accuracies : (float, float) or None
        On the training and on the test rows; needs labels.
    n_shared : int
        Test rows that are training rows, too: they blur every number.
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
        """Name, value and interval of every number."""
        found = _attack_rows("nearest class", self.attack)
        if self.own_class_attack is not None:
            found += _attack_rows("own class", self.own_class_attack)
        found.append(("membership-inference score", self.score, ""))
        if self.accuracies is not None:
            found += [("accuracy, training rows", self.accuracies[0], "")]
            found += [("accuracy, test rows", self.accuracies[1], "")]
        return found

    def notes(self) -> list[str]:
        """What the numbers mean, and what they do not mean."""
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
            spoken.append(
                f"{self.n_shared} test row(s) are training rows, too: the leak is larger than shown."
            )
        return [*spoken, *CAVEATS]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the curves, ready for JSON."""
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
    classifier : fitted classifier with ``distances``
        One of onefold's.
    X_train, X_test : arrays of shape (n, p)
        The rows it was fitted on, and rows of the same source it has not seen; at least five each.
    y_train, y_test : arrays of shape (n,), optional
        Their classes: adds the attack on the own class, and the accuracies.
    confidence : float, default=0.95
        Level of the intervals.
    show_progress : bool or None, default=False
        A bar on standard error; None: on a terminal, from two seconds on.

    Returns
    -------
    MembershipAudit
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


def _codes(classifier: Any, labels: ArrayLike) -> NDArray[np.intp]:
    """Position of each label among the classes; numbers and text that spell the same are the same."""
    places = {str(label): place for place, label in enumerate(classifier.classes_)}
    codes = [places.get(str(label), -1) for label in np.asarray(labels).tolist()]
    if -1 in codes:
        raise InvalidInputError("there are classes the model does not know")
    return np.array(codes, dtype=np.intp)


def _own(distances: Floats, codes: NDArray[np.intp]) -> Floats:
    if len(codes) != len(distances):
        raise InvalidInputError("there must be one class for each row")
    return distances[np.arange(len(codes)), codes]


def _accuracy(distances: Floats, codes: NDArray[np.intp]) -> float:
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
