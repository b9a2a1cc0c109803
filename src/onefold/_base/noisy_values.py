"""What is best believed about numbers and eigenvalues that were seen through Gaussian noise of known size."""

import math

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import log_ndtr

from onefold._base.arrays import Floats

__all__ = ["denoised_spectrum", "mean_inside"]

# Where differences of densities would be rounding: so many deviations outside the law stands at the nearest
# end, and in an interval of so few it is flat.
FAR, NARROW = 1e3, 1e-4


def mean_inside(value: float, deviation: float, low: float, high: float) -> float:
    """Mean of a normal law that is cut off at both ends of an interval.

    A number of which nothing but the interval is known was seen as ``value``, with noise of this deviation:
    this is what to expect of it. Little noise leaves the value, much noise the middle.

    Parameters
    ----------
    value : float
        Mean of the law before it is cut off.
    deviation : float
        Its standard deviation; 0 leaves the value, or the nearest end.
    low : float
        Lower end.
    high : float
        Upper end; may be infinite.

    Returns
    -------
    float
        A number in the interval.
    """
    nearest = min(max(value, low), high)
    if abs(value - nearest) >= FAR * deviation:  # so it is without noise
        return nearest
    if high - low < NARROW * deviation:
        return (low + high) / 2.0
    first, last = (low - value) / deviation, (high - value) / deviation
    # Probabilities far to the right are all 1 in floating point: such an interval is looked at from behind.
    sign = 1.0
    if first > 0.0:
        first, last, sign = -last, -first, -1.0
    below, above = float(log_ndtr(first)), float(log_ndtr(last))
    between = above + math.log1p(-math.exp(below - above))

    def density(end: float) -> float:
        return math.exp(-end * end / 2.0 - math.log(2.0 * math.pi) / 2.0 - between)

    return min(max(value + sign * deviation * (density(first) - density(last)), low), high)


def denoised_spectrum(values: Floats, level: float, trace: float) -> Floats:
    r"""Shrink the eigenvalues of a matrix with symmetric Gaussian noise, in ascending order.

    Of all estimates with the same eigenvectors the best has
    :math:`d_j = w_j - 2 v h_j` with the Hilbert transform h of the density of the noisy eigenvalues and v the
    variance of their semicircle, a quarter of its squared radius (Bun, Allez, Bouchaud, Potters 2016). With
    p eigenvalues h is a sum over the others, smoothed at the width of their spacing. The result ascends, is
    not negative and adds up to ``trace``.
    """
    size = len(values)
    shifted = values + (trace - values.sum()) / size
    variance = level**2 * size / 2.0
    if variance > 0.0:
        gaps = shifted[:, None] - shifted
        hilbert = np.mean(gaps / (gaps**2 + variance / size), axis=1)
        shifted = shifted - 2.0 * variance * hilbert
    rising = np.maximum(isotonic_regression(shifted).x, 0.0)
    found = float(rising.sum())
    return rising * (trace / found) if found > 0.0 else np.full(size, trace / size)
