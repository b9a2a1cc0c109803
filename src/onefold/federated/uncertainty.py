"""How sure a federation is: calibrated probabilities, prediction sets, and a flag for foreign queries.

Every site holds some rows back, measures them with the models (the global measures where models travel, its
own answers where queries do), and sends counts on a fixed grid: a :class:`Calibration`. Counts of sites are
added up, so a site that leaves takes its counts along.

What is promised, and when. Let a query come from site q with a probability proportional to n_q + 1 (n_q rows
held back), and let it be exchangeable with the rows that q held back. Then its prediction set covers the
right class with a probability of at least 1 - alpha, and it is flagged as foreign with a probability of at
most the stated rate. This is split conformal prediction over several sites. It needs no assumption on the
models and none on the distribution, but the models must not have seen the rows held back. Where the site that
queries come from is unknown, :func:`largest_p_values` assumes only that they come from one of the sites.
Probabilities carry no such promise: they are calibrated on average, on data like the rows held back.

Counts are functions of the raw rows held back. A guarantee of a private model does **not** cover them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.isotonic import IsotonicRegression

from onefold._base.arrays import Array, Floats, Index, Integers, Mask
from onefold._base.validation import Number, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.federated.rules import check_answers, check_truth

__all__ = [
    "Calibration",
    "LabelUncertainty",
    "Uncertainty",
    "calibrate",
    "largest_p_values",
    "merge",
]

RATE = Number(above=0, below=1)
NO_ROWS = "no labelled row has a class of the sites: nothing can be calibrated"


@dataclass(frozen=True, eq=False)
class Calibration:
    """Counts of rows held back, on a grid of K cells.

    Parameters
    ----------
    relative : ndarray of int of shape (C, K)
        Counts of the right class's measure relative to the nearest other class, by right class.
    relative_wrong : ndarray of int of shape (K,)
        Counts of the other classes' measures, relative to their nearest other class.
    typical : ndarray of int of shape (C, K)
        Counts of the right class's measure itself, by right class.
    nearest : ndarray of int of shape (K,)
        Counts of the smallest measure.
    n_owners : int
        Number of sites that counted.
    largest : float
        The maximum of the measure.
    unit : float
        For the distance, the length at the middle of the grid.

    See Also
    --------
    calibrate : Makes the counts of one site.
    merge : Adds the counts of sites up.

    Examples
    --------
    >>> calibrate([[0.1, 0.9], [0.8, 0.3]], [0, 1], largest=1.0, n_cells=10).n_rows
    2
    """

    relative: Integers
    relative_wrong: Integers
    typical: Integers
    nearest: Integers
    n_owners: int
    largest: float
    unit: float

    def __post_init__(self) -> None:
        n_classes, n_cells = self.relative.shape if self.relative.ndim == 2 else (0, 0)
        shapes = (self.typical.shape, self.relative_wrong.shape, self.nearest.shape)
        arrays = (self.relative, self.typical, self.relative_wrong, self.nearest)
        if 0 in (n_classes, n_cells) or shapes != ((n_classes, n_cells), (n_cells,), (n_cells,)):
            raise InvalidInputError("counts of a calibration must have the shapes (C, K) and (K,)")
        if not all(array.dtype.kind in "iu" and np.all(array >= 0) for array in arrays):
            raise InvalidInputError("counts of a calibration must be whole numbers of at least 0")
        totals = {int(array.sum()) for array in (self.relative, self.typical, self.nearest)}
        if totals != {self.n_rows} or int(self.relative_wrong.sum()) != self.n_rows * (n_classes - 1):
            raise InvalidInputError("counts of a calibration must all be of the same rows")
        check_parameter("n_owners", self.n_owners, Whole(1))
        if not 0 < self.unit < np.inf or not self.largest > 0:
            raise InvalidInputError("the unit and the maximum of a calibration must be positive")

    @property
    def n_rows(self) -> int:
        """Rows that were held back."""
        return int(self.nearest.sum())


def calibrate(
    measures: ArrayLike, truth: ArrayLike, *, largest: float, unit: float = 1.0, n_cells: int = 1000
) -> Calibration:
    """Count the rows that one site held back.

    Parameters
    ----------
    measures : array-like of shape (n, C)
        Measures of rows that no model has seen.
    truth : array-like of int of shape (n,)
        Column of the right class.
    largest : float
        The maximum of the measure, see :func:`onefold.models.maximum_of`.
    unit : float, default=1.0
        For the distance, a public length of the usual order; the same for all sites.
    n_cells : int, default=1000
        K, cells of the grid; the same for all sites. Fewer cells say less about single rows.

    Returns
    -------
    Calibration
        The counts.

    See Also
    --------
    merge : Adds the counts of sites up.
    Uncertainty : Uses the sum.

    Notes
    -----
    *Not private.* The counts are functions of raw rows: the guarantee of a model does not cover them.

    Examples
    --------
    >>> counts = calibrate([[0.1, 0.9], [0.8, 0.3]], [0, 1], largest=1.0, n_cells=10)
    >>> counts.nearest.tolist()  # the nearest class is at 0.1 and at 0.3
    [0, 1, 0, 1, 0, 0, 0, 0, 0, 0]
    """
    check_parameter("n_cells", n_cells, Whole(2))
    values = check_answers(measures, 2, largest)
    columns = check_truth(truth, *values.shape)
    n_rows, n_classes = values.shape
    cells = _cells_of(_relative_to_others(values), n_cells)
    right = cells[np.arange(n_rows), columns]
    wrong = np.ones(cells.shape, dtype=bool)
    wrong[np.arange(n_rows), columns] = False
    grid = _cells_of(_bounded_measures(values, largest, unit), n_cells)
    counts = functools.partial(np.bincount, minlength=n_cells)
    by_class = [columns == column for column in range(n_classes)]
    return Calibration(
        np.stack([counts(right[mine]) for mine in by_class]),
        counts(cells[wrong]),
        np.stack([counts(grid[mine, column]) for column, mine in enumerate(by_class)]),
        counts(grid.min(axis=1)),
        1,
        float(largest),
        float(unit),
    )


def merge(calibrations: Iterable[Calibration]) -> Calibration:
    """Add up the counts of several sites, in any order.

    Parameters
    ----------
    calibrations : iterable of Calibration
        Counts on the same grid, for the same classes and measure.

    Returns
    -------
    Calibration
        The sum.

    See Also
    --------
    calibrate : Makes the counts of one site.

    Examples
    --------
    >>> north = calibrate([[0.1, 0.9]], [0], largest=1.0, n_cells=10)
    >>> south = calibrate([[0.8, 0.3]], [1], largest=1.0, n_cells=10)
    >>> both = merge([north, south])
    >>> both.n_rows, both.n_owners
    (2, 2)
    """
    parts = list(calibrations)
    if not parts or len({(c.relative.shape, c.largest, c.unit) for c in parts}) > 1:
        raise InvalidInputError("sites must count on the same grid, for the same classes and measure")
    return Calibration(
        np.sum([c.relative for c in parts], axis=0),
        np.sum([c.relative_wrong for c in parts], axis=0),
        np.sum([c.typical for c in parts], axis=0),
        np.sum([c.nearest for c in parts], axis=0),
        sum(c.n_owners for c in parts),
        parts[0].largest,
        parts[0].unit,
    )


class Uncertainty:
    """Probabilities, prediction sets and a flag for foreign queries, from measures and a calibration.

    Parameters
    ----------
    calibration : Calibration
        The merged counts of all sites.

    See Also
    --------
    calibrate : Makes the counts of one site.
    merge : Adds the counts of sites up.
    largest_p_values : Needs no assumption on which site a query comes from.

    Notes
    -----
    *Guarantees.* :meth:`prediction_sets` and :meth:`is_foreign` keep the promise of this module.
    :meth:`probabilities` are calibrated on average only.

    References
    ----------
    V. Vovk, A. Gammerman and G. Shafer, "Algorithmic Learning in a Random World", Springer 2005.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 600)
    >>> measures = rng.uniform(0.1, 0.6, (600, 2))
    >>> measures[np.arange(600), truth] -= 0.1  # the right class tends to be closer
    >>> held_back = [calibrate(measures[i::3][:100], truth[i::3][:100], largest=1.0) for i in range(3)]
    >>> sure = Uncertainty(merge(held_back))
    >>> sets = sure.prediction_sets(measures[300:], alpha=0.2)
    >>> bool(np.mean(sets[np.arange(300), truth[300:]]) > 0.75)
    True
    """

    def __init__(self, calibration: Calibration) -> None:
        if not isinstance(calibration, Calibration):
            raise InvalidInputError("pass a Calibration: see calibrate and merge")
        self.calibration = calibration

    @classmethod
    def of(cls, measures: ArrayLike, labels: ArrayLike, classes: ArrayLike) -> Uncertainty:
        """Calibrate on labelled rows that the querier has, and that no site has fitted.

        Rows of a class that no site has are left out: no set could hold it. What is promised is then about
        queries of the other classes.

        Parameters
        ----------
        measures : array-like of shape (n, C)
            Combined measures of the rows.
        labels : array-like of shape (n,)
            Their classes.
        classes : array-like of shape (C,)
            Labels of the columns.

        Returns
        -------
        Uncertainty
            For queries that the same sites answer, combined by the same rule.
        """
        values = check_answers(measures, 2)
        known, columns = _columns_of(labels, classes, len(values))
        if not known.size:
            raise InvalidInputError(NO_ROWS)
        right = values[known, columns].astype(np.float64)
        usual = float(np.median(right[np.isfinite(right)])) if np.isfinite(right).any() else 1.0
        # Measures of every kind on the grid of distances; its unit follows from the querier's own rows.
        return cls(calibrate(values[known], columns, largest=np.inf, unit=usual if usual > 0 else 1.0))

    @functools.cached_property
    def _share(self) -> Floats:
        """Share of right classes in each cell: the farther, the less likely, so a decreasing curve."""
        right, wrong = self.calibration.relative.sum(axis=0), self.calibration.relative_wrong
        total = right + wrong
        model = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=False, out_of_bounds="clip")
        used = np.flatnonzero(total)
        curve = model.fit(used, right[used] / total[used], sample_weight=total[used])
        share = curve.predict(np.arange(total.size))
        # Finitely many rows make nothing certain: at most as sure as one exception among them would allow.
        lowest, highest = 1.0 / (int(wrong.sum()) + 2), 1.0 - 1.0 / (int(right.sum()) + 2)
        return np.asarray(np.clip(share, lowest, highest))

    def probabilities(self, measures: ArrayLike) -> Array:
        """Return the probability of each class for each query; rows add up to one.

        Parameters
        ----------
        measures : array-like of shape (n, C)
            Combined measures of queries.

        Returns
        -------
        ndarray of shape (n, C)
            The probabilities.
        """
        values = self._check(measures)
        relative = _relative_to_others(values)
        # Within a step of the curve the nearer class still comes first, by next to nothing.
        weights = self._share[_cells_of(relative, self._share.size)] * (1.0 - 1e-6 * relative)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def p_values(self, measures: ArrayLike, conditional: bool = False) -> Array:
        """Return how unusual each class would be as the right one, from nearly 0 to 1.

        Parameters
        ----------
        measures : array-like of shape (n, C)
            Combined measures of queries.
        conditional : bool, default=False
            Compare with rows of the class itself only: the promise then holds for each class by itself, and
            the sets are larger.

        Returns
        -------
        ndarray of shape (n, C)
            The p-values.
        """
        values = self._check(measures)
        table = self.calibration.relative
        cells = _cells_of(_relative_to_others(values), table.shape[1])
        if conditional:
            at_least = _counts_from(table)
            found = [self._p(far[cells[:, c]], table[c]) for c, far in enumerate(at_least)]
            return np.stack(found, axis=1)
        return self._p(_counts_from(table.sum(axis=0))[cells], table)

    def prediction_sets(self, measures: ArrayLike, alpha: float = 0.1, conditional: bool = False) -> Mask:
        """Return the classes that cannot be ruled out: the right one is in with probability >= 1 - alpha.

        Parameters
        ----------
        measures : array-like of shape (n, C)
            Combined measures of queries.
        alpha : float, default=0.1
            Largest probability with which the right class may be missing.
        conditional : bool, default=False
            As in :meth:`p_values`.

        Returns
        -------
        ndarray of bool of shape (n, C)
            Whether each class is in the set.
        """
        check_parameter("alpha", alpha, RATE)
        return np.asarray(self.p_values(measures, conditional) > alpha)

    def foreign_p_values(self, measures: ArrayLike) -> Array:
        """Return how unusual the distance to the nearest class is: small for queries unlike any seen.

        Parameters
        ----------
        measures : array-like of shape (n, C)
            Combined measures of queries.

        Returns
        -------
        ndarray of shape (n,)
            The p-values.
        """
        values = self._check(measures)
        table = self.calibration.nearest
        grid = _bounded_measures(values, self.calibration.largest, self.calibration.unit).min(axis=1)
        return self._p(_counts_from(table)[_cells_of(grid, table.size)], table)

    def is_foreign(self, measures: ArrayLike, false_alarm: float = 0.01) -> Mask:
        """Return whether a query is farther from all classes than nearly all rows held back.

        Parameters
        ----------
        measures : array-like of shape (n, C)
            Combined measures of queries.
        false_alarm : float, default=0.01
            Largest probability with which a query like the rows held back is flagged.

        Returns
        -------
        ndarray of bool of shape (n,)
            Whether each query is flagged.
        """
        check_parameter("false_alarm", false_alarm, RATE)
        smallest = self.calibration.n_owners / (self.calibration.n_rows + self.calibration.n_owners)
        if false_alarm < smallest:
            raise InvalidInputError(
                f"with so few rows held back no rate below {smallest:.2g} can be promised: hold back more"
            )
        return np.asarray(self.foreign_p_values(measures) <= false_alarm)

    def _p(self, at_least: Integers, table: Integers) -> Array:
        """(1 + rows at least as far) / (1 + rows), with a one for each site: see the module's promise."""
        extra = self.calibration.n_owners
        return np.asarray((at_least + extra) / (int(table.sum()) + extra))

    def _check(self, measures: ArrayLike) -> Array:
        values = check_answers(measures, 2, self.calibration.largest)
        if values.shape[1] != len(self.calibration.relative):
            raise InvalidInputError("measures must have one column per class of the calibration")
        return values


