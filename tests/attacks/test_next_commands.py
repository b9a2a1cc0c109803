"""Refusals and proposals name a next command that works when it is copied."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from onefold.cli.app import main
from onefold.exceptions import BudgetExceededError
from onefold.privacy import Event, Ledger

ROWS = "age,ill\n" + "\n".join(f"{20 + n},{'yes' if n % 3 else 'no'}" for n in range(60)) + "\n"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    folder = tmp_path / "my data"
    folder.mkdir()
    (folder / "sample.csv").write_text(ROWS)
    return folder / "schema.json"


def confirm_command(text: str, option: str) -> list[str]:
    """The words of the command that a message tells to run, up to an option."""
    found = re.search(rf"run (onefold schema confirm .+? {option}) ", " ".join(text.split()) + " ")
    assert found, text
    return shlex.split(found[1])[1:]


def test_the_command_that_infer_names_confirms_the_schema(
    schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "infer", str(schema.parent / "sample.csv"), "--out", str(schema)]) == 0
    command = confirm_command(capsys.readouterr().out, "--public-source")
    assert main([*command, "a published sample"]) == 0


def test_the_command_that_a_refusal_names_confirms_a_column(
    schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = str(schema.parent / "sample.csv")
    assert main(["schema", "infer", sample, "--label", "ill", "--out", str(schema), "--quiet"]) == 0
    assert main(["fit", sample, "--schema", str(schema), "--epsilon", "1"]) == 2
    command = confirm_command(capsys.readouterr().err, "--column")
    assert main([*command, "age", "--ground", "a code book"]) == 0


@pytest.mark.parametrize("empty", [["--public-source", ""], ["--column", "age", "--ground", ""]])
def test_an_empty_ground_is_refused_by_the_options_that_are_needed(
    schema: Path, capsys: pytest.CaptureFixture[str], empty: list[str]
) -> None:
    assert main(["schema", "infer", str(schema.parent / "sample.csv"), "--out", str(schema), "--quiet"]) == 0
    assert main(["schema", "confirm", str(schema), *empty]) == 2
    assert "--column NAME --ground TEXT" in capsys.readouterr().err


def test_an_unknown_argument_names_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "show", "a.ledger", "b.ledger"]) == 2
    assert "unrecognized arguments: b.ledger (see onefold ledger show --help)" in capsys.readouterr().err


@pytest.mark.parametrize(("neighbours", "change"), [("replace", "replaced"), ("add-remove", "more or less")])
def test_a_limit_says_which_change_it_is_about(neighbours: str, change: str) -> None:
    ledger = Ledger(limit_epsilon=1.5, unit="person", neighbours=neighbours)  # type: ignore[arg-type]
    assert f"Limit: epsilon 1.5 per person {change}" in str(ledger)
    with pytest.raises(BudgetExceededError, match=f"the limit is 1.5 for one {change}: ask for a smaller"):
        ledger.spend(Event("survey", "person", 2.0, neighbours=neighbours))  # type: ignore[arg-type]
