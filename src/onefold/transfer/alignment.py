"""Bringing target rows to where a source's rows are."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array
from onefold.exceptions import InvalidInputError
from onefold.transfer._description import covariance_of, leading_directions

__all__ = ["Affine", "mapped_rows", "subspace_alignment"]

Floats = NDArray[np.float64]


class Space(Protocol):
    """What a map of target rows must know of the source."""

    @property
    def n_features_in_(self) -> int:
        """Features before the encoder."""

    @property
    def n_encoded_(self) -> int:
        """Features after it."""


def subspace_alignment(subspace: Floats, rows: Array) -> Floats:
    """Matrix (p_sr, p_tg) that takes a target row to the source space, V+^T V (001 eq. 79).

    Both PCAs keep n_st = min(ceil(p_sr / 2), p_tg) directions. The signs and the order of the two sets of
    eigenvectors have nothing to do with each other, so that nothing is really aligned: it is what the
    document does, and hardly more than chance is left of the source. Rows are not centred, as printed.
    """
    n_st = min(len(subspace), rows.shape[1])
    own = leading_directions(covariance_of(rows), n_st)
    return np.asarray(subspace[:n_st].T @ own)


class Affine:
    """A map of rows: x -> (x - before) matrix^T + after."""

    def __init__(self, matrix: Floats | None, before: Floats, after: Floats) -> None:
        self.matrix, self.before, self.after = matrix, before, after

    def __call__(self, rows: Array) -> Array:
        """Mapped rows."""
        moved = rows - self.before
        return np.asarray((moved if self.matrix is None else moved @ self.matrix.T) + self.after)


def mapped_rows(to_source: Any, rows: Array) -> Array:
    """Rows taken by a user's map: something with ``transform``, or a function of a table of rows."""
    try:
        found = to_source.transform(rows) if hasattr(to_source, "transform") else to_source(rows)
    except TypeError:
        raise InvalidInputError("to_source must be a fitted transformer or a function of rows") from None
    mapped = np.asarray(found)
    if mapped.ndim != 2 or len(mapped) != len(rows) or mapped.dtype.kind not in "fiu":
        raise InvalidInputError("to_source must give one row of numbers for every row")
    if not np.isfinite(mapped).all():
        raise InvalidInputError("to_source gave a NaN or infinite value")
    return mapped if mapped.dtype in (np.float32, np.float64) else mapped.astype(np.float64)