class LabelUncertainty:
    """Probabilities and prediction sets where nothing but the predicted class is known: encrypted answers.

    Parameters
    ----------
    predicted : array-like of shape (n,)
        Predicted classes of labelled rows that no site has fitted.
    labels : array-like of shape (n,)
        Their classes; rows of a class that no site has are left out.
    classes : array-like of shape (C,)
        All classes.

    See Also
    --------
    Uncertainty : Uses the measures, and says more.

    Notes
    -----
    A probability is the share of a class among the labelled rows with the same prediction, shrunk by two
    rows' weight towards the common accuracy: equal for all queries with one prediction. Sets are those of
    split conformal prediction: the shares come from every other labelled row, the p-values from the rest.

    *Guarantees.* :meth:`prediction_sets` have the right class with a probability of at least 1 - alpha for a
    query that is exchangeable with the labelled rows.

    Examples
    --------
    >>> answers, labels = ["a"] * 40 + ["b"] * 40, ["a"] * 38 + ["b"] * 42
    >>> sure = LabelUncertainty(answers, labels, ["a", "b", "c"])
    >>> sure.probabilities(["a", "b"]).round(2).tolist()
    [[0.95, 0.05, 0.0], [0.0, 1.0, 0.0]]
    >>> sure.prediction_sets(["b"], alpha=0.1).tolist()
    [[False, True, False]]
    """

    def __init__(self, predicted: ArrayLike, labels: ArrayLike, classes: ArrayLike) -> None:
        self.classes = np.asarray(classes)
        known, columns = _columns_of(labels, classes, len(np.asarray(predicted)))
        if not known.size:
            raise InvalidInputError(NO_ROWS)
        answers = self._answers(np.asarray(predicted)[known])
        self.n_rows = len(columns)
        self._shares = self._shares_of(answers, columns)
        first = np.arange(self.n_rows) % 2 == 0
        self._half = self._shares_of(answers[first], columns[first])
        self._scores = np.sort(self._half[answers[~first], columns[~first]])

    def probabilities(self, predicted: ArrayLike) -> Array:
        """Return the probability of each class for each query; rows add up to one.

        Parameters
        ----------
        predicted : array-like of shape (n,)
            Predicted classes of queries.

        Returns
        -------
        ndarray of shape (n, C)
            The probabilities; the largest need not be that of the predicted class.
        """
        return np.asarray(self._shares[self._answers(predicted)])

    def prediction_sets(self, predicted: ArrayLike, alpha: float = 0.1) -> Mask:
        """Return the classes that cannot be ruled out: the right one is in with probability >= 1 - alpha.

        Parameters
        ----------
        predicted : array-like of shape (n,)
            Predicted classes of queries.
        alpha : float, default=0.1
            Largest probability with which the right class may be missing.

        Returns
        -------
        ndarray of bool of shape (n, C)
            Whether each class is in the set.
        """
        check_parameter("alpha", alpha, RATE)
        shares = self._half[self._answers(predicted)]
        as_rare = np.searchsorted(self._scores, shares, side="right")
        return np.asarray((as_rare + 1) / (len(self._scores) + 1) > alpha)

    def _answers(self, predicted: ArrayLike) -> Index:
        known, columns = _columns_of(predicted, self.classes, len(np.asarray(predicted)))
        if len(known) != len(np.asarray(predicted)):
            raise InvalidInputError("a predicted class is not among the classes")
        return columns

    def _shares_of(self, answers: Index, columns: Index) -> Floats:
        n_classes = len(self.classes)
        counts = np.zeros((n_classes, n_classes))
        np.add.at(counts, (answers, columns), 1.0)
        accuracy = (np.trace(counts) + 1.0) / (counts.sum() + 2.0)
        common = np.full((n_classes, n_classes), (1.0 - accuracy) / max(n_classes - 1, 1))
        np.fill_diagonal(common, accuracy if n_classes > 1 else 1.0)
        return np.asarray((counts + 2.0 * common) / (counts.sum(axis=1, keepdims=True) + 2.0))


