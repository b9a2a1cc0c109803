"""The map of three numbers that the stored results use, found on held-out rows, and moved boundaries.

onefold itself fits maps of many pieces (:func:`onefold.federated.fhe.quantiser.knots_of`) and looks at every
row equally often.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Integers, Mask
from onefold._base.validation import Constraint, Number, Whole, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe import EncryptedArgmin
from onefold.federated.fhe.circuit import MISSING
from onefold.federated.fhe.quantiser import checked_measures

MOST_BITS = 16
POWERS = (1.0, 0.7, 1.4, 0.5, 2.0, 0.35, 3.0, 0.25, 4.0, 8.0, 16.0)  # the plainest first: it wins a draw
CLIP_RANKS = (1.0, 0.99, 0.95, 0.9)  # of the winning measures
CLIP_MARGINS = (1.5, 1.2, 1.05)
FLOOR_RANKS = (0.0, 0.01, 0.05)
FLOOR_MARGINS = (0.95, 1.0)

CONSTRAINTS: dict[str, Constraint] = {
    "bits": Whole(1, MOST_BITS),
    "clip": Number(above=0, at_most=1),
    "power": Number(above=0),
    "floor": Number(at_least=0, below=1),
}

Map = tuple[float, float, float]  # clip, power, floor


class Quantiser:
    """The monotone map rint((2^bits - 1) s^power) of measures d, the same for all sites.

    s is (d - floor) / (clip - floor), limited to [0, 1]. A monotone map keeps the order of measures, so it
    changes an answer only by making different measures equal: a tie. Only measures near the smallest of a
    query matter. With ``clip`` just above the largest measure that still wins, no number is wasted on
    measures that never win, nor with ``floor`` just below the smallest; ``power`` says where between them
    the numbers lie densest. All three are public. :meth:`fit` finds them on held-out rows that need not be
    secret, because the three numbers say something about these rows.

    Parameters
    ----------
    bits : int, default=8
        Bits of a quantised measure, at most 16.
    clip : float, default=1.0
        Measures above it are taken for it, until the map is fitted.
    power : float, default=1.0
        Exponent applied to s before rounding, until the map is fitted.
    floor : float, default=0.0
        Measures below it are taken for it, until the map is fitted.

    Attributes
    ----------
    clip_, power_, floor_ : float
        The map that :meth:`fit` found. Give it to the sites as ``Quantiser(bits, clip_, power_, floor_)``.
    loss_ : float
        Share of the held-out answers that are lost when one of the tied classes is taken blindly.

    See Also
    --------
    shifts : Moved boundaries, for looking again at rows that tie.

    References
    ----------
    Document 004, Section 3.9.

    Examples
    --------
    >>> Quantiser(bits=8).quantise([0.0, 0.5, 1.0, float("nan")])
    array([  0, 128, 255,  -1])
    """

    def __init__(self, bits: int = 8, clip: float = 1.0, power: float = 1.0, floor: float = 0.0) -> None:
        self.bits, self.clip, self.power, self.floor = bits, clip, power, floor
        check_parameters(self, CONSTRAINTS)
        if floor >= clip:
            raise InvalidInputError("floor must be below clip")

    def fit(self, answers: ArrayLike) -> Quantiser:
        """Choose clip, power and floor so that few held-out rows tie.

        Parameters
        ----------
        answers : array-like of float, shape (Q, n, C)
            Measures in [0, 1] of each site, held-out row and class (at least two); NaN for a missing class.

        Returns
        -------
        Quantiser
            Itself, fitted.
        """
        table = checked_measures(answers)
        if table.ndim != 3 or table.shape[2] < 2 or not table.size:
            raise InvalidInputError(
                "answers must have the shape (sites, rows, classes), with at least two classes"
            )
        nearest = np.where(np.isnan(table), np.inf, table).min(axis=0)  # the minimum commutes with the map
        nearest = nearest[np.isfinite(nearest).any(axis=1)]
        if not len(nearest):
            raise InvalidInputError("no held-out row has an answer")
        tries = _tries(nearest.min(axis=1))
        losses = [_loss(nearest, self.bits, each) for each in tries]
        best = int(np.argmin(losses))  # the first of several
        self.loss_, (self.clip_, self.power_, self.floor_) = losses[best], tries[best]
        return self

    def quantise(self, measures: ArrayLike, shift: float = 0.0) -> Integers:
        """Map measures to whole numbers.

        Parameters
        ----------
        measures : array-like of float
            Measures in [0, 1], of any shape; NaN for a class that a site does not have.
        shift : float, default=0.0
            Part of a number (-1/2 to 1/2) by which all boundaries between numbers are moved. Measures that
            are one number without it may be two with it; see :func:`shifts`.

        Returns
        -------
        ndarray of int
            Numbers in 0 ... 2^bits - 1 of the same shape; -1 for NaN.
        """
        check_parameter("shift", shift, Number(at_least=-0.5, at_most=0.5))
        values = checked_measures(measures)
        missing = np.isnan(values)
        plain = (self.clip, self.power, self.floor)
        map_ = (self.clip_, self.power_, self.floor_) if hasattr(self, "clip_") else plain
        numbers = _mapped(np.where(missing, 0.0, values), self.bits, *map_, shift=shift)
        return np.where(missing, MISSING, numbers)


def scaled(values: Floats, clip: float, power: float, floor: float) -> Floats:
    """Return s^power of measures in [0, 1], with s = (d - floor) / (clip - floor) limited to [0, 1].

    Parameters
    ----------
    values : ndarray of float
        Measures in [0, 1].
    clip, power, floor : float
        Measure that becomes 1, exponent, and measure that becomes 0.

    Returns
    -------
    ndarray of float
        Numbers in [0, 1] of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> scaled(np.array([0.2, 0.3, 0.9]), 0.4, 2.0, 0.2)
    array([0.  , 0.25, 1.  ])
    """
    plain = clip == 1 and floor == 0
    parts = values if plain else np.clip((values - floor) / (clip - floor), 0.0, 1.0)
    return parts if power == 1 else np.asarray(parts**power)


def shifts(looks: int) -> list[float]:
    """Return how far the boundaries between numbers are moved in each look after the first.

    Classes that attain the minimum in all of ``looks`` looks, whose boundaries lie evenly apart, differ by
    less than one part in ``looks`` of a number. The order is such that the first few looks already have
    boundaries that are nearly evenly apart.

    Parameters
    ----------
    looks : int
        Number of looks, at least 1.

    Returns
    -------
    list of float
        ``looks - 1`` numbers in [-1/2, 1/2] for :meth:`Quantiser.quantise`.

    See Also
    --------
    ArgminInLooks : Uses them.

    Examples
    --------
    >>> shifts(4)
    [0.5, 0.25, -0.25]
    """
    check_parameter("looks", looks, Whole(1))
    parts = []
    for index in range(1, looks):
        part, weight = 0.0, 0.5
        while index:  # its binary digits behind the point, in reverse: 1/2, 1/4, 3/4, 1/8 ...
            part, index, weight = part + weight * (index % 2), index // 2, weight / 2
        parts.append(part - 1 if part > 0.5 else part)
    return parts


def _tries(best: Floats) -> list[Map]:
    """Return the maps to try, from the smallest measure of each row; the plainest first."""
    clips = [1.0]
    for rank, margin in product(CLIP_RANKS, CLIP_MARGINS):
        bound = float(np.quantile(best, rank)) * margin
        if 0 < bound < 1:
            clips.append(bound)
    ranks = product(FLOOR_RANKS, FLOOR_MARGINS)
    floors = [0.0] + [float(np.quantile(best, rank)) * margin for rank, margin in ranks]
    return [each for each in product(clips, POWERS, floors) if each[2] < each[0]]


def _mapped(
    values: Floats, bits: int, clip: float, power: float, floor: float, shift: float = 0.0
) -> Integers:
    parts = scaled(values, clip, power, floor)
    largest = 2**bits - 1
    if shift:
        return np.asarray(np.clip(np.rint(largest * parts + shift), 0, largest), dtype=np.int64)
    return np.asarray(np.rint(largest * parts), dtype=np.int64)


def _loss(nearest: Floats, bits: int, map_: Map) -> float:
    """Return the share of rows that are lost when one of the classes that tie only now is taken blindly."""
    there = np.isfinite(nearest)
    numbers = np.where(there, _mapped(np.where(there, nearest, 1.0), bits, *map_), 2**bits)
    n_tied = np.sum(numbers == numbers.min(axis=1, keepdims=True), axis=1)
    n_equal = np.sum(nearest == nearest.min(axis=1, keepdims=True), axis=1)
    return float(np.mean(1.0 - n_equal / n_tied))


@dataclass(frozen=True)
class ArgminInLooks:
    """An argmin that is asked again about rows that tie, with other boundaries."""

    argmin: EncryptedArgmin
    quantiser: Quantiser
    looks: int

    def run(self, answers: Any) -> Mask:
        """Return the classes that attain the minimum of every row each time."""
        table = checked_measures(answers)
        wins = self.argmin.run_quantised(self.quantiser.quantise(table))
        for shift in shifts(self.looks):
            tied = np.flatnonzero(wins.sum(axis=1) > 1)
            if not tied.size:
                break
            wins[tied] &= self.argmin.run_quantised(self.quantiser.quantise(table[:, tied], shift))
        return wins
