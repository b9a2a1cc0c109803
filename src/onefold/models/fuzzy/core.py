"""Deep Takagi-Sugeno fuzzy models on arrays (003 Alg. 1): fuzzy sets, layers, and how many of them; no
checks.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import digamma, gammaln

from onefold._base.arrays import Array, sizes_of
from onefold._base.linalg import leading_eigenvectors, product, symmetric_product
from onefold.exceptions import InvalidInputError
from onefold.models.clusters import FarApart, candidates, clusters
from onefold.models.folding import Folding
from onefold.models.pool import BLOCK_BYTES, PRODUCT_WIDTH, SMALLEST_BLOCK

# --- the posterior of the consequents ------------------------------------------------------------------


# 003 Alg. 1, step 10: the Gamma prior of beta and the Gaussian prior of the consequents.
PRIOR_SHAPE = PRIOR_RATE = PRIOR_PRECISION = 1e-6
STEPS = 1000
CONVERGED = 1e-10
# Eigenvalues of K'K are known to about this part of the largest one: consequents must not rest on less.
RESOLVED = 1e-12
LARGEST_FACTOR = 1e100
# An error that is this part of the squared targets or more is known to ten digits as a difference.
LARGE_ERROR = 1e-4


@dataclass(frozen=True)
class Posterior:
    """Shares K (N, M) and targets (N, p) in the eigenvectors of K'K; targets as they are seen, factor
    included."""

    values: Array  # (M,) eigenvalues
    vectors: Array  # (M, M)
    rotated: Array  # (M, p) K'Y in the eigenvectors, as it is
    energies: Array  # (M,) its squared lengths, as seen
    total: float  # sum of the squared targets, as seen
    n_samples: int
    n_outputs: int  # p, and outputs that are always zero, of which there is nothing to store

    @classmethod
    def of(cls, shares: Array, targets: Array, factor: float, n_outputs: int | None = None) -> "Posterior":
        """The posterior given targets that are deviations from their mean, seen ``factor`` times as large.

        There may be more outputs than these targets, all zero.
        """
        n_outputs = targets.shape[1] if n_outputs is None else n_outputs
        values, vectors = np.linalg.eigh(symmetric_product(shares, transposed=True))
        rotated = product(vectors.T, product(shares.T, targets))
        seen = squared(factor)
        energies = seen * np.einsum("mp,mp->m", rotated, rotated)
        total = seen * float(np.einsum("np,np->", targets, targets))
        return cls(np.maximum(values, 0.0), vectors, rotated, energies, total, len(targets), n_outputs)

    def consequents(self, beta: float) -> Array:
        """Posterior means (M, p) (2.151)."""
        return product(self.vectors, self.rotated * self._inverse(beta)[:, None])

    def precision(self, error: float | None = None) -> float:
        """Fixed point of (2.150)-(2.154); ``error`` is the sum of squared errors if it is known better."""
        beta = 1.0
        for _ in range(STEPS):
            left = self.error(beta) if error is None else error
            following = self._shape / (PRIOR_RATE + 0.5 * (left + self._uncertainty(beta)))
            done = abs(following - beta) <= CONVERGED * following
            beta = following
            if done:
                break
        return beta

    def error(self, beta: float) -> float:
        """Sum of squared errors of the outputs, as seen; a difference, which loses digits in exact fits."""
        inverse = self._inverse(beta)
        return max(self.total - float(self.energies @ (inverse * (2.0 - self.values * inverse))), 0.0)

    def knows(self, beta: float) -> bool:
        """Whether :meth:`error` has digits enough for a precision that can be compared with another."""
        return self.error(beta) >= LARGE_ERROR * self.total > 0.0

    def free_energy(self, beta: float) -> float:
        """Negative free energy (2.139): a lower bound on the logarithm of the evidence, at its maximum."""
        prior = PRIOR_PRECISION + beta * self._floor
        spectrum = prior + beta * self.values  # of Lambda (2.150)
        rate = self._shape / beta
        log_beta = float(digamma(self._shape)) - math.log(rate)
        fit = 0.5 * self.n_samples * self.n_outputs * (log_beta - math.log(2.0 * math.pi))
        fit -= 0.5 * beta * (self.error(beta) + self._uncertainty(beta))
        # Minus the divergence of the posterior of the consequents from their prior, and of that of beta.
        spread = float(np.sum(np.log(prior / spectrum) + 1.0 - prior / spectrum))
        fit += 0.5 * self.n_outputs * spread - 0.5 * prior * float(self.energies @ self._inverse(beta) ** 2)
        fit += _gamma(PRIOR_SHAPE, PRIOR_RATE, beta, log_beta) - _gamma(self._shape, rate, beta, log_beta)
        return float(fit)

    @property
    def _shape(self) -> float:
        return PRIOR_SHAPE + 0.5 * self.n_outputs * self.n_samples  # (2.152)

    @property
    def _floor(self) -> float:
        return RESOLVED * float(self.values[-1])

    def _inverse(self, beta: float) -> Array:
        """Of the eigenvalues of Lambda / beta (2.150)."""
        return np.asarray(1.0 / (self.values + self._floor + PRIOR_PRECISION / beta))

    def _uncertainty(self, beta: float) -> float:
        """The traces in (2.153)."""
        return self.n_outputs / beta * float(self.values @ self._inverse(beta))


def squared(factor: float) -> float:
    """Square of a factor, kept finite."""
    return min(max(factor, 1.0 / LARGEST_FACTOR), LARGEST_FACTOR) ** 2


def _gamma(shape: float, rate: float, mean: float, log_mean: float) -> float:
    """Expected logarithm of a Gamma density (2.125), given the expectations of beta and of its logarithm."""
    return float(shape * math.log(rate) - gammaln(shape) + (shape - 1.0) * log_mean - rate * mean)


# --- fuzzy sets and layers -----------------------------------------------------------------------------


# A layer is kept if it raises the precision by more than rounding can.
GROWTH = 1e-6
LARGEST_INPUT = 1e100  # in widths of the sets; farther points belong to the same set
# Widths of the sets to choose from, in ranges of the inputs; ties go to the wider ones.
WIDTHS = (2.0, 1.0, 0.5, 0.25, 0.12, 0.06, 0.03)
# Of so narrow sets, few act on a point, and each concludes what outputs near its centre are.
NARROW = (0.25, 0.18, 0.12)


@dataclass(frozen=True)
class Sets:
    """M fuzzy sets over n inputs, all of one width per input (003 eq. 2.104)."""

    shift: Array  # (n,) subtracted first, against cancellation
    widths: Array  # (n,) W is their inverse square; zero for an input that does not count
    centres: Array  # (M, n) shifted and in widths

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other, as those of a foreign file."""
        sizes = sizes_of(self, shift="n", widths="n", centres="Mn")
        if sizes["M"] < 1 or (self.widths < 0.0).any():
            raise InvalidInputError("the fuzzy sets are not those of a fitted model")

    @property
    def inverse_widths(self) -> Array:
        """One over the widths, zero for an input that does not count, (n,)."""
        return np.divide(1.0, self.widths, out=np.zeros_like(self.widths), where=self.widths > 0.0)

    def scaled(self, width: float) -> "Sets":
        """The same centres, and sets so many times as wide."""
        return Sets(self.shift, width * self.widths, self.centres / width)

    def shares(self, x: Array) -> Array:
        """Degrees of fulfilment of inputs (N, n), divided by their sum: (N, M) (003 eq. 2.110).

        |x|^2 cancels in the ratio, and the largest exponent is made zero: a far point belongs to the sets
        farthest in its direction, and nothing is 0 / 0.
        """
        rows = (x - self.shift) * self.inverse_widths
        np.clip(rows, -LARGEST_INPUT, LARGEST_INPUT, out=rows)
        exponents = rows @ self.centres.T
        exponents -= 0.5 * np.einsum("mk,mk->m", self.centres, self.centres)
        exponents -= exponents.max(axis=1, keepdims=True)
        np.exp(exponents, out=exponents)
        exponents /= exponents.sum(axis=1, keepdims=True)
        return np.asarray(exponents)


