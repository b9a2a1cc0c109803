"""``python -m benchmarks.house [--source DIR] [--json] [--lists]``: the house in numbers.

What is counted, and how:

* **lines of code**: lines that hold code; docstrings, comments and blank lines do not count. Beside it,
  **lines without docstrings**: comments and blank lines count.
* **statements**: statements of the syntax tree without docstrings, so that squeezed lines gain nothing: since
  the reduction began they must fall by the share by which lines of code fall, which is their goal.
* **branches of a function**: McCabe's number, 1 plus one for each condition, loop, handler and boolean
  operator; functions inside a function count for themselves.
* **modules with one importer**: modules that exactly one other module of the package imports, wherever the
  import stands. Packages (``__init__``) are left out: many are read through their parts.
* **private imports across rooms**: imports of a module or name that begins with ``_`` from another room. A
  room is a folder of ``src/onefold`` (``federated.fhe`` and ``federated.flower`` are rooms of their own);
  everybody may use ``_base``.
* **cycles**: groups of modules that import each other, by imports inside functions too, but not by those
  for type checkers only. A package that imports its own parts, which is what packages do, is no cycle.
* **names in __all__**: the lengths of the ``__all__`` lists of modules; packages repeat those of their parts.
* **tests of schema is None**: comparisons of a name or attribute ``schema`` with None; beside it the
  annotations ``Schema | None`` outside the room ``tables``.
* **private names of other libraries**: imports of, and attributes below, imported packages whose name begins
  with ``_``, and names of Flower outside the modules that it documents, also where they stand in a text.
* **(de)serialising functions**: functions called ``to_bytes``, ``from_dict``, ``load``, ``_state`` and the
  like; ``SERIAL`` below has the words.
* **options**: options of all commands; one that takes ``key=value`` with a fixed list of keys counts once
  per key.
* **files touched by a walk**: files of which at least one function runs. Loading a module is no touch.
* **changes of room**: the functions that run are written down in order; two that follow each other and live
  in different rooms are a change, and each pair of modules counts once.

The walks run in a fresh process each, at one BLAS thread and one job, with the profiler of the interpreter.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

OWN_SOURCE = Path(__file__).resolve().parents[1] / "src"
OURS = ("onefold", "__future__")
PUBLIC_AFTER_ALL = ("os._exit",)  # documented, with its underscore
FLOWER = re.compile(
    r"flwr\.(?!(app|clientapp|serverapp|simulation)\b)[a-z_.]+\w+"
)  # what it does not document
NESTED_ROOMS = ("federated.fhe", "federated.flower")
START = {"lines of code": 50_801, "statements": 39_579}  # when the reduction began
GOALS = {
    "files": 170,
    "lines of code": 28_000,
    "modules with one importer": 25,
    "private imports across rooms": 0,
    "import cycles": 0,
    "names in __all__": 400,
    "tests of schema is None": 20,
    "annotations Schema | None above tables": 0,
    "private names of other libraries": 0,
    "(de)serialising functions": 90,
    "options": 270,
    "files touched by onefold fit": 30,
    "functions touched by onefold fit": 250,
    "files touched by a private federation": 32,
    "changes of room in a private federation": 35,
}
SERIAL = re.compile(
    r"_?(to|from|as)_(bytes|dict|json|arrays?|archive|records?|state|header|parts|file|message|plain)(_.*)?"
    r"|_?(un)?(pack|save|load|restore|read|write|parse|dump)(e?d)?(_.*)?"
    r"|(.*_)?(bytes|state)"
)


def room_of(module: str) -> str:
    """The room of a module, both without the leading ``onefold.``."""
    parts = module.split(".")
    two = ".".join(parts[:2])
    return two if two in NESTED_ROOMS else parts[0]


# --- reading the files ------------------------------------------------------------------------------------


def modules_of(package: Path) -> dict[str, Path]:
    """Dotted name (without the package's own) and file of every module; the package itself is ``""``."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def lines_of(text: str, nodes: list[ast.AST]) -> tuple[int, int]:
    """Number of lines with code, and of lines outside docstrings, comments and blank lines included."""
    lines = text.splitlines()
    outside = set(range(1, len(lines) + 1))
    for node in nodes:
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            outside -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    code = [line for line in outside if lines[line - 1].strip() and lines[line - 1].lstrip()[0] != "#"]
    return len(code), len(outside)


def lines_of_code(text: str) -> int:
    """Lines of a source that hold code."""
    return lines_of(text, list(ast.walk(parsed(text))))[0]


def statements_of_the_share(lines: int) -> int:
    """Statements at most, if they fell by the share by which lines of code fell to this number."""
    return START["statements"] * lines // START["lines of code"]


@cache
def parsed(text: str) -> ast.Module:
    """The syntax tree of a source: several rules look at the same one, and none changes it."""
    return ast.parse(text)


def statements_of(nodes: list[ast.AST]) -> int:
    """Statements among the nodes of a syntax tree, docstrings left out."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    texts = sum(
        isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None for node in nodes
    )
    return sum(isinstance(node, ast.stmt) for node in nodes) - texts


def branches_of(function: ast.AST) -> int:
    """McCabe's number of a function, without the functions inside it."""
    apart = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    forks = ast.If | ast.For | ast.While | ast.AsyncFor | ast.ExceptHandler | ast.IfExp | ast.match_case
    count, waiting = 1, list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, apart):
            continue
        count += isinstance(node, forks | ast.Assert)
        count += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        waiting += ast.iter_child_nodes(node)
    return count


