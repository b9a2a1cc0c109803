"""Try it: the schema as a person has corrected it, and the private table that is made by it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from onefold._base.files import write_whole
from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator, TableSynthesizer
from onefold.privacy import Guarantee, RandomisedLabels
from onefold.report import PrivacyUtilityDisplay, write_report
from onefold.report.builders import of_table, privacy_verdict
from onefold.report.forecast import of_records, with_fields
from onefold.serve.forecast import DELTA, check_wish, curve, entry_noise
from onefold.serve.open_tables import OpenTable
from onefold.tables import Field, Schema, read_table, write_table

__all__ = ["FILES", "declared", "forecast", "make"]

GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")  # the same for every table: none is learned
FROM_ROWS = (
    "ranges or categories of these columns were taken from the private rows and not declared by anybody who "
    "knows them otherwise: {names}"
)
FILES = ("private-table.csv", "guarantee.json", "report.html", "report.json", "schema.json")
LAPTOP = "made on a page of this machine; the private table did not leave it"
ROWS_SHOWN = 5
NO_ROWS = "Noise has left no row: the table has too few rows for this epsilon."

# --- what is declared ---------------------------------------------------------------------------------------


def declared(plain: Any, known: Any, rows_about: Any = None) -> tuple[Schema, list[str]]:
    """The schema as it was sent back, and the columns whose ranges nobody says to know.

    ``known`` lists the columns of which a person knows type, range and categories without these rows.
    Whatever else was found in the rows is left out: categories and ranges of columns that are not used, the
    middle of a column, and whether it has gaps. What every table gets instead follows from no row.
    """
    if not isinstance(plain, dict) or not isinstance(known or [], list):
        raise InvalidInputError('a schema is an object with a list of "fields"')
    own = plain.get("onefold")
    own = dict(own) if isinstance(own, dict) else {}
    own |= {"source": "declared"}
    own |= {"rowsAbout": rows_about} if isinstance(rows_about, int) and rows_about > 0 else {}
    schema = Schema.from_dict({**plain, "name": "", "missingValues": list(GAPS), "onefold": own})
    confirmed = set(map(str, known or ()))
    used = [each for each in schema.fields if each.role in ("feature", "label")]
    unknown = [each.name for each in used if each.name not in confirmed]
    return with_fields(schema, map(_without_rows, schema.fields)), unknown


def _without_rows(given: Field) -> Field:
    """What is declared of a column, without anything that only its rows could have told."""
    if given.role not in ("feature", "label"):
        return Field(given.name, "string", given.role)
    if given.encoder is not None:
        raise InvalidInputError(
            f"column {given.name!r}: the pages take no encoders, onefold fit --encoder does"
        )
    missing = "indicator" if given.role == "feature" else given.missing
    return replace(given, review="", fill=None, missing=missing, missing_values=None)


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


def make(trial: OpenTable, schema: Schema, unknown: list[str], unit: str, epsilon: float) -> dict[str, Any]:
    """Make the private table, its guarantee and its report in the folder of the trial."""
    check_wish(schema, unit, epsilon)
    with trial.at_work(), trial.told_by_name():
        for name in FILES:  # the guarantee of an earlier table must never lie beside another one
            (trial.root / name).unlink(missing_ok=True)
        known = trial.forecasts.get(_key(schema, unit))  # none if it was not waited for
        curves = {} if known is None else {"Forecast, from no row": replace(known, marked=float(epsilon))}
        own = schema if unit == "person" else of_records(schema)
        return _made(trial, own, unknown, unit, epsilon, curves)


def _made(
    trial: OpenTable, schema: Schema, unknown: list[str], unit: str, epsilon: float, curves: dict[str, Any]
) -> dict[str, Any]:
    table = read_table(trial.table, schema=schema, private=True)
    quality: list[str] = []
    columns: Any
    if unit == "entry":
        labels = None if schema.classes is None else RandomisedLabels(epsilon, schema.classes)
        maker: Any = Fabricator(entry_noise(schema, epsilon), schema=schema, label_mechanism=labels)
        columns = maker.fabricate(table)
    else:
        maker = TableSynthesizer(schema, epsilon, DELTA)
        columns = maker.fit(table).sample()
        quality = str(maker.quality_).splitlines()
    guarantee: Guarantee = maker.guarantee_
    if unknown:
        guarantee = guarantee.voided(FROM_ROWS.format(names=", ".join(unknown)))
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
    if unit != "entry" or not guarantee.holds:
        return told
    asked = guarantee.odds("entry")
    return told if asked in told else [asked, *told]


def _first_rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(islice(csv.reader(file), 1, ROWS_SHOWN + 1))


def _write_json(path: Path, plain: Any) -> None:
    write_whole(path, json.dumps(plain, indent=1, ensure_ascii=False).encode())
