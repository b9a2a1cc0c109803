"""The fuzzy experiments on tiny data: what they compare, and that finished pieces are not computed twice."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from experiments.fuzzy import private, robustness
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
