"""Rows as whole numbers of grid steps: sums of them are the same to the last bit, in whatever order.

The lengths of rows decide how rows are scaled, so these are computed in whole numbers as well. What is left
are single roundings, divisions and square roots, which IEEE 754 fixes: a row gives the same steps on every
processor, with any number of threads, and whatever rows it comes with.
"""

import numpy as np

from onefold._base.arrays import Floats, Index
from onefold._base.parallel import one_blas_thread

__all__ = ["DIGITS", "MOST_ROWS", "exact_gram", "row_lengths", "shortened", "unit_rows"]

# Binary digits of an entry. Products of two have twice as many.
DIGITS = 14
# Sums of so many products of entries up to one fit into the 53 digits of float64.
MOST_ROWS = 2**25


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
