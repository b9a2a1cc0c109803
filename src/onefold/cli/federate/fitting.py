"""Options of a site: its model, its privacy, and what may leave it."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.arguments import add_noise_options, check_noise_options, noise_of
from onefold.cli.fit import MEASURES
from onefold.exceptions import InvalidInputError

RAW = """\
NOT PRIVATE: no noise was added. Every answer is a function of this site's raw rows, and whoever asks enough
learns something about them. The limits below bound how much is asked, not what is learned. For a promise give
--epsilon, and --range or --sensitivity."""

SENDS = {
    "send_model": "private-model",
    "send_raw_model": "raw-model",
    "send_answers_only": "answers",
    "send_encrypted_only": "sealed-answers",
}


def add_privacy_options(group: Any) -> None:
    """How much noise, and for what."""
    add_noise_options(group, required=False, sensitivity=None)
    group.add_argument(
        "--no-smoothing", action="store_true", help="model the noisy rows without smoothing them"
    )


def add_model_options(group: Any) -> None:
    """Which model; the same at all sites."""
    whole = kinds.positive_int
    group.add_argument(
        "--model",
        choices=("wide", "folding"),
        default="wide",
        help="kind of model, as in onefold fit (default: wide)",
    )
    group.add_argument(
        "--measure",
        choices=MEASURES,
        help="distance to a class (default: euclidean for wide, rms for folding)",
    )
    group.add_argument(
        "--scale",
        type=kinds.positive,
        metavar="F",
        help="factor on the data, needed with the folding measures",
    )
    group.add_argument(
        "--n-components", type=whole, default=20, metavar="N", help="number of components (default: 20)"
    )
    group.add_argument(
        "--seed", type=kinds.seed, default=0, metavar="N", help="seed of k-means, never of noise (default: 0)"
    )


def add_limits(group: Any) -> None:
    """How much is answered, and in what form."""
    whole = kinds.positive_int
    group.add_argument(
        "--per-minute", type=whole, metavar="N", help="rows answered per minute (at first: 10000)"
    )
    group.add_argument("--total", type=whole, metavar="N", help="rows answered for ever (at first: 1000000)")
    group.add_argument(
        "--caller-total",
        type=whole,
        metavar="N",
        help="rows answered for ever to each caller (at first: 1000000)",
    )
    sends = group.add_mutually_exclusive_group()
    sends.add_argument(
        "--send-model", action="store_true", help="let a model whose guarantee holds go to the server"
    )
    sends.add_argument(
        "--send-raw-model",
        action="store_true",
        help="let the model go to the server even if it holds RAW ROWS",
    )
    sends.add_argument(
        "--send-answers-only", action="store_true", help="let answers leave but no model (at first)"
    )
    sends.add_argument(
        "--send-encrypted-only",
        "--send-sealed-only",
        action="store_true",
        help="let only encrypted answers leave",
    )
    group.add_argument(
        "--trust-key",
        action="append",
        default=[],
        type=kinds.key_id,
        metavar="ID",
        help="give encrypted answers only under the keys of queriers that were named so",
    )


def estimator(model: str, measure: str | None, scale: float | None, n_components: int, seed: int) -> Any:
    """The unfitted classifier that the options describe."""
    from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM

    measure = measure or ("euclidean" if model == "wide" else "rms")
    if measure != "euclidean" and scale is None:
        raise InvalidInputError(f"--measure {measure} needs --scale F, the same number at all sites")
    shared: dict[str, Any] = {"n_components": n_components, "scale": "auto" if scale is None else scale}
    if model == "folding":
        return FoldingClassifier(**shared, measure=measure)
    return AutoencoderClassifier(WideKAHM(**shared, random_state=seed), measure=measure)


def mechanism(args: argparse.Namespace, n_features: int) -> Any:
    """The noise that the options describe; None if there is none."""
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
