"""``onefold federate query``: a table in, one prediction for each row out, and who had a part in it."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, say
from onefold.cli.federate import options, running
from onefold.cli.outputs import check_table_format, check_writable, write_table
from onefold.cli.tables import Table, agreement, identifiers_of, labels_of, read_table
from onefold.exceptions import FederationError, InvalidInputError

ENCRYPTION = ("bits", "bound", "floor", "power", "keys")


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "query",
        help="predict the classes of a table by the federation",
        description="Predict the class of every row from the answers of all members. Columns must be those "
        "of the sites, in their order. Exit code 3: only some members answered, and the result is of those.",
    )
    add = parser.add_argument
    add("data", metavar="DATA", help="table of rows: .csv, .npz or .parquet")
    running.add_folder_option(parser, "server")
    add("--out", metavar="PRED", help="file of predictions: .csv, .npz, .parquet, or - (default: -)")
    add("--label", metavar="COL", help="column with the true classes: report the accuracy")
    add("--id", metavar="COL", help="column to copy beside the predictions")
    add("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    add("--measures", action="store_true", help="add the combined measure of every class")
    add(
        "--timeout",
        type=kinds.positive,
        default=60.0,
        metavar="S",
        help="seconds the sites have (default: 60)",
    )
    add(
        "--batch",
        type=kinds.positive_int,
        default=5000,
        metavar="N",
        help="rows in one message (default: 5000)",
    )
    options.add_rule_options(parser.add_argument_group("another rule than the server's"), default=None)
    add("--held-out-label", metavar="COL", help="column of --held-out with the classes (default: --label)")
    group = parser.add_argument_group("encrypted answers")
    group.add_argument(
        "--encrypted", action="store_true", help="have the sites answer under your key, unread by the server"
    )
    options.add_encryption_options(group, bound_required=False)
    group.add_argument(
        "--query-key",
        "--lock",
        metavar="FILE",
        help="ask under the query key of a querier elsewhere and write encrypted answers to --out",
    )
    add("--caller", metavar="NAME", help="who asks, for the sites' budgets (default: your user name)")
    add("--json", action="store_true", help="print the result as JSON")
    add("--quiet", action="store_true", help="print nothing but predictions and errors")
    parser.set_defaults(run=running.with_exit_code(run))


def run(args: argparse.Namespace) -> int:
    """Read, ask, write, tell."""
    from onefold.federated.flower import Federation

    federation = Federation(args.folder)
    given = {name: getattr(args, name) for name in ENCRYPTION if getattr(args, name) is not None}
    _check(args.encrypted, args.query_key, args.out, given, args.label, args.measures)
    out = running.destination(args.out, args.json)
    if args.query_key is not None:
        check_writable(args.out, args.data, args.query_key)
    elif out is not None:
        check_table_format(out, args.data)
    keep = [name for name in (args.label, args.id) if name is not None]
    table = read_table(args.data, keep=keep, ignore=args.ignore)
    shared = {
        "columns": table.names,
        "timeout": args.timeout,
        "batch_size": args.batch,
        "caller": args.caller,
    }
    with busy(f"asking about {len(table.values)} rows", args.quiet):
        if args.query_key is not None:
            found = federation.collect(table.values, args.query_key, args.out, **shared)
            return _tell_collected(found, args.json, args.quiet)
        label = args.held_out_label or args.label
        held_out = options.held_out_rows(args.held_out, label, args.ignore, table.names)
        rule = {"rule": args.rule, "n_liars": args.liars, "held_out": held_out}
        result = federation.query(table.values, encrypted=args.encrypted, **rule, **given, **shared)
    columns = {} if args.id is None else {args.id: identifiers_of(table, args.id)}
    columns["prediction"] = result.predictions
    if args.measures:
        columns |= _measures(result)
    if out is not None:
        write_table(out, columns)
    accuracy = _accuracy(table, args.label, result.predictions)
    return running.tell_result(result, args.out, accuracy, as_json=args.json, quiet=args.quiet)


def _check(
    encrypted: bool, query_key: str | None, out: str | None, given: Any, label: str | None, measures: bool
) -> None:
    """Refuse options that do not go together."""
    from onefold.federated.flower.encrypted import ANSWERS_SUFFIXES

    to_answers = out is not None and out.endswith(ANSWERS_SUFFIXES)
    if not encrypted and (given or query_key is not None):
        raise InvalidInputError(f"--{next(iter(given), 'query-key')} is for --encrypted")
    if query_key is not None and given:
        raise InvalidInputError(f"--{next(iter(given))} is in the query key already")
    if encrypted and (query_key is not None) != to_answers:
        raise InvalidInputError(
            f"--query-key FILE goes with --out FILE{ANSWERS_SUFFIXES[0]}, and only with it"
        )
    if query_key is not None and label is not None:
        raise InvalidInputError("--label is for the querier: onefold federate decrypt")
    if encrypted and measures:
        raise InvalidInputError("--measures: an encrypted query tells the closest class and nothing else")


def _measures(result: Any) -> dict[str, Any]:
    if result.measures is None:
        raise FederationError("sites came and went while they were asked: ask again")
    return {"measures": result.measures, "classes": result.classes}


def _accuracy(table: Table, label: str | None, predicted: Any) -> float | None:
    return None if label is None else agreement(predicted, labels_of(table, label))


def _tell_collected(found: Any, as_json: bool, quiet: bool) -> int:
    if as_json:
        # "sealed" is the name that version 0.1 gave to "encrypted".
        told = {"encrypted": str(found.path), "sealed": str(found.path), "key": found.key_id}
        print_json({"rows": found.n_rows, **told, "partial": found.partial, "missing": list(found.missing)})
    else:
        say(f"{found.n_rows} rows, encrypted answers in {found.path}: onefold federate decrypt", quiet)
    return running.PARTIAL if found.partial else 0
