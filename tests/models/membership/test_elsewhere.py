"""Membership-mapping autoencoders where other parts of the package take an autoencoder."""

import numpy as np
import pytest

from onefold import AutoencoderClassifier, DeepMembershipAutoencoder, WideMembershipAutoencoder, io
from onefold.exceptions import FileFormatError
from onefold.fabrication import PrivateClassifier
from onefold.federated import LocalModel
from onefold.privacy import OptimalNoise
from reference.forging import forged, with_array


@pytest.fixture
def labelled(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y = np.repeat([0, 1, 2], 40)
    return rng.normal(size=(120, 8)) / 4 + np.eye(8)[y], y


def prototype() -> AutoencoderClassifier:
    return AutoencoderClassifier(WideMembershipAutoencoder(5, 2, branch_size=20, random_state=0))


def test_private_classifier_takes_membership_autoencoders(labelled) -> None:
    X, y = labelled
    model = PrivateClassifier(
        prototype(), OptimalNoise(20.0, delta=1e-5, sensitivity=1.0), random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.6


@pytest.mark.exact
def test_local_model_of_membership_autoencoders_is_saved_and_forgets(labelled, tmp_path) -> None:
    X, y = labelled
    model = LocalModel(prototype()).fit(X, y)
    answers = model.answers(X[:10])
    assert answers.shape == (10, 3)
    assert np.isfinite(answers).all()
    assert (answers.argmin(axis=1) == y[:10]).mean() > 0.8
    model.save(tmp_path / "owner")
    np.testing.assert_array_equal(LocalModel.load(tmp_path / "owner").answers(X[:10]), answers)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("measure", ["euclidean", "rms"])
def test_prediction_is_the_class_of_the_smallest_distance(measure: str, centred: bool, rng) -> None:
    """Also with more features than samples."""
    y = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 40)) + 2.0 * np.eye(40)[y]
    estimator = WideMembershipAutoencoder(5, 2, branch_size=10, centred=centred, random_state=0)
    model = AutoencoderClassifier(estimator, measure).fit(X, y)
    queries = rng.normal(size=(90, 40)) + 2.0 * np.eye(40)[np.repeat([0, 1, 2], 30)]
    np.testing.assert_array_equal(model.predict(queries), model.distances(queries).argmin(axis=1))


@pytest.mark.exact
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (2, 9), (30, 30), (30, 31), (30, 29), (130, 131)])
@pytest.mark.parametrize("value", [None, 0.0, 3.5, 1e200])
def test_unusual_samples_survive_saving_and_loading(
    shape, value, centred: bool, rng: np.random.Generator
) -> None:
    """One sample, equal ones, and as many features as samples, or one more or less."""
    Y = rng.normal(size=shape) if value is None else np.full(shape, value)
    model = DeepMembershipAutoencoder(3, 2, centred=centred).fit(Y)
    X = np.vstack([Y[:3], rng.normal(size=(3, shape[1]))])
    loaded = io.from_bytes(io.to_bytes(model))
    assert np.isfinite(model.transform(X)).all()
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(loaded.distance(X), model.distance(X))


@pytest.mark.parametrize("compact", [False, True])
def test_forged_layers_are_refused(rng: np.random.Generator, compact: bool) -> None:
    model = DeepMembershipAutoencoder(3, 2).fit(rng.normal(size=(20, 4)))
    content = io.to_bytes(model, compact=compact)
    for change in (lambda a: a[:0], lambda a: a[:, :-1], lambda a: np.tile(a, (30, 1)), np.ravel):
        with pytest.raises(FileFormatError, match=r"layers|inducing|weights|inputs"):
            io.from_bytes(with_array(content, "/inducing", change))

    def without_a_layer(header, arrays):
        name = "samples_" if compact else "pool_"
        stack = header["fields"]["model"]["fitted"][name]["stacks"][0]
        stack["inputs" if compact else "layers"] = []
        for array in [array for array in arrays if "/layers/" in array or "/inputs/" in array]:
            del arrays[array]

    with pytest.raises(FileFormatError, match=r"layer|fitted"):
        io.from_bytes(forged(content, without_a_layer))
    with pytest.raises(FileFormatError, match="samples"):
        io.from_bytes(io.to_bytes(model), largest_machine=10)
