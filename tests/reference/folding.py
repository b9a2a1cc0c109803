"""Space folding, word for word from document 004: measures (eq. 102-104), batches and minima (eq. 119-122).

Like ``kahm.py``: float64, one query at a time, no guard for a vanishing vector in the cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import acos, exp, floor, pi, sqrt

import numpy as np

from reference import kahm

Array = np.ndarray

MEASURES = ("euclidean", "rms", "product", "min", "max", "fuzzy")


def euclidean_part(y: Array, image: Array) -> float:
    """004 eq. 103."""
    return 1.0 - exp(-float(np.linalg.norm(y - image)))


def cosine_part(y: Array, image: Array) -> float:
    """004 eq. 104; rounding may push the cosine of a perfect fit just outside [-1, 1]."""
    cosine = float(image @ y) / (float(np.linalg.norm(image)) * float(np.linalg.norm(y)))
    return acos(min(1.0, max(-1.0, cosine))) / pi


def measure(y: Array, image: Array, option: str) -> float:
    """004 eq. 102, the raw distance of Remark 12 as "euclidean", and 1 - (2.162) of 003 as "fuzzy"."""
    if option == "euclidean":
        return float(np.linalg.norm(y - image))
    if option == "fuzzy":
        return 1.0 - exp(-float(np.sum((y - image) ** 2)) / (2 * len(y)))
    euclidean, cosine = euclidean_part(y, image), cosine_part(y, image)
    if option == "rms":
        return sqrt((euclidean**2 + cosine**2) / 2)
    if option == "product":
        return euclidean * cosine
    if option == "min":
        return min(euclidean, cosine)
    if option == "max":
        return max(euclidean, cosine)
    raise ValueError(option)


def contiguous_batches(N: int, batch_size: int) -> list[Array]:
    """004 eq. 119-120 as its text explains it: S is N / N_b rounded to nearest, sizes nearly equal."""
    S = max(1, floor(N / batch_size + 0.5))
    smaller, larger_batches = divmod(N, S)
    batches, start = [], 0
    for s in range(S):
        size = smaller + (1 if s < larger_batches else 0)
        batches.append(np.arange(start, start + size))
        start += size
    return batches


def fit_batches(X: Array, batch_size: int, n_components: int) -> list[kahm.Machine]:
    """One single-layer machine per contiguous batch (004 Remark 10)."""
    return [kahm.fit_shrunk(X[rows], n_components) for rows in contiguous_batches(len(X), batch_size)]


def batch_minimum(machines: Sequence[kahm.Machine], y: Array, option: str) -> float:
    """004 eq. 121; eq. 122 is the same minimum taken over the batches of all owners."""
    return min(measure(y, kahm.image(machine, y), option) for machine in machines)


def wide_minimum(branches: Sequence[Sequence[kahm.Machine]], y: Array, option: str) -> float:
    """004 eq. 121 with Remark 11: the branches of a wide machine take the place of the batches."""
    return min(measure(y, kahm.deep_image(branch, y), option) for branch in branches)
