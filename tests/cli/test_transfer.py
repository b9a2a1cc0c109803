"""``onefold transfer``: a source from one table, a classifier for another, predictions from it."""

import json

import numpy as np
import pytest


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
        (
            ("--epsilon", 8, "--classes", *DIGITS, "--encoder", "gradients", "--image-shape", 8, 8),
            (),
            "record",
        ),
        (("--epsilon", 8, "--unit", "record", "--classes", *DIGITS, "--radius", 5), (), "record"),
        (("--method", "noise", "--epsilon", 8, "--range", 0, 1), ("--strategy", "documented"), "entry"),
        (
            ("--method", "fabricated", "--epsilon", 8, "--range", 0, 1),
            ("--strategy", "nonparametric"),
            "entry",
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
    answer = onefold(
        "transfer", "source", target / "source.npz", "--label", "y", "--out", source,
        "--epsilon", 4, "--classes", *DIGITS, "--radius", 5,
    )  # fmt: skip
    assert "epsilon 4 per record" in answer.stdout
    answer = onefold("transfer", "fit", source, target / "target.npz", "--label", "y", "--out", target / "m")
    assert "240 without a label" in answer.stdout
    assert "without the source" in answer.stdout or "not used" in answer.stdout


SOURCE = ("source", "{source}", "--label", "y", "--out", "{out}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (SOURCE, "--epsilon"),
        ((*SOURCE, "--epsilon", "nan"), "positive"),
        (("source", "{source}", "--label", "z", "--out", "{out}", "--epsilon", "1"), "no column"),
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
            "noise needs --range LOW HIGH",
        ),
        (
            (*SOURCE, "--epsilon", "1", "--classes", "a", "b"),
            "a label that --classes does not name",
        ),
        (
            (*SOURCE, "--epsilon", "1", "--margin", "1"),
            "--encoder gradients",
        ),
        (("source", "{source}", "--label", "y", "--out", "{source}", "--epsilon", "1"), "is an input"),
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
    assert onefold(*arguments, "--allow-missing").returncode == 0
