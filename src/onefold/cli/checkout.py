"""``onefold experiment`` and ``onefold bench``: scripts that come with the source, not with the package."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from onefold.exceptions import InvalidInputError

EXPERIMENTS = "experiments"
BENCHMARKS = "benchmarks"
REGISTER = (
    "list",
    "run",
    "compare",
)  # commands of the register of results, which stands beside the experiments


def add_experiment(commands: Any) -> None:
    """Declare ``onefold experiment``."""
    parser = commands.add_parser(
        "experiment",
        description="Run an experiment that comes with the source. Without a name, list all experiments. "
        "`list [--document 000] [--status differs] [--json]` shows the register: every table, figure, "
        "theorem and algorithm of the five documents, with the document's number, ours and a status. `run "
        "NAME ... [--quick] [--data-dir DIR] [--store] [--resume FOLDER]` runs several, resumably. "
        "`compare [NAME ...] [--json]` says what in the register is not true.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="experiment to run, for instance kahm/mnist, or list, run or compare",
    )
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="arguments handed to the experiment or command",
    )
    parser.set_defaults(run=lambda args: run_experiment(args.name, args.arguments))


def add_bench(commands: Any) -> None:
    """Declare ``onefold bench``."""
    parser = commands.add_parser(
        "bench", description="Run the benchmarks that come with the source; they print timings as ratios."
    )
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="arguments handed to the benchmarks, after --, for instance -- --json",
    )
    parser.set_defaults(run=lambda args: run_bench(args.arguments))


def run_experiment(name: str | None, arguments: list[str]) -> int:
    """List the experiments, run one, or hand over to the register; returns the exit code."""
    root = checkout_with(EXPERIMENTS)
    known = scripts(root, EXPERIMENTS)
    if name is None:
        print("\n".join(known) if known else "no experiments in this checkout")
        return 0
    if name in REGISTER and (root / EXPERIMENTS / "__main__.py").is_file():
        return run_module(root, EXPERIMENTS, [name, *arguments])
    plain = name.removesuffix(".py").strip("/")
    if plain not in known:
        near = get_close_matches(plain, known, n=1, cutoff=0.3)
        hint = f", did you mean {near[0]}?" if near else ""
        raise InvalidInputError(f"no experiment {name!r}{hint} (onefold experiment lists them)")
    return run_module(root, ".".join([EXPERIMENTS, *plain.split("/")]), arguments)


def run_bench(arguments: list[str]) -> int:
    """Run ``python -m benchmarks`` and return its exit code."""
    root = checkout_with(BENCHMARKS)
    if not (root / BENCHMARKS / "__main__.py").is_file():
        raise InvalidInputError(f"the folder {BENCHMARKS}/ of this checkout has nothing to run")
    return run_module(root, BENCHMARKS, arguments[1:] if arguments[:1] == ["--"] else arguments)


def checkout_with(folder: str) -> Path:
    """Find the source checkout around the package, or around the working directory, with this folder."""
    for start in (Path(__file__).resolve().parent, Path.cwd().resolve()):
        for root in (start, *start.parents):
            if (root / "src" / "onefold" / "cli").is_dir() and (root / folder).is_dir():
                return root
    raise InvalidInputError(f"no folder {folder}/ found: this command runs from a source checkout of onefold")


def scripts(root: Path, folder: str) -> list[str]:
    """Runnable scripts in ``folder``: ``kahm/table_1`` for ``kahm/table_1.py``; a leading ``_`` hides."""
    names = []
    for path in sorted((root / folder).rglob("*.py")):
        parts = path.relative_to(root / folder).with_suffix("").parts
        if not any(part.startswith(("_", ".")) for part in parts) and _is_runnable(path):
            names.append("/".join(parts))
    return names


def _is_runnable(path: Path) -> bool:
    return '__name__ == "__main__"' in path.read_text(encoding="utf-8", errors="replace")


def run_module(root: Path, module: str, arguments: list[str]) -> int:
    """Run ``python -m module`` on the checkout in its own process and return its exit code."""
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    sys.stdout.flush()
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=environment, check=False).returncode
