"""``onefold predict``: a model file and a table in, one prediction for each row out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats
from onefold._base.parallel import track
from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import flag, option
from onefold.cli.console import print_json, say, show
from onefold.cli.models import load_model, read_rows
from onefold.cli.outputs import STANDARD_OUTPUT, check_table_format, write_columns
from onefold.exceptions import InvalidInputError
from onefold.models.reasons import FEWEST_ROWS, compared_with, explain, explain_numbers
from onefold.report.evaluation import Evaluation, NumberEvaluation, evaluate, evaluate_numbers, numbers_of
from onefold.tables.reading import stem_of
from onefold.tables.rows import Rows
from onefold.tables.tasks import identifiers_of

if TYPE_CHECKING:
    from onefold.report import Report

# Rows handed to the model at once: enough to keep the processors busy, few enough for a bar that moves.
BLOCK_ROWS = 4000
LEVEL = 0.9  # of intervals
SHOWN_REASONS = 5
BECAUSE = "because"
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
    out = "predictions to write; - for CSV on standard output (default: NAME.predictions.csv)"
    option(parser, "--out PRED", out)
    option(parser, "--label COL", "column with the true classes or numbers: say how good the model is")
    level = "share of the numbers that intervals are meant to hold (default: 0.9)"
    option(parser, "--level F", level, shared.fraction)
    shared.add_encoders(parser, "encoder of a column")
    option(parser, "--id COL", "column to copy into the table of predictions")
    flag(parser, "--probabilities --proba", "also write the probability of every class")
    flag(parser, "--distances", "also write the distance to every class")
    flag(parser, "--scores", "also write the class-matching score of every class")
    about = "write for the first N rows, in a column because, which columns decided"
    option(parser, "--explain N", about, shared.whole)
    others = "rows that --explain compares with; cells are called high or low among them (default: DATA)"
    option(parser, "--against FILE", others)
    reports.add_report(parser)
    shared.ends(parser, run)


def run(args: argparse.Namespace) -> None:
    """Load, read, predict in blocks, write, tell."""
    out = f"{stem_of(args.data)}.predictions.csv" if args.out is None else args.out
    _check(out, args.data, args.model, args.json, args.id, args.label)
    reports.check_report(args, out)
    if args.report is not None and args.label is None:
        raise InvalidInputError("--report needs --label COL: a page says how good the predictions are")
    if args.explain is None and args.against is not None:
        raise InvalidInputError("--against goes with --explain N")
    model, names = load_model(args.model, args.quiet)
    asked = [word for word in METHODS if getattr(args, word)]
    _check_outputs(args.model, model, asked, args.level)
    _place_encoders(model, shared.encoders_of(args))
    rows = read_rows(args.data, model, names, label=args.label, identifier=args.id, quiet=args.quiet)
    level = LEVEL if args.level is None else args.level
    columns = {name: identifiers_of(values) for name, values in rows.kept.items()}
    columns |= predictions(model, rows, asked, args.quiet, level)
    why = list(map(str, _explained(args, model, names, rows)))
    if why:
        columns[BECAUSE] = np.array(why + [""] * (len(rows) - len(why)))
    write_columns(out, columns)
    result: dict[str, Any] = {"predictions": out, "rows": len(rows)}
    result |= {} if hasattr(model, "classes_") else {"level": level}
    result |= {BECAUSE: why} if why else {}
    lines = [f"{len(rows)} rows predicted, written to {out}"]
    if "low" in columns:
        lines[0] += f"; low and high are intervals meant to hold {100 * level:g} % of the numbers"
    lines += [f"row {number}: {each}" for number, each in enumerate(why[:SHOWN_REASONS], 1)]
    if rows.y is not None:
        found = measured(model, rows, columns, level)
        result |= {"accuracy": found.accuracy} if isinstance(found, Evaluation) else {}
        result["measures"] = numbers_of(found)
        lines += found.words(f"{found.rows} rows", *([UNSEEN] if isinstance(found, Evaluation) else []))
        told = reports.not_covered(getattr(model, "guarantee_", None))
        lines += told.values()
        result |= told
        if args.report is not None:
            lines.append(reports.written(args.report, _report(args, model, rows, found, out)))
    if args.json:
        print_json(result)
    elif out != STANDARD_OUTPUT and not args.quiet:
        show(result, lines, as_json=False)
    else:
        for line in lines[1:]:
            say(line, args.quiet)


def _explained(args: argparse.Namespace, model: Any, names: list[str] | None, rows: Rows) -> list[Any]:
    """Which columns decided, or moved the number, for the first rows; nothing if nobody asked."""
    if args.explain is None:
        return []
    if args.against is None and len(rows) < FEWEST_ROWS:
        raise InvalidInputError(
            f"--explain compares a row with others, and {args.data} has {len(rows)}: give at least "
            f"{FEWEST_ROWS} rows with --against FILE"
        )
    others = rows if args.against is None else read_rows(args.against, model, names, quiet=True)
    background = compared_with(others.X)
    one = explain if hasattr(model, "classes_") else explain_numbers
    numbers = range(min(args.explain, len(rows)))
    return [
        each
        for number in track(numbers, len(numbers), "explaining", show=False if args.quiet else None)
        for each in one(model, rows[number : number + 1].X, background, names=names)
    ]


def _report(
    args: argparse.Namespace, model: Any, rows: Rows, found: Evaluation | NumberEvaluation, out: str
) -> Report:
    # Beside a promise nothing tells which raw rows the measures come from.
    promise = getattr(model, "guarantee_", None)
    private = promise is not None and promise.holds
    facts = {
        "model": reports.file_name(args.model),
        **reports.about_model(model),
        "rows predicted": len(rows),
    }
    if not private:
        facts["predictions"] = reports.file_name(out)
    files = {"the model": args.model, "the rows": None if private else args.data}
    facts |= reports.facts_of({}, **files)
    whose = "" if private else f" of {reports.file_name(args.data)}"
    title = f"Predictions of {Path(args.model).name}{whose.replace(' of ', ' for ', 1)}"
    about = f"the {found.rows} labelled rows{whose}"
    return reports.model_report(args, title, facts, model=model, evaluation=found, rows=rows, about=about)


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


def _check_outputs(path: str, model: Any, asked: list[str], level: float | None) -> None:
    """Refuse what the model cannot say, before any row is read."""
    if hasattr(model, "classes_"):
        if level is not None:
            raise InvalidInputError(f"{path}: this model predicts classes: leave out --level")
    elif asked:
        raise InvalidInputError(f"{path}: this model predicts numbers: leave out --{asked[0]}")
    for word in asked:
        if not hasattr(model, METHODS[word]):
            raise InvalidInputError(
                f"{path}: this {type(model).__name__} has no {METHODS[word]}: leave out --{word} or fit anew"
            )


def _place_encoders(model: Any, encoders: dict[str, str]) -> None:
    """Tell the schema of a model where its encoders are; files other than those of the fit are refused."""
    schema: Any = getattr(model, "schema", None)
    features = schema.features if schema else ()
    declared = {known.name: known.encoder for known in features if known.encoder}
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


def predictions(
    model: Any, rows: Rows, asked: Sequence[str] = (), quiet: bool = True, level: float = LEVEL
) -> dict[str, AnyArray]:
    """Columns of the result, computed in blocks of rows so that a bar can move."""
    starts = range(0, len(rows), BLOCK_ROWS)
    parts = [
        predicted(model, rows[start : start + BLOCK_ROWS].X, asked, level)
        for start in track(starts, len(starts), "predicting", show=False if quiet else None)
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns | ({"classes": np.asarray(model.classes_)} if asked else {})


def predicted(model: Any, block: Any, asked: Sequence[str], level: float) -> dict[str, AnyArray]:
    """The class of each row and what was asked for, or its number and the ends of its interval."""
    columns = {"prediction": np.asarray(model.predict(block))}
    for word in asked:
        columns["probability" if word == "probabilities" else word] = getattr(model, METHODS[word])(block)
    if not hasattr(model, "classes_") and hasattr(model, "predict_interval"):
        columns |= dict(zip(("low", "high"), model.predict_interval(block, level).T, strict=True))
    return columns


def measured(
    model: Any, rows: Rows, columns: dict[str, AnyArray], level: float = LEVEL
) -> Evaluation | NumberEvaluation:
    """How good the predictions are."""
    assert rows.y is not None
    # Rows of one person are alike: the number of errors is then no binomial one.
    independent = rows.schema.person is None
    if not hasattr(model, "classes_"):
        truth = np.asarray(rows.y, dtype=np.float64)
        return measured_numbers(columns, truth, rows.known, level=level, bounded=independent)
    scores = None
    if len(model.classes_) == 2 and hasattr(model, "decision_function"):
        starts = range(0, len(rows), BLOCK_ROWS)
        blocks = [model.decision_function(rows[start : start + BLOCK_ROWS].X) for start in starts]
        scores = np.concatenate(blocks)[rows.known]
    found = columns["prediction"][rows.known]
    return evaluate(found, rows.y, scores=scores, bounded=independent)


def measured_numbers(
    columns: dict[str, AnyArray], truth: Floats, known: AnyArray | slice = slice(None), **about: Any
) -> NumberEvaluation:
    """How good predictions are in the rows that are known, whose true numbers these are."""
    ends = (columns["low"][known], columns["high"][known]) if "low" in columns else None
    return evaluate_numbers(columns["prediction"][known], truth, ends=ends, **about)
