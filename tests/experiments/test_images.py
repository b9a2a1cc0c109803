"""The experiment on image encoders runs at small size, and says where its data come from."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from experiments.privacy import fashion, images


@pytest.mark.nightly
def test_experiment_on_images_runs_on_small_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = load_digits()
    large = np.pad(np.kron(digits.images, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2))).astype(np.uint8) * 15
    labels = digits.target.astype(np.uint8)
    parts = {"X_train": large[:1400], "y_train": labels[:1400], "X_test": large[1400:]}
    np.savez(tmp_path / "fashion_mnist.npz", y_test=labels[1400:], **parts)
    every = images.methods
    monkeypatch.setattr(images, "methods", lambda margin: every(margin)[::3])  # the fastest and the longest
    arguments = ["--quick", "--json", "--seeds", "1", "--epsilons", "50", "--datasets", "fashion_mnist"]
    assert images.main([*arguments, "--data-dir", str(tmp_path)]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert len(values) == 2
    assert min(values.values()) > 0.8


def test_missing_fashion_says_how_to_get_it_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert images.main(["--datasets", "fashion_mnist", "--data-dir", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "python -m experiments.privacy.fashion FOLDER" in message


def test_files_of_the_package_become_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures, labels = rng.integers(0, 256, (5, 28, 28), np.uint8), rng.integers(0, 10, 5, np.uint8)
    for part in ("train", "t10k"):
        for kind, values in (("images-idx3", pictures), ("labels-idx1", labels)):
            sizes = np.array(values.shape, ">u4").tobytes()
            header = bytes([0, 0, 8, values.ndim])
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(
                gzip.compress(header + sizes + values.tobytes())
            )
    found = fashion.arrays(tmp_path)
    np.testing.assert_array_equal(found["X_test"], pictures)
    np.testing.assert_array_equal(found["y_train"], labels)
