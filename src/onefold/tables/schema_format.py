"""The file of a schema: how a declaration is read and written, key by key, and what sites compare of it.

The format is that of Frictionless Table Schema; keys of our own begin with ``onefold``.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onefold.exceptions import InvalidInputError
from onefold.tables.cells import NumberFormat, moment_reader
from onefold.tables.declarations import Confirmation, number_objection
from onefold.tables.encoded import CellEncoder

__all__ = ["differing"]

# --- the entry of a field ---------------------------------------------------------------------------------

CONSTRAINTS = ("minimum", "maximum", "enum", "required")
# The keys of an entry that onefold reads, in the order in which they are written; others are for people.
KEYS = (
    *("name", "type", "format", "decimalChar", "groupChar", "bareNumber", "trueValues", "falseValues"),
    *("missingValues", "constraints", "onefold:role", "onefold:unit", "onefold:scale", "onefold:logUnit"),
    *("onefold:missing", "onefold:fill", "onefold:other", "onefold:bins", "onefold:encoder"),
    *("onefold:review", "onefold:confirmed"),
)
# Keys whose values are attributes as they stand, and what holds where a file leaves them out.
PLAIN: dict[str, tuple[str, Any]] = {
    "format": ("format", "default"),
    "onefold:role": ("role", "feature"),
    "onefold:unit": ("unit", ""),
    "onefold:scale": ("scale", "linear"),
    "onefold:logUnit": ("log_unit", None),
    "onefold:missing": ("missing", "refuse"),
    "onefold:other": ("other", None),
}
LISTS = {"trueValues": "true_values", "falseValues": "false_values", "onefold:bins": "bins"}


def field_arguments(given: Any, folder: Path | None) -> dict[str, Any]:
    """Read an entry of ``fields`` in a schema file.

    Parameters
    ----------
    given : dict
        The entry.
    folder : Path or None
        Folder of the file, where the path of an encoder begins; None follows no path.

    Returns
    -------
    dict of str to Any
        What a :class:`~onefold.tables.Field` is made of, not checked yet.
    """
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise InvalidInputError("every field of a schema needs a name")
    name = given["name"]
    unknown = [key for key in given if key.startswith("onefold:") and key not in KEYS]
    if unknown:
        raise InvalidInputError(f"field {name!r}: there is no key {unknown[0]!r}")
    constraints = given.get("constraints", {})
    if not isinstance(constraints, dict):
        raise InvalidInputError(f"field {name!r}: constraints must be an object")
    strange = [key for key in constraints if key not in CONSTRAINTS]
    if strange:
        known = ", ".join(CONSTRAINTS)
        raise InvalidInputError(f"field {name!r}: the constraint {strange[0]!r} is not one of {known}")
    kind, pattern = given.get("type", "string"), given.get("format", "default")
    bounds = constraints.get("minimum"), constraints.get("maximum"), given.get("onefold:fill")
    low, high, fill = (_bound(name, kind, pattern, value) for value in bounds)
    missing = _list(name, given, "missingValues") if "missingValues" in given else None
    return {
        "name": name,
        "type": kind,
        "low": low,
        "high": high,
        "fill": fill,
        "levels": _list(name, constraints, "enum", "constraints.enum"),
        "required": constraints.get("required", False),
        "written": NumberFormat(
            given.get("decimalChar", "."), given.get("groupChar", ""), given.get("bareNumber", True)
        ),
        "missing_values": missing,
        "encoder": _encoder(name, given.get("onefold:encoder"), folder),
        "review": given.get("onefold:review", ""),
        "confirmed": _confirmation(name, given.get("onefold:confirmed")),
        "about": {key: value for key, value in given.items() if key not in KEYS},
        **{attribute: given.get(key, default) for key, (attribute, default) in PLAIN.items()},
        **{attribute: _list(name, given, key) for key, attribute in LISTS.items()},
    }


def field_contract(declared: Any) -> dict[str, Any]:
    """Write what sites must agree on about one column; what says nothing is left out.

    Parameters
    ----------
    declared : Field
        The declaration.

    Returns
    -------
    dict of str to Any
        JSON values, in the order of the file.
    """
    written = declared.written
    constraints = {
        "minimum": _written_bound(declared, declared.low),
        "maximum": _written_bound(declared, declared.high),
        "enum": None if declared.type == "boolean" else list(declared.levels) or None,
        "required": declared.required or None,
    }
    found = {
        "name": declared.name,
        "type": declared.type,
        "decimalChar": None if written.decimal == "." else written.decimal,
        "groupChar": written.group or None,
        "bareNumber": None if written.bare else False,
        "missingValues": None if declared.missing_values is None else list(declared.missing_values),
        "constraints": {key: value for key, value in constraints.items() if value is not None} or None,
        "onefold:fill": _written_bound(declared, declared.fill),
        "onefold:encoder": None if declared.encoder is None else declared.encoder.to_dict(),
    }
    for key, (attribute, default) in PLAIN.items():
        value = getattr(declared, attribute)
        found[key] = None if value == default else value
    for key, attribute in LISTS.items():
        found[key] = list(getattr(declared, attribute)) or None
    return {key: found[key] for key in KEYS if found.get(key) is not None}


def field_marks(declared: Any) -> dict[str, Any]:
    """Write what was guessed about one column, or who confirmed it; sites need not agree on that."""
    marks = {"onefold:review": declared.review} if declared.review else {}
    if declared.confirmed is None:
        return marks
    by, on, ground, public = declared.confirmed
    told = {"by": by, "on": on, "ground": ground} | ({"publicSource": True} if public else {})
    return marks | {"onefold:confirmed": told}


def _confirmation(name: str, given: Any) -> Confirmation | None:
    if given is None:
        return None
    try:
        plain = {"publicSource": False, **given}
        by, on, ground, public = (plain.pop(key) for key in ("by", "on", "ground", "publicSource"))
    except (TypeError, KeyError):
        plain = {"": None}
    if plain:
        raise InvalidInputError(f"field {name!r}: onefold:confirmed must say by, on and ground")
    return Confirmation(by, on, ground, public)


def plain_number(value: Any) -> Any:
    """Write a whole number as one; anything else stays what it is."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


