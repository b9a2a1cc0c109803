"""What the declaration of a column, or of a table, must say so that everything can follow from it."""

import math
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Any, NamedTuple

__all__ = [
    "ENCODED_ROLES",
    "WHOLE_NUMBERS",
    "Confirmation",
    "article",
    "can_be_written",
    "number_objection",
    "objection",
    "schema_objection",
]

TYPES = ("number", "integer", "string", "boolean", "date", "datetime")
ROLES = ("feature", "label", "ignored", "identifier", "person")
ENCODED_ROLES = ("feature", "label")
SOURCES = ("declared", "public", "private")
MOST_FIELDS = 20_000
WHOLE_NUMBERS = 2**53  # up to here every whole number is a number of its own
# The years 1 to 9999, in days and in seconds since 1970.
CALENDAR = {"date": (-719_162, 2_932_896), "datetime": (-719_162 * 86_400, 2_932_897 * 86_400 - 1)}


LONGEST_GROUND = 500


class Confirmation(NamedTuple):
    """Who confirmed what a schema says of a column, when, and on what ground.

    Parameters
    ----------
    by : str
        Who answers for it.
    on : str
        The day, such as 2026-12-31.
    ground : str
        From where it is known without the private rows: a code book, a law, a public sample.
    public_source : bool, default=False
        Whether the ground is a public source from which the schema was inferred.
    """

    by: str
    on: str
    ground: str
    public_source: bool = False


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
    lists = (given.true_values, given.false_values, given.missing_values or ())
    if not all(isinstance(text, str) for texts in lists for text in texts):
        return "trueValues, falseValues and missingValues must be lists of texts"
    if not isinstance(given.required, bool) or not isinstance(given.written.bare, bool):
        return "required and bareNumber must be true or false"
    if not can_be_written((given.name, *texts, *chain(*lists), *given.levels)):
        return "a text in it cannot be written to a file"
    if given.confirmed is not None and not _is_confirmation(given.confirmed):
        return (
            f"onefold:confirmed must name by, on and ground, lines of at most {LONGEST_GROUND} characters, "
            "and whether it is a publicSource"
        )
    if not given.written.decimal or given.written.decimal == given.written.group:
        return "decimalChar and groupChar must be two different marks"
    wrong = _objection_to_numbers(given) or _objection_to_encoder(given)
    if wrong or given.role not in ENCODED_ROLES:
        return wrong
    if given.encoder is not None:
        return None
    if given.type == "string" and not given.levels:
        return (
            "text without categories: list them in constraints.enum, name an encoder in onefold:encoder, or "
            'set onefold:role to "ignored"'
        )
    if given.is_category:
        return _objection_to_levels(given)
    return _objection_to_range(given)


def _is_confirmation(given: Any) -> bool:
    if not isinstance(given, Confirmation) or not isinstance(given.public_source, bool):
        return False
    texts = given[:3]
    lines = all(isinstance(text, str) and 0 < len(text) <= LONGEST_GROUND for text in texts)
    return lines and "".join(texts).isprintable() and all(map(str.strip, texts))


def _objection_to_numbers(given: Any) -> str | None:
    """Numbers and dates must be readable from the file they are written to, whatever the column is for."""
    told = {"minimum": given.low, "maximum": given.high, "onefold:fill": given.fill}
    for key, value in (*told.items(), ("onefold:logUnit", given.log_unit)):
        if value is not None and not _is_finite(value):
            return f"{key} must be finite: declare it from what the column means"
    if given.type in CALENDAR:
        if given.format != "default" and not _is_pattern(given.format):
            return 'format must be "default" or a pattern such as %d/%m/%Y'
        first, last = CALENDAR[given.type]
        for key, value in told.items():
            if value is not None and not (first <= value <= last and float(value).is_integer()):
                unit = "day" if given.type == "date" else "second"
                return f"{key} must be a whole {unit} of the years 1 to 9999"
    return None


