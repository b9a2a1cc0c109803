"""Declared domains: their size is never too small, and clipping never leaves them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import Ball, Box, domains

finite = st.floats(-1e6, 1e6)


def test_box_sizes_worked_out_by_hand() -> None:
    box = Box([0, -1, 5], [3, 3, 17])
    assert (box.entry, box.l1, box.l2, box.n_features) == (12.0, 19.0, 13.0, 3)
    assert Box(0, 255).entry == 255.0
    assert Box(0, [1, 2]).l1 == 3.0
    with pytest.raises(InvalidInputError, match="n_features"):
        _ = Box(0, 1).l1
    with pytest.raises(InvalidInputError, match="n_features"):
        _ = Box(0, 1).l2


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(finite, finite).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=6))
def test_box_sizes_are_rounded_up(bounds: list[tuple[float, float]]) -> None:
    low, high = [min(pair) for pair in bounds], [max(pair) for pair in bounds]
    box = Box(low, high)
    widths = [Fraction(b) - Fraction(a) for a, b in zip(low, high, strict=True)]
    assert Fraction(box.entry) >= max(widths)
    assert Fraction(box.l1) >= sum(widths)
    assert Fraction(box.l2) ** 2 >= sum(width**2 for width in widths)
    assert box.l1 == pytest.approx(float(sum(widths)), rel=1e-14)
    assert box.entry == pytest.approx(float(max(widths)), rel=1e-14)


def test_ball_sizes_worked_out_by_hand() -> None:
    assert (Ball(1.5).l2, Ball(1.5).entry) == (3.0, 3.0)
    assert Ball(1.5, n_features=4).l1 == 6.0
    assert (Ball(1.5, norm=1).l1, Ball(1.5, norm=1).l2) == (3.0, 3.0)
    with pytest.raises(InvalidInputError, match="n_features"):
        _ = Ball(1.0).l1


def test_box_moves_entries_to_the_nearest_bound() -> None:
    X = np.array([[-5.0, 0.5], [0.2, 9.0]])
    assert Box(0, [1, 2]).clip(X).tolist() == [[0.0, 0.5], [0.2, 2.0]]
    assert X[0, 0] == -5.0
    with pytest.raises(InvalidInputError, match="has 2 features, the data 3"):
        Box(0, [1, 2]).clip(np.zeros((1, 3)))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6),
    st.sampled_from([1, 2]),
    st.floats(1e-100, 1e100),
)
def test_rows_clipped_to_a_ball_lie_in_it(row: list[float], norm: int, radius: float) -> None:
    clipped = Ball(radius, norm).clip(np.array([row]))[0].tolist()
    exact = [abs(Fraction(x)) for x in clipped]
    if norm == 1:
        assert sum(exact) <= Fraction(radius)
    else:
        assert sum(x**2 for x in exact) <= Fraction(radius) ** 2
    assert all(math.copysign(1, a) == math.copysign(1, b) for a, b in zip(row, clipped, strict=True) if b)
    length = sum(abs(Fraction(x)) ** norm for x in row)
    if length <= (Fraction(radius) * Fraction(999_999, 1_000_000)) ** norm:
        assert clipped == row  # short rows are left alone
    elif max(map(abs, row)) < 1e300:
        got = sum(x**norm for x in exact)
        assert got >= (Fraction(radius) * Fraction(999_999, 1_000_000)) ** norm


def test_clipping_to_a_ball_keeps_the_direction_of_extreme_rows() -> None:
    clipped = Ball(1.0).clip(np.array([[3.0, 4.0], [0.0, 0.0], [1e300, 1e300], [1e-320, 0.0]]))
    assert clipped[0] == pytest.approx([0.6, 0.8])
    assert clipped[1].tolist() == [0.0, 0.0]
    assert clipped[2] == pytest.approx([math.sqrt(0.5)] * 2)
    assert clipped[3].tolist() == [1e-320, 0.0]
    assert Ball(1.0).clip(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    "low, high",
    [
        (1, 1),
        (2, 1),
        (np.nan, 1),
        (0, np.nan),
        (0, np.inf),
        (-np.inf, 0),
        ("a", 1),
        ([0, 1], [1, 1]),
        ([], []),
    ],
)
def test_invalid_boxes_are_refused(low: object, high: object) -> None:
    with pytest.raises(InvalidInputError, match="bounds must"):
        Box(low, high)  # type: ignore[arg-type]


def test_other_invalid_domains_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="bounds must"):
        Box(np.zeros((2, 2)), 1)
    with pytest.raises(InvalidInputError, match="bounds must"):
        Box([0, 0], [1, 1, 1])
    with pytest.raises(InvalidInputError, match="but there are 2 bounds"):
        Box([0, 0], 1, n_features=3)
    with pytest.raises(InvalidInputError, match="n_features"):
        Box(0, 1, n_features=0)
    for radius in (0, -1, np.nan, np.inf, "x", 1e308 * 1.5):
        with pytest.raises(InvalidInputError, match="radius must"):
            Ball(radius)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="norm must"):
        Ball(1.0, norm=3)


def test_bounds_taken_from_the_data_warn() -> None:
    X = np.array([[0.0, 5.0], [2.0, 5.0]])
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        box = domains.from_data(X)
    assert box.inferred
    assert not Box(0, 1).inferred
    assert box.low.tolist() == [0.0, 5.0]
    assert box.high[0] == 2.0
    for bad in (np.zeros((0, 2)), np.zeros(3), np.array([[np.nan]])):
        with pytest.warns(PrivacyLeakWarning), pytest.raises(InvalidInputError, match="2D table"):
            domains.from_data(bad)


# --- a private hint ---------------------------------------------------------------------------------------


def test_the_number_of_clipped_records_is_told_with_noise_only() -> None:
    X = np.concatenate([np.full((30, 2), 5.0), np.full((70, 2), 0.5)])
    count, promise = Box(0, 1).count_outside(X, 1.0)
    assert 0 <= count <= 100
    assert promise.holds
    assert promise.record == promise.record_with_label == (1.0, 0.0)
    counts = np.array([Box(0, 1).count_outside(X, 1.0, seed)[0] for seed in range(2000)])
    assert abs(counts.mean() - 30) < 5 * np.sqrt(2.0 / 2000)
    assert 1.5 < counts.var() < 2.2  # discrete Laplace of epsilon 1: 1.84
    assert not Box(0, 1).count_outside(X, 1.0, random_state=0)[1].holds
    assert Ball(10.0).count_outside(X, 1e5)[0] == 0
