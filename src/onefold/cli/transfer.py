"""``onefold transfer``: a private source from one table, a classifier for another with few labels."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import flag, option, repeated
from onefold.cli.console import Parser, busy, say, show, without_bars
from onefold.cli.outputs import check_spares_ledger, check_writable, write_model
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema
from onefold.tables.rows import read_table, rows
from onefold.tables.schema import AS_THEY_STAND
from onefold.tables.tasks import CLASSES

if TYPE_CHECKING:
    from onefold.report import Report
    from onefold.report.builders import HeldOutAccuracy

MOST_NAMES = 10  # of classes that are listed
LEAST_SHARE = 0.005  # of the weight, of an expert that is named
EXPERTS = {
    "target": "the target's rows alone",
    "least squares": "least squares on its labels",
    "shrunk": "class means between source and target",
    "refined": "the same refined on unlabelled rows",
    "mapping": "the target's rows, begun with the source",
    "source": "the source as it is",
}
MEASURED = ("weights", "source_gain", "decisions_changed", "accuracy", "majority")
METHODS = ("moments", "noise", "fabricated")
UNIT = (
    "what epsilon protects: with moments a record (a row with its label) or, with --person, a person (all "
    "rows of one); with noise or fabricated one entry (default), a record or a person, which need --range"
)


def add_parser(commands: Any) -> None:
    """Declare the command and its parts."""
    parser = commands.add_parser(
        "transfer",
        description="Learn from few labels with the help of another table. A data owner makes a private "
        "source of a labelled table; no raw row leaves. Whoever gets the source fits a classifier to "
        "another table with few labels. onefold predict uses the classifier.",
    )
    parts = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    part = parts.add_parser(
        "source",
        help="make a private source of a labelled table",
        description="Describe a labelled table privately. moments: noisy means and covariances of each "
        "class, which protect whole rows with their labels (give --schema, or --classes and --radius). "
        "noise: a classifier fitted to rows with noise on every entry; labels are not protected without "
        "--label-epsilon. fabricated: the same, with the noisy rows smoothed first.",
    )
    shared.add_data(part)
    option(part, "--label COL", "column that holds the classes (default: the label of --schema)")
    shared.add_schema(part, "instead of --label, --classes, --range, --radius and --person")
    option(part, "--out SOURCE", "file to write the source to", required=True)
    shared.add_ignore(part)
    option(part, "--method", "what the source holds", default="moments", choices=METHODS)
    radius = "length to which rows are shortened, for moments (default: by --schema or --range, or 1)"
    option(part, "--radius R", radius, shared.positive)
    privacy = part.add_argument_group("privacy")
    shared.add_noise_options(privacy, required=True, unit=None, about_unit=UNIT)
    shared.add_person_options(privacy)
    shared.add_ledger(privacy)
    shared.ends(part, run_source)
    part = parts.add_parser(
        "fit",
        help="fit a classifier to a table with few labels",
        description="Fit a classifier to a table with few labels, with the help of a source, or of several: "
        "onefold transfer fit A TABLE --and-source B.",
    )
    part.add_argument("source", metavar="SOURCE", help="file written by onefold transfer source")
    shared.add_data(part, "table of the target")
    repeated(part, "--and-source FILE", "a further source, with --strategy default only", dest="more_sources")
    what = "column with the classes; -1, or with a schema an empty cell, means unknown"
    option(part, "--label COL", what)
    shared.add_schema(part, "the source's own schema is taken if it has one")
    option(part, "--out MODEL", "file to write the model to", required=True)
    shared.add_ignore(part)
    strategy = "default weighs experts by held-out labels; the others follow documents 001 and 003"
    choices = ("default", "documented", "nonparametric")
    option(part, "--strategy", strategy, default="default", choices=choices)
    flag(part, "--allow-missing", "accept classes of the source that no labelled row of the target has")
    seed = "seed of the split into rows to fit and rows to hold out"
    option(part, "--seed N", seed, shared.seed, 0)
    reports.add_report(part)
    shared.ends(part, run_fit)


def run_source(args: argparse.Namespace) -> None:
    """Read, make private, store, tell what is promised."""
    noise = shared.NoiseOptions.of(args)
    schema = shared.declared_schema(args, *shared.BY_SCHEMA, "radius")
    noise = noise.by_schema(schema)
    if schema.plain and args.label is None:
        raise InvalidInputError("name the column of classes with --label COL, or a schema with --schema FILE")
    if noise.unit is None:
        whole = "record" if noise.person is None else "person"
        noise = replace(noise, unit=whole if args.method == "moments" else "entry")
    _check_source(args, noise, schema)
    check_writable(args.out, args.data)
    check_spares_ledger(args.ledger, args.out)
    from onefold.transfer import PrivateSource

    read = noise.rows_of(args.data, schema, args.label, args.ignore, quiet=args.quiet, mode="private")
    person, reach, width = noise.persons(read), 0.0, schema.width
    if schema.plain:
        shortage = None if noise.classes is not None else CLASSES.shortage(read.y, read.known)
        if shortage is not None:
            raise InvalidInputError(f"{args.data}: label column {args.label!r} has {shortage}")
        width = read.n_features
        reach = math.sqrt(read.n_features) * max(map(abs, noise.range or (0.0,)))
    elif args.method == "moments" and noise.unit == "record":
        person = False
    mechanism = _mechanism(args.method, noise, args.radius or reach or 1.0, width, schema)
    with without_bars(args.quiet), busy("describing the source", args.quiet):
        source = PrivateSource.fit(
            read.X,
            read.y,
            mechanism=mechanism,
            label_mechanism=noise.label_mechanism(schema) if args.method == "noise" else None,
            ledger=args.ledger,
            schema=schema,
            person=person,
        )
    write_model(args.out, source)
    promise = source.guarantee_
    result: dict[str, Any] = {"source": args.out, "classes": len(source.classes_)}
    words = [f"source written to {args.out}", *_classes_in_words(source, noise, schema)]
    if promise.neighbours == "replace" and promise.person is None:  # else the number of rows is private
        result["rows"] = len(read)
    words += shared.promise_in_words(promise, args.ledger)
    show(result | {"promise": promise.to_dict()}, words, as_json=args.json, quiet=args.quiet)


def _classes_in_words(source: Any, noise: shared.NoiseOptions, schema: Any) -> list[str]:
    """Which classes the source knows, and of which it knows little."""
    names, few = (
        ", ".join(map(str, labels[:MOST_NAMES])) for labels in (source.classes_, source.small_classes())
    )
    more = f" and {len(source.classes_) - MOST_NAMES} more" if len(source.classes_) > MOST_NAMES else ""
    found = schema.plain and noise.classes is None and source.guarantee_.labels_in_record
    rest = "; smaller ones, if there are any, are left out: --classes declares them" if found else ""
    lines = [f"{len(source.classes_)} classes: {names}{more}{rest}"]
    if few:
        lines.append(f"too few rows for the source to say much about: {few}")
    return lines


def _source_files(args: argparse.Namespace) -> list[str]:
    """Files of all sources, in the order in which they are numbered."""
    files = [args.source, *args.more_sources]
    for name in files:
        if not Path(name).is_file():
            raise InvalidInputError(f"{name}: no such file")
    return files


def run_fit(args: argparse.Namespace) -> None:
    """Read all files, fit, store, tell what the source contributed."""
    files = _source_files(args)
    check_writable(args.out, args.data, *files)
    reports.check_report(args)
    from onefold.transfer import PrivateSource, TransferClassifier

    with busy(f"loading {', '.join(files)}", args.quiet):
        sources = [PrivateSource.load(name) for name in files]
    known = next((each.schema_ for each in sources if not each.schema_.plain), AS_THEY_STAND)
    schema = _schema_of_target(args, known)
    more = {"allow_missing": args.allow_missing, "random_state": args.seed, "schema": schema}
    given: dict[str, Any] = {"source": sources[0]} if len(sources) == 1 else {"sources": sources}
    model = TransferClassifier(**given, strategy=args.strategy, **more)
    names, table, labels = _target(args, schema)
    with without_bars(args.quiet), busy("fitting", args.quiet):
        model.fit(table, labels)
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    write_model(args.out, model)
    free = int(np.sum(labels.astype(str) == "-1"))
    result = {
        "model": args.out,
        "rows": len(labels),
        "unlabelled": free,
        **{name: getattr(model, f"{name}_") for name in MEASURED},
    }
    held = _held_out(model, len(labels) - free)
    result["accuracy_interval"] = None if held is None else list(held.interval)
    words = [f"{len(labels)} rows, {free} without a label; model written to {args.out}"]
    words += [*_missing_in_words(model, labels), *_in_words(model, free, held)]
    told = [*_missing_in_words(model, labels), *_changed_in_words(model, free)]
    reports.tell(args, result, words, lambda: _report(args, model, sources, result, held, told))
    guard = "the model holds means and covariances, or rows, of the target: guard it like the data"
    say(guard, args.quiet or args.json)


def _held_out(model: Any, labelled: int) -> HeldOutAccuracy | None:
    """How good the model is on its labelled rows, if each was held out once; None if none was."""
    from onefold.report.builders import HeldOutAccuracy

    if model.source_gain_ is None or model.accuracy_ is None:
        return None
    return HeldOutAccuracy(labelled, model.accuracy_, model.majority_, model.accuracy_ - model.source_gain_)


def _report(
    args: argparse.Namespace,
    model: Any,
    sources: list[Any],
    result: dict[str, Any],
    held: HeldOutAccuracy | None,
    told: list[str],
) -> Report:
    """Two pages in one: what each source promises, and what all are worth to the target."""
    from onefold.report import Section
    from onefold.report.builders import of_transfer

    files = _source_files(args)
    whose = ["the source"] if len(files) == 1 else [f"source {number}" for number in range(1, len(files) + 1)]
    facts = {
        "model": reports.file_name(args.out),
        "target": f"{result['rows']} rows of {Path(args.data).name}, {result['unlabelled']} without a label",
        **{name: reports.file_name(file) for name, file in zip(whose, files, strict=True)},
        "strategy": args.strategy,
        **reports.facts_of({}, **{"the model": args.out}, **dict(zip(whose, files, strict=True))),
    }
    weights = model.weights_ or {}
    experts = Section(
        "Weights of the experts",
        headers=["expert", "weight", "share"],
        rows=[(_expert(name), weights[name], round(share, 4)) for share, name in _shares(weights)],
    )
    title = f"Transfer to {Path(args.data).name}"
    promises = [source.guarantee_ for source in sources]
    worth = [_worth(model, held), *told]
    return of_transfer(title, facts, worth, promises, experts, reports.card_of(args), held)


def _worth(model: Any, held: HeldOutAccuracy | None) -> str:
    """What the source was worth, in one sentence for everybody."""
    if held is None:
        return "What the source was worth was not measured: no labelled rows were held out."
    which = "the source" if model.sources is None else "the sources"
    gain, worse = held.source_gain, "predictions are WORSE"
    shown = {"better": "predictions are better", "worse": worse}.get(gain.outcome, "not shown to be better")
    return f"On held-out labelled rows, {gain}: {shown} with {which}."


def _schema_of_target(args: argparse.Namespace, known: Schema) -> Schema:
    """The schema of the target: the one given or the source's own, with the label column that is named."""
    schema = Schema.load(args.schema) if args.schema else known
    if schema.plain:
        if args.label is None:
            raise InvalidInputError("name the column of classes with --label COL")
        return schema
    label = schema.label
    if label is None:
        raise InvalidInputError('the schema has no label: set "onefold:role" of a field to "label"')
    if args.ignore:
        raise InvalidInputError("the schema says which columns are used: leave out --ignore")
    if args.label in (None, label.name):
        return schema
    fields = [replace(each, name=args.label) if each is label else each for each in schema.fields]
    return Schema(
        [each for each in fields if each.role in ("feature", "label")],
        missing_values=schema.missing_values,
        source=schema.source,
    )


