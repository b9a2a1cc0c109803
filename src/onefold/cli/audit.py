"""``onefold audit``: what does a stored model give away about the rows it was fitted on?"""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, say
from onefold.cli.outputs import check_writable
from onefold.cli.predict import load_classifier, require_width
from onefold.cli.tables import Table, labels_of, read_table
from onefold.exceptions import InvalidInputError

WIDTH = 88
FEWEST_ROWS = 5


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "audit",
        description="Attack a stored classifier: compare the distances of the rows it was fitted on with "
        "those of rows it has not seen, and say in plain words how much membership shows.",
        epilog="The model file contains the rows it was fitted on: whoever has the file needs no attack. The "
        "audit is about those who may only ask the model.",
    )
    parser.add_argument("model", metavar="MODEL", help="file written by onefold fit")
    parser.add_argument("--train", required=True, metavar="A", help="table the model was fitted on")
    parser.add_argument("--test", required=True, metavar="B", help="table of rows the model has not seen")
    parser.add_argument(
        "--label",
        metavar="COL",
        help="column with the classes; adds an attack that knows the class of each row",
    )
    parser.add_argument("--report", metavar="PATH", help="file for a one-file HTML page with the results")
    kinds.add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, read both tables, attack, tell."""
    if args.report is not None:
        check_writable(args.report)
    with busy(f"loading {args.model}", args.quiet):
        model, names = load_classifier(args.model)
    tables = [_read(path, model, names, args.label, args.quiet) for path in (args.train, args.test)]
    labels = [None if args.label is None else _labels(table, model, args.label) for table in tables]
    # Imported late, here and below: a mistake in a table is told without waiting for scipy.
    from onefold.audit import audit_membership

    with busy("auditing", args.quiet):
        audit = audit_membership(model, tables[0].values, tables[1].values, *labels)
    files = {"model": args.model, "train": args.train, "test": args.test}
    if args.report is not None:
        _write(args.report, audit, files)
    if args.json:
        print_json({**files, **audit.to_dict()})
    elif not args.quiet:
        _tell(audit)
        if args.report is not None:
            print(f"\nreport written to {args.report}")
    return 0


def _read(path: str, model: Any, names: list[str] | None, label: str | None, quiet: bool) -> Table:
    with busy(f"reading {path}", quiet):
        table = read_table(path, keep=[] if label is None else [label], features=names)
    require_width(model, table)
    if len(table.values) < FEWEST_ROWS:
        raise InvalidInputError(f"{path}: an audit needs at least {FEWEST_ROWS} rows")
    if table.ignored:
        say(f"{table.ignored} column(s) of {path} left out: the model does not know them", quiet)
    return table


def _labels(table: Table, model: Any, name: str) -> Any:
    labels = labels_of(table, name)
    known = {str(label) for label in model.classes_}
    if not {str(label) for label in labels} <= known:
        raise InvalidInputError(
            f"{table.path}: label column {name!r} has classes the model was not fitted on"
        )
    return labels


def _write(path: str, audit: Any, files: dict[str, str]) -> None:
    from onefold.report import membership_page, write_page

    facts = {
        "model": files["model"],
        "training rows": f"{audit.attack.n_members} from {files['train']}",
        "test rows": f"{audit.attack.n_nonmembers} from {files['test']}",
    }
    write_page(path, membership_page(audit, "Membership audit", facts))


def _tell(audit: Any) -> None:
    from onefold.report import format_table

    attack = audit.attack
    print(f"{attack.n_members} training rows against {attack.n_nonmembers} test rows\n")
    print(format_table(["", "value", f"{100 * attack.confidence:g} % interval"], audit.rows()) + "\n")
    for note in audit.notes():
        print(fill(f"- {note}", WIDTH, subsequent_indent="  "))
