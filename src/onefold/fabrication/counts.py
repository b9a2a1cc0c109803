r"""Counts of the cells of a table, one column or two at a time: whole numbers that add up over sites.

A row, every column cut into cells, is in exactly one cell of every table of counts, and within the tables of
the label's classes in those of one class. So one row more or less changes one count of each table by one.
With Gaussian noise of deviation :math:`\sigma_t` on table t the counts are :math:`\mu`-Gaussian private with
:math:`\mu^2 = \sum_t \sigma_t^{-2}`; ``docs/proofs/table-synthesizer.md`` has the proof.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, get_type_hints

import numpy as np

from onefold._base.arrays import AnyArray, Floats, Index, Integers
from onefold._base.stored import NamedClass, Stored
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.fabrication.bins import FINE, Bins, ColumnCells, coarse_bins, fine_cells
from onefold.privacy.calibration import epsilon_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.samplers import RandomState, byte_stream, rounded_gaussian
from onefold.tables import Schema
from onefold.tables.schema import differing

__all__ = ["CountLayout", "CountingPlan", "TableCounts"]

DAMAGED = "the contents are not those of table counts"
DIGEST = 64  # letters of the name of a part
NO_NOISE = "no noise was added: the counts are those of the rows themselves"
RAW = "these counts wait for noise: they are those of the rows themselves"
MOST_CELLS = 2**26
MOST_ROWS = 2**40
LARGEST_SIGMA = 2.0**40
BLOCK_ROWS = 2**16  # rows whose cells are looked at together
MOST_CLASSES = 20  # of a label within whose classes everything is counted
MOST_PAIRS = 1770  # all pairs of 60 columns; of more columns, those close to each other in the schema
MOST_LEVELS = 200  # of a category, after merging; fewer where there would be too many cells
USUAL_CELLS = MOST_CELLS // 4  # at which categories begin to be merged further
BINS_SHARE = 0.1  # of the budget, for counts of fine cells
SINGLES_SHARE = 0.2  # of the rest, for tables of single columns


@dataclass(frozen=True)
class CountLayout:
    """Which tables are counted, and where in one long vector each of them is.

    First the tables of single columns, then those of pairs; each of them for all classes in turn.

    Parameters
    ----------
    names : tuple of str
        Names of the columns.
    sizes : tuple of int
        Number of cells of each column.
    n_classes : int, default=1
        Number of classes within which everything is counted.
    pairs : tuple of (int, int), default=()
        Columns that are counted together.

    See Also
    --------
    TableCounts : The counts.

    Examples
    --------
    >>> CountLayout(("a", "b"), (2, 3), 2, ((0, 1),)).length
    22
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    n_classes: int = 1
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def singles_length(self) -> int:
        """Number of cells of all tables of single columns."""
        return self.n_classes * sum(self.sizes)

    @property
    def length(self) -> int:
        """Number of all cells."""
        return self.singles_length + self.n_classes * sum(
            self.sizes[i] * self.sizes[j] for i, j in self.pairs
        )

    def singles(self, vector: AnyArray) -> list[AnyArray]:
        """Return the tables of single columns as views of a vector, each of shape (n_classes, size)."""
        ends = self.n_classes * np.cumsum([0, *self.sizes])
        spans = zip(ends[:-1], ends[1:], self.sizes, strict=True)
        return [vector[start:end].reshape(self.n_classes, size) for start, end, size in spans]

    def doubles(self, vector: AnyArray) -> Iterator[AnyArray]:
        """Yield the tables of pairs as views of a vector, each of shape (n_classes, size, size)."""
        start = self.singles_length
        for i, j in self.pairs:
            shape = self.n_classes, self.sizes[i], self.sizes[j]
            end = start + math.prod(shape)
            yield vector[start:end].reshape(shape)
            start = end

    def count(self, codes: Any, classes: Index) -> Integers:
        """Count rows by ``codes(column, rows)``, the cells of a slice of them; class -1 does not count."""
        vector = np.zeros(self.length, dtype=np.int64)
        singles, doubles = self.singles(vector), list(self.doubles(vector))
        for start in range(0, len(classes), BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, len(classes)))
            kept = classes[rows] >= 0
            own = classes[rows][kept]
            cells = [codes(column, rows)[kept] for column in range(len(self.sizes))]
            # With the class in front: a number below n_classes times size, in 64 bits.
            within = [own * size + cell for cell, size in zip(cells, self.sizes, strict=True)]
            for table, numbers in zip(singles, within, strict=True):
                table += np.bincount(numbers, minlength=table.size).reshape(table.shape)
            for table, (i, j) in zip(doubles, self.pairs, strict=True):
                numbers = within[i] * self.sizes[j]
                numbers += cells[j]
                table += np.bincount(numbers, minlength=table.size).reshape(table.shape)
        return vector


