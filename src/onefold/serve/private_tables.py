"""Try it: a table comes in, a schema is proposed and corrected, a private table goes out; nothing stays."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.confined import try_confined
from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator, TableSynthesizer, mock_table
from onefold.privacy import Guarantee, OptimalNoise, RandomisedLabels, domain_of
from onefold.report import Section, write_report
from onefold.report.builders import of_table, privacy_verdict
from onefold.report.forecast import curve_section, noise_forecast, table_forecast
from onefold.tables import Field, Schema, read_table, write_table

__all__ = ["OpenTable", "OpenTables"]

MOST_TABLES = 4
DELTA = 1e-5
DRAWS = 2000
STALE_SECONDS = 3600.0
PREFIX = "onefold-try-"
MEGABYTES = 2048  # that reading a table may take
GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")  # the same for every table: none is learned
SUFFIXES = (".csv", ".parquet", ".npz")
FROM_ROWS = (
    "ranges or categories of these columns were taken from the private rows and not declared by anybody who "
    "knows them otherwise: {names}"
)
FILES = ("private-table.csv", "guarantee.json", "report.html", "report.json", "schema.json")
LAPTOP = "made on a page of this machine; the private table did not leave it"


@dataclass
class OpenTable:
    """One table that somebody tries: its folder, and what was proposed."""

    id: str
    folder: tempfile.TemporaryDirectory[str]
    table: Path
    proposed: Schema
    n_rows: int
    used: float
    making: threading.Lock = field(default_factory=threading.Lock)

    @property
    def root(self) -> Path:
        """Where its files are until it is closed."""
        return Path(self.folder.name)


class OpenTables:
    """The few tables that are open; the oldest goes when another comes, and each after an hour."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, OpenTable] = OrderedDict()
        sweep_dead()

    def close(self) -> None:
        """Delete everything."""
        for name in list(self._open):
            self.drop(name)

    def drop(self, name: str) -> None:
        """Delete one table and all that was made of it."""
        trial = self._open.pop(name, None)
        if trial is not None:
            trial.folder.cleanup()

    def find(self, name: str) -> OpenTable:
        """A table that is open."""
        self.sweep()
        if name not in self._open:
            raise InvalidInputError("this table is closed: choose the file again")
        self._open[name].used = time.monotonic()
        return self._open[name]

    def sweep(self) -> None:
        """Delete tables that nobody has used for an hour."""
        now = time.monotonic()
        for known in [known for known, trial in self._open.items() if now - trial.used > STALE_SECONDS]:
            self.drop(known)

    def add(self, name: str, content: bytes, label: str | None = None) -> OpenTable:
        """Take a table in, and propose its schema."""
        suffix = Path(name).suffix.lower()
        if suffix not in SUFFIXES:
            raise InvalidInputError(f"the name of a table must end in {', '.join(SUFFIXES)}")
        folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-")
        try:
            path = Path(folder.name) / f"private{suffix}"
            path.write_bytes(content)
            path.chmod(0o600)
            if suffix != ".csv":  # a few bytes can stand for very many there
                try_confined("onefold.tables:read_table", path, megabytes=MEGABYTES)
            table = read_table(path)
            # From private rows: whatever is not confirmed by a person voids the guarantee, see `declared`.
            proposed = Schema.infer(table, label=label, source="private")
            trial = OpenTable(secrets.token_hex(8), folder, path, proposed, table.n_rows, time.monotonic())
        except BaseException:
            folder.cleanup()
            raise
        self._open[trial.id] = trial
        while len(self._open) > MOST_TABLES:
            self.drop(next(iter(self._open)))
        return trial