def make_sets(x: Array, at_most: int, width: float) -> Sets:
    """Centroids of inputs (N, n) and widths: ``width`` times their range (003 Alg. 1, steps 2 and 3).

    An input that does not vary does not count.
    """
    few = candidates(x)
    centres, _ = clusters(few, few[FarApart(few).first(at_most)])
    shift = x.mean(axis=0)
    ranges = np.ptp(x, axis=0)
    widths = width * ranges
    inverse = np.divide(1.0, widths, out=np.zeros_like(widths), where=widths > 0.0)
    return Sets(shift, widths, (centres - shift) * inverse)


@dataclass(frozen=True)
class RuleLayer:
    """What one layer concludes from the shares of the sets (003 Def. 6)."""

    consequents: Array  # (M, p) as deviations from the mean of the outputs
    precision: float  # expected, of the outputs as they are seen
    radius: float  # no output for a sample is farther from the mean

    def __post_init__(self) -> None:
        """Refuse numbers that no fitted layer has, as those of a foreign file."""
        if self.consequents.ndim != 2 or not min(self.precision, self.radius) >= 0.0:
            raise InvalidInputError("the rules are not those of a fitted layer")

    def outputs(self, shares: Array) -> Array:
        """Outputs for shares (N, M), as deviations from the mean, none longer than the radius.

        Consequents of wide sets are far larger than the outputs and cancel near the samples only. Without a
        limit the output for an unlike input may be anywhere, also where that input itself is.
        """
        found = shares.astype(self.consequents.dtype, copy=False) @ self.consequents
        lengths = _lengths(found)
        long = lengths > self.radius
        if long.any():
            found[long] *= (self.radius / lengths[long])[:, None].astype(found.dtype)
        return found


