"""``onefold ledger``: make the account of what releases of the same data have spent, and read it."""

import argparse
from dataclasses import asdict
from typing import Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import Parser, show
from onefold.cli.outputs import read_guarantee


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
    shown = _add(
        parts,
        "show",
        run_show,
        "print what has been spent, release by release",
        "Print what has been spent, release by release, and the limit.",
        FILE="ledger to read",
    )
    shared.ends(shown, run_show, quiet=False)
    _add(
        parts,
        "backup",
        run_backup,
        "copy a ledger, also while commands spend on it",
        "Copy a ledger as it is at one moment, also while commands spend on it. Copying the file by other "
        "means may give half of it. A copy that is put back lacks what was spent since: "
        "onefold ledger recover enters it.",
        FILE="ledger to copy",
        COPY="file to write; it must not exist",
    )
    _add(
        parts,
        "recover",
        run_recover,
        "enter what an older copy of a ledger lacks",
        "Enter what an older copy of a ledger lacks, from the guarantees of the releases that were made "
        "since. They count whatever the limit says.",
        FILE="ledger that was put back",
        GUARANTEE="guarantee of a release; the word unreleased: nothing was released without a guarantee",
    )


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
    unit = "what is counted: one entry, a record with its label, or all rows of a person"
    option(parser, "--unit", unit, default="record", choices=("entry", "record", "person"))
    shared.add_neighbours(parser, "replace")
    how = "how releases add up; basic allows to choose budgets in view of earlier releases"
    option(parser, "--how", how, default="tightest", choices=("tightest", "basic"))
    shared.ends(parser, run_new)


def _add(parts: Any, name: str, run: Any, about: str, description: str, **files: str) -> Parser:
    """Declare a part that takes files only."""
    parser: Parser = parts.add_parser(name, help=about, description=description)
    for metavar, text in files.items():
        several = {"nargs": "+"} if metavar == "GUARANTEE" else {}
        parser.add_argument(metavar.lower(), metavar=metavar, help=text, **several)  # type: ignore[arg-type]
    parser.set_defaults(run=run)
    return parser


def run_backup(args: argparse.Namespace) -> None:
    """Copy a ledger by the interface of its store."""
    from onefold.privacy import Ledger

    Ledger.load(args.file).backup(args.copy)
    print(f"{args.file} copied to {args.copy}")


def run_recover(args: argparse.Namespace) -> None:
    """Enter the charges of guarantees that the ledger lacks."""
    from onefold.privacy import Ledger

    guarantees = {name: read_guarantee(name) for name in args.guarantee if name != "unreleased"}
    ledger = Ledger.load(args.file)
    missing = ledger.recover(guarantees, unreleased="unreleased" in args.guarantee)
    show({}, [f"charges that were missing and are entered: {missing}", str(ledger)], as_json=False)


def run_new(args: argparse.Namespace) -> None:
    """Write an empty ledger; a file that is there stays."""
    from onefold.privacy import Ledger

    ledger = Ledger(args.epsilon, args.delta, unit=args.unit, how=args.how, neighbours=args.neighbours)
    ledger.save(args.file)
    words = [f"ledger written to {args.file}", str(ledger)]
    show(_plain(args.file, ledger), words, as_json=args.json, quiet=args.quiet)


def run_show(args: argparse.Namespace) -> None:
    """Read a ledger and tell."""
    from onefold.privacy import Ledger

    ledger = Ledger.load(args.file)
    show(_plain(args.file, ledger), [str(ledger)], as_json=args.json)


def _plain(file: str, ledger: Any) -> dict[str, Any]:
    names = ("unit", "neighbours", "limit_epsilon", "limit_delta", "how")
    told = {"ledger": file} | {name: getattr(ledger, name) for name in names}
    told |= dict(zip(("epsilon", "delta"), ledger.total(), strict=True))
    return told | {"events": [asdict(event) for event in ledger.events]}
