"""Student-t membership-mappings on arrays (001 Alg. 1), no checks, no classes users see.

With kernels k = sigma^2 k1 the averaged output (001 eq. 48) is

    k1(x, a) (K1'K1 + (tau1 + 1 / (sigma^2 beta)) K1aa)^-1 K1' y,

so sigma^2 only rescales 1 / beta. In the basis L^-1 of a Cholesky factor of K1aa this is ridge regression on
N x M features, and their eigenvalues make every step of beta cost O(M), for all outputs at once. The same
eigenvectors give the weights.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from onefold._base.arrays import Array, Index
from onefold._base.lapack import cholesky, eigenvectors, product, symmetric_product, triangular_solve
from onefold.models.membership._inducing import Centres, largest_count

__all__ = ["Inputs", "Mapping", "Targets", "fit_mapping", "solve_mapping"]

DEGREES_OF_FREEDOM = 2.1  # 001 eq. 52
SMALLEST_TAU = 0.1  # kappa of 001 Alg. 1
# For one to three inputs K_aa has a condition up to 1e16; this, relative to its diagonal, makes it harmless.
JITTER = 1e-8
LARGEST_INPUT = 1e100  # in ranges of the samples; beyond, every kernel value is zero anyway
STEPS = 1000
SMALL = 100  # numbers of inducing points up to this are tried without another thought


@dataclass(frozen=True)
class Inputs:
    """Where the kernel lives: inducing points, and how inputs are measured."""

    shift: Array  # (n,) subtracted first, against cancellation
    inverse_range: Array  # (n,) square roots of w (001 eq. 53); zero for an input that does not vary
    inducing: Array  # (M, n) shifted and in ranges

    def kernel(self, x: Array) -> Array:
        """Kernel values k1 between inputs (N, n) and inducing points, (N, M) (001 eq. 17, 22)."""
        rows = (x.astype(np.float64, copy=False) - self.shift) * self.inverse_range
        np.clip(rows, -LARGEST_INPUT, LARGEST_INPUT, out=rows)
        return _gaussian(rows, self.inducing)

    def unscaled(self) -> Array:
        """The inducing points as inputs; an input that does not vary has its only value."""
        varies = self.inverse_range > 0.0
        raw = np.divide(self.inducing, self.inverse_range, out=np.zeros_like(self.inducing), where=varies)
        return np.asarray(raw + self.shift)


@dataclass(frozen=True)
class Mapping:
    """A fitted mapping of inputs onto r outputs."""

    inputs: Inputs
    weights: Array  # (M, r) alpha of 001 eq. 49, for kernels with sigma^2 = 1
    ridge: float  # tau1 + 1 / (sigma^2 beta)
    tau: float  # 001 eq. 54 at sigma^2 = 1
    variance: float  # of the outputs as they are seen, averaged (001 eq. 56)

    @property
    def sigma2(self) -> float:
        """001 Alg. 1, steps 9-13."""
        return 1.0 if self.tau >= self.variance else self.variance / max(self.tau, 1e-12)

    def outputs(self, x: Array) -> Array:
        """Outputs (N, r) of inputs (N, n) (001 eq. 60)."""
        return np.asarray(self.inputs.kernel(x) @ self.weights)


@dataclass(frozen=True)
class _Features:
    """Samples as ridge regression sees them."""

    inputs: Inputs
    kernel: Array  # (N, M) K1
    factor: Array  # (M, M) L, with K1aa = L L'
    features: Array  # (M, N) L^-1 K1'
    tau: float  # 001 eq. 54 at sigma^2 = 1: kernel variance the inducing points leave, per point
    clusters: Index | None  # of the inputs, where inducing points are their centroids


@dataclass(frozen=True)
class Targets:
    """What mappings are fitted to: outputs, or coordinates of more outputs in an orthonormal basis."""

    values: Array  # (N, r)
    n_outputs: int  # that averages are over
    total: float  # mean square of the outputs
    variance: float  # of the outputs, averaged
    seen: float  # the same at the scale at which they are to be seen

    @classmethod
    def of(cls, values: Array, n_outputs: int | None = None, factor: float = 1.0) -> "Targets":
        """Targets (N, r) that are to be seen ``factor`` times as large."""
        values = np.ascontiguousarray(values)
        n_outputs = values.shape[1] if n_outputs is None else n_outputs
        total = float(np.vdot(values, values)) / (len(values) * n_outputs)
        mean = values.mean(axis=0)
        variance = max(total - float(mean @ mean) / n_outputs, 0.0)
        with np.errstate(over="ignore"):
            seen = min(factor * (factor * variance), 1e300)  # no infinity times nothing
        return cls(values, n_outputs, total, variance, seen)


@dataclass(frozen=True)
class _Spectrum:
    """The regression in the basis of the eigenvectors of the features."""

    values: Array  # (M,)
    vectors: Array  # (M, M) eigenvectors, in terms of kernel values
    targets: Array  # (M, r) what the eigenvectors say about the targets

    def weights(self, ridge: float) -> Array:
        """001 eq. 49, (M, r)."""
        shrunk = self.vectors / (self.values + max(ridge, JITTER))
        return product(shrunk, self.targets)


def fit_mapping(
    x: Array, targets: Targets, at_most: int, before: Index | None = None
) -> tuple[Mapping, Array, Index]:
    """001 Alg. 1 for inputs (N, n), with kernel values (N, M) and clusters of the inputs.

    Clusters that inputs like these had ``before`` are where k-means starts.
    """
    seen_by = _choose_inducing(x, at_most, before)
    assert seen_by.clusters is not None  # they were chosen by clustering
    spectrum = _spectrum(seen_by, targets.values)
    entries = float(len(x) * targets.n_outputs)
    energies = np.einsum("mr,mr->m", spectrum.targets, spectrum.targets) / entries
    ridge = _ridge(spectrum.values, energies, targets, seen_by.tau)
    mapping = Mapping(seen_by.inputs, spectrum.weights(ridge), ridge, seen_by.tau, targets.seen)
    return mapping, seen_by.kernel, seen_by.clusters


def solve_mapping(
    inputs: Inputs, x: Array, targets: Targets, ridge: float, tau: float, seen: float
) -> tuple[Mapping, Array]:
    """The mapping whose inducing points and ridge are known; exactly as :func:`fit_mapping` made it."""
    seen_by = _features(inputs, x)
    weights = _spectrum(seen_by, targets.values).weights(ridge)
    return Mapping(inputs, weights, ridge, tau, seen), seen_by.kernel


def _choose_inducing(x: Array, at_most: int, before: Index | None) -> _Features:
    """001 Alg. 1, steps 1-8, for the number of inducing points that leaves enough smoothing."""
    centres = Centres(x, before)
    lowest, highest = x.min(axis=0), x.max(axis=0)
    with np.errstate(divide="ignore", over="ignore"):
        inverse_range = 1.0 / (highest - lowest)
    inverse_range[~np.isfinite(inverse_range)] = 0.0
    shift = x.mean(axis=0)
    kept: dict[int, _Features] = {}

    def smoothing(count: int) -> float:
        points, labels = centres(count)
        inputs = Inputs(shift, inverse_range, (points - shift) * inverse_range)
        found = _features(inputs, x, labels)
        if found.tau >= SMALLEST_TAU or count == 1:
            kept.clear()  # every further count that leaves enough is a better one
            kept[count] = found
        return found.tau

    largest = centres.at_most(at_most)
    first = max(largest // 4, SMALL) if before is None else largest  # another layer needs about as many
    count = largest_count(largest, smoothing, SMALLEST_TAU, first)
    if count not in kept:  # the last resort, a single point, need not have been tried
        smoothing(count)
    return kept[count]


def _features(inputs: Inputs, x: Array, clusters: Index | None = None) -> _Features:
    own = np.asfortranarray(_gaussian(inputs.inducing, inputs.inducing))
    own.flat[:: len(own) + 1] = 1.0 + JITTER
    if not cholesky(own):
        raise np.linalg.LinAlgError(
            "the kernel matrix could not be factored"
        )  # the jitter exceeds rounding by far
    kernel = inputs.kernel(x)
    features = kernel.copy().T
    triangular_solve(own, features)
    left = len(x) - float(np.vdot(features.T, features.T))
    tau = max(left, 0.0) / (DEGREES_OF_FREEDOM + len(own) - 2.0)
    return _Features(inputs, kernel, own, features, tau, clusters)


def _spectrum(seen_by: _Features, targets: Array) -> _Spectrum:
    features = seen_by.features
    vectors = symmetric_product(features.T, transposed=True)
    values = eigenvectors(vectors)  # in place
    along = product(vectors.T, product(features, targets))
    in_kernels = scipy.linalg.solve_triangular(
        seen_by.factor, vectors, lower=True, trans=1, check_finite=False
    )
    return _Spectrum(np.maximum(values, 0.0), in_kernels, along)


def _gaussian(rows: Array, columns: Array) -> Array:
    """exp(-|r - c|^2 / 2), the square from one product."""
    left, right = np.ones((len(rows), rows.shape[1] + 2)), np.ones((len(columns), rows.shape[1] + 2))
    left[:, :-2], right[:, :-2] = rows, columns
    left[:, -2] = -0.5 * np.einsum("nk,nk->n", rows, rows)
    right[:, -1] = -0.5 * np.einsum("mk,mk->m", columns, columns)
    kernel = left @ right.T
    return np.asarray(np.exp(np.minimum(kernel, 0.0, out=kernel), out=kernel))


def _ridge(values: Array, energies: Array, targets: Targets, tau: float) -> float:
    """tau1 + 1 / (sigma^2 beta) at the fixed point of beta (001 Alg. 1, steps 15-19; eq. 58)."""

    def error(ridge: float) -> float:
        shrunk = np.divide(1.0, values + ridge, out=np.zeros_like(values), where=values + ridge > 0.0)
        explained = float(energies @ (2.0 * shrunk - values * shrunk**2))
        return float(max(targets.total - explained, 0.0))

    spread, seen = targets.variance, targets.seen
    # 1 / (sigma^2 beta) in terms of the error: sigma^2 is 1, or the variance over tau1.
    if seen <= tau:
        start, slope = 1.0, seen / spread if spread > 0.0 else 0.0
    else:
        start, slope = max(tau, 1e-12) / seen, max(tau, 1e-12) / spread if spread > 0.0 else 0.0
    noise = start  # beta = 1
    for _ in range(STEPS):
        following = slope * error(tau + noise)
        done = abs(following - noise) <= 1e-12 * (tau + following)
        noise = following
        if done:
            break
    return tau + noise
