"""What privacy costs a learner: scores over lam, for the optimal noise and for others (002 Fig. 5-7)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.utils import check_array, check_consistent_length

from onefold._base.progress import track
from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.privacy import FisherGaussian
from onefold.privacy.samplers import RandomState, generator
from onefold.privacy.sensitivity import Domain
from onefold.release.choosing import Strength
from onefold.release.svm import RobustSVM

__all__ = ["NOISES", "Curve", "sweep"]

Floats = NDArray[np.float64]
Draw = Callable[[FisherGaussian, tuple[int, int], np.random.Generator], Floats]


def _optimal(noise: FisherGaussian, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    return noise.sample(shape, random_state=rng)


def _laplace(factor: float) -> Draw:
    def draw(noise: FisherGaussian, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
        return rng.laplace(size=shape) * (factor * noise.standard_errors(shape[1]))

    return draw


# Laplace noise of scale b tells 1/b^2 about an entry and has variance 2 b^2. At the same Cramér–Rao bound it
# has twice the variance of the optimal noise; at the same variance half the bound.
NOISES: dict[str, Draw] = {
    "optimal": _optimal,
    "Laplace, equal bound": _laplace(1.0),
    "Laplace, equal variance": _laplace(math.sqrt(0.5)),
}


@dataclass(frozen=True)
class Curve:
    """Scores of an estimator fitted on released rows, against the strength of the noise.

    Attributes
    ----------
    strengths : one per lam: lam itself, (epsilon, delta) per record and the errors of an adversary
    scores : noise -> array of shape (number of lams, repetitions)
    baseline : score after fitting on the raw rows
    measure : what the scores are
    """

    strengths: tuple[Strength, ...]
    scores: dict[str, Floats]
    baseline: float
    measure: str = "score"

    @property
    def lams(self) -> Floats:
        """The weights of utility, as given."""
        return np.array([strength.lam for strength in self.strengths])

    def mean(self, noise: str) -> Floats:
        """Mean score over the repetitions."""
        return np.asarray(self.scores[noise].mean(axis=1))

    def standard_error(self, noise: str) -> Floats:
        """Standard error of the mean; NaN for a single repetition."""
        return _standard_error(self.scores[noise])

    def difference(self, noise: str, other: str) -> tuple[Floats, Floats]:
        """Mean difference of two noises and its standard error, repetition by repetition."""
        differences = self.scores[noise] - self.scores[other]
        return differences.mean(axis=1), _standard_error(differences)

    def joined(self, other: "Curve") -> "Curve":
        """Further repetitions of the same curve."""
        if self.strengths != other.strengths or set(self.scores) != set(other.scores):
            raise InvalidInputError("the curves are about different noises or strengths")
        scores = {name: np.hstack([values, other.scores[name]]) for name, values in self.scores.items()}
        return Curve(self.strengths, scores, self.baseline, self.measure)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "measure": self.measure,
            "baseline": self.baseline,
            "strengths": [strength.to_dict() for strength in self.strengths],
            "scores": {name: values.tolist() for name, values in self.scores.items()},
        }


def sweep(
    X: ArrayLike,
    y: ArrayLike,
    lams: Sequence[float],
    estimator: Any = None,
    *,
    Pi: ArrayLike | None = None,
    sensitivity: float | Domain = 1.0,
    delta: float = 1e-5,
    noises: Sequence[str] = tuple(NOISES),
    repetitions: int = 10,
    scoring: Any = None,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Curve:
    """Fit an estimator on noisy rows, again and again, and score it on raw ones.

    Parameters
    ----------
    X, y : raw rows and what is to be learnt: classes for a classifier, numbers for a regression
    lams : weights of utility to try
    estimator : any scikit-learn estimator (002 Sec. 2.4); :class:`RobustSVM` if None
    Pi, sensitivity, delta : as for :class:`~onefold.privacy.FisherGaussian`
    noises : names from :data:`NOISES`
    scoring : as in scikit-learn; the estimator's own score if None
    X_test, y_test : raw rows for scoring; ``X`` and ``y`` if None, as in the document
    random_state : None for the entropy of the system

    Notes
    -----
    The scores are computed from raw rows. Choosing lam by looking at them is a choice no guarantee covers:
    choose on public data of the same kind, or take the guarantee for what it says about one lam fixed before.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(50, 2)), rng.normal(size=(50, 2)) + 4])
    >>> curve = sweep(X, np.repeat([0, 1], 50), [1e-4, 1e2], repetitions=3, random_state=0)
    >>> bool(curve.mean("optimal")[1] > 0.95), curve.scores["optimal"].shape
    (True, (2, 3))
    """
    rows, target = _checked(X, y)
    test = (rows, target) if X_test is None or y_test is None else _checked(X_test, y_test)
    check_whole_number("repetitions", repetitions)
    unknown = [name for name in noises if name not in NOISES]
    if unknown or not len(lams) or not len(noises):
        raise InvalidInputError(f"give some lams, and noises among: {'; '.join(NOISES)}")
    mechanisms = [FisherGaussian(lam, Pi, delta=delta, sensitivity=sensitivity) for lam in lams]
    model = RobustSVM() if estimator is None else estimator
    scorer = check_scoring(model, scoring=scoring)
    rng = generator(random_state)
    scores = {name: np.empty((len(mechanisms), repetitions)) for name in noises}
    jobs = [(k, i, name) for k in range(repetitions) for i in range(len(mechanisms)) for name in noises]
    for k, i, name in track(jobs, len(jobs), "fitting on noisy rows"):
        noisy = rows + NOISES[name](mechanisms[i], rows.shape, rng)
        scores[name][i, k] = scorer(clone(model).fit(noisy, target), *test)
    baseline = float(scorer(clone(model).fit(rows, target), *test))
    strengths = tuple(Strength.of(mechanism, rows.shape[1]) for mechanism in mechanisms)
    return Curve(strengths, scores, baseline, scoring if isinstance(scoring, str) else "score")


def _checked(X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    try:
        rows = check_array(X, dtype=np.float64)
        target = np.asarray(y)
        check_consistent_length(rows, target)
    except ValueError as error:
        message = str(error).splitlines()[0]
        if "could not convert" in message:
            message = "X holds text where numbers are needed"
        raise InvalidInputError(message) from None
    return rows, target


def _standard_error(values: Floats) -> Floats:
    if values.shape[1] < 2:
        return np.full(len(values), np.nan)
    return np.asarray(values.std(axis=1, ddof=1) / math.sqrt(values.shape[1]))
