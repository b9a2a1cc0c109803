"""Where noise is drawn: every call in the source that can draw, and what is called while a release is made.

The source is read, not listed: a call draws if it calls a function of ``privacy/samplers.py``, or a function
that does. Names are followed through the room ``privacy`` and through every function that calls a sampler
itself, up to functions that charge a ledger. Names of many meanings are followed in their own file alone.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any
from unittest import mock

import onefold
from onefold.privacy import Ledger, samplers

SOURCE = Path(onefold.__file__).parent
SAMPLERS = "privacy/samplers.py"
# Audits attack releases of their own; the rooms above call the library.
OTHER_ROOMS = ("audit", "cli", "report", "serve")
COMMON_NAMES = {"__init__", "of", "draw", "_draw"}
# Which rows of a person count is drawn before the charge: nothing of it leaves.
NO_NOISE = "limit_rows"


@dataclass(frozen=True)
class Call:
    """A call in the source, by its place and by the name of what is called."""

    file: str
    function: str
    name: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.function} calls {self.name}"


@dataclass(frozen=True)
class Function:
    """A function of the source, with the calls in its own body."""

    file: str
    name: str
    qualname: str
    parameters: tuple[str, ...]
    calls: tuple[Call, ...]

    @cached_property
    def names(self) -> set[str]:
        return {call.name for call in self.calls}


def functions(files: Mapping[str, str]) -> list[Function]:
    """All functions of files."""
    return [made for file, text in files.items() for made in _functions_of(file, text)]


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _functions_of(file: str, text: str) -> tuple[Function, ...]:
    return tuple(_functions(_tree(text), file, ()))


def _functions(tree: ast.AST, file: str, inside: tuple[str, ...]) -> Iterator[Function]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named = ".".join((*inside, node.name))
            given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            calls = tuple(Call(file, named, *place) for place in _calls(node))
            yield Function(file, node.name, named, tuple(each.arg for each in given), calls)
            yield from _functions(node, file, (*inside, node.name))
        elif not isinstance(node, ast.expr):  # which holds no function with a name
            here = (*inside, node.name) if isinstance(node, ast.ClassDef) else inside
            yield from _functions(node, file, here)


def _calls(tree: ast.AST) -> Iterator[tuple[str, int, int]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
            yield name, node.lineno, node.end_lineno or node.lineno
        yield from _calls(node)


@cache
def source() -> Mapping[str, str]:
    """The text of every file of the package, by its path."""
    paths = sorted(SOURCE.rglob("*.py"))
    return MappingProxyType({path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in paths})


def sampling_names(files: Mapping[str, str]) -> set[str]:
    """Functions that the samplers offer and that make a stream of random bytes, or take one."""
    made = [each for each in functions({SAMPLERS: files[SAMPLERS]}) if not each.name.startswith("_")]
    return {each.name for each in made if "stream" in each.parameters or each.name == "byte_stream"}


def calls_that_draw(files: Mapping[str, str]) -> set[Call]:
    """Every call outside the samplers that draws, or may draw."""
    chosen = {file: text for file, text in files.items() if file != SAMPLERS}
    known = functions(
        {file: text for file, text in chosen.items() if file.partition("/")[0] not in OTHER_ROOMS}
    )
    samplers_names = sampling_names(files)
    names, local = set(samplers_names), set[tuple[str, str]]()
    while True:
        before = len(names) + len(local)
        for each in known:
            in_room = each.file.startswith("privacy/") or each.names & samplers_names
            draws = any(call.name in names or (each.file, call.name) in local for call in each.calls)
            if in_room and draws and "charge" not in each.names:
                if each.name in COMMON_NAMES:
                    local.add((each.file, each.name))
                else:
                    names.add(each.name)
        if len(names) + len(local) == before:
            break
    return {
        call for each in known for call in each.calls if call.name in names or (each.file, call.name) in local
    }


def callables_with_a_ledger(files: Mapping[str, str]) -> set[str]:
    """Everything public that takes a ledger: ``file:name``."""
    return _dataclasses_with_a_ledger(files) | {
        f"{each.file}:{each.qualname}"
        for each in functions(files)
        if "ledger" in each.parameters
        and each.file.partition("/")[0] != "cli"
        and each.file != "privacy/ledger.py"
        and not any(part.startswith("_") and part != "__init__" for part in each.qualname.split("."))
    }


def _dataclasses_with_a_ledger(files: Mapping[str, str]) -> set[str]:
    """Public dataclasses with a field for a ledger, of their own or inherited: ``file:name.__init__``."""
    classes = {
        node.name: (file, node)
        for file, text in files.items()
        for node in _tree(text).body
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list)
    }

    def takes_one(name: str) -> bool:
        if name not in classes:
            return False
        node = classes[name][1]
        fields = [ast.unparse(line.target) for line in node.body if isinstance(line, ast.AnnAssign)]
        return "ledger" in fields or any(takes_one(ast.unparse(base)) for base in node.bases)

    return {
        f"{file}:{name}.__init__"
        for name, (file, _) in classes.items()
        if takes_one(name) and not name.startswith("_")
    }


@dataclass
class Recording:
    """What happened while releases were made."""

    charges: int = 0
    early_draws: int = 0  # before any charge
    draws: int = 0
    called: set[tuple[str, int, str]] = field(default_factory=set)  # file, line and what was called there
    charging: set[str] = field(default_factory=set)  # on the way to a charge: file:name

    def covers(self, call: Call) -> bool:
        """Whether a call of the source was on the way to a draw."""
        return any((call.file, line, call.name) in self.called for line in range(call.first, call.last + 1))


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _file(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else None


@contextmanager
def recorded(recording: Recording, *, fail: type[Exception] | None = None) -> Iterator[Recording]:
    """Note every charge and every draw; with ``fail`` no noise is drawn at all."""
    make_stream, spend = samplers.ByteStream.__init__, Ledger.spend_guarantee

    def note_calls() -> bool:
        """Note the way to here; whether it is one of noise."""
        name, noise = "", True
        for frame in _frames(sys._getframe(2)):
            file = _file(frame)
            if name and file is not None:
                recording.called.add((file, frame.f_lineno, name))
            if not frame.f_code.co_name.startswith("<"):  # a comprehension is part of its function
                name = frame.f_code.co_name
            noise = noise and name != NO_NOISE
        return noise

    def stream(self: Any, draw: Any) -> None:
        def noting(size: int) -> bytes:
            if note_calls():
                recording.draws += 1
                recording.early_draws += not recording.charges
                if fail is not None:
                    raise fail
            return bytes(draw(size))

        note_calls()
        make_stream(self, noting)

    def spending(self: Ledger, *given: Any, **options: Any) -> Any:
        for frame in _frames(sys._getframe(1)):
            recording.charging.add(f"{_file(frame)}:{frame.f_code.co_qualname}")
            owner = frame.f_locals.get("self")
            for kind in type(owner).__mro__ if owner is not None else ():
                module = sys.modules.get(kind.__module__)  # not that of a worker of the tests
                file = Path(getattr(module, "__file__", None) or "none")
                if file.is_relative_to(SOURCE):
                    recording.charging.add(
                        f"{file.relative_to(SOURCE).as_posix()}:{kind.__qualname__}.__init__"
                    )
        counted = spend(self, *given, **options)
        recording.charges += 1
        return counted

    with (
        mock.patch.object(samplers.ByteStream, "__init__", stream),
        mock.patch.object(Ledger, "spend_guarantee", spending),
    ):
        yield recording