def with_noise(
    layout: CountLayout, vector: Integers, sigmas: tuple[float, float], noise: RandomState
) -> Integers:
    """Add rounded Gaussian noise to counts: whole numbers, from the system's entropy unless seeded."""
    stream, found = byte_stream(noise), vector.copy()
    parts = slice(0, layout.singles_length), slice(layout.singles_length, layout.length)
    for part, sigma in zip(parts, sigmas, strict=True):
        if sigma > 0.0:
            found[part] += rounded_gaussian(stream, sigma, len(found[part]))
    return found


@dataclass(frozen=True, eq=False)
class TableCounts(Stored):
    """Counts of the cells of a table, with noise: what a site sends, and what adds up.

    One column and two columns at a time are counted within every class: a vector of whole numbers, and a
    public description with the bins that it was made with.

    Parameters
    ----------
    schema : str
        Digest of the schema of the rows.
    n_fine : int
        Fine cells of a column of numbers, from which its edges follow.
    layout : CountLayout
        What is counted, and where it is in the vector.
    vector : ndarray of int64
        The counts.
    sigmas : (float, float)
        Standard deviation of the noise on counts of single columns and of pairs.
    guarantee : Guarantee
        What is promised to the records behind the counts.
    bins : Bins
        Cells of the tables.
    shared : bool, default=False
        Whether the noise is one for several sites together: then no site can leave.
    fields : tuple of (str, str), default=()
        Names and sums of the fields of the schema, so that sites can tell in which one they differ.
    parts : tuple of str, default=()
        For a sum the hash of each of the noisy counts in it; empty for those of one site.

    See Also
    --------
    TableSynthesizer : Counts the rows of a table, and makes synthetic ones of counts.

    Notes
    -----
    *Sums.* ``a + b`` adds the counts of different rows, and the variances of their noise; what each site was
    promised still holds. ``a - b`` takes a site's counts out again, bit by bit, if the site sent them with
    noise of its own. Whoever has the sum before and after has the counts of that site, as it released them.
    A sum knows noisy counts again by their hash: none is added twice, and none leaves that was not added.

    *An encrypted sum.* ``TableSynthesizer(..., noise=False)`` counts without noise: these counts are void and
    cannot be saved. :meth:`with_vector` makes counts of the opened sum of all sites' ``vector``, with the
    noise and the guarantee that the protocol of the sum answers for.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.privacy import Guarantee
    >>> promise = Guarantee("record", (1.0, 1e-5), (1.0, 1e-5), 1)
    >>> bins = Bins((np.arange(2),), (np.ones(2, dtype=np.int64),))
    >>> layout = CountLayout(("a",), (2,))
    >>> site = TableCounts("abc", 8, layout, np.array([3, 4]), (10.0, 0.0), promise, bins)
    >>> other = TableCounts("abc", 8, layout, np.array([5, 1]), (10.0, 0.0), promise, bins)
    >>> (site + other).vector.tolist(), round((site + other).sigmas[0], 2)
    ([8, 5], 14.14)
    """

    kind: ClassVar[str] = "table counts"
    schema: str
    n_fine: int
    layout: CountLayout
    vector: Integers
    sigmas: tuple[float, float]
    guarantee: Annotated[Guarantee, NamedClass("Guarantee")]
    bins: Bins
    shared: bool = False
    fields: tuple[tuple[str, str], ...] = ()
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        vector = np.array(self.vector)
        if vector.dtype != np.int64 or vector.shape != (self.layout.length,):
            raise InvalidInputError(f"counts must be {self.layout.length} whole numbers of 64 bits")
        vector.flags.writeable = False
        object.__setattr__(self, "vector", vector)

    @property
    def n_sites(self) -> int:
        """Number of sites whose rows are counted."""
        return self.guarantee.n_owners

    @property
    def is_raw(self) -> bool:
        """Whether the noise that the claim needs is still to come."""
        return RAW in self.guarantee.voided_by

    def _known_parts(self) -> set[str]:
        """Hashes of the noisy counts in here; none without noise, where equal counts may be of two sites."""
        if max(self.sigmas) == 0.0 or self.is_raw or self.shared:
            return set()
        return set(self.parts) or {hashlib.sha256(self.vector.astype("<i8").tobytes()).hexdigest()}

    # --- sums -------------------------------------------------------------------------------------------

    def __add__(self, other: "TableCounts") -> "TableCounts":
        if not isinstance(other, TableCounts):
            return NotImplemented
        self.check_comparable(other)
        mine, theirs = self._known_parts(), other._known_parts()
        if mine & theirs:
            raise InvalidInputError("some counts are in both: a site is counted once")
        sigmas = tuple(math.hypot(one, two) for one, two in zip(self.sigmas, other.sigmas, strict=True))
        return self._with(
            other,
            self.vector + other.vector,
            sigmas,
            self.guarantee.among_owners(other.guarantee),
            mine | theirs,
        )

    def __sub__(self, other: "TableCounts") -> "TableCounts":
        if not isinstance(other, TableCounts):
            return NotImplemented
        self.check_comparable(other)
        if self.shared or other.shared:
            raise InvalidInputError("a site cannot leave a sum whose noise all sites share: make a new one")
        squares = [one**2 - two**2 for one, two in zip(self.sigmas, other.sigmas, strict=True)]
        # Less noise than the guarantee needs would be left: these counts were never part of the sum.
        most = max(self.sigmas)
        mine, theirs = self._known_parts(), other._known_parts()
        if self.n_sites <= other.n_sites or min(squares) < -1e-9 * most**2 or not theirs <= mine:
            raise InvalidInputError("these counts are not part of the sum: only what was added can leave")
        sigmas = tuple(math.sqrt(max(square, 0.0)) for square in squares)
        promise = replace(self.guarantee, n_owners=self.n_sites - other.n_sites)
        return self._with(other, self.vector - other.vector, sigmas, promise, mine - theirs)

    def _with(
        self,
        other: "TableCounts",
        vector: Integers,
        sigmas: tuple[float, ...],
        promise: Guarantee,
        parts: set[str],
    ) -> "TableCounts":
        return replace(
            self,
            vector=vector,
            sigmas=(sigmas[0], sigmas[1]),
            guarantee=promise,
            shared=self.shared or other.shared,
            parts=tuple(sorted(parts)) if len(parts) > 1 else (),
        )

    def check_comparable(self, other: "TableCounts") -> None:
        """Refuse counts that cannot be added to these.

        Parameters
        ----------
        other : TableCounts
            Another site's counts.

        Raises
        ------
        InvalidInputError
            If schemas, cells, units or neighbouring relations differ.
        """
        if self.schema != other.schema:
            where = differing(self.fields, other.fields)
            raise InvalidInputError(
                f"the counts are of tables with different schemas{f' ({where})' if where else ''}: "
                "use one schema file"
            )
        if self.layout != other.layout or self.n_fine != other.n_fine:
            raise InvalidInputError(
                "the counts are of different cells: all sites need the same epsilon, delta and neighbours"
            )
        bins, others = ((*own.cells, *own.weights) for own in (self.bins, other.bins))
        if len(bins) != len(others) or not all(map(np.array_equal, bins, others)):
            raise InvalidInputError("the counts were made with different bins: give all sites the same ones")
        if self.is_raw != other.is_raw:
            raise InvalidInputError("counts that wait for noise cannot be added to counts with noise")
        self.guarantee.among_owners(other.guarantee)  # refuses different units and relations

    # --- for a sum that nobody can look into -------------------------------------------------------------

    def with_vector(
        self, vector: AnyArray, sigmas: tuple[float, float], guarantee: Guarantee
    ) -> "TableCounts":
        """Return counts of this description with other numbers: the opened sum of several sites.

        Parameters
        ----------
        vector : ndarray of int64
            The sum.
        sigmas : (float, float)
            Standard deviation of its noise, on counts of single columns and of pairs.
        guarantee : Guarantee
            What the protocol of the sum promises.

        Returns
        -------
        TableCounts
            The counts of all sites. No site can leave them.
        """
        return replace(self, vector=vector, sigmas=sigmas, guarantee=guarantee, shared=True, parts=())

    # --- files ------------------------------------------------------------------------------------------

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: nothing but what is released."""
        hints = get_type_hints(type(self), include_extras=True)
        return {known.name: hints[known.name] for known in fields(self)}

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        if self.is_raw:
            raise InvalidInputError("counts that wait for noise are not written: add them up encrypted")
        return super()._kept_values(compact)

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become the counts that a file held; content that does not fit together is refused."""
        vars(self).update(values)
        layout, vector, bins = self.layout, self.vector, self.bins
        sizes, n_columns = layout.sizes, len(layout.sizes)
        fitting = len(layout.names) == n_columns == len(bins.cells) == len(bins.weights)
        fitting = fitting and min(sizes, default=0) > 0 and layout.n_classes > 0
        fitting = fitting and all(0 <= one < other < n_columns for one, other in layout.pairs)
        fitting = fitting and 0 < self.n_fine <= FINE[1]  # so many edges are made of it
        fitting = fitting and layout.length <= MOST_CELLS and vector.shape == (layout.length,)
        fitting = fitting and all(0.0 <= sigma <= LARGEST_SIGMA for sigma in self.sigmas)
        if not fitting or not all(len(part) == DIGEST for part in self.parts):
            raise InvalidInputError(DAMAGED)
        if max(-int(vector.min(initial=0)), int(vector.max(initial=0))) > MOST_ROWS:
            raise InvalidInputError("the counts are too large to be rows of a table")
        for cells, weights, size in zip(bins.cells, bins.weights, sizes, strict=True):
            right = cells.ndim == 1 and cells.shape == weights.shape and weights.min(initial=0) >= 0
            if not right or not np.array_equal(np.unique(cells), np.arange(size)):
                raise InvalidInputError("the bins are not what they should be")
        _check_claim(self)


