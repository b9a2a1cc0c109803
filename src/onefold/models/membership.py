"""Student-t membership-mappings (001 Alg. 1) and the autoencoders made of them (001 Alg. 2 and 3).

With kernels k = sigma^2 k1 the averaged output (001 eq. 48) is

    k1(x, a) (K1'K1 + (tau1 + 1 / (sigma^2 beta)) K1aa)^-1 K1' y,

so sigma^2 only rescales 1 / beta. In the basis L^-1 of a Cholesky factor of K1aa this is ridge regression on
N x M features, and their eigenvalues make every step of beta cost O(M), for all outputs at once. The same
eigenvectors give the weights.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from onefold._base.arrays import Array, Index, Mask, sizes_of
from onefold._base.linalg import cholesky, product, symmetric_product, triangular_solve
from onefold._base.validation import Entry, Flag, Number, Whole
from onefold.exceptions import InvalidInputError
from onefold.models.clusters import FarApart, candidates, clusters, means
from onefold.models.compose import DeepAutoencoder, LayeredAutoencoder, Regression, WideAutoencoder
from onefold.models.hull import Hull, build_hull, centre
from onefold.models.layers import LayeredStack, Samples
from onefold.models.pool import Stack

__all__ = ["DeepMembershipAutoencoder", "MembershipMapping", "WideMembershipAutoencoder"]

# --- one mapping ---------------------------------------------------------------------------------------


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

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other, as those of a foreign file."""
        sizes = sizes_of(self, shift="n", inverse_range="n", inducing="Mn")
        exact = all(array.dtype == np.float64 for array in vars(self).values())
        if sizes["M"] < 1 or not exact or (self.inverse_range < 0.0).any():
            raise InvalidInputError("the inducing points are not those of a fitted mapping")

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

    def __post_init__(self) -> None:
        """Refuse numbers that no fitted mapping has, as those of a foreign file."""
        fitting = self.weights.ndim == 2 and self.weights.dtype == np.float64
        fitting = fitting and len(self.weights) == len(self.inputs.inducing)
        if not fitting or not min(self.ridge, self.tau, self.variance) >= 0.0:
            raise InvalidInputError("the weights are not those of a fitted mapping")

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
    values, vectors = np.linalg.eigh(symmetric_product(features.T, transposed=True))
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


# --- inducing points -----------------------------------------------------------------------------------


ROUNDS = 6  # of k-means: with 20, distances of digits from their images are 0.02 % smaller
ROUNDS_AGAIN = 2  # of k-means that goes on from the clusters of the layer before
# How the smoothing that is left falls with the number of points, where only one number was tried.
USUAL_DECAY = 2.0


class Centres:
    """Centroids of inputs for any number of clusters (001 eq. 51).

    Inputs of a further layer are nearly those of the layer before: k-means goes on from its clusters, the
    first ones where there are to be fewer.
    """

    def __init__(self, x: Array, before: Index | None = None) -> None:
        self._inputs = candidates(x)
        self._far: FarApart | None = None
        self._means = None if before is None else means(self._inputs, before)[1]

    def __call__(self, count: int) -> tuple[Array, Index]:
        """At most ``count`` of them, (count, n), and the cluster of each input."""
        if self._means is None:
            return clusters(self._inputs, self._inputs[self._starts(count)], ROUNDS)
        return clusters(self._inputs, self._means[:count], ROUNDS_AGAIN)

    def at_most(self, count: int) -> int:
        """``count``, or the number of distinct inputs where that is less."""
        inputs = self._inputs
        if inputs.shape[1] and len(np.unique(inputs[:, 0])) >= count:
            return count if self._means is None else min(count, len(self._means))
        self._means = None  # clusters may have become one
        return len(self._starts(count))

    def _starts(self, count: int) -> Index:
        if self._far is None:
            self._far = FarApart(self._inputs)
        return self._far.first(count)


