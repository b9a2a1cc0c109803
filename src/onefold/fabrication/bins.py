r"""The cells of a column: fine ones from the declaration alone, coarse ones from their noisy counts.

A column of a category has one cell per declared level. A column of numbers is cut into fine cells between its
declared ends, evenly on its declared scale; the first cell is the lower end itself, where many columns have a
spike. Whole numbers of few values have a cell each. A column that may be missing has one more cell, the last.
Nothing here depends on a private row except which cell that row is in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats, Index, Integers
from onefold.exceptions import InvalidInputError

__all__ = ["Bins", "ColumnCells", "coarse_bins", "simplex"]

MOST_WHOLE = 128  # whole numbers of so many values have a cell each
FINE = (8, 64)  # fewest and most fine cells of a column of numbers
COARSE = (3, 16)  # fewest and most coarse ones
COUNTS_PER_NOISE = 4.0  # rows of a cell, in standard deviations of its noise
ALWAYS_KEPT = 3  # cells of a column that is never merged
LEAST_SHARE = 1 / 200  # of the rows: categories that are rarer are merged
LOG_PARTS = 1000  # the unit of a logarithmic scale, as a part of the range, where none is declared
WHOLE_TYPES = ("integer", "date", "datetime")


@dataclass(frozen=True)
class ColumnCells:
    """The fine cells of a column, known from its declaration.

    Parameters
    ----------
    name : str
        Name of the column.
    n_levels : int
        Number of cells without the one for missing values.
    nullable : bool
        Whether there is a cell for missing values.
    edges : ndarray or None, default=None
        Ends of the cells of a column of numbers, ascending, ``n_levels + 1`` of them; None for a category.
    whole : bool, default=False
        Whether the numbers are whole.
    unit : float or None, default=None
        Unit of a logarithmic scale; None for a linear one.
    fixed : bool, default=False
        Whether the cells are used as they are, and no count is spent on merging them.
    fallback : int, default=0
        The cell of what has no value in the contract, where missing values have no cell.

    See Also
    --------
    coarse_bins : Merges fine cells by their noisy counts.

    Examples
    --------
    >>> import numpy as np
    >>> age = ColumnCells("age", 3, True, np.array([0.0, 18.0, 65.0, 110.0]), whole=True, fixed=True)
    >>> age.code(np.array([17.0, 18.0, 200.0, np.nan])).tolist()
    [0, 1, 2, 3]
    """

    name: str
    n_levels: int
    nullable: bool
    edges: Floats | None = None
    whole: bool = False
    unit: float | None = None
    fixed: bool = False
    fallback: int = 0

    @classmethod
    def of(cls, field: Any, n_fine: int) -> "ColumnCells":
        """Cut a declared column into fine cells.

        Parameters
        ----------
        field : onefold.tables.Field
            The declaration.
        n_fine : int
            Number of cells for numbers that have neither declared bins nor few values.

        Returns
        -------
        ColumnCells
            The cells.
        """
        nullable = bool(field.nullable)
        if field.encoder is not None:
            raise InvalidInputError(
                f"column {field.name!r} has an encoder: nothing can be counted in it; leave it out, or fit "
                "private moments (--method moments)"
            )
        if field.is_category:
            n = len(field.levels)
            return cls(field.name, n, nullable, fixed=n + nullable <= ALWAYS_KEPT)
        whole = field.type in WHOLE_TYPES
        low, high = float(field.low), float(field.high)
        if whole:
            low, high = math.ceil(low), math.floor(high)
        unit = None
        if field.scale == "log":
            unit = float(field.log_unit or max((high - low) / LOG_PARTS, 1.0 if whole else 0.0) or 1.0)
        inner: Floats
        even = None
        if len(field.bins):
            inner = np.array(field.bins, dtype=np.float64)
        elif whole and high - low < MOST_WHOLE:
            inner = np.arange(low + 1, high + 1, dtype=np.float64)
        else:
            even = _unscaled(np.linspace(0.0, _scaled(high, low, unit), n_fine + 1), low, unit)
            inner = np.concatenate([[low + 1 if whole else np.nextafter(low, np.inf)], even[1:-1]])
        if whole:
            inner = np.ceil(inner)
        inner = np.unique(inner[(inner > low) & (inner <= high)])
        edges = np.concatenate([[low], inner, [high]])
        # Even cells are there to be merged, however few they are.
        fixed = even is None and (bool(field.bins) or len(edges) - 1 + nullable <= ALWAYS_KEPT)
        middle = _unscaled(_scaled(high, low, unit) / 2.0, low, unit) if field.fill is None else field.fill
        fallback = int(np.searchsorted(inner, middle, side="right"))
        return cls(field.name, len(edges) - 1, nullable, edges, whole, unit, fixed, fallback)

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.n_levels + self.nullable

    def code(self, parsed: AnyArray) -> Index:
        """Find the cell of every value: by itself, whatever it is, and without an error.

        Parameters
        ----------
        parsed : ndarray
            Numbers with NaN for missing ones, or codes of levels with -1.

        Returns
        -------
        ndarray of intp
            Numbers of cells.
        """
        if self.edges is None:
            codes = np.asarray(parsed, dtype=np.intp)
            missing = codes < 0
            codes = np.minimum(codes, self.n_levels - 1)
        else:
            values = np.asarray(parsed, dtype=np.float64)
            missing = np.isnan(values)
            if self.whole:
                values = np.rint(values)
            codes = np.searchsorted(self.edges[1:-1], values, side="right").astype(np.intp)
        return np.where(missing, self.n_levels if self.nullable else self.fallback, codes)

    def draw(self, cells: Index, rng: np.random.Generator) -> AnyArray:
        """Draw a value from each of the given cells: post-processing.

        Parameters
        ----------
        cells : ndarray of intp
            Numbers of cells.
        rng : Generator
            Source of the choices.

        Returns
        -------
        ndarray
            Numbers with NaN for missing ones, or codes of levels with -1.
        """
        missing = cells >= self.n_levels
        if self.edges is None:
            return np.where(missing, -1, cells)
        cells = np.minimum(cells, self.n_levels - 1)
        low, high, uniform = self.edges[cells], self.edges[cells + 1], rng.random(len(cells))
        if self.whole:
            last = np.where(cells == self.n_levels - 1, high, high - 1.0)
            values = np.minimum(low + np.floor(uniform * (last - low + 1.0)), last)
        else:
            start = self.edges[0]
            ends = _scaled(low, start, self.unit), _scaled(high, start, self.unit)
            values = _unscaled(ends[0] + uniform * (ends[1] - ends[0]), start, self.unit)
            values = np.clip(values, low, high)
        values[missing] = np.nan
        return np.asarray(values)


def _scaled(values: Any, low: Any, unit: float | None) -> Any:
    """Distance from the lower end, on the declared scale."""
    return values - low if unit is None else np.log1p((values - low) / unit)


def _unscaled(distances: Any, low: Any, unit: float | None) -> Any:
    return low + (distances if unit is None else unit * np.expm1(distances))


def fine_cells(rows_about: float, sigma: float) -> int:
    """Choose the number of fine cells: a power of two, of about four noises each at the declared size."""
    if sigma == 0.0:
        return FINE[1]
    wanted = rows_about / (COUNTS_PER_NOISE * sigma)
    return int(np.clip(2 ** round(math.log2(max(wanted, 1.0))), *FINE))


# --- coarse cells, from noisy counts of the fine ones -----------------------------------------------------


@dataclass(frozen=True)
class Bins:
    """Which fine cells of each column make up a coarse one, and how rows are spread inside.

    Parameters
    ----------
    cells : tuple of ndarray
        For each column the coarse cell of every fine one, ascending from 0 without gaps.
    weights : tuple of ndarray of int64
        For each column how many rows its fine cells have, in thousandths: made from noisy counts.

    See Also
    --------
    ColumnCells : The fine cells.

    Examples
    --------
    >>> import numpy as np
    >>> Bins((np.array([0, 0, 1]),), (np.array([1000, 3000, 4000]),)).sizes
    (2,)
    """

    cells: tuple[Index, ...]
    weights: tuple[Integers, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of coarse cells of each column."""
        return tuple(int(own.max()) + 1 for own in self.cells)

    def spread(self, column: int, coarse: Index, rng: np.random.Generator) -> Index:
        """Draw a fine cell for each coarse one, by the weights.

        Parameters
        ----------
        column : int
            Number of the column.
        coarse : ndarray of intp
            Coarse cells.
        rng : Generator
            Source of the choices.

        Returns
        -------
        ndarray of intp
            Fine cells.
        """
        cells, weights = self.cells[column], self.weights[column].astype(np.float64) + 1e-3
        order = np.argsort(cells, kind="stable")
        total = np.bincount(cells, weights)
        ends = np.cumsum(weights[order] / total[cells[order]])  # cell k has the stretch from k to k + 1
        places = np.searchsorted(ends, coarse + rng.random(len(coarse)), side="right")
        first = np.searchsorted(cells[order], np.arange(len(total) + 1))
        return np.asarray(order[np.clip(places, first[coarse], first[coarse + 1] - 1)])


