"""The scale of the data and what it does to the documents' regularisation.

lambda* grows with the mean square of the data while the Gaussian kernel does not notice its scale. Data with
tiny entries is fitted almost without regularisation, data with huge ones is smoothed away. The documents
scale their data by hand; here it can be left to ``scale="auto"``. A regularisation that is a number, as it is
without a scale, does not depend on the scale.
"""

import math
import warnings

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import Number
from onefold.exceptions import DataScaleWarning

__all__ = ["SCALES", "ScaleOption", "unit_and_factor", "unit_of"]

ScaleOption = str | float | None
SCALES = (None, "auto", Number(above=0))  # what the parameter may be

# Mean square of the entries that "auto" aims at: that of images with values in [0, 1].
AUTO_MEAN_SQUARE = 0.1
# Outside these bounds the user is told: embeddings of unit length are below, raw pixels and counts above.
SMALLEST_MEAN_SQUARE = 5e-3
LARGEST_MEAN_SQUARE = 10.0
# With a mean square within these bounds, entries can be squared and summed as they are.
COMFORTABLE = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e10}


def unit_and_factor(X: Array, scale: ScaleOption, warn: bool = True) -> tuple[float, float]:
    """Unit the data is expressed in, and the factor at which machines see data in that unit.

    Callers hold BLAS to one thread: a second one would go on waiting for work on a core needed for the fit.
    """
    unit = 1.0
    with np.errstate(over="ignore", under="ignore"):
        mean_square = _mean_square(X, unit)
    limit = COMFORTABLE[X.dtype]
    if not 1.0 / limit <= mean_square <= limit:
        largest = max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))
        if largest > 0.0:
            unit = 2.0 ** min(round(math.log2(largest)), int(np.finfo(X.dtype).maxexp) - 1)
        mean_square = _mean_square(X, unit)
    if scale == "auto":
        return unit, math.sqrt(AUTO_MEAN_SQUARE / mean_square) if mean_square > 0.0 else 1.0
    factor = unit if scale is None else unit * float(scale)
    if warn:
        _warn(mean_square, factor, scale)
    return unit, factor


def _mean_square(X: Array, unit: float) -> float:
    if unit != 1.0:
        X = X / X.dtype.type(unit)
    flat = X.ravel()
    return float(np.dot(flat, flat)) / max(flat.size, 1)


def _warn(mean_square: float, factor: float, scale: ScaleOption) -> None:
    """Compare logarithms: the square of an extreme factor would overflow."""
    if mean_square == 0.0:
        return
    level = math.log(mean_square) + 2.0 * math.log(factor)
    remedy = 'pass scale="auto" or rescale the features'
    if level < math.log(SMALLEST_MEAN_SQUARE):
        message = "the entries are so small that the regularisation vanishes"
    elif level > math.log(LARGEST_MEAN_SQUARE):
        message = "the entries are so large that the regularisation dominates and images collapse to the mean"
    else:
        return
    warnings.warn(f"{message}: {remedy}", DataScaleWarning, stacklevel=4)


def unit_of(values: Array) -> float:
    """A power of two near the largest entry, where squares could overflow or vanish; else one."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or 1e-60 < largest < 1e60:
        return 1.0
    return 2.0 ** max(min(round(math.log2(largest)), 1020), -1020)
