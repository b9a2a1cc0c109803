"""Numbers to predict: what ``onefold fit --task regression`` and ``onefold predict`` do with them."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats, Index
from onefold.cli import arguments as shared
from onefold.cli import contracts, explaining, reports
from onefold.cli.console import busy, count_of, print_json, say, show, without_bars
from onefold.cli.models import KnownRows, read_rows
from onefold.cli.outputs import STANDARD_OUTPUT, write_columns, write_model, write_private_model
from onefold.exceptions import InvalidInputError
from onefold.models import NumberReasons, explain_numbers
from onefold.models.reasons import compared_with
from onefold.tables import Schema
from onefold.tables.reading import Table

if TYPE_CHECKING:
    from onefold.report import Display
    from onefold.report.evaluation import NumberEvaluation

LEVEL = 0.9  # of intervals
NOT_MEASURED = (
    "how good it is was not measured, which would be one more release: onefold predict {model} ROWS --label "
    "{label} tells, on rows that may be used for it"
)
# Options of classifiers, with the value that stands for "not given".
ONLY_CLASSES = {
    "n_layers": None,
    "branch_size": None,
    "n_probe": None,
    "batch_size": None,
    "measure": None,
    "n_components": 20,
    "model": "wide",
    "scale": "auto",
    "raw": False,
}


@dataclass(frozen=True)
class Found:
    """A table whose label is an amount, which was found out by reading it."""

    schema: Schema
    table: Table


def is_open(args: argparse.Namespace) -> bool:
    """Whether the column of the label may decide between classes and numbers: nothing else has."""
    usual = all(getattr(args, name) == value for name, value in ONLY_CLASSES.items())
    return args.task is None and args.schema is None and usual


def is_wanted(args: argparse.Namespace) -> bool:
    """Whether a number is to be predicted: by ``--task``, or because the schema declares one."""
    if args.task is not None or args.schema is None:
        return bool(args.task == "regression")
    schema = Schema.load(args.schema)
    label = schema.label if args.label is None else schema.field(args.label)
    return label is not None and not label.is_category and label.type in ("number", "integer")


# --- fit --------------------------------------------------------------------------------------------------


def run_fit(args: argparse.Namespace, out: str, found_out: Found | None = None) -> int:
    """Read, unless that was done to find out what the label is; split if asked to, fit, store, tell."""
    for name, usual in ONLY_CLASSES.items():
        if getattr(args, name) != usual:
            raise InvalidInputError(f"--{name.replace('_', '-')} is for classes, not for numbers to predict")
    if args.method not in (None, "auto", "moments"):
        raise InvalidInputError("numbers are predicted from private moments: leave out --method tables")
    if args.epsilon is not None:
        return _run_private(args, out)
    from onefold.fabrication import MomentRegressor

    schema, rows, outputs, persons, notes = _read(args, out, found_out)
    train, held = split(args.data, len(outputs), args.test_size, args.seed, persons)
    for note in notes:
        say(note, args.quiet)
    started = time.perf_counter()
    with busy("fitting", args.quiet):
        whom = None if persons is None else persons[train]
        model = MomentRegressor(None, schema=schema)
        model.fit(contracts.take(rows, train), outputs[train], groups=whom)
    error, spread = math.sqrt(model.held_out_error_), float(np.std(outputs[train]))
    found, shown = None, None
    result: dict[str, Any] = {
        "model": out,
        "task": "regression",
        "rows": int(train.size),
        "features": len(schema.features),
        "seconds": round(time.perf_counter() - started, 3),
        "estimated": {"rmse": error, "rmse_of_the_mean": spread},
    }
    units = "rows" if persons is None else "persons"
    lines = [
        f"{train.size} rows, {count_of(len(schema.features), 'feature')} fitted in {result['seconds']:.2f} s",
        f"estimated error on other {units} {error:.4g} (root mean square; the mean alone {spread:.4g}); "
        "--test-size F measures it",
    ]
    if held.size:
        part, mean = contracts.take(rows, held), float(np.mean(outputs[train]))
        columns = {"prediction": np.asarray(model.predict(part))}
        columns |= dict(zip(("low", "high"), model.predict_interval(part, LEVEL).T, strict=True))
        found = measured(columns, outputs[held], mean=mean, level=LEVEL, bounded=persons is None)
        result["held_out"] = found.to_dict()
        lines[1:] = found.words(f"{held.size} rows held out")
        shown = evidence(schema, columns["prediction"], outputs[held])
    write_model(out, model)
    result["file_bytes"] = Path(out).stat().st_size
    lines.append(
        f"model written to {out} ({result['file_bytes'] / 1e6:.2f} MB); it holds exact sums over the fitted "
        "rows and errors of single rows: guard it like the data"
    )
    if args.report is not None:
        about = {"evaluation": found, "evidence": shown, "about": "rows that were held out"}
        title = f"Model of {reports.file_name(args.data)}"
        lines.append(_page(args, title, result, out, model.guarantee_, **about))
    show(result, lines, as_json=args.json, quiet=args.quiet)
    return 0


def _read(
    args: argparse.Namespace, out: str, found_out: Found | None
) -> tuple[Schema, contracts.Rows, Floats, AnyArray | None, list[str]]:
    """The schema, the rows that have a number, these numbers, whom the rows are about, and what to say."""
    schema, table = _table(args) if found_out is None else (found_out.schema, found_out.table)
    assert schema.label is not None
    outputs, known = contracts.outputs_of(schema, table, strict=True)
    if len(np.unique(outputs)) < 2:
        raise InvalidInputError(f"{args.data}: label column {schema.label.name!r} has fewer than two numbers")
    rows = contracts.rows_of(schema, table, strict=args.schema is not None)
    notes = [] if found_out is None else [_why_a_number(schema.label.name, outputs)]
    if not known.all():
        left_out = int(np.sum(~known))
        notes.append(f"{left_out} of {len(known)} rows left out: {schema.label.name!r} has no number there")
        rows = contracts.take(rows, known)
    notes += [contracts.in_one_line(schema, rows, out), *contracts.about_persons(schema, table)]
    persons = None if schema.person is None else schema.persons(table)[known]
    return schema, rows, outputs, persons, notes


def _table(args: argparse.Namespace) -> tuple[Schema, Table]:
    encoders = shared.encoders_of(args)
    needed = [name for name in (args.label, args.person, *args.ignore, *encoders) if name is not None]
    table = contracts.read_columns(args.data, needed, args.quiet)
    chosen = (args.label, args.ignore, args.person, encoders)
    if args.schema is None:
        return contracts.inferred(table, *chosen, task="regression"), table
    return contracts.declared(args.schema, *chosen, task="regression"), table


def _why_a_number(name: str, outputs: Floats) -> str:
    """Why a label that nobody has declared is not taken for classes, and how to have classes."""
    if np.any(outputs != np.rint(outputs)):
        return f"{name!r} has fractions: it is predicted as a number (regression)"
    return (
        f"{name!r} has {len(np.unique(outputs))} different whole numbers: it is predicted as a number "
        "(regression); --task classification takes them for classes"
    )


def split(
    path: str, n_rows: int, test_size: float | None, seed: int, persons: AnyArray | None
) -> tuple[Index, Index]:
    """Row numbers to fit and to hold out, no person in both."""
    if test_size is None:
        return np.arange(n_rows), np.arange(0)
    units = np.arange(n_rows)
    if persons is not None:
        units = np.unique(persons.astype(str), return_inverse=True)[1]
    n_units = int(units.max()) + 1
    n_held = round(test_size * n_units)
    if not 0 < n_held < n_units:
        raise InvalidInputError(
            f"{path}: --test-size leaves too few {'rows' if persons is None else 'persons'}"
        )
    rng = np.random.default_rng(seed)
    held = np.isin(units, rng.permutation(n_units)[:n_held])
    return np.flatnonzero(~held), np.flatnonzero(held)


def _run_private(args: argparse.Namespace, out: str) -> int:
    """Release the moments of the table once, with noise; store what follows from them and the guarantee."""
    from onefold.fabrication import MomentRegressor

    schema = contracts.private_schema(args, shared.encoders_of(args), task="regression")
    assert schema.label is not None
    persons = [] if schema.person is None else [schema.person.name]
    needed = [known.name for known in (*schema.features, schema.label)] + persons
    table = contracts.read_columns(args.data, needed, args.quiet, private=True)
    delta = min(1e-5, 1.0 / (10.0 * (schema.rows_about or 1))) if args.delta is None else args.delta
    started = time.perf_counter()
    with busy("fitting", args.quiet), without_bars(args.quiet):
        model = MomentRegressor(args.epsilon, delta, schema=schema, ledger=args.ledger).fit(table)
    # In moments of persons all rows of one weigh as much as one row: the sum counts persons.
    counted = "rows" if schema.person is None else "persons"
    size = round(max(float(model.moments_.counts_[0]), 0.0))
    promise = write_private_model(out, model)
    error, noise = math.sqrt(model.held_out_error_), model.error_noise_
    low, high = (math.sqrt(max(model.held_out_error_ + step, 0.0)) for step in (-noise, noise))
    quality = NOT_MEASURED.format(model=out, label=schema.label.name)
    result = {
        "model": out,
        "task": "regression",
        "method": "moments",
        f"{counted}_about": size,
        "features": len(schema.features),
        "estimated": {"rmse": error, "one_deviation_less": low, "one_deviation_more": high},
        "quality": {"measured": False, "text": [quality]},
        "seconds": round(time.perf_counter() - started, 3),
        "guarantee": promise,
        "holds": model.guarantee_.holds,
        "promise": model.guarantee_.to_dict(),
    }
    lines = [
        f"about {size} {counted} (with noise), {count_of(len(schema.features), 'feature')}: fitted to "
        f"private moments in {result['seconds']:.2f} s",
        f"estimated error {error:.4g} (root mean square), from the noisy sums: one standard deviation of the "
        f"noise in it is {low:.4g} to {high:.4g}",
        quality,
        f"model written to {out}, its guarantee to {promise}",
        *shared.promise_in_words(model.guarantee_, args.ledger),
    ]
    if args.report is not None:
        # The digest of the table would tell whoever has a copy that this is the one.
        lines.append(_page(args, "Private model", result, out, model.guarantee_))
    show(result, lines, as_json=args.json, quiet=args.quiet)
    return 0


# --- predict ----------------------------------------------------------------------------------------------


def run_predict(args: argparse.Namespace, out: str, model: Any, names: list[str] | None) -> int:
    """Read, predict numbers and their intervals, write, tell."""
    for name in ("probabilities", "distances", "scores"):
        if getattr(args, name):
            raise InvalidInputError(f"{args.model}: this model predicts numbers: leave out --{name}")
    rows = read_rows(
        args.data, model, names, label=args.label, identifier=args.id, quiet=args.quiet, numbers=True
    )
    level = LEVEL if args.level is None else args.level
    columns = {} if rows.ids is None else {args.id: rows.ids}
    columns |= predictions(model, rows, level)
    why = _explained(args, model, names, rows)
    if why:
        columns[explaining.BECAUSE] = explaining.because(why, len(rows))
    write_columns(out, columns)
    result: dict[str, Any] = {"predictions": out, "rows": len(rows), "level": level}
    result |= {explaining.BECAUSE: list(map(str, why))} if why else {}
    lines = [f"{len(rows)} rows predicted, written to {out}"]
    if "low" in columns:
        lines[0] += f"; low and high are intervals meant to hold {100 * level:g} % of the numbers"
    lines += explaining.lines(why)
    if rows.labels is not None:
        truth = np.asarray(rows.labels, dtype=np.float64)
        schema = getattr(model, "schema", None)
        independent = schema is None or schema.person is None
        found = measured(columns, truth, rows.with_label, level=level, bounded=independent)
        result["measures"] = found.to_dict()
        lines += found.words(f"{found.rows} rows")
        told = reports.not_covered(getattr(model, "guarantee_", None))
        lines += told.values()
        result |= told
        if args.report is not None:
            lines.append(_report(args, model, result, found, truth, columns["prediction"][rows.with_label]))
    if args.json:
        print_json(result)
    elif out != STANDARD_OUTPUT and not args.quiet:
        show(result, lines, as_json=False)
    else:
        for line in lines[1:]:
            say(line, args.quiet)
    return 0


def predictions(model: Any, rows: KnownRows, level: float) -> dict[str, AnyArray]:
    """The predicted number of each row, and the ends of its interval where the model knows them."""
    block = rows.block(0, len(rows))
    columns = {"prediction": np.asarray(model.predict(block))}
    if hasattr(model, "predict_interval"):
        low, high = model.predict_interval(block, level).T
        columns |= {"low": low, "high": high}
    return columns


def _explained(
    args: argparse.Namespace, model: Any, names: list[str] | None, rows: KnownRows
) -> list[NumberReasons]:
    """Which columns push predictions up or down, for the first rows; nothing if nobody asked."""
    explaining.check_explain(args)
    explaining.check_explain(args, len(rows))
    if args.explain is None:
        return []
    others = rows if args.against is None else read_rows(args.against, model, names, quiet=True, numbers=True)
    with busy("explaining", args.quiet):
        return explain_numbers(model, rows.block(0, args.explain), compared_with(others.rows), names=names)


# --- pages ------------------------------------------------------------------------------------------------


def evidence(schema: Schema | None, predicted: AnyArray, truth: Floats) -> dict[str, Display]:
    """Pictures of predicted and observed numbers."""
    from onefold.report import ObservedDisplay

    label = None if schema is None else schema.label
    called = "number" if label is None else f"{label.name} ({label.unit})" if label.unit else label.name
    drawn = ObservedDisplay.from_predictions(truth, np.asarray(predicted, dtype=np.float64), called)
    return {"Observed and predicted": drawn}


def _page(
    args: argparse.Namespace, title: str, result: dict[str, Any], model: str, promise: Any, **more: Any
) -> str:
    from onefold.report.builders import of_model

    facts = reports.facts_of(result, **{"the model": model, "the schema": getattr(args, "schema", None)})
    estimated = None if more.get("evaluation") is not None else result.get("estimated")
    told = {"guarantee": promise, "card": reports.card_of(args), "estimated": estimated}
    return reports.written(args.report, of_model(title, facts, **told, **more))


def _report(
    args: argparse.Namespace,
    model: Any,
    result: dict[str, Any],
    found: NumberEvaluation,
    truth: Floats,
    predicted: AnyArray,
) -> str:
    """The page about predictions; beside a promise nothing tells which raw rows the errors come from."""
    promise = getattr(model, "guarantee_", None)
    private = promise is not None and promise.holds
    told = {name: value for name, value in result.items() if not (private and name == "predictions")}
    whose = "" if private else f" of {reports.file_name(args.data)}"
    title = f"Predictions of {reports.file_name(args.model)}{whose.replace(' of ', ' for ', 1)}"
    about = f"the {found.rows} rows{whose} whose number is known"
    shown = evidence(getattr(model, "schema", None), predicted, truth)
    return _page(args, title, told, args.model, promise, evaluation=found, evidence=shown, about=about)


# --- what a model is worth --------------------------------------------------------------------------------


def measured(
    columns: dict[str, AnyArray],
    truth: Floats,
    known: AnyArray | None = None,
    *,
    mean: float | None = None,
    level: float | None = None,
    bounded: bool = True,
) -> NumberEvaluation:
    """How good predictions are in the rows that are known, whose true numbers these are."""
    from onefold.report.evaluation import evaluate_numbers

    rows = slice(None) if known is None else known
    ends = (columns["low"][rows], columns["high"][rows]) if "low" in columns else None
    return evaluate_numbers(
        columns["prediction"][rows], truth, mean=mean, ends=ends, level=level, bounded=bounded
    )
