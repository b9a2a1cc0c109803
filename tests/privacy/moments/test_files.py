"""Released moments as files: nothing executed, nothing believed that does not fit."""

import io
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from onefold.encoders import RandomFeatures
from onefold.exceptions import FileFormatError, InvalidInputError, PrivacyLeakWarning
from onefold.fabrication import MomentClassifier
from onefold.privacy.moments import PrivateMoments
from reference.clouds import cloud
from reference.moment_files import changed_moments, parts_of_moments


@pytest.mark.exact
def test_loaded_release_does_not_depend_on_the_number_of_threads() -> None:
    X, y = cloud(500, 150)
    packed = PrivateMoments(2.0, random_state=0).fit(X, y).to_bytes()
    found = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            moments = PrivateMoments.from_bytes(packed)
            classifier = MomentClassifier.from_moments(moments)
            found.append((moments.covariances_, classifier.decision_function(X)))
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one, several)


@pytest.mark.exact
@pytest.mark.parametrize(
    "labels", [np.array([3, 5, 7]), np.array(["a", "bc", "d"]), np.array(["a", "b", "c"], object)]
)
def test_loaded_release_equals_the_saved_one(tmp_path: Path, labels: np.ndarray) -> None:
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
    _, arrays = parts_of_moments(path.read_bytes())
    assert not any(array.shape[:1] == (len(X),) for array in arrays.values())  # no row of the data


def test_files_that_are_no_moments_are_refused_in_one_line(tmp_path: Path) -> None:
    X, y = cloud()
    model = PrivateMoments(None).fit(X, y)
    packed = model.to_bytes()
    plain = io.BytesIO()
    np.savez(plain, a=np.ones(3))
    contents = {
        "short": packed[:200],
        "text": b"hello",
        "plain arrays": plain.getvalue(),
        "another kind": changed_moments(packed, kind="model"),
        "shape": changed_moments(packed, sums=model.sums_[:, :2]),
        "nan": changed_moments(packed, sums=model.sums_ * np.nan),
        "one array less": changed_moments(packed, {"counts": None}),
        "an array of texts": changed_moments(packed, {"counts": ["a", "b", "c"]}),
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=f"^{path}: ") as caught:
            PrivateMoments.load(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="there is no private moments file"):
        PrivateMoments.load(tmp_path / "nowhere.npz")


@pytest.mark.parametrize(
    "forged",
    [
        *({name: {"epsilon": 0.5, "delta": 1e-5}} for name in ("entry", "replaced", "labels", "person")),
        {"replaced": {"epsilon": 9.0, "delta": 0.0}},
        {"mu": 0.01},
        {"mu": 0.0},
    ],
    ids=repr,
)
@pytest.mark.parametrize("person", [None, np.arange(300) // 2])
@pytest.mark.parametrize(("epsilon", "kind"), [(8.0, "class"), (8.0, "pooled"), (None, "pooled")])
def test_no_line_of_a_file_promises_more_than_its_noise(forged, person, epsilon, kind) -> None:
    X, y = cloud()
    agreed = PrivateMoments(epsilon, classes=range(3), centre=None, second_moments=kind)
    released = agreed.fit(X[:300], y[:300], person)
    packed = released.to_bytes()
    assert PrivateMoments.from_bytes(packed).guarantee_ == released.guarantee_
    with pytest.raises(FileFormatError, match=r"too small for the stated|does not fit|not one of moments"):
        PrivateMoments.from_bytes(changed_moments(packed, {"guarantee": forged}))


def test_a_file_cannot_promise_more_than_its_noise() -> None:
    packed = PrivateMoments(8.0, classes=range(3), centre=None, random_state=0).fit(*cloud()).to_bytes()
    assert PrivateMoments.from_bytes(changed_moments(packed)).guarantee_.record == (8.0, 1e-5)
    better = {"epsilon": 1.0, "delta": 1e-5}
    forged = changed_moments(packed, {"guarantee": {"record": better}})
    with pytest.raises(FileFormatError, match="noise is too small for the stated guarantee"):
        PrivateMoments.from_bytes(forged)
    for about in (
        {"epsilon": 1.0},
        {"guarantee": {"neighbours": "replace"}},
        {"random_state": None},
        {"guarantee": {"n_features": 4}},
        {"guarantee": {"unit": "entry"}},
        {"guarantee": {"labels_in_record": "yes"}},
        {"random_state": 0},
        {"radius": -1.0},
        {"sampler": "no"},
        {"guarantee": {"rows_per_person": 0}},
        {"guarantee": {"person": better}},
        {"second_moments": "pooled"},
        {"second_moments": "auto"},
        {"guarantee": None},
        {"guarantee": []},
        {"schema_fields": [["a", "b" * 201]]},
        {"schema_fields": [["a", "\n"]]},
        {"schema_fields": [["a"]]},
        {"encoding": 3},
    ):
        with pytest.raises(FileFormatError) as caught:
            PrivateMoments.from_bytes(changed_moments(packed, about))
        assert "\n" not in str(caught.value)


def test_arrays_that_cannot_be_a_release_are_refused() -> None:
    model = PrivateMoments(8.0, classes=range(3), centre=None, random_state=0).fit(*cloud())
    packed = model.to_bytes()
    for arrays in (
        {"classes": np.array([2, 1, 0])},
        {"classes": np.array([0, 0, 1])},
        {"classes": np.array([0.0, 1.0, np.nan])},
        {"triangles": model.second_moments_},
        {"triangles": np.zeros((1, 15))},
        {"second_noise": -model.second_noise_},
        {"sum_noise": np.zeros(3)},
        {"sums": model.sums_.astype(np.float32)},
        {"further": np.zeros(3)},
    ):
        with pytest.raises(FileFormatError):
            PrivateMoments.from_bytes(changed_moments(packed, **arrays))


def test_release_keeps_the_description_of_its_encoder(tmp_path: Path) -> None:
    X, y = cloud()
    encoder = RandomFeatures(6)
    model = MomentClassifier(1.0, encoder=encoder, classes=range(3)).fit(X, y)
    model.moments_.save(tmp_path / "moments.npz")
    found = PrivateMoments.load(tmp_path / "moments.npz")
    assert "RandomFeatures" in found.encoding_
    again = MomentClassifier.from_moments(found, encoder.fit(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(InvalidInputError, match="another encoder or schema"):
        MomentClassifier.from_moments(found, RandomFeatures(6, random_state=5).fit(X))


def test_a_release_behind_a_learned_encoder_stays_void(tmp_path: Path) -> None:
    X, y = cloud()
    with pytest.warns(PrivacyLeakWarning):
        model = MomentClassifier(1.0, encoder=PCA(2), classes=range(3)).fit(X, y)
    model.moments_.save(tmp_path / "moments.npz")
    assert not PrivateMoments.load(tmp_path / "moments.npz").guarantee_.holds
