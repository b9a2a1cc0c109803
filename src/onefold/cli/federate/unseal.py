"""``onefold federate open``: read with the secret key what a server computed on encrypted answers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.cli.federate import encrypted, outcome, running
from onefold.cli.federate.keyring import Keyring, default_folder
from onefold.cli.labels import agreement, labels_of
from onefold.cli.outputs import check_table_format, write_table
from onefold.cli.tables import read_table
from onefold.exceptions import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "open",
        help="decrypt what an encrypted query brought",
        description="Predictions from a sealed file, with the secret key of its lock. Exit code 3: only some "
        "members answered, and the result is of those.",
    )
    parser.add_argument("file", metavar="FILE", help="sealed file that onefold federate query --lock wrote")
    parser.add_argument("--out", metavar="PRED", help="predictions: .csv, .npz, .parquet, - (-)")
    parser.add_argument("--data", metavar="D", help="the table that was asked about, for --label")
    parser.add_argument("--label", metavar="COL", help="its column with the true classes")
    parser.add_argument("--keys", metavar="DIR", help="your secret keys (~/.local/share/onefold/keys)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=running.with_exit_code(run))


def run(args: argparse.Namespace) -> int:
    """Read, decrypt, write, tell."""
    from onefold.cli.federate.sealed_file import load_sealed

    out = outcome.destination(args)
    if (args.data is None) != (args.label is None):
        raise InvalidInputError("--data and --label go together")
    if out is not None:
        check_table_format(out, args.file)
    key_id, classes, parts = load_sealed(Path(args.file))
    if not parts:
        raise FileFormatError(f"{args.file}: there is no result in it")
    querier = Keyring(Path(args.keys) if args.keys else default_folder()).find(key_id)
    results = [encrypted.opened(querier, classes, part) for part in parts]
    predicted = np.concatenate([result.labels for result in results])
    summary = outcome.of_sites(results) | {"ties": sum(result.n_ties for result in results)}
    if args.label is not None:
        summary["accuracy"] = _accuracy(args, predicted)
    if out is not None:
        write_table(out, {"prediction": predicted})
    outcome.tell(summary, predicted, args, quiet=False)
    return running.PARTIAL if summary["partial"] else 0


def _accuracy(args: argparse.Namespace, predicted: NDArray[Any]) -> float:
    labels = labels_of(read_table(args.data, keep=[args.label]), args.label)
    if len(labels) != len(predicted):
        raise InvalidInputError(f"{args.data}: is not the table that was asked about")
    return agreement(predicted, labels)
