"""``onefold fit``: a table with a label column in, a model file out."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Index
from onefold.cli import arguments as shared
from onefold.cli import contracts, regression, reports
from onefold.cli.arguments import flag, option
from onefold.cli.console import busy, count_of, say, show, without_bars
from onefold.cli.outputs import check_spares_ledger, check_writable, write_model, write_private_model
from onefold.cli.tables import read_labelled
from onefold.exceptions import InvalidInputError
from onefold.report.evaluation import Evaluation, estimate, evaluate, in_words, missed, with_references
from onefold.tables import Schema

ONLY_WIDE = ("n_layers", "branch_size", "n_probe")
ONLY_FOLDING = ("batch_size",)
ONLY_PRIVATE = ("delta", "method", "unit", "ledger")
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
    own = {n: getattr(args, n) for n in (*ONLY_WIDE, *ONLY_FOLDING) if getattr(args, n) is not None}
    _check_options(args, own)
    out = f"{contracts.stem_of(args.data)}.onefold" if args.out is None else args.out
    inputs = [args.data, *([] if args.schema is None else [args.schema])]
    check_writable(out, *inputs)
    check_spares_ledger(args.ledger, out)
    reports.check_report(args, out)  # before anything is spent
    if regression.is_wanted(args):
        return regression.run_fit(args, out)
    own |= {"n_components": args.n_components, "scale": None if args.scale == "none" else args.scale}
    own |= {"measure": args.measure, "seed": args.seed, "n_jobs": args.n_jobs}
    if args.epsilon is not None:
        return _run_private(args, out, own)
    data = _read(args, out)
    if isinstance(data, regression.Found):
        return regression.run_fit(args, out, data)
    train, held = split(args.data, data.labels, args.test_size, args.seed, data.persons)
    for note in data.notes:
        say(note, args.quiet)
    # Imported late, here and below: a mistake in the table is told without waiting for scikit-learn.
    plain = args.measure in (None, "euclidean") and (args.n_components, args.scale) == (20, "auto")
    tune = data.schema is None and plain and not set(own) & set(ONLY_WIDE)
    model = shared.classifier_of(args.model, schema=data.schema, tune=tune, **own)
    started = time.perf_counter()
    with without_bars(args.quiet):  # fitting shows a bar of its own
        persons = None if data.persons is None else data.persons[train]
        model.fit(data.take(train), data.labels[train], groups=persons)
    result = {
        "model": out,
        "kind": args.model,
        "rows": int(train.size),
        "features": data.n_features,
        "classes": int(model.classes_.size),
        "seconds": round(time.perf_counter() - started, 3),
    }
    lines = [
        f"{train.size} rows, {count_of(data.n_features, 'feature')}, {model.classes_.size} classes fitted in "
        f"{result['seconds']:.2f} s"
    ]
    told, words, found = _measured(model, data, train, held, args.quiet)
    if data.names is not None:
        # The scikit-learn attribute for columns with names; set after fit because a plain array went in.
        model.feature_names_in_ = np.array(data.names, dtype=object)
    write_model(out, model)
    result |= told | {"file_bytes": Path(out).stat().st_size}
    size = result["file_bytes"] / 1e6
    lines += [
        *words,
        f"model written to {out} ({size:.2f} MB); it contains the fitted rows: guard it like the data",
    ]
    if args.report is not None:
        facts = reports.facts_of(result, **{"the model": out, "the schema": args.schema})
        shown = reports.evidence(model, data.take(held), data.labels[held]) if held.size else None
        title = f"Model of {Path(args.data).name}"
        page = reports.model_report(
            args, title, facts, evaluation=found, shown=shown, estimated=told.get("estimated")
        )
        lines.append(reports.written(args.report, page))
    show(result, lines, as_json=args.json, quiet=args.quiet)
    return 0


def _check_options(args: argparse.Namespace, given: dict[str, Any]) -> None:
    """Refuse what contradicts itself, and an option of the other kind of model."""
    for name in ONLY_PRIVATE:
        if args.epsilon is None and getattr(args, name) is not None:
            raise InvalidInputError(f"--{name} goes with --epsilon")
    for name in ONLY_FOLDING if args.model == "wide" else ONLY_WIDE:
        if name in given:
            raise InvalidInputError(f"--{name.replace('_', '-')} does not go with --model {args.model}")
    if args.label is None and args.schema is None:
        raise InvalidInputError("name the column of classes with --label COL, or a schema with --schema FILE")
    if args.raw and (args.schema is not None or args.person is not None or args.encoders):
        raise InvalidInputError("--raw uses no schema: leave out --schema, --person and --encoder")
    if args.label is not None and args.label in (*args.ignore, args.person):
        raise InvalidInputError("--label names a column that --ignore or --person takes away")


# --- the rows to learn from ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Rows and their classes: a matrix, or columns read by a schema."""

    rows: Any
    labels: AnyArray
    schema: Schema | None = None
    names: tuple[str, ...] | None = None
    persons: AnyArray | None = None
    notes: tuple[str, ...] = ()

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


