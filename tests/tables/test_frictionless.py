"""The schema files are Frictionless Table Schemas: the reference implementation accepts them."""

from __future__ import annotations

import csv

import pytest

from onefold.tables import Schema

ROWS = {
    "id": [str(place) for place in range(30)],
    "age": [str(20 + place) for place in range(30)],
    "cost": [f"{place * 3},5" for place in range(30)],
    "sex": ["F", "M", "X"] * 10,
    "smoker": ["true", "false"] * 15,
    "since": ["31.12.2020", "01.02.2021"] * 15,
    "seen": ["2020-01-01T10:00:00", "2020-01-05T11:30:05"] * 15,
    "month": ["Mar-18", "Feb-19"] * 15,
    "clock": ["31.12.2020 10:00", "01.02.2021 23:59"] * 15,
    "gap": ["1", "NA", "3"] * 10,
    "ill": ["no", "yes"] * 15,
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    pytest.importorskip("frictionless")
    monkeypatch.chdir(tmp_path)  # frictionless trusts relative paths only
    with open("rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(ROWS)
        writer.writerows(zip(*ROWS.values(), strict=True))
    Schema.infer(ROWS, "ill").save("schema.json")
    return tmp_path


def _errors(path: str) -> list[str]:
    import frictionless

    schema = frictionless.Schema.from_descriptor("schema.json")
    report = frictionless.Resource(path=path, schema=schema).validate()
    return [error.note for task in report.tasks for error in task.errors]


def test_frictionless_reads_our_file_and_finds_the_rows_valid(files) -> None:
    assert _errors("rows.csv") == []


def test_frictionless_objects_to_a_text_in_a_column_of_numbers(files) -> None:
    lines = (files / "rows.csv").read_text().splitlines()
    cells = lines[4].split(",")
    (files / "bad.csv").write_text(
        "\n".join([*lines[:4], ",".join(["old" if cell == "23" else cell for cell in cells])])
    )
    assert len(_errors("bad.csv")) == 1
