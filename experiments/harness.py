"""What all experiments share: options, progress, tables or JSON, and the comparison with recorded numbers.

An experiment is a function from its options to an :class:`Outcome`. Its named values are compared with those
recorded in ``expected.json`` beside the script, each with the tolerance recorded there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import onefold
from onefold.exceptions import DataScaleWarning, OnefoldError
from onefold.report import format_table

DEVIATES, BAD_INPUT = 1, 2
_START = time.perf_counter()


@dataclass(frozen=True)
class Table:
    """One table of results."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Outcome:
    """What an experiment found: named values to compare, tables to read, anything else for figures."""

    values: dict[str, float]
    tables: list[Table]
    details: dict[str, Any] = field(default_factory=dict)


def note(message: str) -> None:
    """A line of progress on standard error, with the seconds since the start."""
    print(f"[{time.perf_counter() - _START:7.1f} s] {message}", file=sys.stderr, flush=True)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Result and seconds of one call."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options every experiment takes; a script may add its own."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument(
        "--data-dir", metavar="DIR", help="folder with the .npz files (default: the variable ONEFOLD_DATA)"
    )
    options.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options.add_argument(
        "--quick", action="store_true", help="run small sizes for a few seconds, only to see that it works"
    )
    return options


def main(
    script: str,
    options: argparse.ArgumentParser,
    experiment: Callable[[argparse.Namespace], Outcome],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run an experiment; 0 when all values agree with the recorded ones, 1 if not, 2 on bad input."""
    args = options.parse_args(arguments)
    # The documents' own settings are measured whatever the scale of the data; the README tells what it does.
    warnings.simplefilter("ignore", DataScaleWarning)
    try:
        outcome = experiment(args)
    except OnefoldError as error:
        print(f"{options.prog}: error: {error}", file=sys.stderr)
        return BAD_INPUT
    deviations = [] if args.quick else compare(outcome.values, recorded(Path(script)))
    if args.json:
        print(json.dumps(_as_json(script, args, outcome, deviations), indent=1))
    else:
        for table in outcome.tables:
            print(f"\n{table.title}\n\n{format_table(table.headers, table.rows)}")
    for line in deviations:
        print(f"differs from expected.json: {line}", file=sys.stderr)
    return DEVIATES if deviations else 0


def recorded(script: Path) -> dict[str, dict[str, float]]:
    """Values recorded for a script: name -> {"value", "tolerance"} or {"at_least"}."""
    return dict(expectations(script)["measured"].get(script.stem, {}))


def documented(script: str, name: str) -> Any:
    """Numbers printed in the document, by name."""
    return expectations(Path(script))["document"][name]


def expectations(script: Path) -> dict[str, Any]:
    """What ``expected_<script>.json`` beside a script holds, or else ``expected.json``."""
    own = script.with_name(f"expected_{script.stem}.json")
    path = own if own.is_file() else script.with_name("expected.json")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def compare(values: dict[str, float], expected: dict[str, dict[str, float]]) -> list[str]:
    """One line for every measured value that is not what was recorded; unmeasured ones are not missed."""
    lines = []
    for name, rule in expected.items():
        if name not in values:
            continue
        value = values[name]
        if "at_least" in rule and not value >= rule["at_least"]:
            lines.append(f"{name} is {value:.4f}, at least {rule['at_least']} was recorded")
        if "value" in rule and not math.isclose(value, rule["value"], rel_tol=0.0, abs_tol=rule["tolerance"]):
            lines.append(f"{name} is {value:.4f}, recorded {rule['value']} ± {rule['tolerance']}")
    return lines


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    return {
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "blas_threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "onefold": onefold.__version__,
    }


def _as_json(
    script: str, args: argparse.Namespace, outcome: Outcome, deviations: list[str]
) -> dict[str, object]:
    path = Path(script)
    return {
        "experiment": f"{path.parent.name}/{path.stem}",
        "quick": args.quick,
        "machine": machine(),
        "values": outcome.values,
        "deviations": deviations,
        "tables": [asdict(table) for table in outcome.tables],
        "details": outcome.details,
    }
