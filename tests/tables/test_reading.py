"""Reading tables: a stranger's CSV file just works, and what cannot be read is refused in one clear line."""

import csv
import gzip
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.reference.damage import refusals

from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldWarning
from onefold.tables import Field, Schema, read_table, write_table
from onefold.tables.cells import NumberFormat
from onefold.tables.inference import is_index
from onefold.tables.reading import join_blocks, open_table
from reference.blocks import scan

EXPECTED = {"name": ["Ada", "Bob"], "age": ["36", "41"], "city": ["Graz", "Wien"]}
LINES = ["name{d}age{d}city", "Ada{d}36{d}Graz", "Bob{d}41{d}Wien"]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def plain(path: Path) -> dict[str, list[object]]:
    return {name: values.tolist() for name, values in read_table(path).items()}


def refuse(path: Path) -> str:
    with pytest.raises(InvalidInputError) as caught:
        read_table(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "secret" not in message
    assert caught.value.__cause__ is None or "secret" not in str(caught.value.__cause__)
    return message.removeprefix(str(path))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", [True, False])
def test_csv_is_read_whatever_its_delimiter_line_ends_and_encoding(
    tmp_path: Path, delimiter: str, newline: str, encoding: str, end: bool
) -> None:
    text = newline.join(LINES).format(d=delimiter) + newline * end
    assert plain(write(tmp_path / "t.csv", text.encode(encoding))) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "name,age,city\n\n  \nAda,36,Graz\n\nBob,41,Wien\n\n\n",
        "\n\nname,age,city\nAda,36,Graz\nBob,41,Wien",
        "name,age,city,\nAda,36,Graz,\nBob,41,Wien,\n",
        "name,age,city\nAda,36,Graz,\nBob,41,Wien,\n",
        "name,age,city,\nAda,36,Graz\nBob,41,Wien,\n",
        "name,age,city,,,\nAda,36,Graz,,,\nBob,41,Wien, ,,\n",
        '"name", "age", "city"\n"Ada", 36, "Graz"\n"Bob", "41", Wien\n',
        " name , age,city \n Ada ,36,\tGraz\nBob,  41,Wien\n",
        '"name","age","city"\n"Ada","36","Graz"\n"Bob","41","Wien"\n',
        "sep=;\nname;age;city\nAda;36;Graz\nBob;41;Wien\n",
    ],
)
def test_blank_lines_ends_with_a_delimiter_blanks_and_quotes_do_not_matter(tmp_path: Path, text: str) -> None:
    assert plain(write(tmp_path / "t.csv", text)) == EXPECTED


def test_quoted_cells_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    text = 'a,"b, c"\n"x, ""y""\nz",1\n5" disk,2\n"",3\nu, "v, w"\n'
    expected = {"a": ['x, "y"\nz', '5" disk', "", "u"], "b, c": ["1", "2", "3", "v, w"]}
    assert plain(write(tmp_path / "t.csv", text)) == expected


