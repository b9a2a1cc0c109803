"""``onefold federate add``: let a site in by its public key."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli.console import print_json
from onefold.cli.federate import running


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "add",
        help="let a site into the federation",
        description="Let a site in by its public key (ECDSA P-384, in OpenSSH's format): a new one, one that "
        "was removed, or one that was invited and has made a key of its own since. A running server takes "
        "notice within seconds.",
    )
    parser.add_argument("site", metavar="SITE", help="name of the site")
    parser.add_argument(
        "key", nargs="?", metavar="KEY.pub", help="public key of the site (omit it in a plaintext federation)"
    )
    running.add_folder_option(parser, "server")
    parser.add_argument(
        "--make",
        metavar="DIR",
        help="make the folder to hand over to the site; without KEY.pub it holds a new key pair",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make a folder if asked to, add, tell."""
    from onefold.federated.flower import Federation

    made = Federation(args.folder).add(args.site, args.key, make=args.make)
    if args.json:
        print_json({"invited": args.site, "folder": args.make})
        return 0
    print(f"{args.site} may come in")
    if made is not None:
        secret = " by a safe way: it holds the site's private key" if (made / "node.key").exists() else ""
        print(f"{made}: to be handed over{secret}")
    return 0
