"""Membership-mappings as a scikit-learn regressor (001 Alg. 1, Def. 10)."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array
from onefold._base.parallel import one_blas_thread, run_parallel
from onefold._base.validation import check_rows, check_whole_number
from onefold.models._unit import unit_of
from onefold.models.compose import row_blocks
from onefold.models.membership._autoencoders import check_centred, check_ratio, inducing_limit
from onefold.models.membership._core import Inputs, Mapping, Targets, fit_mapping

__all__ = ["MembershipMapping"]

ROWS_AT_ONCE = 2048  # predicted together


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
    mapping_ : the fitted mapping, in units of its own
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
        self.check_parameters()
        inputs, outputs = check_rows(self, X, y, numeric_outputs=True)
        targets = np.asarray(outputs, dtype=np.float64).reshape(len(inputs), -1)
        self._units = unit_of(inputs), unit_of(targets)
        targets = targets / self._units[1]
        self._mean = targets.mean(axis=0) if self.centred else np.zeros(targets.shape[1])
        rows = inputs.astype(np.float64) / self._units[0]
        at_most = inducing_limit(len(rows), self.inducing_ratio, self.max_inducing)
        with one_blas_thread():
            seen = Targets.of(targets - self._mean, factor=self._units[1])
            self.mapping_, *_ = fit_mapping(rows, seen, at_most)
        self._one_output = np.ndim(outputs) == 1
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Output of each row (001 eq. 60)."""
        check_is_fitted(self)
        rows: Any = check_rows(self, X, reset=False)

        def outputs(block: slice) -> Array:
            return self.mapping_.outputs(rows[block].astype(np.float64) / self._units[0])

        found = np.concatenate(run_parallel(outputs, row_blocks(len(rows), ROWS_AT_ONCE)))
        found = (found + self._mean) * self._units[1]
        return np.asarray(found[:, 0] if self._one_output else found)

    @property
    def inducing_points_(self) -> Array:
        places = self.mapping_.inputs
        return np.asarray(places.unscaled() * self._units[0])

    @property
    def tau_(self) -> float:
        return self.mapping_.tau

    @property
    def sigma2_(self) -> float:
        return self.mapping_.sigma2

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before looking at data."""
        check_ratio(self.inducing_ratio)
        check_whole_number("max_inducing", self.max_inducing)
        check_centred(self.centred)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which :meth:`restore` makes the same mapping: no samples, but what they left."""
        mapping = self.mapping_
        return {
            "inducing": mapping.inputs.inducing,
            "shift": mapping.inputs.shift,
            "inverse_range": mapping.inputs.inverse_range,
            "weights": mapping.weights,
            "mean": self._mean,
            "numbers": np.array([mapping.ridge, mapping.tau, mapping.variance, *self._units]),
            "one_output": np.array([self._one_output]),
        }

    def restore(self, state: dict[str, NDArray[Any]], n_features: int) -> None:
        """Become the mapping of this state; a ValueError if no fitted one could have it."""
        self.check_parameters()
        _check_state(state, n_features)
        ridge, tau, variance, *units = (float(number) for number in state["numbers"])
        inputs = Inputs(state["shift"], state["inverse_range"], state["inducing"])
        self.mapping_ = Mapping(inputs, state["weights"], ridge, tau, variance)
        self._units, self._mean = (units[0], units[1]), state["mean"]
        self._one_output = bool(state["one_output"][0])


def _check_state(state: dict[str, NDArray[Any]], n_features: int) -> None:
    """Refuse arrays that no fitted mapping of so many inputs has."""
    n_inducing, n_outputs = state["weights"].shape
    shapes = {
        "inducing": (n_inducing, n_features),
        "shift": (n_features,),
        "inverse_range": (n_features,),
        "weights": (n_inducing, n_outputs),
        "mean": (n_outputs,),
        "numbers": (5,),
    }
    flag = state["one_output"]
    fitting = all(state[name].shape == shape for name, shape in shapes.items())
    fitting = fitting and min(n_inducing, n_outputs) >= 1 and flag.shape == (1,) and flag.dtype == np.bool_
    if not fitting or (flag[0] and n_outputs > 1):
        raise ValueError("the arrays do not fit each other")
    floats = all(state[name].dtype == np.float64 and np.isfinite(state[name]).all() for name in shapes)
    numbers = state["numbers"]
    if not floats or min(numbers.min(), state["inverse_range"].min()) < 0.0 or numbers[3:].min() == 0.0:
        raise ValueError("the numbers are not those of a fitted mapping")
