"""Saving and loading: exact, atomic, of a known size, and closed to damaged and forged files."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onefold import (
    KAHM,
    AutoencoderClassifier,
    DeepFuzzyAutoencoder,
    DeepFuzzyModel,
    DeepKAHM,
    DeepMembershipAutoencoder,
    FoldingClassifier,
    MembershipMapping,
    WideFuzzyAutoencoder,
    WideKAHM,
    WideMembershipAutoencoder,
    io,
)
from onefold._base.stored import CLASSES
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import Laplace, PrivateMoments
from reference.damage import refusals
from reference.fitting import forbid_fitting
from reference.forging import forged
from tiers import thinned

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
    "deep membership": DeepMembershipAutoencoder(5, 2),
    "wide membership": WideMembershipAutoencoder(5, 2, branch_size=300, random_state=0),
    "membership classifier": AutoencoderClassifier(WideMembershipAutoencoder(5, 1), measure="rms"),
    "deep fuzzy": DeepFuzzyAutoencoder(5, 2),
    "wide fuzzy": WideFuzzyAutoencoder(5, 2, branch_size=300, random_state=0),
}


def answers(model, queries=X[900:1000]):
    if hasattr(model, "classes_"):
        return model.distances(queries)
    return np.column_stack([model.distance(queries), model.transform(queries)])


# --- what is saved comes back -----------------------------------------------------------------------------


@pytest.mark.exact
@pytest.mark.parametrize(
    ("name", "dtype", "compact"), thinned(sorted(MODELS), [np.float64, np.float32], [False, True])
)
def test_loaded_model_answers_bit_for_bit(name, dtype, compact, tmp_path):
    model = MODELS[name].fit(X[:900].astype(dtype), y[:900])
    io.save(model, tmp_path / "model", compact=compact)
    loaded = io.load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    queries = X[900:1000].astype(dtype)
    assert answers(loaded, queries).dtype == dtype
    np.testing.assert_array_equal(answers(loaded, queries), answers(model, queries))
    np.testing.assert_array_equal(answers(loaded, queries[:1]), answers(model, queries[:1]))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_loading_fits_nothing(name, monkeypatch):
    model = MODELS[name].fit(X[:900], y[:900])
    content = io.to_bytes(model)
    forbid_fitting(monkeypatch)
    assert answers(io.from_bytes(content)).shape == answers(model).shape
    with pytest.raises(AssertionError, match="fitted"):
        MODELS[name].fit(X[:900], y[:900])


@pytest.mark.exact
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("n_samples", [2, 5, 60, 140])
@pytest.mark.parametrize(
    "model",
    [DeepKAHM(4, 3), DeepMembershipAutoencoder(4, 3), DeepFuzzyAutoencoder(4, 2), FoldingClassifier()],
)
def test_more_features_than_samples_are_loaded_bit_for_bit(model, n_samples, compact):
    rows = np.random.default_rng(0).normal(size=(n_samples, 150))
    fitted = model.fit(rows, np.arange(n_samples) % 2)
    loaded = io.from_bytes(io.to_bytes(fitted, compact=compact))
    queries = np.random.default_rng(1).normal(size=(7, 150))
    np.testing.assert_array_equal(answers(loaded, queries), answers(fitted, queries))


@pytest.mark.exact
@pytest.mark.parametrize("model", [MembershipMapping(max_inducing=50), DeepFuzzyModel(max_rules=30)])
@pytest.mark.parametrize("targets", [X[:300, 3], X[:300, :4]])
def test_loaded_regression_answers_bit_for_bit(model, targets, tmp_path):
    fitted = model.fit(X[:300], targets)
    io.save(fitted, tmp_path / "model")
    np.testing.assert_array_equal(io.load(tmp_path / "model").predict(X[300:]), fitted.predict(X[300:]))


@pytest.mark.exact
@pytest.mark.parametrize("name", ["deep", "classifier", "wide membership"])
def test_machines_of_a_loaded_model_answer_bit_for_bit(name):
    model = MODELS[name].fit(X[:600], y[:600])
    loaded = io.from_bytes(io.to_bytes(model))
    for part in ("machines_", "branches_"):
        for one, other in zip(getattr(loaded, part, []), getattr(model, part, []), strict=True):
            np.testing.assert_array_equal(one.distance(X[600:620]), other.distance(X[600:620]))
    assert getattr(loaded, "lambdas_", None) == getattr(model, "lambdas_", None)


def test_labels_and_feature_names_are_kept(tmp_path):
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


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    return FoldingClassifier(n_components=2).fit(rng.random((20, 3)), np.arange(20) % 2)


def test_extras_are_kept_apart_from_the_model(small, tmp_path: Path):
    path, plain = tmp_path / "model", tmp_path / "plain"
    extras = {"rows": np.arange(6.0).reshape(2, 3), "labels": np.array(["a", "b"])}
    io.save(small, path, extras)
    io.save(small, plain)
    found = io.load_extras(path)
    assert found.keys() == extras.keys()
    for name, array in extras.items():
        np.testing.assert_array_equal(found[name], array)
    queries = np.random.default_rng(1).random((5, 3))
    np.testing.assert_array_equal(io.load(path).distances(queries), io.load(plain).distances(queries))
    assert io.load_extras(plain) == {}


def test_file_with_damaged_extras_is_refused_as_a_whole(small, tmp_path: Path):
    path = tmp_path / "model"
    io.save(small, path, {"rows": np.full(3, 7.25)})
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(np.float64(7.25).tobytes())] ^= 1
    path.write_bytes(damaged)
    for read in (io.load, io.load_extras):
        with pytest.raises(FileFormatError, match="checksum"):
            read(path)


def test_guarantee_is_kept(small, tmp_path: Path):
    assert not hasattr(io.from_bytes(io.to_bytes(small)), "guarantee_")
    rng = np.random.default_rng(0)
    private = FoldingClassifier(n_components=2).fit(rng.random((20, 3)), np.arange(20) % 2)
    private.guarantee_ = Laplace(2.0, sensitivity=1.0).guarantee(3, 20).voided("a reason")
    io.save(private, tmp_path / "model")
    assert io.load(tmp_path / "model").guarantee_ == private.guarantee_


@pytest.mark.parametrize("compact", [False, True])
def test_bytes_are_those_of_the_file(small, compact, tmp_path: Path):
    io.save(small, tmp_path / "model", compact=compact)
    assert io.to_bytes(small, compact=compact) == (tmp_path / "model").read_bytes()


def test_moments_are_saved_and_loaded_by_the_same_two_functions(tmp_path: Path):
    moments = PrivateMoments(8.0, 1e-3, classes=[0, 1], random_state=0).fit(X[:100, :2], y[:100] % 2)
    io.save(moments, tmp_path / "moments")
    assert type(io.load(tmp_path / "moments")) is PrivateMoments
    np.testing.assert_array_equal(io.load(tmp_path / "moments").sums_, moments.sums_)


# --- how large files are ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wide", "default classifier", "folding"])
def test_compact_file_is_hardly_larger_than_the_data(name, tmp_path):
    io.save(MODELS[name].fit(X, y), tmp_path / "m", compact=True)
    assert os.path.getsize(tmp_path / "m") <= 1.3 * X.nbytes


def test_compact_file_of_high_dimensional_small_batches_is_hardly_larger_than_the_data(tmp_path):
    rows = np.random.default_rng(0).normal(size=(400, 300))
    model = FoldingClassifier(batch_size=20).fit(rows, np.arange(400) % 4)
    io.save(model, tmp_path / "m", compact=True)
    assert os.path.getsize(tmp_path / "m") <= 1.3 * rows.nbytes


# --- what is refused --------------------------------------------------------------------------------------


def refused(path):
    with pytest.raises(FileFormatError) as caught:
        io.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@cache
def content_of(compact: bool) -> bytes:
    return io.to_bytes(AutoencoderClassifier(DeepKAHM(5, 2)).fit(X[:300], y[:300]), compact=compact)


@pytest.fixture(params=[False, True], ids=["full", "compact"])
def saved(request, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(content_of(request.param))
    return path


def test_truncated_files_are_refused(saved):
    whole = saved.read_bytes()
    for length in [0, 1, 10, 100, len(whole) // 3, len(whole) // 2, len(whole) - 100, len(whole) - 1]:
        saved.write_bytes(whole[:length])
        refused(saved)


def test_flipped_byte_is_refused_or_changes_nothing(saved):
    """Bytes that change nothing are spaces of the header."""
    places = np.random.default_rng(0).integers(saved.stat().st_size, size=200)
    found = refusals(saved, places, lambda: io.load(saved).distances(X[300:320]))
    assert len(found) > 180
    assert not any("\n" in message for message in found)


def fields(*places, **values):
    """A forgery of values in the header, below the model."""

    def change(header, arrays):
        inner = header["fields"]["model"]
        for place in places:
            inner = inner[place]
        for name, value in values.items():
            if value is MISSING:
                del inner[name]
            else:
                inner[name] = value

    return change


def array(ending, value):
    """A forgery of one array."""

    def change(header, arrays):
        name = sorted(name for name in arrays if name.endswith(ending))[0]
        arrays[name] = np.asarray(value) if not callable(value) else value(arrays[name])

    return change


MISSING = object()
MACHINES = {"pool_", "samples_"}


def of_pool(**values):
    """A forgery of what is said about the machines, full or samples."""

    def change(header, arrays):
        fitted = header["fields"]["model"]["fitted"]
        fitted[(fitted.keys() & MACHINES).pop()].update(values)

    return change


def without_machines(header, arrays):
    fitted = header["fields"]["model"]["fitted"]
    del fitted[(fitted.keys() & MACHINES).pop()]


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: header.update(version=99),
        lambda header, arrays: header.update(kind="private source"),
        lambda header, arrays: header["fields"].pop("model"),
        lambda header, arrays: header["fields"].update(more=1),
        lambda header, arrays: arrays.update(more=np.zeros(3)),
        without_machines,
        fields("fitted", surprise=1),
        fields("fitted", n_features_in_=63),
        fields("fitted", n_features_in_="64"),
        fields("fitted", n_features_in_=MISSING),
        fields("fitted", classes_=MISSING),
        fields("fitted", classes_=["a"] * 10),
        fields("fitted", feature_names_in_=["a"]),
        of_pool(n_groups=9),
        of_pool(unit=0.0),
        of_pool(factor=-1.0),
        of_pool(stacks=[]),
        fields(**{"class": "os.system"}),
        fields(**{"class": "Guarantee"}),
        fields(**{"class": "KAHM"}),
        fields("parameters", surprise=1),
        fields("parameters", measure="other"),
        fields("parameters", estimator={"class": "os.system", "parameters": {}}),
        array("classes_", np.arange(9)),
        array("classes_", np.zeros(10, dtype=int)),
        array("/mean", np.zeros(3)),
        array("/mean", lambda mean: np.full_like(mean, np.nan)),
        array("/mean", lambda mean: mean.astype(np.int64)),
        array("/centred", lambda centred: centred[:, :, :-1]),
        array("/centred", lambda centred: centred[:, :0]),
        array("/owners/0", np.array([10])),
        array("/owners/0", np.array([1])),
        array("/owners/0", np.array([0.0])),
        array("/owners/0", np.array([], dtype=int)),
        array("lambdas", lambda lambdas: np.full_like(lambdas, -1.0)),
    ],
)
def test_forged_contents_with_right_checksums_are_refused(saved, change):
    content = saved.read_bytes()
    saved.write_bytes(forged(content, lambda header, arrays: None))
    assert io.load(saved) is not None  # the forger's tools work
    saved.write_bytes(forged(content, change))
    refused(saved)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x80\x04\x95\x00", bytes(1000)])
def test_foreign_files_and_bytes_are_refused(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    refused(path)
    with pytest.raises(FileFormatError) as caught:
        io.from_bytes(content)
    assert "\n" not in str(caught.value)


def test_npz_file_is_refused(tmp_path):
    np.savez(tmp_path / "data.npz", X=X)
    refused(tmp_path / "data.npz")


@pytest.mark.parametrize("read", [io.load, io.load_extras])
def test_missing_file_is_named(tmp_path, read):
    with pytest.raises(InvalidInputError, match="no model file at"):
        read(tmp_path / "absent")


def test_only_fitted_models_of_ours_are_saved(tmp_path):
    from sklearn.svm import SVC

    with pytest.raises(InvalidInputError, match="fitted"):
        io.save(KAHM(), tmp_path / "m")
    with pytest.raises(InvalidInputError, match="SVC"):
        io.save(SVC(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


class OtherKAHM(KAHM):
    """A family of another package."""


@pytest.mark.parametrize("model", [OtherKAHM(5), AutoencoderClassifier(OtherKAHM(5))])
def test_family_of_another_package_is_saved_once_it_is_registered(model, tmp_path):
    before = dict(CLASSES)
    model = model.fit(X[:200], y[:200])
    with pytest.raises(InvalidInputError, match="cannot save a OtherKAHM"):
        io.save(model, tmp_path / "m")
    io.register("OtherKAHM", OtherKAHM)
    io.save(model, tmp_path / "m")
    loaded = io.load(tmp_path / "m")
    assert type(getattr(loaded, "estimator", loaded)) is OtherKAHM
    assert np.array_equal(loaded.pool_.measures(X, "euclidean"), model.pool_.measures(X, "euclidean"))
    CLASSES.clear()
    CLASSES.update(before)
    with pytest.raises(FileFormatError, match="does not know"):
        io.load(tmp_path / "m")


def test_family_keeps_its_own_name():
    with pytest.raises(InvalidInputError, match="name of its class, OtherKAHM"):
        io.register("kahm", OtherKAHM)
    with pytest.raises(InvalidInputError, match="of its own"):
        io.register("KAHM", type("KAHM", (KAHM,), {}))


def test_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        io.save(KAHM(3).fit(X[:50]), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.parametrize("compact", [False, True])
def test_machine_larger_than_allowed_is_refused(small, compact):
    content = io.to_bytes(small, compact=compact)
    with pytest.raises(FileFormatError, match="more than 5 samples"):
        io.from_bytes(content, largest_machine=5)
    assert io.from_bytes(content, largest_machine=10) is not None
