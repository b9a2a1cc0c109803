"""Clients that lie, to show and test what a rule withstands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError

__all__ = ["LIES", "lie"]

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]
Lie = Callable[[Array, Mask, np.random.Generator], Array]


def _zero(answers: Array, _: Mask, __: np.random.Generator) -> Array:
    """Everything is as close as can be."""
    return np.zeros_like(answers)


def _random(answers: Array, finite: Mask, rng: np.random.Generator) -> Array:
    """Numbers from the usual range that say nothing."""
    top = float(answers[finite].max(initial=0.0))
    return rng.uniform(0.0, top, size=answers.shape).astype(answers.dtype)


def _flipped(answers: Array, finite: Mask, _: np.random.Generator) -> Array:
    """What holds for one class is said about the next one."""
    known = np.flatnonzero(finite.any(axis=0))
    flipped = answers.copy()
    flipped[:, known] = answers[:, np.roll(known, 1)]
    return flipped


def _shrunk(answers: Array, _: Mask, __: np.random.Generator) -> Array:
    """The truth at a tenth of its size: consistent in itself, and closer than anybody else."""
    return np.asarray(answers * answers.dtype.type(0.1))


LIES: dict[str, Lie] = {"zero": _zero, "random": _random, "flipped": _flipped, "shrunk": _shrunk}


def lie(kind: str, answers: Array, largest: float, rng: np.random.Generator) -> Array:
    """Answers (n, C) of a client that lies in this way, within the range of the measure.

    Examples
    --------
    >>> lie("flipped", np.array([[0.1, 0.9, 1.0]]), 1.0, np.random.default_rng(0)).tolist()
    [[0.9, 0.1, 1.0]]
    """
    if kind not in LIES:
        raise InvalidInputError(f"a lie must be one of {', '.join(LIES)}")
    return np.minimum(LIES[kind](answers, answers < largest, rng), answers.dtype.type(largest))
