"""The stratified division into training and test part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.datasets import train_test_split
from onefold.exceptions import InvalidInputError


@given(
    counts=st.lists(st.integers(4, 40), min_size=1, max_size=5),
    test_size=st.floats(0.2, 0.8),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_row_once_and_every_class_in_its_share(counts, test_size, seed) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    y = np.random.default_rng(seed).permutation(y)
    X = np.arange(len(y))[:, None]
    X_train, y_train, X_test, y_test = train_test_split(X, y, test_size, seed)
    assert sorted([*X_train[:, 0], *X_test[:, 0]]) == list(range(len(y)))
    np.testing.assert_array_equal(y_train, y[X_train[:, 0]])
    np.testing.assert_array_equal(y_test, y[X_test[:, 0]])
    for label, count in enumerate(counts):
        assert abs(np.sum(y_test == label) - test_size * count) <= 1
        assert np.sum(y_train == label) >= 1


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    X, y = np.arange(100)[:, None], np.arange(100) % 4
    first, second, other = (train_test_split(X, y, random_state=seed)[2] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("test_size", [0.0, 1.0, -1.0, float("nan")])
def test_a_share_outside_zero_and_one_is_refused(test_size: float) -> None:
    with pytest.raises(InvalidInputError, match="test_size"):
        train_test_split(np.zeros((4, 1)), [0, 0, 1, 1], test_size)


def test_data_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="same number"):
        train_test_split(np.zeros((3, 1)), [0, 1])
    with pytest.raises(InvalidInputError, match="empty"):
        train_test_split(np.zeros((2, 1)), [0, 1])
    with pytest.raises(InvalidInputError, match="empty"):
        train_test_split(np.zeros((0, 1)), [])


@given(
    groups=st.lists(st.integers(0, 8), min_size=2, max_size=80).filter(lambda found: len(set(found)) > 1),
    test_size=st.floats(0.1, 0.9),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_group_is_in_one_part_only(groups, test_size, seed) -> None:
    rows = np.arange(len(groups))[:, None]
    X_train, _, X_test, _ = train_test_split(rows, groups, test_size, seed, groups=groups)
    assert sorted([*X_train[:, 0], *X_test[:, 0]]) == list(range(len(groups)))
    inside, outside = ({groups[i] for i in part[:, 0]} for part in (X_train, X_test))
    assert inside
    assert outside
    assert not inside & outside
    largest = max(groups.count(group) for group in groups)
    assert abs(len(X_test) - test_size * len(groups)) <= largest


@pytest.mark.parametrize("groups", [[1, 1, 1, 1], [1, 2], ["a", None, "b", "c"]])
def test_one_group_or_missing_names_are_refused(groups) -> None:
    with pytest.raises(InvalidInputError, match="groups"):
        train_test_split(np.zeros((4, 1)), [0, 0, 1, 1], groups=groups)
