"""From measures to whole numbers of a few bits: public monotone maps, and several looks at every row.

A measure first becomes a *fine* number m in 0 ... k (2^p - 1), where p are the bits that the encryption
compares and k is the number of looks. Look j = 0 ... k - 1 compares (m + j) // k, a number of p bits whose
boundaries lie one part in k further down than those of the look before. Two fine numbers that differ fall
apart in at least one look, and a monotone map never turns an order round. So the classes that attain the
minimum in every look are exactly those that attain the minimum of the fine numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.arrays import Floats, Integers, Mask
from onefold._base.validation import Constraint, Number, Whole, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe.circuit import MISSING

__all__ = [
    "MeasureMap",
    "Quantiser",
    "checked_measures",
    "in_every_look",
    "knots_of",
    "look_at",
    "scaled",
    "shifts",
]

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
    EncryptedArgmin : Takes a quantiser.

    References
    ----------
    Document 004, Section 3.9.

    Examples
    --------
    >>> from onefold.federated.fhe import Quantiser
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
    EncryptedArgmin : Its parameter ``looks`` uses them.

    Examples
    --------
    >>> from onefold.federated.fhe.quantiser import shifts
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


def checked_measures(values: Any) -> Floats:
    """Check that measures are numbers in [0, 1] or NaN.

    Parameters
    ----------
    values : array-like of float
        Measures, of any shape.

    Returns
    -------
    ndarray of float64
        The same numbers.

    Raises
    ------
    InvalidInputError
        If they are texts, truth values, ragged or out of range.

    See Also
    --------
    Quantiser.quantise : Maps checked measures to whole numbers.

    Examples
    --------
    >>> from onefold.federated.fhe.quantiser import checked_measures
    >>> checked_measures([0, 1])
    array([0., 1.])
    """
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


def scaled(values: Floats, clip: float, power: float, floor: float) -> Floats:
    """Return s^power of measures in [0, 1], with s = (d - floor) / (clip - floor) limited to [0, 1].

    Parameters
    ----------
    values : ndarray of float
        Measures in [0, 1].
    clip, power, floor : float
        As in :class:`Quantiser`.

    Returns
    -------
    ndarray of float
        Numbers in [0, 1] of the same shape.

    See Also
    --------
    Quantiser.quantise : Rounds them to whole numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.federated.fhe.quantiser import scaled
    >>> scaled(np.array([0.2, 0.3, 0.9]), 0.4, 2.0, 0.2)
    array([0.  , 0.25, 1.  ])
    """
    plain = clip == 1 and floor == 0
    parts = values if plain else np.clip((values - floor) / (clip - floor), 0.0, 1.0)
    return parts if power == 1 else np.asarray(parts**power)


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


# --- several looks ----------------------------------------------------------------------------------------


KNOTS = 65  # numbers of a fitted map; between two of them lies one part in 64 of all whole numbers
CELLS = 32  # of equally many measures each, from which the density of the numbers follows
OCTAVES = 8  # above and below the middle of the measures that still get numbers of their own
SHOULDER = 1.1  # how far beyond the measures their surroundings reach
SMALLEST, LARGEST = 1e-290, 1e290  # so that octaves are numbers too
# What part of the numbers goes to the measures themselves, to their surroundings, and to all sizes alike.
SHARES = (0.4, 0.4, 0.2)


@dataclass(frozen=True)
class MeasureMap:
    """The public monotone map from measures to whole numbers, the same at all sites.

    Without ``knots`` a measure d becomes the fine number ``rint(K * s**power)`` with ``K = looks * (2**bits -
    1)`` and ``s = (d - floor) / (bound - floor)`` cut off at 0 and 1. With ``knots`` it becomes ``rint(K *
    s)``, where s grows linearly from knot to knot, by the same amount each.

    Parameters
    ----------
    bits : int
        Bits of the number that one look compares.
    bound, power, floor : float
        The plain map; not used if there are knots.
    looks : int, default=1
        Number of looks at every row.
    knots : tuple of float, default=()
        Increasing measures of a fitted map; empty for the plain one.

    See Also
    --------
    knots_of : Fits the knots.
    in_every_look : What is left after all looks.

    Examples
    --------
    >>> from onefold.federated.fhe.quantiser import MeasureMap
    >>> MeasureMap(bits=2, looks=2).fine([[0.0, 0.5, 0.6, 1.0]])
    array([[0, 3, 4, 6]])
    >>> MeasureMap(bits=2, looks=2).numbers([[0.0, 0.5, 0.6, 1.0]])
    array([[0, 1, 2, 3],
           [0, 2, 2, 3]])
    """

    bits: int
    bound: float = 1.0
    power: float = 1.0
    floor: float = 0.0
    looks: int = 1
    knots: tuple[float, ...] = ()

    @property
    def largest(self) -> int:
        """The largest fine number."""
        return self.looks * ((1 << self.bits) - 1)

    def fine(self, measures: ArrayLike) -> Integers:
        """Map measures to fine numbers.

        Parameters
        ----------
        measures : array-like of float
            Measures from 0 on, of any shape; infinity is allowed, and NaN is a class that a site lacks.

        Returns
        -------
        ndarray of int
            Numbers in 0 ... ``largest`` of the same shape; -1 for NaN.
        """
        values = np.asarray(measures, dtype=np.float64)
        missing = np.isnan(values)
        there = np.where(missing, 0.0, values)
        if self.knots:
            steps = np.linspace(0.0, self.largest, len(self.knots))
            numbers = np.rint(np.interp(there, self.knots, steps))
        else:
            with np.errstate(over="ignore"):  # a tiny bound: beyond it all is one
                parts = np.minimum(there / self.bound, 1.0)
            floor = min(self.floor / self.bound, float(np.nextafter(1.0, 0.0)))
            numbers = np.rint(self.largest * scaled(parts, 1.0, self.power, floor))
        return np.where(missing, MISSING, numbers.astype(np.int64))

    def numbers(self, measures: ArrayLike) -> Integers:
        """Map measures to what is encrypted: the numbers of all looks, one look after the other.

        Parameters
        ----------
        measures : array-like of float, shape (n, C)
            Measures, as for :meth:`fine`.

        Returns
        -------
        ndarray of int, shape (looks * n, C)
            Numbers in 0 ... 2^bits - 1; -1 for NaN.
        """
        fine = self.fine(measures)
        return np.concatenate([look_at(fine, look, self.looks) for look in range(self.looks)])


def look_at(fine: Integers, look: int, looks: int) -> Integers:
    """Return the numbers that one look compares.

    Parameters
    ----------
    fine : ndarray of int
        Fine numbers; -1 for a class that a site lacks.
    look : int
        Which look, from 0 to ``looks`` - 1.
    looks : int
        Number of looks.

    Returns
    -------
    ndarray of int
        Whole numbers of fewer bits, of the same shape; -1 stays.

    See Also
    --------
    MeasureMap.numbers : All looks, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.federated.fhe.quantiser import look_at
    >>> [look_at(np.array([4, 5, -1]), look, 3).tolist() for look in range(3)]
    [[1, 1, -1], [1, 2, -1], [2, 2, -1]]
    """
    return np.where(fine == MISSING, MISSING, (fine + look) // looks)


def in_every_look(wins: Mask, looks: int) -> Mask:
    """Return the classes that attain the minimum in every look.

    Parameters
    ----------
    wins : ndarray of bool, shape (looks * n, C)
        Classes that attain the minimum, one look after the other.
    looks : int
        Number of looks.

    Returns
    -------
    ndarray of bool, shape (n, C)
        True where a class attains the minimum of the fine numbers.

    See Also
    --------
    MeasureMap.numbers : Puts the looks in this order.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.federated.fhe.quantiser import in_every_look
    >>> in_every_look(np.array([[True, True], [False, True]]), 2)
    array([[False,  True]])
    """
    return np.asarray(wins.reshape(looks, -1, wins.shape[1]).all(axis=0))


def knots_of(measures: ArrayLike, most: float) -> tuple[float, ...]:
    """Fit a map to measures that are like the smallest ones of later queries.

    Two fifths of the numbers go to where the measures lie, in proportion to the square root of their density:
    that makes the fewest ties if classes are equally often close together everywhere. Two fifths go to their
    surroundings. One fifth goes to all sizes alike, the same number to each doubling, so that measures of
    quite another size than expected are told apart as well, only less finely.

    Parameters
    ----------
    measures : array-like of float, shape (n,)
        Measures from 0 on, at least one of them positive.
    most : float
        Largest value that a measure can have; infinity if there is none.

    Returns
    -------
    tuple of float
        Increasing measures for :class:`MeasureMap`.

    Raises
    ------
    InvalidInputError
        If no measure is positive and finite.

    See Also
    --------
    Quantiser.fit : Fits three numbers to what all sites answered about held-out rows.

    Examples
    --------
    >>> from onefold.federated.fhe.quantiser import MeasureMap, knots_of
    >>> knots = knots_of([0.70, 0.71, 0.72, 0.73, 0.74], most=1.0)
    >>> MeasureMap(8, knots=knots).fine([0.715, 0.716]).tolist(), MeasureMap(8).fine([0.715, 0.716]).tolist()
    ([129, 132], [182, 183])
    """
    values = np.asarray(measures, dtype=np.float64)
    values = np.minimum(values[(values > SMALLEST) & (values < LARGEST)], most)
    if not len(values):
        raise InvalidInputError(
            "these rows do not show how large measures are: give a bound (--bound B) or other rows (--fit-on)"
        )
    cells = np.unique(np.quantile(values, np.linspace(0.0, 1.0, CELLS + 1)))
    octaves = np.median(values) * 2.0 ** np.arange(-OCTAVES, OCTAVES + 1)
    sizes = np.unique([0.0, *octaves[octaves < most], *([most] if np.isfinite(most) else [])])
    around = np.array([cells[0] / SHOULDER, min(cells[-1] * SHOULDER, most)])
    grid = np.unique(np.concatenate([cells, sizes, around]))
    themselves = _cumulated(grid, cells, np.sqrt(np.diff(cells))) if len(cells) > 1 else None
    parts = [_cumulated(grid, around, np.ones(1)), _cumulated(grid, sizes, np.ones(len(sizes) - 1))]
    shares = np.dot(SHARES, [parts[0] if themselves is None else themselves, *parts])
    knots = np.interp(np.linspace(0.0, 1.0, KNOTS), shares / shares[-1], grid)
    return tuple(knots.tolist())


def _cumulated(grid: Floats, ends: Sequence[float] | Floats, weights: NDArray[np.float64]) -> Floats:
    """Return which part of a distribution lies below each point: ``weights`` between ``ends``, evenly."""
    below = np.concatenate([[0.0], np.cumsum(weights)])
    return np.asarray(np.interp(grid, ends, below / below[-1]))
