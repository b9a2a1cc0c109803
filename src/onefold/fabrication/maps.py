"""How a row, or a row and its output, becomes one vector of length at most one, of which moments are taken.

The moments of pairs of a row and its output, of one class for all, are all that ridge regression needs: the
number of pairs, their sums, and the sums of all products of two columns.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from onefold._base.arrays import Array, Floats
from onefold._base.fixed_point import shortened, unit_rows
from onefold.encoders.projections import fitted_lift
from onefold.exceptions import InvalidInputError
from onefold.models.preparation import Preparation
from onefold.models.ridge import PairSums
from onefold.privacy.contract import contract_pairs
from onefold.privacy.moments import PrivateMoments
from onefold.tables import Schema

__all__ = [
    "PairMap",
    "RowMap",
    "candidate_maps",
    "checked_range",
    "declared_map",
    "declared_pairs",
    "directions_of",
    "pair_sums",
]

# Rows of standardised columns have length one on average; few are longer than this.
STANDARD_RADIUS = 4.0
# Rows of so many columns are taken for features of one kind: only their direction counts.
MANY_COLUMNS = 200

# Share of the squared length of a pair that its output may have; the row has the rest. Noise is the same in
# all products, so what is longer gets relatively less of it.
OUTPUT_SHARE = 0.3
# Declared ranges have this length in the units of a lift, whose kernel has the width one: entries that fill
# their range evenly then have about the deviation one.
SPAN = 3.0
DIRECTIONS = 512  # of a lift, but no more than half the rows
FEWEST_DIRECTIONS = 32
LARGEST = 1e150  # end of a range: squares must stay finite


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

    @property
    def description(self) -> str:
        """Words that are equal for equal maps."""
        columns = self.preparation
        scales = None if columns is None else (columns.location.tolist(), columns.scale.tolist())
        return f"rows {(self.n_directions, self.radius, scales)!r}"


@dataclass(frozen=True)
class PairMap:
    """How a row with its output as a last column becomes a vector of length at most one.

    Parameters
    ----------
    rows : RowMap
        What is done to the row.
    low : float
        Smallest output; smaller ones are raised to it.
    high : float
        Largest output; larger ones are lowered to it.
    """

    rows: RowMap
    low: float
    high: float

    @property
    def n_directions(self) -> int:
        """Directions of the lift."""
        return self.rows.n_directions

    @property
    def half(self) -> float:
        """Half the range of the outputs."""
        return self.high / 2.0 - self.low / 2.0 or 1.0  # all outputs are equal: any unit will do

    @property
    def _middle(self) -> float:
        return self.high / 2.0 + self.low / 2.0

    @property
    def unit(self) -> float:
        """What a step of one in the last column of a mapped pair is worth, in units of the output."""
        return self.half / math.sqrt(OUTPUT_SHARE)

    def apply(self, pairs: Array) -> Floats:
        """Return mapped pairs, each by itself and in exact arithmetic."""
        given = np.asarray(pairs, dtype=np.float64)
        return np.column_stack([self.inputs(given[:, :-1]), self.scaled(given[:, -1])])

    def inputs(self, rows: Array) -> Floats:
        """Return what of a mapped pair belongs to the row."""
        return np.asarray(math.sqrt(1.0 - OUTPUT_SHARE) * self.rows.apply(rows))

    def scaled(self, outputs: Array) -> Floats:
        """Return what of a mapped pair belongs to the output."""
        inside = np.clip(outputs, self.low, self.high)
        return np.asarray(np.clip((inside - self._middle) / self.half, -1.0, 1.0) * math.sqrt(OUTPUT_SHARE))

    def outputs(self, scaled: Array) -> Floats:
        """Return the outputs that last columns of mapped pairs stand for."""
        return np.asarray(self._middle + self.unit * scaled)

    @property
    def description(self) -> str:
        """Words that are equal for equal maps."""
        return f"pairs of {self.rows.description}, {self.low!r} to {self.high!r}"


def checked_range(name: str, given: Any, width: int | None = None, empty: bool = False) -> Floats:
    """Return a declared range as an array: two numbers, or two rows of ``width`` numbers.

    Parameters
    ----------
    name : str
        What an error calls it.
    given : pair
        Lowest and highest value; with a width either may be one number for all columns.
    width : int or None, default=None
        Number of columns; None for one pair of numbers.
    empty : bool, default=False
        Allow that the two are equal.

    Returns
    -------
    ndarray of shape (2,) or (2, width)
        The range.
    """
    shape: tuple[int, ...] = () if width is None else (width,)
    what = "two numbers" if width is None else "a pair of numbers, or of one number per column,"
    wrong = InvalidInputError(f"{name} must be {what} (lowest, highest), the first below the second")
    try:
        low, high = given
        ends = [np.broadcast_to(np.asarray(end, dtype=np.float64), shape) for end in (low, high)]
    except (TypeError, ValueError):
        raise wrong from None
    found = np.array(ends)
    ordered = found[0] <= found[1] if empty else found[0] < found[1]
    if not (np.isfinite(found).all() and np.abs(found).max(initial=0.0) <= LARGEST and np.all(ordered)):
        raise wrong
    return found


def candidate_maps(
    rows: Array, radius: float | None, lift: Literal["auto"] | int | None, *, of_one_kind: bool
) -> list[RowMap]:
    """Return the maps that are tried, of which ``radius`` and a number of directions leave few.

    Columns ``of_one_kind`` are not standardised.
    """
    scalings = [RowMap(0, radius)]
    if radius is None and not of_one_kind and rows.shape[1] < MANY_COLUMNS:
        scalings.append(RowMap(preparation=Preparation.of(rows)))
    return [
        replace(scaling, n_directions=number)
        for number in directions_of(lift, len(rows))
        for scaling in scalings
    ]


def directions_of(lift: Literal["auto"] | int | None, n_rows: int) -> list[int]:
    """Numbers of directions of a lift that are tried: with "auto" none, and as many as rows can bear."""
    if lift != "auto":
        return [int(lift or 0)]
    most = min(DIRECTIONS, n_rows // 2)
    return [0, most] if most >= FEWEST_DIRECTIONS else [0]


def declared_map(schema: Schema, x_range: Floats | None, n_directions: int) -> RowMap:
    """Return the map of rows by what was declared about their columns, and by nothing else.

    Numbers are seen from the middle of their range. That a number is missing counts as much as half its
    range, so a column with gaps makes no row longer.
    """
    if x_range is not None:
        low, high = x_range
        columns = Preparation(low / 2.0 + high / 2.0, (high - low) / SPAN)
        return RowMap(n_directions, SPAN / 2.0, columns)
    if schema.plain:  # behind an encoder, whose rows have the length one
        return RowMap(n_directions, 1.0)
    location: list[float] = []
    scale: list[float] = []
    square = 0.0
    for known in schema.features:
        number = not known.is_category and known.encoder is None
        own = known.width - (known.nullable and not known.is_category)
        location += [0.5 if number else 0.0] * own + [0.0] * (known.width - own)
        scale += [1.0 / SPAN] * own + [2.0 / SPAN] * (known.width - own)
        longest = known.norm_squared if known.is_category else 0.25
        if number and known.nullable and known.fill is not None:
            longest = 0.5  # what is filled in may be far from the middle
        square += longest * SPAN**2
    return RowMap(
        n_directions, math.sqrt(square / len(location)), Preparation(np.array(location), np.array(scale))
    )


def declared_pairs(schema: Schema, X: Any, y: Any, person: Any, *, noisy: bool) -> tuple[Floats, Floats, Any]:
    """Return rows, outputs and persons of a table by its schema; rows without a number are left out.

    Parameters
    ----------
    schema : Schema
        What is declared about the table; its label is a number.
    X : table
        The rows.
    y : array-like of shape (n,) or None
        Their outputs; None takes the label column.
    person : array-like of shape (n,), False or None
        Who each row is about.
    noisy : bool
        Whether noise is to be added: the schema must then be declared, and no cell decides on an error.

    Returns
    -------
    rows : ndarray of shape (m, p)
        Encoded rows.
    outputs : ndarray of shape (m,)
        Their outputs.
    person : Any
        Who they are about.
    """
    if schema.source == "private" and not noisy:  # which only noise would forbid
        rows = schema.encode(schema.parse(X))
        assert schema.label is not None  # as the settings were checked
        numbers, known = schema.outputs(X if y is None else {schema.label.name: y}, strict=False)
        if known.shape != (len(rows),):
            raise InvalidInputError("y must hold one number for each row")
        return rows[known], numbers, None
    rows, found, person = contract_pairs(schema, X, y, person if noisy else False)
    if not noisy and not len(rows):
        raise InvalidInputError("no row of the table has a number in the label column")
    return rows, np.asarray(found, dtype=np.float64), person


def pair_sums(moments: PrivateMoments) -> PairSums:
    """Return the sums of pairs that moments of one class hold."""
    if len(moments.counts_) != 1 or moments.sums_.shape[1] < 2:
        raise InvalidInputError("these are no moments of rows with one output")
    return PairSums(
        float(moments.counts_[0]),
        moments.sums_[0],
        moments.second_moments_[0],
        count_noise=float(moments.count_noise_[0]),
        sum_noise=float(moments.sum_noise_[0]),
        product_noise=float(moments.second_noise_[0]),
        row_square=1.0 - OUTPUT_SHARE,
        output_square=OUTPUT_SHARE,
    )
