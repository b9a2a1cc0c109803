"""What the declaration of a column or a table says, in Python and in a schema file, and what it must say.

The file is that of Frictionless Table Schema; keys of our own begin with ``onefold``.
"""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onefold._base.validation import Entry, Flag, Instance, OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.tables.cells import NumberFormat, moment_reader
from onefold.tables.encoded import CellEncoder

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
    public : bool, default=False
        Whether the ground is a public source from which the schema was inferred.
    """

    by: str
    on: str
    ground: str
    public: bool = False


def _is_finite(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and -sys.float_info.max <= value <= sys.float_info.max


def _are_texts(values: Any) -> bool:
    return isinstance(values, (tuple, list)) and all(isinstance(text, str) for text in values)


def can_be_written(texts: Iterable[Any]) -> bool:
    """Whether no text holds half a character, as JSON allows."""
    letters = chain.from_iterable(text for text in texts if isinstance(text, str))
    return not any("\ud800" <= letter <= "\udfff" for letter in letters)


def _is_confirmation(given: Any) -> bool:
    if not isinstance(given, Confirmation) or not isinstance(given.public, bool):
        return False
    texts = given[:3]
    lines = all(isinstance(text, str) and 0 < len(text) <= LONGEST_GROUND for text in texts)
    return lines and "".join(texts).isprintable() and all(map(str.strip, texts))


TEXT, TEXTS = Instance(str, "a text"), Instance(_are_texts, "a list of texts")
FINITE = Instance(
    lambda value: value is None or _is_finite(value), "finite: declare it from what the column means"
)
ANYTHING = Instance(object, "anything")
# Keys of an entry in a schema file, in the order in which they are written, the attributes that they say, and
# what these must be. Other keys of an entry are for people.
KEYS: dict[str, tuple[str, Entry]] = {
    "name": ("name", Instance(lambda name: isinstance(name, str) and name != "", "a text that is not empty")),
    "type": ("type", OneOf(TYPES)),
    "format": ("format", TEXT),
    "decimalChar": ("written.decimal", TEXT),
    "groupChar": ("written.group", TEXT),
    "bareNumber": ("written.bare", Flag()),
    "trueValues": ("true_values", TEXTS),
    "falseValues": ("false_values", TEXTS),
    "missingValues": ("missing_values", (TEXTS, None)),
    "minimum": ("low", FINITE),
    "maximum": ("high", FINITE),
    "enum": ("levels", ANYTHING),
    "required": ("required", Flag()),
    "onefold:role": ("role", OneOf(ROLES)),
    "onefold:unit": ("unit", TEXT),
    "onefold:scale": ("scale", OneOf(("linear", "log", "plain"))),
    "onefold:logUnit": ("log_unit", FINITE),
    "onefold:missing": ("missing", OneOf(("refuse", "indicator"))),
    "onefold:fill": ("fill", FINITE),
    "onefold:other": ("other", ANYTHING),
    "onefold:bins": ("bins", ANYTHING),
    "onefold:encoder": (
        "encoder",
        (Instance(CellEncoder, "a CellEncoder, an OnnxEncoder or a SentenceEncoder"), None),
    ),
    "onefold:review": ("review", TEXT),
    "onefold:confirmed": (
        "confirmed",
        (
            Instance(
                _is_confirmation,
                f"who confirmed it (by), on which day (on) and on what ground, lines of at most "
                f"{LONGEST_GROUND} characters, and whether that is public",
            ),
            None,
        ),
    ),
}
TABLE_KEYS: dict[str, tuple[str, Entry]] = {
    "rowsAbout": ("rows_about", (Whole(1), None)),
    "rowsPerPerson": ("rows_per_person", (Whole(1), None)),
    "source": ("source", OneOf(SOURCES)),
}
MARKS = ("onefold:review", "onefold:confirmed")  # sites need not agree on them
CONSTRAINTS = ("minimum", "maximum", "enum", "required")
LISTS = ("trueValues", "falseValues", "missingValues", "enum", "onefold:bins")
BOUNDS = ("minimum", "maximum", "onefold:fill")


# --- what a declaration must say ----------------------------------------------------------------------------


def article(kind: str) -> str:
    """Return the name of a type with its article."""
    return f"an {kind}" if kind == "integer" else f"a {kind}"


# What is wrong with a declaration, in the order of looking: each check may rely on those before it.
Checks = Iterator[tuple[Any, str]]


def check_field(given: Any) -> None:
    """Refuse a declaration from which nothing could follow.

    Parameters
    ----------
    given : Field
        The declaration.
    """
    try:
        for key, (name, entry) in KEYS.items():
            check_parameter(key, attrgetter(name)(given), entry)
        _refuse_first(_about_texts(given), _about_dates(given), _about_encoder(given), _about_cells(given))
    except InvalidInputError as error:
        raise InvalidInputError(f"field {given.name!r}: {error}") from None


def _refuse_first(*checks: Checks) -> None:
    for wrong, reason in chain(*checks):
        if wrong:
            raise InvalidInputError(reason)


def _about_texts(given: Any) -> Checks:
    wrong = given.scale == "plain" and (given.type != "number" or given.levels or given.missing != "refuse")
    yield wrong, "onefold:scale plain is for numbers that are never missing"
    written = given.written
    lists = (given.true_values, given.false_values, given.missing_values or (), given.levels)
    texts = (given.name, given.unit, given.format, written.decimal, written.group, given.review)
    yield not can_be_written(chain(texts, *lists)), "a text in it cannot be written to a file"
    wrong = not written.decimal or written.decimal == written.group
    yield wrong, "decimalChar and groupChar must be two different marks"


def _about_dates(given: Any) -> Checks:
    """Dates must be readable from the file they are written to, whatever the column is for."""
    if given.type in CALENDAR:
        wrong = given.format != "default" and not _is_pattern(given.format)
        yield wrong, 'format must be "default" or a pattern such as %d/%m/%Y'
        (first, last), unit = CALENDAR[given.type], "day" if given.type == "date" else "second"
        for key in BOUNDS:
            value = getattr(given, KEYS[key][0])
            wrong = value is not None and not (first <= value <= last and float(value).is_integer())
            yield wrong, f"{key} must be a whole {unit} of the years 1 to 9999"


def _about_encoder(given: Any) -> Checks:
    if given.encoder is None:
        return
    wrong = given.type != "string" or given.role == "label"
    yield wrong, "onefold:encoder is for a column of the type string that is no label"
    others = (given.low, given.high, given.fill, given.other, given.log_unit)
    wrong = given.levels or given.bins or any(value is not None for value in others)
    yield wrong, "a column with an encoder has neither range nor categories"


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


def _is_pattern(text: str) -> bool:
    """Whether dates can be written and read by a pattern."""
    moment = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    try:
        datetime.strptime(moment.strftime(text), text)
    except (ValueError, re.error):  # a stray %, or a part that stands there twice
        return False
    return "%" in text


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
    distinct = set(given.levels if given.type == "string" else map(float, given.levels))
    yield len(distinct) != len(given.levels), "an entry of constraints.enum stands there twice"
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


def check_schema(given: Any) -> None:
    """Refuse declarations of columns that make no table.

    Parameters
    ----------
    given : Schema
        The declarations, each of which is sound.
    """
    check_count(given.fields)
    _refuse_first(_about_table(given))
    for key, (name, entry) in TABLE_KEYS.items():
        check_parameter(key, getattr(given, name), entry)


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
    texts = (given.name, *given.missing_values)
    yield (
        not (_are_texts(texts) and can_be_written(texts)),
        "name and missingValues of a schema must be texts",
    )


def check_count(fields: Sequence[Any]) -> None:
    """Refuse too many fields before any of them is looked at."""
    if not 1 <= len(fields) <= MOST_FIELDS:
        raise InvalidInputError(f"a schema has from 1 to {MOST_FIELDS} fields")


# --- the entry of a field in a schema file ------------------------------------------------------------------


def entry_of(declared: Any, folder: Path | None = None) -> dict[str, Any]:
    """Return what a schema file says about a field; what says nothing is left out.

    Parameters
    ----------
    declared : Field
        The declaration.
    folder : Path or None, default=None
        Folder of the file, for which the path of an encoder is written; None leaves it out.

    Returns
    -------
    dict of str to Any
        JSON values, in the order of the file, without texts for people.
    """
    entry: dict[str, Any] = {}
    for key, (name, _) in KEYS.items():
        value = attrgetter(name)(declared)
        usual = key not in ("name", "type") and value == attrgetter(name)(type(declared))
        if usual or (key == "enum" and declared.type == "boolean"):
            continue
        place = entry.setdefault("constraints", {}) if key in CONSTRAINTS else entry
        place[key] = _plain_value(declared, key, value, folder)
    return entry


def _plain_value(declared: Any, key: str, value: Any, folder: Path | None) -> Any:
    if isinstance(value, CellEncoder):
        return value.entry(folder)
    if isinstance(value, Confirmation):
        return {name: part for name, part in value._asdict().items() if part is not False}
    if key in BOUNDS and declared.type in CALENDAR:
        return _written_moment(declared, value)
    return list(value) if isinstance(value, tuple) else plain_number(value)


def plain_number(value: Any) -> Any:
    """Write a whole number as one; anything else stays what it is."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


