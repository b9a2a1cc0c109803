"""``onefold fit``: a table with a label column in, a model file out."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onefold._base.arrays import AnyArray, Index
from onefold.cli import arguments as shared
from onefold.cli import contracts, reports
from onefold.cli.arguments import flag, option
from onefold.cli.console import busy, count_of, say, show, without_bars
from onefold.cli.outputs import check_spares_ledger, check_writable, write_model, write_private_model
from onefold.cli.predict import LEVEL, measured_numbers, predicted
from onefold.cli.tables import read_labelled
from onefold.exceptions import InvalidInputError
from onefold.report.evaluation import estimate, evaluate, in_words, missed, with_references
from onefold.tables import Schema

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
METHODS = ("tables", "moments")
GROUP_SPLITS = 20  # drawn at random; the one with the classes most alike in both parts is taken


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
    option(
        parser,
        "--label COL",
        "column to predict, with the classes or numbers (default: the label of --schema)",
    )
    task = (
        "what to predict, a class or a number (default: regression where the label of --schema is a number "
        "with a range, or without --schema has fractions or more than 20 different whole numbers; else "
        "classification)"
    )
    shared.add_task(parser, task)
    what = "schema of the table: types, ranges and categories of its columns (default: inferred from DATA)"
    option(parser, "--schema FILE", what)
    option(
        parser, "--out MODEL", "file to write the model to (default: the name of DATA, ending in .onefold)"
    )
    shared.add_ignore(parser)
    shared.add_encoders(parser, "encoder of a column")
    person = (
        "column that says whom a row is about: it is no feature, and no person is in both parts of a test"
    )
    option(parser, "--person COL", person)
    raw = (
        "use columns of numbers without a schema: for columns of one unit, such as pixels; with no option of "
        "the model columns are standardised where that helps, else they are used as they are"
    )
    flag(parser, "--raw", raw)
    held_out = "share of the rows to hold out and test on; the model is fitted on the others (default: none)"
    option(parser, "--test-size F", held_out, shared.fraction)
    shared.add_output_options(parser)
    reports.add_report(parser)
    group = parser.add_argument_group("model")
    shared.add_model_options(group)
    layers = (
        "number of layers of a wide model (default: one for a table that is read by a schema, declared or "
        "inferred, of fewer than 1000 encoded columns, and where columns of numbers are used without other "
        "options; else 5)"
    )
    option(group, "--n-layers N", layers, shared.whole)
    branch = (
        "rows in a branch of a wide model (default: 1000; without a schema and other options of the model "
        "chosen by held-out rows)"
    )
    option(group, "--branch-size N", branch, shared.whole)
    probe = "number of branches of each class that a wide model evaluates for a row (default: all)"
    option(group, "--n-probe N", probe, shared.whole)
    option(group, "--batch-size N", "rows in a batch of a folding model (default: 50)", shared.whole)
    scale = "factor applied to the data before fitting: none, auto or a positive number"
    option(group, "--scale none|auto|F", scale, shared.scale, "auto")
    option(group, "--n-jobs N", "number of threads (default: all processors)", shared.jobs)
    option(group, "--seed N", "seed of everything random but noise", shared.seed, 0)
    group = parser.add_argument_group(
        "privacy",
        "With --epsilon nothing but a noisy release of the table is learned from. It needs a schema that was "
        "declared without looking at the rows.",
    )
    option(
        group, "--epsilon E", "epsilon of the privacy guarantee of the model (default: none)", shared.positive
    )
    delta = "delta of the privacy guarantee (default: 1e-5, or less for schemas of many rows)"
    option(group, "--delta D", delta, shared.fraction)
    method = (
        "what is released with noise: tables of counts, and the model is fitted to rows drawn from them; or "
        "moments, for a discriminant; auto stands for tables"
    )
    option(group, "--method", method, choices=("auto", *METHODS))
    unit = (
        "what epsilon protects: a record (a row), or a person (all rows of one), which needs a person column"
    )
    option(
        group, "--unit", f"{unit} (default: person where the schema has one)", choices=("record", "person")
    )
    shared.add_ledger(group)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, split if asked to, fit, store, tell."""
    _check_options(args)
    out = f"{contracts.stem_of(args.data)}.onefold" if args.out is None else args.out
    check_writable(out, args.data, *([] if args.schema is None else [args.schema]))
    check_spares_ledger(args.ledger, out)
    reports.check_report(args, out)  # before anything is spent
    numbers = contracts.wants_numbers(args)
    if numbers:
        _check_numbers(args)
    if args.epsilon is not None:
        return _run_private(args, out, numbers)
    data = _read(args, out, numbers)
    train, held = split(args.data, data.labels, args.test_size, args.seed, data.persons, data.numbers)
    for note in data.notes:
        say(note, args.quiet)
    started = time.perf_counter()
    with without_bars(args.quiet):  # fitting shows a bar of its own
        persons = None if data.persons is None else data.persons[train]
        model = _model_for(args, data).fit(data.take(train), data.labels[train], groups=persons)
    about: dict[str, Any] = {"task": "regression"} if data.numbers else {"kind": args.model}
    result = {"model": out, **about, "rows": int(train.size), "features": data.n_features}
    result |= {} if data.numbers else {"classes": int(model.classes_.size)}
    result["seconds"] = round(time.perf_counter() - started, 3)
    classes = "" if data.numbers else f", {model.classes_.size} classes"
    what = f"{train.size} rows, {count_of(data.n_features, 'feature')}{classes}"
    told, words, found = (_measured_numbers if data.numbers else _measured)(
        model, data, train, held, args.quiet
    )
    if data.names is not None:
        # The scikit-learn attribute for columns with names; set after fit because a plain array went in.
        model.feature_names_in_ = np.array(data.names, dtype=object)
    write_model(out, model)
    result |= told | {"file_bytes": Path(out).stat().st_size}
    holds = "contains the fitted rows"
    if data.numbers:
        holds = "holds exact sums over the fitted rows and errors of single rows"
    lines = [
        f"{what} fitted in {result['seconds']:.2f} s",
        *words,
        f"model written to {out} ({result['file_bytes'] / 1e6:.2f} MB); it {holds}: guard it like the data",
    ]
    if args.report is not None:
        facts = reports.facts_of(result, **{"the model": out, "the schema": args.schema})
        shown = reports.evidence(model, data.take(held), data.labels[held]) if held.size else None
        estimated = told.get("estimated") if found is None else None
        title = f"Model of {reports.file_name(args.data)}"
        page = reports.model_report(
            args, title, facts, model=model, evaluation=found, shown=shown, estimated=estimated
        )
        lines.append(reports.written(args.report, page))
    show(result, lines, as_json=args.json, quiet=args.quiet)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """Refuse what contradicts itself, and an option of the other kind of model."""
    for name in ONLY_PRIVATE:
        if args.epsilon is None and getattr(args, name) is not None:
            raise InvalidInputError(f"--{name} goes with --epsilon")
    for name in ONLY_FOLDING if args.model == "wide" else ONLY_WIDE:
        if getattr(args, name) is not None:
            raise InvalidInputError(f"--{name.replace('_', '-')} does not go with --model {args.model}")
    if args.label is None and args.schema is None:
        raise InvalidInputError("name the column of classes with --label COL, or a schema with --schema FILE")
    if args.raw and (args.schema is not None or args.person is not None or args.encoders):
        raise InvalidInputError("--raw uses no schema: leave out --schema, --person and --encoder")
    if args.label is not None and args.label in (*args.ignore, args.person):
        raise InvalidInputError("--label names a column that --ignore or --person takes away")