def _objection_to_encoder(given: Any) -> str | None:
    if given.encoder is None:
        return None
    if not hasattr(given.encoder, "digest") or not hasattr(given.encoder, "width"):
        return "encoder must be a CellEncoder, an OnnxEncoder or a SentenceEncoder"
    if given.type != "string" or given.role == "label":
        return "onefold:encoder is for a column of the type string that is no label"
    others = (given.low, given.high, given.fill, given.other, given.log_unit)
    if given.levels or given.bins or any(value is not None for value in others):
        return "a column with an encoder has neither range nor categories"
    return None


def _is_pattern(text: str) -> bool:
    """Whether dates can be written and read by a pattern."""
    moment = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    try:
        datetime.strptime(moment.strftime(text), text)
    except (ValueError, re.error):  # a stray %, or a part that stands there twice
        return False
    return "%" in text


def can_be_written(texts: Iterable[Any]) -> bool:
    """Whether no text holds half a character, as JSON allows."""
    try:
        "".join(text for text in texts if isinstance(text, str)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_finite(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and -sys.float_info.max <= value <= sys.float_info.max


def _objection_to_levels(given: Any) -> str | None:
    wanted: Any = {"string": str, "boolean": bool}.get(given.type, (int, float))
    if given.type in ("date", "datetime") or not all(isinstance(level, wanted) for level in given.levels):
        return f"every entry of constraints.enum must be {article(given.type)}"
    if given.type in ("number", "integer") and not all(map(_is_finite, given.levels)):
        return "entries of constraints.enum must be finite numbers"
    if given.type == "integer" and not all(
        float(level).is_integer() and abs(level) <= WHOLE_NUMBERS for level in given.levels
    ):
        return "entries of constraints.enum must be whole numbers of at most 15 digits"
    known = given.levels if given.type == "string" else map(float, given.levels)
    if len(set(known)) != len(given.levels):
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
    if given.low is None or given.high is None:
        return "minimum and maximum must be finite numbers: declare them from what the column means"
    low, high = float(given.low), float(given.high)
    if not low < high or not math.isfinite(high - low):
        return "minimum must be below maximum"
    if given.type != "number" and math.ceil(low) > math.floor(high):
        return "there is no whole number between minimum and maximum"
    if given.log_unit is not None and given.log_unit <= 0:
        return "onefold:logUnit must be a positive number"
    if given.fill is not None and not low <= given.fill <= high:
        return "onefold:fill must be inside the range"
    edges = given.bins
    if edges and (
        not all(_is_finite(edge) and low < edge < high for edge in edges)
        or any(left >= right for left, right in pairwise(edges))
    ):
        return "onefold:bins must be ascending numbers inside the range"
    return None


def schema_objection(given: Any) -> str | None:
    """Return why the declarations of columns make no table, or None if they do.

    Parameters
    ----------
    given : Schema
        The declarations, each of which is sound.

    Returns
    -------
    str or None
        What is wrong with them.
    """
    wrong = number_objection(given.fields)
    if wrong:
        return wrong
    seen: set[str] = set()
    for known in given.fields:
        if known.name in seen:
            return f"two fields of the schema are called {known.name!r}"
        seen.add(known.name)
    for role in ("label", "person"):
        named = [known.name for known in given.fields if known.role == role]
        if len(named) > 1:
            return f"fields {named[0]!r} and {named[1]!r} both have the role {role}"
    for key, value in (("rowsAbout", given.rows_about), ("rowsPerPerson", given.rows_per_person)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            return f"{key} must be a whole number from 1 on"
    if given.source not in SOURCES:
        return f"source must be one of {', '.join(SOURCES)}"
    texts = (given.name, *given.missing_values)
    if not all(isinstance(text, str) for text in texts) or not can_be_written(texts):
        return "name and missingValues of a schema must be texts"
    return None


def number_objection(fields: Sequence[Any]) -> str | None:
    """Return what is wrong with the number of fields, before any of them is looked at."""
    return None if 1 <= len(fields) <= MOST_FIELDS else f"a schema has from 1 to {MOST_FIELDS} fields"
