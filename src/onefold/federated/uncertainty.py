"""How sure a federation is: calibrated probabilities, prediction sets, and a flag for foreign queries.

A querier has some labelled rows that no site has fitted. What the sites answer about them is counted on a
grid, and compared with what they answer about queries.

What is promised, and when. Let a query be exchangeable with the labelled rows. Then its prediction set covers
the right class with a probability of at least 1 - alpha, and it is flagged as foreign with a probability of
at most the stated rate. This is split conformal prediction. It needs no assumption on the models and none on
the distribution, but the models must not have seen the labelled rows. Probabilities carry no such promise:
they are calibrated on average, on data like the labelled rows.

Counts are functions of the raw labelled rows. A guarantee of a private model does **not** cover them.
"""

import functools

import numpy as np
from numpy.typing import ArrayLike
from sklearn.isotonic import IsotonicRegression

from onefold._base.arrays import Array, Floats, Index, Integers, Mask
from onefold._base.validation import Number, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.federated.rules import check_answers

__all__ = ["LabelUncertainty", "Uncertainty"]

RATE = Number(above=0, below=1)
NO_ROWS = "no labelled row has a class of the sites: nothing can be calibrated"
N_CELLS = 1000  # of the grid


class Uncertainty:
    """Probabilities, prediction sets and a flag for foreign queries, from combined measures.

    Rows of a class that no site has are left out: no set could hold it. What is promised is then about
    queries of the other classes, which the same sites answer, combined by the same rule.

    Parameters
    ----------
    measures : array-like of shape (n, C)
        Combined measures of labelled rows that no site has fitted.
    labels : array-like of shape (n,)
        Their classes.
    classes : array-like of shape (C,)
        Labels of the columns.

    Attributes
    ----------
    n_rows : int
        Labelled rows that count.

    See Also
    --------
    LabelUncertainty : Where only the predicted class is known.

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
    >>> sure = Uncertainty(measures[:300], truth[:300], [0, 1])
    >>> sets = sure.prediction_sets(measures[300:], alpha=0.2)
    >>> bool(np.mean(sets[np.arange(300), truth[300:]]) > 0.7)
    True
    """

    def __init__(self, measures: ArrayLike, labels: ArrayLike, classes: ArrayLike) -> None:
        given = check_answers(measures, 2)
        known, columns = _columns_of(labels, classes, len(given))
        if not known.size:
            raise InvalidInputError(NO_ROWS)
        values = given[known]
        self.n_rows, self.n_classes = values.shape
        is_right = np.arange(self.n_classes) == columns[:, None]
        right = values[is_right].astype(np.float64)
        usual = float(np.median(right[np.isfinite(right)])) if np.isfinite(right).any() else 1.0
        # Measures of every kind on the grid of distances; its unit follows from the querier's own rows.
        self._unit = usual if usual > 0 else 1.0
        cells = _cells_of(_relative_to_others(values))
        mine = cells[is_right]
        self._right = np.stack([_counts(mine[columns == column]) for column in range(self.n_classes)])
        self._wrong = _counts(cells[~is_right])
        self._nearest = _counts(self._nearest_cells(values))

    @functools.cached_property
    def _share(self) -> Floats:
        """Share of right classes in each cell: the farther, the less likely, so a decreasing curve."""
        right, wrong = self._right.sum(axis=0), self._wrong
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
        weights = self._share[_cells_of(relative)] * (1.0 - 1e-6 * relative)
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
        cells = _cells_of(_relative_to_others(values))
        if conditional:
            return np.stack([_p(cells[:, c], counts) for c, counts in enumerate(self._right)], axis=1)
        return _p(cells, self._right.sum(axis=0))

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
        return _p(self._nearest_cells(self._check(measures)), self._nearest)

    def is_foreign(self, measures: ArrayLike, false_alarm: float = 0.01) -> Mask:
        """Return whether a query is farther from all classes than nearly all labelled rows.

        Parameters
        ----------
        measures : array-like of shape (n, C)
            Combined measures of queries.
        false_alarm : float, default=0.01
            Largest probability with which a query like the labelled rows is flagged.

        Returns
        -------
        ndarray of bool of shape (n,)
            Whether each query is flagged.
        """
        check_parameter("false_alarm", false_alarm, RATE)
        smallest = 1.0 / (self.n_rows + 1)
        if false_alarm < smallest:
            raise InvalidInputError(
                f"with so few labelled rows no rate below {smallest:.2g} can be promised: give more"
            )
        return np.asarray(self.foreign_p_values(measures) <= false_alarm)

    def _nearest_cells(self, values: Array) -> Index:
        """Cell of each row's smallest measure, on a scale from 0 to 1."""
        exact = values.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = np.where(np.isinf(exact), 1.0, exact / (exact + self._unit))
        return _cells_of(scaled.min(axis=1))

    def _check(self, measures: ArrayLike) -> Array:
        values = check_answers(measures, 2)
        if values.shape[1] != self.n_classes:
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


def _cells_of(fractions: Array) -> Index:
    """Number of the cell each fraction falls into; what is not known counts as far."""
    return np.minimum((np.nan_to_num(fractions, nan=1.0) * N_CELLS).astype(np.intp), N_CELLS - 1)


def _counts(cells: Index) -> Integers:
    return np.bincount(cells.ravel(), minlength=N_CELLS)


def _p(cells: Index, counts: Integers) -> Array:
    """(1 + rows at least as far) / (1 + rows), of the rows that were counted."""
    at_least = np.cumsum(counts[::-1])[::-1]
    return np.asarray((at_least[cells] + 1) / (int(counts.sum()) + 1))
