"""Smoothing rows that are noisy already: the second half of fabricating."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator
from onefold.privacy import Laplace


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    return rng.random((120, 5)) + y[:, None], y


@pytest.mark.exact
@pytest.mark.parametrize("stopping", ["honest", 2])
@pytest.mark.parametrize("branch_size", [1000, 15])
def test_randomise_then_smooth_equals_fabricate(data, stopping, branch_size) -> None:
    X, y = data
    maker = Fabricator(Laplace(5.0, sensitivity=1.0), 3, stopping, branch_size)
    whole = maker.fabricate(X, y, np.random.default_rng(4))
    noisy = maker.randomise(X, y, np.random.default_rng(4))
    np.testing.assert_array_equal(maker.smooth(noisy, y), whole)


@pytest.mark.exact
def test_smooth_gives_each_class_the_rows_it_gets_alone(data) -> None:
    X, y = data
    maker = Fabricator(Laplace(5.0, sensitivity=1.0), 3, branch_size=15)
    noisy = maker.randomise(X, y)
    whole = maker.smooth(noisy, y)
    for label in range(3):
        np.testing.assert_array_equal(maker.smooth(noisy[y == label], y[y == label]), whole[y == label])


def test_smooth_with_documented_stopping_is_refused(data) -> None:
    with pytest.raises(InvalidInputError, match="raw rows"):
        Fabricator(Laplace(5.0, sensitivity=1.0), 3, "documented").smooth(*data)
