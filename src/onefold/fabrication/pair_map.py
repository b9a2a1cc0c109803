"""How a row and its output become one vector of length at most one, of which moments are taken.

The moments of such vectors, of one class for all, are all that ridge regression needs: the number of pairs,
their sums, and the sums of all products of two columns.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import Array, Floats
from onefold.encoders import learns
from onefold.exceptions import InvalidInputError
from onefold.fabrication.plain_moments import RowMap
from onefold.models.preparation import Preparation
from onefold.models.ridge import PairSums
from onefold.privacy.contract import contract_pairs
from onefold.privacy.moments import PrivateMoments
from onefold.tables import Schema

__all__ = ["DeclaredPairs", "PairMap", "checked_range", "declared_map", "declared_pairs", "pair_sums"]

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"rows": self.rows.to_dict(), "low": self.low, "high": self.high}

    @property
    def description(self) -> str:
        """Words that are equal for equal maps."""
        return f"pairs {self.to_dict()!r}"


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


@dataclass(frozen=True)
class DeclaredPairs:
    """What was declared about rows and their outputs before anybody looked at them, and what follows.

    Parameters
    ----------
    schema : Schema
        Declares columns and the range of the label.
    encoder : transformer or None
        What rows go through first.
    x_range : pair or None
        Range of the columns, without a schema and an encoder.
    y_range : pair of floats or None
        Range of the outputs, without a schema.
    """

    schema: Schema
    encoder: Any
    x_range: Any
    y_range: Any

    def ends(self, outputs: Array | None = None) -> tuple[float, float]:
        """Return the range of outputs: declared, or that of the outputs themselves."""
        given = self.y_range
        if self.schema.label is not None:
            given = (self.schema.label.low, self.schema.label.high)
        if given is None and outputs is not None:
            low, high = checked_range("the range of y", (outputs.min(), outputs.max()), empty=True)
        else:
            low, high = checked_range("y_range", given)
        return float(low), float(high)

    def map(self, width: int, n_directions: int) -> PairMap:
        """Return the map of pairs by what was declared alone."""
        schema = Schema.of(None) if self.encoder is not None else self.schema
        box = None if self.x_range is None else checked_range("x_range", self.x_range, width)
        return PairMap(declared_map(schema, box, n_directions), *self.ends())

    def maps(self, rows: Array, outputs: Array, lift: Any) -> list[PairMap]:
        """Return the maps that are compared without noise; what was not declared is taken from the rows."""
        if lift == "auto":
            most = min(DIRECTIONS, len(rows) // 2)
            lifts = [0, most] if most >= FEWEST_DIRECTIONS else [0]
        else:
            lifts = [0 if lift is None else int(lift)]
        schema, box = Schema.of(None), None
        if self.encoder is None:
            schema = self.schema
            box = None if self.x_range is None else checked_range("x_range", self.x_range, rows.shape[1])
        unknown = (schema.plain and box is None and self.encoder is None) or learns(self.encoder)
        ends = self.ends(outputs)
        if unknown:
            return [PairMap(RowMap(each, None, Preparation.of(rows)), *ends) for each in lifts]
        return [PairMap(declared_map(schema, box, each), *ends) for each in lifts]


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