def counts_from(largest: int) -> list[int]:
    """The counts Alg. 1 goes through, each 0.9 of the one before; one less where that is the same."""
    counts = [largest]
    while counts[-1] > 1:
        counts.append(min(math.ceil(0.9 * counts[-1]), counts[-1] - 1))
    return counts


def largest_count(largest: int, smoothing: Callable[[int], float], needed: float, guess: int) -> int:
    """The first count of Alg. 1 that leaves the smoothing ``needed``; 1 if none does.

    Fewer points leave more, so the place is searched for between counts known to leave enough and too
    little: where a power of the count through the last two values says, and halfway every fourth time.
    """
    counts = counts_from(largest)
    below, above = -1, len(counts) - 1  # places that leave too little, and enough or nothing to lose
    tried: list[tuple[int, float]] = []
    while above - below > 1:
        place = sum(count > guess for count in counts) if len(tried) % 4 < 3 else (below + above) // 2
        place = min(max(place, below + 1), above - 1)
        tried.append((counts[place], smoothing(counts[place])))
        below, above = (below, place) if tried[-1][1] >= needed else (place, above)
        guess = _extrapolate(tried, needed)
    return counts[above]


def _extrapolate(tried: list[tuple[int, float]], needed: float) -> int:
    """The count that would leave just what is needed, if smoothing were a power of the count."""
    (count, left), decay = tried[-1], USUAL_DECAY
    if not left > 0.0:
        return count // 2
    if len(tried) > 1 and tried[-2][1] > 0.0:
        other, left_there = tried[-2]
        decay = math.log(left / left_there) / math.log(other / count)
    exponent = math.log(left / needed) / max(decay, 0.5)
    return int(count * math.exp(min(exponent, 20.0)))


# --- the frame of an autoencoder -----------------------------------------------------------------------


# Ranges enter the kernel as ratios: no component is dropped because its range is small in absolute terms.
ANY_RANGE = 1e200


@dataclass(frozen=True)
class Frame:
    """One hull, and what is learned in its r coordinates."""

    hull: Hull
    points: Array  # (N, r) the samples, from the mean
    used: Index  # (u,) coordinates in which anything varies or differs from zero; others are zero in images
    targets: Array  # (N, u) what mappings are fitted to
    offset: Array  # (r,) what is subtracted from their outputs to have coordinates from the mean
    directions: Array  # (r, n) principal directions, of unit length

    def axes(self, depth: int) -> Array:
        """The leading max(n - l + 1, 1) directions: P^l of 001 Alg. 2 in coordinates of the hull."""
        available = self.directions.shape[1]
        return self.directions[:, : max(available - depth, min(available, 1))]

    def expand(self, weights: Array) -> Array:
        """Weights (M, u) for all coordinates, (M, r)."""
        if len(self.used) == len(self.offset):
            return weights
        expanded = np.zeros((len(weights), len(self.offset)))
        expanded[:, self.used] = weights
        return expanded


def build_frame(samples: Array, mean: Array, n_components: int, centred: bool) -> Frame:
    """The frame of centred samples (1, N, p) with this mean (1, p); ``centred``: for deviations from it."""
    hull = build_hull(samples, mean, n_components, ANY_RANGE)
    if not centred and not hull.spans_everything:
        hull = _with_mean(hull, n_components)
    points = hull.points[0, : samples.shape[1]].astype(np.float64, copy=False)
    offset = np.zeros(points.shape[1]) if centred else hull.mean_points[0].astype(np.float64)
    targets = points if centred else points + offset
    used = np.flatnonzero(targets.any(axis=0))
    if len(used) < len(offset):
        targets = np.take(targets, used, axis=1)
    return Frame(hull, points, used, targets, offset, _directions(hull))


