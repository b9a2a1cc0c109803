"""Results are stored whole and compared honestly, and bad input is one line with exit code 2."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import harness, stored
from experiments.harness import Outcome, Table, compare, main, parser
from experiments.register import tolerances
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
        (0.98, {"value": 0.985}, False),  # no tolerance is none
    ],
)
def test_compare_accepts_values_within_the_tolerance_only(
    value: float, rule: dict[str, float], agrees: bool
) -> None:
    assert (compare({"accuracy": value}, {"accuracy": rule}) == []) is agrees


def test_value_that_is_missing_on_either_side_is_a_deviation() -> None:
    lines = compare({"a": 1.0}, {"b": {"value": 5.0, "tolerance": 0.0}})
    assert lines == ["b was not measured, 5.0 is stored", "a is 1.0000, nothing is stored"]


def test_nothing_is_missed_in_a_run_of_a_part() -> None:
    rules = {"b": {"value": 5.0, "tolerance": 0.0}}
    assert compare({}, rules, ["data", "json"]) == []
    assert compare({}, rules, ["json", "data_dir", "resume"]) == ["b was not measured, 5.0 is stored"]


def test_value_that_needs_an_option_is_missed_only_with_it() -> None:
    rules = {"b": {"value": 5.0, "tolerance": 0.0, "needs": "peer"}}
    assert compare({}, rules) == []
    assert compare({}, rules, ["peer"]) == ["b was not measured although --peer was given"]


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A script of which one value is stored."""
    (tmp_path / "register").mkdir()
    (tmp_path / "register" / tolerances.FILE).write_text('["folder/script"]\n"*" = 0.1\n')
    path = tmp_path / "folder" / "script.py"
    run = {"date": stored.now(), "arguments": [], "transcribed": True, "source": "a page"}
    stored.store(stored.path_of(path), run, {"accuracy": 0.5}, [], {})
    return str(path)


def kept(script: str) -> dict[str, Any]:
    return json.loads(stored.path_of(Path(script)).read_text())


def outcome_of(accuracy: float, **more: Any) -> Outcome:
    return Outcome({"accuracy": accuracy}, [Table("Title", ("a", "b"), [[1, 2.0]])], **more)


@pytest.mark.parametrize(("accuracy", "code"), [(0.55, 0), (0.75, harness.DEVIATES)])
def test_exit_code_is_1_when_a_number_differs(script: str, capsys, accuracy: float, code: int) -> None:
    assert main(script, parser(None), lambda args: outcome_of(accuracy), ["--json"]) == code
    streams = capsys.readouterr()
    found = json.loads(streams.out)
    assert found["values"] == {"accuracy": accuracy}
    assert found["tables"][0]["rows"] == [[1, 2.0]]
    assert len(found["deviations"]) == code
    assert ("differs from the stored result: accuracy" in streams.err) is bool(code)


def test_quick_run_is_neither_compared_nor_stored(script: str, capsys) -> None:
    assert main(script, parser(None), lambda args: outcome_of(0.0), ["--quick"]) == 0
    assert "Title\n\na  " in capsys.readouterr().out
    assert (
        main(script, parser(None), lambda args: outcome_of(0.0), ["--quick", "--store"]) == harness.BAD_INPUT
    )
    assert kept(script)["values"] == {"accuracy": 0.5}


def test_stored_run_says_what_it_was(script: str, capsys) -> None:
    options = parser(None)
    options.add_argument("--seeds", type=int, default=2)
    arguments = ["--store", "--seeds", "3", "--data-dir", "somewhere", "--json"]
    outcome = outcome_of(0.9, rows={"training": 7}, details={"more": [1]})
    assert main(script, options, lambda args: outcome, arguments) == 0
    assert "changed: accuracy is 0.9000, stored 0.5000" in capsys.readouterr().err
    found = kept(script)
    assert found["values"] == {"accuracy": 0.9}
    (run,) = found["runs"]
    assert run["measured"] == ["accuracy"]
    assert run["arguments"] == ["--seeds", "3"]
    assert run["seeds"] == [0, 1, 2]
    assert run["rows"] == {"training": 7}
    assert set(run["machine"]) >= {"architecture", "python", "numpy", "onefold"}
    assert "somewhere" not in json.dumps(found)
    assert main(script, options, lambda args: outcome, []) == 0  # the same again agrees


