"""The register is true, a register that is not is found out, and its three commands work."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from experiments import __main__ as commands
from experiments import stored
from experiments.register import checking, page, reading, tolerances
from onefold.exceptions import InvalidInputError

RUN = {"date": "2026-01-01T00:00:00Z", "arguments": ["--seeds", "3"], "seeds": [0, 1, 2]}


def test_the_register_is_true_and_its_pages_are_fresh() -> None:
    raw = checking.results()
    assert checking.faults(reading.read(), raw, page.shown(raw)) == []
    assert page.stale() == []


def test_every_line_has_a_status_and_every_document_is_there() -> None:
    lines = checking.lines(reading.read(), checking.results())
    assert {line.item.document for line in lines} == set(reading.DOCUMENTS)
    assert all(line.row.status in reading.STATUSES for line in lines)


def test_every_experiment_of_a_stored_result_can_be_run() -> None:
    known = commands.scripts()
    assert {name for name in checking.results() if not name.startswith("benchmarks/")} <= set(known)


# --- a small register of its own ---------------------------------------------------------------------------

TABLE: dict[str, Any] = {
    "name": "Table 1",
    "kind": "table",
    "about": "accuracy",
    "experiment": "folder/script",
    "status": "reproduced",
    "rows": [{"row": "all", "document": 0.95, "ours": "a"}],
}
THEOREM: dict[str, Any] = {
    "name": "Theorem 1",
    "kind": "theorem",
    "about": "a bound",
    "code": "onefold.bounds.risk_bound",
    "test": "tests/test_it.py::test_bound",
    "status": "reproduced",
}


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def write(root: Path, *items: dict[str, Any]) -> None:
    lines = ['document = "000"', 'title = "T"']
    for item in items:
        lines += ["[[item]]", *(f"{key} = {toml(value)}" for key, value in item.items())]
    (root / "experiments/register/000.toml").write_text("\n".join(lines))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one experiment, one stored result and one test."""
    for folder in ("experiments/register", "experiments/folder", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "experiments/folder/script.py").write_text("")
    (tmp_path / "tests/test_it.py").write_text("def test_bound(): pass\n")
    (tmp_path / "experiments/register" / tolerances.FILE).write_text('["folder/script"]\n"*" = 0.1\n')
    stored.store(tmp_path / "experiments/results/folder/script.json", RUN, {"a": 0.955}, [], {})
    return tmp_path


def faults(root: Path, *items: dict[str, Any]) -> list[str]:
    write(root, *items)
    read = reading.read(root / "experiments/register")
    return checking.faults(read, checking.results(root / "experiments/results"), {}, root)


def test_a_small_true_register_has_no_fault(root: Path) -> None:
    assert faults(root, TABLE, THEOREM) == []


def changed_row(**changes: Any) -> dict[str, Any]:
    row = {**TABLE["rows"][0], **changes}
    return {**TABLE, "rows": [{key: value for key, value in row.items() if value is not None}]}


REASON = "Other photographs than those of the document."


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        (changed_row(document=0.9), "is not within 0.01 of 0.9"),
        (changed_row(tolerance=0.001), "is not within 0.001"),
        (changed_row(ours="b"), "'b' is not stored"),
        (changed_row(ours=None), "'reproduced' without a stored value"),
        (changed_row(status="differs"), "'differs' needs a reason"),
        (changed_row(status="other data", reason="so"), "needs a reason"),
        (changed_row(status="other data", reason=REASON, ours=None), "without a stored value"),
        (changed_row(status="not available", reason=REASON), "so it is available"),
        (changed_row(experiment="folder/other"), "no experiment folder/other"),
        ({**THEOREM, "test": "tests/test_it.py::test_gone"}, "no test tests/test_it.py::test_gone"),
        ({**THEOREM, "code": "onefold.bounds.gone"}, "no onefold.bounds.gone"),
        ({key: value for key, value in THEOREM.items() if key != "test"}, "neither code and test"),
        ({**TABLE, "page": "docs/gone.py"}, "no docs/gone.py"),
    ],
)
def test_what_is_not_true_is_found(root: Path, item: dict[str, Any], fault: str) -> None:
    found = faults(root, item)
    assert any(fault in line for line in found), found


