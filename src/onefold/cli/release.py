"""``onefold release``: rows in, rows with the least informative noise out, or the curve of what it costs."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import flag, option
from onefold.cli.console import busy, say, without_bars
from onefold.cli.outputs import (
    STANDARD_OUTPUT,
    check_private_table,
    check_spares_ledger,
    check_writable,
    write_private_table,
)
from onefold.exceptions import InvalidInputError
from onefold.tables.reading import Table
from onefold.tables.rows import read_table

if TYPE_CHECKING:
    from onefold.release import Curve, Strength, TableRelease
    from onefold.tables import Schema

Told = tuple[dict[str, Any], list[str]]  # a result for machines, and the same in words

FEWEST_ROWS = 8
AMOUNTS = ("lam", "adversary_error", "epsilon")


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "release",
        description="Add noise to every row of a table so that others can learn from it. The noise reveals "
        "as little about a row as noise of its strength can. Columns keep their names, their order and what "
        "is declared about them. Labels and class sizes are released as they are unless --label-epsilon is "
        "given.",
        epilog="The schema declares every column, from what it means and without looking at the data. Values "
        "outside a range are clipped to it; a cell without a value is released by the rule of the schema.",
    )
    shared.add_data(parser)
    option(parser, "--schema FILE", "schema of the table, which declares every column", required=True)
    out = "table to write: .csv, .npz or .parquet; with --sweep the figure to write"
    option(parser, "--out OUT", out, required=True)
    reports.add_report(parser)
    _add_noise_options(parser.add_argument_group("noise"))
    group = parser.add_argument_group("curve")
    flag(group, "--sweep", "draw a figure of utility against privacy instead of releasing rows")
    option(group, "--repetitions N", "noisy tables fitted for each point of the curve", shared.whole, 10)
    option(group, "--rows N", "largest number of rows used for the curve", shared.whole, 2000)
    option(group, "--seed N", "seed of the curve; a release never has a seed", shared.seed)
    shared.ends(parser, run)


def _add_noise_options(group: Any) -> None:
    one = group.add_mutually_exclusive_group()
    option(one, "--lam L", "weight of utility against privacy; larger means less noise", shared.positive)
    error = "least standard error of any estimate of a cell of this column, in its units"
    option(one, "--adversary-error COL=ERROR", error, shared.column_value)
    option(one, "--epsilon E", "epsilon of the guarantee, at --delta; --unit says for what", shared.positive)
    option(group, "--delta D", "delta of the guarantee", shared.fraction, 1e-5)
    unit = "what --epsilon protects: a record, or a person, whom the schema names"
    option(group, "--unit", unit, default="record", choices=("record", "person"))
    shared.add_sampler(group)
    shared.add_label_epsilon(group)
    shared.add_ledger(group)


def run(args: argparse.Namespace) -> None:
    """Release, or sweep."""
    schema = shared.declared_schema(args)
    schema.require_confirmed(args.schema)  # noise may be declared without an epsilon
    reports.check_report(args)
    check_spares_ledger(args.ledger, args.out)
    (_check_sweep if args.sweep else _check)(args, schema)
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, schema=schema, private=True)
    result, words = (_sweep if args.sweep else _release)(args, schema, table)
    title = f"Released table {Path(args.out).name}"
    reports.tell(args, result, words, lambda: reports.table_report(args, title, result))


def _check(args: argparse.Namespace, schema: Schema) -> None:
    """Refuse a release that could not work, before the data are read."""
    check_private_table(args.out, args.data)
    if all(getattr(args, name) is None for name in AMOUNTS):
        raise InvalidInputError(
            "say how much noise: --lam, --adversary-error, --epsilon (or --sweep to see what it costs)"
        )
    if args.label_epsilon is not None and schema.classes is None:
        raise InvalidInputError("--label-epsilon needs a label with classes in the schema")
    persons = schema.person is not None and schema.rows_per_person is not None
    if args.unit == "person" and not (persons and args.epsilon):
        raise InvalidInputError(
            "--unit person needs --epsilon, and a schema with a person column and rowsPerPerson"
        )


def _check_sweep(args: argparse.Namespace, schema: Schema) -> None:
    """Refuse a curve that could not be drawn, before the data are read."""
    from onefold.report.displays import figure_format

    if schema.classes is None and not schema.predicts_number:
        raise InvalidInputError("--sweep needs a label in the schema: the column that is learnt")
    of_release = dict.fromkeys((*AMOUNTS, "label_epsilon", "ledger", "report")) | {"sampler": "hardened"}
    shared.refuse(args, of_release, "--sweep releases nothing: leave out {0}")
    if args.out == STANDARD_OUTPUT:
        raise InvalidInputError("--sweep draws a figure: name a file")
    figure_format(args.out)
    check_writable(args.out, args.data)


# --- the release ------------------------------------------------------------------------------------------


def _release(args: argparse.Namespace, schema: Schema, table: Table) -> Told:
    """Write the released table and its guarantee, and say what it promises."""
    from onefold.privacy import RandomisedLabels, domain_of
    from onefold.release import release_table

    options: dict[str, Any] = {
        "delta": args.delta,
        "sensitivity": domain_of(schema),
        "sampler": args.sampler,
        "rows_per_person": schema.rows_per_person if args.unit == "person" else None,
    }
    label, randomised = schema.label, None
    if args.label_epsilon is not None and schema.classes is not None:
        randomised = RandomisedLabels(args.label_epsilon, schema.classes)
    with busy("looking for noise of this strength", args.quiet):
        strength = _strength(args, schema, options)
    made = release_table(
        table,
        schema,
        strength.lam,
        delta=args.delta,
        sampler=args.sampler,
        label_mechanism=randomised,
        ledger=args.ledger,
    )
    promise = {"lam": strength.lam, **made.guarantee.to_dict(), "least_standard_errors": made.standard_errors}
    promise |= {"categories_kept": made.kept, "in_words": made.in_words()}
    promise["theorem_2_5_of_the_document"] = {
        "epsilon_per_record": strength.documented_epsilon,
        "note": "for comparison only; it is too small for weak noise",
    }
    promise |= _forecast(made, options)
    values = made.columns
    if label is not None and made.labels is not None:
        values = values | {label.name: made.labels}
    columns = {known.name: values[known.name] for known in schema.fields if known.name in values}
    file = write_private_table(args.out, columns, promise, schema)
    rows = len(next(iter(made.columns.values())))
    result = {"table": args.out, "rows": rows, "guarantee": file, "holds": promise["holds"]}
    promised = shared.promise_in_words(made.guarantee, args.ledger)
    words = [f"{rows} rows written to {args.out}, their guarantee to {file}", f"lam {strength.lam:.4g}"]
    return {**result, "promise": promise}, [*words, *promised, *made.in_words()]


def _strength(args: argparse.Namespace, schema: Schema, options: dict[str, Any]) -> Strength:
    """The strength of the noise, from whatever was said about it."""
    from onefold.privacy.contract import released
    from onefold.release import choose
    from onefold.release.tables import measured_columns

    error = None
    if args.adversary_error is not None:
        name, value = args.adversary_error
        measured = measured_columns(released(schema).features)
        if name not in measured:
            raise InvalidInputError(
                f"--adversary-error: {name!r} is no column of numbers on a linear scale to release"
            )
        at, width = measured[name]
        error = at, value / width
    p = options["sensitivity"].n_features
    return choose(p, lam=args.lam, adversary_error=error, epsilon=args.epsilon, **options)


def _forecast(made: TableRelease, options: dict[str, Any]) -> dict[str, Any]:
    """What other epsilons would do to columns of numbers."""
    from onefold.privacy import FisherGaussian
    from onefold.report.curves import noise_forecast

    unit = "record" if options["rows_per_person"] is None else "person"
    pair = made.guarantee.record if unit == "record" else made.guarantee.person
    if not made.widths or pair is None or not math.isfinite(pair[0]):
        return {}
    p = options["sensitivity"].n_features
    # Encoded columns of numbers have a width of 1.
    curve = noise_forecast(
        lambda epsilon: FisherGaussian.from_epsilon(epsilon, p, **options), pair[0], 1.0, unit
    )
    return {"forecast": curve.numbers}


# --- the curve --------------------------------------------------------------------------------------------


def _sweep(args: argparse.Namespace, schema: Schema, table: Table) -> Told:
    """Fit to noisy rows over a range of lam and draw what privacy costs the learner."""
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import train_test_split
    from sklearn.multiclass import OneVsRestClassifier

    from onefold.privacy.contract import EncodedBox, contract_pairs, contract_rows
    from onefold.release import RobustSVM, sweep
    from onefold.report import PrivacyUtilityDisplay
    from onefold.report.displays import write_figure

    assert schema.label is not None
    label = schema.label.name
    read = contract_pairs if schema.predicts_number else contract_rows
    X, found, _ = read(schema, table, person=False)
    y = np.asarray(found)
    rng = np.random.default_rng(args.seed)
    if len(X) > args.rows:
        say(f"{args.rows} of {len(X)} rows are used (--rows)", args.quiet)
        chosen = rng.permutation(len(X))[: args.rows]
        X, y = X[chosen], y[chosen]
    if len(X) < FEWEST_ROWS:
        raise InvalidInputError(f"{table.path}: a curve needs at least {FEWEST_ROWS} rows")
    parts = train_test_split(X, y, test_size=0.25, random_state=int(rng.integers(2**31)))
    train, test, y_train, y_test = parts
    classes = len(np.unique(y_train))
    if classes < 2 and not schema.predicts_number:
        raise InvalidInputError(f"{table.path}: label column {label!r} has one class only, or nearly so")
    model = RobustSVM() if classes == 2 else OneVsRestClassifier(RobustSVM())
    with without_bars(args.quiet):
        curve = sweep(
            train,
            y_train,
            np.logspace(-4, 8, 9).tolist(),
            LinearRegression() if schema.predicts_number else model,
            sensitivity=EncodedBox(schema.features),
            delta=args.delta,
            repetitions=args.repetitions,
            scoring="r2" if schema.predicts_number else "accuracy",
            X_test=test,
            y_test=y_test,
            random_state=rng,
        )
    title = f"{Path(table.path).name}: {label} learnt from released rows"
    drawn = PrivacyUtilityDisplay.from_curve(curve, errors=_errors(schema, curve)).plot()
    drawn.ax_.set_title(title.replace("$", r"\$"), fontsize=11)
    write_figure(args.out, drawn.figure_)
    note = (
        "these scores come from raw rows and are not private; choosing lam by them is not covered by any "
        "guarantee"
    )
    figure = f"figure written to {args.out}; {curve.measure} on raw rows {curve.baseline:.4f}"
    words = [figure, _in_words(curve, args.delta), f"Labels and class sizes are not covered; {note}."]
    scores = {name: values.tolist() for name, values in curve.scores.items()}
    return {"figure": args.out, **asdict(curve), "scores": scores, "note": note}, words


def _errors(schema: Schema, curve: Curve) -> dict[str, list[float]] | None:
    """For the lower axis: the first column of numbers, in its units."""
    from onefold.release.tables import measured_columns

    for name, (at, width) in measured_columns(schema.features).items():
        return {f"least error for {name}": [s.standard_errors[at] * width for s in curve.strengths]}
    return None


def _in_words(curve: Curve, delta: float) -> str:
    from onefold.privacy.terms import shown
    from onefold.report import format_table

    rows = [
        (f"{s.lam:g}", shown(s.epsilon, 3), *(float(curve.mean(noise)[i]) for noise in curve.scores))
        for i, s in enumerate(curve.strengths)
    ]
    return str(format_table(["lam", f"epsilon per record, delta {delta:g}", *curve.scores], rows))