def sweep_dead() -> None:
    """Delete what programs have left behind that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not owner.isdigit():
            continue
        if not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


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
    return replace_fields(schema, tuple(map(_without_rows, schema.fields))), unknown


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


def replace_fields(schema: Schema, fields: Any) -> Schema:
    """The same schema with other fields."""
    return Schema(
        fields,
        name=schema.name,
        missing_values=schema.missing_values,
        rows_about=schema.rows_about,
        rows_per_person=schema.rows_per_person,
        source=schema.source,
    )


# --- before anything is spent -------------------------------------------------------------------------------


def preview(schema: Schema, unit: str, epsilon: float, rows_about: int) -> dict[str, Any]:
    """What an attacker could learn at this epsilon, in the units of the table, and what it costs.

    Nothing of this looks at a row: it follows from the schema, epsilon and the declared number of rows.
    """
    _check(unit, epsilon, schema)
    if unit == "entry":
        return {"odds": _blur_words(epsilon), "columns": _blur(schema, epsilon), "curve": None}
    # The best test between two possibilities is right this often; rounded up, so that "at most" is true.
    right = math.ceil(1000 * (1.0 + DELTA * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))) / 10
    who = "one person's rows are" if unit == "person" else "one record is"
    told = (
        f"Whether {who} in the table: an attacker who knows everything else and would guess right in 50 of "
        f"100 cases guesses right in at most {right:g} of 100."
    )
    curve = table_forecast(schema, epsilon, rows_about, unit, DELTA)
    return {
        "odds": told,
        "columns": [],
        "curve": {**curve.to_dict(), "svg": curve.to_svg(), "text": curve.describe()},
    }


def _check(unit: str, epsilon: float, schema: Schema) -> None:
    if unit not in ("entry", "record", "person"):
        raise InvalidInputError("choose what to protect: entry, record or person")
    if not (isinstance(epsilon, int | float) and 0.01 <= epsilon <= 64):
        raise InvalidInputError("epsilon must be between 0.01 and 64")
    if unit == "person" and (schema.person is None or schema.rows_per_person is None):
        raise InvalidInputError(
            "to protect persons, say which column names them and how many rows count at most"
        )


def _blur_words(epsilon: float) -> str:
    odds = (math.exp(epsilon) + DELTA) / (1.0 - DELTA)
    shown = math.ceil(odds * 100) / 100
    return (
        "One cell of a row, the class included: an attacker who knows all other cells and thinks two values "
        f"equally likely is right with odds of at most {shown:g} to 1. Whole rows and persons are not "
        "protected."
    )


def _blur(schema: Schema, epsilon: float) -> list[dict[str, Any]]:
    """How far noise moves half of the numbers of each column, in its own unit, before smoothing.

    On rows that are made up from the schema: values that would leave the range are moved to its ends.
    """
    rows = schema.transform(mock_table(schema, DRAWS, random_state=0))
    noisy = rows + _entry_noise(schema, epsilon).sample(rows.shape, random_state=0)
    moved = np.median(np.abs(np.clip(noisy, 0.0, 1.0) - rows), axis=0)
    places = np.cumsum([0, *(each.width for each in schema.features)])
    found = []
    for each, place in zip(schema.features, places, strict=False):
        linear = each.type in ("number", "integer") and each.scale == "linear" and not each.is_category
        if linear and each.low is not None and each.high is not None:
            by = float(f"{moved[place] * (each.high - each.low):.2g}")
            found.append({"column": each.name, "moved": by, "unit": each.unit or ""})
    return found


def _entry_noise(schema: Schema, epsilon: float) -> OptimalNoise:
    return OptimalNoise(epsilon, DELTA, sensitivity=domain_of(schema))


def without_person(schema: Schema) -> Schema:
    """The schema of rows: the person column is left out."""
    fields = tuple(
        replace(each, role="identifier") if each.role == "person" else each for each in schema.fields
    )
    return replace_fields(schema, fields)


# --- the private table --------------------------------------------------------------------------------------


def make(trial: OpenTable, schema: Schema, unknown: list[str], unit: str, epsilon: float) -> dict[str, Any]:
    """Make the private table, its guarantee and its report in the folder of the trial."""
    _check(unit, epsilon, schema)
    with trial.making:
        for name in FILES:  # the guarantee of an earlier table must never lie beside another one
            (trial.root / name).unlink(missing_ok=True)
        return _made(trial, schema if unit == "person" else without_person(schema), unknown, unit, epsilon)


def _made(trial: OpenTable, schema: Schema, unknown: list[str], unit: str, epsilon: float) -> dict[str, Any]:
    table = read_table(trial.table, schema=schema, private=True)
    quality: list[str] = []
    columns: Any
    curve = None  # of a column of numbers, or of counts
    if unit == "entry":
        labels = None if schema.classes is None else RandomisedLabels(epsilon, schema.classes)
        maker: Any = Fabricator(_entry_noise(schema, epsilon), schema=schema, label_mechanism=labels)
        columns = maker.fabricate(table)
        if any(not each.is_category for each in schema.features):
            curve = noise_forecast(lambda other: _entry_noise(schema, other), epsilon, 1.0)
    else:
        maker = TableSynthesizer(schema, epsilon, DELTA)
        columns = maker.fit(table).sample()
        quality = str(maker.quality_).splitlines()
        curve = table_forecast(schema, epsilon, maker.n_rows_, unit, DELTA)
    guarantee: Guarantee = maker.guarantee_
    if unknown:
        guarantee = guarantee.voided(FROM_ROWS.format(names=", ".join(unknown)))
    write_table(trial.root / "private-table.csv", columns, schema)
    schema.save(trial.root / "schema.json")
    facts = {"rows made": len(next(iter(columns.values()))), "unit": unit, "epsilon": epsilon, "made": LAPTOP}
    shown = [Section("How well the made rows fit what was released", notes=quality)] if quality else []
    shown += [curve_section(curve)] if curve is not None and guarantee.holds else []
    report = of_table(
        "Private table", guarantee, {**facts, "digest of the schema": schema.digest}, quality=shown
    )
    write_report(trial.root / "report.html", report)
    _write_json(trial.root / "guarantee.json", guarantee.to_dict())
    return {
        "holds": guarantee.holds,
        "verdict": privacy_verdict(guarantee),
        "guarantee": str(guarantee).split("\n"),
        "quality": quality,
        "files": list(FILES),
    }


def _write_json(path: Path, plain: Any) -> None:
    path.write_text(json.dumps(plain, indent=1, ensure_ascii=False), encoding="utf-8")