def _check_numbers(args: argparse.Namespace) -> None:
    """Refuse options of classifiers where a number is to be predicted."""
    for name, usual in ONLY_CLASSES.items():
        if getattr(args, name) != usual:
            raise InvalidInputError(f"--{name.replace('_', '-')} is for classes, not for numbers to predict")
    if args.method not in (None, "auto", "moments"):
        raise InvalidInputError("numbers are predicted from private moments: leave out --method tables")


def _own(args: argparse.Namespace) -> dict[str, Any]:
    """Options of the classifier."""
    given = {name: getattr(args, name) for name in (*ONLY_WIDE, *ONLY_FOLDING)}
    own = {name: value for name, value in given.items() if value is not None}
    own |= {name: getattr(args, name) for name in ("n_components", "measure", "seed", "n_jobs")}
    return own | {"scale": None if args.scale == "none" else args.scale}


def _model_for(args: argparse.Namespace, data: Data) -> Any:
    """A model that is not fitted yet."""
    # Imported late: a mistake in the table is told without waiting for scikit-learn.
    if data.numbers:
        from onefold.fabrication import MomentRegressor

        return MomentRegressor(None, schema=data.schema)
    own = _own(args)
    plain = args.measure in (None, "euclidean") and (args.n_components, args.scale) == (20, "auto")
    tune = data.schema is None and plain and not set(own) & set(ONLY_WIDE)
    return shared.classifier_of(args.model, schema=data.schema, tune=tune, **own)


