"""Two tables that differ in one record leave the same traces: everything but the noisy cells is equal."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from onefold.cli.app import main
from onefold.tables import Field, Schema

FIELDS = [
    Field("age", "integer", low=18, high=90),
    Field("income", low=0, high=200_000),
    Field("town", "string", levels=("Aa", "B", "a far longer word")),
    Field("code", "integer", levels=(1, 7, 30)),
    Field("member", "boolean"),
    Field("sick", "string", "label", levels=("yes", "no", "not known")),
]
PATIENT = Field("patient", "string", "person")
SCHEMAS = {"records": Schema(FIELDS), "persons": Schema([PATIENT, *FIELDS], rows_per_person=2)}
NAMES = ["patient", *(known.name for known in FIELDS)]
# Cells of one column read the same in any type; as texts they stand in a CSV file.
ROWS = [
    ("ann", 30, 1200, "Aa", 1, True, "yes"),
    ("ann", 41, 88000, "B", 7, True, "no"),
    ("bob", 52, 3100, "B", 1, False, "no"),
    ("cy", 63, 900, "Aa", 7, True, "yes"),
    ("bob", 74, 500, "Aa", 7, False, "yes"),
    ("bob", 85, 40, "B", 1, True, "no"),
]
FORMS = {
    "age": re.compile(r"\d+"),
    "income": re.compile(r"\d+\.\d+(e-?\d+)?"),
    "town": re.compile("Aa|B|a far longer word"),
    "code": re.compile("1|7|30"),
    "member": re.compile("True|False"),
    "sick": re.compile("yes|no|not known"),
}
OPTIONS = ["--label-epsilon", 1, "--epsilon", 1]
NUMBER = st.one_of(
    st.integers(18, 90),
    st.integers(-(10**15), 10**15),
    st.floats(18, 90),
    st.floats(allow_nan=False),  # infinite ones too
)
RECORD = st.tuples(
    NUMBER,
    NUMBER,
    st.sampled_from(FIELDS[2].levels),
    st.sampled_from([1, 7, 30, 7.0]),
    st.booleans(),
    st.sampled_from(["yes", "no", "not known"]),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("neighbours")
    for name, schema in SCHEMAS.items():
        schema.save(made / f"{name}.json")
    return made


def write(path: Path, place: int, record: tuple[Any, ...]) -> None:
    """The rows with one record replaced, in the types that all cells of a column have."""
    rows = [list(row) for row in ROWS]
    rows[place][1:] = record
    columns = dict(zip(NAMES, zip(*rows, strict=True), strict=True))
    if path.suffix == ".npz":
        np.savez(path, **{name: np.array(cells) for name, cells in columns.items()})
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: np.array(cells) for name, cells in columns.items()}), path)
    else:
        lines = [",".join(NAMES), *(",".join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines) + "\n")


def traces(folder: Path, suffix: str, capsys: Any, *options: object, unit: str = "records") -> dict[str, Any]:
    """All that leaves but the noisy cells: the exit code, what is printed, and the form of both files."""
    data, out = folder / f"in{suffix}", folder / f"out{suffix}"
    promise = Path(f"{out}.guarantee.json")
    for old in (out, promise):
        old.unlink(missing_ok=True)
    common = ["--schema", folder / f"{unit}.json", "--out", out, *options]
    code = main(["release", *map(str, [data, *OPTIONS, *common])])
    printed = capsys.readouterr()
    found: dict[str, Any] = {"code": code, "out": printed.out, "err": printed.err, "files": out.exists()}
    if code == 0:
        found |= {"promise": promise.read_bytes(), "form": form(out)}
    return found


def form(path: Path) -> Any:
    """What a file shows without its cells: names, order, types, widths, and its length where it is fixed."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            types = {name: (arrays[name].dtype.str, arrays[name].shape) for name in arrays.files}
        return types, path.stat().st_size
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return str(pq.read_schema(path)), pq.read_metadata(path).num_rows
    header, *rows = (line.split(",") for line in path.read_text().splitlines())
    for row in rows:
        assert [name for name, cell in zip(header, row, strict=True) if not FORMS[name].fullmatch(cell)] == []
    return header, len(rows)


LATE = [(".csv", "persons"), (".npz", "records"), (".parquet", "persons")]


@pytest.mark.parametrize(
    ("suffix", "unit"),
    [
        (".csv", "records"),
        (".npz", "persons"),
        pytest.param(".parquet", "records", marks=pytest.mark.merge),
        *(pytest.param(*case, marks=pytest.mark.nightly) for case in LATE),
    ],
)
def test_one_replaced_record_changes_nothing_but_noisy_cells(
    folder: Path, capsys: pytest.CaptureFixture[str], suffix: str, unit: str
) -> None:
    """Before, a fraction changed the type of its column, and a longer word the width of all words."""
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")

    @given(place=st.integers(0, len(ROWS) - 1), one=RECORD, two=RECORD)
    @settings(max_examples=examples(6, 12), deadline=None)
    def check(place: int, one: tuple[Any, ...], two: tuple[Any, ...]) -> None:
        found = []
        for record in (ROWS[place][1:], one, two):
            write(folder / f"in{suffix}", place, record)
            found.append(traces(folder, suffix, capsys, unit=unit))
        assert found[0] == found[1] == found[2]
        assert found[0]["code"] == 0
        assert json.loads(found[0]["promise"])["holds"]

    check()


BAD = [
    (1, ""),
    (1, "nan"),
    (1, "Zebulon"),
    (2, "Zebulon"),
    (3, "Zebulon"),
    (3, ""),
    (4, "8"),
    (5, "maybe"),
    (6, ""),
]


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_a_cell_outside_the_declaration_leaves_no_trace(
    folder: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    """Before, the command stopped and named the row: an answer about the data."""
    write(folder / f"in{suffix}", 2, ROWS[2][1:])
    usual = traces(folder, suffix, capsys)
    assert usual["code"] == 0
    for column, cell in BAD:
        record = list(ROWS[2][1:])
        record[column - 1] = cell
        write(folder / f"in{suffix}", 2, tuple(record))
        assert traces(folder, suffix, capsys) == usual, (NAMES[column], cell)


def test_number_of_clipped_cells_is_told_nowhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for income in (100, 10**9):
        lines = [",".join(NAMES), *(f"{k},30,{income},Aa,1,True,yes" for k in range(50))]
        (folder / "in.csv").write_text("\n".join(lines) + "\n")
        found.append(traces(folder, ".csv", capsys, "--json"))
    assert found[0] == found[1]


def test_raw_labels_have_the_type_of_declared_classes(folder: Path, tmp_path: Path) -> None:
    """Labels may be released as they are; their type must not depend on which of them occur."""
    types = []
    for label in ("yes", "not known"):
        write(tmp_path / "in.npz", 0, (*ROWS[0][1:-1], label))
        known = ["--schema", folder / "records.json", "--lam", 1, "--out", tmp_path / "out.npz"]
        assert main(["release", *map(str, [tmp_path / "in.npz", *known])]) == 0
        with np.load(tmp_path / "out.npz") as made:
            types.append(made["sick"].dtype.str)
            assert made["sick"][0] == label
    assert types == ["<U9", "<U9"]