def _target(args: argparse.Namespace, schema: Any) -> tuple[Any, Any, AnyArray]:
    """Names of the features, rows and labels of the target."""
    if schema.plain:
        with busy(f"reading {args.data}", args.quiet):
            given: dict[str, Any] = {"label": args.label, "ignore": args.ignore, "task": CLASSES.name}
            read = rows(args.data, "numbers", mode="lenient", **given)
        return read.names, read.X, np.asarray(read.y)
    from onefold.transfer.classifier import few_labels, with_unlabelled

    few = with_unlabelled(schema)
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, schema=few)
    return (), table, few_labels(schema, table)


def _missing_in_words(model: Any, labels: AnyArray) -> list[str]:
    """Classes of the source that no labelled row has, and those of which it knows little."""
    seen = set(labels.astype(str).tolist())
    absent = [str(label) for label in model.classes_ if str(label) not in seen]
    several = model.sources is not None
    sources = model.sources if several else [model.source]
    small = [[str(label) for label in source.small_classes()] for source in sources]
    whose = [f"source {number}" if several else "the source" for number in range(1, len(sources) + 1)]
    alone = "the sources alone decide" if several else "the source alone decides"
    told = [
        (f"no row is labelled as: {{}}; {alone} about them", absent),
        *((f"{name} has too few rows of: {{}}", found) for name, found in zip(whose, small, strict=True)),
    ]
    return [words.format(", ".join(names[:MOST_NAMES])) for words, names in told if names]