def _with_mean(hull: Hull, n_components: int) -> Hull:
    """The hull with the direction of the mean as one more row, and the principal directions as they were."""
    squared = np.einsum("snp,snp->n", hull.centred, hull.centred, dtype=np.float64)
    length = float(np.sqrt(squared.mean())) or 1.0
    norm = float(np.linalg.norm(hull.mean.astype(np.float64))) or 1.0
    row = hull.mean * hull.mean.dtype.type(length / norm)  # as long as the others, for the sake of rounding
    extended = build_hull(
        np.concatenate([hull.centred, row[:, None]], axis=1), hull.mean, n_components, ANY_RANGE
    )
    points = _directions(hull).astype(hull.mean.dtype) * hull.mean.dtype.type(length)
    encoder, _ = extended.coordinates(hull.features(points[None])[0])
    return replace(extended, encoder=encoder, n_encoded=hull.n_encoded)


def _directions(hull: Hull) -> Array:
    directions = hull.encoder[0, :, : int(hull.n_encoded[0])].astype(np.float64)
    lengths = np.sqrt(np.einsum("rk,rk->k", directions, directions))
    return np.asarray(directions / lengths)


# --- autoencoders as stacks ----------------------------------------------------------------------------


@dataclass(frozen=True)
class MappingLayer:
    """One membership-mapping autoencoder (001 Def. 2)."""

    mapping: Mapping
    axes: Array  # (r, n_l) hull coordinates to encodings: P^l of 001 Alg. 2
    offset: Array  # (r,) from outputs to hull coordinates, which are seen from the mean
    n_samples: int  # it was fitted to; the hull may hold another row

    @property
    def active(self) -> Mask:
        """Every machine has every layer."""
        return np.ones(1, dtype=bool)

    @property
    def width(self) -> int:
        """One kernel value per inducing point."""
        return len(self.mapping.inputs.inducing)

    def select(self, index: int) -> "MappingLayer":
        """The layer itself: there is one machine."""
        return self

    def image(self, hull: Hull, points: Array, inside: Array) -> Array:
        """Coordinates of the images of points (001 eq. 60, 63), (1, r, M)."""
        kernel = self.mapping.inputs.kernel(points[0].T.astype(np.float64) @ self.axes)
        images = self.mapping.weights.T @ kernel.T
        if self.offset.any():
            images -= self.offset[:, None]
        return np.ascontiguousarray(images[None], dtype=points.dtype)


@dataclass(frozen=True)
class MappingStack(LayeredStack[MappingLayer]):
    """One machine of membership-mappings."""

    layers: tuple[MappingLayer, ...]

    def __post_init__(self) -> None:
        """Refuse layers that are not those of this hull, as in a foreign file."""
        n_machines, n_rows, rank = self.hull.points.shape
        for layer in self.layers:
            n_inputs = layer.mapping.inputs.inducing.shape[1]
            sizes = sizes_of(layer, axes="rn", offset="r") | sizes_of(layer.mapping, weights="MR")
            fitting = (sizes["r"], sizes["R"], sizes["n"]) == (rank, rank, n_inputs)
            if not fitting or not 0 <= n_rows - layer.n_samples <= 1 or n_machines != 1:
                raise InvalidInputError("the layers of a machine do not fit its hull")

    def samples(self) -> "MappingSamples":
        """What a machine is fitted again from: weights are solved for when it is loaded."""
        mappings = [layer.mapping for layer in self.layers]
        lambdas = np.array([[mapping.ridge, mapping.tau, mapping.variance] for mapping in mappings])
        centred = self.hull.centred[:, : self.layers[0].n_samples]
        return MappingSamples(centred, self.hull.mean, lambdas, tuple(mapping.inputs for mapping in mappings))


@dataclass(frozen=True)
class MappingSamples(Samples):
    """What one machine is fitted again from, with the inducing points of every layer."""

    inputs: tuple[Inputs, ...]

    def __post_init__(self) -> None:
        """Refuse layers that are not those of these samples, as in a foreign file."""
        super().__post_init__()
        most = max((len(part.inducing) for part in self.inputs), default=0)
        fitting = self.lambdas.shape == (len(self.inputs), 3) and len(self.mean) == 1
        if not fitting or not 1 <= most <= self.centred.shape[1]:
            raise InvalidInputError("the layers of a machine do not fit its samples")


