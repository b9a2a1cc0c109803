"""The positive definite matrix Pi that weighs the columns of a row against one another (002 eq. 4)."""

import itertools
import math
from functools import cached_property
from typing import Any

import numpy as np

from onefold.exceptions import InvalidInputError
from onefold.privacy.mechanisms._data import Floats

__all__ = ["Weights"]

ENUMERATED = 14  # up to this many columns the corners of a box are tried one by one
LARGEST_CONDITION = 1e14


class Weights:
    """Powers of Pi: None stands for the identity, one number per column for a diagonal, or a matrix."""

    def __init__(self, Pi: Any = None) -> None:
        self.diagonal: Floats = np.ones(())
        self.vectors: Floats | None = None
        if Pi is None:
            return
        try:
            values = np.asarray(Pi, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError("Pi must hold numbers: one per column, or a square matrix") from None
        if values.ndim == 2:
            values = self._of_matrix(values)
        if values.ndim != 1 or not len(values) or not np.all((values > 0) & np.isfinite(values)):
            raise InvalidInputError(
                "Pi must be positive definite: one positive number per column, or a matrix"
            )
        self.diagonal = values

    def _of_matrix(self, matrix: Floats) -> Floats:
        """Eigenvalues of the matrix, whose eigenvectors are kept unless it is diagonal."""
        if matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise InvalidInputError("Pi must be a square matrix of finite numbers")
        if np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0:
            return np.diag(matrix).copy()
        if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0):
            raise InvalidInputError("Pi must be symmetric")
        values, self.vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        if not values[0] * LARGEST_CONDITION > values[-1]:
            raise InvalidInputError("Pi must be positive definite, and not nearly singular")
        return values

    @property
    def n_features(self) -> int | None:
        """Columns, or None for the identity of any size."""
        return None if self.diagonal.ndim == 0 else len(self.diagonal)

    @property
    def independent(self) -> bool:
        """The columns of the noise are independent."""
        return self.vectors is None

    def powers(self, exponent: float, n_features: int) -> Floats:
        """Diagonal of Pi to a power."""
        values = np.broadcast_to(self.diagonal**exponent, n_features)
        return values if self.vectors is None else (self.vectors**2) @ values

    def noise_scales(self, lam: float, n_features: int) -> Floats:
        """Standard deviation of each column of the noise of covariance Pi^(-1/2) / sqrt(lam) (002 eq. 9)."""
        return np.sqrt(self.powers(-0.5, n_features)) * math.pow(lam, -0.25)

    def matrix(self, exponent: float, n_features: int) -> Floats:
        """Pi to a power."""
        values = np.broadcast_to(self.diagonal**exponent, n_features)
        return np.diag(values) if self.vectors is None else (self.vectors * values) @ self.vectors.T

    def times(self, rows: Floats, exponent: float) -> Floats:
        """Rows multiplied by Pi to a power."""
        if self.vectors is None:
            return np.asarray(rows * self.diagonal**exponent)
        return rows @ self.matrix(exponent, len(self.diagonal))

    def reach(self, widths: Floats) -> float:
        """Largest length of Pi^(1/4) d over all d with \\|d_j\\| at most ``widths[j]``.

        Exact for independent columns and for few columns; otherwise the smaller of two upper bounds, since
        the exact value takes a search over all corners of the box.
        """
        if self.vectors is None:
            return math.sqrt(float(np.sum(self.diagonal**0.5 * widths**2)))
        form = widths[:, np.newaxis] * self._root * widths
        p = len(form)
        if p <= ENUMERATED:
            corners = np.array([(1.0, *signs) for signs in itertools.product((-1.0, 1.0), repeat=p - 1)])
            return math.sqrt(float(np.max(np.einsum("ij,ij->i", corners @ form, corners))))
        return math.sqrt(min(float(np.abs(form).sum()), p * float(np.linalg.eigvalsh(form)[-1])))

    @cached_property
    def _root(self) -> Floats:
        return self.matrix(0.5, len(self.diagonal))
