"""Tables of mixed columns: encoded as rows in a cube, released with the optimal noise, decoded again."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from onefold._base.arrays import AnyArray, Floats
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import BoundedFisherNoise, FisherGaussian, Guarantee, RandomisedLabels, charge
from onefold.privacy.ledger import AnyLedger
from onefold.privacy.samplers import RandomState
from onefold.privacy.sensitivity import Box
from onefold.release.releases import noise_bounds

__all__ = ["Column", "OneHotBox", "TableCodec", "TableRelease", "release_table"]

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

    Parameters
    ----------
    name : str
        Heading of the column.
    dtype : numpy.dtype
        Type of the original values, which released ones get too.
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
            clipped = np.clip(values.astype(np.float64), *self.range)
            return ((clipped - self.range[0]) / self.width)[:, np.newaxis]
        levels = np.asarray(self.levels)
        codes = np.searchsorted(levels, values)
        known = levels[np.minimum(codes, len(levels) - 1)] == values
        if not np.all(known):
            raise InvalidInputError(f"column {self.name!r} holds a category that is not declared")
        return np.eye(len(levels))[codes]

    def decode(self, encoded: Floats) -> AnyArray:
        """Clip numbers to what is allowed and round whole ones; the largest entry names the category."""
        if self.range is None:
            named: AnyArray = np.asarray(self.levels)[np.argmax(encoded, axis=1)].astype(self.dtype)
            return named
        low, high = self.allowed or self.range
        values = np.clip(self.range[0] + self.width * encoded[:, 0], low, high)
        if self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            largest = float(limits.max) if limits.bits < 64 else math.nextafter(float(limits.max), 0.0)
            inside = np.clip(np.rint(values), max(math.ceil(low), limits.min), min(high, largest))
            values = np.floor(inside)
        kept: AnyArray = values.astype(self.dtype)
        return kept


class TableCodec:
    """Encodes the columns of a table for a noise, and decodes noisy rows into the same columns.

    Parameters
    ----------
    columns : dict of str to ndarray
        Name and values of each column; text and truth values are categories, everything else numbers.
    ranges : dict of str to (float, float), default=None
        Range (low, high) of columns of numbers, known without looking at the data.
    categories : dict of str to sequence, default=None
        All categories of columns of categories, known without looking at the data.
    allowed : dict of str to (float, float), default=None
        Range (low, high) that released values must keep; the declared range where it is not given.

    Attributes
    ----------
    columns : list of Column
        What is known about each column.
    inferred : tuple of str
        Columns whose range or categories were taken from the data.

    Warns
    -----
    PrivacyLeakWarning
        If something is not declared. It is then taken from the data, and every guarantee is void.

    See Also
    --------
    release_table : Encode, add noise, decode.

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
        columns: Mapping[str, AnyArray],
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
        """Number of columns of the encoded rows."""
        return sum(column.size for column in self.columns)

    @cached_property
    def domain(self) -> OneHotBox:
        """Domain in which encoded rows lie by declaration."""
        box = OneHotBox(
            sum(column.range is not None for column in self.columns),
            [len(column.levels) for column in self.columns if column.range is None],
        )
        box.inferred = bool(self.inferred)
        return box

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
        return np.hstack([column.encode(np.asarray(columns[column.name])) for column in self.columns])

    def decode(self, rows: Floats) -> dict[str, AnyArray]:
        """Decode noisy rows into columns, looking at nothing but the noisy rows.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_encoded)
            Noisy rows.

        Returns
        -------
        dict of str to ndarray
            Columns by name, in the order and of the types of the original.
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
    values: AnyArray,
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


def _levels(name: str, values: AnyArray, declared: Sequence[Any] | None) -> tuple[Any, ...]:
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


def _observed(values: AnyArray) -> Range:
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low, low + 1.0)


# --- releasing a table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableRelease:
    """Columns to publish, with what they promise.

    Parameters
    ----------
    columns : dict of str to ndarray
        Name and values of each column, in the order and of the types of the original.
    guarantee : Guarantee
        Differential privacy per entry and per record.
    standard_errors : dict of str to float
        Per column of numbers and in its units, the least error of an unbiased estimate.
    kept : dict of str to float
        Per column of categories, the probability that one is released as it is.
    widths : dict of str to float
        Per column of numbers, the width of its declared range.
    labels : ndarray or None, default=None
        The labels to publish with the columns.

    See Also
    --------
    release_table : Make the release.

    Examples
    --------
    >>> columns = {"age": np.array([30, 41])}
    >>> made = release_table(columns, TableCodec(columns, {"age": (18, 98)}), lam=1.0, random_state=0)
    >>> print(made.in_words()[1])
      nobody can estimate a person's age better than ± 80
    """

    columns: dict[str, AnyArray]
    guarantee: Guarantee
    standard_errors: dict[str, float]
    kept: dict[str, float]
    widths: dict[str, float]
    labels: AnyArray | None = None

    def in_words(self) -> list[str]:
        """Say what the release means for each column.

        Returns
        -------
        list of str
            One line per column under a heading.
        """
        lines = [
            "From this release alone, without other knowledge and without a bias (root mean square error):"
        ]
        for name, error in self.standard_errors.items():
            wide = " (the declared range alone says more)" if error > self.widths[name] else ""
            lines.append(f"  nobody can estimate a person's {name} better than ± {error:.4g}{wide}")
        for name, share in self.kept.items():
            lines.append(f"  a person's {name} is shown as it is with probability {share:.3g}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the rows.

        Returns
        -------
        dict
            The guarantee, the errors, the probabilities and the words.
        """
        return {
            **self.guarantee.to_dict(),
            "least_standard_errors": self.standard_errors,
            "categories_kept": self.kept,
            "in_words": self.in_words(),
        }


