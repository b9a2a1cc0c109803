"""The files ``000.toml`` to ``004.toml``: every table, figure, theorem and algorithm of a document.

A file has ``document``, ``title`` and one ``[[item]]`` for each of them. An item has a name, a kind, a
sentence about it, and rows with its numbers; ``status`` and ``reason`` of an item hold for each of its rows
that has none of its own. ``ours`` names a value of a stored result (``experiments/results``), ``document`` is
the number that the document prints, in the same unit. Whether a status is true is the business of
:mod:`.checking`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from onefold.exceptions import InvalidInputError

FOLDER = Path(__file__).resolve().parent
DOCUMENTS = ("000", "001", "002", "003", "004")
KINDS = (
    "table",
    "figure",
    "theorem",
    "proposition",
    "corollary",
    "lemma",
    "definition",
    "algorithm",
    "equation",
    "result",
    "assumption",
    "remark",
)
STATUSES = ("reproduced", "differs", "other data", "not available")
DEFAULT_TOLERANCE = 0.01


@dataclass(frozen=True)
class Row:
    """One number of an item, or the item itself where it has no numbers.

    Parameters
    ----------
    row : what the number is, in words.
    document : what the document prints: a number, words, or None where it prints nothing.
    ours : name of the value in the stored result of the experiment; None if there is none.
    status, reason : see :data:`STATUSES`; every status but "reproduced" needs a reason.
    experiment : script that measures it, for instance ``kahm/private``.
    tolerance : largest distance between both numbers that counts as reproduced.
    mean_of : in place of ``ours``: how the names of the item's rows end whose mean this row is.
    """

    row: str
    document: float | str | None = None
    ours: str | None = None
    status: str = ""
    reason: str = ""
    experiment: str = ""
    tolerance: float = DEFAULT_TOLERANCE
    mean_of: str = ""


@dataclass(frozen=True)
class Item:
    """A table, a figure, a theorem: what the document calls it, where it is implemented, tested or drawn.

    ``code`` and ``test`` may hold several names with spaces between them. ``page`` draws a figure.
    """

    document: str
    name: str
    kind: str
    about: str
    rows: tuple[Row, ...]
    experiment: str = ""
    code: str = ""
    test: str = ""
    page: str = ""
    status: str = ""
    reason: str = ""


def read(folder: Path = FOLDER) -> list[Item]:
    """All items of all documents, in the order of the files; one clear line about what is wrong."""
    return [item for path in sorted(folder.glob("[0-9]*.toml")) for item in _items(path)]


def titles(folder: Path = FOLDER) -> dict[str, str]:
    """The short name of every document."""
    return {path.stem: str(_content(path)["title"]) for path in sorted(folder.glob("[0-9]*.toml"))}


def _content(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{path.name} is not TOML: {error}") from None
    if set(content) != {"document", "title", "item"} or content["document"] != path.stem:
        raise InvalidInputError(
            f"{path.name} must have its document's number, a title and items, nothing else"
        )
    return content


def _items(path: Path) -> Iterator[Item]:
    seen: set[str] = set()
    for given in _content(path)["item"]:
        place = f"{path.name}, {given.get('name', 'an item without a name')}"
        if given.get("name") in seen:
            raise InvalidInputError(f"{place} is there twice")
        seen.add(str(given.get("name")))
        yield _item(place, path.stem, given)


def _item(place: str, document: str, given: dict[str, Any]) -> Item:
    _check_keys(place, given, Item, {"name", "kind", "about"}, without={"document"})
    if given["kind"] not in KINDS:
        raise InvalidInputError(f"{place}: no kind {given['kind']!r}, there are {', '.join(KINDS)}")
    listed = given.get("rows", []) or [{"row": given["about"]}]
    rows = tuple(_row(place, {**_inherited(given, row), **row}) for row in listed)
    names = [row.row for row in rows]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"{place}: two rows have one name")
    for row in rows:
        if row.mean_of and (row.ours or not parts_of(row, rows)):
            raise InvalidInputError(
                f"{place}, {row.row}: a mean has rows of the item, and no value of its own"
            )
    return Item(document=document, **{**given, "rows": rows})


def parts_of(row: Row, rows: Iterable[Row]) -> list[Row]:
    """The rows of which a row is the mean."""
    return [part for part in rows if part.row.endswith(row.mean_of) and not part.mean_of]


def _inherited(given: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What an item says for a row that says nothing else; a row with a status has its own reason."""
    keys = ("experiment",) if "status" in row else ("status", "reason", "experiment")
    return {key: given[key] for key in keys if key in given}


def _row(place: str, given: dict[str, Any]) -> Row:
    place = f"{place}, {given.get('row', 'a row without a name')}"
    _check_keys(place, given, Row, {"row"})
    if given.get("status") not in STATUSES:
        raise InvalidInputError(f"{place}: the status must be one of {', '.join(STATUSES)}")
    if isinstance(given.get("document"), bool) or not isinstance(
        given.get("document", ""), int | float | str
    ):
        raise InvalidInputError(f"{place}: what the document prints must be a number or words")
    if "tolerance" in given and not given["tolerance"] >= 0:
        raise InvalidInputError(f"{place}: a tolerance must be 0 or more")
    return Row(**given)


def _check_keys(
    place: str,
    given: Mapping[str, Any],
    kind: type,
    needed: set[str],
    without: frozenset[str] | set[str] = frozenset(),
) -> None:
    known = {field.name for field in fields(kind)} - without
    unknown, missing = sorted(set(given) - known), sorted(needed - set(given))
    if unknown or missing:
        fault = f"unknown key {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        raise InvalidInputError(f"{place}: {fault}")
    for key in needed | (
        known & {"reason", "status", "experiment", "code", "test", "page", "ours", "mean_of"} & set(given)
    ):
        if not isinstance(given[key], str) or not given[key]:
            raise InvalidInputError(f"{place}: {key!r} must be words")