def test_bad_input_prints_one_line_and_exits_with_code_2(script: str, capsys) -> None:
    def experiment(args: object) -> Outcome:
        raise InvalidInputError("no such data")

    assert main(script, parser(None), experiment, []) == harness.BAD_INPUT
    streams = capsys.readouterr()
    assert streams.err.endswith("error: no such data\n")
    assert streams.err.count("\n") == 1
    assert streams.out == ""


# --- stored results ---------------------------------------------------------------------------------------

RUN = {"date": "2026-01-01T00:00:00Z", "arguments": []}


def test_pieces_merge_and_every_value_keeps_its_run(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "script.json"
    first = {
        "title": "T",
        "headers": ["epsilon", "method", "accuracy"],
        "rows": [[1, "a", 0.1], [1, "b", 0.2]],
    }
    stored.store(path, {**RUN, "arguments": ["one"]}, {"a": 0.1, "b": 0.2}, [first], {"x": 1})
    again = {**first, "rows": [[1, "b", 0.3], [2, "a", 0.4]]}
    stored.store(path, {**RUN, "arguments": ["two"]}, {"b": 0.3, "c": 0.4}, [again], {"y": 2})
    raw = stored.read(path)
    assert raw is not None
    assert raw["values"] == {"a": 0.1, "b": 0.3, "c": 0.4}
    assert [(run["arguments"], run["measured"]) for run in raw["runs"]] == [
        (["one"], ["a"]),
        (["two"], ["b", "c"]),
    ]
    assert raw["tables"][0]["rows"] == [[1, "a", 0.1], [1, "b", 0.3], [2, "a", 0.4]]
    assert raw["details"] == {"x": 1, "y": 2}
    stored.store(path, {**RUN, "arguments": ["all"]}, {"c": 1, "b": 2, "a": 3}, [], {})
    raw = stored.read(path)
    assert raw is not None
    assert list(raw["values"]) == ["c", "b", "a"]
    assert [run["arguments"] for run in raw["runs"]] == [["all"]]


def test_named_rows_are_told_apart_by_as_many_cells_as_the_table_says(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "script.json"
    table = {"title": "T", "headers": ["e", "m", "x"], "named_by": 2}
    stored.store(path, RUN, {"a": 1.0}, [{**table, "rows": [[1, "a", 0.1]]}], {})
    stored.store(path, RUN, {"b": 1.0}, [{**table, "rows": [[1, "b", 0.2]]}], {})
    raw = stored.read(path)
    assert raw is not None
    assert raw["tables"][0]["rows"] == [[1, "a", 0.1], [1, "b", 0.2]]


def test_copied_tables_leave_with_the_last_copied_value(tmp_path: Path) -> None:
    run = {**RUN, "transcribed": True, "source": "a page"}
    raw = stored.merged(stored.empty("folder/script"), run, {"a": 1.0, "b": 2.0}, [], {})
    raw["tables"] = [{"title": "Old", "headers": [], "rows": [], "transcribed": True}]
    raw = stored.merged(raw, RUN, {"a": 1.0}, [], {})
    assert [table["title"] for table in raw["tables"]] == ["Old"]
    assert stored.merged(raw, RUN, {"b": 1.0}, [], {})["tables"] == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw.update(more=1),
        lambda raw: raw["values"].update(b=1.0),  # of no run
        lambda raw: raw["values"].update(a=None),
        lambda raw: raw["runs"][0].update(unknown=1),
        lambda raw: raw["runs"][0].pop("date"),
        lambda raw: raw.update(experiment="folder/other"),
    ],
)
def test_file_that_is_no_stored_result_is_refused(tmp_path: Path, spoil: Any) -> None:
    path = tmp_path / "folder" / "script.json"
    raw = stored.store(path, RUN, {"a": 1.0}, [], {})
    spoil(raw)
    path.write_text(stored.as_text(raw))
    with pytest.raises(InvalidInputError, match="not a stored result"):
        stored.read(path)


def test_value_that_is_not_finite_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "script.json"
    with pytest.raises(InvalidInputError, match="finite"):
        stored.store(path, RUN, {"a": float("nan")}, [], {})
    assert not path.exists()


def test_first_pattern_that_fits_decides() -> None:
    rules = {"a [1]*": {"tolerance": 1}, "*": {"tolerance": 2}}
    assert tolerances.rule(rules, "a [1] b") == {"tolerance": 1}
    assert tolerances.rule(rules, "a 1") == {"tolerance": 2}
    assert tolerances.rule({"a*": {}}, "b a") == {}