def test_stored_value_that_nothing_uses_or_that_has_no_tolerance_is_found(root: Path) -> None:
    assert faults(root, THEOREM) == [
        "folder/script: 'a' is stored, but neither the register nor the results page use it"
    ]
    write(root, THEOREM)
    items = reading.read(root / "experiments/register")
    raw = checking.results(root / "experiments/results")
    assert checking.faults(items, raw, {"folder/script": {"a"}}, root) == []
    (root / "experiments/folder/script.py").unlink()
    assert "no such experiment" in checking.faults(items, raw, {"folder/script": {"a"}}, root)[0]


def test_value_without_a_tolerance_is_found(root: Path) -> None:
    (root / "experiments/register" / tolerances.FILE).write_text('["folder/script"]\n"b" = 0.1\n')
    assert faults(root, TABLE) == ["folder/script: 'a' has no tolerance in tolerances.toml"]


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ([{**TABLE, "colour": "red"}], "unknown key 'colour'"),
        ([changed_row(colour="red")], "unknown key 'colour'"),
        ([{**TABLE, "kind": "song"}], "no kind 'song'"),
        ([{**TABLE, "status": "fine"}], "the status must be one of"),
        ([{key: value for key, value in TABLE.items() if key != "status"}], "the status must be one of"),
        ([{key: value for key, value in TABLE.items() if key != "about"}], "'about' is missing"),
        ([{**TABLE, "experiment": 3}], "'experiment' must be words"),
        ([TABLE, TABLE], "is there twice"),
        ([{**TABLE, "rows": TABLE["rows"] * 2}], "two rows have one name"),
        ([changed_row(document=True)], "a number or words"),
        ([changed_row(tolerance=-1)], "0 or more"),
        ([changed_row(mean_of="of no row")], "a mean has rows of the item"),
    ],
)
def test_register_that_cannot_be_read_is_refused_in_one_line(
    root: Path, items: list[dict[str, Any]], fault: str
) -> None:
    with pytest.raises(InvalidInputError, match=fault) as refused:
        faults(root, *items)
    assert "\n" not in str(refused.value)


def test_row_with_a_status_of_its_own_has_its_own_reason(root: Path) -> None:
    rows = [
        {"row": "one", "ours": "a"},
        {"row": "two", "document": 0.95, "ours": "a", "status": "reproduced"},
    ]
    write(root, {**TABLE, "status": "other data", "reason": REASON, "rows": rows})
    one, two = reading.read(root / "experiments/register")[0].rows
    assert (one.status, one.reason) == ("other data", REASON)
    assert (two.status, two.reason) == ("reproduced", "")


def test_line_knows_where_its_number_comes_from(root: Path) -> None:
    write(root, TABLE)
    read = reading.read(root / "experiments/register")
    (line,) = checking.lines(read, checking.results(root / "experiments/results"))
    told = line.as_json()
    assert told["difference"] == pytest.approx(0.005)
    assert told["command"] == "python -m experiments.folder.script --seeds 3"
    assert told["seeds"] == [0, 1, 2]
    assert told["date"] == RUN["date"]
    assert told["raw_result"] == "experiments/results/folder/script.json"


def test_mean_of_rows_is_computed_and_waits_for_all_of_them(root: Path) -> None:
    def mean(second: dict[str, Any]) -> checking.Line:
        rows = [
            {"row": "one, accuracy", "document": 0.95, "ours": "a", "status": "reproduced"},
            {"row": "two, accuracy", "document": 0.95, "status": "not available", "reason": REASON, **second},
            {"row": "mean of accuracy", "mean_of": ", accuracy", "status": "reproduced", "document": 0.95},
        ]
        write(root, {**TABLE, "rows": rows})
        read = reading.read(root / "experiments/register")
        return checking.lines(read, checking.results(root / "experiments/results"))[-1]

    both = mean({"ours": "a", "status": "reproduced"})
    assert both.ours == pytest.approx(0.955)
    assert both.as_json()["date"] == RUN["date"]
    assert mean({}).ours is None


# --- the page -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "value", "is_shown"),
    [
        ("0.9868 ± 0.0004", 0.98681, True),
        (0.98681, 0.98681, True),
        ("98.7", 0.98681, True),
        ("−1.67", 1.67, True),
        ("0.9868", 0.9870, False),
        ("1", 0.92, False),
        ("2.16e+03", 2163.0, True),
        ("2.16e+03", 2173.0, False),
    ],
)
def test_value_is_shown_by_a_cell_that_rounds_it(cell: object, value: float, is_shown: bool) -> None:
    assert page._is_among(value, page._numbers([cell])) is is_shown


