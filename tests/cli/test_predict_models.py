"""Model files on the command line: a missing file, or one without a classifier, is refused in one line."""

from pathlib import Path

import numpy as np
import pytest

from onefold import KAHM, AutoencoderClassifier, io
from onefold.cli.models import load_model, read_rows
from onefold.exceptions import InvalidInputError


def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(20, 3))


def test_load_model_returns_the_model_and_its_feature_names(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rows(), columns=["a", "b", "c"])
    io.save(AutoencoderClassifier().fit(table, np.arange(20) % 2), tmp_path / "model.npz")
    model, names = load_model(str(tmp_path / "model.npz"), classes=True)
    assert names == ["a", "b", "c"]
    assert model.predict(rows()).shape == (20,)  # plain arrays go in without a warning about names


def test_load_model_refuses_what_does_not_classify(tmp_path: Path) -> None:
    io.save(KAHM().fit(rows()), tmp_path / "hull.npz")
    for name, words in (("hull.npz", "holds a KAHM, which does not classify"), ("no.npz", "no such file")):
        with pytest.raises(InvalidInputError, match=words) as caught:
            load_model(str(tmp_path / name), classes=True)
        assert "\n" not in str(caught.value)


def test_rows_of_another_number_of_features_are_refused(tmp_path: Path) -> None:
    model = AutoencoderClassifier().fit(rows(), np.arange(20) % 2)
    for width in (2, 3):
        lines = [",".join(f"x{k}" for k in range(width)), *(",".join(["1"] * width) for _ in range(4))]
        (tmp_path / f"{width}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read_rows(str(tmp_path / "3.csv"), model, None).X.shape == (4, 3)
    with pytest.raises(InvalidInputError, match=r"2 feature\(s\), the model was fitted with 3"):
        read_rows(str(tmp_path / "2.csv"), model, None)
