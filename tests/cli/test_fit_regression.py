"""``onefold fit`` and ``onefold predict`` for a label that is a number, private ones too."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from onefold import io
from onefold.cli.app import main
from onefold.tables import Field, Schema

SECRET = "73.0625"
FIELDS = [
    Field("age", "integer", low=0, high=100),
    Field("ward", "string", levels=("a", "b")),
    Field("cost", "number", "label", low=0.0, high=1000.0),
]


def write_rows(path: Path, n_rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(0, 101, n_rows), rng.choice(["a", "b"], n_rows)
    cost = np.clip(5.0 * age + 200.0 * (ward == "b") + 40.0 * rng.normal(size=n_rows), 0.0, 1000.0)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "age", "ward", "cost"])
        table.writerows(zip(range(n_rows), age, ward, np.round(cost, 2), strict=True))
    return np.round(cost, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("costs")
    write_rows(found / "train.csv", 400, 0)
    write_rows(found / "test.csv", 200, 1)
    Schema(FIELDS, rows_about=1000).save(found / "costs.schema.json")
    return found


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_numbers_are_predicted_with_intervals_that_hold(folder: Path, tmp_path: Path, capsys) -> None:
    model, out = tmp_path / "m.onefold", tmp_path / "p.csv"
    words = ("fit", folder / "train.csv", "--label", "cost", "--task", "regression", "--out", model)
    code, told, _ = run(capsys, *words, "--test-size", 0.25, "--json")
    fitted = json.loads(told)
    assert (code, fitted["rows"], fitted["features"], fitted["task"]) == (0, 300, 2, "regression")
    assert fitted["held_out"]["r2"] > 0.85
    assert abs(fitted["held_out"]["covered"] - 0.9) < 0.08
    assert 0.8 < fitted["estimated"]["rmse"] / fitted["held_out"]["rmse"] < 1.25
    asked = ("predict", model, folder / "test.csv", "--label", "cost", "--id", "id", "--out", out)
    code, told, _ = run(capsys, *asked, "--level", 0.5, "--json")
    assert code == 0
    found = json.loads(told)
    assert found["measures"]["r2"] > 0.85
    assert abs(found["measures"]["covered"] - 0.5) < 0.1
    with out.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["id", "prediction", "low", "high"]
    assert all(float(line["low"]) <= float(line["prediction"]) <= float(line["high"]) for line in lines)


def test_schema_with_a_number_as_label_decides_the_task(folder: Path, tmp_path: Path, capsys) -> None:
    model = tmp_path / "m.onefold"
    code, told, _ = run(
        capsys,
        "fit",
        folder / "train.csv",
        "--schema",
        folder / "costs.schema.json",
        "--out",
        model,
        "--json",
    )
    assert (code, json.loads(told)["task"]) == (0, "regression")
    assert type(io.load(model)).__name__ == "MomentRegressor"
    code, told, _ = run(capsys, "schema", "show", model)
    assert code == 0
    assert "cost" in told


def test_private_model_has_its_guarantee_beside_it(folder: Path, tmp_path: Path, capsys) -> None:
    model, out = tmp_path / "m.onefold", tmp_path / "p.npz"
    words = ("fit", folder / "train.csv", "--schema", folder / "costs.schema.json", "--out", model)
    code, told, _ = run(capsys, *words, "--epsilon", 4, "--json")
    result = json.loads(told)
    assert (code, result["holds"], result["method"]) == (0, True, "moments")
    assert json.loads(Path(result["guarantee"]).read_text("utf-8"))["record"]["epsilon"] == 4.0
    assert io.load(model).residuals_ is None
    code, told, _ = run(
        capsys, "predict", model, folder / "test.csv", "--label", "cost", "--out", out, "--json"
    )
    assert code == 0
    assert json.loads(told)["measures"]["r2"] > 0.6


def test_proposed_schema_has_a_range_for_the_number(folder: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "s.json"
    words = ("schema", "infer", folder / "train.csv", "--label", "cost", "--task", "regression", "--out", out)
    assert run(capsys, *words, "--quiet")[0] == 0
    label = Schema.load(out).label
    assert label is not None
    assert (label.type, label.is_category) == ("number", False)
    assert label.low <= 0.0 < 600.0 < label.high


def write_label(path: Path, cells: list[str]) -> None:
    rng = np.random.default_rng(3)
    sizes = rng.normal(size=len(cells)).round(2)
    rows = "".join(f"{size};{cell}\n" for size, cell in zip(sizes, cells, strict=True))
    path.write_text("size;stay\n" + rows, encoding="utf-8")


@pytest.mark.parametrize(
    ("cells", "words", "said"),
    [
        ([str(place % 43) for place in range(900)], [], "'stay' has 43 different whole numbers"),
        ([f"{place % 30 / 4}" for place in range(120)], [], "'stay' has fractions"),
        ([f"{place % 30},25" for place in range(120)], [], "'stay' has fractions"),
        (["-" if place % 20 == 0 else str(place) for place in range(120)], [], "6 of 120 rows left out"),
        ([str(place % 20) for place in range(120)], [], None),
        ([f"{place % 2}.0" for place in range(120)], [], None),
        ([f"{place % 25:03d}" for place in range(120)], [], None),  # codes
        ([f"ward {place % 25}" for place in range(120)], [], None),
        ([str(2**60 + 4096 * (place % 25)) for place in range(120)], [], None),  # too large for amounts
        ([str(place % 25) for place in range(150)], ["--task", "classification"], None),
        ([str(place % 25) for place in range(150)], ["--n-components", "5"], None),
    ],
)
def test_a_label_of_amounts_is_predicted_as_a_number(tmp_path: Path, capsys, cells, words, said) -> None:
    write_label(tmp_path / "t.csv", cells)
    code, told, error = run(
        capsys, "fit", tmp_path / "t.csv", "--label", "stay", *words, "--out", tmp_path / "m", "--json"
    )
    assert code == 0
    assert (json.loads(told).get("task") == "regression") == (said is not None)
    assert said is None or said in error


def test_many_columns_of_one_unit_do_not_hide_that_the_label_is_an_amount(tmp_path: Path, capsys) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(90, 210)).round(3)
    lines = [",".join([*map(str, row), str(place % 30)]) for place, row in enumerate(table.tolist())]
    header = ",".join([*(f"x{place}" for place in range(210)), "stay"])
    (tmp_path / "t.csv").write_text("\n".join([header, *lines]) + "\n")
    fit = ("fit", tmp_path / "t.csv", "--label", "stay", "--out", tmp_path / "m", "--json")
    assert json.loads(run(capsys, *fit)[1])["task"] == "regression"
    assert json.loads(run(capsys, *fit, "--task", "classification")[1])["classes"] == 30


@pytest.mark.parametrize(("task", "is_category"), [([], False), (["--task", "classification"], True)])
def test_proposed_schema_says_why_its_label_is_a_number(tmp_path: Path, capsys, task, is_category) -> None:
    write_label(tmp_path / "t.csv", [str(place % 43) for place in range(900)])
    words = ("schema", "infer", tmp_path / "t.csv", "--label", "stay", "--out", tmp_path / "s.json", *task)
    assert run(capsys, *words)[0] == 0
    label = Schema.load(tmp_path / "s.json").label
    assert label is not None
    assert label.is_category == is_category
    assert is_category or "it has 43 different whole numbers, so it is a number" in str(label.review)


def test_a_private_fit_takes_its_task_from_the_schema_alone(tmp_path: Path, capsys) -> None:
    # Rows with 43 numbers, or with two: the declared schema decides, so the choice says nothing about rows.
    fields = (Field("size", "number", low=-4.0, high=4.0), Field("stay", "integer", "label", levels=(0, 1)))
    Schema(fields).save(tmp_path / "s.json")
    for n_values in (2, 43):
        write_label(tmp_path / "t.csv", [str(place % n_values) for place in range(900)])
        words = ("fit", tmp_path / "t.csv", "--schema", tmp_path / "s.json", "--epsilon", 5, "--method")
        code, told, _ = run(capsys, *words, "moments", "--out", tmp_path / "m", "--json")
        assert code == 0
        assert json.loads(told)["classes"] == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--label", "ward", "--task", "regression"], "'ward' does not hold numbers"),
        (["--label", "cost", "--task", "classification"], "the task regression"),
        (["--label", "cost", "--model", "folding"], "the task regression"),
        (["--label", "cost", "--report", "no/such/folder/page.html"], "the folder does not exist"),
        (["--label", "cost", "--task", "regression", "--model", "folding"], "--model is for classes"),
        (["--label", "cost", "--task", "regression", "--epsilon", "1"], "--epsilon needs --schema"),
        (["--label", "ward", "--task", "regression", "--schema", "SCHEMA"], "'ward' is no number"),
        (["--task", "classification", "--schema", "SCHEMA"], "'cost' is a number"),
        (["--schema", "SCHEMA", "--epsilon", "1", "--method", "tables"], "leave out --method tables"),
        (["--schema", "SCHEMA", "--epsilon", "1", "--test-size", "0.2"], "--test-size does not go"),
        (["--label", "cost", "--task", "regression", "--test-size", "0.0001"], "too few rows"),
    ],
)
def test_mistakes_get_one_line(folder: Path, tmp_path: Path, capsys, words: list, told: str) -> None:
    given = [folder / "costs.schema.json" if word == "SCHEMA" else word for word in words]
    code, _, error = run(capsys, "fit", folder / "train.csv", *given, "--out", tmp_path / "m")
    assert code != 0
    assert told in error
    assert len(error.strip().splitlines()) == 1


def test_text_among_numbers_is_refused_without_its_value(folder: Path, tmp_path: Path, capsys) -> None:
    table = tmp_path / "t.csv"
    table.write_text("age,ward,cost\n1,a,2\n" + f"2,b,{SECRET}x\n" + "3,a,oops\n" * 9, "utf-8")
    for schema in ([], ["--schema", folder / "costs.schema.json"]):
        words = ("--label", "cost", "--task", "regression", *schema, "--out", tmp_path / "m")
        code, _, error = run(capsys, "fit", table, *words)
        assert code != 0
        assert SECRET not in error
        assert "oops" not in error
        assert len(error.strip().splitlines()) == 1


def test_rows_without_a_number_are_left_out_and_told(folder: Path, tmp_path: Path, capsys) -> None:
    table = tmp_path / "t.csv"
    lines = (folder / "train.csv").read_text("utf-8").splitlines()
    table.write_text("\n".join([*lines, "900,5,a,", "901,6,b,"]), "utf-8")
    words = ("fit", table, "--label", "cost", "--task", "regression", "--out", tmp_path / "m")
    code, _, error = run(capsys, *words)
    assert code == 0
    assert "2 of 402 rows left out" in error


def test_model_of_numbers_has_no_classes_to_write(folder: Path, tmp_path: Path, capsys) -> None:
    model, out = tmp_path / "m", tmp_path / "p.csv"
    assert run(capsys, "fit", folder / "train.csv", "--label", "cost", "--out", model, "--quiet")[0] == 0
    for option in ("--probabilities", "--distances", "--scores"):
        code, _, error = run(capsys, "predict", model, folder / "test.csv", option, "--out", out)
        assert code != 0, option
        assert "predicts numbers" in error, option


def test_pages_tell_the_error_beside_the_mean_and_show_no_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    model, fitted, asked = tmp_path / "m.onefold", tmp_path / "fit.html", tmp_path / "predict.html"
    words = ("fit", folder / "train.csv", "--label", "cost", "--task", "regression", "--out", model)
    code, told, _ = run(capsys, *words, "--test-size", 0.25, "--report", fitted)
    assert code == 0
    assert "report written to" in told
    words = ("predict", model, folder / "test.csv", "--label", "cost", "--out", tmp_path / "p.csv")
    assert run(capsys, *words, "--report", asked)[0] == 0
    for page in (fitted, asked):
        text, numbers = page.read_text("utf-8"), json.loads(page.with_suffix(".json").read_text("utf-8"))
        assert "always predicting the mean would be off by" in numbers["verdict"][0]
        assert "the file holds exact sums" in numbers["verdict"][-1]
        titles = [section["title"] for section in numbers["sections"]]
        assert {"Error", "Observed and predicted"} <= set(titles)
        (error,) = [section["facts"] for section in numbers["sections"] if section["title"] == "Error"]
        assert error["R2"] > 0.85
        assert error["95 % interval of R2"][0] < error["R2"] < error["95 % interval of R2"][1]
        assert str(folder) not in text
        assert str(tmp_path) not in text


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_model_of_raw_rows_has_no_guarantee_of_an_earlier_one_beside_it(
    folder: Path, tmp_path: Path, capsys, task: str
) -> None:
    model, out = tmp_path / "m.onefold", tmp_path / "p.csv"
    beside = [Path(f"{path}.guarantee.json") for path in (model, out)]
    private = ("--schema", folder / "costs.schema.json", "--epsilon", 4, "--out", model, "--quiet")
    assert run(capsys, "fit", folder / "train.csv", *private)[0] == 0
    assert beside[0].exists()
    raw = ("--label", "cost" if task == "regression" else "ward", "--task", task, "--ignore", "id")
    assert run(capsys, "fit", folder / "train.csv", *raw, "--out", model, "--quiet")[0] == 0
    beside[1].write_text("{}")  # of a private table that stood there before
    assert run(capsys, "predict", model, folder / "test.csv", "--out", out, "--quiet")[0] == 0
    assert not any(path.exists() for path in beside)


def test_page_of_a_private_model_tells_no_error_of_rows(folder: Path, tmp_path: Path, capsys) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "p.html"
    words = ("fit", folder / "train.csv", "--schema", folder / "costs.schema.json", "--epsilon", 4)
    assert run(capsys, *words, "--out", tmp_path / "m", "--report", page)[0] == 0
    numbers = json.loads(page.with_suffix(".json").read_text("utf-8"))
    assert "odds" in numbers["verdict"][0]
    assert "Error" not in [section["title"] for section in numbers["sections"]]
    assert "train.csv" not in page.read_text("utf-8")


def test_explanations_name_columns_and_amounts(folder: Path, tmp_path: Path, capsys) -> None:
    model, out = tmp_path / "m.onefold", tmp_path / "p.csv"
    words = ("--schema", folder / "costs.schema.json", "--epsilon", 8, "--out", model)
    assert run(capsys, "fit", folder / "train.csv", *words)[0] == 0
    asked = ("predict", model, folder / "test.csv", "--out", out, "--explain", 3)
    code, told, _ = run(capsys, *asked, "--json")
    assert code == 0
    sentences = json.loads(told)["because"]
    assert len(sentences) == 3
    assert all("the usual" in each and ("adds" in each or "takes" in each) for each in sentences)
    with out.open(newline="") as file:
        assert [line["because"] for line in csv.DictReader(file)][:4] == [*sentences, ""]
    code, _, error = run(capsys, "predict", model, folder / "test.csv", "--out", out, "--against", out)
    assert code != 0
    assert "--against goes with --explain N" in error


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (["--report", "spent.html"], "spent.json: is another file of this command"),
        (["--report", "costs.html"], "costs.json: is another file of this command"),
        (["--report", "nowhere/page.html"], "the folder does not exist"),
        (["--card", "card.json"], "--card goes with --report"),
    ],
)
def test_page_that_cannot_be_written_is_refused_before_anything_is_spent(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, report: list[str], told: str
) -> None:
    """The numbers of a page go to a JSON file beside it, which must not be the ledger that was charged."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Schema(FIELDS, rows_about=1000).save("costs.json")
    assert run(capsys, "ledger", "new", "spent.json", "--epsilon", 3, "--delta", 1e-4)[0] == 0
    before = {name: Path(name).read_bytes() for name in ("spent.json", "costs.json")}
    words = ("--schema", "costs.json", "--epsilon", 1, "--ledger", "spent.json", "--out", "m.onefold")
    code, _, error = run(capsys, "fit", folder / "train.csv", *words, *report)
    assert code == 2
    assert told in error
    assert {name: Path(name).read_bytes() for name in before} == before
    assert not Path("m.onefold").exists()
