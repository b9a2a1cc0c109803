"""The house rules: imports point downwards, one of each, exported names exist, no unsafe helpers."""

from __future__ import annotations

import ast
import graphlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import onefold
from benchmarks import house
from onefold._base import arrays
from onefold.exceptions import MissingDependencyError

SOURCE = Path(onefold.__file__).parent

# The one table of the rooms, from the ground up; docs/generate.py prints it into the documents. A room may
# import its own modules and those of lower rows, never those of its own row.
LAYERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("L0", {"exceptions": "every error and warning"}),
    (
        "L0",
        {
            "_base": "arrays, parameter checks, linear algebra, threads, files and locks, the one file "
            "format, the one wire format, optional imports, progress"
        },
    ),
    ("L1", {"encoders": "public, fixed feature maps"}),
    # Below the noise: what is promised about a table follows from its contract.
    ("L1", {"tables": "the declared contract of a table; reading, encoding, decoding and writing it"}),
    (
        "L1",
        {
            "privacy": "noise mechanisms, sensitivity, calibration, guarantees, the ledger, private moments",
            "datasets": "bundled and local data, ways to spread rows over sites",
        },
    ),
    ("L2", {"models": "autoencoders of one set of samples, and the classifiers made of them"}),
    # Knows the models and is below the rest of its layer, so that all of it can save and load.
    ("L3", {"io": "saving and loading everything that can be fitted, without pickle"}),
    (
        "L3",
        {
            "fabrication": "private rows: noise, then smoothing; classifiers on them",
            "transfer": "a private source that helps a target with few labels",
            "release": "rows to publish, with the least informative noise",
            "audit": "what a model or a mechanism gives away",
            "bounds": "one pure function per theorem",
        },
    ),
    # Sites may make their rows private before they answer.
    ("L3", {"federated": "sites answer, a server combines the answers; joining and leaving are exact"}),
    ("L4", {"federated.fhe": "encrypted answers that only the querier can read [extra: fhe]"}),
    # Carries what is encrypted there.
    ("L4", {"federated.flower": "a federation on real machines [extra: federated]"}),
    ("L5", {"report": "tables, plots, one-file HTML pages [extra: report]"}),
    ("L5", {"serve": "local web pages [extra: serve]"}),
    ("L6", {"cli": "the commands: one module each, wired by app.py"}),
    ("L6", {"__main__": "`python -m onefold`"}),
)
RANK = {room: rank for rank, (_, rooms) in enumerate(LAYERS) for room in rooms}
NEVER = {("models", "privacy")}  # they meet above; the other direction points upwards anyway

# These rooms see less than everything below them. The encrypted part sees the pure core of a federation: no
# model and no noise. The runtime sees in addition what a running site needs.
CORE = ("exceptions", "_base", "federated.messages", "federated.rules", "federated.access")
SEES = {
    "federated.fhe": CORE,
    "federated.flower": (
        *CORE,
        "federated.contract",
        "federated.forgotten",  # persons whose rows later fits leave out
        "federated.joined",  # plain sums of sites, and scores of the server, on their way
        "federated.joined_server",
        "federated.local_model",
        "federated.moments",
        "federated.number_sums",  # moments of numbers to predict on their way, and the model of their sum
        "models.FoldingClassifier",  # rehearses where the smallest measures of an encrypted query lie
        "models.JOINED",
        "models.maximum_of",
        "federated.secret",  # encrypted sums on their way
        "federated.server",  # a query from Python ends in one combined result
        "federated.trust",
        "privacy.Ledger",
        "privacy.guarantee",  # what a release will cost is known before it is made
        "privacy.ledger",
        "privacy.moments",  # what sites of a federation of moments agree on
        "federated.fhe",
        "tables",  # sites compare the contracts of their tables, queries are encoded by them
    ),
}

EXTRAS = (
    "cryptography",
    "dp_accounting",
    "flwr",
    "jinja2",
    "matplotlib",
    "onnxruntime",
    "pandas",
    "psycopg",
    "seal",
    "sqlalchemy",
    "tenseal",
    "tokenizers",
)
UNPICKLERS = ("pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal")
# What numpy.random offers besides the functions of its hidden global generator.
RANDOM_CLASSES = {
    "BitGenerator",
    "Generator",
    "MT19937",
    "PCG64",
    "PCG64DXSM",
    "Philox",
    "SFC64",
    "SeedSequence",
    "bit_generator",
    "default_rng",
}

