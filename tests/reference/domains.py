"""Small sources and targets to transfer between."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def blobs(
    rng: np.random.Generator, n_rows: int, n_classes: int = 3, p: int = 6, spread: float = 0.35
) -> tuple[Array, Array]:
    """Classes around fixed corners of a cube; every call draws other rows of the same classes."""
    corners = np.random.default_rng(5).normal(size=(n_classes, p)) * 0.6
    y = rng.permutation(np.arange(n_rows) % n_classes)
    return corners[y] + spread * rng.normal(size=(n_rows, p)), y


def hide(y: Array, per_class: int) -> Array:
    """Labels with -1 for all but the first rows of each class."""
    seen = np.full(len(y), -1)
    for label in np.unique(y):
        seen[np.flatnonzero(y == label)[:per_class]] = label
    return seen
