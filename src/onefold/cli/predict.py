"""``onefold predict``: a model file and a table in, one prediction for each row out."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.progress import track
from onefold.cli.console import busy, print_json, say
from onefold.cli.labels import agreement, identifiers_of, labels_of
from onefold.cli.models import load_classifier, require_width
from onefold.cli.outputs import STANDARD_OUTPUT, check_table_format, write_table
from onefold.cli.tables import read_table
from onefold.exceptions import InvalidInputError

# Rows handed to the model at once: enough to keep the processors busy, few enough for a bar that moves.
BLOCK_ROWS = 1000
OWN_COLUMNS = ("prediction", "distances", "scores", "classes", "file", "allow_pickle")


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "predict",
        help="predict the classes of a table",
        description="Predict the class of every row with a stored model. Columns are matched by name "
        "where the model knows names; further columns are left out.",
    )
    parser.add_argument("model", metavar="MODEL", help="file written by onefold fit")
    parser.add_argument("data", metavar="DATA", help="table of samples: .csv, .npz or .parquet")
    parser.add_argument(
        "--out",
        required=True,
        metavar="PRED",
        help="predictions: .csv, .npz or .parquet, - for CSV on standard output",
    )
    parser.add_argument("--label", metavar="COL", help="column with the true classes: report the accuracy")
    parser.add_argument("--id", metavar="COL", help="column to copy beside the predictions")
    parser.add_argument("--distances", action="store_true", help="add the distance to every class")
    parser.add_argument("--scores", action="store_true", help="add the class-matching scores")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, read, predict in blocks, write, tell."""
    _check(args)
    with busy(f"loading {args.model}", args.quiet):
        model, names = load_classifier(args.model)
    keep = [name for name in (args.label, args.id) if name is not None]
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, keep=keep, features=names)
    require_width(model, table)
    labels = None if args.label is None else labels_of(table, args.label)
    columns = {} if args.id is None else {args.id: identifiers_of(table, args.id)}
    columns |= _predict(model, table.values, args)
    write_table(args.out, columns)
    result: dict[str, Any] = {"predictions": args.out, "rows": int(table.values.shape[0])}
    if labels is not None:
        result["accuracy"] = agreement(columns["prediction"], labels)
    _tell(result, args)
    if table.ignored:
        say(f"{table.ignored} column(s) of {args.data} left out: the model does not know them", args.quiet)
    return 0


def _check(args: argparse.Namespace) -> None:
    check_table_format(args.out, args.data, args.model)
    if args.out == STANDARD_OUTPUT and args.json:
        raise InvalidInputError("--json and --out - both want standard output")
    if args.id in OWN_COLUMNS:
        raise InvalidInputError(f"--id {args.id}: that name is taken by the result, rename the column")
    if args.id is not None and args.id == args.label:
        raise InvalidInputError("--id and --label name the same column")


def _predict(model: Any, values: NDArray[Any], args: argparse.Namespace) -> dict[str, NDArray[Any]]:
    starts = range(0, values.shape[0], BLOCK_ROWS)
    parts = [
        _predict_block(model, values[start : start + BLOCK_ROWS], args)
        for start in track(starts, len(starts), "predicting", show=False if args.quiet else None)
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns | ({"classes": np.asarray(model.classes_)} if len(columns) > 1 else {})


def _predict_block(model: Any, block: NDArray[Any], args: argparse.Namespace) -> dict[str, NDArray[Any]]:
    if args.distances:
        # The closest class is the prediction: no need to compute every distance a second time.
        distances = model.distances(block)
        columns = {"prediction": model.classes_[np.argmin(distances, axis=1)], "distances": distances}
    else:
        columns = {"prediction": model.predict(block)}
    if args.scores:
        columns["scores"] = model.matching_score(block)
    return columns


def _tell(result: dict[str, Any], args: argparse.Namespace) -> None:
    if args.json:
        print_json(result)
        return
    accuracy = f", accuracy {result['accuracy']:.4f}" if "accuracy" in result else ""
    if args.out == STANDARD_OUTPUT:
        if accuracy:
            say(f"{result['rows']} rows predicted{accuracy}", args.quiet)
    elif not args.quiet:
        print(f"{result['rows']} rows predicted, written to {args.out}{accuracy}")
