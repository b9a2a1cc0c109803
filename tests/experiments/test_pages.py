"""Reports of experiments: stored results, what a script prints, and curves that names give away."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from experiments import __main__ as commands
from experiments.pages import of_experiment
from experiments.pictures import CurvesDisplay
from onefold.exceptions import InvalidInputError
from onefold.report import Report

VALUES = {f"mnist/{e}/{kind}/accuracy": 0.9 + e / 100 for e in (1, 2, 4) for kind in ("noisy", "honest")}
RUN = {
    "date": "2027-01-31T12:00:00Z",
    "arguments": ["--data", "digits"],
    "seeds": [0, 1],
    "rows": {"train": 100},
    "machine": {"cores": 2},
    "measured": list(VALUES),
}
STORED: dict[str, Any] = {
    "experiment": "kahm/private",
    "runs": [RUN],
    "values": VALUES,
    "tables": [{"title": "MNIST", "headers": ["epsilon", "accuracy"], "rows": [[1, 0.91], [2, None]]}],
    "details": {},
}


def section(report: Report, title: str) -> Any:
    (found,) = [part for part in report.sections if part.title == title]
    return found


def test_stored_result_becomes_a_page_of_runs_curves_and_tables() -> None:
    report = of_experiment(STORED)
    assert report.verdict == ["This is the result of the experiment kahm/private: 6 numbers."]
    facts = section(report, "How it was measured").facts
    assert facts["arguments"] == "--data digits"
    assert (facts["seeds"], facts["rows"], facts["cores"]) == ("0, 1", "train 100", 2)
    assert section(report, "MNIST").rows == [[1, 0.91], [2, "–"]]
    curve = section(report, "Mnist: accuracy").display
    assert isinstance(curve, CurvesDisplay)
    assert list(curve.x) == [1, 2, 4]
    measured = [VALUES[f"mnist/{epsilon}/noisy/accuracy"] for epsilon in (1, 2, 4)]
    assert curve.curves == {"noisy": measured, "honest": measured}
    assert Report.of(report.numbers).numbers == report.numbers


def test_several_runs_become_a_table_with_what_they_share_beside_it() -> None:
    other = {**RUN, "date": "2027-02-01T12:00:00Z", "measured": []}
    told = section(of_experiment({**STORED, "runs": [RUN, other]}), "How it was measured")
    assert told.headers == ["date", "numbers"]
    assert told.rows == [["2027-01-31T12:00:00Z", 6], ["2027-02-01T12:00:00Z", 0]]
    assert (told.facts["runs"], told.facts["cores"]) == (2, 2)


def test_printed_result_of_a_quick_run_says_that_its_numbers_mean_nothing() -> None:
    plain = {"experiment": "a/b", "quick": True, "values": {"x": 1.0}, "tables": [], "deviations": []}
    report = of_experiment(plain)
    assert "its numbers mean nothing" in report.verdict[1]
    assert section(report, "The numbers").rows == [["x", 1.0]]


def test_deviations_and_copied_numbers_are_in_the_verdict() -> None:
    copied = {**RUN, "transcribed": True, "source": "a page"}
    report = of_experiment({**STORED, "runs": [copied], "deviations": ["x is 1, recorded 2"]})
    assert "1 of them differs from earlier runs" in report.verdict[1]
    assert report.verdict[2].startswith("All of them were copied from an older page")
    assert section(report, "Numbers that differ from those of earlier runs").notes == ["x is 1, recorded 2"]


def test_an_axis_is_named_by_the_word_before_the_number() -> None:
    values = {f"10000 optimal epsilon {e:g}": e for e in (0.1, 1.0, 8.0)}
    report = of_experiment({"experiment": "a/b", "values": values, "tables": []})
    curve = section(report, "Value against epsilon").display
    assert (curve.x_label, curve.logarithmic) == ("epsilon", "x")


def test_damaged_result_is_refused() -> None:
    changes: list[dict[str, Any]] = [
        {"values": [1]},
        {"values": {"a": "b"}},
        {"tables": [{}]},
        {"tables": 3},
        {"runs": [{}]},
    ]
    for change in changes:
        with pytest.raises(InvalidInputError, match="not the result of an experiment"):
            of_experiment({**STORED, **change})


def test_result_becomes_a_page_and_other_json_does_not(tmp_path: Path, capsys) -> None:
    result, page = tmp_path / "private.json", tmp_path / "experiment.html"
    result.write_text(json.dumps(STORED))
    assert commands.main(["report", str(result), "--out", str(page)]) == 0
    assert "the result of the experiment kahm/private" in capsys.readouterr().out
    plain = json.loads((tmp_path / "experiment.json").read_text())
    assert plain["kind"] == "experiment"
    digest = hashlib.sha256(result.read_bytes()).hexdigest()
    assert plain["sections"][-1]["facts"] == {"SHA-256 of the result": digest}
    for other in ('{"experiment": "kahm/private", "values": 3, "tables": []}', "[1]", "no JSON"):
        result.write_text(other)
        assert commands.main(["report", str(result), "--out", str(page)]) == commands.BAD_INPUT, other
        assert capsys.readouterr().err.count("\n") == 1, other
