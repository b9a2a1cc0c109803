"""Reading CSV, NPZ and Parquet: the same table from each, and one clear line for what cannot be read."""

import sys
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.tables import agreement, identifiers_of, labels_of, read_numbers
from onefold.exceptions import FileFormatError, InvalidInputError, MissingDependencyError

VALUES = np.array([[1.5, -2.0], [0.1, 1e300], [3.0, 4.0]])


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def refuse(path: Path, **options: object) -> str:
    with pytest.raises(InvalidInputError) as caught:
        read_numbers(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_csv_gives_values_names_and_labels(tmp_path: Path, delimiter: str, start: str, newline: str) -> None:
    rows = [["a", "kind", "b c"], ["1.5", "x", "-2"], ["0.1", ' "y" ', "1e300"], ["3", "x", "4"]]
    path = tmp_path / "t.csv"
    text = start + newline.join(delimiter.join(row) for row in rows) + newline
    path.write_text(text, encoding="utf-8", newline="")
    table = read_numbers(path, keep=["kind"])
    assert table.names == ("a", "b c")
    np.testing.assert_array_equal(table.values, VALUES)
    assert labels_of(table, "kind").tolist() == ["x", "y", "x"]


def test_csv_reads_quoted_delimiters_and_skips_blank_lines(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", '"a, b",y\n"1.5","p, q"\n\n2,r\n')
    table = read_numbers(path, keep=["y"])
    assert table.names == ("a, b",)
    assert table.values.tolist() == [[1.5], [2.0]]
    assert table.kept["y"].tolist() == ["p, q", "r"]


def test_features_are_taken_by_name_and_unused_text_columns_are_left_out(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "b,name,a,more\n2,Ada,1,9\n4,Bob,3,9\n")
    table = read_numbers(path, features=["a", "b"])
    assert table.values.tolist() == [[1, 2], [3, 4]]
    assert table.ignored == 2
    assert read_numbers(path, ignore=["name", "more"]).values.tolist() == [[2, 1], [4, 3]]


def test_hundred_thousand_rows_keep_their_order(tmp_path: Path) -> None:
    n = 100_000
    rows = np.arange(n)
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "\n".join(f"{i},c{i % 7}" for i in rows), encoding="utf-8")
    table = read_numbers(path, keep=["y"])
    np.testing.assert_array_equal(table.values[:, 0], rows)
    assert table.kept["y"][-1] == f"c{(n - 1) % 7}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_npz_matrix_keeps_its_precision(tmp_path: Path, dtype: type) -> None:
    path = tmp_path / "t.npz"
    X = np.arange(12, dtype=dtype).reshape(4, 3)
    np.savez(path, X=X, y=np.array([0, 1, 0, 1]), other=np.zeros(9))
    table = read_numbers(path, keep=["y"])
    assert table.names is None
    assert table.values.dtype == dtype
    np.testing.assert_array_equal(table.values, X)
    assert labels_of(table, "y").tolist() == [0, 1, 0, 1]


def test_npz_with_names_columns_or_images_is_read(tmp_path: Path) -> None:
    X = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "named.npz", X=X, feature_names=["p", "q"], y=["u", "v", "u"])
    assert read_numbers(tmp_path / "named.npz", features=["q", "p"]).values.tolist() == X[:, ::-1].tolist()
    np.savez(tmp_path / "columns.npz", p=[0, 2, 4], q=[1, 3, 5], y=["u", "v", "u"])
    assert read_numbers(tmp_path / "columns.npz", keep=["y"]).values.tolist() == X.tolist()
    np.savez(tmp_path / "images.npz", X=np.zeros((5, 4, 3), dtype=np.uint8))
    assert read_numbers(tmp_path / "images.npz").values.shape == (5, 12)


def test_parquet_gives_the_same_table_as_csv(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = {"a": VALUES[:, 0], "kind": ["x", "y", "x"], "b": VALUES[:, 1]}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    table = read_numbers(tmp_path / "t.parquet", keep=["kind"])
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.values, VALUES)
    assert labels_of(table, "kind").tolist() == ["x", "y", "x"]


@pytest.mark.parametrize(
    "text, options, words",
    [
        ("", {}, "empty"),
        ("a,b\n", {}, "no rows"),
        ("a,b\n1,2\n3\n", {}, "line 3 has 1 cells"),
        ("a,b\n1,2,3\n", {}, "line 2 has 3 cells, the header line has 2"),
        ("a,b\n1,2\n3,secret\n", {}, "column 'b' is not numeric (row 2)"),
        ("a,b\n1,2\n,4\n", {}, "column 'a' has an empty cell in row 2"),
        ("a,b\n1,2\n3,nan\n", {}, "column 'b' is not numeric (row 2)"),
        ("a,b\n1,2\n-inf,3\n", {}, "column 'a' has a NaN or infinite value in row 2"),
        ("a,b\n1,2\n", {"keep": ["c"]}, "no column 'c'"),
        ("age,b\n1,2\n", {"keep": ["agee"]}, "did you mean 'age'"),
        ("a,b\n1,2\n", {"features": ["a", "z"]}, "1 of the model's 2 features missing: 'z'"),
        ("a,b\n1,2\n", {"keep": ["a"], "features": ["a", "b"]}, "is a feature of the model"),
        ("a,b\n1,2\n", {"keep": ["a"], "ignore": ["b"]}, "no feature column is left"),
        ("a,,b\n1,2,3\n", {}, "column 2 has no name"),
        ("7.25,7.25\n1,2\n", {}, "columns 1 and 2 have one name: rename one, or add a header line"),
    ],
)
def test_bad_csv_is_refused_with_the_place_of_the_mistake(
    tmp_path: Path, text: str, options: dict[str, object], words: str
) -> None:
    message = refuse(write_csv(tmp_path / "t.csv", text), **options)
    assert words in message
    assert "secret" not in message
    assert "7.25" not in message


