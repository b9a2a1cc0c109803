"""``onefold federate``: a server, its sites, and queries, one module per sub-command."""

from __future__ import annotations

from typing import Any

from onefold.cli.console import Parser
from onefold.cli.federate import (
    add,
    app,
    decrypt,
    init,
    query,
    querykey,
    remove,
    server,
    simulate,
    site,
    status,
)

__all__ = ["COMMANDS", "add_parser", "query", "site"]

COMMANDS = (init, server, site, query, querykey, decrypt, status, add, remove, simulate, app)


def add_parser(commands: Any) -> None:
    """Declare the command and its sub-commands."""
    parser = commands.add_parser(
        "federate",
        help="run a federation of several machines and ask it",
        description="One classifier from several sites: a server, sites that keep their data, and queries, "
        "over TLS with a key for every site. Start with onefold federate init. The same from Python: "
        "onefold.federated.flower.",
    )
    parts = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.add_parser(parts)