def _list(name: str, given: dict[str, Any], key: str, called: str = "") -> tuple[Any, ...]:
    values = given.get(key, [])
    if not isinstance(values, (list, tuple)):
        raise InvalidInputError(f"field {name!r}: {called or key} must be a list")
    return tuple(values)


def _encoder(name: str, given: Any, folder: Path | None) -> CellEncoder | None:
    if given is None:
        return None
    try:
        return CellEncoder.from_dict(given, folder)
    except InvalidInputError as error:
        raise InvalidInputError(f"field {name!r}: {error}") from None


def _bound(name: str, kind: str, pattern: str, value: Any) -> float | None:
    """Read a bound; dates are written as texts."""
    if value is None or not isinstance(value, str):
        return value
    if kind not in ("date", "datetime"):
        raise InvalidInputError(f"field {name!r}: minimum and maximum of a {kind} must be numbers")
    for way in dict.fromkeys(("default", pattern)):
        moment = moment_reader(way, days=kind == "date")(value)
        if not math.isnan(moment):
            return moment
    raise InvalidInputError(f"field {name!r}: minimum and maximum must be dates such as 2020-12-31")


def _written_bound(declared: Any, value: float | None) -> Any:
    if value is None or declared.type not in ("date", "datetime"):
        return plain_number(value)
    unit = "D" if declared.type == "date" else "s"
    moment: Any = np.array([int(value)]).astype(f"datetime64[{unit}]").astype(object)[0]
    if declared.format != "default":
        # The file format wants bounds written like the cells. Some patterns lose the century or the day.
        text = moment.strftime(declared.format)
        try:
            if _bound(declared.name, declared.type, declared.format, text) == value:
                return text
        except InvalidInputError:
            pass
    return moment.isoformat()


