"""``onefold transfer``: a private source from one table, a classifier for another with few labels."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from onefold.cli import arguments as kinds
from onefold.cli.console import Parser, busy, print_json, say, without_bars
from onefold.cli.encoding import add_encoder_options, encoder_of
from onefold.cli.labels import labels_of, require_two_classes
from onefold.cli.noise import add_noise_options, check_noise_options, label_noise_of, noise_of
from onefold.cli.outputs import check_writable
from onefold.cli.tables import Table, read_table
from onefold.exceptions import InvalidInputError

METHODS = ("moments", "noise", "fabricated")
UNIT = (
    "what epsilon protects: with moments always a record, that is a row with its label; with "
    "noise or fabricated one entry (default), or a whole row, which needs --range"
)


def add_parser(commands: Any) -> None:
    """Declare the command and its parts."""
    parser = commands.add_parser(
        "transfer",
        help="learn with few labels from a private source",
        description="An owner makes a source of a labelled table: no raw row leaves. Whoever gets it fits a "
        "classifier to another table with few labels; onefold predict uses it.",
    )
    parts = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    _add_source(parts)
    _add_fit(parts)


def _add_source(parts: Any) -> None:
    parser = parts.add_parser(
        "source",
        help="make a private source of a labelled table",
        description="Describe a labelled table privately. moments: means and covariances of each class, for "
        "whole rows with their labels (give --classes and --radius). noise: noise on every entry, then a "
        "classifier, as in the documents; labels are not protected without --label-epsilon. fabricated: the "
        "same after smoothing.",
    )
    parser.add_argument("data", metavar="DATA", help="table of samples: .csv, .npz or .parquet")
    parser.add_argument("--label", required=True, metavar="COL", help="column that holds the classes")
    parser.add_argument("--out", required=True, metavar="SOURCE", help="file to write")
    parser.add_argument("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    parser.add_argument("--method", choices=METHODS, default="moments", help="what is kept (moments)")
    parser.add_argument(
        "--radius", type=kinds.positive, metavar="R", help="moments: longest row there is (1)"
    )
    add_encoder_options(parser.add_argument_group("encoder"))
    add_noise_options(
        parser.add_argument_group("privacy"), required=True, sensitivity=1.0, unit=None, about_unit=UNIT
    )
    _add_output_options(parser)
    parser.set_defaults(run=run_source)


def _add_fit(parts: Any) -> None:
    parser = parts.add_parser(
        "fit",
        help="fit a classifier to a table with few labels",
        description="Fit a classifier to a table in which most labels are -1, with the help of a source.",
    )
    parser.add_argument("source", metavar="SOURCE", help="file written by onefold transfer source")
    parser.add_argument("data", metavar="DATA", help="table of the target: .csv, .npz or .parquet")
    parser.add_argument("--label", required=True, metavar="COL", help="column with the classes, -1: unknown")
    parser.add_argument("--out", required=True, metavar="MODEL", help="file for onefold predict")
    parser.add_argument("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    parser.add_argument(
        "--strategy",
        choices=("default", "documented", "nonparametric"),
        default="default",
        help="how (default: what was found to transfer)",
    )
    parser.add_argument(
        "--allow-missing", action="store_true", help="accept classes of the source without a labelled row"
    )
    parser.add_argument("--seed", type=kinds.seed, default=0, metavar="N", help="of the folds (0)")
    add_encoder_options(parser.add_argument_group("encoder, for rows unlike the source's"))
    _add_output_options(parser)
    parser.set_defaults(run=run_fit)


def _add_output_options(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")


def run_source(args: argparse.Namespace) -> int:
    """Read, make private, store, tell what is promised."""
    if args.method == "moments":
        _check_moments(args)
    else:
        args.unit = args.unit or "entry"
        if args.radius is not None:
            raise InvalidInputError(
                "--radius goes with --method moments: noise takes --range or --sensitivity"
            )
        check_noise_options(args)
    check_writable(args.out, args.data)
    table, labels = _labelled(args)
    require_two_classes(table, args.label, labels)
    from onefold.transfer import PrivateSource

    encoder = encoder_of(args)
    with without_bars(args.quiet), busy("describing the source", args.quiet):
        source = PrivateSource.fit(
            table.values,
            labels,
            _mechanism(args, table, labels, encoder),
            encoder=encoder,
            label_mechanism=label_noise_of(args, labels) if args.method == "noise" else None,
        )
    source.save(args.out)
    result = {"source": args.out, "rows": len(labels), "classes": len(source.classes_)}
    if args.json:
        print_json(result | {"promise": source.guarantee_.to_dict()})
    elif not args.quiet:
        print(f"source of {len(labels)} rows written to {args.out}\n{source.guarantee_}")
    return 0


def run_fit(args: argparse.Namespace) -> int:
    """Read both files, fit, store, tell what the source contributed."""
    check_writable(args.out, args.data, args.source)
    if not Path(args.source).is_file():
        raise InvalidInputError(f"{args.source}: no such file")
    table, labels = _labelled(args)
    from onefold.transfer import PrivateSource, TransferClassifier

    with busy(f"loading {args.source}", args.quiet):
        source = PrivateSource.load(args.source)
    model = TransferClassifier(
        source,
        args.strategy,
        to_source=encoder_of(args),
        allow_missing=args.allow_missing,
        random_state=args.seed,
    )
    with without_bars(args.quiet), busy("fitting", args.quiet):
        model.fit(table.values, labels)
    if table.names is not None:
        model.feature_names_in_ = np.array(table.names, dtype=object)
    model.save(args.out)
    _tell_fit(args, model, labels)
    return 0


def _tell_fit(args: argparse.Namespace, model: Any, labels: Any) -> None:
    free = int(np.sum(labels.astype(str) == "-1"))
    result = {
        "model": args.out,
        "rows": len(labels),
        "unlabelled": free,
        "weights": model.weights_,
        "source_gain": model.source_gain_,
        "decisions_changed": model.decisions_changed_,
    }
    if args.json:
        print_json(result)
        return
    if args.quiet:
        return
    print(f"{len(labels)} rows, {free} without a label; model written to {args.out}")
    if model.source_gain_ is not None and not any(list(model.weights_.values())[1:]):
        print("the source is not used: labelled rows that were held out did not gain by it")
    elif model.source_gain_ is not None:
        print(f"accuracy on held-out labelled rows: {100 * model.source_gain_:+.1f} points with the source")
    print(f"{model.decisions_changed_} of {free} labels found would be others without the source")
    say("the model holds means and covariances, or rows, of the target: guard it like the data", args.quiet)


def _labelled(args: argparse.Namespace) -> tuple[Table, Any]:
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, keep=[args.label], ignore=args.ignore)
    return table, labels_of(table, args.label)


def _check_moments(args: argparse.Namespace) -> None:
    given = {
        "--label-epsilon": args.label_epsilon is not None,
        "--range": args.range is not None,
        "--noise": args.noise != "optimal",
        "--sensitivity": args.sensitivity != 1.0,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidInputError(f"{name} goes with --method noise: moments cover rows with their labels")
    if args.unit == "entry":
        raise InvalidInputError("--unit entry goes with --method noise: moments are private per record")


def _mechanism(args: argparse.Namespace, table: Table, labels: Any, encoder: Any) -> Any:
    from onefold.fabrication import Fabricator
    from onefold.privacy import PrivateMoments

    if args.method == "moments":
        classes = None if args.classes is None else _declared(args.classes, labels)
        radius = 1.0 if args.radius is None else args.radius
        return PrivateMoments(args.epsilon, args.delta, classes=classes, radius=radius, hardened=True)
    width = table.values.shape[1]
    if encoder is not None:
        width = encoder.fit(table.values[:1]).transform(table.values[:1]).shape[1]
    noise = noise_of(args, width)
    if args.method == "noise":
        return noise
    return Fabricator(noise, label_mechanism=label_noise_of(args, labels))


def _declared(names: list[str], labels: Any) -> list[Any]:
    """The declared classes, as numbers where the labels are numbers."""
    try:
        return [int(name) for name in names] if labels.dtype.kind in "iu" else list(names)
    except ValueError:
        raise InvalidInputError("--classes must be whole numbers, as the labels of the data are") from None
