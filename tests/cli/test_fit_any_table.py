"""``onefold fit`` and ``predict`` on tables as people have them: text, gaps, dates, other marks."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from onefold import io
from onefold.cli.app import main
from onefold.tables import Schema
from onefold.tables.tasks import CLASSES

N_ROWS = 300
NAMES = ["visit_id", "admitted", "born", "smoker", "ward", "lactate", "income", "note", "outcome"]


def visits(seed: int = 0, n_rows: int = N_ROWS) -> dict[str, list[str]]:
    """A hospital's export: the outcome depends on ward, lactate and whether somebody smokes."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 700, n_rows)
    smoker = rng.random(n_rows) < 0.4
    ward = rng.choice(["cardio", "neuro", "onco"], n_rows)
    lactate = rng.lognormal(0.3, 0.7, n_rows)
    risk = 2.0 * smoker + 2.5 * (ward == "onco") + 2.0 * np.log(lactate) + rng.normal(0, 0.7, n_rows)
    gone = rng.random((3, n_rows)) < 0.06
    return {
        "visit_id": [str(70_000 + number) for number in range(n_rows)],
        "admitted": [
            str(np.datetime64("2021-01-01T08:30:00") + day * 86_400).replace("T", " ") for day in days
        ],
        "born": [f"{day % 28 + 1:02d}.{day % 12 + 1:02d}.{1930 + day % 60}" for day in days],
        "smoker": ["True" if value else "False" for value in smoker],
        "ward": ["?" if absent else text for text, absent in zip(ward, gone[0], strict=True)],
        "lactate": ["" if a else f"{x:.3f}" for x, a in zip(lactate, gone[1], strict=True)],
        "income": ["NA" if a else str(x) for x, a in zip(rng.integers(9, 99, n_rows), gone[2], strict=True)],
        "note": [f"seen by Dr {number}" for number in range(n_rows)],
        "outcome": ["ill again" if value > 1.8 else "well" for value in risk],
    }


def write(path: Path, columns: dict[str, list[str]], *, delimiter: str = ",", comma: bool = False) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(
                [
                    cell.replace(".", ",") if comma and cell[:1].isdigit() and cell.count(".") == 1 else cell
                    for cell in row
                ]
            )
    return str(path)