def fit_stack(
    samples: Array, n_components: int, n_layers: int, at_most: int, factor: float, centred: bool = True
) -> MappingStack:
    """Fit one machine to samples (1, N, p), with at most so many inducing points, seen ``factor`` times.

    ``centred`` mappings model deviations from the mean, others the samples as they are.
    """
    return _fit(build_frame(*centre(samples), n_components, centred), n_layers, at_most, factor)


def _fit(frame: Frame, n_layers: int, at_most: int, factor: float) -> MappingStack:
    targets = Targets.of(frame.targets, frame.hull.mean.shape[1], factor)
    layers: list[MappingLayer] = []
    kernel, clusters = None, None
    for depth in range(n_layers):
        x = _encodings(frame, depth, layers, kernel)
        mapping, kernel, clusters = fit_mapping(x, targets, at_most, clusters)
        at_most = len(mapping.inputs.inducing)  # 001 eq. 62
        layers.append(_layer(frame, depth, mapping))
    return MappingStack(frame.hull, tuple(layers))


def _layer(frame: Frame, depth: int, mapping: Mapping) -> MappingLayer:
    complete = replace(mapping, weights=frame.expand(mapping.weights))
    # Rows first in memory, as they are after loading: products of other orders have other last digits.
    return MappingLayer(complete, np.ascontiguousarray(frame.axes(depth)), frame.offset, len(frame.points))


def _encodings(frame: Frame, depth: int, layers: list[MappingLayer], kernel: Array | None) -> Array:
    """Encodings of the samples (001 eq. 61), from the mean, given the kernel values of the layer before.

    Its outputs are never needed themselves, only what is encoded of them.
    """
    axes = frame.axes(depth)
    if kernel is None:
        return np.asarray(frame.points @ axes)
    return np.asarray(kernel @ (layers[-1].mapping.weights @ axes) - frame.offset @ axes)


def fit_again(samples: MappingSamples, n_components: int, centred: bool) -> MappingStack:
    """The machine with these inducing points and regularisations, its weights solved for again."""
    frame = build_frame(samples.centred, samples.mean, n_components, centred)
    targets = Targets.of(frame.targets, frame.hull.mean.shape[1])
    layers: list[MappingLayer] = []
    kernel = None
    for depth, (part, numbers) in enumerate(zip(samples.inputs, samples.lambdas.tolist(), strict=True)):
        x = _encodings(frame, depth, layers, kernel)
        if x.shape[1] != len(part.shift):
            raise InvalidInputError("the inputs do not fit the encoder")
        mapping, kernel = solve_mapping(part, x, targets, *numbers)
        layers.append(_layer(frame, depth, mapping))
    return MappingStack(frame.hull, tuple(layers))


# --- estimators ----------------------------------------------------------------------------------------


CONSTRAINTS: dict[str, Entry] = {
    "inducing_ratio": Number(above=0, at_most=1),
    "max_inducing": Whole(1),
    "centred": Flag(),
}


def inducing_limit(n_samples: int, ratio: float, at_most: int) -> int:
    """M_max: this part of the samples (001 eq. 68), at least one and not more than ``at_most``."""
    return max(1, min(math.ceil(ratio * n_samples), at_most))


@dataclass(eq=False, repr=False)
class _MembershipFamily(LayeredAutoencoder):
    """What both share: how a machine is fitted, saved and restored."""

    _: KW_ONLY
    inducing_ratio: float = 0.5
    max_inducing: int = 500
    centred: bool = True

    constraints: ClassVar[dict[str, Entry]] = CONSTRAINTS
    stack_types = MappingStack, MappingSamples
    scale_matters = False  # the regularisation is between tau and 2 tau whatever the scale

    @property
    def _largest_stacked(self) -> int:
        return 0  # the number of inducing points differs from machine to machine

    def _fit_stack(self, samples: Array, factor: float) -> Stack:
        at_most = inducing_limit(samples.shape[1], self.inducing_ratio, self.max_inducing)
        return fit_stack(samples, self.n_components, self.n_layers, at_most, factor, bool(self.centred))

    def _fit_again(self, samples: MappingSamples, factor: float) -> Stack:
        return fit_again(samples, self.n_components, bool(self.centred))