def test_quotes_across_the_end_of_a_block_are_read(tmp_path: Path) -> None:
    rows = "".join(f'{i},"one\ntwo\nthree"\n{i},x\n' for i in range(9))
    path = write(tmp_path / "t.csv", "n,t\n" + rows)
    for block_rows in range(1, 8):
        blocks = list(scan(path, block_rows))
        texts = np.concatenate([block["t"] for block in blocks]).tolist()
        assert texts == ["one\ntwo\nthree", "x"] * 9
        assert np.concatenate([block["n"] for block in blocks]).tolist() == [str(i // 2) for i in range(18)]


@pytest.mark.parametrize(
    "text, delimiter",
    [
        ("a;b\n3,14;2,5\n1,0;2,7\n", ";"),
        ("name, first;age\nx;1\ny;2\n", ";"),
        ('a,b\n"x;y;z;w",1\n"p;q;r;s",2\n', ","),
        ("a|b\n1,5|x;y\n2,5|z;w\n", "|"),
        ("a\tb c, d\n1\t2\n", "\t"),
        ("a\n1\n2\n", ","),
        ("a;b\n", ";"),
    ],
)
def test_delimiter_is_the_one_that_fits_header_and_lines(tmp_path: Path, text: str, delimiter: str) -> None:
    with open_table(write(tmp_path / "t.csv", text)) as source:
        assert source.delimiter == delimiter


def test_windows_text_is_read_with_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "Größe,b\nfür,1\n".encode("cp1252"))
    with pytest.warns(OnefoldWarning, match="Windows-1252"):
        assert plain(path) == {"Größe": ["für"], "b": ["1"]}
    late = write(tmp_path / "late.csv", b"a,b\n" + b"x,1\n" * 2_000_000 + "ö,1\n".encode("cp1252"))
    with pytest.warns(OnefoldWarning, match="Windows-1252"), open_table(late) as source:
        assert source.names == ("a", "b")


def test_utf8_letters_at_the_edge_of_a_chunk_are_no_other_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.tables.reading.MOST_BYTES", 16)
    path = write(tmp_path / "t.csv", "a,b\n" + "öäü€,1\n" * 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain(path)["a"] == ["öäü€"] * 20


@pytest.mark.parametrize("size", [1, 7, 40])
def test_chunks_end_behind_rows_wherever_they_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("onefold.tables.reading.CHUNK_CHARACTERS", size)
    monkeypatch.setattr("onefold.tables.reading.SAMPLE_CHARACTERS", 1)
    cells = ["x", "two\nlines", 'five" pipe', "a\n\nb,c\n", 'closed"', '"\n"', *map(str, range(20))] * 3
    written = ["x", '"two\nlines"', 'five" pipe', '"a\n\nb,c\n"', 'closed"', '"""\n"""', *cells[6:26]] * 3
    path = write(tmp_path / "t.csv", "a,b\n" + "".join(f"{cell},1\n" for cell in written))
    assert plain(path) == {"a": [cell.strip() for cell in cells], "b": ["1"] * len(cells)}


def test_gzip_is_read_and_damage_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress("\n".join(LINES).format(d=",").encode())
    assert plain(write(tmp_path / "t.csv.gz", packed)) == EXPECTED
    assert "gzip" in refuse(write(tmp_path / "cut.csv.gz", packed[:-12]))
    assert "gzip" in refuse(write(tmp_path / "text.csv.gz", "a,b\n1,2\n"))
    assert "must end in" in refuse(write(tmp_path / "t.npz.gz", packed))


@pytest.mark.parametrize(
    "header, names",
    [
        (",a,b", ("Unnamed: 0", "a", "b")),
        ("Unnamed: 0,a,b", ("Unnamed: 0", "a", "b")),
        (",Unnamed: 0,a", ("Unnamed: 0.1", "Unnamed: 0", "a")),
        ('"",0,1', ("Unnamed: 0", "0", "1")),
    ],
)
def test_index_column_of_pandas_gets_a_name_that_tells_it(
    tmp_path: Path, header: str, names: tuple[str, ...]
) -> None:
    path = write(tmp_path / "t.csv", f"{header}\n0,1,2\n1,3,4\n")
    assert open_table(path).names == names
    assert [is_index(name) for name in names] == [name.startswith("Unnamed") for name in names]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", ": the file is empty"),
        ("\n\n", "does not start with a header line"),
        ("a,b\n", "the table has no rows"),
        ("a,b\n\n\n", "the table has no rows"),
        ("a,b,c\n1,2,3\n4,5\n", "line 3 has 2 cells, the header line has 3"),
        ("a,b,c\n1,2,3\n4,5,6,secret\n", "line 3 has 4 cells, the header line has 3"),
        ('a,b\n"x\ny",1\n\n1,2,secret\n', "line 5 has 3 cells, the header line has 2"),
        ("a,b,,\n1,2,,secret\n", "line 2 has 4 cells, the header line has 2"),
        ("a,,b\n1,2,3\n", "column 2 has no name in the header line: give it one, or add a header line"),
        ("secret,b,secret\n1,2,3\n", "columns 1 and 3 have one name: rename one, or add a header line"),
        ("7.25,3\n1,2\n", "is there a header line?"),
        ("7,25;3\n1;2\n", "is there a header line?"),
        ('a,b\n1,"secret\n2,3\n', "the quote opened in line 2 has no end"),
        ('a,"secret\n1,2\n', "the quote opened in line 1 has no end"),
        ('a,b\n1,"secret', "the quote opened in line 2 has no end"),
        ("a,b\n1,\0\n", "not a text file"),
        ("a,b\n1,secret\n".encode("utf-16")[2:], "not a text file"),
        (b"a,b\n1,\x81\xff\n", "not a text file in UTF-8, UTF-16 or Windows-1252"),
        ("a,b\n1,2\0\n".encode("utf-16"), "NUL"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "not a text file"),
    ],
)
def test_bad_csv_is_refused_with_the_line_of_the_mistake(
    tmp_path: Path, text: str | bytes, words: str
) -> None:
    assert words in refuse(write(tmp_path / "t.csv", text))


