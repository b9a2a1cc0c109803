"""Frames of every kind are tables, and what comes out is of the kind that went in."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from onefold.exceptions import InvalidInputError
from onefold.fabrication import TableSynthesizer
from onefold.tables import Field, Schema, check_table
from onefold.tables.columns import count_rows, rows_of
from onefold.tables.rows import rows

COLUMNS: dict[str, Any] = {
    "age": pa.array([31, None, 50, 64] * 30),
    "ward": pa.array(["a", "b ", None, "b"] * 30),
    "kind": pa.array(["x", "y", "x", "y"] * 30).dictionary_encode(),
    "day": pa.array([0, 1, None, 3] * 30, pa.date32()),
    "ill": pa.array([True, False, True, False] * 30),
}
SCHEMA = Schema(
    [
        Field("age", "integer", low=0, high=100, missing="indicator"),
        Field("ward", "string", levels=("a", "b"), missing="indicator"),
        Field("kind", "string", levels=("x", "y")),
        Field("day", "date", low=0, high=10, missing="indicator"),
        Field("ill", "boolean", role="label"),
    ]
)
TABLE = pa.table(COLUMNS)
KINDS: dict[str, Callable[[], Any]] = {
    "arrow": lambda: TABLE,
    "pandas": TABLE.to_pandas,
    "polars": lambda: pl.from_arrow(TABLE),
}
PLAIN = {name: column.to_pylist() for name, column in COLUMNS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_any_kind_is_read_like_its_cells(kind: str) -> None:
    frame = KINDS[kind]()
    np.testing.assert_array_equal(SCHEMA.transform(frame), SCHEMA.transform(PLAIN))
    assert SCHEMA.labels(frame)[0].tolist() == PLAIN["ill"]
    assert check_table(SCHEMA, frame) == []
    assert {known.name for known in Schema.infer(frame, "ill").fields} == {*COLUMNS}
    found = rows(frame, SCHEMA)
    np.testing.assert_array_equal(found.encoded, SCHEMA.transform(PLAIN))
    some = rows_of(frame, [5, 2])
    assert type(some) is type(frame)
    assert count_rows(some) == 2
    np.testing.assert_array_equal(SCHEMA.transform(some), SCHEMA.transform(PLAIN)[[5, 2]])
    with pytest.raises(InvalidInputError, match="has no column 'age' among its 4"):
        SCHEMA.transform(frame.drop(columns="age") if kind == "pandas" else _without_age(frame))


def _without_age(frame: Any) -> Any:
    return frame.drop("age") if isinstance(frame, pl.DataFrame) else frame.drop_columns(["age"])


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_synthetic_rows_are_of_the_kind_that_was_fitted(kind: str) -> None:
    frame = KINDS[kind]()
    made = TableSynthesizer(SCHEMA, epsilon=10.0, delta=1e-5).fit(frame).sample(50, random_state=1)
    assert type(made) is type(frame)
    assert check_table(SCHEMA, made) == []
    plain = TableSynthesizer(SCHEMA, epsilon=10.0, delta=1e-5).fit(PLAIN).sample(5)
    assert isinstance(plain, dict)


def test_a_frame_of_dask_is_read_like_its_cells() -> None:
    dask = pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(TABLE.to_pandas(), npartitions=3)
    np.testing.assert_array_equal(SCHEMA.transform(frame), SCHEMA.transform(PLAIN))


@pytest.mark.parametrize(
    "frame",
    [pa.table([[1.0], [2.0]], names=["x", "x"]), pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])],
    ids=["arrow", "pandas"],
)
def test_two_columns_of_one_name_are_refused(frame: Any) -> None:
    with pytest.raises(InvalidInputError, match="two columns of the table are called 'x'"):
        Schema([Field("x", low=0, high=9)]).transform(frame)


def test_a_column_of_lists_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidInputError, match="neither numbers, nor dates, nor text"):
        Schema([Field("x", low=0, high=9)]).transform(pa.table({"x": [[1], [2]]}))
