"""The affine hull of a batch of samples, in orthonormal coordinates, with its principal-component encoder.

Everything an autoencoder of these samples needs happens inside the hull: encodings are linear in the
coordinates, and the distance of a query splits into a part inside the hull and a constant residual outside.
So after one product with the samples nothing has p columns any more.

All arrays carry a leading axis of S hulls of N samples each, so that hundreds of small machines are one call.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from onefold._base.arrays import Array, Index, sizes_of
from onefold._base.linalg import cholesky, leading_eigenvectors, symmetric_product
from onefold.exceptions import InvalidInputError

# Machines up to this size are handled many at once through eigenvalues, larger ones by Cholesky, one by one.
LARGEST_STACKED = 128
# 004 Alg. 1: a component whose encodings span less than this carries no information.
MINIMUM_RANGE = 1e-3
# Directions of the hull flatter than this, relative to the widest one, are below what products with the
# samples can resolve.
FLATNESS = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 3e-4}


@dataclass(frozen=True)
class Hull:
    """S affine hulls. Shapes: S hulls, N samples, p features, r coordinates, n components."""

    centred: Array  # (S, N, p) samples minus their mean
    mean: Array  # (S, p)
    points: Array  # (S, N, r) coordinates of the samples
    lift: Array | None  # (S, N, r): the basis is lift^T centred; for one large hull with p > N
    basis: Array | None  # (S, r, p) the basis itself; for many small hulls with p > N
    mean_points: Array  # (S, r) coordinates of the mean vector itself, seen from zero
    origin: Array  # (p,) mean of the means: queries are moved there first, against cancellation
    offset_points: Array  # (S, r) coordinates of each mean, seen from the origin
    encoder: Array  # (S, r, n) coordinates to whitened encodings: P^T theta^(-1/2)
    n_encoded: Index  # (S,) components left after shrinking (004 Alg. 1)

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other, as those of a foreign file."""
        shapes = {"centred": "SNp", "points": "SNr", "lift": "SNr", "basis": "Srp", "encoder": "Srn"}
        vectors = {"mean": "Sp", "mean_points": "Sr", "origin": "p", "offset_points": "Sr"}
        sizes = sizes_of(self, **shapes, **vectors, n_encoded="S")
        given = (getattr(self, name) for name in (*shapes, *vectors))
        fitting = (
            {array.dtype for array in given if array is not None} == {self.mean.dtype}
            and self.mean.dtype in FLATNESS
            and min(self.centred.shape) >= 1
            and (self.lift is None or (self.basis is None and sizes["S"] == 1))
            and (sizes["r"] == sizes["p"] or not self.spans_everything)
        )
        if not fitting or self.n_encoded.min() < 0 or self.n_encoded.max() > sizes["n"]:
            raise InvalidInputError("the arrays of a hull do not fit each other")

    def select(self, index: int) -> "Hull":
        """One hull, on the same memory."""
        one = slice(index, index + 1)
        parts: dict[str, Any] = {
            name: None if value is None else value[one] for name, value in vars(self).items()
        }
        return Hull(**(parts | {"origin": self.origin}))

    @property
    def small(self) -> bool:
        """Whether the hull has so few dimensions that encoding saves nothing."""
        return bool(self.points.shape[2] <= 2 * self.encoder.shape[2])

    @property
    def mean_norm2(self) -> Array:
        """Squared length of each mean, (S,)."""
        return np.asarray(np.einsum("sp,sp->s", self.mean, self.mean))

    def mean_square(self) -> Array:
        """Mean square over all entries of the samples, ||Y||_F^2 / (pN) of 000 eq. 40; (S,)."""
        _, n_samples, n_features = self.centred.shape
        spread = np.einsum("snr,snr->s", self.points, self.points)
        return np.asarray((spread / n_samples + self.mean_norm2) / n_features)

    def coordinates(self, queries: Array) -> tuple[Array, Array]:
        """Coordinates (S, r, M) of queries (M, p) from each mean, and squared distances from it, (S, M).

        Queries lie along the last axis, here and in everything that follows, so that whatever is done per
        query runs over contiguous memory however few samples a machine has.
        """
        inside: Array
        if self.spans_everything:
            inside = np.ascontiguousarray(queries.T)[None] - self.mean[:, :, None]
            return inside, squared_length(inside)
        offset, shifted = self.mean - self.origin, queries - self.origin
        inside = self._project(shifted.T)
        inside -= self.offset_points[:, :, None]
        # |x - mean|^2 without forming M x p differences for each of the S hulls.
        total = np.einsum("mp,mp->m", shifted, shifted) - 2.0 * (offset @ shifted.T)
        total += np.einsum("sp,sp->s", offset, offset)[:, None]
        return inside, total

    @property
    def spans_everything(self) -> bool:
        """Whether the coordinates are the features themselves: there are fewer of them than samples."""
        return self.lift is None and self.basis is None

    def distance2(
        self, inside: Array, total: Array, points: Array, products: Array, lengths2: Array
    ) -> Array:
        """Squared distances (S, M) of queries, as :meth:`coordinates` gives them, from points (S, r, M).

        ``products`` are the inner products of the two, ``lengths2`` the squared lengths of the points.
        """
        if self.spans_everything:
            return squared_length(inside - points)
        # The query's part outside the hull is only in ``total``, which is no more exact than this difference.
        return np.maximum(total - 2.0 * products + lengths2, 0.0)

    def features(self, points: Array) -> Array:
        """Points of the hulls, (S, r, M), in the space of the data, (S, M, p)."""
        rows = points.transpose(0, 2, 1)
        if self.basis is not None:
            rows = rows @ self.basis
        elif self.lift is not None:
            rows = (rows @ self.lift.transpose(0, 2, 1)) @ self.centred
        return np.asarray(rows + self.mean[:, None, :])

    def _project(self, columns: Array) -> Array:
        """Products of queries, the columns of (p, M), with the basis of each hull, (S, r, M)."""
        if self.lift is not None:
            return np.asarray(self.lift.transpose(0, 2, 1) @ (self.centred[0] @ columns)[None])
        assert self.basis is not None  # hulls that span everything have nothing to project
        # One large product for all hulls.
        n_hulls, rank, n_features = self.basis.shape
        rows = self.basis.reshape(n_hulls * rank, n_features)
        return np.asarray(rows @ columns).reshape(n_hulls, rank, -1)


