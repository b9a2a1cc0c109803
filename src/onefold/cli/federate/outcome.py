"""What ``query`` and ``open`` have in common: where predictions go, and what is told about the sites."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onefold.cli.console import print_json, say
from onefold.cli.outputs import STANDARD_OUTPUT
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onefold.cli.federate.encrypted import Opened
    from onefold.federated.server import Result


def destination(args: argparse.Namespace) -> str | None:
    """Where predictions are written: to ``--out``, to the terminal, or with ``--json`` nowhere."""
    out: str | None = args.out if args.out is not None or args.json else STANDARD_OUTPUT
    if out == STANDARD_OUTPUT and args.json:
        raise InvalidInputError("--json and --out - both want standard output")
    return out


def of_sites(results: Sequence[Result | Opened]) -> dict[str, Any]:
    """How many rows, and which sites had a part in them."""
    return {
        "rows": sum(len(result.labels) for result in results),
        "answered": sorted({site for result in results for site in result.answered}),
        "missing": sorted({site for result in results for site in result.missing}),
        "refused": {site: code for result in results for site, code in result.refused.items()},
        "partial": any(result.partial for result in results),
    }


def tell(summary: dict[str, Any], predicted: NDArray[Any], args: argparse.Namespace, quiet: bool) -> None:
    """The summary as JSON, or in a line; and who is missing."""
    if args.json:
        told = {} if destination(args) is not None else {"labels": predicted.tolist()}
        print_json(summary | told)
    else:
        accuracy = f", accuracy {summary['accuracy']:.4f}" if "accuracy" in summary else ""
        where = f", written to {args.out}" if args.out not in (None, STANDARD_OUTPUT) else ""
        say(f"{summary['rows']} rows by {len(summary['answered'])} site(s){where}{accuracy}", quiet)
    if summary["partial"]:
        codes = summary["refused"]
        sites = sorted({*codes, *summary["missing"]})
        without = [f"{site} ({codes.get(site, 'no answer')})" for site in sites]
        say(f"PARTIAL: without {', '.join(without)}", quiet=False)