def test_page_that_shows_what_is_not_stored_is_refused() -> None:
    raw = checking.results()
    for kind, experiment, name in (
        ("table", "kahm/mnist", "No such table"),
        ("value", "kahm/mnist", "no such value"),
        ("table", "kahm/gone", "T"),
    ):
        with pytest.raises(InvalidInputError, match="results page shows"):
            page._filled(raw, kind, experiment, name, None)


def test_printed_numbers_stand_beside_ours_by_method() -> None:
    lines = checking.lines(reading.read(), checking.results())
    table = page.beside(lines, "004", "Table 2").splitlines()
    assert table[0].startswith(
        "| method | document, rho 100 | document, rho 50 | document, rho 10 | here, rho 100"
    )
    assert "| CReFF | 0.7055 | 0.7308 | 0.8071 |  |  |  |" in table
    assert sum(line.startswith("| SFM |") for line in table) == 1
    with pytest.raises(InvalidInputError, match="not in the register"):
        page.beside(lines, "004", "Table 99")


# --- the commands -------------------------------------------------------------------------------------------


def test_list_filters_by_document_and_status(capsys) -> None:
    assert commands.main(["list", "--document", "002", "--status", "differs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found
    assert {(line["document"], line["status"]) for line in found} == {("002", "differs")}
    assert all(line["reason"] for line in found)
    assert commands.main(["list", "--document", "002"]) == 0
    assert "lines:" in capsys.readouterr().out


def test_compare_shows_the_lines_of_an_experiment(capsys) -> None:
    assert commands.main(["compare", "fuzzy/robustness"]) == 0
    out = capsys.readouterr().out
    assert "noise 0.2, proposed" in out
    assert "Theorem" not in out


def test_compare_fails_when_something_is_not_true(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "faults", lambda *given: ["fuzzy/robustness: it is not so"])
    assert commands.main(["compare"]) == commands.DEVIATES
    assert "it is not so" in capsys.readouterr().err


def test_unknown_names_are_refused_in_one_line(capsys) -> None:
    for command in ("run", "compare"):
        assert commands.main([command, "kahm/gone"]) == commands.BAD_INPUT
        assert re.fullmatch(
            r"python -m experiments: error: no experiment 'kahm/gone', did you mean kahm/\w+\? "
            r"\(python -m experiments lists them\)\n",
            capsys.readouterr().err,
        )


def test_without_a_command_the_experiments_are_listed(capsys, tmp_path: Path) -> None:
    assert commands.main([]) == 0
    told = capsys.readouterr().out.split()
    assert {"kahm/mnist", "release/toy"} <= set(told)
    assert told == commands.scripts()
    (tmp_path / "kahm").mkdir()
    for name, text in {
        "digits": '__name__ == "__main__"',
        "_part": '__name__ == "__main__"',
        "data": "",
    }.items():
        (tmp_path / f"kahm/{name}.py").write_text(text)
    assert commands.scripts(tmp_path) == ["kahm/digits"]


@pytest.mark.nightly
def test_run_remembers_what_is_finished(tmp_path: Path, capfd) -> None:
    arguments = ["run", "release/toy", "--quick", "--resume", str(tmp_path / "kept")]
    assert commands.main(arguments) == 0
    told = capfd.readouterr()
    assert "1 of 1: release/toy took" in told.err
    assert told.out
    assert commands.main(arguments) == 0
    told = capfd.readouterr()
    assert "was finished before" in told.err
    assert told.out == ""


def test_paragraph_with_a_number_that_is_not_stored_says_so(monkeypatch, tmp_path: Path) -> None:
    raw, items = checking.results(), reading.read()
    assert page.unmarked(raw, items) == []
    told = ["Measured: 0.12345 at epsilon 0.5.", "Not stored: 0.54321.", "| 0.54321 |"]
    (tmp_path / "1.txt").write_text("\n\n".join([*told, "{{values: kahm/mnist | all}}"]))
    monkeypatch.setattr(page, "SECTIONS", tmp_path)
    assert page.unmarked(raw, items) == ["1.txt: 0.12345 in 'Measured: 0.12345 at epsilon 0.5.'"]


# Numbers that nobody measures: versions, defaults, lengths of encoded cells, and what follows from formulas.
CONSTANTS = {
    "architecture.md": ["2.60", "2.110", "2.118", "2.139"],  # Ray, equations of the documents
    "deploy.md": ["1.41", "3.11", "0.01"],  # Flower, Python, the share of false alarms
    "encoders.md": ["0.25", "1.25"],
    "encrypted.md": ["3.12", "2.11"],  # Fisher information of the flood, Concrete
    "guarantees.md": ["3.14"],  # of ten Gaussian releases: tests/attacks/test_accounting.py
    "sums.md": ["0.26"],  # MB of the smallest ciphertext
    "tables.md": ["0.25", "1.25"],
    "private-classifier.md": ["0.95", "0.64"],  # printed by the command, which the tutorial runs
    "choose-epsilon.md": ["1.11", "1.65", "2.72", "7.39", "99.97", "1.47", "2.64"],  # odds; published values
}
WITHOUT_RESULTS = {"results.md", "register.md", "notation.md", "licences.md"}


def written_pages() -> list[Path]:
    folders = (checking.ROOT / "docs", checking.ROOT / "docs/tutorials", checking.ROOT / "docs/howto")
    found = [path for folder in folders for path in sorted(folder.glob("*.md"))]
    found += sorted((checking.ROOT / "experiments").glob("*/README.md"))
    return [checking.ROOT / "README.md", *(path for path in found if path.name not in WITHOUT_RESULTS)]


def test_numbers_of_pages_written_by_hand_are_stored_or_say_that_they_are_not(tmp_path: Path) -> None:
    raw, items = checking.results(), reading.read()
    assert page.unmarked_elsewhere(raw, items, written_pages(), CONSTANTS) == []
    told = tmp_path / "told.md"
    told.write_text(
        "# A\n\n`python -m experiments.kahm.mnist` gave 0.12345.\n\nNot stored: 0.54321; 0.1 is short.\n"
    )
    assert page.unmarked_elsewhere(raw, items, [told], {}) == [
        "told.md: 0.12345 in '`python -m experiments.kahm.mnist` gave 0.12345.'"
    ]
    assert page.unmarked_elsewhere(raw, items, [told], {"told.md": ["0.12345"]}) == []
    value = raw["kahm/timing"]["values"]["exponent N"]
    told.write_text(f"# A\n\n`python -m experiments.kahm.timing`: {value:.3f}\n\n# B\n\nAgain {value:.3f}.\n")
    assert page.unmarked_elsewhere(raw, items, [told], {}) == [
        f"told.md: {value:.3f} in 'Again {value:.3f}.'"
    ]


def test_tables_of_results_on_other_pages_are_the_stored_ones() -> None:
    result = checking.results()["operator/liars"]["tables"][0]
    made = page.with_stored_tables("a\n<!-- stored: operator/liars | Ten sites -->\nold\n<!-- end -->\nb")
    table = page.markdown(result["headers"], result["rows"])
    assert made == f"a\n<!-- stored: operator/liars | Ten sites -->\n{table}\n<!-- end -->\nb"
    with pytest.raises(InvalidInputError, match="has 0"):
        page.with_stored_tables("<!-- stored: operator/liars | No such table -->\nold\n<!-- end -->")


def test_table_of_the_readme_shows_stored_numbers() -> None:
    """Accuracy in percent at ten sites; onefold is the federation that ``simulate`` takes by itself."""
    result = checking.results()["federated_heads/run"]
    tables = page._numbers(cell for table in result["tables"] for row in table["rows"] for cell in row)
    text = (checking.ROOT / "README.md").read_text(encoding="utf-8")
    lines = text.partition("| data | ridge (AFL) |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(lines) == 9
    for line in lines:
        name, *cells = (cell.strip(" *") for cell in line.strip("|").split("|"))
        data = name.removesuffix(", a table").removesuffix(", 9 persons") + ", 10 sites"
        kinds = ("ridge (AFL)", "LDA (FedCGS)", "random-feature ridge", "FedAvg, ", "recommended")
        for kind, cell in zip(kinds, cells, strict=True):
            found = [value for key, value in result["values"].items() if key.startswith(f"{data}: {kind}")]
            # Some of FedAvg's numbers were copied with their table only.
            shown = page._is_among(float(cell), tables) and not found
            assert shown or 100 * found[0] == pytest.approx(float(cell), abs=0.051), (name, kind)
