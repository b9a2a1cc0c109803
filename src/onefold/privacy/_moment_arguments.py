"""Checks of the parameters of private moments: one clear line each."""

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError
from onefold.privacy._arguments import positive
from onefold.privacy._moment_release import Blocks

__all__ = ["check_centre", "check_classes", "check_radius", "check_regularisation", "check_shares"]

SMALLEST_SHARE = 1e-6


def check_radius(radius: Any) -> float:
    """A length that can be divided by without leaving the range of float64."""
    found = positive("radius", radius)
    if not 1e-150 <= found <= 1e150:
        raise InvalidInputError("radius must lie between 1e-150 and 1e150: rescale the data")
    return found


def check_shares(shares: Any, private_centre: bool) -> Blocks:
    """How the budget is divided, adding up to one; nothing for a centre that costs nothing."""
    try:
        centre, *rest = (float(share) for share in shares)
    except (TypeError, ValueError):
        centre, rest = math.nan, []
    parts = (centre if private_centre else 0.0, *rest)
    if len(rest) != 3 or not all(0.0 < share < 1e100 for share in (centre, *rest)):
        raise InvalidInputError("shares must be four positive numbers: centre, counts, sums, second moments")
    total = math.fsum(parts)
    if min(rest) < SMALLEST_SHARE * total or (private_centre and centre < SMALLEST_SHARE * total):
        raise InvalidInputError("no share may be less than a millionth of all")
    return Blocks(*(share / total for share in parts))


def check_classes(classes: Any) -> NDArray[Any]:
    """The labels there can be, in order."""
    labels = np.asarray(list(classes) if isinstance(classes, (set, frozenset)) else classes)
    try:
        found = np.unique(labels)
        finite = found.dtype.kind not in "fc" or bool(np.isfinite(found).all())
    except TypeError:
        finite = False
    if labels.ndim != 1 or not labels.size or not finite:
        raise InvalidInputError("classes must be a list of labels, all numbers or all strings")
    return found


def check_centre(centre: Any, n_features: int) -> NDArray[np.float64]:
    """A public point among the records, which are no longer than one once they are divided by the radius."""
    try:
        found = np.array(centre, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (n_features,) or not np.isfinite(found).all():
        raise InvalidInputError(f"centre must be {n_features} finite numbers, one per feature")
    if not math.hypot(*found) <= 1.0 + 1e-9:
        raise InvalidInputError("centre must lie in the unit ball: records are divided by radius first")
    return found


def check_regularisation(shrinkage: Any, floor: Any, least: Any) -> tuple[float | None, float, float]:
    """Shrinkage (None for automatic), and the two bounds on eigenvalues."""
    if not (isinstance(shrinkage, str) and shrinkage == "auto") and not (
        _is_number(shrinkage) and 0.0 <= shrinkage <= 1.0
    ):
        raise InvalidInputError("shrinkage must be 'auto' or a number between 0 and 1")
    for name, value in (("floor", floor), ("least", least)):
        if not (_is_number(value) and 0.0 <= value < math.inf):
            raise InvalidInputError(f"{name} must be a number of at least 0")
    return None if isinstance(shrinkage, str) else float(shrinkage), float(floor), float(least)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
