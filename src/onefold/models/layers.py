"""Layers over one hull: each folds what the one before it returned, and the best of them is taken per point.

This is the deep composition of every family (000 Def. 3, 001 Def. 11). A family says only what the image of a
point under one layer is, in coordinates of the hull.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from onefold._base.arrays import Array, Floats, Mask, sizes_of
from onefold.exceptions import InvalidInputError
from onefold.models.folding import Folding
from onefold.models.hull import Hull, squared_length
from onefold.models.pool import BLOCK_BYTES, CACHED_BYTES, PRODUCT_WIDTH, SMALLEST_BLOCK


class Layer(Protocol):
    """One layer of S machines."""

    @property
    def active(self) -> Mask:
        """Whether each machine has this layer, (S,)."""

    @property
    def width(self) -> int:
        """Kernel values per query and machine, which the working memory must hold."""

    def select(self, index: int) -> Self:
        """The layer of one machine, on the same memory."""

    def image(self, hull: Hull, points: Array, inside: Array) -> Array:
        """Coordinates (S, r, M) of the images of points (S, r, M); ``inside`` are those of the queries."""


SomeLayer = TypeVar("SomeLayer", bound=Layer)


@dataclass(frozen=True)
class View:
    """M queries as S hulls see them."""

    inside: Array  # (S, r, M) coordinates of the queries, from each mean
    total: Array  # (S, M) squared distances from each mean
    products: Array  # (S, M) inner products with each mean, from zero
    query2: Array  # (M,) squared lengths, from zero


@dataclass(frozen=True)
class LayeredStack(Generic[SomeLayer]):
    """S fitted machines of N samples each."""

    hull: Hull
    layers: tuple[SomeLayer, ...]

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
        n_machines, _, rank = self.hull.points.shape
        width = max(layer.width for layer in self.layers)
        entries = self.hull.mean.shape[1] + n_machines * (2 * width + 4 * rank)
        memory = BLOCK_BYTES if n_machines == 1 else CACHED_BYTES
        rows = memory // int(entries * self.hull.mean.itemsize)
        # A multiple of the width matrix products are made for: they lose up to a third at odd numbers.
        return max(rows // PRODUCT_WIDTH * PRODUCT_WIDTH, SMALLEST_BLOCK)

    def select(self, index: int) -> Self:
        """One machine of the stack, on the same memory, without layers it has no component for."""
        layers = tuple(layer.select(index) for layer in self.layers if layer.active[index])
        return type(self)(self.hull.select(index), layers)

    def view(self, queries: Array) -> View:
        """What folding needs to know of queries (M, p)."""
        inside, total = self.hull.coordinates(queries)
        return View(inside, total, self.hull.mean @ queries.T, np.einsum("mp,mp->m", queries, queries))

    def fold(self, queries: Array, angles: bool = False) -> Folding:
        """Distance of every query from its image under every machine, the best layer each (000 eq. 52)."""
        view = self.view(queries)
        best: Folding | None = None
        for layer, points in zip(self.layers, self._walk(view.inside), strict=True):
            folding = self.measure(view, points, angles)
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
        view = self.view(queries)
        nearest = np.full(view.total.shape, np.inf, dtype=queries.dtype)
        chosen = np.zeros_like(view.inside)
        for layer, points in zip(self.layers, self._walk(view.inside), strict=True):
            distance2 = self.measure(view, points, angles=False).distance2
            closer = (distance2 < nearest) & layer.active[:, None]
            np.copyto(nearest, distance2, where=closer)
            np.copyto(chosen, points, where=closer[:, None, :])
        return self.hull.features(chosen), nearest

    def _walk(self, inside: Array) -> Iterator[Array]:
        """Coordinates of the images, layer after layer: each folds what the one before it returned."""
        points = inside
        for layer in self.layers:
            points = layer.image(self.hull, points, inside)
            yield points

    def measure(self, view: View, points: Array, angles: bool) -> Folding:
        """Folding of queries onto points of the hulls, given by coordinates (S, r, M)."""
        hull = self.hull
        products, lengths2 = np.einsum("srm,srm->sm", view.inside, points), squared_length(points)
        distance2 = hull.distance2(view.inside, view.total, points, products, lengths2)
        if not angles:
            return Folding(distance2, None)
        # |image| and |query| from zero, for the angle between them (004 eq. 104).
        along = (hull.mean_points[:, None, :] @ points)[:, 0]
        image2 = lengths2 + 2.0 * along + hull.mean_norm2[:, None]
        products += view.products + along
        return Folding.with_angle(distance2, np.maximum(image2, 0.0), view.query2, products)


@dataclass(frozen=True)
class Samples:
    """What S machines are fitted again from: what a compact file holds of a stack."""

    centred: Array  # (S, N, p) samples minus their mean
    mean: Array  # (S, p)
    lambdas: Floats  # regularisation of every layer

    def __post_init__(self) -> None:
        """Refuse samples without rows or features, which take no byte and much work."""
        sizes = sizes_of(self, centred="SNp", mean="Sp")
        fitting = min(sizes.values()) >= 1 and self.centred.dtype == self.mean.dtype
        if not fitting or (self.lambdas < 0.0).any():
            raise InvalidInputError("the samples of a machine are not those of one")

    @property
    def n_machines(self) -> int:
        """Number of machines in the stack."""
        return len(self.mean)

    @property
    def centres(self) -> Array:
        """Mean of each machine's samples, (S, p)."""
        return self.mean