def spent(layout: CountLayout, sigmas: tuple[float, float]) -> float:
    """Gaussian privacy of counts with this noise, for one row more or less."""
    numbers = len(layout.sizes), len(layout.pairs)
    with np.errstate(divide="ignore"):
        squares = [n / np.square(np.float64(sigma)) for n, sigma in zip(numbers, sigmas, strict=True) if n]
    return math.sqrt(sum(squares))


def _check_claim(counts: TableCounts) -> None:
    """Refuse stated noise that is too small for the guarantee; whether it was added, no file can show."""
    promise = counts.guarantee
    of_persons = promise.unit == "person"
    if promise.unit not in ("record", "person") or (promise.person is not None) != of_persons:
        raise FileFormatError("the guarantee is not one of table counts")
    widest = promise.person if of_persons else promise.record
    if widest is None or (promise.holds and not math.isfinite(widest[0])):
        raise FileFormatError("the guarantee is not one of table counts")
    # One record replaced moves two counts of a table; so does one of a person's, see the proof.
    replaced = math.sqrt(2.0) * spent(counts.layout, counts.sigmas)
    own = replaced if promise.neighbours == "replace" else spent(counts.layout, counts.sigmas)
    most = (promise.rows_per_person or math.inf) * own if of_persons else own
    claims = [
        (widest, most),
        (promise.record, replaced if of_persons else own),
        *((pair, replaced) for pair in (promise.replaced, promise.entry, promise.labels)),
    ]
    for pair, mu in claims:
        if pair is None or not math.isfinite(pair[0]):
            continue  # nothing is claimed
        epsilon, delta = pair
        if not 0.0 < delta < 1.0:
            raise FileFormatError("the guarantee is not one of table counts")
        # Of a person's many rows a single one may be promised an epsilon of 0.
        if (epsilon_of(mu * (1.0 - 1e-9), delta) if 0.0 < mu < math.inf else mu) > epsilon:
            raise FileFormatError("the stated noise is too small for the stated guarantee")
    if promise.mu is not None and not most <= promise.mu * (1.0 + 1e-9):
        raise FileFormatError("the stated noise is too small for the stated guarantee")


