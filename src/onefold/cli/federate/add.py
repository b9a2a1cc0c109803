"""``onefold federate add``: let a site in by its public key."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onefold.cli.console import print_json
from onefold.cli.federate import running


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "add",
        help="let a site in",
        description="Let a site in by its public key (ECDSA P-384, in OpenSSH's format); also one that was "
        "removed. A running server takes notice within seconds.",
    )
    parser.add_argument("site", metavar="SITE", help="name of the site")
    parser.add_argument("key", nargs="?", metavar="KEY.pub", help="its public key (none in plaintext)")
    running.add_folder_option(parser, "server")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Add, tell."""
    from onefold.federated.flower.setup import add_site

    add_site(running.server_folder(args), args.site, None if args.key is None else Path(args.key))
    if args.json:
        print_json({"invited": args.site})
    else:
        print(f"{args.site} may come in")
    return 0
