"""Bringing target rows to where a source's rows are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array, Index
from onefold.exceptions import InvalidInputError
from onefold.transfer._description import (
    Description,
    MomentDescription,
    covariance_of,
    leading_directions,
)

__all__ = ["Affine", "coral", "mapped_rows", "overall_mean", "procrustes", "shift", "subspace_alignment"]

Floats = NDArray[np.float64]
SMALLEST = 0.05  # least eigenvalue of a covariance that is inverted, in units of the mean one


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


def overall_mean(description: Description) -> Floats:
    """Mean of all records of a source."""
    return np.asarray(description.counts @ description.means / description.counts.sum())


def shift(description: Description, rows: Array) -> Affine:
    """Moves rows so that their mean is the source's."""
    return Affine(None, rows.mean(axis=0, dtype=np.float64), overall_mean(description))


def coral(description: MomentDescription, rows: Array) -> Affine:
    """Gives rows the source's mean and correlations: whitened by their own, coloured by the source's.

    Both covariances have their smallest eigenvalues raised, so that no direction is blown up.
    """
    centre, means = overall_mean(description), description.means
    shares = description.counts / description.counts.sum()
    between = (means - centre).T @ ((means - centre) * shares[:, None])
    theirs = np.tensordot(shares, description.covariances, axes=1) + between
    matrix = _power(theirs, 0.5) @ _power(covariance_of(rows), -0.5)
    return Affine(matrix, rows.mean(axis=0, dtype=np.float64), centre)


def procrustes(description: Description, coordinates: Floats, codes: Index) -> Floats:
    """The source's class means, turned, scaled and moved onto those of labelled rows, (C, k).

    Classes without a labelled row are turned along with the others.
    """
    known = np.unique(codes)
    own = np.stack([coordinates[codes == code].mean(axis=0) for code in known])
    theirs = description.means
    centre = theirs[known].mean(axis=0)
    centred = own - own.mean(axis=0)
    left, sizes, right = np.linalg.svd((theirs[known] - centre).T @ centred, full_matrices=False)
    spread = float(np.sum((theirs[known] - centre) ** 2))
    factor = float(sizes.sum()) / spread if spread > 0.0 else 0.0
    return np.asarray(factor * (theirs - centre) @ (left @ right) + own.mean(axis=0))


def _power(covariance: Floats, exponent: float) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    least = max(SMALLEST * float(values.mean()), np.finfo(float).tiny ** 0.5)
    return np.asarray((vectors * np.maximum(values, least) ** exponent) @ vectors.T)
