"""``onefold federate status``: who is a member, who is there, and what each site promises."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from onefold.cli.console import print_json
from onefold.cli.federate import running

if TYPE_CHECKING:
    from onefold.federated.flower.registry import Site

WIDTH = 20


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "status",
        help="who is a member and who is there",
        description="Show the sites of a federation, whether they are there, and what they promise about "
        "their rows. Checks the log of who came and went.",
    )
    running.add_folder_option(parser, "server")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read the registry and the run's sign of life, tell."""
    from onefold.federated.flower.registry import Registry
    from onefold.federated.flower.spool import Spool

    folder = running.server_folder(args)
    registry, online = Registry(folder), Spool(folder.spool).status()
    entries = registry.log.verify()
    result: dict[str, Any] = {
        "running": online is not None,
        "mode": folder.settings.mode,
        "rule": folder.settings.rule,
        "log_entries": entries,
        "sites": [_describe(site, online or ()) for site in registry.sites.values()],
    }
    if args.json:
        print_json(result)
        return 0
    state = "running" if online is not None else "NOT running"
    print(f"server {state}, {result['mode']} mode, rule {result['rule']}, log intact ({entries} entries)")
    for site in result["sites"]:
        there = "online" if site["online"] else "offline"
        reason = f" ({site['reason']})" if site["reason"] else ""
        print(f"{site['name']:<{WIDTH}} {site['status']}{reason}, {there}; {_promise(site)}")
    return 0


def _describe(site: Site, online: tuple[str, ...]) -> dict[str, Any]:
    profile = site.profile
    return {
        "name": site.name,
        "status": site.status.value,
        "reason": site.reason,
        "online": site.name in online,
        "classes": None if profile is None else list(profile.classes),
        "features": None if profile is None else profile.n_features,
        "measure": None if profile is None else profile.measure,
        "model": None if profile is None else profile.model_digest,
        "guarantee": None if profile is None else profile.guarantee,
    }


def _promise(site: dict[str, Any]) -> str:
    """The guarantee in half a line, never without its unit."""
    guarantee = site["guarantee"]
    if site["features"] is None:
        return "has not said anything about itself"
    text = f"{len(site['classes'])} classes, {site['features']} features"
    if guarantee is None:
        return f"{text}; NOT private: answers are functions of raw rows"
    if not guarantee["holds"]:
        return f"{text}; guarantee VOID"
    unit = guarantee["unit"]
    pair = guarantee["record" if unit == "record" else "entry"]
    covered = "labels covered too" if guarantee["labels"] else "labels not covered"
    return f"{text}; epsilon {pair['epsilon']:g} per {unit}, delta {pair['delta']:g}, {covered}"
