"""A row alone is the row among others: through every source, every dialect and every kind of field."""

import gzip
import json
import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from inspect import signature
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tests.tiers import later

from onefold import encoders
from onefold.tables import Field, Schema, read_table
from onefold.tables.cells import NumberFormat
from onefold.tables.columns import Parsed, column_of, rows_of
from onefold.tables.formats import Source
from onefold.tables.reading import READERS, Held, open_table
from onefold.tables.tasks import as_labels

TOKENS = ("", "NA", "Inf", "nan", "-", "999", "1e3", " ? ")
SCHEMA = Schema(
    [
        Field("plain", low=-10, high=2000, missing="indicator"),
        Field("log", low=0, high=1e6, scale="log", missing="indicator", missing_values=("Inf", "NaN")),
        Field("comma", low=-10, high=2000, written=NumberFormat(",", "."), missing="indicator"),
        Field("unit", low=-10, high=2000, written=NumberFormat(bare=False), missing="indicator"),
        Field("own", low=-10, high=2000, missing="indicator", missing_values=("5", "Infinity")),
        Field("whole", "integer", low=-10, high=2**60, missing="indicator"),
        Field("code", "integer", levels=(0, 1, 5, 1000), missing="indicator"),
        Field("group", "string", levels=("a", "1", "True", "=a", "'=a", "+", "other"), other="other"),
        Field("truth", "boolean", missing="indicator"),
        Field("yes", "boolean", true_values=("ja", "1"), false_values=("nein",), missing="indicator"),
        Field("day", "date", low=0, high=30_000, missing="indicator"),
        Field("written", "date", low=0, high=30_000, format="%d.%m.%Y", missing="indicator"),
        Field("moment", "datetime", low=0, high=2**32, missing="indicator"),
        Field("class", "string", role="label", levels=("a", "b", "=a", "1"), missing="indicator"),
        Field("who", "string", role="person"),
    ],
    missing_values=TOKENS,
    rows_per_person=1,
)
NAMES = [field.name for field in SCHEMA.fields]

EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-11))
NOON = datetime(2020, 1, 2, 12, 30, 15, 750_000)
# fmt: off
TEXTS = [
    *TOKENS, " ", "NaN", "inf", "-inf", "Infinity", "1E999", "-1e999", "999.0", "1000", "1_000", "0x10",
    "\uff11\uff12", "\u0663", "\u22125", "(5)", "+5", "-5", "5", "5.", ".5", "5e-1", "0", "-0", "1", "1.0",
    "007", "1,5", "1.234,5", "1 234", "1'234", "$5", "5 %", "36 months", "9007199254740993", "true", "True",
    "TRUE", "ja", "nein", "2020-01-02", "02.01.2020", "2020-01-02T12:30:15", "2020-01-02T12:30:15.750+14:00",
    "20200102", "a", "b", "=a", "'=a", "''=a", "+", "@b", "x\u00a0", "\u2003a", "a\x0b", "a\x1f", " a ",
    'say "a"', "a,b", "a;b", "a|b", "a\tb", "a\nb", "a\rb", "é",
]
NUMBERS: list[Any] = [0, 1, 5, -5, 999, 1000, 0.0, -0.0, 0.5, 0.1, 5.0, 1e3, 1e300, math.inf, -math.inf]
LONG: list[Any] = [2**53 + 1, 2**53, -(2**60) - 1, 2**62 + 1]
DATES: list[Any] = [
    date(2020, 1, 2), NOON, NOON.replace(microsecond=0), datetime(1969, 12, 31, 23, 59, 59, 500_000),
    datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
AWARE: list[Any] = [NOON.replace(tzinfo=UTC).astimezone(zone) for zone in (UTC, EAST, WEST)]
LENGTHS: list[Any] = [timedelta(0), timedelta(seconds=5), timedelta(days=-200, microseconds=1)]
ODD: list[Any] = [
    None, True, False, math.nan, 2**70, Decimal("5"), Decimal("0.1"), Decimal("NaN"), Decimal("sNaN"),
    Fraction(1, 2), b"5", b"a", time(1), UUID(int=5), [5], [], (1,), {"a": 1}, {5}, np.array([5]), 5j, "a\0",
    np.str_("a"), np.str_(" NA "), np.bytes_(b"a"), np.bool_(True), np.int64(5), np.uint8(5), np.float32(0.1),
    np.float64(5), np.float64("nan"), np.datetime64("2020-01-02"), np.datetime64("12020-01-02"),
    np.datetime64("2020-01-02T12:30:15.75", "ns"), np.datetime64("NaT"), np.timedelta64(5, "s"),
    np.timedelta64(5, "M"), np.timedelta64("NaT"), pd.NA, pd.NaT, pd.Timestamp(NOON),
    pd.Timestamp(NOON, tz="Asia/Tokyo"), pd.Timestamp(1577968215750000001, unit="ns"), pd.Timedelta(5, "s"),
    pd.Timedelta(10**16 + 1, "ns"), pd.Period("2020-01"),
]
# fmt: on
# Texts that some parser takes for numbers, whatever is declared; cells that are equal and not the same.
SPELLED = ["1", "0.5", "5.", "+5", "007", "999", "1e3", "1e999", "Inf", "Infinity", "nan", "", "x", "1_000"]
EQUAL: list[Any] = [1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True), Decimal(1), Fraction(1), "1"]
ANYTHING = [*TEXTS, *NUMBERS, *LONG, *DATES, *AWARE, *LENGTHS, *ODD]

