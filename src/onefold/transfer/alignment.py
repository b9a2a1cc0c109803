"""From a target to a source: the way of its rows, an alignment, and views of what the source knows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import Array, Floats, Index
from onefold.exceptions import InvalidInputError
from onefold.transfer._description import Description, covariance_of, leading_directions
from onefold.transfer.learners import Projection

if TYPE_CHECKING:
    from onefold.transfer.source import PrivateSource

__all__ = ["Way", "mapped_rows", "overall_mean", "procrustes", "subspace_alignment", "ways_to"]

PROCRUSTES = "procrustes"  # to_source: use nothing of the source but the shape that its class means form
SMALLEST = 0.05  # least variance or eigenvalue that is divided by, in units of the mean one


def subspace_alignment(subspace: Floats, rows: Array) -> Floats:
    """Compute the matrix V+^T V that takes a target row to the source space (001 eq. 79).

    Both PCAs keep n_st = min(ceil(p_sr / 2), p_tg) directions. The signs and the order of the two sets of
    eigenvectors have nothing to do with each other, so that nothing is really aligned: it is what the
    document does, and hardly more than chance is left of the source. Rows are not centred, as printed.

    Parameters
    ----------
    subspace : ndarray of shape (n_directions, p_sr)
        Principal directions of the source.
    rows : ndarray of shape (n_samples, p_tg)
        Rows of the target.

    Returns
    -------
    ndarray of shape (p_sr, p_tg)
        The matrix.
    """
    n_st = min(len(subspace), rows.shape[1])
    own = leading_directions(covariance_of(rows), n_st)
    return np.asarray(subspace[:n_st].T @ own)


def mapped_rows(to_source: Any, rows: Array) -> Array:
    """Take rows through a user's map: something with ``transform``, or a function of a table of rows."""
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
    """Compute the mean of all records of a source."""
    return np.asarray(description.counts @ description.means / description.counts.sum())


def procrustes(description: Description, coordinates: Floats, codes: Index) -> Floats:
    """Turn, scale and move the source's class means onto those of labelled rows, (C, k).

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


# --- the way of a row -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """The way from rows of the target to placed rows of the source space.

    A user's map gives rows like the source's own, or encoded ones; without a map, rows of the same width go
    the way of the source's rows, and others are multiplied by ``matrix`` (001 eq. 79), if there is one.
    """

    source: "PrivateSource | None"
    to_source: Any = None
    matrix: Floats | None = None

    @property
    def turns(self) -> bool:
        """Whether the source's class means are turned onto the target's rows, which stay as they are."""
        return isinstance(self.to_source, str) and self.to_source == PROCRUSTES

    @property
    def encodes(self) -> bool:
        """Whether rows go through an encoder or a user's map."""
        mapped = self.to_source is not None or (self.source is not None and self.source.encoder_ is not None)
        return mapped and not self.turns

    def __call__(self, rows: Array) -> Array:
        """Place rows."""
        if self.source is None or self.turns:
            return rows
        if self.matrix is not None:
            return self.source.description_.place(rows @ self.matrix.T)
        return self._enter(rows if self.to_source is None else mapped_rows(self.to_source, rows))

    def is_open(self, n_features: int) -> bool:
        """Tell whether rows of this width can be placed without an alignment."""
        return self.source is None or self.to_source is not None or n_features == self.source.n_features_in_

    def _enter(self, rows: Array) -> Array:
        if self.source is None:
            return rows
        if rows.shape[1] == self.source.n_features_in_:
            return self.source.encode(rows)
        if rows.shape[1] == self.source.n_encoded_:
            return self.source.description_.place(rows)
        sizes = f"{self.source.n_features_in_} features"
        if self.source.encoder_ is not None:
            sizes += f", or {self.source.n_encoded_} encoded ones"
        raise InvalidInputError(f"to_source must give rows of {sizes}, as the source has")


def ways_to(sources: "Sequence[PrivateSource]", to_source: Any) -> tuple[Way, ...]:
    """Return the way to each source; without a source one that leaves rows as they are."""
    return tuple(Way(source, to_source) for source in sources) or (Way(None, to_source),)


# --- views: ways to ask a source --------------------------------------------------------------------------


@dataclass(frozen=True)
class DescriptionView:
    """The source's own scores."""

    description: Description

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """Score how well each class of the source explains each row, (n, C)."""
        return self.description.scores(rows)


@dataclass(frozen=True)
class MeansView:
    """The source's class means, with distances in the target's own principal directions."""

    projection: Projection
    centres: Floats  # (C, k)
    variances: Floats  # (k,)

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """Return minus half the squared distance to each mean, (n, C)."""
        coordinates = self.projection(rows) / np.sqrt(self.variances)
        centres = self.centres / np.sqrt(self.variances)
        squares = np.sum(coordinates**2, axis=1)[:, None] - 2.0 * coordinates @ centres.T
        return np.asarray(-0.5 * (squares + np.sum(centres**2, axis=1)))


def turned_view(
    description: Description, coordinates: Floats, codes: Index, projection: Projection
) -> MeansView:
    """Turn the source's class means onto those of the labelled rows, for rows of any width.

    The shape that the source's means form is rigid, so that few labels can place it. ``codes`` of -1 have no
    label; only labelled rows decide.
    """
    labelled = codes >= 0
    centres = procrustes(description, coordinates[labelled], codes[labelled])
    spread = coordinates.var(axis=0)
    variances = np.maximum(spread, SMALLEST * spread.mean()) + np.finfo(float).tiny
    return MeansView(projection, centres, variances)
