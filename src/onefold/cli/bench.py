"""``onefold bench``: the timings of a source checkout."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli.checkout import checkout_with, run_module
from onefold.exceptions import InvalidInputError

FOLDER = "benchmarks"


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bench",
        help="run the benchmarks of a source checkout",
        description="Run the benchmarks that come with the source: timings as ratios.",
    )
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="handed to the benchmarks, after --: -- --json",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run ``python -m benchmarks``."""
    root = checkout_with(FOLDER)
    if not (root / FOLDER / "__main__.py").is_file():
        raise InvalidInputError(f"the folder {FOLDER}/ of this checkout has nothing to run")
    arguments = args.arguments[1:] if args.arguments[:1] == ["--"] else args.arguments
    return run_module(root, FOLDER, arguments)
