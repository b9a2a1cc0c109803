"""``onefold synthesize``: a table in, a private one out; what is said depends on released values only."""

import csv
import json
import re
import warnings

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.fabrication import TableSynthesizer
from onefold.fabrication.synthesizer import _predictions, count_answers
from onefold.privacy import Ledger
from onefold.tables import Field, Schema

HEADER = ["age", "ward", "cost", "smoker", "outcome"]
FIELDS = [
    Field("age", "integer", low=0, high=99),
    Field("ward", "string", levels=("heart", "lung", "eyes"), missing="indicator"),
    Field("cost", "number", low=0, high=1000, scale="log"),
    Field("smoker", "boolean"),
    Field("outcome", "string", role="label", levels=("well", "ill")),
]


def write(path, rows, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def people(n, seed=0):
    """Rows whose outcome depends on age and ward."""
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(20, 90, n), rng.integers(0, 3, n)
    ill = rng.random(n) < 1 / (1 + np.exp(-(age - 55) / 6 - (ward - 1)))
    wards = np.array(["heart", "lung", "eyes"])[ward]
    cost = np.round(rng.gamma(2.0, 50.0, n), 2)
    return [
        [int(a), "" if i % 20 == 0 else str(w), float(c), "true" if s else "false", "ill" if y else "well"]
        for i, (a, w, c, s, y) in enumerate(zip(age, wards, cost, rng.random(n) < 0.3, ill, strict=True))
    ]


@pytest.fixture
def schema(tmp_path):
    Schema(FIELDS, rows_about=4000).save(tmp_path / "schema.json")
    return tmp_path / "schema.json"


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "people.csv", people(4000))


def run(*arguments):
    return main(["synthesize", *map(str, arguments)])


