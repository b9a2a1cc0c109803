"""Before anything is spent: what an attacker could learn, in the units of the table, and what it costs.

Nothing here looks at a row. Everything follows from the schema, epsilon and the declared number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from onefold._base.arrays import Floats
from onefold.exceptions import InvalidInputError
from onefold.fabrication import mock_table
from onefold.privacy import OptimalNoise, domain_of
from onefold.report import PrivacyUtilityDisplay
from onefold.report.forecast import CELLS, right_cell_shares
from onefold.tables import Field, Schema

__all__ = [
    "check_wish",
    "curve",
    "entry_noise",
    "learnable",
    "narrowest",
    "rightest",
]

DELTA = 1e-5
DRAWS = 2000
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
USUAL_ROWS = 1000  # where nobody says how many there are
CLOSE = 0.1  # of a range: noise that moves a number by less has left it useful
SECONDS_PER_DAY = 86_400.0


def check_wish(schema: Schema, unit: Any, epsilon: Any) -> None:
    """Refuse a unit that is none, an epsilon out of all proportion, and persons that no column names."""
    if unit not in ("entry", "record", "person"):
        raise InvalidInputError("choose what to protect: entry, record or person")
    if isinstance(epsilon, bool) or not (isinstance(epsilon, int | float) and 0.01 <= epsilon <= 64):
        raise InvalidInputError("epsilon must be between 0.01 and 64")
    if unit == "person" and (schema.person is None or schema.rows_per_person is None):
        raise InvalidInputError(
            "to protect persons, say which column names them and how many rows count at most"
        )


# --- what an attacker could learn ---------------------------------------------------------------------------


def rightest(chance: float, epsilon: float, *, replaced: bool, delta: float = DELTA) -> float:
    """Largest probability of a right guess about a cell, if ``chance`` is that without the release.

    The attacker knows everything else; s is the probability looked for, and E the event "the guess is right".
    Without the row the release knows nothing of the cell, and E happens by chance: privacy changes the
    probabilities of E and of its opposite by a factor of at most exp(epsilon), but for delta. Where cells are
    ``replaced``, take the true value and another one, drawn alike and independently: that the guess takes in
    the first and not the second has probability s (1 - chance), and chance (1 - s) if both change places.
    """
    grown = math.exp(epsilon)
    if replaced:
        return min(1.0, (grown * chance + delta) / (1.0 - chance + grown * chance))
    return min(1.0, grown * chance + delta, 1.0 - max(1.0 - chance - delta, 0.0) / grown)


def narrowest(epsilon: float, *, replaced: bool, delta: float = DELTA) -> float:
    """Smallest share of the possible values that a guess which is right in half of all cases leaves open."""
    grown = math.exp(epsilon)
    if replaced:
        return (1.0 - 2.0 * delta) / (1.0 + grown)
    return max((0.5 - delta) / grown, 1.0 - delta - 0.5 * grown)


def learnable(schema: Schema, unit: str, epsilon: float) -> dict[str, Any]:
    """What an attacker could learn at this epsilon: of a record as a whole, and of the cells of each column.

    Parameters
    ----------
    schema : Schema
        The table as it was declared.
    unit : {"entry", "record", "person"}
        What is protected.
    epsilon : float
        How well.

    Returns
    -------
    dict of str to Any
        ``odds`` in words, ``right`` in 100 cases at most, and ``columns``, each in its own unit.
    """
    check_wish(schema, unit, epsilon)
    # The best test between two possibilities is right this often; rounded up, so that "at most" is true.
    right = math.ceil(1000 * (1.0 + DELTA * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))) / 10
    moved = _moved(schema, epsilon) if unit == "entry" and schema.features else {}
    used = [each for each in schema.fields if each.role in ("feature", "label")]
    return {
        "odds": _words(unit, right),
        "right": right,
        "columns": [_learnable_of(each, unit, epsilon, moved.get(each.name)) for each in used],
    }


def _words(unit: str, right: float) -> str:
    secret = {
        "entry": "Which of two values one cell has",
        "record": "Whether one record is in the table",
        "person": "Whether one person's rows are in the table",
    }[unit]
    more = " Whole rows and persons are not protected." if unit == "entry" else ""
    return (
        f"{secret}: an attacker who knows everything else, and would guess right in 50 of 100 cases, guesses "
        f"right in at most {right:g} of 100.{more}"
    )


def _learnable_of(field: Field, unit: str, epsilon: float, moved: float | None) -> dict[str, Any]:
    """One column, for an attacker to whom all its declared values are equally likely."""
    if field.is_category:
        chance = 1.0 / len(field.levels)
        at_most = math.ceil(1000 * rightest(chance, epsilon, replaced=unit == "entry")) / 10
        before, after = f"{_shown(100 * chance)} of 100 right", f"at most {at_most:g} of 100 right"
        return {"column": field.name, "before": before, "after": after, "moved": None}
    # A guess of +- h leaves open a stretch of 2 h, or 2 h + 1 whole numbers.
    reach, behind = float(field.high or 0.0) - float(field.low or 0.0), f" {field.unit}".rstrip()
    whole = 1.0 if field.type in ("date", "integer") else 0.0
    if field.type in ("date", "datetime"):
        reach, behind = reach / (SECONDS_PER_DAY if field.type == "datetime" else 1.0), " days"
    shares = (0.5, narrowest(epsilon, replaced=unit == "entry"))
    wide, narrow = (max(share * (reach + whole) - whole, 0.0) / 2 for share in shares)
    exact = whole > 0.0 and narrow < whole / 2
    return {
        "column": field.name,
        "before": f"± {_shown(wide)}{behind}",
        "after": "the very value" if exact else f"± {_shown(narrow, down=True)}{behind} or wider",
        "moved": None if moved is None else f"{_shown(moved * reach)}{behind}",
    }


def _shown(number: float, *, down: bool = False) -> str:
    """Three digits, rounded down where a smaller number is the safe one to say."""
    if number <= 0.0:
        return "0"
    place = 2 - math.floor(math.log10(number))
    shifted = number * 10.0**place
    # Longer numbers keep all digits in front of the point: 12 345 and not 12 300.
    whole = (math.floor if down else round)(number) if place < 0 else None
    return (
        f"{whole:,}" if whole is not None else f"{(math.floor if down else round)(shifted) / 10.0**place:g}"
    )


# --- what it costs ------------------------------------------------------------------------------------------


def entry_noise(schema: Schema, epsilon: float) -> OptimalNoise:
    """The noise on every cell."""
    return OptimalNoise(epsilon, DELTA, sensitivity=domain_of(schema))


def curve(schema: Schema, unit: str) -> PrivacyUtilityDisplay:
    """How useful the table would be at several epsilons, from rows that are made up from the schema.

    Of records and persons: the share of rows that noise leaves in the right cell of a single column. Of
    entries: the share of cells that noise leaves within a tenth of the range, or in their category. Both of
    the column with which it goes worst.
    """
    check_wish(schema, unit, 1.0)
    if unit == "entry":
        shares = [min(_kept(schema, each), default=0.0) for each in EPSILONS]
        measure = "cells that stay close, worst column"
    else:
        shares = right_cell_shares(schema, EPSILONS, schema.rows_about or USUAL_ROWS, unit, DELTA)
        measure = CELLS
    return PrivacyUtilityDisplay(EPSILONS, {"forecast": shares}, measure=measure, unit=unit)


def _kept(schema: Schema, epsilon: float) -> list[float]:
    """Of each feature the share of cells that noise leaves close, before smoothing."""
    found = []
    for each, rows, noisy in _noisy_features(schema, epsilon):
        if each.is_category:
            found.append(float(np.mean(np.argmax(noisy, axis=1) == np.argmax(rows, axis=1))))
        else:
            found.append(float(np.mean(np.abs(noisy[:, 0] - rows[:, 0]) <= CLOSE)))
    return found


def _moved(schema: Schema, epsilon: float) -> dict[str, float]:
    """By which share of its range noise moves half of the cells of each linear column, before smoothing."""
    return {
        each.name: float(np.median(np.abs(noisy[:, 0] - rows[:, 0])))
        for each, rows, noisy in _noisy_features(schema, epsilon)
        if not each.is_category and each.scale == "linear"
    }


def _noisy_features(schema: Schema, epsilon: float) -> Iterator[tuple[Field, Floats, Floats]]:
    """Each feature with its encoded cells of rows that are made up, and the same with noise.

    Values that would leave the range are moved to its ends.
    """
    rows = schema.transform(mock_table(schema, DRAWS, random_state=0))
    noisy = np.clip(rows + entry_noise(schema, epsilon).sample(rows.shape, random_state=0), 0.0, 1.0)
    places = np.cumsum([0, *(each.width for each in schema.features)])
    for each, place in zip(schema.features, places, strict=False):
        n = each.width - each.nullable
        yield each, rows[:, place : place + n], noisy[:, place : place + n]