def _columns_of(labels: ArrayLike, classes: ArrayLike, n_rows: int) -> tuple[Index, Index]:
    """Rows whose class is among the classes, and the columns of these classes."""
    found, known = np.asarray(labels), np.asarray(classes)
    if found.shape != (n_rows,) or known.ndim != 1:
        raise InvalidInputError("labels must be one class for each row")
    if found.dtype.kind != known.dtype.kind:
        found, known = found.astype(str), known.astype(str)
    order = np.argsort(known, kind="stable")
    place = np.minimum(np.searchsorted(known[order], found), len(known) - 1)
    rows = np.flatnonzero(known[order][place] == found)
    return rows, order[place[rows]]


def largest_p_values(calibrations: Mapping[Any, Calibration], answers: Mapping[Any, ArrayLike]) -> Array:
    """Return how unusual each class would be, for queries from one of the sites, whichever it is.

    Each site decides by its own answers and its own rows of the class; the largest value counts. If the query
    comes from any one of them and is exchangeable with the rows of its class that this site held back, the
    sets ``largest_p_values(...) > alpha`` have the right class with probability 1 - alpha or more. One liar
    can enlarge the sets, never make them miss more.

    Parameters
    ----------
    calibrations : mapping of site to Calibration
        Counts of each site, on its own answers.
    answers : mapping of site to array-like of shape (n, C)
        Answers of each site, in the same columns; sites without a calibration have no say.

    Returns
    -------
    ndarray of shape (n, C)
        The p-values.

    See Also
    --------
    Uncertainty.p_values : Assumes that queries come from sites in proportion to the rows they held back.

    Examples
    --------
    >>> measures = [[0.1, 0.9], [0.2, 0.8], [0.8, 0.3], [0.9, 0.2]]
    >>> north = calibrate(measures, [0, 0, 1, 1], largest=1.0, n_cells=10)
    >>> found = largest_p_values({"north": north}, {"north": [[0.15, 0.95]]})
    >>> found.round(2).tolist()  # two rows of class 0 are as far, none of class 1 is
    [[1.0, 0.33]]
    """
    found: Array | None = None
    for site, calibration in calibrations.items():
        if site not in answers:
            continue
        values = check_answers(answers[site], 2, calibration.largest)
        table = calibration.typical
        if values.shape[1] != len(table) or (found is not None and found.shape != values.shape):
            raise InvalidInputError("sites must answer the same queries in the same columns")
        cells = _cells_of(_bounded_measures(values, calibration.largest, calibration.unit), table.shape[1])
        n_rows = table.sum(axis=1)
        at_least = np.take_along_axis(_counts_from(table).T, cells, axis=0)
        # A site without rows of a class has seen nothing that could be more unusual: it has no say.
        mine = np.where(n_rows > 0, (at_least + 1) / (n_rows + 1), 0.0)
        found = mine if found is None else np.maximum(found, mine)
    if found is None:
        raise InvalidInputError("no site has both a calibration and answers")
    return found


