"""``onefold release``: rows in, rows with the least informative noise out, or the curve of what it costs."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onefold._base.arrays import AnyArray
from onefold._base.foreign import parse_json
from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import flag, option, repeated
from onefold.cli.console import busy, say, show, without_bars
from onefold.cli.outputs import (
    STANDARD_OUTPUT,
    MixedTable,
    check_private_table,
    check_spares_ledger,
    check_writable,
    read_mixed,
    write_private_table,
)
from onefold.cli.tables import as_labels
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.tables.reading import read_table
from onefold.tables.sources import check_header
from onefold.tables.writing import Columns

if TYPE_CHECKING:
    from onefold.release import Curve, Strength, TableCodec, TableRelease
    from onefold.report import PrivacyUtilityDisplay
    from onefold.tables import Schema

Range = tuple[float, float]
Told = tuple[dict[str, Any], list[str]]  # a result for machines, and the same in words

MOST_CLASSES = 50
FEWEST_ROWS = 8
LEARNERS = ("auto", "svm", "regression")


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "release",
        description="Add noise to every row of a table so that others can learn from it. The noise reveals "
        "as little about a row as noise of its strength can. Columns keep their names, their order and what "
        "is declared about them. Labels and class sizes are released as they are unless --label-epsilon is "
        "given.",
        epilog="Every column is declared, from what it means and without looking at the data: with --schema, "
        "or with --range and --declared. Values outside a range are clipped to it; a cell without a value is "
        "released by the rule of the schema, or as the middle of its range. Released numbers are fractions "
        "unless --whole names their column.",
    )
    shared.add_data(parser)
    option(parser, "--label COL", "column that others shall learn to predict")
    out = "table to write, a .csv, .npz or .parquet file; with --sweep the figure to write"
    option(parser, "--out OUT", out, required=True)
    shared.add_ignore(parser)
    shared.add_output_options(parser)
    reports.add_report(parser)
    _add_noise_options(parser.add_argument_group("noise"))
    shared.add_person_options(parser.add_argument_group("persons"))
    _add_column_options(parser.add_argument_group("columns"))
    _add_curve_options(parser.add_argument_group("curve"))
    parser.set_defaults(run=run)


def _add_noise_options(group: Any) -> None:
    one = group.add_mutually_exclusive_group()
    weight = "weight of utility against privacy, for columns scaled to [0, 1]; larger means less noise"
    option(one, "--lam L", weight, shared.positive)
    error = "standard error below which nobody shall be able to estimate this column of a row, in its units"
    option(one, "--adversary-error COL=ERROR", error, column_value)
    option(one, "--epsilon E", "epsilon of the guarantee, at --delta; --unit says for what", shared.positive)
    kept = "add noise of variance M that leaves the linear SVM as it is: NOT private, needs --sampler float"
    option(one, "--keep-classifier M", kept, shared.positive)
    option(group, "--delta D", "delta of the guarantee", shared.fraction, 1e-5)
    unit = "what --epsilon protects: a record, or a person (all rows of one), which needs --person"
    option(group, "--unit", unit, default="record", choices=("record", "person"))
    shared.add_sampler(group)
    shared.add_label_options(group)
    shared.add_ledger(group)


def _add_column_options(group: Any) -> None:
    shared.add_schema(group, "it takes the place of the options below, of --label, --classes and --person")
    limits = "range of a column, known without the data; without COL= of all columns that have no other"
    repeated(group, "--range COL=LOW:HIGH", limits)
    repeated(group, "--whole COL", "column whose released values are whole numbers")
    repeated(group, "--allowed COL=LOW:HIGH", "limits that released values of a column must not leave")
    file = (
        "JSON file that gives each column its range [low, high], or the list of its texts, or "
        '{"range": [low, high], "whole": true}'
    )
    option(group, "--declared FILE", file)
    flag(group, "--infer", "take from the data what is not declared: nothing is promised then")


def _add_curve_options(group: Any) -> None:
    flag(group, "--sweep", "draw a figure of utility against privacy instead of releasing rows")
    tables = "number of noisy tables fitted for each point of the curve"
    option(group, "--repetitions N", tables, shared.whole, 10)
    option(group, "--rows N", "largest number of rows used for the curve", shared.whole, 2000)
    learner = "model fitted to the noisy tables; auto chooses by the label"
    option(group, "--learner", learner, default="auto", choices=LEARNERS)
    option(group, "--seed N", "seed of the curve; a release never has a seed", shared.seed)


def run(args: argparse.Namespace) -> int:
    """Release, or sweep."""
    schema = _schema(args)
    noise = NoiseAmount(
        args.lam,
        args.adversary_error,
        args.epsilon,
        args.keep_classifier,
        args.delta,
        args.sampler,
        args.rows_per_person if args.unit == "person" else None,
    )
    labels = Labelling(args.label, args.label_epsilon, args.classes)
    if args.ledger is not None and (args.sweep or args.keep_classifier):
        raise InvalidInputError("--sweep and --keep-classifier promise nothing that --ledger could count")
    if args.person is not None and (args.sweep or args.keep_classifier):
        raise InvalidInputError(
            "--sweep and --keep-classifier promise nothing to persons: --ignore COL instead"
        )
    shared.check_person_options(args.person, args.rows_per_person)
    if args.unit == "person" and (args.person is None or args.epsilon is None or args.allowed):
        raise InvalidInputError("--unit person needs --person and --epsilon, and noise without --allowed")
    if args.person is not None and args.person == args.label:
        raise InvalidInputError("--person and --label name the same column")
    reports.check_report(args)
    check_spares_ledger(args.ledger, args.out)
    if args.report is not None and (args.sweep or args.keep_classifier):
        raise InvalidInputError(
            "--report is about rows with a guarantee: leave out --sweep and --keep-classifier"
        )
    if args.sweep:
        _check_sweep(args.data, args.out, noise, labels)
    else:
        _check(args.data, args.out, noise, labels, bounded=bool(args.allowed))
    declared = Declarations.read(args.range, args.whole, args.allowed, args.declared, args.infer, schema)
    if schema is None:
        table = read_mixed(args.data, args.label, args.ignore, args.person, args.quiet)
        check_header(table.path, list(table.columns))
    else:
        with busy(f"reading {args.data}", args.quiet):
            read = read_table(args.data, schema=schema, private=True)
        table = MixedTable(read.path, read.columns, args.label, args.person)
    if args.sweep:
        curve = CurveSettings(args.repetitions, args.rows, args.learner, args.seed, args.delta)
        result, words = _sweep(table, declared, curve, args.out, args.quiet)
    elif args.keep_classifier:
        result, words = _keep_classifier(table, args.keep_classifier, args.label, args.out, args.quiet)
    else:
        made = _release(table, declared, noise, labels, args.rows_per_person, args.ledger, args.quiet)
        result, words = _published(table, made, args.out, schema, args.ledger)
        if args.report is not None:
            title = f"Released table {Path(args.out).name}"
            words.append(reports.written(args.report, reports.table_report(args, title, result)))
    show(result, words, as_json=args.json, quiet=args.quiet)
    return 0


def _schema(args: argparse.Namespace) -> Schema | None:
    """The declared schema, whose label, person and limit take the place of options."""
    own = ("whole", "declared", "infer", "keep_classifier")
    known = [name for name in shared.BY_SCHEMA if name != "sensitivity"]
    schema: Schema | None = shared.load_schema(args, *known, *own)
    if schema is None:
        return None
    schema.require_confirmed(args.schema)  # noise may be declared without an epsilon
    label, person, most = schema.label, schema.person, schema.rows_per_person
    if label is not None and label.is_category:
        args.label, args.classes = label.name, [str(level) for level in label.levels]
    if person is not None and most is not None and not args.sweep:  # a curve promises nothing to persons
        args.person, args.rows_per_person = person.name, most
    return schema


# --- what the options say ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseAmount:
    """How much noise: the first that is not None decides; ``delta`` and ``sampler`` go with each."""

    lam: float | None
    adversary_error: tuple[str, float] | None
    epsilon: float | None
    keep_classifier: float | None
    delta: float
    sampler: str
    rows_per_person: int | None  # where epsilon is about a person

    def given(self) -> list[str]:
        """Options by which an amount of noise was stated."""
        names = ("lam", "adversary_error", "epsilon", "keep_classifier")
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]


@dataclass(frozen=True)
class Labelling:
    """Which column holds the labels, and with what epsilon they are randomised."""

    column: str | None
    epsilon: float | None
    classes: list[str] | None


@dataclass(frozen=True)
class Declarations:
    """What is known about the columns without looking at the data; ``others`` is the range of the rest."""

    ranges: dict[str, Range]
    categories: dict[str, tuple[Any, ...]]
    allowed: dict[str, Range]
    whole: tuple[str, ...] = ()
    others: Range | None = None
    infer: bool = False
    schema: Schema | None = None

    @classmethod
    def read(
        cls,
        ranges: list[str],
        whole: list[str],
        allowed: list[str],
        file: str | None,
        infer: bool = False,
        schema: Schema | None = None,
    ) -> Declarations:
        """Take them from the options and from the file; an option wins against the file."""
        given = dict(_column_range("--range", text) for text in ranges)
        others = given.pop("", None)
        limits = dict(_column_range("--allowed", text) for text in allowed)
        if "" in limits:
            raise InvalidInputError("--allowed must look like COL=LOW:HIGH, with LOW below HIGH")
        columns, more = ({}, []) if file is None else _read_json(file)
        found = cls(given, {}, limits, tuple(dict.fromkeys([*whole, *more])), others, infer, schema)
        for name, what in columns.items():
            kind: dict[str, Any] = found.ranges if _is_range(what) else found.categories
            if name not in found.ranges:
                kind[name] = tuple(what)
        pairs = [*found.ranges.values(), *([] if others is None else [others])]
        if not all(math.isfinite(value) for pair in pairs for value in pair):
            raise InvalidInputError("the range of a column must be finite; only --allowed may be infinite")
        return found

    def codec(self, table: MixedTable) -> tuple[TableCodec, dict[str, AnyArray]]:
        """The codec for the features of a table, and these features; only --infer looks at their cells."""
        from onefold.release import TableCodec

        if self.schema is not None:
            return TableCodec.from_schema(self.schema, self.allowed), table.columns
        features = table.features
        undeclared = [name for name in features if name not in self.ranges and name not in self.categories]
        ranges = self.ranges
        if self.others is not None:
            ranges, undeclared = ranges | dict.fromkeys(undeclared, self.others), []
        if undeclared and not self.infer:
            raise InvalidInputError(
                f"column {undeclared[0]!r} is not declared: give --range {undeclared[0]}=LOW:HIGH, its texts "
                "in --declared FILE, or --ignore (--infer takes them from the data, and promises nothing)"
            )
        features = table.typed(undeclared).features
        types = dict.fromkeys(self.whole, "int64")
        made = TableCodec(features, ranges, self.categories, self.allowed, types=types, infer=self.infer)
        return made, features


def column_value(text: str) -> tuple[str, float]:
    """``COL=NUMBER``, the number positive."""
    name, equals, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (name and equals and value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must look like COL=NUMBER, with a positive number")
    return name, value


def _column_range(option: str, text: str) -> tuple[str, Range]:
    name, _, numbers = text.rpartition("=")
    low, _, high = numbers.partition(":")
    try:
        pair = float(low), float(high)
    except ValueError:
        pair = (math.nan, math.nan)
    if not pair[0] < pair[1] or text.startswith("="):
        raise InvalidInputError(f"{option} must look like COL=LOW:HIGH, with LOW below HIGH")
    return name, pair


def _is_range(what: Any) -> bool:
    if not isinstance(what, list):
        return False
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in what)
    return len(what) == 2 and numbers and what[0] < what[1]


def _read_json(path: str) -> tuple[dict[str, list[Any]], list[str]]:
    """The range or the texts of each column, and the columns of whole numbers."""
    try:
        content = parse_json(Path(path).read_bytes())
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
    found: dict[str, list[Any]] = {}
    whole: list[str] = []
    for name, what in content.items() if isinstance(content, dict) else [("", None)]:
        if isinstance(what, dict) and _is_range(what.get("range")) and what.keys() <= {"range", "whole"}:
            whole += [name] * bool(what.get("whole"))
            found[name] = what["range"]
        elif isinstance(what, list) and what:
            found[name] = what
        else:
            raise FileFormatError(f"{path}: must hold column -> [low, high], or column -> list of texts")
    return found, whole


def _check(data: str, out: str, noise: NoiseAmount, labels: Labelling, *, bounded: bool) -> None:
    """Refuse a release that could not work, before the data are read."""
    check_private_table(out, data)
    if not noise.given():
        raise InvalidInputError(
            "say how much noise: --lam, --adversary-error, --epsilon (or --sweep to see what it costs)"
        )
    if labels.column is None and (labels.epsilon or labels.classes or noise.keep_classifier):
        raise InvalidInputError("--label-epsilon, --classes and --keep-classifier need --label")
    shared.check_label_options(labels.epsilon, labels.classes)
    if bounded and noise.keep_classifier:
        raise InvalidInputError("--allowed takes bounded noise, which does not keep the classifier")
    if noise.keep_classifier and labels.epsilon:
        raise InvalidInputError("--keep-classifier does not go with --label-epsilon")
    if noise.keep_classifier and noise.sampler != "float":
        raise InvalidInputError(
            "--keep-classifier cannot be hardened and promises nothing: add --sampler float if that is wanted"
        )


def _check_sweep(data: str, out: str, noise: NoiseAmount, labels: Labelling) -> None:
    """Refuse a curve that could not be drawn, before the data are read."""
    from onefold.report.displays import figure_format

    if labels.column is None:
        raise InvalidInputError("--sweep needs --label: the column that is learnt")
    given = [*noise.given(), *([] if labels.epsilon is None else ["--label-epsilon"])]
    given += [] if noise.sampler == "hardened" else ["--sampler"]
    if given:
        raise InvalidInputError(f"--sweep releases nothing: leave out {given[0]}")
    if out == STANDARD_OUTPUT:
        raise InvalidInputError("--sweep draws a figure: name a file")
    figure_format(out)
    check_writable(out, data)


# --- the release ------------------------------------------------------------------------------------------


class Made(NamedTuple):
    """A release, and the strength of its noise; ``documented`` is None within bounds."""

    release: TableRelease
    lam: float
    documented: float | None
    forecast: PrivacyUtilityDisplay | None


def _release(
    table: MixedTable,
    declared: Declarations,
    noise: NoiseAmount,
    labels: Labelling,
    rows_per_person: int | None,
    ledger: str | None,
    quiet: bool,
) -> Made:
    from onefold.release import release_table

    codec, features = declared.codec(table)
    bounded = bool(declared.allowed)
    with busy("looking for noise of this strength", quiet):
        strength = _strength(noise, codec, bounded)
    made = release_table(
        features,
        codec,
        strength.lam,
        bounded=bounded,
        delta=noise.delta,
        sampler=noise.sampler,
        ledger=ledger,
        **_rows_about(table, declared.schema, labels, rows_per_person),
    )
    if bounded:
        return Made(made, strength.lam, None, None)
    return Made(made, strength.lam, strength.documented_epsilon, _forecast(made, codec, noise))


def _forecast(made: TableRelease, codec: TableCodec, noise: NoiseAmount) -> PrivacyUtilityDisplay | None:
    """What other epsilons would do to columns of numbers."""
    from onefold.privacy import FisherGaussian
    from onefold.report.forecast import noise_forecast

    unit = "record" if noise.rows_per_person is None else "person"
    pair = made.guarantee.record if unit == "record" else made.guarantee.person
    if not made.widths or pair is None or not math.isfinite(pair[0]):
        return None
    options: dict[str, Any] = {"delta": noise.delta, "sensitivity": codec.domain, "sampler": noise.sampler}
    options["rows_per_person"] = noise.rows_per_person
    # Encoded columns of numbers have a width of 1.
    return noise_forecast(
        lambda epsilon: FisherGaussian.from_epsilon(epsilon, codec.n_encoded, **options), pair[0], 1.0, unit
    )


def _published(table: MixedTable, made: Made, out: str, schema: Schema | None, ledger: str | None) -> Told:
    """Write the released table and its guarantee, and say what it promises."""
    release = made.release
    promise = {"lam": made.lam, **release.to_dict()}
    if made.documented is not None:
        promise["theorem_2_5_of_the_document"] = {
            "epsilon_per_record": made.documented,
            "note": "for comparison only; it is too small for weak noise",
        }
    if made.forecast is not None:
        promise["forecast"] = made.forecast.to_dict()
    if schema is None:
        columns = table.with_values(out, release.columns, release.labels)
    else:
        labels = {} if release.labels is None else {str(table.label): release.labels}
        values = release.columns | labels
        columns = {known.name: values[known.name] for known in schema.fields if known.name in values}
    rows = len(next(iter(release.columns.values())))
    promised = shared.promise_in_words(release.guarantee, ledger)
    words = [f"lam {made.lam:.4g}", *promised, *release.in_words()]
    return _told(columns, rows, promise, words, out, schema)


def _strength(noise: NoiseAmount, codec: TableCodec, bounded: bool) -> Strength:
    """lam, from whatever was said; within bounds an error or an epsilon needs another lam than without."""
    from onefold.release import bounded_lam, bounded_lam_of_epsilon, choose

    options: dict[str, Any] = {"delta": noise.delta, "sensitivity": codec.domain, "sampler": noise.sampler}
    lam, error, epsilon = noise.lam, None, noise.epsilon
    if bounded and epsilon:
        lam, epsilon = bounded_lam_of_epsilon(epsilon, codec.bounds(), **options), None
    if noise.adversary_error:
        name, value = noise.adversary_error
        at, scaled = codec.position(name), value / codec.column(name).width
        low, high = codec.bounds()[at]
        if bounded and np.isfinite(high - low):
            # Encoded columns change by 1 at most.
            lam = bounded_lam(scaled, (low, high), sensitivity=1.0, sampler=noise.sampler)
        else:
            error = at, scaled
    options["rows_per_person"] = noise.rows_per_person
    return choose(codec.n_encoded, lam=lam, adversary_error=error, epsilon=epsilon, **options)


def _rows_about(
    table: MixedTable, schema: Schema | None, labels: Labelling, rows_per_person: int | None
) -> dict[str, Any]:
    """Labels, persons and what is done with them: a schema says so itself."""
    if schema is not None:
        from onefold.privacy import RandomisedLabels

        classes = schema.classes
        made = None if not labels.epsilon or classes is None else RandomisedLabels(labels.epsilon, classes)
        return {"schema": schema, "label_mechanism": made}
    return {
        "person": table.persons,
        "rows_per_person": rows_per_person,
        "labels": None if labels.column is None else _labels(table, labels),
        "label_mechanism": shared.label_mechanism(labels.epsilon, labels.classes),
    }


def _labels(table: MixedTable, labels: Labelling) -> AnyArray:
    """Labels as they are; where classes are declared, in their type, and the first for any other label."""
    from onefold.tables import Field

    name = str(labels.column)
    if labels.classes is None:
        return table.typed([name]).columns[name]
    classes = shared.declared_classes(labels.classes)
    kind = "string" if classes.dtype.kind == "U" else "integer"
    declared = Field(name, kind, "label", levels=tuple(classes.tolist()))
    return declared.show(np.maximum(declared.read(table.columns[name])[0], 0))


def _keep_classifier(table: MixedTable, variance: float, label: str, out: str, quiet: bool) -> Told:
    from onefold.release import RobustSVM, release_utility_preserving
    from onefold.release.releases import in_words

    table = table.typed(table.columns)
    features = table.features
    texts = [name for name, values in features.items() if values.dtype.kind not in "iuf"]
    if texts:
        raise InvalidInputError(
            f"--keep-classifier needs numbers, column {texts[0]!r} holds text: leave it out with --ignore"
        )
    X = np.column_stack([values.astype(np.float64) for values in features.values()])
    y = as_labels(f"{table.path}: label column {label!r}", table.columns[label])
    made = release_utility_preserving(X, y, RobustSVM().fit(X, y), variance)
    if any(values.dtype.kind in "iu" for values in features.values()):
        say("whole numbers become fractions: rounding would move the classifier", quiet)
    columns = {name: made.X[:, j] for j, name in enumerate(features)}
    written = table.with_values(out, columns, table.columns[label])
    words = in_words(made.standard_errors, list(features))
    promise = {
        **made.guarantee.to_dict(),
        "reveals": list(made.reveals),
        "bound_on_the_squared_error_of_a_record": made.bound,
        "least_standard_errors": dict(zip(features, made.standard_errors.tolist(), strict=True)),
        "in_words": words,
    }
    lines = [str(made.guarantee), *(f"Revealed: {what}." for what in made.reveals), *words]
    return _told(written, len(made), promise, lines, out)


def _told(
    columns: Columns,
    rows: int,
    promise: dict[str, Any],
    lines: list[str],
    out: str,
    schema: Schema | None = None,
) -> Told:
    """Write the table and its guarantee; what is told about the release."""
    file = write_private_table(out, columns, promise, schema)
    result = {"table": out, "rows": rows, "guarantee": file, "holds": promise["holds"], "promise": promise}
    return result, [f"{rows} rows written to {out}, their guarantee to {file}", *lines]


# --- the curve --------------------------------------------------------------------------------------------


class CurveSettings(NamedTuple):
    """How the curve is made."""

    repetitions: int
    rows: int
    learner: str
    seed: int | None
    delta: float


def _sweep(table: MixedTable, declared: Declarations, settings: CurveSettings, out: str, quiet: bool) -> Told:
    """Fit to noisy rows over a range of lam and draw what privacy costs the learner."""
    from sklearn.model_selection import train_test_split

    from onefold.privacy.contract import contract_rows
    from onefold.release import sweep
    from onefold.report import ReleaseDisplay
    from onefold.report.displays import write_figure

    codec, features = declared.codec(table)
    label = str(table.label)
    if declared.schema is None:
        X, y = codec.encode(features), table.typed([label]).columns[label]
    else:
        X, found, _ = contract_rows(declared.schema, features, person=False)
        y = np.asarray(found)
    where = f"{table.path}: label column {label!r}"
    model, measure = _learner(settings.learner, y, where)
    rng = np.random.default_rng(settings.seed)
    if len(X) > settings.rows:
        say(f"{settings.rows} of {len(X)} rows are used (--rows)", quiet)
        chosen = rng.permutation(len(X))[: settings.rows]
        X, y = X[chosen], y[chosen]
    if len(X) < FEWEST_ROWS:
        raise InvalidInputError(f"{table.path}: a curve needs at least {FEWEST_ROWS} rows")
    parts = train_test_split(X, y, test_size=0.25, random_state=int(rng.integers(2**31)))
    train, test, y_train, y_test = parts
    if measure == "accuracy" and len(np.unique(y_train)) < 2:
        raise InvalidInputError(f"{where} has one class only, or nearly so")
    with without_bars(quiet):
        curve = sweep(
            train,
            y_train,
            np.logspace(-4, 8, 9).tolist(),
            model,
            sensitivity=codec.domain,
            delta=settings.delta,
            repetitions=settings.repetitions,
            scoring=measure,
            X_test=test,
            y_test=y_test,
            random_state=rng,
        )
    title = f"{Path(table.path).name}: {label} learnt from released rows"
    drawn = ReleaseDisplay.from_curve(curve, title, _errors(codec, curve), void=bool(codec.inferred))
    write_figure(out, drawn.plot().figure_)
    note = (
        "these scores come from raw rows and are not private; choosing lam by them is not covered by any "
        "guarantee"
    )
    figure = f"figure written to {out}; {curve.measure} on raw rows {curve.baseline:.4f}"
    words = [figure, _in_words(curve, settings.delta), f"Labels and class sizes are not covered; {note}."]
    inferred = ""
    if codec.inferred:
        inferred = "ranges were taken from the data"
        words.insert(2, "VOID: ranges or categories were taken from the data; these epsilons do NOT hold.")
    return {"figure": out, **curve.to_dict(), "note": note, "void": inferred}, words


def _learner(kind: str, y: AnyArray, where: str) -> tuple[Any, str]:
    """The model to fit and the measure of its success."""
    from sklearn.linear_model import LinearRegression
    from sklearn.multiclass import OneVsRestClassifier

    from onefold.release import RobustSVM

    fractions = y.dtype.kind == "f" and not np.array_equal(y, np.round(y))
    if kind == "auto":
        many = y.dtype.kind in "iuf" and len(np.unique(y)) > MOST_CLASSES
        kind = "regression" if fractions or many else "svm"
    if kind == "regression":
        if y.dtype.kind not in "iuf":
            raise InvalidInputError(f"{where} holds text: a regression needs numbers")
        return LinearRegression(), "r2"
    if fractions:
        raise InvalidInputError(f"{where} holds fractions: --learner regression")
    classes = len(np.unique(y))
    if classes < 2:
        raise InvalidInputError(f"{where} has one class only")
    return (RobustSVM() if classes == 2 else OneVsRestClassifier(RobustSVM())), "accuracy"


def _errors(codec: TableCodec, curve: Curve) -> tuple[str, list[float]] | None:
    """For the lower axis: the first column of numbers, in its units."""
    numbers = [c for c in codec.columns if c.range is not None and c.field.scale == "linear"]
    if not numbers:
        return None
    first = numbers[0]
    at = codec.position(first.name)
    return f"least error for {first.name}", [s.standard_errors[at] * first.width for s in curve.strengths]


def _in_words(curve: Curve, delta: float) -> str:
    from onefold.privacy.terms import shown
    from onefold.report import format_table

    rows = [
        (f"{s.lam:g}", shown(s.epsilon, 3), *(float(curve.mean(noise)[i]) for noise in curve.scores))
        for i, s in enumerate(curve.strengths)
    ]
    return str(format_table(["lam", f"epsilon per record, delta {delta:g}", *curve.scores], rows))