# --- the rows to learn from ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Rows and their classes or numbers: a matrix, or columns read by a schema."""

    rows: Any
    labels: AnyArray
    schema: Schema | None = None
    names: tuple[str, ...] | None = None
    persons: AnyArray | None = None
    notes: tuple[str, ...] = ()

    @property
    def numbers(self) -> bool:
        """Whether a number is predicted."""
        return self.schema is not None and self.schema.predicts_number

    def take(self, which: Index) -> Any:
        """Some of the rows, as the model wants them."""
        return self.rows[which] if self.schema is None else contracts.take(self.rows, which)

    def encoded(self, which: Index) -> AnyArray:
        """Some of the rows as numbers."""
        rows = self.take(which)
        return np.asarray(rows if self.schema is None else self.schema.transform(rows))

    @property
    def n_features(self) -> int:
        """Number of columns that are learned from."""
        return int(self.rows.shape[1]) if self.schema is None else len(self.rows)


def _read(args: argparse.Namespace, out: str, numbers: bool) -> Data:
    """Rows and their classes or numbers; which of them, an undeclared label may decide."""
    # Nothing but the column itself says whether it holds classes or amounts.
    is_open = args.task is None and args.schema is None
    is_open = is_open and all(getattr(args, name) == usual for name, usual in ONLY_CLASSES.items())
    found = None if numbers else _matrix_alone(args, is_open)
    if found is not None:
        return found
    encoders = shared.encoders_of(args)
    needed = [name for name in (args.label, args.person, *args.ignore, *encoders) if name is not None]
    table = contracts.read_columns(args.data, needed, args.quiet)
    task = "regression" if numbers else "auto" if is_open else "classification"
    chosen = (args.label, args.ignore, args.person, encoders, task)
    if args.schema is None:
        schema = contracts.inferred(table, *chosen)
    else:
        schema = contracts.declared(args.schema, *chosen)
    labels, known = contracts.answers_of(schema, table)
    assert schema.label is not None
    name = schema.label.name
    if len(np.unique(labels)) < 2:
        raise InvalidInputError(f"{args.data}: label column {name!r} has {_too_few(schema, labels, known)}")
    rows = contracts.rows_of(schema, table, strict=args.schema is not None)
    notes = [contracts.why_a_number(name, labels)] if task == "auto" and schema.predicts_number else []
    if not known.all():
        gone = "has no number" if schema.predicts_number else "is missing"
        notes.append(f"{len(known) - len(labels)} of {len(known)} rows left out: {name!r} {gone} there")
        rows = contracts.take(rows, known)
    notes += [contracts.in_one_line(schema, rows, out), *contracts.about_persons(schema, table)]
    if args.task is None and not schema.predicts_number:
        notes += contracts.about_classes(name, labels)
    persons = None if schema.person is None else schema.persons(table)[known]
    return Data(rows, labels, schema, persons=persons, notes=tuple(notes))


def _too_few(schema: Schema, labels: AnyArray, known: AnyArray) -> str:
    if schema.predicts_number:
        return "fewer than two numbers"
    found = "one class only" if len(labels) else "no class"
    if not known.all():
        found += f" ({np.sum(~known)} of {len(known)} cells are empty, or say so)"
    return f"{found}, at least two are needed"


def _matrix_alone(args: argparse.Namespace, is_open: bool) -> Data | None:
    """A matrix of numbers that needs no schema: by ``--raw``, as an array, or as many columns of one unit."""
    if args.raw:
        return _matrix(args)
    if args.schema is not None or args.encoders:
        return None
    is_matrix = contracts.is_matrix(args.data)
    if args.person is not None or not (is_matrix or contracts.is_wide(args.data)):
        return None
    try:
        data = _matrix(args)
    except InvalidInputError:
        return None  # text or gaps: columns need a schema, and what is wrong with the table is said later
    amounts = is_open and contracts.may_be_amounts(args.data, data.labels)
    return data if is_matrix or (contracts.of_one_unit(data.rows) and not amounts) else None


def _matrix(args: argparse.Namespace) -> Data:
    table, labels = read_labelled(args.data, args.label, ignore=args.ignore, quiet=args.quiet)
    return Data(table.values, labels, names=table.names)


