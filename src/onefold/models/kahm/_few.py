"""One query at a time: all small machines of a pool side by side in a few arrays.

A stack holds about a thousand samples, which suits blocks of queries. For a single query each of its steps
is a call on a handful of numbers, and calls cost more than numbers. Here the kernel values, weights and means
of all machines with one layer lie in a few arrays, padded to a common size, so that the number of calls does
not depend on the number of machines. What has as many columns as the data, the bases of the hulls, stays
where it is.

Where only the nearest group is asked for, most machines need less than half of their basis. The image depends
on the leading coordinates q of a query alone, those that are encoded; with the image c and the length R of
the rest of the query, known from the distance to the mean, the distance d of the query from the image obeys

    |q - c'|^2 + (R - |c''|)^2 <= d^2 <= |q - c'|^2 + (R + |c''|)^2,

where c' and c'' are the leading and the remaining coordinates of the image. All measures grow with d for an
image of given length. The remaining coordinates of the query are needed where these bounds leave a doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onefold._base.arrays import Array, Index
from onefold.models.folding import WITHOUT_ANGLES, Folding
from onefold.models.hull import LARGEST_STACKED, Hull

if TYPE_CHECKING:
    from onefold.models.kahm._core import MachineStack

__all__ = ["GatheredMachines", "gather"]

# Machines of a part have at least this share of the samples of its largest: what padding costs at most.
LEAST_FILLED = 0.7
# Bounds are worth a second look at some machines where this share of the coordinates is not encoded.
LEAST_LEFT = 0.3
# The missing coordinates of more than one in so many machines are computed for all machines together.
MANY = 4
# A row for which more machines have no safe denominator is left to the stacks.
MOST_UNSAFE = 16
# Relative rounding errors of distances and measures stay far below this.
DOUBT = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-3}


@dataclass(frozen=True)
class Part:
    """S machines of similar size. N samples, r coordinates, q of them encoded, p features."""

    owners: Index  # (S,) group of each machine
    machines: tuple[tuple[MachineStack, int], ...]  # where each comes from
    kernel: Array  # (S, N, q) coordinates of a query to logarithms of its kernel values
    level: Array  # (S, N) what is added to them; minus infinity for padding
    weights: Array  # (S, r + 2, N) kernel values to image, their sum, and the sum of the kernel values
    floor: Array  # (S,) least safe sum over the latter
    mean_points: Array  # (S, r) coordinates of the mean, from zero
    mean_norm2: Array  # (S,) its squared length
    hulls: Hulls | None  # None where the features are the coordinates

    def fold(self, query: OneQuery, angles: bool, leading: bool) -> Folded:
        """Foldings of one query.

        With ``leading``, the coordinates that are not encoded are left out if it saves something.
        """
        n_encoded = self.kernel.shape[2]
        inside: Array
        total: Array | None = None
        along: Array | None = None
        if self.hulls is None:
            inside, leading = query.row - self.mean_points, False
            if angles:
                along = self.mean_points @ query.row
        else:
            leading = leading and n_encoded < (1.0 - LEAST_LEFT) * self.mean_points.shape[1]
            inside = self.hulls.project(query.shifted, 0, n_encoded if leading else self.mean_points.shape[1])
            products = self.hulls.mean @ query.shifted
            total = self.hulls.norm2 - 2.0 * products + query.shifted2
            if angles:
                along = products + self.hulls.products + query.product
        image, unsafe = self._image(inside[:, :n_encoded])
        return Folded(self, query, inside, total, image, along, leading, unsafe)

    def _image(self, encoded: Array) -> tuple[Array, Index]:
        """Coordinates (S, r) of the images of the query with these leading coordinates (S, q).

        And the machines without a safe denominator, of which these are not the images.
        """
        values = (self.kernel @ encoded[:, :, None])[:, :, 0]
        values += self.level
        values -= values.max(axis=1, keepdims=True)
        np.exp(values, out=values)
        product = (self.weights @ values[:, :, None])[:, :, 0]
        images, sums = product[:, :-2], product[:, -2]
        unsafe = np.flatnonzero(~(sums >= self.floor * product[:, -1]))
        if len(unsafe):
            # As for blocks of queries; the largest kernel value is one here.
            bound = self.floor[unsafe] * np.einsum("sn,sn->s", values[unsafe], values[unsafe])
            unsafe = unsafe[~(sums[unsafe] >= bound)]
            sums[unsafe] = 1.0
        images /= sums[:, None]
        return images, unsafe


@dataclass(frozen=True)
class Hulls:
    """Where the S hulls of a part lie in the space of the features."""

    bases: tuple[tuple[slice, Array], ...]  # (S', r', p) of some machines each
    offset: Array  # (S, r) coordinates of the means, from the origin
    mean: Array  # (S, p) from the origin
    norm2: Array  # (S,) its squared length
    products: Array  # (S,) inner products of the same with the origin

    def project(self, shifted: Array, start: int, stop: int) -> Array:
        """Coordinates start to stop, (S, stop - start), of a query (p,) that is given from the origin."""
        inside = np.zeros((len(self.mean), stop - start), dtype=shifted.dtype)
        for machines, basis in self.bases:
            rows = basis[:, start:stop]
            np.matmul(rows, shifted, out=inside[machines, : rows.shape[1]])
        inside -= self.offset[:, start:stop]
        return inside

    def project_some(self, shifted: Array, start: int, stop: int, machines: Index) -> Array:
        """The same for a few machines, which ascend."""
        inside = np.zeros((len(machines), stop - start), dtype=shifted.dtype)
        numbers = np.searchsorted([own.stop for own, _ in self.bases], machines, side="right")
        for row, (number, machine) in enumerate(zip(numbers, machines, strict=True)):
            own, basis = self.bases[number]
            rows = basis[machine - own.start, start:stop]
            np.matmul(rows, shifted, out=inside[row, : len(rows)])
        inside -= self.offset[machines, start:stop]
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
class Folded:
    """What is known of one query and the machines of a part."""

    part: Part
    query: OneQuery
    inside: Array  # (S, r) coordinates of the query, or (S, q) of them
    total: Array | None  # (S,) squared distance from the mean; None where the features are the coordinates
    image: Array  # (S, r)
    along: Array | None  # (S,) inner products of query and mean, from zero; None where no angle is needed
    leading: bool  # whether coordinates are missing
    unsafe: Index  # machines that have to be asked one by one

    def bounds(self, name: str) -> tuple[Array, Array]:
        """Least and largest value the measure of each machine may have."""
        assert self.total is not None  # where the features are the coordinates nothing is missing
        known, rest = self.inside, self.image[:, self.inside.shape[1] :]
        apart = known - self.image[:, : known.shape[1]]
        near = np.einsum("sr,sr->s", apart, apart)
        outside = np.sqrt(np.maximum(self.total - np.einsum("sr,sr->s", known, known), 0.0))
        length = np.sqrt(np.einsum("sr,sr->s", rest, rest))
        slack = DOUBT[self.total.dtype] * (self.total + self.query.shifted2)
        least = np.maximum(near + (outside - length) ** 2 - slack, 0.0)
        largest = near + (outside + length) ** 2 + slack
        every = slice(None)
        return self._measure(name, least, every, None), self._measure(name, largest, every, None)

    def ask_unsafe(self, name: str) -> Array:
        """Measures of the machines without a safe denominator: they map the query onto a sample far away."""
        query, found = self.query, []
        for machine in self.unsafe:
            stack, index = self.part.machines[machine]
            folding = stack.select(index).fold(query.row[None], self.along is not None)
            found.append(folding.measure(name, query.divisor, query.seen, len(query.row))[0, 0])
        return np.array(found, dtype=query.row.dtype)

    def some(self, name: str, machines: Index) -> Array:
        """Measures of some machines, for which the missing coordinates are computed."""
        hulls, known, rank = self.part.hulls, self.inside.shape[1], self.image.shape[1]
        assert hulls is not None  # as above
        if MANY * len(machines) > len(self.image):
            rest = hulls.project(self.query.shifted, known, rank)[machines]
        else:
            rest = hulls.project_some(self.query.shifted, known, rank, machines)
        return self.values(name, np.concatenate([self.inside[machines], rest], axis=1), machines)

    def values(self, name: str, inside: Array, machines: Index | slice) -> Array:
        """Measures of machines for which all coordinates of the query are known."""
        image = self.image[machines]
        products = np.einsum("sr,sr->s", inside, image)
        if self.total is None:
            apart = inside - image
            distance2 = np.einsum("sr,sr->s", apart, apart)
        else:
            lengths2 = np.einsum("sr,sr->s", image, image)
            distance2 = np.maximum(self.total[machines] - 2.0 * products + lengths2, 0.0)
        return self._measure(name, distance2, machines, products)

    def _measure(self, name: str, distance2: Array, machines: Index | slice, products: Array | None) -> Array:
        """Measures at some distances; ``products`` of query and image, from the mean, follow if missing."""
        query, folding = self.query, Folding(distance2, None)
        if self.along is not None:
            image, mean_points = self.image[machines], self.part.mean_points[machines]
            along = np.einsum("sr,sr->s", mean_points, image)
            image2 = np.einsum("sr,sr->s", image, image) + 2.0 * along + self.part.mean_norm2[machines]
            image2 = np.maximum(image2, 0.0)
            if products is None:
                products = 0.5 * (image2 + query.norm2 - distance2)
            else:
                products += self.along[machines] + along
            folding = Folding.with_angle(distance2, image2, query.norm2, products)
        return folding.measure(name, query.divisor, query.seen, len(query.row))


@dataclass(frozen=True)
class GatheredMachines:
    """Machines of several stacks, for one query at a time."""

    indices: frozenset[int]  # the stacks these machines come from
    parts: tuple[Part, ...]
    origin: Array  # (p,) mean of the means
    n_groups: int

    def least(
        self, row: Array, name: str, divisor: Array, seen: Array, nearest_only: bool = False
    ) -> Array | None:
        """Least measure (groups,) of a row (p,) by each group; None if only the stacks can tell.

        Infinite for groups without machines here and, with ``nearest_only``, for groups of which it is
        certain that another one has a smaller value.
        """
        query, angles = OneQuery(row, self.origin, divisor, seen), name not in WITHOUT_ANGLES
        lowest = np.full(self.n_groups, np.inf, dtype=row.dtype)
        doubtful: list[tuple[Folded, Array]] = []
        limit = np.inf
        for part in self.parts:
            folded = part.fold(query, angles, nearest_only)
            if len(folded.unsafe) > MOST_UNSAFE:
                return None
            if len(folded.unsafe):
                np.minimum.at(lowest, part.owners[folded.unsafe], folded.ask_unsafe(name))
            if folded.leading:
                least, largest = folded.bounds(name)
                least[folded.unsafe] = largest[folded.unsafe] = np.inf
                doubtful.append((folded, least))
                limit = min(limit, largest.min())
            else:
                values = folded.values(name, folded.inside, slice(None))
                values[folded.unsafe] = np.inf
                np.minimum.at(lowest, part.owners, values)
        limit = min(limit, lowest.min()) * (1.0 + DOUBT[row.dtype])
        for folded, least in doubtful:
            machines = np.flatnonzero((least <= limit) & np.isfinite(least))
            np.minimum.at(lowest, folded.part.owners[machines], folded.some(name, machines))
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
