"""Three ways to publish rows: free noise, noise within bounds, and noise that keeps the classifier.

The bounds and the weights that a noise needs follow from what is declared about the columns.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import AnyArray, Floats
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import BoundedFisherNoise, FisherGaussian, Guarantee, charge
from onefold.privacy.domains import Domain
from onefold.privacy.guarantee import FLOAT_SAMPLER
from onefold.privacy.ledger import AnyLedger
from onefold.privacy.mechanisms.fisher import RowNoise
from onefold.privacy.mechanisms.mechanism import checked_values
from onefold.privacy.persons import SAME_PERSON, kept_rows
from onefold.privacy.samplers import RandomState, byte_stream, generator
from onefold.privacy.terms import NOTHING, number_array, positive
from onefold.release.svm import RobustSVM, kkt_residual, signs

__all__ = [
    "Release",
    "noise_bounds",
    "release_bounded",
    "release_iid",
    "release_utility_preserving",
    "weights_for",
]

# Errors are those of a record: the mean of k records has an error smaller by sqrt(k).
TOGETHER = "Several records of one person tell more together."
FITTED = 1e-6  # a machine's conditions may be violated by this much on the rows it claims to be fitted on
REVEALED = (
    "the classifier of the raw rows, exactly",
    "the decision value alpha'x + beta of every record, exactly",
    "the weighted sum of the records that defines the classifier, exactly",
)
KEPT: dict[str, Any] = {
    "voided_by": (
        "the classifier was kept: every record's decision value is released exactly",
        FLOAT_SAMPLER,
    ),
    "mechanism": "NO differential privacy: Gaussian noise along the hyperplane only, float sampler",
}


@dataclass(frozen=True, eq=False)
class Release:
    """Rows to publish, with what they promise. It can be used wherever the rows can.

    Parameters
    ----------
    X : ndarray or DataFrame of shape (n_samples, n_features)
        The rows; a frame if they came in one, with its columns and without its index.
    guarantee : Guarantee
        The differential privacy of the release, or that there is none.
    standard_errors : ndarray of shape (n_features,)
        Per column and in its units, the least root mean square error of an unbiased estimate.
    bound : float
        The least sum of squared errors of a record (002 Prop. 2.2 and 2.8).
    reveals : tuple of str, default=()
        What the release tells exactly.

    See Also
    --------
    release_iid : Free noise.
    release_bounded : Noise within bounds.
    release_utility_preserving : Noise that keeps a classifier.

    Examples
    --------
    >>> from onefold.privacy import Box
    >>> released = release_iid(np.zeros((50, 2)), lam=1e-2, sensitivity=Box(0, 1))
    >>> len(released), released[:3].shape, np.asarray(released).shape
    (50, (3, 2), (50, 2))
    """

    X: Any
    guarantee: Guarantee
    standard_errors: Floats
    bound: float
    reveals: tuple[str, ...] = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        rows = np.asarray(self.X, dtype=dtype)
        return rows.copy() if copy and rows is self.X else rows

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, key: Any) -> Any:
        return self.X[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "X":
            raise AttributeError(name)
        return getattr(self.X, name)

    def __str__(self) -> str:
        names = getattr(self.X, "columns", None)
        lines = [str(self.guarantee), *(f"Revealed: {what}." for what in self.reveals)]
        return "\n".join([*lines, *in_words(self.standard_errors, names)])

    __repr__ = __str__


def in_words(standard_errors: Floats, names: Any = None) -> list[str]:
    """Say what the Cramér–Rao bound means for each column; equal columns share a line."""
    lines = [
        "Estimates from one released record alone, without other knowledge and right on average, are off by"
    ]
    if names is None and np.ptp(standard_errors) == 0:
        line = f"  at least ± {standard_errors[0]:.4g} in every column (root mean square)."
        return [*lines, line, TOGETHER]
    shown = names if names is not None else [f"column {j}" for j in range(len(standard_errors))]
    lines += [
        f"  at least ± {error:.4g} for {name}" for name, error in zip(shown, standard_errors, strict=True)
    ]
    return [*lines, "  (root mean square).", TOGETHER]


def release_iid(
    X: Any,
    lam: float,
    Pi: ArrayLike | None = None,
    random_state: RandomState = None,
    *,
    delta: float = 1e-5,
    sensitivity: float | Domain | None = None,
    sampler: str = "hardened",
    person: Any = None,
    rows_per_person: int | None = None,
    ledger: AnyLedger = None,
) -> Release:
    """Add independent Gaussian noise of covariance Pi^(-1/2) / sqrt(lam) to rows.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features)
        The rows.
    lam : float
        Weight of utility (002 eq. 8): the larger, the less noise. :func:`choose` derives it from an epsilon
        or an adversary's error.
    Pi : array-like of shape (n_features,) or (n_features, n_features), default=None
        Weights of the columns, chosen without looking at the rows; None weighs all alike.
        :func:`weights_for` derives them from widths.
    random_state : int, Generator or None, default=None
        None takes the noise from the system's cryptographic generator. A seed voids the guarantee: for tests
        only.
    delta : float, default=1e-5
        Delta of the guarantee.
    sensitivity : float, Domain or None, default=None
        Required: the declared domain to which rows are clipped; or, as the caller's word that nothing
        checks, the largest change of an entry.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on grids. "float" is open to attacks on floating-point numbers: its
        guarantee is void. A ``Pi`` that is not diagonal needs it.
    person : array-like of shape (n_samples,), default=None
        Whose each row is. With ``rows_per_person`` the guarantee then covers persons.
    rows_per_person : int, default=None
        Largest number of rows of a person; others are dropped at random before anything else. Call
        :func:`onefold.privacy.persons.limit_rows` yourself if labels have to stay beside their rows.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.

    Returns
    -------
    Release
        The noisy rows and what they promise.

    See Also
    --------
    onefold.privacy.FisherGaussian : The noise, with all its parameters.
    release_bounded : Noise that keeps within bounds.

    References
    ----------
    Document 002, Theorem 2.4 (the noise), Theorem 2.5 (its privacy) and Proposition 2.2 (the bound).

    Examples
    --------
    >>> from onefold.privacy import Box
    >>> released = release_iid(np.zeros((50, 2)), lam=1e-2, sensitivity=Box(0, 1))
    >>> released.shape, round(released.bound, 6), round(released.guarantee.record[0], 2)
    ((50, 2), 20.0, 1.76)
    """
    noise = FisherGaussian(lam, Pi, delta=delta, sensitivity=sensitivity, sampler=sampler)
    chosen = None if Pi is None else "the weights Pi"
    rows, guarantee = _noisy(X, noise, chosen, random_state, person, rows_per_person, ledger)
    p = rows.shape[1]
    return Release(rows, guarantee, noise.standard_errors(p), noise.estimation_bound(p))


def release_bounded(
    X: Any,
    lam: float,
    bounds: ArrayLike,
    random_state: RandomState = None,
    *,
    Pi: ArrayLike | None = None,
    delta: float = 1e-5,
    sensitivity: float | Domain | None = None,
    sampler: str = "hardened",
    person: Any = None,
    rows_per_person: int | None = None,
    ledger: AnyLedger = None,
) -> Release:
    """Add noise that keeps within its own bounds to rows.

    Noise with bounds of unequal size has a mean, which is public.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features)
        The rows.
    lam : float
        Weight of utility: the larger, the less noise. :func:`bounded_lam` and :func:`bounded_lam_of_epsilon`
        derive it.
    bounds : array-like of shape (2,) or (n_features, 2)
        Pair (low, high) for all columns, or one pair per column, chosen without looking at the rows;
        :func:`noise_bounds` derives them from the range of a column.
    random_state : int, Generator or None, default=None
        None takes the noise from the system's cryptographic generator. A seed voids the guarantee: for tests
        only.
    Pi : array-like of shape (n_features,), default=None
        Weights of the columns, chosen without looking at the rows; None weighs all alike.
    delta : float, default=1e-5
        Delta of the guarantee.
    sensitivity : float, Domain or None, default=None
        Required: the declared domain to which rows are clipped; or, as the caller's word that nothing
        checks, the largest change of an entry.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on grids. "float" is open to attacks on floating-point numbers: its
        guarantee is void.
    person : array-like of shape (n_samples,), default=None
        Whose each row is. With ``rows_per_person`` the guarantee then covers persons.
    rows_per_person : int, default=None
        Largest number of rows of a person; others are dropped at random before anything else. Call
        :func:`onefold.privacy.persons.limit_rows` yourself if labels have to stay beside their rows.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.

    Returns
    -------
    Release
        The noisy rows and what they promise.

    See Also
    --------
    onefold.privacy.BoundedFisherNoise : The noise, with all its parameters.
    noise_bounds : Derive the bounds from declared and allowed ranges.

    References
    ----------
    Document 002, Theorem 2.6 and Corollary 2.7.

    Examples
    --------
    >>> from onefold.privacy import Box
    >>> ages = release_bounded([[18.0], [70.0]], lam=1e-6, bounds=(-18, 30), sensitivity=Box(18, 90))
    >>> bool(np.min(ages) >= 0)
    True
    """
    noise = BoundedFisherNoise(lam, bounds, Pi, delta=delta, sensitivity=sensitivity, sampler=sampler)
    chosen = "the bounds of the noise" if Pi is None else "the bounds of the noise and the weights Pi"
    rows, guarantee = _noisy(X, noise, chosen, random_state, person, rows_per_person, ledger)
    p = rows.shape[1]
    errors = noise.standard_errors(p)
    weights = noise.weights.powers(1.0, p)
    return Release(rows, guarantee, errors, float(np.sum(weights * errors**2)))


def _noisy(
    X: Any,
    noise: RowNoise,
    chosen: str | None,
    random_state: RandomState,
    person: Any,
    rows_per_person: int | None,
    ledger: AnyLedger,
) -> tuple[Any, Guarantee]:
    """Drop rows of persons who have too many and add the noise, after the ledger was charged for both.

    ``chosen`` names what the caller chose for these rows; that it was not by looking at them is a condition.
    """
    values, restore = _open(X)
    if values.ndim != 2 or not values.shape[1]:
        raise InvalidInputError("expected a 2D table of rows. Reshape your data")
    source = None if random_state is None else generator(random_state)
    kept = kept_rows(person, rows_per_person, len(values), source)
    guarantee = promised(noise, values.shape[1], rows_per_person, random_state)
    if chosen is not None:
        guarantee = guarantee.provided(f"{chosen} were chosen without looking at the rows")
    guarantee = charge(ledger, guarantee, "released rows")
    return restore(noise.randomise(values if kept is None else values[kept], source)), guarantee


def promised(
    noise: RowNoise, n_features: int, rows_per_person: int | None, random_state: RandomState
) -> Guarantee:
    """State the promise of rows of which no person has more than a number, with noise from a source."""
    guarantee = noise.guarantee(n_features, rows_per_person=rows_per_person).seeded(random_state)
    return guarantee if rows_per_person is None else guarantee.provided(SAME_PERSON)


def _open(X: Any) -> tuple[Floats, Callable[[Floats], Any]]:
    """Return rows in float64, and a function that puts released ones into a container like ``X``.

    Released frames have a new index, since the old one may hold names, and float64 in every column, since the
    types of columns may depend on a single cell.
    """
    values, _ = checked_values(X)
    if hasattr(X, "columns") and hasattr(X, "index"):
        return values, lambda rows: type(X)(rows, columns=X.columns)
    return values, lambda rows: rows


def release_utility_preserving(
    X: Any, y: Any, svm: RobustSVM, m: float, random_state: RandomState = None
) -> Release:
    """Add noise under which the refitted machine is identical, with no differential privacy.

    Gaussian noise of variance ``m`` is projected so that every row's noise is orthogonal to alpha and the
    omega-weighted sum of all noise vanishes. Two projections suffice; no basis of a null space is needed.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features)
        The rows that ``svm`` was fitted on.
    y : array-like of shape (n_samples,)
        Their classes.
    svm : RobustSVM
        The fitted machine to keep.
    m : float
        Variance of the noise before it is projected.
    random_state : int, Generator or None, default=None
        None takes the noise from the system's cryptographic generator. A seed makes the noise known: for
        tests only.

    Returns
    -------
    Release
        The noisy rows, with a guarantee that is void; ``reveals`` lists what they tell exactly.

    See Also
    --------
    release_iid : A release with differential privacy.

    Notes
    -----
    *Guarantees.*

    * ``RobustSVM(svm.rho, svm.theta).fit(released, y)`` has the same hyperplane, slacks and multipliers.
    * **There is no differential privacy**: alpha'x of every record is released exactly. The noise is drawn in
      floating point; no hardened sampler could mend that.
    * The sum of squared errors of an unbiased estimate of a record is at least
      m (p - 1) (1 - max c_i^2), c being omega * y at unit length.

    References
    ----------
    Document 002, Theorem 2.10 and Proposition 2.8.

    Examples
    --------
    >>> import warnings
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 30)
    >>> X = rng.normal(size=(60, 3)) + 3 * y[:, None]
    >>> svm = RobustSVM().fit(X, y)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # it warns that the release is not private
    ...     released = release_utility_preserving(X, y, svm, m=100.0, random_state=0)
    >>> bool(np.allclose(RobustSVM().fit(released, y).coef_, svm.coef_, atol=1e-6))
    True
    """
    rows, restore = _open(X)
    c = _checked_weights(rows, y, svm)
    alpha = svm.coef_[0] / max(np.linalg.norm(svm.coef_[0]), np.finfo(float).tiny)
    noise = np.sqrt(positive("m", m)) * byte_stream(random_state).normal(rows.size).reshape(rows.shape)
    for _ in range(2):  # the second time removes what rounding left of the first
        noise -= np.outer(noise @ alpha, alpha)
        noise -= np.outer(c, c @ noise)
    warnings.warn(
        "this release is NOT differentially private: it tells every record's decision value exactly",
        PrivacyLeakWarning,
        stacklevel=2,
    )
    most = float(m) * (1.0 - float(np.max(c**2)))
    return Release(
        restore(rows + noise),
        Guarantee("record", NOTHING, NOTHING, rows.shape[1], 0.0, **KEPT).seeded(random_state),
        np.sqrt(most * np.clip(1.0 - alpha**2, 0.0, 1.0)),
        most * float(np.sum(1.0 - alpha**2)),
        REVEALED,
    )


def _checked_weights(rows: Floats, y: Any, svm: RobustSVM) -> Floats:
    """Return omega * y at unit length, after a check that the machine belongs to these rows."""
    if not isinstance(svm, RobustSVM):
        raise InvalidInputError("svm must be a fitted RobustSVM")
    check_is_fitted(svm)
    if rows.ndim != 2 or rows.shape != (len(svm.omega_), svm.n_features_in_):
        raise InvalidInputError("svm was fitted on another number of rows or columns")
    if rows.shape[1] < 2:
        raise InvalidInputError("with one column no noise leaves the classifier as it is")
    y_signs = signs(svm, y)
    if len(y_signs) != len(rows):
        raise InvalidInputError("y must hold one class per row")
    root = np.sqrt(svm.rho)
    G = np.column_stack([rows, np.full(len(rows), 1.0 / root)]) * y_signs[:, np.newaxis]
    z = np.concatenate([svm.coef_[0], root * svm.intercept_])
    if not kkt_residual(G, svm.rho, svm.theta, z, svm.omega_) <= FITTED:
        raise InvalidInputError("svm was not fitted on these rows and classes: fit it on them first")
    weights = svm.omega_ * y_signs
    return np.asarray(weights / np.linalg.norm(weights))


# --- from what is declared about columns to bounds and weights --------------------------------------------


def noise_bounds(declared: ArrayLike, allowed: ArrayLike) -> Floats:
    """Compute bounds of a noise that keep every possible value of a column inside what is allowed.

    The noise must not depend on the value, so there has to be room on both sides of the declared range.

    Parameters
    ----------
    declared : array-like of shape (2,) or (n_features, 2)
        Range (low, high) of the original values, or one pair per column.
    allowed : array-like of shape (2,) or (n_features, 2)
        Range (low, high) that released values must keep, one pair or one per column; may be infinite.

    Returns
    -------
    ndarray of shape (2,) or (n_features, 2)
        Bounds of the noise.

    See Also
    --------
    release_bounded : Takes the bounds.

    Examples
    --------
    >>> noise_bounds((18, 90), (0, 120)).tolist()
    [-18.0, 30.0]
    """
    inner, outer = _pairs("declared", declared), _pairs("allowed", allowed)
    if not np.isfinite(inner).all():
        raise InvalidInputError("declared ranges must be finite")
    try:
        bounds = outer - inner
    except ValueError:
        raise InvalidInputError("declared and allowed must have the same number of columns") from None
    if not np.all((bounds[..., 0] <= 0) & (bounds[..., 1] >= 0) & (bounds[..., 0] < bounds[..., 1])):
        raise InvalidInputError(
            "the allowed range must be wider than the declared one: noise needs room beyond every value"
        )
    return bounds


def weights_for(widths: ArrayLike) -> Floats:
    """Compute the diagonal of the Pi under which the noise of each column is in proportion to its width.

    The standard deviation goes with Pi^(-1/4) (002 eq. 9), so this is the width to the power -4.

    Parameters
    ----------
    widths : array-like of shape (n_features,)
        Width of the range of each column.

    Returns
    -------
    ndarray of shape (n_features,)
        Weights for ``Pi``.

    See Also
    --------
    release_iid : Takes the weights.

    References
    ----------
    Document 002, eq. 9.

    Examples
    --------
    >>> weights_for([1.0, 10.0]).round(6).tolist()
    [1.0, 0.0001]
    """
    values = np.asarray(widths, dtype=np.float64)
    if values.ndim != 1 or not np.all((values > 0) & np.isfinite(values)):
        raise InvalidInputError("widths must be positive numbers, one per column")
    return np.asarray(values**-4.0)


def _pairs(name: str, value: ArrayLike) -> Floats:
    def fits(pairs: Floats) -> Any:
        return pairs.ndim in (1, 2) and pairs.shape[-1] == 2 and np.all(pairs[..., 0] <= pairs[..., 1])

    return number_array(value, f"{name} must be (low, high), or one such pair per column", fits)