def _written_moment(declared: Any, value: float) -> str:
    unit = "D" if declared.type == "date" else "s"
    moment: Any = np.array([int(value)]).astype(f"datetime64[{unit}]").astype(object)[0]
    if declared.format != "default":
        # The file format wants bounds written like the cells. Some patterns lose the century or the day.
        text = str(moment.strftime(declared.format))
        if _moment(declared.type, declared.format, text) == value:
            return text
    return str(moment.isoformat())


def _moment(kind: str, pattern: str, text: str) -> float:
    """Read a bound that is a date, written as in ISO 8601 or else like the cells; NaN if it is none."""
    moments = (moment_reader(form, days=kind == "date")(text) for form in ("default", pattern))
    return next((moment for moment in moments if not math.isnan(moment)), math.nan)


def field_arguments(entry: Any, folder: Path | None) -> dict[str, Any]:
    """Read an entry of ``fields`` in a schema file.

    Parameters
    ----------
    entry : dict
        The entry.
    folder : Path or None
        Folder of the file, where the path of an encoder begins; None follows no path.

    Returns
    -------
    dict of str to Any
        What a :class:`~onefold.tables.Field` is made of, not checked yet.
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise InvalidInputError("every field of a schema needs a name")
    try:
        return _arguments({"type": "string", **entry}, folder)
    except InvalidInputError as error:
        raise InvalidInputError(f"field {entry['name']!r}: {error}") from None


def _arguments(entry: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    constraints = entry.get("constraints", {})
    if not isinstance(constraints, dict):
        raise InvalidInputError("constraints must be an object")
    about = {key: value for key, value in entry.items() if key not in (*KEYS, "constraints")}
    for key in about:
        if key.startswith("onefold:"):
            raise InvalidInputError(f"there is no key {key!r}")
    for key in constraints:
        if key not in CONSTRAINTS:
            raise InvalidInputError(f"the constraint {key!r} is not one of {', '.join(CONSTRAINTS)}")
    arguments: dict[str, Any] = {"about": about}
    written: dict[str, Any] = {}
    for key, (name, _) in KEYS.items():
        place = constraints if key in CONSTRAINTS else entry
        if key in place:
            kind, _, part = name.rpartition(".")
            (written if kind else arguments)[part] = _python_value(entry, key, place[key], folder)
    return arguments | {"written": NumberFormat(**written)}


def _python_value(entry: dict[str, Any], key: str, value: Any, folder: Path | None) -> Any:
    if key in LISTS:
        if not isinstance(value, (list, tuple)):
            raise InvalidInputError(f"{key} must be a list")
        return tuple(value)
    if key in BOUNDS and isinstance(value, str):
        if entry["type"] not in tuple(CALENDAR):  # which may be anything, also a list
            raise InvalidInputError(f"minimum and maximum of a {entry['type']} must be numbers")
        moment = _moment(entry["type"], entry.get("format", "default"), value)
        if math.isnan(moment):
            raise InvalidInputError("minimum and maximum must be dates such as 2020-12-31")
        return moment
    if key == "onefold:encoder" and value is not None:
        return CellEncoder.of_entry(value, folder)
    if key == "onefold:confirmed" and value is not None:
        try:
            return Confirmation(**value)
        except TypeError:
            raise InvalidInputError("onefold:confirmed must say by, on and ground") from None
    return value
