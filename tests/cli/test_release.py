"""``onefold release``: the released table has the columns of the original, in the declared form."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onefold.cli import release
from onefold.cli.app import main
from onefold.privacy import FisherGaussian
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.contract import EncodedBox
from onefold.release import sweep
from onefold.tables import Field, Schema

N = 300
TOWNS = ("Aa", "Bb, c", "D")
FIELDS = [
    Field("age", "integer", low=18, high=90),
    Field("sick", "string", "label", levels=("no", "yes")),
    Field("income", low=0, high=200000),
    Field("town", "string", levels=TOWNS),
    Field("code", "string", levels=("007", "010")),
    Field("classes", "integer", low=0, high=5),
]
PATIENT = Field("patient", "string", "person")


def about(label: str) -> list[Field]:
    """The same fields with another label."""
    roles = ("feature", "label")
    return [replace(known, role=roles[known.name == label]) for known in FIELDS]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 91, N)
    income = rng.lognormal(10, 0.5, N).round(2)
    sick = np.where(age / 90 + income / 60000 + rng.normal(0, 0.2, N) > 0.9, "yes", "no")
    return pd.DataFrame(
        {
            "age": age,
            "sick": sick,
            "income": income,
            "town": rng.choice(TOWNS, N),
            "code": rng.choice(["007", "010"], N),
            "classes": rng.integers(0, 6, N),
        }
    )


@pytest.fixture
def table(frame: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    Schema(FIELDS).save(tmp_path / "schema.json")
    return path


@pytest.fixture
def visits(frame: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    frame.assign(patient=[f"patient {k // 30}" for k in range(N)]).to_csv(path, index=False)
    return path


def run(table: Path, *arguments: object) -> int:
    declared = () if "--schema" in arguments else ("--schema", table.parent / "schema.json")
    return main(["release", *map(str, [table, *arguments, *declared])])


def read(path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"code": str})


def test_released_table_keeps_columns_order_types_and_ranges(frame, table, tmp_path, capsys) -> None:
    out = tmp_path / "out.csv"
    assert run(table, "--epsilon", 5, "--out", out) == 0
    made = read(out)
    assert list(made) == list(frame)
    assert made.dtypes.equals(read(table).dtypes)
    assert made["sick"].equals(frame["sick"])
    assert made["age"].between(18, 90).all()
    assert set(made["code"]) <= {"007", "010"}
    assert set(made["town"]) <= set(TOWNS)
    assert np.mean(made["income"] == frame["income"]) < 0.01
    promise = json.loads((tmp_path / "out.csv.guarantee.json").read_text())
    assert promise["holds"] is True
    assert promise["record"]["epsilon"] == pytest.approx(5)
    assert promise["theorem_2_5_of_the_document"]["epsilon_per_record"] > 5
    printed = capsys.readouterr()
    assert "epsilon 5 per record" in printed.out
    assert "nobody can estimate its income better than ±" in printed.out
    assert "Several records of one person tell more together." in printed.out
    assert "NOT covered" in printed.out
    assert "A person with several records: NOT covered as a person." in printed.out
    assert printed.err == ""


@pytest.mark.parametrize("sampler", ["hardened", "float"])
def test_adversary_error_is_in_the_units_of_the_column(table, tmp_path, capsys, sampler) -> None:
    options = ["--out", tmp_path / "out.csv", "--json", "--sampler", sampler]
    assert run(table, "--adversary-error", "income=5000", *options) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["least_standard_errors"]["income"] == pytest.approx(5000)
    assert promise["least_standard_errors"]["age"] == pytest.approx(72 / 40)
    assert ("hardened" in promise["mechanism"]) == promise["holds"] == (sampler == "hardened")


def test_label_epsilon_randomises_the_released_labels(frame, table, tmp_path, capsys) -> None:
    out = tmp_path / "out.csv"
    assert run(table, "--lam", 1e-3, "--label-epsilon", 1, "--json", "--out", out) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["labels"]["epsilon"] == 1
    assert 0.6 < np.mean(read(out)["sick"] == frame["sick"]) < 0.86  # e / (e + 1) = 0.73


def test_release_without_a_declared_domain_is_refused(table, tmp_path, capsys) -> None:
    """Before, ranges were taken from the data, and only the guarantee said that it was void."""
    out = tmp_path / "out.csv"
    assert main(["release", str(table), "--lam", "1", "--out", str(out)]) == 2
    assert "--schema" in capsys.readouterr().err
    Schema.infer({"age": [1, 2], "sick": ["a", "b"]}, source="public").save(tmp_path / "guessed.json")
    assert run(table, "--lam", 1, "--schema", tmp_path / "guessed.json", "--out", out) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "nobody has confirmed what was guessed" in error
    assert not out.exists()


def test_file_without_a_header_is_refused_before_a_record_becomes_names(table, tmp_path, capsys) -> None:
    (tmp_path / "a.csv").write_text("30,41.5\n20,11.5\n")
    assert run(tmp_path / "a.csv", "--lam", 1, "--out", tmp_path / "b.csv") == 2
    assert "41.5" not in capsys.readouterr().err
    assert not (tmp_path / "b.csv").exists()


def test_guarantee_of_an_earlier_table_never_lies_beside_a_new_one(table, tmp_path, monkeypatch) -> None:
    out, promise = tmp_path / "b.csv", tmp_path / "b.csv.guarantee.json"
    promise.write_text("{}")

    def fail(*arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("onefold.cli.outputs.write_beside", fail)
    assert run(table, "--lam", 1, "--out", out) != 0
    assert not promise.exists()


# --- persons ----------------------------------------------------------------------------------------------


def test_person_limits_rows_first_and_the_column_is_not_written(frame, visits, tmp_path, capsys) -> None:
    """Before, the name of a person was one more column to release, and persons were promised nothing."""
    Schema([*FIELDS, PATIENT], rows_per_person=4).save(tmp_path / "schema.json")
    out = tmp_path / "b.csv"
    assert run(visits, "--label-epsilon", 0.5, "--epsilon", 1, "--out", out) == 0
    made = read(out)
    assert list(made) == list(frame)
    assert len(made) == 10 * 4
    printed = capsys.readouterr().out
    assert "patient" not in out.read_text() + printed + (tmp_path / "b.csv.guarantee.json").read_text()
    assert "40 rows written" in printed
    assert "One person with at most 4 records" in printed
    assert "An attacker who knows everything but the records of one person" in printed
    promise = json.loads((tmp_path / "b.csv.guarantee.json").read_text())
    assert promise["rows_per_person"] == 4
    # Independent noise on four rows: twice the Gaussian distance of one.
    assert promise["mu"] == pytest.approx(2 * mu_of(1.0, 1e-5), rel=1e-3)
    assert promise["person"]["epsilon"] == pytest.approx(epsilon_of(2 * mu_of(1.0, 1e-5), 1e-5), rel=1e-3)
    assert promise["holds"]


def test_epsilon_can_be_that_of_a_person(visits, tmp_path, capsys) -> None:
    Schema([*FIELDS, PATIENT], rows_per_person=9).save(tmp_path / "schema.json")
    options = ["--unit", "person", "--out", tmp_path / "b.csv"]
    assert run(visits, "--epsilon", 1, *options) == 0
    promise = json.loads((tmp_path / "b.csv.guarantee.json").read_text())
    assert 0.99 < promise["person"]["epsilon"] <= 1.0
    assert promise["record"]["epsilon"] == pytest.approx(epsilon_of(mu_of(1.0, 1e-5) / 3, 1e-5), rel=1e-3)
    assert run(visits, "--lam", 1, *options) == 2
    Schema(FIELDS).save(tmp_path / "schema.json")
    assert run(visits, "--epsilon", 1, *options) == 2
    assert capsys.readouterr().err.count("--unit person needs") == 2


# --- the curve --------------------------------------------------------------------------------------------


def test_sweep_writes_a_figure_and_prints_a_table(table, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "curve.png"
    assert run(table, "--sweep", "--repetitions", 1, "--seed", 1, "--out", out) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    captured = capsys.readouterr()
    assert "not covered by any guarantee" in captured.out
    assert captured.out.count("\n") == 13
    accuracy = re.search(r"accuracy on raw rows (\S+)", captured.out)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.8  # rows with their own labels


def test_sweep_of_numbers_states_the_epsilon_of_the_noise(table, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "curve.svg"
    Schema(about("income")).save(tmp_path / "schema.json")
    assert run(table, "--sweep", "--delta", 1e-3, "--repetitions", 1, "--json", "--out", out) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["measure"] == "r2"
    assert b"least error for age" in out.read_bytes()
    assert len(result["strengths"]) == 9
    # A record is two numbers and three categories, each of which changes by 1 in Euclidean length.
    noise = FisherGaussian(result["strengths"][4]["lam"], sensitivity=math.sqrt(2 + 3), delta=1e-3)
    assert result["strengths"][4]["epsilon"] == pytest.approx(noise.guarantee(1).record[0], rel=1e-4)


def test_sweep_errors_are_in_the_units_of_the_column() -> None:
    columns = {"town": np.array(["a", "b"] * 10), "age": np.linspace(18, 90, 20)}
    schema = Schema([Field("town", "string", levels=("a", "b")), Field("age", low=18, high=90)])
    domain, labels = EncodedBox(schema.features), np.arange(20) % 2
    curve = sweep(schema.transform(columns), labels, [16.0], repetitions=1, sensitivity=domain)
    assert release._errors(schema, curve) == {"least error for age": [pytest.approx(36.0)]}


def test_sweep_learns_many_classes_from_limited_rows(table, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib")
    Schema(about("town")).save(tmp_path / "schema.json")
    assert run(table, "--sweep", "--repetitions", 1, "--rows", 60, "--out", tmp_path / "c.svg") == 0
    assert "60 of 300 rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--lam", "1", "--epsilon", "1"],
        ["--lam", "nan"],
        ["--epsilon", "0"],
        ["--adversary-error", "income"],
        ["--adversary-error", "income=-3"],
        ["--adversary-error", "town=3"],
        ["--adversary-error", "nothing=3"],
        ["--lam", "1", "--out", "-"],
        ["--lam", "1", "--out", "x.txt"],
        ["--lam", "1", "--schema", "missing.json"],
        ["--lam", "1", "--schema", "bad.json"],
        ["--lam", "1", "--schema", "other.json"],
        ["--lam", "1", "--schema", "unlabelled.json", "--label-epsilon", "1"],
        ["--lam", "1", "--unit", "person"],
        ["--sweep", "--out", "x.csv"],
        ["--sweep", "--out", "-"],
        ["--sweep", "--schema", "unlabelled.json", "--out", "x.png"],
        ["--sweep", "--lam", "1", "--out", "x.png"],
        ["--sweep", "--sampler", "float", "--out", "x.png"],
        ["--sweep", "--label-epsilon", "1", "--out", "x.png"],
        ["--sweep", "--ledger", "spent.json", "--out", "x.png"],
        ["--sweep", "--report", "page.html", "--out", "x.png"],
    ],
)
def test_bad_input_prints_one_line_and_writes_no_file(table, tmp_path, capsys, options, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"age": {"range": [18, 90], "integer": true}}')
    Schema(FIELDS[:1]).save(tmp_path / "unlabelled.json")
    Schema([*FIELDS, Field("pulse", low=0, high=9)]).save(tmp_path / "other.json")
    before = sorted(tmp_path.iterdir())
    out = [] if "--out" in options else ["--out", tmp_path / "out.csv"]
    assert run(table, *options, *out) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert "Traceback" not in errors[0]
    assert sorted(tmp_path.iterdir()) == before
