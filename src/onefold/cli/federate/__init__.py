"""``onefold federate``: a server, its sites, and queries, one module per sub-command."""

from __future__ import annotations

from typing import Any

from onefold.cli.console import Parser
from onefold.cli.federate import add, init, lock, query, remove, server, simulate, site, status, unseal

__all__ = ["COMMANDS", "add_parser", "query", "site"]

COMMANDS = (init, server, site, query, lock, unseal, status, add, remove, simulate)


def add_parser(commands: Any) -> None:
    """Declare the command and its sub-commands."""
    parser = commands.add_parser(
        "federate",
        help="a federation of several machines",
        description="One classifier for several owners of data: a server, sites that keep their data, and "
        "queries, over TLS with a key for every site. Start with onefold federate init.",
    )
    parts = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.add_parser(parts)
