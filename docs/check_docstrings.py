"""``python docs/check_docstrings.py [NAME ...]``: are the docstrings of all public names complete?

Public are the names in the ``__all__`` of the package, of every room and of modules that a room exports, and
the public methods and properties of these classes. A NAME such as ``privacy`` or ``models.KAHM`` restricts
the check; ``--counts`` prints only how many findings each room has. The checks are those of
``numpydoc.validate``:

* GL08: there is a docstring. SS01-SS03, SS06: it begins with one line, a capital letter, a full stop.
* PR01-PR07, PR10: every parameter of the signature is documented, in its order, with a type and a
  description, and nothing else is.
* PD01: a default of the signature is stated with the type, and is the one of the signature.
* RT01, RT03, YD01: what a function returns or yields is described.
* SA01, EX01, for classes and functions: there are a *See Also* and an *Examples* section. Errors, warnings,
  enumerations and protocols need no example.

Left out: GL01-GL03 (how a docstring is laid out: ruff formats it), SS05 (a noun phrase may begin with a
plural), PR08 and PR09 (a description may begin with a letter of an equation), GL06 (*Guarantees* is a section
of ours), ES01 (one line may be all there is to say).
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import ast
import enum
import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

ROOMS = (
    "exceptions",
    "privacy",
    "encoders",
    "datasets",
    "models",
    "io",
    "fabrication",
    "transfer",
    "release",
    "tables",
    "audit",
    "bounds",
    "federated",
    "federated.fhe",
    "federated.flower",
    "report",
)
EVERYWHERE = {"GL08", "SS01", "SS02", "SS03", "SS06", "YD01", "RT01", "RT03"} | {
    f"PR{number:02}" for number in (1, 2, 3, 4, 5, 6, 7, 10)
}
FOR_CLASSES_AND_FUNCTIONS = {"SA01", "EX01"}


def public_names() -> Iterator[tuple[str, str, Any]]:
    """Room, dotted name and object of every public class and function, each once."""
    seen: set[int] = set()
    for room in ROOMS:
        module = importlib.import_module(f"onefold.{room}")
        for name, value in _exported(module):
            if id(value) not in seen:
                seen.add(id(value))
                yield room, name, value


def _exported(module: Any) -> Iterator[tuple[str, Any]]:
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.ismodule(value):
            if f"{module.__name__}.{name}" not in {f"onefold.{room}" for room in ROOMS}:
                yield from _exported(value)
        elif inspect.isclass(value) or inspect.isroutine(value):
            yield f"{module.__name__}.{name}", value


def members(name: str, kind: type) -> Iterator[str]:
    """Public methods and properties of a class that were written in this package."""
    for member, value in inspect.getmembers_static(kind):
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        plain = plain.fget if isinstance(plain, property) else plain
        if member.startswith("_") or not inspect.isfunction(plain):
            continue
        if (plain.__module__ or "").startswith("onefold"):
            yield f"{name}.{member}"


def _needs_no_example(value: Any) -> bool:
    special = (BaseException, enum.Enum)
    return inspect.isclass(value) and (issubclass(value, special) or Protocol in value.__bases__)


def findings(name: str, codes: set[str]) -> list[str]:
    """What is wrong with one docstring, one line each."""
    errors = validate(name)["errors"]
    return [f"{name}: {code} {text}" for code, text in errors if code in codes]


def defaults_not_stated(name: str, value: Any) -> list[str]:
    """Parameters whose default is missing in the docstring, or is another one there."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # a class without a constructor of its own
        return []
    found = []
    for documented in NumpyDocString(inspect.cleandoc(value.__doc__ or ""))["Parameters"]:
        for parameter in map(signature.parameters.get, documented.name.split(", ")):
            if parameter is None or documented.type == "ignored":
                continue
            has_default = parameter.default is not inspect.Parameter.empty
            _, states_default, stated = documented.type.rpartition("default=")
            if has_default != bool(states_default):
                found.append(f"{name}: PD01 Default of {parameter.name} is not that of the signature")
            elif has_default and _differs(stated, parameter.default):
                found.append(f"{name}: PD01 Default of {parameter.name} is {parameter.default!r}")
    return found


def _differs(stated: str, default: Any) -> bool:
    """Whether a default is stated as another value; what is no literal is not compared."""
    try:
        literal = ast.literal_eval(stated)
    except (SyntaxError, ValueError):
        return False
    return isinstance(default, bool | int | float | str | tuple | None) and literal != default


def check(only: list[str]) -> tuple[Counter[str], list[str]]:
    """Findings per room, and all of them."""
    counts: Counter[str] = Counter(dict.fromkeys(ROOMS, 0))
    lines: list[str] = []
    for room, name, value in public_names():
        short = name.removeprefix("onefold.")
        if only and not any(short == part or short.startswith(f"{part}.") for part in only):
            continue
        codes = EVERYWHERE | FOR_CLASSES_AND_FUNCTIONS
        if _needs_no_example(value):
            codes = codes - FOR_CLASSES_AND_FUNCTIONS
        found = findings(name, codes) + defaults_not_stated(name, value)
        if inspect.isclass(value):
            for member in members(name, value):
                found += findings(member, EVERYWHERE)
                found += defaults_not_stated(member, getattr(value, member.rpartition(".")[2]))
        counts[room] += len(found)
        lines += found
    return counts, lines


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(
        prog="python docs/check_docstrings.py", description="Check the docstrings of all public names."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="room or name to check (default: everything)"
    )
    parser.add_argument(
        "--counts", action="store_true", help="print the number of findings of each room only"
    )
    args = parser.parse_args()
    counts, lines = check(args.names)
    if args.counts:
        for room, count in counts.items():
            print(f"{room:<20}{count:>6}")
    else:
        print(*lines, sep="\n", end="\n" if lines else "")
    print(f"{len(lines)} findings in {sum(1 for _ in public_names())} public classes and functions")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
