"""Rows as whole numbers of grid steps: sums of them are the same to the last bit, in whatever order.

The lengths of rows decide how rows are scaled, so these are computed in whole numbers as well. What is left
are single roundings, divisions and square roots, which IEEE 754 fixes: a row gives the same steps on every
processor, with any number of threads, and whatever rows it comes with.

Below is what is best believed about numbers and eigenvalues that were seen through Gaussian noise of known
size.
"""

import math

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import log_ndtr

from onefold._base.arrays import Floats, Index
from onefold._base.parallel import one_blas_thread

# Binary digits of an entry. Products of two have twice as many.
DIGITS = 14
# Sums of so many products of entries up to one fit into the 53 digits of float64.
MOST_ROWS = 2**25
# Where differences of densities would be rounding: so many deviations outside the law stands at the nearest
# end, and in an interval of so few it is flat.
FAR, NARROW = 1e3, 1e-4


def row_lengths(rows: Floats) -> Floats:
    """Return the Euclidean lengths of rows, or a little more: never less.

    Entries are cut to so many digits, counted from the largest of the row, that the sum of their squares fits
    into 63; what was cut is then allowed for.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Finite rows.

    Returns
    -------
    ndarray of shape (n,)
        Lengths; exact where they are whole numbers of steps. What is beyond the largest number is infinite.
    """
    width = max(1, rows.shape[1])
    digits = (62 - width.bit_length()) // 2
    largest = np.abs(rows).max(axis=1, initial=0.0)
    exponents = np.frexp(largest)[1]
    scaled = np.ldexp(rows, (digits - exponents)[:, None])
    whole = np.trunc(scaled)
    squares = np.einsum("ij,ij->i", whole.astype(np.int64), whole.astype(np.int64))
    lengths = np.sqrt(squares.astype(np.float64))
    exact = (whole == scaled).all(axis=1) & (np.rint(lengths).astype(np.int64) ** 2 == squares)
    # Every entry lost less than one step, so the row lost less than sqrt(p).
    lengths = np.where(exact, np.rint(lengths), (lengths + np.sqrt(float(width))) * (1.0 + 2.0**-50))
    with np.errstate(over="ignore"):
        found = np.ldexp(lengths, exponents - digits)
    # Below the smallest normal number digits are rounded away: one step more is never less.
    lost = (found < np.finfo(np.float64).tiny) & (lengths > 0.0)
    return np.asarray(np.where(lost, np.nextafter(found, np.inf), found))


def unit_rows(rows: Floats) -> Floats:
    """Divide rows by :func:`row_lengths`, whatever their size; rows of zeros stay.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Finite rows.

    Returns
    -------
    ndarray of shape (n, p)
        Rows of length one, or a little less.
    """
    near_one, _ = _near_one(rows)
    lengths = row_lengths(near_one)
    return np.asarray(near_one / np.where(lengths > 0.0, lengths, 1.0)[:, None])


def shortened(rows: Floats, radius: float) -> Floats:
    """Divide rows by ``radius``, and those that are longer by :func:`row_lengths`, whatever their size.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Finite rows.
    radius : float
        Declared length, positive.

    Returns
    -------
    ndarray of shape (n, p)
        Rows no longer than one, up to the rounding of single divisions.
    """
    near_one, exponents = _near_one(rows)
    with np.errstate(over="ignore", under="ignore"):
        most = np.ldexp(float(radius), -exponents)
    return np.asarray(near_one / np.maximum(row_lengths(near_one), most)[:, None])


def _near_one(rows: Floats) -> tuple[Floats, Index]:
    """Return rows whose largest entries lie between 1/2 and 1, and the powers of two they were divided by.

    That keeps all digits. Without it a length can be beyond the largest number, or lose digits near zero.
    """
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    return np.ldexp(rows, -exponents[:, None]), exponents


@one_blas_thread()
def exact_gram(steps: Floats) -> Floats:
    """Return the product of whole numbers with themselves, transposed: exact, so in any order of addition.

    Parameters
    ----------
    steps : ndarray of shape (n, d)
        Whole numbers in float64: a float32 product would lose digits. Their squares must not add up to 2^53
        or more in any column.

    Returns
    -------
    ndarray of shape (d, d)
        Whole numbers.
    """
    return np.asarray(steps.T @ steps)


# --- behind noise -----------------------------------------------------------------------------------------


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
