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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.arrays import Floats, Integers, Mask
from onefold._base.validation import Constraint, Number, Whole, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe.circuit import MISSING

__all__ = ["MeasureMap", "checked_measures", "in_every_look", "knots_of", "look_at"]

CONSTRAINTS: dict[str, Constraint] = {
    "bits": Whole(1, 32),
    "bound": Number(above=0),
    "power": Number(above=0),
    "floor": Number(at_least=0),
    "looks": Whole(1),
}
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

    A monotone map keeps the order of measures, so it changes an answer only by making different measures
    equal: a tie.

    Without ``knots`` a measure d becomes the fine number ``rint(K * s**power)`` with ``K = looks * (2**bits -
    1)`` and ``s = (d - floor) / (bound - floor)`` cut off at 0 and 1. With ``knots`` it becomes ``rint(K *
    s)``, where s grows linearly from knot to knot, by the same amount each.

    Parameters
    ----------
    bits : int
        Bits of the number that one look compares.
    bound : float, default=1.0
        Measure that becomes the largest number; not used if there are knots, as the next two.
    power : float, default=1.0
        Exponent applied before rounding.
    floor : float, default=0.0
        Measure that becomes 0.
    looks : int, default=1
        Number of looks at every row.
    knots : tuple of float, default=()
        Increasing measures of a fitted map; empty for the plain one.

    See Also
    --------
    knots_of : Fits the knots.
    EncryptedArgmin : Takes a map.
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

    def __post_init__(self) -> None:
        check_parameters(self, CONSTRAINTS)
        if self.floor >= self.bound:
            raise InvalidInputError("floor must be below bound")

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
            if floor:
                parts = np.clip((parts - floor) / (1.0 - floor), 0.0, 1.0)
            numbers = np.rint(self.largest * (parts if self.power == 1 else parts**self.power))
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
    MeasureMap.fine : Maps them to whole numbers.

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
    MeasureMap : Takes the knots.

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
