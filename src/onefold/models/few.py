"""One query at a time: all small kernel machines of a pool side by side in a few arrays.

A stack holds about a thousand samples, which suits blocks of queries. For a single query each of its steps
is a call on a handful of numbers, and calls cost more than numbers. Here the kernel values, weights and means
of all machines with one layer lie in a few arrays, padded to a common size, so that the number of calls does
not depend on the number of machines. What has as many columns as the data, the bases of the hulls, stays
where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onefold._base.arrays import Array, Index
from onefold.models.folding import WITHOUT_ANGLES, Folding
from onefold.models.hull import LARGEST_STACKED

if TYPE_CHECKING:
    from onefold.models.kahm.core import MachineStack

__all__ = ["GatheredMachines", "gather"]

# Machines of a part have at least this share of the samples of its largest: what padding costs at most.
LEAST_FILLED = 0.7


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
    bases: list[tuple[slice, Array]]  # (S', r', p) of some machines each; none where features are coordinates
    offset: Array  # (S, r) coordinates of the means in the bases, from the origin
    mean: Array  # (S, p) the means, from the origin
    norm2: Array  # (S,) their squared lengths
    products: Array  # (S,) their inner products with the origin

    def fold(self, row: Array, origin: Array, angles: bool) -> Folding:
        """Folding (S,) of one query (p,) by all machines."""
        if not self.bases:
            inside: Array = row - self.mean_points
            image = self._image(inside)
            apart, with_mean = inside - image, np.vecdot(self.mean_points, row)
            distance2 = np.vecdot(apart, apart)
        else:
            shifted = row - origin
            inside = self._project(shifted)
            image = self._image(inside)
            along_mean = np.vecdot(self.mean, shifted)
            with_mean = along_mean + self.products + origin @ row
            total = self.norm2 - 2.0 * along_mean + shifted @ shifted
            distance2 = np.maximum(total - 2.0 * np.vecdot(inside, image) + np.vecdot(image, image), 0.0)
        if not angles:
            return Folding(distance2, None)
        along = np.vecdot(self.mean_points, image)
        image2 = np.maximum(np.vecdot(image, image) + 2.0 * along + self.mean_norm2, 0.0)
        products = np.vecdot(inside, image) + with_mean + along
        return Folding.with_angle(distance2, image2, np.asarray(row @ row)[None], products)

    def _image(self, inside: Array) -> Array:
        """Coordinates (S, r) of the images of the query with these coordinates, from each mean."""
        values = (self.kernel @ inside[:, : self.kernel.shape[2], None])[:, :, 0]
        values += self.level
        values -= values.max(axis=1, keepdims=True)
        np.exp(values, out=values)
        product = (self.weights @ values[:, :, None])[:, :, 0]
        image, sums = product[:, :-2], product[:, -2]
        # As for blocks of queries; the largest kernel value is one here.
        unsafe = np.flatnonzero(~(sums >= self.floor * np.vecdot(values, values)))
        sums[unsafe] = 1.0
        image /= sums[:, None]
        for machine in unsafe:
            stack, index = self.machines[machine]
            samples = stack.hull.points[index]  # the one farthest away is the image
            scores = np.vecdot(samples, samples) - 2.0 * (samples @ inside[machine, : samples.shape[1]])
            image[machine, : samples.shape[1]] = samples[scores.argmax()]
        return image

    def _project(self, shifted: Array) -> Array:
        """Coordinates (S, r), from each mean, of a query (p,) that is given from the origin."""
        inside = np.zeros_like(self.offset)
        for own, basis in self.bases:
            np.matmul(basis, shifted, out=inside[own, : basis.shape[1]])
        inside -= self.offset
        return inside


@dataclass(frozen=True)
class GatheredMachines:
    """Machines of several stacks, for one query at a time."""

    indices: frozenset[int]  # the stacks these machines come from
    parts: tuple[Part, ...]
    origin: Array  # (p,) mean of the means: where coordinates of queries start
    n_groups: int

    def least(self, row: Array, name: str, divisor: Array, seen: Array) -> Array:
        """Least measure (groups,) of a row (p,) by each group; infinite for groups without machines here."""
        lowest = np.full(self.n_groups, np.inf)
        for part in self.parts:
            folding = part.fold(row, self.origin, angles=name not in WITHOUT_ANGLES)
            np.minimum.at(lowest, part.owners, folding.measure(name, divisor, seen, len(row)))
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
    mean_points, offset = np.zeros((2, n_machines, rank), dtype=dtype)
    mean = np.concatenate([hull.mean for hull in hulls]) - origin
    bases: list[tuple[slice, Array]] = []
    start = 0
    for hull, layer in zip(hulls, layers, strict=True):
        _, size, width = hull.points.shape
        own = slice(start, start + len(hull.mean))
        start = own.stop
        codes = layer.centres[:, :, :-2]
        kernel[own, :size, :width] = codes if hull.small else codes @ hull.encoder.transpose(0, 2, 1)
        level[own, :size] = layer.centres[:, :, -2]
        weights[own, :width, :size] = layer.weights[:, :-2]
        weights[own, rank:, :size] = layer.weights[:, -2:]
        mean_points[own, :width] = hull.mean_points
        if hull.basis is not None:
            bases.append((own, hull.basis))
            offset[own, :width] = (hull.basis @ mean[own, :, None])[:, :, 0]
    if bases:  # coordinates in a basis are principal axes: only the leading ones are encoded
        n_encoded = int(np.flatnonzero(kernel.any(axis=(0, 1))).max(initial=0)) + 1
        kernel = np.ascontiguousarray(kernel[:, :, :n_encoded])
    return Part(
        np.concatenate(owners),
        tuple((stack, index) for stack in stacks for index in range(stack.n_machines)),
        kernel,
        level,
        weights,
        np.concatenate([layer.floor for layer in layers]),
        mean_points,
        np.concatenate([hull.mean_norm2 for hull in hulls]),
        bases,
        offset,
        mean,
        np.einsum("sp,sp->s", mean, mean),
        mean @ origin,
    )
