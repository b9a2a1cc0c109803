"""The documents say what the code does: generated parts are fresh, every option explains itself, and names,
files and commands that a document mentions exist."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from onefold.cli.app import build_parser

TOP = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(not (TOP / "docs").is_dir(), reason="the documents are not in this copy")


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOP / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return _script("generate")


def test_generated_parts_of_the_documents_are_fresh(generate: ModuleType) -> None:
    assert generate.stale() == [], generate.ADVICE


def test_every_argument_and_option_has_a_help_line(generate: ModuleType) -> None:
    assert generate.options_without_help() == []


def test_a_changed_table_makes_a_document_stale(generate: ModuleType) -> None:
    text = "a\n<!-- generated: layers -->\nold\n<!-- end -->\nb\n"
    assert generate.with_part(text, "layers", "new") == text.replace("old", "new")


def test_missing_marks_are_an_error(generate: ModuleType) -> None:
    with pytest.raises(SystemExit, match="marks of the generated part 'layers' are missing"):
        generate.with_part("no marks", "layers", "new")


# --- what the documents name exists -----------------------------------------------------------------------

PAPERS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "experiments/**/*.md")
    for path in TOP.glob(pattern)
    if path.name != "CHANGELOG.md"  # it also names what is gone
)


def _id(path: Path) -> str:
    return str(path.relative_to(TOP))


def _blocks(text: str) -> list[str]:
    """Lines of all fenced blocks, continued lines joined."""
    fenced = re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [line.strip() for block in fenced for line in block.replace("\\\n", " ").splitlines()]


def _resolves(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("path", PAPERS, ids=_id)
def test_names_in_a_document_can_be_imported(path: Path) -> None:
    names = set(re.findall(r"`((?:onefold|experiments|benchmarks)(?:\.\w+)+)[`(]", path.read_text("utf-8")))
    assert [name for name in sorted(names) if not name.endswith(".md") and not _resolves(name)] == []


@pytest.mark.parametrize("path", PAPERS, ids=_id)
def test_files_that_a_document_names_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    linked = {link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link}
    named = set(re.findall(r"`((?:docs|tests|benchmarks|experiments|src|requirements)/[\w./-]+)`", text))
    missing = [link for link in sorted(linked) if not (path.parent / link).exists()]
    missing += [name for name in sorted(named) if not (TOP / name).exists()]
    assert missing == []


@pytest.mark.parametrize("path", PAPERS, ids=_id)
def test_commands_in_a_document_have_the_options_they_show(path: Path) -> None:
    unknown = []
    for line in _blocks(path.read_text("utf-8")):
        found = re.match(r"(?:\$ )?onefold +([a-z].*)", line)
        if found and not found[1].startswith(("experiment", "bench")):  # these hand their options on
            words = shlex.split(found[1], comments=True)
            parser = _parser_of(words)
            known = {option for action in parser._actions for option in action.option_strings}
            unknown += [f"{line}: {word}" for word in words if word.startswith("--") and word not in known]
    assert unknown == []


def _parser_of(words: list[str]) -> argparse.ArgumentParser:
    """The parser of the command, or of its part."""
    parser = build_parser(words[:1])
    for word in words:
        parts = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not parts:
            break
        assert word in parts[0].choices, f"onefold {' '.join(words)}: no command {word}"
        parser = parts[0].choices[word]
    return parser


# --- the check of docstrings ------------------------------------------------------------------------------


def _documented(size: int = 3, name: str = "x") -> None:
    """Do nothing.

    Parameters
    ----------
    size : int, default=4
        Another default than that of the signature.
    name : str
        No default at all.
    """


def test_check_of_docstrings_finds_wrong_and_missing_defaults() -> None:
    pytest.importorskip("numpydoc")
    check = _script("check_docstrings")
    assert check.defaults_not_stated("f", _documented) == [
        "f: PD01 Default of size is 3",
        "f: PD01 Default of name is not that of the signature",
    ]


# --- the gallery ------------------------------------------------------------------------------------------


def _assigned(block: str) -> set[str]:
    """Names that the lines of a block give a value to."""
    stored = (node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Name))
    return {node.id for node in stored if isinstance(node.ctx, ast.Store)}


@pytest.mark.parametrize(
    "path", sorted((TOP / "docs" / "gallery_src").glob("*.py")), ids=lambda path: path.stem
)
def test_every_picture_of_the_gallery_has_words(path: Path) -> None:
    """The words are the alternative text; ``figure`` is what the gallery shows."""
    blocks = path.read_text("utf-8").split("# %%\n")
    shown = [_assigned(block) & {"figure", "words"} for block in blocks]
    assert shown.count({"figure", "words"}) >= 2
    assert [names for names in shown if len(names) == 1] == []