POOLS = (ANYTHING, EQUAL, [*DATES, *AWARE], TEXTS, [*SPELLED, None])
Cells = dict[str, list[Any]]
Maker = Callable[[Path, Cells], Any]


@dataclass(frozen=True)
class Case:
    """A source of tables: how columns are put there, and what their cells may be."""

    make: Maker
    pools: tuple[Any, ...]  # one is taken for each column, whatever its rows are
    private_only: bool = False


def as_text(delimiter: str = ",", *, end: str = "\n", quotes: bool = False, encoding: str = "utf-8") -> Maker:
    special = {*',;|\t\r\n" '}

    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if quotes or special & {*text} else text

    def make(path: Path, columns: Cells) -> Path:
        lines = [NAMES, *zip(*(columns[name] for name in NAMES), strict=True)]
        text = end.join(delimiter.join(map(cell, line)) for line in lines) + end
        content = text.encode(encoding)
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
        return path

    return make


def with_bytes(path: Path, columns: Cells) -> Path:
    """Rows in UTF-8, some of whose texts are in Windows-1252 instead."""
    rows = zip(*(columns[name] for name in NAMES), strict=True)
    lines = [b",".join(name.encode() for name in NAMES)]
    lines += [b",".join(text.encode("cp1252" if "é" in row[0] else "utf-8") for text in row) for row in rows]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def with_kinds(build: Callable[[list[Any], Any], Any], write: Callable[[Path, dict[str, Any]], Any]) -> Maker:
    """Columns of declared types; a cell of a pool is (type, cell)."""

    def make(path: Path, columns: Cells) -> Any:
        typed = {
            name: build([cell for _, cell in column], column[0][0] if column else None)
            for name, column in columns.items()
        }
        return write(path, typed)

    return make


def into_npz(path: Path, columns: dict[str, Any]) -> Path:
    np.savez(path, **columns)
    return path


def into_parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def into_folder(path: Path, columns: dict[str, Any]) -> Path:
    path.mkdir()
    table = pa.table(columns)
    for part in range(len(table)):
        pq.write_table(table.slice(part, 1), path / f"{part:03d}.parquet")
    return path


def into_parts(path: Path, columns: Cells) -> Path:
    """Each row in a file of its own, whose columns have the types of its cells."""
    path.mkdir()
    for part, row in enumerate(zip(*columns.values(), strict=True)):
        cells = {name: pa.array([cell], type=kind) for name, (kind, cell) in zip(columns, row, strict=True)}
        pq.write_table(pa.table(cells), path / f"{part:03d}.parquet")
    return path


