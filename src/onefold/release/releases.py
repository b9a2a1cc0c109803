"""Three ways to publish rows: free noise, noise within bounds, and noise that keeps the classifier."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import BoundedFisherNoise, FisherGaussian, Guarantee
from onefold.privacy.guarantee import positive
from onefold.privacy.mechanisms.mechanism import unpack
from onefold.privacy.samplers import RandomState, generator
from onefold.privacy.sensitivity import Domain
from onefold.release._svm_core import kkt_residual
from onefold.release.svm import RobustSVM, signs

__all__ = ["Release", "release_bounded", "release_iid", "release_utility_preserving"]

Floats = NDArray[np.float64]
FITTED = 1e-6  # a machine's conditions may be violated by this much on the rows it claims to be fitted on
REVEALED = (
    "the classifier of the raw rows, exactly",
    "the decision value alpha'x + beta of every record, exactly",
    "the weighted sum of the records that defines the classifier, exactly",
)


@dataclass(frozen=True, eq=False)
class Release:
    """Rows to publish, with what they promise. It can be used wherever the rows can.

    Attributes
    ----------
    X : the rows, in the container they came in
    guarantee : differential privacy, or that there is none
    standard_errors : per column and in its units, the least root mean square error of an unbiased estimate
    bound : the least sum of squared errors of a record (002 Prop. 2.2 and 2.8)
    reveals : what the release tells exactly; empty where it is nothing
    """

    X: Any
    guarantee: Guarantee
    standard_errors: Floats
    bound: float
    reveals: tuple[str, ...] = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
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
    """What the Cramér–Rao bound means for each column, for people; equal columns share a line."""
    lines = ["Estimates from this release alone, without other knowledge and right on average, are off by"]
    if names is None and np.ptp(standard_errors) == 0:
        return [*lines, f"  at least ± {standard_errors[0]:.4g} in every column (root mean square)."]
    shown = names if names is not None else [f"column {j}" for j in range(len(standard_errors))]
    lines += [
        f"  at least ± {error:.4g} for {name}" for name, error in zip(shown, standard_errors, strict=True)
    ]
    return [*lines, "  (root mean square)."]


def release_iid(
    X: Any,
    lam: float,
    Pi: ArrayLike | None = None,
    random_state: RandomState = None,
    *,
    delta: float = 1e-5,
    sensitivity: float | Domain = 1.0,
    hardened: bool = False,
) -> Release:
    """Rows with independent Gaussian noise of covariance Pi^(-1/2) / sqrt(lam) (002 Thm 2.4).

    Parameters are those of :class:`~onefold.privacy.FisherGaussian`. Without ``random_state`` the noise
    comes from the entropy of the system; a seed makes it predictable and is for tests.

    Examples
    --------
    >>> released = release_iid(np.zeros((50, 2)), lam=1e-2, random_state=0)
    >>> released.shape, round(released.bound, 6), round(released.guarantee.record[0], 2)
    ((50, 2), 20.0, 1.76)
    """
    noise = FisherGaussian(lam, Pi, delta=delta, sensitivity=sensitivity, hardened=hardened)
    rows = noise.randomise(X, random_state)
    p = rows.shape[1]
    return Release(rows, noise.guarantee(p), noise.standard_errors(p), noise.estimation_bound(p))


def release_bounded(
    X: Any,
    lam: float,
    bounds: ArrayLike,
    random_state: RandomState = None,
    *,
    Pi: ArrayLike | None = None,
    delta: float = 1e-5,
    sensitivity: float | Domain = 1.0,
    hardened: bool = False,
) -> Release:
    """Rows with noise that keeps within its own ``bounds`` (002 Thm 2.6, Cor. 2.7).

    ``bounds`` is a pair (low, high) for all columns or one pair per column; :func:`noise_bounds` derives them
    from the range of a column. Other parameters are those of :class:`~onefold.privacy.BoundedFisherNoise`.
    Noise with bounds of unequal size has a mean: it is public.

    Examples
    --------
    >>> ages = release_bounded([[18.0], [70.0]], lam=1e-6, bounds=(-18, 30), random_state=0)
    >>> bool(np.min(ages) >= 0)
    True
    """
    noise = BoundedFisherNoise(lam, bounds, Pi, delta=delta, sensitivity=sensitivity, hardened=hardened)
    rows = noise.randomise(X, random_state)
    p = rows.shape[1]
    errors = noise.standard_errors(p)
    weights = noise.weights.powers(1.0, p)
    return Release(rows, noise.guarantee(p), errors, float(np.sum(weights * errors**2)))


def release_utility_preserving(
    X: Any, y: Any, svm: RobustSVM, m: float, random_state: RandomState = None
) -> Release:
    """Rows with noise under which the refitted machine is identical (002 Thm 2.10). **Not private** as such.

    Gaussian noise of variance ``m`` is projected so that every row's noise is orthogonal to alpha and the
    omega-weighted sum of all noise vanishes. Two projections suffice; no basis of a null space is needed.

    Parameters
    ----------
    X, y : the rows and classes that ``svm`` was fitted on
    svm : fitted :class:`RobustSVM`
    m : variance of the noise before it is projected
    random_state : None for the entropy of the system

    Guarantees
    ----------
    * ``RobustSVM(svm.rho, svm.theta).fit(released, y)`` has the same hyperplane, slacks and multipliers.
    * **There is no differential privacy**: alpha'x of every record is released exactly.
    * The sum of squared errors of an unbiased estimate of a record is at least
      m (p - 1) (1 - max c_i^2), c being omega * y at unit length.
    """
    rows, restore = unpack(_in_float64(X))
    c = _checked_weights(rows, y, svm)
    alpha = svm.coef_[0] / max(np.linalg.norm(svm.coef_[0]), np.finfo(float).tiny)
    noise = np.sqrt(positive("m", m)) * generator(random_state).normal(size=rows.shape)
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
        _no_privacy(rows.shape[1]),
        np.sqrt(most * np.clip(1.0 - alpha**2, 0.0, 1.0)),
        most * float(np.sum(1.0 - alpha**2)),
        REVEALED,
    )


def _in_float64(X: Any) -> Any:
    """float32 could not hold the noise precisely enough to keep the classifier."""
    return X.astype("float64") if hasattr(X, "columns") else np.asarray(X, dtype=np.float64)


def _checked_weights(rows: Floats, y: Any, svm: RobustSVM) -> Floats:
    """omega * y at unit length, after a check that the machine belongs to these rows."""
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


def _no_privacy(n_features: int) -> Guarantee:
    nothing = (float("inf"), 1.0)
    return Guarantee(
        unit="record",
        entry=nothing,
        record=nothing,
        n_features=n_features,
        untouched_entries=0.0,
        mechanism="NO differential privacy: Gaussian noise along the hyperplane only, which reveals every "
        "record's decision value exactly",
    )
