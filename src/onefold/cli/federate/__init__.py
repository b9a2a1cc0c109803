"""``onefold federate``: commands for the operator of the server, for a site and for a querier."""

from typing import Any

from onefold.cli.console import Parser
from onefold.cli.federate import approvals, querier, server, simulate, site, sums, upkeep

__all__ = ["add_parser"]

# In the order of the help: first what everybody needs, then what changes a federation.
PARTS = (
    server.add_init,
    server.add_server,
    site.add_site,
    upkeep.add_update,
    upkeep.add_forget,
    upkeep.add_status,
    querier.add_query,
    querier.add_querykey,
    querier.add_decrypt,
    approvals.add_querier,
    approvals.add_approvals,
    approvals.add_log,
    server.add_status,
    server.add_add,
    server.add_remove,
    server.add_renew,
    upkeep.add_backup,
    simulate.add_simulate,
    sums.add_keys,
    sums.add_sum,
    server.add_app,
)


def add_parser(commands: Any) -> None:
    """Declare the command and its parts."""
    parser = commands.add_parser(
        "federate",
        description="Make one classifier from several sites: a server, sites that keep their data, and "
        "queries, over TLS with a key for every site. Start with onefold federate init. Python programs do "
        "the same with onefold.federated.flower.",
    )
    parts = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    for declare in PARTS:
        declare(parts)
