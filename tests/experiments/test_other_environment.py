"""A script of another interpreter gets arrays and answers in JSON; no folder means no peer."""

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


def test_arrays_go_in_and_json_comes_out() -> None:
    found = answer_of(Path(sys.executable), SCRIPT, {"a": np.arange(4.0)}, "b", "c")
    assert found == [6.0, "b", "c"]


@pytest.mark.parametrize(
    "script, last", [("import no_such_peer", "No module named 'no_such_peer'"), ("exit(3)", "exit code 3")]
)
def test_a_failing_script_is_one_line(script: str, last: str) -> None:
    with pytest.raises(MissingDependencyError, match=rf"^the peer did not run[^\n]*{last}$"):
        answer_of(Path(sys.executable), script, {})


def test_where_the_interpreter_is(tmp_path) -> None:
    assert python_of(None) is None
    assert python_of(str(tmp_path)) is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert python_of(str(tmp_path)) == tmp_path / "bin" / "python"


def test_usage(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["peer"])
    with pytest.raises(SystemExit, match=r"experiments\.x\.peer FOLDER"):
        main("experiments.x.peer", ["nothing"])
