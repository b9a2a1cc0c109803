"""The privacy-utility curve: from the schema and the noise alone, with the release marked."""

import numpy as np
import pytest

from onefold.privacy import AnalyticGaussian, Box, FisherGaussian, Laplace
from onefold.report.curves import FREE, curve_section, noise_forecast, table_forecast
from onefold.tables import Field, Schema

SCHEMA = Schema(
    [
        Field("age", low=0, high=100),
        Field("sick", "boolean", "label"),
        Field("who", "string", "person"),
    ],
    rows_per_person=2,
)


@pytest.mark.parametrize("unit", ["record", "person"])
def test_table_forecast_rises_and_marks_the_release(unit: str) -> None:
    curve = table_forecast(SCHEMA, 3.0, 500, unit)
    shares = curve.scores["forecast"]
    assert curve.marked == 3.0
    assert curve.unit == unit
    assert 3.0 in curve.epsilons
    assert 0 <= shares[0] < shares[-1] <= 1


def test_more_rows_make_the_forecast_better() -> None:
    few, many = (table_forecast(SCHEMA, 1.0, n).scores["forecast"] for n in (100, 10_000))
    assert all(np.less(few, many))


def test_noise_forecast_is_the_probability_of_small_noise() -> None:
    curve = noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=5.0), 2.0, 5.0)
    expected = 1.0 - np.exp(-0.1 * np.asarray(curve.epsilons))
    # The noise is rounded up to a grid.
    np.testing.assert_allclose(curve.scores["forecast"], expected, rtol=1e-5)


def test_gaussian_noise_of_rows_and_of_entries_agree() -> None:
    # One column: the change of a record is that of its entry.
    one = noise_forecast(lambda e: FisherGaussian.from_epsilon(e, 1, sensitivity=Box(0, 1, 1)), 1.0, 1.0)
    other = noise_forecast(lambda e: AnalyticGaussian(e, 1e-5, Box(0, 1, 1)), 1.0, 1.0)
    # Both round their noise up to a grid of their own.
    np.testing.assert_allclose(one.scores["forecast"], other.scores["forecast"], rtol=1e-3)


def test_section_says_what_the_curve_costs_and_shows_every_number() -> None:
    curve = noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=1.0), 1.0, 1.0)
    section = curve_section(curve)
    assert FREE in section.text
    drawn = [text.get_text() for text in curve.plot().ax_.texts]
    assert drawn == [f"{share:.2f}" for share in curve.scores["forecast"]]
    assert section.display is curve
