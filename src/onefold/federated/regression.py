"""Numbers to predict at several sites, in one process: answers of sites that are mixed, or sums that add up.

*Answers.* Every site fits a :class:`onefold.models.FoldingRegressor` to its own rows. A query goes to the
sites; each answers with two numbers, how far the row is from its rows and what it predicts, and sites that
are near count more. Joining and leaving are exact, because no site knows of another. Queries leave the
querier, and answers are functions of raw rows: nothing is promised.

*Sums.* Every site sends moments once (:class:`MomentFederation`), and queries stay with whoever holds the
sum. Without noise the model is that of all rows in one place, bit for bit; with noise it has a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Array, Floats, Index
from onefold._base.validation import Number, OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentRegressor
from onefold.federated.moments import MomentFederation
from onefold.federated.number_sums import NumberRelease
from onefold.models import FoldingRegressor
from onefold.models.folding_regressor import mixed_outputs
from onefold.privacy import Guarantee
from onefold.tables import Schema
from onefold.tables.columns import rows_of

__all__ = ["RegressionSimulation", "combine_numbers", "simulate_regression"]

POWER = 32.0  # how much nearer sites count more
FEWEST_ROWS = 5  # of a site
TEST_SHARE = 0.25  # of the rows, where no test rows are given


@dataclass(frozen=True)
class RegressionSimulation:
    """What a simulated federation for numbers has found.

    Parameters
    ----------
    r2 : float
        Share of the variance of the test outputs that the federation explains.
    rmse : float
        Root of its mean squared error.
    r2_alone : ndarray of shape (n_clients,)
        The same share for each site on its own.
    n_bytes : int
        What leaves all sites: for answers 16 bytes per site and query, for sums their messages.
    guarantee : Guarantee or None
        What records are promised by the sums that their site sends; None for answers. It does not cover
        anything else here: all errors are computed from raw rows.
    rmse_alone : tuple of float, default=()
        Root of the mean squared error of each site on its own.
    rmse_mean : float, default=nan
        The same for always predicting the mean output of all sites' rows.
    rmse_pooled : float, default=nan
        The same for one model of all rows in one place, without noise.
    r2_pooled : float, default=nan
        Share of the variance that this model explains.
    n_test : int, default=0
        Number of test rows.
    method : {"folding", "moments"}, default="folding"
        What the sites sent.
    r2_interval : tuple of (float, float) or None, default=None
        95 % interval of ``r2``, for independent test rows.

    See Also
    --------
    simulate_regression : Makes it.

    Examples
    --------
    >>> RegressionSimulation(0.5, 1.0, np.array([0.2, 0.3]), 320, None).r2
    0.5
    """

    r2: float
    rmse: float
    r2_alone: Floats
    n_bytes: int
    guarantee: Guarantee | None
    rmse_alone: tuple[float, ...] = ()
    rmse_mean: float = float("nan")
    rmse_pooled: float = float("nan")
    r2_pooled: float = float("nan")
    n_test: int = 0
    method: str = "folding"
    r2_interval: tuple[float, float] | None = None


def combine_numbers(distances: ArrayLike, outputs: ArrayLike, power: float = POWER) -> Floats:
    """Mix the answers of sites: shares fall with the folding measure, as those of clusters at one site do.

    Parameters
    ----------
    distances : array-like of shape (n_queries, n_sites)
        How far each query is from the rows of each site, from 0 to 1.
    outputs : array-like of shape (n_queries, n_sites)
        What each site predicts.
    power : float, default=32.0
        Exponent of one minus the measure; infinity would let the nearest site alone decide.

    Returns
    -------
    ndarray of shape (n_queries,)
        Mixed outputs, between the smallest and the largest answer.

    See Also
    --------
    onefold.models.FoldingRegressor.answers : What a site answers with.

    Examples
    --------
    >>> combine_numbers([[0.0, 0.9]], [[1.0, 5.0]]).round(6).tolist()
    [1.0]
    """
    check_parameter("power", power, Number(above=0))
    measured, answered = np.asarray(distances, dtype=np.float64), np.asarray(outputs, dtype=np.float64)
    if measured.ndim != 2 or measured.shape != answered.shape or not measured.shape[1]:
        raise InvalidInputError("distances and outputs need one row per query and one column per site")
    if not (np.isfinite(answered).all() and np.all((measured >= 0.0) & (measured <= 1.0))):
        raise InvalidInputError("distances must lie between 0 and 1, and outputs must be finite")
    return mixed_outputs(measured, answered[:, :, None], float(power), measured.shape[1])[:, 0]


def simulate_regression(
    X: Any,
    y: ArrayLike | None = None,
    X_test: Any = None,
    y_test: ArrayLike | None = None,
    n_clients: int = 10,
    *,
    method: str = "folding",
    spread: str = "even",
    schema: Schema | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    lift: int | None = None,
    x_range: Any = None,
    y_range: Any = None,
    random_state: int = 0,
) -> RegressionSimulation:
    """Spread rows over sites, let them predict numbers together, and measure it.

    Parameters
    ----------
    X : array-like of shape (n, p), or table
        Rows of all sites; with a schema a table.
    y : array-like of shape (n,) or None, default=None
        Their outputs; None takes the label column of the schema, here and below. Rows without a number there
        are left out.
    X_test : array-like of shape (m, p), table or None, default=None
        Queries; None takes a quarter of the rows, which no site then has.
    y_test : array-like of shape (m,) or None, default=None
        Their true outputs.
    n_clients : int, default=10
        Number of sites.
    method : {"folding", "moments"}, default="folding"
        Mixed answers of regressors by space folding, or sums of moments.
    spread : {"even", "sorted"}, default="even"
        Rows at random, or sorted by output, so that each site knows a part of the range only.
    schema : Schema or None, default=None
        The declared contract of the table, whose label is a number with a range.
    epsilon : float or None, default=None
        Privacy loss for a record, for sums.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded.
    lift : int or None, default=None
        Number of random directions, for sums without noise. With a schema None takes that of real sites
        (:class:`onefold.federated.number_sums.NumberRelease`), without one none.
    x_range : pair or None, default=None
        Declared ranges of the columns, for sums without a schema; see
        :class:`onefold.fabrication.MomentRegressor`.
    y_range : pair of floats or None, default=None
        Declared range of the outputs, for sums without a schema.
    random_state : int, default=0
        Seed of the spread of the rows, not of noise.

    Returns
    -------
    RegressionSimulation
        What was found.

    See Also
    --------
    onefold.federated.simulate : The same for classes.
    onefold.federated.flower.Site.fit_numbers : Real sites.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(400, 2))
    >>> y = X[:, 0] - X[:, 1]
    >>> ranges = {"x_range": (0.0, 1.0), "y_range": (-1.0, 1.0)}
    >>> found = simulate_regression(X[:300], y[:300], X[300:], y[300:], 3, method="moments", **ranges)
    >>> round(found.r2, 2)
    1.0
    """
    check_parameter("n_clients", n_clients, Whole(1))
    check_parameter("method", method, OneOf(("folding", "moments")))
    check_parameter("spread", spread, OneOf(("even", "sorted")))
    if method == "folding" and (epsilon, lift, x_range, y_range) != (None, None, None, None):
        raise InvalidInputError('epsilon, lift, x_range and y_range are for method="moments"')
    rows, queries = _parts((X, y), None if X_test is None else (X_test, y_test), schema, random_state)
    if len(rows.outputs) < FEWEST_ROWS * n_clients:
        raise InvalidInputError(f"every site needs {FEWEST_ROWS} rows at least")
    sites = [rows.some(mine) for mine in _sites(rows.outputs, n_clients, spread, random_state)]
    if method == "folding":
        return _by_answers(rows, sites, queries)
    if schema is None and (x_range is None or y_range is None):
        raise InvalidInputError('method="moments" needs declared ranges: a schema, or x_range and y_range')
    if lift is None and schema is not None:
        lift = NumberRelease(schema, epsilon).n_directions or None
    settings: dict[str, Any] = {"lift": lift, "x_range": x_range, "y_range": y_range}
    exact = settings | ({"lift": None} if epsilon is not None else {})
    return _by_sums(
        rows,
        sites,
        queries,
        lambda: MomentFederation(schema, epsilon=epsilon, delta=delta, **settings),
        lambda: MomentFederation(schema, **exact),
    )


@dataclass(frozen=True)
class _Pairs:
    """Rows with their outputs: a table, or numbers."""

    table: Any
    outputs: Floats
    schema: Schema | None

    def some(self, which: Index) -> _Pairs:
        return _Pairs(rows_of(self.table, which), self.outputs[which], self.schema)

    @property
    def encoded(self) -> Floats:
        if self.schema is None:
            return np.asarray(self.table)
        return np.asarray(self.schema.transform(self.table))

    @classmethod
    def of(cls, given: tuple[Any, Any], schema: Schema | None) -> _Pairs:
        X, y = given
        if schema is None:
            rows = np.asarray(X, dtype=np.float64)
            outputs = None if y is None else np.asarray(y, dtype=np.float64)
            if rows.ndim != 2 or outputs is None or outputs.shape != (len(rows),):
                raise InvalidInputError("give rows as tables, and one number to predict for each row")
            return cls(rows, outputs, None)
        if y is not None:
            raise InvalidInputError("y is the label column of the schema: leave it out")
        found, known = schema.outputs(X, strict=False)
        return cls(rows_of(X, np.flatnonzero(known)), np.asarray(found), schema)


def _parts(
    given: tuple[Any, Any], test: tuple[Any, Any] | None, schema: Schema | None, random_state: int
) -> tuple[_Pairs, _Pairs]:
    """Rows of the sites and queries, of which neither has the other's."""
    rows = _Pairs.of(given, schema)
    if test is not None:
        return rows, _Pairs.of(test, schema)
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(rows.outputs))
    n_test = round(TEST_SHARE * len(order))
    if not n_test:
        raise InvalidInputError("too few rows have a number to predict: some must be left for testing")
    return rows.some(order[n_test:]), rows.some(order[:n_test])


