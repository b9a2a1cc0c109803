"""From what is declared about columns to what a noise needs: bounds and weights."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError

__all__ = ["noise_bounds", "weights_for"]

Floats = NDArray[np.float64]


def noise_bounds(declared: ArrayLike, allowed: ArrayLike) -> Floats:
    """Bounds of a noise that keeps every possible value of a column inside what is allowed.

    The noise must not depend on the value, so there has to be room on both sides of the declared range.

    Parameters
    ----------
    declared : (low, high) of the original values, or one pair per column
    allowed : (low, high) that released values must keep, one pair or one per column; may be infinite

    Examples
    --------
    >>> noise_bounds((18, 90), (0, 120)).tolist()
    [-18.0, 30.0]
    """
    inner, outer = _pairs("declared", declared), _pairs("allowed", allowed)
    if not np.isfinite(inner).all():
        raise InvalidInputError("declared ranges must be finite")
    try:
        bounds = outer - inner
    except ValueError:
        raise InvalidInputError("declared and allowed must have the same number of columns") from None
    if not np.all((bounds[..., 0] <= 0) & (bounds[..., 1] >= 0) & (bounds[..., 0] < bounds[..., 1])):
        raise InvalidInputError(
            "the allowed range must be wider than the declared one: noise needs room beyond every value"
        )
    return bounds


def weights_for(widths: ArrayLike) -> Floats:
    """Diagonal of the Pi under which the noise of each column is in proportion to its width.

    The standard deviation goes with Pi^(-1/4) (002 eq. 9), so this is the width to the power -4.

    Examples
    --------
    >>> weights_for([1.0, 10.0]).round(6).tolist()
    [1.0, 0.0001]
    """
    values = np.asarray(widths, dtype=np.float64)
    if values.ndim != 1 or not np.all((values > 0) & np.isfinite(values)):
        raise InvalidInputError("widths must be positive numbers, one per column")
    return np.asarray(values**-4.0)


def _pairs(name: str, value: ArrayLike) -> Floats:
    try:
        pairs = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be (low, high), or one such pair per column") from None
    if pairs.ndim not in (1, 2) or pairs.shape[-1] != 2 or not np.all(pairs[..., 0] <= pairs[..., 1]):
        raise InvalidInputError(f"{name} must be (low, high), or one such pair per column")
    return pairs