def fit_layers(
    sets: Sets,
    x: Array,
    targets: Array,
    inputs_of: Callable[[Array], Array] | None,
    n_layers: int,
    factor: float,
    n_outputs: int | None = None,
) -> list[RuleLayer]:
    """003 Alg. 1, steps 5-17: layers are added while precision grows.

    ``targets`` (N, p) are deviations from their mean, to be seen ``factor`` times as large. ``inputs_of``
    makes inputs of a layer of the deviations that the one before it returned (2.118); without it there is one
    layer. There may be ``n_outputs``, more than targets: the others are zero.
    """
    layers: list[RuleLayer] = []
    while len(layers) < n_layers:
        shares = sets.shares(x)
        posterior = Posterior.of(shares, targets, factor, n_outputs)
        beta = posterior.precision()
        # A layer that lowers the precision need not be computed, where that is certain.
        if layers and posterior.knows(beta) and not beta > layers[-1].precision:
            break
        consequents = posterior.consequents(beta)
        outputs = product(shares, consequents)
        left = targets - outputs
        # Once more with the error itself, which is exact where the fit is.
        precision = posterior.precision(squared(factor) * float(np.einsum("np,np->", left, left)))
        # The document prints the opposite condition; its text adds layers while precision grows.
        if layers and not precision > layers[-1].precision * (1.0 + GROWTH):
            break
        layers.append(RuleLayer(consequents, precision, float(_lengths(outputs).max())))
        if inputs_of is None:
            break
        x = inputs_of(outputs)
    return layers


def most_evident(
    x: Array, targets: Array, at_most: int, factor: float, widths: Sequence[float] = WIDTHS
) -> tuple[Sets, float]:
    """Sets of the width, among ``widths``, with the largest negative free energy; and that width."""
    widest = make_sets(x, at_most, 1.0)

    def evidence(width: float) -> float:
        posterior = Posterior.of(widest.scaled(width).shares(x), targets, factor)
        return posterior.free_energy(posterior.precision())

    width = max(widths, key=evidence)
    return widest.scaled(width), width


def _lengths(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("np,np->n", rows, rows)))


# --- autoencoders as stacks ----------------------------------------------------------------------------


