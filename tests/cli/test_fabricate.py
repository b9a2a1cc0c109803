"""``onefold fabricate``: rows in, private rows and their guarantee out."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onefold.cli.app import main

X, y = load_digits(return_X_y=True)
X = X[:300] / 16.0
y = y[:300]
RANGE = ("--range", 0, 1)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "digits.csv"
    header = ",".join([f"pixel{j}" for j in range(64)] + ["digit"])
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=header, comments="", fmt="%.6g")
    return path


def run(*arguments):
    return main(["fabricate", *map(str, arguments)])


def test_fabricated_table_keeps_names_and_labels_and_states_its_guarantee(table, tmp_path, capsys):
    out = tmp_path / "synth.csv"
    assert run(table, "--label", "digit", "--epsilon", 4, *RANGE, "--unit", "entry", "--out", out) == 0
    lines = out.read_text().splitlines()
    assert lines[0] == table.read_text().splitlines()[0]
    values = np.loadtxt(lines[1:], delimiter=",")
    assert values.shape == (300, 65)
    np.testing.assert_array_equal(values[:, -1], y)
    assert 0.01 < np.abs(values[:, :-1] - X).mean() < 1.0
    promise = json.loads((tmp_path / "synth.csv.guarantee.json").read_text())
    assert promise["unit"] == "entry"
    printed = capsys.readouterr().out
    assert "epsilon 4 per entry" in printed
    assert "epsilon 256 per record" in printed
    assert "NOT covered" in printed


def test_noise_differs_between_two_runs(table, tmp_path):
    for name in ("a.csv", "b.csv"):
        assert (
            run(table, "--label", "digit", "--epsilon", 4, *RANGE, "--out", tmp_path / name, "--quiet") == 0
        )
    assert (tmp_path / "a.csv").read_bytes() != (tmp_path / "b.csv").read_bytes()


def test_record_unit_clips_to_the_range_and_randomises_labels(table, tmp_path, capsys):
    out = tmp_path / "synth.npz"
    options = ["--unit", "record", "--range", 0, 1, "--noise", "gaussian", "--label-epsilon", 2, "--json"]
    options += ["--classes", *range(10)]
    assert run(table, "--label", "digit", "--epsilon", 8, "--out", out, *options) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["holds"] is True
    assert result["promise"]["record"]["epsilon"] == pytest.approx(8)
    assert result["promise"]["labels"]["epsilon"] == pytest.approx(2)
    with np.load(out) as made:
        assert made["pixel3"].min() >= 0
        assert made["pixel3"].max() <= 1
        assert 0.3 < np.mean(made["digit"] == y) < 0.6  # kept with e^2 / (e^2 + 9) = 0.45


def test_documented_stopping_voids_the_guarantee(table, tmp_path, capsys):
    out = tmp_path / "s.csv"
    assert (
        run(table, "--label", "digit", "--epsilon", 8, *RANGE, "--stopping", "documented", "--out", out) == 0
    )
    captured = capsys.readouterr()
    assert "VOID" in captured.out
    assert "raw data" in captured.err


@pytest.mark.parametrize(
    "options",
    [
        ["--epsilon", "-1"],
        ["--epsilon", "nan"],
        ["--epsilon", "1", "--unit", "record"],
        ["--epsilon", "1", "--range", "1", "0"],
        ["--epsilon", "1", "--stopping", "soon"],
        ["--epsilon", "1", "--delta", "2"],
        ["--epsilon", "1", "--label", "absent"],
    ],
)
def test_bad_options_are_refused_in_one_line(table, tmp_path, capsys, options):
    assert run(table, "--out", tmp_path / "s.csv", *options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1
    assert not (tmp_path / "s.csv").exists()


def test_labels_are_randomised_among_declared_classes_only(table, tmp_path, capsys):
    wanted = ["--label", "digit", "--epsilon", 8, *RANGE, "--out", tmp_path / "s.csv", "--label-epsilon", 1]
    assert run(table, *wanted) == 2
    assert "--classes" in capsys.readouterr().err
    assert run(table, *wanted, "--classes", *range(9)) == 2
    assert "a label that --classes does not name" in capsys.readouterr().err
    assert not (tmp_path / "s.csv").exists()
    assert run(table, *wanted, "--classes", *range(30), "--quiet") == 0
    made = np.genfromtxt(tmp_path / "s.csv", delimiter=",", names=True)["digit"]
    assert made.max() > 9  # a label nobody has appears too, as it must
