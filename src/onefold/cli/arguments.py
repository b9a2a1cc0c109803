"""Values and options of the command line that several commands share.

First the types of values: each refuses what no command could use. Then the options for noise and for
encoders, and the mechanisms and encoders that they describe.
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from onefold.exceptions import InvalidInputError


def positive_int(text: str) -> int:
    """A whole number from 1 on."""
    value = _whole(text)
    if not value >= 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1 on")
    return value


def seed(text: str) -> int:
    """A whole number from 0 to 2**32 - 1."""
    value = _whole(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError("must be a whole number from 0 to 4294967295")
    return value


def jobs(text: str) -> int:
    """A number of workers, as in scikit-learn: -1 means all processors."""
    value = _whole(text)
    if value != -1 and not value >= 1:
        raise argparse.ArgumentTypeError("must be -1 or a whole number from 1 on")
    return value


def fraction(text: str) -> float:
    """A number strictly between 0 and 1."""
    value = _real(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError("must lie between 0 and 1")
    return value


def positive(text: str) -> float:
    """A positive finite number."""
    value = _real(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must be a positive number")
    return value


def not_negative(text: str) -> float:
    """A finite number from 0 on."""
    value = _real(text)
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must be a number from 0 on")
    return value


def scale(text: str) -> float | str | None:
    """``none``, ``auto`` or a positive number."""
    if text in ("none", "auto"):
        return None if text == "none" else text
    value = _real(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must be none, auto or a positive number")
    return value


def key_id(text: str) -> str:
    """The name of a key: 64 hexadecimal digits."""
    if re.fullmatch(r"[0-9a-f]{64}", text, re.ASCII) is None:
        raise argparse.ArgumentTypeError("must be the name of a key, 64 hexadecimal digits")
    return text


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a whole number") from None


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a number") from None


# --- options that many commands have ----------------------------------------------------------------------


def add_data(parser: Any, what: str = "table of samples") -> None:
    """The table a command reads."""
    parser.add_argument("data", metavar="DATA", help=f"{what}: a .csv, .npz or .parquet file")


def add_ignore(parser: Any) -> None:
    """Columns that are left out."""
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="COL", help="column to leave out (repeatable)"
    )


def add_output_options(parser: Any, *, quiet: bool = True) -> None:
    """What a command prints."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    if quiet:
        parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")


# --- noise on rows and labels -----------------------------------------------------------------------------

NOISES = ("optimal", "laplace", "gaussian")
UNIT = "what epsilon protects: one entry (default), or a record, that is a whole row, which needs --range"


@dataclass(frozen=True)
class NoiseOptions:
    """What the options of :func:`add_noise_options` say."""

    epsilon: float
    delta: float
    unit: str
    noise: str
    range: tuple[float, float] | None
    sensitivity: float | None
    label_epsilon: float | None
    classes: list[str] | None

    @classmethod
    def of(cls, args: argparse.Namespace, *, unit: str | None = None) -> NoiseOptions:
        """Take the options from the command line; ``unit`` is for a command that chooses it by itself."""
        values = {field.name: getattr(args, field.name) for field in fields(cls)}
        return cls(**values | {"unit": unit or args.unit})


def add_noise_options(
    group: Any,
    *,
    required: bool,
    sensitivity: float | None,
    unit: str | None = "entry",
    about_unit: str = UNIT,
) -> None:
    """How much noise, of which kind, and for what; ``sensitivity`` is the default change of an entry.

    A command that decides by itself what is protected by default says so with ``unit`` None.
    """
    group.add_argument(
        "--epsilon",
        type=positive,
        required=required,
        metavar="E",
        help="epsilon of the guarantee, for one unit (see --unit)",
    )
    group.add_argument(
        "--delta",
        type=fraction,
        default=1e-5,
        metavar="D",
        help="delta of the guarantee, for one unit (default: 1e-5)",
    )
    group.add_argument("--unit", choices=("entry", "record"), default=unit, help=about_unit)
    group.add_argument("--noise", choices=NOISES, default="optimal", help="kind of noise (default: optimal)")
    bound = group.add_mutually_exclusive_group()
    bound.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="smallest and largest value of every feature, known without the data",
    )
    default = "" if sensitivity is None else f" (default: {sensitivity:g})"
    bound.add_argument(
        "--sensitivity",
        type=positive,
        default=sensitivity,
        metavar="S",
        help=f"largest change of one entry between neighbouring tables{default}",
    )
    add_label_options(group)


