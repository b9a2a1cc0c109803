"""Findings about a table: every broken rule is told by column and row, and no cell is."""

from __future__ import annotations

import pandas as pd

from onefold.tables import Field, Schema, check_table

SCHEMA = Schema(
    (
        Field("who", "string", role="person"),
        Field("age", "integer", low=0, high=110),
        Field("sex", "string", levels=("F", "M")),
        Field("lab", "number", low=0, high=5, missing="indicator"),
        Field("ill", "string", role="label", levels=("no", "yes")),
    ),
    rows_per_person=2,
)
GOOD = {
    "who": ["a", "b", "b", "c"],
    "age": ["1", "2", "3", "4"],
    "sex": ["F", "M", "F", "M"],
    "lab": ["", "1", "2.5", ""],
    "ill": ["no", "yes", "no", "no"],
}


def test_a_table_that_keeps_its_contract_has_no_findings() -> None:
    assert check_table(SCHEMA, GOOD) == []
    assert check_table(SCHEMA, pd.DataFrame(GOOD).assign(more="x")) == []


def test_every_kind_of_problem_is_told_by_column_and_row() -> None:
    bad = {
        "who": ["a", "a", "a", ""],
        "age": ["", "old", "3.5", "400"],
        "sex": ["F", "secret", "F", "M"],
        "lab": ["", "1", "9", "secret"],
        "ill": ["no", "yes", "", "no"],
    }
    told = [str(finding) for finding in check_table(SCHEMA, bad)]
    assert told == [
        "column 'age': is missing in 1 row (1)",
        "column 'age': cannot be read as an integer in 1 row (2)",
        "column 'age': is outside the declared range in 1 row (4)",
        "column 'age': is not a whole number in 1 row (3)",
        "column 'sex': is not one of the 2 declared categories in 1 row (2)",
        "column 'lab': cannot be read as a number in 1 row (4)",
        "column 'lab': is outside the declared range in 1 row (3)",
        "column 'ill': is missing in 1 row (3)",
        "column 'who': is missing in 1 row",
        "column 'who': 1 person(s) have more than the declared 2 rows",
    ]
    assert "secret" not in str(told)


def test_blocks_are_counted_together_and_rows_numbered_through() -> None:
    frame = pd.DataFrame({**GOOD, "age": ["1", "x", "x", "x"]})
    whole = check_table(SCHEMA, frame)
    assert check_table(SCHEMA, (frame.iloc[start : start + 1] for start in range(4))) == whole
    assert whole[0].rows == (2, 3, 4)
    many = check_table(SCHEMA, {name: cells * 10 for name, cells in {**GOOD, "age": ["x"] * 4}.items()})
    assert many[0].count == 40
    assert many[0].rows == (1, 2, 3, 4, 5)


def test_a_column_that_is_not_there_is_a_finding() -> None:
    rest = {name: cells for name, cells in GOOD.items() if name not in ("age", "ill")}
    assert [str(finding) for finding in check_table(SCHEMA, rest)] == [
        "column 'age': is not in the table",
        "column 'ill': is not in the table",
    ]
