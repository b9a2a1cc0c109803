"""Kernel affine hull machines on arrays: fitting and folding, no checks, no classes users see.

A stack holds S machines of equal size (000 Def. 1 and 3); every step below is one operation over all of them.
For a query the kernel values of one layer give the image as one product,

    image = k A^-1 T / (k A^-1 1),

in hull coordinates, from which the next layer's encoding and the distance follow (000 eq. 33, 48, 51).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from onefold._base.arrays import Array, Index, Mask
from onefold.models._folding import Folding
from onefold.models.compose import BLOCK_BYTES, CACHED_BYTES, PRODUCT_WIDTH, SMALLEST_BLOCK
from onefold.models.kahm._hull import LARGEST_STACKED, Hull, build_hull, centre, squared_length
from onefold.models.kahm._regularisation import (
    Ridge,
    Target,
    resolvable,
    solve_cholesky,
    solve_spectral,
)

__all__ = [
    "LARGEST_STACKED",
    "Layer",
    "MachineStack",
    "fit_stack",
    "memberships",
    "rebuild_stack",
    "sample_kernel",
]


@dataclass(frozen=True)
class Layer:
    """One layer of S machines: everything that turns encodings into an image."""

    centres: Array  # (S, N, n) whitened encodings of the samples over the number of components, or (S, N, r):
    # the same for points that are not encoded yet, where the hull has few dimensions
    bias: Array  # (S, N, 1) minus their squared length over twice that number
    weights: Array  # (S, r + 2, N): A^-1 T, A^-1 1, and ones, so that one product gives all three
    lambdas: NDArray[np.float64]  # (S, 2) lambda*, and the lambda the weights were solved with
    floor: Array  # (S,) 1 / (lambda + N): see ``_safe``
    active: Mask  # (S,) whether the machine has a component left for this layer


@dataclass(frozen=True)
class MachineStack:
    """S fitted machines of N samples each."""

    hull: Hull
    layers: tuple[Layer, ...]

    @property
    def n_machines(self) -> int:
        """Number of machines in the stack."""
        return len(self.hull.mean)

    @property
    def centres(self) -> Array:
        """Mean of each machine's samples, (S, p)."""
        return self.hull.mean

    @property
    def rows_at_once(self) -> int:
        """Queries folded together: many for one large machine, so that its products pay, fewer for

        many small ones, so that intermediate results stay in the cache.
        """
        n_machines, n_samples, rank = self.hull.points.shape
        entries = self.hull.mean.shape[1] + n_machines * (2 * n_samples + 4 * rank)
        memory = BLOCK_BYTES if n_machines == 1 else CACHED_BYTES
        rows = memory // int(entries * self.hull.mean.itemsize)
        # A multiple of the width matrix products are made for: they lose up to a third at odd numbers.
        return max(rows // PRODUCT_WIDTH * PRODUCT_WIDTH, SMALLEST_BLOCK)

    def select(self, index: int) -> "MachineStack":
        """One machine of the stack, on the same memory, without layers it has no component for."""
        one = slice(index, index + 1)
        hull = self.hull
        picked = Hull(
            hull.centred[one],
            hull.mean[one],
            hull.points[one],
            None if hull.lift is None else hull.lift[one],
            None if hull.basis is None else hull.basis[one],
            hull.mean_points[one],
            hull.origin,
            hull.offset_points[one],
            hull.encoder[one],
            hull.n_encoded[one],
        )
        layers = tuple(
            Layer(*(getattr(layer, name)[one] for name in Layer.__dataclass_fields__))
            for layer in self.layers
            if layer.active[index]
        )
        return MachineStack(picked, layers)

    def fold(self, queries: Array, angles: bool = False) -> Folding:
        """Distance of every query from its image under every machine, the best layer each (000 eq. 52)."""
        best: Folding | None = None
        inside, total = self.hull.coordinates(queries)
        for layer, points in zip(self.layers, self._walk(inside), strict=True):
            folding = self._measure(queries, inside, total, points, angles)
            folding.distance2[~layer.active] = np.inf
            best = folding if best is None else best.closer(folding)
        assert best is not None  # a stack has at least one layer
        return best

    def images(self, queries: Array) -> list[Array]:
        """Images of the queries under each layer, (S, M, p) each; inactive layers repeat nothing."""
        inside, _ = self.hull.coordinates(queries)
        return [self.hull.features(points) for points in self._walk(inside)]

    def best_images(self, queries: Array) -> tuple[Array, Array]:
        """Image (S, M, p) by the best layer of each machine, and its squared distance (S, M)."""
        inside, total = self.hull.coordinates(queries)
        nearest = np.full(total.shape, np.inf, dtype=queries.dtype)
        chosen = np.zeros_like(inside)
        for layer, points in zip(self.layers, self._walk(inside), strict=True):
            distance2 = self._measure(queries, inside, total, points, angles=False).distance2
            closer = (distance2 < nearest) & layer.active[:, None]
            np.copyto(nearest, distance2, where=closer)
            np.copyto(chosen, points, where=closer[:, None, :])
        return self.hull.features(chosen), nearest

    def _walk(self, inside: Array) -> Iterator[Array]:
        """Coordinates of the images, layer after layer: each folds what the one before it returned."""
        points = inside
        for layer in self.layers:
            points = _image(self.hull, layer, points, inside)
            yield points

    def _measure(self, queries: Array, inside: Array, total: Array, points: Array, angles: bool) -> Folding:
        hull = self.hull
        products, lengths2 = np.einsum("srm,srm->sm", inside, points), squared_length(points)
        distance2 = hull.distance2(inside, total, points, products, lengths2)
        if not angles:
            return Folding(distance2, None)
        # |image| and |query| from zero, for the angle between them (004 eq. 104).
        along = (hull.mean_points[:, None, :] @ points)[:, 0]
        image2 = lengths2 + 2.0 * along + hull.mean_norm2[:, None]
        query2 = np.einsum("mp,mp->m", queries, queries)
        products += hull.mean @ queries.T + along
        return Folding.with_angle(distance2, np.maximum(image2, 0.0), query2, products)


def fit_stack(samples: Array, n_components: int, n_layers: int, factor: float) -> MachineStack:
    """Fit S machines to samples (S, N, p) of data that is to be seen ``factor`` times as large."""
    centred, mean = centre(samples)
    return rebuild_stack(centred, mean, n_components, n_layers, factor)


def rebuild_stack(
    centred: Array,
    mean: Array,
    n_components: int,
    n_layers: int,
    factor: float,
    known: NDArray[np.float64] | None = None,
) -> MachineStack:
    """Machines from centred samples; ``known`` (L, S, 2) holds the lambdas when they were fitted before."""
    hull = build_hull(centred, mean, n_components, factor)
    encoded = hull.points @ hull.encoder
    target = _target(hull, factor)
    layers: list[Layer] = []
    ridge: Ridge | None = None
    for depth in range(min(n_layers, max(int(hull.n_encoded.max()), 1))):
        n_used = hull.n_encoded - depth  # layer l uses n - l + 1 components (000 eq. 51)
        given = None if known is None else known[depth]
        ridge = _solve(_kernel(encoded, n_used), target, ridge, given)
        layers.append(_layer(hull, encoded, n_used, ridge, first=depth == 0))
    return MachineStack(hull, tuple(layers))


def sample_kernel(samples: Array, n_components: int, factor: float) -> tuple[Array, float]:
    """Kernel matrix (N, N) between samples (N, p) of one machine, and its lambda*."""
    hull = build_hull(*centre(samples[None].copy()), n_components, factor)
    kernel = _kernel(hull.points @ hull.encoder, hull.n_encoded)
    return kernel[0], float(_solve(kernel, _target(hull, factor), None, None).regularisation[0])


def _target(hull: Hull, factor: float) -> Target:
    with np.errstate(over="ignore"):
        mean_square = np.minimum(hull.mean_square().astype(np.float64) * (factor * factor), 1e300)
    n_features, factor = hull.mean.shape[1], min(factor, 1e150)
    return Target(hull.points, hull.mean_points, hull.mean_norm2, mean_square, n_features, factor)


def memberships(stack: MachineStack, queries: Array) -> Array:
    """Memberships h_i(Px) of queries (M, p) to the samples of one machine (000 eq. 38), (M, N)."""
    hull, layer = stack.hull, stack.layers[0]
    samples = (hull.points @ hull.encoder)[0].astype(np.float64)
    encodings = (hull.encoder[0].T @ hull.coordinates(queries)[0][0]).T.astype(np.float64)
    count = max(int(hull.n_encoded[0]), 1)
    kernel = np.exp(-cdist(encodings, samples, "sqeuclidean") / (2.0 * count))
    lam = resolvable(layer.lambdas[:, 0], len(samples), np.dtype(np.float64))[0]
    shifted = _kernel(samples[None], hull.n_encoded)[0] + lam * np.eye(len(samples))
    return np.asarray(scipy.linalg.solve(shifted, kernel.T, assume_a="pos").T, dtype=queries.dtype)


def _solve(kernel: Array, target: Target, previous: Ridge | None, known: NDArray[np.float64] | None) -> Ridge:
    if kernel.shape[1] <= LARGEST_STACKED:
        return solve_spectral(kernel, target, known)
    if len(kernel) > 1:
        raise ValueError("machines of this size are solved one by one")
    return solve_cholesky(kernel, target, previous, known)


def _kernel(encoded: Array, n_used: Index) -> Array:
    """Gaussian kernel between the samples, 000 eq. 35 and 39: whitened encodings make theta the identity."""
    used = np.where(np.arange(encoded.shape[2]) < n_used[:, None, None], encoded, 0.0).astype(encoded.dtype)
    used /= np.sqrt(2.0 * np.maximum(n_used, 1))[:, None, None].astype(encoded.dtype)
    kernel = used @ used.transpose(0, 2, 1)
    lengths = np.einsum("snc,snc->sn", used, used)
    kernel *= 2.0
    kernel -= lengths[:, :, None]
    kernel -= lengths[:, None, :]
    np.exp(np.minimum(kernel, 0.0, out=kernel), out=kernel)
    diagonal = np.arange(kernel.shape[1])
    kernel[:, diagonal, diagonal] = 1.0
    return kernel


def _layer(hull: Hull, encoded: Array, n_used: Index, ridge: Ridge, first: bool) -> Layer:
    dtype = encoded.dtype
    count = np.maximum(n_used, 1)[:, None, None]
    used = np.where(np.arange(encoded.shape[2]) < n_used[:, None, None], encoded, 0.0)
    centres = np.ascontiguousarray(used / count, dtype=dtype)
    if hull.small:
        centres = centres @ hull.encoder.transpose(0, 2, 1)
    bias = (np.einsum("snc,snc->sn", used, used)[:, :, None] / (-2.0 * count)).astype(dtype)
    n_machines, n_samples, width = ridge.solution.shape
    weights = np.ones((n_machines, width + 1, n_samples), dtype=dtype)
    weights[:, :-1] = ridge.solution.transpose(0, 2, 1)
    # Weights enter as a ratio only: bring them near one, so that a huge lambda does not underflow.
    weights[:, :-1] *= ridge.effective[:, None, None].astype(dtype)
    constant = n_used < 1  # no component left: the constant map onto the mean, exactly
    weights[constant, :-2], weights[constant, -2] = 0.0, 1.0
    floor = (ridge.effective / (ridge.effective + n_samples)).astype(dtype)
    active = (n_used >= 1) if not first else np.ones(n_machines, dtype=bool)
    lambdas = np.column_stack([ridge.regularisation, ridge.solved])
    return Layer(centres, bias, weights, lambdas, floor, active)


def _image(hull: Hull, layer: Layer, points: Array, queries: Array) -> Array:
    """Coordinates of the images of points (000 eq. 33), (S, r, M)."""
    encoded = points if hull.small else hull.encoder.transpose(0, 2, 1) @ points
    kernel = layer.centres @ encoded
    kernel += layer.bias
    # The ratio does not change when all kernel values of a query share a factor: the largest becomes 1,
    # so a far query cannot underflow to 0/0, and the query's own length drops out.
    kernel -= kernel.max(axis=1, keepdims=True)
    np.exp(kernel, out=kernel)
    product = layer.weights @ kernel
    images, sums, totals = product[:, :-2], product[:, -2], product[:, -1]
    safe = _safe(kernel, layer.floor, sums, totals)
    images /= np.where(safe, sums, 1.0)[:, None, :]
    if not safe.all():
        _send_far(hull.points, images, queries, ~safe)
    return images


def _safe(kernel: Array, floor: Array, sums: Array, totals: Array) -> Mask:
    """Whether the denominator is at least the bound 000 eq. 147 promises, with mu_max(K) <= N.

    The document derives the bound from a product of positive definite matrices being positive definite, which
    is false. Where it holds, Thm 2 and 3 hold as well, so asking for it makes both true for every query.
    """
    # Kernel values are at most one, so their sum bounds their squared length: usually enough to decide.
    safe = np.asarray(sums >= floor[:, None] * totals)
    unsure = ~safe
    if unsure.any():
        machines, rows = np.nonzero(unsure)
        values = kernel[machines, :, rows]
        bound = floor[machines] * np.einsum("kn,kn->k", values, values)
        safe[machines, rows] = sums[machines, rows] >= bound
    return safe


def _send_far(points: Array, images: Array, queries: Array, unsafe: Mask) -> None:
    """Map queries without a safe denominator onto the sample farthest from them: in the hull, and far."""
    for machine in np.flatnonzero(unsafe.any(axis=1)):
        rows = np.flatnonzero(unsafe[machine])
        samples = points[machine]
        # argmax of |q - t|^2 = |t|^2 - 2 q.t + |q|^2; the last term is the same for all samples.
        lengths = np.einsum("nr,nr->n", samples, samples)
        scores = lengths[:, None] - 2.0 * (samples @ queries[machine][:, rows])
        images[machine][:, rows] = samples[np.argmax(scores, axis=0)].T
