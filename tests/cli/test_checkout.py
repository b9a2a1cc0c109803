"""Experiments and benchmarks run from a source checkout, and say so elsewhere."""

from pathlib import Path

import pytest

from onefold.cli import checkout
from onefold.cli.app import main

SCRIPT = """import sys
if __name__ == "__main__":
    print("ran with", sys.argv[1:])
    sys.exit(len(sys.argv) - 1)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of its own; the one around the package is out of sight."""
    root = tmp_path / "checkout"
    (root / "src/onefold/cli").mkdir(parents=True)
    (root / "experiments/kahm").mkdir(parents=True)
    (root / "experiments/kahm/digits.py").write_text(SCRIPT)
    (root / "experiments/kahm/_helper.py").write_text(SCRIPT)
    (root / "experiments/kahm/library.py").write_text("VALUE = 1\n")
    (root / "benchmarks").mkdir()
    (root / "benchmarks/__main__.py").write_text(SCRIPT)
    monkeypatch.setattr(checkout, "__file__", str(tmp_path / "site-packages/onefold/cli/checkout.py"))
    monkeypatch.chdir(root / "src")
    return root


def test_experiment_without_a_name_lists_and_with_a_name_runs(source: Path, capfd) -> None:
    assert main(["experiment"]) == 0
    assert capfd.readouterr().out == "kahm/digits\n"
    assert main(["experiment", "kahm/digits"]) == 0
    assert capfd.readouterr().out == "ran with []\n"
    assert main(["experiment", "kahm/digits.py", "--rows", "5"]) == 2  # the script's own exit code
    assert capfd.readouterr().out == "ran with ['--rows', '5']\n"


@pytest.mark.parametrize("name", ["kahm/digit", "../benchmarks/__main__", "kahm/_helper", "kahm/library", ""])
def test_unknown_experiment_is_refused_in_one_line(source: Path, capsys, name: str) -> None:
    assert main(["experiment", name]) == 2
    assert capsys.readouterr().err.startswith("onefold: error: no experiment")


def test_bench_hands_its_arguments_to_the_benchmarks(source: Path, capfd) -> None:
    assert main(["bench"]) == 0
    assert capfd.readouterr().out == "ran with []\n"
    assert main(["bench", "--", "--json"]) == 1
    assert capfd.readouterr().out == "ran with ['--json']\n"
    (source / "benchmarks/__main__.py").unlink()
    assert main(["bench"]) == 2
    assert "nothing to run" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["experiment", "bench"])
def test_commands_of_a_checkout_say_so_outside_of_one(
    source: Path, tmp_path: Path, capsys, monkeypatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command]) == 2
    error = capsys.readouterr().err
    assert "runs from a source checkout" in error
    assert error.count("\n") == 1
