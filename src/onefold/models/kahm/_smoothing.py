"""One application of the kernel smoother to the samples of a machine (000 Def. 13, 004 Def. 6).

H = (K + lambda I)^-1 K is symmetric with eigenvalues in [0, 1), and H Y holds the samples folded by their own
machine before the division by the sum of memberships: the images are the rows of H Y over those of H 1.
"""

from dataclasses import dataclass, replace

import numpy as np

from onefold._base.arrays import Array
from onefold._base.parallel import one_blas_thread
from onefold.models._hull import build_hull, centre
from onefold.models.kahm._core import regression_target, sample_kernel
from onefold.models.kahm._regularisation import Ridge, Target, solve, solve_cholesky

__all__ = ["Smoothing", "smooth"]

# Lambda of the solution, relative to lambda*: further away is solved once more.
CLOSE_ENOUGH = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


@dataclass(frozen=True)
class Smoothing:
    """Result of one step."""

    smoothed: Array  # (N, p) H Y
    images: Array  # (N, p) the image of every sample under the machine of the samples
    relative: float  # lambda* over tau, and the slope there: where a step on similar samples may start
    slope: float


@one_blas_thread()  # rows smoothed alone come out as among others
def smooth(
    samples: Array,
    n_components: int,
    factor: float = 1.0,
    n_features: int | None = None,
    near: Smoothing | None = None,
) -> Smoothing:
    """Smooth the rows of ``samples``, seen at ``factor`` times their size.

    Only distances between rows matter, and the number of features: rows may be given by their coordinates in
    any orthonormal basis, with the ``n_features`` they have in truth. ``near`` is the result for samples much
    like these.
    """
    n_samples, width = samples.shape
    n_features = width if n_features is None else n_features
    if width > n_samples:
        basis, coordinates = np.linalg.qr(samples.T)
        result = smooth(coordinates.T, n_components, factor, n_features, near)
        return replace(result, smoothed=result.smoothed @ basis.T, images=result.images @ basis.T)
    # Here the coordinates of the hull are the centred rows themselves.
    hull = build_hull(*centre(samples[None].copy()), n_components, factor)
    kernel = sample_kernel(hull.points @ hull.encoder, hull.n_encoded)
    target = regression_target(hull, factor)
    target = replace(target, n_features=n_features, mean_square=target.mean_square * (width / n_features))
    ridge = _ridge(kernel, target, near)
    inverse = ridge.solution[0].astype(np.float64)  # A^-1 [T, 1]
    used = float(ridge.effective[0])
    # H M = M - lambda (K + lambda I)^-1 M, where Y = T + 1 mean^T
    sums = 1.0 - used * inverse[:, -1]
    smoothed = hull.points[0] - used * inverse[:, :-1] + sums[:, None] * hull.mean[0]
    # The same guard as for any query: a denominator below the bound of 000 eq. 147 sends the sample far.
    safe = sums * (used + n_samples) >= np.einsum("ij,ij->i", kernel[0], kernel[0])
    images = smoothed / np.where(safe, sums, 1.0)[:, None]
    for row in np.flatnonzero(~safe):
        images[row] = samples[np.argmax(np.linalg.norm(samples - samples[row], axis=1))]
    dtype, tau = samples.dtype, 2.0 * float(target.mean_square[0])
    relative = float(ridge.regularisation[0]) / tau if tau > 0.0 else 1.0
    return Smoothing(smoothed.astype(dtype), images.astype(dtype), relative, ridge.slope)


def _ridge(kernel: Array, target: Target, near: Smoothing | None) -> Ridge:
    """Solution at lambda*, sought from where it was for similar samples."""
    previous = None
    if near is not None:
        guess = 2.0 * near.relative * target.mean_square
        previous = Ridge(guess, guess, guess, np.empty(0), near.slope)
    found = solve(kernel, target, previous, None)
    wanted, distance = found.regularisation, abs(found.solved - found.regularisation)
    if np.all(distance <= CLOSE_ENOUGH[target.points.dtype] * wanted):
        return found
    exact = solve_cholesky(kernel, target, known=np.stack([wanted, wanted], axis=1))
    return replace(exact, slope=found.slope)
