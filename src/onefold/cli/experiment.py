"""``onefold experiment``: run one of the experiments of a source checkout."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from typing import Any

from onefold.cli.checkout import checkout_with, run_module, scripts
from onefold.exceptions import InvalidInputError

FOLDER = "experiments"


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "experiment",
        help="run an experiment of a source checkout",
        description="Run an experiment that comes with the source. Without a name, list them.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="for instance kahm/mnist")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="handed to the experiment")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List the experiments, or run one."""
    root = checkout_with(FOLDER)
    known = scripts(root, FOLDER)
    if args.name is None:
        print("\n".join(known) if known else "no experiments in this checkout")
        return 0
    name = args.name.removesuffix(".py").strip("/")
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.3)
        hint = f", did you mean {near[0]}?" if near else ""
        raise InvalidInputError(f"no experiment {args.name!r}{hint} (onefold experiment lists them)")
    return run_module(root, ".".join([FOLDER, *name.split("/")]), args.arguments)