def squared_length(columns: Array) -> Array:
    """Squared lengths (S, M) of the columns of (S, r, M)."""
    return np.asarray(np.einsum("srm,srm->sm", columns, columns))


def centre(samples: Array) -> tuple[Array, Array]:
    """Subtract from the samples (S, N, p), in place, their mean; and the mean (S, p)."""
    mean = samples.mean(axis=1, dtype=np.float64).astype(samples.dtype)
    samples -= mean[:, None, :]
    return samples, mean


def build_hull(centred: Array, mean: Array, n_components: int, factor: float | None) -> Hull:
    """Coordinates and encoder for centred samples.

    ``factor`` is the scale at which ranges are judged; None judges them by the widest one, whatever the unit.
    """
    _, n_samples, n_features = centred.shape
    origin = mean.mean(axis=0)
    n_axes = min(n_components, n_features, n_samples - 1)
    lift = basis = None
    if n_features <= n_samples:
        points = centred
        axes, variances = _principal_axes(points, n_axes)
        mean_points, offset_points = mean, mean - origin
    else:
        if n_samples > LARGEST_STACKED:
            points, lift, axes, variances = _cholesky_coordinates(centred, n_axes)
        else:
            points, basis, axes, variances = _spectral_coordinates(centred, n_axes)
        directions = centred if basis is None else basis
        mean_points, offset_points = (
            _along(directions, lift, vectors) for vectors in (mean, np.asarray(mean - origin))
        )
    n_encoded = _shrink(points @ axes.astype(points.dtype), variances, factor)
    kept = np.arange(n_axes) < n_encoded[:, None]
    deviations = np.sqrt(np.where(kept, variances, 1.0))
    encoder = np.where(kept[:, None, :], axes / deviations[:, None, :], 0.0).astype(centred.dtype)
    # Rows first in memory, as they are after loading: products of other orders have other last digits.
    points, mean_points, offset_points, encoder = (
        np.ascontiguousarray(array) for array in (points, mean_points, offset_points, encoder)
    )
    return Hull(centred, mean, points, lift, basis, mean_points, origin, offset_points, encoder, n_encoded)


def _along(directions: Array, lift: Array | None, vectors: Array) -> Array:
    """Coordinates (S, r) of one vector (S, p) for each hull."""
    products = directions @ vectors[:, :, None]
    return np.asarray(products if lift is None else lift.transpose(0, 2, 1) @ products)[:, :, 0]