def split(
    path: str,
    labels: AnyArray,
    test_size: float | None,
    seed: int,
    persons: AnyArray | None = None,
    numbers: bool = False,
) -> tuple[Index, Index]:
    """Row numbers to fit and to hold out, classes in the same proportion and no person in both."""
    rows = np.arange(labels.size)
    if test_size is None:
        return rows, rows[:0]
    units = rows if persons is None else np.unique(persons.astype(str), return_inverse=True)[1]
    n_units = int(units.max()) + 1
    n_held = round(test_size * n_units)
    if not 0 < n_held < n_units:
        raise InvalidInputError(
            f"{path}: --test-size leaves too few {'rows' if persons is None else 'persons'}"
        )
    if persons is None and not numbers:
        return _split_classes(path, labels, n_held, seed)
    codes = np.zeros(rows.size, dtype=np.intp) if numbers else np.unique(labels, return_inverse=True)[1]
    totals = np.bincount(codes)
    rng = np.random.default_rng(seed)
    best: tuple[float, AnyArray] | None = None
    for _ in range(1 if numbers else GROUP_SPLITS):
        chosen = np.isin(units, rng.permutation(n_units)[:n_held])
        counts = np.bincount(codes[chosen], minlength=len(totals))
        if np.any(counts == totals):
            continue  # a class would not be learned
        distance = float(np.abs(counts / totals - test_size).sum())
        if best is None or distance < best[0]:
            best = distance, chosen
    if best is None:
        raise InvalidInputError(f"{path}: --test-size would hold out every person of some class")
    return np.flatnonzero(~best[1]), np.flatnonzero(best[1])


def _split_classes(path: str, labels: AnyArray, held: int, seed: int) -> tuple[Index, Index]:
    from sklearn.model_selection import train_test_split

    rows = np.arange(labels.size)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    several = counts[codes] > 1  # the only row of a class must be learned from
    many = rows[several]
    n_several = int(np.sum(counts > 1))
    held = min(held, many.size - n_several)
    alike = held >= n_several
    if held < 1:
        raise InvalidInputError(f"{path}: --test-size leaves too few rows for {classes.size} classes")
    train, test = train_test_split(
        many, test_size=held, stratify=codes[many] if alike else None, random_state=seed
    )
    return np.sort(np.concatenate([train, rows[~several]])), np.sort(test)


# --- what the model is worth --------------------------------------------------------------------------------

Measured = tuple[dict[str, Any], list[str], Any]


def _measured(model: Any, data: Data, train: Index, held: Index, quiet: bool) -> Measured:
    """Measures of a classifier for machines, in words, and for a page."""
    classes, counts = np.unique(data.labels[train], return_counts=True)
    common = classes[np.argmax(counts)]
    if not held.size:
        if data.persons is not None and not hasattr(model, "head_"):
            return {}, ["accuracy for other persons not estimated; --test-size F measures it"], None
        return *_estimated(model, of_persons=data.persons is not None), None
    with busy(f"testing {held.size} rows", quiet):
        rows, truth = data.take(held), data.labels[held]
        predicted = np.asarray(model.predict(rows))
        scores = model.decision_function(rows) if classes.size == 2 else None
        # Rows of one person are alike: the number of errors is then no binomial one.
        independent = data.persons is None
        found = evaluate(predicted, truth, scores=scores, common=common, bounded=independent)
        found = with_references(
            found,
            predicted == truth,
            (data.encoded(train), data.encoded(held)),
            (data.labels[train], truth),
        )
    told = {"held_out_rows": found.rows, "held_out_accuracy": found.accuracy, "held_out": found.to_dict()}
    return told, found.words(f"{found.rows} rows held out"), found


def _estimated(model: Any, of_persons: bool) -> tuple[dict[str, Any], list[str]]:
    """The estimate that a model makes of itself, from rows that were left out."""
    result = estimate(model, bounded=not of_persons)
    if result is None:
        return {}, []
    # Bounds are for rows that neither fitting nor choosing has used.
    told = result.to_dict() | {"missed": missed(result.classes, result.confusion, bounded=False)}
    lines = [
        f"estimated accuracy {result.accuracy:.4f} (guessing the majority {result.majority:.4f}), balanced "
        f"accuracy {result.balanced_accuracy:.4f}: from {result.rows} rows{' of persons' * of_persons} that "
        "were left out; --test-size F measures it",
        result.verdict,
    ]
    return {"estimated": told}, lines + in_words(told["missed"])


