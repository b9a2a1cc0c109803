"""A printed epsilon is no less than the one that holds, and confirming shows what it confirms."""

import ast
import json
from pathlib import Path

import pytest

import onefold
from onefold.audit.epsilon import EpsilonAudit
from onefold.cli.app import main
from onefold.report import PrivacyUtilityDisplay
from onefold.tables import Schema

SOURCE = Path(onefold.__file__).parent
# What the user wrote on the command line or in a call, again with six digits.
AS_GIVEN = {"args.epsilon", "args.record_epsilon", "self.epsilon", "epsilon"}


def _formatted(tree: ast.AST) -> list[tuple[str, str]]:
    """Return every number in an f-string that is written with a few digits: its expression and the format."""
    return [
        (ast.unparse(value.value), ast.unparse(value.format_spec)[2:-1])
        for value in ast.walk(tree)
        if isinstance(value, ast.FormattedValue) and value.format_spec is not None
    ]


@pytest.mark.merge
def test_no_epsilon_is_rounded_to_the_nearest_number() -> None:
    nearest = {
        (path.name, expression)
        for path in sorted(SOURCE.rglob("*.py"))
        for expression, digits in _formatted(ast.parse(path.read_text(encoding="utf-8")))
        if expression.rsplit(".")[-1].endswith(("epsilon", "marked"))
        and not (digits == "g" and (expression in AS_GIVEN or "limit" in expression))
    }
    assert nearest == set()


def test_the_curve_of_a_release_is_not_marked_below_its_epsilon() -> None:
    curve = PrivacyUtilityDisplay((1.00049, 2.0), {"forecast": (0.5, 0.6)}, marked=1.00049)
    assert "at epsilon 1.001." in curve.describe()
    assert "0.500 at 1.01" in curve.describe()


def test_an_audit_claims_no_more_than_it_has_shown() -> None:
    found = EpsilonAudit(1.23459, 0.0, 0.95, "record", "two datasets", 9.0, {"trials": 9}, "mean")
    assert "at least 1.234 " in str(found)


def test_whoever_confirms_a_column_is_shown_all_that_was_guessed_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = {
        "cost": [*map(str, range(1, 200)), "90000", "unknown", "see notes"],
        "day": [f"{1 + n % 28:02d}.01.2024" for n in range(202)],
        "town": [f"town {n % 12}" for n in range(202)],
        "ill": ["yes" if n % 3 else "no" for n in range(202)],
    }
    guesses = Schema.infer(table, "ill")
    guesses.save("s.json")
    for known in guesses.fields:
        assert main(["schema", "confirm", "s.json", "--column", known.name, "--ground", "code book"]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert json.loads(first) == json.loads(json.dumps(known.contract()))
    shown = json.dumps([known.contract() for known in guesses.fields])
    assert all(text in shown for text in ("see notes", "onefold:logUnit", "%d.%m.%Y", "town 11"))