def exported(tree: ast.Module) -> int:
    """Names in the module's ``__all__``."""
    lists = (
        node.value.elts
        for node in tree.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "__all__"
        and isinstance(node.value, ast.List | ast.Tuple)
    )
    return sum(map(len, lists))


def schema_questions(nodes: list[ast.AST]) -> int:
    """Comparisons of something called schema with None."""
    asked = (node for node in nodes if isinstance(node, ast.Compare))
    return sum(
        isinstance(node.ops[0], ast.Is | ast.IsNot)
        and isinstance(node.comparators[0], ast.Constant)
        and getattr(node.left, "attr", getattr(node.left, "id", None)) == "schema"
        for node in asked
    )


def perhaps_schemas(text: str) -> int:
    """Annotations that allow a schema or None."""
    return len(re.findall(r"\bSchema \| None\b", text))


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for such an attribute or name, and nothing for one of a result or an item."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def private_names(nodes: list[ast.AST]) -> list[str]:
    """Names beginning with ``_`` that are taken from a package which is not ours."""
    roots: dict[str, str] = {}
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            roots |= {(alias.asname or alias.name).partition(".")[0]: alias.name for alias in node.names}
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            roots |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    foreign = {name: module for name, module in roots.items() if module.partition(".")[0] not in OURS}
    for node in nodes:
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        if name.partition(".")[0] in foreign:
            names.append(name)
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    names += [text for text in texts if isinstance(text, str) and FLOWER.fullmatch(text)]
    found = {name for name in names if any(map(_is_private, name.split("."))) or FLOWER.fullmatch(name)}
    return sorted(
        name for name in found if name.partition(".")[0] not in OURS and name not in PUBLIC_AFTER_ALL
    )


def _is_private(part: str) -> bool:
    return part.startswith("_") and not part.endswith("__") and part != "_"


def _for_type_checkers(nodes: list[ast.AST]) -> set[ast.AST]:
    """Nodes below ``if TYPE_CHECKING:``."""
    blocks = (node for node in nodes if isinstance(node, ast.If))
    named = (block for block in blocks if dotted(block.test).endswith("TYPE_CHECKING"))
    return {node for block in named for statement in block.body for node in ast.walk(statement)}


def imports_of(nodes: list[ast.AST], module: str, is_package: bool) -> Iterator[str]:
    """Everything of the package that a module imports, as ``room.module.name``."""
    hidden = _for_type_checkers(nodes)
    package = ["onefold", *filter(None, module.split("."))]
    if not is_package:
        package = package[:-1]
    for node in nodes:
        names: list[str] = []
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        yield from (name.removeprefix("onefold.") for name in names if name.startswith("onefold."))


def _module_named(name: str, modules: dict[str, Path]) -> str:
    """The module that an imported name is, or lives in."""
    while name not in modules:
        name = name.rpartition(".")[0]
    return name


def _cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's algorithm, with a stack of its own)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(start: str) -> None:
        work = [(start, iter(sorted(edges[start])))]
        order[start] = low[start] = len(order)
        stack.append(start)
        while work:
            here, rest = work[-1]
            for there in rest:
                if there not in order:
                    order[there] = low[there] = len(order)
                    stack.append(there)
                    work.append((there, iter(sorted(edges[there]))))
                    break
                if there in stack:
                    low[here] = min(low[here], order[there])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[here])
                if low[here] == order[here]:
                    group = stack[stack.index(here) :]
                    del stack[stack.index(here) :]
                    if len(group) > 1:
                        groups.append(sorted(group))

    for module in sorted(edges):
        if module not in order:
            visit(module)
    return groups


