"""``python docs/generate.py [--check]``: write the parts of the documents that are made from the code.

* the layer table, from ``tests/test_architecture.py``, into ``docs/architecture.md`` and ``CONTRIBUTING.md``;
* the command reference, from the parsers of the command line, into ``docs/reference/cli.md``;
* the list of public names of every room, into the pages of ``docs/reference``;
* the pages ``docs/results.md`` and ``docs/register.md``, from stored results and the register of experiments.

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. ``--check`` writes nothing
and leaves with code 1 when a document differs from what would be written.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))  # experiments and benchmarks stand beside the package
ADVICE = "run python docs/generate.py"


def _architecture() -> ModuleType:
    """The module that holds the layer table: a test, so it is loaded by its path."""
    path = TOP / "tests" / "test_architecture.py"
    spec = importlib.util.spec_from_file_location("house_rules", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def layer_table() -> str:
    """The rooms from the top down, with what each may import."""
    rules = _architecture()
    rows = [(layer, rooms) for layer, rooms in rules.LAYERS if "__main__" not in rooms]
    steps = Counter(layer for layer, _ in rows)
    seen_so_far: Counter[str] = Counter()
    lines: list[str] = []
    for rank, (layer, rooms) in enumerate(rows):
        seen_so_far[layer] += 1
        # A layer of several steps has them numbered from below: rooms of one step do not import each other.
        step = f"{layer}.{seen_so_far[layer]}" if steps[layer] > 1 else layer
        lines[:0] = [
            f"| {step} | `{room}` | {content} | {_seen_by(room, rank, rules)} |"
            for room, content in rooms.items()
        ]
    return "\n".join(["| layer | room | what it holds | may import |", "|---|---|---|---|", *lines])


def _seen_by(room: str, rank: int, rules: ModuleType) -> str:
    if room in rules.SEES:
        names = [name for name in rules.SEES[room] if name.islower()]  # Ledger is in privacy.ledger
        return "only " + ", ".join(f"`{name}`" for name in names)
    if rank == 0:
        return "nothing"
    never = {other for pair in rules.NEVER if room in pair for other in pair} - {room}
    lower = [other for _, rooms in rules.LAYERS[:rank] for other in rooms]
    forbidden = sorted(never & set(lower))
    if rank == 1:
        return f"`{lower[0]}`"
    return "everything with a lower number" + "".join(f", but not `{name}`" for name in forbidden)


# --- the command line -------------------------------------------------------------------------------------


def _parsers() -> Iterator[argparse.ArgumentParser]:
    """The parser of every command and sub-command, in the order of the help."""
    from onefold.cli.app import COMMANDS, build_parser

    for name in COMMANDS:
        whole = build_parser([name])
        yield from _with_parts(_choices(whole)[name])


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _with_parts(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    seen = set()
    for part in _choices(parser).values():
        if id(part) not in seen:  # an alias is the same parser under a second name
            seen.add(id(part))
            yield from _with_parts(part)


def options_without_help() -> list[str]:
    """Arguments and options of any command that say nothing about themselves."""
    return [
        f"{parser.prog} {'/'.join(action.option_strings) or action.metavar or action.dest}"
        for parser in _parsers()
        for action in parser._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]


def _spelling(action: argparse.Action) -> str:
    value = ""
    if action.nargs != 0:
        chosen = action.metavar
        if chosen is None:
            chosen = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
        value = " ".join(chosen) if isinstance(chosen, tuple) else str(chosen)
        if action.nargs in ("+", "*"):
            value += " ..."
        elif action.nargs == "?":
            value = f"[{value}]"
    value = value.replace("|", "\\|")
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return f"{names} {value}".strip()


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = action.help or ""
    if "%" in text:  # argparse fills in %(default)s and the like
        text %= vars(action) | {"prog": parser.prog}
    text = " ".join(text.split())
    return text.replace("|", "\\|")


def command_reference() -> str:
    """Every command with its description, arguments and options."""
    parts = []
    for parser in _parsers():
        shown = [
            action
            for action in parser._actions
            if action.help != argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction)
        ]
        lines = [f"## `{parser.prog}`", "", " ".join((parser.description or "").split())]
        if not _choices(parser):
            lines += ["", "| argument | meaning |", "|---|---|"]
            rows = [action for action in shown if "--help" not in action.option_strings]
            lines += [
                f"| `{_spelling(a)}`{' (required)' * _required(a)} | {_help(a, parser)} |" for a in rows
            ]
        if parser.epilog:
            lines += ["", " ".join(parser.epilog.split())]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _required(action: argparse.Action) -> bool:
    return bool(action.option_strings) and action.required


# --- the public names ---------------------------------------------------------------------------------------

# Page of the reference -> the rooms whose public names it shows.
REFERENCE = {
    "models": ("onefold.models", "onefold.models.fuzzy"),
    "tables": ("onefold.tables",),
    "privacy": ("onefold.privacy",),
    "fabrication": ("onefold.fabrication",),
    "encoders": ("onefold.encoders",),
    "transfer": ("onefold.transfer",),
    "release": ("onefold.release",),
    "audit": ("onefold.audit",),
    "bounds": ("onefold.bounds",),
    "federated": ("onefold.federated", "onefold.federated.flower", "onefold.federated.fhe"),
    "io": ("onefold.io", "onefold.datasets"),
    "report": ("onefold.report", "onefold.serve"),
    "exceptions": ("onefold.exceptions",),
}


def public_names(page: str) -> str:
    """A directive for every public name of the rooms of a page; the site puts its docstring there.

    What an earlier room of the page has shown already is not shown again.
    """
    parts: list[str] = []
    shown: list[object] = []
    for room in REFERENCE[page]:
        module = importlib.import_module(room)
        parts.append(f"## `{room}`")
        names = [name for name in module.__all__ if not any(getattr(module, name) is one for one in shown)]
        shown += [getattr(module, name) for name in names]
        for name in names:
            kind = _directive(getattr(module, name))
            parts.append(f"### {name}\n\n```{{eval-rst}}\n.. {kind}:: {room}.{name}\n```")
    return "\n\n".join(parts)


def _directive(thing: object) -> str:
    if isinstance(thing, ModuleType):
        return "automodule"
    if isinstance(thing, type):
        return "autoclass"
    return "autofunction" if callable(thing) else "autodata"


# --- writing ----------------------------------------------------------------------------------------------


def data_recipes() -> str:
    """Every file of data of the experiments, with what to fetch and how it is made."""
    from experiments.data import fingerprints

    parts = []
    for name, source in fingerprints.sources().items():
        lines = [f"### `{name}`", "", f"{source['about'][0].upper()}{source['about'][1:]}.", ""]
        lines += [
            f"Licence: {source['licence']}.",
            "",
            "```console",
            *(f"$ {line}" for line in source["fetch"]),
        ]
        if not source["fetch"][0].startswith("python -m"):
            lines.append(f"$ python -m experiments.data make {name} FOLDER DATA")
        lines += ["```", "", f"FOLDER: {source['made_from']}."]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


PARTS: dict[str, tuple[tuple[str, ...], Callable[[], str]]] = {
    "layers": (("docs/architecture.md", "CONTRIBUTING.md"), layer_table),
    "commands": (("docs/reference/cli.md",), command_reference),
    "data recipes": (("experiments/data/README.md",), data_recipes),
    **{
        f"names of {page}": ((f"docs/reference/{page}.md",), partial(public_names, page))
        for page in REFERENCE
    },
}


def with_part(text: str, name: str, content: str) -> str:
    """The text with the content between the marks of this name."""
    marks = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
    if not marks.search(text):
        raise SystemExit(f"the marks of the generated part {name!r} are missing")
    return marks.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def documents() -> dict[Path, str]:
    """Every document with generated parts, as it should be."""
    found: dict[Path, str] = {}
    for name, (paths, make) in PARTS.items():
        content = make()
        for path in (TOP / relative for relative in paths):
            text = found.get(path) or path.read_text(encoding="utf-8")
            found[path] = with_part(text, name, content)
    return found | _results()


def _results() -> dict[Path, str]:
    """What is made from ``experiments``: two whole pages, and tables of results on the others."""
    from experiments.register import page

    others = [path for path in sorted((TOP / "docs").rglob("*.md")) if "<!-- stored: " in path.read_text()]
    return page.pages() | {path: page.with_stored_tables(path.read_text()) for path in others}


def stale() -> list[str]:
    """Documents that differ from what the code says."""
    return [
        str(path.relative_to(TOP))
        for path, text in documents().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(prog="python docs/generate.py", description="Write the generated parts.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a document is stale")
    if parser.parse_args().check:
        for name in stale():
            print(f"{name} is stale: {ADVICE}")
        return int(bool(stale()))
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
