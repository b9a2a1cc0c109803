"""Regression in closed form as a scikit-learn estimator: what membership-mappings and fuzzy rules share."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Arrays
from onefold._base.parallel import one_blas_thread, run_parallel
from onefold._base.validation import Entry, check_parameters, check_rows
from onefold.models.pool import row_blocks
from onefold.models.scale import unit_of

__all__ = ["Regression"]

ROWS_AT_ONCE = 2048  # predicted together


class Regression(MultiOutputMixin, RegressorMixin, BaseEstimator, ABC):
    """Base class: outputs of any number, as deviations from their mean, in units of the model's own."""

    constraints: ClassVar[dict[str, Entry]]
    centred: bool = True  # whether deviations from the mean are modelled, or the outputs themselves
    _not_negative: ClassVar[tuple[str, ...]]  # arrays of the state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the outputs ``y`` of rows of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Outputs.

        Returns
        -------
        Regression
            The fitted estimator itself.
        """
        self.__dict__.pop("guarantee_", None)  # it was about the rows of an earlier fit
        self.check_parameters()
        inputs, outputs = check_rows(self, X, y, numeric_outputs=True)
        targets = np.asarray(outputs, dtype=np.float64).reshape(len(inputs), -1)
        self._one_output = np.ndim(outputs) == 1
        self._input_unit, self._unit = unit_of(inputs), unit_of(targets)
        targets = targets / self._unit
        self._mean = targets.mean(axis=0) if self.centred else np.zeros(targets.shape[1])
        with one_blas_thread():
            self._learn(inputs.astype(np.float64) / self._input_unit, targets)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Compute the output of each row (001 eq. 60; 003 eq. 2.113, 2.116).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Outputs, of the shape that ``y`` had.
        """
        rows = self._inputs(X)
        blocks = row_blocks(len(rows), ROWS_AT_ONCE)
        found = np.concatenate(run_parallel(lambda block: self._deviations(rows[block]), blocks))
        found = (found + self._mean) * self._unit
        return np.asarray(found[:, 0] if self._one_output else found)

    def check_parameters(self) -> None:
        """Refuse parameters that break a constraint, before looking at data."""
        check_parameters(self, self.constraints)

    def state(self) -> Arrays:
        """Return arrays from which :meth:`restore` makes the same model.

        Returns
        -------
        dict of str to ndarray
            What the samples left, but no samples.
        """
        arrays, numbers = self._state()
        return {
            **arrays,
            "mean": self._mean,
            "numbers": np.array([*numbers, self._input_unit, self._unit]),
            "one_output": np.array([self._one_output]),
        }

    def restore(self, state: Arrays, n_features: int) -> None:
        """Become the model that :meth:`state` described.

        Parameters
        ----------
        state : dict of str to ndarray
            What :meth:`state` returned.
        n_features : int
            Number of inputs.

        Raises
        ------
        ValueError
            If no fitted model could have these arrays.
        """
        self.check_parameters()
        shapes, flag = self._shapes(state, n_features), state["one_output"]
        fitting = all(state[name].shape == shape and min(shape) >= 1 for name, shape in shapes.items())
        if (
            not fitting
            or flag.shape != (1,)
            or flag.dtype != np.bool_
            or (flag[0] and len(state["mean"]) > 1)
        ):
            raise ValueError("the arrays do not fit each other")
        floats = all(state[name].dtype == np.float64 and np.isfinite(state[name]).all() for name in shapes)
        lowest = min(state[name].min() for name in ("numbers", *self._not_negative))
        if not floats or lowest < 0.0 or not state["numbers"][-2:].min() > 0.0:
            raise ValueError("the numbers are not those of a fitted model")
        *numbers, self._input_unit, self._unit = state["numbers"].tolist()
        self._mean, self._one_output = state["mean"], bool(flag[0])
        self._restore(state, numbers)

    def _inputs(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        rows: Any = check_rows(self, X, reset=False)
        return np.asarray(rows.astype(np.float64) / self._input_unit)

    @abstractmethod
    def _learn(self, rows: Array, targets: Array) -> None:
        """Fit to rows and outputs in the model's units; ``_mean`` is what to subtract from the outputs."""

    @abstractmethod
    def _deviations(self, rows: Array) -> Array:
        """Outputs of rows as deviations from the mean, all in the model's units."""

    @abstractmethod
    def _state(self) -> tuple[Arrays, list[float]]:
        """Arrays and numbers that the model consists of, besides what all have."""

    @abstractmethod
    def _shapes(self, state: Arrays, n_features: int) -> dict[str, tuple[int, ...]]:
        """The shapes that the arrays of float64 in a state must have."""

    @abstractmethod
    def _restore(self, state: Arrays, numbers: list[float]) -> None:
        """Take over arrays and numbers that were checked."""
