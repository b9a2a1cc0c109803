"""``onefold federate decrypt``: read with the secret key what a server computed on encrypted answers."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli.federate import options, running
from onefold.cli.outputs import check_table_format, write_table
from onefold.cli.tables import agreement, labels_of, read_table
from onefold.exceptions import InvalidInputError


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "decrypt",
        aliases=["open"],
        help="decrypt what an encrypted query brought",
        description="Write the predictions in a file of encrypted answers, with the secret key of its query "
        "key. Exit code 3: only some members answered, and the result is of those. (Called open in version "
        "0.1.)",
    )
    parser.add_argument(
        "file", metavar="FILE", help="encrypted answers that onefold federate query --query-key wrote"
    )
    parser.add_argument(
        "--out", metavar="PRED", help="file of predictions: .csv, .npz, .parquet, or - (default: -)"
    )
    parser.add_argument("--data", metavar="D", help="the table that was asked about, for --label")
    parser.add_argument("--label", metavar="COL", help="column of --data with the true classes")
    options.add_keys_option(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=running.with_exit_code(run))


def run(args: argparse.Namespace) -> int:
    """Read, decrypt, write, tell."""
    from onefold.federated.flower import decrypt

    out = running.destination(args.out, args.json)
    if (args.data is None) != (args.label is None):
        raise InvalidInputError("--data and --label go together")
    if out is not None:
        check_table_format(out, args.file)
    result = decrypt(args.file, keys=args.keys)
    accuracy = None if args.label is None else _accuracy(args.data, args.label, result.predictions)
    if out is not None:
        write_table(out, {"prediction": result.predictions})
    return running.tell_result(result, args.out, accuracy, as_json=args.json, quiet=False)


def _accuracy(data: str, label: str, predicted: Any) -> float:
    labels = labels_of(read_table(data, keep=[label]), label)
    if len(labels) != len(predicted):
        raise InvalidInputError(f"{data}: is not the table that was asked about")
    return agreement(predicted, labels)
