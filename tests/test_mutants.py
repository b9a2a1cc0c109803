"""The search for changes that no test notices, on a small package with one check that nothing tests."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mutants import EQUIVALENT, EXTRA, files_of, modules_of, mutated, mutations

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.merge
SOURCE = '''
"""A module."""


def clipped(value: float, low: float = 0.0) -> float:
    """Return the value, or the lower end."""
    if low > 5:
        raise ValueError("too low")
    return max(value, low)
'''
TESTS = """
from planted.room.ends import clipped


def test_ends():
    assert clipped(-1.0) == 0.0
    assert clipped(2.0) == 2.0
    assert clipped(2.0, 5.0) == 5.0
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    for folder in ("src/planted/room", "tests/room"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("src/planted/__init__.py", "src/planted/room/__init__.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "src/planted/room/ends.py").write_text(SOURCE)
    (tmp_path / "tests/room/test_ends.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  merge: x\n  nightly: x\n")
    return tmp_path


def search(planted: Path, *options: str) -> list[str]:
    command = [sys.executable, str(ROOT / "tests/mutants.py"), "--top", str(planted), "--package", "planted"]
    plain = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # which no small test needs
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True, env=plain)
    return done.stdout.splitlines()


def test_check_that_nothing_tests_is_found_and_the_source_stays_as_it_is(planted: Path) -> None:
    said = search(planted, "--cpu-minutes", "1")
    assert (planted / "src/planted/room/ends.py").read_text() == SOURCE
    assert "room/ends.py:8: raise ValueError('too low')  ->  pass" in said
    assert "room/ends.py:7: low > 5  ->  low >= 5" not in said  # 5.0 is tested
    assert not any("max(value, low)" in line for line in said)
    results = planted / "build/mutants/results.jsonl"
    found = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(found) == len(mutations(SOURCE))
    assert {each["said"] for each in found} == {"killed", "survived"}
    n_survivors = sum(each["said"] == "survived" for each in found)
    assert said[-1].startswith(f"room: {len(found) - n_survivors} of {len(found)} killed")
    # Nothing is tried twice but survivors, for whoever has written a test, though lines have moved.
    (planted / "src/planted/room/ends.py").write_text(f"# A comment.\n{SOURCE}")
    test = planted / "tests/room/test_ends.py"
    test.write_text(
        TESTS + "    import pytest\n    with pytest.raises(ValueError):\n        clipped(0.0, 6.0)\n"
    )
    again = search(planted, "--cpu-minutes", "1", "--again")
    assert len(results.read_text().splitlines()) == len(found) + n_survivors
    assert not any("raise ValueError" in line for line in again)


def test_every_change_gives_another_program_that_can_be_read() -> None:
    source = (ROOT / "src/onefold/_base/fixed_point.py").read_text(encoding="utf-8")
    found = mutations(source)
    assert len(found) > 50
    plain = ast.unparse(ast.parse(source))
    for each in found[::7]:
        text = mutated(source, each)
        assert ast.parse(text)
        assert text.strip() != plain.strip(), each


def test_lists_of_extra_tests_and_of_changes_without_effect_are_not_stale() -> None:
    tests, source = ROOT / "tests", ROOT / "src/onefold"
    assert [name for names in EXTRA.values() for name in names if not (tests / name).exists()] == []
    assert [name for name in EXTRA if not (source / name).exists()] == []
    for module, piece, end in EQUIVALENT:
        text = (source / module).read_text(encoding="utf-8")
        lines = [number for number, line in enumerate(text.splitlines(), 1) if piece in line]
        changes = [each for each in mutations(text) if each.line in lines and each.change.endswith(end)]
        assert changes, (module, piece, end)


def test_tests_that_bear_the_name_of_a_module_come_first() -> None:
    source, tests = ROOT / "src/onefold", ROOT / "tests"
    assert "privacy/ledger.py" in modules_of(source, "privacy", [])
    assert modules_of(source, None, ["federated/rules"]) == ["federated/rules.py"]
    found = [path.name for path in files_of("federated/rules.py", tests, "onefold", source)]
    assert found[:2] == ["test_rules.py", "test_rules_checked.py"]
