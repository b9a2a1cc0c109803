"""Shapley values from their definition: every order of the columns, every row to compare with."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np


def shapley(value: Callable[[np.ndarray], float], row: np.ndarray, others: np.ndarray) -> np.ndarray:
    """What each column adds to the value of a row, on average."""
    weights = np.zeros(len(row))
    n_terms = 0
    for other in others:
        for order in permutations(range(len(row))):
            mixed = other.copy()
            before = value(mixed)
            for column in order:
                mixed[column] = row[column]
                after = value(mixed)
                weights[column] += after - before
                before = after
            n_terms += 1
    return weights / n_terms