def _principal_axes(points: Array, n_axes: int) -> tuple[Array, Array]:
    """Leading eigenvectors (S, r, n) and eigenvalues (S, n) of the sample covariance, largest first."""
    n_hulls, n_samples, n_coordinates = points.shape
    if n_axes == 0:
        return np.zeros((n_hulls, n_coordinates, 0)), np.zeros((n_hulls, 0))
    varying = np.flatnonzero(points.any(axis=(0, 1))) if n_hulls == 1 else np.arange(n_coordinates)
    if n_axes < len(varying) < n_coordinates:  # an eigenproblem costs the cube: margins of images count
        axes = np.zeros((1, n_coordinates, n_axes))
        axes[:, varying], variances = _principal_axes(np.take(points, varying, axis=2), n_axes)
        return axes, variances
    if n_hulls == 1 and n_axes < n_coordinates:
        one = symmetric_product(points[0], transposed=True).astype(np.float64, copy=False) / (n_samples - 1)
        values, vectors = leading_eigenvectors(one, n_axes)
        return vectors[None], values[None]
    covariance = (points.transpose(0, 2, 1) @ points).astype(np.float64) / (n_samples - 1)
    values, vectors = np.linalg.eigh(covariance)
    return vectors[:, :, ::-1][:, :, :n_axes], values[:, ::-1][:, :n_axes]


def _spectral_coordinates(centred: Array, n_axes: int) -> tuple[Array, Array, Array, Array]:
    """Coordinates, basis, principal axes and variances of many small hulls, from their Gram matrices."""
    dtype = centred.dtype
    n_hulls, n_samples, _ = centred.shape
    rank = max(n_samples - 1, 1)  # centring costs one dimension
    exact = centred.astype(np.float64, copy=False)
    values, vectors = np.linalg.eigh(exact @ exact.transpose(0, 2, 1))
    values, vectors = values[:, ::-1][:, :rank], vectors[:, :, ::-1][:, :, :rank]
    flat = values <= values[:, :1] * FLATNESS[dtype] ** 2
    lengths = np.sqrt(np.where(flat, 1.0, values))
    kept = ~flat[:, None, :]
    points = np.where(kept, vectors * lengths[:, None, :], 0.0).astype(dtype)
    basis = np.where(kept, vectors / lengths[:, None, :], 0.0).transpose(0, 2, 1) @ exact
    # In these coordinates the principal axes are the coordinate axes themselves.
    axes = np.broadcast_to(np.eye(rank, n_axes), (n_hulls, rank, n_axes))
    variances = np.where(flat, 0.0, values)[:, :n_axes] / max(n_samples - 1, 1)
    return points, basis.astype(dtype, copy=False), axes, variances


def _cholesky_coordinates(centred: Array, n_axes: int) -> tuple[Array, Array, Array, Array]:
    """Coordinates, lift, principal axes and variances of one large hull, from its Gram matrix.

    With a Cholesky factor L of the Gram matrix, made definite by a tiny multiple d of the identity, T = L are
    coordinates in the basis L^-1 Y. Distances stay exact for any d, since T times the basis is Y; only the
    squared length of an image w T grows, by d |w|^2.
    """
    n_samples = centred.shape[1]
    exact = centred[0].astype(np.float64, copy=False)
    gram = symmetric_product(exact)
    values, vectors = leading_eigenvectors(gram, n_axes)
    values = np.maximum(values, 0.0)
    dtype = centred.dtype
    if not values[0] > 0.0:  # all samples are equal: the hull is a point
        nothing = np.zeros((1, n_samples, n_samples), dtype=dtype)
        return nothing, nothing, np.zeros((1, n_samples, n_axes)), np.zeros((1, n_axes))
    shift = float(values[0]) * FLATNESS[dtype] ** 2
    factor = gram
    factor.flat[:: n_samples + 1] += shift
    if not cholesky(factor):
        raise ArithmeticError("the Gram matrix could not be factored")  # the shift exceeds rounding by far
    points = np.tril(factor)
    lift = scipy.linalg.lapack.dtrtri(points, lower=1)[0].T
    axes = lift.T @ (vectors * np.sqrt(values))
    variances = values[None] / (n_samples - 1)
    return points[None].astype(dtype), np.ascontiguousarray(lift, dtype=dtype)[None], axes[None], variances


def _shrink(encodings: Array, variances: Array, factor: float | None) -> Index:
    """004 Alg. 1, steps 3-6: keep the components before the first one whose encodings hardly vary."""
    n_hulls, n_samples, n_axes = encodings.shape
    if n_axes == 0:
        return np.zeros(n_hulls, dtype=np.intp)
    ranges = np.ptp(encodings, axis=1)
    if factor is None:
        wide = ranges >= FLATNESS[encodings.dtype] * ranges[:, :1]
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # a factor beyond the precision, for any range
            wide = ranges * factor >= MINIMUM_RANGE
    noise = variances[:, :1] * n_samples * np.finfo(np.float64).eps
    useful = wide & (variances > noise)
    return np.asarray(np.where(useful.all(axis=1), n_axes, useful.argmin(axis=1)), dtype=np.intp)
