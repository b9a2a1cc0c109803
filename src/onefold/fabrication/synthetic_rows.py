r"""From noisy counts to rows: post-processing, which sees released counts and public noise levels only.

*Repair.* Every table of counts says how many rows a class has, and every pair table what its two columns look
like alone: all are averaged by their variances, and the pair tables moved to the averages by least squares.
What is left of a pair table is its distance from independence, :math:`G`, with noise of known size on it;
Stein's factor :math:`1 - (K_i - 1)(K_j - 1) \sigma^2 / \|G\|^2` shrinks it.

*Tree.* The spanning tree of the largest mutual information (Chow and Liu), one for all classes. Rows are
drawn along it.

*Raking.* The rows get weights that bring them to all pair tables in turn, not only to those of the tree.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats, Index
from onefold._base.validation import Whole, check_parameter
from onefold.fabrication.bins import ColumnCells, simplex
from onefold.fabrication.counts import CountLayout, TableCounts
from onefold.privacy.samplers import RandomState, generator
from onefold.tables import Schema

__all__ = [
    "Repaired",
    "TableQuality",
    "can_rake",
    "draw_cells",
    "expected_errors",
    "judge_rows",
    "mock_table",
    "repair",
    "spanning_tree",
]

FITTING_STEPS = 30
FITTED = 1e-6  # relative distance from the margins at which fitting ends
SWEEPS = 5
STEP, MOST_CHANGE = 0.7, 3.0  # of a weight, in one sweep
ROWS_PER_RAKED = 3  # rows drawn from the tree for each one that is kept
MOST_RAKED = 300_000  # rows that get weights
MOST_RAKING = 1e9  # weights that are looked up: fewer rows are raked where there are many tables
TINY = 1e-12
# (column, parent, number of their pair); parents come first.
Tree = list[tuple[int, int | None, int | None]]
ABSOLUTE = math.sqrt(2.0 / math.pi) / 2.0  # half the mean size of a standard Gaussian variable


@dataclass(frozen=True)
class Repaired:
    """Tables of counts without contradictions, one class after the other.

    Parameters
    ----------
    layout : CountLayout
        What the tables are of.
    sizes : ndarray of shape (n_classes,)
        Rows of each class.
    singles : list of ndarray of shape (n_classes, size)
        Tables of single columns.
    doubles : list of ndarray of shape (n_classes, size, size)
        Tables of pairs.
    single_errors : ndarray of shape (n_columns,)
        Standard deviation of the noise that is left on the counts of single columns.
    believed : ndarray of shape (n_pairs, n_classes)
        Stein's factors: how much of a pair's distance from independence was kept.
    """

    layout: CountLayout
    sizes: Floats
    singles: list[Floats]
    doubles: list[Floats]
    single_errors: Floats
    believed: Floats


def repair(layout: CountLayout, vector: AnyArray, sigmas: tuple[float, float]) -> Repaired:
    """Make tables of counts agree with each other, and take away what is probably noise.

    Parameters
    ----------
    layout : CountLayout
        What the counts are of.
    vector : ndarray of shape (layout.length,)
        Noisy counts.
    sigmas : (float, float)
        Standard deviation of the noise on counts of single columns and of pairs.

    Returns
    -------
    Repaired
        The tables.
    """
    counts = np.asarray(vector, dtype=np.float64)
    # Without noise all tables agree, and any weights do.
    single, pair = (sigma**2 if sigma > 0.0 else 1.0 for sigma in sigmas)
    singles, doubles = layout.singles(counts), list(layout.doubles(counts))
    sizes = np.zeros(layout.n_classes)
    weight = 0.0
    margins = [table / single for table in singles]
    weights = np.full(len(singles), 1.0 / single)
    for table in singles:
        sizes += table.sum(axis=1) / (single * table.shape[1])
        weight += 1.0 / (single * table.shape[1])
    for table, (i, j) in zip(doubles, layout.pairs, strict=True):
        cells = table.shape[1] * table.shape[2]
        sizes += table.sum(axis=(1, 2)) / (pair * cells)
        weight += 1.0 / (pair * cells)
        margins[i] = margins[i] + table.sum(axis=2) / (pair * table.shape[2])
        margins[j] = margins[j] + table.sum(axis=1) / (pair * table.shape[1])
        weights[i] += 1.0 / (pair * table.shape[2])
        weights[j] += 1.0 / (pair * table.shape[1])
    sizes = np.maximum(sizes / weight, 0.0)
    found = [simplex(margin / own, sizes) for margin, own in zip(margins, weights, strict=True)]
    repaired, believed = [], np.zeros((len(doubles), layout.n_classes))
    for k, (table, (i, j)) in enumerate(zip(doubles, layout.pairs, strict=True)):
        pair_table, believed[k] = _repaired_pair(table, found[i], found[j], sizes, sigmas[1])
        repaired.append(pair_table)
    errors = np.sqrt(1.0 / weights) if max(sigmas) > 0.0 else np.zeros(len(singles))
    return Repaired(layout, sizes, found, repaired, errors, believed)


def _repaired_pair(
    table: Floats, rows: Floats, columns: Floats, sizes: Floats, sigma: float
) -> tuple[Floats, Floats]:
    """Return a pair table with the given margins, as far from independence as the noise lets us believe."""
    n_rows, n_columns = table.shape[1:]
    moved = table + ((rows - table.sum(axis=2)) / n_columns)[:, :, None]
    moved += ((columns - moved.sum(axis=1)) / n_rows)[:, None, :]
    independent = rows[:, :, None] * columns[:, None, :] / np.maximum(sizes, TINY)[:, None, None]
    gap = moved - independent
    noise = (n_rows - 1) * (n_columns - 1) * sigma**2
    square = np.square(gap).sum(axis=(1, 2))
    believed = np.maximum(0.0, 1.0 - noise / np.maximum(square, TINY))
    flat = (independent + believed[:, None, None] * gap).reshape(len(table), -1)
    return _fitted(simplex(flat, sizes).reshape(table.shape), rows, columns), believed


def _fitted(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Fit a table to its margins in proportion; rows of a margin that the table has not are spread."""
    sizes = rows.sum(axis=1)
    table = table + 1e-9 * rows[:, :, None] * columns[:, None, :] / np.maximum(sizes, TINY)[:, None, None]
    for _ in range(FITTING_STEPS):
        table *= (rows / np.maximum(table.sum(axis=2), TINY))[:, :, None]
        sums = table.sum(axis=1)
        table *= (columns / np.maximum(sums, TINY))[:, None, :]
        if np.abs(sums - columns).max(initial=0.0) <= FITTED * sizes.max(initial=0.0):
            break
    return table


