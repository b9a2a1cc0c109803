"""What Arrow reads at once is what is read cell by cell, and line by line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.attacks.test_readers import SCHEMA, SPELLED, TEXTS, TOKENS

from onefold.exceptions import InvalidInputError
from onefold.tables import Field, read_table
from onefold.tables.cells import plain_column, stripped
from onefold.tables.reading import CsvSource

# fmt: off
EXTREME = [
    "1e999", "-1e999", "1e-999", "4.9e-324", "2.4703282292062327e-324", "1" * 400, "-0",
    "9007199254740993", "1.7976931348623159e308", "nan(x)", "-nan", "+inf", "1e", "e1", "--1", "+-1", "1d5",
    "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "2020-02-30", "2020-1-2", "-0001-01-01",
    "2020-01-02 ", "2020-01-02T00:00", "2020-01-02Z", "２０２０-01-02", "1\u00a0", "\u20091", "(1)",
    "1\u2212", "\u0661",
]
# fmt: on
DAYS = ["0000-02-01", "2020-01-02", "1969-12-31", "1600-02-29", "", "NA"]
FIELDS = [*SCHEMA.fields[:-1], Field("any", "date", low=0, high=1), Field("bare", low=0, high=1)]


def pools(rng: np.random.Generator) -> list[list[str]]:
    letters = [chr(code) for code in (*range(32, 127), 160, 0x2003, 0x3000, 0x1F, 0x85, 233, 0x1F600)]
    random = ["".join(rng.choice(letters, size=rng.integers(6))) for _ in range(60)]
    numbers = [repr(float(x)) for x in rng.normal(size=40) * 10.0 ** rng.integers(-300, 300, size=40)]
    return [
        [*TEXTS, *EXTREME, *random],
        [*SPELLED, *EXTREME],
        numbers,
        [*numbers, *TOKENS],
        DAYS,
        [""],
        ["5"],
    ]


def same(field: Field, cells: list[str | None]) -> None:
    literal, wrong = field.read(np.array(cells, dtype=object), TOKENS)
    for kind in (pa.string(), pa.large_string()):
        whole = pa.array(cells, kind)
        for column in (whole, pa.chunked_array([whole[:3], whole[3:]]), pa.array(["x", *cells], kind)[1:]):
            values, problems = field.read(column, TOKENS)
            np.testing.assert_array_equal(values, literal)
            np.testing.assert_array_equal(np.signbit(values), np.signbit(literal))
            np.testing.assert_array_equal(problems, wrong)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_a_column_of_arrow_is_read_like_its_cells(field: Field) -> None:
    rng = np.random.default_rng(5)
    for pool in pools(rng):
        same(field, pool)
        for size in (0, 1, 7):
            cells = [pool[place] for place in rng.integers(len(pool), size=size)]
            same(field, [None if rng.random() < 0.1 else cell for cell in cells])


def test_every_blank_of_python_is_stripped() -> None:
    signs = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000 and chr(code).isspace()]
    texts = [f"{sign}a{sign}b{sign}" for sign in [*signs, "\u200b", "\ufeff", "\u180e", "x"]]
    assert stripped(pa.array(texts)).to_pylist() == [text.strip() for text in texts]


def test_columns_of_arrow_become_plain_ones_of_any_length() -> None:
    assert plain_column(pa.chunked_array([], pa.string())).tolist() == []
    assert plain_column(pa.chunked_array([], pa.int64())).tolist() == []
    parts = pa.chunked_array([["a", None], ["b", "a"]]).dictionary_encode()
    assert plain_column(parts).tolist() == ["a", None, "b", "a"]
    assert plain_column(pa.array([2**60 + 1, None])).tolist() == [2**60 + 1, None]


# --- lines -------------------------------------------------------------------------------------------------

SIGNS = [
    "a",
    "b",
    '"',
    '"',
    ",",
    ",",
    "\n",
    "\n",
    "\r",
    " ",
    "\t",
    "'",
    "=",
    "é",
    '""',
    '", "',
    "\u2003",
    ";",
]


def outcome(path: Path, private: bool) -> object:
    try:
        return {name: column.tolist() for name, column in read_table(path, private=private).items()}
    except InvalidInputError as error:
        return str(error)


@pytest.mark.parametrize("private", [False, True])
def test_arrow_reads_a_file_as_it_is_read_line_by_line(
    private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(11 + private)
    path, by_arrow, tables = tmp_path / "t.csv", CsvSource._batches, 0
    for _ in range(400):
        header = ["x", "x,y", "x,y,z", "x,y,", "sep=;\nx;y", '"x", "y"'][rng.integers(6)]
        rows = ["".join(rng.choice(SIGNS, size=rng.integers(1, 9))) for _ in range(rng.integers(1, 4))]
        usual = ["1,2", '"1","2"', "1,2,3", "1", '"a\nb",c', "1,2,"][rng.integers(6)]
        path.write_text("\n".join([header, usual, *rows, usual]), encoding="utf-8", newline="")
        monkeypatch.setattr(CsvSource, "_batches", by_arrow)
        found = outcome(path, private)
        monkeypatch.setattr(CsvSource, "_batches", refusing)
        assert found == outcome(path, private), path.read_text()
        tables += isinstance(found, dict)
    assert 20 < tables < 380


def refusing(*_: object) -> object:
    raise pa.ArrowInvalid


@pytest.mark.merge
def test_a_file_that_turns_odd_is_read_on_line_by_line(tmp_path: Path) -> None:
    path, n = tmp_path / "t.csv", 70_000  # several of Arrow's blocks before the odd line
    for odd, cells in (('"5", "6"', ["5", "6"]), ("5,6,", ["5", "6"]), ("'=5,6", ["=5", "6"])):
        path.write_text("a,b\n" + "".join(f"{i},text {i}\n" for i in range(n)) + odd + "\n7,8\n")
        table = read_table(path)
        assert table["a"].tolist() == [*map(str, range(n)), cells[0], "7"]
        assert table["b"][-3:].tolist() == [f"text {n - 1}", cells[1], "8"]
    path.write_text("a,b\n" + '1,"2\n3"\n' * 70_000 + "1,2,3\n")
    with pytest.raises(InvalidInputError, match="line 140002 has 3 cells, the header line has 2"):
        read_table(path)


def test_a_line_of_too_few_empty_cells_is_not_a_blank_one(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tb\tc\n1\t2\t3\n\t\n")
    with pytest.raises(InvalidInputError, match="line 3 has 2 cells, the header line has 3"):
        read_table(tmp_path / "t.tsv")


def test_usual_files_are_read_by_arrow_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CsvSource, "_line_by_line", refusing)
    for name, text in {
        "quotes": 'a,b\n"x, y ""y""\nz",1\n5" disk,2\n',
        "blank": "a,b\n\n  \n1,2\n\n",
        "ends": "a,b,,\r\n1,2,,\r\n",
        "guards": "a;b\n'=1;'x\n",
    }.items():
        (tmp_path / f"{name}.csv").write_text(text, newline="")
        assert read_table(tmp_path / f"{name}.csv").n_rows in (1, 2)