# --- measures on a grid of equal cells between 0 and 1 -----------------------------------------------------


def _relative_to_others(values: Array) -> Array:
    """Each class's measure relative to the nearest other class: m / (m + other), 0 for near, 1 for far."""
    if values.shape[1] < 2:
        return np.zeros(values.shape)
    exact = values.astype(np.float64)
    order = np.sort(exact, axis=1)
    first, second = order[:, :1], order[:, 1:2]
    other = np.where(np.arange(values.shape[1]) == exact.argmin(axis=1)[:, None], second, first)
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = exact / (exact + other)
    # Infinitely far is far, unless all are; two that are at no distance are equally near.
    ratio = np.where(np.isinf(exact), np.where(np.isinf(other), 0.5, 1.0), ratio)
    return np.where((exact == 0) & (other == 0), 0.5, ratio)


def _bounded_measures(values: Array, largest: float, unit: float) -> Array:
    """Measures on a scale from 0 to 1."""
    exact = values.astype(np.float64)
    if np.isfinite(largest):
        return np.asarray(exact / largest)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isinf(exact), 1.0, exact / (exact + unit))


def _cells_of(fractions: Array, n_cells: int) -> Index:
    """Number of the cell each fraction falls into; what is not known counts as far."""
    return np.minimum((np.nan_to_num(fractions, nan=1.0) * n_cells).astype(np.intp), n_cells - 1)


def _counts_from(table: Integers) -> Integers:
    """Rows in each cell or a farther one."""
    return np.asarray(np.cumsum(table[..., ::-1], axis=-1)[..., ::-1])
