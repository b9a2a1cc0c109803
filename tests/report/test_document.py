"""A report: everything on the page is in the JSON beside it, bad files are refused, the verdict is true."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import Guarantee, Laplace
from onefold.report import AccuracyDisplay, ConfusionDisplay, Report, Section, report_page, write_report
from onefold.report.builders import (
    HeldOutAccuracy,
    of_model,
    of_table,
    of_transfer,
    privacy_sections,
    privacy_verdict,
)
from onefold.report.evaluation import evaluate
from onefold.report.federations import of_federation

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\d)")


def made(guarantee: Guarantee | None = None) -> Report:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 90)
    found = evaluate(np.where(rng.random(90) < 0.8, truth, 1 - truth), truth)
    return of_model(
        "Model <b>",
        {"rows": 90, "share": 0.123456},
        evaluation=found,
        guarantee=guarantee,
        card={"data": "a & b"},
    )


def numbers_of(plain: object) -> set[str]:
    """Every number of a JSON document as text, and those inside its texts."""
    if isinstance(plain, dict):
        return set().union(*map(numbers_of, [*plain, *plain.values()]), set())
    if isinstance(plain, list):
        return set().union(*map(numbers_of, plain), set())
    if isinstance(plain, str):
        return set(NUMBER.findall(plain))
    return {str(plain)} if isinstance(plain, int | float) else set()


def test_every_number_of_the_page_is_in_the_json_beside_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    beside = write_report(
        tmp_path / "page.html", made(Laplace(0.5, sensitivity=1.0).guarantee(n_features=10))
    )
    known = numbers_of(json.loads(Path(beside).read_text(encoding="utf-8")))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = re.sub(r"<style>.*?</style>|src=\"[^\"]*\"", "", page, flags=re.DOTALL)
    page = re.sub(r"alt=\"[^\"]*\"", "", page)
    shown = set(NUMBER.findall(unescape(re.sub(r"<[^>]*>", " ", page))))
    assert shown  # else the test could not fail
    missing = {
        text
        for text in shown
        if not any(np.isclose(float(text), abs(float(k)), rtol=1e-3, atol=5e-5) for k in known)
    }
    assert not missing


def test_report_is_read_again_and_drawn_again_alike(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    report = made()
    beside = write_report(tmp_path / "page.html", report)
    again = Report.read(beside)
    assert again.numbers == report.numbers
    assert report_page(again) == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Model &lt;b&gt;" in report_page(again)
    assert "a &amp; b" in report_page(again)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"format": "onefold report 9"}', b"[" * 10_000, b'{"format": "onefold report 1"}'],
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "page.json"
    path.write_bytes(content)
    with pytest.raises(FileFormatError) as refused:
        Report.read(path)
    assert "\n" not in str(refused.value)
    assert "page.json" in str(refused.value)


def test_page_must_be_html_so_that_its_numbers_do_not_replace_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"must end in \.html"):
        write_report(tmp_path / "page.json", made())


def test_verdict_names_the_widest_unit_that_is_covered() -> None:
    entry = Laplace(0.5, sensitivity=1.0).guarantee(n_features=10)
    assert "one record" in privacy_verdict(entry)[0]
    alone = Guarantee("entry", (0.5, 0.0), (np.inf, 0.0), 10, clipped=True)
    assert "one entry" in privacy_verdict(alone)[0]
    assert "whole record is not covered" in privacy_verdict(alone)[1]
    nothing = Guarantee("entry", (np.inf, 0.0), (np.inf, 0.0), 10)
    assert privacy_verdict(nothing)[0].startswith("No privacy is promised")
    void = entry.voided("ranges were taken from the data")
    assert privacy_verdict(void) == ["No privacy is promised: ranges were taken from the data."]
    assert of_table("t", void, {}).sections[1].text == [
        "These numbers do NOT hold, because the guarantee is void."
    ]


def test_model_without_guarantee_says_that_it_holds_rows() -> None:
    assert any("contains the rows" in line for line in made().verdict)
    assert not any(
        "contains the rows" in line for line in made(Laplace(1.0, sensitivity=1.0).guarantee(3)).verdict
    )


def test_model_page_has_the_verdict_of_its_evaluation() -> None:
    truth = np.array(["a"] * 9 + ["b"])
    for scores in (None, np.arange(10.0)):
        found = evaluate(np.array(["a"] * 10), truth, scores=scores)
        assert f"{found.verdict}." in of_model("m", {}, evaluation=found).verdict


def test_model_with_a_guarantee_says_privacy_first_and_warns_of_raw_rows() -> None:
    promise = Laplace(0.5, sensitivity=1.0).guarantee(n_features=10)
    report = made(promise)
    assert report.verdict[0] == promise.odds("record")
    assert report.verdict[-1].endswith("do not publish this page.")
    assert not any("publish" in line for line in made().verdict)
    known = {"accuracy": 0.9, "balanced_accuracy": 0.9, "majority": 0.5, "verdict": "better"}
    assert any("own estimate" in line for line in of_model("m", {}, estimated=known).verdict)
    private = of_model("m", {}, estimated=known, guarantee=promise)
    assert any("was not measured" in line for line in private.verdict)
    assert "Estimated accuracy" not in [section.title for section in private.sections]


def test_interval_is_rounded_outwards_and_left_out_for_rows_of_persons() -> None:
    truth = np.repeat([0, 1], 50)
    guess = np.where(np.arange(100) % 10 == 0, 1 - truth, truth)
    report = of_model("m", {}, evaluation=evaluate(guess, truth))
    assert "(95 % confidence: 82 to 96)" in report.verdict[0]  # 0.82378 to 0.950995
    assert report.sections[1].facts["95 % interval of the accuracy"] == [0.8237, 0.951]
    assert "if the rows are independent" in report.sections[1].text[1]
    alike = of_model("m", {}, evaluation=evaluate(guess, truth, bounded=False))
    assert "confidence" not in alike.verdict[0]
    assert "95 % interval of the accuracy" not in alike.sections[1].facts


def test_promise_is_rounded_up() -> None:
    rows = privacy_sections(Guarantee("entry", (1 / 3, 1.23456e-7), (np.inf, 0.0), 10))[0].rows
    assert rows[0] == ["one entry", 0.3334, 1.235e-07]
    assert rows[1] == ["one record", "no bound", 0.0]


def test_large_epsilon_of_a_record_is_no_protection() -> None:
    wide = Laplace(0.5, sensitivity=1.0).guarantee(n_features=100)
    told = privacy_verdict(wide)
    assert told[0] == wide.odds("entry")
    assert told[1].startswith("A whole record is practically not protected (epsilon 50)")


def test_weak_promise_is_called_weak_and_what_was_asked_for_comes_first() -> None:
    wide = Laplace(1.0, sensitivity=1.0).guarantee(n_features=10)
    told = privacy_verdict(wide)
    assert told[0] == wide.odds("entry")
    assert told[1] == wide.odds("record")
    assert told[2].startswith("At this epsilon the bound says little.")
    firm = privacy_verdict(Laplace(1.0, sensitivity=1.0).guarantee(n_features=3))
    assert not any("says little" in line for line in firm)


def test_sources_with_the_same_gaps_name_them_once() -> None:
    promises = [Laplace(epsilon, sensitivity=1.0).guarantee(n_features=2) for epsilon in (0.5, 1.0)]
    held = HeldOutAccuracy(50, 0.96, 0.1, 0.92)
    page = of_transfer("t", {}, ["It was worth something."], promises, Section("Weights"), None, held)
    assert page.verdict[0].startswith(
        "96 of 100 held-out labelled rows are predicted right (95 % confidence: 86"
    )
    assert "always answering the most frequent label would get 10" in page.verdict[0]
    assert page.verdict[2] == f"About the rows of source 1: {promises[0].odds('record')}"
    assert sum("A person with several records" in line for line in page.verdict) == 1
    (accuracy,) = [section for section in page.sections if section.title == "Accuracy"]
    assert accuracy.facts["95 % interval of the accuracy"] == [0.8628, 0.9952]
    assert isinstance(accuracy.display, AccuracyDisplay)
    assert len(accuracy.display.intervals or []) == 3


def test_void_verdict_has_another_colour() -> None:
    promise = Laplace(1.0, sensitivity=1.0).guarantee(n_features=3)
    assert 'class="verdict void"' in report_page(of_table("t", promise.voided("a seed was given"), {}))
    assert 'class="verdict void"' not in report_page(of_table("t", promise, {}))


def test_verdict_says_whether_labels_are_covered() -> None:
    plain = Laplace(0.5, sensitivity=1.0).guarantee(n_features=4)
    assert privacy_verdict(plain)[-1] == "Labels and class sizes are not covered."
    assert not any("Labels" in line for line in privacy_verdict(plain.with_labels(1.0)))


def test_page_of_a_federation_shows_what_its_status_says(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    from onefold.federated.flower import Federation

    status = Federation.create(tmp_path / "f", ["north", "south"], insecure=True).status().to_dict()
    first = status["sites"][0]
    assert "last_seen" in first
    first |= {
        "last_seen": "2027-01-31T12:00:00+00:00",
        "status": "member",
        "measure": "folding",
        "model": "ab",
    }
    table, agreed, *others = of_federation("f", status, []).sections
    assert agreed.facts == {"mode": status["mode"], "rule": status["rule"], "measure": "folding"}
    assert others[-1].facts == {"digest of the model of north": "ab"}
    assert len(table.rows) == len(status["sites"])
    assert [row[3] for row in table.rows] == ["2027-01-31 12:00:00 UTC"] + ["never"] * (len(table.rows) - 1)


def test_page_of_a_federation_says_what_all_its_members_promise() -> None:
    promise = Laplace(0.5, sensitivity=1.0).guarantee(n_features=4)
    north = {"name": "north", "status": "member", "guarantee": promise.to_dict()}
    south = {"name": "south", "status": "member", "guarantee": promise.to_dict()}
    told = ["north  takes part, online", "       last seen never", "id of the federation: 12"]
    page = of_federation("f", {"sites": [north, south]}, told)
    assert page.verdict[1] == "All of them answer with a promise of privacy that holds."
    assert promise.odds("record") in page.verdict[2]
    assert "What north, south promise, each" in [section.title for section in page.sections]
    assert page.sections[2].notes == ["north takes part, online; last seen never", "id of the federation: 12"]
    mixed = of_federation("f", {"sites": [north, south | {"guarantee": None}]}, [])
    assert mixed.verdict[1].startswith("1 of them answer with a promise")
    assert of_federation("f", {"sites": []}, []).verdict[1] == "Nobody can be asked."


def test_section_keeps_its_picture() -> None:
    section = Section("x", display=ConfusionDisplay([0, 1], [[1, 2], [3, 4]]))
    report = Report("model", "x", [], [section])
    assert Report.of(json.loads(json.dumps(report.numbers))).sections[0].display == section.display
