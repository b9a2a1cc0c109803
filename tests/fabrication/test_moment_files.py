"""Files of a classifier on private moments: the same answers, the guarantee, and nothing of the rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold import io
from onefold.encoders import RandomFeatures
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.fabrication import MomentClassifier
from onefold.tables import Field, Schema
from reference.forging import forged


def rows(n_rows: int = 800) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, n_rows)
    return {"x": rng.random(n_rows) / 2 + kind / 2, "y": np.array(["no", "yes"], dtype=object)[kind]}


def declared() -> Schema:
    label = Field("y", "string", role="label", levels=("no", "yes"))
    return Schema([Field("x", low=0.0, high=1.0), label])


def test_loaded_classifier_answers_as_the_saved_one_and_keeps_its_guarantee(tmp_path: Path) -> None:
    model = MomentClassifier(1.0, 1e-6, schema=declared()).fit(rows())
    io.save(model, tmp_path / "m")
    loaded = io.load(tmp_path / "m")
    assert isinstance(loaded, MomentClassifier)
    np.testing.assert_array_equal(loaded.predict_proba(rows()), model.predict_proba(rows()))
    assert loaded.schema.digest == model.schema.digest
    assert loaded.guarantee_ == model.guarantee_


def test_classifier_of_plain_rows_has_a_file_too(tmp_path: Path) -> None:
    X = rows()["x"][:, None]
    model = MomentClassifier(1.0, classes=["no", "yes"]).fit(X, rows()["y"].astype(str))
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(MomentClassifier.load(tmp_path / "m").predict(X), model.predict(X))


@pytest.mark.parametrize("settings", [{}, {"lift": 8}, {"lift": None}, {"radius": 0.5}])
def test_classifier_of_exact_moments_and_a_schema_loads_as_it_was(tmp_path: Path, settings: Any) -> None:
    model = MomentClassifier(None, schema=declared(), **settings).fit(rows())
    model.save(tmp_path / "m")
    loaded = MomentClassifier.load(tmp_path / "m")
    assert loaded.row_map_ == model.row_map_
    np.testing.assert_array_equal(loaded.predict_proba(rows()), model.predict_proba(rows()))


def test_files_of_exact_moments_with_impossible_settings_are_refused(tmp_path: Path) -> None:
    X, y = rows()["x"][:, None], rows()["y"].astype(str)
    MomentClassifier(None, lift=8).fit(X, y).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    MomentClassifier.load(tmp_path / "m").predict(X)
    for changed in (
        {"rule_": "guess"},
        {"ridge_": -1.0},
        {"temperature_": "hot"},
        {"surprise": 1},
        {"row_map_": {"n_directions": 10**9}},
        {"row_map_": {"n_directions": -1}},
        {"row_map_": {"radius": "far"}},
        {"row_map_": {"radius": -1.0}},
        {"row_map_": {"preparation": {"location": [0.0], "scale": [0.0]}}},
    ):

        def change(header: Any, arrays: Any, changed: Any = changed) -> None:
            fitted = header["fields"]["model"]["fitted"]
            for name, value in changed.items():
                fitted[name] = fitted[name] | value if isinstance(value, dict) else value

        (tmp_path / "m").write_bytes(forged(content, change))
        with pytest.raises(FileFormatError) as caught:
            MomentClassifier.load(tmp_path / "m")
        assert "\n" not in str(caught.value)


def test_encoder_has_no_place_in_the_file_and_damage_is_refused(tmp_path: Path) -> None:
    X, y = rows()["x"][:, None], rows()["y"].astype(str)
    model = MomentClassifier(1.0, encoder=RandomFeatures(4), classes=["no", "yes"]).fit(X, y)
    with pytest.raises(InvalidInputError, match="encoder"):
        model.save(tmp_path / "m")
    MomentClassifier(1.0, classes=["no", "yes"]).fit(X, y).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError):
        io.load(tmp_path / "m")
