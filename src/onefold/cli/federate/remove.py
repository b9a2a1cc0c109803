"""``onefold federate remove``: take a site out, with everything it contributed."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli.console import print_json
from onefold.cli.federate import running


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "remove",
        help="take a site out of the federation, exactly",
        description="Take a site out: its key is not let in any more, its model is deleted, and every later "
        "answer is that of a federation which never had it. Works whether the server is running or not.",
    )
    parser.add_argument("site", metavar="SITE", help="name of the site")
    running.add_folder_option(parser, "server")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Remove, tell."""
    from onefold.federated.flower import Federation

    left = list(Federation(args.folder).remove(args.site).members)
    if args.json:
        print_json({"removed": args.site, "members": left})
    else:
        print(f"{args.site} removed; members now: {', '.join(left) or 'none'}")
    return 0