def simplex(counts: Floats, total: Any) -> Floats:
    """Project each last axis to the nearest non-negative numbers that add up to ``total``."""
    ordered = -np.sort(-counts, axis=-1)
    steps = np.arange(1, counts.shape[-1] + 1)
    size = np.asarray(total, dtype=np.float64)[..., np.newaxis]
    shift = ((np.cumsum(ordered, axis=-1) - size) / steps).max(axis=-1, keepdims=True)
    return np.asarray(np.maximum(counts - shift, 0.0))


def coarse_bins(
    columns: Sequence[ColumnCells],
    counts: Sequence[Floats | None],
    sigma: float,
    pair_sigma: float,
    n_rows: float,
    most_levels: int = 200,
) -> Bins:
    """Merge the fine cells of every column by their noisy counts.

    Numbers are cut into pieces of equal mass; a heavy cell stays alone; rare categories are put together.

    Parameters
    ----------
    columns : sequence of ColumnCells
        The columns.
    counts : sequence of ndarray or None
        Noisy counts of the fine cells; None for columns whose cells are used as they are.
    sigma : float
        Standard deviation of the noise on them.
    pair_sigma : float
        Standard deviation of the noise that counts of pairs of cells will get.
    n_rows : float
        Number of rows, as far as it is known from noisy counts.
    most_levels : int, default=200
        Categories that stay alone; rarer ones are put together.

    Returns
    -------
    Bins
        The coarse cells.

    See Also
    --------
    ColumnCells : The fine cells.

    Examples
    --------
    >>> import numpy as np
    >>> column = ColumnCells("x", 4, False, np.arange(5.0))
    >>> coarse_bins([column], [np.array([90.0, 5.0, 5.0, 80.0])], 1.0, 2.0, 180.0).cells[0].tolist()
    [0, 1, 1, 2]
    """
    cells, weights = [], []
    wanted = COARSE[1] if pair_sigma == 0.0 else math.sqrt(max(n_rows, 0.0) / (COUNTS_PER_NOISE * pair_sigma))
    pieces = float(np.clip(wanted, *COARSE))
    for column, noisy in zip(columns, counts, strict=True):
        if noisy is None:
            cells.append(np.arange(column.size))
            weights.append(np.full(column.size, 1000, dtype=np.int64))
            continue
        # Whole numbers from here on: all sites come to the same bins from the same counts.
        mass = np.rint(1000.0 * _smoothed(column, noisy, sigma, n_rows)).astype(np.int64)
        weights.append(mass)
        if column.edges is None:
            least = 1000.0 * max(3.0 * sigma, n_rows * LEAST_SHARE)
            rank = np.argsort(np.argsort(-mass, kind="stable"), kind="stable")
            cells.append(_without_rare((mass < least) | (rank >= most_levels)))
        else:
            cells.append(_equal_mass(column, mass, pieces))
    return Bins(tuple(cells), tuple(weights))