def _read(args: argparse.Namespace, out: str) -> Data | regression.Found:
    """Rows and their classes; the table and its schema if the label turns out to be an amount."""
    if args.raw:
        return _matrix(args)
    encoders = shared.encoders_of(args)
    is_matrix = args.schema is None and not encoders and contracts.is_matrix(args.data)
    if (
        args.schema is None
        and args.person is None
        and not encoders
        and (is_matrix or contracts.is_wide(args.data))
    ):
        try:
            data = _matrix(args)
        except InvalidInputError:
            pass  # text or gaps: columns need a schema, and what is wrong with the table is said below
        else:
            amounts = regression.is_open(args) and contracts.may_be_amounts(args.data, data.labels)
            if is_matrix or (contracts.of_one_unit(data.rows) and not amounts):
                return data
    needed = [name for name in (args.label, args.person, *args.ignore, *encoders) if name is not None]
    table = contracts.read_columns(args.data, needed, args.quiet)
    if args.schema is None:
        task = "auto" if regression.is_open(args) else "classification"
        schema = contracts.inferred(table, args.label, args.ignore, args.person, encoders, task)
        if schema.predicts_number:
            return regression.Found(schema, table)
    else:
        schema = contracts.declared(args.schema, args.label, args.ignore, args.person, encoders)
    labels, known = contracts.classes_of(schema, table, strict=True)
    assert schema.label is not None
    if len(np.unique(labels)) < 2:
        found = "one class only" if len(labels) else "no class"
        if not known.all():
            found += f" ({np.sum(~known)} of {len(known)} cells are empty, or say so)"
        raise InvalidInputError(
            f"{args.data}: label column {schema.label.name!r} has {found}, at least two are needed"
        )
    rows = contracts.rows_of(schema, table, strict=args.schema is not None)
    notes = []
    if not known.all():
        left_out = len(known) - len(labels)
        notes.append(f"{left_out} of {len(known)} rows left out: {schema.label.name!r} is missing there")
        rows = contracts.take(rows, known)
    notes.append(contracts.in_one_line(schema, rows, out))
    notes += contracts.about_persons(schema, table)
    if args.task is None:
        notes += contracts.about_classes(schema.label.name, labels)
    persons = None if schema.person is None else schema.persons(table)[known]
    return Data(rows, labels, schema, persons=persons, notes=tuple(notes))


def _matrix(args: argparse.Namespace) -> Data:
    table, labels = read_labelled(args.data, args.label, ignore=args.ignore, quiet=args.quiet)
    return Data(table.values, labels, names=table.names)


def split(
    path: str, labels: AnyArray, test_size: float | None, seed: int, persons: AnyArray | None = None
) -> tuple[Index, Index]:
    """Row numbers to fit and to hold out, classes in the same proportion and no person in both."""
    rows = np.arange(labels.size)
    if test_size is None:
        return rows, rows[:0]
    held = round(test_size * labels.size)
    if not 0 < held < labels.size:
        raise InvalidInputError(f"{path}: --test-size leaves too few rows")
    if persons is not None:
        return _split_persons(path, labels, test_size, seed, persons)
    from sklearn.model_selection import train_test_split

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


def _split_persons(
    path: str, labels: AnyArray, test_size: float, seed: int, persons: AnyArray
) -> tuple[Index, Index]:
    _, owner = np.unique(persons.astype(str), return_inverse=True)
    _, codes = np.unique(labels, return_inverse=True)
    n_persons = int(owner.max()) + 1
    n_held = round(test_size * n_persons)
    if not 0 < n_held < n_persons:
        raise InvalidInputError(f"{path}: --test-size leaves too few persons")
    rng = np.random.default_rng(seed)
    totals = np.bincount(codes)
    best: tuple[float, AnyArray] | None = None
    for _ in range(GROUP_SPLITS):
        chosen = np.isin(owner, rng.permutation(n_persons)[:n_held])
        counts = np.bincount(codes[chosen], minlength=len(totals))
        if np.any(counts == totals):
            continue  # a class would not be learned
        distance = float(np.abs(counts / totals - test_size).sum())
        if best is None or distance < best[0]:
            best = distance, chosen
    if best is None:
        raise InvalidInputError(f"{path}: --test-size would hold out every person of some class")
    return np.flatnonzero(~best[1]), np.flatnonzero(best[1])


