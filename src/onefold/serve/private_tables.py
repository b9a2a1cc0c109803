"""Try it: the schema as a person has corrected it, and the private table that is made by it."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from getpass import getuser
from itertools import islice
from pathlib import Path
from typing import Any

from onefold._base.files import make_folder, write_whole
from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator, TableSynthesizer
from onefold.privacy import Guarantee, Ledger, RandomisedLabels
from onefold.report import PrivacyUtilityDisplay, write_report
from onefold.report.builders import of_table, privacy_verdict
from onefold.report.forecast import of_records
from onefold.serve.forecast import DELTA, check_wish, curve, entry_noise
from onefold.serve.open_tables import OpenTable
from onefold.tables import Schema, read_table, write_table
from onefold.tables.cells import unguarded

__all__ = ["FILES", "account", "account_file", "declared", "forecast", "make", "open_account"]

GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")  # the same for every table: none is learned
# What the page shows of a column and a person confirms; of everything else that was found in the rows nothing
# is kept: every table has the same scale, fill, texts for gaps and rest of categories.
SHOWN = ("name", "type", "format", "decimalChar", "groupChar", "bareNumber", "onefold:role")
LIMITS = ("minimum", "maximum", "enum")
OTHER = "other"  # takes undeclared texts where a person lists it
FILES = ("private-table.csv", "guarantee.json", "report.html", "report.json", "schema.json")
LAPTOP = "made on a page of this machine; the private table did not leave it"
ROWS_SHOWN = 5
NO_ROWS = "Noise has left no row: the table has too few rows for this epsilon."

# --- what is declared ---------------------------------------------------------------------------------------


def declared(plain: Any, known: Any, rows_about: Any = None) -> Schema:
    """The schema of what a person has confirmed, from the proposal as it was sent back.

    ``known`` lists the columns of which a person knows type, range or categories without these rows. All
    others are left out, whatever their rows suggest: only persons are named by a choice alone.
    """
    fields = plain.get("fields") if isinstance(plain, dict) else None
    if not isinstance(fields, list) or not isinstance(known or [], list):
        raise InvalidInputError('a schema is an object with a list of "fields"')
    own = plain.get("onefold")
    most = own.get("rowsPerPerson") if isinstance(own, dict) else None
    about = {"rowsPerPerson": most} if most is not None else {}
    about |= {"rowsAbout": rows_about} if isinstance(rows_about, int) and rows_about > 0 else {}
    kept = [_confirmed(entry, set(map(str, known or ()))) for entry in fields if isinstance(entry, dict)]
    return Schema.from_dict({"fields": kept, "missingValues": list(GAPS), "onefold": about})


def _confirmed(given: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The entry of a column: what a person has seen and confirmed, and nothing that only rows could tell."""
    name, role = given.get("name"), given.get("onefold:role", "feature")
    if role not in ("feature", "label") or str(name) not in known:
        left = "person" if role == "person" else "ignored"
        return {"name": name, "type": "string", "onefold:role": left}
    if given.get("onefold:encoder") is not None:
        raise InvalidInputError(f"column {name!r}: the pages take no encoders, onefold fit --encoder does")
    limits = given.get("constraints")
    limits = limits if isinstance(limits, Mapping) else {}
    entry = {key: given[key] for key in SHOWN if key in given}
    entry["constraints"] = {key: limits[key] for key in LIMITS if key in limits}
    entry |= {"onefold:missing": "indicator"} if role == "feature" else {}
    levels = limits.get("enum")
    return entry | ({"onefold:other": OTHER} if isinstance(levels, list) and OTHER in levels else {})


# --- what was spent -----------------------------------------------------------------------------------------