def static_numbers(source: Path) -> dict[str, Any]:
    """Everything that can be counted without running anything."""
    package = source / "onefold"
    modules = modules_of(package)
    edges: dict[str, set[str]] = defaultdict(set)
    private, foreign = [], []
    lines, total = {}, 0
    counts: Counter[str] = Counter()
    branches: dict[str, int] = {}
    for module, path in modules.items():
        text = path.read_text(encoding="utf-8")
        tree = parsed(text)
        nodes = list(ast.walk(tree))
        lines[module], without_docstrings = lines_of(text, nodes)
        total += without_docstrings
        is_package = path.name == "__init__.py"
        counts["statements"] += statements_of(nodes)
        counts["names in __all__"] += 0 if is_package else exported(tree)
        counts["tests of schema is None"] += schema_questions(nodes)
        counts["annotations Schema | None above tables"] += perhaps_schemas(text) * (
            room_of(module) != "tables"
        )
        foreign += [f"{module} uses {name}" for name in private_names(nodes)]
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                branches[f"{module}.{node.name}:{node.lineno}"] = branches_of(node)
                counts["(de)serialising functions"] += SERIAL.fullmatch(node.name) is not None
        for name in imports_of(nodes, module, is_package):
            target = _module_named(name, modules)
            if target != module:
                edges[module].add(target)
            here, there = room_of(module), room_of(name)
            hidden = [part for part in name.split(".") if part.startswith("_") and not part.endswith("__")]
            if hidden and here != there and there != "_base" and module:
                private.append(f"{module} imports {name}")
    importers = Counter(target for targets in edges.values() for target in targets)
    packages = {module for module, path in modules.items() if path.name == "__init__.py"}
    single = sorted(module for module in modules if importers[module] == 1 and module not in packages)
    within = {
        module: {t for t in edges[module] if not (module in packages and t.startswith(module))}
        for module in modules
    }
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for module in modules:
        rooms[room_of(module) or "onefold"].update(files=1, lines=lines[module], single=module in single)
    cycles = _cycles(within)
    return {
        "files": len(modules),
        "lines of code": sum(lines.values()),
        "lines without docstrings": total,
        "statements": counts.pop("statements"),
        "functions with more than ten branches": sum(count > 10 for count in branches.values()),
        "branches of the most complex function": max(branches.values()),
        "branches of 100 functions on average": round(100 * sum(branches.values()) / len(branches)),
        "files below 50 lines of code": sum(count < 50 for m, count in lines.items() if m not in packages),
        "modules with one importer": len(single),
        "private imports across rooms": len(private),
        "import cycles": len(cycles),
        **counts,
        "private names of other libraries": len(foreign),
        "rooms": {room: dict(counts) for room, counts in sorted(rooms.items())},
        "lists": {"one importer": single, "private imports": sorted(private), "cycles": cycles}
        | {"private names of other libraries": sorted(foreign)}
        | {"most complex": [f"{n} {name}" for name, n in sorted(branches.items(), key=lambda e: -e[1])[:20]]},
    }


# --- walking through it -----------------------------------------------------------------------------------


class Walk:
    """Writes down which functions of the package run, in order, in all threads."""

    def __init__(self, package: Path) -> None:
        self.prefix = f"{package}{os.sep}"
        self.files: set[str] = set()
        self.functions: set[tuple[str, int]] = set()
        self.changes: set[tuple[str, str]] = set()
        self.last: dict[int, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(self.prefix) or frame.f_code.co_name == "<module>":
            return
        if not frame.f_code.co_flags & 2:  # CO_NEWLOCALS is missing: the body of a class, not a function
            return
        module = name.removeprefix(self.prefix).removesuffix(".py").replace(os.sep, ".")
        module = module.removesuffix(".__init__")
        self.files.add(module)
        self.functions.add((module, frame.f_code.co_firstlineno))
        before = self.last.get(threading.get_ident(), module)
        self.last[threading.get_ident()] = module
        if room_of(before) != room_of(module):
            self.changes.add((before, module))

    def __enter__(self) -> Walk:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def _rows() -> tuple[Any, Any]:
    """120 rows of four numbers in [0, 1], two classes, always the same."""
    import numpy as np

    rng = np.random.default_rng(0)
    classes = np.arange(120) % 2
    features = rng.uniform(0.0, 0.5, size=(120, 4))
    features[:, 0] += classes / 2
    return features, classes


def walk_fit(walk: Walk) -> None:
    """``onefold fit DATA --label COL --out MODEL`` on a small CSV file."""
    features, classes = _rows()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "rows.csv")
        lines = (
            ",".join([*(f"{x:.6f}" for x in row), "xy"[c]]) for row, c in zip(features, classes, strict=True)
        )
        table.write_text("\n".join(["a,b,c,d,kind", *lines, ""]), encoding="utf-8")
        arguments = ["fit", str(table), "--label", "kind", "--out", str(Path(folder, "m.onefold")), "--json"]
        with walk:
            from onefold.cli.app import main

            code = main(arguments)
    if code != 0:
        raise SystemExit("onefold fit failed")


