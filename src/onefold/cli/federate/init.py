"""``onefold federate init``: certificates, keys, settings and a guide for a new federation."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import print_json
from onefold.cli.federate import rules


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "init",
        help="make the folders, keys and certificates of a federation",
        description="Make a folder for the server and one for each site, with certificates and keys for a "
        "test federation, and GUIDE.md, a page that says what to do next.",
    )
    parser.add_argument("folder", nargs="?", default="federation", metavar="DIR", help="to make (federation)")
    parser.add_argument("--sites", nargs="+", required=True, metavar="NAME", help="names of the sites")
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="server, as sites reach it")
    parser.add_argument(
        "--port", type=kinds.positive_int, default=8443, metavar="N", help="of the server (8443)"
    )
    parser.add_argument(
        "--mode",
        choices=("query", "model"),
        default="query",
        help="query: rows go to the sites, numbers return (default); model: private models travel once",
    )
    rules.add_rule_options(parser, default="min")
    parser.add_argument("--label", metavar="COL", help="column of --held-out with the classes")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="COL", help="column to leave out of it"
    )
    parser.add_argument(
        "--own-keys", action="store_true", help="make no keys for sites: each makes its own, see GUIDE.md"
    )
    parser.add_argument("--insecure", action="store_true", help="plaintext, without keys; on 127.0.0.1 only")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make everything, tell where it is."""
    from onefold.federated.flower.folders import ServerSettings
    from onefold.federated.flower.setup import create_federation

    settings = ServerSettings(args.host, args.port, args.mode, args.rule, args.liars, args.insecure)
    rules.check_rule(args.rule, args.held_out)
    rows = None
    if args.held_out is not None:
        rows = rules.held_out_rows(args.held_out, args.label, args.ignore)
    root = Path(args.folder)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = create_federation(root, args.sites, settings, args.own_keys)
    if rows is not None:
        rules.keep_rows(server, rows)
    folders = {name: str(root / "sites" / name) for name in args.sites}
    guide = str(root / "GUIDE.md")
    if args.json:
        print_json({"server": str(server.root), "sites": folders, "guide": guide})
        return 0
    print(f"server: {server.root}")
    keyless = args.insecure or args.own_keys
    secret = "" if keyless else "  (to be handed over by a safe way: it holds the site's private key)"
    for name, folder in folders.items():
        print(f"site {name}: {folder}{secret}")
    print(f"what to do next: {guide}")
    return 0
