"""Numbers to predict at several sites, in one process.

Every site sends moments once (:class:`MomentFederation`), and queries stay with whoever holds the sum.
Without noise the model is that of all rows in one place, bit for bit; with noise it has a guarantee.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Array, Floats
from onefold._base.validation import OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentRegressor
from onefold.federated.moments import MomentFederation
from onefold.federated.number_sums import NumberRelease
from onefold.privacy import Guarantee
from onefold.tables import Schema
from onefold.tables.columns import rows_of
from onefold.tables.schema import AS_THEY_STAND

__all__ = ["RegressionSimulation", "simulate_regression"]

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
        Bytes of the messages that leave all sites.
    guarantee : Guarantee
        What records are promised by the sums that their site sends. It does not cover anything else here: all
        errors are computed from raw rows.
    rmse_alone : tuple of float
        Root of the mean squared error of each site on its own.
    rmse_mean : float
        The same for always predicting the mean output of all sites' rows.
    rmse_pooled : float
        The same for one model of all rows in one place, without noise.
    r2_pooled : float
        Share of the variance that this model explains.
    n_test : int
        Number of test rows.
    r2_interval : tuple of (float, float) or None
        95 % interval of ``r2``, for independent test rows.

    See Also
    --------
    simulate_regression : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.federated import simulate_regression
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> found = simulate_regression(X, X[:, 0], n_clients=2, x_range=(0.0, 1.0), y_range=(0.0, 1.0))
    >>> found.n_test, found.rmse < found.rmse_mean
    (15, True)
    """

    r2: float
    rmse: float
    r2_alone: Floats
    n_bytes: int
    guarantee: Guarantee
    rmse_alone: tuple[float, ...]
    rmse_mean: float
    rmse_pooled: float
    r2_pooled: float
    n_test: int
    r2_interval: tuple[float, float] | None


def simulate_regression(
    X: Any,
    y: ArrayLike | None = None,
    X_test: Any = None,
    y_test: ArrayLike | None = None,
    n_clients: int = 10,
    *,
    spread: str = "even",
    schema: Schema = AS_THEY_STAND,
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
    spread : {"even", "sorted"}, default="even"
        Rows at random, or sorted by output, so that each site knows a part of the range only.
    schema : Schema, default=AS_THEY_STAND
        The declared contract of the table, whose label is a number with a range.
    epsilon : float or None, default=None
        Privacy loss for a record; None for sums without noise.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded.
    lift : int or None, default=None
        Number of random directions, without noise. With a schema None takes that of real sites
        (:class:`onefold.federated.number_sums.NumberRelease`), without one none.
    x_range : pair or None, default=None
        Declared ranges of the columns, without a schema; see
        :class:`onefold.fabrication.MomentRegressor`.
    y_range : pair of floats or None, default=None
        Declared range of the outputs, without a schema.
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
    >>> found = simulate_regression(X[:300], y[:300], X[300:], y[300:], 3, **ranges)
    >>> round(found.r2, 2)
    1.0
    """
    from onefold.audit.intervals import r2_interval

    schema = Schema.of(schema)
    check_parameter("n_clients", n_clients, Whole(1))
    check_parameter("spread", spread, OneOf(("even", "sorted")))
    if schema.plain and (x_range is None or y_range is None):
        raise InvalidInputError("without a schema give the declared ranges, x_range and y_range")
    rows, outputs = _pairs(X, y, schema)
    if X_test is not None:
        queries, truth = _pairs(X_test, y_test, schema)
    else:
        order = np.random.default_rng(random_state).permutation(len(outputs))
        test, train = np.split(order, [round(TEST_SHARE * len(order))])
        if not len(test):
            raise InvalidInputError("too few rows have a number to predict: some must be left for testing")
        queries, truth = rows_of(rows, test), outputs[test]
        rows, outputs = rows_of(rows, train), outputs[train]
    if len(outputs) < FEWEST_ROWS * n_clients:
        raise InvalidInputError(f"every site needs {FEWEST_ROWS} rows at least")
    by_output = np.argsort(outputs, kind="stable")
    at_random = np.random.default_rng(random_state).permutation(len(outputs))
    if lift is None and not schema.plain:
        lift = NumberRelease(schema, epsilon).n_directions or None
    settings: dict[str, Any] = {"lift": lift, "x_range": x_range, "y_range": y_range}

    def released(federation: MomentFederation, some: Any) -> bytes:
        return federation.release(rows_of(rows, some), outputs[some] if schema.plain else None)

    def made() -> MomentFederation:
        return MomentFederation(schema, epsilon=epsilon, delta=delta, **settings)

    federation, n_bytes, alone = made(), 0, []
    for number, mine in enumerate(np.array_split(by_output if spread == "sorted" else at_random, n_clients)):
        message = released(federation, mine)
        n_bytes += len(message)
        federation.add(number, message)
        alone.append(_errors(made().add(number, message).fitted(MomentRegressor).predict(queries), truth))
    model = federation.fitted(MomentRegressor)
    together = model.predict(queries)
    one = MomentFederation(schema, **(settings if epsilon is None else settings | {"lift": None}))
    pooled = one.add("all", released(one, np.arange(len(outputs)))).fitted(MomentRegressor).predict(queries)
    (rmse, r2), (rmse_pooled, r2_pooled) = _errors(together, truth), _errors(pooled, truth)
    return RegressionSimulation(
        r2=r2,
        rmse=rmse,
        r2_alone=np.array([share for _, share in alone]),
        n_bytes=n_bytes,
        guarantee=model.guarantee_,
        rmse_alone=tuple(error for error, _ in alone),
        rmse_mean=_errors(np.full(len(truth), float(outputs.mean())), truth)[0],
        rmse_pooled=rmse_pooled,
        r2_pooled=r2_pooled,
        n_test=len(truth),
        r2_interval=r2_interval(together, truth),
    )


def _pairs(X: Any, y: Any, schema: Schema) -> tuple[Any, Floats]:
    """Rows that have a number to predict, a table or numbers, and these numbers."""
    if not schema.plain:
        if y is not None:
            raise InvalidInputError("y is the label column of the schema: leave it out")
        found, known = schema.outputs(X, strict=False)
        return rows_of(X, np.flatnonzero(known)), np.asarray(found)
    rows, outputs = np.asarray(X, dtype=np.float64), None if y is None else np.asarray(y, dtype=np.float64)
    if rows.ndim != 2 or outputs is None or outputs.shape != (len(rows),):
        raise InvalidInputError("give rows as tables, and one number to predict for each row")
    return rows, outputs


def _errors(predicted: Array, truth: Floats) -> tuple[float, float]:
    """Root of the mean squared error, and the share of the variance that is explained."""
    error, variance = float(np.mean((predicted - truth) ** 2)), float(np.var(truth))
    return float(np.sqrt(error)), 1.0 - error / variance if variance > 0.0 else float("nan")
