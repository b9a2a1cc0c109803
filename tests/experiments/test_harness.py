"""Recorded numbers are compared honestly, and bad input is one line with exit code 2."""

import json
from pathlib import Path

import pytest

from experiments import harness
from experiments.harness import Outcome, Table, compare, main, parser
from onefold.exceptions import InvalidInputError


@pytest.mark.parametrize(
    ("value", "rule", "agrees"),
    [
        (0.98, {"value": 0.985, "tolerance": 0.01}, True),
        (0.97, {"value": 0.985, "tolerance": 0.01}, False),
        (1.0, {"value": 0.985, "tolerance": 0.01}, False),
        (float("nan"), {"value": 0.985, "tolerance": 0.01}, False),
        (0.985, {"at_least": 0.985}, True),
        (0.9849, {"at_least": 0.985}, False),
        (float("nan"), {"at_least": 0.985}, False),
        (0.99, {"value": 0.985, "tolerance": 0.01, "at_least": 0.995}, False),
    ],
)
def test_compare_accepts_values_within_the_tolerance_only(
    value: float, rule: dict[str, float], agrees: bool
) -> None:
    assert (compare({"accuracy": value}, {"accuracy": rule}) == []) is agrees


def test_compare_skips_numbers_that_were_not_measured() -> None:
    assert compare({"a": 1.0}, {"b": {"value": 5.0, "tolerance": 0.0}}) == []


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A script with one recorded number."""
    rules = {"document": {}, "measured": {"script": {"accuracy": {"value": 0.5, "tolerance": 0.1}}}}
    (tmp_path / "expected.json").write_text(json.dumps(rules))
    return str(tmp_path / "script.py")


@pytest.mark.parametrize(("accuracy", "code"), [(0.55, 0), (0.75, harness.DEVIATES)])
def test_exit_code_is_1_when_a_number_differs(script: str, capsys, accuracy: float, code: int) -> None:
    outcome = Outcome({"accuracy": accuracy}, [Table("Title", ("a", "b"), [[1, 2.0]])])
    assert main(script, parser(None), lambda args: outcome, ["--json"]) == code
    streams = capsys.readouterr()
    found = json.loads(streams.out)
    assert found["values"] == {"accuracy": accuracy}
    assert found["tables"][0]["rows"] == [[1, 2.0]]
    assert len(found["deviations"]) == code
    assert ("differs from expected.json: accuracy" in streams.err) is bool(code)


def test_quick_run_is_not_compared(script: str, capsys) -> None:
    outcome = Outcome({"accuracy": 0.0}, [Table("Title", ("a", "b"), [[1, 2.0]])])
    assert main(script, parser(None), lambda args: outcome, ["--quick"]) == 0
    assert "Title\n\na  " in capsys.readouterr().out


def test_bad_input_prints_one_line_and_exits_with_code_2(script: str, capsys) -> None:
    def experiment(args: object) -> Outcome:
        raise InvalidInputError("no such data")

    assert main(script, parser(None), experiment, []) == harness.BAD_INPUT
    streams = capsys.readouterr()
    assert streams.err.endswith("error: no such data\n")
    assert streams.err.count("\n") == 1
    assert streams.out == ""
