"""The fuzzy experiments on tiny data: what they compare, and that finished pieces are not computed twice."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from experiments.data import stand_ins
from experiments.fuzzy import photographs, private, robustness
from experiments.harness import main, printed_in
from onefold.privacy import AnalyticGaussian
from onefold.privacy.calibration import gaussian_epsilon


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    digits, labels = load_digits(return_X_y=True)
    images = (digits / 16 * 255).astype(np.uint8).reshape(-1, 8, 8)
    np.savez(
        tmp_path / "mnist.npz",
        X_train=images[:500],
        y_train=labels[:500],
        X_test=images[500:650],
        y_test=labels[500:650],
    )
    return tmp_path


def run(script, data_dir: Path, capsys, *more: str) -> dict:
    options = ["--quick", "--json", "--data-dir", str(data_dir), "--resume", str(data_dir / "rows"), *more]
    assert main(script.__file__, script.options(), script.experiment, options) == 0
    return json.loads(capsys.readouterr().out)


def test_robustness_experiment_resumes_finished_pieces(data_dir: Path, capsys, monkeypatch) -> None:
    found = run(robustness, data_dir, capsys)
    values = found["values"]
    assert set(values) == {
        f"{name} noise {level:g}" for name in robustness.VARIANTS for level in robustness.LEVELS
    }
    assert values["document noise 0"] > 0.85
    assert values["document noise 0"] > values["document noise 1"]
    rows = found["tables"][0]["rows"]
    printed = printed_in("003", "Table 4.1")
    assert rows[-2][2:8] == [printed[f"noise {level:g}, proposed"] for level in robustness.LEVELS]
    monkeypatch.setattr(robustness, "measure", None)  # nothing is measured twice
    assert run(robustness, data_dir, capsys)["values"] == values


@pytest.mark.nightly
def test_private_experiment_lists_every_setting(data_dir: Path, capsys) -> None:
    pytest.importorskip("dp_accounting")
    found = run(private, data_dir, capsys, "--epsilons", "0.1", "8")
    rows = found["tables"][0]["rows"]
    assert [row[:2] for row in rows] == [
        ["inf", "none"],
        *([f"{epsilon:g}", kind] for epsilon in (0.1, 8.0) for kind in private.NOISES),
    ]
    assert found["values"]["1000 none epsilon inf"] > 0.85
    weak = found["values"]["1000 optimal epsilon 8"]
    assert weak > found["values"]["1000 optimal epsilon 0.1"]
    assert "labels not covered" in found["tables"][0]["title"]


@pytest.mark.parametrize("kind", private.NOISES)
def test_noise_on_digits_has_the_stated_size(kind: str) -> None:
    pytest.importorskip("dp_accounting")
    rows, magnitude = private.noisy(kind, 0.5, np.zeros((200, 64)), 0)
    assert np.abs(rows).mean() == pytest.approx(magnitude, rel=0.05)


def test_matched_noise_has_the_same_epsilon_per_record() -> None:
    pytest.importorskip("dp_accounting")
    optimal, classical, analytic, matched = (private.per_record(kind, 0.5, 64) for kind in private.NOISES)
    assert matched == pytest.approx(optimal, rel=1e-6)
    assert classical < analytic < optimal
    scale = AnalyticGaussian(0.5, delta=private.DELTA, sensitivity=1.0).scale
    # Hardened noise is larger by about one part in a million.
    assert analytic == pytest.approx(gaussian_epsilon(private.RECORD_DELTA, scale, 8.0), rel=1e-5)


def test_photographs_are_judged_by_the_documents_methods(tmp_path: Path, capsys) -> None:
    stand_ins.write(tmp_path)
    few = ["--tables", "Table 4.2", "Table 4.3", "--methods", *photographs.METHODS[:4]]
    found = run(photographs, tmp_path, capsys, *few)
    values = found["values"]
    assert set(values) == {
        f"{table}/{method}" for table in ("Table 4.2", "Table 4.3") for method in photographs.METHODS[:4]
    }
    assert values[f"Table 4.3/{photographs.PLAIN}"] > 0.8
    assert values[f"Table 4.3/{photographs.PLAIN}"] >= values[f"Table 4.3/{photographs.GAUSSIAN}"]
    printed = printed_in("003", "Table 4.3")
    assert [row[-1] for row in found["tables"][1]["rows"]] == [
        printed[name] for name in photographs.METHODS[:4]
    ]


def test_accuracy_by_class_counts_classes_not_rows() -> None:
    nothing = np.zeros((0, 2))
    truth = np.array([0, 0, 0, 1])
    part = photographs.Division(nothing, truth[:0], nothing, truth, by_class=True)
    assert part.accuracy(np.array([0, 0, 0, 0])) == 0.5
    assert replace(part, by_class=False).accuracy(np.array([0, 0, 0, 0])) == 0.75


def test_another_delta_has_a_table_and_names_of_its_own(data_dir: Path, capsys) -> None:
    pytest.importorskip("dp_accounting")
    more = ("--epsilons", "8", "--deltas", "1e-5", "1e-2", "--noises", "optimal", "classical")
    found = run(private, data_dir, capsys, *more)
    assert list(found["values"]) == [
        "1000 none epsilon inf",
        "1000 optimal epsilon 8",
        "1000 classical epsilon 8",
        "1000 optimal epsilon 8 delta 0.01",
        "1000 classical epsilon 8 delta 0.01",
    ]
    rows = [table["rows"][-1] for table in found["tables"]]
    assert rows[0][2] > rows[1][2]  # a larger delta needs less Gaussian noise
    assert found["tables"][1]["rows"][0][6] == "inf"  # 64 pixels, one of them unchanged far too often
