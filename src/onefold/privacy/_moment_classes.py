r"""Which classes private moments are about: those that are declared, or those that are found privately.

**Why finding them is private.** Let a class have its only record in one of two neighbouring datasets. Its
count is 1, and it is kept only if 1 + noise is beyond the threshold, with probability at most
:math:`1 - e^{-\delta'}`. Otherwise the release is that of the same classes, so that in both directions
(epsilon, delta) grows by at most :math:`\delta'` in delta: up because of that event, down because
conditioning on its complement costs a factor :math:`e^{\delta'}`, and delta as a function of epsilon has a
slope of at most one.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from onefold.exceptions import InvalidInputError
from onefold.privacy._moment_arguments import check_classes

__all__ = ["CLASSES_SHARE", "candidates_of", "common_classes"]

# Share of delta that pays for finding out privately which classes there are.
CLASSES_SHARE = 0.1


def candidates_of(labels: NDArray[Any], classes: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Possible labels in order, and the position of each row's label among them."""
    if classes is None:
        candidates, codes = np.unique(labels, return_inverse=True)
        return candidates, codes
    candidates = check_classes(classes)
    if not np.isin(labels, candidates).all():
        raise InvalidInputError("y holds labels that are not among classes")
    return candidates, np.searchsorted(candidates, labels)


def common_classes(
    counts: NDArray[np.float64], sigma: float, delta: float, hardened: bool
) -> NDArray[np.bool_]:
    """Classes whose noisy count one record alone would hardly reach; ``delta`` is that of the release."""
    quantile = -float(ndtri(-math.expm1(-CLASSES_SHARE * delta)))
    kept = counts > 1.0 + sigma * quantile + 0.5 * hardened  # hardened counts are rounded
    if not kept.any():
        raise InvalidInputError(
            "not one class has enough records for this epsilon: give classes, or more data"
        )
    return np.asarray(kept)
