"""A client's measures as slots, and slots as an answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onefold.federated.fhe._layout import Layout, Slots

__all__ = ["MISSING", "Encoded", "attained", "check_marks", "encode"]

MISSING = -1  # in place of a quantised measure: the client does not have the class

Quantised = NDArray[np.int64]


class Encoded(NamedTuple):
    """What a client says about some rows, slot by slot."""

    thermometer: Slots  # of the minimum, or of its high digit
    hot: Slots | None  # of the high digit, if there are two
    low: Slots | None  # thermometer of the low digit, if there are two
    marks: Slots  # (planes, slots)


def encode(values: Quantised, layout: Layout, digits: int) -> Encoded:
    """The slots of rows (n, C) of quantised measures."""
    largest = layout.n_values**digits
    minima = np.where(values == MISSING, largest, values).min(axis=1)  # above all values if nothing is there
    query, column = np.nonzero(values == minima[:, None])
    if digits == 1:
        planes = _marked(layout, query, column, minima[query]) + check_marks(layout, len(values))
        return Encoded(_thermometer(minima, layout, layout.values()), None, None, planes)
    high, low = np.divmod(minima, layout.n_values)
    position = layout.positions()
    return Encoded(
        _thermometer(high, layout, position),
        (_per_slot(high, layout) == position).astype(np.int64),
        _thermometer(low, layout, layout.values()),
        _marked(layout, query, column, low[query]),
    )


def check_marks(layout: Layout, n_rows: int, number: int = 1) -> Slots:
    """Planes with ``number`` in the check column of every row at t = 0, where h is 1 whatever the minimum.

    With one digit each client sends a 1 there, and the sum must be the number of clients. With two the
    server puts the number there, for what clients send is weighed.
    """
    row = np.arange(n_rows)
    return _marked(layout, row, np.full(n_rows, layout.n_columns - 1), np.zeros_like(row)) * number


def _marked(layout: Layout, query: Slots, column: Slots, value: Slots) -> Slots:
    planes = np.zeros((layout.planes, 2 * layout.row), dtype=np.int64)
    planes[layout.places(query, column, value)] = 1
    return planes


def _per_slot(numbers: Slots, layout: Layout) -> Slots:
    """A number per row in all slots of the row; above all values in those of no row."""
    padded = np.full(layout.capacity, layout.n_values, dtype=np.int64)
    padded[: len(numbers)] = numbers
    return padded[layout.queries()]


def _thermometer(numbers: Slots, layout: Layout, spoken: Slots) -> Slots:
    """[number < t] in every slot, for the t that it speaks of."""
    return (_per_slot(numbers, layout) < spoken).astype(np.int64)


def attained(slots: Slots, layout: Layout, n_rows: int, modulus: int) -> tuple[NDArray[np.bool_], Slots]:
    """Which classes attain the minimum (n_rows, C), and what the check column says."""
    numbers = slots[layout.summands(n_rows)].sum(axis=-1) % modulus
    return numbers[:, :-1] != 0, numbers[:, -1]
