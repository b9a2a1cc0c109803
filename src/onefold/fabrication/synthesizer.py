"""Private synthetic tables with columns of any kind: all pairs of columns are counted once, with noise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import AnyArray, Floats, Index, Integers, Mask, column_array
from onefold._base.stored import Stored
from onefold._base.validation import Entry, Flag, OneOf, Whole, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.fabrication.bins import Bins, ColumnCells
from onefold.fabrication.counts import (
    LARGEST_SIGMA,
    NO_NOISE,
    RAW,
    CountingPlan,
    CountLayout,
    TableCounts,
    with_noise,
)
from onefold.fabrication.synthetic_rows import (
    Repaired,
    TableQuality,
    can_rake,
    draw_cells,
    expected_errors,
    judge_rows,
    repair,
)
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.contract import under_contract
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import AnyLedger, charge
from onefold.privacy.persons import known_persons, limit_rows
from onefold.privacy.samplers import RandomState, generator
from onefold.privacy.terms import DELTA, EPSILON, NOTHING, RELATIONS
from onefold.tables import Field, Schema
from onefold.tables.columns import frame_of, kind_of
from onefold.tables.schema import differing

__all__ = ["TableSynthesizer"]

ROWS_ABOUT = 10_000  # where the schema does not say how many rows there are about
RAKED_ROWS = 5000  # below, all pairs at once follow the noise more than the rows
ROWS_PER_NOISE = 20.0  # below so many rows for one standard deviation, pairs are not used
JUDGED_ROWS = 100_000  # most rows that are drawn to judge them
MOST_ROWS = 10_000_000  # most rows that are drawn unless more are asked for: counts may claim any number
TRIAL_ROWS = 100_000  # most rows that a model is trained on to try it
MOST_LEVELS = 250  # of a category, for boosted trees; numbers of more levels are taken as they are
STRUCTURES = ("auto", "tree", "raked", "independent")
CONSTRAINTS: dict[str, Entry] = {
    "epsilon": (EPSILON, None),
    "delta": (DELTA, None),
    "structure": OneOf(STRUCTURES),
    "neighbours": OneOf(RELATIONS),
    "rows_per_person": (Whole(1), None),
    "noise": Flag(),
}


@dataclass(eq=False, repr=False)
class TableSynthesizer(Stored, BaseEstimator):
    r"""Synthetic tables of the shape of a schema, private for whole records or persons, in one release.

    Every column is cut into cells; the rows of every cell, and of every pair of cells of two columns, are
    counted within each class of the label, and the counts get Gaussian noise. Everything else follows from
    the noisy counts: which cells to merge, how much to believe of a pair, a tree of columns, weights, rows.

    Parameters
    ----------
    schema : onefold.tables.Schema
        The contract of the table: columns, their types, ranges and levels, the label, about how many rows.
    epsilon : float or None, default=1.0
        Privacy loss for a whole record, or for all records of a person. None adds no noise: use it for
        comparison only; the guarantee is void.
    delta : float or None, default=None
        Probability with which the loss may be exceeded. None takes 1e-5, or a tenth of one over the declared
        number of rows if that is smaller.
    structure : {"auto", "tree", "raked", "independent"}, default="auto"
        Which pairs rows follow: all of them ("raked"), those of a tree of columns, or none, so that columns
        are independent within a class. "auto" decides by the noisy number of rows, and takes a tree where
        there are too many pairs of cells to follow all of them.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        How neighbouring tables differ: one record more or less, or replaced by any other.
    rows_per_person : int or None, default=None
        For rows that belong to persons: the most rows of a person that count; others are dropped at random.
        None takes what the schema declares.
    noise : bool, default=True
        Whether counts get their noise here. False makes counts for a sum that is opened only as a whole; such
        counts cannot be fitted or saved.
    random_state : None, int or Generator, default=None
        Source of the noise. None takes fresh entropy of the operating system. A seed makes the noise
        predictable and the guarantee void: use it in tests only.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.

    Attributes
    ----------
    counts_ : TableCounts
        The released counts; nothing else is kept of the table.
    guarantee_ : Guarantee
        What is promised.
    n_rows_ : int
        Number of rows, from the noisy counts.
    structure_ : str
        The structure that is used.
    quality_ : TableQuality
        How close synthetic rows come to the noisy counts, and how close those are to the table.
    expected_errors_ : dict of str to float
        The part of ``quality_`` that needs no rows to be drawn: for each column the share of rows that noise
        is expected to leave in a wrong cell.

    See Also
    --------
    onefold.fabrication.TableCounts : The counts of a site, which add up.
    onefold.fabrication.Fabricator : Noise on every row, for tables of numbers.
    onefold.fabrication.mock_table : A table from the schema alone.

    Notes
    -----
    *Guarantees.* The release is (epsilon, delta) differentially private for a whole record with its label, or
    for a person; ``docs/proofs/table-synthesizer.md`` has the proof. Names, types, widths and levels of
    synthetic columns follow from the schema, the number of rows from noisy counts. Cells that the schema does
    not allow are mapped: numbers are clipped, anything else becomes ``other``, missing, or the middle of the
    range or the first level. Rows without a declared label or person are left out. No cell stops the release.

    *Several sites.* Counts of :meth:`count_tables` add up, because their bins follow from the schema alone;
    :meth:`from_counts` takes the sum. Every call is a release of its own. ``onefold federate sum --what
    tables`` adds them up encrypted, with noise once for all sites.

    *Many columns.* Up to 60 columns are counted in all pairs; of more, those that stand close to each other
    in the schema, 1770 pairs in all. A label with more than 20 classes, or a number, is a column like others.

    *Use.* Single columns, pairs of columns and simple models; not rare combinations.

    References
    ----------
    Dong, Roth and Su, "Gaussian differential privacy", 2022.

    Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968.

    Deming and Stephan, "On a least squares adjustment of a sampled frequency table when the expected marginal
    totals are known", 1940.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.tables import Field, Schema
    >>> schema = Schema([Field("age", "integer", low=0, high=99), Field("smoker", "boolean", role="label")])
    >>> rng = np.random.default_rng(0)
    >>> table = {"age": rng.integers(20, 60, 5000), "smoker": rng.random(5000) < 0.3}
    >>> synthesizer = TableSynthesizer(schema, epsilon=1.0).fit(table)
    >>> made = synthesizer.sample()
    >>> list(made), bool(abs(len(made["age"]) - 5000) < 500)
    (['age', 'smoker'], True)
    """

    kind: ClassVar[str] = "table synthesizer"

    schema: Schema
    epsilon: float | None = 1.0
    delta: float | None = None
    _: KW_ONLY
    structure: Literal["auto", "tree", "raked", "independent"] = "auto"
    neighbours: Literal["add-remove", "replace"] = "add-remove"
    rows_per_person: int | None = None
    noise: bool = True
    random_state: RandomState = None
    ledger: AnyLedger = None

    # --- the release ------------------------------------------------------------------------------------

    def fit(self, X: Any, person: Any = None) -> Self:
        """Count a table once, with noise, and forget it.

        Parameters
        ----------
        X : table
            A frame, a dict of columns or a table that was read: what the schema can parse.
        person : array-like of shape (n_rows,) or None, default=None
            Who each row is about; None takes the schema's column of persons, if it has one.

        Returns
        -------
        TableSynthesizer
            This object.
        """
        budget = self._budget(person)
        if not self.noise:
            raise InvalidInputError("noise=False makes counts for a sum only: use count_tables")
        rows = self._rows(X, person, budget)
        self._kind = kind_of(X)
        budget = replace(budget, guarantee=charge(self.ledger, budget.guarantee, "table synthesizer"))
        plan = budget.plan
        bins = plan.bins(self._fine_counts(rows, budget), self._fine_noise(budget)) if plan.open else None
        return self._adopt(self._counted_tables(rows, bins, budget, 1.0 - plan.bins_share), plan)

    def count_tables(self, X: Any, person: Any = None) -> TableCounts:
        """Count single columns and pairs within every class: the message of a site.

        Bins that the schema does not declare are cut as if all cells of a column were equally full, so that
        all sites have the same ones.

        Parameters
        ----------
        X : table
            The rows of this site.
        person : array-like of shape (n_rows,) or None, default=None
            Who each row is about.

        Returns
        -------
        TableCounts
            Counts to be added up over sites.
        """
        budget = self._budget(person)
        plan = budget.plan
        bins = plan.even_bins(self._rows_about, self._fine_noise(budget)) if plan.open else None
        rows = self._rows(X, person, budget)
        if self.noise:  # otherwise nothing is released here: who opens the sum answers for it
            budget = replace(budget, guarantee=charge(self.ledger, budget.guarantee, "table synthesizer"))
        return self._counted_tables(rows, bins, budget, 1.0)

    @classmethod
    def from_counts(
        cls,
        schema: Schema,
        counts: TableCounts,
        *,
        structure: Literal["auto", "tree", "raked", "independent"] = "auto",
    ) -> Self:
        """Build the synthesizer from released counts alone, such as the sum of those of several sites.

        Parameters
        ----------
        schema : onefold.tables.Schema
            The contract that the counts were made with.
        counts : TableCounts
            Counts of tables.
        structure : {"auto", "tree", "raked", "independent"}, default="auto"
            Which pairs rows follow.

        Returns
        -------
        TableSynthesizer
            A fitted synthesizer.
        """
        if counts.schema != schema.digest:
            where = differing(schema.field_digests, counts.fields)
            raise InvalidInputError(
                f"the counts were made with another schema{f' ({where})' if where else ''}"
            )
        if counts.is_raw:
            raise InvalidInputError("these counts wait for noise: add a share of it, and open only the sum")
        pair = counts.guarantee.person or counts.guarantee.record
        found = cls(
            schema,
            pair[0] if math.isfinite(pair[0]) else None,
            pair[1] if 0.0 < pair[1] < 1.0 else None,
            structure=structure,
            neighbours=counts.guarantee.neighbours,
            rows_per_person=counts.guarantee.rows_per_person,
        )
        return found._adopt(counts, CountingPlan.of(schema, counts.n_fine))

    _left_out = ("epsilon", "delta", "neighbours", "rows_per_person", "noise", "random_state", "ledger")

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: the counts with their guarantee, and nothing else besides the schema."""
        return {"counts_": TableCounts}

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become the synthesizer of these counts, which draws the same rows from the same seed."""
        made = type(self).from_counts(self.schema, values["counts_"], structure=self.structure)
        self.__dict__.update(vars(made))

    @property
    def _rows_about(self) -> int:
        return int(self.schema.rows_about or ROWS_ABOUT)

    def _budget(self, person: Any) -> "_Budget":
        check_parameters(self, CONSTRAINTS)
        self.schema.require_declared()
        by_person = person is not None or self.schema.person is not None
        k = self.rows_per_person if self.rows_per_person is not None else self.schema.rows_per_person
        if by_person and k is None:
            raise InvalidInputError(
                "rows belong to persons: declare rowsPerPerson, the most rows of a person"
            )
        if self.rows_per_person is not None and not by_person:
            raise InvalidInputError("rows_per_person needs person: whom each row is about")
        about = float(self._rows_about)
        delta = float(self.delta) if self.delta is not None else min(1e-5, 1.0 / (10.0 * about))
        mu = None if self.epsilon is None else mu_of(self.epsilon, delta)
        rows = int(k or 1) if by_person else 1
        change = rows * (math.sqrt(2.0) if self.neighbours == "replace" else 1.0)
        plan = CountingPlan.for_noise(self.schema, about, 0.0 if mu is None else change / mu)
        promise = self._promise(mu, delta, len(plan.columns), rows if by_person else None)
        return _Budget(mu, change, rows if by_person else None, plan, promise)

    def _promise(self, mu: float | None, delta: float, n_features: int, rows: int | None) -> Guarantee:
        """Return the guarantee of the release, from the noise that is drawn."""
        stated = replaced = NOTHING
        if mu is not None and self.epsilon is not None:
            stated = float(self.epsilon), delta
            # A record more can take the place of another one of its person: see onefold.privacy.persons.
            more = 1.0 if self.neighbours == "replace" else math.sqrt(2.0)
            replaced = (epsilon_of(more * mu / (rows or 1), delta), delta) if more > 1.0 or rows else stated
        found = Guarantee(
            unit="record" if rows is None else "person",
            entry=replaced,
            record=stated if rows is None else replaced,
            replaced=replaced,
            labels=replaced,
            labels_in_record=True,
            n_features=n_features,
            untouched_entries=0.0,
            voided_by=(NO_NOISE,) * (mu is None) + (RAW,) * (not self.noise),
            mechanism="Gaussian on counts of cells and of pairs of cells, hardened sampler",
            sensitivity=1.0,
            neighbours=self.neighbours,
            person=None if rows is None else stated,
            rows_per_person=rows,
            clipped=True,
            mu=mu,
        ).seeded(self.random_state)
        if rows is not None:
            found = found.provided("a changed record stays with its person")
        return under_contract(found, self.schema)

    def _rows(self, X: Any, person: Any, budget: "_Budget") -> "_CountedRows":
        """Parse a table by the rules of its schema, and choose the rows that count."""
        parsed = self.schema.parse(X, strict=False, roles=("feature", "label"))
        label = self.schema.label
        n = len(next(iter(parsed.values()))) if parsed else 0
        counts = np.ones(n, dtype=np.bool_)
        if budget.rows_per_person is not None:
            whose = self.schema.persons(X) if person is None else person
            counts = _of_persons(whose, n, budget.rows_per_person, self.random_state)
        classes = np.zeros(n, dtype=np.intp)
        if label is not None:
            told = parsed[label.name]
            counts = counts & (told >= 0 if label.is_category else ~np.isnan(told))
            if budget.plan.n_classes > 1:
                classes = np.asarray(told, dtype=np.intp)
        return _CountedRows(parsed, np.where(counts, classes, -1))

    def _fine_noise(self, budget: "_Budget") -> float:
        """Return the standard deviation of the noise on counts of fine cells."""
        return budget.sigmas(budget.plan.fine_layout, budget.plan.bins_share)[0]

    def _fine_counts(self, rows: "_CountedRows", budget: "_Budget") -> Integers:
        """Count the fine cells of columns whose bins are not declared, with noise."""
        columns = [budget.plan.columns[place] for place in budget.plan.open]
        layout = budget.plan.fine_layout
        vector = layout.count(rows.coder(columns, None), np.minimum(rows.classes, 0))
        return with_noise(layout, vector, (self._fine_noise(budget), 0.0), self.random_state)

    def _counted_tables(
        self, rows: "_CountedRows", bins: Bins | None, budget: "_Budget", share: float
    ) -> TableCounts:
        """Count single columns and pairs, and add the noise for a share of the budget."""
        plan = budget.plan
        bins = plan.declared_bins() if bins is None else bins
        layout = plan.layout(bins)
        sigmas = budget.sigmas(layout, share)
        classes = rows.classes if layout.n_classes > 1 else np.minimum(rows.classes, 0)
        vector = layout.count(rows.coder(plan.columns, bins), classes)
        if self.noise:
            vector = with_noise(layout, vector, sigmas, self.random_state)
        return TableCounts(
            plan.schema,
            plan.n_fine,
            layout,
            vector,
            sigmas,
            budget.guarantee,
            bins,
            fields=self.schema.field_digests,
        )

    # --- what follows from the counts -------------------------------------------------------------------

    def _adopt(self, counts: TableCounts, plan: CountingPlan) -> Self:
        check_parameter("structure", self.structure, OneOf(STRUCTURES))
        sizes = tuple(len(own) for own in counts.bins.cells)
        expected = tuple(column.size for column in plan.columns)
        if sizes != expected or plan.layout(counts.bins) != counts.layout:
            raise InvalidInputError("the counts do not fit the schema")
        self.counts_, self.guarantee_, self._plan = counts, counts.guarantee, plan
        self._repaired: Repaired = repair(counts.layout, counts.vector, counts.sigmas)
        self.n_rows_ = round(float(self._repaired.sizes.sum()))
        self.structure_ = self.structure
        if self.structure == "auto":
            if self.n_rows_ < ROWS_PER_NOISE * counts.sigmas[1] or not counts.layout.pairs:
                self.structure_ = "independent"
            else:
                many = self.n_rows_ >= RAKED_ROWS and can_rake(counts.layout)
                self.structure_ = "raked" if many else "tree"
        self._quality: TableQuality | None = None
        return self

    def sample(self, n: int | None = None, random_state: RandomState = None) -> Any:
        """Draw synthetic rows; as many tables as wanted, at no further cost.

        Parameters
        ----------
        n : int or None, default=None
            Number of rows; None takes the noisy number of rows of the table, at most ten million.
        random_state : None, int or Generator, default=None
            Source of the choices. They protect nothing, so a seed does no harm.

        Returns
        -------
        frame or dict of str to ndarray
            Columns in the order of the schema, of types that follow from the schema alone; a frame of the
            kind that was fitted, if it was one.
        """
        check_is_fitted(self)
        check_parameter("n", n, (Whole(0), None))
        rng = generator(random_state)
        n_rows = min(self.n_rows_, MOST_ROWS) if n is None else int(n)
        cells, classes = draw_cells(self._repaired, self.structure_, n_rows, rng)
        bins = self.counts_.bins
        parsed = {
            column.name: column.draw(bins.spread(place, cells[place], rng), rng)
            for place, column in enumerate(self._plan.columns)
        }
        if self._plan.n_classes > 1 and self.schema.label is not None:
            parsed[self.schema.label.name] = classes
        return frame_of(self.schema.show(parsed), getattr(self, "_kind", ""))

    @property
    def quality_(self) -> TableQuality:
        """How close synthetic rows come to the noisy counts, and how close those are to the table."""
        check_is_fitted(self)
        if self._quality is None:
            n = min(max(self.n_rows_, 1), JUDGED_ROWS)
            cells, classes = draw_cells(self._repaired, self.structure_, n, np.random.default_rng(0))
            self._quality = judge_rows(self._repaired, self.counts_, self.structure_, cells, classes)
        return self._quality

    @property
    def expected_errors_(self) -> dict[str, float]:
        """For each column the share of rows that noise is expected to leave in a wrong cell."""
        check_is_fitted(self)
        return expected_errors(self._repaired, self.counts_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "counts_")


# --- one table on its way to its counts -------------------------------------------------------------------


@dataclass(frozen=True)
class _Budget:
    mu: float | None
    change: float  # of one count, in rows: by what the unit of privacy changes it
    rows_per_person: int | None
    plan: CountingPlan
    guarantee: Guarantee

    def sigmas(self, layout: CountLayout, share: float) -> tuple[float, float]:
        """Return the deviations of the noise on single columns and on pairs, for a share of the budget."""
        noise = 0.0 if self.mu is None else self.change / self.mu
        single, pair = (noise * level for level in self.plan.levels(layout, share))
        if max(single, pair) > LARGEST_SIGMA:
            raise InvalidInputError("epsilon or delta is too small for exact noise")
        return single, pair


@dataclass(frozen=True)
class _CountedRows:
    """Parsed columns, and the class of every row that counts; -1 for the others."""

    parsed: dict[str, AnyArray]
    classes: Index

    def coder(self, columns: Sequence[ColumnCells], bins: Bins | None) -> Any:
        """Return what tells the cells of a slice of rows in a column."""

        def codes(place: int, rows: slice) -> Index:
            fine = columns[place].code(self.parsed[columns[place].name][rows])
            return fine if bins is None else bins.cells[place][fine]

        return codes


def _of_persons(person: Any, n: int, most: int, random_state: RandomState) -> Mask:
    """Choose at most so many rows of each person; rows of nobody are left out, whatever else there is."""
    known = known_persons(person, n)
    kept = np.zeros(n, dtype=np.bool_)
    rows = np.flatnonzero(known)
    if len(rows):
        names = column_array(person) if hasattr(person, "to_numpy") else person
        kept[rows[limit_rows(np.asarray(names, dtype=object)[rows], most, random_state)]] = True
    return kept


# --- what a model of synthetic rows is worth --------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """How often a model of synthetic rows, and their most frequent class alone, are right about other rows.

    Parameters
    ----------
    counts : ndarray of shape (4,)
        Rows about which neither, only the class, only the model, and both are right; noisy if ``sigma`` is
        not 0.
    sigma : float
        Standard deviation of the noise on each.
    guarantee : Guarantee or None
        What the look promises to the rows; None for public ones.
    """

    counts: Floats
    sigma: float
    guarantee: Guarantee | None

    @property
    def n_rows(self) -> float:
        """Number of rows, at least 1 where it is noisy."""
        return max(float(self.counts.sum()), 1.0 if self.sigma else 0.0)

    @property
    def accuracy(self) -> float:
        """Share of rows about which the model is right."""
        return float(np.clip(self.counts[[2, 3]].sum() / self.n_rows, 0.0, 1.0))

    @property
    def majority(self) -> float:
        """Share of rows of the class that is most frequent among synthetic rows."""
        return float(np.clip(self.counts[[1, 3]].sum() / self.n_rows, 0.0, 1.0))

    @property
    def error(self) -> float:
        """By how much noise moves either share: two standard deviations."""
        return 2.0 * math.sqrt(2.0) * self.sigma / self.n_rows

    @property
    def gain_interval(self) -> tuple[float, float]:
        """Where the gain lies in 95 of 100 cases: noise and the choice of the rows move it."""
        gain = float(self.counts[2] - self.counts[1]) / self.n_rows
        apart = float(np.maximum(self.counts[[1, 2]], 0.0).sum())
        reach = 1.96 * math.sqrt(2.0 * self.sigma**2 + apart) / self.n_rows
        return gain - reach, gain + reach


def try_rows(
    maker: TableSynthesizer,
    schema: Schema,
    made: Mapping[str, AnyArray],
    table: Any,
    epsilon: float | None,
    *,
    ledger: AnyLedger = None,
) -> Trial:
    """Train boosted trees on synthetic rows and count how often they are right about the rows of a table.

    Parameters
    ----------
    maker : TableSynthesizer
        What made the rows; a private look has its delta, neighbours and limit on the rows of a person.
    schema : Schema
        The contract of both tables, with a label of classes.
    made : dict of str to ndarray
        Synthetic rows.
    table : table
        Other rows; those without a declared label do not count.
    epsilon : float or None
        Privacy loss of the look for these rows; None looks at them as they are.
    ledger : Ledger, path or None, default=None
        Account that the look is entered in.

    Returns
    -------
    Trial
        The counts.
    """
    truth, known = schema.labels(table, strict=False)
    guesses, usual = _predictions(schema, made, table)
    answers = 2 * (guesses[known] == truth) + (usual == truth)
    if epsilon is None:
        return Trial(np.bincount(answers, minlength=4).astype(np.float64), 0.0, None)
    person = None if schema.person is None else schema.persons(table)[known]
    return count_answers(maker, answers, epsilon, person, ledger)


def count_answers(
    maker: TableSynthesizer, answers: Index, epsilon: float, person: Any = None, ledger: AnyLedger = None
) -> Trial:
    """Count answers from 0 to 3 with noise: one row more or less changes one count by one."""
    promise = maker.guarantee_
    look = TableSynthesizer(
        Schema([Field("answer", "integer", low=0, high=3, bins=(0.5, 1.5, 2.5))]),
        epsilon,
        (promise.person or promise.record)[1],
        neighbours=maker.neighbours,
        rows_per_person=promise.rows_per_person,
        ledger=ledger,
    )
    counts = look.count_tables({"answer": answers}, person=person)
    return Trial(counts.vector.astype(np.float64), counts.sigmas[0], counts.guarantee)


def _predictions(schema: Schema, made: Mapping[str, AnyArray], table: Any) -> tuple[AnyArray, Any]:
    """Predicted classes of a table's rows by boosted trees, and the most frequent class of the made rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = slice(0, TRIAL_ROWS)  # rows are drawn in no order
    y = schema.labels(made)[0][rows]
    names, counts = np.unique(y, return_counts=True)
    label = schema.label
    assert label is not None
    usual = names[np.argmax(counts)] if len(names) else label.show(np.zeros(1, dtype=np.intp))[0]
    X = _plain(schema, table)
    if len(names) < 2 or not len(X):
        return np.full(len(X), usual), usual
    # A class of one row cannot be divided between fitting and stopping.
    stopping: Any = "auto" if counts.min() > 1 else False
    few = [known.is_category and len(known.levels) <= MOST_LEVELS for known in schema.features]
    model = HistGradientBoostingClassifier(categorical_features=few, early_stopping=stopping, random_state=0)
    return model.fit(_plain(schema, made)[rows], y).predict(X), usual


def _plain(schema: Schema, table: Any) -> AnyArray:
    """Features as trees take them, a column each, NaN for no value."""
    parsed = schema.parse(table, strict=False)
    return np.column_stack(
        [
            np.where(parsed[known.name] < 0, np.nan, parsed[known.name])
            if known.is_category
            else parsed[known.name]
            for known in schema.features
        ]
    )
