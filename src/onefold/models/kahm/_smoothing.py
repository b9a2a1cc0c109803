"""One application of the kernel smoother to the samples of a machine (000 Def. 13, 004 Def. 6).

H = (K + lambda I)^-1 K is symmetric with eigenvalues in [0, 1), and H Y holds the samples folded by their own
machine before the division by the sum of memberships: the images are the rows of H Y over those of H 1.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from onefold._base.arrays import Array
from onefold.models.kahm._core import sample_kernel
from onefold.models.kahm._regularisation import resolvable

__all__ = ["Smoothing", "smooth"]


@dataclass(frozen=True)
class Smoothing:
    """Result of one step."""

    smoothed: Array  # (N, p) H Y
    images: Array  # (N, p) the image of every sample under the machine of the samples


def smooth(samples: Array, n_components: int, factor: float = 1.0) -> Smoothing:
    """Smooth the rows of ``samples``, seen at ``factor`` times their size."""
    kernel, lam = sample_kernel(samples, n_components, factor)
    n_samples, n_features = samples.shape
    used = float(resolvable(np.array([lam]), n_samples, np.dtype(np.float64))[0])
    right = np.concatenate([samples, np.ones((n_samples, 1))], axis=1, dtype=np.float64)
    shifted = kernel.astype(np.float64)
    shifted.flat[:: n_samples + 1] += used
    # H M = M - lambda (K + lambda I)^-1 M
    result = right - used * scipy.linalg.solve(shifted, right, assume_a="pos", check_finite=False)
    smoothed, sums = result[:, :n_features], result[:, n_features]
    # The same guard as for any query: a denominator below the bound of 000 eq. 147 sends the sample far.
    safe = sums * (used + n_samples) >= np.einsum("ij,ij->i", kernel, kernel)
    images = smoothed / np.where(safe, sums, 1.0)[:, None]
    for row in np.flatnonzero(~safe):
        images[row] = samples[np.argmax(np.linalg.norm(samples - samples[row], axis=1))]
    dtype = samples.dtype
    return Smoothing(smoothed.astype(dtype), images.astype(dtype))
