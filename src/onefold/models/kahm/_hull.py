"""The affine hull of a batch of samples, in orthonormal coordinates, with its principal-component encoder.

Everything a kernel affine hull machine needs happens inside the hull: encodings are linear in the
coordinates, and the distance of a query splits into a part inside the hull and a constant residual outside.
So after one product with the samples nothing has p columns any more.

All arrays carry a leading axis of S hulls of N samples each, so that hundreds of small machines are one call.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from onefold._base.arrays import Array, Index

__all__ = ["Hull", "build_hull", "centre", "coordinates"]


# 004 Alg. 1: a component whose encodings span less than this carries no information.
MINIMUM_RANGE = 1e-3
# Directions of the hull flatter than this, relative to the widest one, are rounding noise: they come from
# the square root of a Gram matrix (float64), or are amplified beyond use by whitening (float32).
FLATNESS = {np.dtype(np.float64): 5e-7, np.dtype(np.float32): 1e-3}


@dataclass(frozen=True)
class Hull:
    """S affine hulls. Shapes: S hulls, N samples, p features, r coordinates, n components."""

    centred: Array  # (S, N, p) samples minus their mean
    mean: Array  # (S, p)
    points: Array  # (S, N, r) coordinates of the samples
    lift: Array | None  # (S, N, r) turns products with ``centred`` into coordinates; None when r == p
    mean_points: Array  # (S, r) coordinates of the mean vector itself, seen from zero
    origin: Array  # (p,) mean of the means: queries are moved there first, against cancellation
    offset_points: Array  # (S, r) coordinates of each mean, seen from the origin
    encoder: Array  # (S, r, n) coordinates to whitened encodings: P^T theta^(-1/2)
    n_encoded: Index  # (S,) components left after shrinking (004 Alg. 1)

    @property
    def mean_norm2(self) -> Array:
        """Squared length of each mean, (S,)."""
        return np.asarray(np.einsum("sp,sp->s", self.mean, self.mean))

    def mean_square(self) -> Array:
        """Mean square over all entries of the samples, ||Y||_F^2 / (pN) of 000 eq. 40; (S,)."""
        _, n_samples, n_features = self.centred.shape
        spread = np.einsum("snr,snr->s", self.points, self.points)
        return np.asarray((spread / n_samples + self.mean_norm2) / n_features)


def centre(samples: Array) -> tuple[Array, Array]:
    """Samples (S, N, p) minus their mean, and the mean (S, p)."""
    mean = samples.mean(axis=1, dtype=np.float64).astype(samples.dtype)
    return samples - mean[:, None, :], mean


def build_hull(centred: Array, mean: Array, n_components: int, factor: float) -> Hull:
    """Coordinates and encoder for centred samples; ``factor`` is the scale at which ranges are judged."""
    _, n_samples, n_features = centred.shape
    origin = mean.mean(axis=0)
    if n_features <= n_samples:
        points, lift, mean_points, offset_points = centred, None, mean, mean - origin
        axes, variances = _principal_axes(points, min(n_components, n_features, n_samples - 1))
    else:
        points, lift, variances = _gram_coordinates(centred)
        mean_points = _project(centred, lift, mean[:, None, :])[:, 0]
        offset_points = _project(centred, lift, (mean - origin)[:, None, :])[:, 0]
        # In these coordinates the principal axes are the coordinate axes themselves.
        n_axes = min(n_components, n_samples - 1)
        axes = np.broadcast_to(np.eye(points.shape[2], n_axes), (len(centred), points.shape[2], n_axes))
        variances = variances[:, :n_axes]
    n_encoded = _shrink(points @ axes.astype(points.dtype), variances, factor)
    kept = np.arange(axes.shape[2]) < n_encoded[:, None]
    deviations = np.sqrt(np.where(kept, variances, 1.0))
    encoder = np.where(kept[:, None, :], axes / deviations[:, None, :], 0.0).astype(centred.dtype)
    return Hull(centred, mean, points, lift, mean_points, origin, offset_points, encoder, n_encoded)


def coordinates(hull: Hull, queries: Array) -> tuple[Array, Array]:
    """Coordinates (S, M, r) of queries (M, p) from each mean, and their squared length outside (S, M)."""
    if hull.lift is None:
        inside = queries[None] - hull.mean[:, None, :]
        return inside, np.zeros(inside.shape[:2], dtype=queries.dtype)
    shifted = queries - hull.origin
    inside = _project(hull.centred, hull.lift, shifted) - hull.offset_points[:, None, :]
    # |x - mean|^2 without forming M x p differences for each of the S hulls.
    offset = hull.mean - hull.origin
    total = np.einsum("mp,mp->m", shifted, shifted) - 2.0 * (offset @ shifted.T)
    total += np.einsum("sp,sp->s", offset, offset)[:, None]
    outside = total - np.einsum("smr,smr->sm", inside, inside)
    return inside, np.maximum(outside, 0.0)


def _project(centred: Array, lift: Array, queries: Array) -> Array:
    """Products of the queries with an orthonormal basis of each hull, through the samples."""
    n_hulls, n_samples, n_features = centred.shape
    if queries.ndim == 2:
        # One large product for all hulls, seen as (S, M, N) without a copy.
        products = queries @ centred.reshape(n_hulls * n_samples, n_features).T
        stacked = products.reshape(len(queries), n_hulls, n_samples).transpose(1, 0, 2)
    else:
        stacked = queries @ centred.transpose(0, 2, 1)
    return np.asarray(stacked @ lift)


def _principal_axes(points: Array, n_axes: int) -> tuple[Array, Array]:
    """Leading eigenvectors (S, r, n) and eigenvalues (S, n) of the sample covariance, largest first."""
    n_hulls, n_samples, n_coordinates = points.shape
    if n_axes == 0:
        return np.zeros((n_hulls, n_coordinates, 0)), np.zeros((n_hulls, 0))
    covariance = (points.transpose(0, 2, 1) @ points).astype(np.float64) / (n_samples - 1)
    if n_hulls == 1 and n_axes < n_coordinates:
        leading = (n_coordinates - n_axes, n_coordinates - 1)
        values, vectors = scipy.linalg.eigh(covariance[0], subset_by_index=leading, check_finite=False)
        return vectors[None, :, ::-1], values[None, ::-1]
    values, vectors = np.linalg.eigh(covariance)
    return vectors[:, :, ::-1][:, :, :n_axes], values[:, ::-1][:, :n_axes]


def _gram_coordinates(centred: Array) -> tuple[Array, Array, Array]:
    """Coordinates, lift and variances of p-dimensional samples from their N x N Gram matrix (p > N)."""
    dtype = centred.dtype
    n_samples = centred.shape[1]
    rank = max(n_samples - 1, 1)  # centring costs one dimension
    if len(centred) == 1:
        gram = (centred[0] @ centred[0].T)[None].astype(np.float64)  # recognised as a symmetric product
    else:
        gram = (centred @ centred.transpose(0, 2, 1)).astype(np.float64)
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[:, ::-1][:, :rank], vectors[:, :, ::-1][:, :, :rank]
    flat = values <= values[:, :1] * FLATNESS[dtype] ** 2
    lengths = np.sqrt(np.where(flat, 1.0, values))
    kept = ~flat[:, None, :]
    points = np.where(kept, vectors * lengths[:, None, :], 0.0).astype(dtype)
    lift = np.where(kept, vectors / lengths[:, None, :], 0.0).astype(dtype)
    return points, lift, np.where(flat, 0.0, values) / max(n_samples - 1, 1)


def _shrink(encodings: Array, variances: Array, factor: float) -> Index:
    """004 Alg. 1, steps 3-6: keep the components before the first one whose encodings hardly vary."""
    n_hulls, n_samples, n_axes = encodings.shape
    if n_axes == 0:
        return np.zeros(n_hulls, dtype=np.intp)
    ranges = np.ptp(encodings, axis=1) * factor
    noise = variances[:, :1] * n_samples * np.finfo(np.float64).eps
    useful = (ranges >= MINIMUM_RANGE) & (variances > noise)
    return np.asarray(np.where(useful.all(axis=1), n_axes, useful.argmin(axis=1)), dtype=np.intp)
