"""The experiments on forecasts and real sites run at small size."""

import json

import pytest

from experiments.privacy import forecast, sites


def test_forecast_is_compared_with_what_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert forecast.main(["--quick", "--json", "--splits", "1", "--draws", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["values"]) == {f"cancer {n} {e}" for n in (1, 3) for e in (0.5, 1.0, 4.0)}
    assert abs(told["values"]["cancer 1 4.0"]) < 0.1
    ((_, guessing, plain, centred, origin),) = told["tables"][2]["rows"]
    assert guessing < plain
    assert centred > origin - 0.05


@pytest.mark.nightly
def test_typical_values_make_private_moments_of_three_small_sites_useful(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sites.main(["--quick", "--json", "--draws", "5"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["private moments, epsilon 4 per record"] > 0.9
    assert values["private moments, epsilon 1 per record"] > 0.75
