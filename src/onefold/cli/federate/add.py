"""``onefold federate add``: let a site in by its public key."""

from __future__ import annotations

import argparse
import shutil
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
        "removed, or that was invited and has made a key of its own since. A running server takes notice "
        "within seconds.",
    )
    parser.add_argument("site", metavar="SITE", help="name of the site")
    parser.add_argument("key", nargs="?", metavar="KEY.pub", help="its public key (none in plaintext)")
    running.add_folder_option(parser, "server")
    parser.add_argument(
        "--make",
        metavar="DIR",
        help="make the folder to hand over to the site; without KEY.pub with a key pair in it",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make a folder if asked to, add, tell."""
    from onefold.federated.flower.folders import SiteFolder
    from onefold.federated.flower.setup import add_site, make_site_folder

    server, key = running.server_folder(args), None if args.key is None else Path(args.key)
    made = None if args.make is None else SiteFolder(Path(args.make))
    if made is not None:
        with_key = key is None and not server.settings.insecure
        make_site_folder(server, made, args.site, with_key)
        key = made.public_key if with_key else key
    try:
        add_site(server, args.site, key)
    except BaseException:  # nothing is left of what was made for nothing
        if made is not None:
            shutil.rmtree(made.root)
        raise
    if args.json:
        print_json({"invited": args.site, "folder": args.make})
        return 0
    print(f"{args.site} may come in")
    if made is not None:
        secret = " by a safe way: it holds the site's private key" if made.key.exists() else ""
        print(f"{made.root}: to be handed over{secret}")
    return 0
