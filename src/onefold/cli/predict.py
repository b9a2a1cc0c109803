"""``onefold predict``: a model file and a table in, one prediction for each row out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold._base.progress import track
from onefold.cli import arguments as shared
from onefold.cli import contracts, explaining, regression, reports
from onefold.cli.arguments import flag, option
from onefold.cli.console import print_json, say, show
from onefold.cli.explaining import BECAUSE
from onefold.cli.models import KnownRows, load_predictor, read_rows
from onefold.cli.outputs import STANDARD_OUTPUT, check_table_format, write_columns
from onefold.exceptions import InvalidInputError
from onefold.models.reasons import ClassReasons, compared_with, explain
from onefold.report.evaluation import Evaluation, evaluate

# Rows handed to the model at once: enough to keep the processors busy, few enough for a bar that moves.
BLOCK_ROWS = 4000
OWN_COLUMNS = (
    "prediction",
    BECAUSE,
    "distances",
    "scores",
    "probability",
    "classes",
    "low",
    "high",
    "file",
    "allow_pickle",
)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "predict",
        description="Predict the class or the number of every row with a stored model. Columns are "
        "matched by name where the model knows names; further columns are left out.",
    )
    parser.add_argument("model", metavar="MODEL", help="file written by onefold fit or onefold transfer fit")
    shared.add_data(parser)
    out = (
        "table of predictions to write: .csv, .npz or .parquet, or - for CSV on standard output (default: "
        "the name of DATA, ending in .predictions.csv)"
    )
    option(parser, "--out PRED", out)
    truth = "column with the true classes or numbers; makes the command print how good it is"
    option(parser, "--label COL", truth)
    level = "share of the numbers that intervals are meant to hold, for a model of numbers (default: 0.9)"
    option(parser, "--level F", level, shared.fraction)
    shared.add_encoders(parser, "where the encoder of a column is, which is not part of the model")
    option(parser, "--id COL", "column to copy into the table of predictions")
    flag(parser, "--probabilities --proba", "also write the probability of every class")
    flag(parser, "--distances", "also write the distance to every class")
    flag(parser, "--scores", "also write the class-matching score of every class")
    explaining.add_explain(parser)
    shared.add_output_options(parser)
    reports.add_report(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, read, predict in blocks, write, tell."""
    out = _table_name(args.data) if args.out is None else args.out
    _check(out, args.data, args.model, args.json, args.id, args.label)
    reports.check_report(args, out)
    if args.report is not None and args.label is None:
        raise InvalidInputError("--report needs --label COL: a page says how good the predictions are")
    model, names = load_predictor(args.model, args.quiet)
    if not hasattr(model, "classes_"):
        _place_encoders(model, shared.encoders_of(args))
        return regression.run_predict(args, out, model, names)
    if args.level is not None:
        raise InvalidInputError(f"{args.model}: this model predicts classes: leave out --level")
    explaining.check_explain(args)
    asked = [word for word in ("probabilities", "distances", "scores") if getattr(args, word)]
    _check_outputs(args.model, model, asked)
    _place_encoders(model, shared.encoders_of(args))
    rows = read_rows(args.data, model, names, label=args.label, identifier=args.id, quiet=args.quiet)
    columns = {} if rows.ids is None else {args.id: rows.ids}
    columns |= predictions(model, rows, asked, args.quiet)
    found_why = _explained(args, model, names, rows)
    if found_why:
        columns[BECAUSE] = explaining.because(found_why, len(rows))
    write_columns(out, columns)
    result: dict[str, Any] = {"predictions": out, "rows": len(rows)}
    if found_why:
        result[BECAUSE] = [str(each) for each in found_why]
    lines = [f"{len(rows)} rows predicted, written to {out}", *explaining.lines(found_why)]
    if rows.labels is not None:
        found = measured(model, rows, columns["prediction"])
        result |= {"accuracy": found.accuracy, "measures": found.to_dict()}
        lines += found.words(f"{found.rows} rows", UNSEEN)
        told = reports.not_covered(getattr(model, "guarantee_", None))
        lines += told.values()
        result |= told
        if args.report is not None:
            lines.append(_report(args, model, rows, found, result))
    if args.json:
        print_json(result)
    elif out != STANDARD_OUTPUT and not args.quiet:
        show(result, lines, as_json=False)
    else:
        for line in lines[1:]:
            say(line, args.quiet)
    return 0


def _explained(
    args: argparse.Namespace, model: Any, names: list[str] | None, rows: KnownRows
) -> list[ClassReasons]:
    """Which columns decided, for the first rows; nothing if nobody asked."""
    explaining.check_explain(args, len(rows))
    if args.explain is None:
        return []
    others = rows if args.against is None else read_rows(args.against, model, names, quiet=True)
    background = compared_with(others.rows)
    numbers = range(min(args.explain, len(rows)))
    return [
        each
        for number in track(numbers, len(numbers), "explaining", show=False if args.quiet else None)
        for each in explain(model, rows.block(number, number + 1), background, names=names)
    ]