# --- the tree ---------------------------------------------------------------------------------------------


def _information(table: Floats) -> float:
    """Mutual information of a pair within the classes, times the number of rows."""
    sizes = table.sum(axis=(1, 2))[:, None, None]
    independent = table.sum(axis=2)[:, :, None] * table.sum(axis=1)[:, None, :] / np.maximum(sizes, TINY)
    positive = table > TINY
    ratio = np.divide(table, independent, out=np.ones_like(table), where=positive & (independent > 0.0))
    return float(np.sum(table * np.log(np.maximum(ratio, 1e-300)), where=positive))


def spanning_tree(repaired: Repaired) -> Tree:
    """Return (column, parent, number of their pair) in an order in which parents come first.

    Parameters
    ----------
    repaired : Repaired
        The tables.

    Returns
    -------
    list of tuple
        The tree of the largest mutual information; columns without any pair have no parent.
    """
    n = len(repaired.layout.sizes)
    gain, number = np.full((n, n), -np.inf), np.full((n, n), -1)
    for k, (table, (i, j)) in enumerate(zip(repaired.doubles, repaired.layout.pairs, strict=True)):
        gain[i, j] = gain[j, i] = _information(table)
        number[i, j] = number[j, i] = k
    best, parent = np.full(n, -np.inf), np.full(n, -1)
    left, order = set(range(n)), []
    while left:
        column = max(left, key=lambda c: (best[c], -c))
        left.remove(column)
        own = int(parent[column])
        order.append((column, None, None) if own < 0 else (column, own, int(number[own, column])))
        closer = gain[column] > best
        best[closer], parent[closer] = gain[column][closer], column
    return [(int(c), p, k) for c, p, k in order]


