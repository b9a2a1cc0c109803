"""What is expected of a number that was seen through noise and must lie in an interval."""

import math

import pytest

from onefold._base.noisy_values import mean_inside
from reference.noisy_pairs import cut_off_mean


@pytest.mark.parametrize("value", [-40.0, -3.0, -0.2, 0.0, 0.3, 1.0, 2.5, 30.0])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.0, math.inf), (-0.5, 0.5)])
@pytest.mark.parametrize("deviation", [0.01, 0.3, 5.0])
def test_mean_is_that_of_the_law_between_the_ends(
    value: float, ends: tuple[float, float], deviation: float
) -> None:
    found = mean_inside(value, deviation, *ends)
    assert ends[0] <= found <= ends[1]
    if abs(value) / deviation < 200.0:  # where quadrature still finds the law
        assert found == pytest.approx(cut_off_mean(value, deviation, *ends), rel=1e-6, abs=1e-9)


def test_no_noise_leaves_the_value_and_endless_noise_the_middle() -> None:
    assert mean_inside(0.3, 0.0, 0.0, 1.0) == 0.3
    assert mean_inside(-2.0, 0.0, 0.0, 1.0) == 0.0
    for deviation in (1e3, 1e6, 1e12, 1e100):
        assert mean_inside(0.3, deviation, 0.0, 1.0) == pytest.approx(0.5, abs=1e-5)
        assert mean_inside(-7.0, deviation, 0.0, 1.0) == pytest.approx(0.5, abs=1e-2)


@pytest.mark.parametrize("value", [-1e8, 1e8, -1e300, 1e300])
def test_values_far_outside_are_the_nearest_end(value: float) -> None:
    found = mean_inside(value, 1.0, 0.0, 1.0)
    assert found == pytest.approx(float(value > 0.0), abs=1e-6)
