"""The table of threats is true: the tests that it names exist, and what it says of distances can be shown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from onefold.federated import LocalModel
from onefold.privacy import Box, Laplace

TOP = Path(__file__).resolve().parents[1]
PAGE = TOP / "docs" / "threats.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def missing(text: str, top: Path) -> list[str]:
    """Tests that a text names and that are no function of their file."""
    named = NAMED.findall(text)
    known = {path: _functions(top / path) for path in {path for path, _ in named}}
    return [f"{path}::{name}" for path, name in named if name not in known[path]]


def _functions(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    return set(re.findall(r"^def (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.skipif(not PAGE.is_file(), reason="the documents are not in this copy")
def test_every_test_that_the_threats_name_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(NAMED.findall(text)) >= 40
    assert missing(text, TOP) == []


@pytest.mark.skipif(not PAGE.is_file(), reason="the documents are not in this copy")
def test_every_attack_names_a_test_or_says_that_nothing_stops_it() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| **")]
    assert len(rows) >= 20
    assert [row for row in rows if not NAMED.search(row) and "not covered" not in row] == []


def unshown(text: str) -> list[str]:
    """Attacks of which more statements are made about what stops them than there are tests that show it."""
    found = []
    for line in text.splitlines():
        if line.startswith("| **"):
            attack, stops, _, shown = line.strip("| ").split(" | ")
            statements = [
                each for each in stops.split("; ") if each != "nothing" and "(not shown)" not in each
            ]
            if len(statements) > len(NAMED.findall(shown)):
                found.append(attack)
    return found


@pytest.mark.skipif(not PAGE.is_file(), reason="the documents are not in this copy")
def test_every_statement_about_what_stops_an_attack_has_a_test_or_says_that_it_is_not_shown() -> None:
    assert unshown(PAGE.read_text(encoding="utf-8")) == []


def test_statements_without_a_test_are_found() -> None:
    test = "`tests/test_a.py::test_here`"
    rows = [f"| **a** | one; two | - | {test} |", f"| **b** | one; two (not shown) | - | {test} |"]
    assert unshown("\n".join([*rows, "| **c** | nothing | all | not covered |"])) == ["**a**"]


def test_names_of_tests_that_are_gone_are_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_here() -> None: ...\n")
    text = "`tests/test_a.py::test_here` `tests/test_a.py::test_gone` `tests/test_b.py::test_here`"
    assert missing(text, tmp_path) == ["tests/test_a.py::test_gone", "tests/test_b.py::test_here"]


def _located(model: LocalModel, n_features: int) -> np.ndarray:
    """The only row of the class "rare", from its distances to zero and to the unit points."""
    asked = np.vstack([np.zeros(n_features), np.eye(n_features)])
    squares = model.answers(asked)[:, list(model.classes_).index("rare")] ** 2
    return (squares[0] - squares[1:] + 1) / 2


def test_distances_give_a_lone_row_back_unless_it_was_noisy() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((41, 6)), np.array(["rare"] + ["common"] * 40)
    assert np.allclose(_located(LocalModel().fit(X, y), 6), X[0], atol=1e-6)
    private = LocalModel(mechanism=Laplace(1.0, sensitivity=Box(0, 1)), fabricate=False).fit(X, y)
    assert private.guarantee_ is not None
    assert private.guarantee_.holds
    assert np.abs(_located(private, 6) - X[0]).max() > 0.1