# --- what the model is worth --------------------------------------------------------------------------------


def _measured(
    model: Any, data: Data, train: Index, held: Index, quiet: bool
) -> tuple[dict[str, Any], list[str], Evaluation | None]:
    """Measures for machines and in words."""
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


# --- with a promise of privacy ------------------------------------------------------------------------------


def _run_private(args: argparse.Namespace, out: str, own: dict[str, Any]) -> int:
    """Release the table once, with noise; fit to nothing else; store the model and its guarantee."""
    schema = contracts.private_schema(args, shared.encoders_of(args))
    assert schema.label is not None
    persons = [] if schema.person is None else [schema.person.name]
    needed = [known.name for known in (*schema.features, schema.label)] + persons
    table = contracts.read_columns(args.data, needed, args.quiet, private=True)
    method = "tables" if args.method in (None, "auto") else args.method
    started = time.perf_counter()
    with busy("fitting", args.quiet), without_bars(args.quiet):
        if method == "tables":
            model, size, forecast = _from_tables(args, schema, table, own)
        else:
            model, size, forecast = _from_moments(args, schema, table)
    # In moments of persons all rows of one weigh as much as one row: the sum counts persons.
    counted = "persons" if method == "moments" and schema.person is not None else "rows"
    promise = write_private_model(out, model)
    quality = [forecast, regression.NOT_MEASURED.format(model=out, label=schema.label.name)]
    result = {
        "model": out,
        "method": method,
        f"{counted}_about": size,
        "features": len(schema.features),
        "classes": int(model.classes_.size),
        "seconds": round(time.perf_counter() - started, 3),
        "guarantee": promise,
        "holds": model.guarantee_.holds,
        "promise": model.guarantee_.to_dict(),
        "quality": {"measured": False, "text": quality},
    }
    lines = [
        f"about {size} {counted} (with noise), {count_of(len(schema.features), 'feature')}, "
        f"{model.classes_.size} classes: fitted to private {method} in {result['seconds']:.2f} s",
        *quality,
        f"model written to {out}, its guarantee to {promise}",
        *shared.promise_in_words(model.guarantee_, args.ledger),
    ]
    if args.report is not None:
        facts = reports.facts_of(result, **{"the model": out, "the schema": args.schema})
        title = f"Private model of {Path(args.data).name}"
        page = reports.model_report(args, title, facts, model=model)
        page = replace(page, verdict=[*page.verdict, f"{forecast}."])
        lines.append(reports.written(args.report, page))
    show(result, lines, as_json=args.json, quiet=args.quiet)
    return 0


def _from_tables(
    args: argparse.Namespace, schema: Schema, table: Any, own: dict[str, Any]
) -> tuple[Any, int, str]:
    """A classifier of rows drawn from noisy counts: what is done with them costs nothing more."""
    from onefold.fabrication import TableSynthesizer

    maker = TableSynthesizer(schema, args.epsilon, args.delta, ledger=args.ledger).fit(table)
    made = maker.sample(random_state=args.seed)
    labels, _ = schema.labels(made)
    if len(np.unique(labels)) < 2:
        raise InvalidInputError("the noise left one class only: more rows or a larger epsilon are needed")
    model = shared.classifier_of(args.model, schema=schema, **own).fit(made, labels)
    model.guarantee_ = maker.guarantee_
    errors = maker.expected_errors_
    worst = max(errors, key=lambda name: errors[name])
    moved = f"about {100 * errors[worst]:.2g} of 100 rows into a wrong cell of {worst!r}, the worst column"
    return model, int(maker.n_rows_), f"a forecast from the noisy counts: noise moved {moved}"


def _from_moments(args: argparse.Namespace, schema: Schema, table: Any) -> tuple[Any, int, str]:
    from onefold.fabrication import MomentClassifier
    from onefold.privacy.forecast import forecast_moments

    delta = min(1e-5, 1.0 / (10.0 * (schema.rows_about or 1))) if args.delta is None else args.delta
    model = MomentClassifier(args.epsilon, delta, schema=schema, ledger=args.ledger).fit(table)
    size = round(max(float(np.sum(model.moments_.counts_)), 0.0))
    found = forecast_moments(max(size, 1), schema.width, model.classes_.size, args.epsilon, delta)
    gain = f"noise leaves about {100 * found.left:.0f} % of what such a model gains over guessing"
    return model, size, f"a forecast from the noisy number of rows: {gain}"
