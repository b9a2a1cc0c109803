"""A client's measures as slots, and slots as an answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onefold.federated.fhe._layout import Layout, Slots

__all__ = ["MISSING", "attained", "marks", "thermometer"]

MISSING = -1  # in place of a quantised measure: the client does not have the class

Quantised = NDArray[np.int64]


def _minima(values: Quantised, n_values: int) -> Slots:
    """The minimum of each row; one above the largest value where a client has no class at all."""
    return np.asarray(np.where(values == MISSING, n_values, values).min(axis=1))


def thermometer(values: Quantised, layout: Layout) -> Slots:
    """[minimum < t] in every slot of a query, for the t that the slot speaks of."""
    minima = np.full(layout.capacity, layout.n_values, dtype=np.int64)
    minima[: len(values)] = _minima(values, layout.n_values)
    return (minima[layout.queries()] < layout.values()).astype(np.int64)


def marks(values: Quantised, layout: Layout) -> Slots:
    """The planes (planes, slots): 1 for each class that attains the client's minimum, at this minimum.

    In the check column there is a 1 at t = 0, where h is 1 whatever the minimum: its sum is the number of
    clients.
    """
    planes = np.zeros((layout.planes, 2 * layout.row), dtype=np.int64)
    minima = _minima(values, layout.n_values)
    query, column = np.nonzero(values == minima[:, None])
    planes[layout.places(query, column, minima[query])] = 1
    everyone = np.arange(len(values))
    last = np.full(len(values), layout.n_columns - 1)
    planes[layout.places(everyone, last, np.zeros_like(everyone))] = 1
    return planes


def attained(slots: Slots, layout: Layout, n_rows: int) -> tuple[NDArray[np.bool_], Slots]:
    """Which classes attain the minimum (n_rows, C), and what the check column says."""
    numbers = slots[layout.answers(n_rows)]
    return numbers[:, :-1] != 0, numbers[:, -1]