def test_error_of_a_bad_cell_has_no_cause_that_shows_the_cell(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "a\nsecret\n")
    with pytest.raises(InvalidInputError) as caught:
        read_numbers(path)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_bad_path_is_refused(tmp_path: Path) -> None:
    assert "no such file" in refuse(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "the folder has no .parquet file" in refuse(tmp_path / "folder.csv")
    assert "must end in" in refuse(write_csv(tmp_path / "t.xlsx", "a\n1\n"))
    binary = tmp_path / "b.csv"
    binary.write_bytes(bytes(range(128, 256)))
    assert "UTF-8" in refuse(binary)


def test_bad_npz_is_refused(tmp_path: Path) -> None:
    good = tmp_path / "good.npz"
    np.savez(good, X=np.random.default_rng(0).normal(size=(50, 20)), y=np.arange(50))
    data = good.read_bytes()
    for name, damaged in [
        ("cut.npz", data[: len(data) // 2]),
        ("text.npz", b"hello there"),
        ("flip.npz", data[:300] + bytes(b ^ 255 for b in data[300:320]) + data[320:]),
    ]:
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(FileFormatError, match="NPZ"):
            read_numbers(tmp_path / name)
    np.savez(tmp_path / "objects.npz", X=np.array([[1, "a"]], dtype=object))
    assert "Python objects" in refuse(tmp_path / "objects.npz")
    np.savez(tmp_path / "text2.npz", X=np.array([["1", "a"]]))
    assert "not numeric" in refuse(tmp_path / "text2.npz")
    np.savez(tmp_path / "lengths.npz", X=np.zeros((3, 2)), y=np.zeros(2))
    assert "one entry for each row" in refuse(tmp_path / "lengths.npz", keep=["y"])
    np.savez(tmp_path / "flat.npz", X=np.zeros(3))
    assert "rows and columns" in refuse(tmp_path / "flat.npz")
    np.savez(tmp_path / "nan.npz", X=np.array([[1.0, 2.0], [1.0, np.nan]]))
    assert "feature 2 has a NaN or infinite value in row 2" in refuse(tmp_path / "nan.npz")


def test_bad_parquet_is_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"a": [1.0, None], "b": ["x", "y"], "c": [1, 2]}), path)
    assert "column 'a' has a NaN or infinite value in row 2" in refuse(path, features=["a"])
    assert "column 'b' is not numeric" in refuse(path, features=["c", "b"])
    (tmp_path / "cut.parquet").write_bytes(path.read_bytes()[:-30])
    assert "Parquet" in refuse(tmp_path / "cut.parquet")


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'onefold\[parquet\]'"):
        read_numbers(write_csv(tmp_path / "t.parquet", "PAR1"))


@pytest.mark.parametrize(
    "cells, expected",
    [
        (["1", "2", "1"], [1, 2, 1]),
        (["1.0", "-2.", "0"], [1, -2, 0]),
        (["007", "008", "7"], ["007", "008", "7"]),
        (["x", "1", "2"], ["x", "1", "2"]),
        (["9" * 30, "1", "2"], ["9" * 30, "1", "2"]),
        (["1.5", "2", "3"], None),
        (["x", "", "y"], None),
        (["1", "nan", "2"], None),
    ],
)
def test_labels_from_text_are_whole_numbers_or_text(
    tmp_path: Path, cells: list[str], expected: list[object] | None
) -> None:
    table = read_numbers(
        write_csv(tmp_path / "t.csv", "a,y\n" + "".join(f"1,{c}\n" for c in cells)), keep=["y"]
    )
    if expected is None:
        with pytest.raises(InvalidInputError, match="'y'"):
            labels_of(table, "y")
    else:
        assert labels_of(table, "y").tolist() == expected


@pytest.mark.parametrize(
    "column, expected",
    [
        (np.array([True, False]), ["True", "False"]),
        (np.array([3, 4], dtype=np.uint8), [3, 4]),
        (np.array([3.0, 4.0]), [3, 4]),
        (np.array([3.5, 4.0]), None),
        (np.array([np.nan, 4.0]), None),
        (np.array([np.inf, 4.0]), None),
        (np.array([1j, 2]), None),
    ],
)
def test_labels_from_arrays_are_whole_numbers_or_text(
    tmp_path: Path, column: np.ndarray, expected: list[object] | None
) -> None:
    np.savez(tmp_path / "t.npz", X=np.zeros((2, 1)), y=column)
    table = read_numbers(tmp_path / "t.npz", keep=["y"])
    if expected is None:
        with pytest.raises(InvalidInputError, match="label column 'y'"):
            labels_of(table, "y")
    else:
        assert labels_of(table, "y").tolist() == expected


def test_identifiers_keep_leading_zeros(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "a,i,j\n1,001,10\n2,x,20\n")
    table = read_numbers(path, keep=["i", "j"])
    assert identifiers_of(table.kept["i"]).tolist() == ["001", "x"]
    assert identifiers_of(table.kept["j"]).tolist() == [10, 20]


def test_agreement_compares_numbers_and_text_as_text() -> None:
    assert agreement(np.array([1, 2, 3, 4]), np.array(["1", "2", "x", "4"])) == 0.75
