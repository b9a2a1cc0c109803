"""Options for the public encoders; shared by commands that encode rows."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as kinds
from onefold.exceptions import InvalidInputError

__all__ = ["ENCODERS", "add_encoder_options", "encoder_of"]

ENCODERS = ("none", "gradients", "frequencies", "random")


def add_encoder_options(group: Any) -> None:
    """Which encoder, for which images."""
    group.add_argument(
        "--encoder",
        choices=ENCODERS,
        default="none",
        help="fixed features: gradients (images), frequencies (images), random projections (any rows)",
    )
    group.add_argument(
        "--image-shape", nargs="+", type=kinds.positive_int, metavar="N", help="height, width, channels"
    )
    group.add_argument(
        "--margin", type=kinds.positive_int, metavar="N", help="gradients: empty pixels on every side"
    )
    group.add_argument(
        "--n-outputs", type=kinds.positive_int, metavar="N", help="random: numbers that come out (128)"
    )


def encoder_of(args: argparse.Namespace) -> Any:
    """The encoder the options describe, or None."""
    from onefold.encoders import GradientHistograms, LowFrequencyDCT, RandomFeatures

    shape = None if args.image_shape is None else tuple(args.image_shape)
    _check(args)
    if args.encoder == "gradients":
        return GradientHistograms(shape, margin=args.margin or 0)
    if args.encoder == "frequencies":
        return LowFrequencyDCT(shape)
    if args.encoder == "random":
        return RandomFeatures(args.n_outputs or 128)
    return None


def _check(args: argparse.Namespace) -> None:
    """An option of another encoder is an error, not a silence."""
    belongs = {
        "image_shape": ("gradients", "frequencies"),
        "margin": ("gradients",),
        "n_outputs": ("random",),
    }
    for name, encoders in belongs.items():
        if getattr(args, name) is not None and args.encoder not in encoders:
            wanted = " or ".join(encoders)
            raise InvalidInputError(f"--{name.replace('_', '-')} goes with --encoder {wanted}")