def into_lines(path: Path, columns: Cells) -> Path:
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    content = "\n".join(map(json.dumps, rows)).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def into_sheet(path: Path, columns: Cells) -> Path:
    book = openpyxl.Workbook()
    for line in (NAMES, *zip(*(columns[name] for name in NAMES), strict=True)):
        book.active.append(line)
    book.save(path)
    return path


def into_arrow(path: Path, columns: dict[str, Any]) -> Path:
    pa.feather.write_feather(pa.table(columns), path)
    return path


def into_sqlite(path: Path, columns: Cells) -> str:
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(f'[{name}]' for name in NAMES)})")
        rows = zip(*(columns[name] for name in NAMES), strict=True)
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(NAMES))})", rows)
    connection.close()
    return f"sqlite:///{path}#t"


def objects(cells: list[Any]) -> Any:
    return np.fromiter(cells, dtype=object, count=len(cells))


def typed(*pools: tuple[Any, list[Any]]) -> tuple[list[tuple[Any, Any]], ...]:
    return tuple([(kind, cell) for cell in cells] for kind, cells in pools)


SMALL = [n for n in NUMBERS if isinstance(n, int)]
NAT = np.datetime64("NaT")
MOMENTS = [np.datetime64(moment, "us") for moment in (NOON, DATES[3])]
NPZ = typed(
    ("U20", [text for text in TEXTS if len(text) <= 20]),
    ("S20", [text.encode() for text in TEXTS if text.isascii() and len(text) <= 20]),
    *((kind, [0, 1, 5, 127]) for kind in ("i1", "u8", "f2", ">i4")),
    ("i8", [*SMALL, *LONG]),
    ("f8", [*NUMBERS, np.nan]),
    ("f4", [*NUMBERS[:-3], np.nan]),
    ("?", [True, False]),
    *((f"M8[{unit}]", [*MOMENTS, NAT]) for unit in ("D", "s", "us", "ns")),
    *(
        (f"m8[{unit}]", [np.timedelta64(5, "s"), np.timedelta64(-(10**12) - 1, "us")])
        for unit in ("us", "ns")
    ),
)
PARQUET = typed(
    (pa.string(), [*TEXTS, None]),
    (pa.dictionary(pa.int32(), pa.string()), [*TEXTS, None]),
    (pa.int64(), [*SMALL, *LONG, None]),
    (pa.uint8(), [0, 1, 5, None]),
    (pa.float64(), [*NUMBERS, None, float("nan")]),
    (pa.float32(), [*NUMBERS[:-3], None]),
    (pa.bool_(), [True, False, None]),
    (pa.date32(), [date(2020, 1, 2), date(1960, 1, 2), None]),
    *((pa.timestamp(unit), [*DATES[1:4], None]) for unit in ("us", "ns")),
    (pa.timestamp("us", tz="Asia/Tokyo"), [*AWARE, None]),
    (pa.duration("us"), [*LENGTHS, None]),
    (pa.decimal128(20, 3), [Decimal("5"), Decimal("0.125"), Decimal("12345678901234567.5"), None]),
)
POLARS = typed(
    (pl.String, [*TEXTS, None]),
    (pl.Categorical, [*TEXTS, None]),
    (pl.Int64, [*SMALL, *LONG, None]),
    (pl.Float64, [*map(float, NUMBERS), None, float("nan")]),
    (pl.Boolean, [True, False, None]),
    (pl.Date, [date(2020, 1, 2), None]),
    (pl.Datetime("us"), [*DATES[1:], None]),
    (pl.Datetime("ns"), [*DATES[1:4], None]),
    (pl.Datetime("us", "Asia/Tokyo"), [*AWARE, None]),
    (pl.Duration("us"), [*LENGTHS, None]),
    (pl.Decimal(20, 3), [Decimal("5"), Decimal("0.125"), None]),
    (pl.List(pl.Int64), [[5], [], None]),
    (pl.Object, ANYTHING),
)
PANDAS = typed(
    # The type of a list follows from its cells; long whole numbers are not among them, as pandas rounds them.
    *((None, [*pool, None]) for pool in (TEXTS, NUMBERS, DATES, AWARE, LENGTHS, [True, False, 1, 0.5])),
    (None, [*TEXTS, *NUMBERS, *DATES[:4], True, None]),
    *(
        (None, [*DATES[:4], cell, "a"])
        for cell in ODD
        if isinstance(cell, (np.datetime64, np.floating, date))
    ),
    (object, ANYTHING),
    ("category", [*TEXTS, None]),
    ("category", [*SMALL, None]),
    ("string", [*TEXTS, None]),
    *((kind, [*SMALL, *LONG, None]) for kind in ("Int64", "int64[pyarrow]")),
    ("boolean", [True, False, None]),
    ("datetime64[ns]", [*DATES[1:4], None]),
    ("datetime64[ns, Asia/Tokyo]", [*AWARE, None]),
    ("timedelta64[ns]", [*LENGTHS, None]),
    (pd.ArrowDtype(pa.decimal128(20, 3)), [Decimal("5"), None]),
)
SHEET = [text for text in TEXTS if text.isprintable() and not text.startswith("=") and text.strip()]
LINES = (TEXTS, [*TEXTS, *NUMBERS[:-2], *LONG, True, None], [*SMALL, *LONG, 2**70], [[5], {"a": 1}, "a", 5])
SQLITE = (TEXTS, [*TEXTS, *NUMBERS, *LONG, None], [*SMALL, None], [*NUMBERS, None], [*SMALL, *LONG])

