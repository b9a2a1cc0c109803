"""Tables of numbers, whole numbers and categories as rows in a cube, and back to the same columns."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy.sensitivity import Box
from onefold.release.ranges import noise_bounds

__all__ = ["Column", "OneHotBox", "TableCodec"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Range = tuple[float, float]
FREE = (-math.inf, math.inf)
MOST_LEVELS = 200


class OneHotBox(Box):
    """The unit cube in which blocks of columns are one-hot: another category moves two entries, not all."""

    def __init__(self, n_numbers: int, levels: Sequence[int]) -> None:
        super().__init__(0.0, 1.0, n_numbers + sum(levels))
        self._squares = n_numbers + 2 * len(levels)
        self._categories = bool(levels)

    @property
    def entry(self) -> float:
        """Change of one cell of the table: 1 for a number, the diagonal of a square for a category."""
        return math.nextafter(math.sqrt(2.0), math.inf) if self._categories else 1.0

    @property
    def l1(self) -> float:
        """Sum of absolute changes of a record."""
        return float(self._squares)

    @property
    def l2(self) -> float:
        """Euclidean change of a record."""
        return math.nextafter(math.sqrt(self._squares), math.inf)


@dataclass(frozen=True)
class Column:
    """What is known about one column of a table.

    Attributes
    ----------
    name : its heading
    dtype : of the original values, which released ones get too
    range : declared (low, high) of numbers; None for categories
    levels : declared categories; empty for numbers
    allowed : what released numbers must keep to; the declared range if None
    """

    name: str
    dtype: np.dtype[Any]
    range: Range | None = None
    levels: tuple[Any, ...] = ()
    allowed: Range | None = None

    @property
    def size(self) -> int:
        """Encoded columns."""
        return 1 if self.range is not None else len(self.levels)

    @property
    def width(self) -> float:
        """Of the declared range; 1 for categories."""
        return 1.0 if self.range is None else self.range[1] - self.range[0]

    def encode(self, values: Array) -> Floats:
        """Numbers scaled to [0, 1] after clipping, categories one-hot."""
        if self.range is not None:
            clipped = np.clip(values.astype(np.float64), *self.range)
            return ((clipped - self.range[0]) / self.width)[:, np.newaxis]
        levels = np.asarray(self.levels)
        codes = np.searchsorted(levels, values)
        known = levels[np.minimum(codes, len(levels) - 1)] == values
        if not np.all(known):
            raise InvalidInputError(f"column {self.name!r} holds a category that is not declared")
        return np.eye(len(levels))[codes]

    def decode(self, encoded: Floats) -> Array:
        """Numbers within what is allowed, whole ones rounded; the largest entry names the category."""
        if self.range is None:
            named: Array = np.asarray(self.levels)[np.argmax(encoded, axis=1)].astype(self.dtype)
            return named
        low, high = self.allowed or self.range
        values = np.clip(self.range[0] + self.width * encoded[:, 0], low, high)
        if self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            largest = float(limits.max) if limits.bits < 64 else math.nextafter(float(limits.max), 0.0)
            inside = np.clip(np.rint(values), max(math.ceil(low), limits.min), min(high, largest))
            values = np.floor(inside)
        kept: Array = values.astype(self.dtype)
        return kept


class TableCodec:
    """Encodes the columns of a table for a noise, and decodes noisy rows into the same columns.

    Parameters
    ----------
    columns : name -> values; text and truth values are categories, everything else numbers
    ranges : name -> (low, high) known without looking at the data
    categories : name -> all categories known without looking at the data
    allowed : name -> (low, high) that released values must keep; the declared range where it is not said

    What is not declared is taken from the data: a warning says so, and every guarantee is void.

    Examples
    --------
    >>> columns = {"age": np.array([30, 41]), "town": np.array(["b", "a"])}
    >>> codec = TableCodec(columns, ranges={"age": (18, 98)}, categories={"town": ["a", "b"]})
    >>> codec.encode(columns).tolist()
    [[0.15, 0.0, 1.0], [0.2875, 1.0, 0.0]]
    >>> {name: values.tolist() for name, values in codec.decode(codec.encode(columns)).items()}
    {'age': [30, 41], 'town': ['b', 'a']}
    """

    def __init__(
        self,
        columns: Mapping[str, Array],
        ranges: Mapping[str, Range] | None = None,
        categories: Mapping[str, Sequence[Any]] | None = None,
        allowed: Mapping[str, Range] | None = None,
    ) -> None:
        ranges, categories, allowed = dict(ranges or {}), dict(categories or {}), dict(allowed or {})
        if not columns:
            raise InvalidInputError("the table has no columns to release")
        _refuse_unknown(columns, {**ranges, **categories, **allowed})
        self.columns = [
            _column(name, values, ranges, categories, allowed) for name, values in columns.items()
        ]
        self.inferred = tuple(c.name for c in self.columns if c.name not in (ranges | categories))
        if self.inferred:
            warnings.warn(
                f"ranges or categories of {len(self.inferred)} column(s) were taken from the data, which is "
                "not private: declare them from what the columns mean",
                PrivacyLeakWarning,
                stacklevel=2,
            )

    @property
    def n_encoded(self) -> int:
        """Columns of the encoded rows."""
        return sum(column.size for column in self.columns)

    @cached_property
    def domain(self) -> OneHotBox:
        """Where encoded rows lie by declaration."""
        box = OneHotBox(
            sum(column.range is not None for column in self.columns),
            [len(column.levels) for column in self.columns if column.range is None],
        )
        box.inferred = bool(self.inferred)
        return box

    def bounds(self) -> Floats:
        """Bounds of the noise on encoded rows that keep every number inside what is allowed."""
        pairs: list[Any] = []
        for column in self.columns:
            if column.range is None or column.allowed is None:
                pairs += [FREE] * column.size
            else:
                pairs.append(noise_bounds(column.range, column.allowed) / column.width)
        return np.array(pairs, dtype=np.float64)

    def position(self, name: str) -> int:
        """Encoded column of a column of numbers."""
        at = 0
        for column in self.columns:
            if column.name == name:
                if column.range is None:
                    raise InvalidInputError(f"column {name!r} holds categories: it has no error in units")
                return at
            at += column.size
        raise InvalidInputError(f"there is no column {name!r} to release")

    def column(self, name: str) -> Column:
        """What is known about a column."""
        return next(column for column in self.columns if column.name == name)

    def encode(self, columns: Mapping[str, Array]) -> Floats:
        """Rows in the unit cube."""
        return np.hstack([column.encode(np.asarray(columns[column.name])) for column in self.columns])

    def decode(self, rows: Floats) -> dict[str, Array]:
        """The columns, by name and in their order. It looks at nothing but the noisy rows."""
        decoded, at = {}, 0
        for column in self.columns:
            decoded[column.name] = column.decode(rows[:, at : at + column.size])
            at += column.size
        return decoded


def _refuse_unknown(columns: Mapping[str, Array], declared: Mapping[str, Any]) -> None:
    unknown = [name for name in declared if name not in columns]
    if unknown:
        raise InvalidInputError(f"something is declared about a column that is not there: {unknown[0]!r}")


def _column(
    name: str,
    values: Array,
    ranges: Mapping[str, Range],
    categories: Mapping[str, Sequence[Any]],
    allowed: Mapping[str, Range],
) -> Column:
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "iufbUS":
        raise InvalidInputError(f"column {name!r} holds neither numbers nor text")
    if name in categories or values.dtype.kind in "bUS":
        if name in ranges or name in allowed:
            raise InvalidInputError(f"column {name!r} holds categories: it has no range")
        return Column(name, values.dtype, levels=_levels(name, values, categories.get(name)))
    if not np.isfinite(values.astype(np.float64)).all():
        raise InvalidInputError(f"column {name!r} has NaN or infinite values: fill or drop them first")
    declared = _range(name, ranges[name]) if name in ranges else _observed(values)
    kept = None
    if name in allowed:
        kept = _range(name, allowed[name])
        if not kept[0] <= declared[0] < declared[1] <= kept[1]:
            raise InvalidInputError(f"column {name!r}: what is allowed must contain the declared range")
    return Column(name, values.dtype, range=declared, allowed=kept)


def _levels(name: str, values: Array, declared: Sequence[Any] | None) -> tuple[Any, ...]:
    levels = np.unique(values if declared is None else np.asarray(list(declared), dtype=values.dtype))
    if declared is None and len(levels) > MOST_LEVELS:
        raise InvalidInputError(
            f"column {name!r} has more than {MOST_LEVELS} different texts: leave it out, or declare them"
        )
    if not len(levels):
        raise InvalidInputError(f"column {name!r} needs at least one category")
    return tuple(levels.tolist())


def _range(name: str, given: Any) -> Range:
    try:
        low, high = (float(value) for value in given)
    except (TypeError, ValueError):
        raise InvalidInputError(f"the range of column {name!r} must be two numbers") from None
    if not low < high:
        raise InvalidInputError(f"the range of column {name!r} must go from low to high")
    return low, high


def _observed(values: Array) -> Range:
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low, low + 1.0)
