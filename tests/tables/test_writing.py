"""Writing tables: what is written is read back, whole or not at all."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.exceptions import InvalidInputError
from onefold.tables import Field, Schema, check_table, read_table, write_table
from onefold.tables.cells import NumberFormat

# A text is read without the blanks around it, and NUL is no text.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12).map(str.strip)
AWKWARD = st.sampled_from(
    ['"', '""', ",", ";", "\n", "\r", "\r\n", 'a"b', "=1+1", "x\n,y", "ä", "😀", "#", "'"]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(TEXTS | AWKWARD.map(str.strip), TEXTS), min_size=1, max_size=8),
    st.sampled_from(["csv", "tsv"]),
)
def test_texts_of_any_kind_are_read_back(rows: list[tuple[str, str]], suffix: str) -> None:
    columns = {
        "left": np.array([row[0] for row in rows], dtype=object),
        "right": np.array([row[1] for row in rows], dtype=object),
        "n": np.arange(len(rows)),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t.{suffix}"
        write_table(path, columns)
        table = read_table(path)
    assert {name: values.tolist() for name, values in table.items()} == {
        name: [str(cell) for cell in values.tolist()] for name, values in columns.items()
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_a_single_column_of_texts_keeps_its_empty_cells(cells: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        write_table(path, {"only one": np.array(cells, dtype=object)})
        assert read_table(path)["only one"].tolist() == cells


COLUMNS = {
    "number": np.array([0.1, np.nan, -1e300]),
    "whole": np.array([1, 2, 3]),
    "gaps": np.ma.masked_array([4, 0, 6], mask=[False, True, False]),
    "truth": np.array([True, False, True]),
    "text": np.array(["a,b", 'say "x"', "=1+1"]),
    "objects": np.array(["x", None, "z"], dtype=object),
    "day": np.array(["2024-02-29", "NaT", "1999-01-01"], "M8[D]"),
    "time": np.array(["2024-02-29T12:30:00", "NaT", "1999-01-01"], "M8[s]"),
}


def test_csv_has_empty_cells_for_what_is_missing_and_quotes_what_needs_it(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", COLUMNS)
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines() == [
        "number,whole,gaps,truth,text,objects,day,time",
        '0.1,1,4,True,"a,b",x,2024-02-29,2024-02-29T12:30:00',
        ',2,,False,"say ""x""",,,',
        "-1e+300,3,6,True,'=1+1,z,1999-01-01,1999-01-01T00:00:00",
    ]


def test_npz_has_nan_for_gaps_in_whole_numbers(tmp_path: Path) -> None:
    write_table(tmp_path / "t.npz", COLUMNS)
    table = read_table(tmp_path / "t.npz")
    assert [values.dtype.kind for values in table.values()] == ["f", "i", "f", "b", "U", "U", "M", "M"]
    np.testing.assert_array_equal(table["gaps"], [4, np.nan, 6])
    assert table["objects"].tolist() == ["x", "", "z"]
    np.testing.assert_array_equal(table["time"], COLUMNS["time"])


@pytest.mark.parametrize(
    "column, kind",
    [
        (np.ma.masked_array([1, 2]), "f"),
        (np.ma.masked_array([True, False]), "U"),
        (np.ma.masked_array(["a", "bc"]), "U"),
        (np.ma.masked_array(np.array(["2020-01-01", "2021-01-01"], "M8[D]")), "M"),
    ],
)
def test_type_of_a_masked_column_does_not_depend_on_its_gaps(
    tmp_path: Path, column: np.ma.MaskedArray, kind: str
) -> None:
    with_gap = column.copy()
    with_gap[0] = np.ma.masked
    types = []
    for values in (column, with_gap):
        write_table(tmp_path / "t.npz", {"a": values})
        types.append(read_table(tmp_path / "t.npz")["a"].dtype)
    assert types[0] == types[1]
    assert types[0].kind == kind


def test_parquet_has_nulls_and_keeps_types(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    write_table(tmp_path / "t.parquet", COLUMNS)
    stored = parquet.read_table(tmp_path / "t.parquet")
    assert [column.null_count for column in stored.columns] == [1, 0, 1, 0, 0, 1, 1, 1]
    assert [str(field.type) for field in stored.schema] == [
        "double",
        "int64",
        "int64",
        "bool",
        "string",
        "string",
        "date32[day]",
        "timestamp[s]",
    ] or str(stored.schema.field("time").type) == "timestamp[ms]"  # older versions of the format
    table = read_table(tmp_path / "t.parquet")
    np.testing.assert_array_equal(table["gaps"], [4, np.nan, 6])
    np.testing.assert_array_equal(table["day"], COLUMNS["day"])


def test_two_dimensional_columns_are_named_by_the_classes(tmp_path: Path) -> None:
    columns = {
        "prediction": np.array([3, 5]),
        "distances": np.array([[0.5, 1], [2, 0.25]]),
        "classes": np.array([3, 5]),
    }
    write_table(tmp_path / "t.csv", columns)
    assert (tmp_path / "t.csv").read_text().splitlines()[0] == "prediction,distance_3,distance_5"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("columns", [{}, {"a": np.arange(2), "b": np.arange(3)}])
def test_columns_of_different_lengths_are_refused_and_the_old_file_stays(
    tmp_path: Path, suffix: str, columns: dict[str, np.ndarray]
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / f"t.{suffix}"
    path.write_text("old")
    with pytest.raises(InvalidInputError, match="all of one length"):
        write_table(path, columns)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="must end in"):
        write_table(tmp_path / "t.xlsx", COLUMNS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.npz"])
def test_a_table_written_by_a_schema_is_read_by_it(name, tmp_path) -> None:
    schema = Schema(
        [
            Field("when", "date", low=0, high=20000, format="%d.%m.%Y", missing="indicator"),
            Field("dose", low=0, high=2000, written=NumberFormat(",", "."), missing="indicator"),
            Field("ill", "boolean", true_values=("ja",), false_values=("nein",)),
        ]
    )
    parsed = {
        "when": np.array([0.0, 18000.0, np.nan]),
        "dose": np.array([1234.5, 1e-7, np.nan]),
        "ill": np.array([0, 1, 1]),
    }
    shown = schema.show(parsed)
    write_table(tmp_path / name, shown, schema)
    table = read_table(tmp_path / name)
    assert check_table(schema, table) == []
    for column, cells in schema.parse(table).items():
        np.testing.assert_array_equal(getattr(cells, "values", cells), parsed[column])
    if name == "t.csv":
        assert (tmp_path / name).read_text().splitlines()[1] == '01.01.1970,"1234,5",nein'


def test_a_column_called_classes_is_one_like_others_where_no_column_needs_names(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", {"prediction": np.array([3, 5]), "classes": np.array([3, 5])})
    assert (tmp_path / "t.csv").read_text().splitlines()[0] == "prediction,classes"
