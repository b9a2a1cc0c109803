"""What a private table is worth at other epsilons, from what is declared and released; no row is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from onefold.report.curves import PrivacyUtilityDisplay
from onefold.report.document import Section

if TYPE_CHECKING:
    from onefold.tables import Schema

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
STEPS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # around the epsilon of a release
MOCK_CELLS = 600_000  # of made-up rows: beyond these the error of a count stays, and counts for less
FEWEST_ROWS = 2000  # of them, however many columns there are
NEAR = 0.1  # of the range of a column
CELLS = "rows in the right cell, worst column"
NUMBERS = "numbers near their place"
HEADING = "What another epsilon would give"
FREE = "No private row was read for this curve, and it costs no epsilon."
HOW = {
    CELLS: "A forecast. As many rows as the released number says are made up from the schema alone and "
    "counted with the same noise. The curve shows the share of rows that noise leaves in the right cell of a "
    "single column, for the column where this share is smallest. It does not say how good a model of the "
    "table will be.",
    NUMBERS: "Computed from the noise alone: the share of numbers that it moves by no more than a tenth of "
    "the range of their column, before anything is clipped or smoothed. It does not say how good a model of "
    "the table will be.",
}

WORTH = {
    CELLS: "What it is worth, by a forecast: noise leaves {share} of 100 rows in the right cell of a "
    "column, even of the worst one.",
    NUMBERS: "What it is worth: noise moves {share} of 100 numbers by no more than a tenth of the range "
    "of their column.",
}


def table_forecast(
    schema: Schema,
    epsilon: float | None,
    n_rows: int,
    unit: str = "record",
    delta: float = 1e-5,
    neighbours: Literal["add-remove", "replace"] = "add-remove",
    epsilons: Sequence[float] = EPSILONS,
) -> PrivacyUtilityDisplay:
    """Forecast the share of rows in the right cell of the worst column of a synthetic table.

    Rows are made up from the schema, no more than the curve needs, for a number of rows that is declared or
    released.

    Parameters
    ----------
    schema : Schema
        The schema of the table.
    epsilon : float or None
        Epsilon of the release that is marked, if there is one.
    n_rows : int
        Number of rows, declared or from noisy counts.
    unit : {"record", "person"}, default="record"
        What epsilon protects.
    delta : float, default=1e-5
        Delta of all releases.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        How neighbouring tables differ.
    epsilons : sequence of float, default=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
        Where the curve is computed besides.

    Returns
    -------
    PrivacyUtilityDisplay
        The curve.

    See Also
    --------
    noise_forecast : The same for noise on single numbers.

    Examples
    --------
    >>> from onefold.tables import Field, Schema
    >>> schema = Schema([Field("age", low=0, high=100), Field("sick", "boolean")])
    >>> shares = table_forecast(schema, 1.0, 1000).scores["forecast"]
    >>> bool(shares[0] < shares[-1] <= 1.0)
    True
    """
    from onefold.fabrication import TableSynthesizer, mock_table

    records = schema.without_person()
    own = schema if unit == "person" else records
    made_up = min(max(n_rows, 20), max(MOCK_CELLS // max(len(schema.fields), 1), FEWEST_ROWS))
    mock: dict[str, Any] = dict(mock_table(records, made_up, random_state=0))
    if unit == "person" and own.person is not None:
        mock[own.person.name] = [f"p{place // (own.rows_per_person or 1)}" for place in range(made_up)]
    wanted = sorted(epsilons if epsilon is None else {*epsilons, float(epsilon)})
    shares = []
    for each in wanted:
        counted = TableSynthesizer(own, each, delta, neighbours=neighbours, random_state=0).fit(mock)
        worst = max(counted.expected_errors_.values(), default=0.0)
        shares.append(float(max(0.0, 1.0 - worst * made_up / max(made_up, n_rows))))
    return PrivacyUtilityDisplay(
        wanted, {"forecast": shares}, marked=epsilon, measure=CELLS, unit=unit, whole=True
    )


def noise_forecast(
    noise_at: Callable[[float], Any],
    epsilon: float | None,
    width: float,
    unit: str = "entry",
    epsilons: Sequence[float] | None = None,
) -> PrivacyUtilityDisplay:
    """Compute the share of numbers that noise leaves within a tenth of their range, around an epsilon.

    Parameters
    ----------
    noise_at : callable
        The noise for an epsilon: a mechanism with ``cdf``, or Gaussian noise with ``standard_errors``.
    epsilon : float or None
        Epsilon of the release that is marked, if there is one.
    width : float
        Width of the declared range of a column, in the units of the noise.
    unit : {"entry", "record", "person"}, default="entry"
        What epsilon protects.
    epsilons : sequence of float or None, default=None
        Where the curve is computed; None takes eighths to eightfolds of ``epsilon``.

    Returns
    -------
    PrivacyUtilityDisplay
        The curve.

    See Also
    --------
    table_forecast : The same for tables that are drawn from noisy counts.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> curve = noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=1.0), 1.0, 1.0)
    >>> round(curve.scores["forecast"][curve.epsilons.index(1.0)], 3)  # 1 - exp(-0.1)
    0.095
    """
    places = [step * (epsilon or 1.0) for step in STEPS] if epsilons is None else list(epsilons)
    shares = [near(noise_at(each), NEAR * width) for each in places]
    return PrivacyUtilityDisplay(
        places, {"forecast": shares}, marked=epsilon, measure=NUMBERS, unit=unit, whole=True
    )


def near(noise: Any, reach: float) -> float:
    """How likely noise is no larger than ``reach``."""
    if hasattr(noise, "cdf"):
        return float(noise.cdf(reach) - noise.cdf(-reach))
    return math.erf(reach / (float(noise.standard_errors(noise.n_features or 1)[0]) * math.sqrt(2.0)))


def curve_section(curve: PrivacyUtilityDisplay) -> Section:
    """Show a forecast, and say what it was made from.

    Parameters
    ----------
    curve : PrivacyUtilityDisplay
        What :func:`table_forecast` or :func:`noise_forecast` returned.

    Returns
    -------
    Section
        The picture under its heading.

    See Also
    --------
    onefold.report.builders.of_table : Takes it among the sections about quality.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> curve = noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=1.0), 1.0, 1.0)
    >>> curve_section(curve).title
    'What another epsilon would give'
    """
    return Section(HEADING, [HOW[curve.measure], FREE], display=curve)


def worth(curve: PrivacyUtilityDisplay) -> str:
    """Say what the marked release of a forecast is worth.

    Parameters
    ----------
    curve : PrivacyUtilityDisplay
        What :func:`table_forecast` or :func:`noise_forecast` returned.

    Returns
    -------
    str
        One sentence for the verdict.

    See Also
    --------
    curve_section : Shows all of the forecast.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> worth(noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=1.0), 1.0, 1.0))
    'What it is worth: noise moves 10 of 100 numbers by no more than a tenth of the range of their column.'
    """
    marked = 0.0 if curve.marked is None else curve.marked
    place = min(range(len(curve.epsilons)), key=lambda each: abs(curve.epsilons[each] - marked))
    return WORTH[curve.measure].format(share=f"{100 * curve.scores['forecast'][place]:.0f}")
