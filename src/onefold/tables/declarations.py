"""What the declaration of a column, or of a table, must say so that everything can follow from it."""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Any, NamedTuple

__all__ = ["ENCODED_ROLES", "Confirmation"]

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
    return _first(_about_texts(given), _about_numbers(given), _about_encoder(given), _about_cells(given))


# What is wrong with a declaration, in the order of looking: each check may rely on those before it.
Checks = Iterator[tuple[Any, str]]


def _first(*checks: Checks) -> str | None:
    return next((words for found in checks for wrong, words in found if wrong), None)


def _about_texts(given: Any) -> Checks:
    yield not isinstance(given.name, str) or not given.name, "the name must be a text that is not empty"
    yield given.type not in TYPES, f"type must be one of {', '.join(TYPES)}"
    yield given.role not in ROLES, f"onefold:role must be one of {', '.join(ROLES)}"
    yield given.scale not in ("linear", "log", "plain"), "onefold:scale must be linear, log or plain"
    wrong = given.scale == "plain" and (given.type != "number" or given.levels or given.missing != "refuse")
    yield wrong, "onefold:scale plain is for numbers that are never missing"
    yield given.missing not in ("refuse", "indicator"), "onefold:missing must be refuse or indicator"
    written = given.written
    texts = (given.unit, given.format, written.decimal, written.group, given.review)
    wrong = not all(isinstance(text, str) for text in texts)
    yield wrong, "unit, format, decimalChar, groupChar and review must be texts"
    lists = (given.true_values, given.false_values, given.missing_values or ())
    wrong = not all(isinstance(text, str) for text in chain(*lists))
    yield wrong, "trueValues, falseValues and missingValues must be lists of texts"
    wrong = not isinstance(given.required, bool) or not isinstance(written.bare, bool)
    yield wrong, "required and bareNumber must be true or false"
    wrong = not can_be_written((given.name, *texts, *chain(*lists), *given.levels))
    yield wrong, "a text in it cannot be written to a file"
    yield (
        given.confirmed is not None and not _is_confirmation(given.confirmed),
        f"onefold:confirmed must name by, on and ground, lines of at most {LONGEST_GROUND} characters, and "
        "whether it is a publicSource",
    )
    wrong = not written.decimal or written.decimal == written.group
    yield wrong, "decimalChar and groupChar must be two different marks"


def _about_cells(given: Any) -> Checks:
    """What a feature or a label must say, beside an encoder."""
    if given.role not in ENCODED_ROLES or given.encoder is not None:
        return
    yield (
        given.type == "string" and not given.levels,
        "text without categories: list them in constraints.enum, name an encoder in onefold:encoder, or "
        'set onefold:role to "ignored"',
    )
    yield from (_about_levels if given.is_category else _about_range)(given)


def _is_confirmation(given: Any) -> bool:
    if not isinstance(given, Confirmation) or not isinstance(given.public_source, bool):
        return False
    texts = given[:3]
    lines = all(isinstance(text, str) and 0 < len(text) <= LONGEST_GROUND for text in texts)
    return lines and "".join(texts).isprintable() and all(map(str.strip, texts))


def _about_numbers(given: Any) -> Checks:
    """Numbers and dates must be readable from the file they are written to, whatever the column is for."""
    told = {"minimum": given.low, "maximum": given.high, "onefold:fill": given.fill}
    for key, value in (*told.items(), ("onefold:logUnit", given.log_unit)):
        wrong = value is not None and not _is_finite(value)
        yield wrong, f"{key} must be finite: declare it from what the column means"
    if given.type in CALENDAR:
        wrong = given.format != "default" and not _is_pattern(given.format)
        yield wrong, 'format must be "default" or a pattern such as %d/%m/%Y'
        (first, last), unit = CALENDAR[given.type], "day" if given.type == "date" else "second"
        for key, value in told.items():
            wrong = value is not None and not (first <= value <= last and float(value).is_integer())
            yield wrong, f"{key} must be a whole {unit} of the years 1 to 9999"


