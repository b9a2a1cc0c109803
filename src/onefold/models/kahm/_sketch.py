"""Bounds of the measures of many machines for one query, from half the bytes.

A *sketch* of machines in single precision gives bounds that include all its rounding errors. It has only the
leading coordinates q of a query, those that are encoded: the image c depends on no others. With the distance
D of the query from the mean and the length R of the rest of its coordinates, known from D and q, the distance
d of the query from the image obeys

    |d^2 - (D^2 - 2 q.c' + |c|^2)| <= 2 R |c''|,

where c' and c'' are the leading and the remaining coordinates of the image. All measures grow with d for an
image of given length. Where single precision cannot tell, the bounds are zero and infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onefold._base.arrays import Array, Floats, Mask
from onefold.models.folding import WITHOUT_ANGLES, Folding

if TYPE_CHECKING:
    from onefold.models.kahm._few import Hulls, OneQuery, Part

__all__ = ["DOUBT", "Sketch"]

# Relative rounding errors of distances and measures in the precision of the data stay far below this.
DOUBT = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-3}
# What one operation in single precision is wrong by at most, in parts of its result. A sum of n products is
# wrong by at most n times as much, in parts of the sum of their absolute values, and in whatever order it is
# made. For products of the entries of two vectors that sum is at most the product of their lengths.
ROUNDED = 2.0**-24
# Of machines with so much smaller numbers in their kernel than others, these could be too small for it.
FLATTEST = 1e-25
# Kernel values say something if they are right to this.
ROUGHEST = 0.1
ANY_ANGLE = np.array([[0.0], [1.0]])


@dataclass(frozen=True)
class SketchedQuery:
    """One query as S machines see it."""

    inside: Floats  # (S, q) its leading coordinates, from each mean
    total: Floats  # (S,) squared distance from each mean
    slack: Floats | float  # (S,) what that may be wrong by
    astray: float  # how far the coordinates may be from here
    values: Array  # (S, N) kernel values, the largest of each machine one
    doubt: Floats  # (S,) relative error of these and of sums of them; infinite if more than ``ROUGHEST``


@dataclass(frozen=True)
class SketchedImage:
    """Images of one query by S machines."""

    points: Floats  # (S, r) coordinates
    length2: Floats  # (S,) squared lengths
    away: Floats  # (S,) how far the images may be from these points, where their denominators are safe
    safe: Mask  # (S,) whether they certainly are
    unsafe: Mask  # (S,) whether they certainly are not: the image is the sample farthest away


@dataclass
class Sketch:
    """Bounds of the measures of a part, from its arrays in single precision.

    Its rows are of length one, and their units are kept besides: no scale of the data is beyond its range.
    What has one number for a machine or a coordinate is in double precision.
    """

    part: Part
    basis: Array | None  # (S q, p) leading rows of the bases; None where the features are the coordinates
    kernel: Array  # (S, q, N) that of the part over ``steepness``; without a basis (p, S N), over the largest
    level: Array  # (S, N) as in the part; without a basis, for queries from the origin instead of the mean
    weights: Array  # (S, r + 2, N) as in the part, those of the image in units of ``reach``
    steepness: Floats  # (S,) largest length of a row of the kernel
    doubt: tuple[Floats, Floats]  # (S,) of kernel values, at the origin and for each unit of distance from it
    reach: Floats  # (S,) largest length of a column of the weights of the image
    weight: Floats  # (S,) largest absolute weight of the sum
    spread: Floats  # (S,) mean squared distance of the samples from their mean
    rests: int = 0  # rows it is not asked about, after one where it was of no use

    @classmethod
    def of(cls, part: Part) -> Sketch:
        """The sketch of a part."""
        kernel, weights = part.kernel.astype(np.float64), part.weights.astype(np.float64)
        level = part.level.astype(np.float64)
        steepness = np.sqrt(np.vecdot(kernel, kernel).max(axis=1))
        steepness = np.maximum(steepness, max(FLATTEST * steepness.max(), np.finfo(np.float64).tiny))
        n_samples, n_encoded = kernel.shape[1:]
        # The longer one of the sums that a logarithm is made of, and what they are sums of.
        if part.hulls is None:
            basis, n_sums, offset = None, n_encoded + 8.0, np.zeros(1)
            level -= np.vecdot(kernel, (part.mean_points - part.origin)[:, None, :])
            kernel = kernel.reshape(-1, n_encoded).T / steepness.max()
        else:
            basis = _leading(part.hulls, n_encoded)
            n_sums = (basis.shape[1] + 4.0) * n_encoded**0.5 + n_encoded + 8.0
            offset = (n_encoded + 8.0) * np.linalg.norm(part.hulls.offset[:, :n_encoded], axis=1)
            kernel = kernel.transpose(0, 2, 1) / steepness[:, None, None]
        height = np.abs(level).max(axis=1, where=np.isfinite(level), initial=0.0)
        # Levels, the largest logarithm that is taken off, and exponentials have errors of their own. What a
        # logarithm is wrong by, below a half, is half of what its exponential may be. Sums have N terms.
        at_origin = 2.0 * (4.0 * height + 4.0 + steepness * offset) + n_samples + 4.0
        reach = np.sqrt(np.einsum("srn,srn->sn", weights[:, :-2], weights[:, :-2]).max(axis=1))
        weights[:, :-2] /= np.where(reach > 0.0, reach, 1.0)[:, None, None]
        return cls(
            part,
            basis,
            np.ascontiguousarray(kernel, dtype=np.float32),
            level.astype(np.float32),
            weights.astype(np.float32),
            steepness,
            (ROUNDED * at_origin, ROUNDED * 2.0 * n_sums * steepness),
            reach,
            np.abs(weights[:, -2]).max(axis=1),
            np.array([np.square(stack.hull.points[own]).sum(axis=1).mean() for stack, own in part.machines]),
        )

    def bounds(self, query: OneQuery, name: str) -> tuple[Floats, Floats]:
        """Least and largest value the measure of each machine may have; not a number says nothing."""
        with np.errstate(all="ignore"):
            least, largest = self._bounds(query, name)
        return np.minimum(least, largest), largest

    def _view(self, query: OneQuery) -> SketchedQuery:
        """The query as the machines see it, with what may be wrong about it."""
        part, size, astray = self.part, float(query.shifted2) ** 0.5, 0.0
        slack: Floats | float = 0.0
        if self.basis is None:
            inside = query.row - part.mean_points
            total = np.vecdot(inside, inside)
            shifted = (query.shifted * self.steepness.max()).astype(np.float32)
            values = (shifted @ self.kernel).reshape(self.level.shape)
        else:
            hulls, n_encoded = part.hulls, self.kernel.shape[1]
            assert hulls is not None  # where there are bases
            shifted = (query.shifted / (size or 1.0)).astype(np.float32)
            inside = (self.basis @ shifted).astype(np.float64).reshape(-1, n_encoded)
            inside *= size
            inside -= hulls.offset[:, :n_encoded]
            astray = ROUNDED * (len(shifted) + 4) * size * n_encoded**0.5
            total = np.maximum(hulls.norm2 - 2.0 * (hulls.mean @ query.shifted) + query.shifted2, 0.0)
            slack = DOUBT[part.level.dtype] * (total + query.shifted2)
            scaled = (inside * self.steepness[:, None]).astype(np.float32)
            values = (scaled[:, None, :] @ self.kernel)[:, 0]
        values += self.level
        values -= values.max(axis=1, keepdims=True)
        np.exp(values, out=values)
        doubt = self.doubt[0] + size * self.doubt[1]
        doubt[~(doubt <= ROUGHEST)] = np.inf
        return SketchedQuery(inside, total, slack, astray, values, doubt)

    def _image(self, view: SketchedQuery) -> SketchedImage:
        """The images, and how far they may be from here."""
        product = (self.weights @ view.values[:, :, None])[:, :, 0]
        points, sums = product[:, :-2].astype(np.float64), product[:, -2].astype(np.float64)
        # Errors of sums, in parts of the sum of all kernel values, which is larger than here by at most this.
        doubt = view.doubt * product[:, -1] * (1.0 / (1.0 - ROUGHEST))
        error = doubt * self.weight
        # Whether the denominator is safe; the bound has three factors that may be wrong.
        bound = self.part.floor * np.vecdot(view.values, view.values)
        above, unclear = sums - bound, error + 4.0 * view.doubt * bound
        # With P the product and s the sum, P~ / s~ - P / s = (P~ - P) / s + P~ / s~ (s - s~) / s.
        points *= (self.reach / sums)[:, None]
        length2 = np.vecdot(points, points)
        away = (doubt * self.reach + np.sqrt(length2) * error) / (sums - error)
        return SketchedImage(points, length2, away, above >= unclear, above < -unclear)

    def _bounds(self, query: OneQuery, name: str) -> Array:
        part, view = self.part, self._view(query)
        inside, total, slack, image = view.inside, view.total, view.slack, self._image(view)
        if self.basis is None:
            apart = inside - image.points
            least2 = largest2 = np.vecdot(apart, apart)
        else:
            known, rest = image.points[:, : inside.shape[1]], image.points[:, inside.shape[1] :]
            leading = np.maximum(np.sqrt(np.vecdot(inside, inside)) - view.astray, 0.0)
            outside = np.sqrt(total - leading**2 + slack)
            middle = total - 2.0 * np.vecdot(inside, known) + image.length2
            around = outside * np.sqrt(np.vecdot(rest, rest)) + view.astray * np.sqrt(image.length2)
            around = 2.0 * around + slack
            least2, largest2 = middle - around, middle + around
        from_image2 = np.maximum(np.array([least2, largest2]), 0.0)
        least, largest = np.sqrt(from_image2)
        # Of all samples one is at least as far as the mean and their mean distance from it, squared, tell.
        farthest = np.sqrt(np.maximum(total - slack, 0.0) + self.spread)
        least = np.where(
            image.safe, np.maximum(least - image.away, 0.0), np.where(image.unsafe, farthest, 0.0)
        )
        largest = np.where(image.safe, largest + image.away, np.inf)
        folding = Folding(np.array([least, largest]) ** 2, None)
        if name not in WITHOUT_ANGLES:
            image2 = image.length2 + 2.0 * np.vecdot(part.mean_points, image.points) + part.mean_norm2
            image2 = np.maximum(np.array([image2, image2]), 0.0)
            products = 0.5 * (image2 + query.norm2 - from_image2)
            angle = np.asarray(Folding.with_angle(from_image2, image2, query.norm2, products).angle)
            # An image that is moved turns by the arc sine of the way over its length, or by any angle.
            # Cosines are sums of products that may cancel, and tell half the digits of a small angle.
            length, size = np.sqrt(image2[0]), np.sqrt(query.norm2)
            longest = np.sqrt(part.mean_norm2) + np.sqrt(image.length2) + size
            turned = 0.5 * image.away / length + DOUBT[part.level.dtype] * longest / np.sqrt(length * size)
            angle = np.minimum(np.maximum(angle + np.array([-turned, turned]), 0.0), 1.0)
            angle = np.where(image.safe & (turned < 0.5), angle, ANY_ANGLE)
            folding = Folding(folding.distance2, angle)
        return folding.measure(name, query.divisor, query.seen, len(query.row))


def _leading(hulls: Hulls, count: int) -> Array:
    """The first so many rows of all bases in single precision, (S count, p)."""
    n_machines, n_features = hulls.mean.shape
    found = np.zeros((n_machines, count, n_features), dtype=np.float32)
    for own, basis in hulls.bases:
        rows = basis[:, :count]
        found[own, : rows.shape[1]] = rows
    return found.reshape(-1, n_features)
