"""Which group folds a row least, without folding it by every machine.

An image lies in the hull of its machine, so it is no nearer to the query than the query's own projection onto
the hull, and at no smaller angle to it than the projection onto the space that the hull and zero span. Both
come with the coordinates of the query. Measures grow with distance and angle: a machine that cannot be better
in either than one already folded by cannot win, and the answer is that of folding by all, but for rounding
between machines that fold a row equally. Where the bounds leave few machines, half the digits are enough for
them, and the few fold with all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import Array, Index
from onefold._base.parallel import run_parallel
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
# Rows of which a few are spent on finding out whether bounds of half the digits suffice.
WORTH_A_TRIAL = 1024
# Sums of squares of entries up to this, or of one over this, are far from the ends of float32.
COMFORTABLE = 1e8


def nearest_groups(pool: Pool, X: Array, name: str, n_probe: int | None, n_jobs: int | None) -> Index:
    """The group of the smallest measure of each row, the first of equal ones."""
    if name not in PRUNABLE or n_probe is not None or _rows_at_once(pool, pool.dtype) < PRODUCT_WIDTH:
        return np.asarray(pool.measures(X, name, n_probe, n_jobs).argmin(axis=1), dtype=np.intp)
    dtype = _dtype_of_bounds(pool, X, name)
    size = _rows_at_once(pool, dtype)
    blocks = [slice(start, start + size) for start in range(0, len(X), size)]
    found = run_parallel(lambda rows: _Search(pool, X[rows], name, dtype).run(), blocks, n_jobs)
    return np.concatenate(found)


def _dtype_of_bounds(pool: Pool, X: Array, name: str) -> np.dtype[Any]:
    """Half the digits if they rule out almost every machine for a few of the rows."""
    half = np.dtype(np.float32)
    if pool.dtype == half or len(X) < WORTH_A_TRIAL or _rows_at_once(pool, half) < PRODUCT_WIDTH:
        return pool.dtype
    largest = max(
        np.abs(part).max() for stack in _layered(pool) for part in (stack.hull.points, stack.hull.mean)
    )
    if not 1.0 / COMFORTABLE < largest < COMFORTABLE:
        return pool.dtype
    trial = _Search(pool, X[:: len(X) // PRODUCT_WIDTH], name, half)
    trial.run()
    return pool.dtype if trial.crowded else half


def _rows_at_once(pool: Pool, dtype: np.dtype[Any]) -> int:
    """Rows whose coordinates and bounds fit the working memory; 0 where hulls give no bound."""
    if not all(isinstance(stack, LayeredStack) and stack.hull.basis is not None for stack in pool.stacks):
        return 0
    views = [stack.hull.points[:, 0].size + 6 * stack.n_machines for stack in _layered(pool)]
    bounds = 2 * sum(stack.n_machines for stack in pool.stacks)
    if dtype == pool.dtype:  # every view is kept
        row_bytes = (sum(views) + bounds) * dtype.itemsize
    else:  # one after the other is looked at, and perhaps made anew with all digits
        row_bytes = max(views) * (dtype.itemsize + pool.dtype.itemsize) + bounds * dtype.itemsize
    return int(BLOCK_BYTES // row_bytes // PRODUCT_WIDTH * PRODUCT_WIDTH)


def _layered(pool: Pool) -> list[LayeredStack[Any]]:
    return [stack for stack in pool.stacks if isinstance(stack, LayeredStack)]


@dataclass(frozen=True)
class _Bounds:
    """The least squared distance (S, M) and largest cosine (S, M) that images can have."""

    distance2: Array
    cosine: Array


def _bounds(stack: LayeredStack[Any], view: View) -> _Bounds:
    hull, dtype = stack.hull, view.total.dtype
    margin = MARGIN[dtype]
    mean_norm2 = hull.mean_norm2.astype(dtype, copy=False)[:, None]
    mean_points = hull.mean_points.astype(dtype, copy=False)
    inside2 = squared_length(view.inside)
    rounding = margin * (view.total + view.query2 + mean_norm2)
    distance2 = view.total - inside2 - rounding
    # Coordinates from zero are b = inside + B m, with B m the mean's own. The squared length of a projection
    # onto span(B, m) is that of b, and of the part along what of the mean is outside the span of B.
    along = (mean_points[:, None, :] @ view.inside)[:, 0]
    mean2 = np.einsum("sr,sr->s", mean_points, mean_points)[:, None]
    outside2 = mean_norm2 - mean2
    defined = outside2 > margin**0.5 * mean_norm2
    part = view.products - along - mean2
    projection2 = inside2 + 2.0 * along + mean2 + part**2 / np.where(defined, outside2, 1.0)
    # Of a query much shorter than the mean, what the sum leaves is rounding, which may even be below zero.
    projection2 = np.maximum(projection2, 0.0) + rounding
    known = defined & (view.query2 > rounding)
    cosine2 = np.divide(projection2, view.query2, out=np.ones_like(projection2), where=known)
    return _Bounds(distance2, np.sqrt(cosine2) + MARGIN[hull.mean.dtype] ** 0.5)


class _Search:
    """The best machine found so far for each row of one block, by distance, cosine and measure."""

    def __init__(self, pool: Pool, X: Array, name: str, dtype: np.dtype[Any]) -> None:
        self.pool, self.name = pool, name
        self.queries, self.divisor = pool.to_unit(X)
        self.seen = pool.seen(self.divisor)
        self.stacks = _layered(pool)
        self.views: list[View] = []
        self.bounds: list[_Bounds] = []
        for stack in self.stacks:
            with np.errstate(over="ignore", invalid="ignore"):  # what half the digits cannot hold is no bound
                view = stack.view(self.queries, dtype)
                self.bounds.append(_bounds(stack, view))
            if dtype == pool.dtype:  # only views of all digits are good for folding
                self.views.append(view)
        self.value = np.full(len(X), np.inf, dtype=self.queries.dtype)
        self.distance2, self.cosine = np.full_like(self.value, np.inf), np.full_like(self.value, -np.inf)
        self.group = np.full(len(X), pool.n_groups, dtype=np.intp)
        self.crowded = False  # whether bounds left so many machines that all of a stack were folded by

    def run(self) -> Index:
        """Fold by the nearest hull first, then by every machine that could still be better."""
        first = np.concatenate([bounds.distance2 for bounds in self.bounds]).argmin(axis=0)
        places = np.cumsum([0, *(stack.n_machines for stack in self.stacks)])
        folded = []
        for index in range(len(self.stacks)):
            mine = np.flatnonzero((first >= places[index]) & (first < places[index + 1]))
            folded.append((first[mine] - places[index], mine))
            self._fold_pairs(index, *folded[-1])
        for index, bounds in enumerate(self.bounds):
            # Negated, so that a bound that is no number rules nothing out.
            allowed = ~(bounds.distance2 >= self.distance2)
            if self.name not in WITHOUT_ANGLES:
                allowed |= ~(bounds.cosine <= self.cosine)
            allowed[folded[index]] = False
            if np.count_nonzero(allowed) * COST_OF_PAIRS > allowed.size:
                self.crowded = True
                self._fold_all(index)
            else:
                self._fold_pairs(index, *np.nonzero(allowed))
        return self.group

    def _fold_pairs(self, index: int, machines: Index, rows: Index) -> None:
        for part in _parts(len(machines)):
            some, mine = machines[part], rows[part]
            pairs = self.stacks[index].pairs(some)
            view = self.stacks[index].pair_view(self.queries[mine], some)
            folding = pairs.fold_view(view, self.name not in WITHOUT_ANGLES)
            values = folding.measure(
                self.name, self.divisor[mine, None], self.seen[mine, None], self.queries.shape[1]
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
        stack = self.stacks[index]
        view = stack.view(self.queries) if not self.views else self.views[index]
        folding = stack.fold_view(view, self.name not in WITHOUT_ANGLES)
        values = folding.measure(self.name, self.divisor, self.seen, self.queries.shape[1])
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