def _measured_numbers(model: Any, data: Data, train: Index, held: Index, quiet: bool) -> Measured:
    """Errors of a regression for machines, in words, and for a page."""
    error, spread = math.sqrt(model.held_out_error_), float(np.std(data.labels[train]))
    told: dict[str, Any] = {"estimated": {"rmse": error, "rmse_of_the_mean": spread}}
    if not held.size:
        units = "rows" if data.persons is None else "persons"
        line = (
            f"estimated error on other {units} {error:.4g} (root mean square; the mean alone {spread:.4g}); "
            "--test-size F measures it"
        )
        return told, [line], None
    mean = float(np.mean(data.labels[train]))
    columns = predicted(model, data.take(held), (), LEVEL)
    alone = data.persons is None
    found = measured_numbers(columns, data.labels[held], mean=mean, level=LEVEL, bounded=alone)
    return told | {"held_out": found.to_dict()}, found.words(f"{held.size} rows held out"), found


# --- with a promise of privacy ------------------------------------------------------------------------------


class PrivateFit(NamedTuple):
    """A model that carries a promise, and what can be told about it without another release."""

    model: Any
    size: int  # of what was counted, with noise
    told: dict[str, Any]
    words: Sequence[str] = ()
    forecast: Sequence[str] = ()


def _run_private(args: argparse.Namespace, out: str, numbers: bool) -> int:
    """Release the table once, with noise; fit to nothing else; store the model and its guarantee."""
    task = "regression" if numbers else "classification"
    schema = contracts.private_schema(args, shared.encoders_of(args), task)
    assert schema.label is not None
    persons = [] if schema.person is None else [schema.person.name]
    needed = [known.name for known in (*schema.features, schema.label)] + persons
    table = contracts.read_columns(args.data, needed, args.quiet, private=True)
    method = "moments" if numbers else "tables" if args.method in (None, "auto") else args.method
    make = _numbers_from_moments if numbers else _from_tables if method == "tables" else _from_moments
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
    if args.report is not None:
        # The digest of the table would tell whoever has a copy that this is the one.
        facts = reports.facts_of(result, **{"the model": out, "the schema": args.schema})
        estimated = told.get("estimated")
        page = reports.model_report(args, "Private model", facts, model=model, estimated=estimated)
        page = replace(page, verdict=[*page.verdict, *(f"{line}." for line in forecast)])
        lines.append(reports.written(args.report, page))
    show(result, lines, as_json=args.json, quiet=args.quiet)
    return 0


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
    return PrivateFit(model, int(maker.n_rows_), {"classes": int(model.classes_.size)}, forecast=[forecast])


def _from_moments(args: argparse.Namespace, schema: Schema, table: Any) -> PrivateFit:
    from onefold.fabrication import MomentClassifier
    from onefold.privacy.forecast import forecast_moments

    delta = _delta(args, schema)
    model = MomentClassifier(args.epsilon, delta, schema=schema, ledger=args.ledger).fit(table)
    size = round(max(float(np.sum(model.moments_.counts_)), 0.0))
    found = forecast_moments(max(size, 1), schema.width, model.classes_.size, args.epsilon, delta)
    gain = f"noise leaves about {100 * found.left:.0f} % of what such a model gains over guessing"
    forecast = f"a forecast from the noisy number of rows: {gain}"
    return PrivateFit(model, size, {"classes": int(model.classes_.size)}, forecast=[forecast])


def _numbers_from_moments(args: argparse.Namespace, schema: Schema, table: Any) -> PrivateFit:
    from onefold.fabrication import MomentRegressor

    delta = _delta(args, schema)
    model = MomentRegressor(args.epsilon, delta, schema=schema, ledger=args.ledger).fit(table)
    size = round(max(float(model.moments_.counts_[0]), 0.0))
    error, noise = math.sqrt(model.held_out_error_), model.error_noise_
    low, high = (math.sqrt(max(model.held_out_error_ + step, 0.0)) for step in (-noise, noise))
    words = (
        f"estimated error {error:.4g} (root mean square), from the noisy sums: one standard deviation of the "
        f"noise in it is {low:.4g} to {high:.4g}"
    )
    estimated = {"rmse": error, "one_deviation_less": low, "one_deviation_more": high}
    return PrivateFit(model, size, {"task": "regression", "estimated": estimated}, [words])


def _delta(args: argparse.Namespace, schema: Schema) -> float:
    """The delta that was asked for, or one that suits the declared number of rows."""
    return min(1e-5, 1.0 / (10.0 * (schema.rows_about or 1))) if args.delta is None else float(args.delta)