def _smoothed(column: ColumnCells, noisy: Floats, sigma: float, n_rows: float) -> Floats:
    """Return counts that are possible; where cells drown in noise, neighbours share what they have."""
    found = simplex(noisy, max(n_rows, 0.0))
    if column.edges is None or sigma == 0.0:
        return found
    together = 1
    while together * n_rows / column.n_levels < 2.0 * sigma * math.sqrt(together) and (
        together < column.n_levels
    ):
        together *= 2
    if together == 1:
        return found
    # The first cell, the spike, and the last, of missing values, stay alone.
    groups = np.concatenate([[0], 1 + np.arange(column.n_levels - 1) // together])
    if column.nullable:
        groups = np.append(groups, groups[-1] + 1)
    sizes = np.bincount(groups)
    summed = simplex(np.bincount(groups, noisy).astype(np.float64), max(n_rows, 0.0))
    return np.asarray((summed / sizes)[groups])


def _without_rare(rare: Any) -> Index:
    """Number the common levels one by one, and all rare ones together, last."""
    if rare.sum() < 2:
        return np.arange(len(rare))
    numbers = np.cumsum(~rare) - 1
    return np.where(rare, int((~rare).sum()), numbers).astype(np.intp)


def _equal_mass(column: ColumnCells, mass: Integers, pieces: float) -> Index:
    """Put neighbouring cells together until they have their share; heavier cells stay alone."""
    share = mass.sum() / pieces
    found = np.zeros(column.size, dtype=np.intp)
    number, held = 0, 0
    for k in range(column.n_levels):
        weight = int(mass[k])
        if held and (weight >= share or held + weight > 1.5 * share or held >= share):
            number, held = number + 1, 0
        found[k] = number
        held += weight
    if column.nullable:
        found[-1] = number + 1
    return found
