"""The strength of a noise: lam, the error of an adversary, or (epsilon, delta), converted into each other."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from onefold.exceptions import InvalidInputError
from onefold.privacy import BoundedFisherNoise, FisherGaussian
from onefold.privacy.domains import Domain
from onefold.privacy.terms import positive

__all__ = ["Strength", "bounded_lam", "bounded_lam_of_epsilon", "choose"]

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            The fields by name.
        """
        return asdict(self)

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
        column, error = _column_and_error(adversary_error)
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


def _column_and_error(given: Any) -> tuple[int, float]:
    try:
        column, error = given
        whole = isinstance(column, (int, np.integer)) and not isinstance(column, bool)
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise InvalidInputError("adversary_error must be (position of a column, error)")
    return int(column), error