CASES: dict[str, Case] = {
    "comma.csv": Case(as_text(), (TEXTS, SPELLED)),
    "quoted.csv": Case(as_text(quotes=True, end="\r\n"), (TEXTS, SPELLED)),
    "semicolon.csv": Case(as_text(";", end="\r"), (TEXTS, SPELLED)),
    "bar.csv": Case(as_text("|", encoding="utf-16"), (TEXTS, SPELLED)),
    "marked.csv": Case(as_text(encoding="utf-8-sig"), (TEXTS, SPELLED)),
    "bytes.csv": Case(with_bytes, (["é", "a", "5", "", "1é", "Ã©", "é5"],)),
    "tab.tsv": Case(as_text("\t"), (TEXTS, SPELLED)),
    "packed.csv.gz": Case(as_text(), (TEXTS, SPELLED)),
    "packed.tsv.gz": Case(as_text("\t", quotes=True), (TEXTS, SPELLED)),
    "arrays.npz": Case(with_kinds(np.array, into_npz), NPZ),
    "arrow.parquet": Case(with_kinds(pa.array, into_parquet), PARQUET),
    "arrow.pq": Case(with_kinds(pa.array, into_parquet), PARQUET),
    "arrow.arrow": Case(with_kinds(pa.array, into_arrow), PARQUET),
    "arrow.feather": Case(with_kinds(pa.array, into_arrow), PARQUET),
    "sheet.xlsx": Case(into_sheet, (SHEET, [*SHEET, 5, 0.5, True, NOON, NOON.date(), "="], [5, 0.5, "a"])),
    "folder": Case(with_kinds(pa.array, into_folder), PARQUET),
    **{
        f"lines.{suffix}": Case(into_lines, LINES, private_only=True)
        for suffix in ("jsonl", "ndjson", "jsonl.gz")
    },
    "folder of types": Case(into_parts, ([cell for pool in PARQUET for cell in pool],), private_only=True),
    "sqlite": Case(into_sqlite, SQLITE),
    "sqlite with bytes": Case(into_sqlite, (*SQLITE, [b"5", b"", 5, "5", None]), private_only=True),
    "dict of lists": Case(lambda _, columns: columns, (*POOLS, NUMBERS, [*NUMBERS, *LONG], [True, False])),
    "dict of tuples": Case(lambda _, columns: {k: tuple(v) for k, v in columns.items()}, POOLS),
    "dict of objects": Case(lambda _, columns: {k: objects(v) for k, v in columns.items()}, POOLS),
    "dict of arrays": Case(with_kinds(np.array, lambda _, columns: columns), NPZ),
    "masked arrays": Case(
        with_kinds(
            lambda cells, kind: np.ma.masked_array(
                np.array([0 if cell is None else cell for cell in cells], dtype=kind),
                mask=[cell is None for cell in cells],
            ),
            lambda _, columns: columns,
        ),
        typed(("i8", [*SMALL, *LONG, None]), ("f8", [*NUMBERS, None]), ("?", [True, False, None])),
    ),
    "list of rows": Case(
        lambda _, columns: [list(row) for row in zip(*columns.values(), strict=True)],
        ([cell for cell in ANYTHING if not isinstance(cell, (list, tuple, np.ndarray))],),
    ),
    "array of objects": Case(
        lambda _, columns: np.array([objects(column) for column in columns.values()]).T, (ANYTHING,)
    ),
    "array of floats": Case(
        lambda _, columns: np.array(list(columns.values()), dtype=np.float64).T, ([*NUMBERS, np.nan],)
    ),
    "array with names": Case(
        with_kinds(np.array, lambda _, columns: np.rec.fromarrays(list(columns.values()), names=NAMES)), NPZ
    ),
    "pandas": Case(
        with_kinds(
            lambda cells, kind: pd.Series(objects(cells) if kind is object else cells, dtype=kind),
            lambda _, columns: pd.DataFrame(columns),
        ),
        PANDAS,
    ),
    "arrow table": Case(with_kinds(pa.array, lambda _, columns: pa.table(columns)), PARQUET),
    "polars": Case(
        with_kinds(
            lambda cells, kind: pl.Series(cells, dtype=kind, strict=True),
            lambda _, columns: pl.DataFrame(columns),
        ),
        POLARS,
    ),
}
FILES = [name for name in CASES if "." in name or name in ("folder", "sqlite")]


