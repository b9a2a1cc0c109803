"""``onefold fit``: a table with a label column in, a model file out."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import flag, option
from onefold.cli.console import busy, count_of, say, without_bars
from onefold.cli.outputs import check_spares_ledger, check_writable, write_model, write_private_model
from onefold.cli.predict import LEVEL, measured_numbers, predicted
from onefold.exceptions import InvalidInputError
from onefold.report.evaluation import estimate, evaluate, in_words, missed, numbers_of, with_references
from onefold.tables import Schema
from onefold.tables.reading import stem_of
from onefold.tables.rows import Rows, rows
from onefold.tables.schema import AS_THEY_STAND
from onefold.tables.tasks import NUMBERS

if TYPE_CHECKING:
    from onefold.report import Report

ONLY_WIDE = ("n_layers", "branch_size", "n_probe")
ONLY_FOLDING = ("batch_size",)
ONLY_PRIVATE = ("delta", "method", "unit", "ledger")
# Options of classifiers, with the value that stands for "not given".
ONLY_CLASSES = {
    **dict.fromkeys((*ONLY_WIDE, *ONLY_FOLDING, "measure")),
    "n_components": 20,
    "model": "wide",
    "scale": "auto",
    "raw": False,
}
NOT_MEASURED = (
    "how good it is was not measured, which would be one more release: onefold predict {model} ROWS --label "
    "{label} tells, on rows that may be used for it"
)
NO_TEST = (
    "--test-size does not go with --epsilon: an accuracy on held-out rows is an answer about them that no "
    "epsilon covers; keep rows aside and give them to onefold predict --label, for your eyes only"
)
NO_SCHEMA = (
    "--epsilon needs --schema FILE: what noise has to hide follows from declared ranges and categories, "
    "never from the rows (onefold schema infer proposes one from a public sample)"
)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fit",
        description="Fit a classifier to a CSV, NPZ or Parquet file, or a regression for a label that is a "
        "number, and store it. Columns may hold numbers, texts, truth values and dates, and cells may be "
        "missing.",
        epilog="A CSV file needs a header line. An NPZ file holds the features in an array X and the labels "
        "in another, for example y. The model file contains the rows it was fitted on: guard it like them.",
    )
    shared.add_data(parser)
    option(parser, "--label COL", "column with the classes or numbers (default: the label of --schema)")
    task = (
        "what to predict, a class or a number (default: regression where the label of --schema is a number "
        "with a range, or without --schema has fractions or more than 20 different whole numbers; else "
        "classification)"
    )
    shared.add_task(parser, task)
    option(parser, "--schema FILE", "types, ranges and categories of the columns (default: inferred)")
    option(parser, "--out MODEL", "file of the model (default: the name of DATA, ending in .onefold)")
    shared.add_ignore(parser)
    shared.add_encoders(parser, "encoder of a column")
    person = "column that says whom a row is about: no feature, and in one part of a test only"
    option(parser, "--person COL", person)
    flag(parser, "--raw", "use numbers of one unit, such as pixels, without a schema")
    held_out = "share of the rows to test on, to which the model is not fitted (default: none)"
    option(parser, "--test-size F", held_out, shared.fraction)
    reports.add_report(parser)
    group = parser.add_argument_group("model")
    shared.add_model_options(group)
    layers = "layers of a wide model (default: 1 below 1000 encoded columns of a schema; else 5)"
    option(group, "--n-layers N", layers, shared.whole)
    branch = "rows in a branch of a wide model (default: 1000, or chosen by held-out rows)"
    option(group, "--branch-size N", branch, shared.whole)
    probe = "branches of each class that a wide model evaluates for a row (default: all)"
    option(group, "--n-probe N", probe, shared.whole)
    option(group, "--batch-size N", "rows in a batch of a folding model (default: 50)", shared.whole)
    option(group, "--scale none|auto|F", "factor applied to the data before fitting", shared.scale, "auto")
    option(group, "--n-jobs N", "number of threads (default: all processors)", shared.jobs)
    option(group, "--seed N", "seed of everything random but noise", shared.seed, 0)
    group = parser.add_argument_group(
        "privacy",
        "With --epsilon nothing but a noisy release of the table is learned from. It needs a schema that was "
        "declared without looking at the rows.",
    )
    option(group, "--epsilon E", "epsilon of the guarantee of the model (default: none)", shared.positive)
    option(group, "--delta D", "delta of the guarantee (default: at most 1e-5)", shared.fraction)
    method = "what is released with noise: tables of counts, or moments for a discriminant; auto: tables"
    option(group, "--method", method, choices=("auto", "tables", "moments"))
    unit = "what epsilon protects, a record or a person (default: person where the schema has one)"
    option(group, "--unit", unit, choices=("record", "person"))
    shared.add_ledger(group)
    shared.ends(parser, run)


def run(args: argparse.Namespace) -> None:
    """Read, split if asked to, fit, store, tell."""
    _check_options(args)
    out = f"{stem_of(args.data)}.onefold" if args.out is None else args.out
    check_writable(out, args.data, args.schema)
    check_spares_ledger(args.ledger, out)
    reports.check_report(args, out)  # before anything is spent
    schema = _schema(args)
    numbers = args.task == NUMBERS.name or schema.predicts_number
    if numbers:
        _check_numbers(args)
    if args.epsilon is not None:
        _run_private(args, out, schema)
        return
    data = _rows(args, schema)
    numbers = data.task is NUMBERS
    train, held = data.split(args.test_size, args.seed)
    for note in data.notes:
        hint = f"; onefold schema show {out} shows it" if note == data.summary else ""
        say(note + hint, args.quiet)
    started = time.perf_counter()
    with without_bars(args.quiet):  # fitting shows a bar of its own
        model = _model_for(args, data).fit(train.X, train.y, groups=train.persons if train.grouped else None)
    about: dict[str, Any] = {"task": "regression"} if numbers else {"kind": args.model}
    result = {"model": out, **about, "rows": len(train), "features": data.n_features}
    result |= {} if numbers else {"classes": int(model.classes_.size)}
    result["seconds"] = round(time.perf_counter() - started, 3)
    classes = "" if numbers else f", {model.classes_.size} classes"
    what = f"{len(train)} rows, {count_of(data.n_features, 'feature')}{classes}"
    measured = _measured_numbers if numbers else _measured
    told, words, found = measured(model, train, held, data.grouped, args.quiet)
    if data.schema.plain and data.names:
        # The scikit-learn attribute for columns with names; set after fit because a plain array went in.
        model.feature_names_in_ = np.array(data.names, dtype=object)
    write_model(out, model)
    result |= told | {"file_bytes": Path(out).stat().st_size}
    holds = "contains the fitted rows"
    if numbers:
        holds = "holds exact sums over the fitted rows and errors of single rows"
    lines = [
        f"{what} fitted in {result['seconds']:.2f} s",
        *words,
        f"model written to {out} ({result['file_bytes'] / 1e6:.2f} MB); it {holds}: guard it like the data",
    ]

    def page() -> Report:
        facts = reports.facts_of(result, **{"the model": out, "the schema": args.schema})
        about = {"rows": held, "evaluation": found} if found else {"estimated": told.get("estimated")}
        return reports.model_report(
            args, f"Model of {reports.file_name(args.data)}", facts, model=model, **about
        )

    reports.tell(args, result, lines, page)


def _schema(args: argparse.Namespace) -> Schema:
    """The declared schema, with columns in the roles that are given; without features if none is declared."""
    if args.schema is None:
        return AS_THEY_STAND
    schema = Schema.load(args.schema).with_encoders(shared.encoders_of(args))
    schema = schema.with_roles(args.label, args.person, args.ignore)
    if schema.label is None:
        raise InvalidInputError(
            f'{args.schema}: the schema has no label: give --label COL, or set "onefold:role" of a field to '
            '"label"'
        )
    if args.task == NUMBERS.name and not schema.predicts_number:
        raise InvalidInputError(f"{args.schema}: the label {schema.label.name!r} is no number with a range")
    if args.task == "classification" and not schema.label.is_category:
        raise InvalidInputError(
            f"{args.schema}: the label {schema.label.name!r} is a number; list its classes in "
            "constraints.enum, or give --task regression"
        )
    schema.require_feature(args.schema)
    return schema


def _check_options(args: argparse.Namespace) -> None:
    """Refuse what contradicts itself, and an option of the other kind of model."""
    if args.epsilon is None:
        shared.refuse(args, dict.fromkeys(ONLY_PRIVATE), "{0} goes with --epsilon")
    others = ONLY_FOLDING if args.model == "wide" else ONLY_WIDE
    shared.refuse(args, dict.fromkeys(others), f"{{0}} does not go with --model {args.model}")
    if not (args.label or args.schema):
        raise InvalidInputError("name the column of classes with --label COL, or a schema with --schema FILE")
    if args.raw and (args.schema or args.person or args.encoders):
        raise InvalidInputError("--raw uses no schema: leave out --schema, --person and --encoder")
    if args.label is not None and args.label in (*args.ignore, args.person):
        raise InvalidInputError("--label names a column that --ignore or --person takes away")


def _check_numbers(args: argparse.Namespace) -> None:
    """Refuse options of classifiers where a number is to be predicted."""
    shared.refuse(args, ONLY_CLASSES, "{0} is for classes, not for numbers to predict")
    if args.method not in (None, "auto", "moments"):
        raise InvalidInputError("numbers are predicted from private moments: leave out --method tables")


def _own(args: argparse.Namespace) -> dict[str, Any]:
    """Options of the classifier."""
    own = {name: getattr(args, name) for name in ("n_components", "measure", "seed", "n_jobs")}
    own |= {name: vars(args)[name] for name in (*ONLY_WIDE, *ONLY_FOLDING) if vars(args)[name] is not None}
    return own | {"scale": None if args.scale == "none" else args.scale}


def _model_for(args: argparse.Namespace, data: Rows) -> Any:
    """A model that is not fitted yet."""
    # Imported late: a mistake in the table is told without waiting for scikit-learn.
    if data.task is NUMBERS:
        from onefold.fabrication import MomentRegressor

        return MomentRegressor(None, schema=None if data.schema.plain else data.schema)
    own = _own(args)
    plain = args.measure in (None, "euclidean") and (args.n_components, args.scale) == (20, "auto")
    tune = data.schema.plain and plain and not set(own) & set(ONLY_WIDE)
    return shared.classifier_of(args.model, schema=data.schema, tune=tune, **own)


def _rows(args: argparse.Namespace, schema: Schema) -> Rows:
    """Rows and their classes or numbers; which of them, an undeclared label may decide."""
    task = args.task or "auto"
    if not schema.features and any(getattr(args, name) != usual for name, usual in ONLY_CLASSES.items()):
        task = args.task or "classification"  # options of classifiers
    with busy(f"reading {args.data}", args.quiet):
        if schema.features:
            return rows(args.data, schema, task=task)
        given: dict[str, Any] = {"label": args.label, "ignore": args.ignore, "task": task}
        if args.raw:
            return rows(args.data, "numbers", **given)
        return rows(args.data, person=args.person, encoders=shared.encoders_of(args), **given)


# --- what the model is worth --------------------------------------------------------------------------------

Measured = tuple[dict[str, Any], list[str], Any]


def _measured(model: Any, train: Rows, held: Rows, grouped: bool, quiet: bool) -> Measured:
    """Measures of a classifier for machines, in words, and for a page."""
    classes, counts = np.unique(train.y, return_counts=True)
    common = classes[np.argmax(counts)]
    if not len(held):
        if grouped and not hasattr(model, "head_"):
            return {}, ["accuracy for other persons not estimated; --test-size F measures it"], None
        return *_estimated(model, of_persons=grouped), None
    with busy(f"testing {len(held)} rows", quiet):
        predicted, truth = np.asarray(model.predict(held.X)), held.y
        scores = model.decision_function(held.X) if classes.size == 2 else None
        # Rows of one person are alike: the number of errors is then no binomial one.
        found = evaluate(predicted, truth, scores=scores, common=common, bounded=not grouped)
        found = with_references(found, predicted == truth, (train.encoded, held.encoded), (train.y, truth))
    told = {"held_out_rows": found.rows, "held_out_accuracy": found.accuracy, "held_out": numbers_of(found)}
    return told, found.words(f"{found.rows} rows held out"), found


def _estimated(model: Any, of_persons: bool) -> tuple[dict[str, Any], list[str]]:
    """The estimate that a model makes of itself, from rows that were left out."""
    result = estimate(model, bounded=not of_persons)
    if result is None:
        return {}, []
    # Bounds are for rows that neither fitting nor choosing has used.
    told = numbers_of(result) | {"missed": missed(result.classes, result.confusion, bounded=False)}
    lines = [
        f"estimated accuracy {result.accuracy:.4f} (guessing the majority {result.majority:.4f}), balanced "
        f"accuracy {result.balanced_accuracy:.4f}: from {result.rows} rows{' of persons' * of_persons} that "
        "were left out; --test-size F measures it",
        result.verdict,
    ]
    return {"estimated": told}, lines + in_words(told["missed"])


def _measured_numbers(model: Any, train: Rows, held: Rows, grouped: bool, quiet: bool) -> Measured:
    """Errors of a regression for machines, in words, and for a page."""
    error, spread = math.sqrt(model.held_out_error_), float(np.std(train.y))
    told: dict[str, Any] = {"estimated": {"rmse": error, "rmse_of_the_mean": spread}}
    if not len(held):
        units = "persons" if grouped else "rows"
        line = (
            f"estimated error on other {units} {error:.4g} (root mean square; the mean alone {spread:.4g}); "
            "--test-size F measures it"
        )
        return told, [line], None
    columns = predicted(model, held.X, (), LEVEL)
    mean = float(np.mean(train.y))
    found = measured_numbers(columns, held.y, mean=mean, level=LEVEL, bounded=not grouped)
    return told | {"held_out": numbers_of(found)}, found.words(f"{len(held)} rows held out"), found


# --- with a promise of privacy ------------------------------------------------------------------------------


# A model that carries a promise, the noisy size of what was counted, and what can be told without another
# release: for machines, in words, and as a forecast.
PrivateFit = tuple[Any, int, dict[str, Any], Sequence[str], Sequence[str]]


def _run_private(args: argparse.Namespace, out: str, declared: Schema) -> None:
    """Release the table once, with noise; fit to nothing else; store the model and its guarantee."""
    schema = _private_schema(args, declared)
    assert schema.label is not None
    numbers = schema.predicts_number
    with busy(f"reading {args.data}", args.quiet):
        table = rows(args.data, schema, mode="private").X
    method = "moments" if numbers else "tables" if args.method in (None, "auto") else args.method
    make = _from_tables if method == "tables" else _from_moments
    started = time.perf_counter()
    with busy("fitting", args.quiet), without_bars(args.quiet):
        model, size, told, words, forecast = make(args, schema, table)
    # In moments of persons all rows of one weigh as much as one row: the sum counts persons.
    counted = "persons" if method == "moments" and schema.person is not None else "rows"
    promise = write_private_model(out, model)
    quality = [*forecast, NOT_MEASURED.format(model=out, label=schema.label.name)]
    result = {
        "model": out,
        "method": method,
        f"{counted}_about": size,
        "features": len(schema.features),
        **told,
        "seconds": round(time.perf_counter() - started, 3),
        "guarantee": promise,
        "holds": model.guarantee_.holds,
        "promise": model.guarantee_.to_dict(),
        "quality": {"measured": False, "text": quality},
    }
    classes = "" if numbers else f", {model.classes_.size} classes"
    lines = [
        f"about {size} {counted} (with noise), {count_of(len(schema.features), 'feature')}{classes}: "
        f"fitted to private {method} in {result['seconds']:.2f} s",
        *words,
        *quality,
        f"model written to {out}, its guarantee to {promise}",
        *shared.promise_in_words(model.guarantee_, args.ledger),
    ]

    def page() -> Report:
        # The digest of the table would tell whoever has a copy that this is the one.
        facts = reports.facts_of(result, **{"the model": out, "the schema": args.schema})
        estimated = told.get("estimated")
        found = reports.model_report(args, "Private model", facts, model=model, estimated=estimated)
        return replace(found, verdict=[*found.verdict, *(f"{line}." for line in forecast)])

    reports.tell(args, result, lines, page)


def _private_schema(args: argparse.Namespace, schema: Schema) -> Schema:
    """The declared schema on which a promise can rest, for records or for persons."""
    if args.test_size is not None:
        raise InvalidInputError(NO_TEST)
    if not schema.features or args.raw:
        raise InvalidInputError(NO_SCHEMA)
    if args.unit == "person" and schema.person is None:
        raise InvalidInputError("--unit person needs a column of persons: give --person COL")
    if args.unit == "record":
        return schema.without_person()
    if schema.person is not None and schema.rows_per_person is None:
        raise InvalidInputError(
            f'{args.schema}: a guarantee for persons needs "rowsPerPerson" under "onefold", the most rows '
            "of one that count; --unit record promises nothing for persons"
        )
    return schema


def _from_tables(args: argparse.Namespace, schema: Schema, table: Any) -> PrivateFit:
    """A classifier of rows drawn from noisy counts: what is done with them costs nothing more."""
    from onefold.fabrication import TableSynthesizer

    maker = TableSynthesizer(schema, args.epsilon, args.delta, ledger=args.ledger).fit(table)
    made = maker.sample(random_state=args.seed)
    labels, _ = schema.labels(made)
    if len(np.unique(labels)) < 2:
        raise InvalidInputError("the noise left one class only: more rows or a larger epsilon are needed")
    model = shared.classifier_of(args.model, schema=schema, **_own(args)).fit(made, labels)
    model.guarantee_ = maker.guarantee_
    errors = maker.expected_errors_
    worst = max(errors, key=lambda name: errors[name])
    moved = f"about {100 * errors[worst]:.2g} of 100 rows into a wrong cell of {worst!r}, the worst column"
    forecast = f"a forecast from the noisy counts: noise moved {moved}"
    return model, int(maker.n_rows_), {"classes": int(model.classes_.size)}, (), [forecast]


def _from_moments(args: argparse.Namespace, schema: Schema, table: Any) -> PrivateFit:
    """A discriminant, or a regression, of noisy moments."""
    from onefold.fabrication import MomentClassifier, MomentRegressor
    from onefold.privacy.forecast import forecast_moments

    # The delta that was asked for, or one that suits the declared number of rows.
    delta = min(1e-5, 1.0 / (10.0 * (schema.rows_about or 1))) if args.delta is None else args.delta
    kind = MomentRegressor if schema.predicts_number else MomentClassifier
    model = kind(args.epsilon, delta, schema=schema, ledger=args.ledger).fit(table)
    size = round(max(float(np.sum(model.moments_.counts_)), 0.0))
    if isinstance(model, MomentClassifier):
        found = forecast_moments(max(size, 1), schema.width, model.classes_.size, args.epsilon, delta)
        gain = f"noise leaves about {100 * found.left:.0f} % of what such a model gains over guessing"
        forecast = f"a forecast from the noisy number of rows: {gain}"
        return model, size, {"classes": int(model.classes_.size)}, (), [forecast]
    steps = (0.0, -model.error_noise_, model.error_noise_)
    error, low, high = (math.sqrt(max(model.held_out_error_ + step, 0.0)) for step in steps)
    words = (
        f"estimated error {error:.4g} (root mean square), from the noisy sums: one standard deviation of the "
        f"noise in it is {low:.4g} to {high:.4g}"
    )
    estimated = {"rmse": error, "one_deviation_less": low, "one_deviation_more": high}
    return model, size, {"task": "regression", "estimated": estimated}, [words], ()
