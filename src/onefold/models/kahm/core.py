"""Kernel affine hull machines on arrays: fitting and folding; no checks, no classes users see.

A stack holds S machines of equal size (000 Def. 1 and 3); every step below is one operation over all of them.
For a query the kernel values of one layer give the image as one product,

    image = k A^-1 T / (k A^-1 1),

in hull coordinates, from which the next layer's encoding and the distance follow (000 eq. 33, 48, 51).

The regularisation lambda* is a fixed point (000 eq. 40-44). With A = K + lambda I, the mean squared error of
kernel ridge regression of the samples on themselves is R(lambda) = lambda^2 ||A^-1 Y||_F^2 / (pN) (000 eq. 42
and 109), and lambda* = R(lambda*) + tau with tau = 2 ||Y||_F^2 / (pN). Solving for A^-1 [T, 1], which the
machine needs anyway, gives R for free: no inverse is formed. R is increasing with slope below one, so secant
steps inside [tau, 3/2 tau] are safe.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from onefold._base.arrays import Array, Floats, Index, Mask, sizes_of
from onefold._base.linalg import cholesky, cholesky_solve
from onefold.exceptions import InvalidInputError
from onefold.models.few import gather
from onefold.models.hull import LARGEST_STACKED, Hull, build_hull, centre
from onefold.models.layers import LayeredStack, Samples

# --- the regularisation lambda* ------------------------------------------------------------------------


MAXIMUM_STEPS = 60
# Relative accuracy of lambda*, and of the lambda the solution is computed with, by precision.
TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
SOLUTION_TOLERANCE = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 3e-5}
# Steps shorter than this, relative to lambda, tell nothing about the slope.
SMALLEST_SECANT = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-3}
# Below this lambda a float32 Cholesky factor of K + lambda I is too rough: solve in float64 instead.
SMALLEST_SINGLE_LAMBDA = 0.02


@dataclass(frozen=True)
class KernelRidge:
    """Solutions for S machines: ``solution`` = A^-1 [T, 1] of shape (S, N, r + 1)."""

    regularisation: Floats  # (S,) lambda*
    solved: Floats  # (S,) the lambda of the solution: equal but for the tolerance
    effective: Floats  # (S,) that lambda kept within what the arithmetic can resolve
    solution: Array
    slope: float = 0.0  # dR/dlambda at the solution, to start the next layer with


@dataclass(frozen=True)
class Target:
    """What R depends on besides K: Y = T Q + 1 mean^T, with Q orthonormal and never needed."""

    points: Array  # (S, N, r) the coordinates T
    mean_points: Array  # (S, r) Q mean
    mean_norm2: Array  # (S,)
    mean_square: Floats  # (S,) ||Y||_F^2 / (pN), already at the machine's scale
    n_features: int
    factor: float  # scale of the data as the machine sees it


def resolvable(regularisation: Floats, n_samples: int, dtype: np.dtype) -> Floats:
    """Lambda within what the arithmetic can tell apart: duplicates make K singular, huge data drown it."""
    eps = np.finfo(dtype).eps
    return np.clip(regularisation, 4.0 * n_samples * eps, n_samples / eps)


def solve(
    kernel: Array,
    target: Target,
    previous: KernelRidge | None = None,
    known: Floats | None = None,
) -> KernelRidge:
    """Whichever way suits the size of the machines."""
    if kernel.shape[1] <= LARGEST_STACKED:
        return solve_spectral(kernel, target, known)
    if len(kernel) > 1:
        raise ValueError("machines of this size are solved one by one")
    return solve_cholesky(kernel, target, previous, known)


def solve_spectral(kernel: Array, target: Target, known: Floats | None = None) -> KernelRidge:
    """All S machines at once through eigenvalues of K: for many small machines.

    ``known`` (S, 2) gives lambda* and the lambda of the solution when they are known, as for a loaded model.
    """
    n_samples = kernel.shape[1]
    values, vectors = np.linalg.eigh(kernel.astype(np.float64))
    values = np.maximum(values, 0.0)
    right = np.concatenate([target.points, np.ones_like(target.points[:, :, :1])], axis=2)
    rotated = vectors.transpose(0, 2, 1) @ right.astype(np.float64)
    # Squared length of each row of V^T Y, from its parts inside the hull and along the mean.
    energies = _row_norms(rotated[:, :, :-1], rotated[:, :, -1], target)
    lam = _spectral_fixed_point(values, energies, target) if known is None else known[:, 1]
    used = resolvable(lam, n_samples, np.dtype(np.float64))
    solution = vectors @ (rotated / (values + used[:, None])[:, :, None])
    return KernelRidge(lam if known is None else known[:, 0], lam, used, solution.astype(target.points.dtype))


def solve_equidistant(target: Target, known: Floats | None = None) -> KernelRidge:
    """All S machines at once where encodings keep every direction of the hull: K is known without data.

    Whitening N centred samples in N - 1 dimensions puts them at the corners of a regular simplex, so every
    off-diagonal kernel value is 1/e (000 eq. 35 and 39 with n = N - 1). K then has two eigenvalues: one
    along the vector of ones and one on all of its complement, where the centred samples are.
    """
    n_machines, n_samples, rank = target.points.shape
    apart = math.exp(-1.0)
    values = np.broadcast_to([1.0 - apart, 1.0 - apart + n_samples * apart], (n_machines, 2))
    inside = np.einsum("snr,snr->s", target.points, target.points, dtype=np.float64)
    energies = np.stack([inside, n_samples * target.mean_norm2.astype(np.float64)], axis=1)
    lam = _spectral_fixed_point(values, energies, target) if known is None else known[:, 1]
    used = resolvable(lam, n_samples, np.dtype(np.float64))
    shrunk = 1.0 / (values + used[:, None])
    solution = np.empty((n_machines, n_samples, rank + 1), dtype=target.points.dtype)
    solution[:, :, :-1] = target.points * shrunk[:, :1, None]
    solution[:, :, -1] = shrunk[:, 1:]
    return KernelRidge(lam if known is None else known[:, 0], lam, used, solution)


def _spectral_fixed_point(values: Array, energies: Array, target: Target) -> Floats:
    """Newton's method on R(lambda) + tau - lambda for all machines at once.

    ``energies`` are the squared lengths of the samples' parts along the eigenvectors of K.
    """
    n_samples = target.points.shape[1]
    weights = energies * (target.factor**2 / (target.n_features * n_samples))
    tau = 2.0 * target.mean_square
    lam = 1.25 * tau
    for _ in range(MAXIMUM_STEPS):
        used = resolvable(lam, n_samples, np.dtype(np.float64))[:, None]
        shrunk = used / (values + used)
        error = (weights * shrunk**2).sum(axis=1)  # 000 eq. 42
        slope = (2.0 * weights * shrunk**2 * (1.0 - shrunk) / used).sum(axis=1)
        following = np.clip(lam + (error + tau - lam) / (1.0 - np.minimum(slope, 0.99)), tau, 1.5 * tau)
        settled = np.all(np.abs(following - lam) <= 1e-14 * lam)
        lam = following
        if settled:
            break
    return np.asarray(lam)


def solve_cholesky(
    kernel: Array,
    target: Target,
    previous: KernelRidge | None = None,
    known: Floats | None = None,
) -> KernelRidge:
    """One machine (S = 1) by secant steps on Cholesky factors: for N in the hundreds or thousands.

    The search starts from the layer before, whose lambda* is close, and runs in float32 as long as
    that is precise enough to tell the next step. ``known`` as above.
    """
    tau = 2.0 * float(target.mean_square[0])
    smallest = tau if known is None else min(tau, float(known[0, 1]))
    rough = smallest >= SMALLEST_SINGLE_LAMBDA
    precise = np.dtype(np.float32 if rough and target.points.dtype == np.float32 else np.float64)
    if known is not None:
        solution, _, used = _System(kernel[0], target, precise).evaluate(float(known[0, 1]))
        return KernelRidge(
            known[:, 0], known[:, 1], np.array([used]), solution[None].astype(target.points.dtype)
        )
    search = _Search(1.25 * tau, None, tau)
    if previous is not None:
        search = _Search(float(previous.regularisation[0]), previous.slope, tau)
    if rough and precise == np.float64:
        search.run(_System(kernel[0], target, np.dtype(np.float32)), solve=False)
    lam, solution, used = search.run(_System(kernel[0], target, precise))
    solution = solution[None].astype(target.points.dtype)
    return KernelRidge(
        np.array([search.lam]), np.array([lam]), np.array([used]), solution, search.slope or 0.0
    )


class _System:
    """K + lambda I with its right-hand side [T, 1], in one precision."""

    def __init__(self, kernel: Array, target: Target, dtype: np.dtype) -> None:
        self.target = target
        self.kernel = np.asarray(kernel, dtype=dtype, order="F")
        self.right = np.empty((len(kernel), target.points.shape[2] + 1), dtype=dtype, order="F")
        self.right[:, :-1] = target.points[0]
        self.right[:, -1] = 1.0

    def evaluate(self, lam: float) -> tuple[Array, float, float]:
        """Solution A^-1 [T, 1], the error R(lambda), and the lambda really used."""
        n_samples, dtype = len(self.kernel), self.kernel.dtype
        used = float(resolvable(np.array([lam]), n_samples, dtype)[0])
        while True:
            factor = self.kernel.copy(order="F")
            factor.flat[:: n_samples + 1] += dtype.type(used)
            if cholesky(factor):
                break
            used *= 16.0  # rounding made K slightly indefinite: the smallest shift that heals it
        solution = self.right.copy(order="F")
        cholesky_solve(factor, solution)
        norms = _row_norms(solution[None, :, :-1], solution[None, :, -1], self.target)
        with np.errstate(over="ignore"):
            error = np.square(np.float64(used) * self.target.factor) * norms.mean() / self.target.n_features
        # R is below the mean square of the data (000 eq. 22), which a huge scale could make overflow.
        return solution, min(float(error), float(self.target.mean_square[0])), used


class _Search:
    """Secant steps towards lambda = R(lambda) + tau, which can go on in a higher precision."""

    def __init__(self, lam: float, slope: float | None, tau: float) -> None:
        self.tau, self.slope = tau, slope
        self.lam = min(max(lam, tau), 1.5 * tau)  # R lies between 0 and half of tau

    def run(self, system: _System, solve: bool = True) -> tuple[float, Array, float]:
        """Step until ``lam``, the next value, is certain and, to ``solve``, close to that of the solution.

        Returns the lambda of the last solution, the solution, and the lambda really used in it.
        """
        dtype = system.kernel.dtype
        before: tuple[float, float] | None = None
        for _ in range(MAXIMUM_STEPS):
            lam = self.lam
            solution, error, used = system.evaluate(lam)
            doubt = 0.1  # how wrong the slope may be, as a part of it
            if self.slope is None:
                self.slope, doubt = _single_mode_slope(error, lam, self.tau), 1.0
            elif before is not None and abs(lam - before[0]) > SMALLEST_SECANT[dtype] * lam:
                self.slope = min(max((error - before[1]) / (lam - before[0]), 0.0), 0.99)
            step = (error + self.tau - lam) / (1.0 - self.slope)
            self.lam = min(max(lam + step, self.tau), 1.5 * self.tau)
            # What an error in the slope leaves of the step is the error of the next lambda.
            left = doubt * self.slope / (1.0 - self.slope) * abs(self.lam - lam)
            close = not solve or abs(self.lam - lam) <= SOLUTION_TOLERANCE[dtype] * lam
            if close and left <= TOLERANCE[dtype] * lam:
                break
            before = (lam, error)
        return lam, solution, used


def _row_norms(inside: Array, ones: Array, target: Target) -> Floats:
    """Squared row lengths of M Y, given M T and M 1, where Y = T Q + 1 mean^T; (S, N)."""
    own = np.einsum("snr,snr->sn", inside, inside)
    cross = np.einsum("snr,sr->sn", inside, target.mean_points) * ones
    return np.asarray(own + 2.0 * cross + ones**2 * target.mean_norm2[:, None], dtype=np.float64)


def _single_mode_slope(error: float, lam: float, tau: float) -> float:
    """Slope of R if all of the data lay in one eigenvector of K: a first guess."""
    kept = (2.0 * error / tau) ** 0.5 if tau > 0.0 else 1.0
    return min(max(2.0 * error / lam * (1.0 - kept), 0.0), 0.9) if lam > 0.0 else 0.0


# --- machines ------------------------------------------------------------------------------------------


# Squared distance from the mean, over 2n, up to which no kernel values of a query vanish together.
FARTHEST = {np.dtype(np.float64): 300.0, np.dtype(np.float32): 30.0}
# A large machine with so few rows of weights spends its time on passes over kernel values, not on products:
# it makes no more of them at once than the cache of a core holds.
THIN, CACHED_VALUES = 34, 2**16


@dataclass(frozen=True)
class KernelLayer:
    """One layer of S machines: everything that turns encodings into an image."""

    hull: Hull = field(init=False, repr=False)  # that of the stack, which sets it
    depth: int  # layers before this one
    weights: Array  # (S, r + 2, N): A^-1 T, A^-1 1, and ones, so that one product gives all three
    lambdas: Floats  # (S, 2) lambda*, and the lambda the weights were solved with
    floor: Array  # (S,) 1 / (lambda + N): see ``_look_closer``

    def on(self, hull: Hull) -> "KernelLayer":
        """The layer itself, over its hull."""
        object.__setattr__(self, "hull", hull)
        return self

    @property
    def n_used(self) -> Index:
        """Components of this layer, (S,): n - l + 1 in layer l (000 eq. 51); at most 0 where none is left."""
        return self.hull.n_encoded - self.depth

    @property
    def active(self) -> Mask:
        """Whether each machine has a component left for this layer, (S,)."""
        return (self.n_used >= 1) | (self.depth == 0)

    @property
    def width(self) -> int:
        """One kernel value per sample."""
        return int(self.weights.shape[2])

    @cached_property
    def centres(self) -> Array:
        """The samples as one product with an encoding wants them, (S, N, n + 2); made when first needed.

        Whitened encodings of the samples over the number of components, n or, for points that are not encoded
        yet, r where the hull has few dimensions; minus their squared length over twice that number; and minus
        one.
        """
        hull, n_used = self.hull, self.n_used
        encoded = hull.points @ hull.encoder
        count = np.maximum(n_used, 1)[:, None, None]
        used = np.where(np.arange(encoded.shape[2]) < n_used[:, None, None], encoded, 0.0)
        codes = (used / count).astype(encoded.dtype)
        if hull.small:
            codes = codes @ hull.encoder.transpose(0, 2, 1)
        centres = np.full((*codes.shape[:2], codes.shape[2] + 2), -1.0, dtype=encoded.dtype)
        centres[:, :, :-2] = codes
        centres[:, :, -2:-1] = np.einsum("snc,snc->sn", used, used)[:, :, None] / (-2.0 * count)
        return centres

    def select(self, index: int) -> "KernelLayer":
        """The layer of one machine, on the same memory."""
        one = slice(index, index + 1)
        layer = KernelLayer(self.depth, self.weights[one], self.lambdas[one], self.floor[one])
        layer.__dict__["centres"] = self.centres[one]  # computed once for all machines
        return layer

    def image(self, hull: Hull, points: Array, inside: Array) -> Array:
        """Coordinates of the images of points (000 eq. 33), (S, r, M)."""
        product, kernel = self._product(hull, points)
        images, sums, totals = product[:, :-2], product[:, -2], product[:, -1]
        # The sum of kernel values bounds their squared length over the largest: usually enough to decide.
        safe = np.asarray(sums >= self.floor[:, None] * totals)
        if not safe.all():
            kernel = np.exp(self._exponents(hull, points)) if kernel is None else kernel
            _look_closer(kernel, self.floor, sums, safe)
        images /= np.where(safe, sums, 1.0)[:, None, :]
        if not safe.all():
            _send_far(hull.points, images, inside, ~safe)
        return images

    def _product(self, hull: Hull, points: Array) -> tuple[Array, Array | None]:
        """Weights times kernel values of points, (S, r + 2, M), and the kernel values where they are kept."""
        if len(points) == 1 and len(self.weights[0]) <= THIN and self.width * points.shape[2] > CACHED_VALUES:
            columns, far = self._columns(hull, points)
            if not far.size:
                return self._product_in_parts(columns), None
        kernel = self._exponents(hull, points)
        np.exp(kernel, out=kernel)
        return self.weights @ kernel, kernel

    def _product_in_parts(self, columns: Array) -> Array:
        """The same for one machine in few dimensions, some samples at a time: the cache holds them."""
        product = np.zeros((1, self.weights.shape[1], columns.shape[1]), dtype=columns.dtype)
        step = max(CACHED_VALUES // columns.shape[1], 1)
        for start in range(0, self.width, step):
            kernel = self.centres[0, start : start + step] @ columns
            np.exp(kernel, out=kernel)
            product[0] += self.weights[0, :, start : start + step] @ kernel
        return product

    def _columns(self, hull: Hull, points: Array) -> tuple[Array, Index]:
        """Points of one machine as the factor of ``centres``, (n + 2, M), and which are too far for it."""
        n_used = max(int(self.n_used[0]), 0)
        encoded = points[0] if hull.small else hull.encoder[0].T @ points[0]
        codes = hull.encoder[0, :, :n_used].T @ points[0] if hull.small else encoded[:n_used]
        lengths = np.einsum("nm,nm->m", codes, codes) / points.dtype.type(2 * max(n_used, 1))
        far = np.flatnonzero(~(lengths <= FARTHEST[points.dtype]))
        lengths[far] = 0.0
        return np.concatenate([encoded, np.ones_like(lengths[None]), lengths[None]]), far

    def _exponents(self, hull: Hull, points: Array) -> Array:
        """Logarithms of the kernel values of points, (S, N, M), up to a term for each point.

        The image is a ratio in which a common factor of all kernel values of a point cancels. The factor is
        such that no value exceeds 1 and a far point does not underflow to 0/0.
        """
        if len(points) > 1:  # small machines: as many values per point as encodings
            encoded = points if hull.small else hull.encoder.transpose(0, 2, 1) @ points
            kernel = self.centres[:, :, :-2] @ encoded
            kernel += self.centres[:, :, -2:-1]
            kernel -= kernel.max(axis=1, keepdims=True)
            return np.asarray(kernel)
        # One product gives minus the squared distances over 2n, without further passes over N values. Samples
        # are at 1/2 from their mean on average, so the nearest one is no farther than the mean and 1/2.
        columns, far = self._columns(hull, points)
        kernel = self.centres @ columns
        kernel[:, :, far] -= kernel[:, :, far].max(axis=1, keepdims=True)
        return np.asarray(kernel)


@dataclass(frozen=True)
class MachineStack(LayeredStack[KernelLayer]):
    """S kernel machines, which can be asked side by side with those of other stacks."""

    layers: tuple[KernelLayer, ...]
    gather = staticmethod(gather)

    def __post_init__(self) -> None:
        """Refuse layers that are not those of this hull, as in a foreign file."""
        n_machines, n_samples, rank = self.hull.points.shape
        for depth, layer in enumerate(self.layers):
            sizes_of(layer.on(self.hull), weights="SwN", lambdas="S2", floor="S")
            fitting = (
                layer.weights.shape == (n_machines, rank + 2, n_samples)
                and layer.depth == depth
                and layer.weights.dtype == layer.floor.dtype == self.hull.mean.dtype
                and 0.0 < layer.floor.min() <= layer.floor.max() <= 1.0  # no denominator may be zero
            )
            if not fitting or (layer.weights[:, -1] != 1.0).any() or layer.lambdas.min() < 0.0:
                raise InvalidInputError("the numbers are not those of a fitted machine")

    def samples(self) -> Samples:
        """What machines are fitted again from."""
        return Samples(self.hull.centred, self.hull.mean, np.stack([layer.lambdas for layer in self.layers]))

    def fold_at(self, queries: Array, lambdas: Sequence[float]) -> Array:
        """Squared distances (L, S, M) of queries by the first layer of the same machines at other lambdas.

        All lambdas share the spectrum of K and the coordinates of the queries, which cost most.
        """
        hull, view = self.hull, self.view(queries)
        points = hull.points.astype(np.float64)
        values, vectors = np.linalg.eigh(
            sample_kernel(points @ hull.encoder.astype(np.float64), hull.n_encoded)
        )
        right = np.concatenate([points, np.ones_like(points[:, :, :1])], axis=2)
        rotated, values = vectors.transpose(0, 2, 1) @ right, np.maximum(values, 0.0)
        found = []
        for number in lambdas:
            lam = resolvable(np.full(len(points), number), points.shape[1], np.dtype(np.float64))
            solution = vectors @ (rotated / (values + lam[:, None])[:, :, None])
            layer = _layer(hull, 0, KernelRidge(lam, lam, lam, solution.astype(hull.points.dtype)))
            images = layer.image(hull, view.inside, view.inside)
            found.append(self.measure(view, images, angles=False).distance2)
        return np.stack(found)

    def memberships(self, queries: Array) -> Array:
        """Memberships h_i(Px) of queries (M, p) to the samples of one machine (000 eq. 38), (M, N)."""
        hull, layer = self.hull, self.layers[0]
        samples = (hull.points @ hull.encoder)[0].astype(np.float64)
        encodings = (hull.encoder[0].T @ hull.coordinates(queries)[0][0]).T.astype(np.float64)
        count = max(int(hull.n_encoded[0]), 1)
        kernel = np.exp(-cdist(encodings, samples, "sqeuclidean") / (2.0 * count))
        lam = resolvable(layer.lambdas[:, 0], len(samples), np.dtype(np.float64))[0]
        shifted = sample_kernel(samples[None], hull.n_encoded)[0] + lam * np.eye(len(samples))
        return np.asarray(scipy.linalg.solve(shifted, kernel.T, assume_a="pos").T, dtype=queries.dtype)

    def leave_one_out(self) -> Floats:
        """Squared distances of samples from their images under the first layer of the others, in one row.

        There are none of machines of fewer than five. Callers hold BLAS to one thread.

        With K the kernel between the samples, H = K (K + lambda I)^-1 smooths them: row i of H Y over the sum
        of row i of H is the image of sample i under its own machine (000 Def. 13, 004 Def. 6). Leaving sample
        i out needs no second fit. With the encoding and lambda kept, the ridge regression without row i
        answers at sample i ((H Y)_i - H_ii y_i) / (1 - H_ii), for the samples as for the sum of memberships.
        Their ratio is the image of sample i under the machine of the others,

            sum over j != i of H_ij y_j / sum over j != i of H_ij,

        so that the distance from it is the distance from the image under the machine itself times
        s_i / (s_i - H_ii), s = H 1.
        """
        hull = self.hull
        n_samples = hull.points.shape[1]
        if n_samples < FEWEST_ROWS:
            return np.empty(0)
        points = hull.points.astype(np.float64)
        encoded = points @ hull.encoder.astype(np.float64)
        kernel = sample_kernel(encoded, hull.n_encoded)
        lam = resolvable(self.layers[0].lambdas[:, 1], n_samples, np.dtype(np.float64))
        values, vectors = np.linalg.eigh(kernel)
        values = np.maximum(values, 0.0)
        inverse = 1.0 / (values + lam[:, None])
        smoother = (vectors * (values * inverse)[:, None, :]) @ vectors.transpose(0, 2, 1)
        rest = lam[:, None] * np.einsum("sij,sj->si", vectors**2, inverse)  # 1 - H_ii
        diagonal = np.arange(n_samples)
        smoother[:, diagonal, diagonal] = kernel[:, diagonal, diagonal] = 0.0
        for machine, row in np.argwhere(kernel.max(axis=2) < ALONE):
            # Far from all others: the ridge without this sample has the inverse of the one with it. As for
            # any query, a common factor of the kernel values is free.
            exponents = _exponents(encoded[machine], int(row), int(hull.n_encoded[machine]))
            kernel[machine, row] = np.exp(exponents - exponents.max())
            turned = (vectors[machine].T @ kernel[machine, row]) * inverse[machine]
            smoother[machine, row], rest[machine, row] = vectors[machine] @ turned, 1.0
            smoother[machine, row, row] = 0.0
        sums = smoother.sum(axis=2)
        # The same guard as for any query: a denominator below the bound of 000 eq. 147 sends the sample far.
        bound = np.einsum("sij,sij->si", kernel, kernel) / kernel.max(axis=2) / (lam + n_samples - 1)[:, None]
        safe = sums >= bound * rest
        images = (smoother @ points) / np.where(safe, sums, 1.0)[:, :, None]
        for machine, row in np.argwhere(~safe):
            others = points[machine] - points[machine, row]
            images[machine, row] = points[machine, np.argmax(np.einsum("nr,nr->n", others, others))]
        apart = points - images
        return np.asarray(np.einsum("snr,snr->sn", apart, apart).ravel())


def fit_stack(
    samples: Array, n_components: int, n_layers: int, factor: float, fixed: float | None = None
) -> MachineStack:
    """Fit S machines to samples (S, N, p) of data that is to be seen ``factor`` times as large.

    ``fixed`` is the regularisation where it is a number, and None for the documents' fixed point.
    """
    centred, mean = centre(samples)
    return rebuild_stack(centred, mean, n_components, n_layers, factor, fixed)


def rebuild_stack(
    centred: Array,
    mean: Array,
    n_components: int,
    n_layers: int,
    factor: float,
    fixed: float | None = None,
    known: Floats | None = None,
) -> MachineStack:
    """Machines from centred samples; ``known`` (L, S, 2) holds the lambdas when they were fitted before."""
    # Where the regularisation has no unit, nor has the rule that drops components.
    hull = build_hull(centred, mean, n_components, factor if fixed is None else None)
    encoded = hull.points @ hull.encoder
    target = regression_target(hull, factor)
    layers: list[KernelLayer] = []
    ridge: KernelRidge | None = None
    for depth in range(min(n_layers, max(int(hull.n_encoded.max()), 1))):
        n_used = hull.n_encoded - depth  # layer l uses n - l + 1 components (000 eq. 51)
        given = None if fixed is None else np.full((len(centred), 2), fixed)
        given = given if known is None else known[depth]
        ridge = _solve(encoded, n_used, target, ridge, given)
        layers.append(_layer(hull, depth, ridge))
    return MachineStack(hull, tuple(layers))


def regression_target(hull: Hull, factor: float) -> Target:
    """The samples as the regularisation sees them."""
    with np.errstate(over="ignore"):
        mean_square = np.minimum(hull.mean_square().astype(np.float64) * (factor * factor), 1e300)
    n_features, factor = hull.mean.shape[1], min(factor, 1e150)
    return Target(hull.points, hull.mean_points, hull.mean_norm2, mean_square, n_features, factor)


def _solve(
    encoded: Array,
    n_used: Index,
    target: Target,
    previous: KernelRidge | None,
    known: Floats | None,
) -> KernelRidge:
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


def _layer(hull: Hull, depth: int, ridge: KernelRidge) -> KernelLayer:
    dtype, n_used = hull.points.dtype, hull.n_encoded - depth
    n_machines, n_samples, width = ridge.solution.shape
    weights = np.ones((n_machines, width + 1, n_samples), dtype=dtype)
    weights[:, :-1] = ridge.solution.transpose(0, 2, 1)
    # Weights enter as a ratio only: bring them near one, so that a huge lambda does not underflow.
    weights[:, :-1] *= ridge.effective[:, None, None].astype(dtype)
    constant = n_used < 1  # no component left: the constant map onto the mean, exactly
    weights[constant, :-2], weights[constant, -2] = 0.0, 1.0
    floor = (ridge.effective / (ridge.effective + n_samples)).astype(dtype)
    lambdas = np.column_stack([ridge.regularisation, ridge.solved])
    layer = KernelLayer(depth, weights, lambdas, floor).on(hull)
    layer.centres  # noqa: B018  # while every machine has a worker of its own
    return layer


def _look_closer(kernel: Array, floor: Array, sums: Array, safe: Mask) -> None:
    """Mark as safe every denominator that is at least the bound 000 eq. 147 promises, with mu_max(K) <= N.

    The document derives the bound from a product of positive definite matrices being positive definite, which
    is false. Where it holds, Thm 2 and 3 hold as well, so asking for it makes both true for every query.
    """
    machines, rows = np.nonzero(~safe)
    values = kernel[machines, :, rows]
    bound = floor[machines] * np.einsum("kn,kn->k", values, values) / values.max(axis=1)
    safe[machines, rows] = sums[machines, rows] >= bound


def _send_far(points: Array, images: Array, queries: Array, unsafe: Mask) -> None:
    """Map queries without a safe denominator onto the sample farthest from them: in the hull, and far."""
    for machine in np.flatnonzero(unsafe.any(axis=1)):
        rows = np.flatnonzero(unsafe[machine])
        samples = points[machine]
        # argmax of |q - t|^2 = |t|^2 - 2 q.t + |q|^2; the last term is the same for all samples.
        lengths = np.einsum("nr,nr->n", samples, samples)
        scores = lengths[:, None] - 2.0 * (samples @ queries[machine][:, rows])
        images[machine][:, rows] = samples[np.argmax(scores, axis=0)].T


# --- the samples under their own machine ----------------------------------------------------------------


FEWEST_ROWS = 5  # of a machine that samples are left out of: what four of them say of a fifth is chance
# Below this the kernel values of a sample with all others say which is nearest, but not how much they weigh.
ALONE = 1e-100


def _exponents(encoded: Floats, row: int, n_used: int) -> Floats:
    """Logarithms of the kernel values of one sample with the others, and of nothing with itself."""
    apart = encoded[:, :n_used] - encoded[row, :n_used]
    exponents = np.einsum("nc,nc->n", apart, apart) / (-2.0 * max(n_used, 1))
    exponents[row] = -np.inf
    return np.asarray(exponents)


# Lambda of the solution, relative to lambda*: further away is solved once more.
CLOSE_ENOUGH = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


@dataclass(frozen=True)
class Smoothing:
    """Result of one smoothing step.

    Parameters
    ----------
    smoothed : ndarray of shape (N, p)
        The smoothed samples H Y.
    images : ndarray of shape (N, p)
        Image of every sample under the machine of the samples.
    relative : float
        Lambda* over tau. A step on similar samples may start from it.
    slope : float
        Slope of R at lambda*. A step on similar samples may start from it.

    See Also
    --------
    smooth : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models.kahm import smooth
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> smooth(X, n_components=2).smoothed.shape
    (30, 4)
    """

    smoothed: Array  # (N, p) H Y
    images: Array  # (N, p) the image of every sample under the machine of the samples
    relative: float  # lambda* over tau, and the slope there: where a step on similar samples may start
    slope: float


def smooth(
    samples: Array,
    n_components: int,
    factor: float = 1.0,
    n_features: int | None = None,
    near: Smoothing | None = None,
) -> Smoothing:
    """Apply the kernel smoother to the samples of a machine once.

    H = (K + lambda I)^-1 K is symmetric with eigenvalues in [0, 1), and H Y holds the samples mapped by their
    own machine before the division by the sum of memberships: the images are the rows of H Y over those of H
    1. Only distances between rows matter, and the number of features: rows may be given by their coordinates
    in any orthonormal basis, together with ``n_features``. The last digits depend on the number of BLAS
    threads, which the caller sets.

    Parameters
    ----------
    samples : ndarray of shape (N, p)
        The samples.
    n_components : int
        Dimension of the encoding.
    factor : float, default=1.0
        Factor by which the machine multiplies the samples.
    n_features : int or None, default=None
        Number of features of the data that the coordinates stand for; None if it is p.
    near : Smoothing or None, default=None
        Result for samples much like these, to start from.

    Returns
    -------
    Smoothing
        Smoothed samples and images.

    See Also
    --------
    KAHM : The machine.

    References
    ----------
    Document 000, Definition 13; document 004, Definition 6.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models.kahm import smooth
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> bool(smooth(X, n_components=2).smoothed.std() < X.std())
    True
    """
    n_samples, width = samples.shape
    n_features = width if n_features is None else n_features
    if width > n_samples:
        basis, coordinates = np.linalg.qr(samples.T)
        result = smooth(coordinates.T, n_components, factor, n_features, near)
        return replace(result, smoothed=result.smoothed @ basis.T, images=result.images @ basis.T)
    # Here the coordinates of the hull are the centred rows themselves.
    hull = build_hull(*centre(samples[None].copy()), n_components, factor)
    kernel = sample_kernel(hull.points @ hull.encoder, hull.n_encoded)
    target = regression_target(hull, factor)
    target = replace(target, n_features=n_features, mean_square=target.mean_square * (width / n_features))
    ridge = _ridge(kernel, target, near)
    inverse = ridge.solution[0].astype(np.float64)  # A^-1 [T, 1]
    used = float(ridge.effective[0])
    # H M = M - lambda (K + lambda I)^-1 M, where Y = T + 1 mean^T
    sums = 1.0 - used * inverse[:, -1]
    smoothed = hull.points[0] - used * inverse[:, :-1] + sums[:, None] * hull.mean[0]
    # The same guard as for any query: a denominator below the bound of 000 eq. 147 sends the sample far.
    safe = sums * (used + n_samples) >= np.einsum("ij,ij->i", kernel[0], kernel[0])
    images = smoothed / np.where(safe, sums, 1.0)[:, None]
    for row in np.flatnonzero(~safe):
        images[row] = samples[np.argmax(np.linalg.norm(samples - samples[row], axis=1))]
    dtype, tau = samples.dtype, 2.0 * float(target.mean_square[0])
    relative = float(ridge.regularisation[0]) / tau if tau > 0.0 else 1.0
    return Smoothing(smoothed.astype(dtype), images.astype(dtype), relative, ridge.slope)


def _ridge(kernel: Array, target: Target, near: Smoothing | None) -> KernelRidge:
    """Solution at lambda*, sought from where it was for similar samples."""
    previous = None
    if near is not None:
        guess = 2.0 * near.relative * target.mean_square
        previous = KernelRidge(guess, guess, guess, np.empty(0), near.slope)
    found = solve(kernel, target, previous, None)
    wanted, distance = found.regularisation, abs(found.solved - found.regularisation)
    if np.all(distance <= CLOSE_ENOUGH[target.points.dtype] * wanted):
        return found
    exact = solve_cholesky(kernel, target, known=np.stack([wanted, wanted], axis=1))
    return replace(exact, slope=found.slope)
