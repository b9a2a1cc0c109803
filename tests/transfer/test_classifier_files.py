"""Transfer classifiers in files: exact, and refused where something does not fit."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from onefold import io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import PrivateMoments
from onefold.transfer import PrivateSource, TransferClassifier
from reference.clouds import cloud
from reference.damage import refusals
from reference.domains import blobs, hide
from reference.fitting import forbid_fitting
from reference.forging import forged, with_array
from tiers import thinned


def test_parameters_of_numpy_types_can_be_saved(source, rng) -> None:
    X, y = blobs(rng, 60)
    model = TransferClassifier(source, random_state=np.int64(3)).fit(X, hide(y, 3))
    loaded = TransferClassifier.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(loaded.distances(X), model.distances(X))


@pytest.mark.exact
def test_loaded_classifier_does_not_depend_on_the_number_of_threads() -> None:
    X, y = cloud(400, 150)
    source = PrivateSource.from_moments(PrivateMoments(5.0, random_state=0).fit(X, y))
    packed = TransferClassifier(source).fit(X, hide(y, 5)).to_bytes()
    found = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            loaded = TransferClassifier.from_bytes(packed)
            found.append((loaded.distances(X), loaded.source.description_.image(X, 1)))
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one, several)


def test_function_as_to_source_cannot_be_saved(source, rng) -> None:
    X, y = blobs(rng, 30)
    model = TransferClassifier(source, to_source=lambda rows: rows).fit(X, hide(y, 3))
    with pytest.raises(InvalidInputError, match="fixed"):
        model.to_bytes()


@pytest.fixture(scope="module")
def packed() -> bytes:
    X, y = blobs(np.random.default_rng(20), 330)
    moments = PrivateMoments(8.0, classes=[0, 1, 2], radius=3)
    source = PrivateSource.fit(X[:300], y[:300], moments, random_state=1)
    return TransferClassifier(source).fit(X[300:], hide(y[300:], 3)).to_bytes()


def test_damaged_transfer_classifiers_are_refused(source, rng, tmp_path) -> None:
    X, y = blobs(rng, 30)
    model = TransferClassifier(source).fit(X, hide(y, 3))
    path = tmp_path / "m"
    model.save(path)
    places = rng.integers(path.stat().st_size, size=40)
    found = refusals(path, places, lambda: TransferClassifier.load(path).distances(X))
    assert len(found) > 25
    assert not any("\n" in message for message in found)
    source.save(path)
    with pytest.raises(FileFormatError, match="holds a private source, not a transfer classifier"):
        TransferClassifier.load(path)
    with pytest.raises(InvalidInputError, match="no transfer classifier file at"):
        TransferClassifier.load(tmp_path / "absent")


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model["fitted"].update(n_features_in_=7),
        lambda model: model["fitted"].update(n_features_in_=10**9),
        lambda model: model["fitted"].update(classes_=["a", "b"]),
        lambda model: model["parameters"].update(strategy="documented"),
        lambda model: model["fitted"].update(source=None),
        lambda model: model["fitted"].update(sources=[model["fitted"]["source"]]),
        lambda model: model["fitted"]["_strategy"].update(own="?"),
        lambda model: model["fitted"]["_strategy"].update(own=1),
        lambda model: model["fitted"]["_strategy"].update(n_classes=2),
        lambda model: model["fitted"]["_strategy"].update(experts=[]),
        *(
            lambda model, change=change: model["fitted"]["_strategy"]["experts"][0].update(change)
            for change in (
                {"name": "source"},
                {"kind": "other"},
                {"scale": 0.0},
                {"weight": -1.0},
                {"way": 3},
                {"model": None},
            )
        ),
    ],
)
def test_transfer_classifiers_whose_parts_do_not_fit_are_refused(change, packed) -> None:
    def change_model(header, arrays) -> None:
        change(header["fields"]["model"])

    with pytest.raises(FileFormatError) as caught:
        TransferClassifier.from_bytes(forged(packed, change_model))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("/mixture/means", lambda means: means[:-1]),
        ("/mixture/whitening", lambda whitening: whitening[:, :-1]),
        ("/axes", lambda axes: axes[:-1]),
        ("/present", lambda present: present[::-1]),
        ("/present", lambda present: present + 1),
        ("/present", lambda present: present.astype(float)),
        ("/offset", lambda offset: offset * np.nan),
    ],
)
def test_experts_whose_arrays_do_not_fit_are_refused(name, change, packed) -> None:
    with pytest.raises(FileFormatError) as caught:
        TransferClassifier.from_bytes(with_array(packed, name, change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "compact"), [("noise", True), ("moments", False), ("noise", False)])
def test_io_saves_and_loads_a_transfer_classifier(compact, source, rng, tmp_path) -> None:
    X, y = blobs(rng, 30)
    model = TransferClassifier(source).fit(X, hide(y, 3))
    model.save(tmp_path / "m", compact=compact)
    loaded = io.load(tmp_path / "m")
    assert isinstance(loaded, TransferClassifier)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    io.save(loaded, tmp_path / "again")


@pytest.mark.parametrize(("kind", "strategy"), thinned(["noise", "moments"], ["documented", "default"]))
def test_loading_a_transfer_classifier_fits_nothing(strategy, source, rng, monkeypatch) -> None:
    X, y = blobs(rng, 60)
    model = TransferClassifier(source, strategy, components=(2,)).fit(X, hide(y, 3))
    content, own = model.to_bytes(), source.to_bytes()
    forbid_fitting(monkeypatch)
    np.testing.assert_array_equal(TransferClassifier.from_bytes(content).distances(X), model.distances(X))
    np.testing.assert_array_equal(PrivateSource.from_bytes(own).predict(X), source.predict(X))
