"""Scripts that another interpreter runs: arrays go in, JSON comes out."""

import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.other_environment import answer_of, main, python_of
from onefold.exceptions import MissingDependencyError

SCRIPT = """
import json, sys
import numpy as np
print(json.dumps([float(np.load(sys.argv[1])["a"].sum()), *sys.argv[2:]]))
"""


def test_other_interpreter_receives_arrays_and_returns_json() -> None:
    found = answer_of(Path(sys.executable), SCRIPT, {"a": np.arange(4.0)}, "b", "c")
    assert found == [6.0, "b", "c"]


@pytest.mark.parametrize(
    "script, last", [("import no_such_peer", "No module named 'no_such_peer'"), ("exit(3)", "exit code 3")]
)
def test_failing_script_is_reported_in_one_line(script: str, last: str) -> None:
    with pytest.raises(MissingDependencyError, match=rf"^the peer did not run[^\n]*{last}$"):
        answer_of(Path(sys.executable), script, {})


def test_interpreter_is_found_in_the_named_folder(tmp_path) -> None:
    assert python_of(None) is None
    assert python_of(str(tmp_path)) is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert python_of(str(tmp_path)) == tmp_path / "bin" / "python"


def test_wrong_arguments_print_the_usage(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["peer"])
    with pytest.raises(SystemExit, match=r"experiments\.x\.peer FOLDER"):
        main("experiments.x.peer", ["nothing"])
