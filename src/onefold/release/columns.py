"""What is declared about the columns of a released table, and the code between them and noisy rows."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from onefold._base.arrays import AnyArray, Floats
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy.contract import EncodedBox, released
from onefold.privacy.frozen import Frozen
from onefold.release.releases import noise_bounds
from onefold.tables import Field, Schema
from onefold.tables.cells import cells_of, texts_of

__all__ = ["Column", "TableCodec"]

Range = tuple[float, float]
FREE = (-math.inf, math.inf)
MOST_LEVELS = 200


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
    declared : Field or None, default=None
        All that is declared; None makes it of the other parameters.
    """

    name: str
    dtype: np.dtype[Any]
    range: Range | None = None
    levels: tuple[Any, ...] = ()
    allowed: Range | None = None
    declared: Field | None = None

    @cached_property
    def field(self) -> Field:
        """All that is declared."""
        if self.declared is not None:
            return self.declared
        if self.range is None:
            return _category(self.name, self.levels)
        kind = "integer" if self.dtype.kind in "iu" else "number"
        return Field(self.name, kind, low=self.range[0], high=self.range[1])

    @property
    def width(self) -> float:
        """Width of the declared range; 1 for categories."""
        return 1.0 if self.range is None else self.range[1] - self.range[0]

    def decode(self, encoded: Floats) -> AnyArray:
        """Clip numbers to what is allowed and round whole ones; the largest entry names the category."""
        values = self.field.decode(encoded)
        if self.range is None or self.field.type in ("date", "datetime"):
            return self.field.show(values)
        low, high = self.allowed or self.range
        if self.allowed is not None:
            values = np.clip(self.range[0] + self.width * encoded[:, 0], low, high)
        if self.dtype.kind not in "iu":
            return values.astype(self.dtype)
        limits = np.iinfo(self.dtype)
        largest = float(limits.max) if limits.bits < 64 else math.nextafter(float(limits.max), 0.0)
        inside = np.clip(np.rint(values), max(math.ceil(low), limits.min), min(high, largest))
        absent = np.isnan(inside)
        whole: AnyArray = np.floor(np.where(absent, 0.0, inside)).astype(self.dtype)
        return np.ma.masked_array(whole, mask=absent) if self.field.nullable else whole


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
    the declarations. Values outside a range, infinite ones too, are clipped; nothing says how many. No cell
    is refused, since a refusal would say something about the data: a cell that is missing, or says no number
    where one is declared, counts as the middle of the range, and one that is no declared category as none of
    them, unless a schema declares another rule. Where the empty text is declared as a category, missing texts
    are released as such.

    Examples
    --------
    >>> columns = {"age": np.array([30, 41]), "town": np.array(["b", "a"])}
    >>> codec = TableCodec(columns, {"age": (18, 98)}, {"town": ["a", "b"]}, types={"age": "int64"})
    >>> codec.encode(columns).round(4).tolist()
    [[0.15, 0.0, 0.7071], [0.2875, 0.7071, 0.0]]
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
        _refuse_unknown(list(columns), {**ranges, **categories, **allowed, **types})
        undeclared = [name for name in columns if name not in ranges and name not in categories]
        if undeclared and not infer:
            raise InvalidInputError(
                f"column {undeclared[0]!r} is not declared: give its range or its categories "
                "(infer=True takes them from the data, and nothing is promised)"
            )
        for name in undeclared:
            _infer(name, np.asarray(columns[name]), ranges, categories, types)
        self.columns = tuple(_column(name, ranges, categories, allowed, types) for name in columns)
        self.missing_values: tuple[str, ...] = ("",)
        self.inferred = tuple(undeclared)
        if self.inferred:
            warnings.warn(
                f"ranges or categories of {len(self.inferred)} column(s) were taken from the data, which is "
                "not private: declare them from what the columns mean",
                PrivacyLeakWarning,
                stacklevel=3,  # past what seals the object
            )

    @classmethod
    def from_schema(cls, schema: Schema, allowed: Mapping[str, Range] | None = None) -> "TableCodec":
        """Make the codec of a schema: of its features, and of a label that is a number.

        Parameters
        ----------
        schema : Schema
            What is declared; a schema that was inferred from private rows is refused.
        allowed : dict of str to (float, float) or None, default=None
            Range (low, high) that released values must keep; the declared range where it is not given.

        Returns
        -------
        TableCodec
            The codec.
        """
        known, limits = released(schema).features, dict(allowed or {})
        _refuse_unknown([each.name for each in known], limits)
        found = cls.__new__(cls)
        found.columns = tuple(_kept(each, limits.get(each.name)) for each in known)
        found.missing_values, found.inferred = tuple(schema.missing_values), ()
        found._seal()
        return found

    @property
    def n_encoded(self) -> int:
        """Number of columns of the encoded rows."""
        return sum(column.field.width for column in self.columns)

    @cached_property
    def domain(self) -> EncodedBox:
        """Domain in which encoded rows lie by declaration."""
        return EncodedBox([column.field for column in self.columns], inferred=bool(self.inferred))

    def bounds(self) -> Floats:
        """Compute bounds of the noise on encoded rows that keep every number inside what is allowed.

        Returns
        -------
        ndarray of shape (n_encoded, 2)
            Bounds (low, high); infinite for categories and where nothing is allowed beyond the range.
        """
        pairs: list[Any] = []
        for column in self.columns:
            if column.allowed is None or column.range is None:
                pairs += [FREE] * column.field.width
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
                if column.range is None or column.field.scale != "linear":
                    what = "holds categories" if column.range is None else "is on a scale of logarithms"
                    raise InvalidInputError(f"column {name!r} {what}: it has no error in units")
                return at
            at += column.field.width
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
        read = Schema([column.field for column in self.columns], missing_values=self.missing_values)
        return read.encode(read.parse(columns, strict=bool(self.inferred)))

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
            decoded[column.name] = column.decode(rows[:, at : at + column.field.width])
            at += column.field.width
        return decoded


