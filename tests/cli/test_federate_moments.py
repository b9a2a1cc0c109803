"""``onefold federate site --method moments``: the forecast, the promise, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.cli.app import main
from onefold.federated.flower.folders import SiteFolder
from onefold.privacy import Ledger
from onefold.tables import Field, Schema
from reference.site_files import model_file, profile_bytes, sums_file

FOLDER = "federation/sites/north"
BARE = ["federate", "site", "rows.csv", "--folder", FOLDER, "--fit-only"]
BY_SCHEMA = [*BARE, "--schema", "schema.json", "--epsilon", "1"]
NUMBERS = [*BARE, "--label", "sick", "--ignore", "patient", "--epsilon", "1", "--classes", "no", "yes"]
FIELDS = [
    *(Field(name, low=0, high=100) for name in ("age", "pulse", "weight", "height")),
    Field("patient", "integer", "person", low=0, high=1000),
    Field("sick", "string", "label", levels=("no", "yes")),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["federate", "init", "--sites", "north", "--insecure"]) == 0
    write(237)
    Schema(FIELDS, rows_about=3000, rows_per_person=3).save("schema.json")
    capsys.readouterr()


def write(n: int) -> None:
    rng = np.random.default_rng(0)
    sick = np.arange(n) % 2
    cells = (40 + 20 * sick[:, None] + 8 * rng.standard_normal((n, 4))).clip(0, 100).round(1)
    lines = [
        ",".join([*map(str, row), str(number // 3), ("no", "yes")[kind]])
        for number, (row, kind) in enumerate(zip(cells, sick, strict=True))
    ]
    Path("rows.csv").write_text("\n".join(["age,pulse,weight,height,patient,sick", *lines]) + "\n")


def site() -> SiteFolder:
    return SiteFolder(Path(FOLDER))


def test_moments_are_what_a_record_gets_and_the_forecast_comes_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*BY_SCHEMA, "--unit", "record", "--sites", "3", "--accuracy-without-noise", "0.9"]) == 0
    text = capsys.readouterr().out
    first = text.splitlines()[0]
    assert first.startswith(
        "Forecast from declared numbers, no promise: with about 3000 rows, 4 columns, 2 classes, epsilon 1 "
        "per record at 3 sites: expect about 100% of what telling the classes apart gains over guessing, an "
        "accuracy of about 0.90"
    )
    for words in (
        "epsilon 1 per record, delta 1e-05",
        "Provided that the schema was declared without looking at the rows.",
        "A person with several records: NOT covered as a person.",
        "Private moments of the rows leave this site once",
    ):
        assert words in text
    assert "Limits:" not in text
    assert not re.search(r"\b237\b", text)
    assert sums_file(site()).exists()
    assert not model_file(site()).exists()
    assert [event.epsilon for event in Ledger.load(site().ledger).events] == [1.0]
    assert main(["federate", "site", "--folder", FOLDER, "--fit-only", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["sends_moments"] is True
    assert told["model_may_leave"] is False
    assert told["profile"]["measure"] == "moments"


def test_nothing_that_is_printed_depends_on_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for n in (237, 90):
        write(n)
        again = ["--ledger", str(site().ledger)] if site().ledger.exists() else []
        assert main([*BY_SCHEMA, "--unit", "record", "--json", *again]) == 0
        captured = capsys.readouterr()
        # The second release is the second charge of its ledger, whatever the rows.
        charge = re.compile(rf'"number": {len(said) + 1},|[0-9a-f]{{64}}|[0-9a-f]{{48}}')
        assert charge.search(captured.out)
        said.append(charge.sub("", captured.out) + captured.err)
    assert said[0] == said[1]
    assert json.loads(captured.out)["forecast"]["rows"] == 3000


def test_persons_of_the_schema_are_protected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BY_SCHEMA, "--unit", "person"]) == 0
    text = capsys.readouterr().out
    assert "with about 3000 rows of 1000 persons or more, 4 columns" in text
    assert "epsilon 1 per person, delta 1e-05" in text
    assert Ledger.load(site().ledger).unit == "person"


@pytest.mark.parametrize("domain", [["--range", "0", "100"], ["--radius", "200"]])
def test_rows_of_numbers_need_classes_and_a_domain(
    domain: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*NUMBERS, "--unit", "record", *domain]) == 0
    text = capsys.readouterr().out
    assert "No forecast: no number of rows is declared" in text
    assert re.search(r"the noise swamps fewer than about \d+ rows a site; 80% .* takes about \d+\.", text)
    assert "epsilon 1 per record" in text


def test_noise_that_swamps_the_data_is_refused_unless_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    few = [*NUMBERS, "--unit", "record", "--range", "0", "100", "--rows-about", "20"]
    assert main(few) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "the noise would swamp the data, with about 20 rows, 4 columns, 2 classes" in said.err
    assert "--anyway" in said.err
    assert not sums_file(site()).exists()
    assert not site().ledger.exists()
    assert main([*few, "--anyway"]) == 0
    assert "expect about" in capsys.readouterr().out


def test_noise_on_rows_stays_under_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BY_SCHEMA, "--unit", "record", "--method", "rows"]) == 0
    text = capsys.readouterr().out
    assert "Forecast" not in text
    assert "The model stays here; only answers leave." in text
    assert model_file(site()).exists()
    assert not sums_file(site()).exists()


RECORD = ["--unit", "record"]
WRONG = {
    "entries": ([*BY_SCHEMA, "--method", "moments"], "protects whole records"),
    "method without noise": ([*BARE, "--schema", "schema.json", "--method", "moments"], "--epsilon"),
    "no classes": (
        [*BARE, "--label", "sick", "--epsilon", "1", *RECORD, "--range", "0", "1"],
        "needs --classes",
    ),
    "no domain": ([*NUMBERS, *RECORD], "needs --range LOW HIGH, --radius R or --schema"),
    "two domains": ([*NUMBERS, *RECORD, "--range", "0", "1", "--radius", "1"], "one of them"),
    "radius beside a schema": ([*BY_SCHEMA, *RECORD, "--radius", "1"], "leave out --radius"),
    "a model": ([*BY_SCHEMA, *RECORD, "--model", "wide"], "--model is for --method rows"),
    "noise on labels": (
        [*BY_SCHEMA, *RECORD, "--label-epsilon", "1"],
        "--label-epsilon is for --method rows",
    ),
    "answers only": (
        [*BY_SCHEMA, *RECORD, "--send-answers-only"],
        "--send-answers-only is for --method rows",
    ),
    "plain sums": ([*BY_SCHEMA, *RECORD, "--send-plain-sums"], "--send-plain-sums is for --method rows"),
    "another noise": ([*BY_SCHEMA, *RECORD, "--noise", "laplace"], "--noise is for --method rows"),
    "no delta": ([*BY_SCHEMA, *RECORD, "--delta", "0"], "--delta above 0"),
    "float sampler": ([*BY_SCHEMA, *RECORD, "--sampler", "float"], "would promise nothing"),
    "forecast of rows": ([*BY_SCHEMA, "--anyway"], "--anyway is for --method moments"),
    "persons of records": (
        [
            *NUMBERS[:-3],
            "--classes",
            "no",
            "yes",
            *RECORD,
            "--range",
            "0",
            "1",
            "--person",
            "patient",
            "--rows-per-person",
            "2",
        ],
        "go together",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_refused_in_one_line_and_spend_nothing(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, words = WRONG[case]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not profile_bytes(site())
    assert not site().ledger.exists()
