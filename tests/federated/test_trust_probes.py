"""Labelled rows hidden among others: nobody can tell them, and everything comes back in its place."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.federated.messages import Answers, Failure, FailureCode
from onefold.federated.trust import hide


def test_answers_come_back_in_the_order_of_the_rows() -> None:
    rows, labelled = np.arange(40.0).reshape(20, 2), -np.arange(1.0, 11.0).reshape(5, 2)
    hidden = hide(rows, labelled, "q")
    mixed = hidden.mixed.features
    assert sorted(map(tuple, mixed)) == sorted(map(tuple, np.concatenate([rows, labelled])))
    np.testing.assert_array_equal(mixed[hidden.places], rows)
    np.testing.assert_array_equal(mixed[hidden.labelled_places], labelled)
    np.testing.assert_array_equal(hidden.asked.features, rows)
    assert hidden.mixed.id == hidden.asked.id == "q"

    values = np.abs(mixed)  # each row is answered by itself
    right = Answers("q", "a", (0, 1), "euclidean", None, values)
    other = Answers("other", "b", (0, 1), "euclidean", None, values)
    short = Answers("q", "c", (0, 1), "euclidean", None, values[:3])
    failed = Failure("q", "d", FailureCode.INTERNAL)
    alone, known = hidden.parted({"a": right, "b": other, "c": short, "d": failed})
    np.testing.assert_array_equal(alone["a"].values, rows)
    np.testing.assert_array_equal(known["a"].values, np.abs(labelled))
    # What does not answer this query is not touched: the combination refuses it.
    assert (alone["b"], alone["c"], alone["d"]) == (other, short, failed)
    assert list(known) == ["a"]


def test_order_of_hidden_rows_changes_every_time() -> None:
    rows, labelled = np.zeros((60, 1)), np.ones((60, 1))
    places = {tuple(hide(rows, labelled, "q").labelled_places.tolist()) for _ in range(3)}
    assert len(places) == 3
    assert tuple(range(60, 120)) not in places


def test_query_without_hidden_rows_is_unchanged() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    hidden = hide(rows, None, "q")
    np.testing.assert_array_equal(hidden.mixed.features, rows)
    assert hidden.places.tolist() == [0, 1, 2]
    answers = Answers("q", "a", (0, 1), "euclidean", None, rows)
    assert hidden.parted({"a": answers}) == ({"a": answers}, {})
    with pytest.raises(InvalidInputError, match="features"):
        hide(rows, np.zeros((2, 3)), "q")
