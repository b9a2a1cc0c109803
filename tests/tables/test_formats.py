"""JSON lines, Excel workbooks and Arrow files are tables like others; what is wrong is one clear line."""

import gzip
import sys
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.tables import Field, Schema, read_table
from reference.blocks import scan

SCHEMA = Schema(
    [
        Field("age", "integer", low=0, high=100, missing="indicator"),
        Field("ward", "string", levels=("a", "b"), missing="indicator"),
        Field("day", "date", low=0, high=30_000, missing="indicator"),
    ]
)
ROWS: list[tuple[Any, Any, Any]] = [(31, "a", "2020-01-02"), (None, " b", None), (50, None, "2021-03-04")]
EXPECTED = SCHEMA.transform(dict(zip(("age", "ward", "day"), zip(*ROWS, strict=True), strict=True)))


def refuse(path: Path, **options: Any) -> str:
    with pytest.raises(InvalidInputError) as caught:
        read_table(path, **options)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    return str(caught.value)


def sheet(path: Path, *lines: Any) -> Path:
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    book.save(path)
    return path


# --- JSON lines --------------------------------------------------------------------------------------------

LINES = '{"age": 31, "ward": "a", "day": "2020-01-02"}\n\n{"ward": " b"}\n{"day": "2021-03-04", "age": 50}'


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.jsonl.gz"])
def test_json_lines_are_a_table(name: str, tmp_path: Path) -> None:
    content = LINES.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    np.testing.assert_array_equal(SCHEMA.transform(read_table(tmp_path / name, schema=SCHEMA)), EXPECTED)
    assert [len(block["age"]) for block in scan(tmp_path / name, 2)] == [2, 1]
    assert read_table(tmp_path / name)["ward"].tolist() == ["a", "b", None]


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"a": 1}\n{"a": secret}\n', "line 2 is no JSON object"),
        ('{"a": 1}\n["secret"]\n', "line 2 is no JSON object"),
        ('{"a": NaN}\n', "line 1 is no JSON object"),
        ('{"a": ' + "[" * 5000 + "\n", "line 1 is no JSON object"),
        ('{"a": [1]}\n', "column 'a' holds neither numbers, nor dates, nor texts"),
        ('{"a": {"secret": 1}}\n', "column 'a' holds neither numbers, nor dates, nor texts"),
        ("\n\n", "the table has no rows"),
        ('{"a": 1, "": 2}', "column 2 has no name"),
        ('{"1": 1, "2.5": 2}', "is there a header line"),
    ],
)
def test_bad_json_lines_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    assert words in refuse(tmp_path / "t.jsonl")


def test_a_line_of_json_is_not_longer_than_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"a": "' + "x" * 5_000_000 + '"}\n')
    assert "line 1 is no JSON object, or too long" in refuse(tmp_path / "t.jsonl")


def test_no_cell_of_private_json_lines_is_an_error(tmp_path: Path) -> None:
    odd = b'{"age": [1], "ward": "\xe9\\ud800", "day": {"x": 1e999}}\n'
    (tmp_path / "t.jsonl").write_bytes(LINES.encode() + b"\n" + odd)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = SCHEMA.transform(read_table(tmp_path / "t.jsonl", schema=SCHEMA, private=True))
    np.testing.assert_array_equal(found[:3], EXPECTED)
    assert len(found) == 4


# --- Excel -------------------------------------------------------------------------------------------------


def test_the_first_sheet_of_a_workbook_is_a_table(tmp_path: Path) -> None:
    days = [None if day is None else datetime.fromisoformat(day) for _, _, day in ROWS]
    lines = [(age, ward, day) for (age, ward, _), day in zip(ROWS, days, strict=True)]
    path = sheet(tmp_path / "t.xlsx", (), ("age", "ward", "day", None), lines[0], (), *lines[1:])
    np.testing.assert_array_equal(SCHEMA.transform(read_table(path, schema=SCHEMA)), EXPECTED)
    assert [len(block["age"]) for block in scan(path, 2)] == [2, 1]
    assert read_table(path)["ward"].tolist() == ["a", "b", None]


def test_bad_workbooks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "more cells than the header" in refuse(sheet(tmp_path / "wide.xlsx", ("a",), (1, "secret")))
    assert "columns 1 and 2 have one name" in refuse(sheet(tmp_path / "same.xlsx", ("a", "a"), (1, 2)))
    assert "the table has no rows" in refuse(sheet(tmp_path / "none.xlsx", ("a", "b")))
    (tmp_path / "text.xlsx").write_text("a,b\n1,secret\n")
    assert "not an Excel workbook" in refuse(tmp_path / "text.xlsx")
    whole = sheet(tmp_path / "t.xlsx", ("a", "b"), (1, 2))
    (tmp_path / "cut.xlsx").write_bytes(whole.read_bytes()[:-200])
    assert "not an Excel workbook" in refuse(tmp_path / "cut.xlsx")
    monkeypatch.setattr("onefold.tables.formats.MOST_UNPACKED", 1000)
    assert "too large" in refuse(whole)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'onefold\[excel\]'"):
        read_table(whole)


# --- Arrow -------------------------------------------------------------------------------------------------


def test_files_of_arrow_and_parquet_make_one_folder(tmp_path: Path) -> None:
    table = pa.table(dict(zip(("age", "ward", "day"), zip(*ROWS, strict=True), strict=True)))
    feather.write_feather(table, tmp_path / "1.arrow")
    parquet.write_table(table, tmp_path / "2.parquet")
    for place, times in ((tmp_path / "1.arrow", 1), (tmp_path, 2)):
        found = SCHEMA.transform(read_table(place, schema=SCHEMA))
        np.testing.assert_array_equal(found, np.vstack([EXPECTED] * times))
    (tmp_path / "1.arrow").write_bytes((tmp_path / "1.arrow").read_bytes()[:-300])
    assert "1.arrow: not a Parquet file or one of Arrow" in refuse(tmp_path)