# Most lines of code of a source file. Those that had more when the rule was made may have so many, no more:
# whoever shortens one lowers its number, and takes the line away once the rule holds for it.
MOST_LINES = 450
LONGER_FILES = {
    "federated/flower/server_app.py": 533,
    "models/kahm/core.py": 475,
}


# The ratchet: each number may only fall, and whoever lowers one by more than a fiftieth enters the new one.
# `python -m benchmarks.house` prints all of them with their goals.
RATCHET = {
    "files": 226,
    "lines of code": 41_936,
    "statements": 33_629,
    "functions with more than ten branches": 169,
    "branches of the most complex function": 33,
    "branches of 100 functions on average": 335,
    "modules with one importer": 35,
    "names in __all__": 521,
    "tests of schema is None": 23,
    "annotations Schema | None above tables": 0,
    "(de)serialising functions": 64,
    "private names of other libraries": 19,
    "options": 419,
}
OUTSIDE = ("tests", "experiments", "benchmarks")


# --- reading the tree -------------------------------------------------------------------------------------


def _module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _sources(root: Path) -> Iterator[tuple[str, ast.Module, bool]]:
    """Every file below ``root``: its name inside the package, its syntax tree, is it a package."""
    for path in sorted(root.rglob("*.py")):
        yield (
            _module_name(path, root),
            house.parsed(path.read_text(encoding="utf-8")),
            path.name == "__init__.py",
        )


def _room(module: str) -> str:
    parts = module.split(".")
    two = ".".join(parts[:2])
    return two if two in RANK else parts[0]


@cache
def _imported(tree: ast.Module, module: str, is_package: bool) -> list[tuple[int, str]]:
    """Line and absolute dotted name of everything imported, inside functions and by literal string too."""
    return list(_imports(tree, module, is_package))


def _imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    package = ["onefold", *filter(None, module.split("."))]
    if not is_package:
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "onefold"
        ):
            yield node.lineno, f"onefold.{node.attr}"  # `import onefold` and then a lazy name
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def _is_below(name: str, parents: tuple[str, ...]) -> bool:
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)


def _objection(module: str, target: str) -> str | None:
    """Why ``module`` must not import ``target`` (both without the leading ``onefold.``), or None."""
    here, there = _room(module), _room(target)
    if here == there or target == "__version__":
        return None
    if here not in RANK:
        return f"{here} has no place in the table of layers"
    if there not in RANK:
        return f"{target} has no place in the table of layers and is no lazy name"
    if (here, there) in NEVER or (there, here) in NEVER:
        return f"{here} and {there} never import each other"
    if here in SEES and not _is_below(target, SEES[here]):
        return f"{here} sees only {', '.join(SEES[here])}"
    if RANK[there] >= RANK[here]:
        return f"{here} must not import {there}: imports point downwards"
    return None


def import_violations(root: Path) -> list[str]:
    found = []
    for module, tree, is_package in _sources(root):
        if not module:  # the lazy front door may name everything
            continue
        for line, name in _imported(tree, module, is_package):
            if name == "onefold" or not name.startswith("onefold."):
                continue
            target = onefold._HOMES.get(name.removeprefix("onefold."), name)  # a lazy name counts as its home
            objection = _objection(module, target.removeprefix("onefold."))
            if objection:
                found.append(f"{module}:{line}: {objection}")
    return found


def private_imports(root: Path) -> list[str]:
    """Imports of a name or module that begins with ``_`` from another room; ``_base`` is everybody's."""
    found = []
    for module, tree, is_package in _sources(root):
        for line, name in _imported(tree, module, is_package):
            target = name.removeprefix("onefold.")
            here, there = _room(module), _room(target)
            hidden = any(part.startswith("_") and not part.endswith("__") for part in target.split("."))
            foreign = module and target != name and here != there and there != "_base"
            if hidden and foreign:
                found.append(f"{module}:{line}: {target} is private to {there}")
    return found


