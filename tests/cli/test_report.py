"""``onefold report`` and ``--report``: the same page for models, private tables and audits."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.privacy import Ledger

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

SCHEMA = {
    "fields": [
        {"name": "age", "type": "number", "constraints": {"minimum": 0, "maximum": 100}},
        {"name": "sick", "type": "string", "constraints": {"enum": ["no", "yes"]}, "onefold:role": "label"},
    ]
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    for name, size in (("train", 120), ("test", 80)):
        sick = rng.integers(0, 2, size)
        lines = [f"{30 + 30 * s + rng.normal(0, 8):.1f},{'yes' if s else 'no'}" for s in sick]
        (folder / f"{name}.csv").write_text("age,sick\n" + "\n".join(lines) + "\n")
    return folder


def page_of(path: Path) -> dict[str, object]:
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    plain: dict[str, object] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return plain


def titles(plain: dict[str, object]) -> list[str]:
    return [section["title"] for section in plain["sections"]]  # type: ignore[attr-defined]


def test_fit_and_report_write_pages_of_a_model(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, page = str(files / "m.onefold"), files / "fit.html"
    data = str(files / "train.csv")
    assert (
        main(["fit", data, "--label", "sick", "--out", model, "--test-size", "0.3", "--report", str(page)])
        == 0
    )
    assert "report written to" in capsys.readouterr().out
    assert {"Accuracy", "Does it know when it errs?"} <= set(titles(page_of(page)))
    out = files / "model.html"
    test = ["--data", str(files / "test.csv"), "--label", "sick"]
    card = files / "card.json"
    card.write_text('{"intended use": "to show a page"}')
    assert main(["report", model, *test, "--out", str(out), "--card", str(card)]) == 0
    told = capsys.readouterr().out
    plain = page_of(out)
    assert plain["verdict"][0] in told  # type: ignore[index]
    assert "to show a page" in out.read_text(encoding="utf-8")
    assert main(["report", str(out.with_suffix(".json")), "--out", str(files / "again.html")]) == 0
    assert (files / "again.html").read_bytes() == out.read_bytes()


def test_predict_and_audit_write_pages(files: Path) -> None:
    model = str(files / "p.onefold")
    data, test = str(files / "train.csv"), str(files / "test.csv")
    assert main(["fit", data, "--label", "sick", "--out", model, "--quiet"]) == 0
    page = files / "predictions.html"
    options = ["--label", "sick", "--out", str(files / "p.csv"), "--report", str(page), "--quiet"]
    assert main(["predict", model, test, *options]) == 0
    assert "Which class is taken for which" in titles(page_of(page))
    page = files / "audit.html"
    assert main(["audit", model, "--train", data, "--test", test, "--report", str(page), "--quiet"]) == 0
    assert any(title.startswith("Members and others: ") for title in titles(page_of(page)))
    assert "are not private" in page_of(page)["verdict"][-1]  # type: ignore[index]
    for name in ("predictions.html", "audit.html"):
        assert str(files) not in (files / name).with_suffix(".json").read_text()  # no folder of anybody


def test_private_table_gets_the_same_page_at_once_and_later(files: Path) -> None:
    schema = files / "s.json"
    schema.write_text(json.dumps(SCHEMA))
    made, page = files / "made.csv", files / "made.html"
    options = [
        "--schema",
        str(schema),
        "--epsilon",
        "1",
        "--out",
        str(made),
        "--report",
        str(page),
        "--quiet",
    ]
    assert main(["synthesize", str(files / "train.csv"), *options]) == 0
    assert main(["report", str(made), "--quiet"]) == 0
    later = page_of(files / "made.csv.report.html")
    assert later["verdict"] == page_of(page)["verdict"]
    assert {"What is promised", "What is not covered"} <= set(titles(later))


def test_page_beside_a_promise_warns_and_does_not_tell_which_raw_rows(files: Path) -> None:
    schema, model, test = files / "s2.json", str(files / "q.onefold"), str(files / "test.csv")
    schema.write_text(json.dumps(SCHEMA))
    options = ["--schema", str(schema), "--epsilon", "8", "--out", model, "--quiet"]
    assert main(["fit", str(files / "train.csv"), *options, "--report", str(files / "q.html")]) == 0
    own = page_of(files / "q.html")
    assert main(["report", model, "--out", str(files / "q1.html"), "--quiet"]) == 0
    assert page_of(files / "q1.html")["verdict"] == own["verdict"][:-1]  # the forecast is told once
    assert any("was not measured" in line for line in own["verdict"])  # type: ignore[attr-defined]
    label = ["--data", test, "--label", "sick"]
    assert main(["report", model, *label, "--out", str(files / "q2.html"), "--quiet"]) == 0
    more = ["--label", "sick", "--out", str(files / "q.csv"), "--report", str(files / "q3.html"), "--quiet"]
    assert main(["predict", model, test, *more]) == 0
    for name in ("q2.html", "q3.html"):
        plain = page_of(files / name)
        assert plain["verdict"][0] == own["verdict"][0]  # type: ignore[index]
        assert plain["verdict"][-1].endswith("do not publish this page.")  # type: ignore[index]
        text = json.dumps(plain)
        assert "test.csv" not in text
        assert hashlib.sha256(Path(test).read_bytes()).hexdigest() not in text


def test_rows_of_persons_have_no_interval(files: Path, tmp_path: Path) -> None:
    rows = (files / "train.csv").read_text().splitlines()
    table = tmp_path / "visits.csv"
    table.write_text("\n".join(["who," + rows[0], *(f"p{n // 2},{row}" for n, row in enumerate(rows[1:]))]))
    person = {"name": "who", "type": "string", "onefold:role": "person"}
    schema = tmp_path / "s.json"
    schema.write_text(json.dumps({"fields": [person, *SCHEMA["fields"]]}))
    model, page = str(tmp_path / "m.onefold"), tmp_path / "m.html"
    assert main(["fit", str(table), "--schema", str(schema), "--out", model, "--quiet"]) == 0
    assert main(["report", model, "--data", str(table), "--out", str(page), "--quiet"]) == 0
    plain = page_of(page)
    assert "confidence" not in plain["verdict"][0]  # type: ignore[index]
    assert "Rows of one person are alike" in json.dumps(plain)


@pytest.mark.parametrize("page", ["led.html", "s1.html", "t.csv.guarantee.html", "t.csv.quality.html"])
def test_numbers_of_a_page_replace_no_other_file(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    monkeypatch.chdir(files)
    (files / "s1.json").write_text(json.dumps(SCHEMA))
    if not (files / "led.json").exists():
        assert main(["ledger", "new", "led.json", "--epsilon", "3"]) == 0
    before = {name: (files / name).read_bytes() for name in ("led.json", "s1.json")}
    options = ["--schema", "s1.json", "--epsilon", "1", "--ledger", "led.json", "--out", "t.csv"]
    assert main(["synthesize", "train.csv", *options, "--report", page]) == 2
    assert "is another file of this command" in capsys.readouterr().err
    assert {name: (files / name).read_bytes() for name in before} == before
    assert not (files / "t.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "train.csv", "--schema", "s1.json", "--epsilon", "1"],
        ["synthesize", "train.csv", "--schema", "s1.json", "--epsilon", "1"],
        ["fabricate", "train.csv", "--label", "sick", "--epsilon", "1", "--range", "0", "9"],
        ["release", "train.csv", "--schema", "s1.json", "--epsilon", "1"],
        ["transfer", "source", "train.csv", "--schema", "s1.json", "--epsilon", "1"],
    ],
    ids=lambda words: words[0],
)
def test_result_of_a_command_never_replaces_its_ledger(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(files)
    (files / "s1.json").write_text(json.dumps(SCHEMA))
    for out, ledger in (("spent.csv", "spent.csv"), ("made.csv", "made.csv.guarantee.json")):
        Path(ledger).unlink(missing_ok=True)
        Ledger(9.0, 1e-3).save(ledger)
        before = Path(ledger).read_bytes()
        assert main([*words, "--ledger", ledger, "--out", out]) == 2
        assert f"{ledger}: is an input of this command" in capsys.readouterr().err
        assert Path(ledger).read_bytes() == before
        Path(ledger).unlink()


def test_page_replaces_its_earlier_self_but_no_json_of_others(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    arguments = ["fit", "train.csv", "--label", "sick", "--out", "k.onefold", "--quiet", "--report"]
    for _ in range(2):
        assert main([*arguments, "k.html"]) == 0
    (files / "mine.json").write_text('{"notes": "of somebody"}')
    capsys.readouterr()
    assert main([*arguments, "mine.html"]) == 2
    assert "which is not of a report" in capsys.readouterr().err
    assert json.loads((files / "mine.json").read_text()) == {"notes": "of somebody"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "missing.onefold"], "no such file or folder"),
        (["report", "train.csv"], "nothing is promised"),
        (["report", "m.txt"], "is none of what a report can be about"),
        (["report", "train.csv", "--label", "sick"], "give both"),
        (["predict", "m.onefold", "test.csv", "--report", "x.html"], "--report needs --label"),
        (["fit", "train.csv", "--label", "sick", "--report", "x.txt"], "must end in .html"),
        (["fit", "train.csv", "--label", "sick", "--card", "c.json"], "--card goes with --report"),
    ],
)
def test_bad_input_is_told_in_one_line(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(files)
    (files / "m.txt").write_text("no model")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def _damaged(files: Path, name: str, change: Callable[[Any], None]) -> None:
    plain = json.loads((files / "whole.json").read_text())
    for section in plain["sections"]:
        if "display" in section:
            change(section)
    (files / name).write_text(json.dumps(plain))


@pytest.mark.parametrize(
    "change",
    [
        lambda section: section["display"].update(counts={"near": [1, "x"]}),
        lambda section: section["display"].update(counts=[[1]]),
        lambda section: section["display"].update(kinds=["unheard of"] * 9),
        lambda section: section["display"].update(values=["a"], names=None, confusion=[[1, 2, 3]]),
        lambda section: section.update(headers=["a"], rows=[["x", 1], []]),
        lambda section: section.update(display=[1]),
        lambda section: section.update(facts=[1, 2]),
    ],
)
def test_damaged_numbers_are_told_in_one_line(
    files: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Any], None]
) -> None:
    if not (files / "whole.json").exists():
        options = ["--label", "sick", "--out", str(files / "w.onefold"), "--test-size", "0.3", "--quiet"]
        assert main(["fit", str(files / "train.csv"), *options, "--report", str(files / "whole.html")]) == 0
    _damaged(files, "cut.json", change)
    capsys.readouterr()
    assert main(["report", str(files / "cut.json"), "--out", str(files / "drawn.html")]) == 2
    error = capsys.readouterr().err
    assert "cut.json" in error
    assert error.count("\n") == 1
    assert not (files / "drawn.html").exists()


def test_files_and_folders_that_cannot_be_read_are_named(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flwr")
    monkeypatch.chdir(files)
    (files / "some.csv").write_text("a\n1\n")
    (files / "some.csv.guarantee.json").write_text('{"unit": "record"}')
    (files / "empty").mkdir()
    assert main(["fit", "train.csv", "--label", "sick", "--out", "c.onefold", "--quiet"]) == 0
    whole = (files / "c.onefold").read_bytes()
    (files / "c.onefold").write_bytes(whole[: len(whole) // 2])
    for thing, said in (
        ("some.csv", "some.csv.guarantee.json: this is not the description of a guarantee"),
        ("empty", "empty: is none of what a report can be about"),
        ("c.onefold", "c.onefold: not a model file, or damaged"),
    ):
        capsys.readouterr()
        assert main(["report", thing]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("rows", "gain", "said"),
    [
        (400, 0.2, "): predictions are better with the source"),
        (400, -0.2, "predictions are WORSE with the source"),
        (30, 0.2, "not shown to be better with the source"),
        (400, 0.0, "not shown to be better with the source"),
        (400, None, "was not measured"),
    ],
)
def test_page_of_a_transfer_starts_with_what_the_source_was_worth(
    rows: int, gain: float | None, said: str
) -> None:
    from onefold.cli.transfer import _held_out, _worth

    model = SimpleNamespace(source_gain_=gain, accuracy_=0.7, majority_=0.5, sources=None)
    assert said in _worth(model, _held_out(model, rows))


# --- what another epsilon would give ----------------------------------------------------------------------

CURVE = "What another epsilon would give"


def curve_of(page: Path) -> dict[str, Any]:
    (section,) = [part for part in page_of(page)["sections"] if part["title"] == CURVE]  # type: ignore[attr-defined]
    found: dict[str, Any] = section["display"]
    return found


@pytest.mark.parametrize(
    ("command", "epsilon", "unit"),
    [("synthesize", "1", "record"), ("fabricate", "2", "entry"), ("release", "3", "record")],
)
def test_page_of_a_private_table_marks_its_epsilon_on_the_curve(
    files: Path, command: str, epsilon: str, unit: str
) -> None:
    schema, out, page = files / "s.json", files / f"{command}.csv", files / f"{command}.html"
    schema.write_text(json.dumps(SCHEMA))
    given = [str(files / "train.csv"), "--schema", str(schema), "--epsilon", epsilon, "--out", str(out)]
    assert main([command, *given, "--report", str(page), "--quiet"]) == 0
    curve = curve_of(page)
    assert curve["unit"] == unit
    assert curve["marked"] == pytest.approx(float(epsilon), rel=1e-3)
    again = files / f"{command}-again.html"
    assert main(["report", str(out), "--out", str(again), "--quiet"]) == 0
    assert curve_of(again) == curve


def test_report_draws_the_curve_of_a_synthetic_table_by_its_schema(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, out, page = files / "t.json", files / "plain.csv", files / "plain.html"
    schema.write_text(json.dumps(SCHEMA))
    given = ["--schema", str(schema), "--epsilon", "1", "--out", str(out), "--quiet"]
    assert main(["synthesize", str(files / "train.csv"), *given]) == 0
    assert main(["report", str(out), "--out", str(page), "--quiet"]) == 0
    assert CURVE not in titles(page_of(page))
    assert main(["report", str(out), "--schema", str(schema), "--out", str(page), "--quiet"]) == 0
    assert curve_of(page)["marked"] == 1.0
    fields = [{**SCHEMA["fields"][0], "constraints": {"minimum": 0, "maximum": 99}}, SCHEMA["fields"][1]]
    schema.write_text(json.dumps({"fields": fields}))
    assert main(["report", str(out), "--schema", str(schema), "--out", str(page), "--quiet"]) == 2
    assert "not the schema that the table was made with" in capsys.readouterr().err


def test_void_guarantee_has_no_curve(files: Path) -> None:
    out, page = files / "void.csv", files / "void.html"
    given = [
        "--range",
        "0",
        "100",
        "--epsilon",
        "1",
        "--sampler",
        "float",
        "--label",
        "sick",
        "--out",
        str(out),
    ]
    assert main(["fabricate", str(files / "train.csv"), *given, "--report", str(page), "--quiet"]) == 0
    assert CURVE not in titles(page_of(page))
