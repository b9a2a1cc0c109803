"""The OMOP example of docs/tables.md: its statement and schema on a small database of that shape."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.tables import Schema, check_table, read_table

pytest.importorskip("sqlalchemy")

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the documents are not in this copy")
TABLES = """
CREATE TABLE person (person_id INTEGER PRIMARY KEY, gender_concept_id INTEGER, year_of_birth INTEGER);
CREATE TABLE condition_occurrence (person_id INTEGER, condition_concept_id INTEGER,
  condition_start_date TEXT);
CREATE TABLE measurement (person_id INTEGER, measurement_concept_id INTEGER, measurement_date TEXT,
  value_as_number REAL, unit_concept_id INTEGER);
"""


@pytest.fixture
def clinic(tmp_path: Path) -> str:
    rng, path = np.random.default_rng(3), tmp_path / "clinic.db"
    with sqlite3.connect(path) as db:
        db.executescript(TABLES)
        db.execute("INSERT INTO person VALUES (1, 8507, 1960), (2, 8532, 1990), (3, 0, 1970)")
        db.execute(
            "INSERT INTO condition_occurrence VALUES (1, 201826, '2024-05-01'), (1, 320128, '2023-02-01')"
        )
        db.executemany(
            "INSERT INTO measurement VALUES (?, ?, ?, ?, ?)",
            [
                (1, 3004249, "2023-03-01", 150, 8876),
                (1, 3004249, "2023-04-01", 160, 8876),
                (1, 3004249, "2023-05-01", 20.5, 44777590),  # kPa: another unit
                (1, 3004249, "2024-01-01", 250, 8876),  # too late
                (2, 3004410, "2023-03-01", 5.5, 8554),
            ],
        )
        for person in range(4, 104):
            ill = person % 2
            db.execute("INSERT INTO person VALUES (?, ?, ?)", (person, 8507 + 25 * (person % 3 == 0), 1950))
            value = float(rng.normal(8 if ill else 5, 0.7))
            db.execute("INSERT INTO measurement VALUES (?, 3004410, '2023-06-01', ?, 8554)", (person, value))
            if ill:
                db.execute("INSERT INTO condition_occurrence VALUES (?, 201826, '2024-06-01')", (person,))
    return f"sqlite:///{path}#{EXAMPLES / 'omop.sql'}"


def test_the_statement_gives_one_row_per_person(clinic: str) -> None:
    table = read_table(clinic)
    assert table.n_rows == len(set(table["person_id"].tolist())) == 103
    first = {name: table[name][0] for name in table}
    expected = {
        "age": 64,
        "sex": "male",
        "systolic": 155,
        "hypertension": 1,
        "diabetes": "yes",
        "person_id": 1,
    }
    assert {name: first[name] for name in expected} == expected
    assert np.isnan(first["hba1c"])
    assert (table["sex"][2], table["diabetes"][2]) == (None, "no")


def test_the_table_keeps_the_contract_of_the_example(clinic: str) -> None:
    assert check_table(Schema.load(EXAMPLES / "omop.json"), read_table(clinic)) == []


def test_commands_run_on_the_example(
    clinic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    place = [f"sqlite:///clinic.db#{EXAMPLES / 'omop.sql'}"]
    schema = ["--schema", str(EXAMPLES / "omop.json")]
    assert main(["check", *place, *schema]) == 0
    assert "103 rows checked: no findings." in capsys.readouterr().out
    assert main(["fit", *place, *schema, "--out", "model.onefold", "--quiet"]) == 0
    assert main(["predict", "model.onefold", *place, "--out", "p.csv", "--quiet"]) == 0
    right = read_table("p.csv")["prediction"] == read_table(clinic)["diabetes"]
    assert right.mean() > 0.9  # the rows are made so that one column tells
    private = ["--epsilon", "2", "--out", "synthetic.csv", "--quiet"]
    assert main(["synthesize", *place, *schema, *private]) == 0
    assert set(read_table("synthetic.csv")["diabetes"]) <= {"no", "yes"}


@pytest.mark.merge
def test_a_site_fits_the_example(
    clinic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("flwr")
    monkeypatch.chdir(tmp_path)
    assert main(["federate", "init", "fed", "--sites", "north", "--host", "localhost", "--port", "1"]) == 0
    place = ["--data", f"sqlite:///clinic.db#{EXAMPLES / 'omop.sql'}"]
    words = ["--schema", str(EXAMPLES / "omop.json"), "--fit-only", "--json"]
    capsys.readouterr()
    assert main(["federate", "site", "--folder", "fed/sites/north", *place, *words]) == 0
    assert json.loads(capsys.readouterr().out)["profile"]["classes"] == ["no", "yes"]
