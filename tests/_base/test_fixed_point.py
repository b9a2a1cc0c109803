"""Lengths of rows in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from onefold._base.fixed_point import exact_gram, row_lengths


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
    assert math.isfinite(row_lengths(np.full((1, 4), np.finfo(float).max))[0])


@pytest.mark.exact
def test_lengths_depend_on_the_row_alone() -> None:
    rows = np.random.default_rng(1).normal(size=(50, 37))
    alone = [row_lengths(rows[i : i + 1])[0] for i in range(50)]
    np.testing.assert_array_equal(row_lengths(np.asfortranarray(rows)), alone)


@pytest.mark.exact
def test_gram_of_whole_numbers_is_exact() -> None:
    steps = np.random.default_rng(2).integers(-(2**14), 2**14, (300, 9))
    np.testing.assert_array_equal(exact_gram(steps.astype(float)), steps.T @ steps)
