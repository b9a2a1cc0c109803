"""``onefold audit``: what does a stored model, or a synthetic table, give away?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import option
from onefold.cli.console import busy
from onefold.cli.models import load_model, read_rows
from onefold.exceptions import InvalidInputError
from onefold.report.builders import NOT_PRIVATE

if TYPE_CHECKING:
    from onefold.audit import AttackResult

WIDTH = 88
FEWEST_ROWS = 5
SAMPLE = (50_000, 3000, 3000)  # most synthetic rows, training rows and test rows that are compared
TABLE_NOTES = (
    "The attack is a simple one. A guarantee of the table bounds all attacks; this number bounds none.",
    "Training and test rows must be of the same kind: otherwise their difference is measured.",
    NOT_PRIVATE,
)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "audit",
        description="Attack a stored classifier: compare its answers (distances, probabilities, classes) "
        "to the rows it was fitted on with those to rows it has not seen, and say how well an attacker can "
        "tell the two apart. With "
        "--synthetic, the same by distances to the nearest row of a synthetic table.",
        epilog="The model file contains the rows it was fitted on, so whoever has the file needs no attack. "
        "The audit is about attackers who may only ask the model for answers. What a release "
        "with noise claims is attacked in Python, by onefold.audit.attack and audit_epsilon.",
    )
    parser.add_argument("model", metavar="MODEL", nargs="?", help="file written by onefold fit")
    option(parser, "--synthetic TABLE", "synthetic table to attack instead of a model; needs --schema")
    shared.add_schema(parser, "by which --synthetic and its rows are read")
    option(parser, "--train A", "table the model was fitted on, or the synthetic table was made from")
    option(parser, "--test B", "table of rows the model, or whoever made the table, has not seen")
    option(parser, "--label COL", "column with the classes; adds attacks that know the class of each row")
    reports.add_report(parser, card=False)
    shared.ends(parser, run)


def run(args: argparse.Namespace) -> None:
    """Attack a model or a synthetic table, and tell."""
    reports.check_report(args)
    if args.synthetic or args.schema:
        _run_on_table(args)
    elif None in (args.model, args.train, args.test):
        raise InvalidInputError("name a MODEL or --synthetic with --train and --test")
    else:
        _run_on_model(args)


def _run_on_model(args: argparse.Namespace) -> None:
    """Load, read both tables, attack, tell."""
    model, names = load_model(args.model, args.quiet, classes=True)
    tables = []
    for path in (args.train, args.test):
        table = read_rows(path, model, names, label=args.label, quiet=args.quiet)
        if np.sum(table.known) < FEWEST_ROWS:
            raise InvalidInputError(f"{path}: an audit needs at least {FEWEST_ROWS} rows")
        if table.y is not None and not set(map(str, table.y)) <= set(map(str, model.classes_)):
            raise InvalidInputError(f"{path}: column {args.label!r} has classes the model was not fitted on")
        tables.append(table)
    # Imported late, here and below: a mistake in a table is told without waiting for scipy.
    from onefold.audit import audit_membership
    from onefold.report.builders import of_membership

    with busy("auditing", args.quiet):
        audit = audit_membership(model, *(each.labelled.X for each in tables), *(each.y for each in tables))
    attack, files = audit.attack, {"model": args.model, "train": args.train, "test": args.test}
    facts = {
        "model": reports.file_name(args.model),
        "training rows": f"{attack.n_members} from {reports.file_name(args.train)}",
        "test rows": f"{attack.n_nonmembers} from {reports.file_name(args.test)}",
        "SHA-256 of the model": reports.digest(args.model),
    }
    words = _in_words(attack, audit.rows(), audit.notes())
    accuracies = (
        None if audit.accuracies is None else dict(zip(("train", "test"), audit.accuracies, strict=True))
    )
    result = files | {
        "verdict": audit.verdict,
        "strongest": audit.strongest,
        "attacks": {name: _numbers(attack) for name, attack in audit.attacks.items()},
        "confidence": audit.confidence,
        "membership_inference_score": audit.score,
        "accuracy": accuracies,
        "shared_rows": audit.n_shared,
        "notes": audit.notes(),
    }
    reports.tell(args, result, words, lambda: of_membership(audit, "Membership audit", facts))


def _in_words(attack: AttackResult, rows: Any, notes: Sequence[str]) -> list[str]:
    from onefold.report import format_table

    headings = ["", "value", f"{100 * attack.confidence:.3g} % interval"]
    return [
        f"{attack.n_members} training rows against {attack.n_nonmembers} test rows\n",
        format_table(headings, rows) + "\n",
        *(fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in notes),
    ]


def _numbers(attack: Any) -> dict[str, Any]:
    """The fields of an attack, without the curve and without thresholds, which may be infinite."""
    fields = {name: value for name, value in asdict(attack).items() if not isinstance(value, np.ndarray)}
    for point in fields["points"]:
        del point["threshold"]
    return fields


# --- synthetic tables ---------------------------------------------------------------------------------------


def _run_on_table(args: argparse.Namespace) -> None:
    """Compare how near members and others are to synthetic rows, and tell."""
    if args.model is not None or args.label is not None:
        raise InvalidInputError("--synthetic takes no MODEL and no --label: the schema says all")
    if None in (args.synthetic, args.schema, args.train, args.test):
        raise InvalidInputError("--synthetic TABLE goes with --schema, --train and --test")
    from onefold.tables import Schema, read_table

    schema = Schema.load(args.schema)
    files = {"synthetic": args.synthetic, "train": args.train, "test": args.test}
    with busy("reading", args.quiet):
        tables = [read_table(path, schema=schema) for path in files.values()]
        made, *others = [_encoded(schema, table, most) for table, most in zip(tables, SAMPLE, strict=True)]
    from sklearn.neighbors import NearestNeighbors

    from onefold.audit import distance_attack
    from onefold.report.builders import of_distances

    with busy("attacking", args.quiet):
        nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(made)
        train, test = (nearest.kneighbors(rows)[0][:, 0] for rows in others)
        attack = distance_attack(train, test)
    what = "distance to the nearest synthetic row"
    rows, notes = attack.rows(what), [attack.verdict(what), *TABLE_NOTES]
    facts: dict[str, Any] = {name: reports.file_name(path) for name, path in files.items()}
    facts["SHA-256 of the synthetic table"] = reports.digest(args.synthetic)
    reports.tell(
        args,
        {**files, "attack": _numbers(attack), "notes": notes},
        _in_words(attack, rows, notes),
        lambda: of_distances(attack, (train, test), "Audit of a synthetic table", facts, rows, notes, what),
    )


def _encoded(schema: Any, table: Any, most: int) -> Any:
    """Rows as numbers, label included, at most so many of them."""
    label = schema.label
    encoded = schema.transform(table)
    if label is not None:
        own = schema.parse(table, strict=False, roles=("label",))[label.name]
        encoded = np.hstack([encoded, label.encode(own)])
    if len(encoded) < FEWEST_ROWS:
        raise InvalidInputError(f"{table.path}: an audit needs at least {FEWEST_ROWS} rows")
    rng = np.random.default_rng(0)
    return encoded[rng.permutation(len(encoded))[:most]]
