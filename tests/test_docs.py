"""The documents say what the code does: generated parts are fresh, every option explains itself, and names,
files and commands that a document mentions exist."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

import onefold
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


def test_names_in_documents_can_be_imported() -> None:
    named = re.compile(r"`((?:onefold|experiments|benchmarks)(?:\.\w+)+)[`(]")
    where = {name: path for path in PAPERS for name in named.findall(path.read_text("utf-8"))}
    unknown = [name for name in sorted(where) if not name.endswith(".md") and not _resolves(name)]
    assert [f"{_id(where[name])}: {name}" for name in unknown] == []


def test_files_that_documents_name_exist() -> None:
    missing = []
    for path in PAPERS:
        text = path.read_text("utf-8")
        linked = {link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link}
        named = set(re.findall(r"`((?:docs|tests|benchmarks|experiments|src|requirements)/[\w./-]+)`", text))
        gone = [link for link in sorted(linked) if not (path.parent / link).exists()]
        gone += [name for name in sorted(named) if not (TOP / name).exists()]
        missing += [f"{_id(path)}: {name}" for name in gone]
    assert missing == []


def test_commands_in_documents_have_the_options_they_show() -> None:
    unknown = []
    lines = [(path, line) for path in PAPERS for line in _blocks(path.read_text("utf-8"))]
    for path, line in lines:
        found = re.match(r"(?:\$ )?onefold +([a-z].*)", line)
        if found:
            words = shlex.split(found[1], comments=True)
            parser = _parser_of(words)
            known = {option for action in parser._actions for option in action.option_strings}
            wrong = [word for word in words if word.startswith("--") and word not in known]
            unknown += [f"{_id(path)}: {line}: {word}" for word in wrong]
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


# --- the reference ----------------------------------------------------------------------------------------


def _public(generate: ModuleType) -> dict[str, object]:
    """Public names of all rooms and of the errors, except modules, which are rooms themselves."""
    rooms = [room for room in generate._architecture().RANK if room not in ("cli", "_base")]
    modules = [importlib.import_module(f"onefold.{room}") for room in rooms] + [onefold]
    found = {f"{room.__name__}.{name}": getattr(room, name) for room in modules for name in _names_of(room)}
    return {name: thing for name, thing in found.items() if not isinstance(thing, ModuleType)}


def _names_of(room: ModuleType) -> list[str]:
    return list(getattr(room, "__all__", ()))


def _documented_things() -> list[object]:
    pages = "\n".join(path.read_text("utf-8") for path in (TOP / "docs" / "reference").glob("*.md"))
    things = []
    for name in re.findall(r"^\.\. auto\w+:: (\S+)", pages, re.MULTILINE):
        room, _, last = name.rpartition(".")
        things.append(getattr(importlib.import_module(room), last))
    return things


def test_every_public_name_is_in_the_reference(generate: ModuleType) -> None:
    for extra in ("flwr", "seal", "starlette"):
        pytest.importorskip(extra)
    documented = {id(thing) for thing in _documented_things()}
    missing = [name for name, thing in _public(generate).items() if id(thing) not in documented]
    assert missing == ["onefold.__version__"]


# --- the gallery ------------------------------------------------------------------------------------------


def _assigned(block: str) -> set[str]:
    """Names that the lines of a block give a value to."""
    stored = (node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Name))
    return {node.id for node in stored if isinstance(node.ctx, ast.Store)}


def test_every_picture_of_the_gallery_has_words() -> None:
    """The words are the alternative text; ``figure`` is what the gallery shows."""
    for path in sorted((TOP / "docs" / "gallery_src").glob("*.py")):
        blocks = path.read_text("utf-8").split("# %%\n")
        shown = [_assigned(block) & {"figure", "words"} for block in blocks]
        assert shown.count({"figure", "words"}) >= 2, path.stem
        assert [names for names in shown if len(names) == 1] == [], path.stem


# The documents' figures that show something measured or computed; the others are drawings of a structure.
FIGURES = {
    "000": ["1", "2", "3", "4", "6", "8", "9", "10", "12", "13", "14", "15", "16", "17"],
    "001": ["3", "4", "5", "6"],
    "002": ["1", "2", "3", "4", "5", "6", "7"],
    "003": ["2.1", "4.1", "4.2", "4.3", "4.4"],
    "004": ["2", "3"],
}
FEWEST_CHARACTERS = 80  # of what is said about a picture


def _figures(heading: str) -> list[str]:
    """Figures that the bold words before a picture name, such as "Fig. 5 to 7" or "Fig. 1 and 2"."""
    found = re.match(r"Fig\. ([\d.]+\d|\d)(?: (and|to) ([\d.]+\d|\d))?\b", heading)
    if found is None:
        return []
    first, joint, last = found.groups()
    if joint == "to":
        return [str(number) for number in range(int(first), int(last) + 1)]
    return [first] if last is None else [first, last]


@pytest.mark.parametrize("document", sorted(FIGURES))
def test_every_figure_of_a_document_is_in_the_gallery_with_a_sentence(document: str) -> None:
    drawn = []
    for path in sorted((TOP / "docs" / "gallery_src").glob(f"plot_{document}_*.py")):
        for block in path.read_text("utf-8").split("# %%\n")[1:]:
            text = " ".join(line[2:] for line in block.splitlines() if line.startswith("# "))
            heading = re.match(r"\*\*(Fig\. .*?)\*\*", text)
            figures = [] if heading is None else _figures(heading[1])
            if figures:
                assert {"figure", "words"} <= _assigned(block), f"{path.name}: {heading} draws nothing"
                assert len(text) >= FEWEST_CHARACTERS, f"{path.name}: {text} does not say what is seen"
            drawn += figures
    assert sorted(drawn) == sorted(FIGURES[document])


# --- what can go wrong ------------------------------------------------------------------------------------

# Pages to look something up: words, letters, results, licences and proofs.
LOOKED_UP = {"index.md", "glossary.md", "notation.md", "results.md", "register.md", "licences.md"}
READ = sorted(
    path
    for pattern in ("*.md", "tutorials/*.md", "howto/*.md")
    for path in (TOP / "docs").glob(pattern)
    if path.name not in LOOKED_UP
)


def test_pages_end_with_a_table_of_what_can_go_wrong() -> None:
    for path in READ:
        last = path.read_text("utf-8").rstrip().split("\n## ")[-1]
        heading, _, table = last.partition("\n\n")
        assert heading == "When something goes wrong", f"{_id(path)} ends with {heading!r}"
        lines = table.strip().splitlines()
        assert lines[:2] == ["| it says | because | do this |", "|---|---|---|"], _id(path)
        assert len(lines) >= 4, f"{_id(path)}: name at least two errors"
        cells = [len(re.split(r"(?<!\\)\|", line)) for line in lines]
        assert set(cells) == {5}, f"{_id(path)}: every line has three cells"


FEWEST_OF_A_MESSAGE = 10
PYTHON_SAYS = ("Can't instantiate abstract class",)


def _pieces() -> list[str]:
    """Texts that the programs hold: parts of messages between the values that they name."""
    found = set()
    for path in (TOP / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(" ".join(node.value.strip(":;,. ").split()))
    return sorted(piece for piece in found if len(piece) >= FEWEST_OF_A_MESSAGE)


@pytest.mark.merge
def test_messages_that_a_page_quotes_are_those_of_the_programs() -> None:
    pieces = _pieces()
    whole = "\n".join(pieces)
    wrong = []
    for path in READ:
        table = path.read_text("utf-8").rstrip().split("\n## When something goes wrong\n")[-1]
        for quoted in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE):
            said = quoted.replace("\\|", "|").strip("….: ")
            if said in PYTHON_SAYS:
                continue
            if said not in whole and not any(piece in said for piece in pieces if " " in piece):
                wrong.append(f"{_id(path)}: {quoted}")
    assert wrong == []


def test_the_version_is_the_same_wherever_it_stands() -> None:
    changelog = (TOP / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", changelog, re.MULTILINE)
    citation = re.search(r"^version: (\S+)$", (TOP / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    bill = json.loads((TOP / "docs/sbom.cdx.json").read_text("utf-8"))["metadata"]["component"]["version"]
    assert newest is not None
    assert citation is not None
    assert {newest[1], citation[1], bill} == {onefold.__version__}