def _by_answers(rows: _Pairs, sites: list[_Pairs], queries: _Pairs) -> RegressionSimulation:
    """Sites answer queries, and near ones count more."""
    asked = queries.encoded
    answers = [FoldingRegressor().fit(site.encoded, site.outputs).answers(asked) for site in sites]
    distances, found = (np.column_stack(part) for part in zip(*answers, strict=True))
    pooled = FoldingRegressor().fit(rows.encoded, rows.outputs).predict(asked)
    n_bytes = 16 * len(sites) * len(queries.outputs)
    together = combine_numbers(distances, found)
    alone = [outputs for _, outputs in answers]
    return _found(rows, queries, together, alone, np.asarray(pooled), n_bytes, None, "folding")


def _by_sums(
    rows: _Pairs,
    sites: list[_Pairs],
    queries: _Pairs,
    made: Callable[[], MomentFederation],
    exact: Callable[[], MomentFederation],
) -> RegressionSimulation:
    """Sites send sums once and are not asked."""
    federation, n_bytes, alone = made(), 0, []
    for number, site in enumerate(sites):
        message = federation.release(site.table, None if site.schema is not None else site.outputs)
        n_bytes += len(message)
        federation.add(number, message)
        alone.append(made().add(number, message).fitted(MomentRegressor).predict(queries.table))
    model, one = federation.fitted(MomentRegressor), exact()
    one.add("all", one.release(rows.table, None if rows.schema is not None else rows.outputs))
    pooled = one.fitted(MomentRegressor).predict(queries.table)
    together = model.predict(queries.table)
    return _found(rows, queries, together, alone, pooled, n_bytes, model.guarantee_, "moments")


def _sites(outputs: Floats, n_clients: int, spread: str, random_state: int) -> list[Index]:
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(outputs))
    if spread == "sorted":
        order = np.argsort(outputs, kind="stable")
    return np.array_split(order, n_clients)


def _explained(predicted: Array, truth: Floats) -> float:
    variance = float(np.var(truth))
    return 1.0 - float(np.mean((predicted - truth) ** 2)) / variance if variance > 0.0 else float("nan")


def _rmse(predicted: Array | float, truth: Floats) -> float:
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def _found(
    rows: _Pairs,
    queries: _Pairs,
    together: Array,
    alone: list[Floats],
    pooled: Floats,
    n_bytes: int,
    guarantee: Guarantee | None,
    method: str,
) -> RegressionSimulation:
    from onefold.audit.intervals import r2_interval

    truth = queries.outputs
    return RegressionSimulation(
        _explained(together, truth),
        _rmse(together, truth),
        np.array([_explained(each, truth) for each in alone]),
        n_bytes,
        guarantee,
        tuple(_rmse(each, truth) for each in alone),
        _rmse(float(rows.outputs.mean()), truth),
        _rmse(pooled, truth),
        _explained(pooled, truth),
        len(truth),
        method,
        r2_interval(together, truth),
    )
