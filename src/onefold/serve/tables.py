"""Try it: tables that are open, what a person declares of them, what that would give away, what is made.

A table lies in a folder that only this account can read, and that is deleted. Before anything is spent,
nothing looks at a row: everything follows from the schema, epsilon and the declared number of rows.
"""

import csv
import json
import math
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from getpass import getuser
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.confined import try_confined
from onefold._base.files import make_folder, write_whole
from onefold.exceptions import InvalidInputError, OnefoldError
from onefold.fabrication import Fabricator, TableSynthesizer
from onefold.privacy import Guarantee, Ledger, OptimalNoise, RandomisedLabels, domain_of
from onefold.privacy.ledger import has_ledger
from onefold.report import Display, PrivacyUtilityDisplay, write_report
from onefold.report.builders import of_table, privacy_verdict
from onefold.report.curves import NUMBERS, noise_forecast, table_forecast
from onefold.tables import Field, Schema, read_table, write_table
from onefold.tables.cells import unguarded

MOST_TABLES = 4
STALE_SECONDS = 3600.0
PREFIX = "onefold-try-"
MEGABYTES = 2048  # that reading a table may take
SUFFIXES = (".csv", ".parquet", ".npz")
MARKS = (b"\xff\xfe", b"\xfe\xff")  # with which a text in UTF-16 begins
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
DELTA = 1e-5
DRAWS = 2000
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
USUAL_ROWS = 1000  # where nobody says how many there are
SECONDS_PER_DAY = 86_400.0


# --- tables that are open -----------------------------------------------------------------------------------


@dataclass
class OpenTable:
    """One table that somebody tries: its folder, and what was proposed."""

    id: str
    name: str
    folder: tempfile.TemporaryDirectory[str]
    table: Path
    proposed: Schema
    n_rows: int
    used: float
    notes: tuple[str, ...] = ()
    closed: bool = False
    making: threading.Lock = field(default_factory=threading.Lock)
    forecasting: threading.Lock = field(default_factory=threading.Lock)
    forecasts: dict[Any, Any] = field(default_factory=dict)
    forecast_wanted: Any = None

    @property
    def root(self) -> Path:
        """Where its files are until it is closed."""
        return Path(self.folder.name)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let one at a time write into the folder; what is written into a folder that was closed goes too."""
        with self.making:
            try:
                if self.closed:
                    raise InvalidInputError("this table is closed: choose the file again")
                yield
            finally:
                if self.closed:
                    shutil.rmtree(self.root, ignore_errors=True)

    def close(self) -> None:
        """Delete the table and all that was made of it."""
        self.closed = True
        self.folder.cleanup()

    def propose(self, label: str | None) -> Schema:
        """Guess the schema from the rows, with this column as classes."""
        with _told_by_name(self.table, self.name):
            self.proposed = _proposed(read_table(self.table), label)
        return self.proposed


class OpenTables:
    """The oldest goes when another comes, and each after an hour in which nobody has used it."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, OpenTable] = OrderedDict()
        self._alone = threading.Lock()
        sweep_dead()

    def close(self) -> None:
        """Delete everything."""
        self.sweep(-math.inf)

    def drop(self, name: str) -> None:
        """Delete one table and all that was made of it."""
        with self._alone:
            table = self._open.pop(name, None)
        if table is not None:
            table.close()

    def find(self, name: str) -> OpenTable:
        """A table that is open."""
        self.sweep()
        with self._alone:
            if name not in self._open:
                raise InvalidInputError("this table is closed: choose the file again")
            self._open[name].used = time.monotonic()
            return self._open[name]

    def sweep(self, seconds: float = STALE_SECONDS) -> None:
        """Delete tables that nobody has used for an hour, or for so long."""
        now = time.monotonic()
        with self._alone:
            stale = [name for name, found in self._open.items() if now - found.used > seconds]
        for name in stale:
            self.drop(name)

    def add(self, name: str, content: bytes, label: str | None = None) -> OpenTable:
        """Take a table in, and propose its schema."""
        suffix = Path(name).suffix.lower()
        if suffix not in SUFFIXES:
            raise InvalidInputError(f"the name of a table must end in {', '.join(SUFFIXES)}")
        folder = tempfile.TemporaryDirectory(
            prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True
        )  # for this account only
        try:
            path = Path(folder.name) / f"private{suffix}"
            write_whole(path, content)
            with _told_by_name(path, Path(name).name):
                if suffix != ".csv":  # a few bytes can stand for very many there
                    try_confined("onefold.tables:read_table", path, megabytes=MEGABYTES)
                table = read_table(path)
                proposed = _proposed(table, label)
            notes = _notes(content) if suffix == ".csv" else ()
            about = (Path(name).name, folder, path, proposed, table.n_rows, time.monotonic(), notes)
            found = OpenTable(secrets.token_hex(8), *about)
        except BaseException:
            folder.cleanup()
            raise
        with self._alone:
            self._open[found.id] = found
            oldest = list(self._open)[:-MOST_TABLES]
        for each in oldest:
            self.drop(each)
        return found


