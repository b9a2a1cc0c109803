"""Privacy-utility curves: scores of a learner over lam, for the optimal noise and others (002 Fig. 5-7)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.utils import check_array, check_consistent_length

from onefold._base.arrays import AnyArray, Floats
from onefold._base.parallel import track
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy import FisherGaussian
from onefold.privacy.domains import Domain
from onefold.privacy.samplers import RandomState, byte_stream, generator
from onefold.release.choosing import Strength
from onefold.release.svm import RobustSVM

__all__ = ["NOISES", "Curve", "sweep"]

Draw = Callable[[FisherGaussian, tuple[int, int], RandomState], Floats]


def _optimal(noise: FisherGaussian, shape: tuple[int, int], random_state: RandomState) -> Floats:
    return noise.sample(shape, random_state)


def _laplace(factor: float) -> Draw:
    def draw(noise: FisherGaussian, shape: tuple[int, int], random_state: RandomState) -> Floats:
        standard = byte_stream(random_state).laplace(math.prod(shape)).reshape(shape)
        return np.asarray(standard * (factor * noise.standard_errors(shape[1])))

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

    Parameters
    ----------
    strengths : tuple of Strength
        One per lam: lam itself, (epsilon, delta) per record and the errors of an adversary.
    scores : dict of str to ndarray of shape (n_lams, repetitions)
        Scores for each noise.
    baseline : float
        Score after fitting on the raw rows.
    measure : str, default="score"
        What the scores are.

    See Also
    --------
    sweep : Make the curve.

    Examples
    --------
    >>> from onefold.release import choose
    >>> scores = {"optimal": np.array([[0.5, 0.7], [0.9, 0.9]])}
    >>> strengths = tuple(choose(2, lam=lam, sensitivity=1.0) for lam in (1e-2, 1.0))
    >>> curve = Curve(strengths, scores, baseline=0.95)
    >>> curve.lams.tolist(), curve.mean("optimal").round(6).tolist()
    ([0.01, 1.0], [0.6, 0.9])
    """

    strengths: tuple[Strength, ...]
    scores: dict[str, Floats]
    baseline: float
    measure: str = "score"

    @property
    def lams(self) -> Floats:
        """Weights of utility, as given."""
        return np.array([strength.lam for strength in self.strengths])

    def mean(self, noise: str) -> Floats:
        """Average the scores over the repetitions.

        Parameters
        ----------
        noise : str
            Name of the noise.

        Returns
        -------
        ndarray of shape (n_lams,)
            Mean scores.
        """
        return np.asarray(self.scores[noise].mean(axis=1))

    def standard_error(self, noise: str) -> Floats:
        """Compute the standard error of the mean score.

        Parameters
        ----------
        noise : str
            Name of the noise.

        Returns
        -------
        ndarray of shape (n_lams,)
            Standard errors; NaN for a single repetition.
        """
        return _standard_error(self.scores[noise])

    def difference(self, noise: str, other: str) -> tuple[Floats, Floats]:
        """Compare two noises, repetition by repetition.

        Parameters
        ----------
        noise : str
            Name of one noise.
        other : str
            Name of the other noise.

        Returns
        -------
        mean : ndarray of shape (n_lams,)
            Mean difference of their scores.
        error : ndarray of shape (n_lams,)
            Its standard error.
        """
        differences = self.scores[noise] - self.scores[other]
        return differences.mean(axis=1), _standard_error(differences)

    def joined(self, other: "Curve") -> "Curve":
        """Join the repetitions of two runs of the same curve.

        Parameters
        ----------
        other : Curve
            A curve of the same noises and strengths.

        Returns
        -------
        Curve
            The curve with the repetitions of both.
        """
        if self.strengths != other.strengths or set(self.scores) != set(other.scores):
            raise InvalidInputError("the curves are about different noises or strengths")
        scores = {name: np.hstack([values, other.scores[name]]) for name, values in self.scores.items()}
        return Curve(self.strengths, scores, self.baseline, self.measure)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            Measure, baseline, strengths and scores.
        """
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
    sensitivity: float | Domain | None = None,
    delta: float = 1e-5,
    sampler: str = "hardened",
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
    X : array-like of shape (n_samples, n_features)
        Raw rows.
    y : array-like of shape (n_samples,)
        What is to be learnt: classes for a classifier, numbers for a regression.
    lams : sequence of float
        Weights of utility to try.
    estimator : estimator, default=None
        Any scikit-learn estimator (002 Sec. 2.4); None stands for ``RobustSVM()``.
    Pi : array-like of shape (n_features,) or (n_features, n_features), default=None
        Weights of the columns; None weighs all alike.
    sensitivity : float, Domain or None, default=None
        Required: the declared domain to which the rows to be learnt from are clipped; or, as the caller's
        word that nothing checks, the largest change of an entry.
    delta : float, default=1e-5
        Delta of the epsilons.
    sampler : {"hardened", "float"}, default="hardened"
        Sampler of the optimal noise. The epsilons of "float" hold in exact arithmetic only; a ``Pi`` that is
        not diagonal needs it.
    noises : sequence of str, default=tuple(NOISES)
        Names from :data:`NOISES`.
    repetitions : int, default=10
        Fits per noise and lam.
    scoring : str, callable or None, default=None
        As in scikit-learn; None takes the estimator's own score.
    X_test : array-like of shape (n_test, n_features), default=None
        Raw rows for scoring; None scores on ``X`` and ``y``, as the document does.
    y_test : array-like of shape (n_test,), default=None
        Their classes or numbers.
    random_state : int, Generator or None, default=None
        Seed of the noise; None takes the entropy of the system.

    Returns
    -------
    Curve
        Scores and strengths.

    See Also
    --------
    onefold.report.PrivacyUtilityDisplay : Draw the curve.

    Notes
    -----
    The scores are computed from raw rows, and no guarantee covers them. Nor does one cover the choice of lam
    by looking at them: choose on public data of the same kind, or fix one lam before looking.

    References
    ----------
    Document 002, Section 2.4 and Figures 5 to 7.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(50, 2)), rng.normal(size=(50, 2)) + 4])
    >>> curve = sweep(X, np.repeat([0, 1], 50), [1e-4, 1e2], repetitions=3, random_state=0, sensitivity=1.0)
    >>> bool(curve.mean("optimal")[1] > 0.95), curve.scores["optimal"].shape
    (True, (2, 3))
    """
    rows, target = _checked(X, y)
    test = (rows, target) if X_test is None or y_test is None else _checked(X_test, y_test)
    check_parameter("repetitions", repetitions, Whole(1))
    unknown = [name for name in noises if name not in NOISES]
    if unknown or not len(lams) or not len(noises):
        raise InvalidInputError(f"give some lams, and noises among: {'; '.join(NOISES)}")
    options: dict[str, Any] = {"delta": delta, "sensitivity": sensitivity, "sampler": sampler}
    mechanisms = [FisherGaussian(lam, Pi, **options) for lam in lams]
    clipped = sensitivity.clip(rows) if isinstance(sensitivity, Domain) else rows
    model = RobustSVM() if estimator is None else estimator
    scorer = check_scoring(model, scoring=scoring)
    rng = None if random_state is None else generator(random_state)
    scores = {name: np.empty((len(mechanisms), repetitions)) for name in noises}
    jobs = [(k, i, name) for k in range(repetitions) for i in range(len(mechanisms)) for name in noises]
    for k, i, name in track(jobs, len(jobs), "fitting on noisy rows"):
        noisy = clipped + NOISES[name](mechanisms[i], rows.shape, rng)
        scores[name][i, k] = scorer(clone(model).fit(noisy, target), *test)
    baseline = float(scorer(clone(model).fit(rows, target), *test))
    strengths = tuple(Strength.of(mechanism, rows.shape[1]) for mechanism in mechanisms)
    return Curve(strengths, scores, baseline, scoring if isinstance(scoring, str) else "score")


def _checked(X: ArrayLike, y: ArrayLike) -> tuple[Floats, AnyArray]:
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
