"""Encoding of a table, cell by cell, as the contract words it: slow, and nothing but Python."""

import math


def encode_number(text, low, high, *, log_unit=None, nullable=False, fill=None):
    """A number as its place in the range; (fill, 1) where it is missing."""

    def place(value):
        inside = min(max(value, low), high) - low
        if log_unit is not None:
            return math.log(1 + inside / log_unit) / math.log(1 + (high - low) / log_unit)
        return inside / (high - low)

    filled = 0.5 if fill is None else place(fill)
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        return [filled, 1.0] if nullable else [filled]
    return [place(value), 0.0] if nullable else [place(value)]


def encode_category(text, levels, *, nullable=False, other=None):
    """One-hot over the root of 2; one more category for missing cells; zeros for what has no category."""
    columns = [0.0] * (len(levels) + nullable)
    if text in levels:
        columns[levels.index(text)] = 1 / math.sqrt(2)
    elif text and other is not None:
        columns[levels.index(other)] = 1 / math.sqrt(2)
    elif nullable:
        columns[-1] = 1 / math.sqrt(2)
    return columns