@pytest.mark.parametrize("header", ["0,1,2", "1,2,3", ",0,1", "a,2,3", "2019 x,2020,2021"])
def test_columns_may_be_numbered(tmp_path: Path, header: str) -> None:
    assert len(open_table(write(tmp_path / "t.csv", f"{header}\n5,6,7\n")).names) == 3


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: ",".join(f"c{i}" for i in range(200_000)) + "\n", "more than 100000 columns"),
        (lambda: "a,b\n1," + "x" * 10_000_000 + "\n2,3\n", "longer than 4 MB"),
        (lambda: "a,b\n1," + "x" * 10_000_000, "longer than 4 MB"),
        (lambda: 'a,b\n1,"' + "x\n" * 5_000_000 + '"\n2,3\n', "line 2 has a cell that is too long"),
    ],
)
@pytest.mark.parametrize("limit", [131_072, 2**31 - 1])
def test_endless_headers_and_cells_are_refused(
    tmp_path: Path, make: Callable[[], str], words: str, limit: int, request: pytest.FixtureRequest
) -> None:
    before = csv.field_size_limit(limit)  # for the whole process: other packages set it too
    request.addfinalizer(lambda: csv.field_size_limit(before))
    assert words in refuse(write(tmp_path / "t.csv", make()))


def test_unknown_columns_are_refused_with_a_hint(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "age,b\n1,2\n")
    assert list(read_table(path, columns=["b", "age"])) == ["b", "age"]
    with pytest.raises(InvalidInputError, match=r"no column 'agee' among its 2, did you mean 'age'\?"):
        read_table(path, columns=["agee"])


def test_blocks_of_whole_numbers_and_fractions_join_as_numbers_unless_some_would_be_rounded() -> None:
    assert join_blocks([np.array([-1]), np.array([2], np.uint8), np.array([0.5])]).dtype == np.float64
    assert join_blocks([np.array([2**53 + 1]), np.array([0.5])]).tolist() == [2**53 + 1, 0.5]


