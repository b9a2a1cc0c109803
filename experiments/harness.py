"""What all experiments share: options, progress, tables or JSON, storing results and comparing with them.

An experiment is a function from its options to an :class:`Outcome`. With ``--store`` its values and tables
are kept in ``results/<folder>/<script>.json``; every other run at full size is compared with what is kept
there, each value with its tolerance from ``register/tolerances.toml``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import onefold
from experiments import stored
from experiments.register import reading, tolerances
from onefold.exceptions import DataScaleWarning, InvalidInputError, OnefoldError
from onefold.report import format_table

DEVIATES, BAD_INPUT = 1, 2
# Options that do not choose what is measured: with any other one, a run measures a part of everything.
_NEUTRAL = frozenset(
    ("data_dir", "json", "quick", "store", "resume", "figure", "markdown", "peer", "threads")
)
_NOT_STORED = {
    "--json": 0,
    "--store": 0,
    "--data-dir": 1,
    "--resume": 1,
    "--figure": 1,
    "--markdown": 1,
    "--peer": 1,
}
_START = time.perf_counter()


@dataclass(frozen=True)
class Table:
    """One table of results.

    ``named_by`` says how many leading cells name a row: when a part is measured again and stored, rows of the
    same name are replaced. None: the fewest that tell the rows apart.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    named_by: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What an experiment found: named values to compare, tables to read, anything else for figures.

    ``seeds`` and ``rows`` (of data used, for instance ``{"training": 60000, "test": 10000}``) are stored with
    it; seeds that are an option of the script need not be given.
    """

    values: dict[str, float]
    tables: list[Table]
    details: dict[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] | None = None
    rows: dict[str, int] | None = None


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
    options.add_argument(
        "--store", action="store_true", help="keep what was measured in experiments/results, with its origin"
    )
    return options


def main(
    script: str,
    options: argparse.ArgumentParser,
    experiment: Callable[[argparse.Namespace], Outcome],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run an experiment; 0 when all values agree with the stored ones, 1 if not, 2 on bad input.

    A run with ``--store`` replaces what it measured; it tells what changed and leaves with 0.
    """
    args = options.parse_args(arguments)
    # The documents' own settings are measured whatever the scale of the data; the README tells what it does.
    warnings.simplefilter("ignore", DataScaleWarning)
    try:
        if args.quick and args.store:
            raise InvalidInputError("a quick run only shows that the script works: it is never stored")
        with _data(args):
            outcome = experiment(args)
        path = Path(script)
        deviations = [] if args.quick else compare(outcome.values, recorded(path), _given(options, args))
        if args.store:
            _store(path, options, args, outcome, sys.argv[1:] if arguments is None else arguments)
    except OnefoldError as error:
        print(f"{options.prog}: error: {error}", file=sys.stderr)
        return BAD_INPUT
    if args.json:
        print(json.dumps(_as_json(script, args, outcome, deviations), indent=1))
    else:
        for table in outcome.tables:
            print(f"\n{table.title}\n\n{format_table(table.headers, table.rows)}")
    for line in deviations:
        print(f"{'changed' if args.store else 'differs from the stored result'}: {line}", file=sys.stderr)
    return DEVIATES if deviations and not args.store else 0


@contextmanager
def _data(args: argparse.Namespace) -> Iterator[None]:
    """A quick run without a folder of data gets one with stand-ins as long as it lasts."""
    if not args.quick or args.data_dir is not None or os.environ.get("ONEFOLD_DATA"):
        yield
        return
    from experiments.data import stand_ins

    with tempfile.TemporaryDirectory() as folder:
        stand_ins.write(Path(folder))
        note("no folder of data: small stand-ins, made of data that come with scikit-learn, and generated")
        args.data_dir = folder
        # Some scripts look at the variable only.
        os.environ["ONEFOLD_DATA"] = folder
        try:
            yield
        finally:
            args.data_dir = None
            del os.environ["ONEFOLD_DATA"]


