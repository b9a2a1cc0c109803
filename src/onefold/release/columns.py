"""What is declared about the columns of a table, and the code between them and rows in a cube."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from onefold._base.arrays import AnyArray, Floats, Index
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy.frozen import Frozen
from onefold.privacy.sensitivity import Box
from onefold.release.releases import noise_bounds

__all__ = ["Column", "OneHotBox", "TableCodec"]

Range = tuple[float, float]
FREE = (-math.inf, math.inf)
MOST_LEVELS = 200


class OneHotBox(Box):
    """The unit cube in which blocks of columns are one-hot: another category moves two entries, not all."""

    def __init__(self, n_numbers: int, levels: Sequence[int], inferred: bool = False) -> None:
        super().__init__(0.0, 1.0, n_numbers + sum(levels))
        self._squares = n_numbers + 2 * len(levels)
        self._categories = bool(levels)
        self.inferred = inferred

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
    """What is declared about one column of a table; every released column has exactly this form.

    Parameters
    ----------
    name : str
        Heading of the column.
    dtype : numpy.dtype
        Type of released values, whatever the original ones are.
    range : tuple of (float, float), default=None
        Declared (low, high) of numbers; None for categories.
    levels : tuple, default=()
        Declared categories; empty for numbers.
    allowed : tuple of (float, float), default=None
        Range that released numbers must keep; None stands for the declared range.
    """

    name: str
    dtype: np.dtype[Any]
    range: Range | None = None
    levels: tuple[Any, ...] = ()
    allowed: Range | None = None

    @property
    def size(self) -> int:
        """Number of encoded columns."""
        return 1 if self.range is not None else len(self.levels)

    @property
    def width(self) -> float:
        """Width of the declared range; 1 for categories."""
        return 1.0 if self.range is None else self.range[1] - self.range[0]

    def encode(self, values: AnyArray) -> Floats:
        """Scale numbers to [0, 1] after clipping; make categories one-hot."""
        if self.range is not None:
            clipped = np.clip(_numbers(self.name, values), *self.range)
            return ((clipped - self.range[0]) / self.width)[:, np.newaxis]
        return np.eye(len(self.levels))[self.places(values)]

    def places(self, values: AnyArray) -> Index:
        """Return which declared category each cell holds."""
        as_numbers = self.dtype.kind in "iuf"
        cells = _numbers(self.name, values) if as_numbers else _texts(self.name, values)
        levels = np.asarray(self.levels, dtype=cells.dtype if as_numbers else str)
        order = np.argsort(levels)
        places = order[np.minimum(np.searchsorted(levels[order], cells), len(levels) - 1)]
        known = levels[places] == cells
        if not np.all(known):
            raise InvalidInputError(
                f"column {self.name!r} holds a category that is not declared in row {_first(~known)}"
            )
        return np.asarray(places)

    def decode(self, encoded: Floats) -> AnyArray:
        """Clip numbers to what is allowed and round whole ones; the largest entry names the category."""
        if self.range is None:
            return self.named(np.argmax(encoded, axis=1))
        low, high = self.allowed or self.range
        values = np.clip(self.range[0] + self.width * encoded[:, 0], low, high)
        if self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            largest = float(limits.max) if limits.bits < 64 else math.nextafter(float(limits.max), 0.0)
            inside = np.clip(np.rint(values), max(math.ceil(low), limits.min), min(high, largest))
            values = np.floor(inside)
        kept: AnyArray = values.astype(self.dtype)
        return kept

    def named(self, places: Index) -> AnyArray:
        """Return the categories at the given places."""
        return np.asarray(np.array(self.levels, dtype=self.dtype)[places])


def _first(mask: AnyArray) -> int:
    return int(np.argmax(mask)) + 1


def _numbers(name: str, values: AnyArray) -> Floats:
    """Return cells as float64, one by one: no cell decides how another is read."""
    if values.ndim == 1 and values.dtype.kind in "OUS":
        distinct, inverse = np.unique(_texts(name, values), return_inverse=True)
        numbers = np.array([_number(text) for text in distinct.tolist()], dtype=np.float64)[inverse]
    elif values.ndim == 1 and values.dtype.kind in "iufb":
        numbers = values.astype(np.float64)
    else:
        raise InvalidInputError(f"column {name!r} holds neither numbers nor text")
    if np.isnan(numbers).any():
        raise InvalidInputError(
            f"column {name!r} holds no number in row {_first(np.isnan(numbers))}: fill it in, or leave it out"
        )
    return numbers


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _texts(name: str, values: AnyArray) -> AnyArray:
    """Return cells as texts, one by one; a whole number reads the same from any type of column."""
    kind = values.dtype.kind
    if values.ndim != 1 or kind not in "OUSiufb":
        raise InvalidInputError(f"column {name!r} holds neither numbers nor text")
    if kind == "O":
        missing = np.array([cell is None or cell != cell for cell in values], dtype=bool)
        if missing.any():
            raise InvalidInputError(f"column {name!r} has a missing value in row {_first(missing)}")
    if kind in "fO":
        return np.array([_text(cell) for cell in values.tolist()], dtype=str)
    return np.char.decode(values, "utf-8", "replace") if kind == "S" else values.astype(str)


def _text(cell: Any) -> str:
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if whole else str(cell)


class TableCodec(Frozen):
    """Encodes the columns of a table for a noise, and decodes noisy rows into the same columns.

    Parameters
    ----------
    columns : dict of str to ndarray
        Name and values of each column. Of declared columns only the names and their order are used.
    ranges : dict of str to (float, float), default=None
        Range (low, high) of columns of numbers, known without looking at the data.
    categories : dict of str to sequence, default=None
        All categories of columns of categories, known without looking at the data. Released ones have the
        type of this list: truth values, whole numbers, numbers or texts.
    allowed : dict of str to (float, float), default=None
        Range (low, high) that released values must keep; the declared range where it is not given.
    types : dict of str to dtype, default=None
        Types of released numbers, such as "int64" for whole ones; "float64" where it is not given. The type
        of the original values is not used: a single cell can decide it.
    infer : bool, default=False
        Take from the data what is not declared, which voids every guarantee. Without it, every column must
        be declared.

    Attributes
    ----------
    columns : tuple of Column
        What is known about each column.
    inferred : tuple of str
        Columns whose range or categories were taken from the data.

    Warns
    -----
    PrivacyLeakWarning
        If something was taken from the data.

    See Also
    --------
    release_table : Encode, add noise, decode.

    Notes
    -----
    *Guarantees.* Names, order and types of decoded columns, the widths of texts and the categories come from
    the declarations. Values outside a range, infinite ones too, are clipped; nothing says how many. A cell
    that is missing, or no declared category, is refused in one line that names the column and the row:
    whoever sees that line learns about the data.

    Examples
    --------
    >>> columns = {"age": np.array([30, 41]), "town": np.array(["b", "a"])}
    >>> codec = TableCodec(columns, {"age": (18, 98)}, {"town": ["a", "b"]}, types={"age": "int64"})
    >>> codec.encode(columns).tolist()
    [[0.15, 0.0, 1.0], [0.2875, 1.0, 0.0]]
    >>> {name: values.tolist() for name, values in codec.decode(codec.encode(columns)).items()}
    {'age': [30, 41], 'town': ['b', 'a']}
    """

    def __init__(
        self,
        columns: Mapping[str, AnyArray],
        ranges: Mapping[str, Range] | None = None,
        categories: Mapping[str, Sequence[Any]] | None = None,
        allowed: Mapping[str, Range] | None = None,
        *,
        types: Mapping[str, DTypeLike] | None = None,
        infer: bool = False,
    ) -> None:
        ranges, categories, types = dict(ranges or {}), dict(categories or {}), dict(types or {})
        allowed = dict(allowed or {})
        if not columns:
            raise InvalidInputError("the table has no columns to release")
        _refuse_unknown(columns, {**ranges, **categories, **allowed, **types})
        undeclared = [name for name in columns if name not in ranges and name not in categories]
        if undeclared and not infer:
            raise InvalidInputError(
                f"column {undeclared[0]!r} is not declared: give its range or its categories "
                "(infer=True takes them from the data, and nothing is promised)"
            )
        for name in undeclared:
            _infer(name, np.asarray(columns[name]), ranges, categories, types)
        self.columns = tuple(_column(name, ranges, categories, allowed, types) for name in columns)
        self.inferred = tuple(undeclared)
        if self.inferred:
            warnings.warn(
                f"ranges or categories of {len(self.inferred)} column(s) were taken from the data, which is "
                "not private: declare them from what the columns mean",
                PrivacyLeakWarning,
                stacklevel=3,  # past what seals the object
            )

    @property
    def n_encoded(self) -> int:
        """Number of columns of the encoded rows."""
        return sum(column.size for column in self.columns)

    @cached_property
    def domain(self) -> OneHotBox:
        """Domain in which encoded rows lie by declaration."""
        return OneHotBox(
            sum(column.range is not None for column in self.columns),
            [len(column.levels) for column in self.columns if column.range is None],
            inferred=bool(self.inferred),
        )

    def bounds(self) -> Floats:
        """Compute bounds of the noise on encoded rows that keep every number inside what is allowed.

        Returns
        -------
        ndarray of shape (n_encoded, 2)
            Bounds (low, high); infinite for categories and where nothing is allowed beyond the range.
        """
        pairs: list[Any] = []
        for column in self.columns:
            if column.range is None or column.allowed is None:
                pairs += [FREE] * column.size
            else:
                pairs.append(noise_bounds(column.range, column.allowed) / column.width)
        return np.array(pairs, dtype=np.float64)

    def position(self, name: str) -> int:
        """Find the encoded column of a column of numbers.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        int
            Its position among the encoded columns.
        """
        at = 0
        for column in self.columns:
            if column.name == name:
                if column.range is None:
                    raise InvalidInputError(f"column {name!r} holds categories: it has no error in units")
                return at
            at += column.size
        raise InvalidInputError(f"there is no column {name!r} to release")

    def column(self, name: str) -> Column:
        """Return what is known about a column.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        Column
            Its type, range and categories.
        """
        return next(column for column in self.columns if column.name == name)

    def encode(self, columns: Mapping[str, AnyArray]) -> Floats:
        """Encode columns as rows in the unit cube.

        Parameters
        ----------
        columns : dict of str to ndarray
            Name and values of each column.

        Returns
        -------
        ndarray of shape (n_samples, n_encoded)
            Encoded rows.
        """
        encoded = [column.encode(np.asarray(columns[column.name])) for column in self.columns]
        if len({len(rows) for rows in encoded}) > 1:
            raise InvalidInputError("the columns must have equally many rows")
        return np.hstack(encoded)

    def decode(self, rows: Floats) -> dict[str, AnyArray]:
        """Decode noisy rows into columns, looking at nothing but the noisy rows.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_encoded)
            Noisy rows.

        Returns
        -------
        dict of str to ndarray
            Columns by name, in the order of the original and of the declared types.
        """
        decoded, at = {}, 0
        for column in self.columns:
            decoded[column.name] = column.decode(rows[:, at : at + column.size])
            at += column.size
        return decoded


def _refuse_unknown(columns: Mapping[str, AnyArray], declared: Mapping[str, Any]) -> None:
    unknown = [name for name in declared if name not in columns]
    if unknown:
        raise InvalidInputError(f"something is declared about a column that is not there: {unknown[0]!r}")


def _column(
    name: str,
    ranges: Mapping[str, Range],
    categories: Mapping[str, Sequence[Any]],
    allowed: Mapping[str, Range],
    types: Mapping[str, DTypeLike],
) -> Column:
    if name in categories:
        if name in ranges or name in allowed or name in types:
            raise InvalidInputError(f"column {name!r} holds categories: it has neither range nor type")
        levels = _levels(name, categories[name])
        return Column(name, levels.dtype, levels=tuple(levels.tolist()))
    declared = _range(name, ranges[name])
    if not math.isfinite(declared[1] - declared[0]):
        raise InvalidInputError(f"the range of column {name!r} must be finite: values are scaled by it")
    kept = None
    if name in allowed:
        kept = _range(name, allowed[name])
        if not kept[0] <= declared[0] < declared[1] <= kept[1]:
            raise InvalidInputError(f"column {name!r}: what is allowed must contain the declared range")
    dtype = _type(name, types.get(name, np.float64))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if max(math.ceil(declared[0]), limits.min) > min(math.floor(declared[1]), limits.max):
            raise InvalidInputError(f"the range of column {name!r} holds no number of this type")
    return Column(name, dtype, range=declared, allowed=kept)


def _levels(name: str, declared: Sequence[Any]) -> AnyArray:
    """Return the declared categories, different and in order, in the one type that holds them all."""
    words = [declared] if isinstance(declared, str) else list(declared)
    if not words:
        raise InvalidInputError(f"column {name!r} needs at least one category")
    kinds = {np.asarray(word).dtype.kind for word in words}
    try:
        if kinds == {"b"}:
            return np.unique(np.array(words, dtype=bool))
        if kinds <= set("iu"):
            return np.unique(np.array(words, dtype=np.int64))
        if kinds <= set("iuf"):
            return np.unique(np.array(words, dtype=np.float64))
    except OverflowError:
        raise InvalidInputError(f"column {name!r}: a category is too large a number") from None
    return np.unique(np.array([str(word) for word in words]))


def _type(name: str, given: DTypeLike) -> np.dtype[Any]:
    try:
        dtype = np.dtype(given)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "iuf":
        raise InvalidInputError(f"the type of column {name!r} must be one of numbers, such as 'int64'")
    return dtype


def _infer(
    name: str,
    values: AnyArray,
    ranges: dict[str, Range],
    categories: dict[str, Sequence[Any]],
    types: dict[str, DTypeLike],
) -> None:
    """Take from the data what is not declared about a column: nothing can be promised then."""
    if values.ndim != 1 or values.dtype.kind not in "iufbUSO":
        raise InvalidInputError(f"column {name!r} holds neither numbers nor text")
    if values.dtype.kind in "iuf":
        numbers = _numbers(name, values)
        if not np.isfinite(numbers).all():
            raise InvalidInputError(f"column {name!r} has infinite values: declare its range")
        low, high = float(numbers.min()), float(numbers.max())
        ranges[name] = (low, high) if low < high else (low, low + 1.0)
        types.setdefault(name, values.dtype)
        return
    cells = values if values.dtype.kind == "b" else _texts(name, values)
    categories[name] = np.unique(cells).tolist()
    if len(categories[name]) > MOST_LEVELS:
        raise InvalidInputError(
            f"column {name!r} has more than {MOST_LEVELS} different texts: leave it out, or declare them"
        )


def _range(name: str, given: Any) -> Range:
    try:
        low, high = (float(value) for value in given)
    except (TypeError, ValueError):
        raise InvalidInputError(f"the range of column {name!r} must be two numbers") from None
    if not low < high:
        raise InvalidInputError(f"the range of column {name!r} must go from low to high")
    return low, high
