"""``onefold schema`` and ``onefold check``: propose, show, compare; one line for every error."""

import json
import re
from pathlib import Path

import pytest

from onefold.cli.app import main
from onefold.tables import Field, Schema

SAMPLE = (
    ";age;income;ward;admitted;outcome\n"
    "0;31;1.234,5;cardio;2020-01-02;good\n"
    "1;64;999,0;surgery;2021-05-02;bad\n"
    "2;;120,25;cardio;2020-01-09;good\n"
)
SECRET = "secret-4711"


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("loans.csv")
    path.write_text(SAMPLE)
    return path


def run(*words: object) -> int:
    return main([str(word) for word in words])


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert run(*words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.fullmatch("onefold: error: [^\n]+\n", shown.err)
    return shown.err


# --- schema infer -----------------------------------------------------------------------------------------


def test_infer_writes_a_schema_with_every_guess_marked(sample: Path, capsys) -> None:
    assert run("schema", "infer", sample, "--label", "outcome") == 0
    shown = capsys.readouterr().out
    schema = Schema.load("loans.schema.json")
    assert [known.name for known in schema.to_review] == [known.name for known in schema.fields]
    assert shown.count("REVIEW guessed") + shown.count("REVIEW 2 classes") == len(schema.fields)
    assert "must be public or synthetic" in shown
    assert schema.source == "public"
    assert schema.label is not None
    assert (schema.label.name, schema.name) == ("outcome", "loans")
    roles = {known.name: known.role for known in schema.fields}
    assert roles["Unnamed: 0"] == "identifier"
    assert schema.field("income").written.decimal == ","
    schema.require_declared()


def test_infer_from_private_rows_is_marked_and_refused_by_what_is_private(sample: Path, capsys) -> None:
    words = ["schema", "infer", sample, "--label", "outcome"]
    assert run(*words, "--from-private", "--out", "p.json") == 0
    assert "give them away" in capsys.readouterr().out
    assert run(*words, "--out", "q.json", "--quiet") == 0
    private, public = Schema.load("p.json"), Schema.load("q.json")
    assert private.source == "private"
    assert private.digest != public.digest
    with pytest.raises(ValueError, match="private rows"):
        private.require_declared()


def test_infer_prints_json_for_machines(sample: Path, capsys) -> None:
    assert run("schema", "infer", sample, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "loans.schema.json"
    assert told["digest"] == Schema.load("loans.schema.json").digest
    assert set(told["review"]) == {"Unnamed: 0", "age", "income", "ward", "admitted", "outcome"}


def test_infer_does_not_overwrite_a_schema_that_was_not_named(sample: Path, capsys) -> None:
    Path("loans.schema.json").write_text("reviewed")
    assert "exists already" in refused(capsys, "schema", "infer", sample)
    assert Path("loans.schema.json").read_text() == "reviewed"
    assert run("schema", "infer", sample, "--out", "loans.schema.json", "--quiet") == 0


@pytest.mark.parametrize(
    "words, told",
    [
        (["none.csv"], "no such file"),
        (["loans.csv", "--label", "outcom"], "did you mean 'outcome'?"),
        (["loans.csv", "--out", "none/s.json"], "the folder does not exist"),
        (["loans.csv", "--out", "loans.csv"], "is an input"),
        (["header.csv"], "no rows"),
    ],
)
def test_infer_refuses_what_it_cannot_read_or_write(
    sample: Path, capsys, words: list[str], told: str
) -> None:
    Path("header.csv").write_text("a,b\n")
    assert told in refused(capsys, "schema", "infer", *words)


def test_name_of_a_compressed_table_loses_both_endings(sample: Path) -> None:
    import gzip

    Path("loans.csv.gz").write_bytes(gzip.compress(sample.read_bytes()))
    assert run("schema", "infer", "loans.csv.gz", "--quiet") == 0
    assert Path("loans.schema.json").exists()


# --- schema show ------------------------------------------------------------------------------------------


@pytest.fixture
def schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Schema:
    monkeypatch.chdir(tmp_path)
    made = Schema(
        [
            Field("age", "integer", low=0, high=110, unit="years", missing="indicator"),
            Field("income", low=0, high=1e6, scale="log", log_unit=1000),
            Field("ward", "string", levels=tuple("abcdefgh"), other="h", review="guessed"),
            Field("well\x1b[31m", "boolean", role="label"),
            Field("who", "string", role="person"),
        ],
        rows_per_person=3,
        missing_values=("", "NA"),
    )
    made.save("s.json")
    return made


def test_show_says_what_is_declared_and_what_follows(schema: Schema, capsys) -> None:
    assert run("schema", "show", "s.json") == 0
    shown = capsys.readouterr().out
    for words in (
        r"age +integer +feature +0 to 110 +a value of its own +years +2 columns",
        r"income +number +feature +0 to 1000000, by logarithm from 1000 +refused +1 column",
        r"ward .*a, b, c, d, e, f, \.\.\. \(2 more\); other texts: h .*8 columns +REVIEW guessed",
        r"well\\x1b\[31m +boolean +label +true or false",
        r"3 features, encoded as 11 numbers",
        r"at most 1\.658 \(Euclidean\) if a record comes or goes, 1\.803 if one is replaced, 1\.118 if",
        r'missing cell: "", "NA"\.',
        r"'who' says whom a row is about; at most 3 rows count for each",
        r"1 column still marked REVIEW",
        f"Digest {schema.digest}",
    ):
        assert re.search(words, shown), words
    assert "\x1b" not in shown


def test_show_prints_json_for_machines(schema: Schema, capsys) -> None:
    assert run("schema", "show", "s.json", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert Schema.from_dict(told["declared"]).digest == told["digest"] == schema.digest
    assert told["row_norm"] == schema.row_norm
    assert told["review"] == {"ward": "guessed"}


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", '{"fields": []}', '{"fields": [{"name": 1}]}', "\0" * 9]
)
def test_show_refuses_what_is_no_schema(tmp_path: Path, capsys, content: str | None) -> None:
    path = tmp_path / "s.json"
    if content is not None:
        path.write_text(content)
    assert "s.json" in refused(capsys, "schema", "show", path)


# --- check ------------------------------------------------------------------------------------------------


def test_check_of_a_table_that_keeps_its_schema_is_silent_success(schema: Schema, capsys) -> None:
    Path("t.csv").write_text("who,age,income,ward,well\x1b[31m,more\np,,5,a,true,1\nq,20,7,zzz,false,2\n")
    assert run("check", "t.csv", "--schema", "s.json") == 0
    shown = capsys.readouterr().out
    assert "2 rows checked: no findings." in shown
    assert "1 column of the table not in the schema" in shown
    assert run("check", "t.csv", "--schema", "s.json", "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_check_lists_findings_by_column_and_row_without_a_cell(schema: Schema, capsys) -> None:
    rows = [f"p,{SECRET},5,a,true", "p,140,,b,true", "q,20,7,c,maybe", "p,30,9,d,false", "p,1.5,1,a,true"]
    Path("t.csv").write_text("who,age,income,ward,well\x1b[31m\n" + "\n".join(rows) + "\n")
    assert run("check", "t.csv", "--schema", "s.json") == 1
    shown = capsys.readouterr()
    for words in (
        "column 'age': cannot be read as an integer in 1 row (1)",
        "column 'age': is outside the declared range in 1 row (2)",
        "column 'income': is missing in 1 row (2)",
        "1 person(s) have more than the declared 3 rows",
        "5 rows checked: ",
        "it stays on this machine",
    ):
        assert words in shown.out
    assert SECRET not in shown.out + shown.err
    assert "\x1b" not in shown.out
    assert run("check", "t.csv", "--schema", "s.json", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == 5
    assert {"column": "income", "problem": "is missing", "count": 1, "rows": [2]} in told["findings"]


def test_check_counts_rows_across_blocks(schema: Schema, capsys) -> None:
    lines = [f"p{i},20,5,a,true" for i in range(45_000)]
    lines[44_998] = "p,20,,a,true"
    Path("t.csv").write_text("who,age,income,ward,well\x1b[31m\n" + "\n".join(lines) + "\n")
    assert run("check", "t.csv", "--schema", "s.json") == 1
    assert "column 'income': is missing in 1 row (44999)" in capsys.readouterr().out


def test_check_names_a_column_that_is_not_there(schema: Schema, capsys) -> None:
    Path("t.csv").write_text("who,age,ward,well\x1b[31m\np,20,a,true\n")
    assert run("check", "t.csv", "--schema", "s.json") == 1
    assert "column 'income': is not in the table" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, told",
    [
        ("a,b\n1,2\n", "none of the 5 columns of s.json"),
        ("age,ward\n", "no rows"),
        (f"age,ward\n1,{SECRET},3\n", "line 2 has 3 cells"),
    ],
)
def test_check_refuses_tables_that_cannot_be_compared(schema: Schema, capsys, text: str, told: str) -> None:
    Path("t.csv").write_text(text)
    message = refused(capsys, "check", "t.csv", "--schema", "s.json")
    assert told in message
    assert SECRET not in message
    assert "there is no schema" in refused(capsys, "check", "t.csv", "--schema", "none.json")
