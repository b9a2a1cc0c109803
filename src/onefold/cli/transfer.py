"""``onefold transfer``: a private source from one table, a classifier for another with few labels."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option
from onefold.cli.console import Parser, busy, say, show, without_bars
from onefold.cli.outputs import check_writable
from onefold.cli.tables import read_labelled
from onefold.exceptions import InvalidInputError

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
    _add_source(parts)
    _add_fit(parts)


def _add_source(parts: Any) -> None:
    parser = parts.add_parser(
        "source",
        help="make a private source of a labelled table",
        description="Describe a labelled table privately. moments: noisy means and covariances of each "
        "class, which protect whole rows with their labels (give --classes and --radius). noise: a "
        "classifier fitted to rows with noise on every entry; labels are not protected without "
        "--label-epsilon. fabricated: the same, with the noisy rows smoothed first.",
    )
    shared.add_data(parser)
    shared.add_label(parser)
    option(parser, "--out SOURCE", "file to write the source to", required=True)
    shared.add_ignore(parser)
    option(parser, "--method", "what the source holds", default="moments", choices=METHODS)
    radius = "largest length of a row, for moments; longer rows are shortened (default: 1)"
    option(parser, "--radius R", radius, shared.positive)
    shared.add_encoder_options(parser.add_argument_group("encoder"))
    privacy = parser.add_argument_group("privacy")
    shared.add_noise_options(privacy, required=True, unit=None, about_unit=UNIT)
    shared.add_person_options(privacy)
    shared.add_ledger(privacy)
    shared.add_output_options(parser)
    parser.set_defaults(run=run_source)


def _add_fit(parts: Any) -> None:
    parser = parts.add_parser(
        "fit",
        help="fit a classifier to a table with few labels",
        description="Fit a classifier to a table in which most labels are -1, with the help of a source.",
    )
    parser.add_argument("source", metavar="SOURCE", help="file written by onefold transfer source")
    shared.add_data(parser, "table of the target")
    option(parser, "--label COL", "column with the classes; -1 means unknown", required=True)
    option(parser, "--out MODEL", "file to write the model to", required=True)
    shared.add_ignore(parser)
    option(
        parser,
        "--strategy",
        "how the source is used: default decides by labelled rows that it holds out; documented follows "
        "document 001, nonparametric document 003",
        default="default",
        choices=("default", "documented", "nonparametric"),
    )
    flag(parser, "--allow-missing", "accept classes of the source that no labelled row of the target has")
    seed = "seed of the split into rows to fit and rows to hold out"
    option(parser, "--seed N", seed, shared.seed, 0)
    shared.add_encoder_options(parser.add_argument_group("encoder, for rows unlike those of the source"))
    shared.add_output_options(parser)
    parser.set_defaults(run=run_fit)


def run_source(args: argparse.Namespace) -> int:
    """Read, make private, store, tell what is promised."""
    noise = shared.NoiseOptions.of(args)
    if noise.unit is None:
        whole = "record" if noise.person is None else "person"
        noise = replace(noise, unit=whole if args.method == "moments" else "entry")
    _check_source(args.method, noise, args.radius)
    check_writable(args.out, args.data)
    table, labels = read_labelled(
        args.data,
        args.label,
        keep=noise.kept_columns(args.label)[1:],
        ignore=args.ignore,
        two_classes=noise.classes is None,
        quiet=args.quiet,
    )
    from onefold.transfer import PrivateSource

    encoder = shared.encoder_of(args.encoder, args.image_shape, args.margin, args.n_outputs)
    with without_bars(args.quiet), busy("describing the source", args.quiet):
        source = PrivateSource.fit(
            table.in_float64,
            noise.labels(labels),
            _mechanism(args.method, noise, args.radius, _encoded_width(table.values, encoder)),
            encoder=encoder,
            label_mechanism=noise.label_mechanism() if args.method == "noise" else None,
            person=noise.persons(table),
            ledger=args.ledger,
        )
    source.save(args.out)
    promise = source.guarantee_
    result: dict[str, Any] = {"source": args.out, "classes": len(source.classes_)}
    words = [f"source written to {args.out}", *shared.promise_in_words(promise)]
    if promise.neighbours == "replace" and promise.person is None:  # else the number of rows is private
        result["rows"] = len(labels)
    show(result | {"promise": promise.to_dict()}, words, as_json=args.json, quiet=args.quiet)
    return 0


def run_fit(args: argparse.Namespace) -> int:
    """Read both files, fit, store, tell what the source contributed."""
    check_writable(args.out, args.data, args.source)
    if not Path(args.source).is_file():
        raise InvalidInputError(f"{args.source}: no such file")
    table, labels = read_labelled(
        args.data, args.label, ignore=args.ignore, two_classes=False, quiet=args.quiet
    )
    from onefold.transfer import PrivateSource, TransferClassifier

    with busy(f"loading {args.source}", args.quiet):
        source = PrivateSource.load(args.source)
    encoder = shared.encoder_of(args.encoder, args.image_shape, args.margin, args.n_outputs)
    more = {"allow_missing": args.allow_missing, "random_state": args.seed}
    model = TransferClassifier(source, args.strategy, to_source=encoder, **more)
    with without_bars(args.quiet), busy("fitting", args.quiet):
        model.fit(table.values, labels)
    if table.names is not None:
        model.feature_names_in_ = np.array(table.names, dtype=object)
    model.save(args.out)
    free = int(np.sum(labels.astype(str) == "-1"))
    result = {
        "model": args.out,
        "rows": len(labels),
        "unlabelled": free,
        "weights": model.weights_,
        "source_gain": model.source_gain_,
        "decisions_changed": model.decisions_changed_,
    }
    words = [f"{len(labels)} rows, {free} without a label; model written to {args.out}"]
    show(result, [*words, *_in_words(model, free)], as_json=args.json, quiet=args.quiet)
    guard = "the model holds means and covariances, or rows, of the target: guard it like the data"
    say(guard, args.quiet or args.json)
    return 0


def _in_words(model: Any, free: int) -> list[str]:
    """What the source contributed."""
    lines = [f"{model.decisions_changed_} of {free} labels found would differ without the source"]
    if model.source_gain_ is None:
        return lines
    if any(list(model.weights_.values())[1:]):
        gain = f"{100 * model.source_gain_:+.1f} points"
        return [f"accuracy on held-out labelled rows: {gain} with the source", *lines]
    return [
        "the source is not used: it did not raise the accuracy on labelled rows that were held out",
        *lines,
    ]


def _check_source(method: str, noise: shared.NoiseOptions, radius: float | None) -> None:
    if method != "moments":
        if radius is not None:
            raise InvalidInputError(
                "--radius goes with --method moments: noise takes --range or --sensitivity"
            )
        noise.check()
        return
    given = {
        "--label-epsilon": noise.label_epsilon is not None,
        "--range": noise.range is not None,
        "--noise": noise.noise != "optimal",
        "--sensitivity": noise.sensitivity is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidInputError(f"{name} goes with --method noise: moments cover rows with their labels")
    if noise.unit == "entry":
        raise InvalidInputError("--unit entry goes with --method noise: moments are private per record")
    if noise.unit == "record" and noise.person is not None:
        raise InvalidInputError("--person makes moments private per person: leave --unit record out")
    noise.check_person()
    shared.check_label_options(noise.label_epsilon, noise.classes)


def _encoded_width(values: AnyArray, encoder: Any) -> int:
    """Number of features that the noise is added to."""
    if encoder is None:
        return int(values.shape[1])
    return int(encoder.fit(values[:1]).transform(values[:1]).shape[1])


def _mechanism(method: str, noise: shared.NoiseOptions, radius: float | None, width: int) -> Any:
    from onefold.fabrication import Fabricator
    from onefold.privacy import PrivateMoments

    if method == "moments":
        classes = None if noise.classes is None else shared.declared_classes(noise.classes)
        radius = 1.0 if radius is None else radius
        more: dict[str, Any] = {"sampler": noise.sampler, "rows_per_person": noise.rows_per_person}
        return PrivateMoments(noise.epsilon, noise.delta, classes=classes, radius=radius, **more)
    mechanism = noise.mechanism(width)
    if method == "noise":
        return mechanism
    return Fabricator(mechanism, label_mechanism=noise.label_mechanism())
