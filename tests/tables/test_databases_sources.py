"""Tables in databases: types, statements, refusals, and where passwords do not go. SQLite always."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.cli.console import one_line
from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.tables import Field, Schema, check_table, read_table, write_table
from onefold.tables.reading import open_table
from reference.blocks import scan

pytest.importorskip("sqlalchemy")

SECRET = "hunter-2"
ROWS = [(31, 1.5, "a ", "2024-02-01", None), (64, None, "b", "2024-03-01", "x"), (50, 2.0, None, None, "y")]


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    path = tmp_path / "ward 7.db"
    with sqlite3.connect(path) as db:
        db.execute('CREATE TABLE "Visits" (age INTEGER, dose REAL, ward TEXT, day TEXT, note TEXT)')
        db.executemany('INSERT INTO "Visits" VALUES (?, ?, ?, ?, ?)', ROWS)
        db.execute('CREATE VIEW old AS SELECT age, ward FROM "Visits" WHERE age > 40')
        db.execute("CREATE TABLE pictures (age INTEGER, picture BLOB)")
        db.execute("INSERT INTO pictures VALUES (3, x'00ff')")
        db.execute("CREATE TABLE codes (id INTEGER, mixed)")
        db.executemany("INSERT INTO codes VALUES (?, ?)", [(2**53 + 1, 3), (None, "three")])
        db.execute("CREATE TABLE empty (age INTEGER)")
    return path


def _at(path: Path, table: str = "Visits") -> str:
    return f"sqlite:///{path}#{table}"


def _statement(path: Path, statement: str) -> str:
    asked = path.with_suffix(".sql")
    asked.write_text(statement)
    return f"sqlite:///{path}#{asked}"


def test_a_table_arrives_with_the_types_of_the_database(ward: Path) -> None:
    table = read_table(_at(ward))
    assert list(table) == ["age", "dose", "ward", "day", "note"]
    assert table["age"].dtype == np.int64
    assert table["age"].tolist() == [31, 64, 50]
    np.testing.assert_array_equal(table["dose"], [1.5, np.nan, 2.0])
    assert table["ward"].tolist() == ["a", "b", None]
    assert str(table.path) == f"sqlite:///{ward}#Visits"


def test_a_schema_reads_a_database_like_a_csv_file(ward: Path, tmp_path: Path) -> None:
    schema = Schema(
        [
            Field("age", "integer", low=0, high=110),
            Field("dose", "number", low=0, high=5, missing="indicator"),
            Field("ward", "string", levels=("a", "b"), missing="indicator"),
            Field("day", "date", low=19723, high=20088, missing="indicator"),
        ]
    )
    written = tmp_path / "ward.csv"
    written.write_text("age,dose,ward,day\n31,1.5,a,2024-02-01\n64,,b,2024-03-01\n50,2.0,,\n")
    found, expected = (
        schema.encode(schema.parse(read_table(place, schema=schema))) for place in (_at(ward), written)
    )
    np.testing.assert_array_equal(found, expected)


def test_views_statements_and_blocks_are_read(ward: Path) -> None:
    assert open_table(_at(ward, "old")).names == ("age", "ward")
    statement = (
        '-- ages; all\nWITH v AS (SELECT age AS years FROM "Visits") SELECT years FROM v ORDER BY 1;\n'
    )
    assert read_table(_statement(ward, statement))["years"].tolist() == [31, 50, 64]
    blocks = list(scan(_at(ward), 2, columns=["note", "age"]))
    assert [list(block) for block in blocks] == [["note", "age"]] * 2
    assert [len(block["age"]) for block in blocks] == [2, 1]


def test_whole_numbers_beyond_float64_keep_their_digits_beside_a_gap(ward: Path) -> None:
    table = read_table(_at(ward, "codes"))
    assert table["id"].tolist() == [2**53 + 1, None]
    assert table["mixed"].tolist() == [3, "three"]


def test_percent_signs_and_colons_in_a_statement_are_left_alone(ward: Path) -> None:
    statement = "SELECT age, ':name' AS c FROM \"Visits\" WHERE ward LIKE 'a%' OR note LIKE '%:x%'"
    assert read_table(_statement(ward, statement))["c"].tolist() == [":name"]


@pytest.mark.parametrize(
    "statement, told",
    [
        ("DELETE FROM Visits", "changes the database"),
        ("", "gives no table"),
        ("/* SELECT */ DROP TABLE Visits", "changes the database"),
        ("ATTACH DATABASE 'new.db' AS new", "does not accept the statement"),
        ("SELECT 1; DROP TABLE Visits", "does not accept the statement"),
        ("SELECT 'a; DROP TABLE Visits", "does not accept the statement"),
        ("SELECT agee FROM Visits", "does not accept the statement"),
        ("SELECT age, age FROM Visits", "two columns have the same name"),
        ("WITH v AS (SELECT 1) INSERT INTO empty SELECT * FROM v", "changes the database"),
        ("SELECT load_extension('x')", "does not accept the statement"),
    ],
)
def test_a_statement_that_does_not_only_read_is_refused(
    ward: Path, statement: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ward.parent)
    before = ward.read_bytes()
    with pytest.raises(InvalidInputError, match=told):
        read_table(_statement(ward, statement))
    assert ward.read_bytes() == before
    assert not Path("new.db").exists()


def test_other_tables_files_and_types_are_refused_in_one_line(ward: Path, tmp_path: Path) -> None:
    cases = {
        _at(ward, "Visit"): "there is no table 'Visit', did you mean 'Visits'?",
        _at(tmp_path / "none.db"): "no such file",
        f"sqlite:///{ward}": "name a table",
        _at(ward, "empty"): "the table has no rows",
        _at(ward, "pictures"): "column 'picture' holds neither numbers, nor dates, nor texts",
        "mysql://host/db#t": "must look like",
        "sqlite://x#t": "must look like",
        "postgresql://host:port/db#t": "must look like",
    }
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to be read as one " * 50)
    cases[_at(text)] = "not a SQLite database"
    for address, told in cases.items():
        with pytest.raises(InvalidInputError) as caught:
            read_table(address)
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "none.db").exists()


def test_a_private_reading_refuses_no_single_cell(ward: Path) -> None:
    assert len(read_table(_at(ward, "pictures"), private=True)["picture"]) == 1
    assert read_table(_at(ward, "empty"), private=True).n_rows == 0


CELLS = [
    None,
    0,
    1,
    7,
    2**53 + 1,
    2.5,
    1.0,
    "",
    " a ",
    "b",
    "1",
    "2024-02-01",
    "true",
    "nan",
    b"\x00\xff",
    b"a",
]


def test_no_cell_of_a_private_reading_depends_on_its_neighbours(tmp_path: Path) -> None:
    fields = [
        Field("v", "integer", low=0, high=9),
        Field("v", "number", low=0, high=9, missing="indicator"),
        Field("v", "string", levels=("a", "b", "1"), other="b"),
        Field("v", "boolean"),
        Field("v", "date", low=19723, high=20088),
    ]

    def read(path: Path, cells: list[object], field: Field) -> tuple[list[float], list[int]]:
        with sqlite3.connect(path) as db:
            db.execute("DROP TABLE IF EXISTS t")
            db.execute("CREATE TABLE t (v)")
            db.executemany("INSERT INTO t VALUES (?)", [(cell,) for cell in cells])
        column = read_table(_at(path, "t"), schema=Schema([field]), private=True)["v"]
        return np.nan_to_num(column.values, nan=-9.0).tolist(), column.problems.tolist()

    for field in fields:
        values, problems = read(tmp_path / "all.db", CELLS, field)
        alone = [read(tmp_path / "one.db", [cell], field) for cell in CELLS]
        assert values == [one[0][0] for one in alone]
        assert problems == [one[1][0] for one in alone]


def test_a_missing_extra_is_named(ward: Path, block_import: Callable[..., None]) -> None:
    block_import("sqlalchemy")
    with pytest.raises(MissingDependencyError, match=r"onefold\[sql\]"):
        read_table(_at(ward))


def test_a_missing_driver_is_named_before_anything_is_asked(block_import: Callable[..., None]) -> None:
    block_import("psycopg")
    with pytest.raises(MissingDependencyError, match=r"onefold\[sql\]"):
        read_table("postgresql://127.0.0.1:1/db#t")


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ann:{SECRET}@host/db#t",
        f"postgresql://ann:{SECRET}/x@host/db",
        f"postgresql://host/db?password={SECRET}#t",
        f"postgresql://host/db?sslpassword={SECRET}#t",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["fit", address, "--label", "y"], ["check", "--schema", "s", "x.csv", address]):
        assert main(words) == 2
        told = capsys.readouterr()
        assert "error" in told.err
        assert SECRET not in told.out + told.err
    with pytest.raises(InvalidInputError, match="holds a password") as caught:
        read_table(address)
    assert SECRET not in str(caught.value)
    assert SECRET not in one_line(f"cannot read {address}") or "?" in address


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("psycopg")
    assert main(["fit", "postgresql://ann@127.0.0.1:1/db#t", "--label", "y"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("onefold: error: postgresql://ann@127.0.0.1:1/db#t: cannot connect: check host")
    assert told.count("\n") == 1


# --- the command line -------------------------------------------------------------------------------------


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    path, rng = tmp_path / "bank.db", np.random.default_rng(0)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE loans (amount REAL, purpose TEXT, risk TEXT)")
        for place in range(120):
            risk = ("low", "high")[place % 2]
            purpose = None if place == 7 else ("car", "house")[int(rng.random() < 0.3)]
            db.execute("INSERT INTO loans VALUES (?, ?, ?)", (rng.normal(3 * (place % 2), 1), purpose, risk))
    return path


def test_commands_take_the_address_of_a_table_or_a_statement(
    loans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.sql").write_text("SELECT amount, purpose, risk FROM loans WHERE amount > -10")
    assert main(["fit", "sqlite:///bank.db#loans", "--label", "risk", "--quiet"]) == 0
    assert (tmp_path / "loans.onefold").exists()
    assert main(["predict", "loans.onefold", "sqlite:///bank.db#q.sql", "--quiet"]) == 0
    assert len(read_table("q.predictions.csv")["prediction"]) == 120
    infer = ["schema", "infer", "sqlite:///bank.db#loans", "--label", "risk", "--quiet"]
    assert main(infer) == 0
    capsys.readouterr()
    assert main(["check", "sqlite:///bank.db#loans", "--schema", "loans.schema.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == "sqlite:///bank.db#loans"
    for out in ("bank.db", "q.sql"):
        assert main(["fit", "sqlite:///bank.db#q.sql", "--label", "risk", "--out", out]) == 2
        assert "is an input of this command" in capsys.readouterr().err
    assert main(["fit", "sqlite:///bank.db#none.sql", "--label", "risk"]) == 2
    assert "none.sql: No such file" in capsys.readouterr().err


# --- folders of Parquet files -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow")
    found = tmp_path / "parts"
    found.mkdir()
    for name, start in (("b", 3), ("a", 0), ("c", 6)):
        ages = np.arange(start, start + 3, dtype=np.int64)
        write_table(found / f"{name}.parquet", {"age": ages, "ward": np.array(list("xyz"), dtype=object)})
    (found / "_SUCCESS").write_text("")
    (found / "_metadata.parquet").write_text("no table")
    return found


def test_a_folder_is_read_in_the_order_of_names(folder: Path) -> None:
    table = read_table(folder)
    assert table["age"].tolist() == list(range(9))
    assert [len(block["age"]) for block in scan(folder, 2)] == [2, 1] * 3
    schema = Schema([Field("age", "integer", low=0, high=7)])
    assert [finding.rows for finding in check_table(schema, scan(folder))] == [(9,)]


def test_a_folder_with_other_columns_or_types_is_refused(folder: Path, tmp_path: Path) -> None:
    write_table(folder / "d.parquet", {"age": np.arange(2), "bed": np.arange(2)})
    with pytest.raises(
        InvalidInputError, match=r"d\.parquet: other columns than in a\.parquet: column 'bed'"
    ):
        read_table(folder)
    texts = np.array(["1", "2"], dtype=object)
    write_table(folder / "d.parquet", {"ward": texts, "age": texts})
    with pytest.raises(
        InvalidInputError, match=r"d\.parquet: column 'age' holds texts, numbers in an earlier"
    ):
        read_table(folder)
    schema = Schema([Field("age", "integer", low=0, high=110)])
    rows = schema.parse(read_table(folder, schema=schema, private=True))
    assert schema.encode(rows).shape == (11, 1)
    (folder / "d.parquet").write_text("no table")
    with pytest.raises(InvalidInputError, match=r"d\.parquet: not a Parquet file"):
        read_table(folder)
    with pytest.raises(InvalidInputError, match=r"the folder has no \.parquet file"):
        read_table(tmp_path)


@pytest.mark.parametrize("cell", ['"smith', "smith:x", "smith AND AND", 'AND "'])
def test_a_search_in_full_text_that_takes_a_cell_for_its_terms_does_not_repeat_it(
    tmp_path: Path, cell: str
) -> None:
    path = tmp_path / "search.db"
    with sqlite3.connect(path) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE notes USING fts5(body)")
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no FTS5")
        connection.execute("CREATE TABLE terms (term TEXT)")
        connection.execute("INSERT INTO terms VALUES (?)", (cell,))
        connection.execute("INSERT INTO notes VALUES ('a note')")
    connection.close()
    statement = "SELECT body FROM notes WHERE notes MATCH (SELECT term FROM terms)"
    with pytest.raises(InvalidInputError) as refused:
        read_table(_statement(path, statement))
    assert "smith" not in str(refused.value)
    assert "AND" not in str(refused.value)
