"""Moments without noise: how rows come to norm one or less, folds of groups, and one message for all of it.

Nothing here is private. Sums are exact whole numbers, so they do not depend on how rows are spread over
sites, on who joins first, or on who has left.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from onefold._base.arrays import Array, Floats, Index, Labels
from onefold._base.fixed_point import DIGITS, MOST_ROWS, shortened, unit_rows
from onefold._base.parallel import one_blas_thread
from onefold._base.records import Content, Record, kind_of, record
from onefold.encoders.projections import fitted_lift
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.models.preparation import Preparation
from onefold.models.ridge import Statistic
from onefold.privacy.moments import PrivateMoments

__all__ = [
    "RowMap",
    "check_possible",
    "folds_of",
    "in_folds",
    "is_folded",
    "pack_folds",
    "plain_moments",
    "statistic_of",
    "total_folds",
    "unpack_folds",
]

N_FOLDS = 4
FOLDED = "moments in folds"
# Values of mapped rows that are in memory together.
BLOCK_VALUES = 8_000_000
# What float64 makes of sums, as a share of them.
ROUNDING = 1e-9
# Rows of standardised columns have length one on average; few are longer than this.
STANDARD_RADIUS = 4.0


@dataclass(frozen=True)
class RowMap:
    """How a row of numbers becomes one of length at most one, of which moments are taken.

    Parameters
    ----------
    n_directions : int, default=0
        Directions of a :class:`onefold.encoders.FourierLift`; 0 for none.
    radius : float or None, default=None
        Length that rows are declared to have at most, after the preparation; None scales every row to length
        one, or takes four times the length that prepared rows have on average.
    preparation : Preparation or None, default=None
        What is done to the columns first, all of which are then divided by the root of their number.
    """

    n_directions: int = 0
    radius: float | None = None
    preparation: Preparation | None = None

    def __post_init__(self) -> None:
        """Refuse what is no map, as in a foreign file."""
        if self.n_directions < 0 or not 0.0 < (1.0 if self.radius is None else self.radius) < math.inf:
            raise InvalidInputError("the directions or the radius of rows are not what they should be")

    def apply(self, rows: Array) -> Floats:
        """Return mapped rows, each by itself and in exact arithmetic."""
        given = np.asarray(rows, dtype=np.float64)
        radius = 1.0 if self.radius is None else float(self.radius)
        if self.preparation is not None:
            given = np.asarray(self.preparation.apply(given) / math.sqrt(given.shape[1]), dtype=np.float64)
            radius = STANDARD_RADIUS if self.radius is None else radius
        elif self.radius is None:
            given = unit_rows(given)
        if self.n_directions == 0:
            return shortened(given, radius)
        return np.asarray(fitted_lift(given.shape[1], self.n_directions, radius).transform(given))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        columns = self.preparation
        return {
            "directions": self.n_directions,
            "radius": self.radius,
            "location": None if columns is None else columns.location.tolist(),
            "scale": None if columns is None else columns.scale.tolist(),
        }

    @property
    def description(self) -> str:
        """Words that are equal for equal maps."""
        return f"rows {self.to_dict()!r}"


class ExactMap(Protocol):
    """What is done to rows before moments are taken of them, each by itself and in exact arithmetic."""

    @property
    def n_directions(self) -> int:
        """Directions of a lift, each of which adds two columns."""

    @property
    def description(self) -> str:
        """Words that are equal for equal maps."""

    def apply(self, rows: Array, /) -> Floats:
        """Return mapped rows, of length at most one."""


def plain_moments(
    rows: Array, labels: Labels, row_map: ExactMap, classes: Any = None, *, pooled: bool = True
) -> PrivateMoments:
    """Return the moments of mapped rows without noise, block by block: the blocks add up exactly."""
    agreed = PrivateMoments(
        None, classes=classes, centre=None, second_moments="pooled" if pooled else "class"
    )
    width = rows.shape[1] + 2 * row_map.n_directions
    step = max(1, BLOCK_VALUES // width)
    found: PrivateMoments | None = None
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        part = PrivateMoments(**agreed.get_params()).fit(row_map.apply(rows[block]), labels[block])
        found = part if found is None else PrivateMoments.total([found, part])
    assert found is not None  # there is at least one row
    found.encoding_ = row_map.description
    return found


def statistic_of(moments: PrivateMoments) -> Statistic:
    """Return counts, sums and the one Gram matrix of all rows."""
    return moments.counts_, moments.sums_, moments.second_moments_.sum(axis=0)


@one_blas_thread()
def check_possible(moments: PrivateMoments) -> None:
    """Refuse moments without noise that no rows of length one have, whatever the rows are.

    What is left to a site that lies is to invent rows: as many as it says it has, each no longer than one.
    Records of persons have weights, of which only the sum is known: there signs and steps are looked at.
    """
    counts, sums, grams = moments.counts_, moments.sums_, moments.second_moments_
    for part in (counts, sums, grams):
        steps = np.ldexp(part, 2 * DIGITS)
        if not np.array_equal(steps, np.rint(steps)):
            raise InvalidInputError("the sums of a site are no whole numbers of steps")
    if np.any(counts < 0.0) or counts.sum() > MOST_ROWS:
        raise InvalidInputError("the counts of a site are no numbers of rows")
    if moments.guarantee_.unit == "person":
        return
    if np.any(counts != np.rint(counts)):
        raise InvalidInputError("the counts of a site are no numbers of rows")
    # The nearest step can be half a step further in every column.
    longest = 1.0 + math.ldexp(math.sqrt(sums.shape[1]), -DIGITS - 1) + ROUNDING
    if np.any(np.linalg.norm(sums, axis=1) > counts * longest):
        raise InvalidInputError("the sums of a site are larger than its rows can have")
    sets = [slice(None)] if moments.is_pooled else [slice(code, code + 1) for code in range(len(counts))]
    for of_set, gram in zip(sets, grams, strict=True):
        n_rows = float(counts[of_set].sum())
        if not np.trace(gram) <= n_rows * longest**2:
            raise InvalidInputError("the products of a site are larger than its rows can have")
        known = np.flatnonzero(counts[of_set] > 0.0)
        totals = sums[of_set][known]
        # Deviations from the class means have a matrix of products of their own.
        inside = gram - (totals.T / counts[of_set][known]) @ totals
        inside.flat[:: len(inside) + 1] += ROUNDING * max(n_rows, 1.0)
        try:
            np.linalg.cholesky(inside)  # exists for these only
        except np.linalg.LinAlgError:
            raise InvalidInputError("the products of a site contradict its sums") from None


def folds_of(groups: Any, n_rows: int) -> Index:
    """Divide rows by a hash of their group, which is the same at every site and in every order."""
    names = np.asarray(groups.to_numpy() if hasattr(groups, "to_numpy") else groups)
    if names.shape != (n_rows,):
        raise InvalidInputError("groups must be one name or number for each row")
    if names.dtype.kind == "f" and np.isfinite(names).all() and (names == np.trunc(names)).all():
        names = names.astype(np.int64)  # a site that read 1 as 1.0 means the same group
    distinct, places = np.unique(names.astype(str), return_inverse=True)
    folds = [hashlib.sha256(name.encode()).digest()[0] % N_FOLDS for name in distinct.tolist()]
    return np.array(folds, dtype=np.intp)[places]


def in_folds(
    rows: Array, labels: Labels, folds: Index | None, row_map: RowMap, classes: Any
) -> list[PrivateMoments | None]:
    """Return the moments of each of the four folds, None for one without rows; without folds, of all rows."""
    if folds is None:
        return [plain_moments(rows, labels, row_map, classes)]
    found: list[PrivateMoments | None] = []
    for number in range(N_FOLDS):
        mine = np.flatnonzero(folds == number)
        found.append(plain_moments(rows[mine], labels[mine], row_map, classes) if mine.size else None)
    return found


def total_folds(sites: Sequence[Sequence[PrivateMoments | None]]) -> list[PrivateMoments]:
    """Add up each fold over sites; folds without rows are left out."""
    columns = ([fold for fold in column if fold is not None] for column in zip(*sites, strict=True))
    return [PrivateMoments.total(column) for column in columns if column]


@record
class _Folds(Record, kind=FOLDED):
    folds: tuple[Content | None, ...]


def pack_folds(folds: Sequence[PrivateMoments | None]) -> bytes:
    """Return the moments of each fold as the bytes of one file; None for a fold without rows."""
    return _Folds(tuple(None if fold is None else fold.to_bytes() for fold in folds)).to_bytes()


def is_folded(packed: bytes) -> bool:
    """Tell whether the bytes are moments in folds."""
    return kind_of(packed) == FOLDED


def unpack_folds(packed: bytes) -> list[PrivateMoments | None]:
    """Return the folds; None for one without rows."""
    folds = _Folds.from_bytes(packed).folds
    if len(folds) != N_FOLDS or not any(folds):
        raise FileFormatError("the message does not hold moments in folds")
    return [None if fold is None else PrivateMoments.from_bytes(fold) for fold in folds]
