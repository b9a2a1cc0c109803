"""Cells of another table than a model was fitted to: numbers and dates may be written in another way."""

from dataclasses import replace
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.tables.cells import cells_of
from onefold.tables.fields import OUTSIDE, UNDECLARED, UNREADABLE, Field
from onefold.tables.inference import MISSING_TOKENS, NUMBER_FORMATS, guess_fields
from onefold.tables.schema import Schema

STRANGE_SHARE = 0.2  # so many cells without a value make a column worth a remark


def read_like(known: Field, column: Any, tokens: tuple[str, ...]) -> tuple[AnyArray, bool, bool]:
    """The cells of a column, whether they are written in another way, and whether many say nothing."""
    values, problems = known.read(column, tokens)
    wrong, rewritten = _wrong(problems), False
    other = _in_its_own_way(known, column, tokens) if wrong > STRANGE_SHARE else None
    if other is not None:
        guess, guess_problems = other.read(column, tokens)
        if _wrong(guess_problems) < wrong - STRANGE_SHARE:
            values, problems, rewritten = guess, guess_problems, True
    strange = float(np.mean(np.isin(problems, (UNREADABLE, UNDECLARED)))) > STRANGE_SHARE
    return values, rewritten, strange


def tokens_of(schema: Schema, known: Field) -> tuple[str, ...]:
    """Texts for a missing cell; where nobody declared them, also those that other programs write."""
    own = tuple(schema.missing_values) if known.missing_values is None else tuple(known.missing_values)
    if schema.source == "declared":
        return own
    return (*own, *(token for token in MISSING_TOKENS if token not in own and token not in known.levels))


def _wrong(problems: AnyArray) -> float:
    """Share of cells that cannot be what the column is about."""
    return float(np.mean(np.isin(problems, (UNREADABLE, OUTSIDE))))


def _in_its_own_way(known: Field, column: Any, tokens: tuple[str, ...]) -> Field | None:
    """The same field for numbers or dates as this column writes them; None if there is no other way."""
    if known.is_category or known.encoder is not None or cells_of(column)[0].dtype.kind != "O":
        return None
    if known.type in ("date", "datetime"):
        guess = guess_fields([{known.name: column}])[0][0]
        return replace(known, format=guess.format) if guess.type in ("date", "datetime") else None
    ways = [replace(known, written=written) for written in NUMBER_FORMATS]
    return min(ways, key=lambda way: _wrong(way.read(column, tokens)[1]))
