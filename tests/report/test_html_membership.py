"""The page of a membership audit: whole, escaped, with its numbers in words, and nothing from outside."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from onefold import AutoencoderClassifier
from onefold.audit import MembershipAudit, audit_membership
from onefold.report import membership_page


@pytest.fixture(scope="module")
def audit() -> MembershipAudit:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), np.arange(120) % 2
    model = AutoencoderClassifier().fit(X[:60], y[:60])
    return audit_membership(model, X[:60], X[60:])


class Tags(HTMLParser):
    """What is still open at the end, what was closed out of turn, and everything linked to."""

    VOID = ("meta",)

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
    text = membership_page(audit, "Audit of <b>", {"model": "<i>&.npz"})
    tags = Tags(text)
    assert (tags.open, tags.crossed, tags.links) == ([], [], [])
    assert "<script" not in text
    assert "http" not in text
    assert "Audit of &lt;b&gt;" in text
    assert "&lt;i&gt;&amp;.npz" in text
    assert "<b>" not in text
    assert "<i>" not in text


def test_roc_figure_has_a_description_and_stays_inside_its_frame(audit: MembershipAudit) -> None:
    text = membership_page(audit, "Audit", {})
    assert f"AUC {audit.attack.auc:.3f}" in text
    points = re.search(r'polyline points="([^"]+)"', text)
    assert points is not None
    corners = np.array([pair.split(",") for pair in points[1].split()], dtype=float)
    assert np.all((corners >= 0) & (corners <= 320))
    assert np.all(np.diff(corners[:, 0]) >= 0)
    assert np.all(np.diff(corners[:, 1]) <= 0)  # more outsiders accused, more members found


def test_importing_report_does_not_import_audit() -> None:
    script = "import sys, onefold.report; print('onefold.audit' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
