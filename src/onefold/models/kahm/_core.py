"""Kernel affine hull machines on arrays: fitting and folding, no checks, no classes users see.

A stack holds S machines of equal size (000 Def. 1 and 3); every step below is one operation over all of them.
For a query the kernel values of one layer give the image as one product,

    image = k A^-1 T / (k A^-1 1),

in hull coordinates, from which the next layer's encoding and the distance follow (000 eq. 33, 48, 51).
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from onefold._base.arrays import Array, Index, Mask
from onefold.models._hull import LARGEST_STACKED, Hull, build_hull, centre
from onefold.models._layers import LayeredStack
from onefold.models.kahm._regularisation import (
    Ridge,
    Target,
    resolvable,
    solve,
    solve_equidistant,
)

__all__ = [
    "LARGEST_STACKED",
    "Layer",
    "MachineStack",
    "fit_stack",
    "memberships",
    "rebuild_stack",
    "regression_target",
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

    @property
    def width(self) -> int:
        """One kernel value per sample."""
        return int(self.centres.shape[1])

    def select(self, index: int | Index) -> "Layer":
        """The layer of one machine, on the same memory; or of several, copied."""
        chosen = index if isinstance(index, np.ndarray) else slice(index, index + 1)
        return Layer(*(getattr(self, name)[chosen] for name in Layer.__dataclass_fields__))

    def image(self, hull: Hull, points: Array, inside: Array) -> Array:
        """Coordinates of the images of points (000 eq. 33), (S, r, M)."""
        encoded = points if hull.small else hull.encoder.transpose(0, 2, 1) @ points
        kernel = self.centres @ encoded
        kernel += self.bias
        # The ratio does not change when all kernel values of a query share a factor: the largest becomes 1,
        # so a far query cannot underflow to 0/0, and the query's own length drops out.
        kernel -= kernel.max(axis=1, keepdims=True)
        np.exp(kernel, out=kernel)
        product = self.weights @ kernel
        images, sums, totals = product[:, :-2], product[:, -2], product[:, -1]
        safe = _safe(kernel, self.floor, sums, totals)
        images /= np.where(safe, sums, 1.0)[:, None, :]
        if not safe.all():
            _send_far(hull.points, images, inside, ~safe)
        return images


MachineStack = LayeredStack[Layer]


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
    target = regression_target(hull, factor)
    layers: list[Layer] = []
    ridge: Ridge | None = None
    for depth in range(min(n_layers, max(int(hull.n_encoded.max()), 1))):
        n_used = hull.n_encoded - depth  # layer l uses n - l + 1 components (000 eq. 51)
        given = None if known is None else known[depth]
        ridge = _solve(encoded, n_used, target, ridge, given)
        layers.append(_layer(hull, encoded, n_used, ridge, first=depth == 0))
    return MachineStack(hull, tuple(layers))


def regression_target(hull: Hull, factor: float) -> Target:
    """The samples as the regularisation sees them."""
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
    shifted = sample_kernel(samples[None], hull.n_encoded)[0] + lam * np.eye(len(samples))
    return np.asarray(scipy.linalg.solve(shifted, kernel.T, assume_a="pos").T, dtype=queries.dtype)


def _solve(
    encoded: Array, n_used: Index, target: Target, previous: Ridge | None, known: NDArray[np.float64] | None
) -> Ridge:
    n_samples = encoded.shape[1]
    if n_used.min() == n_samples - 1 > 0:
        return solve_equidistant(target, known)
    return solve(sample_kernel(encoded, n_used), target, previous, known)


def sample_kernel(encoded: Array, n_used: Index) -> Array:
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
