"""Why this number: which columns of a row push its prediction up or down, in the unit of what is predicted.

As for classes (:mod:`onefold.models.explanation`) a row is compared with other rows, and columns change from
those to the row. Each is credited with what its change adds to the prediction; the credits add up to the
prediction less the usual one. Where the prediction is a sum of one function per column, as that of a linear
:class:`onefold.fabrication.MomentRegressor`, changing each column by itself gives these credits exactly.
Elsewhere they are averaged over orders of the columns: Shapley values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import Floats
from onefold._base.validation import Whole, check_parameter
from onefold.models.explanation import (
    SEED,
    WORTH_SAYING,
    ColumnReason,
    Columns,
    columns_to_compare,
    credits_of,
    plan_of,
)
from onefold.tables import Schema

__all__ = ["NumberReasons", "explain_numbers"]

# From rows, as the model takes them, to one number each.
Predict = Callable[[Any], Floats]


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


def explain_numbers(
    model: Any,
    X: Any,
    background: Any = None,
    *,
    schema: Schema | None = None,
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
    schema : Schema, default=None
        The contract of the table; None takes that of the model.
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
    check_parameter("n_orders", n_orders, Whole(2))
    schema = getattr(model, "schema", None) if schema is None else schema
    names = getattr(model, "feature_names_in_", None) if names is None else names
    rows, others = columns_to_compare(X, background, schema, None if schema is not None else names)
    predict = _quiet(getattr(model, "unclipped", model.predict))
    label = None if schema is None else schema.label
    unit = "" if label is None or not label.unit else label.unit
    drawn, found = np.random.default_rng(SEED), []
    for number in range(len(rows)):
        if getattr(model, "is_additive", False):
            predicted, usual, weights = _one_by_one(predict, rows, number, others)
        else:
            orders, beside = plan_of(len(rows.names), len(others), n_orders, drawn)
            predicted, steps, weights = credits_of(predict, rows, number, others, orders, beside)
            usual = float(steps[:, 0].mean())
        strongest = np.argsort(-np.abs(weights), kind="stable")
        reasons = tuple(rows.reason(int(at), number, float(weights[at]), others) for at in strongest)
        found.append(NumberReasons(predicted, usual, reasons, unit, n_reasons))
    return found


def _one_by_one(predict: Predict, rows: Columns, number: int, others: Columns) -> tuple[float, float, Floats]:
    """Prediction, usual prediction and credits of a sum of functions of one column each: no order matters."""
    n_others, n_columns = len(others), len(rows.names)
    asked = []
    for column in range(n_columns):
        own = np.repeat(rows.cells[column][number : number + 1], n_others)
        # Block 0: the rows compared with; block k: the same with column k - 1 of the row.
        blocks = [own if column == block - 1 else others.cells[column] for block in range(n_columns + 1)]
        asked.append(np.concatenate([rows.cells[column][number : number + 1], *blocks]))
    answered = np.asarray(predict(rows.rebuild(asked)), dtype=np.float64)
    means = answered[1:].reshape(n_columns + 1, n_others).mean(axis=1)
    return float(answered[0]), float(means[0]), means[1:] - means[0]


def _quiet(predict: Predict) -> Predict:
    """Mixed rows come without names of columns, in their order."""

    def asked(X: Any) -> Floats:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return np.asarray(predict(X), dtype=np.float64)

    return asked