def _given(options: argparse.ArgumentParser, args: argparse.Namespace) -> frozenset[str]:
    """Names of the options that were set to something else than their default."""
    return frozenset(name for name, value in vars(args).items() if value != options.get_default(name))


def _store(
    script: Path,
    options: argparse.ArgumentParser,
    args: argparse.Namespace,
    outcome: Outcome,
    arguments: Sequence[str],
) -> None:
    seeds = outcome.seeds
    if seeds is None:
        for name in ("seed", "seeds", "splits", "runs", "repeats", "draws"):
            if hasattr(args, name) and getattr(args, name) is not None:
                given = getattr(args, name)
                seeds = (
                    given if isinstance(given, list) else [given] if name == "seed" else list(range(given))
                )
                break
    run = {
        "date": stored.now(),
        "arguments": _stored_arguments(arguments),
        "seeds": None if seeds is None else list(seeds),
        "rows": outcome.rows,
        "seconds": round(time.perf_counter() - _START, 1),
        "machine": machine(),
    }
    stored.store(
        stored.path_of(script),
        run,
        outcome.values,
        [asdict(table) for table in outcome.tables],
        outcome.details,
    )


def _stored_arguments(arguments: Sequence[str]) -> list[str]:
    """What to type to measure the same again, without folders of this machine."""
    kept: list[str] = []
    skip = 0
    for word in arguments:
        name, _, value = word.partition("=")
        if skip:
            skip -= 1
        elif name in _NOT_STORED:
            skip = 0 if value else _NOT_STORED[name]
        else:
            kept.append(word)
    return kept


def recorded(script: Path) -> dict[str, dict[str, Any]]:
    """Values stored for a script: name -> {"value", "tolerance"}, perhaps "at_least" and "needs"."""
    raw = stored.read(stored.path_of(script))
    if raw is None:
        return {}
    rules = tolerances.read(script.resolve().parent.parent / "register").get(raw["experiment"], {})
    return {name: {"value": value, **tolerances.rule(rules, name)} for name, value in raw["values"].items()}


def printed_in(document: str, item: str) -> dict[str, Any]:
    """What a document prints in a table or figure: row of the register -> number or words."""
    return {
        row.row: row.document
        for found in _register()
        if (found.document, found.name) == (document, item)
        for row in found.rows
    }


def printed_for(script: str, value: str) -> Any:
    """What a document prints where the register compares with this value of a script; None if nothing."""
    name = stored.name_of(Path(script))
    rows = (row for item in _register() for row in item.rows)
    return next((row.document for row in rows if (row.experiment, row.ours) == (name, value)), None)


@cache
def _register() -> tuple[reading.Item, ...]:
    return tuple(reading.read())


def compare(
    values: dict[str, float], expected: dict[str, dict[str, Any]], given: Collection[str] = ()
) -> list[str]:
    """One line for every value that is not what was stored, and for every one that is missing on either side.

    ``given`` names the options that a run was started with. One that chooses what is measured makes it a run
    of a part, of which nothing is missed; a value that needs an option is missed only if that was given.
    """
    part = bool(set(given) - _NEUTRAL)
    lines = []
    for name, rule in expected.items():
        if name in values:
            lines += _differences(name, values[name], rule)
        elif not part and rule.get("needs") is None:
            lines.append(f"{name} was not measured, {rule.get('value', rule.get('at_least'))} is stored")
        elif rule.get("needs") in given:
            lines.append(f"{name} was not measured although --{rule['needs']} was given")
    lines += [f"{name} is {values[name]:.4f}, nothing is stored" for name in values if name not in expected]
    return lines


def _differences(name: str, value: float, rule: dict[str, Any]) -> list[str]:
    lines = []
    if "at_least" in rule and not value >= rule["at_least"]:
        lines.append(f"{name} is {value:.4f}, it must be at least {rule['at_least']}")
    if "value" in rule:
        tolerance = rule.get("tolerance", 0.0)
        if not math.isclose(value, rule["value"], rel_tol=0.0, abs_tol=tolerance):
            lines.append(f"{name} is {value:.4f}, stored {rule['value']:.4f} ± {tolerance}")
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