def account_file() -> Path:
    """Where tables of the pages are counted unless told otherwise: among the user's own data."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "onefold" / "serve.ledger"


def open_account(ledger: Path) -> None:
    """Make the ledger of the pages where there is none: once, so that one that vanishes is missed."""
    if not ledger.exists():
        make_folder(ledger.parent)
        with suppress(InvalidInputError):  # another program has made it meanwhile
            Ledger().save(ledger)


def account(ledger: Path) -> dict[str, Any]:
    """The ledger of the pages, and what was spent in it."""
    lines = str(Ledger.load(ledger)).split("\n")
    return {"file": str(ledger), "spent": [line for line in lines if not line.startswith(" ")]}


# --- how useful it would be ---------------------------------------------------------------------------------


def forecast(trial: OpenTable, schema: Schema, unit: str) -> PrivacyUtilityDisplay | None:
    """The curve for this declaration, computed once; None for one that was changed again in the meantime.

    Of a wide table it takes a while, and whoever types a range asks for one at every step.
    """
    check_wish(schema, unit, 1.0)
    key = trial.forecast_wanted = _key(schema, unit)
    with trial.forecasting:
        if key not in trial.forecasts and key == trial.forecast_wanted:
            trial.forecasts = {key: curve(schema, unit)}
        found: PrivacyUtilityDisplay | None = trial.forecasts.get(key)
        return found


def _key(schema: Schema, unit: str) -> tuple[str, str, int | None]:
    return schema.digest, unit, schema.rows_about


# --- the private table --------------------------------------------------------------------------------------


def make(
    trial: OpenTable, schema: Schema, unit: str, epsilon: float, *, ground: Any, ledger: Path
) -> dict[str, Any]:
    """Make the private table, its guarantee and its report in the folder of the trial.

    It is counted in the ledger before noise is drawn. A ledger takes no void guarantee, so none is here.
    """
    check_wish(schema, unit, epsilon)
    known = [each.name for each in schema.fields if each.role in ("feature", "label")]
    if not known:
        raise InvalidInputError("no column is in the table: tick “I know this” for those that you know")
    if not isinstance(ground, str) or not ground.strip():
        raise InvalidInputError("say from where you know the columns: a code book, a law, a form")
    schema = schema.confirm(known, ground=ground.strip(), by=getuser())
    with trial.at_work(), trial.told_by_name():
        for name in FILES:  # the guarantee of an earlier table must never lie beside another one
            (trial.root / name).unlink(missing_ok=True)
        drawn = trial.forecasts.get(_key(schema, unit))  # none if it was not waited for
        curves = {} if drawn is None else {"Forecast, from no row": replace(drawn, marked=float(epsilon))}
        own = schema if unit == "person" else of_records(schema)
        return _made(trial, own, unit, epsilon, ledger, curves) | {"account": account(ledger)}


def _made(
    trial: OpenTable, schema: Schema, unit: str, epsilon: float, ledger: Path, curves: dict[str, Any]
) -> dict[str, Any]:
    table = read_table(trial.table, schema=schema, private=True)
    quality: list[str] = []
    columns: Any
    if unit == "entry":
        labels = None if schema.classes is None else RandomisedLabels(epsilon, schema.classes)
        noise = entry_noise(schema, epsilon)
        maker: Any = Fabricator(noise, schema=schema, label_mechanism=labels, ledger=ledger)
        columns = maker.fabricate(table)
    else:
        maker = TableSynthesizer(schema, epsilon, DELTA, ledger=ledger)
        columns = maker.fit(table).sample()
        quality = str(maker.quality_).splitlines()
    guarantee: Guarantee = maker.guarantee_
    n_rows = len(next(iter(columns.values())))
    write_table(trial.root / "private-table.csv", columns, schema)
    schema.save(trial.root / "schema.json")
    facts = {"rows made": n_rows, "unit": unit, "epsilon": epsilon, "made": LAPTOP}
    told = {**facts, "digest of the schema": schema.digest}
    write_report(trial.root / "report.html", of_table("Private table", guarantee, told, evidence=curves))
    _write_json(trial.root / "guarantee.json", guarantee.to_dict())
    return {
        "holds": guarantee.holds,
        "verdict": _verdict(guarantee, unit),
        "guarantee": str(guarantee).split("\n"),
        "quality": quality if n_rows else [NO_ROWS],
        "rows": n_rows,
        "columns": list(columns),
        "first": _first_rows(trial.root / "private-table.csv"),
        "files": list(FILES),
    }


def _verdict(guarantee: Guarantee, unit: str) -> list[str]:
    """What was asked for comes first: of a cell, the promise for a whole record is a much weaker one."""
    told = privacy_verdict(guarantee)
    if unit != "entry":
        return told
    asked = guarantee.odds("entry")
    return told if asked in told else [asked, *told]


def _first_rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = islice(csv.reader(file), 1, ROWS_SHOWN + 1)
        return [[unguarded(cell) for cell in row] for row in rows]


def _write_json(path: Path, plain: Any) -> None:
    write_whole(path, json.dumps(plain, indent=1, ensure_ascii=False).encode())
