"""``onefold federate status``: who is a member, who is connected, and what each site promises."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from onefold.cli.console import print_json
from onefold.cli.federate import running

if TYPE_CHECKING:
    from onefold.federated.flower import SiteStatus

WIDTH = 20


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "status",
        help="show the sites of a federation and what they promise",
        description="Show the sites of a federation, whether they are connected, and what they promise about "
        "their rows. Checks the log of who came and went.",
    )
    running.add_folder_option(parser, "server")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read the state of the federation, tell."""
    from onefold.federated.flower import Federation

    found = Federation(args.folder).status()
    if args.json:
        print_json(found.to_dict())
        return 0
    state = "running" if found.running else "NOT running"
    print(f"server {state}, {found.mode} mode, rule {found.rule}, log intact ({found.log_entries} entries)")
    for site in found.sites:
        there = "online" if site.online else "offline"
        reason = f" ({site.reason})" if site.reason else ""
        print(f"{site.name:<{WIDTH}} {site.status}{reason}, {there}; {_promise(site)}")
    return 0


def _promise(site: SiteStatus) -> str:
    """The guarantee in half a line, never without its unit."""
    guarantee = site.guarantee
    if site.features is None or site.classes is None:
        return "has not said anything about itself"
    text = f"{len(site.classes)} classes, {site.features} features"
    if guarantee is None:
        return f"{text}; NOT private: answers are functions of raw rows"
    if not guarantee["holds"]:
        return f"{text}; guarantee VOID"
    unit = guarantee["unit"]
    pair = guarantee["record" if unit == "record" else "entry"]
    covered = "labels covered too" if guarantee["labels"] else "labels not covered"
    return f"{text}; epsilon {pair['epsilon']:g} per {unit}, delta {pair['delta']:g}, {covered}"