# --- rows -------------------------------------------------------------------------------------------------


def draw_cells(
    repaired: Repaired, structure: str, n: int, rng: np.random.Generator
) -> tuple[AnyArray, Index]:
    """Draw rows as numbers of cells.

    Parameters
    ----------
    repaired : Repaired
        The tables.
    structure : {"raked", "tree", "independent"}
        Which of the tables are used: all, those of a tree, or those of single columns.
    n : int
        Number of rows.
    rng : Generator
        Source of all choices.

    Returns
    -------
    cells : ndarray of shape (n_columns, n)
        Cell of every row in every column.
    classes : ndarray of shape (n,)
        Class of every row.
    """
    layout = repaired.layout
    tree: Tree = [(column, None, None) for column in range(len(layout.sizes))]
    if structure != "independent":
        tree = spanning_tree(repaired)
    wanted = _systematic(repaired.sizes, n, rng)
    cells = np.empty((len(layout.sizes), n), dtype=np.int32)
    classes = np.repeat(np.arange(layout.n_classes), wanted)
    start = 0
    for own, size in enumerate(wanted):
        part = slice(start, start + size)
        start += size
        if size == 0:
            continue
        if structure != "raked" or not layout.pairs:
            cells[:, part] = _along(repaired, tree, own, size, rng)
            continue
        share = repaired.sizes[own] / max(repaired.sizes.sum(), TINY)
        most = min(MOST_RAKED, int(share * _most_rows(layout)))
        pool = _along(repaired, tree, own, max(min(ROWS_PER_RAKED * int(size), most), 1000), rng)
        weights = _raked(repaired, own, pool)
        cells[:, part] = pool[:, np.repeat(np.arange(pool.shape[1]), _systematic(weights, size, rng))]
    order = rng.permutation(n)
    for column in cells:
        column[:] = column[order]
    return cells, classes[order]


def _systematic(weights: Floats, n: int, rng: np.random.Generator) -> Index:
    """Divide n among weights: each gets its share, rounded up or down at random."""
    total = weights.sum()
    shares = weights / total if total > 0.0 else np.full(len(weights), 1.0 / len(weights))
    ends = np.floor(np.cumsum(shares) * n + rng.random()).astype(np.intp)
    ends[-1] = n
    return np.diff(np.minimum(ends, n), prepend=0)


def _along(
    repaired: Repaired,
    tree: Tree,
    own: int,
    n: int,
    rng: np.random.Generator,
) -> AnyArray:
    """Draw rows of a class along the tree; the rows of a parent's cell are divided as evenly as can be."""
    cells = np.empty((len(repaired.layout.sizes), n), dtype=np.int32)
    for column, parent, number in tree:
        if parent is None or number is None:
            table = repaired.singles[column][own][None, :]
            above = np.zeros(n, dtype=np.int32)
        else:
            table = repaired.doubles[number][own]
            table = table if parent < column else table.T
            above = cells[parent]
        cells[column] = _conditional(table, above, rng)
    return cells