def predicted(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return [row["prediction"] for row in csv.DictReader(file)]


def accuracy(path: Path, truth: list[str]) -> float:
    return float(np.mean(np.array(predicted(path)) == np.array(truth)))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("visits")
    table = write(folder / "visits.csv", visits())
    assert main(["fit", table, "--label", "outcome", "--out", str(folder / "m"), "--quiet"]) == 0
    return folder / "m"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- a table with text, gaps and dates ----------------------------------------------------------------------


def test_messy_table_is_fitted_and_predicted_far_better_than_the_majority(here: Path, capsys) -> None:
    write(here / "visits.csv", visits())
    new = visits(seed=1)
    write(here / "new.csv", new)
    assert main(["fit", "visits.csv", "--label", "outcome"]) == 0
    shown = capsys.readouterr()
    assert "9 columns: the label, 2 numbers, 2 categories, 2 dates, 2 left out (visit_id, note)" in shown.err
    assert "% of cells missing; onefold schema show visits.onefold shows it" in shown.err
    assert "model written to visits.onefold" in shown.out
    assert main(["predict", "visits.onefold", "new.csv"]) == 0
    assert "written to new.predictions.csv" in capsys.readouterr().out
    majority = max(new["outcome"].count(text) for text in set(new["outcome"])) / N_ROWS
    assert majority < 0.7
    assert accuracy(here / "new.predictions.csv", new["outcome"]) > 0.85


def test_columns_in_another_order_extra_ones_and_new_categories_change_nothing_else(
    fitted: Path, here: Path
) -> None:
    new = visits(seed=1)
    write(here / "a.csv", new)
    changed = {"colour": ["blue"] * N_ROWS} | {name: new[name] for name in reversed(NAMES) if name != "note"}
    changed["ward"] = ["paediatrics" if k % 10 == 0 else text for k, text in enumerate(new["ward"])]
    write(here / "b.csv", changed)
    for name in ("a", "b"):
        assert main(["predict", str(fitted), f"{name}.csv", "--out", f"{name}.out.csv", "--quiet"]) == 0
    first, second = predicted(here / "a.out.csv"), predicted(here / "b.out.csv")
    same = [k for k in range(N_ROWS) if k % 10]
    assert [first[k] for k in same] == [second[k] for k in same]


@pytest.mark.parametrize("at_fit", [False, True])
def test_other_delimiter_and_decimal_comma_than_at_fit_are_told_and_read(
    here: Path, capsys, at_fit: bool
) -> None:
    new = visits(seed=1)
    write(here / "fit.csv", visits(), delimiter=";" if at_fit else ",", comma=at_fit)
    write(here / "same.csv", new, delimiter=";" if at_fit else ",", comma=at_fit)
    write(here / "other.csv", new, delimiter="\t" if at_fit else ";", comma=not at_fit)
    assert main(["fit", "fit.csv", "--label", "outcome", "--out", "m", "--quiet"]) == 0
    assert main(["predict", "m", "same.csv", "--out", "a.csv", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["predict", "m", "other.csv", "--out", "b.csv"]) == 0
    assert "column 'lactate' written in another way than in the training table" in capsys.readouterr().err
    assert predicted(here / "a.csv") == predicted(here / "b.csv")


def test_rows_without_a_class_are_left_out_and_told(here: Path, capsys) -> None:
    table = visits()
    table["outcome"][:30] = [""] * 30
    write(here / "t.csv", table)
    assert main(["fit", "t.csv", "--label", "outcome", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["rows"] == N_ROWS - 30
    assert f"30 of {N_ROWS} rows left out: 'outcome' is missing there" in shown.err
    assert main(["predict", "t.onefold", "t.csv", "--label", "outcome", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["measures"]["rows"] == N_ROWS - 30


@pytest.mark.parametrize(
    "labels, expected",
    [
        (("0", "1"), ("0", "1")),
        (("1.0", "2.0"), ("1", "2")),
        (("no", "yes"), ("no", "yes")),
        (("False", "True"), ("False", "True")),
        ((" not ill ", "ill  again"), ("not ill", "ill  again")),
        (("007", "0010"), ("007", "0010")),
    ],
)
def test_predictions_are_written_as_the_labels_are(
    here: Path, labels: tuple[str, str], expected: tuple[str, str]
) -> None:
    table = visits()
    table["outcome"] = [labels[text == "ill again"] for text in table["outcome"]]
    write(here / "t.csv", table)
    assert main(["fit", "t.csv", "--label", "outcome", "--out", "m", "--quiet"]) == 0
    assert main(["predict", "m", "t.csv", "--out", "p.csv", "--quiet"]) == 0
    assert set(predicted(here / "p.csv")) == set(expected)


def test_missing_column_is_one_line_with_the_near_name(fitted: Path, here: Path, capsys) -> None:
    new = visits(seed=1)
    write(here / "n.csv", {("Lactate" if name == "lactate" else name): new[name] for name in NAMES})
    assert main(["predict", str(fitted), "n.csv", "--out", "p.csv"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "n.csv: the table has no column 'lactate'" in error
    assert "did you mean 'Lactate'" in error
    assert not (here / "p.csv").exists()


def test_probabilities_are_written_beside_the_predictions(fitted: Path, here: Path) -> None:
    write(here / "n.csv", visits(seed=1))
    assert (
        main(["predict", str(fitted), "n.csv", "--out", "p.csv", "--proba", "--id", "visit_id", "--quiet"])
        == 0
    )
    with (here / "p.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["visit_id", "prediction", "probability_ill again", "probability_well"]
    shares = np.array([[float(row[f"probability_{name}"]) for name in ("ill again", "well")] for row in rows])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert [row["prediction"] == "well" for row in rows] == (shares[:, 1] > 0.5).tolist()


def test_schema_is_stored_in_the_model_and_marked_as_private(fitted: Path) -> None:
    schema = io.load(fitted).schema
    assert isinstance(schema, Schema)
    assert schema.source == "private"
    assert [known.name for known in schema.features] == [
        "admitted",
        "born",
        "smoker",
        "ward",
        "lactate",
        "income",
    ]
    assert schema.field("admitted").type == "datetime"
    assert schema.field("born").type == "date"


def test_declared_schema_names_label_and_refuses_what_it_does_not_allow(here: Path, capsys) -> None:
    table = visits()
    write(here / "t.csv", table)
    Schema.infer(table, "outcome").save("s.json")
    assert main(["fit", "t.csv", "--schema", "s.json", "--out", "m", "--quiet"]) == 0
    assert io.load("m").classes_.tolist() == ["ill again", "well"]
    table["smoker"][11] = "perhaps"
    write(here / "t.csv", table)
    assert main(["fit", "t.csv", "--schema", "s.json", "--out", "m"]) == 2
    error = capsys.readouterr().err
    assert "row 12, column 'smoker': is not one of the 2 declared categories" in error
    assert "perhaps" not in error


def test_ignored_columns_are_no_features(here: Path) -> None:
    write(here / "t.csv", visits())
    words = ["fit", "t.csv", "--label", "outcome", "--ignore", "ward", "--ignore", "born", "--quiet"]
    assert main(words) == 0
    features = [known.name for known in io.load("t.onefold").schema.features]
    assert features == ["admitted", "smoker", "lactate", "income"]


# --- what a fit is worth ------------------------------------------------------------------------------------


def test_held_out_rows_are_measured_beside_majority_and_linear_model(here: Path, capsys) -> None:
    write(here / "t.csv", visits())
    words = ["fit", "t.csv", "--label", "outcome", "--test-size", "0.25"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "on 75 rows held out" in shown.out
    assert "(guessing the majority 0." in shown.out
    assert "a linear model 0." in shown.out
    assert "area under the ROC curve 0.9" in shown.out
    assert "true class by row, predicted class by column:" in shown.out
    assert "warning" not in shown.err
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["held_out"]
    assert found["classes"] == ["ill again", "well"]
    matrix = np.array(found["confusion"])
    assert matrix.sum() == found["rows"] == 75
    assert found["accuracy"] == pytest.approx(np.trace(matrix) / 75)
    assert found["balanced_accuracy"] == pytest.approx(np.mean(np.diag(matrix) / matrix.sum(axis=1)))
    assert found["majority"] == pytest.approx(matrix.sum(axis=1).max() / 75)
    assert found["accuracy"] > found["majority"] + 0.15
    assert not found["boosting_is_better"]


def test_labels_that_nothing_explains_are_not_shown_to_be_predicted(here: Path, capsys) -> None:
    table = visits()
    rng = np.random.default_rng(5)
    table["outcome"] = rng.choice(["a", "b"], N_ROWS, p=[0.85, 0.15]).tolist()
    write(here / "t.csv", table)
    assert main(["fit", "t.csv", "--label", "outcome", "--test-size", "0.3"]) == 0
    assert "not shown to be better than guessing" in capsys.readouterr().out


@pytest.mark.nightly
def test_boosting_is_recommended_where_it_is_clearly_better(here: Path, capsys) -> None:
    rng = np.random.default_rng(3)
    X = rng.random((3000, 8))
    inside = (np.floor(8 * X[:, 0]) + np.floor(8 * X[:, 1])) % 2  # a chess board, and six columns of nothing
    columns = {f"x{j}": [f"{x:.5f}" for x in X[:, j]] for j in range(8)}
    write(here / "t.csv", columns | {"y": ["in" if value else "out" for value in inside]})
    assert main(["fit", "t.csv", "--label", "y", "--test-size", "0.3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["held_out"]
    assert found["boosting_is_better"] == (found["boosting"] - found["accuracy"] > 0.05)


def test_wide_table_of_several_units_is_decided_by_the_head(here: Path, capsys) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 230)) * 10.0 ** (np.arange(230) % 6)
    told = X[:, 0] + X[:, 6] - X[:, 12] > 0
    columns = {f"x{j}": [f"{value:.6g}" for value in X[:, j]] for j in range(230)}
    write(here / "t.csv", columns | {"y": ["in" if value else "out" for value in told]})
    assert main(["fit", "t.csv", "--label", "y", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["estimated"]["accuracy"] > 0.75


def test_no_person_is_in_both_parts(here: Path, capsys) -> None:
    rng = np.random.default_rng(0)
    persons, labels = rng.integers(0, 40, 500).astype(str), rng.integers(0, 3, 500)
    held = CLASSES.split("t", labels, persons, 0.3, 0)
    assert not set(persons[~held]) & set(persons[held])
    assert 0.2 < held.mean() < 0.4
    table = visits() | {"patient": [str(k // 5) for k in range(N_ROWS)]}
    write(here / "t.csv", table)
    words = ["fit", "t.csv", "--label", "outcome", "--person", "patient", "--test-size", "0.25", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["held_out_rows"] == 75


def test_class_with_one_row_is_learned_from_and_not_held_out() -> None:
    labels = np.array(["a"] * 10 + ["b"] * 10 + ["c"])
    held = CLASSES.split("t", labels, np.arange(21), 0.3, 0)
    assert not held[20]
    assert set(labels[held]) == {"a", "b"}


# --- mistakes -----------------------------------------------------------------------------------------------

SECRET = "8.7651"
BAD = {
    "label not there": ("a,b,y\n1,2,u\n2,3,v\n", "z", "there is no column 'z' among its 3"),
    "label nearly there": ("a,b,outcome\n1,2,u\n2,3,v\n", "outcom", "did you mean 'outcome'"),
    "label all missing": ("a,b,y\n1,2,\n2,3,NA\n", "y", "label column 'y' is empty"),
    "only one class": ("a,b,y\n1,2,u\n2,3,u\n", "y", "'y' has one class only, at least two are needed"),
    "no feature left": ("a,b,y\n1,x,u\n1,x,v\n", "y", "no feature column is left"),
    "one number": (f"a,y\n1,{SECRET}\n2,{SECRET}\n", "y", "'y' holds one number only"),
}


@pytest.mark.parametrize("case", BAD)
def test_table_that_cannot_be_learned_from_is_one_line(here: Path, capsys, case: str) -> None:
    text, label, words = BAD[case]
    (here / "t.csv").write_text(text, encoding="utf-8")
    assert main(["fit", "t.csv", "--label", label, "--out", "m"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("onefold: error: t.csv: ")
    assert shown.err.count("\n") == 1
    assert words in shown.err
    assert SECRET not in shown.err
    assert not (here / "m").exists()


def test_two_rows_are_enough_for_a_model(here: Path) -> None:
    (here / "t.csv").write_text("a,b,y\n1,x,u\n2,z,v\n", encoding="utf-8")
    assert main(["fit", "t.csv", "--label", "y", "--quiet"]) == 0
    assert main(["predict", "t.onefold", "t.csv", "--out", "p.csv", "--quiet"]) == 0
    assert predicted(here / "p.csv") == ["u", "v"]


def test_fit_without_label_and_schema_says_what_to_name(here: Path, capsys) -> None:
    (here / "t.csv").write_text("a,b,y\n1,x,u\n2,z,v\n", encoding="utf-8")
    assert main(["fit", "t.csv"]) == 2
    assert "--label COL" in capsys.readouterr().err


def test_gaps_in_an_array_are_read_like_gaps_in_a_table(here: Path, capsys) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    X = rng.normal(size=(200, 3)) + 3.0 * labels[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    np.savez("gaps.npz", X=X, y=labels)
    assert main(["fit", "gaps.npz", "--label", "y"]) == 0
    assert "% of cells missing" in capsys.readouterr().err
    assert main(["predict", "gaps.onefold", "gaps.npz", "--label", "y", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.9
    assert main(["fit", "gaps.npz", "--label", "y", "--raw"]) == 2


def test_a_class_that_reads_like_a_gap_is_told(here: Path, capsys) -> None:
    table = visits() | {"outcome": ["NA", "well"] * (N_ROWS // 2)}
    assert main(["fit", write(Path("t.csv"), table), "--label", "outcome"]) == 2
    assert "has one class only (150 of 300 cells are empty, or say so)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (["yes", "no", "Yes", "NO"], "4 classes, but 2 if upper and lower case"),
        (["yes", "no", "maybe"], None),
        ([str(place) for place in range(40)], "'outcome' has 40 different whole numbers: it is predicted as"),
        ([str(place) for place in range(12)], "12 classes of whole numbers: is 'outcome' an amount?"),
        ([str(place) for place in range(10)], None),
    ],
)
def test_a_strange_column_of_classes_is_told(here: Path, capsys, classes, said) -> None:
    table = visits() | {"outcome": [classes[place % len(classes)] for place in range(N_ROWS)]}
    assert main(["fit", write(Path("t.csv"), table), "--label", "outcome"]) == 0
    told = capsys.readouterr().err
    assert said in told if said else "classes, but" not in told and "amount" not in told


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_rows_of_one_person_are_kept_together_in_an_estimate(here: Path, capsys, task: str) -> None:
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 6)
    effect = rng.integers(0, 2, 60)[person]
    lines = [
        f"{who + 7000},{x:.3f},{z:.3f},{y}"
        for who, x, z, y in zip(
            person,
            *(rng.normal(size=(2, 60))[:, person] + 0.05 * rng.normal(size=(2, 360))),
            effect,
            strict=True,
        )
    ]
    Path("t.csv").write_text("\n".join(["patient_id,x,z,y", *lines]) + "\n")
    words = ["fit", "t.csv", "--label", "y", "--task", task, "--out", "m"]
    found = {}
    for person_option in ([], ["--person", "patient_id"]):
        assert main([*words, *person_option, "--json"]) == 0
        told = capsys.readouterr()
        estimated = json.loads(told.out)["estimated"]
        found[len(person_option)] = estimated.get("accuracy", -estimated.get("rmse", 0.0))
        hint = "--person 'patient_id' keeps them together"
        assert (hint in told.err) == (not person_option)
    # No column says anything about the class of another person.
    assert found[2] < found[0] - 0.05
    assert main([*words, "--person", "patient_id"]) == 0
    shown = capsys.readouterr().out
    assert ("rows of persons that were left out" if task == "classification" else "other persons") in shown


@pytest.mark.parametrize(("option", "layers"), [([], 1), (["--n-layers", "3"], 3)])
def test_machines_of_a_table_have_one_layer_because_the_head_decides(here: Path, option, layers) -> None:
    from onefold import io

    write(Path("t.csv"), visits())
    assert main(["fit", "t.csv", "--label", "outcome", "--out", "m", "--quiet", *option]) == 0
    model = io.load("m")
    assert model.estimator.n_layers == layers
    assert hasattr(model, "head_")
