"""Several looks at whole numbers, and a fitted map, written out row by row as the definitions say."""

from __future__ import annotations

import math
from fractions import Fraction

MISSING = -1


def fine_number(measure: float, knots: list[float], bits: int, looks: int) -> int:
    """The fine number of one measure: K times the part of the way between the knots, rounded to even."""
    if math.isnan(measure):
        return MISSING
    most = looks * (2**bits - 1)
    if measure <= knots[0]:
        return 0
    if measure >= knots[-1]:
        return most
    for place in range(len(knots) - 1):
        low, high = knots[place], knots[place + 1]
        if low <= measure < high:
            part = (Fraction(measure) - Fraction(low)) / (Fraction(high) - Fraction(low))
            return round(most * (place + part) / (len(knots) - 1))
    raise AssertionError("knots increase")


def seen(fine: int, look: int, looks: int) -> int:
    """The number that one look compares."""
    return MISSING if fine == MISSING else (fine + look) // looks


def winners(table: list[list[int]]) -> list[bool]:
    """The classes of one row that attain the minimum; ``table`` is (sites, classes)."""
    there = [number for site in table for number in site if number != MISSING]
    smallest = min(there, default=None)
    return [
        smallest is not None and any(site[column] == smallest for site in table)
        for column in range(len(table[0]))
    ]


def winners_in_every_look(table: list[list[int]], looks: int) -> list[bool]:
    """The classes of one row that attain the minimum in each look."""
    left = [True] * len(table[0])
    for look in range(looks):
        now = winners([[seen(number, look, looks) for number in site] for site in table])
        left = [before and also for before, also in zip(left, now, strict=True)]
    return left
