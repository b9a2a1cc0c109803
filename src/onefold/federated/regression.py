"""Numbers to predict at several sites, in one process: answers of sites that are mixed, or sums that add up.

*Answers.* Every site fits a :class:`onefold.models.FoldingRegressor` to its own rows. A query goes to the
sites; each answers with two numbers, how far the row is from its rows and what it predicts, and sites that
are near count more. Joining and leaving are exact, because no site knows of another. Queries leave the
querier, and answers are functions of raw rows: nothing is promised.

*Sums.* Every site sends moments once (:class:`MomentFederation`), and queries stay with whoever holds the
sum. Without noise the model is that of all rows in one place, bit for bit; with noise it has a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Array, Floats, Index
from onefold._base.validation import Number, OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentRegressor
from onefold.federated.moments import MomentFederation
from onefold.models import FoldingRegressor
from onefold.models.folding_regressor import mixed_outputs
from onefold.privacy import Guarantee

__all__ = ["RegressionSimulation", "combine_numbers", "simulate_regression"]

POWER = 32.0  # how much nearer sites count more
FEWEST_ROWS = 5  # of a site


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
        What the sites' records are promised; None for answers.

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
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    n_clients: int = 10,
    *,
    method: str = "folding",
    spread: str = "even",
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
    X : array-like of shape (n, p)
        Rows of all sites.
    y : array-like of shape (n,)
        Their outputs.
    X_test : array-like of shape (m, p)
        Queries.
    y_test : array-like of shape (m,)
        Their true outputs.
    n_clients : int, default=10
        Number of sites.
    method : {"folding", "moments"}, default="folding"
        Mixed answers of regressors by space folding, or sums of moments.
    spread : {"even", "sorted"}, default="even"
        Rows at random, or sorted by output, so that each site knows a part of the range only.
    epsilon : float or None, default=None
        Privacy loss for a record, for sums.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded.
    lift : int or None, default=None
        Number of random directions, for sums without noise.
    x_range : pair or None, default=None
        Declared ranges of the columns, for sums; see :class:`onefold.fabrication.MomentRegressor`.
    y_range : pair of floats or None, default=None
        Declared range of the outputs, for sums.
    random_state : int, default=0
        Seed of the spread of the rows, not of noise.

    Returns
    -------
    RegressionSimulation
        What was found.

    See Also
    --------
    onefold.federated.simulate : The same for classes.

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
    rows, outputs, queries, truth = (np.asarray(part, dtype=np.float64) for part in (X, y, X_test, y_test))
    if rows.ndim != 2 or outputs.shape != (len(rows),) or truth.shape != (len(queries),):
        raise InvalidInputError("give rows as tables, and one number to predict for each row")
    if len(rows) < FEWEST_ROWS * n_clients:
        raise InvalidInputError(f"every site needs {FEWEST_ROWS} rows at least")
    sites = _sites(outputs, n_clients, spread, random_state)
    if method == "folding":
        if (epsilon, lift, x_range, y_range) != (None, None, None, None):
            raise InvalidInputError('epsilon, lift, x_range and y_range are for method="moments"')
        answers = [FoldingRegressor().fit(rows[mine], outputs[mine]).answers(queries) for mine in sites]
        alone = np.array([_explained(found, truth) for _, found in answers])
        distances, found = (np.column_stack(part) for part in zip(*answers, strict=True))
        together = combine_numbers(distances, found)
        return _found(together, truth, alone, 16 * n_clients * len(queries), None)
    if x_range is None or y_range is None:
        raise InvalidInputError('method="moments" needs declared ranges: x_range and y_range')
    settings: dict[str, Any] = {"lift": lift, "x_range": x_range, "y_range": y_range}
    federation = MomentFederation(epsilon=epsilon, delta=delta, **settings)
    n_bytes, scores = 0, []
    for number, mine in enumerate(sites):
        message = federation.release(rows[mine], outputs[mine])
        n_bytes += len(message)
        federation.add(number, message)
        single = MomentFederation(epsilon=epsilon, delta=delta, **settings).add(number, message)
        scores.append(_explained(single.fitted(MomentRegressor).predict(queries), truth))
    model = federation.fitted(MomentRegressor)
    return _found(model.predict(queries), truth, np.array(scores), n_bytes, model.guarantee_)


def _sites(outputs: Floats, n_clients: int, spread: str, random_state: int) -> list[Index]:
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(outputs))
    if spread == "sorted":
        order = np.argsort(outputs, kind="stable")
    return np.array_split(order, n_clients)


def _explained(predicted: Array, truth: Floats) -> float:
    variance = float(np.var(truth))
    return 1.0 - float(np.mean((predicted - truth) ** 2)) / variance if variance > 0.0 else float("nan")


def _found(
    predicted: Array, truth: Floats, alone: Floats, n_bytes: int, guarantee: Guarantee | None
) -> RegressionSimulation:
    error = float(np.sqrt(np.mean((predicted - truth) ** 2)))
    return RegressionSimulation(_explained(predicted, truth), error, alone, n_bytes, guarantee)
