"""``onefold transfer``: a private source from one table, a classifier for another with few labels."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli import arguments as kinds
from onefold.cli.console import Parser, busy, print_json, say, without_bars
from onefold.cli.outputs import check_writable
from onefold.cli.tables import labels_of, read_table, require_two_classes
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
        description="A data owner makes a source of a labelled table: no raw row leaves. Whoever gets the "
        "source fits a classifier to another table with few labels; onefold predict uses it.",
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
    kinds.add_data(parser)
    parser.add_argument("--label", required=True, metavar="COL", help="column that holds the classes")
    parser.add_argument("--out", required=True, metavar="SOURCE", help="file to write the source to")
    kinds.add_ignore(parser)
    parser.add_argument(
        "--method", choices=METHODS, default="moments", help="what the source holds (default: moments)"
    )
    parser.add_argument(
        "--radius",
        type=kinds.positive,
        metavar="R",
        help="largest length of a row, for moments; longer rows are shortened (default: 1)",
    )
    kinds.add_encoder_options(parser.add_argument_group("encoder"))
    kinds.add_noise_options(
        parser.add_argument_group("privacy"), required=True, sensitivity=1.0, unit=None, about_unit=UNIT
    )
    kinds.add_output_options(parser)
    parser.set_defaults(run=run_source)


def _add_fit(parts: Any) -> None:
    parser = parts.add_parser(
        "fit",
        help="fit a classifier to a table with few labels",
        description="Fit a classifier to a table in which most labels are -1, with the help of a source.",
    )
    parser.add_argument("source", metavar="SOURCE", help="file written by onefold transfer source")
    kinds.add_data(parser, "table of the target")
    parser.add_argument(
        "--label", required=True, metavar="COL", help="column with the classes; -1 means unknown"
    )
    parser.add_argument("--out", required=True, metavar="MODEL", help="file to write the model to")
    kinds.add_ignore(parser)
    parser.add_argument(
        "--strategy",
        choices=("default", "documented", "nonparametric"),
        default="default",
        help="way to use the source: default chooses by held-out labels, the others follow documents 001 and "
        "003",
    )
    parser.add_argument(
        "--allow-missing", action="store_true", help="accept classes of the source without a labelled row"
    )
    parser.add_argument(
        "--seed",
        type=kinds.seed,
        default=0,
        metavar="N",
        help="seed of the split into rows to fit and rows to hold out (default: 0)",
    )
    kinds.add_encoder_options(parser.add_argument_group("encoder, for rows unlike the source's"))
    kinds.add_output_options(parser)
    parser.set_defaults(run=run_fit)


def run_source(args: argparse.Namespace) -> int:
    """Read, make private, store, tell what is promised."""
    noise = kinds.NoiseOptions.of(args, unit=args.unit or ("record" if args.method == "moments" else "entry"))
    _check_source(args.method, noise, args.radius)
    check_writable(args.out, args.data)
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, keep=[args.label], ignore=args.ignore)
    labels = labels_of(table, args.label)
    require_two_classes(table, args.label, labels)
    from onefold.transfer import PrivateSource

    encoder = kinds.encoder_of(args)
    with without_bars(args.quiet), busy("describing the source", args.quiet):
        source = PrivateSource.fit(
            table.values,
            labels,
            _mechanism(args.method, noise, args.radius, _encoded_width(table.values, encoder), labels),
            encoder=encoder,
            label_mechanism=kinds.label_noise_of(noise, labels) if args.method == "noise" else None,
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
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, keep=[args.label], ignore=args.ignore)
    labels = labels_of(table, args.label)
    from onefold.transfer import PrivateSource, TransferClassifier

    with busy(f"loading {args.source}", args.quiet):
        source = PrivateSource.load(args.source)
    model = TransferClassifier(
        source,
        args.strategy,
        to_source=kinds.encoder_of(args),
        allow_missing=args.allow_missing,
        random_state=args.seed,
    )
    with without_bars(args.quiet), busy("fitting", args.quiet):
        model.fit(table.values, labels)
    if table.names is not None:
        model.feature_names_in_ = np.array(table.names, dtype=object)
    model.save(args.out)
    free = int(np.sum(labels.astype(str) == "-1"))
    if args.json:
        print_json(
            {
                "model": args.out,
                "rows": len(labels),
                "unlabelled": free,
                "weights": model.weights_,
                "source_gain": model.source_gain_,
                "decisions_changed": model.decisions_changed_,
            }
        )
    elif not args.quiet:
        print(f"{len(labels)} rows, {free} without a label; model written to {args.out}")
        print("\n".join(_in_words(model, free)))
        say("the model holds means and covariances, or rows, of the target: guard it like the data", False)
    return 0


def _in_words(model: Any, free: int) -> list[str]:
    """What the source contributed."""
    lines = [f"{model.decisions_changed_} of {free} labels found would be others without the source"]
    if model.source_gain_ is None:
        return lines
    if any(list(model.weights_.values())[1:]):
        gain = f"{100 * model.source_gain_:+.1f} points"
        return [f"accuracy on held-out labelled rows: {gain} with the source", *lines]
    return ["the source is not used: labelled rows that were held out did not gain by it", *lines]


def _check_source(method: str, noise: kinds.NoiseOptions, radius: float | None) -> None:
    if method != "moments":
        if radius is not None:
            raise InvalidInputError(
                "--radius goes with --method moments: noise takes --range or --sensitivity"
            )
        kinds.check_noise_options(noise)
        return
    given = {
        "--label-epsilon": noise.label_epsilon is not None,
        "--range": noise.range is not None,
        "--noise": noise.noise != "optimal",
        "--sensitivity": noise.sensitivity != 1.0,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidInputError(f"{name} goes with --method noise: moments cover rows with their labels")
    if noise.unit == "entry":
        raise InvalidInputError("--unit entry goes with --method noise: moments are private per record")


def _encoded_width(values: AnyArray, encoder: Any) -> int:
    """Number of features that the noise is added to."""
    if encoder is None:
        return int(values.shape[1])
    return int(encoder.fit(values[:1]).transform(values[:1]).shape[1])


def _mechanism(
    method: str, noise: kinds.NoiseOptions, radius: float | None, width: int, labels: AnyArray
) -> Any:
    from onefold.fabrication import Fabricator
    from onefold.privacy import PrivateMoments

    if method == "moments":
        classes = None if noise.classes is None else _declared(noise.classes, labels)
        radius = 1.0 if radius is None else radius
        return PrivateMoments(noise.epsilon, noise.delta, classes=classes, radius=radius, hardened=True)
    mechanism = kinds.noise_of(noise, width)
    if method == "noise":
        return mechanism
    return Fabricator(mechanism, label_mechanism=kinds.label_noise_of(noise, labels))


def _declared(names: list[str], labels: AnyArray) -> list[Any]:
    """The declared classes, as numbers where the labels are numbers."""
    try:
        return [int(name) for name in names] if labels.dtype.kind in "iu" else list(names)
    except ValueError:
        raise InvalidInputError("--classes must be whole numbers, as the labels of the data are") from None
