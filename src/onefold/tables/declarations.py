"""What a declaration of a column must say so that everything can follow from it."""

import math
from itertools import pairwise
from typing import Any

__all__ = ["ENCODED_ROLES", "article", "objection"]

TYPES = ("number", "integer", "string", "boolean", "date", "datetime")
ROLES = ("feature", "label", "ignored", "identifier", "person")
ENCODED_ROLES = ("feature", "label")


def article(kind: str) -> str:
    """Return the name of a type with its article."""
    return f"an {kind}" if kind == "integer" else f"a {kind}"


def objection(given: Any) -> str | None:
    """Return why nothing could follow from a declaration, or None if it is sound.

    Parameters
    ----------
    given : Field
        The declaration.

    Returns
    -------
    str or None
        What is wrong with it.
    """
    if not isinstance(given.name, str) or not given.name:
        return "the name must be a text that is not empty"
    if given.type not in TYPES:
        return f"type must be one of {', '.join(TYPES)}"
    if given.role not in ROLES:
        return f"onefold:role must be one of {', '.join(ROLES)}"
    if given.scale not in ("linear", "log"):
        return "onefold:scale must be linear or log"
    if given.missing not in ("refuse", "indicator"):
        return "onefold:missing must be refuse or indicator"
    texts = (given.unit, given.format, given.written.decimal, given.written.group, given.review)
    if not all(isinstance(text, str) for text in texts):
        return "unit, format, decimalChar, groupChar and review must be texts"
    if not given.written.decimal or given.written.decimal == given.written.group:
        return "decimalChar and groupChar must be two different marks"
    if given.role not in ENCODED_ROLES:
        return None
    if given.type == "string" and not given.levels:
        return 'text without categories: list them in constraints.enum, or set onefold:role to "ignored"'
    if given.is_category:
        return _objection_to_levels(given)
    return _objection_to_range(given)


def _objection_to_levels(given: Any) -> str | None:
    wanted: Any = {"string": str, "boolean": bool}.get(given.type, (int, float))
    if given.type in ("date", "datetime") or not all(isinstance(level, wanted) for level in given.levels):
        return f"every entry of constraints.enum must be {article(given.type)}"
    if given.type in ("number", "integer") and any(isinstance(level, bool) for level in given.levels):
        return "entries of constraints.enum must be numbers"
    if len(set(given.levels)) != len(given.levels):
        return "an entry of constraints.enum stands there twice"
    if any(isinstance(level, str) and (not level or level != level.strip()) for level in given.levels):
        return "entries of constraints.enum must be texts that neither begin nor end with a blank"
    if given.other is not None and given.other not in given.levels:
        return "onefold:other must be one of the categories in constraints.enum"
    if given.low is not None or given.high is not None:
        return "a column of categories has neither minimum nor maximum"
    return None


def _objection_to_range(given: Any) -> str | None:
    if given.other is not None:
        return "onefold:other is for categories"
    for value in (given.low, given.high):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return "minimum and maximum must be finite numbers: declare them from what the column means"
    low, high = float(given.low or 0.0), float(given.high or 0.0)
    if not low < high or not math.isfinite(high - low):
        return "minimum must be below maximum"
    if given.type != "number" and math.ceil(low) > math.floor(high):
        return "there is no whole number between minimum and maximum"
    for key, value in (("logUnit", given.log_unit), ("fill", given.fill)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            return f"onefold:{key} must be a number"
    if given.log_unit is not None and not 0 < given.log_unit < math.inf:
        return "onefold:logUnit must be a positive number"
    if given.fill is not None and not low <= given.fill <= high:
        return "onefold:fill must be inside the range"
    edges = given.bins
    if edges and (
        not all(isinstance(edge, (int, float)) and low < edge < high for edge in edges)
        or any(left >= right for left, right in pairwise(edges))
    ):
        return "onefold:bins must be ascending numbers inside the range"
    return None
