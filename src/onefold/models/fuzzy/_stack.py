"""Deep fuzzy autoencoders (003 Alg. 2, Def. 9) as stacks of one machine.

A machine is its rules: an encoder, fuzzy sets over the encodings, and consequents. It holds no samples.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array
from onefold._base.lapack import leading_eigenvectors, symmetric_product
from onefold.models._folding import Folding
from onefold.models.compose import BLOCK_BYTES, PRODUCT_WIDTH, SMALLEST_BLOCK
from onefold.models.fuzzy._core import Layer, Sets, fit_layers, make_sets

__all__ = ["FuzzyStack", "fit_stack", "leading_directions", "rebuild_stack", "stack_state"]

# A component whose encodings span less than this part of the length of a sample is rounding.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class FuzzyStack:
    """One deep fuzzy autoencoder. Shapes: p features, n components, M rules."""

    mean: Array  # (p,) of the samples
    encoder: Array  # (p, n) V of 003 eq. 2.148
    sets: Sets  # over encodings of deviations from the mean
    layers: tuple[Layer, ...]

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


def stack_state(stack: FuzzyStack) -> dict[str, NDArray[Any]]:
    """Everything a machine consists of."""
    return {
        "mean": stack.mean,
        "encoder": stack.encoder,
        "shift": stack.sets.shift,
        "widths": stack.sets.widths,
        "sets": stack.sets.centres,
        "consequents": np.stack([layer.consequents for layer in stack.layers]),
        "lambdas": np.array([layer.precision for layer in stack.layers]),
        "radii": np.array([layer.radius for layer in stack.layers]),
    }


def rebuild_stack(state: dict[str, NDArray[Any]], n_components: int, n_layers: int) -> FuzzyStack:
    """The machine that :func:`stack_state` described."""
    mean, encoder, consequents = state["mean"], state["encoder"], state["consequents"]
    sets = Sets(state["shift"], state["widths"], state["sets"])
    (n_features,), n_used, n_kept, n_rules = mean.shape, encoder.shape[1], len(consequents), len(sets.centres)
    expected = {
        "encoder": (n_features, n_used),
        "shift": (n_used,),
        "widths": (n_used,),
        "sets": (n_rules, n_used),
        "consequents": (n_kept, n_rules, n_features),
        "lambdas": (n_kept,),
        "radii": (n_kept,),
    }
    if any(state[name].shape != shape for name, shape in expected.items()):
        raise ValueError("the rules do not fit each other")
    if not 1 <= n_kept <= n_layers or n_used > n_components or n_rules < 1:
        raise ValueError("the rules do not fit the parameters")
    if (sets.widths < 0.0).any() or (state["radii"] < 0.0).any():
        raise ValueError("a width is negative")
    layers = zip(consequents, state["lambdas"].tolist(), state["radii"].tolist(), strict=True)
    return FuzzyStack(mean, encoder, sets, tuple(Layer(*layer) for layer in layers))
