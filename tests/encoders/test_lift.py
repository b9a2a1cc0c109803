"""The public lift: its kernel, its lengths, and bits that depend on nothing but the row."""

import hashlib

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from onefold.encoders import FourierLift
from onefold.encoders.projections import N_ANGLES, TABLE_DIGITS


def rows(n=300, width=20, seed=0):
    given = np.random.default_rng(seed).normal(size=(n, width))
    return given / np.linalg.norm(given, axis=1, keepdims=True)


def test_inner_products_approximate_a_linear_and_a_gaussian_kernel() -> None:
    X = rows()
    lifted = FourierLift(4000).fit_transform(X)
    squares = np.sum((X[:, None] - X) ** 2, axis=2)
    expected = (X @ X.T + np.exp(-squares / 4.0)) / 2.0  # directions of deviation 1 / sqrt(2)
    np.testing.assert_allclose(lifted @ lifted.T, expected, atol=0.04)


@pytest.mark.parametrize("radius", [0.5, 1.0, 7.0])
def test_lifted_rows_are_never_longer_than_one(radius: float) -> None:
    X = np.vstack([rows() * 10.0, rows() * 0.01, np.zeros((1, 20)), np.eye(20) * radius])
    assert np.linalg.norm(FourierLift(30, radius=radius).fit_transform(X), axis=1).max() <= 1.0


@pytest.mark.parametrize("entry", [1e-320, 1.0, np.finfo(float).max])
def test_lifted_rows_of_equal_entries_are_not_longer_either(entry: float) -> None:
    width = 2990  # 2^14 / sqrt(width) = 299.63: the nearest steps would all be too long
    assert np.linalg.norm(FourierLift(8).fit_transform(np.full((1, width), entry))) <= 1.0


@pytest.mark.exact
def test_bits_depend_on_the_row_alone() -> None:
    X = rows()
    lift = FourierLift(100).fit(X)
    together = lift.transform(X)
    with threadpool_limits(1):
        one_by_one = np.vstack([lift.transform(X[i : i + 1]) for i in range(40)])
    np.testing.assert_array_equal(one_by_one, together[:40])
    np.testing.assert_array_equal(lift.transform(np.asfortranarray(X[::-1]))[::-1], together)


@pytest.mark.exact
def test_bits_are_the_same_on_every_processor() -> None:
    lifted = FourierLift(64, random_state=3).fit_transform(np.arange(60.0).reshape(6, 10) / 100.0)
    steps = np.rint(np.ldexp(lifted, 40)).astype(np.int64)
    assert hashlib.sha256(steps.tobytes()).hexdigest()[:16] == "3b4663d0c4f3b0c1"


def test_table_of_cosines_has_no_entry_that_a_last_digit_could_round_differently() -> None:
    angles = (np.arange(N_ANGLES) + 0.5) * (2.0 * np.pi / N_ANGLES)
    behind = np.mod(np.ldexp(np.cos(angles), TABLE_DIGITS), 1.0)
    assert np.abs(behind - 0.5).min() > 1e-6
