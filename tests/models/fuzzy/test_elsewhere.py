"""Fuzzy autoencoders where other parts of the package take an autoencoder."""

import numpy as np
import pytest

from onefold import AutoencoderClassifier, DeepFuzzyAutoencoder, DeepFuzzyModel, WideFuzzyAutoencoder, io
from onefold.exceptions import DataScaleWarning, FileFormatError, InvalidInputError
from onefold.fabrication import PrivateClassifier
from onefold.federated import LocalModel
from onefold.privacy import OptimalNoise
from onefold.privacy.guarantee import SEEDED
from reference.forging import forged, with_array


@pytest.fixture
def labelled(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y = np.repeat([0, 1, 2], 40)
    return rng.normal(size=(120, 8)) / 4 + np.eye(8)[y], y


def prototype(measure: str = "euclidean") -> AutoencoderClassifier:
    return AutoencoderClassifier(WideFuzzyAutoencoder(3, 2, branch_size=20, random_state=0), measure)


@pytest.mark.parametrize("fabricate", [True, False])
def test_private_classifier_takes_fuzzy_autoencoders(labelled, fabricate: bool) -> None:
    X, y = labelled
    model = PrivateClassifier(
        prototype("fuzzy"),
        OptimalNoise(20.0, delta=1e-5, sensitivity=1.0),
        fabricate=fabricate,
        random_state=0,
    ).fit(X, y)
    assert model.score(X, y) > 0.6
    assert model.guarantee_.entry == (20.0, 1e-5)
    assert model.guarantee_.voided_by == (SEEDED,)


@pytest.mark.exact
@pytest.mark.parametrize("measure", ["euclidean", "fuzzy"])
def test_local_model_of_fuzzy_autoencoders_is_saved_and_forgets(labelled, tmp_path, measure: str) -> None:
    X, y = labelled
    model = LocalModel(prototype(measure)).fit(X, y)
    answers = model.answers(X[:10], classes=[0, 1, 2, 9])
    assert answers.shape == (10, 4)
    assert (answers[:, 3] == (1.0 if measure == "fuzzy" else np.inf)).all()
    assert (answers.argmin(axis=1) == y[:10]).mean() > 0.8
    model.save(tmp_path / "owner")
    np.testing.assert_array_equal(LocalModel.load(tmp_path / "owner").answers(X[:10]), answers[:, :3])
    batches = model.batches_
    forgotten = model.forget([0])
    assert (forgotten.n_refitted, forgotten.n_kept) == (1, 5)
    fresh = LocalModel(prototype(measure)).fit(X[1:], y[1:], batches=batches[1:])
    np.testing.assert_array_equal(model.answers(X[:10]), fresh.answers(X[:10]))


def test_fuzzy_measure_decides_like_the_distance(labelled) -> None:
    X, y = labelled
    by_distance, by_membership = (prototype(measure).fit(X, y) for measure in ("euclidean", "fuzzy"))
    np.testing.assert_array_equal(by_distance.predict(X), by_membership.predict(X))
    expected = -np.expm1(-(by_distance.distances(X) ** 2) / (2 * X.shape[1]))
    np.testing.assert_allclose(by_membership.distances(X), expected, rtol=1e-12)
    for machine, column in zip(by_membership.machines_, by_membership.distances(X).T, strict=True):
        np.testing.assert_allclose(machine.membership(X), 1.0 - column, atol=1e-12)


def test_forged_rules_are_refused(rng: np.random.Generator) -> None:
    model = DeepFuzzyAutoencoder(3, 2).fit(rng.normal(size=(20, 4)))
    content = io.to_bytes(model)
    forgeries = {
        "sets/centres": (lambda a: a[:, :2], lambda a: a[:0]),
        "consequents": (lambda a: a[:, :2], lambda a: a[:0], np.ravel),
        "widths": (lambda a: -a, lambda a: a[:-1]),
        "/mean": (lambda a: a[None], lambda a: a[:-1]),
        "encoder": (lambda a: a[:, :-1],),
    }
    for name, changes in forgeries.items():
        for change in changes:
            with pytest.raises(FileFormatError, match=r"rules|sets|width|arrays|layer|fit"):
                io.from_bytes(with_array(content, name, change))

    def with_layers(change):
        def changed(header, arrays):
            layers = header["fields"]["model"]["fitted"]["pool_"]["stacks"][0]["layers"]
            change(layers)

        return forged(content, changed)

    for change in (lambda layers: layers[0].update(radius=-1.0), lambda layers: layers.clear()):
        with pytest.raises(FileFormatError):
            io.from_bytes(with_layers(change))
    damaged = io.to_bytes(model).replace(b"consequents", b"consequentz")
    with pytest.raises(FileFormatError):
        io.from_bytes(damaged)


def test_file_holds_rules_and_no_samples(rng: np.random.Generator) -> None:
    Y = rng.normal(size=(200, 50))
    model = DeepFuzzyAutoencoder(3, 1, rule_ratio=0.05).fit(Y)
    assert len(io.to_bytes(model)) < Y.nbytes / 4


@pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")
@pytest.mark.parametrize("shape", [(60, 8), (30, 60)])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_samples_far_from_zero_are_modelled_as_well(shape, offset: float, rng: np.random.Generator) -> None:
    """V is not centred, so its first direction is that of the mean; the others must not drown."""
    Y = rng.random((shape[0], 3)) @ rng.normal(size=(3, shape[1]))
    model = DeepFuzzyAutoencoder(5, scale=1.0).fit(Y + offset)
    assert 3 <= model.n_components_ <= 5
    left = np.linalg.norm(model.transform(Y + offset) - Y - offset) / np.linalg.norm(Y - Y.mean(axis=0))
    assert left < 0.1


def test_warning_names_the_scale_where_it_decides(rng: np.random.Generator) -> None:
    Y = rng.random((50, 4))
    with pytest.warns(DataScaleWarning, match="collapse"):
        DeepFuzzyAutoencoder(3).fit(255.0 * Y)
    plain = DeepFuzzyAutoencoder(3, scale="auto").fit(Y).transform(Y)
    np.testing.assert_allclose(
        DeepFuzzyAutoencoder(3, scale="auto").fit(255.0 * Y).transform(255.0 * Y), 255.0 * plain
    )


@pytest.mark.parametrize("size", [1e-300, 1e-100, 1e100, 1e300])
def test_regression_does_not_depend_on_units(size: float, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    usual = DeepFuzzyModel().fit(x, y).predict(x)
    np.testing.assert_allclose(DeepFuzzyModel().fit(x * size, y).predict(x * size), usual, atol=1e-6)
    np.testing.assert_allclose(DeepFuzzyModel().fit(x, y * size).predict(x) / size, usual, atol=1e-6)
    assert np.isfinite(DeepFuzzyModel(scale=None).fit(x, y * size).predict(x)).all()


def test_regression_predicts_held_out_rows(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 4))
    y = np.column_stack([x[:, 0] + x[:, 1] + 5.0, np.sin(x[:, 2]) - x[:, 3]])
    model = DeepFuzzyModel().fit(x[:200], y[:200])
    assert model.score(x[200:], y[200:]) > 0.9
    assert DeepFuzzyModel().fit(x, y[:, 0]).predict(x[:3]).shape == (3,)
    far = model.predict([[1e6] * 4, [-1e200] * 4])
    largest = np.linalg.norm(model.predict(x[:200]) - y[:200].mean(axis=0), axis=1).max()
    assert (np.linalg.norm(far - y[:200].mean(axis=0), axis=1) <= largest * (1 + 1e-9)).all()
    t = rng.random((300, 1))
    wave = np.sin(20.0 * t[:, 0])
    found = DeepFuzzyModel().fit(t[:200], wave[:200])
    assert found.score(t[200:], wave[200:]) > 0.99
    assert found.width_ < model.width_
    assert DeepFuzzyModel(width=1.0).fit(t[:200], wave[:200]).score(t[200:], wave[200:]) < 0.5


@pytest.mark.parametrize("value", [-3.0, 0.0, 1e12])
@pytest.mark.parametrize("n_samples", [1, 2, 7])
def test_constant_outputs_and_single_samples_are_reproduced(
    value: float, n_samples: int, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(n_samples, 2))
    for scale in (None, "auto"):
        model = DeepFuzzyModel(scale=scale).fit(x, np.full((n_samples, 3), value))
        np.testing.assert_allclose(model.predict(np.vstack([x, 100.0 * x])), value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"rule_ratio": 0.0}, "rule_ratio"),
        ({"rule_ratio": float("nan")}, "rule_ratio"),
        ({"rule_ratio": "half"}, "rule_ratio"),
        ({"max_rules": 0}, "max_rules"),
        ({"n_layers": 0}, "n_layers"),
        ({"width": 0.0}, "width"),
        ({"width": float("nan")}, "width"),
        ({"width": float("inf")}, "width"),
        ({"width": True}, "width"),
        ({"scale": -1.0}, "scale"),
    ],
)
@pytest.mark.parametrize("kind", [DeepFuzzyModel, DeepFuzzyAutoencoder, WideFuzzyAutoencoder])
def test_invalid_parameters_are_refused(kind, parameters, name) -> None:
    X = np.zeros((3, 2))
    with pytest.raises(InvalidInputError, match=name):
        kind(**parameters).fit(X, X)
