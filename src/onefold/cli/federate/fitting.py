"""Options of a site's model and its privacy, and the model they describe."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.fit import MEASURES
from onefold.exceptions import InvalidInputError

NOISES = ("optimal", "laplace", "gaussian")
RAW = """\
NOT PRIVATE: no noise was added. Every answer is a function of this site's raw rows, and whoever asks enough
learns something about them. The limits below bound how much is asked, not what is learned. For a promise give
--epsilon, and --range or --sensitivity."""


def add_privacy_options(group: Any) -> None:
    """How much noise, and for what."""
    number = kinds.positive
    group.add_argument("--epsilon", type=number, metavar="E", help="noise on the rows; per unit, see --unit")
    group.add_argument("--delta", type=kinds.fraction, default=1e-5, metavar="D", help="per unit (1e-5)")
    group.add_argument(
        "--unit",
        choices=("entry", "record"),
        default="entry",
        help="what epsilon protects: one entry (default) or a whole row, which needs --range",
    )
    group.add_argument("--noise", choices=NOISES, default="optimal", help="kind of noise (optimal)")
    bound = group.add_mutually_exclusive_group()
    bound.add_argument("--range", nargs=2, type=float, metavar=("LOW", "HIGH"), help="of every feature")
    bound.add_argument("--sensitivity", type=number, metavar="S", help="largest change of an entry")
    group.add_argument("--label-epsilon", type=number, metavar="E", help="randomise the labels, per label")
    group.add_argument("--no-smoothing", action="store_true", help="use the noisy rows as they are")


def add_model_options(group: Any) -> None:
    """Which model; the same at all sites."""
    whole = kinds.positive_int
    group.add_argument(
        "--model", choices=("wide", "folding"), default="wide", help="as in onefold fit (wide)"
    )
    group.add_argument(
        "--measure", choices=MEASURES, help="distance to a class (wide: euclidean, folding: rms)"
    )
    group.add_argument("--scale", type=number_or_none, metavar="F", help="needed with the folding measures")
    group.add_argument("--n-components", type=whole, default=20, metavar="N", help="components (20)")
    group.add_argument(
        "--seed", type=kinds.seed, default=0, metavar="N", help="of k-means, never of noise (0)"
    )


def number_or_none(text: str) -> float:
    """A scale that all sites share: a positive number."""
    return kinds.positive(text)


def local_model(args: argparse.Namespace, labels: Any, n_features: int) -> Any:
    """The unfitted model that the options describe."""
    from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
    from onefold.federated import LocalModel
    from onefold.privacy import RandomisedLabels

    measure = args.measure or ("euclidean" if args.model == "wide" else "rms")
    if measure != "euclidean" and args.scale is None:
        raise InvalidInputError(f"--measure {measure} needs --scale F, the same number at all sites")
    shared = {"n_components": args.n_components, "scale": "auto" if args.scale is None else args.scale}
    if args.model == "folding":
        estimator: Any = FoldingClassifier(**shared, measure=measure)
    else:
        estimator = AutoencoderClassifier(WideKAHM(**shared, random_state=args.seed), measure=measure)
    label_noise = None
    if args.label_epsilon is not None:
        classes = sorted(set(labels.tolist()))
        if len(classes) < 2:
            raise InvalidInputError("--label-epsilon needs two classes or more")
        label_noise = RandomisedLabels(args.label_epsilon, classes)
    noise = _mechanism(args, n_features)
    smooth = not args.no_smoothing
    return LocalModel(estimator, noise, fabricate=smooth, label_mechanism=label_noise, keep_rows=False)


def _mechanism(args: argparse.Namespace, n_features: int) -> Any:
    from onefold.privacy import AnalyticGaussian, Box, Laplace, OptimalNoise

    if args.epsilon is None:
        if args.label_epsilon is not None or args.no_smoothing:
            raise InvalidInputError("--label-epsilon and --no-smoothing need --epsilon")
        return None
    if args.range is None and args.sensitivity is None:
        raise InvalidInputError(
            "--epsilon needs --range LOW HIGH, known without the data, or --sensitivity S"
        )
    if args.unit == "record" and args.range is None:
        raise InvalidInputError("--unit record needs --range LOW HIGH: the size of a row depends on it")
    size = args.sensitivity if args.range is None else Box(args.range[0], args.range[1], n_features)
    if args.noise == "laplace":
        return Laplace(args.epsilon, sensitivity=size, unit=args.unit)
    kind = OptimalNoise if args.noise == "optimal" else AnalyticGaussian
    return kind(args.epsilon, args.delta, sensitivity=size, unit=args.unit)
