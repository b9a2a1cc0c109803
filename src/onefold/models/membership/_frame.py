"""Where the layers of a membership-mapping autoencoder live: coordinates of its samples, and their encodings.

Mappings of deviations from the mean have their images in the affine hull of the samples. The document's
zero-mean mappings (001 Def. 1) are sums of samples with any weights: their images are in the hull's linear
span, so the direction of the mean joins the coordinates.
"""

from dataclasses import dataclass, replace

import numpy as np

from onefold._base.arrays import Array, Index
from onefold.models._hull import Hull, build_hull

__all__ = ["Frame", "build_frame"]

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
        """The leading max(n - l + 1, 1) directions: P^l of 001 Alg. 2 in these coordinates."""
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