def _conditional(table: Floats, above: AnyArray, rng: np.random.Generator) -> AnyArray:
    """Draw a cell for each row given the parent's cell, ``table[parent, cell]`` being the weights."""
    n_above, n_cells = table.shape
    sums = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, sums, out=np.full(table.shape, 1.0 / n_cells), where=sums > TINY)
    ends = np.cumsum(shares, axis=1)
    ends[:, -1] = 1.0
    # Where rows stand in a random order within their parent's cell, as a number of [0, 1): evenly spread.
    shuffled = rng.permutation(len(above))
    narrow = above[shuffled].astype(np.uint16 if n_above <= 2**16 else np.int64)
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(above, minlength=n_above)
    firsts = np.cumsum(counts) - counts
    grouped = narrow[order].astype(np.intp)
    place = (np.arange(len(above)) - firsts[grouped] + rng.random(len(above))) / counts[grouped]
    flat = (ends + np.arange(n_above)[:, None]).ravel()
    found = np.searchsorted(flat, place + grouped, side="right") - grouped * n_cells
    drawn = np.empty(len(above), dtype=np.int32)
    drawn[shuffled[order]] = np.clip(found, 0, n_cells - 1)
    return drawn


def can_rake(layout: CountLayout) -> bool:
    """Tell whether as many rows can be raked as there are cells; fewer would follow them worse than a tree.

    Parameters
    ----------
    layout : CountLayout
        What is counted.

    Returns
    -------
    bool
        Whether all pairs can be followed.
    """
    return bool(layout.pairs) and _most_rows(layout) >= layout.length - layout.singles_length


def _most_rows(layout: CountLayout) -> float:
    return MOST_RAKING / (SWEEPS * len(layout.pairs))


def _raked(repaired: Repaired, own: int, pool: AnyArray) -> Floats:
    """Weigh rows so that their pair tables come close to all of the repaired ones."""
    layout, n, size = repaired.layout, pool.shape[1], repaired.sizes[own]
    weights = np.full(n, max(size, 1.0) / n)
    if size <= 0.0:
        return weights
    targets = [table[own].ravel() for table in repaired.doubles]
    for _ in range(SWEEPS):
        for target, (i, j) in zip(targets, layout.pairs, strict=True):
            cells = pool[i].astype(np.intp) * layout.sizes[j]
            cells += pool[j]
            current = np.bincount(cells, weights, minlength=len(target))
            ratio = target / np.maximum(current, TINY)
            ratio = np.clip(ratio, 1.0 / MOST_CHANGE, MOST_CHANGE) ** STEP
            weights *= ratio[cells]
        weights *= size / weights.sum()
    return weights


