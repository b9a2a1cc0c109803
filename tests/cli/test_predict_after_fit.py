"""A table in, predictions out: the command does what the library does."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from tests.tiers import later

from onefold import AutoencoderClassifier, FoldingClassifier, io
from onefold.cli.app import main
from onefold.tables import Schema
from onefold.tables.rows import rows

KINDS = later(["csv", "npz", "parquet"], ["csv", "npz"])


def label_of(kind: str) -> str:
    return "y" if kind == "npz" else "digit"


def predictions(path: Path) -> list[str]:
    return rows(path, "numbers", keep=["prediction", "digit"]).kept["prediction"].tolist()


@pytest.fixture(scope="module")
def expected(digits) -> np.ndarray:
    model = AutoencoderClassifier(tune="auto")
    return model.fit(digits.X_train, digits.y_train).predict(digits.X_test)


@pytest.mark.parametrize("kind", KINDS)
def test_fit_and_predict_agree_with_the_library_in_every_format(
    digits, expected, onefold, tmp_path: Path, kind: str
) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    model, out = tmp_path / "m.onefold", tmp_path / f"p.{kind}"
    fitted = onefold("fit", digits.train[kind], "--label", label_of(kind), "--raw", "--out", model, "--json")
    assert (fitted.returncode, fitted.stderr) == (0, "")
    told = json.loads(fitted.stdout)
    assert (told["rows"], told["features"], told["classes"]) == (400, 64, 10)
    assert told["file_bytes"] == model.stat().st_size
    done = onefold("predict", model, digits.test[kind], "--out", out, "--label", label_of(kind), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["accuracy"] == pytest.approx(np.mean(expected == digits.y_test))
    if kind == "npz":
        with np.load(out, allow_pickle=False) as arrays:
            assert arrays.files == ["prediction"]
            found = arrays["prediction"]
    elif kind == "csv":
        with out.open(newline="") as lines:
            found = np.array([int(row["prediction"]) for row in csv.DictReader(lines)])
    else:
        import pyarrow.parquet

        found = pyarrow.parquet.read_table(out)["prediction"].to_numpy()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_predict_reads_another_format_than_the_model_was_fitted_on(
    digits, expected, digits_model, tmp_path: Path, kind: str
) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / "p.npz"
    assert main(["predict", str(digits_model), str(digits.test[kind]), "--out", str(out), "--quiet"]) == 0
    np.testing.assert_array_equal(np.load(out)["prediction"], expected)


def test_predict_matches_columns_by_name(digits, expected, digits_model, tmp_path: Path, capsys) -> None:
    shuffled, out = tmp_path / "s.csv", tmp_path / "p.npz"
    order = np.random.default_rng(1).permutation(64)
    with shuffled.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", *(digits.names[j] for j in order)])
        writer.writerows([f"p{i:03d}", *row[order]] for i, row in enumerate(digits.X_test))
    arguments = ["predict", str(digits_model), str(shuffled), "--out", str(out), "--id", "person"]
    assert main(arguments) == 0
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["prediction"], expected)
        assert arrays["person"][17] == "p017"
    assert main([*arguments[:-2]]) == 0
    assert "1 column of" in capsys.readouterr().err
    assert main([*arguments[:-2], "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_predict_writes_distances_and_scores(digits, digits_model, tmp_path: Path) -> None:
    out = {suffix: tmp_path / f"p.{suffix}" for suffix in ("npz", "csv")}
    for path in out.values():
        arguments = [
            "predict",
            digits_model,
            digits.test["csv"],
            "--out",
            path,
            "--distances",
            "--scores",
            "--quiet",
        ]
        assert main(list(map(str, arguments))) == 0
    model = io.load(digits_model)
    del model.feature_names_in_
    with np.load(out["npz"], allow_pickle=False) as arrays:
        np.testing.assert_allclose(arrays["distances"], model.distances(digits.X_test), rtol=1e-12)
        np.testing.assert_allclose(arrays["scores"], model.matching_score(digits.X_test), rtol=1e-12)
        np.testing.assert_array_equal(arrays["prediction"], model.predict(digits.X_test))
        flat = rows(out["csv"], Schema.numbers([f"distance_{c}" for c in range(10)]))
        np.testing.assert_array_equal(flat.X, arrays["distances"])
        flat = rows(out["csv"], Schema.numbers([f"score_{c}" for c in range(10)]))
        np.testing.assert_array_equal(flat.X, arrays["scores"])


def test_predict_writes_csv_to_standard_output(digits, expected, digits_model, capsys) -> None:
    assert main(["predict", str(digits_model), str(digits.test["npz"]), "--out", "-", "--label", "y"]) == 0
    shown = capsys.readouterr()
    assert shown.out.split() == ["prediction", *map(str, expected)]
    assert f"accuracy {np.mean(expected == digits.y_test):.4f}" in shown.err


def test_held_out_accuracy_is_that_of_the_stored_model(digits, tmp_path: Path, capsys) -> None:
    model = tmp_path / "m"
    arguments = ["fit", str(digits.train["npz"]), "--label", "y", "--out", str(model), "--test-size", "0.25"]
    assert main([*arguments, "--seed", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["held_out_rows"]) == (300, 100)
    rows = np.arange(400)
    train, held = train_test_split(rows, test_size=100, stratify=digits.y_train, random_state=3)
    stored = io.load(model)
    right = stored.predict(digits.X_train) == digits.y_train
    assert told["held_out_accuracy"] == right[held].mean()
    # Fitted on the other rows only: a row it was fitted on is its own nearest neighbour, or nearly.
    distances = stored.distances(digits.X_train).min(axis=1)
    assert distances[train].mean() < 0.9 * distances[held].mean()


def test_options_of_fit_reach_the_model(digits, tmp_path: Path) -> None:
    wide, folding = tmp_path / "w", tmp_path / "f"
    data = [str(digits.train["npz"]), "--label", "y", "--quiet"]
    shape = "--n-components 7 --n-layers 2 --branch-size 30 --n-probe 1"
    others = "--scale none --measure max --n-jobs 1 --seed 5"
    assert main(["fit", *data, "--out", str(wide), *shape.split(), *others.split()]) == 0
    model = io.load(wide)
    assert isinstance(model, AutoencoderClassifier)
    assert (model.measure, model.n_jobs) == ("max", 1)
    found = model.estimator.get_params()
    assert {
        name: found[name] for name in ("n_components", "n_layers", "branch_size", "n_probe", "scale")
    } == {
        "n_components": 7,
        "n_layers": 2,
        "branch_size": 30,
        "n_probe": 1,
        "scale": None,
    }
    assert found["random_state"] == 5
    options = "--model folding --batch-size 20 --n-components 5 --measure product --scale 0.5"
    assert main(["fit", *data, "--out", str(folding), *options.split()]) == 0
    model = io.load(folding)
    assert isinstance(model, FoldingClassifier)
    assert (model.batch_size, model.n_components, model.measure, model.scale) == (20, 5, "product", 0.5)
    same = FoldingClassifier(batch_size=20, n_components=5, measure="product", scale=0.5)
    same.fit(digits.X_train, digits.y_train)
    np.testing.assert_array_equal(model.predict(digits.X_test), same.predict(digits.X_test))


def test_text_labels_and_float32_survive_fit_and_predict(tmp_path: Path, capsys) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 4)), rng.normal(size=(30, 4)) + 6]).astype(np.float32)
    y = np.repeat(["näh", "weit, weg"], 30)
    data, model, out = tmp_path / "d.npz", tmp_path / "m", tmp_path / "p.csv"
    np.savez(data, X=X, kind=y)
    assert main(["fit", str(data), "--label", "kind", "--out", str(model)]) == 0
    assert "guard it like the data" in capsys.readouterr().out
    assert main(["predict", str(model), str(data), "--out", str(out), "--label", "kind", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0
    with out.open(newline="", encoding="utf-8") as lines:
        assert [row["prediction"] for row in csv.DictReader(lines)] == y.tolist()


def test_warning_is_printed_in_one_line(digits, tmp_path: Path, onefold) -> None:
    big = tmp_path / "big.npz"
    np.savez(big, X=digits.X_train[:60] * 1e4, y=digits.y_train[:60])
    done = onefold("fit", big, "--label", "y", "--out", tmp_path / "m", "--scale", "1", "--quiet")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("onefold: warning: ")
    assert done.stderr.count("\n") == 1


def test_predict_explains_the_first_rows_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(3)
    lines = ["bmi,colour,ill"]
    for bmi in rng.uniform(15, 45, 120).round(1):
        lines.append(f"{bmi},{rng.choice(['red', 'blue'])},{'yes' if bmi > 30 else 'no'}")
    data, one = tmp_path / "data.csv", tmp_path / "one.csv"
    data.write_text("\n".join(lines) + "\n")
    one.write_text("bmi,colour\n44,red\n")
    model, out = str(tmp_path / "m.onefold"), str(tmp_path / "p.csv")
    assert main(["fit", str(data), "--label", "ill", "--out", model, "--quiet"]) == 0
    assert main(["predict", model, str(data), "--explain", "2", "--out", out, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["because"]
    with open(out, newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["because"] for row in written[:3]] == [*told, ""]
    for row in written[:2]:
        assert row["because"].startswith(f"{row['prediction']} rather than ")
        assert "because bmi is" in row["because"]
    assert main(["predict", model, str(one), "--explain", "1", "--out", out]) == 2
    assert "--against FILE" in capsys.readouterr().err
    words = ["--explain", "1", "--against", str(data), "--out", out]
    assert main(["predict", model, str(one), *words]) == 0
    assert "row 1: yes rather than no because bmi is high (44)" in capsys.readouterr().out
    assert main(["predict", model, str(one), "--against", str(data), "--out", out]) == 2