def _report(
    args: argparse.Namespace, model: Any, rows: KnownRows, found: Evaluation, result: dict[str, Any]
) -> str:
    # Beside a promise nothing tells which raw rows the accuracies come from.
    private = getattr(model, "guarantee_", None) is not None
    facts: dict[str, Any] = {
        "model": reports.file_name(args.model),
        "kind": type(model).__name__,
        "features": int(getattr(model, "n_features_in_", 0)) or None,
        "classes": [str(label) for label in model.classes_],
        "rows predicted": len(rows),
    }
    if not private and "predictions" in result:
        facts["predictions"] = reports.file_name(result["predictions"])
    files = {"the model": args.model, "the rows": None if private else args.data}
    facts |= reports.facts_of({}, **files)
    assert rows.labels is not None
    shown = reports.evidence(model, rows.labelled, rows.labels)
    whose = "" if private else f" of {reports.file_name(args.data)}"
    title = f"Predictions of {Path(args.model).name}{whose.replace(' of ', ' for ', 1)}"
    about = f"the {found.rows} labelled rows{whose}"
    page = reports.model_report(args, title, facts, model=model, evaluation=found, shown=shown, about=about)
    return reports.written(args.report, page)


def _table_name(data: str) -> str:
    return f"{contracts.stem_of(data)}.predictions.csv"


def _check(out: str, data: str, model: str, json: bool, id_column: str | None, label: str | None) -> None:
    check_table_format(out, data, model)
    if out == STANDARD_OUTPUT and json:
        raise InvalidInputError("--json and --out - both want standard output")
    if id_column in OWN_COLUMNS:
        raise InvalidInputError(f"--id {id_column}: that name is taken by the result, rename the column")
    if id_column is not None and id_column == label:
        raise InvalidInputError("--id and --label name the same column")


UNSEEN = "if the model was not fitted to these rows, and they are independent of each other:"
METHODS = {"probabilities": "predict_proba", "distances": "distances", "scores": "matching_score"}


def _check_outputs(path: str, model: Any, asked: list[str]) -> None:
    """Refuse what the model cannot say, before any row is read."""
    for word in asked:
        if not hasattr(model, METHODS[word]):
            raise InvalidInputError(
                f"{path}: this {type(model).__name__} has no {METHODS[word]}: leave out --{word} or fit anew"
            )


def _place_encoders(model: Any, encoders: dict[str, str]) -> None:
    """Tell the schema of a model where its encoders are; files other than those of the fit are refused."""
    schema: Any = getattr(model, "schema", None)
    declared = (
        {} if schema is None else {known.name: known.encoder for known in schema.features if known.encoder}
    )
    for name in encoders:
        if name not in declared:
            raise InvalidInputError(f"--encoder names {name!r}: the model has no encoder for such a column")
    for name, encoder in declared.items():
        if name not in encoders:
            raise InvalidInputError(
                f"the model encodes column {name!r} by an encoder that is not part of it: give --encoder "
                f"{name}=PATH (its digest is {encoder.digest[:16]}...)"
            )
    if encoders:
        model.schema = schema.with_encoders(encoders)


def predictions(model: Any, rows: KnownRows, asked: list[str], quiet: bool) -> dict[str, AnyArray]:
    """Columns of the result, computed in blocks of rows so that a bar can move."""
    starts = range(0, len(rows), BLOCK_ROWS)
    parts = [
        _predicted(model, rows.block(start, start + BLOCK_ROWS), asked)
        for start in track(starts, len(starts), "predicting", show=False if quiet else None)
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns | ({"classes": np.asarray(model.classes_)} if len(columns) > 1 else {})


def _predicted(model: Any, block: Any, asked: list[str]) -> dict[str, AnyArray]:
    columns = {"prediction": np.asarray(model.predict(block))}
    if "probabilities" in asked:
        columns["probability"] = model.predict_proba(block)
    if "distances" in asked:
        columns["distances"] = model.distances(block)
    if "scores" in asked:
        columns["scores"] = model.matching_score(block)
    return columns


def measured(model: Any, rows: KnownRows, predicted: AnyArray) -> Evaluation:
    """How good the predictions are."""
    assert rows.labels is not None
    two = len(model.classes_) == 2 and hasattr(model, "decision_function")
    scores = None
    if two:
        starts = range(0, len(rows), BLOCK_ROWS)
        blocks = [model.decision_function(rows.block(start, start + BLOCK_ROWS)) for start in starts]
        scores = np.concatenate(blocks)[rows.with_label]
    # Rows of one person are alike: the number of errors is then no binomial one.
    schema = getattr(model, "schema", None)
    independent = schema is None or schema.person is None
    return evaluate(predicted[rows.with_label], rows.labels, scores=scores, bounded=independent)