# --- what rows are worth ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableQuality:
    """How close synthetic rows are to the table, as far as noisy counts can tell.

    Distances are total variation: the share of rows that would have to move to another cell. *Followed* is
    the distance of synthetic rows from the repaired counts. *Expected* is how far noise has moved these from
    the table, computed from public noise levels.

    Parameters
    ----------
    n_rows : int
        Number of rows, from noisy counts.
    structure : str
        Which pairs rows follow.
    columns : dict of str to (float, float)
        For each column what is followed and what is expected.
    pairs : (float, float)
        The same for pairs of columns, on average.
    worst : tuple of (str, str, float)
        The five pairs that synthetic rows follow worst.

    See Also
    --------
    TableSynthesizer : Makes the rows.

    Examples
    --------
    >>> print(TableQuality(1000, "tree", {"age": (0.01, 0.02)}, (0.02, 0.05), ()))
    About 1000 rows; columns follow a tree of pairs.
    Single columns: 2 in 100 rows are expected in a wrong cell by noise, 1 by drawing (age is the worst).
    Pairs of columns: 5 in 100 rows are expected in a wrong cell by noise, 2 by drawing.
    Rows keep single columns and pairs of columns up to these errors, and no rare combinations.
    """

    n_rows: int
    structure: str
    columns: dict[str, tuple[float, float]]
    pairs: tuple[float, float]
    worst: tuple[tuple[str, str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON.

        Returns
        -------
        dict
            The fields by name, and the sentences as "text".
        """
        columns = {
            name: {"followed": followed, "expected": expected}
            for name, (followed, expected) in self.columns.items()
        }
        pairs = {"followed": self.pairs[0], "expected": self.pairs[1], "worst": [list(w) for w in self.worst]}
        return {
            "rows": self.n_rows,
            "structure": self.structure,
            "columns": columns,
            "pairs": pairs,
            "text": str(self),
        }

    def __str__(self) -> str:
        follow = {
            "raked": "follow all pairs",
            "tree": "follow a tree of pairs",
            "independent": "are independent within a class",
        }
        worst = max(self.columns, key=lambda name: sum(self.columns[name]))
        followed, expected = self.columns[worst]
        lines = [
            f"About {self.n_rows} rows; columns {follow[self.structure]}.",
            f"Single columns: {_of_hundred(expected)} in 100 rows are expected in a wrong cell by noise, "
            f"{_of_hundred(followed)} by drawing ({worst} is the worst).",
        ]
        if self.structure != "independent":
            lines.append(
                f"Pairs of columns: {_of_hundred(self.pairs[1])} in 100 rows are expected in a wrong cell by "
                f"noise, {_of_hundred(self.pairs[0])} by drawing."
            )
        lines.append(
            "Rows keep single columns up to these errors, and not how columns depend on each other."
            if self.structure == "independent"
            else "Rows keep single columns and pairs of columns up to these errors, and no rare combinations."
        )
        return "\n".join(lines)


def _of_hundred(share: float) -> str:
    hundred = 100.0 * share
    if hundred < 0.1:
        return "less than 0.1"
    return f"{hundred:.2g}" if hundred < 10.0 else f"{hundred:.0f}"


def judge_rows(
    repaired: Repaired, counts: TableCounts, structure: str, cells: AnyArray, classes: Index
) -> TableQuality:
    """Compare drawn rows with the repaired counts, and these with their noise."""
    layout, n_rows = counts.layout, max(float(repaired.sizes.sum()), 1.0)
    drawn = layout.count(lambda column, rows: cells[column][rows], classes)
    scale = n_rows / max(len(classes), 1)
    expected = expected_errors(repaired, counts)
    columns = {
        name: (_distance(own.sum(axis=0) * scale, mine.sum(axis=0), n_rows), expected[name])
        for name, own, mine in zip(layout.names, layout.singles(drawn), repaired.singles, strict=True)
    }
    followed, expected_pairs, worst = [], [], []
    tables = zip(layout.pairs, layout.doubles(drawn), repaired.doubles, repaired.believed, strict=True)
    for (i, j), own, mine, believed in tables:
        distance = _distance(own.sum(axis=0) * scale, mine.sum(axis=0), n_rows)
        followed.append(distance)
        worst.append((layout.names[i], layout.names[j], distance))
        noise = ABSOLUTE * counts.sigmas[1] * math.sqrt(believed.sum()) * own[0].size / n_rows
        expected_pairs.append(min(noise, 1.0))
    worst.sort(key=lambda pair: -pair[2])
    means = (float(np.mean(part)) if part else 0.0 for part in (followed, expected_pairs))
    return TableQuality(round(n_rows), structure, columns, (next(means), next(means)), tuple(worst[:5]))


def expected_errors(repaired: Repaired, counts: TableCounts) -> dict[str, float]:
    """Share of rows that noise is expected to have moved into a wrong cell of each single column."""
    n_rows = max(float(repaired.sizes.sum()), 1.0)
    found = zip(counts.layout.names, repaired.singles, repaired.single_errors, strict=True)
    return {
        name: min(ABSOLUTE * error * math.sqrt(own.shape[0]) * own.shape[1] / n_rows, 1.0)
        for name, own, error in found
    }


def _distance(one: Floats, other: Floats, n_rows: float) -> float:
    return float(min(np.abs(one - other).sum() / (2.0 * n_rows), 1.0))


# --- rows from the schema alone -----------------------------------------------------------------------------


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
        if column.edges is not None:  # one cell from end to end, of which no choice is made
            column = replace(column, n_levels=1, edges=column.edges[[0, -1]])
        cells = rng.integers(0, column.n_levels, n)
        if column.nullable and field.role == "feature":
            cells = np.where(rng.random(n) < 0.1, column.n_levels, cells)
        parsed[field.name] = column.draw(cells, rng)
    return schema.show(parsed)