def test_scan_holds_no_more_than_a_block(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b,c\n" + "".join(f"{i}.25,text {i},z\n" for i in range(60_000)))
    tracemalloc.start()
    rows = sum(len(block["a"]) for block in scan(path, 1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 60_000
    assert peak < 5_000_000 + 2 * (4 << 20)  # blocks, and two chunks while the encoding is told


def test_repeated_texts_are_held_once(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b\n" + "".join(f"red{i % 3},{i}\n" for i in range(50_000)))
    table = read_table(path)
    assert len({id(text) for text in table["a"]}) == 3
    assert table["b"].tolist() == [str(i) for i in range(50_000)]


def test_table_is_a_mapping_of_its_columns(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "a,b\n1,x\n2,y\n"))
    assert (len(table), list(table), table.n_rows) == (2, ["a", "b"], 2)
    assert {**table}["b"].tolist() == ["x", "y"]
    assert "c" not in table


def test_npz_columns_and_matrices_are_read(tmp_path: Path) -> None:
    X = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    np.savez(tmp_path / "x.npz", X=X, y=["u", "v", "u"])
    assert plain(tmp_path / "x.npz") == {"x0": [0, 2, 4], "x1": [1, 3, 5], "y": ["u", "v", "u"]}
    np.savez(tmp_path / "n.npz", X=X, feature_names=["p", "q"], day=np.array(["2020-01-01"] * 3, "M8[D]"))
    assert open_table(tmp_path / "n.npz").names == ("p", "q", "day")
    assert [len(block["p"]) for block in scan(tmp_path / "n.npz", 2)] == [2, 1]
    np.savez(tmp_path / "l.npz", a=np.zeros(3), b=np.zeros(2))
    assert "one entry for each row" in refuse(tmp_path / "l.npz")
    np.savez(tmp_path / "clash.npz", X=X, feature_names=["p", "q"], p=np.zeros(3))
    assert "distinct name" in refuse(tmp_path / "clash.npz")


def test_a_gap_in_a_parquet_file_rounds_no_other_number(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path, long = tmp_path / "t.parquet", [2**60 + step for step in range(3)]
    parquet.write_table(arrow.table({"who": arrow.array([*long, None], arrow.int64())}), path)
    schema = Schema([Field("age", low=0, high=1), Field("who", "integer", role="person")], rows_per_person=1)
    read = read_table(path, columns=["who"], schema=schema)
    assert schema.persons(read).tolist() == [*map(str, long), ""]
    blocks = [5, None] * 10_000 + long * 10_000  # of 20 000 rows
    parquet.write_table(arrow.table({"who": arrow.array(blocks, arrow.int64())}), path)
    read = read_table(path, columns=["who"], schema=schema)
    assert set(schema.persons(read).tolist()) == {"", "5", *map(str, long)}


def test_parquet_types_and_gaps_become_plain_columns(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import decimal

    import pyarrow.parquet as parquet

    path = tmp_path / "t.parquet"
    columns = {
        "number": arrow.array([1.5, None, 2.0]),
        "whole": arrow.array([1, None, 3]),
        "text": arrow.array(["x", None, "z"]),
        "choice": arrow.array(["x", None, "x"]).dictionary_encode(),
        "money": arrow.array([decimal.Decimal("1.25"), None, decimal.Decimal("2")]),
        "day": arrow.array([0, None, 2], arrow.date32()),
        "truth": arrow.array([True, False, True]),
    }
    parquet.write_table(arrow.table(columns), path)
    table = read_table(path)
    assert [values.dtype.kind for values in table.values()] == ["f", "f", "O", "O", "f", "M", "b"]
    np.testing.assert_array_equal(table["whole"], [1, np.nan, 3])
    assert table["choice"].tolist() == ["x", None, "x"]
    np.testing.assert_array_equal(table["money"], [1.25, np.nan, 2])
    np.testing.assert_array_equal(table["day"], np.array(["1970-01-01", "NaT", "1970-01-03"], "M8[D]"))
    parquet.write_table(arrow.table({"a": [[1], [2]]}), path)
    assert "column 'a' holds neither numbers, nor dates, nor texts" in refuse(path)


def test_damaged_npz_is_refused_or_means_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, a=np.arange(50.0), b=np.arange(50))
    size = path.stat().st_size
    found = refusals(path, range(0, size, 37), lambda: np.column_stack(list(read_table(path).values())))
    assert found
    assert all("\n" not in message for message in found)


def test_damaged_csv_never_ends_in_another_error(tmp_path: Path) -> None:
    whole = b'a;b;c\n1,5;"x; ""y""";z\n2;"p\nq";r\n'
    path = tmp_path / "t.csv"
    outcomes = set()
    for place in range(len(whole)):
        for byte in b'\0"\n;\r\xff\x81':
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OnefoldWarning)
                try:
                    table = read_table(path)
                except InvalidInputError as error:
                    outcomes.add(len(str(error).splitlines()))
                else:
                    outcomes.add(len({len(values) for values in table.values()}))
    assert outcomes == {1}  # one line of error, or columns of one length


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    assert refuse(tmp_path / "none.csv") == ": no such file"
    (tmp_path / "folder.csv").mkdir()
    assert refuse(tmp_path / "folder.csv").startswith(": the folder has no .parquet file")
    assert "must end in" in refuse(write(tmp_path / "table", "a\n1\n"))
    assert issubclass(FileFormatError, InvalidInputError)


# --- with a schema ----------------------------------------------------------------------------------------

SCHEMA = Schema(
    [
        Field("age", "integer", low=0, high=100, missing="indicator"),
        Field("income", low=0, high=1e5, written=NumberFormat(",", ".")),
        Field("ward", "string", levels=("a", "b"), other="b"),
        Field("day", "date", low=0, high=30_000),
        Field("ill", "boolean", role="label"),
        Field("who", "string", role="person"),
        Field("note", "string", role="ignored"),
    ],
    missing_values=("", "NA"),
)


def mixed_csv(path: Path, n: int) -> Path:
    rows = (
        f"p{i % 7};{'NA' if i % 5 == 0 else i % 90};1.{i % 1000:03},5;{'abc'[i % 3]};2020-01-{i % 28 + 1:02};"
        f"{i % 2 == 0};free text {i}\n"
        for i in range(n)
    )
    return write(path, "who;age;income;ward;day;ill;note\n" + "".join(rows))


def test_schema_reads_block_by_block_what_it_reads_of_whole_columns(tmp_path: Path) -> None:
    path = mixed_csv(tmp_path / "t.csv", 45_000)
    raw, table = read_table(path), read_table(path, schema=SCHEMA)
    assert sorted(table) == ["age", "day", "ill", "income", "ward", "who"]
    assert table.n_rows == 45_000
    np.testing.assert_array_equal(SCHEMA.transform(table), SCHEMA.transform(raw))
    np.testing.assert_array_equal(SCHEMA.labels(table)[0], SCHEMA.labels(raw)[0])
    np.testing.assert_array_equal(SCHEMA.persons(table), SCHEMA.persons(raw))


def test_schema_reads_numbers_alike_in_files_with_and_without_gaps_and_quotes(tmp_path: Path) -> None:
    schema = Schema([Field("a", low=0, high=10, missing="indicator"), Field("b", low=0, high=10)])
    plain_rows, odd = ["1,2", "3,4.5", "7,8"], {"gap": ",9", "quotes": '"5","6"', "blanks": " 5 , 6 "}
    for name, line in odd.items():
        path = write(tmp_path / f"{name}.csv", "\n".join(["a,b", *plain_rows, line]) + "\n")
        found = parsed_columns(schema, read_table(path, schema=schema))
        np.testing.assert_array_equal(found[:3], [[1, 2], [3, 4.5], [7, 8]])
        np.testing.assert_array_equal(found[3], [np.nan, 9] if name == "gap" else [5, 6])


def parsed_columns(schema: Schema, table: object) -> np.ndarray:
    return np.column_stack(list(schema.parse(table).values()))


def test_number_that_stands_for_a_missing_cell_is_missing_in_a_file_of_numbers(tmp_path: Path) -> None:
    schema = Schema([Field("a", low=0, high=10, missing="indicator")], missing_values=("", "-999"))
    path = write(tmp_path / "t.csv", "a\n1\n-999\n3\n")
    np.testing.assert_array_equal(schema.parse(read_table(path, schema=schema))["a"], [1, np.nan, 3])


def test_breach_of_the_schema_is_told_with_file_row_and_column(tmp_path: Path) -> None:
    path = mixed_csv(tmp_path / "t.csv", 30_000)
    text = path.read_text().splitlines()
    text[25_000] = text[25_000].replace("2020-01", "secret")
    path.write_text("\n".join(text))
    table = read_table(path, schema=SCHEMA)
    with pytest.raises(InvalidInputError, match=r"t.csv: row 25000, column 'day': cannot be read") as caught:
        SCHEMA.parse(table)
    assert "secret" not in str(caught.value)


def test_schema_needs_its_features_and_takes_the_label_if_it_is_there(tmp_path: Path) -> None:
    schema = Schema([Field("a", low=0, high=10), Field("y", "boolean", role="label")])
    path = write(tmp_path / "t.csv", "b,a\n1,2\n")
    assert list(read_table(path, schema=schema)) == ["a"]
    with pytest.raises(InvalidInputError, match="there is no column 'a' among its 1"):
        read_table(write(tmp_path / "u.csv", "aa\n1\n"), schema=schema)


def test_schema_reads_parquet_and_npz_like_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    schema = Schema(
        [Field("a", "integer", low=0, high=9, missing="indicator"), Field("d", "date", low=0, high=9)]
    )
    columns = {"a": np.ma.masked_array([1, 2, 3], [0, 1, 0]), "d": np.array([1, 2, 3], "M8[D]")}
    encoded = []
    for suffix in ("csv", "npz", "parquet"):
        write_table(tmp_path / f"t.{suffix}", columns)
        encoded.append(schema.transform(read_table(tmp_path / f"t.{suffix}", schema=schema)))
    np.testing.assert_array_equal(encoded[0], encoded[1])
    np.testing.assert_array_equal(encoded[0], encoded[2])


@pytest.mark.merge
def test_table_read_by_a_schema_takes_no_memory_for_its_texts(tmp_path: Path) -> None:
    path = mixed_csv(tmp_path / "t.csv", 60_000)
    tracemalloc.start()
    table = read_table(path, schema=SCHEMA)
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.n_rows == 60_000
    assert size < 60_000 * (5 * 9 + 8) + 1_000_000  # five columns of numbers with marks, one of shared texts
    assert peak < size + 35_000_000  # the texts of one block of 20 000 rows


def test_texts_that_repeat_are_read_like_texts_that_do_not(tmp_path: Path) -> None:
    schema = Schema([Field("a", low=0, high=9, missing="indicator"), Field("b", "string", levels=("x", "y"))])
    cells = ["1", "NA", "", "2,5", "x"] * 30
    path = write(
        tmp_path / "t.csv", "a;b\n" + "".join(f"{cell};{'xyz'[i % 3]}\n" for i, cell in enumerate(cells))
    )
    table, raw = read_table(path, schema=schema), read_table(path)
    for known in schema.fields:
        values, problems = known.read(raw[known.name])
        np.testing.assert_array_equal(table[known.name].values, values)
        np.testing.assert_array_equal(table[known.name].problems, problems)


# --- where privacy is promised ------------------------------------------------------------------------------

WARDS = Schema(
    [Field("ward", "string", levels=("café", "b"), missing="indicator"), Field("x", low=0, high=9)]
)


def wards(path: Path, odd: bytes = b"b,1") -> tuple[list[int], list[float]]:
    """Both columns of a private table, without its odd second row."""
    write(path, "ward,x\ncafé,1\n".encode() + odd + "\ncafé,2\nb,3\n".encode())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_table(path, schema=WARDS, private=True)
    columns = [np.delete(table[name].values, 1).tolist() for name in ("ward", "x")]
    return columns[0], columns[1]


@pytest.mark.parametrize(
    "odd",
    [
        b"caf\xe9,1",
        b"\x81\x8d,1",
        b"\xe2\x82,1",
        b"a\0b,1",
        b'"x;y|z\n",1',
        b";;;|||,1",
        b"\xc3,\xa9",
        b"b,1e999",
    ],
)
def test_no_row_of_a_private_table_decides_how_others_are_read(tmp_path: Path, odd: bytes) -> None:
    assert wards(tmp_path / "t.csv", odd) == wards(tmp_path / "t.csv") == ([0, 0, 1], [1.0, 2.0, 3.0])


def test_a_private_table_in_windows_1252_is_read_as_one_in_utf8(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "ward,x\ncafé,1\nb,2\n".encode("cp1252"))
    assert read_table(tmp_path / "t.csv", schema=WARDS, private=True)["ward"].values.tolist() == [0, 1]


def test_a_private_table_may_have_no_rows(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "ward,x\n"), schema=WARDS, private=True)
    assert table.n_rows == 0
    assert WARDS.transform(table).shape == (0, WARDS.width)


def test_columns_read_by_another_schema_are_not_taken_for_those_of_this_one(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "ward,x\ncafé,1\nb,2\n"), schema=WARDS)
    swapped = Schema([Field("ward", "string", levels=("b", "café"), missing="indicator"), WARDS.fields[1]])
    with pytest.raises(InvalidInputError, match="column 'ward' was read by another schema"):
        swapped.transform(table)
    as_label = Schema([replace(WARDS.fields[0], role="label"), WARDS.fields[1]])
    assert as_label.labels(table)[0].tolist() == ["café", "b"]


def test_a_title_above_the_header_is_told_from_a_wrong_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "Report\na,b\n1,2\n")
    with (
        open_table(path) as source,
        pytest.raises(InvalidInputError, match="does the header line come first"),
    ):
        source.require(["a"])


def test_files_of_a_folder_must_agree_on_what_a_column_holds(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "numbers": arrow.array([1.5]),
        "texts": arrow.array(["a"]),
        "dates": arrow.array(np.array(["2020-01-01"], dtype="datetime64[s]")),
        "truth values": arrow.array([True]),
    }
    for first, one in columns.items():
        for second, other in columns.items():
            parquet.write_table(arrow.table({"x": one}), tmp_path / "1.parquet")
            parquet.write_table(arrow.table({"x": other}), tmp_path / "2.parquet")
            if first == second:
                assert read_table(tmp_path).n_rows == 2
                continue
            with pytest.raises(FileFormatError, match=f"'x' holds {second}, {first} in an earlier file"):
                read_table(tmp_path)
    # A column without any value goes with everything.
    parquet.write_table(arrow.table({"x": arrow.nulls(1)}), tmp_path / "2.parquet")
    assert read_table(tmp_path).n_rows == 2
