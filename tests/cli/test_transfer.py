"""``onefold transfer``: a source from one table, a classifier for another, predictions from it."""

import json
import re

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.tables import Field, Schema
from onefold.transfer import PrivateSource, TransferClassifier


@pytest.fixture
def target(digits, tmp_path):
    """The test digits, all but the first labels -1."""
    seen = np.where(np.arange(len(digits.y_test)) < 60, digits.y_test, -1)
    np.savez(tmp_path / "target.npz", X=digits.X_test / 16.0, y=seen)
    np.savez(tmp_path / "source.npz", X=digits.X_train / 16.0, y=digits.y_train)
    np.savez(tmp_path / "truth.npz", X=digits.X_test / 16.0, y=digits.y_test)
    return tmp_path


DIGITS = tuple(range(10))


@pytest.mark.parametrize(
    ("made", "fitted", "unit"),
    [
        (("--epsilon", 8, "--unit", "record", "--classes", *DIGITS, "--radius", 5), (), "record"),
        (("--method", "noise", "--epsilon", 8, "--range", 0, 1), ("--strategy", "documented"), "entry"),
        pytest.param(
            ("--method", "fabricated", "--epsilon", 8, "--range", 0, 1),
            ("--strategy", "nonparametric"),
            "entry",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_source_then_fit_then_predict_beats_chance(made, fitted, unit, target, onefold) -> None:
    source, model = target / "s.source", target / "t.model"
    answer = onefold(
        "transfer", "source", target / "source.npz", "--label", "y", "--out", source, "--json", *made
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["promise"]["unit"] == unit
    answer = onefold(
        "transfer", "fit", source, target / "target.npz", "--label", "y", "--out", model, "--json", *fitted
    )
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert (told["rows"], told["unlabelled"]) == (300, 240)
    answer = onefold(
        "predict",
        model,
        target / "truth.npz",
        "--label",
        "y",
        "--out",
        target / "p.csv",
        "--json",
        "--scores",
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["accuracy"] > 0.8


def test_transfer_fit_says_what_the_source_contributed(target, onefold) -> None:
    source = target / "s"
    old = [target / f"{name}.guarantee.json" for name in ("s", "m")]  # of private files that stood there
    for path in old:
        path.write_text("{}")
    answer = onefold(
        "transfer", "source", target / "source.npz", "--label", "y", "--out", source,
        "--epsilon", 4, "--classes", *DIGITS, "--radius", 5,
    )  # fmt: skip
    assert "epsilon 4 per record" in answer.stdout
    page = ("--out", target / "m", "--report", target / "page.html")
    answer = onefold("transfer", "fit", source, target / "target.npz", "--label", "y", *page)
    assert not any(path.exists() for path in old)
    assert "240 without a label" in answer.stdout
    assert "without the source" in answer.stdout
    told = next(line for line in answer.stdout.splitlines() if line.startswith("weight: "))
    assert "the source as it is" in told
    assert 95 <= sum(int(share) for share in re.findall(r"(\d+) %", told)) <= 105
    sections = json.loads((target / "page.json").read_text())["sections"]
    (weights,) = [part for part in sections if part["title"] == "Weights of the experts"]
    assert sum(share for *_, share in weights["rows"]) == pytest.approx(1.0, abs=0.001)
    (accuracy,) = [part for part in sections if part["title"] == "Accuracy"]
    low, high = accuracy["facts"]["95 % interval of the accuracy"]
    assert 0.0 <= low < accuracy["facts"]["accuracy"] < high <= 1.0
    assert len(accuracy["display"]["intervals"]) == 3
    assert re.search(r"held-out labelled rows: [\d.]+ % \(95 % confidence: [\d.]+ to [\d.]+\)", answer.stdout)


def test_transfer_fit_takes_several_sources(target, onefold) -> None:
    with np.load(target / "source.npz") as arrays:
        X, y = arrays["X"], arrays["y"]
    files = [target / "one.source", target / "two.source"]
    for place, (epsilon, file) in enumerate(zip((4, 8), files, strict=True)):
        np.savez(target / "part.npz", X=X[place::2], y=y[place::2])
        made = ("--epsilon", epsilon, "--classes", *DIGITS, "--radius", 5, "--out", file)
        answer = onefold("transfer", "source", target / "part.npz", "--label", "y", *made)
        assert answer.returncode == 0, answer.stderr
    model, page = target / "m", target / "page.html"
    # Options may stand between the source and the table, as before.
    options = ("--and-source", files[1], "--label", "y", "--out", model, "--report", page)
    answer = onefold("transfer", "fit", files[0], *options, target / "target.npz")
    assert answer.returncode == 0, answer.stderr
    assert "with the sources" in answer.stdout
    assert "source 1: the same refined on unlabelled rows" in answer.stdout
    told = json.loads((target / "page.json").read_text())
    about = [f"About the rows of source {number}" for number in (1, 2)]
    assert all(any(line.startswith(start) for line in told["verdict"]) for start in about)
    loaded = TransferClassifier.load(model)
    assert [promise.record[0] for promise in loaded.guarantee_] == [4.0, 8.0]
    gone = ("--and-source", target / "none.source", "--label", "y", "--out", model)
    answer = onefold("transfer", "fit", files[0], target / "target.npz", *gone)
    assert answer.returncode == 2
    assert "no such file" in answer.stderr


SOURCE = ("source", "{source}", "--label", "y", "--out", "{out}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (SOURCE, "--epsilon"),
        ((*SOURCE, "--epsilon", "nan"), "positive"),
        (
            ("source", "{source}", "--label", "z", "--out", "{out}", "--epsilon", "1", "--radius", "1"),
            "no column",
        ),
        ((*SOURCE, "--epsilon", "1"), "moments need to know how long rows can be"),
        (("source", "{source}", "--out", "{out}", "--epsilon", "1"), "--label COL, or a schema"),
        (
            (*SOURCE, "--epsilon", "1", "--noise", "laplace"),
            "--noise goes with",
        ),
        (
            (*SOURCE, "--epsilon", "1", "--method", "noise", "--radius", "2"),
            "--radius goes with",
        ),
        (
            (*SOURCE, "--epsilon", "1", "--label-epsilon", "1"),
            "--method noise",
        ),
        (
            (*SOURCE, "--epsilon", "1", "--unit", "entry"),
            "moments are private per record",
        ),
        (
            (
                *(*SOURCE, "--epsilon", "1"),
                *("--method", "noise", "--unit", "record", "--sensitivity", "1"),
            ),
            "--unit record needs --range",
        ),
        (
            (*SOURCE, "--epsilon", "1", "--method", "noise"),
            "--range LOW HIGH",
        ),
        (
            (*SOURCE, "--epsilon", "1", "--radius", "1", "--classes", "a", "b"),
            "a label that --classes does not name",
        ),
        (
            ("source", "{source}", "--label", "y", "--out", "{source}", "--epsilon", "1", "--radius", "1"),
            "is an input",
        ),
        (("fit", "{absent}", "{target}", "--label", "y", "--out", "{out}"), "no such file"),
        (("fit", "{target}", "{target}", "--label", "y", "--out", "{out}"), "not a file of onefold"),
    ],
)
def test_bad_input_prints_one_line_and_exits_with_code_2(arguments, message, target, onefold) -> None:
    names = {name: target / f"{name}.npz" for name in ("source", "target", "absent")} | {
        "out": target / "out"
    }
    answer = onefold("transfer", *(str(part).format(**names) for part in arguments))
    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
    assert message in answer.stderr
    assert not (target / "out").exists()


def test_class_without_a_labelled_row_needs_allow_missing(target, digits, onefold) -> None:
    source = target / "s"
    onefold("transfer", "source", target / "source.npz", "--label", "y", "--out", source, "--method", "noise",
            "--epsilon", 8, "--range", 0, 1)  # fmt: skip
    seen = np.where((np.arange(300) < 60) & (digits.y_test != 3), digits.y_test, -1)
    np.savez(target / "few.npz", X=digits.X_test / 16.0, y=seen)
    arguments = ("transfer", "fit", source, target / "few.npz", "--label", "y", "--out", target / "m")
    answer = onefold(*arguments)
    assert answer.returncode == 2
    assert "no row is labelled as 3" in answer.stderr
    assert "--allow-missing" in answer.stderr
    assert onefold(*arguments, "--allow-missing").returncode == 0


def test_columns_in_their_own_units_transfer_by_a_schema(tmp_path, onefold) -> None:
    """Before, clinical columns gave less than the majority, without a word."""

    def clinic(n, seed):
        rng = np.random.default_rng(seed)
        ill = rng.random(n) < 0.4
        columns = (np.where(ill, 60, 45) + rng.normal(0, 10, n), np.where(ill, 11, 6) + rng.normal(0, 1.5, n))
        return ill, [*columns, rng.normal(250_000, 60_000, n)]

    def write(path, n, seed, known):
        ill, columns = clinic(n, seed)
        label = [("ill" if sick else "well") if row < known else "" for row, sick in enumerate(ill)]
        lines = [
            f"{age:.0f},{sugar:.2f},{platelets:.0f},{word}"
            for age, sugar, platelets, word in zip(*columns, label, strict=True)
        ]
        path.write_text("\n".join(["age,glucose,platelets,outcome", *lines]) + "\n")
        return np.where(ill, "ill", "well")

    fields = [Field("age", low=0, high=110), Field("glucose", low=2, high=30, missing="indicator")]
    fields += [Field("platelets", low=0, high=900_000)]
    Schema([*fields, Field("outcome", "string", "label", levels=("ill", "well"))]).save(tmp_path / "s.json")
    write(tmp_path / "source.csv", 3000, 1, 3000)
    write(tmp_path / "target.csv", 300, 2, 30)
    made = onefold(
        "transfer", "source", tmp_path / "source.csv", "--schema", tmp_path / "s.json", "--epsilon", 1,
        "--out", tmp_path / "a.source",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "2 classes: ill, well" in made.stdout
    model = tmp_path / "t.model"
    fitted = onefold(
        "transfer", "fit", tmp_path / "a.source", tmp_path / "target.csv", "--out", model, "--json"
    )
    assert fitted.returncode == 0, fitted.stderr
    told = json.loads(fitted.stdout)
    assert (told["rows"], told["unlabelled"]) == (300, 270)
    assert told["accuracy"] > told["majority"]
    truth, columns = clinic(1000, 3)
    table = dict(zip(("age", "glucose", "platelets"), columns, strict=True))
    right = TransferClassifier.load(model).predict(table) == np.where(truth, "ill", "well")
    assert right.mean() > 0.9


# --- what is promised, in this process --------------------------------------------------------------------

ROWS = 53  # a number that occurs nowhere else in what is said


@pytest.fixture
def patients(tmp_path, monkeypatch):
    """A table of twenty patients in the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    rows = [
        f"p{row % 20},{rng.random():.3f},{rng.random():.3f},{('well', 'ill')[row % 2]}" for row in range(ROWS)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["patient,age,score,outcome", *rows]) + "\n")


def source(*options) -> list[str]:
    command = ("transfer", "source", "rows.csv", "--label", "outcome", "--out", "made", "--epsilon", 2)
    return [str(word) for word in (*command, *options)]


ALONE, PERSON = ("--ignore", "patient"), ("--person", "patient", "--rows-per-person", 2)
CLASSES = ("--classes", "ill", "well", "an illness that nobody here has", "--radius", 1)


@pytest.mark.parametrize(
    ("options", "unit", "tells_rows"),
    [
        ((*ALONE, *CLASSES), "record", False),
        ((*PERSON, *CLASSES), "person", False),
        ((*PERSON, "--unit", "person", "--radius", 2, *CLASSES), "person", False),
        ((*ALONE, "--method", "noise", "--range", 0, 1), "entry", True),
        ((*ALONE, "--method", "fabricated", "--range", 0, 1, "--unit", "record"), "record", True),
        ((*PERSON, "--method", "noise", "--range", 0, 1, "--unit", "person"), "person", False),
        ((*PERSON, "--method", "fabricated", "--range", 0, 1), "entry", False),
    ],
)
def test_source_tells_the_number_of_rows_only_where_it_is_public(
    options, unit, tells_rows, patients, capsys
) -> None:
    assert main(source(*options)) == 0
    text = capsys.readouterr().out
    assert main(source(*options, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert ("rows" in told) == tells_rows
    assert tells_rows or not re.search(rf"(?<![\d.]){ROWS}(?![\d.])", text)
    assert told["promise"]["unit"] == unit
    assert told["promise"]["holds"]
    assert told["promise"]["text"] in text
    assert ("A person known to several sites" in text) == (options[0] == "--person")


@pytest.mark.parametrize("method", [("--method", "noise", "--range", 0, 1), CLASSES])
def test_source_of_the_float_sampler_is_void(method, patients, capsys) -> None:
    assert main(source(*ALONE, *method, "--sampler", "float", "--json")) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert not promise["holds"]
    assert "float sampler" in promise["voided_by"][0]
    assert not PrivateSource.load("made").guarantee_.holds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*PERSON, "--unit", "record"), "leave --unit record out"),
        ((*PERSON[:2],), "go together"),
        ((*ALONE, "--unit", "person"), "needs --person COL"),
        ((*ALONE, "--method", "noise", "--unit", "person", "--range", 0, 1), "needs --person COL"),
        (("--person", "outcome", "--rows-per-person", 2, "--radius", 1), "name the same column"),
    ],
)
def test_promises_to_persons_need_all_their_options(options, message, patients, capsys) -> None:
    assert main(source(*options)) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_rows_of_nobody_are_refused(patients, tmp_path, capsys) -> None:
    """Rows of several people without a name would count as those of one person."""
    table = tmp_path / "rows.csv"
    table.write_text(table.read_text().replace("\np3,", "\nnan,"))
    assert main(source(*PERSON, *CLASSES)) == 2
    assert "column 'patient' has a missing value in row 4" in capsys.readouterr().err