@dataclass(eq=False, repr=False)
class DeepMembershipAutoencoder(_MembershipFamily, DeepAutoencoder):
    """Conditionally deep membership-mapping autoencoder, CDMMA.

    Layer l encodes what layer l - 1 returned by n - l + 1 principal components and maps it back by Student-t
    membership-mappings. A point's image is that of the layer whose image is nearest to it.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the first encoding; at most N - 1 and the rank of the data are used.
    n_layers : int, default=5
        Number of layers L.
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data. It hardly changes the mappings, but it does change
        the bounded folding measures.
    random_state : ignored
        One machine draws no random numbers; the parameter exists because all autoencoders have it.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.
    inducing_ratio : float, default=0.5
        Largest number of inducing points per sample (001 eq. 68); smooth data needs fewer.
    max_inducing : int, default=500
        Largest number of inducing points.
    centred : bool, default=True
        Whether mappings model deviations from the mean of the samples. False models the samples themselves,
        exactly as the document does.

    Attributes
    ----------
    n_inducing_ : list of int
        Inducing points M of each layer.
    taus_ : list of float
        Smoothing level of each layer (001 eq. 54 at sigma^2 = 1).
    n_components_ : int
        Number of components of the first layer.
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machine multiplies the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    WideMembershipAutoencoder : Many samples, divided into branches.
    MembershipMapping : The mapping itself, as a regressor.

    Notes
    -----
    The document fits zero-mean mappings to raw data. Far from the samples every kernel value vanishes and the
    image with them, so the origin is its own image and seems near to samples far away from it. With
    ``centred=True`` deviations from the mean are modelled instead, and far points get an image near the mean.
    The document's loop over M does not end once M <= 9; here M loses at least one point per round.

    References
    ----------
    Document 001, Definitions 3 and 11, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import DeepMembershipAutoencoder
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> machine = DeepMembershipAutoencoder(n_components=5, n_layers=3).fit(X)
    >>> near, far = machine.distance([X[0], X[0] + 100.0])
    >>> bool(near < far)
    True
    """

    @property
    def _mappings(self) -> list[Mapping]:
        return [layer.mapping for layer in self._machine.layers]

    @property
    def n_inducing_(self) -> list[int]:
        """Inducing points M of each layer."""
        return [len(mapping.inputs.inducing) for mapping in self._mappings]

    @property
    def taus_(self) -> list[float]:
        """Smoothing level of each layer (001 eq. 54 at sigma^2 = 1)."""
        return [mapping.tau for mapping in self._mappings]


@dataclass(eq=False, repr=False)
class WideMembershipAutoencoder(_MembershipFamily, WideAutoencoder):
    """Wide membership-mapping autoencoder: one CDMMA per branch of the samples.

    A point's image is that of the branch whose image is nearest to it, so cost grows linearly with the number
    of samples.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the first encoding; at most N - 1 and the rank of the data are used.
    n_layers : int, default=5
        Number of layers L.
    branch_size : int, default=1000
        Number of samples that a branch should hold. There are N / branch_size branches, rounded, at least
        one.
    partition : {"kmeans", "contiguous"}, default="kmeans"
        How samples are divided: "kmeans" makes clusters and divides a cluster of more than twice
        ``branch_size`` again, "contiguous" takes batches of consecutive rows.
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data. It hardly changes the mappings, but it does change
        the bounded folding measures.
    random_state : int, RandomState or None, default=None
        Seed of the k-means that divides the samples.
    n_probe : int or None, default=None
        Compare a row only with this many branches, those with the nearest centres. None compares it with all
        branches, which is exact.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.
    inducing_ratio : float, default=0.5
        Largest number of inducing points per sample (001 eq. 68); smooth data needs fewer.
    max_inducing : int, default=500
        Largest number of inducing points.
    centred : bool, default=True
        Whether mappings model deviations from the mean of the samples. False models the samples themselves,
        exactly as the document does.

    Attributes
    ----------
    branches_ : list of DeepMembershipAutoencoder
        The fitted branches.
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machine multiplies the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    DeepMembershipAutoencoder : One branch.
    AutoencoderClassifier : One autoencoder per class.

    References
    ----------
    Document 001, Definition 13, Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import WideMembershipAutoencoder
    >>> X = np.random.default_rng(0).normal(size=(300, 10))
    >>> machine = WideMembershipAutoencoder(5, 2, branch_size=100, partition="contiguous").fit(X)
    >>> len(machine.branches_)
    3
    """

    _branch_kind = DeepMembershipAutoencoder


