"""The comparison page: complete, escaped, readable without pictures, and without anything from outside."""

import re
import sys
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.report import Comparison, Entry, of_comparison, report_page, write_page
from onefold.report.federations import NO_NOISE, of_simulation

VOID = {"meta", "img", "link", "br"}


class Page(HTMLParser):
    """Checks nesting and collects what the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[dict[str, str]] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "img":
            self.images.append(found)
        self.links += [found[name] for name in ("src", "href") if name in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture
def study() -> Comparison:
    entries = [
        Entry("Dr <script>alert(1)</script> & co alone", "alone", 30, 1, 0.05),
        Entry("cost $x_1$ alone", "alone", 12, 2, 0.5),
        Entry("all data pooled", "pooled", 42, 2, 0.75),
        Entry("federated, one round", "federated", 42, 2, 0.7368),
    ]
    return Comparison(
        "Sites <b>",
        "A lead & more.",
        entries,
        ["cat", "dog <i>"],
        [[30, 0], [5, 7]],
        ["Note <u>."],
        {"seed": 7},
    )


def test_comparison_page_is_well_formed_and_escapes_every_text(study: Comparison) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    text = report_page(of_comparison(study))
    page = Page(text)
    assert page.open == []
    for tag in ("<script", "<b>", "<u>", "<i>"):
        assert tag not in text
    for words in (
        "Sites <b>",
        "0.7368",
        "Note <u>.",
        "seed",
        "scikit-learn",
        "Dr <script>alert(1)</script> & co",
    ):
        assert words in page.words


def test_comparison_page_loads_nothing_from_outside(study: Comparison) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    text = report_page(of_comparison(study))
    page = Page(text)
    assert len(page.links) == 2
    assert all(link.startswith("data:image/svg+xml;base64,") for link in page.links)
    assert not re.search(r"https?://|url\(|@import", text)
    assert 'name="viewport"' in text


def test_figures_of_the_comparison_page_have_descriptions(study: Comparison) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    bars, heat = Page(report_page(of_comparison(study))).images
    assert "federated, one round 0.737" in bars["alt"]
    assert "cost $x_1$ holds 12 samples of 2 classes" in heat["alt"]


def test_same_comparison_gives_the_same_page(study: Comparison) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    assert report_page(of_comparison(study)) == report_page(of_comparison(study))


@pytest.mark.merge
@pytest.mark.parametrize("n_sites, n_classes", [(1, 1), (3, 60), (40, 12)])
def test_comparison_page_has_one_line_per_site_for_any_number_of_sites_and_classes(
    n_sites: int, n_classes: int
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    entries = [Entry(f"site {'x' * i} alone", "alone", i, 1, 0.0) for i in range(n_sites)]
    counts = [[2000 * i] * n_classes for i in range(n_sites)]
    study = Comparison("t", "l", entries, [f"class {c}" for c in range(n_classes)], counts)
    page = report_page(of_comparison(study))
    assert page.count('<tr><th scope="row">') == n_sites


@pytest.mark.parametrize("module", ["jinja2", "matplotlib", "matplotlib.figure"])
def test_comparison_page_without_the_extra_names_the_install_command(
    study: Comparison, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'onefold\[report\]'"):
        report_page(of_comparison(study))


def test_write_page_writes_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_page(target, "grüße")
    assert target.read_text(encoding="utf-8") == "grüße"
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write_page(tmp_path / "missing" / "page.html", "x")
    target.unlink()
    target.mkdir()
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write_page(target, "x")
    assert list(tmp_path.iterdir()) == [target]


def test_page_of_a_simulation_says_what_joining_gives_and_that_nothing_is_private() -> None:
    found = SimpleNamespace(
        classes=np.array(["a", "b"]),
        class_counts=np.array([[36, 0], [4, 60]]),
        alone=(0.4, 0.8),
        federated=0.9,
        honest=0.95,
        pooled=float("nan"),
        majority=0.6,
        gain_interval=(0.2, 0.4),
        n_test=50,
    )
    page = of_simulation("Sites", found, {"seed": 0}, ["Read this."])
    assert page.verdict[0].startswith("Together the sites predict 90 of 100 rows right in one round; alone")
    assert "better than always answering the most frequent class" in page.verdict[1]
    assert page.verdict[-1] == NO_NOISE
    (numbers,) = [part.rows for part in page.sections if part.title == "The numbers"]
    assert [row[0] for row in numbers] == [
        "site 1 alone",
        "site 2 alone",
        "together, one round",
        "together, if no site lied",
    ]
    assert [row[1:3] for row in numbers] == [[36, 1], [64, 2], [100, 2], [100, 2]]


def test_comparison_table_and_json_hold_the_entries(study: Comparison) -> None:
    lines = study.table().splitlines()
    assert lines[0].split() == ["classifier", "samples", "classes", "accuracy"]
    assert lines[-1].split() == ["federated,", "one", "round", "42", "2", "0.7368"]
    assert asdict(study)["entries"][1]["accuracy"] == 0.5
