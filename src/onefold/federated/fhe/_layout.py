"""Where numbers lie in the slots of a ciphertext, and how measures become slots and slots an answer.

A ciphertext has two rows of ``row`` slots; a slot holds a number modulo t. Slot ``j * B + b`` of a row
belongs to position j = 0 ... T - 1 (T = 2^p values of a digit) of block b = 0 ... B - 1 (B = row / T). A
rotation by B is therefore a *cyclic* shift of the positions inside every block at once, and no class needs
a rotation of its own.

A query owns ``spread`` neighbouring blocks. In its block number i the thermometer at position j is about
the value t = (j + i w) mod T. After a rotation by k' spread w positions it is about t = (j + k w) mod T
with k = k' spread + i. Class c owns the w positions from c w on. As k runs, these positions meet every
value t once. The mark of (c, t) is put where the rotation brings the two together: with x = (t - c w) mod T
= k w + r, it is at position c w + r of plane k' and block i. Once the planes are added, the sum over all t
is a sum over a window of w positions and over the blocks. These slots are the *summands* of the class.

With ``spread = 1`` a batch of queries fills the ciphertext. A lone query takes all blocks of a row and
needs one plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from onefold._base.arrays import Integers, Mask

# t: the smallest prime that gives every slot of N <= 32768 a number of its own.
PLAIN_MODULUS = 65537
MISSING = -1  # in place of a quantised measure: the site does not have the class

Slots = Integers  # one number modulo t for each slot of a ciphertext


# --- geometry ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The geometry of one ciphertext of queries.

    ``n_columns`` counts the classes and the check column behind them.
    """

    n_values: int
    n_columns: int
    row: int
    spread: int

    @property
    def blocks(self) -> int:
        """Blocks in one row."""
        return self.row // self.n_values

    @property
    def capacity(self) -> int:
        """Queries that one ciphertext holds."""
        return 2 * self.blocks // self.spread

    @property
    def window(self) -> int:
        """Positions that a class owns."""
        return self.n_values // self.n_columns

    @property
    def planes(self) -> int:
        """Ciphertexts of marks: rotations of the thermometer until every class has met every value."""
        shifts = -(-self.n_values // self.window)
        return -(-shifts // self.spread)

    @property
    def plane_step(self) -> int:
        """The rotation from one plane to the next."""
        return self.spread * self.window * self.blocks % self.row

    def slots(self, query: Slots, block: Slots, position: Slots) -> Slots:
        """Return the slots of some positions of some blocks of some queries."""
        which = query * self.spread + block
        side, inside = np.divmod(which, self.blocks)
        return np.asarray(side * self.row + position * self.blocks + inside, dtype=np.int64)

    def places(self, query: Slots, column: Slots, value: Slots) -> tuple[Slots, Slots]:
        """Return plane and slot of the mark of (query, column, value)."""
        shift, rest = np.divmod((value - column * self.window) % self.n_values, self.window)
        plane, block = np.divmod(shift, self.spread)
        return plane, self.slots(query, block, column * self.window + rest)

    def values(self) -> Slots:
        """Return the value t that every slot of a thermometer is about, before any rotation."""
        block = np.arange(2 * self.row) % self.blocks % self.spread
        return np.asarray((self.positions() + block * self.window) % self.n_values)

    def positions(self) -> Slots:
        """Return the position of every slot in its block."""
        return np.arange(2 * self.row) % self.row // self.blocks

    def queries(self) -> Slots:
        """Return the query that every slot belongs to."""
        side, inside = np.divmod(np.arange(2 * self.row), self.row)
        return np.asarray((side * self.blocks + inside % self.blocks) // self.spread)

    def summands(self, n_queries: int) -> Slots:
        """Return the slots (n_queries, n_columns, window times spread) whose sums are the answer."""
        sizes = (n_queries, self.n_columns, self.window, self.spread)
        query, column, rest, block = np.indices(sizes, dtype=np.int64)
        return self.slots(query, block, column * self.window + rest).reshape(*sizes[:2], -1)


def layouts(n_values: int, n_columns: int, row: int, n_queries: int) -> list[tuple[Layout, slice]]:
    """Spread ``n_queries`` rows over ciphertexts: full ones, and a last one with wider queries."""
    full = Layout(n_values, n_columns, row, 1)
    shared: list[tuple[Layout, slice]] = []
    for start in range(0, n_queries, full.capacity):
        stop = min(start + full.capacity, n_queries)
        shared.append((_widest(full, stop - start), slice(start, stop)))
    return shared


def _widest(full: Layout, n_queries: int) -> Layout:
    best = full
    while best.planes > 1 and best.spread < best.blocks and 2 * n_queries <= best.capacity:
        best = Layout(full.n_values, full.n_columns, full.row, 2 * best.spread)
    return best


# --- measures to slots, slots to an answer ----------------------------------------------------------------


class Encoded(NamedTuple):
    """What a site says about some rows, slot by slot."""

    thermometer: Slots  # of the minimum, or of its high digit
    hot: Slots | None  # of the high digit, if there are two
    low: Slots | None  # thermometer of the low digit, if there are two
    marks: Slots  # (planes, slots)

    def ciphertexts(self) -> list[Slots]:
        """Return the slots of every ciphertext of the message, in their order."""
        digits = [self.thermometer, self.hot, self.low]
        return [*(each for each in digits if each is not None), *self.marks]


def encode(values: Integers, layout: Layout, digits: int) -> Encoded:
    """Return the slots of rows (n, C) of quantised measures."""
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
    """Return planes with ``number`` in the check column of every row at t = 0, where h is always 1.

    With one digit each site sends a 1 there, and the sum must be the number of sites. With two the server
    puts the number there, because what sites send is weighed.
    """
    row = np.arange(n_rows)
    return _marked(layout, row, np.full(n_rows, layout.n_columns - 1), np.zeros_like(row)) * number


def _marked(layout: Layout, query: Slots, column: Slots, value: Slots) -> Slots:
    planes = np.zeros((layout.planes, 2 * layout.row), dtype=np.int64)
    planes[layout.places(query, column, value)] = 1
    return planes


def _per_slot(numbers: Slots, layout: Layout) -> Slots:
    """Return the number of a row in all slots of the row; above all values in slots of no row."""
    padded = np.full(layout.capacity, layout.n_values, dtype=np.int64)
    padded[: len(numbers)] = numbers
    return padded[layout.queries()]


def _thermometer(numbers: Slots, layout: Layout, values: Slots) -> Slots:
    """Return [number < t] in every slot, for the value t that the slot is about."""
    return (_per_slot(numbers, layout) < values).astype(np.int64)


def attained(slots: Slots, layout: Layout, n_rows: int) -> tuple[Mask, Slots]:
    """Return which classes attain the minimum (n_rows, C), and what the check column says."""
    numbers = slots[layout.summands(n_rows)].sum(axis=-1) % PLAIN_MODULUS
    return numbers[:, :-1] != 0, numbers[:, -1]