def _about_encoder(given: Any) -> Checks:
    if given.encoder is None:
        return
    wrong = not hasattr(given.encoder, "digest") or not hasattr(given.encoder, "width")
    yield wrong, "encoder must be a CellEncoder, an OnnxEncoder or a SentenceEncoder"
    wrong = given.type != "string" or given.role == "label"
    yield wrong, "onefold:encoder is for a column of the type string that is no label"
    others = (given.low, given.high, given.fill, given.other, given.log_unit)
    wrong = given.levels or given.bins or any(value is not None for value in others)
    yield wrong, "a column with an encoder has neither range nor categories"


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
    letters = chain.from_iterable(text for text in texts if isinstance(text, str))
    return not any("\ud800" <= letter <= "\udfff" for letter in letters)


def _is_finite(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and -sys.float_info.max <= value <= sys.float_info.max


def _about_levels(given: Any) -> Checks:
    wanted: Any = {"string": str, "boolean": bool}.get(given.type, (int, float))
    wrong = given.type in CALENDAR or not all(isinstance(level, wanted) for level in given.levels)
    yield wrong, f"every entry of constraints.enum must be {article(given.type)}"
    if given.type in ("number", "integer"):
        wrong = not all(map(_is_finite, given.levels))
        yield wrong, "entries of constraints.enum must be finite numbers"
    if given.type == "integer":
        wrong = not all(float(level).is_integer() and abs(level) <= WHOLE_NUMBERS for level in given.levels)
        yield wrong, "entries of constraints.enum must be whole numbers of at most 15 digits"
    known = given.levels if given.type == "string" else map(float, given.levels)
    yield len(set(known)) != len(given.levels), "an entry of constraints.enum stands there twice"
    wrong = any(isinstance(level, str) and (not level or level != level.strip()) for level in given.levels)
    yield wrong, "entries of constraints.enum must be texts that neither begin nor end with a blank"
    wrong = given.other is not None and given.other not in given.levels
    yield wrong, "onefold:other must be one of the categories in constraints.enum"
    wrong = given.low is not None or given.high is not None
    yield wrong, "a column of categories has neither minimum nor maximum"


def _about_range(given: Any) -> Checks:
    yield given.other is not None, "onefold:other is for categories"
    wrong = given.low is None or given.high is None
    if wrong and given.scale == "plain":
        yield given.low is not given.high, "minimum and maximum go together"
        return
    yield wrong, "minimum and maximum must be finite numbers: declare them from what the column means"
    low, high = float(given.low), float(given.high)
    yield not low < high or not math.isfinite(high - low), "minimum must be below maximum"
    wrong = given.type != "number" and math.ceil(low) > math.floor(high)
    yield wrong, "there is no whole number between minimum and maximum"
    wrong = given.log_unit is not None and given.log_unit <= 0
    yield wrong, "onefold:logUnit must be a positive number"
    wrong = given.fill is not None and not low <= given.fill <= high
    yield wrong, "onefold:fill must be inside the range"
    inside = all(_is_finite(edge) and low < edge < high for edge in given.bins)
    wrong = not inside or any(left >= right for left, right in pairwise(given.bins))
    yield wrong, "onefold:bins must be ascending numbers inside the range"


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
    return number_objection(given.fields) or _first(_about_table(given))


def _about_table(given: Any) -> Checks:
    seen: set[str] = set()
    for known in given.fields:
        yield known.name in seen, f"two fields of the schema are called {known.name!r}"
        seen.add(known.name)
    for role in ("label", "person"):
        named = [known.name for known in given.fields if known.role == role]
        yield len(named) > 1, f"fields {' and '.join(map(repr, named[:2]))} both have the role {role}"
    plain = {known.scale == "plain" for known in given.fields if known.role == "feature"}
    yield len(plain) > 1, "either all features are numbers as they stand (onefold:scale plain), or none is"
    for key, value in (("rowsAbout", given.rows_about), ("rowsPerPerson", given.rows_per_person)):
        wrong = value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1)
        yield wrong, f"{key} must be a whole number from 1 on"
    yield given.source not in SOURCES, f"source must be one of {', '.join(SOURCES)}"
    texts = (given.name, *given.missing_values)
    wrong = not all(isinstance(text, str) for text in texts) or not can_be_written(texts)
    yield wrong, "name and missingValues of a schema must be texts"


def number_objection(fields: Sequence[Any]) -> str | None:
    """Return what is wrong with the number of fields, before any of them is looked at."""
    return None if 1 <= len(fields) <= MOST_FIELDS else f"a schema has from 1 to {MOST_FIELDS} fields"