@dataclass(eq=False, repr=False)
class MembershipMapping(Regression):
    """Regression by Student-t membership-mappings, any number of outputs at once.

    Parameters
    ----------
    inducing_ratio : float, default=0.5
        Largest number of inducing points per sample (001 eq. 68); smooth inputs need fewer.
    max_inducing : int, default=500
        Largest number of inducing points.
    centred : bool, default=True
        Whether deviations from the mean of the outputs are modelled. False models the outputs themselves,
        exactly as the document does.

    Attributes
    ----------
    mapping_ : Mapping
        The fitted mapping, in units of its own.
    inducing_points_ : ndarray of shape (M, n)
        The auxiliary inducing points (001 eq. 51).
    tau_ : float
        Smoothing level at sigma^2 = 1 (001 eq. 54).
    sigma2_ : float
        Variance parameter of the kernel (001 Alg. 1, steps 9-13).
    n_features_in_ : int
        Number of inputs.

    See Also
    --------
    DeepMembershipAutoencoder : Maps encodings of samples back to the samples.
    DeepFuzzyModel : Regression by fuzzy rules.

    Notes
    -----
    The document's mappings have zero mean: far inputs are mapped near zero, however far from zero the outputs
    are. By default deviations from their mean are modelled, so that far inputs are mapped near that mean.
    An input that does not vary is ignored. The kernel is as wide as the range of the inputs, and the number
    of inducing points falls until enough smoothing is left. With one or two inputs the fit is therefore
    coarse whatever the number of samples.

    References
    ----------
    Document 001, Definition 10, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import MembershipMapping
    >>> X = np.random.default_rng(0).normal(size=(300, 6))
    >>> Y = np.column_stack([X[:, 0] + X[:, 1], X[:, 2] - X[:, 3]])
    >>> MembershipMapping().fit(X[:200], Y[:200]).score(X[200:], Y[200:]) > 0.9
    True
    """

    inducing_ratio: float = 0.5
    max_inducing: int = 500
    centred: bool = True

    constraints = CONSTRAINTS

    @property
    def inducing_points_(self) -> Array:
        """The auxiliary inducing points (001 eq. 51)."""
        places = self.mapping_.inputs
        return np.asarray(places.unscaled() * self._input_unit)

    @property
    def tau_(self) -> float:
        """Smoothing level at sigma^2 = 1 (001 eq. 54)."""
        return self.mapping_.tau

    @property
    def sigma2_(self) -> float:
        """Variance parameter of the kernel (001 Alg. 1, steps 9-13)."""
        return self.mapping_.sigma2

    def _learn(self, rows: Array, targets: Array) -> None:
        at_most = inducing_limit(len(rows), self.inducing_ratio, self.max_inducing)
        seen = Targets.of(targets - self._mean, factor=self._unit)
        self.mapping_, *_ = fit_mapping(rows, seen, at_most)

    def _deviations(self, rows: Array) -> Array:
        return self.mapping_.outputs(rows)

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept."""
        return super()._kept() | {"mapping_": Mapping}

    def _fits(self, n_features: int, n_outputs: int) -> bool:
        return self.mapping_.weights.shape[1] == n_outputs and len(self.mapping_.inputs.shift) == n_features