# --- the whole file -----------------------------------------------------------------------------------------

PROFILE = "https://datapackage.org/profiles/2.0/tableschema.json"
VERSION = 1
OWN_KEYS = ("version", "rowsAbout", "rowsPerPerson", "source")


def schema_arguments(given: Any) -> dict[str, Any]:
    """Read what a schema file says besides its fields.

    Parameters
    ----------
    given : dict
        The content of the file.

    Returns
    -------
    dict of str to Any
        What a :class:`~onefold.tables.Schema` is made of besides its fields, of which there is a list.
    """
    if not isinstance(given, dict) or not isinstance(given.get("fields"), list):
        raise InvalidInputError('a schema is an object with a list of "fields"')
    wrong = number_objection(given["fields"])
    if wrong:
        raise InvalidInputError(wrong)
    own = given.get("onefold", {})
    if not isinstance(own, dict):
        raise InvalidInputError('"onefold" must be an object')
    if own.get("version", VERSION) != VERSION:
        raise InvalidInputError(f"the schema must be of version {VERSION}: this onefold reads no other")
    strange = [key for key in own if key not in OWN_KEYS]
    if strange:
        raise InvalidInputError(f'there is no key {strange[0]!r} in "onefold": {", ".join(OWN_KEYS)}')
    missing = given.get("missingValues", [""])
    if not isinstance(missing, list):
        raise InvalidInputError("missingValues must be a list of texts")
    return {
        "name": given.get("name", ""),
        "missing_values": tuple(missing),
        "rows_about": own.get("rowsAbout"),
        "rows_per_person": own.get("rowsPerPerson"),
        "source": own.get("source", "declared"),
    }


def schema_content(schema: Any, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Write a schema, whose fields are written already, as the content of its file."""
    return {
        "$schema": PROFILE,
        **({"name": schema.name} if schema.name else {}),
        "fields": entries,
        "missingValues": list(schema.missing_values),
        "onefold": _own_keys(schema),
    }


def _own_keys(schema: Any) -> dict[str, Any]:
    own = {
        "version": VERSION,
        "rowsAbout": schema.rows_about,
        "rowsPerPerson": schema.rows_per_person,
        "source": None if schema.source == "declared" else schema.source,
    }
    return {key: value for key, value in own.items() if value is not None}


# --- what sites compare -------------------------------------------------------------------------------------


def shared_keys(schema: Any) -> dict[str, Any]:
    """What holds for all columns and sites must agree on; a public sample is as good as a declaration."""
    own = {key: value for key, value in _own_keys(schema).items() if key != "source"}
    return {
        "missingValues": sorted(schema.missing_values),
        "onefold": own | {"private": schema.source == "private"},
    }


def digest_of(content: Any) -> str:
    """SHA-256 sum of JSON values, in whatever order their keys stand."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def differing(ours: Sequence[tuple[str, str]], theirs: Sequence[tuple[str, str]]) -> str | None:
    """Name the first field in which two lists of :attr:`onefold.tables.Schema.field_digests` differ.

    Parameters
    ----------
    ours : sequence of (str, str)
        Names and sums of the one schema.
    theirs : sequence of (str, str)
        Names and sums of the other.

    Returns
    -------
    str or None
        What differs, in words; None if nothing does.
    """
    for place, (mine, yours) in enumerate(zip(ours, theirs, strict=False), 1):
        if mine == yours:
            continue
        if mine[0] != yours[0]:
            names = [repr(name) if name else "no further field" for name in (mine[0], yours[0])]
            return f"field {place} is {names[0]} in the one schema and {names[1]} in the other"
        if not mine[0]:
            return "missingValues, rowsAbout, rowsPerPerson or the source"
        return f"field {mine[0]!r}"
    return None if len(ours) == len(theirs) else "the number of fields"
