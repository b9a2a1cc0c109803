"""``onefold federate init``: certificates, keys, settings and a guide for a new federation."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import print_json
from onefold.cli.federate import options


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "init",
        help="make the folders, keys and certificates of a federation",
        description="Make a folder for the server and one for each site, with certificates and keys for a "
        "test federation, and GUIDE.md, a page that says what to do next.",
    )
    parser.add_argument(
        "folder", nargs="?", default="federation", metavar="DIR", help="folder to make (default: federation)"
    )
    parser.add_argument("--sites", nargs="+", required=True, metavar="NAME", help="names of the sites")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="HOST",
        help="name or address under which the sites reach the server (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        type=kinds.positive_int,
        default=8443,
        metavar="N",
        help="port of the server (default: 8443)",
    )
    parser.add_argument(
        "--mode",
        choices=("query", "model"),
        default="query",
        help="query: rows go to the sites and numbers return (default); model: private models travel once",
    )
    options.add_rule_options(parser, default="min")
    parser.add_argument("--label", metavar="COL", help="column of --held-out that holds the classes")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="COL", help="column of --held-out to leave out"
    )
    parser.add_argument(
        "--own-keys", action="store_true", help="make no keys for sites: each makes its own, see GUIDE.md"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="use plaintext without keys, on 127.0.0.1 only"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make everything, tell where it is."""
    from onefold.federated.flower import Federation

    options.check_rule(args.rule, args.held_out)
    held_out = options.held_out_rows(args.held_out, args.label, args.ignore)
    made = Federation.create(
        args.folder,
        args.sites,
        host=args.host,
        port=args.port,
        mode=args.mode,
        rule=args.rule,
        n_liars=args.liars,
        held_out=held_out,
        own_keys=args.own_keys,
        insecure=args.insecure,
    )
    root = Path(args.folder)
    folders = {name: str(root / "sites" / name) for name in args.sites}
    guide = str(root / "GUIDE.md")
    if args.json:
        print_json({"server": str(made.folder.root), "sites": folders, "guide": guide})
        return 0
    print(f"server: {made.folder.root}")
    keyless = args.insecure or args.own_keys
    secret = "" if keyless else "  (to be handed over by a safe way: it holds the site's private key)"
    for name, folder in folders.items():
        print(f"site {name}: {folder}{secret}")
    print(f"what to do next: {guide}")
    return 0