def read(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


# --- one table ----------------------------------------------------------------------------------------------


def test_a_table_comes_with_guarantee_and_quality_and_keeps_what_a_model_needs(
    table, schema, tmp_path, capsys
):
    out, test = tmp_path / "made.csv", write(tmp_path / "test.csv", people(2000, 1))
    options = ["--schema", schema, "--epsilon", 2, "--out", out, "--evaluate-public", test]
    assert run(table, *options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "calibrated per record" in lines[0]  # privacy first
    assert any(line.startswith("About ") for line in lines)
    files = f"{out}, their guarantee to {out}.guarantee.json, their quality to {out}.quality.json"
    assert lines[-1].endswith(files)
    rows = read(out)
    assert rows[0] == HEADER
    assert abs(len(rows) - 4001) < 400
    promise = json.loads((tmp_path / "made.csv.guarantee.json").read_text())
    assert promise["record"]["epsilon"] == 2
    assert promise["neighbours"] == "add-remove"
    quality = json.loads((tmp_path / "made.csv.quality.json").read_text())
    assert quality["evaluation"]["accuracy"] > quality["evaluation"]["majority"] + 0.1
    assert quality["rows"] == len(rows) - 1


def test_the_number_of_rows_that_is_said_is_a_noisy_one(table, schema, tmp_path, capsys):
    out, told = tmp_path / "made.csv", []
    for _ in range(4):
        assert run(table, "--schema", schema, "--epsilon", 0.2, "--out", out, "--json") == 0
        said = capsys.readouterr().out + (tmp_path / "made.csv.quality.json").read_text()
        numbers = set(re.findall(r'"rows": (\d+)', said) + re.findall(r"About (\d+) rows", said))
        assert len(numbers) == 1  # and nothing else is said of it
        told.append(int(numbers.pop()))
    assert len(set(told)) > 1
    assert abs(np.mean(told) - 4000) < 500


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet"])
def test_every_format_has_the_declared_types_whatever_the_rows_are(schema, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    strange = [["x", "brain", "", "maybe", "dead"], ["1e999", "a very long ward", "-5", "", ""]]
    tables = {
        "some": people(50),
        "none": [],
        "one": people(1),
        "strange": strange,
        "unlabelled": [[*row[:4], "unheard of"] for row in people(50)],
    }
    kinds, codes = {}, set()
    for name, rows in tables.items():
        path, out = write(tmp_path / f"{name}.csv", rows), tmp_path / f"made.{suffix}"
        codes.add(run(path, "--schema", schema, "--epsilon", 1, "--out", out, "--rows", 7, "--quiet"))
        kinds[name] = shape_of(out)
    assert codes == {0}
    assert all(kind == kinds["some"] for kind in kinds.values()), kinds


def shape_of(path):
    """Everything about a file but the values in it."""
    if path.suffix == ".csv":
        rows = read(path)
        return rows[0], len(rows), [bool(re.fullmatch(r"[0-9.]+", cell)) for cell in (r[0] for r in rows[1:])]
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return [
                (name, arrays[name].dtype, arrays[name].shape) for name in arrays.files
            ], path.stat().st_size
    import pyarrow.parquet as pq

    found = pq.read_table(path)
    return str(found.schema), found.num_rows


@pytest.mark.parametrize("rows", [[], people(1), people(2)])
def test_what_is_said_of_tiny_tables_has_one_form(rows, schema, tmp_path, capsys):
    path, out = write(tmp_path / "tiny.csv", rows), tmp_path / "made.csv"
    assert run(path, "--schema", schema, "--epsilon", 1, "--out", out) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    said = [re.sub(r"[0-9][0-9.e+-]*", "#", line) for line in captured.out.splitlines()]
    assert said[-2].startswith("Rows keep single columns")
    assert read(out)[0] == HEADER


def test_rows_decides_the_length(table, schema, tmp_path):
    out = tmp_path / "made.csv"
    assert run(table, "--schema", schema, "--epsilon", 1, "--out", out, "--rows", 12, "--quiet") == 0
    assert len(read(out)) == 13


def test_replaced_neighbours_and_a_delta_are_stated(table, schema, tmp_path, capsys):
    options = [
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "--neighbours",
        "replace",
        "--out",
        tmp_path / "m.npz",
        "--json",
    ]
    assert run(table, "--schema", schema, *options) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["neighbours"] == "replace"
    assert promise["record"] == {"epsilon": 1.0, "delta": 1e-6}


def test_persons_of_the_schema_are_protected_unless_a_record_is_asked_for(tmp_path, capsys):
    fields = [Field("who", "string", role="person"), *FIELDS]
    Schema(fields, rows_per_person=3).save(tmp_path / "s.json")
    rows = [[f"p{i // 5}", *row] for i, row in enumerate(people(500))]
    path, out = write(tmp_path / "t.csv", rows, ["who", *HEADER]), tmp_path / "m.csv"
    given = [path, "--schema", tmp_path / "s.json", "--epsilon", 1, "--out", out, "--json"]
    units = []
    for unit in ([], ["--unit", "person"], ["--unit", "record"]):
        assert run(*given, *unit) == 0
        units.append(json.loads(capsys.readouterr().out)["promise"]["unit"])
    assert units == ["person", "person", "record"]
    assert read(out)[0] == HEADER  # no column of persons


def test_the_ledger_is_charged_before_and_refuses_beyond_its_limit(table, schema, tmp_path, capsys):
    book = tmp_path / "ledger.db"
    Ledger(1.2, 1e-5, unit="record", neighbours="add-remove").save(book)
    given = [table, "--schema", schema, "--epsilon", 1, "--out", tmp_path / "m.csv", "--ledger", book]
    assert run(*given, "--quiet") == 0
    assert Ledger.load(book).total()[0] == pytest.approx(1.0)
    (tmp_path / "m.csv").unlink()
    assert run(*given) == 2
    assert not (tmp_path / "m.csv").exists()
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_schema_from_private_rows_is_refused(table, tmp_path, capsys):
    Schema(FIELDS, source="private").save(tmp_path / "s.json")
    for given in ([table, "--epsilon", 1], ["--mock"]):
        assert run(*given, "--schema", tmp_path / "s.json", "--out", tmp_path / "m.csv") == 2
        assert "inferred from private rows" in capsys.readouterr().err
    assert not (tmp_path / "m.csv").exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["DATA", "--out", "m.csv"], "--epsilon"),
        (["DATA", "--epsilon", "1"], "--out"),
        (["DATA", "--epsilon", "1", "--out", "m.txt"], "must end in"),
        (["DATA", "--epsilon", "1", "--out", "DATA"], "is an input"),
        (["DATA", "--epsilon", "1", "--out", "m.csv", "--unit", "person"], "person"),
        (["DATA", "--epsilon", "1", "--out", "m.csv", "--evaluate", "DATA"], "--evaluate-epsilon"),
        (["DATA", "--mock", "--out", "m.csv"], "--epsilon"),
        (["--mock", "--out", "m.csv", "--epsilon", "1"], "leave out --epsilon"),
        (["--out", "m.csv"], "name the table"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(
    table, schema, tmp_path, capsys, monkeypatch, options, word
):
    monkeypatch.chdir(tmp_path)
    given = [str(table) if text == "DATA" else text for text in options]
    assert run(*given, "--schema", schema) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert word in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert not (tmp_path / "m.csv").exists()


# --- mock ---------------------------------------------------------------------------------------------------


def test_a_mock_is_made_from_the_schema_alone(schema, tmp_path, capsys):
    out = tmp_path / "mock.csv"
    assert run("--mock", "--schema", schema, "--out", out, "--rows", 300) == 0
    assert "No row was read" in capsys.readouterr().out
    rows = read(out)
    assert rows[0] == HEADER
    assert len(rows) == 301
    assert {row[1] for row in rows[1:]} == {"heart", "lung", "eyes", ""}
    assert json.loads((tmp_path / "mock.csv.guarantee.json").read_text())["epsilon"] == 0


def test_a_mock_of_rows_takes_a_tiny_epsilon_and_says_what_it_is_for(table, schema, tmp_path, capsys):
    out = tmp_path / "mock.csv"
    assert run(table, "--mock", "--schema", schema, "--epsilon", 0.01, "--rows", 50, "--out", out) == 0
    said = capsys.readouterr().out
    assert "epsilon 0.01 per record" in said
    assert "mean nothing" in said
    assert len(read(out)) == 51
    assert run(table, "--mock", "--schema", schema, "--epsilon", 1e-4, "--out", out) == 0
    assert len(read(out)) == 101  # a noisy number would be none, or thousands


# --- a look at other rows -----------------------------------------------------------------------------------


def test_a_paid_look_is_close_to_a_free_one_and_charged(table, schema, tmp_path, capsys):
    book, test = tmp_path / "ledger.db", write(tmp_path / "test.csv", people(3000, 1))
    Ledger(unit="record", neighbours="add-remove").save(book)
    given = [table, "--schema", schema, "--epsilon", 2, "--out", tmp_path / "m.csv", "--json"]
    look = ["--evaluate", test, "--evaluate-epsilon", 0.5, "--ledger", book]
    assert run(*given, *look) == 0
    paid = json.loads(capsys.readouterr().out)["evaluation"]
    assert run(*given, "--evaluate-public", test) == 0
    free = json.loads(capsys.readouterr().out)["evaluation"]
    assert abs(paid["accuracy"] - free["accuracy"]) < 0.05
    assert abs(paid["majority"] - free["majority"]) < 0.05
    assert 0 < paid["error"] < 0.05
    assert paid["promise"]["record"]["epsilon"] == 0.5
    assert Ledger.load(book).total("basic")[0] == pytest.approx(2.5)


def test_a_model_that_is_not_better_than_the_usual_class_is_said_to_be_so(schema, table, tmp_path, capsys):
    rows = [[*row[:4], "well"] for row in people(500, 1)]
    test = write(tmp_path / "test.csv", rows)
    given = [table, "--schema", schema, "--epsilon", 2, "--out", tmp_path / "m.csv", "--json"]
    assert run(*given, "--evaluate-public", test) == 0
    found = json.loads(capsys.readouterr().out)["evaluation"]
    said = " ".join(found["text"])
    assert (": better than" in said) == (found["accuracy"] > found["majority"])  # of 500 rows: clearly
    test = write(tmp_path / "test.csv", people(500, 1))
    assert run(*given, "--evaluate-public", test) == 0
    assert ": better than always answering the most frequent class" in capsys.readouterr().out


def test_a_look_that_noise_hides_says_so_whatever_the_rows_are(table, schema, tmp_path, capsys):
    for rows in ([], people(3)):
        test = write(tmp_path / "test.csv", rows)
        given = [table, "--schema", schema, "--epsilon", 2, "--out", tmp_path / "m.csv", "--json"]
        assert run(*given, "--evaluate", test, "--evaluate-epsilon", 0.1) == 0
        found = json.loads(capsys.readouterr().out)["evaluation"]
        assert "accuracy" not in found
        assert "noise hides" in found["text"][0]


def test_a_look_that_cannot_work_is_refused_before_anything_is_spent(table, schema, tmp_path, capsys):
    book, test = tmp_path / "ledger.db", write(tmp_path / "test.csv", [[1, 2]], ["age", "cost"])
    Ledger(unit="record", neighbours="add-remove").save(book)
    given = [table, "--schema", schema, "--epsilon", 2, "--out", tmp_path / "m.csv", "--ledger", book]
    assert run(*given, "--evaluate-public", test) == 2
    assert "there is no column 'ward'" in capsys.readouterr().err
    assert Ledger.load(book).total() == (0.0, 0.0)


def test_a_class_of_one_synthetic_row_does_not_stop_a_look():
    fields = [Field("age", low=0, high=1), Field("kind", "string", role="label", levels=("a", "b", "c"))]
    made = {"age": np.linspace(0, 1, 10_001), "kind": np.array(["a", "b"] * 5000 + ["c"])}
    guesses, _ = _predictions(Schema(fields), made, {"age": [0.5], "kind": ["a"]})
    assert guesses[0] in ("a", "b", "c")


def test_no_byte_of_a_private_look_decides_what_is_said_of_its_file(table, schema, tmp_path, capfd):
    test = write(tmp_path / "test.csv", people(200, 1))
    given = [table, "--schema", schema, "--epsilon", 2, "--out", tmp_path / "m.csv", "--quiet"]
    for byte in (b"", b"\xe9", b"\x81", b"\0"):
        test.write_bytes(test.read_bytes() + b"40,hea" + byte + b"rt,5,true,ill\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert run(*given, "--evaluate", test, "--evaluate-epsilon", 1) == 0
        assert capfd.readouterr().err == ""


# --- what is printed is true --------------------------------------------------------------------------------


def test_the_noise_of_a_paid_look_is_as_large_as_it_says(schema, tmp_path):
    columns = dict(zip(HEADER, zip(*people(200), strict=True), strict=True))
    maker = TableSynthesizer(Schema.load(schema), 1.0).fit(columns)
    right, plain = np.arange(2000) % 10 < 8, np.arange(2000) % 10 < 5
    looks = [count_answers(maker, 2 * right + plain, 0.5) for _ in range(300)]
    moved = np.array([(look.accuracy - 0.8, look.majority - 0.5) for look in looks])
    stated = np.mean([look.error for look in looks])
    assert np.mean(np.abs(moved) < stated) > 0.95
    assert np.mean(np.abs(moved) < stated / 4) < 0.9  # and not much larger than it is
    assert np.abs(moved.mean(axis=0)).max() < stated / 4


def test_a_record_that_replaces_another_costs_a_look_more_noise(schema):
    columns = dict(zip(HEADER, zip(*people(200), strict=True), strict=True))
    errors = []
    for relation in ("add-remove", "replace"):
        maker = TableSynthesizer(Schema.load(schema), 1.0, neighbours=relation).fit(columns)
        errors.append(count_answers(maker, np.full(100_000, 3), 0.5).error)
    assert errors[1] / errors[0] == pytest.approx(np.sqrt(2.0), rel=0.01)


def test_columns_that_are_independent_are_not_praised_for_their_pairs(table, schema, tmp_path, capsys):
    given = [table, "--schema", schema, "--epsilon", 4, "--structure", "independent"]
    assert run(*given, "--out", tmp_path / "m.csv") == 0
    said = capsys.readouterr().out
    assert "columns are independent within a class." in said
    assert "and not how columns depend on each other" in said
    assert "Pairs of columns:" not in said


def test_neighbouring_tables_are_told_in_the_same_words(schema, tmp_path, capsys):
    rows, said = people(4000), []
    strange = ["17 years", "a ward nobody declared", "1e400", "perhaps", "ill"]
    for number, table in enumerate((rows, rows[1:], [*rows[1:], strange])):
        path, out = write(tmp_path / "t.csv", table), tmp_path / "made.csv"
        assert run(path, "--schema", schema, "--epsilon", 1, "--out", out) == 0, number
        captured = capsys.readouterr()
        words = re.sub(r"\((\w+) is the worst\)|less than|[0-9][0-9.e+-]*", "#", captured.out + captured.err)
        said.append(re.sub(r"(# )+", "# ", words))
    assert said[0] == said[1] == said[2]