def _proposed(table: Any, label: str | None) -> Schema:
    # From private rows, for their owner's eyes: `declared` keeps what a person confirms, and nothing else.
    return Schema.infer(table, label=label, source="private")


def _notes(content: bytes) -> tuple[str, ...]:
    """What its owner should know about how the text was read."""
    if content.startswith(MARKS):
        return ()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return ("The file is not in UTF-8 and was read as Windows-1252: look at letters with accents.",)
    return ()


@contextmanager
def _told_by_name(path: Path, name: str) -> Iterator[None]:
    """Errors call a table by the name that its owner knows, not by that of our copy."""
    try:
        yield
    except OnefoldError as error:
        if str(path) not in str(error):
            raise
        raise InvalidInputError(str(error).replace(str(path), name)) from None


def sweep_dead() -> None:
    """Delete what programs have left behind that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not owner.isdigit():
            continue
        if not _is_running(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):  # one of somebody else may have the number: this one's owner has ended
        return False
    return True


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
    if not has_ledger(ledger):
        make_folder(ledger.parent)
        with suppress(InvalidInputError):  # another program has made it meanwhile
            Ledger().save(ledger)


def account(ledger: Path) -> dict[str, Any]:
    """The ledger of the pages, and what was spent in it."""
    lines = str(Ledger.load(ledger)).split("\n")
    return {"file": str(ledger), "spent": [line for line in lines if not line.startswith(" ")]}


def check_wish(schema: Schema, unit: Any, epsilon: Any) -> None:
    """Refuse a unit that is none, an epsilon out of all proportion, and persons that no column names."""
    if unit not in ("entry", "record", "person"):
        raise InvalidInputError("choose what to protect: entry, record or person")
    if isinstance(epsilon, bool) or not (isinstance(epsilon, int | float) and 0.01 <= epsilon <= 64):
        raise InvalidInputError("epsilon must be between 0.01 and 64")
    if unit == "person" and (schema.person is None or schema.rows_per_person is None):
        raise InvalidInputError(
            "to protect persons, say which column names them and how many rows count at most"
        )


# --- what an attacker could learn ---------------------------------------------------------------------------


def rightest(chance: float, epsilon: float, *, replaced: bool, delta: float = DELTA) -> float:
    """Largest probability of a right guess about a cell, if ``chance`` is that without the release.

    The attacker knows everything else; s is the probability looked for, and E the event "the guess is right".
    Without the row the release knows nothing of the cell, and E happens by chance: privacy changes the
    probabilities of E and of its opposite by a factor of at most exp(epsilon), but for delta. Where cells are
    ``replaced``, take the true value and another one, drawn alike and independently: that the guess takes in
    the first and not the second has probability s (1 - chance), and chance (1 - s) if both change places.
    """
    grown = math.exp(epsilon)
    if replaced:
        return min(1.0, (grown * chance + delta) / (1.0 - chance + grown * chance))
    return min(1.0, grown * chance + delta, 1.0 - max(1.0 - chance - delta, 0.0) / grown)


def narrowest(epsilon: float, *, replaced: bool, delta: float = DELTA) -> float:
    """Smallest share of the possible values that a guess which is right in half of all cases leaves open."""
    grown = math.exp(epsilon)
    if replaced:
        return (1.0 - 2.0 * delta) / (1.0 + grown)
    return max((0.5 - delta) / grown, 1.0 - delta - 0.5 * grown)


def learnable(schema: Schema, unit: str, epsilon: float) -> dict[str, Any]:
    """What an attacker could learn at this epsilon: of a record as a whole, and of the cells of each column.

    Parameters
    ----------
    schema : Schema
        The table as it was declared.
    unit : {"entry", "record", "person"}
        What is protected.
    epsilon : float
        How well.

    Returns
    -------
    dict of str to Any
        ``odds`` in words, ``right`` in 100 cases at most, and ``columns``, each in its own unit.
    """
    check_wish(schema, unit, epsilon)
    # The best test between two possibilities is right this often; rounded up, so that "at most" is true.
    right = math.ceil(1000 * (1.0 + DELTA * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))) / 10
    moved = _moved(schema, epsilon) if unit == "entry" and schema.features else None
    used = [each for each in schema.fields if each.role in ("feature", "label")]
    return {
        "odds": _words(unit, right),
        "right": right,
        "columns": [_learnable_of(each, unit, epsilon, moved) for each in used],
    }


def _words(unit: str, right: float) -> str:
    secret = {
        "entry": "Which of two values one cell has",
        "record": "Whether one record is in the table",
        "person": "Whether one person's rows are in the table",
    }[unit]
    more = " Whole rows and persons are not protected." if unit == "entry" else ""
    return (
        f"{secret}: an attacker who knows everything else, and would guess right in 50 of 100 cases, guesses "
        f"right in at most {right:g} of 100.{more}"
    )


def _learnable_of(field: Field, unit: str, epsilon: float, moved: float | None) -> dict[str, Any]:
    """One column, for an attacker to whom all its declared values are equally likely."""
    if field.is_category:
        chance = 1.0 / len(field.levels)
        at_most = math.ceil(1000 * rightest(chance, epsilon, replaced=unit == "entry")) / 10
        before, after = f"{_shown(100 * chance)} of 100 right", f"at most {at_most:g} of 100 right"
        return {"column": field.name, "before": before, "after": after, "moved": None}
    # A guess of +- h leaves open a stretch of 2 h, or 2 h + 1 whole numbers.
    reach, behind = float(field.high or 0.0) - float(field.low or 0.0), f" {field.unit}".rstrip()
    whole = 1.0 if field.type in ("date", "integer") else 0.0
    if field.type in ("date", "datetime"):
        reach, behind = reach / (SECONDS_PER_DAY if field.type == "datetime" else 1.0), " days"
    shares = (0.5, narrowest(epsilon, replaced=unit == "entry"))
    wide, narrow = (max(share * (reach + whole) - whole, 0.0) / 2 for share in shares)
    exact = whole > 0.0 and narrow < whole / 2
    return {
        "column": field.name,
        "before": f"± {_shown(wide)}{behind}",
        "after": "the very value" if exact else f"± {_shown(narrow, down=True)}{behind} or wider",
        "moved": None if moved is None or field.scale != "linear" else f"{_shown(moved * reach)}{behind}",
    }


def _shown(number: float, *, down: bool = False) -> str:
    """Three digits, rounded down where a smaller number is the safe one to say."""
    if number <= 0.0:
        return "0"
    place = 2 - math.floor(math.log10(number))
    # Longer numbers keep all digits in front of the point: 12 345 and not 12 300.
    whole = (math.floor if down else round)(number * 10.0 ** max(place, 0))
    return f"{whole:,}" if place < 0 else f"{whole / 10.0**place:g}"


# --- what it costs ------------------------------------------------------------------------------------------


def entry_noise(schema: Schema, epsilon: float) -> OptimalNoise:
    """The noise on every cell."""
    return OptimalNoise(epsilon, DELTA, sensitivity=domain_of(schema))


def _moved(schema: Schema, epsilon: float) -> float:
    """By which share of its range noise moves half of the cells of a column, before smoothing."""
    return min(1.0, float(np.median(np.abs(entry_noise(schema, epsilon).sample(DRAWS, random_state=0)))))


def curve(schema: Schema, unit: str) -> PrivacyUtilityDisplay:
    """How useful the table would be at several epsilons.

    Of records and persons: the share of made-up rows that noise leaves in the right cell of a single column,
    the one with which it goes worst. Of entries: the share of numbers that noise leaves within a tenth of the
    range of their column.
    """
    if unit == "entry" and not schema.features:
        return PrivacyUtilityDisplay(
            EPSILONS, {"forecast": [0.0] * len(EPSILONS)}, measure=NUMBERS, unit=unit
        )
    if unit == "entry":
        return noise_forecast(partial(entry_noise, schema), None, 1.0, unit, EPSILONS)
    n_rows = schema.rows_about or USUAL_ROWS
    return table_forecast(schema, None, n_rows, unit, DELTA, epsilons=EPSILONS)


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
    with trial.at_work(), _told_by_name(trial.table, trial.name):
        for name in FILES:  # the guarantee of an earlier table must never lie beside another one
            (trial.root / name).unlink(missing_ok=True)
        drawn = trial.forecasts.get(_key(schema, unit))  # none if it was not waited for
        marked = None if drawn is None else replace(drawn, marked=float(epsilon), whole=False)
        own = schema if unit == "person" else schema.without_person()
        return _made(trial, own, unit, epsilon, ledger, marked) | {"account": account(ledger)}


def _made(
    trial: OpenTable, schema: Schema, unit: str, epsilon: float, ledger: Path, curve: Display | None
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
    facts["digest of the schema"] = schema.digest
    curves = {} if curve is None else {"Forecast, from no row": curve}
    write_report(trial.root / "report.html", of_table("Private table", guarantee, facts, evidence=curves))
    plain = json.dumps(guarantee.to_dict(), indent=1, ensure_ascii=False)
    write_whole(trial.root / "guarantee.json", plain.encode())
    verdict = privacy_verdict(guarantee)
    if unit == "entry":  # what was asked for comes first: for a whole record the promise is a much weaker one
        verdict = list(dict.fromkeys([guarantee.odds("entry"), *verdict]))
    return {
        "holds": guarantee.holds,
        "verdict": verdict,
        "guarantee": str(guarantee).split("\n"),
        "quality": quality if n_rows else [NO_ROWS],
        "rows": n_rows,
        "columns": list(columns),
        "first": _first_rows(trial.root / "private-table.csv"),
        "files": list(FILES),
    }


def _first_rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = islice(csv.reader(file), 1, ROWS_SHOWN + 1)
        return [[unguarded(cell) for cell in row] for row in rows]