def release_table(
    columns: Mapping[str, AnyArray],
    codec: TableCodec,
    lam: float,
    *,
    bounded: bool = False,
    delta: float = 1e-5,
    hardened: bool = False,
    random_state: RandomState = None,
    labels: AnyArray | None = None,
    label_mechanism: RandomisedLabels | None = None,
    ledger: AnyLedger = None,
) -> TableRelease:
    """Encode a table, add the optimal noise, and decode it.

    The noise is in proportion to the declared width of a column. Rounding, clipping and naming the likeliest
    category look at noisy rows only and cost no privacy.

    Parameters
    ----------
    columns : dict of str to ndarray
        Name and values of each column.
    codec : TableCodec
        What is declared about the columns.
    lam : float
        Weight of utility, for columns scaled to [0, 1].
    bounded : bool, default=False
        Use noise that keeps every number inside the codec's ``allowed`` ranges, instead of clipping.
    delta : float, default=1e-5
        Delta of the guarantee.
    hardened : bool, default=False
        Noise on a grid that is safe against attacks on floating-point numbers.
    random_state : int, Generator or None, default=None
        None takes the noise from the entropy of the system. A seed makes the noise known: for tests only.
    labels : ndarray of shape (n_samples,) or None, default=None
        Labels to publish with the columns.
    label_mechanism : RandomisedLabels or None, default=None
        Randomises the labels; None publishes them as they are.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.

    Returns
    -------
    TableRelease
        The columns and what they promise.

    See Also
    --------
    release_iid : The same for rows of numbers.
    TableCodec : Declare ranges and categories.

    References
    ----------
    Document 002, Theorems 2.4 to 2.6.

    Examples
    --------
    >>> columns = {"age": np.array([30, 41]), "town": np.array(["b", "a"])}
    >>> codec = TableCodec(columns, {"age": (18, 98)}, {"town": ["a", "b"]})
    >>> made = release_table(columns, codec, lam=1e-2, random_state=0)
    >>> list(made.columns), made.columns["age"].dtype == columns["age"].dtype
    (['age', 'town'], True)
    """
    options: dict[str, Any] = {"delta": delta, "sensitivity": codec.domain, "hardened": hardened}
    noise: FisherGaussian | BoundedFisherNoise
    if bounded:
        noise = BoundedFisherNoise(lam, codec.bounds(), **options)
    else:
        noise = FisherGaussian(lam, **options)
    errors = noise.standard_errors(codec.n_encoded)
    numbers = [column for column in codec.columns if column.range is not None]
    categories = [column for column in codec.columns if column.range is None]
    guarantee = noise.guarantee(codec.n_encoded)
    if bounded and categories:  # a category moves two encoded entries at once: state what always holds
        guarantee = replace(guarantee, entry=guarantee.record)
    guarantee = replace(guarantee, n_features=len(codec.columns))
    if label_mechanism is not None:
        if labels is None:
            raise InvalidInputError("label_mechanism needs labels")
        guarantee = guarantee.with_labels(label_mechanism.epsilon)
    encoded = codec.encode(columns)
    charge(ledger, guarantee, "released table")
    noisy = noise.randomise(encoded, random_state)
    if label_mechanism is not None:
        # With a seed, noise of its own: the same numbers on rows and labels would tell of each other.
        rng = None if random_state is None else np.random.default_rng(random_state).spawn(1)[0]
        labels = np.asarray(label_mechanism.randomise(labels, rng))
    return TableRelease(
        codec.decode(noisy),
        guarantee,
        {c.name: float(errors[codec.position(c.name)]) * c.width for c in numbers},
        {c.name: _kept(len(c.levels), lam**-0.25) for c in categories},
        {c.name: c.width for c in numbers},
        labels,
    )


def _kept(levels: int, scale: float) -> float:
    """Return the probability E[Phi(z + 1/scale)^(levels - 1)] that the true category keeps the lead."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    values = np.exp((levels - 1) * log_ndtr(nodes + 1.0 / scale))
    return float(weights @ values / weights.sum())
