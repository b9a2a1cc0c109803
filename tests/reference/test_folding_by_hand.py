"""The literal folding measures and batches against values worked out by hand."""

from math import exp, sqrt

import numpy as np
import pytest

from reference import folding, kahm

Y, IMAGE = np.array([3.0, 0.0]), np.array([0.0, 4.0])  # distance 5, angle 90 degrees: cosine part 1/2


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("euclidean", 5.0),
        ("rms", sqrt(((1 - exp(-5)) ** 2 + 0.25) / 2)),
        ("product", (1 - exp(-5)) / 2),
        ("min", 0.5),
        ("max", 1 - exp(-5)),
        ("fuzzy", 1 - exp(-25 / 4)),
    ],
)
def test_measures_equal_values_worked_out_by_hand(option: str, expected: float) -> None:
    assert folding.measure(Y, IMAGE, option) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("option", folding.MEASURES)
def test_measure_of_a_perfect_fit_is_zero(option: str) -> None:
    y = np.array([1.0, 2.0, 2.0])
    # arccos turns a last digit of the cosine, 1e-16, into an angle of 1e-8.
    assert folding.measure(y, y, option) == pytest.approx(0.0, abs=1e-7)


def test_angle_of_an_opposite_image_is_one() -> None:
    assert folding.cosine_part(Y, -2 * Y) == pytest.approx(1.0, abs=1e-7)
    assert folding.cosine_part(Y, 2 * Y) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize(
    ("N", "batch_size", "sizes"),
    [
        (1, 100, [1]),
        (30, 100, [30]),
        (149, 100, [149]),
        (151, 100, [76, 75]),
        (10, 3, [4, 3, 3]),
        (7, 1, [1] * 7),
    ],
)
def test_batches_are_consecutive_and_of_the_expected_sizes(N: int, batch_size: int, sizes: list[int]) -> None:
    batches = folding.contiguous_batches(N, batch_size)
    assert [len(rows) for rows in batches] == sizes
    np.testing.assert_array_equal(np.concatenate(batches), np.arange(N))


def test_measure_of_a_class_is_the_minimum_over_its_batches(rng: np.random.Generator) -> None:
    X = rng.normal(size=(20, 4)) + 1.0
    machines = folding.fit_batches(X, 10, 3)
    assert [len(machine.Y) for machine in machines] == [10, 10]
    y = rng.normal(size=4)
    values = [folding.measure(y, kahm.image(machine, y), "rms") for machine in machines]
    assert folding.batch_minimum(machines, y, "rms") == min(values)
    assert folding.wide_minimum([[machine] for machine in machines], y, "rms") == min(values)