# A component whose encodings span less than this part of the length of a sample is rounding.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class FuzzyStack:
    """One deep fuzzy autoencoder. Shapes: p features, n components, M rules."""

    mean: Array  # (p,) of the samples
    encoder: Array  # (p, n) V of 003 eq. 2.148
    sets: Sets  # over encodings of deviations from the mean
    layers: tuple[RuleLayer, ...]

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other, as those of a foreign file."""
        n_rules, n_used = self.sets.centres.shape
        fitting = sizes_of(self, mean="p", encoder="pn")["n"] == n_used
        if not fitting or {each.consequents.shape for each in self.layers} != {(n_rules, *self.mean.shape)}:
            raise InvalidInputError("the rules do not fit each other")

    @property
    def n_machines(self) -> int:
        """One."""
        return 1

    @property
    def centres(self) -> Array:
        """Mean of the samples, (1, p)."""
        return self.mean[None].astype(self.layers[0].consequents.dtype)

    @property
    def rows_at_once(self) -> int:
        """Queries folded together, within the working memory."""
        n_rules, n_features = self.layers[0].consequents.shape
        rows = BLOCK_BYTES // int(8 * (2 * n_rules + 4 * n_features))
        return max(rows // PRODUCT_WIDTH * PRODUCT_WIDTH, SMALLEST_BLOCK)

    def select(self, index: int) -> "FuzzyStack":
        """The machine itself."""
        return self

    def fold(self, queries: Array, angles: bool = False) -> Folding:
        """Distances of queries (M, p) from their images, (1, M)."""
        images = self.images(queries)[-1][0]
        differences = queries - images
        distance2 = np.einsum("mp,mp->m", differences, differences)[None]
        if not angles:
            return Folding(distance2, None)
        query2 = np.einsum("mp,mp->m", queries, queries)
        image2 = np.einsum("mp,mp->m", images, images)[None]
        return Folding.with_angle(distance2, image2, query2, np.einsum("mp,mp->m", queries, images)[None])

    def best_images(self, queries: Array) -> tuple[Array, Array]:
        """Image by the last layer (003 Def. 9), (1, M, p), and its squared distance (1, M)."""
        images = self.images(queries)[-1]
        differences = queries - images[0]
        return images, np.einsum("mp,mp->m", differences, differences)[None]

    def images(self, queries: Array) -> list[Array]:
        """Images of the queries by every layer, (1, M, p) each (003 eq. 2.158-2.161)."""
        encoded = (queries.astype(np.float64) - self.mean) @ self.encoder
        layers = self.conclude(encoded)
        return [np.asarray(layer + self.mean, dtype=queries.dtype)[None] for layer in layers]

    def conclude(self, encoded: Array) -> list[Array]:
        """Outputs of every layer for encoded deviations (M, n), as deviations from the mean (M, p)."""
        found: list[Array] = []
        for layer in self.layers:
            found.append(layer.outputs(self.sets.shares(encoded if not found else found[-1] @ self.encoder)))
        return found


def fit_stack(
    samples: Array, n_components: int, n_layers: int, at_most: int, width: float, factor: float
) -> FuzzyStack:
    """Fit one machine to samples (1, N, p), with at most so many rules, seen ``factor`` times as large."""
    n_features = samples.shape[2]
    used = np.flatnonzero(samples[0].any(axis=0))  # the margins of images would cost as much as the rest
    rows = np.take(samples[0], used, axis=1) if 0 < len(used) < n_features else samples[0]
    found = _fit(rows, n_components, n_layers, at_most, width, factor, n_features)
    if rows.shape[1] == n_features:
        return found

    def widened(array: Array) -> Array:
        whole = np.zeros((*array.shape[:-1], n_features), dtype=array.dtype)
        whole[..., used] = array
        return whole

    layers = tuple(replace(layer, consequents=widened(layer.consequents)) for layer in found.layers)
    encoder = np.ascontiguousarray(widened(found.encoder.T).T)
    return FuzzyStack(widened(found.mean), encoder, found.sets, layers)


def _fit(
    samples: Array,
    n_components: int,
    n_layers: int,
    at_most: int,
    width: float,
    factor: float,
    n_features: int,
) -> FuzzyStack:
    """The machine of samples (N, p) that have ``n_features``, of which those that are zero are left out."""
    rows = samples.astype(np.float64)
    mean = rows.mean(axis=0)

    def encode(deviations: Array) -> Array:
        return deviations @ encoder

    encoder, length = leading_directions(rows, n_components)
    rows -= mean
    encoded = rows @ encoder  # the mean only shifts encodings, which the sets do not notice
    useful = np.ptp(encoded, axis=0) > NEGLIGIBLE * length
    encoder, encoded = np.ascontiguousarray(encoder[:, useful]), np.ascontiguousarray(encoded[:, useful])
    sets = make_sets(encoded, at_most, width)
    layers = fit_layers(sets, encoded, rows, encode, n_layers, factor, n_features)
    stored = (
        replace(layer, consequents=layer.consequents.astype(samples.dtype, copy=False)) for layer in layers
    )
    return FuzzyStack(mean, encoder, sets, tuple(stored))


def leading_directions(rows: Array, n_components: int) -> tuple[Array, float]:
    """V (p, n) of the uncentred second moment (003 eq. 2.147-2.148); root mean square length of a row."""
    n_samples, n_features = rows.shape
    wide = n_features > n_samples
    moment = symmetric_product(rows, transposed=not wide)
    length = float(np.sqrt(np.trace(moment) / n_samples))
    values, vectors = leading_eigenvectors(moment, min(n_components, n_samples, n_features))
    if wide:
        vectors = rows.T @ vectors
        lengths = np.sqrt(np.einsum("pk,pk->k", vectors, vectors))
        # Directions without length are rounding: they are left as zeros and dropped by the caller. Samples
        # far from zero make the first value huge, so nothing but rounding may be dropped.
        kept = values > n_samples * np.finfo(np.float64).eps * max(float(values[0]), 0.0)
        vectors = np.where(kept, vectors / np.where(kept, lengths, 1.0), 0.0)
    return vectors, length
