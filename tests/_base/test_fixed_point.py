"""Lengths of rows in exact arithmetic."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from onefold._base.fixed_point import exact_gram, mean_inside, row_lengths, shortened, unit_rows
from reference.noisy_pairs import cut_off_mean


@pytest.mark.parametrize("size", [1e-300, 1e-3, 1.0, 1e300])
@pytest.mark.parametrize("width", [1, 3, 1280])
def test_lengths_are_never_too_short_and_hardly_too_long(width: int, size: float) -> None:
    rows = np.random.default_rng(0).normal(size=(20, width)) * size
    found = row_lengths(rows)
    for row, length in zip(rows, found, strict=True):
        square = sum(Fraction(entry) ** 2 for entry in row.tolist())
        assert Fraction(length) ** 2 >= square
        assert Fraction(length) ** 2 <= square * Fraction(1 + 1e-5)


def test_whole_numbers_have_exact_lengths() -> None:
    assert row_lengths(np.array([[3.0, 4.0], [0.0, 0.0], [0.375, 0.5], [-8.0, 0.0]])).tolist() == [
        5,
        0,
        0.625,
        8,
    ]
    assert row_lengths(np.zeros((2, 0))).tolist() == [0, 0]
    assert row_lengths(np.full((1, 4), np.finfo(float).max)).tolist() == [math.inf]


@pytest.mark.exact
@pytest.mark.parametrize("entry", [5e-324, 1.5e-323, 1e-310, 1e-160, 1.0, 1e160, np.finfo(float).max])
def test_rows_of_any_size_come_to_length_one(entry: float) -> None:
    rows = entry * np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 1.0], [0.0, 0.0, 1.0]])
    expected = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 1.0], [0.0, 0.0, 1.0]])
    expected /= np.sqrt([[2.0], [3.0], [1.0]])
    for found in (unit_rows(rows), shortened(rows, entry * 0.5 if entry > 1e-300 else entry)):
        steps = np.trunc(np.ldexp(found, 14)).astype(np.int64)
        assert (np.sum(steps**2, axis=1) <= 2**28).all()
    np.testing.assert_allclose(unit_rows(rows), expected, rtol=1e-7)
    assert unit_rows(np.zeros((1, 3))).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.exact
def test_short_rows_are_divided_by_the_declared_length() -> None:
    rows = np.array([[0.3, 0.4], [0.0, 0.0], [1e-300, 0.0], [30.0, 40.0]])
    np.testing.assert_array_equal(shortened(rows, 5.0)[:3], rows[:3] / 5.0)
    np.testing.assert_array_equal(shortened(rows, 5.0)[3], [0.6, 0.8])


@pytest.mark.exact
def test_lengths_depend_on_the_row_alone() -> None:
    rows = np.random.default_rng(1).normal(size=(50, 37))
    alone = [row_lengths(rows[i : i + 1])[0] for i in range(50)]
    np.testing.assert_array_equal(row_lengths(np.asfortranarray(rows)), alone)


@pytest.mark.exact
def test_gram_of_whole_numbers_is_exact() -> None:
    steps = np.random.default_rng(2).integers(-(2**14), 2**14, (300, 9))
    np.testing.assert_array_equal(exact_gram(steps.astype(float)), steps.T @ steps)


# --- what is expected of a number behind noise that must lie in an interval --------------------------------


@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.0, math.inf), (-0.5, 0.5)])
def test_mean_is_that_of_the_law_between_the_ends(ends: tuple[float, float]) -> None:
    for value, deviation in product([-40.0, -3.0, -0.2, 0.0, 0.3, 1.0, 2.5, 30.0], [0.01, 0.3, 5.0]):
        found = mean_inside(value, deviation, *ends)
        assert ends[0] <= found <= ends[1]
        if abs(value) / deviation < 200.0:  # where quadrature still finds the law
            law = cut_off_mean(value, deviation, *ends)
            assert found == pytest.approx(law, rel=1e-6, abs=1e-9), (value, deviation)


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