# --- what is counted, from the schema alone -----------------------------------------------------------------


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
        """Plan with a given number of fine cells."""
        classes = _classes(schema)
        roles = ("feature",) if classes else ("feature", "label")
        columns = tuple(ColumnCells.of(field, n_fine) for field in schema.fields if field.role in roles)
        if not columns:
            raise InvalidInputError("the schema has no feature: there is nothing to synthesize")
        return cls(schema.digest, n_fine, columns, len(classes) or 1, _pairs(len(columns)))

    @classmethod
    def for_noise(cls, schema: Schema, rows_about: float, noise: float) -> "CountingPlan":
        """Plan with as many fine cells as the declared number of rows can fill."""
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
        """Return what is counted with bins."""
        return CountLayout(
            tuple(column.name for column in self.columns), bins.sizes, self.n_classes, self.pairs
        )

    def levels(self, layout: CountLayout, share: float) -> tuple[float, float]:
        """Return deviations of noise that make counts 1-Gaussian private, for a part of the budget."""
        part = SINGLES_SHARE if layout.pairs else 1.0
        single = math.sqrt(len(layout.sizes) / (share * part))
        return single, math.sqrt(len(layout.pairs) / (share * (1.0 - part))) if layout.pairs else 0.0

    def declared_bins(self) -> Bins:
        """Return the bins of a schema that declares all of them."""
        return self._allowed(coarse_bins(self.columns, [None] * len(self.columns), 0.0, 0.0, 0.0))

    def even_bins(self, n_rows: int, sigma: float) -> Bins:
        """Make bins as if all cells of a column were equally full: nobody looks at rows."""
        even = [np.full(size, n_rows // size, dtype=np.int64) for size in self.fine_layout.sizes]
        return self.bins(np.concatenate(even), sigma)

    def bins(self, vector: Integers, sigma: float) -> Bins:
        """Make bins of noisy counts of fine cells: post-processing."""
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


def _pairs(n: int) -> tuple[tuple[int, int], ...]:
    """Return all pairs of columns, or as many as there may be of those that stand close together."""
    found = [(i, i + step) for step in range(1, n) for i in range(n - step)]
    return tuple(sorted(found[: max(MOST_PAIRS, n - 1)]))