def add_label_options(group: Any) -> None:
    """Noise on labels, and which labels there may be."""
    group.add_argument(
        "--label-epsilon",
        type=positive,
        metavar="E",
        help="randomise the labels with this epsilon for one label (default: labels stay as they are)",
    )
    group.add_argument(
        "--classes",
        nargs="+",
        metavar="C",
        help="all labels that may occur, known without the data; needed by --label-epsilon",
    )


def check_noise_options(options: NoiseOptions | argparse.Namespace) -> None:
    """Refuse what contradicts itself, before any data is read."""
    if options.unit == "record" and options.range is None:
        raise InvalidInputError("--unit record needs --range LOW HIGH: the size of a row depends on it")
    check_label_options(options.label_epsilon, options.classes)


def check_label_options(label_epsilon: float | None, classes: list[str] | None) -> None:
    """Refuse to randomise labels among labels that were not declared."""
    if label_epsilon is not None and classes is None:
        raise InvalidInputError(
            "--label-epsilon needs --classes: a list taken from the data would tell which labels occur"
        )
    if classes is not None and len(set(classes)) < 2:
        raise InvalidInputError("--classes needs two labels or more")


def noise_of(options: NoiseOptions | argparse.Namespace, n_features: int, *, hardened: bool = False) -> Any:
    """The mechanism for rows of ``n_features`` entries."""
    from onefold.privacy import AnalyticGaussian, Box, Laplace, OptimalNoise

    size: Any = options.sensitivity
    if options.range is not None:
        low, high = options.range
        size = Box(low, high, n_features)
    shared: dict[str, Any] = {"sensitivity": size, "unit": options.unit, "hardened": hardened}
    if options.noise == "laplace":
        return Laplace(options.epsilon, **shared)
    kind = OptimalNoise if options.noise == "optimal" else AnalyticGaussian
    return kind(options.epsilon, options.delta, **shared)


def label_noise_of(options: NoiseOptions | argparse.Namespace, labels: Any) -> Any:
    """The mechanism for the labels; None unless it was asked for."""
    return label_noise(options.label_epsilon, options.classes, labels)


def label_noise(label_epsilon: float | None, classes: list[str] | None, labels: Any) -> Any:
    """The mechanism for the labels, over the declared classes; None without an epsilon."""
    from onefold.privacy import RandomisedLabels

    if label_epsilon is None:
        return None
    kind: Any = {"i": int, "u": int, "f": float}.get(np.asarray(labels).dtype.kind, str)
    try:
        declared = sorted({kind(text) for text in classes or ()})
    except ValueError:
        raise InvalidInputError("--classes must be numbers, as the labels of the data are") from None
    if not np.all(np.isin(labels, declared)):
        raise InvalidInputError("the data has a label that --classes does not name")
    return RandomisedLabels(label_epsilon, declared)


# --- public encoders --------------------------------------------------------------------------------------

ENCODERS = ("none", "gradients", "frequencies", "random")


def add_encoder_options(group: Any) -> None:
    """Which encoder, for which images."""
    group.add_argument(
        "--encoder",
        choices=ENCODERS,
        default="none",
        help="fixed features to compute first: gradients or frequencies of images, random projections of any "
        "rows (default: none)",
    )
    group.add_argument(
        "--image-shape",
        nargs="+",
        type=positive_int,
        metavar="N",
        help="height, width and, for colours, channels of the images; for gradients and frequencies",
    )
    group.add_argument(
        "--margin",
        type=positive_int,
        metavar="N",
        help="pixels on every side of an image that the cells leave out; for gradients (default: 0)",
    )
    group.add_argument(
        "--n-outputs",
        type=positive_int,
        metavar="N",
        help="number of features that a random projection makes (default: 128)",
    )


def encoder_of(args: argparse.Namespace) -> Any:
    """The encoder that the options describe, or None; an option of another encoder is an error."""
    from onefold.encoders import GradientHistograms, LowFrequencyDCT, RandomFeatures

    belongs = {
        "image_shape": ("gradients", "frequencies"),
        "margin": ("gradients",),
        "n_outputs": ("random",),
    }
    for name, encoders in belongs.items():
        if getattr(args, name) is not None and args.encoder not in encoders:
            wanted = " or ".join(encoders)
            raise InvalidInputError(f"--{name.replace('_', '-')} goes with --encoder {wanted}")
    shape = None if args.image_shape is None else tuple(args.image_shape)
    if args.encoder == "gradients":
        return GradientHistograms(shape, margin=args.margin or 0)
    if args.encoder == "frequencies":
        return LowFrequencyDCT(shape)
    if args.encoder == "random":
        return RandomFeatures(args.n_outputs or 128)
    return None
