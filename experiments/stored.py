"""Raw results: what a run at full size measured, in ``experiments/results/<folder>/<script>.json``.

The harness writes these files, nobody else. A script that is measured in pieces merges into one file: a
value, a table's row or a detail that was measured again takes the place of the old one, everything else
stays. Every run is kept as long as one of its values is, and names them, so each number can be traced to its
date, arguments, seeds, rows, machine and versions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onefold._base.files import file_lock, write_whole
from onefold.exceptions import InvalidInputError

RESULTS = "results"
Raw = dict[str, Any]
_KEYS = {"experiment", "runs", "values", "tables", "details"}
_RUN_KEYS = {"date", "measured", "arguments", "seeds", "rows", "seconds", "machine", "transcribed", "source"}


def path_of(script: Path) -> Path:
    """Where the result of a script is stored: beside the folders of all scripts."""
    script = script.resolve()
    return script.parent.parent / RESULTS / script.parent.name / f"{script.stem}.json"


def name_of(path: Path) -> str:
    """``kahm/mnist`` for a script or for its result."""
    return f"{path.parent.name}/{path.stem}"


def read(path: Path) -> Raw | None:
    """A stored result, or None if there is none; a file that is not one is an error."""
    if not path.is_file():
        return None
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InvalidInputError(f"{path.name} in {path.parent.name} is not JSON") from None
    faults = faults_of(raw, name_of(path))
    if faults:
        raise InvalidInputError(f"{name_of(path)} is not a stored result: {faults[0]}")
    return dict(raw)


def faults_of(raw: Any, name: str) -> list[str]:
    """What is wrong with the shape of a stored result."""
    if not isinstance(raw, dict) or set(raw) != _KEYS:
        return [f"it must have the keys {', '.join(sorted(_KEYS))}"]
    faults = []
    if raw["experiment"] != name:
        faults.append(f"it is of the experiment {raw['experiment']!r}")
    for key, value in raw["values"].items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            faults.append(f"{key!r} is not a finite number")
    measured = [key for run in raw["runs"] for key in run.get("measured", [])]
    if len(set(measured)) < len(measured) or set(measured) != set(raw["values"]):
        faults.append("every value must come from exactly one run")
    for run in raw["runs"]:
        faults += [f"a run has the unknown key {key!r}" for key in sorted(set(run) - _RUN_KEYS)]
        faults += [f"a run has no {key}" for key in ("date", "arguments", "measured") if key not in run]
        if run.get("transcribed") and "source" not in run:
            faults.append("a transcribed run does not say where its numbers stood")
    return faults


def store(
    path: Path,
    run: Mapping[str, Any],
    values: Mapping[str, float],
    tables: Sequence[Mapping[str, Any]],
    details: Mapping[str, Any],
) -> Raw:
    """Merge a run into the stored result of its script; all of it is written or nothing."""
    bad = [name for name, value in values.items() if not math.isfinite(value)]
    if bad:
        raise InvalidInputError(f"{bad[0]!r} is not a finite number and cannot be stored")
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(path):
        raw = merged(read(path) or empty(name_of(path)), run, values, tables, details)
        write_whole(path, as_text(raw).encode())
    return raw


def empty(name: str) -> Raw:
    """A result without anything."""
    return {"experiment": name, "runs": [], "values": {}, "tables": [], "details": {}}


def merged(
    raw: Raw,
    run: Mapping[str, Any],
    values: Mapping[str, float],
    tables: Sequence[Mapping[str, Any]],
    details: Mapping[str, Any],
) -> Raw:
    """A stored result after one more run."""
    older = [
        {**former, "measured": [name for name in former["measured"] if name not in values]}
        for former in raw["runs"]
    ]
    titles = [table["title"] for table in raw["tables"]]
    kept = {table["title"]: table for table in raw["tables"]}
    for table in tables:
        kept[table["title"]] = _merged_table(kept.get(table["title"]), table)
    titles += [table["title"] for table in tables if table["title"] not in titles]
    runs = [former for former in older if former["measured"]] + [{**run, "measured": list(values)}]
    # Tables that were copied from a page go with the last value that was copied.
    copied = any(former.get("transcribed") for former in runs)
    return {
        "experiment": raw["experiment"],
        "runs": runs,
        "values": _in_order(raw["values"], values),
        "tables": [kept[title] for title in titles if copied or not kept[title].get("transcribed")],
        "details": {**raw["details"], **details},
    }


def _in_order(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Both, the new one's entries and order first where it has everything."""
    return dict(new) if set(old) <= set(new) else {**old, **new}


def _merged_table(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    table = {key: new[key] for key in ("title", "headers", "rows")}
    if old is None or list(old["headers"]) != list(new["headers"]):
        return table
    named_by = new.get("named_by") or max(_named_by(old["rows"]), _named_by(new["rows"]))
    rows = _in_order(*({_label(row, named_by): row for row in part["rows"]} for part in (old, new)))
    return {**table, "rows": list(rows.values())}


def _label(row: Sequence[Any], named_by: int) -> str:
    return json.dumps(list(row[:named_by]))


def _named_by(rows: Sequence[Sequence[Any]]) -> int:
    """The fewest leading cells that tell the rows of a table apart."""
    width = max((len(row) for row in rows), default=1)
    fitting = (n for n in range(1, width) if len({_label(row, n) for row in rows}) == len(rows))
    return next(fitting, width)


def now() -> str:
    """The present moment, in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_text(raw: Raw) -> str:
    """JSON with one line for every value, and for every row of a table, so that changes can be read."""
    return _pretty(raw, 0) + "\n"


def _pretty(value: Any, depth: int) -> str:
    items: list[str]
    if isinstance(value, Mapping) and value and any(_is_deep(part) for part in value.values()) | (depth == 1):
        items = [f"{json.dumps(str(key))}: {_pretty(part, depth + 1)}" for key, part in value.items()]
        brackets = "{}"
    elif isinstance(value, list | tuple) and any(_is_deep(part) for part in value):
        items, brackets = [_pretty(part, depth + 1) for part in value], "[]"
    else:
        return json.dumps(value, allow_nan=False)
    margin = "\n" + " " * (depth + 1)
    return brackets[0] + margin + f",{margin}".join(items) + "\n" + " " * depth + brackets[1]


def _is_deep(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)