def readings(X: Any, private: bool) -> list[tuple[Any, ...]]:
    """Everything that is made of each row: encoded bits, what is wrong with its cells, the person."""
    table = read_table(X, schema=SCHEMA, private=private) if isinstance(X, (str, Path)) else X
    encoded = SCHEMA.transform(table)
    label = SCHEMA.parse(table, strict=False, roles=("label",))["class"]
    persons = SCHEMA.persons(table)
    problems = []
    for field in SCHEMA.fields[:-1]:
        column = column_of(table, field.name, SCHEMA.fields)
        problems.append(column.problems if isinstance(column, Parsed) else field.read(column, TOKENS)[1])
    return [
        (encoded[row].tobytes(), label[row], persons[row], *(int(wrong[row]) for wrong in problems))
        for row in range(len(encoded))
    ]


def pick(pools: tuple[Any, ...], n_rows: int, rng: np.random.Generator) -> Cells:
    columns = {}
    if rng.random() < 0.5:
        pools = (pools[rng.integers(len(pools))],)
    for name in NAMES:
        pool = pools[rng.integers(len(pools))]
        columns[name] = [pool[place] for place in rng.integers(len(pool), size=n_rows)]
    return columns


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trials", later([2, 8], [2]))
@pytest.mark.parametrize("name", CASES)
def test_a_row_alone_is_the_row_among_others(
    name: str, trials: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    rng = np.random.default_rng(sum(name.encode()) + trials)
    for trial in range(trials):
        columns = pick(case.pools, 5, rng)
        monkeypatch.setattr(Source.blocks, "__defaults__", (2 + trial % 2 * 1000,))  # rows of a block
        rows = np.arange(5)
        tables = [rows, *([row] for row in rows), rng.permutation(5)[:3]]
        for private in (True,) if case.private_only else (True, False):
            among: list[tuple[Any, ...]] = []
            for number, chosen in enumerate(tables):
                place = tmp_path / f"{trial}-{private}-{number}-{name}"
                table = {key: [column[row] for row in chosen] for key, column in columns.items()}
                found = readings(case.make(place, table), private)
                among = among or found
                assert found == [among[row] for row in chosen], (trial, private, list(chosen))


def all_kinds(kind: type) -> set[type]:
    return {kind}.union(*(all_kinds(below) for below in kind.__subclasses__())) - {Source}


def test_every_source_has_a_case(tmp_path: Path) -> None:
    opened = set()
    for name in FILES:
        case = CASES[name]
        with open_table(case.make(tmp_path / name, pick(case.pools, 1, np.random.default_rng(0)))) as source:
            opened.add(type(source))
    in_files = {kind for kind in all_kinds(Source) if kind.__module__.startswith("onefold")} - {Held}
    assert opened == in_files
    assert {Path(name).suffix for name in FILES if "." in name} == {*READERS, ".gz"}


# --- the first findings, each by itself -------------------------------------------------------------------


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("token", ["Inf", "nan", "1e5", "Infinity", "+5", "1_0"])
def test_a_token_that_spells_a_number_is_missing_beside_any_cell(
    token: str, private: bool, tmp_path: Path
) -> None:
    schema = Schema([Field("x", low=0, high=10, missing="indicator")], missing_values=("", token))
    (tmp_path / "t.csv").write_text("x,y\n" + f"{token},1\n" * 20, encoding="utf-8")
    (tmp_path / "u.csv").write_text("x,y\n" + f"{token},1\n" * 20 + ",1\n", encoding="utf-8")
    for name in ("t.csv", "u.csv"):
        encoded = schema.transform(read_table(tmp_path / name, schema=schema, private=private))
        assert encoded[:, 1].all()


def test_one_moment_in_two_time_zones_is_on_the_day_of_each() -> None:
    day = Field("day", "date", low=0, high=30_000)
    single = [day.read(AWARE[1:2])[0][0], day.read(AWARE[2:])[0][0]]
    assert day.read(AWARE[1:])[0].tolist() == single == [18264, 18263]


def test_decimal_numbers_are_read_beside_those_of_numpy() -> None:
    assert Field("x", low=0, high=10).read([Decimal("5"), np.int64(5)])[0].tolist() == [5.0, 5.0]


def test_a_class_is_read_alike_beside_any_other() -> None:
    labels = as_labels("t.csv", np.array(["1.0", "1", "-0", "a", "007", "1.5"]))
    assert labels.tolist() == ["1", "1", "0", "a", "007", "1.5"]
    assert as_labels("t.csv", np.array(["1.0", "1", "-0"])).tolist() == [1, 1, 0]


def test_rows_taken_from_lists_keep_their_cells() -> None:
    cells = [1.0, "a", True, 5, 0.5, 2**53 + 1]
    taken = rows_of({"c": cells}, [0, 1, 2, 5])["c"]
    assert [(type(cell), cell) for cell in taken] == [(type(cells[row]), cells[row]) for row in (0, 1, 2, 5)]


FILELESS = [
    kind
    for kind in (getattr(encoders, name) for name in encoders.__all__)
    if isinstance(kind, type) and issubclass(kind, encoders.Encoder) and kind is not encoders.Encoder
    if not {"path", "folder"} & {*signature(kind).parameters}
]
MAPS = [
    *(kind((10, 10)) if "image_shape" in signature(kind).parameters else kind() for kind in FILELESS),
    *(encoders.RandomFeatures(7, kind=kind) for kind in ("fourier", "projection")),
    encoders.LowFrequencyDCT(n_coefficients=7),
]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("encoder", MAPS, ids=repr)
def test_an_encoded_row_has_the_same_bits_in_every_layout(encoder: Any, kind: Any) -> None:
    rows = np.random.default_rng(3).normal(size=(13, 100)).astype(kind)
    wide = np.zeros((26, 300), dtype=kind)
    wide[::2, ::3] = rows
    turned = np.ascontiguousarray(rows[::-1, ::-1])[::-1, ::-1]
    layouts = [rows, np.asfortranarray(rows), wide[::2, ::3], turned]
    encoder.fit(rows)
    alone = np.vstack([encoder.transform(row[None, :]) for row in rows])
    for layout in layouts:
        assert encoder.transform(layout).tobytes() == alone.tobytes()
    foreign = rows.astype(rows.dtype.newbyteorder())
    singles = np.vstack([encoder.transform(row[None, :]) for row in foreign])
    assert encoder.transform(foreign).tobytes() == singles.tobytes()
