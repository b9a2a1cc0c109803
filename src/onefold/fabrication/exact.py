"""Moments without noise: of all rows or of folds of groups, as they add up over sites.

Nothing here is private. Sums are exact whole numbers, so they do not depend on how rows are spread over
sites, on who joins first, or on who has left.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold._base.arrays import Array, Index, Labels
from onefold._base.fixed_point import DIGITS, MOST_ROWS
from onefold._base.parallel import one_blas_thread
from onefold._base.records import Record, record
from onefold.exceptions import InvalidInputError
from onefold.fabrication.maps import PairMap, RowMap
from onefold.models.ridge import Statistic
from onefold.privacy.moments import PrivateMoments

__all__ = ["MomentFolds", "check_possible", "folds_of", "plain_moments", "statistic_of"]

N_FOLDS = 4
# Values of mapped rows that are in memory together.
BLOCK_VALUES = 8_000_000
# What float64 makes of sums, as a share of them.
ROUNDING = 1e-9


def plain_moments(
    rows: Array, labels: Labels, row_map: RowMap | PairMap, classes: Any, encoding: str = ""
) -> PrivateMoments:
    """Return the moments of mapped rows without noise, block by block: the blocks add up exactly."""
    step = max(1, BLOCK_VALUES // (rows.shape[1] + 2 * row_map.n_directions))
    found: PrivateMoments | None = None
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        part = PrivateMoments(None, classes=classes, centre=None, second_moments="pooled")
        part.fit(row_map.apply(rows[block]), labels[block])
        found = part if found is None else PrivateMoments.total([found, part])
    assert found is not None  # there is at least one row
    found.encoding_ = encoding
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


@record
class MomentFolds(Record, kind="moments in folds"):
    """The moments without noise of each of four folds of groups, as one message of a site.

    Parameters
    ----------
    parts : tuple of PrivateMoments or None
        The moments of each fold; None for one without rows.
    """

    parts: tuple[PrivateMoments | None, ...]

    def __post_init__(self) -> None:
        """Refuse what are no folds, as in a foreign message."""
        if len(self.parts) != N_FOLDS or not self.present:
            raise InvalidInputError("the message does not hold moments in folds")

    @classmethod
    def of(
        cls, rows: Array, labels: Labels, folds: Index, row_map: RowMap, classes: Any, encoding: str = ""
    ) -> "MomentFolds":
        """Take the moments of mapped rows of each fold."""
        places = [np.flatnonzero(folds == number) for number in range(N_FOLDS)]
        parts = (
            plain_moments(rows[some], labels[some], row_map, classes, encoding) if some.size else None
            for some in places
        )
        return cls(tuple(parts))

    @property
    def present(self) -> list[PrivateMoments]:
        """The moments of folds that have rows."""
        return [part for part in self.parts if part is not None]

    @property
    def together(self) -> PrivateMoments:
        """The moments of all folds together."""
        return PrivateMoments.total(self.present)

    @classmethod
    def total(cls, sites: Sequence["MomentFolds"]) -> "MomentFolds":
        """Add up each fold over sites."""
        folds = zip(*(site.parts for site in sites), strict=True)
        columns = ([part for part in fold if part is not None] for fold in folds)
        return cls(tuple(PrivateMoments.total(column) if column else None for column in columns))
