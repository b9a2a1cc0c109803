"""The record-level experiment runs at small size; its private gradient descent keeps its epsilon."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from experiments.privacy import record_level, small_epsilon
from experiments.privacy.gradient_descent import PrivateGradientDescent, clipped_gradient
from onefold.privacy.calibration import mu_of


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A file of the same name and arrays as the real one: 8 x 8 digits enlarged to 28 x 28."""
    digits = load_digits()
    images = np.pad(np.kron(digits.images, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2))).astype(np.uint8) * 15
    labels = digits.target.astype(np.uint8)
    parts = {
        "X_train": images[:1400],
        "y_train": labels[:1400],
        "X_test": images[1400:],
        "y_test": labels[1400:],
    }
    np.savez(tmp_path / "mnist.npz", **parts)
    return tmp_path


@pytest.mark.nightly
def test_record_level_experiment_runs_on_small_data(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--json", "--seeds", "2", "--datasets", "mnist", "--data-dir", str(data_dir)]
    assert record_level.main(arguments) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["mnist moments none"] > 0.93
    assert values["mnist moments 8.0"] > values["mnist noise on pixels, calibrated for the image 8.0"] + 0.2


@pytest.mark.nightly
def test_table_of_small_epsilons_runs_on_small_data(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_epsilon, "EPSILONS", (0.5, 8.0))
    arguments = ["--quick", "--seeds", "1", "--datasets", "mnist", "--data-dir", str(data_dir)]
    assert small_epsilon.main(arguments) == 0
    found = [line.split()[-2:] for line in capsys.readouterr().out.splitlines() if line.startswith("mnist")]
    (class_low, class_high), (rule_low, rule_high), _ = ([float(score) for score in row] for row in found)
    assert rule_low > class_low
    assert min(class_high, rule_high) > 0.8


def test_missing_data_prints_one_line_and_exits_with_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record_level.main(["--datasets", "mnist", "--data-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_one_record_moves_the_clipped_gradient_by_at_most_the_clip() -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(50, 4)), rng.integers(0, 3, 50)
    for scale in (0.0, 1.0, 30.0):
        weights = scale * rng.normal(size=(4, 3))
        whole = clipped_gradient(rows, y, weights, 0.3)
        moves = [
            np.linalg.norm(whole - clipped_gradient(np.delete(rows, i, 0), np.delete(y, i), weights, 0.3))
            for i in range(50)
        ]
        assert max(moves) <= 0.3 + 1e-12
        assert max(moves) > 0.29


def test_private_gradient_descent_spends_the_stated_epsilon() -> None:
    # Records of zeros: all weights but those of the constant are noise, times rate / clip / records = 2.
    X, y = np.zeros((2, 2000)), np.array([0, 1])
    model = PrivateGradientDescent(1.0, 1e-5, n_steps=1, rate=2.0, clip=0.5, seed=0).fit(X, y, 2)
    noise = model.weights_[:-1] / 2.0
    assert math.isclose(noise.std(), 0.5 / mu_of(1.0, 1e-5), rel_tol=0.06)
    # Twice as many steps, each with sqrt(2) times the noise.
    model = PrivateGradientDescent(1.0, 1e-5, n_steps=2, rate=2.0, clip=0.5, momentum=0.0, seed=0).fit(
        X, y, 2
    )
    assert math.isclose(model.weights_[:-1].std() / 2.0, 2.0 * 0.5 / mu_of(1.0, 1e-5), rel_tol=0.06)
