"""Rows of persons: who is who, and which rows are dropped."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.exceptions import InvalidInputError
from onefold.fabrication import TableSynthesizer
from onefold.privacy.persons import known_persons, limit_rows, person_codes
from onefold.tables import Field, Schema


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 4))
def test_nobody_keeps_more_rows_than_allowed_and_nobody_is_dropped(person, most) -> None:
    kept = limit_rows(np.array(person, dtype=int), most)
    assert np.all(np.diff(kept) > 0)
    before, after = (
        dict(zip(*np.unique(rows, return_counts=True), strict=True))
        for rows in (np.array(person, dtype=int), np.array(person, dtype=int)[kept])
    )
    assert after == {name: min(most, count) for name, count in before.items()}


def test_every_row_is_kept_equally_often() -> None:
    counts = np.zeros(6)
    for seed in range(3000):
        counts[limit_rows(["a"] * 5 + ["b"], 2, seed)] += 1
    assert counts[5] == 3000
    expected, spread = 1200, np.sqrt(3000 * 0.4 * 0.6)
    assert np.all(np.abs(counts[:5] - expected) < 5 * spread)


def test_the_choice_differs_from_call_to_call() -> None:
    choices = {tuple(limit_rows(np.zeros(40), 20).tolist()) for _ in range(5)}
    assert len(choices) == 5


@pytest.mark.parametrize(
    "person",
    [
        [1.0, float("nan")],
        ["a", ""],
        ["a", None],
        ["a", float("nan")],
        np.array(["a", "nan"]),
        [["a", "b"]],
        np.array([1, 2], dtype=complex),
    ],
)
def test_missing_or_strange_persons_are_refused_in_one_line(person) -> None:
    with pytest.raises(InvalidInputError, match="person") as caught:
        person_codes(person, 2)
    assert "\n" not in str(caught.value)


def test_texts_numbers_and_objects_name_the_same_persons() -> None:
    for names in (["x", "y", "x"], [3, 7, 3], [3.0, 7.0, 3.0], np.array(["x", "y", "x"], dtype=object)):
        assert person_codes(names, 3).tolist() == [0, 1, 0]


def test_one_person_written_in_two_ways_stays_one_person() -> None:
    """Taken for two, a person would keep twice the rows that its guarantee is about."""
    assert np.unique(person_codes(np.array([1, 1.0, "1", np.int64(1)], dtype=object), 4)).size == 1
    assert person_codes(pd.Series(["a", "b", "a"], dtype="category"), 3).tolist() == [0, 1, 0]
    assert person_codes(np.array([-0.0, 0.0]), 2).tolist() == [0, 0]
    assert np.unique(person_codes([1, 1.0, "1", " 1", "1.0", b"1"], 6)).size == 1
    assert person_codes(np.array(["1", "1.0", "1.5", "x.0"]), 4).tolist() == [0, 0, 1, 2]
    assert person_codes(np.array(["a", "a ", "b"]), 3).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "person",
    [
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None], dtype="string"),
        pd.Series(["a", pd.NaT], dtype=object),
        ["a", "  "],
        np.array([b"a", b""]),
    ],
)
def test_missing_values_of_every_kind_are_refused(person) -> None:
    with pytest.raises(InvalidInputError, match="person is missing in some rows"):
        person_codes(person, 2)


def test_rows_about_nobody_are_told_apart_row_by_row() -> None:
    cells = ["a", "", "nan", " nan ", "\0", "NaN", None, float("nan"), 1.0, "1"]
    known = known_persons(np.array(cells, dtype=object), len(cells))
    assert known.tolist() == [True, False, False, False, False, True, False, False, True, True]
    for cell, own in zip(cells, known.tolist(), strict=True):
        assert known_persons(np.array([cell], dtype=object), 1).tolist() == [own]
    person_codes(np.array(cells, dtype=object)[known], int(known.sum()))


LONG = [2**60 + person for person in range(20)]
COLUMNS = {
    "list": list,
    "pandas": lambda cells: pd.Series(cells, dtype="Int64"),
    "arrow": lambda cells: pd.Series(cells, dtype="int64[pyarrow]"),
    "polars": lambda cells: pl.Series(cells, dtype=pl.Int64),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_missing_person_makes_no_one_of_many(kind) -> None:
    person = COLUMNS[kind]([*LONG, None])
    assert known_persons(person, 21).tolist() == [True] * 20 + [False]
    schema = Schema([Field("age", low=0, high=1, bins=(0.5,)), Field("who", "integer", role="person")])
    rows = {"age": np.zeros(21), "who": person}
    for whom in (None, person):
        counts = TableSynthesizer(schema, None, rows_per_person=1).fit(rows, whom).counts_
        assert counts.vector.tolist() == [20, 0]


def test_long_numbers_of_persons_stay_apart_beside_one_with_a_fraction() -> None:
    assert len(set(person_codes([*LONG, 0.5], 21).tolist())) == 21
