"""Reading CSV, NPZ and Parquet: the same table from each, and one clear line for what cannot be read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.tables import Field, Schema
from onefold.tables.rows import Rows, row_blocks, rows
from onefold.tables.tasks import CLASSES, NUMBERS, identifiers_of

VALUES = np.array([[1.5, -2.0], [0.1, 1e300], [3.0, 4.0]])


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def read_numbers(path: Path, features: list[str] | None = None, **options: Any) -> Rows:
    return rows(path, "numbers" if features is None else Schema.numbers(features), mode="lenient", **options)


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
    table = read_numbers(path, label="kind")
    assert table.names == ("a", "b c")
    np.testing.assert_array_equal(table.X, VALUES)
    assert table.y.tolist() == ["x", "y", "x"]


def test_csv_reads_quoted_delimiters_and_skips_blank_lines(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", '"a, b",y\n"1.5","p, q"\n\n2,r\n')
    table = read_numbers(path, keep=["y"])
    assert table.names == ("a, b",)
    assert table.X.tolist() == [[1.5], [2.0]]
    assert table.kept["y"].tolist() == ["p, q", "r"]


def test_features_are_taken_by_name_and_unused_text_columns_are_left_out(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "b,name,a,more\n2,Ada,1,9\n4,Bob,3,9\n")
    table = read_numbers(path, features=["a", "b"])
    assert table.X.tolist() == [[1, 2], [3, 4]]
    assert table.ignored == 2
    assert read_numbers(path, ignore=["name", "more"]).X.tolist() == [[2, 1], [4, 3]]


def test_hundred_thousand_rows_keep_their_order(tmp_path: Path) -> None:
    n = 100_000
    rows = np.arange(n)
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "\n".join(f"{i},c{i % 7}" for i in rows), encoding="utf-8")
    table = read_numbers(path, keep=["y"])
    np.testing.assert_array_equal(table.X[:, 0], rows)
    assert table.kept["y"][-1] == f"c{(n - 1) % 7}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_npz_matrix_keeps_its_precision(tmp_path: Path, dtype: type) -> None:
    path = tmp_path / "t.npz"
    X = np.arange(12, dtype=dtype).reshape(4, 3)
    np.savez(path, X=X, y=np.array([0, 1, 0, 1]), other=np.zeros(9))
    table = read_numbers(path, label="y")
    assert table.names == ()
    assert table.X.dtype == dtype
    np.testing.assert_array_equal(table.X, X)
    assert table.y.tolist() == [0, 1, 0, 1]


def test_npz_with_names_columns_or_images_is_read(tmp_path: Path) -> None:
    X = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "named.npz", X=X, feature_names=["p", "q"], y=["u", "v", "u"])
    assert read_numbers(tmp_path / "named.npz", features=["q", "p"]).X.tolist() == X[:, ::-1].tolist()
    np.savez(tmp_path / "columns.npz", p=[0, 2, 4], q=[1, 3, 5], y=["u", "v", "u"])
    assert read_numbers(tmp_path / "columns.npz", keep=["y"]).X.tolist() == X.tolist()
    np.savez(tmp_path / "images.npz", X=np.zeros((5, 4, 3), dtype=np.uint8))
    assert read_numbers(tmp_path / "images.npz").X.shape == (5, 12)


def test_parquet_gives_the_same_table_as_csv(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = {"a": VALUES[:, 0], "kind": ["x", "y", "x"], "b": VALUES[:, 1]}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    table = read_numbers(tmp_path / "t.parquet", label="kind")
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.X, VALUES)
    assert table.y.tolist() == ["x", "y", "x"]


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
    assert "must end in" in refuse(write_csv(tmp_path / "t.xls", "a\n1\n"))
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
    path = write_csv(tmp_path / "t.csv", "a,y\n" + "".join(f"1,{c}\n" for c in cells))
    if expected is None:
        assert "'y'" in refuse(path, label="y")
    else:
        assert read_numbers(path, label="y").y.tolist() == expected


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
    if expected is None:
        assert "label column 'y'" in refuse(tmp_path / "t.npz", label="y")
    else:
        assert read_numbers(tmp_path / "t.npz", label="y").y.tolist() == expected


def test_identifiers_keep_leading_zeros(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "a,i,j\n1,001,10\n2,x,20\n")
    table = read_numbers(path, keep=["i", "j"])
    assert identifiers_of(table.kept["i"]).tolist() == ["001", "x"]
    assert identifiers_of(table.kept["j"]).tolist() == [10, 20]


def test_numbers_and_texts_are_compared_as_texts() -> None:
    found = rows({"a": [1.0, 2.0, 3.0, 4.0], "y": ["1", "2", "x", "4"]}, "numbers", label="y")
    assert found.accuracy(np.array([1, 2, 3, 4])) == 0.75


# --- one door for every kind of table ---------------------------------------------------------------------


WARD = Schema(
    [
        Field("age", "integer", low=0, high=100),
        Field("ward", "string", levels=("a", "b")),
        Field("ill", "string", role="label", levels=("no", "yes")),
        Field("who", "string", role="person"),
    ]
)
ROWS = {"age": ["31", "64", "17", "40"], "ward": ["a", "b", "b", "a"], "ill": ["no", "yes", "", "yes"]}
ROWS |= {"who": ["p", "q", "p", "r"]}


def write_rows(path: Path, columns: dict[str, list[str]], copies: int = 1) -> Path:
    lines = [",".join(row) for row in zip(*columns.values(), strict=True)] * copies
    return write_csv(path, "\n".join([",".join(columns), *lines]) + "\n")


def test_rows_of_one_patient_are_asked_about_unless_somebody_has_said_so() -> None:
    table = {"patient_id": ["p", "q", "p", "r"], "age": [31, 64, 31, 40], "ill": ["a", "b", "a", "b"]}
    asked = "several rows have the same 'patient_id'"
    assert any(note.startswith(asked) for note in rows(table, label="ill").notes)
    said = rows(table, label="ill", person="patient_id")
    apart = rows(table | {"patient_id": ["p", "q", "s", "r"]}, label="ill")
    assert not any(asked in note for note in (*said.notes, *apart.notes))


def test_a_file_and_a_table_in_memory_give_the_same_rows(tmp_path: Path) -> None:
    found = [rows(source, WARD) for source in (ROWS, write_rows(tmp_path / "t.csv", ROWS))]
    for one in found:
        assert one.y.tolist() == ["no", "yes", "yes"]
        assert one.persons.tolist() == ["p", "q", "r"]
        assert one.task is CLASSES
        assert "1 of 4 rows left out: 'ill' is missing there" in one.notes
    np.testing.assert_array_equal(found[0].encoded, found[1].encoded)
    np.testing.assert_array_equal(
        found[0].encoded, WARD.transform({k: np.array(v)[[0, 1, 3]] for k, v in ROWS.items()})
    )


def test_strict_rows_refuse_a_cell_that_private_rows_take(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv", ROWS | {"age": ["31", "old", "17", "40"]})
    with pytest.raises(
        InvalidInputError, match="row 2, column 'age': cannot be read as an integer"
    ) as caught:
        rows(path, WARD)
    assert "old" not in str(caught.value).replace(str(path), "")
    private = rows(path, WARD, mode="private")
    assert len(private) == 4
    assert private.X["age"].problems.tolist() == [0, 2, 0, 0]
    empty = rows(write_csv(tmp_path / "none.csv", ",".join(ROWS) + "\n"), WARD, mode="private")
    assert len(empty) == 0


def test_blocks_are_the_rows_and_name_the_row_of_a_mistake(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv", ROWS, copies=6000)  # a block has 20 000 rows
    blocks = list(row_blocks(path, WARD))
    assert [len(block) for block in blocks] == [20_000, 4000]
    whole = rows(path, WARD)
    assert len(whole) == sum(len(block.y) for block in blocks) == 18_000
    path.write_text(path.read_text() + "older,a,no,p\n")
    with pytest.raises(InvalidInputError, match="row 24001, column 'age'"):
        rows(path, WARD)


def test_blocks_of_plain_numbers_agree_on_the_type_of_labels(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "a,y\n" + "1,1.0\n" * 20_000 + "2,x\n")
    assert set(rows(path, "numbers", label="y").y.tolist()) == {"1", "x"}
    path.write_text(path.read_text() + "3,\n")
    assert "row 20002" in refuse(path, label="y")


def test_nobody_declared_means_persons_that_are_all_different() -> None:
    found = rows({"a": [1.0, 2.0, 3.0], "y": ["u", "v", "u"]}, "numbers", label="y")
    assert len(set(found.persons.tolist())) == 3
    assert not found.grouped
    named = rows(
        {"a": [1.0, 2.0, 3.0], "y": ["u", "v", "u"], "w": ["p", "q", "p"]}, "numbers", label="y", person="w"
    )
    assert named.grouped
    assert named.names == ("a",)


def test_parts_of_rows_keep_labels_beside_their_rows() -> None:
    found = rows(ROWS, WARD, mode="lenient", label="ill", keep=["who"])
    assert found.known.tolist() == [True, True, False, True]
    assert found[1:3].y.tolist() == ["yes"]
    assert found[np.array([3, 2, 0])].y.tolist() == ["yes", "no"]
    assert found[found.known].kept["who"].tolist() == ["p", "q", "r"]


def test_a_class_that_is_not_declared_stays_in_a_table_that_is_compared() -> None:
    schema = Schema([WARD.fields[0], Field("ill", "integer", role="label", levels=(1, 2))])
    for cells, wanted in (("1212", [1, 2, 1, 2]), ("1232", ["1", "2", "3", "2"])):
        assert rows(ROWS | {"ill": [*cells]}, schema, mode="lenient", label="ill").y.tolist() == wanted


def test_no_person_is_in_both_parts_of_a_split() -> None:
    table = {
        "a": np.arange(40.0) ** 2,
        "b": np.arange(40.0)[::-1] / 2,
        "y": ["u", "v"] * 20,
        "w": [f"p{n // 4}" for n in range(40)],
    }
    for task, label in ((CLASSES, "y"), (NUMBERS, "b")):
        found = rows(table, person="w", label=label, ignore=["y"] if label == "b" else [], task=task.name)
        assert found.task is task
        train, held = found.split(0.3, 0)
        assert (len(train), len(held)) == (28, 12)
        assert not set(train.persons.tolist()) & set(held.persons.tolist())


def test_the_only_row_of_a_class_is_learned_from_and_the_others_are_held_out_alike() -> None:
    for seed in range(5):
        held = CLASSES.split("", np.array([*"aabbc"]), np.arange(5), 0.4, seed)
        assert (held[:2].sum(), held[2:4].sum(), held[4]) == (1, 1, False)
    held = CLASSES.split("", np.arange(100) % 10, np.arange(100), 0.3, 0)
    assert held.reshape(10, 10).sum(axis=0).tolist() == [3] * 10


def test_numbers_as_they_stand_are_not_changed() -> None:
    schema = Schema.numbers(["a", "b"])
    X = np.array([[1.5, -7.0]], dtype=np.float32)
    assert schema.transform(X).dtype == np.float32
    assert schema.transform({"a": [1.5], "b": [-7]}).tolist() == [[1.5, -7.0]]
    assert Schema.from_dict(schema.to_dict()).plain
    assert Schema.numbers(3).unnamed
    assert not schema.unnamed


def test_nothing_is_promised_about_numbers_without_a_range() -> None:
    with pytest.raises(InvalidInputError, match="no declared range"):
        Schema.numbers(["a"]).require_declared()
    ranged = Schema.numbers(["a", "b"], low=-3, high=4)
    ranged.require_declared()
    assert ranged.row_norm == pytest.approx(np.sqrt(32))
    assert ranged.entry_change == 7
    with pytest.raises(InvalidInputError, match="either all features are numbers as they stand"):
        Schema([Field("a", scale="plain"), Field("b", low=0, high=1)])