def _changed_in_words(model: Any, free: int) -> list[str]:
    which = "the source" if model.sources is None else "the sources"
    return [f"{model.decisions_changed_} of {free} labels found would differ without {which}"] * (free > 0)


def _in_words(model: Any, free: int, held: HeldOutAccuracy | None) -> list[str]:
    """What the source contributed, or all of them, and whether the model is worth anything."""
    lines = _changed_in_words(model, free)
    if model.accuracy_ is not None:
        rows = "labelled rows" if model.source_gain_ is None else "held-out labelled rows"
        right, most = 100 * model.accuracy_, 100 * model.majority_
        spread = ""
        if held is not None:
            from onefold.report.builders import outward

            spread = " (95 % confidence: {:.1f} to {:.1f})".format(
                *(100 * end for end in outward(held.interval, 3))
            )
        lines.append(
            f"accuracy on {rows}: {right:.1f} %{spread}; the most frequent label alone: {most:.1f} %"
        )
    if model.source_gain_ is None:
        return lines
    if held is not None:
        lines.insert(0, _worth(model, held))
    shares = [(100 * share, _expert(name)) for share, name in _shares(model.weights_) if share >= LEAST_SHARE]
    return [f"weight: {', '.join(f'{name} {share:.0f} %' for share, name in shares)}", *lines]