def _refuse_unknown(columns: Sequence[str], declared: Mapping[str, Any]) -> None:
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
        return _kept(_category(name, categories[name]))
    low, high = _range(name, ranges[name])
    if not math.isfinite(high - low):
        raise InvalidInputError(f"the range of column {name!r} must be finite: values are scaled by it")
    dtype = _type(name, types.get(name, np.float64))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if max(math.ceil(low), limits.min) > min(math.floor(high), limits.max):
            raise InvalidInputError(f"the range of column {name!r} holds no number of this type")
    known = Field(name, "integer" if dtype.kind in "iu" else "number", low=low, high=high)
    return _kept(known, allowed.get(name), dtype)


def _kept(known: Field, allowed: Any = None, dtype: np.dtype[Any] | None = None) -> Column:
    """A column whose released values keep what is allowed."""
    if known.encoder is not None:
        raise InvalidInputError(f"column {known.name!r} has an encoder: no cell can be made of noisy numbers")
    declared = None if known.is_category else (float(known.low or 0.0), float(known.high or 0.0))
    kept = None
    if allowed is not None:
        kept = _range(known.name, allowed)
        if declared is None or known.nullable or known.scale != "linear" or known.type.startswith("date"):
            raise InvalidInputError(f"column {known.name!r}: only plain numbers can be held inside a range")
        if not kept[0] <= declared[0] < declared[1] <= kept[1]:
            raise InvalidInputError(f"column {known.name!r}: what is allowed must contain the declared range")
    return Column(known.name, dtype or known.dtype, declared, known.levels, kept, known)


def _category(name: str, declared: Sequence[Any]) -> Field:
    """Declare categories, different and in order, in the one type that holds them all."""
    words = [declared] if isinstance(declared, str) else list(declared)
    if not words:
        raise InvalidInputError(f"column {name!r} needs at least one category")
    kinds = {np.asarray(word).dtype.kind for word in words}
    if kinds == {"b"}:
        return Field(name, "boolean")
    if kinds <= set("iuf"):
        whole = kinds <= set("iu")
        levels = sorted({int(word) if whole else float(word) for word in words})
        if whole and not -(2**63) <= levels[0] <= levels[-1] < 2**63:
            raise InvalidInputError(f"column {name!r}: a category is too large a number")
        return Field(name, "integer" if whole else "number", levels=tuple(levels))
    texts = sorted({str(word).strip() for word in words})
    rule = "indicator" if "" in texts else "refuse"  # the empty text stands for a missing one
    return Field(name, "string", levels=tuple(text for text in texts if text), missing=rule)


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
    cells, missing = cells_of(values)
    if missing.any():
        raise InvalidInputError(
            f"column {name!r} has no value in row {int(np.argmax(missing)) + 1}: fill it in, or leave it out"
        )
    if values.dtype.kind in "iuf":
        low, high = float(values.min()), float(values.max())
        if not math.isfinite(high - low):
            raise InvalidInputError(f"column {name!r} has infinite values: declare its range")
        ranges[name] = (low, high) if low < high else (low, low + 1.0)
        types.setdefault(name, values.dtype)
        return
    categories[name] = [False, True] if values.dtype.kind == "b" else sorted(set(texts_of(cells)))
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
