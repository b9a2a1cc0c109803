"""``onefold predict``: a model file and a table in, one prediction for each row out."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold._base.progress import track
from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option
from onefold.cli.console import print_json, say
from onefold.cli.models import load_classifier, read_known, tell_ignored
from onefold.cli.outputs import STANDARD_OUTPUT, check_table_format, write_columns
from onefold.cli.tables import agreement, identifiers_of, labels_of
from onefold.exceptions import InvalidInputError

# Rows handed to the model at once: enough to keep the processors busy, few enough for a bar that moves.
BLOCK_ROWS = 4000
OWN_COLUMNS = ("prediction", "distances", "scores", "classes", "file", "allow_pickle")


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "predict",
        description="Predict the class of every row with a stored model. Columns are matched by name "
        "where the model knows names; further columns are left out.",
    )
    parser.add_argument("model", metavar="MODEL", help="file written by onefold fit or onefold transfer fit")
    shared.add_data(parser)
    out = "table of predictions to write: .csv, .npz or .parquet, or - for CSV on standard output"
    option(parser, "--out PRED", out, required=True)
    option(parser, "--label COL", "column with the true classes; makes the command print the accuracy")
    option(parser, "--id COL", "column to copy into the table of predictions")
    flag(parser, "--distances", "also write the distance to every class")
    flag(parser, "--scores", "also write the class-matching score of every class")
    shared.add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, read, predict in blocks, write, tell."""
    _check(args.out, args.data, args.model, args.json, args.id, args.label)
    model, names = load_classifier(args.model, args.quiet)
    keep = [name for name in (args.label, args.id) if name is not None]
    table = read_known(args.data, model, names, keep, args.quiet)
    labels = None if args.label is None else labels_of(table, args.label)
    columns = {} if args.id is None else {args.id: identifiers_of(table, args.id)}
    columns |= predictions(
        model, table.values, distances=args.distances, scores=args.scores, quiet=args.quiet
    )
    write_columns(args.out, columns)
    result: dict[str, Any] = {"predictions": args.out, "rows": int(table.values.shape[0])}
    accuracy = ""
    if labels is not None:
        result["accuracy"] = agreement(columns["prediction"], labels)
        accuracy = f", accuracy {result['accuracy']:.4f}"
    if args.json:
        print_json(result)
    elif args.out != STANDARD_OUTPUT and not args.quiet:
        print(f"{result['rows']} rows predicted, written to {args.out}{accuracy}")
    elif accuracy:
        say(f"{result['rows']} rows predicted{accuracy}", args.quiet)
    tell_ignored(table, args.quiet)
    return 0


def _check(out: str, data: str, model: str, json: bool, id_column: str | None, label: str | None) -> None:
    check_table_format(out, data, model)
    if out == STANDARD_OUTPUT and json:
        raise InvalidInputError("--json and --out - both want standard output")
    if id_column in OWN_COLUMNS:
        raise InvalidInputError(f"--id {id_column}: that name is taken by the result, rename the column")
    if id_column is not None and id_column == label:
        raise InvalidInputError("--id and --label name the same column")


def predictions(
    model: Any, values: AnyArray, *, distances: bool, scores: bool, quiet: bool
) -> dict[str, AnyArray]:
    """Columns of the result, computed in blocks of rows so that a bar can move."""
    starts = range(0, values.shape[0], BLOCK_ROWS)
    parts = [
        _predicted(model, values[start : start + BLOCK_ROWS], distances, scores)
        for start in track(starts, len(starts), "predicting", show=False if quiet else None)
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns | ({"classes": np.asarray(model.classes_)} if len(columns) > 1 else {})


def _predicted(model: Any, block: AnyArray, distances: bool, scores: bool) -> dict[str, AnyArray]:
    if distances:
        # The closest class is the prediction: no need to compute every distance a second time.
        measured = model.distances(block)
        columns = {"prediction": model.classes_[np.argmin(measured, axis=1)], "distances": measured}
    else:
        columns = {"prediction": model.predict(block)}
    if scores:
        columns["scores"] = model.matching_score(block)
    return columns
