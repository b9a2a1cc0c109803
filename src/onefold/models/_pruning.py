"""Which group folds a row least, without folding it by every machine.

An image lies in the hull of its machine, so it is no nearer to the query than the query's own projection onto
the hull, and at no smaller angle to it than the projection onto the space that the hull and zero span. Both
come with the coordinates of the query. Measures grow with distance and angle: a machine that cannot be better
in either than one already folded by cannot win, and the answer is that of folding by all, but for rounding
between machines that fold a row equally.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import Array, Index
from onefold._base.parallel import run_parallel, worker_count
from onefold.models._folding import WITHOUT_ANGLES
from onefold.models._hull import squared_length
from onefold.models._layers import LayeredStack, View
from onefold.models.compose import BLOCK_BYTES, PRODUCT_WIDTH, Pool

__all__ = ["nearest_groups"]

# Strictly growing measures: the others are equal for many machines at once, where the first group must win.
PRUNABLE = ("euclidean", "rms")
# What rounding may take from a bound, relative to squared lengths.
MARGIN = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}
# A pair of query and machine costs about this many times as much as when all pairs are folded together.
COST_OF_PAIRS = 10
PAIRS_AT_ONCE = 512


def nearest_groups(pool: Pool, X: Array, name: str, n_probe: int | None, n_jobs: int | None) -> Index:
    """The group of the smallest measure of each row, the first of equal ones."""
    size = _rows_at_once(pool) if name in PRUNABLE and n_probe is None else 0
    if size < PRODUCT_WIDTH:
        return np.asarray(pool.measures(X, name, n_probe, n_jobs).argmin(axis=1), dtype=np.intp)
    size = min(size, -(-len(X) // worker_count(n_jobs)))
    blocks = [slice(start, start + size) for start in range(0, len(X), size)]
    found = run_parallel(lambda rows: _Search(pool, X[rows], name).run(), blocks, n_jobs)
    return np.concatenate(found)


def _rows_at_once(pool: Pool) -> int:
    """Rows whose coordinates in all hulls fit the working memory; 0 where hulls give no bound."""
    if not all(isinstance(stack, LayeredStack) and stack.hull.basis is not None for stack in pool.stacks):
        return 0
    entries = sum(stack.hull.points[:, 0].size + 8 * stack.n_machines for stack in _layered(pool))
    return int(BLOCK_BYTES // (entries * pool.dtype.itemsize) // PRODUCT_WIDTH * PRODUCT_WIDTH)


def _layered(pool: Pool) -> list[LayeredStack[Any]]:
    return [stack for stack in pool.stacks if isinstance(stack, LayeredStack)]


@dataclass(frozen=True)
class _Bounds:
    """The least squared distance (S, M) and largest cosine (S, M) that images can have."""

    distance2: Array
    cosine: Array


def _bounds(stack: LayeredStack[Any], view: View) -> _Bounds:
    hull, margin = stack.hull, MARGIN[view.total.dtype]
    inside2, mean_norm2 = squared_length(view.inside), hull.mean_norm2[:, None]
    rounding = margin * (view.total + view.query2 + mean_norm2)
    distance2 = view.total - inside2 - rounding
    # Coordinates from zero are b = inside + B m, with B m the mean's own. The squared length of a projection
    # onto span(B, m) is that of b, and of the part along what of the mean is outside the span of B.
    along = (hull.mean_points[:, None, :] @ view.inside)[:, 0]
    mean2 = np.einsum("sr,sr->s", hull.mean_points, hull.mean_points)[:, None]
    outside2 = mean_norm2 - mean2
    defined = outside2 > margin**0.5 * mean_norm2
    part = view.products - along - mean2
    projection2 = inside2 + 2.0 * along + mean2 + part**2 / np.where(defined, outside2, 1.0)
    # Of a query much shorter than the mean, what the sum leaves is rounding, which may even be below zero.
    projection2 = np.maximum(projection2, 0.0) + rounding
    known = defined & (view.query2 > rounding)
    cosine2 = np.divide(projection2, view.query2, out=np.ones_like(projection2), where=known)
    return _Bounds(distance2, np.sqrt(cosine2) + margin**0.5)


class _Search:
    """The best machine found so far for each row of one block, by distance, cosine and measure."""

    def __init__(self, pool: Pool, X: Array, name: str) -> None:
        self.pool, self.name = pool, name
        queries, self.divisor = pool.to_unit(X)
        self.n_features = queries.shape[1]
        self.seen = pool.seen(self.divisor)
        self.stacks = _layered(pool)
        self.views = [stack.view(queries) for stack in self.stacks]
        self.bounds = [_bounds(stack, view) for stack, view in zip(self.stacks, self.views, strict=True)]
        self.value = np.full(len(X), np.inf, dtype=queries.dtype)
        self.distance2, self.cosine = np.full_like(self.value, np.inf), np.full_like(self.value, -np.inf)
        self.group = np.full(len(X), pool.n_groups, dtype=np.intp)

    def run(self) -> Index:
        """Fold by the nearest hull first, then by every machine that could still be better."""
        first = np.concatenate([bounds.distance2 for bounds in self.bounds]).argmin(axis=0)
        places = np.cumsum([0, *(stack.n_machines for stack in self.stacks)])
        for index in range(len(self.stacks)):
            mine = np.flatnonzero((first >= places[index]) & (first < places[index + 1]))
            self._fold_pairs(index, first[mine] - places[index], mine)
        for index, bounds in enumerate(self.bounds):
            allowed = bounds.distance2 < self.distance2
            if self.name not in WITHOUT_ANGLES:
                allowed |= bounds.cosine > self.cosine
            if np.count_nonzero(allowed) * COST_OF_PAIRS > allowed.size:
                self._fold_all(index)
            else:
                self._fold_pairs(index, *np.nonzero(allowed))
        return self.group

    def _fold_pairs(self, index: int, machines: Index, rows: Index) -> None:
        for part in _parts(len(machines)):
            some, mine = machines[part], rows[part]
            pairs = self.stacks[index].pairs(some)
            folding = pairs.fold_view(self.views[index].pairs(some, mine), self.name not in WITHOUT_ANGLES)
            values = folding.measure(
                self.name, self.divisor[mine, None], self.seen[mine, None], self.n_features
            )
            angle = np.zeros_like(values) if folding.angle is None else folding.angle
            # Of several machines for one row the best is to be kept last.
            order = np.lexsort((-self.pool.owners[index][some], -values[:, 0]))
            self._keep(
                index,
                some[order],
                mine[order],
                values[order, 0],
                folding.distance2[order, 0],
                angle[order, 0],
            )

    def _fold_all(self, index: int) -> None:
        folding = self.stacks[index].fold_view(self.views[index], self.name not in WITHOUT_ANGLES)
        values = folding.measure(self.name, self.divisor, self.seen, self.n_features)
        machines, rows = values.argmin(axis=0), np.arange(values.shape[1])
        angle = np.zeros_like(values) if folding.angle is None else folding.angle
        self._keep(
            index, machines, rows, *(part[machines, rows] for part in (values, folding.distance2, angle))
        )

    def _keep(
        self, index: int, machines: Index, rows: Index, values: Array, distance2: Array, angle: Array
    ) -> None:
        """Take over what is better, or equal and of an earlier group."""
        groups = self.pool.owners[index][machines]
        better = (values < self.value[rows]) | ((values == self.value[rows]) & (groups < self.group[rows]))
        mine = rows[better]
        self.value[mine], self.group[mine] = values[better], groups[better]
        self.distance2[mine], self.cosine[mine] = distance2[better], np.cos(np.pi * angle[better])


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, start + PAIRS_AT_ONCE) for start in range(0, count, PAIRS_AT_ONCE))
