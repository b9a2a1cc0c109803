"""``onefold ledger``: make the account of what releases of the same data have spent, and read it."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import Parser, show
from onefold.exceptions import InvalidInputError

COMPOSITIONS = ("tightest", "basic")


def add_parser(commands: Any) -> None:
    """Declare the command and its parts."""
    parser = commands.add_parser(
        "ledger",
        description="Keep account of what releases of the same data have spent. Commands that add noise take "
        "the file with --ledger FILE: they enter what a release spends before it is made, and refuse a "
        "release beyond the limit.",
    )
    parts = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    _add_new(parts)
    _add_show(parts)


def _add_new(parts: Any) -> None:
    parser = parts.add_parser(
        "new",
        help="make a ledger, with the limit that all releases of one dataset keep together",
        description="Make a ledger for all releases of one dataset. Its limit and what it counts cannot be "
        "changed later.",
    )
    parser.add_argument("file", metavar="FILE", help="file to write; it must not exist")
    option(parser, "--epsilon E", "largest total epsilon (default: no limit)", shared.positive)
    option(parser, "--delta D", "largest total delta (default: no limit)", shared.chance)
    unit = "what is counted: one entry of the table, a record (a whole row with its label), or all rows of a "
    option(parser, "--unit", unit + "person", default="record", choices=("entry", "record", "person"))
    option(
        parser,
        "--neighbours",
        "how neighbouring tables differ in a record or person",
        default="replace",
        choices=("replace", "add-remove"),
    )
    how = "how releases add up; basic also allows budgets that are chosen in view of earlier releases"
    option(parser, "--how", how, default="tightest", choices=COMPOSITIONS)
    shared.add_output_options(parser)
    parser.set_defaults(run=run_new)


def _add_show(parts: Any) -> None:
    parser = parts.add_parser(
        "show",
        help="print what has been spent, release by release",
        description="Print what has been spent, release by release, and the limit.",
    )
    parser.add_argument("file", metavar="FILE", help="ledger to read")
    shared.add_output_options(parser, quiet=False)
    parser.set_defaults(run=run_show)


def run_new(args: argparse.Namespace) -> int:
    """Write an empty ledger; a file that is there stays."""
    if Path(args.file).exists():
        raise InvalidInputError(f"{args.file} exists already: onefold ledger show {args.file} reads a ledger")
    from onefold.privacy import Ledger

    ledger = Ledger(args.epsilon, args.delta, unit=args.unit, how=args.how, neighbours=args.neighbours)
    ledger.save(args.file)
    words = [f"ledger written to {args.file}", str(ledger)]
    show(_plain(args.file, ledger), words, as_json=args.json, quiet=args.quiet)
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Read a ledger and tell."""
    from onefold.privacy import Ledger

    ledger = Ledger.load(args.file)
    show(_plain(args.file, ledger), [str(ledger)], as_json=args.json)
    return 0


def _plain(file: str, ledger: Any) -> dict[str, Any]:
    epsilon, delta = ledger.total()
    return {
        "ledger": file,
        "unit": ledger.unit,
        "neighbours": ledger.neighbours,
        "limit_epsilon": ledger.limit_epsilon,
        "limit_delta": ledger.limit_delta,
        "how": ledger.how,
        "epsilon": epsilon,
        "delta": delta,
        "events": [asdict(event) for event in ledger.events],
    }
