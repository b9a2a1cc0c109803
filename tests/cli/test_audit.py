"""``onefold audit``: the numbers of the library, plain words, one line for every mistake."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from onefold import KAHM, io
from onefold.audit import distance_attack, membership_inference_score
from onefold.cli.app import main


@pytest.fixture(scope="module")
def model_file(digits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "digits.model"
    words = ["--label", "digit", "--raw", "--out", str(path), "--quiet"]
    assert main(["fit", str(digits.train["csv"]), *words]) == 0
    return path


def arguments(model: Path, train: Path, test: Path, *more: str) -> list[str]:
    return ["audit", str(model), "--train", str(train), "--test", str(test), *more]


def loaded(model_file: Path):
    model = io.load(model_file)
    del model.feature_names_in_
    return model


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_audit_prints_the_numbers_of_the_library(digits, model_file, capsys, kind: str) -> None:
    label = "y" if kind == "npz" else "digit"
    files = arguments(model_file, digits.train[kind], digits.test[kind], "--label", label, "--json")
    assert main(files) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    model = loaded(model_file)
    train, test = model.distances(digits.X_train), model.distances(digits.X_test)
    nearest = train.min(axis=1), test.min(axis=1)
    expected = distance_attack(*nearest, confidence=0.99)  # of five attacks
    found = told["attacks"]["distance to the nearest class"]
    assert (found["auc"], *found["auc_interval"]) == pytest.approx((expected.auc, *expected.auc_interval))
    assert told["membership_inference_score"] == pytest.approx(membership_inference_score(*nearest))
    own = train[np.arange(400), digits.y_train], test[np.arange(300), digits.y_test]
    truth = np.repeat([0, 1], [400, 300])
    area = told["attacks"]["distance to the own class"]["auc"]
    assert area == pytest.approx(roc_auc_score(truth, np.concatenate(own)))
    assert told["accuracy"]["train"] == model.score(digits.X_train, digits.y_train)
    assert told["accuracy"]["test"] == model.score(digits.X_test, digits.y_test)
    assert found["auc"] > 0.9  # such a machine remembers what it was fitted on
    assert (found["n_members"], found["n_nonmembers"]) == (400, 300)


def test_audit_without_labels_leaves_out_the_attack_on_the_own_class(digits, model_file, capsys) -> None:
    assert main(arguments(model_file, digits.train["npz"], digits.test["npz"], "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["attacks"]) == ["distance to the nearest class", "largest probability"]
    assert (told["accuracy"], told["shared_rows"]) == (None, 0)


def test_audit_explains_its_numbers_in_words(digits, model_file, capsys) -> None:
    assert main(arguments(model_file, digits.train["csv"], digits.test["csv"])) == 0
    shown = capsys.readouterr()
    for part in (
        "AUC, distance to the nearest class",
        "members found at 1 % false positives",
        "members found at 0.1 % false positives",
        "membership-inference score",
        "0.5 is guessing",
        "members can be told from outsiders",
        "300 test rows are too few to see a false-positive rate of 0.1 %",
        "Its unit is one over that of the distances",
        "no proof of privacy",
        "for another reason",
    ):
        assert part in " ".join(shown.out.split())
    assert "own class" not in shown.out
    assert max(map(len, shown.out.splitlines())) <= 88
    assert "1 column of" in shown.err  # the label nobody asked for
    assert main(arguments(model_file, digits.train["csv"], digits.test["csv"], "--quiet")) == 0
    assert capsys.readouterr() == ("", "")


def test_training_rows_among_the_test_rows_are_counted(digits, model_file, tmp_path: Path, capsys) -> None:
    mixed = tmp_path / "mixed.npz"
    np.savez(mixed, X=np.concatenate([digits.X_test, digits.X_train[:7]]))
    assert main(arguments(model_file, digits.train["npz"], mixed)) == 0
    assert "7 test row(s) are training rows" in capsys.readouterr().out


def test_equal_tables_give_no_advantage_to_the_attack(digits, model_file, capsys) -> None:
    assert main(arguments(model_file, digits.train["npz"], digits.train["npz"], "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["auc"] for each in told["attacks"].values()] == pytest.approx([0.5, 0.5])
    assert "no leak was seen" in told["verdict"]
    assert told["membership_inference_score"] == pytest.approx(0.0, abs=1e-12)
    assert told["shared_rows"] == 400


def test_report_is_one_html_file_with_the_same_numbers(digits, model_file, tmp_path: Path, capsys) -> None:
    page, odd = tmp_path / "audit.html", tmp_path / "<b>&.npz"
    odd.write_bytes(digits.test["npz"].read_bytes())
    assert main(arguments(model_file, digits.train["npz"], odd, "--report", str(page), "--json")) == 0
    told, text = json.loads(capsys.readouterr().out), page.read_text(encoding="utf-8")
    assert f"{told['attacks'][told['strongest']]['auc']:.4f}".rstrip("0") in text
    assert f"{told['membership_inference_score']:.4f}".rstrip("0") in text
    assert "&lt;b&gt;&amp;.npz" in text
    assert "<b>" not in text
    assert "<script" not in text
    assert "http" not in text
    assert text.count("<li>") == len(told["notes"]) - 1  # the verdict stands above
    assert told["verdict"] in text
    assert text.count('alt="') == text.count("<img ") == 2


@pytest.mark.parametrize(
    "case",
    [
        "no model",
        "no table",
        "not a classifier",
        "width",
        "few",
        "label",
        "classes",
        "report",
        "model is a table",
    ],
)
def test_bad_input_prints_one_line_and_exits_with_code_2(
    digits, model_file, tmp_path: Path, capsys, case: str
) -> None:
    train, test = digits.train["npz"], digits.test["npz"]
    narrow, few, classes, machine = (
        tmp_path / name for name in ("narrow.npz", "few.npz", "classes.npz", "m")
    )
    np.savez(narrow, X=digits.X_test[:, :5], y=digits.y_test)
    np.savez(few, X=digits.X_test[:4], y=digits.y_test[:4])
    np.savez(classes, X=digits.X_test, y=digits.y_test + 1)
    io.save(KAHM().fit(digits.X_train[:50] / 16), machine)
    given = {
        "no model": arguments(tmp_path / "nothing", train, test),
        "no table": arguments(model_file, train, tmp_path / "nothing.csv"),
        "not a classifier": arguments(machine, train, test),
        "width": arguments(model_file, train, narrow),
        "few": arguments(model_file, train, few),
        "label": arguments(model_file, train, test, "--label", "kind"),
        "classes": arguments(model_file, train, classes, "--label", "y"),
        "report": arguments(model_file, train, test, "--report", str(tmp_path / "no" / "r.html")),
        "model is a table": arguments(train, train, test),
    }[case]
    assert main(given) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("onefold: error: ")
    assert shown.err.count("\n") == 1


@pytest.mark.merge
def test_audit_runs_as_a_process(digits, model_file, process, onefold) -> None:
    done = process("audit", model_file, "--train", digits.train["npz"], "--test", digits.test["npz"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("400 training rows against 300 test rows")
    missing = onefold("audit", model_file, "--train", digits.train["npz"])
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1


def test_an_audit_refuses_what_it_cannot_do(capsys) -> None:
    for command, part in (
        ([], "--train and --test"),
        (["some.model"], "--train and --test"),
        (["--mechanism", "all"], "unrecognized arguments: --mechanism"),
    ):
        assert main(["audit", *command]) == 2
        message = capsys.readouterr().err
        assert part in message
        assert message.count("\n") == 1


# --- synthetic tables ---------------------------------------------------------------------------------------


@pytest.fixture
def wards(tmp_path, monkeypatch):
    """Rows that a table is made from, rows of the same kind, and their schema."""
    from onefold.tables import Field, Schema, write_table

    monkeypatch.chdir(tmp_path)
    fields = [Field(f"n{j}", "number", low=0, high=1) for j in range(4)]
    Schema([*fields, Field("ill", "boolean", role="label")], rows_about=300).save("s.json")
    for number, name in enumerate(("train", "test")):
        rng = np.random.default_rng(number)
        rows = {f"n{j}": rng.random(300) for j in range(4)}
        write_table(f"{name}.csv", rows | {"ill": rng.random(300) < 0.5})
    return ["--train", "train.csv", "--test", "test.csv", "--schema", "s.json", "--json"]


def test_a_table_that_copies_its_rows_is_caught_and_a_private_one_is_not(wards, capsys):
    assert main(["audit", "--synthetic", "train.csv", *wards]) == 0
    assert json.loads(capsys.readouterr().out)["attack"]["auc"] > 0.99
    given = ["train.csv", "--schema", "s.json", "--epsilon", "1", "--out", "made.csv", "--quiet"]
    assert main(["synthesize", *given]) == 0
    assert main(["audit", "--synthetic", "made.csv", *wards]) == 0
    assert 0.38 < json.loads(capsys.readouterr().out)["attack"]["auc"] < 0.62


@pytest.mark.parametrize(
    ("more", "word"),
    [(["model.bin"], "no MODEL"), (["--report", "r.txt"], "must end in .html"), ([], "--schema")],
)
def test_an_audit_of_a_table_refuses_what_it_cannot_use(wards, capsys, more, word):
    given = wards if more else ["--train", "train.csv", "--test", "test.csv"]
    assert main(["audit", "--synthetic", "train.csv", *given, *more]) == 2
    assert word in capsys.readouterr().err
