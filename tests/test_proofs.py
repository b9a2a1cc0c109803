"""Proof and code side by side: whatever has a guarantee has a page in docs/proofs that names its code."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold.privacy import Guarantee, Mechanism, RandomisedLabels
from onefold.privacy.mechanisms.fisher import RowNoise

TOP = Path(__file__).resolve().parents[1]
PROOFS = TOP / "docs" / "proofs"
PAGES = sorted(path for path in PROOFS.glob("*.md") if path.name != "README.md")
HEADINGS = ["Claim", "Domain", "Neighbours", "Proof", "Code", "Attack", "Not covered"]
# Rooms whose public names may release something.
ROOMS = ("privacy", "fabrication", "transfer", "release", "federated")

pytestmark = pytest.mark.skipif(not PROOFS.is_dir(), reason="the documents are not in this copy")


def sections(text: str) -> dict[str, str]:
    """Texts of a page by heading, in order."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def about(text: str) -> list[str]:
    """Dotted names of what a page is about."""
    line = re.search(r"^\*About:\* (.+)$", text, flags=re.MULTILINE)
    return [] if line is None else re.findall(r"`([\w.]+)`", line[1])


def missing_from(file: Path, names: list[str]) -> list[str]:
    """Names, dotted for those inside a class, that a file of Python code does not define."""
    if not file.is_file():
        return [f"{file.name}: no such file"]
    known = set(_defined(ast.parse(file.read_text("utf-8")).body, ""))
    return [f"{file.name}: {name}" for name in names if name not in known]


def _defined(body: list[ast.stmt], inside: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield inside + node.name
        if isinstance(node, ast.ClassDef):
            yield from _defined(node.body, f"{inside}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (inside + target.id for target in targets if isinstance(target, ast.Name))


def references(section: str) -> Iterator[tuple[str, list[str]]]:
    """Files that a section lists, each with the names it lists in it."""
    for line in section.splitlines():
        if line.startswith("- "):
            file, *names = re.findall(r"`([^`]+)`", line)
            yield file, names


def releasing() -> dict[str, object]:
    """Public classes and functions that make a release, by dotted name."""
    public = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in (importlib.import_module(f"onefold.{room}") for room in ROOMS)
        for name in module.__all__
    }
    return {name: value for name, value in public.items() if _releases(value)}


def _releases(value: object) -> bool:
    return _promises(value) if inspect.isclass(value) else inspect.isfunction(value) and _charges(value)


def _promises(kind: type) -> bool:
    """Whether objects of a class make releases: noises, and estimators with a guarantee."""
    if issubclass(kind, Guarantee) or inspect.isabstract(kind):
        return False
    if issubclass(kind, (Mechanism, RowNoise, RandomisedLabels)):
        return True
    named = {"guarantee", "guarantee_"} & {name for parent in kind.__mro__ for name in vars(parent)}
    stated = {"guarantee_"} & {name for parent in kind.__mro__ for name in inspect.get_annotations(parent)}
    return bool(named or stated) or "guarantee_ :" in (kind.__doc__ or "")


def _charges(function: object) -> bool:
    """Whether a function takes rows, and noise or a promise with them."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    return bool({"X", "columns"} & set(parameters)) and bool({"ledger", "moments", "svm"} & set(parameters))


# --- the pages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_all_headings_in_order_and_none_is_empty(page: Path) -> None:
    found = sections(page.read_text("utf-8"))
    assert list(found) == HEADINGS
    assert [heading for heading, text in found.items() if not text.strip()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_functions_and_tests_that_a_page_names_exist(page: Path) -> None:
    found = sections(page.read_text("utf-8"))
    code, attacks = list(references(found["Code"])), list(references(found["Attack"]))
    assert code, "Code names no file"
    assert attacks, "Attack names no test"
    assert [file for file, _ in code if not file.startswith("src/onefold/")] == []
    named = [name for file, names in attacks if file.startswith("tests/") for name in names]
    assert named, "Attack names no test"
    assert [name for name in named if not name.startswith("test_")] == []
    assert [lost for file, names in (*code, *attacks) for lost in missing_from(TOP / file, names)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_says_what_it_is_about_and_is_in_the_index(page: Path) -> None:
    names = about(page.read_text("utf-8"))
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)
    assert f"]({page.name})" in (PROOFS / "README.md").read_text("utf-8")


def test_everything_with_a_guarantee_has_a_page() -> None:
    proved = {name for page in PAGES for name in about(page.read_text("utf-8"))}
    assert sorted(set(releasing()) - proved) == []


# --- the checks themselves can fail ------------------------------------------------------------------------


def test_releasing_finds_mechanisms_estimators_and_functions() -> None:
    expected = {
        "onefold.privacy.Laplace",
        "onefold.privacy.BoundedFisherNoise",
        "onefold.privacy.RandomisedLabels",
        "onefold.privacy.PrivateMoments",
        "onefold.fabrication.Fabricator",
        "onefold.fabrication.MomentClassifier",
        "onefold.transfer.PrivateSource",
        "onefold.release.release_iid",
        "onefold.release.release_table",
        "onefold.release.release_utility_preserving",
        "onefold.federated.LocalModel",
        "onefold.federated.MomentFederation",
        "onefold.federated.release_moments",
    }
    assert expected <= set(releasing())


def test_missing_files_functions_and_methods_are_found(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text("LIMIT = 1\nclass Noise:\n    def draw(self): ...\ndef spend(): ...\n", "utf-8")
    assert missing_from(file, ["LIMIT", "Noise.draw", "spend"]) == []
    assert missing_from(file, ["Noise.sample", "draw"]) == ["code.py: Noise.sample", "code.py: draw"]
    assert missing_from(tmp_path / "gone.py", ["spend"]) == ["gone.py: no such file"]


def test_missing_heading_is_found() -> None:
    assert list(sections("# A\n\n## Claim\n\ntext\n\n## Proof\n\ntext\n")) == ["Claim", "Proof"]
