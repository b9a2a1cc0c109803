"""Columns brought to one unit by constants that all sites can share: a place and a spread for each column."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import Array, Floats

__all__ = ["ColumnSpread", "Preparation"]

# Binary digits of a spread, and of a place in units of it. What is cut is far more than the last digits of
# sums, so constants do not depend on how rows were added up, except where a digit is about to change.
KEPT_DIGITS = 6
# A spread below this share of the largest entry is the rounding of equal entries.
ROUNDING = 1e-12


@dataclass(frozen=True)
class ColumnSpread:
    """Number, mean and squared deviations of the entries of each column; those of several sites add up.

    Parameters
    ----------
    count : float
        Number of rows.
    mean : ndarray of shape (p,)
        Means.
    deviations : ndarray of shape (p,)
        Sums of squared deviations from the mean.

    See Also
    --------
    Preparation : Made of it.

    Notes
    -----
    Nothing here is private: a site of one row sends this row as its mean.

    Examples
    --------
    >>> ColumnSpread.of(np.array([[1.0], [3.0]])).deviations.tolist()
    [2.0]
    """

    count: float
    mean: Floats
    deviations: Floats

    @classmethod
    def of(cls, rows: Any) -> "ColumnSpread":
        """Return the spread of rows (n, p)."""
        given = np.asarray(rows, dtype=np.float64)
        mean = given.mean(axis=0)
        return cls(float(len(given)), mean, ((given - mean) ** 2).sum(axis=0))

    @classmethod
    def total(cls, parts: "Iterable[ColumnSpread]") -> "ColumnSpread":
        """Add up the spreads of disjoint sets of rows."""
        given = list(parts)
        counts = np.array([part.count for part in given])
        means = np.array([part.mean for part in given])
        mean = np.asarray(counts @ means / counts.sum())
        between = counts @ (means - mean) ** 2
        return cls(float(counts.sum()), mean, np.sum([part.deviations for part in given], axis=0) + between)


@dataclass(frozen=True)
class Preparation:
    """What is taken from each column, and by what it is then divided.

    Parameters
    ----------
    location : ndarray of shape (p,)
        Taken from the columns.
    scale : ndarray of shape (p,)
        What they are divided by, positive.

    See Also
    --------
    ColumnSpread : Where the constants come from.

    Examples
    --------
    >>> rows = np.array([[0.0, 1024.0], [2.0, 3072.0]])
    >>> Preparation.standardising(ColumnSpread.of(rows)).apply(rows).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    location: Floats
    scale: Floats

    @classmethod
    def standardising(cls, spread: ColumnSpread) -> "Preparation":
        """Return the preparation after which every column has mean zero and deviation one, about.

        Columns with equal entries get zeros.
        """
        deviation = np.sqrt(spread.deviations / spread.count)
        constant = deviation <= ROUNDING * np.abs(spread.mean)
        parts, exponents = np.frexp(np.where(constant, 1.0, deviation))
        scale = np.ldexp(np.rint(np.ldexp(parts, KEPT_DIGITS)), exponents - KEPT_DIGITS)
        steps = np.rint(np.ldexp(spread.mean / scale, KEPT_DIGITS))
        location = np.where(constant, spread.mean, np.ldexp(steps, -KEPT_DIGITS) * scale)
        return cls(location, scale)

    def apply(self, rows: Array) -> Array:
        """Return prepared rows, of the type of the given ones."""
        kind = rows.dtype.type if rows.dtype.kind == "f" else np.float64
        return np.asarray((rows - self.location) / self.scale, dtype=kind)
