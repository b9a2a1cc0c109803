"""What is counted of a table, from its schema alone: cells, classes, pairs, shares of the budget."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats, Integers
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.fabrication.bins import Bins, ColumnCells, coarse_bins, fine_cells
from onefold.fabrication.pair_tables import MOST_CELLS, CountLayout
from onefold.privacy.samplers import RandomState, generator
from onefold.tables import Field, Schema

__all__ = ["CountingPlan", "mock_table"]

MOST_CLASSES = 20  # of a label within whose classes everything is counted
MOST_PAIRS = 1770  # all pairs of 60 columns; of more columns, those close to each other in the schema
MOST_LEVELS = 200  # of a category, after merging; fewer where there would be too many cells
USUAL_CELLS = MOST_CELLS // 4  # at which categories begin to be merged further
BINS_SHARE = 0.1  # of the budget, for counts of fine cells
SINGLES_SHARE = 0.2  # of the rest, for tables of single columns


@dataclass(frozen=True)
class CountingPlan:
    """Columns with their fine cells, classes and pairs: everything that is known before a row is seen.

    Parameters
    ----------
    schema : str
        Digest of the schema.
    n_fine : int
        Fine cells of a column of numbers that has neither declared bins nor few values.
    columns : tuple of ColumnCells
        Columns that are counted. A label of few classes is none of them: all is counted within its classes.
    n_classes : int
        Number of these classes, or 1.
    pairs : tuple of (int, int)
        Columns that are counted together.

    See Also
    --------
    TableSynthesizer : Counts by this plan.

    Examples
    --------
    >>> from onefold.tables import Field, Schema
    >>> label = Field("c", "boolean", role="label")
    >>> schema = Schema([Field("a", low=0, high=1), Field("b", "boolean"), label])
    >>> plan = CountingPlan.of(schema, 16)
    >>> [column.size for column in plan.columns], plan.n_classes, plan.pairs, plan.open
    ([17, 2], 2, ((0, 1),), (0,))
    """

    schema: str
    n_fine: int
    columns: tuple[ColumnCells, ...]
    n_classes: int
    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, schema: Schema, n_fine: int) -> "CountingPlan":
        """Plan with a given number of fine cells.

        Parameters
        ----------
        schema : Schema
            The contract of the table.
        n_fine : int
            Fine cells of a column of numbers.

        Returns
        -------
        CountingPlan
            The plan.
        """
        columns = tuple(ColumnCells.of(field, n_fine) for field in _counted(schema))
        n_classes = len(_classes(schema)) or 1
        return cls(schema.digest, n_fine, columns, n_classes, _pairs(len(columns)))

    @classmethod
    def for_noise(cls, schema: Schema, rows_about: float, noise: float) -> "CountingPlan":
        """Plan with as many fine cells as the declared number of rows can fill.

        Parameters
        ----------
        schema : Schema
            The contract of the table.
        rows_about : float
            Declared number of rows.
        noise : float
            Standard deviation of the noise on one table of counts that gets the whole budget.

        Returns
        -------
        CountingPlan
            The plan.
        """
        plan = cls.of(schema, 1)
        if not plan.open:
            return plan
        return cls.of(schema, fine_cells(rows_about, noise * math.sqrt(len(plan.open) / BINS_SHARE)))

    @property
    def open(self) -> tuple[int, ...]:
        """Columns whose cells have to be counted before they can be merged."""
        return tuple(place for place, column in enumerate(self.columns) if not column.fixed)

    @property
    def bins_share(self) -> float:
        """Part of the budget that goes into counts of fine cells."""
        return BINS_SHARE if self.open else 0.0

    @property
    def fine_layout(self) -> CountLayout:
        """What is counted to find bins."""
        chosen = [self.columns[place] for place in self.open]
        return CountLayout(tuple(column.name for column in chosen), tuple(column.size for column in chosen))

    def layout(self, bins: Bins) -> CountLayout:
        """Return what is counted with bins.

        Parameters
        ----------
        bins : Bins
            The bins.

        Returns
        -------
        CountLayout
            Tables of single columns and of pairs.
        """
        return CountLayout(
            tuple(column.name for column in self.columns), bins.sizes, self.n_classes, self.pairs
        )

    def levels(self, layout: CountLayout, share: float) -> tuple[float, float]:
        """Return standard deviations of noise that make counts 1-Gaussian private, for a part of the budget.

        Parameters
        ----------
        layout : CountLayout
            What is counted; one row more or less changes one count of each table by one.
        share : float
            Part of the budget.

        Returns
        -------
        tuple of two float
            On tables of single columns, and on tables of pairs.
        """
        part = SINGLES_SHARE if layout.pairs else 1.0
        single = math.sqrt(len(layout.sizes) / (share * part))
        return single, math.sqrt(len(layout.pairs) / (share * (1.0 - part))) if layout.pairs else 0.0

    def declared_bins(self) -> Bins:
        """Return the bins of a schema that declares all of them.

        Returns
        -------
        Bins
            The bins.
        """
        return self._allowed(coarse_bins(self.columns, [None] * len(self.columns), 0.0, 0.0, 0.0))

    def even_bins(self, n_rows: int, sigma: float) -> Bins:
        """Make bins as if all cells of a column were equally full: nobody looks at rows.

        Parameters
        ----------
        n_rows : int
            Declared number of rows.
        sigma : float
            Standard deviation of the noise that counts of fine cells would have.

        Returns
        -------
        Bins
            The bins.
        """
        even = [np.full(size, n_rows // size, dtype=np.int64) for size in self.fine_layout.sizes]
        return self.bins(np.concatenate(even), sigma)

    def bins(self, vector: Integers, sigma: float) -> Bins:
        """Make bins of noisy counts of fine cells: post-processing.

        Parameters
        ----------
        vector : ndarray of int64
            The counts, as ``fine_layout`` orders them.
        sigma : float
            Standard deviation of their noise.

        Returns
        -------
        Bins
            The bins.
        """
        noisy: list[Floats | None] = [None] * len(self.columns)
        tables = [table[0].astype(np.float64) for table in self.fine_layout.singles(vector)]
        for place, table in zip(self.open, tables, strict=True):
            noisy[place] = table
        weights = np.array([1.0 / len(table) for table in tables])
        n_rows = max(float(weights @ [table.sum() for table in tables] / weights.sum()), 0.0)
        # The noise on the pairs that will be counted with the rest of the same budget.
        later = math.sqrt(len(self.pairs) / ((1.0 - BINS_SHARE) * (1.0 - SINGLES_SHARE)))
        pair = sigma * later / math.sqrt(len(self.open) / BINS_SHARE)
        most = MOST_LEVELS
        found = coarse_bins(self.columns, noisy, sigma, pair, n_rows, most)
        while self.layout(found).length > USUAL_CELLS and most > 2:
            most //= 2
            found = coarse_bins(self.columns, noisy, sigma, pair, n_rows, most)
        return self._allowed(found)

    def _allowed(self, bins: Bins) -> Bins:
        if self.layout(bins).length > MOST_CELLS:
            raise InvalidInputError("the schema declares too many levels and bins: declare fewer")
        return bins


def _classes(schema: Schema) -> tuple[Any, ...]:
    """Classes within which everything is counted; none for a label of numbers or of many classes."""
    label = schema.label
    if label is None or not 1 < len(label.levels) <= MOST_CLASSES:
        return ()
    return label.levels


def _counted(schema: Schema) -> list[Field]:
    roles = ("feature",) if _classes(schema) else ("feature", "label")
    found = [field for field in schema.fields if field.role in roles]
    if not found:
        raise InvalidInputError("the schema has no feature: there is nothing to synthesize")
    return found


def _pairs(n: int) -> tuple[tuple[int, int], ...]:
    """Return all pairs of columns, or as many as there may be of those that stand close together."""
    found = [(i, i + step) for step in range(1, n) for i in range(n - step)]
    return tuple(sorted(found[: max(MOST_PAIRS, n - 1)]))


def mock_table(schema: Schema, n: int = 100, random_state: RandomState = None) -> dict[str, AnyArray]:
    """Make a table of the shape of a schema from the schema alone: no row was seen, epsilon is 0.

    Parameters
    ----------
    schema : onefold.tables.Schema
        The contract of the table.
    n : int, default=100
        Number of rows.
    random_state : None, int or Generator, default=None
        Source of the choices.

    Returns
    -------
    dict of str to ndarray
        Columns in the order of the schema: numbers spread evenly over their range on the declared scale, all
        levels equally often, one in ten missing where a column may be missing.

    See Also
    --------
    TableSynthesizer : Tables that resemble the rows.

    Examples
    --------
    >>> from onefold.tables import Field, Schema
    >>> made = mock_table(Schema([Field("ward", "string", levels=("a", "b"))]), 3)
    >>> made["ward"].dtype, len(made["ward"])
    (dtype('<U1'), 3)
    """
    check_parameter("n", n, Whole(0))
    rng = generator(random_state)
    parsed: dict[str, AnyArray] = {}
    for field in schema.fields:
        if field.role not in ("feature", "label"):
            continue
        column = ColumnCells.of(field, 1)
        if column.edges is None:
            cells = rng.integers(0, column.n_levels, n)
        else:  # one cell from end to end
            column = ColumnCells(
                field.name, 1, column.nullable, column.edges[[0, -1]], column.whole, column.unit
            )
            cells = np.zeros(n, dtype=np.intp)
        if column.nullable and field.role == "feature":
            cells = np.where(rng.random(n) < 0.1, column.n_levels, cells)
        parsed[field.name] = column.draw(cells, rng)
    return schema.show(parsed)
