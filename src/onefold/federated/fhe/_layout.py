"""Where things lie in the slots of a ciphertext, so that no class needs a rotation of its own.

A ciphertext has two rows of ``row`` slots. Slot ``j * B + b`` of a row belongs to position j = 0 ... T - 1
(T = 2^p values of a digit) of block b = 0 ... B - 1 (B = row / T), so a rotation by B is a *cyclic* shift of
the positions inside every block at once.

A query owns ``spread`` neighbouring blocks. In block number i of them the thermometer of position j speaks
of the value t = (j + i w) mod T; after a rotation by k' spread w it speaks of t = (j + k w) mod T with k =
k' spread + i. Class c owns the w positions from c w on. As k runs, they meet every value t once: what
belongs to (c, t) is put where x = (t - c w) mod T = k w + r says, at position c w + r, in plane k' and
block i. After an addition of planes the sum over all t is one over a window of w positions and over the
blocks: these slots are the *summands* of the class.

With ``spread = 1`` a batch fills the ciphertext; a lone query takes all blocks of a row and needs one plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layout", "Slots", "layouts"]

Slots = NDArray[np.int64]


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
        """Queries that one ciphertext carries."""
        return 2 * self.blocks // self.spread

    @property
    def window(self) -> int:
        """Positions that a class owns."""
        return self.n_values // self.n_columns

    @property
    def planes(self) -> int:
        """Ciphertexts of marks: how often the thermometer is shifted on until every class met every value."""
        shifts = -(-self.n_values // self.window)
        return -(-shifts // self.spread)

    @property
    def plane_step(self) -> int:
        """The rotation from one plane to the next."""
        return self.spread * self.window * self.blocks % self.row

    def slots(self, query: NDArray[np.int64], block: NDArray[np.int64], position: NDArray[np.int64]) -> Slots:
        """The slots of some positions of some blocks of some queries."""
        which = query * self.spread + block
        side, inside = np.divmod(which, self.blocks)
        return np.asarray(side * self.row + position * self.blocks + inside, dtype=np.int64)

    def places(
        self, query: NDArray[np.int64], column: NDArray[np.int64], value: NDArray[np.int64]
    ) -> tuple[Slots, Slots]:
        """Plane and slot where the mark of (query, column, value) is put."""
        shift, rest = np.divmod((value - column * self.window) % self.n_values, self.window)
        plane, block = np.divmod(shift, self.spread)
        return plane, self.slots(query, block, column * self.window + rest)

    def values(self) -> Slots:
        """The value t that every slot of a thermometer speaks of, before any rotation."""
        block = np.arange(2 * self.row) % self.blocks % self.spread
        return np.asarray((self.positions() + block * self.window) % self.n_values)

    def positions(self) -> Slots:
        """The position of every slot in its block."""
        return np.arange(2 * self.row) % self.row // self.blocks

    def queries(self) -> Slots:
        """The query that every slot belongs to."""
        side, inside = np.divmod(np.arange(2 * self.row), self.row)
        return np.asarray((side * self.blocks + inside % self.blocks) // self.spread)

    def summands(self, n_queries: int) -> Slots:
        """The slots (n_queries, n_columns, window times spread) whose sums are the answer."""
        sizes = (n_queries, self.n_columns, self.window, self.spread)
        query, column, rest, block = np.indices(sizes, dtype=np.int64)
        return self.slots(query, block, column * self.window + rest).reshape(*sizes[:2], -1)


def layouts(n_values: int, n_columns: int, row: int, n_queries: int) -> list[tuple[Layout, slice]]:
    """How ``n_queries`` rows are spread over ciphertexts: full ones, and a last one with wider queries."""
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
