"""Whether the register is true: every status is computed again from the stored results.

A fault is one line. There is none when every value that the register names is stored, every stored value is
used by the register or by the results page, every "reproduced" is within its tolerance, every other status
has a reason, and everything that is not a table or a figure names the code that implements it and the test
that checks it.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from experiments import stored
from experiments.register import reading, tolerances
from experiments.register.reading import Item, Row

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / stored.RESULTS
MEASURED = ("table", "figure")  # their numbers come from an experiment
_SHORTEST_REASON = 20


@dataclass(frozen=True)
class Line:
    """One row of the register with what is stored about it."""

    item: Item
    row: Row
    ours: float | None
    run: Mapping[str, Any]

    @property
    def difference(self) -> float | None:
        """Ours minus the document's, where both are numbers."""
        if self.ours is None or not isinstance(self.row.document, int | float):
            return None
        return self.ours - self.row.document

    def as_json(self) -> dict[str, Any]:
        """Everything that is known, for programs."""
        row = self.row
        command = (
            ["python", "-m", "experiments." + row.experiment.replace("/", ".")] if row.experiment else []
        )
        return {
            "document": self.item.document,
            "item": self.item.name,
            "kind": self.item.kind,
            "about": self.item.about,
            "row": row.row,
            "printed": row.document,
            "ours": self.ours,
            "difference": self.difference,
            "tolerance": row.tolerance,
            "status": row.status,
            "reason": row.reason,
            "experiment": row.experiment or None,
            "command": " ".join([*command, *self.run.get("arguments", [])]) or None,
            "seeds": self.run.get("seeds"),
            "rows": self.run.get("rows"),
            "date": self.run.get("date"),
            "transcribed": bool(self.run.get("transcribed")),
            "raw_result": f"experiments/results/{row.experiment}.json" if self.ours is not None else None,
            "value": row.ours,
            "code": self.item.code or None,
            "test": self.item.test or None,
            "page": self.item.page or None,
        }


def results(folder: Path = RESULTS) -> dict[str, stored.Raw]:
    """Every stored result by the name of its experiment."""
    found = {}
    for path in sorted(folder.glob("*/*.json")):
        raw = stored.read(path)
        assert raw is not None
        found[stored.name_of(path)] = raw
    return found


def lines(items: Iterable[Item], raw: Mapping[str, stored.Raw]) -> list[Line]:
    """Every row of the register with the stored value and the run that it came from."""
    return [
        (_mean if row.mean_of else _line)(item, row, raw.get(row.experiment))
        for item in items
        for row in item.rows
    ]


def _mean(item: Item, row: Row, raw: stored.Raw | None) -> Line:
    """The mean of other rows, nothing as long as one of them is missing; its run is the latest of theirs."""
    parts = [_line(item, part, raw) for part in reading.parts_of(row, item.rows)]
    found = [part.ours for part in parts if part.ours is not None]
    if len(found) < len(parts):
        return Line(item, row, None, {})
    return Line(item, row, sum(found) / len(found), max((part.run for part in parts), key=_date))


def _date(run: Mapping[str, Any]) -> str:
    return str(run["date"])


def _line(item: Item, row: Row, raw: stored.Raw | None) -> Line:
    if row.ours is None or raw is None or row.ours not in raw["values"]:
        return Line(item, row, None, {})
    run = next(run for run in raw["runs"] if row.ours in run["measured"])
    return Line(item, row, float(raw["values"][row.ours]), run)


def faults(
    items: Iterable[Item],
    raw: Mapping[str, stored.Raw],
    shown: Mapping[str, Collection[str]] = MappingProxyType({}),
    root: Path = ROOT,
) -> list[str]:
    """Everything that is not true, one line each; ``shown`` names the values on the results page."""
    items = list(items)
    found = [fault for line in lines(items, raw) for fault in _faults_of(line, root)]
    found += [fault for item in items for fault in _faults_of_item(item, root)]
    used = {(row.experiment, row.ours) for item in items for row in item.rows if row.ours}
    rules = tolerances.read(root / "experiments" / "register")
    for name, result in raw.items():
        if not is_script(root, name):
            found.append(f"{name}: a result is stored, but there is no such experiment")
        for value in result["values"]:
            if value not in shown.get(name, ()) and (name, value) not in used:
                found.append(
                    f"{name}: {value!r} is stored, but neither the register nor the results page use it"
                )
            if not tolerances.rule(rules.get(name, {}), value):
                found.append(f"{name}: {value!r} has no tolerance in {tolerances.FILE}")
    return found


def _faults_of(line: Line, root: Path) -> list[str]:
    row = line.row
    place = f"{line.item.document} {line.item.name}, {row.row}"
    found = []
    if row.status != "reproduced" and len(row.reason) < _SHORTEST_REASON:
        found.append(f"{place}: {row.status!r} needs a reason")
    if row.mean_of and line.ours is None and row.status != "not available":
        found.append(f"{place}: a row of the mean has no stored value")
    if row.ours is not None and line.ours is None:
        found.append(f"{place}: {row.ours!r} is not stored for {row.experiment or 'any experiment'}")
    if row.experiment and not is_script(root, row.experiment):
        found.append(f"{place}: there is no experiment {row.experiment}")
    if row.status == "not available" and (row.ours or line.ours) is not None:
        found.append(f"{place}: it has a value, so it is available")
    if row.status == "reproduced" and line.item.kind in MEASURED:
        if line.ours is None and not (line.item.page and row.document is None):
            found.append(f"{place}: 'reproduced' without a stored value")
        if line.difference is not None and not abs(line.difference) <= row.tolerance:
            found.append(f"{place}: {line.ours:g} is not within {row.tolerance:g} of {row.document}")
    if row.status in ("differs", "other data") and line.item.kind in MEASURED and line.ours is None:
        found.append(f"{place}: {row.status!r} without a stored value")
    return found


def _faults_of_item(item: Item, root: Path) -> list[str]:
    place = f"{item.document} {item.name}"
    found = []
    if item.kind not in MEASURED and item.status != "not available" and not (item.code and item.test):
        found.append(f"{place}: neither code and test nor a reason why there are none")
    if item.page and not (root / item.page).is_file():
        found.append(f"{place}: there is no {item.page}")
    found += [f"{place}: there is no {name}" for name in item.code.split() if not exists_in_code(name)]
    found += [f"{place}: there is no test {name}" for name in item.test.split() if not is_test(root, name)]
    return found


def is_script(root: Path, name: str) -> bool:
    """Whether an experiment of this name is there, or a benchmark."""
    folder = root if name.startswith("benchmarks/") else root / "experiments"
    return (folder / f"{name}.py").is_file()


@cache
def exists_in_code(name: str) -> bool:
    """Whether a dotted name, such as ``onefold.privacy.OptimalNoise.cdf``, can be imported."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@cache
def is_test(root: Path, name: str) -> bool:
    """Whether ``tests/file.py::test_name`` is there; a class or a method may be named too."""
    path, _, test = name.partition("::")
    file = root / path
    return file.is_file() and bool(test) and test.split("::")[-1] in _functions(file)


@cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