def _shares(weights: dict[str, float]) -> list[tuple[float, str]]:
    total = sum(weights.values()) or 1.0
    return sorted(((weight / total, name) for name, weight in weights.items()), reverse=True)


def _expert(name: str) -> str:
    """What an expert is, in words; with several sources its name says which of them it belongs to."""
    if name in EXPERTS:
        return EXPERTS[name]
    whose, _, kind = name.partition(": ")
    return f"{whose}: {EXPERTS[kind]}" if kind else f"{whose} as it is"


def _check_source(args: argparse.Namespace, noise: shared.NoiseOptions, schema: Any) -> None:
    if args.method != "moments":
        if args.radius is not None:
            raise InvalidInputError(
                "--radius goes with --method moments: noise takes --schema, --range or --sensitivity"
            )
        noise.check()
        return
    usual = {"label_epsilon": None, "noise": "optimal", "sensitivity": None}
    shared.refuse(args, usual, "{0} goes with --method noise: moments cover rows with their labels")
    if noise.unit == "entry":
        raise InvalidInputError("--unit entry goes with --method noise: moments are private per record")
    if schema.plain and noise.unit == "record" and noise.person is not None:
        raise InvalidInputError("--person makes moments private per person: leave --unit record out")
    noise.check_person()
    if not schema.plain:
        return
    shared.check_label_options(noise.label_epsilon, noise.classes)
    shared.check_range(noise.range)
    if args.radius is None and noise.range is None:
        raise InvalidInputError(
            "moments need to know how long rows can be, without looking at the data: give --schema FILE, "
            "--range LOW HIGH or --radius R"
        )


def _mechanism(method: str, noise: shared.NoiseOptions, radius: float, width: int, schema: Schema) -> Any:
    from onefold.fabrication import Fabricator
    from onefold.privacy import PrivateMoments

    if method == "moments":
        declared = schema.plain and noise.classes is not None
        classes = shared.declared_classes(noise.classes or []) if declared else None
        most = noise.rows_per_person if noise.unit == "person" else None
        more: dict[str, Any] = {"sampler": noise.sampler, "rows_per_person": most}
        return PrivateMoments(noise.epsilon, noise.delta, classes=classes, radius=radius, **more)
    mechanism = noise.mechanism(width)
    if method == "noise":
        return mechanism
    return Fabricator(mechanism, label_mechanism=noise.label_mechanism(schema))
