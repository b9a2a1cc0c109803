"""By a schema, tables that differ in a cell or a record leave the same traces, and none is refused."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import later

from onefold.cli.app import main
from onefold.fabrication import MomentFabricator
from onefold.tables import Field, Schema, read_table

FIELDS = (
    Field("who", "string", "person"),
    Field("age", "integer", low=0, high=120),
    Field("glucose", low=2, high=30, unit="mmol/L", missing="indicator"),
    Field("cost", low=0, high=1e6, scale="log"),
    Field("ward", "string", levels=("cardio", "surgery", "other"), other="other"),
    Field("code", "integer", levels=(1, 7, 30)),
    Field("member", "boolean", missing="indicator"),
    Field("seen", "date", low=18262, high=20000),
    Field("sick", "string", "label", levels=("no", "yes", "not known")),
)
NAMES = [known.name for known in FIELDS]
SCHEMAS = {
    "records": Schema([known for known in FIELDS if known.role != "person"]),
    "persons": Schema(FIELDS, rows_per_person=2),
}
ROWS = [
    ("ann", "30", "5.5", "1200", "cardio", "1", "true", "2020-01-01", "yes"),
    ("ann", "41", "", "88000", "surgery", "7", "false", "2021-02-03", "no"),
    ("bob", "52", "7.25", "3100", "other", "1", "", "2022-03-04", "no"),
    ("cy", "63", "11", "900", "cardio", "30", "true", "2023-04-05", "yes"),
    ("bob", "74", "4", "500", "surgery", "7", "false", "2024-05-06", "not known"),
    ("bob", "85", "9", "40", "cardio", "1", "true", "2020-06-07", "no"),
]
STRANGE = ("", "nan", "inf", "-1e300", "3.7", "1e999", "a text longer than any level", "2020-13-77", "ä;\"'")
CELL = st.one_of(
    st.sampled_from(STRANGE),
    st.text(
        st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters=',"'), max_size=60
    ),
    st.integers(-(10**18), 10**18).map(str),
)
COMMANDS: dict[str, tuple[Any, ...]] = {
    "release": ("release", "--epsilon", 1),
    "release with private labels": ("release", "--epsilon", 1, "--label-epsilon", 1),
    "fabricate": ("fabricate", "--epsilon", 1, "--stopping", 1),
    "fabricate with private labels": ("fabricate", "--epsilon", 1, "--stopping", 1, "--label-epsilon", 1),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("schema")
    for name, schema in SCHEMAS.items():
        schema.save(made / f"{name}.json")
    return made


def write(path: Path, place: int, cells: dict[str, str]) -> None:
    """The rows as a CSV file, with some cells of one of them replaced."""
    rows = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    rows[place] |= cells
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row.values()) for row in rows]
    path.write_text("\n".join([",".join(NAMES), *quoted]) + "\n", encoding="utf-8")


def form(path: Path) -> Any:
    """What a table shows without its cells, read as NPZ: names, order, types, widths and lengths."""
    with np.load(path) as arrays:
        return {name: (arrays[name].dtype.str, arrays[name].shape) for name in arrays.files}


def traces(folder: Path, unit: str, command: tuple[Any, ...], capsys: Any) -> dict[str, Any]:
    """All that leaves but noisy cells: what is printed, the guarantee, the form of the table."""
    out = folder / "out.npz"
    promise = Path(f"{out}.guarantee.json")
    for old in (out, promise):
        old.unlink(missing_ok=True)
    given = [command[0], folder / "in.csv", *command[1:], "--schema", folder / f"{unit}.json", "--out", out]
    code = main(list(map(str, given)))
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return {"out": printed.out, "err": printed.err, "promise": promise.read_bytes(), "form": form(out)}


PAIRS = [("release", "records"), ("fabricate with private labels", "persons")]


@pytest.mark.parametrize(("command", "unit"), later(product(COMMANDS, SCHEMAS), PAIRS))
def test_one_record_changes_nothing_but_noisy_cells(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, unit: str
) -> None:
    # Whom a row is about is taken as known, and labels are released unless they are made private.
    fixed = {"who"} if "labels" in command else {"who", "sick"}
    free = [name for name in NAMES if name not in fixed]
    write(folder / "in.csv", 0, {})
    usual = traces(folder, unit, COMMANDS[command], capsys)
    assert json.loads(usual["promise"])["holds"]
    assert list(usual["form"]) == NAMES[1:]

    @given(st.integers(0, len(ROWS) - 1), st.dictionaries(st.sampled_from(free), CELL, min_size=1))
    @settings(max_examples=10, deadline=None)
    def check(place: int, cells: dict[str, str]) -> None:
        write(folder / "in.csv", place, cells)
        assert traces(folder, unit, COMMANDS[command], capsys) == usual

    check()


@pytest.mark.parametrize("unit", SCHEMAS)
def test_synthetic_tables_of_moments_have_one_form(folder: Path, unit: str) -> None:
    schema = SCHEMAS[unit]

    @given(st.integers(0, len(ROWS) - 1), st.dictionaries(st.sampled_from(NAMES[1:]), CELL))
    @settings(max_examples=15, deadline=None)
    def check(place: int, cells: dict[str, str]) -> None:
        write(folder / "in.csv", place, cells)
        made = MomentFabricator(1.0, schema=schema).fit(read_table(folder / "in.csv", schema=schema))
        table = made.sample_table(20)
        assert {name: (values.dtype.str, values.shape) for name, values in table.items()} == {
            known.name: (known.dtype.str, (20,)) for known in FIELDS[1:]
        }
        assert made.guarantee_.holds

    check()


def test_only_released_texts_and_no_raw_ones_leave(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "in.csv", 2, {"ward": "Zebulon", "age": "Zebulon", "code": "Zebulon"})
    for command in COMMANDS.values():
        found = traces(folder, "persons", command, capsys)
        assert "Zebulon" not in found["out"] + found["err"] + found["promise"].decode()
        with np.load(folder / "out.npz") as table:
            assert set(table["ward"].tolist()) <= {"cardio", "surgery", "other"}
            assert set(table["code"].tolist()) <= {1, 7, 30}


def test_a_schema_from_private_rows_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Schema(FIELDS, rows_per_person=2, source="private").save(folder / "private.json")
    write(folder / "in.csv", 0, {})
    more = {"transfer source": ("transfer", "source"), "release": ("release",), "fabricate": ("fabricate",)}
    for command in more.values():
        given = [*command, folder / "in.csv", "--schema", folder / "private.json", "--epsilon", 1]
        assert main(list(map(str, [*given, "--out", folder / "out.npz"]))) == 2
        assert "inferred from private rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("fabricate", "--person=who"),
        ("fabricate", "--sensitivity=1"),
        ("transfer source", "--radius=2"),
        ("transfer source", "--classes=a"),
    ],
)
def test_options_that_repeat_the_schema_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, option: str
) -> None:
    write(folder / "in.csv", 0, {})
    given = [*command.split(), folder / "in.csv", "--schema", folder / "persons.json", "--epsilon", 1]
    assert main(list(map(str, [*given, option, "--out", folder / "out.npz"]))) == 2
    assert f"leave out {option.split('=')[0]}" in capsys.readouterr().err
