"""From measures in [0, 1] to whole numbers of a few bits, by a public monotone map."""

from __future__ import annotations

from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe._encoding import MISSING

__all__ = ["Quantiser", "checked_measures", "shifts"]

MOST_BITS = 16
POWERS = (1.0, 0.7, 1.4, 0.5, 2.0, 0.35, 3.0, 0.25, 4.0, 8.0, 16.0)  # the plainest first: it wins a draw
CLIP_RANKS = (1.0, 0.99, 0.95, 0.9)  # of the winning measures
CLIP_MARGINS = (1.5, 1.2, 1.05)
FLOOR_RANKS = (0.0, 0.01, 0.05)
FLOOR_MARGINS = (0.95, 1.0)

Map = tuple[float, float, float]  # clip, power, floor


class Quantiser:
    """The monotone map rint((2^bits - 1) s^power) of measures d, the same for all clients.

    s is the share (d - floor) / (clip - floor) that d has come from floor to clip, at least 0, at most 1.

    A monotone map keeps the order of measures, so it changes an answer only by making different measures
    equal: a tie. Only measures near the smallest of a query matter. With ``clip`` just above the largest
    measure that still wins, no number is wasted on measures that never win, nor with ``floor`` just below
    the smallest; ``power`` says where between them the numbers lie densest. All are public. :meth:`fit` finds
    them on held-out rows, which must be nobody's secret: the three numbers say something about them.

    Parameters
    ----------
    bits : int
        Bits of a quantised measure, at most 16.
    clip, power, floor : float
        The map until it is fitted; by default ``rint((2^bits - 1) d)``.

    Attributes
    ----------
    clip_, power_, floor_ : float
        The map that was found; hand it to the clients as ``Quantiser(bits, clip_, power_, floor_)``.
    loss_ : float
        Part of the held-out answers that are lost when a tie is broken blindly.

    Examples
    --------
    >>> Quantiser(bits=8).quantise([0.0, 0.5, 1.0, float("nan")])
    array([  0, 128, 255,  -1])
    """

    def __init__(self, bits: int = 8, clip: float = 1.0, power: float = 1.0, floor: float = 0.0) -> None:
        check_whole_number("bits", bits)
        if bits > MOST_BITS:
            raise InvalidInputError(f"bits must be at most {MOST_BITS}")
        if not (_is_number(clip) and 0 < clip <= 1):
            raise InvalidInputError("clip must be a number above 0 and at most 1")
        if not (_is_number(power) and 0 < power < np.inf):
            raise InvalidInputError("power must be a number above 0")
        if not (_is_number(floor) and 0 <= floor < clip):
            raise InvalidInputError("floor must be a number of at least 0 and below clip")
        self.bits, self.clip, self.power, self.floor = bits, clip, power, floor

    def fit(self, answers: ArrayLike) -> Quantiser:
        """Choose clip and power on measures (clients, rows, classes) of held-out rows; NaN is missing."""
        table = checked_measures(answers)
        if table.ndim != 3 or table.shape[2] < 2 or not table.size:
            raise InvalidInputError(
                "answers must have the shape (clients, rows, classes), two classes at least"
            )
        nearest = np.where(np.isnan(table), np.inf, table).min(axis=0)  # the minimum commutes with the map
        nearest = nearest[np.isfinite(nearest).any(axis=1)]
        if not len(nearest):
            raise InvalidInputError("no held-out row has an answer")
        found = min(
            (_loss(nearest, self.bits, each), i, each) for i, each in self._tries(nearest.min(axis=1))
        )
        self.loss_, _, (self.clip_, self.power_, self.floor_) = found
        return self

    def _tries(self, best: NDArray[np.float64]) -> list[tuple[int, Map]]:
        clips = [1.0]
        for rank, margin in product(CLIP_RANKS, CLIP_MARGINS):
            bound = float(np.quantile(best, rank)) * margin
            if 0 < bound < 1:
                clips.append(bound)
        ranks = product(FLOOR_RANKS, FLOOR_MARGINS)
        floors = [0.0] + [float(np.quantile(best, rank)) * margin for rank, margin in ranks]
        tries = [each for each in product(clips, POWERS, floors) if each[2] < each[0]]
        return list(enumerate(tries))

    def quantise(self, measures: ArrayLike, shift: float = 0.0) -> NDArray[np.int64]:
        """Whole numbers of the same shape; NaN, a class that a client lacks, becomes -1.

        ``shift`` (-1/2 to 1/2) moves all boundaries between numbers by that part of a number: measures that
        are one number without it may be two with it. See :func:`shifts`.
        """
        if not (_is_number(shift) and abs(shift) <= 0.5):
            raise InvalidInputError("shift must be a number between -1/2 and 1/2")
        values = checked_measures(measures)
        missing = np.isnan(values)
        plain = (self.clip, self.power, self.floor)
        map_ = (self.clip_, self.power_, self.floor_) if hasattr(self, "clip_") else plain
        numbers = _mapped(np.where(missing, 0.0, values), self.bits, *map_, shift=shift)
        return np.where(missing, MISSING, numbers)


def shifts(looks: int) -> list[float]:
    """How far the boundaries are moved in the looks after the first, which moves none.

    Measures that differ by a part of a number are one number in that part of the looks at most that it
    lacks: of ``looks`` looks with boundaries evenly apart, those at the minimum in all of them differ by less
    than one part in ``looks``. The order is such that some looks are nearly evenly apart as well.
    """
    check_whole_number("looks", looks)
    parts = []
    for index in range(1, looks):
        part, weight = 0.0, 0.5
        while index:  # its binary digits behind the point, in reverse: 1/2, 1/4, 3/4, 1/8 ...
            part, index, weight = part + weight * (index % 2), index // 2, weight / 2
        parts.append(part - 1 if part > 0.5 else part)
    return parts


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def checked_measures(values: Any) -> NDArray[np.float64]:
    """An array of numbers in [0, 1] or NaN."""
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "iuf":  # neither truth values nor texts
            raise TypeError
        table = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("measures must be numbers in [0, 1], in an array without gaps") from None
    if np.any((table < 0) | (table > 1)):
        raise InvalidInputError("measures must lie in [0, 1]")
    return table


def _mapped(
    values: NDArray[np.float64], bits: int, clip: float, power: float, floor: float, shift: float = 0.0
) -> NDArray[np.int64]:
    plain = clip == 1 and floor == 0
    shares = values if plain else np.clip((values - floor) / (clip - floor), 0.0, 1.0)
    if power != 1:
        shares = shares**power
    largest = 2**bits - 1
    if shift:
        return np.asarray(np.clip(np.rint(largest * shares + shift), 0, largest), dtype=np.int64)
    return np.asarray(np.rint(largest * shares), dtype=np.int64)


def _loss(nearest: NDArray[np.float64], bits: int, map_: Map) -> float:
    """Part of the rows that are lost when one of the classes that tie only now is taken blindly."""
    there = np.isfinite(nearest)
    numbers = np.where(there, _mapped(np.where(there, nearest, 1.0), bits, *map_), 2**bits)
    n_tied = np.sum(numbers == numbers.min(axis=1, keepdims=True), axis=1)
    n_equal = np.sum(nearest == nearest.min(axis=1, keepdims=True), axis=1)
    return float(np.mean(1.0 - n_equal / n_tied))
