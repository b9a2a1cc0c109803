"""``onefold check`` against the contract of a federation: gaps, classes, units, and the digest agreed on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onefold.cli.app import main
from onefold.tables import Field, Schema


@pytest.fixture
def contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Schema:
    monkeypatch.chdir(tmp_path)
    schema = Schema(
        [
            Field("age", "integer", low=0, high=110, unit="a"),
            Field("lactate", "number", low=0, high=30, unit="mmol/L", missing="indicator"),
            Field("died", "string", role="label", levels=("no", "yes", "unknown")),
        ]
    )
    schema.save("s.json")
    (tmp_path / "t.csv").write_text("age,lactate,died\n31,,no\n41,2.5,yes\n51,,yes\n61,3,no\n")
    return schema


def test_gaps_classes_and_units_are_told_and_the_verdict_is_local(
    contract: Schema, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "t.csv", "--schema", "s.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "4 rows checked: no findings.",
        "Missing cells: lactate 50 %.",
        "Classes without a row: unknown.",
        "onefold cannot check units. Compare by hand: age in a, lactate in mmol/L.",
        "What is said here, and whether the check passed, is about the rows and outside every guarantee: it "
        "stays on this machine unless you pass it on.",
    ]


def test_counts_are_complete_in_json_also_where_the_check_fails(
    contract: Schema, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "t.csv").open("a") as file:
        file.write("140,1,maybe\n")
    assert main(["check", "t.csv", "--schema", "s.json", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] is False
    assert told["missing"] == {"lactate": 2}
    assert told["classes"] == {"no": 2, "yes": 2, "unknown": 0}
    assert {finding["column"] for finding in told["findings"]} == {"age", "died"}


def test_another_schema_than_agreed_on_is_refused(
    contract: Schema, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "t.csv", "--schema", "s.json", "--digest", contract.digest]) == 0
    assert main(["check", "t.csv", "--schema", "s.json", "--digest", "0" * 64]) == 2
    assert "not the schema that was agreed on" in capsys.readouterr().err
