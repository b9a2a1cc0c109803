"""Strengths of a noise (lam, the error of an adversary, epsilon and delta), and what they cost a learner."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.utils import check_X_y

from onefold._base.arrays import AnyArray, Floats
from onefold._base.parallel import track
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy import BoundedFisherNoise, FisherGaussian
from onefold.privacy.domains import Domain
from onefold.privacy.samplers import RandomState, byte_stream, generator
from onefold.privacy.terms import positive
from onefold.release.svm import RobustSVM

__all__ = ["NOISES", "Curve", "Strength", "bounded_lam", "bounded_lam_of_epsilon", "choose", "sweep"]

PRECISION = 1e-10  # of log lam
FAR = 2.0  # times the epsilon that is asked for: as good as infinitely many times


@dataclass(frozen=True)
class Strength:
    """How strong the noise of a release is, said in every way.

    Parameters
    ----------
    lam : float
        Weight of utility (002 eq. 8).
    epsilon : float
        Local differential privacy of a whole record, replaced by any other; of the float sampler in exact
        arithmetic only.
    delta : float
        Probability with which epsilon may be exceeded.
    documented_epsilon : float
        What 002 Thm 2.5 states instead; too small for weak noise, shown for comparison only.
    standard_errors : tuple of float
        Per column, the least root mean square error of an unbiased estimate.
    bound : float
        The least sum of squared errors of a record, in the weights of Pi.
    unit : str, default="record"
        What epsilon is about.

    See Also
    --------
    choose : Derive a strength from one of its numbers.

    Examples
    --------
    >>> strength = choose(2, lam=1e-4, sensitivity=1.0)
    >>> round(strength.bound, 6), [round(error, 6) for error in strength.standard_errors]
    (200.0, [10.0, 10.0])
    """

    lam: float
    epsilon: float
    delta: float
    documented_epsilon: float
    standard_errors: tuple[float, ...]
    bound: float
    unit: str = "record"

    @classmethod
    def of(cls, noise: FisherGaussian, n_features: int) -> "Strength":
        """Describe the strength of a noise.

        Parameters
        ----------
        noise : FisherGaussian
            The noise.
        n_features : int
            Entries of a record.

        Returns
        -------
        Strength
            The strength in every way.
        """
        epsilon, delta = noise.guarantee(n_features).record
        errors = tuple(noise.standard_errors(n_features).tolist())
        documented = noise.documented_epsilon(n_features)
        return cls(noise.lam, epsilon, delta, documented, errors, noise.estimation_bound(n_features))


def choose(
    n_features: int,
    Pi: ArrayLike | None = None,
    *,
    lam: float | None = None,
    adversary_error: tuple[int, float] | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    sensitivity: float | Domain | None = None,
    sampler: str = "hardened",
    rows_per_person: int | None = None,
) -> Strength:
    """Convert one of ``lam``, ``adversary_error`` and ``epsilon`` into the others.

    Parameters
    ----------
    n_features : int
        Entries of a record.
    Pi : array-like of shape (n_features,) or (n_features, n_features), default=None
        Weights of the columns; None weighs all alike.
    lam : float, default=None
        Weight of utility.
    adversary_error : tuple of (int, float), default=None
        Position of a column, and the least root mean square error of an unbiased estimate of it.
    epsilon : float, default=None
        Privacy loss of a whole record at ``delta``, or of a person where ``rows_per_person`` is given.
    delta : float, default=1e-5
        Probability with which epsilon may be exceeded.
    sensitivity : float, Domain or None, default=None
        Required: the declared domain to which rows are clipped; or, as the caller's word that nothing
        checks, the largest change of an entry.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on grids. "float" is open to attacks on floating-point numbers: its
        epsilon holds in exact arithmetic only, and a release with it promises nothing.
    rows_per_person : int or None, default=None
        Largest number of records of a person, whom ``epsilon`` is then about. What is returned is always
        about a record.

    Returns
    -------
    Strength
        All of them.

    See Also
    --------
    bounded_lam : The same for noise within bounds.
    bounded_lam_of_epsilon : From epsilon, for noise within bounds.

    References
    ----------
    Document 002, eq. 8, Proposition 2.2 and Theorem 2.5.

    Examples
    --------
    >>> strength = choose(2, adversary_error=(0, 10.0), sensitivity=1.0)
    >>> round(strength.lam, 8), round(strength.bound, 6), round(strength.epsilon, 3)
    (0.0001, 200.0, 0.497)
    """
    if sum(option is not None for option in (lam, adversary_error, epsilon)) != 1:
        raise InvalidInputError("give exactly one of lam, adversary_error and epsilon")
    options: dict[str, Any] = {"delta": delta, "sensitivity": sensitivity, "sampler": sampler}
    if lam is not None:
        noise = FisherGaussian(lam, Pi, **options)
    elif epsilon is not None:
        noise = FisherGaussian.from_epsilon(
            epsilon, n_features, Pi, rows_per_person=rows_per_person, **options
        )
    else:
        try:
            column, error = adversary_error  # type: ignore[misc]
        except (TypeError, ValueError):
            raise InvalidInputError("adversary_error must be (position of a column, error)") from None
        noise = FisherGaussian.from_error(error, column, n_features, Pi, **options)
    return Strength.of(noise, n_features)


def bounded_lam(
    error: float,
    bounds: tuple[float, float],
    *,
    sensitivity: float | Domain | None = None,
    sampler: str = "hardened",
) -> float:
    """Find the largest lam at which noise within bounds leaves an adversary a given error.

    However small lam is, the error stays below the width of the bounds over 2 pi: that of a squared cosine,
    which is the noise that lam = 0 stands for.

    Parameters
    ----------
    error : float
        Least root mean square error of an unbiased estimate of the column.
    bounds : tuple of (float, float)
        Bounds of the noise.
    sensitivity : float, Domain or None, default=None
        Required: the declared domain of the column; or, as the caller's word that nothing
        checks, the largest change of an entry.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on grids. "float" is open to attacks on floating-point numbers: its
        epsilon holds in exact arithmetic only, and a release with it promises nothing.

    Returns
    -------
    float
        The weight of utility.

    Raises
    ------
    InvalidInputError
        If noise within these bounds cannot leave such an error.

    See Also
    --------
    release_bounded : Takes the weight.

    References
    ----------
    Document 002, Theorem 2.6.

    Examples
    --------
    >>> lam = bounded_lam(0.1, (-0.5, 0.5), sensitivity=1.0)
    >>> round(float(BoundedFisherNoise(lam, (-0.5, 0.5), sensitivity=1.0).standard_errors(1)[0]), 6)
    0.1
    """
    low, high = bounds
    most = (high - low) / (2 * math.pi)
    if not 0 < positive("error", error) < 0.997 * most:
        raise InvalidInputError(
            f"noise within these bounds leaves an error of {most:.4g} at most: allow a wider range"
        )

    def lacking(log_lam: float) -> float:
        noise = BoundedFisherNoise(math.exp(log_lam), (low, high), sensitivity=sensitivity, sampler=sampler)
        return math.log(error / float(noise.standard_errors(1)[0]))

    free = below = math.log(error) * -4  # the free noise has this lam, and bounds only take from its error
    while lacking(below) > 0.0:
        below -= 4.0
    return math.exp(below if below == free else _largest(lacking, below, below + 4.0))


def bounded_lam_of_epsilon(
    epsilon: float,
    bounds: ArrayLike,
    Pi: ArrayLike | None = None,
    *,
    n_features: int | None = None,
    delta: float = 1e-5,
    sensitivity: float | Domain | None = None,
    sampler: str = "hardened",
) -> float:
    """Find the largest lam at which noise within bounds has a given epsilon per record.

    Weak noise has too large an epsilon; strong noise is stopped by its bounds, which tell a changed value
    from the original for sure, and has none. What lies between is wide only where the bounds are.

    Parameters
    ----------
    epsilon : float
        Privacy loss of a whole record at ``delta``.
    bounds : array-like of shape (2,) or (n_features, 2)
        Bounds of the noise, for all columns or one pair per column.
    Pi : array-like of shape (n_features,), default=None
        Weights of the columns; None weighs all alike.
    n_features : int, default=None
        Entries of a record; None counts the pairs of ``bounds``.
    delta : float, default=1e-5
        Probability with which epsilon may be exceeded.
    sensitivity : float, Domain or None, default=None
        Required: the declared domain to which rows are clipped; or, as the caller's word that nothing
        checks, the largest change of an entry.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on grids. "float" is open to attacks on floating-point numbers: its
        epsilon holds in exact arithmetic only, and a release with it promises nothing.

    Returns
    -------
    float
        The weight of utility.

    Raises
    ------
    InvalidInputError
        If noise within these bounds never has so small an epsilon.

    See Also
    --------
    release_bounded : Takes the weight.

    References
    ----------
    Document 002, Corollary 2.7.

    Examples
    --------
    >>> lam = bounded_lam_of_epsilon(2.0, (-60.0, 60.0), sensitivity=1.0)
    >>> round(BoundedFisherNoise(lam, (-60.0, 60.0), sensitivity=1.0).guarantee(1).record[0], 4)
    2.0
    """
    options: dict[str, Any] = {"delta": delta, "sensitivity": sensitivity}
    pairs = np.asarray(bounds, dtype=np.float64)
    p = n_features or (1 if pairs.ndim == 1 else len(pairs))

    def reached(lam: float) -> float:
        noise = BoundedFisherNoise(lam, bounds, Pi, sampler=sampler, **options)
        return noise.guarantee(p).record[0]

    in_exact_arithmetic: dict[str, Any] = options | {"sampler": "float"}
    # Bounds and grids only add to the epsilon of this noise.
    free = FisherGaussian.from_epsilon(epsilon, p, Pi, **in_exact_arithmetic)
    widest = float(np.max(np.diff(pairs), initial=0.0, where=np.isfinite(np.diff(pairs))))
    lam = free.lam
    while reached(lam) > epsilon:
        lam /= 2.0
        if FisherGaussian(lam, Pi, **in_exact_arithmetic).standard_errors(p).min() > widest:
            raise InvalidInputError(
                "noise within these bounds never has so small an epsilon per record: allow wider ranges"
            )
    if lam == free.lam:
        return lam

    def exceeding(log_lam: float) -> float:
        return min(reached(math.exp(log_lam)) / epsilon, FAR) - 1.0

    return math.exp(_largest(exceeding, math.log(lam), math.log(2.0 * lam)))


def _largest(beyond: Callable[[float], float], below: float, above: float) -> float:
    """Find the largest log lam between ``below`` and ``above`` at which ``beyond`` is not positive."""
    # A little wider, since logarithms were rounded and the signs at both ends must differ.
    found, step = float(brentq(beyond, below - PRECISION, above + PRECISION, xtol=PRECISION)), PRECISION
    while beyond(found) > 0.0:
        found, step = found - step, 2.0 * step
    return found


# --- scores of a learner over lam (002 Fig. 5-7) ------------------------------------------------------------


Draw = Callable[[FisherGaussian, tuple[int, int], RandomState], Floats]


def _laplace(factor: float) -> Draw:
    def draw(noise: FisherGaussian, shape: tuple[int, int], random_state: RandomState) -> Floats:
        standard = byte_stream(random_state).laplace(math.prod(shape)).reshape(shape)
        return np.asarray(standard * (factor * noise.standard_errors(shape[1])))

    return draw


# Laplace noise of scale b tells 1/b^2 about an entry and has variance 2 b^2. At the same Cramér–Rao bound it
# has twice the variance of the optimal noise; at the same variance half the bound.
NOISES: dict[str, Draw] = {
    "optimal": FisherGaussian.sample,
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
        rows, target = check_X_y(X, y, dtype=np.float64)
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
