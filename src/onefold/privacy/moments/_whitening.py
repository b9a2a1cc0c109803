r"""Whitening: rows are turned and stretched by a matrix that a first, small release found.

Where a few directions hold most of the variance of records, noise of the same size in all directions hides
what the others say. A first release of one second moment :math:`A = \sum u u^T + W` for a share of the budget
shows these directions. Records of the second release are :math:`B u`, scaled to norm one again, with

.. math:: B = \sqrt{f} \max(A, f)^{-1/2},

the eigenvalues of A below f raised to f. What the noise W hides is not stretched: f is half the radius
:math:`\sigma \sqrt{2p}` of its eigenvalues.

B keeps so few binary digits that its product with a record on the grid is exact in float64: what becomes of a
record depends neither on the records beside it nor on the processor.
"""

import math
from typing import Any

import numpy as np

from onefold._base.arrays import Floats
from onefold._base.fixed_point import DIGITS, unit_rows
from onefold._base.parallel import one_blas_thread
from onefold.exceptions import InvalidInputError

# Share of the radius of the noise to which eigenvalues are raised: chosen on training rows of Fashion-MNIST.
FLOOR = 0.5
# The same without noise, as a share of the mean eigenvalue.
LEAST = 1e-4
# The product of a record of 14 digits and a column shorter than two has 51 digits; float64 has 53.
MATRIX_DIGITS = 36
# Matrices whose longest column is shorter than 2^1 and no shorter than 2^-8 are taken as they are.
EXPONENTS = range(-7, 2)


@one_blas_thread()  # a release has the same bits whatever the number of threads
def whitening_of(second: Floats, sigma: float) -> Floats:
    """Return the whitening matrix B of a second moment with noise of deviation ``sigma``."""
    values, vectors = np.linalg.eigh(second)
    size = len(values)
    least = LEAST * max(float(values.sum()), 0.0) / size
    floor = max(FLOOR * sigma * math.sqrt(2.0 * size), least) or 1.0
    return given_whitening((vectors * np.sqrt(floor / np.maximum(values, floor))) @ vectors.T, size)


def given_whitening(matrix: Any, n_features: int) -> Floats:
    """Return a whitening matrix with as many digits as fit; its scale does not matter.

    One that was returned before is returned as it is.
    """
    try:
        found = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (n_features, n_features) or not np.isfinite(found).all():
        raise InvalidInputError(
            f"whitening must be 'private', None or {n_features} x {n_features} finite numbers"
        )
    largest = float(np.abs(found).max())
    if not largest > 0.0:
        raise InvalidInputError("whitening must not be a matrix of zeros")
    exponent = math.frexp(largest)[1]
    exponent += math.frexp(float(np.linalg.norm(np.ldexp(found, -exponent), axis=0).max()))[1]
    if exponent not in EXPONENTS:
        found = np.ldexp(found, -exponent)
    return np.asarray(np.ldexp(np.rint(np.ldexp(found, MATRIX_DIGITS)), -MATRIX_DIGITS))


def whitened(rows: Floats, matrix: Floats) -> Floats:
    """Return embedded rows times the matrix, each by itself, scaled to norm one; rows of zeros stay."""
    steps = np.ldexp(np.rint(np.ldexp(rows, DIGITS)), -DIGITS)
    return unit_rows(steps @ matrix)
