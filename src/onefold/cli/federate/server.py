"""``onefold federate server``: run the server until it is told to stop."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import print_json
from onefold.cli.federate import running


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "server",
        help="run the server of a federation",
        description="Let the sites in by their keys and carry queries to them, until interrupted. Members, "
        "their profiles and the log of who came and went are kept over restarts.",
    )
    running.add_folder_option(parser, "server")
    parser.add_argument(
        "--bind", metavar="ADDRESS", help="address to listen on (default: all addresses of this machine)"
    )
    parser.add_argument("--seconds", type=kinds.positive, metavar="S", help="stop after this many seconds")
    parser.add_argument("--json", action="store_true", help="print what happens as JSON")
    parser.set_defaults(run=running.with_exit_code(run))


def run(args: argparse.Namespace) -> int:
    """Start, tell, watch, stop."""
    from onefold.federated.flower import Federation

    ready = partial(_tell, as_json=args.json)
    with running.until_stopped() as keep_going:
        Federation(args.folder).serve(args.seconds, bind=args.bind, ready=ready, keep_going=keep_going)
    return 0


def _tell(settings: Any, as_json: bool) -> None:
    if as_json:
        print_json({"ready": True, "host": settings.host, "port": settings.port, "mode": settings.mode})
        return
    security = "PLAINTEXT, for tests" if settings.insecure else "TLS, sites known by their keys"
    what = f"{settings.mode} mode, rule {settings.rule}; {security}"
    running.tell(f"ready at {settings.host}:{settings.port} ({what})")
