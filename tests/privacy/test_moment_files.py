"""Released moments as files: nothing executed, nothing believed that does not fit."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from onefold.encoders import RandomFeatures
from onefold.exceptions import FileFormatError, InvalidInputError, PrivacyLeakWarning
from onefold.fabrication import MomentClassifier
from onefold.privacy.moments import PrivateMoments
from reference.clouds import cloud


@pytest.mark.parametrize(
    "labels", [np.array([3, 5, 7]), np.array(["a", "bc", "d"]), np.array(["a", "b", "c"], object)]
)
def test_saved_and_loaded(tmp_path: Path, labels: np.ndarray) -> None:
    X, y = cloud()
    model = PrivateMoments(2.0, classes=labels, random_state=0).fit(X, labels[y])
    path = tmp_path / "moments.npz"
    model.save(path)
    found = PrivateMoments.load(path)
    assert [file.name for file in tmp_path.iterdir()] == ["moments.npz"]
    np.testing.assert_array_equal(found.classes_, model.classes_)
    np.testing.assert_array_equal(found.covariances_, model.covariances_)
    np.testing.assert_array_equal(found.embed(X), model.embed(X))
    assert found.guarantee_ == model.guarantee_
    assert found.add(model).guarantee_.n_owners == 2
    assert not any(np.shape(array)[:1] == (len(X),) for array in np.load(path).values())  # no row of the data


def test_files_that_are_not_moments_are_one_line(tmp_path: Path) -> None:
    X, y = cloud()
    good = tmp_path / "moments.npz"
    PrivateMoments(None).fit(X, y).save(good)
    arrays = dict(np.load(good))
    (tmp_path / "short.npz").write_bytes(good.read_bytes()[:200])
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    np.savez(tmp_path / "shape.npz", **{**arrays, "sums": arrays["sums"][:, :2]})
    np.savez(tmp_path / "nan.npz", **{**arrays, "sums": arrays["sums"] * np.nan})
    np.savez(
        tmp_path / "newer.npz",
        **{**arrays, "about": np.array(str(arrays["about"]).replace('"format": 1', '"format": 2'))},
    )
    np.savez(tmp_path / "object.npz", **{**arrays, "about": np.array([{}], dtype=object)})
    for name in ("short", "text", "other", "shape", "nan", "newer", "object"):
        with pytest.raises(FileFormatError) as caught:
            PrivateMoments.load(tmp_path / f"{name}.npz")
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="there are no moments"):
        PrivateMoments.load(tmp_path / "nowhere.npz")


def altered(packed: bytes, about: dict | None = None, **arrays: np.ndarray) -> bytes:
    """A file that looks right from the outside, with some of its contents replaced."""
    contents = dict(np.load(io.BytesIO(packed)))
    told = json.loads(str(contents["about"]))
    for name, value in (about or {}).items():
        told[name] = {**told[name], **value} if isinstance(value, dict) else value
    buffer = io.BytesIO()
    np.savez(buffer, **{**contents, "about": np.array(json.dumps(told)), **arrays})
    return buffer.getvalue()


def test_a_file_cannot_promise_more_than_its_noise() -> None:
    packed = PrivateMoments(8.0, classes=range(3), centre=None, random_state=0).fit(*cloud()).to_bytes()
    assert PrivateMoments.from_bytes(altered(packed)).guarantee_.record == (8.0, 1e-5)
    better = {"epsilon": 1.0, "delta": 1e-5}
    forged = altered(packed, {"parameters": {"epsilon": 1.0}, "guarantee": {"record": better}})
    with pytest.raises(FileFormatError, match="noise is too small for the stated guarantee"):
        PrivateMoments.from_bytes(forged)
    for about in (
        {"parameters": {"epsilon": 1.0}},
        {"guarantee": {"record": better}},
        {"parameters": {"neighbours": "replace"}},
        {"parameters": {"epsilon": None}},
        {"guarantee": {"n_features": 4}},
        {"guarantee": {"unit": "entry"}},
        {"guarantee": {"labels_in_record": "yes"}},
        {"parameters": {"random_state": 0}},
        {"parameters": {"radius": -1.0}},
        {"parameters": []},
        {"guarantee": None},
        {"encoding": 3},
    ):
        with pytest.raises(FileFormatError) as caught:
            PrivateMoments.from_bytes(altered(packed, about))
        assert "\n" not in str(caught.value)


def test_arrays_that_cannot_be_a_release_are_refused() -> None:
    model = PrivateMoments(8.0, classes=range(3), centre=None, random_state=0).fit(*cloud())
    packed = model.to_bytes()
    lopsided = model.second_moments_.copy()
    lopsided[0, 0, 1] += 1.0
    for arrays in (
        {"classes": np.array([2, 1, 0])},
        {"classes": np.array([0, 0, 1])},
        {"classes": np.array([0.0, 1.0, np.nan])},
        {"second_moments": lopsided},
        {"second_noise": -model.second_noise_},
        {"sum_noise": np.zeros(3)},
        {"sums": model.sums_.astype(np.float32)},
        {"further": np.zeros(3)},
    ):
        with pytest.raises(FileFormatError):
            PrivateMoments.from_bytes(altered(packed, **arrays))


def test_a_small_file_that_unpacks_to_a_large_one_is_refused() -> None:
    packed = PrivateMoments(8.0, classes=range(3), centre=None).fit(*cloud()).to_bytes()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **dict(np.load(io.BytesIO(packed))))
    with pytest.raises(FileFormatError, match="damaged"):
        PrivateMoments.from_bytes(buffer.getvalue())


def test_the_encoder_is_remembered(tmp_path: Path) -> None:
    X, y = cloud()
    encoder = RandomFeatures(6)
    model = MomentClassifier(1.0, encoder=encoder, classes=range(3)).fit(X, y)
    model.moments_.save(tmp_path / "moments.npz")
    found = PrivateMoments.load(tmp_path / "moments.npz")
    assert "RandomFeatures" in found.encoding_
    again = MomentClassifier.from_moments(found, encoder.fit(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(InvalidInputError, match="another encoder"):
        MomentClassifier.from_moments(found, RandomFeatures(6, random_state=5).fit(X))


def test_a_release_behind_a_learned_encoder_stays_void(tmp_path: Path) -> None:
    X, y = cloud()
    with pytest.warns(PrivacyLeakWarning):
        model = MomentClassifier(1.0, encoder=PCA(2), classes=range(3)).fit(X, y)
    model.moments_.save(tmp_path / "moments.npz")
    assert not PrivateMoments.load(tmp_path / "moments.npz").guarantee_.holds
