"""``onefold fit --epsilon``: a declared schema, one release, its guarantee beside the model."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tests.tiers import later

from onefold import io
from onefold.cli.app import main
from onefold.privacy import Ledger
from onefold.tables import Field, Schema

N_ROWS, MANY = 261, 4321  # few where nothing depends on how good the model is


def declared(rows_about: int = 512, **more: object) -> Schema:
    fields = [
        Field("age", "integer", low=0, high=100),
        Field("ward", "string", levels=("cardio", "neuro", "onco"), missing="indicator"),
        Field("lactate", low=0.0, high=20.0, missing="indicator"),
        Field("outcome", "string", role="label", levels=("ill", "well")),
        Field("patient", "string", role="person"),
    ]
    return Schema(fields, rows_about=rows_about, **more)


def table(seed: int = 0, n_rows: int = N_ROWS) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(20, 90, n_rows), rng.choice(["cardio", "neuro", "onco"], n_rows)
    lactate = rng.lognormal(0.5, 0.6, n_rows)
    risk = (age - 55) / 12 + 2.0 * (ward == "onco") + 2.0 * np.log(lactate) + rng.normal(0, 0.5, n_rows)
    return {
        "age": [str(value) for value in age],
        "ward": ["" if k % 17 == 0 else str(text) for k, text in enumerate(ward)],
        "lactate": ["" if k % 13 == 0 else f"{value:.2f}" for k, value in enumerate(lactate)],
        "outcome": ["ill" if value > 1.6 else "well" for value in risk],
        "patient": [str(k // 2) for k in range(n_rows)],
    }


def write(path: Path, columns: dict[str, list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", table())
    declared(rows_per_person=2).save("s.json")
    return tmp_path


def fit(*words: str) -> int:
    return main(["fit", "t.csv", "--schema", "s.json", "--out", "m", *words])


@pytest.mark.parametrize("method", later(["tables", "moments"], ["moments"]))
def test_private_model_predicts_far_better_than_the_majority_and_carries_its_guarantee(
    here: Path, capsys, method: str
) -> None:
    write(here / "t.csv", table(n_rows=MANY))
    declared(4096, rows_per_person=2).save("s.json")
    assert fit("--epsilon", "2", "--delta", "1e-6", "--method", method, "--unit", "record") == 0
    shown = capsys.readouterr()
    assert "epsilon" in shown.out
    promise = json.loads((here / "m.guarantee.json").read_text(encoding="utf-8"))
    assert promise["unit"] == "record"
    model = io.load("m")
    assert model.guarantee_.to_dict() == promise
    assert model.guarantee_.holds
    assert model.guarantee_.record == (2.0, 1e-6)
    write(here / "new.csv", table(1, 800))
    assert main(["predict", "m", "new.csv", "--label", "outcome", "--json", "--out", "p.csv"]) == 0
    measures = json.loads(capsys.readouterr().out)["measures"]
    assert measures["majority"] < 0.65
    assert measures["accuracy"] > 0.75


def test_tables_are_the_default_method_and_persons_the_default_unit(here: Path, capsys) -> None:
    assert fit("--epsilon", "4", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["method"] == "tables"
    assert told["promise"]["unit"] == "person"
    assert io.load("m").guarantee_.person[0] == pytest.approx(4.0)


def test_no_message_repeats_the_number_of_rows(here: Path, capsys) -> None:
    seen = set()
    for _ in range(2):
        assert fit("--epsilon", "0.5", "--unit", "record", "--json") == 0
        shown = capsys.readouterr()
        seen.add(json.loads(shown.out)["rows_about"])
        assert str(N_ROWS) not in shown.err
    assert len(seen) > 1  # the count that is told carries noise


def test_cells_outside_the_contract_and_rows_without_a_class_stop_nothing(here: Path, capsys) -> None:
    strange = table()
    strange["age"][3], strange["age"][4], strange["ward"][5], strange["outcome"][6] = "old", "900", "moon", ""
    strange["lactate"][7] = "a lot"
    write(here / "t.csv", strange)
    assert fit("--epsilon", "1", "--unit", "record") == 0
    assert "left out" not in capsys.readouterr().err


@pytest.mark.parametrize("method", later(["tables", "moments"], ["moments"]))
def test_one_record_does_not_decide_whether_there_is_a_model(here: Path, capsys, method: str) -> None:
    rows = table()
    words = ("--epsilon", "2", "--method", method)
    told = []
    for cells in ({}, {"patient": "nan"}, {"patient": ""}, {"ward": "caf\udce9"}, {"ward": "a\0"}):
        changed = {name: [cells.get(name, values[0]), *values[1:]] for name, values in rows.items()}
        lines = [",".join(changed), *map(",".join, zip(*changed.values(), strict=True)), ""]
        (here / "t.csv").write_bytes("\n".join(lines).encode(errors="surrogateescape"))
        assert fit(*words) == 0
        told.append(capsys.readouterr().err)
    assert set(told) == {""}


@pytest.mark.parametrize("method", ["tables", "moments"])
def test_delta_follows_from_the_declared_number_of_rows(here: Path, capsys, method: str) -> None:
    write(here / "t.csv", table(n_rows=500))
    Schema(declared().fields, rows_about=10**6, rows_per_person=2).save("s.json")
    assert fit("--epsilon", "20", "--method", method) == 0
    assert io.load("m").guarantee_.person == (20.0, 1e-7)


@pytest.mark.parametrize(
    ("words", "key", "size"),
    [
        ("--method moments", "persons_about", N_ROWS / 2),  # patients have two rows each
        ("--method moments --unit record", "rows_about", N_ROWS),
        ("--method tables", "rows_about", N_ROWS),
    ],
)
def test_what_was_counted_with_noise_is_named(here: Path, capsys, words: str, key: str, size: float) -> None:
    assert fit("--epsilon", "20", *words.split(), "--json") == 0
    assert abs(json.loads(capsys.readouterr().out)[key] / size - 1.0) < 0.1


def test_moments_of_no_record_are_noise(here: Path, capsys) -> None:
    write(here / "t.csv", {name: [] for name in table(n_rows=1)})
    assert fit("--epsilon", "1", "--method", "moments") == 0
    assert io.load("m").guarantee_.holds


def test_release_is_entered_in_the_ledger_and_refused_beyond_its_limit(here: Path, capsys) -> None:
    assert main(["ledger", "new", "l.json", "--epsilon", "3", "--delta", "1e-4", "--unit", "record"]) == 0
    words = ["--epsilon", "2", "--delta", "1e-6", "--unit", "record", "--ledger", "l.json"]
    assert fit(*words) == 0
    assert len(Ledger.load("l.json").events) == 1
    (here / "m").unlink()
    capsys.readouterr()
    assert fit(*words) == 2
    assert "onefold: error" in capsys.readouterr().err
    assert not (here / "m").exists()


@pytest.mark.parametrize(
    "words, told",
    [
        ("--epsilon 1 --test-size 0.2", "no epsilon covers"),
        ("--epsilon 1 --raw", "--raw uses no schema"),
        ("--delta 1e-5", "--delta goes with --epsilon"),
        ("--method tables", "--method goes with --epsilon"),
        ("--unit person", "--unit goes with --epsilon"),
    ],
)
def test_options_that_would_break_the_promise_are_refused(here: Path, capsys, words: str, told: str) -> None:
    assert fit(*words.split()) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_epsilon_without_a_declared_schema_is_refused(here: Path, capsys) -> None:
    assert main(["fit", "t.csv", "--label", "outcome", "--epsilon", "1"]) == 2
    assert "--epsilon needs --schema FILE" in capsys.readouterr().err
    Schema.infer(table(), "outcome", source="private").save("s.json")
    assert fit("--epsilon", "1") == 2
    assert "inferred from private rows" in capsys.readouterr().err
    declared().save("s.json")
    assert fit("--epsilon", "1") == 2
    assert "rowsPerPerson" in capsys.readouterr().err
