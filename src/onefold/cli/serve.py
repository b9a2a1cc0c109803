"""``onefold serve``: local pages to make private tables, and to watch over a site or a federation."""

import argparse
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from onefold._base.files import write_whole
from onefold.cli.arguments import flag, option, whole
from onefold.cli.console import print_json, say


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "serve",
        description="Open local web pages: make a private table from a file, and, where their folders are "
        "named, watch over a site (who asked, approve, deny, pause) and over a federation (who is there, "
        "remove). The pages can be reached from this machine only, with the token in the address that is "
        "printed, and keep nothing unless it is downloaded, but for the ledger: every private table is "
        "counted there before it is made.",
    )
    option(parser, "--ledger FILE", "account of the rows; made if it is not there (default: one of your own)")
    option(parser, "--site FOLDER", "folder of a site, for the page of its data owner")
    option(parser, "--server FOLDER", "folder of a federation's server, for the page of its operator")
    option(parser, "--port N", "port to listen on (default: a free one)", whole)
    flag(parser, "--open", "open the pages in the browser")
    flag(parser, "--json", "print the address as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Serve until interrupted."""
    from onefold.serve import serve

    def ready(address: str) -> None:
        if args.json:
            print_json({"address": address})
        else:
            print(f"open {address}", flush=True)
            say("whoever has this address can use the pages; stop with Ctrl-C", quiet=False)
        if args.open:
            # A page for this account only: on a command line, everybody on this machine could read the token.
            page = Path(folder) / "onefold.html"
            write_whole(page, f'<meta http-equiv="refresh" content="0; url={address}">'.encode())
            webbrowser.open(page.as_uri())

    with TemporaryDirectory() as folder:
        serve(ledger=args.ledger, site=args.site, federation=args.server, port=args.port or 0, ready=ready)
