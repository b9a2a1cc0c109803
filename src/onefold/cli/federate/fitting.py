"""Options of a site's model and its privacy, and the model they describe."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.fit import MEASURES
from onefold.cli.noise import add_noise_options, check_noise_options, label_noise_of, noise_of
from onefold.exceptions import InvalidInputError

RAW = """\
NOT PRIVATE: no noise was added. Every answer is a function of this site's raw rows, and whoever asks enough
learns something about them. The limits below bound how much is asked, not what is learned. For a promise give
--epsilon, and --range or --sensitivity."""


def add_privacy_options(group: Any) -> None:
    """How much noise, and for what."""
    add_noise_options(group, required=False, sensitivity=None)
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

    measure = args.measure or ("euclidean" if args.model == "wide" else "rms")
    if measure != "euclidean" and args.scale is None:
        raise InvalidInputError(f"--measure {measure} needs --scale F, the same number at all sites")
    shared = {"n_components": args.n_components, "scale": "auto" if args.scale is None else args.scale}
    if args.model == "folding":
        estimator: Any = FoldingClassifier(**shared, measure=measure)
    else:
        estimator = AutoencoderClassifier(WideKAHM(**shared, random_state=args.seed), measure=measure)
    noise = _mechanism(args, n_features)
    label_noise = label_noise_of(args, labels)
    smooth = not args.no_smoothing
    return LocalModel(estimator, noise, fabricate=smooth, label_mechanism=label_noise, keep_rows=False)


def _mechanism(args: argparse.Namespace, n_features: int) -> Any:
    check_noise_options(args)
    if args.epsilon is None:
        if args.label_epsilon is not None or args.no_smoothing:
            raise InvalidInputError("--label-epsilon and --no-smoothing need --epsilon")
        return None
    if args.range is None and args.sensitivity is None:
        raise InvalidInputError(
            "--epsilon needs --range LOW HIGH, known without the data, or --sensitivity S"
        )
    return noise_of(args, n_features)
