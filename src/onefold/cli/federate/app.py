"""``onefold federate app``: write a plain Flower app for a SuperLink that exists already."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli.console import print_json, say


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "app",
        help="write a plain Flower app for a SuperLink of your own",
        description="Write a Flower app (ServerApp and ClientApp in Flower's documented interface) that asks "
        "sites in one round. It has none of the protection of onefold's own launcher: see "
        "docs/flower_app.md.",
    )
    parser.add_argument("folder", metavar="DIR", help="folder to make")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write, tell."""
    from onefold.federated.flower import write_plain_app

    root = write_plain_app(args.folder)
    if args.json:
        print_json({"app": str(root)})
    else:
        print(f"{root}: a Flower app; {root / 'README.md'} says how to run it")
        say(
            "plain Flower does not protect what onefold federate server does: docs/flower_app.md", quiet=False
        )
    return 0