def import_cycle(root: Path) -> list[str]:
    """Modules that import each other in a circle, wherever the imports stand; empty if there is none.

    A package that imports its own parts is no circle, and neither are imports for type checkers only.
    """
    names = {module for module, _, _ in _sources(root)}
    graph: dict[str, set[str]] = {}
    for module, tree, is_package in _sources(root):
        if not module:
            continue
        checkers = [
            range(node.lineno, 1 + (node.body[-1].end_lineno or 0))
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and house.dotted(node.test).endswith("TYPE_CHECKING")
        ]
        graph[module] = set()
        for line, name in _imported(tree, module, is_package):
            if any(line in lines for lines in checkers):
                continue
            target = name.removeprefix("onefold.")
            while target and target not in names:
                target = target.rpartition(".")[0]
            own_part = is_package and target.startswith(f"{module}.")
            if name.startswith("onefold.") and target not in ("", module) and not own_part:
                graph[module].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def classes_of_one_name(root: Path) -> dict[str, list[str]]:
    """Names that more than one class of the package has, and the modules they are in."""
    found: dict[str, list[str]] = {}
    for module, tree, _ in _sources(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return {name: places for name, places in found.items() if len(places) > 1}


def second_aliases(root: Path) -> list[str]:
    """Names for a kind of array, and definitions of the names of ``_base.arrays``, in any other module."""
    found = []
    for module, tree, _ in _sources(root):
        if module == "_base.arrays":
            continue
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            value = getattr(node, "value", None)
            if value is None or not ast.unparse(value).startswith("NDArray["):
                names &= set(arrays.__all__)
            found += [f"{module}:{node.lineno}: {name}" for name in sorted(names)]
    return found


def unsafe_calls(root: Path) -> list[str]:
    """Unpickling, arrays of objects, and every use of a hidden global random generator."""
    found = []
    for module, tree, is_package in _sources(root):
        for line, name in _imported(tree, module, is_package):
            if _is_unsafe_name(name):
                found.append(f"{module}:{line}: {name}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and _is_unsafe_name(house.dotted(node)):
                found.append(f"{module}:{node.lineno}: {house.dotted(node)}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and _is_not_false(node.value):
                found.append(f"{module}:{node.value.lineno}: allow_pickle")
    return found


def _is_not_false(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Constant) and value.value is False)


def _is_unsafe_name(name: str) -> bool:
    first, _, rest = name.partition(".")
    if first in (*UNPICKLERS, "random") or name == "joblib.load":
        return True
    if first in ("np", "numpy") and rest.startswith("random."):
        return rest.split(".")[1] not in RANDOM_CLASSES
    return False


def overlong_files(root: Path, longer: dict[str, int]) -> list[str]:
    """Files with more lines of code than they may have, and exceptions that are needed no more."""
    lengths = {
        path.relative_to(root).as_posix(): house.lines_of_code(path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.py"))
    }
    found = [
        f"{name}: {length} lines of code, split it"
        for name, length in lengths.items()
        if length > longer.get(name, MOST_LINES)
    ]
    done = [name for name in longer if lengths.get(name, 0) <= MOST_LINES]
    return [*found, *(f"{name}: no longer an exception" for name in done)]


def slips(numbers: dict[str, int], ratchet: dict[str, int]) -> list[str]:
    """Numbers that have grown, and entries of the ratchet that are a fiftieth or more too high."""
    grown = [
        f"{name}: {numbers[name]}, at most {most}" for name, most in ratchet.items() if numbers[name] > most
    ]
    loose = [
        f"{name}: lower the ratchet from {most} to {numbers[name]}"
        for name, most in ratchet.items()
        if numbers[name] < most * 49 // 50
    ]
    return grown + loose


def squeezed(numbers: dict[str, int]) -> list[str]:
    """Statements above what they may be if they fell by the share by which lines of code fell."""
    most = house.statements_of_the_share(numbers["lines of code"])
    return [f"statements: {numbers['statements']}, at most {most}"] * (numbers["statements"] > most)


def outward_imports(root: Path) -> list[str]:
    """Imports of what is only in a checkout."""
    return [
        f"{module}:{line}: {name}"
        for module, tree, is_package in _sources(root)
        for line, name in _imported(tree, module, is_package)
        if _is_below(name, OUTSIDE)
    ]


# --- the rules hold ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _read_once() -> None:
    """Parse the package for all rules, whichever comes first."""
    for module, tree, is_package in _sources(SOURCE):
        _imported(tree, module, is_package)


def test_imports_point_downwards() -> None:
    assert import_violations(SOURCE) == []


def test_the_house_only_becomes_smaller() -> None:
    assert slips(house.static_numbers(SOURCE.parent) | {"options": RATCHET["options"]}, RATCHET) == []


def test_the_command_line_gets_no_more_options() -> None:
    assert slips({"options": house.count_options()}, {"options": RATCHET["options"]}) == []


def test_the_package_needs_nothing_of_the_checkout() -> None:
    assert outward_imports(SOURCE) == []


def test_every_room_has_a_place_in_the_table() -> None:
    rooms = {_room(_module_name(path, SOURCE)) for path in SOURCE.rglob("*.py")} - {""}
    assert rooms == set(RANK)


def test_no_private_name_is_imported_from_another_room() -> None:
    assert private_imports(SOURCE) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert import_cycle(SOURCE) == []


def test_no_two_classes_have_the_same_name() -> None:
    assert classes_of_one_name(SOURCE) == {}


def test_no_source_file_is_overlong() -> None:
    assert overlong_files(SOURCE, LONGER_FILES) == []


def test_array_aliases_are_defined_once() -> None:
    assert second_aliases(SOURCE) == []


def test_nothing_unpickles_or_draws_from_a_global_generator() -> None:
    assert unsafe_calls(SOURCE) == []


def _modules() -> list[str]:
    names = (_module_name(path, SOURCE) for path in sorted(SOURCE.rglob("*.py")))
    return [f"onefold.{name}".rstrip(".") for name in names if name != "__main__"]


def test_exported_names_exist() -> None:
    for name in _modules():
        try:
            module = importlib.import_module(name)
        except MissingDependencyError:
            continue
        except ImportError as error:
            if (error.name or "").partition(".")[0] in EXTRAS:
                continue
            raise
        exported = getattr(module, "__all__", [])
        assert len(exported) == len(set(exported)), name
        absent = [attribute for attribute in exported if not hasattr(module, attribute)]
        assert absent == [], f"{name}.__all__ names what does not exist"


def _unsorted_exports(root: Path) -> str:
    """Ruff's complaints about the order of ``__all__``: constants, classes, the rest, each sorted."""
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select=RUF022"]
    answer = subprocess.run([*ruff, str(root)], capture_output=True, text=True, check=False)
    return answer.stdout + answer.stderr if answer.returncode else ""


def test_exported_names_are_sorted() -> None:
    assert _unsorted_exports(SOURCE) == ""
    assert onefold.__all__ == sorted(onefold.__all__)  # computed, so that ruff cannot see it


def test_the_lazy_names_are_listed_and_typed() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    static = {
        alias.asname: node.module if node.module != "onefold" else f"onefold.{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert static == onefold._HOMES
    assert set(onefold.__all__) <= set(dir(onefold))


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'onefold' has no attribute 'KHAM'"):
        onefold.KHAM  # noqa: B018


def _loaded_by(statement: str) -> set[str]:
    """Top-level packages outside the standard library that a fresh interpreter loads for ``statement``."""
    script = (
        "import sys; before = set(sys.modules)\n"
        f"{statement}\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(tops - set(sys.stdlib_module_names)))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


def test_importing_the_package_loads_nothing_else() -> None:
    assert _loaded_by("import onefold") == {"onefold"}


EVERYTHING = "import onefold\nfor name in onefold.__all__: getattr(onefold, name)"


@pytest.mark.merge  # three interpreters that load everything
def test_using_every_public_name_loads_no_extra() -> None:
    # scikit-learn loads pandas by itself where it is installed: that is not our doing.
    foundation = _loaded_by("import sklearn.base, numpy, scipy.linalg")
    assert "sklearn" in foundation
    assert (_loaded_by(EVERYTHING) - foundation).isdisjoint(EXTRAS)


@pytest.mark.merge
def test_every_public_name_works_without_any_extra() -> None:
    blocked = f"for extra in {EXTRAS}: sys.modules[extra] = None\n"
    assert "onefold" in _loaded_by(blocked + EVERYTHING)


# --- the checks themselves can fail -----------------------------------------------------------------------


def _plant(root: Path, file: str, line: str) -> Path:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n", encoding="utf-8")
    return root


@pytest.mark.parametrize(
    "file, line",
    [
        ("_base/linear.py", "from onefold.models import KAHM"),
        ("_base/linear.py", "from ..models import kahm"),
        ("_base/__init__.py", "from .. import models"),
        ("models/kahm.py", "import onefold.privacy.mechanisms"),
        ("models/kahm.py", "def f():\n    from onefold import privacy"),
        ("models/kahm.py", "import importlib\nimportlib.import_module('onefold.io')"),
        ("privacy/noise.py", "from onefold.models.kahm import KAHM"),
        ("privacy/noise.py", "from onefold import datasets"),
        ("bounds/theorem.py", "from onefold.audit import score"),
        ("federated/client.py", "from onefold.federated.flower import app"),
        ("federated/client.py", "from .fhe import keys"),
        ("federated/flower/app.py", "from onefold.federated import simulate"),
        ("federated/fhe/keys.py", "from onefold.models import KAHM"),
        ("federated/fhe/keys.py", "from onefold.federated.flower import app"),
        ("federated/fhe/keys.py", "from onefold.federated.local_model import LocalModel"),
        ("federated/flower/app.py", "from onefold.privacy import Laplace"),
        ("report/html.py", "from onefold.cli import app"),
        ("report/html.py", "from onefold import KHAM"),
        ("_base/linear.py", "from onefold import KAHM"),
        ("_base/linear.py", "import onefold\nonefold.KAHM()"),
        ("_base/linear.py", "import onefold\nonefold.io.save"),
        ("exceptions.py", "from onefold._base import optional"),
        ("misc.py", "from onefold._base import optional"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, file: str, line: str) -> None:
    assert len(import_violations(_plant(tmp_path, file, line))) == 1


@pytest.mark.parametrize(
    "file, line",
    [
        ("__init__.py", "from onefold.cli import app"),
        ("cli/app.py", "from onefold import __version__, bounds\nfrom onefold.federated import flower"),
        ("cli/app.py", "import onefold\nonefold.__version__\nonefold.KAHM()"),
        ("federated/flower/app.py", "from onefold.federated import rules\nfrom ..messages import Answer"),
        (
            "federated/flower/app.py",
            "from onefold.privacy import Ledger\nfrom ..local_model import LocalModel",
        ),
        ("federated/fhe/keys.py", "from onefold.federated import rules\nfrom ..messages import Answer"),
        ("federated/flower/app.py", "from onefold._base.optional import require\nfrom . import node"),
        ("federated/client.py", "from onefold.io import save\nfrom .messages import Answer"),
        ("models/kahm/core.py", "from ..compose import deep\nfrom ..._base import linear\nimport numpy"),
    ],
)
def test_an_allowed_import_is_accepted(tmp_path: Path, file: str, line: str) -> None:
    assert import_violations(_plant(tmp_path, file, line)) == []


@pytest.mark.parametrize(
    "file, line",
    [
        ("fabrication/rows.py", "from onefold.models._hull import Hull"),
        ("fabrication/rows.py", "from onefold.models import _hull"),
        ("fabrication/rows.py", "from onefold.models.compose import _blocks"),
        ("fabrication/rows.py", "def f():\n    from ..models import _hull"),
        ("federated/flower/app.py", "from onefold.io import _archive"),
    ],
)
def test_a_private_import_is_found(tmp_path: Path, file: str, line: str) -> None:
    assert len(private_imports(_plant(tmp_path, file, line))) == 1


@pytest.mark.parametrize(
    "file, line",
    [
        ("models/kahm.py", "from onefold._base.arrays import Array\nfrom onefold.models._hull import Hull"),
        ("cli/app.py", "from onefold import __version__\nfrom numpy import _core"),
    ],
)
def test_a_private_import_of_ones_own_is_accepted(tmp_path: Path, file: str, line: str) -> None:
    assert private_imports(_plant(tmp_path, file, line)) == []


def test_a_number_that_grew_and_a_loose_ratchet_are_found() -> None:
    assert slips({"lines": 100, "files": 9}, {"lines": 100, "files": 9}) == []
    assert slips({"lines": 101, "files": 9}, {"lines": 100, "files": 9}) == ["lines: 101, at most 100"]
    assert slips({"lines": 97, "files": 9}, {"lines": 100, "files": 9}) == [
        "lines: lower the ratchet from 100 to 97"
    ]


def test_statements_that_fell_less_than_lines_are_found() -> None:
    start = {name: house.START[name] for name in ("lines of code", "statements")}
    half = {name: count // 2 for name, count in start.items()}
    assert squeezed(start) == squeezed(half) == []
    assert squeezed(start | {"lines of code": start["lines of code"] // 2}) != []
    assert squeezed(half | {"statements": half["statements"] + 1}) != []


@pytest.mark.parametrize("line", ["import experiments.register", "def f():\n    from tests import browsing"])
def test_an_import_from_the_checkout_is_found(tmp_path: Path, line: str) -> None:
    assert len(outward_imports(_plant(tmp_path, "cli/app.py", line))) == 1


def test_a_circle_of_imports_is_found(tmp_path: Path) -> None:
    _plant(tmp_path, "models/hull.py", "from onefold.models.pool import Pool")
    assert import_cycle(_plant(tmp_path, "models/pool.py", "def f():\n    from . import layers")) == []
    cycle = import_cycle(_plant(tmp_path, "models/layers.py", "def f():\n    from . import hull"))
    assert set(cycle) == {"models.hull", "models.pool", "models.layers"}


def test_a_package_and_its_parts_are_no_circle(tmp_path: Path) -> None:
    _plant(tmp_path, "models/__init__.py", "from onefold.models.hull import Hull")
    lines = "if TYPE_CHECKING:\n    from onefold.models.pool import Pool"
    _plant(tmp_path, "models/hull.py", lines)
    assert import_cycle(_plant(tmp_path, "models/pool.py", "from onefold.models.hull import Hull")) == []


def test_two_classes_of_one_name_are_found(tmp_path: Path) -> None:
    _plant(tmp_path, "models/hull.py", "class Layer: ...")
    found = classes_of_one_name(_plant(tmp_path, "report/html.py", "class Page: ...\nclass Layer: ..."))
    assert found == {"Layer": ["models.hull", "report.html"]}


def test_an_overlong_file_and_an_exception_that_is_not_needed_are_found(tmp_path: Path) -> None:
    root = _plant(tmp_path, "models/long.py", "x = 1\n" * (MOST_LINES + 1))
    _plant(tmp_path, "models/short.py", '"""A text.\n\nOf lines.\n"""\n\n# Why.\n' + "x = 1\n" * MOST_LINES)
    assert overlong_files(root, {}) == [f"models/long.py: {MOST_LINES + 1} lines of code, split it"]
    assert overlong_files(root, {"models/long.py": MOST_LINES + 1}) == []
    allowed = {"models/long.py": MOST_LINES + 50, "models/short.py": MOST_LINES + 50}
    assert overlong_files(root, allowed) == ["models/short.py: no longer an exception"]


@pytest.mark.parametrize("line", ["Floats = list[float]", "Mask: TypeAlias = list[bool]"])
def test_a_second_array_alias_is_found(tmp_path: Path, line: str) -> None:
    assert len(second_aliases(_plant(tmp_path, "models/hull.py", line))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "from joblib import load",
        "import joblib\njoblib.load('x')",
        "import numpy as np\nnp.random.normal()",
        "import numpy\nnumpy.random.seed(1)",
        "from numpy.random import rand",
        "from numpy.random import *",
        "from numpy import random\nrandom.normal()",
        "import random",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
    ],
)
def test_an_unsafe_line_is_found(tmp_path: Path, line: str) -> None:
    assert len(unsafe_calls(_plant(tmp_path, "models/kahm.py", line))) == 1


def test_an_unsorted_export_is_found(tmp_path: Path) -> None:
    assert "RUF022" in _unsorted_exports(_plant(tmp_path, "io.py", "__all__ = ['save', 'load']"))


def test_generators_of_ones_own_are_accepted(tmp_path: Path) -> None:
    line = "import numpy as np\nrng = np.random.default_rng(np.random.SeedSequence())\nrng.normal()"
    assert unsafe_calls(_plant(tmp_path, "models/kahm.py", line)) == []
