"""Rows as whole numbers of grid steps: sums of them are the same to the last bit, in whatever order.

The lengths of rows decide how rows are scaled, so these are computed in whole numbers as well. What is left
are single roundings, divisions and square roots, which IEEE 754 fixes: a row gives the same steps on every
processor, with any number of threads, and whatever rows it comes with.
"""

import numpy as np

from onefold._base.arrays import Floats
from onefold._base.parallel import one_blas_thread

__all__ = ["DIGITS", "MOST_ROWS", "exact_gram", "row_lengths"]

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
        Lengths; exact where they are whole numbers of steps.
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
    return np.asarray(np.minimum(found, np.finfo(np.float64).max))


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
