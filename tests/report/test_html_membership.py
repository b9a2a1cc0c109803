"""The page of a membership audit: whole, escaped, with its numbers in words, and nothing from outside."""

import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from onefold import AutoencoderClassifier
from onefold.audit import MembershipAudit, audit_membership
from onefold.report import MembershipDisplay, report_page
from onefold.report.builders import of_membership


@pytest.fixture(scope="module")
def audit() -> MembershipAudit:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), np.arange(120) % 2
    model = AutoencoderClassifier().fit(X[:60], y[:60])
    return audit_membership(model, X[:60], X[60:])


class Tags(HTMLParser):
    """What is still open at the end, what was closed out of turn, and everything linked to."""

    VOID = ("meta", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.crossed: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            self.crossed.append(tag)


def test_membership_page_is_well_formed_escaped_and_loads_nothing(audit: MembershipAudit) -> None:
    text = report_page(of_membership(audit, "Audit of <b>", {"model": "<i>&.npz"}))
    tags = Tags(text)
    assert (tags.open, tags.crossed) == ([], [])
    assert all(link.startswith("data:image/svg+xml;base64,") for link in tags.links)
    assert "<script" not in text
    assert "http" not in text
    assert "Audit of &lt;b&gt;" in text
    assert "&lt;i&gt;&amp;.npz" in text
    assert "<b>" not in text
    assert "<i>" not in text


@pytest.mark.merge
def test_roc_figure_has_a_description_and_rises(audit: MembershipAudit) -> None:
    assert f"AUC {audit.attack.auc:.3f}" in report_page(of_membership(audit, "Audit", {}))
    display = MembershipDisplay.from_attack(audit.attack)
    assert np.all(np.diff(display.accused) > 0)
    assert np.all(np.diff(display.found) >= 0)  # more outsiders accused, more members found
    assert display.found[-1] == 1.0


@pytest.mark.merge
def test_importing_report_does_not_import_audit() -> None:
    script = "import sys, onefold.report; print('onefold.audit' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
