"""Why this class or this number: which columns of a row decided, in the columns and units of its owner.

A model is asked about rows that are partly the row in question and partly a row to compare it with. From the
comparison row to the row itself, columns change one after the other, and each is credited with what its
change adds: to the lead of the predicted class over the runner-up, or to the predicted number. The credits
are averaged over many orders of the columns and many comparison rows: Shapley values, whose sum is the lead,
or the number, less the usual one. Where a prediction is a sum of one function per column, as that of a linear
:class:`onefold.fabrication.MomentRegressor`, no order matters, and every comparison row is asked once.

Nothing is asked of a model but its scores or predictions: the whole computation is one batch of rows per row
explained.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.tables import Field, Schema
from onefold.tables.columns import Parsed, count_rows, rows_of
from onefold.tables.schema import AS_THEY_STAND

__all__ = ["ClassReasons", "ColumnReason", "NumberReasons", "explain", "explain_numbers"]

SEED = 20260101  # of the orders of columns, the same for everyone: nothing here is secret
MOST_COLUMNS = 200  # more than these nobody reads one by one
FEWEST_ROWS = 5  # to compare with
MOST_ROWS = 64
HIGH, LOW = 0.75, 0.25  # parts of the rows compared with that lie below
WORTH_SAYING = 0.1  # of the weight of the strongest reason
AGAINST = 0.3  # the same, for what speaks against the class


@dataclass(frozen=True)
class ColumnReason:
    """What one column says for or against the predicted class.

    Parameters
    ----------
    column : str
        Its name.
    value : str
        The cell as people read it, with its unit; empty for a text that an encoder reads.
    level : {"high", "low", ""}
        Where a number lies among the rows compared with; empty in between and for anything but numbers.
    weight : float
        How much of the lead over the runner-up is due to it, in the classifier's scores.

    See Also
    --------
    ClassReasons : All reasons for one row.

    Examples
    --------
    >>> from onefold.models import ColumnReason
    >>> print(ColumnReason("bmi", "34 kg/m2", "high", 0.8))
    bmi is high (34 kg/m2)
    """

    column: str
    value: str
    level: str
    weight: float

    def __str__(self) -> str:
        if not self.value:
            return self.column
        return f"{self.column} is {f'{self.level} ({self.value})' if self.level else self.value}"


@dataclass(frozen=True)
class ClassReasons:
    """Why one row is of its predicted class rather than of the runner-up.

    ``print`` says it in one sentence.

    Parameters
    ----------
    predicted : Any
        The class with the largest score.
    rival : Any
        The class with the second largest.
    lead : float
        How far the one is ahead of the other.
    usual : float
        The same for the rows compared with, on average.
    reasons : tuple of ColumnReason
        One per column, the strongest for the class first; their weights add up to ``lead - usual``.
    n_reasons : int, default=3
        Number of reasons that the sentence names.

    See Also
    --------
    AutoencoderClassifier.explain : Gives these.

    Examples
    --------
    >>> from onefold.models import ClassReasons, ColumnReason
    >>> reasons = ColumnReason("bmi", "34", "high", 0.8), ColumnReason("age", "31", "low", -0.5)
    >>> print(ClassReasons("ill", "well", 0.4, 0.1, reasons))
    ill rather than well because bmi is high (34); against it: age is low (31)
    """

    predicted: Any
    rival: Any
    lead: float
    usual: float
    reasons: tuple[ColumnReason, ...]
    n_reasons: int = 3

    def __str__(self) -> str:
        choice = f"{self.predicted} rather than {self.rival}"
        strongest = max((abs(reason.weight) for reason in self.reasons), default=0.0)
        named = [each for each in self.reasons if each.weight > WORTH_SAYING * strongest][: self.n_reasons]
        against = [each for each in self.reasons if each.weight < -AGAINST * strongest][-1:]
        if not named:
            why = f"{choice}, as for most rows compared with: no column speaks for it more than usual"
        else:
            *first, last = map(str, named)
            why = f"{choice} because {', '.join(first)} and {last}" if first else f"{choice} because {last}"
        return why + "".join(f"; against it: {reason}" for reason in against)


@dataclass(frozen=True)
class NumberReasons:
    """Why one row gets its predicted number.

    ``print`` says it in one sentence.

    Parameters
    ----------
    predicted : float
        The prediction.
    usual : float
        The mean prediction of the rows compared with.
    reasons : tuple of ColumnReason
        One per column, the largest weight first, up or down; the weights are in the unit of the prediction
        and add up to ``predicted - usual``.
    unit : str, default=""
        Unit of the prediction.
    n_reasons : int, default=3
        Number of reasons that the sentence names.

    See Also
    --------
    explain_numbers : Gives these.

    Examples
    --------
    >>> from onefold.models import ColumnReason
    >>> reasons = ColumnReason("age", "71", "high", 150.0), ColumnReason("ward", "b", "", -40.0)
    >>> print(NumberReasons(510.0, 400.0, reasons, "EUR"))
    510 EUR, 110 above the usual 400: age is high (71) adds 150; ward is b takes 40
    """

    predicted: float
    usual: float
    reasons: tuple[ColumnReason, ...]
    unit: str = ""
    n_reasons: int = 3

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        strongest = max((abs(reason.weight) for reason in self.reasons), default=0.0)
        named = [each for each in self.reasons if abs(each.weight) > WORTH_SAYING * strongest]
        apart = self.predicted - self.usual
        where = f"{abs(apart):.4g} {'above' if apart > 0 else 'below'} the usual {self.usual:.4g}"
        told = "; ".join(
            f"{each} {'adds' if each.weight > 0 else 'takes'} {abs(each.weight):.4g}"
            for each in named[: self.n_reasons]
        )
        return f"{self.predicted:.4g}{unit}, {where}: {told or 'no column moves it'}"


# --- columns of a row -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """A table column by column, as the schema reads it, and how to make a table of such columns again."""

    names: tuple[str, ...]
    cells: tuple[AnyArray, ...]
    fields: tuple[Field, ...]
    rebuild: Callable[[Sequence[AnyArray]], Any]

    def __len__(self) -> int:
        return len(self.cells[0])

    @classmethod
    def of(cls, X: Any, schema: Schema, names: Sequence[str] | None) -> Columns:
        """Columns of a matrix, or of a table that a schema declares."""
        if not schema.plain:
            parsed = schema.parse(X, strict=False)
            return cls(
                tuple(parsed),
                tuple(parsed.values()),
                schema.features,
                lambda made: dict(zip(parsed, map(Parsed, made), strict=True)),
            )
        given = getattr(X, "columns", None) if names is None else names
        rows = np.asarray(X)
        if rows.ndim != 2 or not np.issubdtype(rows.dtype, np.number):
            raise InvalidInputError("the rows to explain must be a table (n, p) of numbers")
        called = [f"x{k}" for k in range(rows.shape[1])] if given is None else list(map(str, given))
        if len(called) != rows.shape[1]:
            raise InvalidInputError(f"{rows.shape[1]} columns to explain and {len(called)} names")
        numbers = (*AS_THEY_STAND.fields,) * len(called)
        return cls(tuple(called), tuple(rows.T), numbers, lambda made: np.stack(made, axis=1))

    def reason(self, place: int, row: int, weight: float, others: Columns) -> ColumnReason:
        """What a column says, in words."""
        known, name, cell = self.fields[place], self.names[place], self.cells[place][row]
        if known.encoder is not None:
            return ColumnReason(name, "", "", weight)
        if cell < 0 if known.is_category else math.isnan(cell):
            return ColumnReason(name, "missing", "", weight)
        value = f"{cell:.4g}" if known.is_amount else str(known.show(np.array([cell]))[0])
        if known.is_category:
            return ColumnReason(name, value, "", weight)
        level = _level(float(cell), others.cells[place])
        return ColumnReason(name, f"{value} {known.unit}".rstrip(), level, weight)


def _level(number: float, beside: Floats) -> str:
    """Where a number lies among others: in the upper or the lower quarter."""
    known = beside[~np.isnan(beside)]
    if not len(known):
        return ""
    below = (float(np.mean(known < number)) + float(np.mean(known <= number))) / 2.0
    return "high" if below >= HIGH else "low" if below <= LOW else ""


# --- explaining -----------------------------------------------------------------------------------------


def explain(
    model: Any,
    X: Any,
    background: Any = None,
    *,
    schema: Schema = AS_THEY_STAND,
    names: Sequence[str] | None = None,
    n_reasons: int = 3,
    n_orders: int = 20,
) -> list[ClassReasons]:
    """Say for each row which columns made a classifier choose its class.

    Parameters
    ----------
    model : estimator
        A fitted classifier with ``decision_function``, or a federation with ``measures``.
    X : array-like of shape (n_rows, n_columns), or table
        Rows to explain; a table where there is a schema.
    background : array-like or table, default=None
        Rows to compare with, at least five; None takes ``X``.
    schema : Schema, default=AS_THEY_STAND
        The contract of the table; without columns it is that of the classifier.
    names : sequence of str, default=None
        Names of the columns of a matrix; None takes those of the classifier.
    n_reasons : int, default=3
        Number of reasons that the sentence about a row names.
    n_orders : int, default=20
        Number of orders in which columns change; more give steadier weights and cost more.

    Returns
    -------
    list of ClassReasons
        One per row, which can be printed.

    See Also
    --------
    explain_numbers : The same for predicted numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import MomentClassifier
    >>> from onefold.models import explain
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = MomentClassifier(None).fit(X, np.where(X[:, 1] > 0, "a", "b"))
    >>> explain(model, X[:1], X)[0].reasons[0].column
    'x1'
    """
    ask = getattr(model, "measures", None) or getattr(model, "decision_function", None)
    if ask is None:
        raise InvalidInputError(f"{type(model).__name__} has no scores: its classes cannot be explained")
    classes, sign = model.classes_, -1.0 if hasattr(model, "measures") else 1.0
    if len(classes) < 2:
        raise InvalidInputError("there is one class only: nothing decides between classes")
    chosen: list[int] = []

    def lead(rows: Any) -> Floats:
        """How far the predicted class of the first row is ahead of its runner-up, for all rows."""
        found = sign * np.asarray(ask(rows), dtype=np.float64)
        if found.ndim == 1:
            found = np.stack([-0.5 * found, 0.5 * found], axis=1)
        chosen[:] = np.argsort(-found[0], kind="stable")[:2].tolist()
        return np.asarray(found[:, chosen[0]] - found[:, chosen[1]])

    check_parameter("n_reasons", n_reasons, Whole(1))
    columns = _columns(model, X, background, _contract(model, Schema.of(schema)), names)
    return [
        ClassReasons(classes[chosen[0]], classes[chosen[1]], own, usual, reasons, n_reasons)
        for own, usual, reasons in _reasons(*columns, lead, lambda weights: weights, n_orders)
    ]


def explain_numbers(
    model: Any,
    X: Any,
    background: Any = None,
    *,
    schema: Schema = AS_THEY_STAND,
    names: Sequence[str] | None = None,
    n_reasons: int = 3,
    n_orders: int = 20,
) -> list[NumberReasons]:
    """Say for each row which columns push its predicted number up or down.

    Parameters
    ----------
    model : estimator
        A fitted regressor with ``predict``. One with ``unclipped`` is explained before its predictions are
        clipped to a declared range, and exactly if its ``is_additive`` is true.
    X : array-like of shape (n_rows, n_columns), or table
        Rows to explain; a table where there is a schema.
    background : array-like or table, default=None
        Rows to compare with, at least five; None takes ``X``.
    schema : Schema, default=AS_THEY_STAND
        The contract of the table; without columns it is that of the model.
    names : sequence of str, default=None
        Names of the columns of a matrix; None takes those of the model.
    n_reasons : int, default=3
        Number of reasons that the sentence about a row names.
    n_orders : int, default=20
        Number of orders in which columns change, where the model is not additive.

    Returns
    -------
    list of NumberReasons
        One per row, which can be printed.

    See Also
    --------
    explain : The same for classes.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import MomentRegressor
    >>> X = np.random.default_rng(0).uniform(size=(200, 3))
    >>> model = MomentRegressor(None, lift=None, x_range=(0, 1)).fit(X, 5.0 * X[:, 1] - X[:, 2])
    >>> found = explain_numbers(model, X[:1], X)[0]
    >>> found.reasons[0].column, round(found.reasons[0].weight / float(X[0, 1] - X[:, 1].mean()), 2)
    ('x1', 5.0)
    """
    check_parameter("n_reasons", n_reasons, Whole(1))
    schema = _contract(model, Schema.of(schema))
    columns = _columns(model, X, background, schema, names)
    unit = "" if schema.label is None else schema.label.unit or ""
    predict, additive = getattr(model, "unclipped", model.predict), getattr(model, "is_additive", False)
    return [
        NumberReasons(own, usual, reasons, unit, n_reasons)
        for own, usual, reasons in _reasons(*columns, predict, np.abs, n_orders, additive)
    ]


def _contract(model: Any, schema: Schema) -> Schema:
    """The schema that was given, else that of the model."""
    return Schema.of(getattr(model, "schema", None)) if schema.plain else schema


def _columns(
    model: Any, X: Any, background: Any, schema: Schema, names: Sequence[str] | None
) -> tuple[Columns, Columns]:
    """Rows to explain and rows to compare with; refused if they do not go together."""
    names = getattr(model, "feature_names_in_", None) if names is None else names
    if schema.plain and names is not None:
        own = list(map(str, names))
        if any(list(map(str, getattr(table, "columns", own))) != own for table in (X, background)):
            raise InvalidInputError("rows to explain must have the columns of the fit, in their order")
    rows = Columns.of(X, schema, names)
    others = rows if background is None else Columns.of(background, schema, names)
    if len(rows.names) != len(others.names):
        raise InvalidInputError("the rows to compare with have other columns than those to explain")
    if len(rows.names) > MOST_COLUMNS:
        raise InvalidInputError(
            f"rows of {len(rows.names)} columns are not explained: reasons name columns that people know, at "
            f"most {MOST_COLUMNS} of them"
        )
    if len(others) < FEWEST_ROWS:
        raise InvalidInputError(
            f"an explanation compares a row with others: give at least {FEWEST_ROWS} rows (background)"
        )
    return rows, others


def _reasons(
    rows: Columns,
    others: Columns,
    value: Callable[[Any], Floats],
    strength: Callable[[Floats], Floats],
    n_orders: int,
    additive: bool = False,
) -> Iterator[tuple[float, float, tuple[ColumnReason, ...]]]:
    """Value of each row, the usual value, and what each column adds to it, the strongest first.

    ``value`` is asked about rows of which the first is the row itself. Of an ``additive`` one no order of the
    columns matters: each row compared with is asked once.
    """
    check_parameter("n_orders", n_orders, Whole(2))
    drawn, n_columns, n_others = np.random.default_rng(SEED), len(rows.names), len(others)
    for number in range(len(rows)):
        orders, beside = np.tile(np.arange(n_columns), (n_others, 1)), np.arange(n_others)
        if not additive:  # orders, each followed by its reverse, and the row each pair is compared with
            pairs = math.ceil(n_orders / 2)
            forth = drawn.permuted(np.tile(np.arange(n_columns), (pairs, 1)), axis=1)
            orders = np.stack([forth, forth[:, ::-1]], axis=1).reshape(2 * pairs, n_columns)
            rounds = [drawn.permutation(n_others) for _ in range(math.ceil(pairs / n_others))]
            beside = np.repeat(np.concatenate(rounds)[:pairs], 2)
        # Row (k, i): the first i columns of order k are those of the row, the others those of the row
        # compared with; the row itself comes first.
        rank = np.argsort(orders, axis=1)
        steps = np.arange(n_columns + 1)[None, :, None] > rank[:, None, :]
        chosen = np.where(steps, 0, 1 + beside[:, None, None]).reshape(-1, n_columns)
        chosen = np.concatenate([np.zeros((1, n_columns), dtype=np.intp), chosen])
        both = zip(rows.cells, others.cells, strict=True)
        mixed = [np.concatenate([own[number : number + 1], beside_it]) for own, beside_it in both]
        with warnings.catch_warnings():  # mixed rows come without names of columns, in their order
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            found = value(rows.rebuild([cells[chosen[:, k]] for k, cells in enumerate(mixed)]))
        values = np.asarray(found, dtype=np.float64)[1:].reshape(len(orders), n_columns + 1)
        weights = np.take_along_axis(np.diff(values, axis=1), rank, axis=1).mean(axis=0)
        ranked = np.argsort(-strength(weights), kind="stable")
        reasons = (rows.reason(int(place), number, float(weights[place]), others) for place in ranked)
        yield float(found[0]), float(values[:, 0].mean()), tuple(reasons)


def compared_with(rows: Any) -> Any:
    """Rows spread evenly over a table, to compare with: at most 64.

    Parameters
    ----------
    rows : array-like or table
        The table.

    Returns
    -------
    array-like or table
        The chosen rows.
    """
    n_rows = count_rows(rows)
    return rows_of(
        rows, np.unique(np.linspace(0, n_rows - 1, min(n_rows, MOST_ROWS)).round().astype(np.intp))
    )
