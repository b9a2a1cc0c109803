"""Saving and loading: exact, small, atomic, and deaf to damaged files."""

import json
import os
import threading
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onefold import KAHM, AutoencoderClassifier, DeepKAHM, FoldingClassifier, WideKAHM, io
from onefold.exceptions import FileFormatError, InvalidInputError
from reference.damage import refusals

X, y = load_digits(return_X_y=True)
X = X / 16.0
MODELS = {
    "kahm": KAHM(10),
    "deep": DeepKAHM(10, 3, scale="auto"),
    "wide": WideKAHM(10, 2, branch_size=200, random_state=0),
    "wide small branches": WideKAHM(10, 2, branch_size=30, partition="contiguous", n_probe=4),
    "classifier": AutoencoderClassifier(WideKAHM(10, 3, branch_size=60, random_state=3), measure="max"),
    "default classifier": AutoencoderClassifier(),
    "folding": FoldingClassifier(batch_size=20, scale=2.0),
}


@pytest.fixture(params=sorted(MODELS))
def fitted(request):
    return MODELS[request.param].fit(X[:900], y[:900])


def answers(model):
    if hasattr(model, "classes_"):
        return model.distances(X[900:])
    return np.column_stack([model.distance(X[900:]), model.transform(X[900:])])


def test_a_loaded_model_answers_bit_for_bit(fitted, tmp_path):
    path = tmp_path / "model.onefold"
    io.save(fitted, path)
    loaded = io.load(path)
    assert type(loaded) is type(fitted)
    assert repr(loaded) == repr(fitted)
    np.testing.assert_array_equal(answers(loaded), answers(fitted))


def test_float32_stays_float32(tmp_path):
    model = AutoencoderClassifier().fit(X[:900].astype(np.float32), y[:900])
    io.save(model, tmp_path / "m")
    loaded = io.load(tmp_path / "m")
    assert answers(loaded).dtype == np.float32
    np.testing.assert_array_equal(answers(loaded), answers(model))


@pytest.mark.parametrize("name", ["wide", "default classifier", "folding"])
def test_the_file_is_hardly_larger_than_the_data(name, tmp_path):
    model = MODELS[name].fit(X, y)
    io.save(model, tmp_path / "m")
    assert os.path.getsize(tmp_path / "m") <= 1.3 * X.nbytes


def test_high_dimensional_small_batches_stay_small(tmp_path):
    rows = np.random.default_rng(0).normal(size=(400, 300))
    model = FoldingClassifier(batch_size=20).fit(rows, np.arange(400) % 4)
    io.save(model, tmp_path / "m")
    assert os.path.getsize(tmp_path / "m") <= 1.3 * rows.nbytes


def test_labels_and_feature_names_survive(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:300], columns=[f"pixel {i}" for i in range(64)])
    labels = np.array(["eins", "zwei", "drei", "vier"], dtype=object)[y[:300] % 4]
    model = AutoencoderClassifier().fit(frame, labels)
    io.save(model, tmp_path / "m")
    loaded = io.load(tmp_path / "m")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    assert list(loaded.predict(frame)) == list(model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"pixel 0": "other"}))


def test_equal_models_give_equal_files(tmp_path):
    for name in "ab":
        io.save(KAHM(5).fit(X[:200]), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    io.save(AutoencoderClassifier(DeepKAHM(5, 2)).fit(X[:300], y[:300]), path)
    return path


def refused(path):
    with pytest.raises(FileFormatError) as caught:
        io.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_every_truncation_is_refused(saved):
    whole = saved.read_bytes()
    for length in [0, 1, 10, 100, len(whole) // 3, len(whole) // 2, len(whole) - 100, len(whole) - 1]:
        saved.write_bytes(whole[:length])
        refused(saved)


def test_every_flipped_byte_is_noticed(saved):
    """A damaged byte is refused, or sits where it changes nothing in the model (a date, a padding)."""
    places = np.random.default_rng(0).integers(saved.stat().st_size, size=200)
    found = refusals(saved, places, lambda: io.load(saved).distances(X[300:320]))
    assert len(found) > 180
    assert not any("\n" in message for message in found)


def rewrite(path, change):
    """The archive with its manifest changed, and the manifest's checksum made right again."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(parts["manifest.json"])
    change(manifest, parts)
    parts["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        archive.comment = hashlib.sha256(parts["manifest.json"]).hexdigest().encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest, parts: manifest.update(format=99),
        lambda manifest, parts: manifest.pop("pool"),
        lambda manifest, parts: manifest["model"].update({"class": "os.system"}),
        lambda manifest, parts: manifest["model"]["parameters"].update(surprise=1),
        lambda manifest, parts: parts.pop("classes.npy"),
        lambda manifest, parts: parts.update({"stack0/mean.npy": b"not an array"}),
        lambda manifest, parts: manifest["sums"].update({"stack0/mean.npy": "0" * 64}),
        lambda manifest, parts: manifest.update(n_stacks=1000),
    ],
)
def test_changed_contents_are_refused(saved, change):
    rewrite(saved, change)
    refused(saved)


def test_pickled_arrays_are_not_opened(saved):
    """An object array inside the archive, with right checksums, must not reach the unpickler."""
    import hashlib
    import io as bytes_io

    content = bytes_io.BytesIO()
    np.lib.format.write_array(content, np.array([threading.Thread], dtype=object), allow_pickle=True)

    def plant(manifest, parts):
        parts["classes.npy"] = content.getvalue()
        manifest["sums"]["classes.npy"] = hashlib.sha256(content.getvalue()).hexdigest()

    rewrite(saved, plant)
    refused(saved)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x80\x04\x95\x00"])
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    refused(path)


def test_an_npz_is_not_a_model(tmp_path):
    np.savez(tmp_path / "data.npz", X=X)
    refused(tmp_path / "data.npz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="no model file at"):
        io.load(tmp_path / "absent")


def test_only_fitted_models_of_ours_are_saved(tmp_path):
    from sklearn.svm import SVC

    with pytest.raises(InvalidInputError, match="fitted"):
        io.save(KAHM(), tmp_path / "m")
    with pytest.raises(InvalidInputError, match="SVC"):
        io.save(SVC(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        io.save(KAHM(3).fit(X[:50]), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
