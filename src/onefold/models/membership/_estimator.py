"""Membership-mappings as a scikit-learn regressor (001 Alg. 1, Def. 10)."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array
from onefold._base.validation import check_rows, check_whole_number
from onefold.models._unit import unit_of
from onefold.models.membership._autoencoders import check_centred, check_ratio, inducing_limit
from onefold.models.membership._core import fit_mapping

__all__ = ["MembershipMapping"]


class MembershipMapping(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Regression by Student-t membership-mappings, any number of outputs at once (001 Alg. 1).

    Parameters
    ----------
    inducing_ratio : float, default=0.5
        Inducing points per sample, at most (001 eq. 68); fewer are used where the inputs are smooth.
    max_inducing : int, default=500
        Inducing points, at most.
    centred : bool, default=True
        Whether deviations from the mean of the outputs are modelled; False: the outputs themselves, exactly
        as in the document.

    Attributes
    ----------
    inducing_points_ : ndarray (M, n)
        The auxiliary inducing points (001 eq. 51).
    tau_ : float
        Smoothing level at sigma^2 = 1 (001 eq. 54).
    sigma2_ : float
        Variance parameter of the kernel (001 Alg. 1, steps 9-13).

    Notes
    -----
    The document's mappings have zero mean: far inputs are mapped near zero, however far from zero the outputs
    are. By default deviations from their mean are modelled, so that far inputs are mapped near that mean.
    An input that does not vary is ignored. The kernel is as wide as the range of the inputs and the number of
    inducing points falls until enough smoothing is left, so with one or two inputs the fit is coarse whatever
    the number of samples.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import MembershipMapping
    >>> X = np.random.default_rng(0).normal(size=(300, 6))
    >>> Y = np.column_stack([X[:, 0] + X[:, 1], X[:, 2] - X[:, 3]])
    >>> MembershipMapping().fit(X[:200], Y[:200]).score(X[200:], Y[200:]) > 0.9
    True
    """

    def __init__(self, inducing_ratio: float = 0.5, max_inducing: int = 500, centred: bool = True) -> None:
        self.inducing_ratio = inducing_ratio
        self.max_inducing = max_inducing
        self.centred = centred

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the mapping of rows of ``X`` onto ``y``, (n,) or (n, outputs)."""
        check_ratio(self.inducing_ratio)
        check_whole_number("max_inducing", self.max_inducing)
        check_centred(self.centred)
        inputs, outputs = check_rows(self, X, y, numeric_outputs=True)
        targets = np.asarray(outputs, dtype=np.float64).reshape(len(inputs), -1)
        self._input_unit, self._unit = unit_of(inputs), unit_of(targets)
        targets = targets / self._unit
        self._mean = targets.mean(axis=0) if self.centred else np.zeros(targets.shape[1])
        rows = inputs.astype(np.float64) / self._input_unit
        at_most = inducing_limit(len(rows), self.inducing_ratio, self.max_inducing)
        self._mapping, _ = fit_mapping(rows, targets - self._mean, at_most, factor=self._unit)
        self._one_output = np.ndim(outputs) == 1
        places = self._mapping.inputs
        raw = np.divide(
            places.inducing,
            places.inverse_range,
            out=np.zeros_like(places.inducing),
            where=places.inverse_range > 0.0,
        )
        self.inducing_points_ = (raw + places.shift) * self._input_unit
        self.tau_, self.sigma2_ = self._mapping.tau, self._mapping.sigma2
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Output of each row (001 eq. 60)."""
        check_is_fitted(self)
        rows: Any = check_rows(self, X, reset=False)
        found = self._mapping.outputs(rows.astype(np.float64) / self._input_unit)
        found = (found + self._mean) * self._unit
        return np.asarray(found[:, 0] if self._one_output else found)
