"""Break the source on purpose, one small change at a time, and see whether a fast test goes red.

    python tests/mutants.py --room tables --cpu-minutes 10
    python tests/mutants.py --only federated/rules.py --seed 3

A mutant is one change of the syntax tree: a comparison turned round or moved by its boundary, ``+`` and
``-``, ``*`` and ``/``, ``and`` and ``or``, ``min`` and ``max`` exchanged, a number one larger or twice as
large, a condition turned round, a check or a ``raise`` left out, a result that is None. It is written into a
copy of ``src``; the source itself is never touched. The fast tests of the module run in a child process with
a limit of time, those first that bear its name, then those that import it or a name that it defines.

What was found is kept as JSON lines in ``build/mutants``, by the digest of the source and the change, so
that a run that is stopped goes on where it was, and no mutant is tried twice. ``--again`` tries survivors
anew and no others, for whoever has written a test; a line that stands elsewhere by now is found by how it
reads. A survivor is a hint, not a fault: some changes make no
difference.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Loaded once, before any child: what a test would load anyway, but nothing of the package.
HEAVY = ("numpy", "scipy.optimize", "scipy.stats", "sklearn.utils.estimator_checks", "hypothesis", "pyarrow")
# Tests that are about a module or a room though neither name nor imports say so; they come last.
EXTRA = {
    "_base/stored.py": ("test_io.py", "test_foreign_files.py"),
    "federated/rules.py": ("federated/test_server_combine.py",),
    "privacy/mechanisms/fisher.py": tuple(
        f"privacy/mechanisms/test_{name}.py"
        for name in ("bounded_fisher", "mechanism_data", "mechanism_persons")
    ),
    "privacy/contract.py": ("attacks/test_entry_lines.py",),
    "privacy/moments/": ("privacy/moments",),
    "privacy/wording.py": ("privacy/test_guarantee.py", "privacy/test_guarantee_text.py"),
    "privacy/": ("attacks/test_domains.py", "attacks/test_accounting.py"),
    "tables/columns.py": ("tables/test_encoded.py", "tables/test_schema.py", "tables/test_rows.py"),
    "tables/declarations.py": (
        *("tables/test_frictionless.py", "tables/test_schema.py"),
        "attacks/test_unconfirmed_schemas.py",
    ),
    "tables/encoded.py": ("tables/test_schema.py",),
    "tables/formats.py": ("tables/test_reading.py", "tables/test_databases_sources.py"),
    "tables/inference.py": ("test_corpus.py",),
}
# Changes that make no difference, by module, a piece of the line and the end of the change: not tried.
EQUIVALENT = {
    ("federated/rules.py", "np.where(counted > 0, counted", "counted >= 0"): "nothing by nothing is NaN too",
    ("federated/rules.py", "np.where(length > 0, length", "0  ->  1"): "ranks of three are farther apart",
    ("federated/rules.py", "np.where(factors > 0, factors", "1  ->  2"): "answers of weight 0 are replaced",
    ("federated/rules.py", "(among_others(n_others // 2 - 1) + upper)", "+ upper) * 2"): "ranks stay",
    ("privacy/domains.py", "signature.parameters.values())[1:]", "1  ->  2"): "only help() shows it",
    ("privacy/ledger.py", "added[0] <= most[0] and", "added[0] < most[0]"): "composing gives no more",
    ("privacy/ledger.py", "added[0] <= most[0] and", "added[1] < most[1]"): "composing gives no more",
    ("privacy/mechanisms/ground_state.py", "* nodes, self", "/ 2 - half[:, np.newaxis] * nodes"): (
        "nodes lie symmetrically"
    ),
    ("privacy/moments/_release.py", "np.zeros((len(triangles)", "np.ones((len(triangles), size, size))"): (
        "every entry is written"
    ),
    ("privacy/moments/_rounds.py", "found.with_vector(whole, (1.0", "1.0  ->  2.0"): "written below",
    ("tables/columns.py", "get_close_matches(name, names, n=1)", "1  ->  2"): "the first is shown",
    (
        "tables/fields.py",
        "if self.low is not None and self.high is not None",
        "self.low is not None or self.high is not None",
    ): "both ends are declared, or none",
    ("tables/writing.py", "allow_pickle=False", "False  ->  True"): "objects are text by then",
    ("privacy/samplers.py", "int(bits * 0.30103) + 30", "30  ->  31"): "the same floor of more digits",
}
FAST = "not merge and not nightly"
SLOWEST = 60.0  # seconds of processor time that the tests of one module may take
PATIENCE = 4.0  # times what the tests take without a mutant
MEMORY = 6 * 2**30


# --- changes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutation:
    """One change: which node of the tree in the order of a walk, what is done, and how it reads."""

    node: int
    operator: str
    line: int
    change: str


TURNED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
PAIRS = (
    ("min", "max"),
    ("any", "all"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("floor", "ceil"),
    ("ones", "zeros"),
)
EXCHANGED = dict([*PAIRS, *(pair[::-1] for pair in PAIRS)])
# Where a change says nothing about the program: annotations, texts of errors, and marks for readers.
QUIET_KEYWORDS = {"strict", "stacklevel", "indent", "default", "repr", "compare", "allow_nan", "copy"}


def mutations(source: str) -> list[Mutation]:
    """All changes of a module, in the order of its text."""
    tree = ast.parse(source)
    quiet = _quiet(tree)
    found = []
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in quiet:
            continue
        for operator in _operators(node):
            changed = _applied(copy.deepcopy(node), operator)
            words = f"{_shown(node)}  ->  {_shown(changed)}"
            found.append(Mutation(place, operator, getattr(node, "lineno", 0), words))
    return sorted(found, key=lambda each: (each.line, each.node, each.operator))


def mutated(source: str, mutation: Mutation) -> str:
    """The text of the module with one change."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    wanted = nodes[mutation.node]
    changed = _applied(copy.deepcopy(wanted), mutation.operator)
    for parent in nodes:
        for name, value in ast.iter_fields(parent):
            if value is wanted:
                setattr(parent, name, changed)
            elif isinstance(value, list):
                setattr(parent, name, [changed if each is wanted else each for each in value])
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _quiet(tree: ast.AST) -> set[int]:
    """Nodes that are left alone."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            roots.append(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            roots += [node.returns, *node.decorator_list]
        if isinstance(node, ast.ClassDef):
            roots += node.decorator_list
        if isinstance(node, ast.Raise):
            roots += [node.exc, node.cause]
        if isinstance(node, ast.JoinedStr):
            roots.append(node)
        if isinstance(node, ast.keyword) and node.arg in QUIET_KEYWORDS:
            roots.append(node.value)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
            roots.append(node)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "__slots__"):
            roots.append(node)
    return {id(each) for root in roots if root is not None for each in ast.walk(root)}


def _operators(node: ast.AST) -> Iterator[str]:
    """Names of what can be done to a node."""
    if isinstance(node, ast.Compare):
        for place, operation in enumerate(node.ops):
            for kind in TURNED.get(type(operation), ()):
                yield f"compare {place} {kind.__name__}"
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        if isinstance(node, ast.AugAssign):
            yield "leave out"
        if not _is_text(node):
            for kind in TURNED.get(type(node.op), ()):
                yield f"operator {kind.__name__}"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "turn"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "one more"
        if node.value not in (0, 1):
            yield "twice"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "take off"
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "turn condition"
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "leave out"
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield "return None"
    elif isinstance(node, ast.Call) and _name(node.func) in EXCHANGED:
        yield f"call {EXCHANGED[_name(node.func)]}"
    elif isinstance(node, ast.Break | ast.Continue):
        yield "other jump"


def _applied(node: Any, operator: str) -> ast.AST:
    """The node with the change; it may be altered."""
    what, _, rest = operator.partition(" ")
    if operator == "leave out":
        return ast.copy_location(ast.Pass(), node)
    if what == "compare":
        place, kind = rest.split()
        node.ops[int(place)] = getattr(ast, kind)()
    elif what == "operator":
        node.op = getattr(ast, rest)()
    elif operator in ("turn", "one more", "twice"):
        value = node.value
        node.value = (not value) if operator == "turn" else value + 1 if operator == "one more" else value * 2
    elif operator == "take off":
        return ast.copy_location(node.operand, node)
    elif operator == "turn condition":
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif operator == "return None":
        node.value = ast.Constant(None)
    elif what == "call":
        if isinstance(node.func, ast.Name):
            node.func.id = rest
        else:
            node.func.attr = rest
    elif operator == "other jump":
        return ast.copy_location(ast.Continue() if isinstance(node, ast.Break) else ast.Break(), node)
    return ast.fix_missing_locations(node)


def _is_text(node: Any) -> bool:
    sides = [getattr(node, name, None) for name in ("left", "right", "value")]
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


def _name(function: ast.AST) -> str:
    return getattr(function, "id", None) or getattr(function, "attr", "")


def _shown(node: Any) -> str:
    """The first line of a node; of a condition no more than the condition."""
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(node.test)}"
    return (ast.unparse(ast.fix_missing_locations(node)).splitlines() or [""])[0][:100]


# --- tests of a module ------------------------------------------------------------------------------------


def files_of(module: str, tests: Path, package: str, source: Path) -> list[Path]:
    """Test files of a module: of its name first, then those that import it or what it defines.

    Where there are none, all of its folder are taken.
    """
    path = Path(module)
    room = path.parts[0] if len(path.parts) > 1 else ""
    stem = path.stem if path.stem != "__init__" else (path.parent.name or package)
    dotted = ".".join((package, *path.with_suffix("").parts)).removesuffix(".__init__")
    tree = ast.parse((source / module).read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    named, importing = [], []
    for test in sorted((tests / room).rglob("test_*.py")):
        words = test.stem.removeprefix("test_")
        if words == stem.strip("_") or words.startswith(f"{stem.strip('_')}_"):
            named.append(test)
        elif _imports(test, package, dotted, defined):
            importing.append(test)
    beside = tests / path.parent if (tests / path.parent).is_dir() else tests / room
    about = [*named, *importing] or sorted(beside.rglob("test_*.py"))
    extra = [tests / name for key, names in EXTRA.items() if module.startswith(key) for name in names]
    for each in extra:
        about += sorted(each.rglob("test_*.py")) if each.is_dir() else [each] * each.is_file()
    return list(dict.fromkeys(about))


def _imports(test: Path, package: str, dotted: str, defined: set[str]) -> bool:
    """Whether a test file imports a module, or from the package a name that it defines and others do not."""
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import) and any(each.name == dotted for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            names = {each.name for each in node.names}
            above = dotted.startswith(f"{node.module}.")
            if node.module == dotted or (above and (names & defined or dotted.split(".")[-1] in names)):
                return True
    return False


# --- one child per mutant ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What the tests of a mutant said."""

    said: str  # killed, survived, endless
    by: str
    seconds: float