def walk_private_federation(walk: Walk) -> None:
    """Three sites with private models, one query, its messages, one rule, one answer; in one process.

    Rows, mechanism, model, measures, message frame, rules, answer: what one private answer passes through.
    Each site declares its range, protects records and labels, and spends from a ledger; the server keeps a
    log.
    """
    features, classes = _rows()
    with tempfile.TemporaryDirectory() as folder, walk:
        from onefold.federated import GlobalClassifier, LocalModel, MembershipLog
        from onefold.federated.messages import Answers, Query, from_bytes
        from onefold.privacy import AnalyticGaussian, Box, Ledger, RandomisedLabels

        noise = AnalyticGaussian(8.0, 1e-5, Box(0, 1, n_features=4), unit="record")
        log = MembershipLog(Path(folder, "log.jsonl"))
        server = GlobalClassifier("checked", log=log)
        sent = Query("first", features[:30]).to_bytes()
        received = {}
        for number in range(3):
            site = f"site{number}"
            flips = RandomisedLabels(2.0, 2)
            model = LocalModel(mechanism=noise, label_mechanism=flips, keep_rows=False, ledger=Ledger())
            model.fit(features[number::3], classes[number::3])
            server.add(site, model)
            query = from_bytes(sent)
            labels = tuple(model.classes_.tolist())
            values = model.answers(query.features, model.classes_)
            answer = Answers(query.id, site, labels, model.measure, model.scale, values)
            received[site] = from_bytes(answer.to_bytes())
        result = server.combine(received, tuple(received), query=from_bytes(sent))
    if len(result.labels) != 30:
        raise SystemExit("the private federation gave no answer")


def count_options() -> int:
    """Options of all commands."""
    from onefold.cli import app

    waiting = [app.build_parser([name]) for name in app.COMMANDS]
    count = 0
    seen: set[str] = set()
    while waiting:
        parser = waiting.pop()
        if parser.prog in seen and parser.prog != "onefold":
            continue
        for action in parser._actions:
            inner = action.choices if isinstance(action.choices, dict) else {}
            # A command that was not named is listed without its options.
            waiting += [p for p in inner.values() if len(p._actions) > 1]
            given = action.option_strings and action.dest not in ("help", "version")
            count += bool(given) * len(getattr(action, "keys", ("one",)))
        seen.add(parser.prog)
    return count


WALKS: dict[str, Callable[[Walk], None]] = {"fit": walk_fit, "private": walk_private_federation}


def walked(name: str, source: Path) -> dict[str, Any]:
    """Run a walk in a fresh process against the package in ``source``; its files and changes of room."""
    environment = os.environ | {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--walk", name]
    answer = subprocess.run(
        [*command, "--source", str(source)], env=environment, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise SystemExit(f"the walk {name!r} failed:\n{answer.stderr}")
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def all_numbers(source: Path) -> dict[str, Any]:
    """The static numbers and those of both walks."""
    found = static_numbers(source)
    fit, private = (walked(name, source) for name in WALKS)
    found["options"] = fit["options"]
    found["files touched by onefold fit"] = len(fit["files"])
    found["functions touched by onefold fit"] = fit["functions"]
    found["files touched by a private federation"] = len(private["files"])
    found["changes of room in a private federation"] = len(private["changes"])
    found["lists"] |= {"fit": fit["files"], "private": private["files"], "changes": private["changes"]}
    return found


def show(found: dict[str, Any], lists: bool) -> None:
    """Print the numbers, with the goal of the reduction where there is one."""
    goals = GOALS | {"statements": statements_of_the_share(found["lines of code"])}
    print(f"{'':<42}{'now':>7}{'goal':>8}")
    for name, value in found.items():
        if isinstance(value, int):
            goal = f"{goals[name]:>8}  {'reached' if value <= goals[name] else ''}" if name in goals else ""
            print(f"{name:<42}{value:>7}{goal}".rstrip())
    print(f"\n{'room':<20}{'files':>7}{'lines':>8}{'one importer':>14}")
    for room, counts in found["rooms"].items():
        print(f"{room:<20}{counts['files']:>7}{counts['lines']:>8}{counts['single']:>14}")
    if lists:
        for name, entries in found["lists"].items():
            print(
                f"\n{name}:",
                *(entry if isinstance(entry, str) else " ".join(entry) for entry in entries),
                sep="\n  ",
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.house", description="Print the house in numbers."
    )
    parser.add_argument(
        "--source", type=Path, default=OWN_SOURCE, help="folder that holds the package onefold"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--lists", action="store_true", help="also print the names that were counted")
    parser.add_argument("--walk", choices=WALKS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.walk is not None:
        walk = Walk(args.source / "onefold")
        WALKS[args.walk](walk)
        print(
            json.dumps(
                {
                    "files": sorted(walk.files),
                    "functions": len(walk.functions),
                    "changes": sorted(walk.changes),
                    "options": count_options(),
                }
            )
        )
        return 0
    found = all_numbers(args.source.resolve())
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        show(found, args.lists)
    return 0


if __name__ == "__main__":
    sys.exit(main())
