"""Options for noise on rows and labels, and the mechanisms they describe; shared by several commands."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from onefold.cli import arguments as kinds
from onefold.exceptions import InvalidInputError

NOISES = ("optimal", "laplace", "gaussian")


UNIT = "what epsilon protects: one entry (default) or a whole row, which needs --range"


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
    number = kinds.positive
    group.add_argument("--epsilon", type=number, required=required, metavar="E", help="per unit, see --unit")
    group.add_argument("--delta", type=kinds.fraction, default=1e-5, metavar="D", help="per unit (1e-5)")
    group.add_argument(
        "--unit",
        choices=("entry", "record"),
        default=unit,
        help=about_unit,
    )
    group.add_argument("--noise", choices=NOISES, default="optimal", help="kind of noise (optimal)")
    bound = group.add_mutually_exclusive_group()
    bound.add_argument("--range", nargs=2, type=float, metavar=("LOW", "HIGH"), help="of every feature")
    bound.add_argument(
        "--sensitivity", type=number, default=sensitivity, metavar="S", help="largest change of an entry"
    )
    add_label_options(group)


def add_label_options(group: Any) -> None:
    """Noise on labels, and which labels there may be."""
    group.add_argument(
        "--label-epsilon", type=kinds.positive, metavar="E", help="randomise the labels, per label"
    )
    group.add_argument(
        "--classes", nargs="+", metavar="C", help="all labels there may be, known without the data"
    )


def check_noise_options(args: argparse.Namespace) -> None:
    """What can be said before any data is read."""
    if args.unit == "record" and args.range is None:
        raise InvalidInputError("--unit record needs --range LOW HIGH: the size of a row depends on it")
    check_label_options(args)


def check_label_options(args: argparse.Namespace) -> None:
    """Labels are randomised among declared ones only."""
    if args.label_epsilon is not None and args.classes is None:
        raise InvalidInputError(
            "--label-epsilon needs --classes: a list taken from the data would tell which labels occur"
        )
    if args.classes is not None and len(set(args.classes)) < 2:
        raise InvalidInputError("--classes needs two labels or more")


def noise_of(args: argparse.Namespace, n_features: int, *, hardened: bool = False) -> Any:
    """The mechanism for rows of ``n_features`` entries."""
    from onefold.privacy import AnalyticGaussian, Box, Laplace, OptimalNoise

    size = args.sensitivity if args.range is None else Box(args.range[0], args.range[1], n_features)
    shared = {"sensitivity": size, "unit": args.unit, "hardened": hardened}
    if args.noise == "laplace":
        return Laplace(args.epsilon, **shared)
    kind = OptimalNoise if args.noise == "optimal" else AnalyticGaussian
    return kind(args.epsilon, args.delta, **shared)


def label_noise_of(args: argparse.Namespace, labels: Any) -> Any:
    """The mechanism for the labels, over the declared classes; None unless asked for."""
    from onefold.privacy import RandomisedLabels

    if args.label_epsilon is None:
        return None
    kind: Any = {"i": int, "u": int, "f": float}.get(np.asarray(labels).dtype.kind, str)
    try:
        declared = sorted({kind(text) for text in args.classes})
    except ValueError:
        raise InvalidInputError("--classes must be numbers, as the labels of the data are") from None
    if not np.all(np.isin(labels, declared)):
        raise InvalidInputError("the data has a label that --classes does not name")
    return RandomisedLabels(args.label_epsilon, declared)
