"""``onefold audit``: what does a stored model give away about the rows it was fitted on?"""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import busy, show
from onefold.cli.models import load_classifier, read_known, tell_ignored
from onefold.cli.outputs import check_writable
from onefold.cli.tables import Table, labels_of
from onefold.exceptions import InvalidInputError

WIDTH = 88
FEWEST_ROWS = 5


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "audit",
        description="Attack a stored classifier: compare its distances to the rows it was fitted on with "
        "those to rows it has not seen, and say how well an attacker can tell the two apart.",
        epilog="The model file contains the rows it was fitted on, so whoever has the file needs no attack. "
        "The audit is about attackers who may only ask the model for answers.",
    )
    parser.add_argument("model", metavar="MODEL", help="file written by onefold fit")
    option(parser, "--train A", "table the model was fitted on", required=True)
    option(parser, "--test B", "table of rows the model has not seen", required=True)
    option(parser, "--label COL", "column with the classes; adds an attack that knows the class of each row")
    shared.add_report(parser)
    shared.add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, read both tables, attack, tell."""
    if args.report is not None:
        check_writable(args.report)
    model, names = load_classifier(args.model, args.quiet)
    tables = [_read(path, model, names, args.label, args.quiet) for path in (args.train, args.test)]
    labels = [None if args.label is None else _labels(table, model, args.label) for table in tables]
    # Imported late, here and below: a mistake in a table is told without waiting for scipy.
    from onefold.audit import audit_membership

    with busy("auditing", args.quiet):
        audit = audit_membership(model, tables[0].values, tables[1].values, *labels)
    files = {"model": args.model, "train": args.train, "test": args.test}
    words = _in_words(audit)
    if args.report is not None:
        _write(args.report, audit, files)
        words += ["", f"report written to {args.report}"]
    show({**files, **audit.to_dict()}, words, as_json=args.json, quiet=args.quiet)
    return 0


def _read(path: str, model: Any, names: list[str] | None, label: str | None, quiet: bool) -> Table:
    table = read_known(path, model, names, [] if label is None else [label], quiet)
    if len(table.values) < FEWEST_ROWS:
        raise InvalidInputError(f"{path}: an audit needs at least {FEWEST_ROWS} rows")
    tell_ignored(table, quiet)
    return table


def _labels(table: Table, model: Any, name: str) -> Any:
    labels = labels_of(table, name)
    known = {str(label) for label in model.classes_}
    if not {str(label) for label in labels} <= known:
        raise InvalidInputError(f"{table.path}: column {name!r} has classes the model was not fitted on")
    return labels


def _write(path: str, audit: Any, files: dict[str, str]) -> None:
    from onefold.report import membership_page, write_page

    facts = {
        "model": files["model"],
        "training rows": f"{audit.attack.n_members} from {files['train']}",
        "test rows": f"{audit.attack.n_nonmembers} from {files['test']}",
    }
    write_page(path, membership_page(audit, "Membership audit", facts))


def _in_words(audit: Any) -> list[str]:
    from onefold.report import format_table

    attack = audit.attack
    headings = ["", "value", f"{100 * attack.confidence:g} % interval"]
    return [
        f"{attack.n_members} training rows against {attack.n_nonmembers} test rows\n",
        format_table(headings, audit.rows()) + "\n",
        *(fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in audit.notes()),
    ]