class Bench:
    """A copy of the source in which one file at a time is another; the source may change meanwhile.

    Parameters
    ----------
    top : Path
        Folder with ``src`` and ``tests``.
    package : str
        Name of the package.
    """

    def __init__(self, top: Path, package: str) -> None:
        self.top, self.package, self.tests = top, package, top / "tests"
        self.folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self.copy = self.folder / "src"
        self.source = self.copy / package
        shutil.copytree(top / "src", self.copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        compileall.compile_dir(self.copy, quiet=2)

    def close(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, module: str, text: str | None, tests: list[Path], seconds: float) -> Outcome:
        """Run tests with a module replaced, or with the source as it is."""
        path = self.source / module
        before = path.read_bytes()
        try:
            if text is not None:
                for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                    stale.unlink()
                path.write_text(text, encoding="utf-8")
            return self._child(tests, seconds)
        finally:
            path.write_bytes(before)

    def _child(self, tests: list[Path], seconds: float) -> Outcome:
        log, start = self.folder / "log", _children()
        child = os.fork()
        if child == 0:
            self._test(tests, log, seconds)
        until, status = time.monotonic() + 10 * seconds, None
        try:
            while status is None:
                found, code = os.waitpid(child, os.WNOHANG)
                if found:
                    status = os.waitstatus_to_exitcode(code)
                elif time.monotonic() > until:
                    raise TimeoutError
                else:
                    time.sleep(0.02)
        except BaseException as reason:  # too slow, or the search is stopped: no child outlives it
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if not isinstance(reason, TimeoutError):
                raise
            status = -signal.SIGKILL
        spent = _children() - start
        if status < 0:
            return Outcome("endless", "", spent)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        culprit = next((line for line in lines if line.startswith(("FAILED ", "ERROR "))), "")
        return Outcome("survived" if status in (0, 5) else "killed", culprit[:200], spent)

    def _test(self, tests: list[Path], log: Path, seconds: float) -> None:
        """In the child: run the tests on the copy, and end."""
        code = 70
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            most = int(seconds) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            home = self.folder / "home"
            home.mkdir(exist_ok=True)
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            os.environ.update(PYTHONPATH=str(self.copy), PYTHONDONTWRITEBYTECODE="1", HOME=str(home))
            sys.dont_write_bytecode = True
            sys.path.insert(0, str(self.copy))
            os.chdir(self.top)
            import pytest

            options = [
                "-x",
                "-q",
                "-p",
                "no:randomly",
                "-p",
                "no:cacheprovider",
                "-m",
                FAST,
                "--tb=no",
                "-p",
                "no:prices",
            ]
            code = int(pytest.main([*options, f"--basetemp={self.folder / 'tmp'}", *map(str, tests)]))
        finally:
            sys.stdout.flush()
            os._exit(code)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- a run ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """A mutant of a module, its line, and the key under which its result is kept."""

    module: str
    mutation: Mutation
    text: str
    key: str


def choose(source: Path, modules: list[str], seed: int) -> list[Chosen]:
    """All mutants of some modules, in a random order."""
    found = []
    for module in modules:
        text = (source / module).read_text(encoding="utf-8")
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        lines = text.splitlines()
        alike = [(piece, end) for (where, piece, end) in EQUIVALENT if where == module]
        found += [
            Chosen(
                module, each, lines[each.line - 1].strip(), f"{module} {digest} {each.node} {each.operator}"
            )
            for each in mutations(text)
            if not any(piece in lines[each.line - 1] and each.change.endswith(end) for piece, end in alike)
        ]
    random.Random(seed).shuffle(found)
    return found


def modules_of(source: Path, room: str | None, only: list[str]) -> list[str]:
    """Modules of a room, or those that are named, or all."""
    every = sorted(path.relative_to(source).as_posix() for path in source.rglob("*.py"))
    wanted = [each.removesuffix(".py") for each in only]
    return [
        each
        for each in every
        if (not wanted or any(each == f"{name}.py" or each.startswith(f"{name}/") for name in wanted))
        and (room is None or each.startswith(f"{room}/") or each == f"{room}.py")
    ]


def known_results(path: Path) -> dict[str, dict[str, Any]]:
    """What earlier runs found, the last word on each mutant."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {each["key"]: each for each in map(json.loads, lines)}


def search(bench: Bench, chosen: list[Chosen], args: argparse.Namespace, results: Path) -> None:
    """Try mutants until the budget is spent."""
    known, plain = known_results(results), {}
    survivors = {
        (old.get("text"), old["operator"], old["change"])
        for old in known.values()
        if old["said"] == "survived"
    }
    results.parent.mkdir(parents=True, exist_ok=True)
    start = _children()
    for each in chosen:
        old = known.get(each.key)
        reading = (each.text, each.mutation.operator, each.mutation.change)
        wanted = old is None
        if args.again:
            wanted = reading in survivors if old is None else old["said"] == "survived"
        if not wanted:
            continue
        if _children() - start > 60 * args.cpu_minutes:
            return
        if each.module not in plain or not all(test.is_file() for test in plain[each.module][0]):
            tests = files_of(each.module, bench.tests, bench.package, bench.source)
            outcome = bench.run(each.module, None, tests, SLOWEST) if tests else None
            plain[each.module] = tests, outcome
            if outcome is None or outcome.said != "survived":
                why = "no tests are about it" if outcome is None else f"its tests are red: {outcome.by}"
                _say(f"{each.module}: left out, {why}")
        tests, before = plain[each.module]
        if before is None or before.said != "survived":
            continue
        text = mutated((bench.source / each.module).read_text(encoding="utf-8"), each.mutation)
        outcome = bench.run(each.module, text, tests, PATIENCE * before.seconds + 5.0)
        told = {"key": each.key, "module": each.module, "text": each.text}
        told |= {**asdict(each.mutation), **asdict(outcome)}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
        if outcome.said == "survived":
            _say(f"{each.module}:{each.mutation.line}: {each.mutation.change}")


def report(chosen: list[Chosen], results: Path) -> list[str]:
    """Survivors with their places, then how many of each room were killed."""
    known, lines = known_results(results), []
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    for each in sorted(chosen, key=lambda one: (one.module, one.mutation.line)):
        found = known.get(each.key)
        if found is None:
            continue
        room = each.module.split("/")[0]
        tried[room] += 1
        killed[room] += found["said"] != "survived"
        if found["said"] == "survived":
            lines.append(f"{each.module}:{each.mutation.line}: {each.mutation.change}")
    for room, count in sorted(tried.items()):
        lines.append(f"{room}: {killed[room]} of {count} killed ({100 * killed[room] / count:.0f} %)")
    return lines


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _load(names: Sequence[str]) -> None:
    """Load what every child needs, once."""
    plugins = [] if "PYTEST_DISABLE_PLUGIN_AUTOLOAD" in os.environ else entry_points(group="pytest11")
    for name in ("pytest", *names, *(each.value for each in plugins)):
        with suppress(ImportError):
            importlib.import_module(name)


def main() -> None:
    """Search, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--room", help="one room, such as privacy")
    parser.add_argument(
        "--only", action="append", default=[], help="a module or folder, such as federated/rules"
    )
    parser.add_argument(
        "--cpu-minutes", type=float, default=60.0, help="processor time of the tests (default: 60)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of mutants (default: 0)")
    parser.add_argument("--again", action="store_true", help="try survivors anew, and no others")
    parser.add_argument("--top", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--package", default="onefold", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[variable] = "1"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as by Ctrl-C, and leave nothing behind
    _load(HEAVY if args.package == "onefold" else ())
    assert args.package not in sys.modules
    results = args.top / "build" / "mutants" / "results.jsonl"
    bench = Bench(args.top, args.package)
    chosen = choose(bench.source, modules_of(bench.source, args.room, args.only), args.seed)
    try:
        search(bench, chosen, args, results)
    except KeyboardInterrupt:
        _say("stopped")
    finally:
        bench.close()
    for line in ("", *report(chosen, results)):
        _say(line)


if __name__ == "__main__":
    main()
