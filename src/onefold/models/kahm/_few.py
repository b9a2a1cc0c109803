"""One query at a time: all small machines of a pool side by side in a few arrays.

A stack holds about a thousand samples, which suits blocks of queries. For a single query each of its steps
is a call on a handful of numbers, and calls cost more than numbers. Here the kernel values, weights and means
of all machines with one layer lie in a few arrays, padded to a common size, so that the number of calls does
not depend on the number of machines. What has as many columns as the data, the bases of the hulls, stays
where it is.

Where only the nearest group is asked for, bounds of the measures come first (``_sketch``), and machines are
asked in full where these leave a doubt about the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from onefold._base.arrays import Array, Floats, Index
from onefold.models.folding import WITHOUT_ANGLES, Folding
from onefold.models.hull import LARGEST_STACKED, Hull
from onefold.models.kahm._sketch import DOUBT, Sketch

if TYPE_CHECKING:
    from onefold.models.kahm._core import MachineStack

__all__ = ["GatheredMachines", "gather"]

# Machines of a part have at least this share of the samples of its largest: what padding costs at most.
LEAST_FILLED = 0.7
# Parts with fewer numbers are faster in full than as a sketch.
SKETCHED = 2**17
# A sketch in the precision of the data is worth its time where this share of the coordinates is not encoded.
LEAST_LEFT = 0.3
# More than one in so many machines of a part are asked in full together with all others. A sketch that had
# left so many doubts is then not asked about this many rows.
MANY, PATIENCE = 4, 7


@dataclass(frozen=True)
class Part:
    """S machines of similar size. N samples, r coordinates, q of them encoded, p features."""

    owners: Index  # (S,) group of each machine
    machines: tuple[tuple[MachineStack, int], ...]  # where each comes from
    kernel: Array  # (S, N, q) coordinates of a query to logarithms of its kernel values
    level: Array  # (S, N) what is added to them; minus infinity for padding
    weights: Array  # (S, r + 2, N) kernel values to image, their sum, and the sum of the kernel values
    floor: Array  # (S,) least safe sum over the squared length of the kernel values
    mean_points: Array  # (S, r) coordinates of the mean, from zero
    mean_norm2: Array  # (S,) its squared length
    origin: Array  # (p,) where the coordinates of all queries start
    hulls: Hulls | None  # None where the features are the coordinates

    @cached_property
    def sketch(self) -> Sketch | None:
        """Bounds of the same machines, made when first needed; None where they save nothing."""
        (n_machines, _, n_encoded), rank = self.kernel.shape, self.mean_points.shape[1]
        saving = self.level.dtype == np.float64 or n_encoded < (1.0 - LEAST_LEFT) * rank
        n_features = 0 if self.hulls is None else self.hulls.mean.shape[1]
        n_numbers = self.kernel.size + self.weights.size + n_machines * rank * n_features
        return Sketch.of(self) if saving and n_numbers >= SKETCHED else None

    def measures(self, query: OneQuery, name: str, machines: Index | slice) -> Array:
        """Measures of one query by some machines."""
        mean_points, inside = self.mean_points[machines], self._inside(query, machines)
        image = self._image(inside, machines)
        lengths2, products = np.vecdot(image, image), np.vecdot(inside, image)
        if self.hulls is None:
            apart, with_mean = inside - image, np.vecdot(mean_points, query.row)
            distance2 = np.vecdot(apart, apart)
        else:
            shifted = np.vecdot(self.hulls.mean[machines], query.shifted)
            with_mean = shifted + self.hulls.products[machines] + query.product
            total = self.hulls.norm2[machines] - 2.0 * shifted + query.shifted2
            distance2 = np.maximum(total - 2.0 * products + lengths2, 0.0)
        folding = Folding(distance2, None)
        if name not in WITHOUT_ANGLES:
            along = np.vecdot(mean_points, image)
            image2 = np.maximum(lengths2 + 2.0 * along + self.mean_norm2[machines], 0.0)
            folding = Folding.with_angle(distance2, image2, query.norm2, products + with_mean + along)
        return folding.measure(name, query.divisor, query.seen, len(query.row))

    def _inside(self, query: OneQuery, machines: Index | slice) -> Array:
        """Coordinates (S, r) of the query, from the means of some machines."""
        if self.hulls is None:
            return np.asarray(query.row - self.mean_points[machines])
        return self.hulls.project(query.shifted, machines)

    def _image(self, inside: Array, machines: Index | slice) -> Array:
        """Coordinates (S, r) of the images of the query with these coordinates by some machines."""
        values = (self.kernel[machines] @ inside[:, : self.kernel.shape[2], None])[:, :, 0]
        values += self.level[machines]
        values -= values.max(axis=1, keepdims=True)
        np.exp(values, out=values)
        product = (self.weights[machines] @ values[:, :, None])[:, :, 0]
        image, sums = product[:, :-2], product[:, -2]
        # As for blocks of queries; the largest kernel value is one here.
        unsafe = np.flatnonzero(~(sums >= self.floor[machines] * np.vecdot(values, values)))
        sums[unsafe] = 1.0
        image /= sums[:, None]
        for row, machine in zip(unsafe, np.arange(len(self.owners))[machines][unsafe], strict=True):
            stack, index = self.machines[machine]
            samples = stack.hull.points[index]  # the one farthest away is the image
            scores = np.vecdot(samples, samples) - 2.0 * (samples @ inside[row, : samples.shape[1]])
            image[row, : samples.shape[1]] = samples[scores.argmax()]
        return image


@dataclass(frozen=True)
class Hulls:
    """Where the S hulls of a part lie in the space of the features."""

    bases: tuple[tuple[slice, Array], ...]  # (S', r', p) of some machines each
    offset: Array  # (S, r) coordinates of the means, from the origin
    mean: Array  # (S, p) from the origin
    norm2: Array  # (S,) its squared length
    products: Array  # (S,) inner products of the same with the origin

    def project(self, shifted: Array, machines: Index | slice) -> Array:
        """Coordinates (S, r) of a query (p,) that is given from the origin, by all machines or a few."""
        inside = np.zeros_like(self.offset[machines])
        if isinstance(machines, slice):
            for own, basis in self.bases:
                np.matmul(basis, shifted, out=inside[own, : basis.shape[1]])
        else:
            numbers = np.searchsorted([own.stop for own, _ in self.bases], machines, side="right")
            for row, (number, machine) in enumerate(zip(numbers, machines, strict=True)):
                own, basis = self.bases[number]
                np.matmul(basis[machine - own.start], shifted, out=inside[row, : basis.shape[1]])
        inside -= self.offset[machines]
        return inside


class OneQuery:
    """A row of the data, in the unit of a pool, from zero and from the origin of its machines."""

    def __init__(self, row: Array, origin: Array, divisor: Array, seen: Array) -> None:
        self.row, self.shifted = row, row - origin
        self.shifted2 = self.shifted @ self.shifted
        self.product = origin @ row
        self.norm2 = np.asarray(row @ row)[None]
        self.divisor, self.seen = divisor, seen


@dataclass(frozen=True)
class GatheredMachines:
    """Machines of several stacks, for one query at a time."""

    indices: frozenset[int]  # the stacks these machines come from
    parts: tuple[Part, ...]
    origin: Array  # (p,) mean of the means
    n_groups: int

    def least(self, row: Array, name: str, divisor: Array, seen: Array, nearest_only: bool = False) -> Array:
        """Least measure (groups,) of a row (p,) by each group; infinite for groups without machines here.

        With ``nearest_only`` it is infinite for groups of which it is certain that another one has a smaller
        value, and zero for a group if that is certain of all others.
        """
        query = OneQuery(row, self.origin, divisor, seen)
        lowest = np.full(self.n_groups, np.inf)
        sketched: list[tuple[Part, Sketch, Floats]] = []
        limit = np.inf
        for part in self.parts:
            sketch = part.sketch if nearest_only else None
            if sketch is None or sketch.rests:
                np.minimum.at(lowest, part.owners, part.measures(query, name, slice(None)))
            else:
                least, largest = sketch.bounds(query, name)
                limit = min(limit, float(largest.min()))
                sketched.append((part, sketch, least))
            if sketch is not None:
                sketch.rests = max(sketch.rests - 1, 0)
        if not sketched:
            return lowest
        limit = min(limit, float(lowest.min())) * (1.0 + DOUBT[row.dtype])
        chosen = [np.flatnonzero(~(least > limit)) for _, _, least in sketched]
        owners = [part.owners[machines] for (part, _, _), machines in zip(sketched, chosen, strict=True)]
        groups = np.concatenate([np.flatnonzero(lowest <= limit), *owners])
        if (groups == groups[0]).all():
            lowest[groups[0]] = 0.0
            return lowest
        for (part, sketch, _), machines in zip(sketched, chosen, strict=True):
            asked: Index | slice = machines
            if MANY * len(machines) > len(part.owners):
                asked, sketch.rests = slice(None), PATIENCE
            np.minimum.at(lowest, part.owners[asked], part.measures(query, name, asked))
        return lowest


def gather(stacks: Sequence[MachineStack], owners: Sequence[Index], n_groups: int) -> GatheredMachines | None:
    """The machines of one layer that are small enough to be stacked; None if there are none."""
    sizes = {
        index: stack.hull.points.shape[1]
        for index, stack in enumerate(stacks)
        if len(stack.layers) == 1 and stack.hull.points.shape[1] <= LARGEST_STACKED
    }
    if not sizes:
        return None
    origin = np.concatenate([stacks[index].hull.mean for index in sizes]).mean(axis=0)
    parts = []
    for spanning in (True, False):
        alike = [index for index in sizes if stacks[index].hull.spans_everything == spanning]
        alike.sort(key=lambda index: -sizes[index])
        while alike:
            count = sum(sizes[index] >= LEAST_FILLED * sizes[alike[0]] for index in alike)
            own, alike = alike[:count], alike[count:]
            parts.append(_part([stacks[index] for index in own], [owners[index] for index in own], origin))
    return GatheredMachines(frozenset(sizes), tuple(parts), origin, n_groups)


def _part(stacks: Sequence[MachineStack], owners: Sequence[Index], origin: Array) -> Part:
    """Machines of stacks that have the features for coordinates, or of stacks that do not."""
    hulls, layers = [stack.hull for stack in stacks], [stack.layers[0] for stack in stacks]
    dtype, n_machines = origin.dtype, sum(stack.n_machines for stack in stacks)
    n_samples, rank = (max(hull.points.shape[axis] for hull in hulls) for axis in (1, 2))
    kernel = np.zeros((n_machines, n_samples, rank), dtype=dtype)
    level = np.full((n_machines, n_samples), -np.inf, dtype=dtype)
    weights = np.zeros((n_machines, rank + 2, n_samples), dtype=dtype)
    mean_points = np.zeros((n_machines, rank), dtype=dtype)
    bases: list[tuple[slice, Array]] = []
    start = 0
    for hull, layer in zip(hulls, layers, strict=True):
        _, size, width = hull.points.shape
        own = slice(start, start + len(hull.mean))
        start = own.stop
        codes = layer.centres[:, :, :-2]
        if not hull.small:
            codes = codes @ hull.encoder.transpose(0, 2, 1)
        kernel[own, :size, :width] = codes
        level[own, :size] = layer.centres[:, :, -2]
        weights[own, :width, :size] = layer.weights[:, :-2]
        weights[own, rank:, :size] = layer.weights[:, -2:]
        mean_points[own, :width] = hull.mean_points
        if hull.basis is not None:
            bases.append((own, hull.basis))
    # Coordinates in a basis are principal axes: only the leading ones are encoded.
    n_encoded = int(np.flatnonzero(kernel.any(axis=(0, 1))).max(initial=0)) + 1
    return Part(
        np.concatenate(owners),
        tuple((stack, index) for stack in stacks for index in range(stack.n_machines)),
        np.ascontiguousarray(kernel[:, :, :n_encoded]) if bases else kernel,
        level,
        weights,
        np.concatenate([layer.floor for layer in layers]),
        mean_points,
        np.concatenate([hull.mean_norm2 for hull in hulls]),
        origin,
        _hulls(hulls, tuple(bases), mean_points.shape, origin) if bases else None,
    )


def _hulls(
    hulls: Sequence[Hull], bases: tuple[tuple[slice, Array], ...], shape: tuple[int, ...], origin: Array
) -> Hulls:
    mean = np.concatenate([hull.mean for hull in hulls]) - origin
    offset = np.zeros(shape, dtype=mean.dtype)
    for own, basis in bases:
        offset[own, : basis.shape[1]] = (basis @ mean[own, :, None])[:, :, 0]
    return Hulls(bases, offset, mean, np.einsum("sp,sp->s", mean, mean), mean @ origin)
