"""A discriminative head for tables: ridge regression of the classes on similarities to landmark rows.

A hull says how well a row fits into a class, not what tells the classes apart. The head learns that from
sums over rows, in closed form. A row x is described by its similarities k(x, z) to at most 1500 landmark
rows z of the table. The similarity is the mean of three kernels, each brought to the same spread:

* exp(-D/l) with D the weighted sum over columns of differences in rank: thresholds in single columns and
  their interplay, whatever the unit or the tail of a column;
* exp(-g |x - z|^2) on standardised columns: smooth boundaries in all columns together;
* 1 - D/max D, which is a sum over columns: effects of single columns, learned from all rows.

Columns weigh by the share of the variance of the classes that they explain alone, and never nothing.

Given these constants, everything that is learned is a sum over rows (:class:`HeadSums`), so rows may be
added in any order and at any place. The penalty is the one with the smallest leave-one-out error, which a
ridge has in closed form: the error of a row divided by one minus its leverage. Where rows belong together,
as those of a person do, whole folds of them are left out instead, and the sums of the others are added up.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from onefold._base.arrays import Array, Floats, Index, Integers, Mask, sizes_of
from onefold._base.linalg import cholesky, product, symmetric_product, triangular_solve
from onefold._base.stored import Stored
from onefold.exceptions import InvalidInputError
from onefold.models.probability import confusion_of, log_loss, performance, softmax, with_doubt

__all__ = ["EncodedColumns", "HeadSums", "TableHead"]

LANDMARKS = 1500
LEFT_OUT = 2000  # rows of which the leave-one-out error is computed
SEED = 20260101  # of the choice of landmarks, the same for everyone
BINS = 12  # of a number, when it is asked what it explains
FLOOR = 0.3  # weight of a column that explains nothing alone
KNOTS = 400  # ranks are interpolated between so many values
FARTHEST = 4.0  # standard deviations; an outlier is not farther from everything than this
# Length of the first kernel in roots of the number of columns, and sharpness of the second over that number.
SHAPES = ((1.5, 0.3), (0.7, 2.0))
CHOOSING = 1000  # rows on which the shape is chosen
WORTH = 0.99  # a choice other than the first must lower the error to this part of it
JITTER = 1e-6  # of the landmarks' own similarities: equal landmarks must not matter
PENALTIES = 10.0 ** np.arange(-4.0, 2.25, 0.5)
FIRST_PENALTY = 6  # 0.1
# What temperatures may be: at least one of two is not zero, so that probabilities keep the order of scores.
LINEAR = (0.5, *(2.0 ** np.arange(0.0, 5.6, 0.5)).tolist())
POWERS = (0.0, *(2.0 ** np.arange(-3.0, 3.1, 0.5)).tolist())
BLOCK = 256  # rows whose similarities are computed at a time: they stay in the cache


@dataclass(frozen=True)
class EncodedColumns:
    """Which encoded columns belong to the same column of the table, and which of them hold numbers.

    Parameters
    ----------
    column : ndarray of int of shape (width,)
        Number of the table's column that each encoded column is part of.
    is_number : ndarray of bool of shape (width,)
        Whether an encoded column holds a number; the others say whether something is so.
    absent : ndarray of int of shape (width,)
        For a number, the encoded column that says it is missing; -1 if there is none.
    """

    column: Index
    is_number: Mask
    absent: Index

    def __post_init__(self) -> None:
        """Refuse what no table has, as in a foreign file."""
        width = sizes_of(self, column="w", is_number="w", absent="w")["w"]
        numbers = np.concatenate([self.column, self.absent + 1])
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) > width:
            raise InvalidInputError("the columns do not fit each other")

    @classmethod
    def of(cls, schema: Any, width: int) -> EncodedColumns:
        """Describe the rows that a schema encodes.

        Parameters
        ----------
        schema : Schema
            The contract of the table; one without columns leaves numbers as they are.
        width : int
            Number of encoded columns.

        Returns
        -------
        EncodedColumns
            Its columns.
        """
        if schema.plain:
            return cls(np.arange(width), np.ones(width, dtype=np.bool_), np.full(width, -1))
        column: list[int] = []
        is_number: list[bool] = []
        absent: list[int] = []
        for known in schema.features:
            start, place = len(column), column[-1] + 1 if column else 0
            if known.encoder is not None:  # each number of a vector is a column, and so is that it is missing
                count = known.encoder.width
                column += range(place, place + known.width)
                is_number += [True] * count + [False] * known.nullable
                absent += [start + count if known.nullable else -1] * count + [-1] * known.nullable
                continue
            column += [place] * known.width
            is_number += [not known.is_category] + [False] * (known.width - 1)
            nullable = not known.is_category and known.nullable
            absent += [start + 1 if nullable else -1] + [-1] * (known.width - 1)
        return cls(np.array(column), np.array(is_number, dtype=np.bool_), np.array(absent))

    def _same_as(self, other: EncodedColumns) -> bool:
        """Whether the other one says the same."""
        return all(np.array_equal(value, getattr(other, name)) for name, value in vars(self).items())

    @property
    def n_columns(self) -> int:
        """Number of columns of the table."""
        return int(self.column.max(initial=-1)) + 1


@dataclass(frozen=True)
class HeadSums:
    """What a head learns from rows: sums over them, which add up over parts of a table.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Rows of each class.
    sums : ndarray of shape (n_features, n_classes)
        Sum of the features over the rows of each class.
    products : ndarray of shape (n_features, n_features)
        Sum of the products of all pairs of features; the lower triangle.
    """

    counts: Floats
    sums: Floats
    products: Floats

    def __add__(self, other: HeadSums) -> HeadSums:
        """Sums over the rows of both."""
        return HeadSums(self.counts + other.counts, self.sums + other.sums, self.products + other.products)


@dataclass(eq=False, repr=False)
class TableHead(Stored):
    """Ridge regression of the classes on similarities to landmark rows.

    Parameters
    ----------
    columns : EncodedColumns
        What the encoded columns are.

    Attributes
    ----------
    penalty_ : float
        The penalty with the smallest leave-one-out error.
    error_ : float
        That error: the mean over rows of the squared distance of their scores to their class.
    left_out_ : ndarray of shape (n_left_out, n_classes)
        Scores of rows by the head without them; not kept in files.
    left_out_rows_ : ndarray of int of shape (n_left_out,)
        Which rows these are: all, or 2000 of them; not kept in files.
    confusion_ : ndarray of int of shape (n_classes, n_classes)
        Counts of these rows: true classes by those of the largest score.
    temperatures_ : ndarray of shape (2,)
        Two numbers a and b: the probability of a class is proportional to exp(a s) s^b of its score s.

    See Also
    --------
    onefold.AutoencoderClassifier : Has a head where it is given a schema.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold.models.head import EncodedColumns, TableHead
    >>> from onefold.tables.schema import AS_THEY_STAND
    >>> X, y = load_iris(return_X_y=True)
    >>> head = TableHead(EncodedColumns.of(AS_THEY_STAND, 4)).fit(X, y, 3)
    >>> bool((head.scores(X).argmax(axis=1) == y).mean() > 0.95)
    True
    """

    columns: EncodedColumns

    # --- constants: found once, before the sums ----------------------------------------------------------

    def fit(
        self,
        rows: Array,
        codes: Index,
        n_classes: int,
        extra: Floats | None = None,
        folds: Index | None = None,
    ) -> TableHead:
        """Learn from encoded rows and the numbers of their classes.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, width)
            Encoded rows.
        codes : ndarray of int of shape (n_rows,)
            Number of each row's class.
        n_classes : int
            How many classes there are.
        extra : ndarray of shape (n_rows, n_classes) or None, default=None
            How far each row is from each class, found without the row; not used where it does not help.
        folds : ndarray of int of shape (n_rows,) or None, default=None
            Rows with one number are left out together, where errors are estimated; None leaves out single
            rows.

        Returns
        -------
        TableHead
            The fitted head itself.
        """
        if rows.shape[1] != len(self.columns.column):
            raise InvalidInputError(f"expected {len(self.columns.column)} encoded columns")
        some = _drawn(len(rows), CHOOSING)

        def trial(shape: Sequence[float], given: Floats | None = None) -> TableHead:
            own, apart = None if given is None else given[some], None if folds is None else folds[some]
            return TableHead(self.columns)._learn(rows[some], codes[some], n_classes, own, shape, apart)

        best = trial(SHAPES[0])
        for shape in SHAPES[1:]:
            best = _better(trial(shape), best)
        shape = best.shape_.tolist()
        if extra is not None:
            other = trial(shape, extra)
            best = _better(other, best) if other.prefers_near else best
        if len(some) == len(rows):
            vars(self).update(vars(best))
            return self
        if best.takes_extra and self._learn(rows, codes, n_classes, extra, shape, folds).prefers_near:
            return self
        return self._learn(rows, codes, n_classes, None, shape, folds)

    def _learn(
        self,
        rows: Array,
        codes: Index,
        n_classes: int,
        extra: Floats | None,
        shape: Sequence[float],
        folds: Index | None,
    ) -> TableHead:
        self.shape_ = np.array(shape)
        self._find_ranks(rows)
        self._find_weights(rows, codes, n_classes)
        self._find_kernels(rows[_drawn(len(rows), LANDMARKS)])
        self._find_extra(extra)
        numbers = np.unique(np.zeros(len(rows)) if folds is None else folds)
        parts = [
            self.sums(rows[mine], codes[mine], n_classes, None if extra is None else extra[mine])
            for mine in (slice(None) if folds is None else folds == number for number in numbers)
        ]
        left_out = _drawn(len(rows), LEFT_OUT)
        apart = [] if folds is None else [folds[left_out] == number for number in numbers]
        self._solve(parts, rows, codes, extra, left_out, apart)
        return self

    @property
    def takes_extra(self) -> bool:
        """Whether further features are needed at a query."""
        return len(self.extra_centre_) > 0

    @property
    def prefers_near(self) -> bool:
        """Whether a row counts more for a class the nearer it is, by the further features.

        A distance that was found without the row is larger for the row's own class than for the others.
        Where a ridge tells rows apart anyway, it may learn just this: that the farthest class is the right
        one. Its leave-one-out error is then small and its answers are wrong.
        """
        own = self.solution_[len(self.landmarks_) :]
        return bool(np.trace(own) / len(own) < own.mean())

    def _find_ranks(self, rows: Array) -> None:
        """Knots of the rank of each number, and its mean and deviation; nothing here sees a class."""
        values, ranks, starts = [], [], [0]
        width = rows.shape[1]
        self.centre_, self.spread_ = np.zeros(width), np.ones(width)
        for column in np.flatnonzero(self.columns.is_number).tolist():
            present = rows[~self._absent(rows, column), column].astype(np.float64)
            known, counts = np.unique(present, return_counts=True)
            middle = (np.cumsum(counts) - 0.5 * counts) / max(len(present), 1)
            if len(known) > KNOTS:
                kept = np.unique(np.searchsorted(middle, np.linspace(0.0, middle[-1], KNOTS)))
                known, middle = known[kept], middle[kept]
            values.append(known)
            ranks.append(middle)
            starts.append(starts[-1] + len(known))
            if len(known) > 1:
                self.centre_[column], self.spread_[column] = present.mean(), present.std()
        self.knots_ = np.concatenate([*values, np.empty(0)])
        self.knot_ranks_ = np.concatenate([*ranks, np.empty(0)])
        self.knot_starts_ = np.array(starts, dtype=np.int64)

    def _absent(self, rows: Array, column: int) -> Mask:
        told_by = self.columns.absent[column]
        return np.zeros(len(rows), dtype=np.bool_) if told_by < 0 else rows[:, told_by] > 0

    def _views(self, rows: Array) -> tuple[Floats, Floats]:
        """Rows with ranks for numbers, and with standardised numbers; everything else 0 or 1 in both."""
        ranked = (rows > 0).astype(np.float64)
        standard = ranked.copy()
        for place, column in enumerate(np.flatnonzero(self.columns.is_number).tolist()):
            part = slice(*self.knot_starts_[place : place + 2])
            absent = self._absent(rows, column)
            if part.stop > part.start:
                ranked[:, column] = np.interp(rows[:, column], self.knots_[part], self.knot_ranks_[part])
            scaled = (rows[:, column] - self.centre_[column]) / self.spread_[column]
            standard[:, column] = np.clip(scaled, -FARTHEST, FARTHEST)
            ranked[absent, column], standard[absent, column] = 0.5, 0.0
        return ranked, standard

    def _find_weights(self, rows: Array, codes: Index, n_classes: int) -> None:
        """Weigh columns by the share of the variance of the classes that their bins explain, less chance."""
        ranked, _ = self._views(rows)
        n_rows, columns = len(rows), self.columns
        shares = np.zeros(columns.n_columns)
        frequencies = np.bincount(codes, minlength=n_classes) / n_rows
        total = n_rows * (1.0 - (frequencies**2).sum())
        for place in range(columns.n_columns):
            own = np.flatnonzero(columns.column == place)
            on = ranked[:, own[columns.is_number[own].sum() :]]  # what is said beside the number
            bins = np.where(on.max(axis=1, initial=0.0) > 0, 1 + on.argmax(axis=1) if on.size else 0, 0)
            if columns.is_number[own[0]]:
                bins = bins * BINS + np.minimum((ranked[:, own[0]] * BINS).astype(np.intp), BINS - 1)
            table = np.bincount(bins * n_classes + codes, minlength=(int(bins.max()) + 1) * n_classes)
            table = table.reshape(-1, n_classes).astype(np.float64)
            table = table[table.any(axis=1)]
            explained = (table**2 / table.sum(axis=1, keepdims=True)).sum() - n_rows * (frequencies**2).sum()
            if total > 0.0:
                shares[place] = max(explained / total - (len(table) - 1) / max(n_rows - 1, 1), 0.0)
        relative = shares / shares.mean() if shares.sum() > 0.0 else np.ones_like(shares)
        weights = (FLOOR + (1.0 - FLOOR) * relative)[columns.column]
        # Two categories differ in two encoded columns.
        is_category = ~np.isin(columns.column, columns.column[columns.is_number])
        self.weights_ = np.where(is_category, 0.5 * weights, weights)

    def _find_kernels(self, landmarks: Array) -> None:
        """Landmarks, the factor of their own similarities, and the share of each kernel."""
        self.landmarks_ = np.ascontiguousarray(landmarks, dtype=np.float64)
        self.shares_ = np.ones(3)
        self._prepare()
        spreads = [np.diag(part).mean() - part.mean() for part in self._kernels(self.landmarks_)]
        self.shares_ = np.array([1.0 / spread if spread > 1e-9 else 1.0 for spread in spreads]) / 3.0
        own, jitter = self._similarities(self.landmarks_), JITTER
        while True:
            self._factor = np.array(own, order="F")
            self._factor[np.diag_indices_from(own)] += jitter * np.trace(own) / len(own)
            if cholesky(self._factor):
                break
            jitter *= 10.0  # kernels are of single precision: the rounding errors of many equal rows add up

    def _prepare(self) -> None:
        """What is needed of the landmarks at every query."""
        ranked, standard = self._views(self.landmarks_)
        number, weights = self.columns.is_number, self.weights_
        self._numbers = np.flatnonzero(number)
        self._rank_columns = np.ascontiguousarray(ranked[:, number].T, dtype=np.float32)
        self._flags = ranked[:, ~number]
        self._flag_sums = self._flags @ weights[~number]
        self._standard = standard * np.sqrt(weights)
        self._squares = (self._standard**2).sum(axis=1)
        n_columns = max(self.columns.n_columns, 1)
        self._length = float(self.shape_[0]) * math.sqrt(n_columns)
        self._sharpness = float(self.shape_[1]) / n_columns
        by_column = np.zeros(n_columns)
        np.maximum.at(by_column, self.columns.column, weights)
        is_category = ~np.isin(self.columns.column, self.columns.column[number])
        self._widest = float(weights[number].sum() + weights[~number & ~is_category].sum())
        categories = np.unique(self.columns.column[is_category])
        self._widest += float(2.0 * by_column[categories].sum())

    # --- similarities ------------------------------------------------------------------------------------

    def _kernels(self, rows: Array) -> tuple[Floats, Floats, Floats]:
        """The three similarities of a few rows to every landmark."""
        ranked, standard = self._views(rows)
        number, weights = self.columns.is_number, self.weights_
        flags = ranked[:, ~number] * weights[~number]
        # |a - b| = a + b - 2ab for zeros and ones, which makes a matrix product of all categories.
        apart = (flags.sum(axis=1)[:, None] + self._flag_sums - 2.0 * (flags @ self._flags.T)).astype(
            np.float32
        )
        difference = np.empty_like(apart)
        for place, column in enumerate(self._numbers):
            own = ranked[:, column, None].astype(np.float32)
            np.subtract(own, self._rank_columns[place], out=difference)
            np.abs(difference, out=difference)
            difference *= np.float32(weights[column])
            apart += difference
        standard *= np.sqrt(weights)
        squares = (standard**2).sum(axis=1)[:, None] + self._squares - 2.0 * (standard @ self._standard.T)
        np.maximum(squares, 0.0, out=squares)
        first = np.exp(apart * np.float32(-1.0 / self._length))
        second = np.exp((squares * -self._sharpness).astype(np.float32))
        third = 1.0 - apart / np.float32(max(self._widest, 1e-9))
        return first.astype(np.float64), second.astype(np.float64), third.astype(np.float64)

    def _similarities(self, rows: Array) -> Floats:
        first, second, third = map(operator.mul, self.shares_, self._kernels(rows))
        return np.asarray(first + second + third)

    def _find_extra(self, extra: Floats | None) -> None:
        width = 0 if extra is None else extra.shape[1]
        self.extra_centre_, self.extra_spread_ = np.zeros(width), np.ones(width)
        if extra is not None and len(extra):
            deviation = extra.std(axis=0)
            self.extra_centre_ = extra.mean(axis=0)
            self.extra_spread_ = np.where(deviation > 0, deviation, 1.0)

    def features(self, rows: Array, extra: Floats | None = None) -> Floats:
        """Return what the ridge sees of rows.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, width)
            Encoded rows.
        extra : ndarray of shape (n_rows, n_extra) or None, default=None
            Further features.

        Returns
        -------
        ndarray of shape (n_rows, n_landmarks + n_extra)
            Similarities to the landmarks, and further features in standard deviations.
        """
        found = [self._similarities(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
        joined = np.vstack([*found, np.empty((0, len(self.landmarks_)))])
        if extra is None:
            return joined
        scaled = (extra - self.extra_centre_) / self.extra_spread_ / math.sqrt(extra.shape[1])
        return np.hstack([joined, scaled])

    # --- sums, and what follows from them ----------------------------------------------------------------

    def sums(self, rows: Array, codes: Index, n_classes: int, extra: Floats | None = None) -> HeadSums:
        """Return the sums that the head learns from.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, width)
            Encoded rows.
        codes : ndarray of int of shape (n_rows,)
            Number of each row's class.
        n_classes : int
            How many classes there are.
        extra : ndarray of shape (n_rows, n_extra) or None, default=None
            Further features.

        Returns
        -------
        HeadSums
            Sums over these rows; those of several parts of a table add up.
        """
        size = len(self.landmarks_) + len(self.extra_centre_)
        total = HeadSums(np.zeros(n_classes), np.zeros((size, n_classes)), np.zeros((size, size), order="F"))
        for part in _parts(len(rows)):
            seen = self.features(rows[part], None if extra is None else extra[part])
            targets = np.eye(n_classes)[codes[part]]
            total.counts[:] += targets.sum(axis=0)
            total.sums[:] += product(np.asfortranarray(seen.T), targets)
            total.products[:] += symmetric_product(seen, transposed=True)
        return total

    def _solve(
        self,
        parts: Sequence[HeadSums],
        rows: Array,
        codes: Index,
        extra: Floats | None,
        left_out: Index,
        apart: Sequence[Mask] = (),
    ) -> None:
        """Solve for the penalty with the smallest error among the given rows.

        Each is left out alone, or with all rows of its fold: ``apart`` says which are in the fold of a part.
        """
        whole = self._system(parts)
        n_classes = len(whole.prior)
        features = self.features(rows[left_out], None if extra is None else extra[left_out])
        seen, targets = self._whitened((features - whole.mean).T), np.eye(n_classes)[codes[left_out]]
        folds = []
        if len(apart) < 2:
            apart = ()
        elif len(left_out) < len(rows):  # a closed form needs all rows of a fold
            for number, mine in enumerate(apart):
                rest = self._system([part for place, part in enumerate(parts) if place != number])
                folds.append((rest, mine, self._whitened((features[mine] - rest.mean).T)))
        tried: dict[int, tuple[float, Floats, Floats]] = {}

        def attempt(place: int) -> float:
            if place not in tried:
                tried[place] = ridge(whole, PENALTIES[place], seen, targets, () if folds else apart)
                if folds:
                    scores = np.empty_like(targets)
                    for rest, mine, own in folds:
                        scores[mine] = scores_without(rest, PENALTIES[place], own)
                    tried[place] = error_of(scores, targets), tried[place][1], scores
            return tried[place][0]

        best = FIRST_PENALTY
        for step in (-1, 1):
            while 0 <= best + step < len(PENALTIES) and attempt(best + step) < attempt(best):
                best += step
        attempt(best)
        self.error_, solution, self.left_out_ = tried[best]
        m = len(self.landmarks_)
        solution[:m] = solve_triangular(self._factor, solution[:m], lower=True, trans="T")
        self.penalty_, self.left_out_rows_ = float(PENALTIES[best]), left_out
        self.solution_ = solution
        self.offset_ = whole.prior - whole.mean @ solution
        self.smallest_ = 0.5 / (whole.n_rows + n_classes)
        self.temperatures_ = self._temperatures(codes[left_out])
        self.confusion_ = confusion_of(codes[left_out], self.left_out_.argmax(axis=1), n_classes)

    def _system(self, parts: Sequence[HeadSums]) -> System:
        """The equations of a ridge over the rows of some parts."""
        sums = functools.reduce(operator.add, parts)
        n_rows = sums.counts.sum()
        mean = sums.sums.sum(axis=1) / n_rows
        lower = np.tril(sums.products)
        gram = lower + np.tril(lower, -1).T - n_rows * np.outer(mean, mean)
        gram = self._whitened(self._whitened(gram).T)
        right = self._whitened(sums.sums - np.outer(mean, sums.counts))
        return System(sums.counts / n_rows, mean, gram, right, n_rows)

    def _whitened(self, columns: Floats) -> Floats:
        """Columns of sums of features in coordinates in which landmarks are an orthonormal system."""
        found = np.array(columns, order="F")
        m = len(self.landmarks_)
        part = np.asfortranarray(found[:m])
        triangular_solve(self._factor, part)
        found[:m] = part
        return found

    def _temperatures(self, codes: Index) -> Floats:
        """The pair with the smallest log loss on scores of rows that were left out."""
        logs, tried = np.log(np.maximum(self.left_out_, self.smallest_)), {}
        for linear in LINEAR:
            for power in POWERS:
                raised = linear * self.left_out_ + power * logs
                tried[linear, power] = log_loss(raised - raised.max(axis=1, keepdims=True), codes)
        return np.array(min(tried, key=lambda pair: tried[pair]))

    # --- queries -----------------------------------------------------------------------------------------

    def scores(self, rows: Array, extra: Floats | None = None) -> Floats:
        """Return the score of each class; they add up to one.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, width)
            Encoded rows.
        extra : ndarray of shape (n_rows, n_extra) or None, default=None
            Further features.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Scores; the largest decides.
        """
        found = np.empty((len(rows), len(self.offset_)))
        for part in _parts(len(rows)):
            seen = self.features(rows[part], None if extra is None else extra[part])
            found[part] = seen @ self.solution_ + self.offset_
        return found

    def probabilities(self, scores: Floats) -> Floats:
        """Return probabilities of classes, calibrated on rows that were left out.

        Parameters
        ----------
        scores : ndarray of shape (n_rows, n_classes)
            Scores of rows.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities in the same order as the scores.
        """
        linear, power = self.temperatures_
        raised = linear * scores + power * np.log(np.maximum(scores, self.smallest_))
        return with_doubt(softmax(raised), self.confusion_.sum())

    @property
    def performance(self) -> dict[str, Any]:
        """How well the head does on rows that were left out: see :class:`onefold.models.ClassModels`."""
        return performance(self.confusion_)

    # --- files -------------------------------------------------------------------------------------------

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: what was learned, and what the encoded columns are."""
        floats = (
            *("knots", "knot_ranks", "centre", "spread", "weights", "landmarks", "shares", "shape"),
            *("extra_centre", "extra_spread", "solution", "offset", "temperatures"),
        )
        return {
            "columns": EncodedColumns,
            **{f"{name}_": Floats for name in floats},
            **dict.fromkeys(("knot_starts_", "confusion_"), Integers),
            **dict.fromkeys(("penalty_", "error_", "smallest_"), float),
        }

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become fitted; arrays that do not fit each other are refused."""
        vars(self).update(values)
        kernels = {"landmarks_": "Mw", "knots_": "K", "knot_ranks_": "K", "knot_starts_": "k", "shares_": "3"}
        by_column = dict.fromkeys(("centre_", "spread_", "weights_"), "w")
        by_class = {"offset_": "C", "confusion_": "CC", "solution_": "FC", "extra_centre_": "e"}
        others = {"extra_spread_": "e", "shape_": "2", "temperatures_": "2"}
        sizes = sizes_of(self, **kernels, **by_column, **by_class, **others)
        n_landmarks, n_extra, n_knots = sizes["M"], sizes["e"], sizes["K"]
        wanted = (len(self.columns.column), int(self.columns.is_number.sum()) + 1, n_landmarks + n_extra)
        starts, fitting = self.knot_starts_, wanted == (sizes["w"], sizes["k"], sizes["F"])
        ordered = fitting and starts[0] == 0 and starts[-1] == n_knots and bool((np.diff(starts) >= 0).all())
        positive = self.smallest_ > 0 and all(bool((values[f"{name}_"] > 0).all()) for name in POSITIVE)
        usual = n_landmarks >= 1 and n_extra in (0, sizes["C"])
        if not (ordered and positive and usual and self.confusion_.min(initial=0) >= 0):
            raise InvalidInputError("the numbers of a head are not those of a fitted one")
        self._prepare()


POSITIVE = ("spread", "extra_spread", "weights", "shares", "shape")


def _better(other: TableHead, best: TableHead) -> TableHead:
    """The other head if its error is clearly smaller: the first choices are right for most tables."""
    return other if other.error_ < WORTH * best.error_ else best


def _drawn(n_rows: int, at_most: int) -> Index:
    """Row numbers in order: all, or so many drawn by the public seed."""
    generator = np.random.default_rng(SEED)
    return np.sort(generator.permutation(n_rows)[:at_most])


def _parts(n_rows: int) -> Iterator[slice]:
    """Parts of a table whose features are held at a time."""
    return (slice(start, start + 8 * BLOCK) for start in range(0, n_rows, 8 * BLOCK))


# --- the ridge: its equations, its leave-one-out scores, and scores of rows outside the equations ---------


@dataclass(frozen=True)
class System:
    """Centred equations of a ridge, in coordinates in which landmarks are an orthonormal system."""

    prior: Floats
    mean: Floats
    gram: Floats
    right: Floats
    n_rows: float

    def solve(self, penalty: float, seen: Floats) -> tuple[Floats, Floats, Floats] | None:
        """The factor of the equations with a penalty, and both sides in its coordinates; None without one."""
        factor = np.array(self.gram, order="F")
        factor[np.diag_indices_from(factor)] += penalty
        if not cholesky(factor):
            return None
        half, lifted = np.array(self.right, order="F"), np.array(seen, order="F")
        triangular_solve(factor, half)
        triangular_solve(factor, lifted)
        return factor, half, lifted


def ridge(
    system: System, penalty: float, seen: Floats, targets: Floats, apart: Sequence[Mask] = ()
) -> tuple[float, Floats, Floats]:
    """Error, solution, and scores of rows by the ridge without them: each alone, or all of a fold.

    The intercept is not penalised, hence the part 1/n of the leverage. Folds need every row of the equations.
    """
    solved = system.solve(penalty, seen)
    if solved is None:
        return math.inf, np.zeros_like(system.right), np.tile(system.prior, (len(targets), 1))
    factor, half, lifted = solved
    residuals = targets - (lifted.T @ half + system.prior)
    if apart:
        for mine in apart:
            own = lifted[:, mine]
            rest = np.eye(own.shape[1]) - 1.0 / system.n_rows - own.T @ own
            residuals[mine] = np.linalg.lstsq(rest, residuals[mine], rcond=None)[0]
    else:
        leverage = 1.0 / system.n_rows + (lifted**2).sum(axis=0)
        residuals /= np.maximum(1.0 - leverage, 1e-6)[:, None]
    left_out = targets - residuals
    solution = solve_triangular(factor, half, lower=True, trans="T")
    return error_of(left_out, targets), solution, left_out


def scores_without(system: System, penalty: float, seen: Floats) -> Floats:
    """Scores of rows that are not in the equations; shares of the classes if these have no solution."""
    solved = system.solve(penalty, seen)
    if solved is None:
        return np.tile(system.prior, (seen.shape[1], 1))
    _, half, lifted = solved
    return np.asarray(lifted.T @ half + system.prior)


def error_of(scores: Floats, targets: Floats) -> float:
    """The mean over rows of the squared distance of their scores to their class."""
    return float(((scores - targets) ** 2).sum() / max(len(targets), 1))
