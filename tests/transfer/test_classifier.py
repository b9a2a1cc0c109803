"""What every strategy promises: labels, missing classes, clear errors, files."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import WideKAHM
from onefold.encoders import RandomFeatures
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource, TransferClassifier
from reference.damage import refusals
from reference.domains import blobs, hide

SMALL = {"estimator": WideKAHM(3, 1, scale="auto", random_state=0), "components": (2, 3), "max_inducing": 20}
STRATEGIES = {
    "default": {},
    "default with autoencoders": {**SMALL},
    "documented": {"strategy": "documented", **SMALL},
    "nonparametric": {"strategy": "nonparametric", **SMALL},
}


@parametrize_with_checks(
    [
        TransferClassifier(),
        TransferClassifier(None, "documented", components=(2,)),
        TransferClassifier(estimator=WideKAHM(3, 1, scale="auto"), components=(2,)),
    ],
    expected_failed_checks=lambda estimator: {
        "check_classifiers_classes": "-1 is no class here: it means that there is no label",
    },
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


@pytest.fixture(params=["noise", "moments"])
def source(request, rng):
    X, y = blobs(rng, 600)
    mechanism = (
        OptimalNoise(8.0) if request.param == "noise" else PrivateMoments(8.0, classes=[0, 1, 2], radius=3)
    )
    return PrivateSource.fit(X, y, mechanism, random_state=1)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_with_every_source(name, source, rng, tmp_path) -> None:
    X, y = blobs(rng, 90)
    seen = hide(y, 6)
    model = TransferClassifier(source, **STRATEGIES[name]).fit(X, seen)
    queries, truth = blobs(rng, 300)
    assert np.mean(model.predict(queries) == truth) > 0.75
    assert model.transduction_.shape == y.shape
    np.testing.assert_array_equal(model.transduction_[seen >= 0], y[seen >= 0])
    assert set(model.deciders_) <= {"target", "mapping", "source"}
    assert model.guarantee_ is source.guarantee_
    assert model.distances(queries).shape == (300, 3)
    model.save(tmp_path / "m")
    loaded = TransferClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.distances(queries), model.distances(queries))
    np.testing.assert_array_equal(loaded.deciders(queries), model.deciders(queries))
    assert loaded.guarantee_ == source.guarantee_
    assert (loaded.source_gain_, loaded.weights_) == (model.source_gain_, model.weights_)
    assert loaded.decisions_changed_ == model.decisions_changed_


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_missing_class(name, source, rng) -> None:
    X, y = blobs(rng, 90)
    seen = np.where(hide(y, 6) == 2, -1, hide(y, 6))
    options = STRATEGIES[name]
    with pytest.raises(InvalidInputError, match=r"no row is labelled as 2.*allow_missing"):
        TransferClassifier(source, **options).fit(X, seen)
    model = TransferClassifier(source, allow_missing=True, **options).fit(X, seen)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert np.isfinite(model.distances(X)[:, :2]).all()


def test_a_missing_class_is_found_with_the_source(rng) -> None:
    X, y = blobs(rng, 3000)
    source = PrivateSource.fit(X, y, PrivateMoments(8.0, classes=[0, 1, 2], radius=3), random_state=1)
    X, y = blobs(rng, 300)
    seen = np.where(hide(y, 6) == 2, -1, hide(y, 6))
    model = TransferClassifier(source, allow_missing=True).fit(X, seen)
    assert np.mean(model.transduction_[y == 2] == 2) > 0.8
    assert not (model.predict_target_alone(X) == 2).any()


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_other_dimensions(name, source, rng, tmp_path) -> None:
    X, y = blobs(rng, 90, p=9)
    model = TransferClassifier(source, **STRATEGIES[name]).fit(X, hide(y, 6))
    assert model.n_features_in_ == 9
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(TransferClassifier.load(tmp_path / "m").distances(X), model.distances(X))


@pytest.mark.parametrize("name", ["default", "documented"])
def test_an_encoder_takes_the_target_to_an_encoded_source(name, rng, tmp_path) -> None:
    X, y = blobs(rng, 600)
    encoder = RandomFeatures(16, "projection")
    source = PrivateSource.fit(X, y, OptimalNoise(40.0, sensitivity=2.0), encoder=encoder, random_state=1)
    X, y = blobs(rng, 90, p=9)
    for to_source in (RandomFeatures(16), RandomFeatures(6)):  # encoded rows, or rows like the source's
        model = TransferClassifier(source, to_source=to_source, **STRATEGIES[name]).fit(X, hide(y, 6))
        model.save(tmp_path / "m")
        loaded = TransferClassifier.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert loaded.to_source.get_params() == to_source.get_params()


def test_text_labels(rng, tmp_path) -> None:
    names = np.array(["ant", "bee", "cat"])
    X, y = blobs(rng, 300)
    source = PrivateSource.fit(X, names[y], OptimalNoise(8.0), random_state=0)
    X, y = blobs(rng, 90)
    for labels in (
        np.where(hide(y, 6) < 0, "-1", names[y]),
        np.where(hide(y, 6) < 0, -1, names[y].astype(object)),
    ):
        model = TransferClassifier(source).fit(X, labels)
        assert set(model.predict(X)) <= set(names)
        assert np.mean(model.transduction_ == names[y]) > 0.75
        model.save(tmp_path / "m")
        np.testing.assert_array_equal(TransferClassifier.load(tmp_path / "m").predict(X), model.predict(X))


def test_every_row_labelled_and_one_label_per_class(source, rng) -> None:
    X, y = blobs(rng, 60)
    for options in STRATEGIES.values():
        for labels in (y, hide(y, 1)):
            assert np.mean(TransferClassifier(source, **options).fit(X, labels).transduction_ == y) > 0.5


def test_duplicates_and_constant_columns(source) -> None:
    X = np.repeat(np.eye(3, 6), 8, axis=0)
    y = np.repeat([0, 1, 2], 8)
    for options in STRATEGIES.values():
        model = TransferClassifier(source, **options).fit(X, hide(y, 2))
        assert np.isfinite(model.distances(X)).all()
    assert (TransferClassifier(source).fit(X, hide(y, 2)).predict(X) == y).all()


def test_single_precision_and_far_queries(source, rng) -> None:
    X, y = blobs(rng, 90)
    for options in STRATEGIES.values():
        model = TransferClassifier(source, **options).fit(X.astype(np.float32), hide(y, 6))
        far = model.distances(np.full((2, 6), 1e30, dtype=np.float32))
        assert not np.isnan(far).any()
        assert not np.isnan(model.distances(np.array([[1e308, -1e308] * 3]))).any()


@pytest.mark.parametrize("size", [1e-300, 1e-20, 1e20, 1e59])
def test_any_unit_without_a_source(size, rng) -> None:
    X, y = blobs(rng, 60)
    model = TransferClassifier().fit(X * size, hide(y, 3))
    assert np.isfinite(model.distances(X * size)).all()
    if size > 1e-100:
        assert np.mean(model.predict(X * size) == y) > 0.7


def test_numbers_too_large_are_one_line(rng) -> None:
    X, y = blobs(rng, 30)
    with pytest.raises(InvalidInputError, match="rescale"):
        TransferClassifier().fit(X * 1e100, y)


def test_copies_share_the_source(source, rng) -> None:
    X, y = blobs(rng, 60)
    model = TransferClassifier(source)
    assert clone(model).source is source
    assert clone(model).fit(X, hide(y, 5)).score(X, y) > 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "mnist"}, "PrivateSource"),
        ({"strategy": "best"}, "strategy must be one of"),
        ({"estimator": 3}, "autoencoder"),
        ({"components": ()}, "components"),
        ({"components": 5}, "components"),
        ({"random_state": "x"}, "random_state"),
        ({"components": (0,)}, "components"),
        ({"max_inducing": 0.5}, "max_inducing"),
        ({"to_source": 3}, "to_source must be"),
        ({"to_source": lambda rows: rows[:, :2]}, "6 features"),
        ({"to_source": lambda rows: rows[:2]}, "one row of numbers"),
        ({"to_source": lambda rows: rows * np.nan}, "NaN"),
    ],
)
def test_bad_parameters_are_one_line(options, message, source, rng) -> None:
    X, y = blobs(rng, 30)
    with pytest.raises(InvalidInputError, match=message) as caught:
        TransferClassifier(**{"source": source, **options}).fit(X, hide(y, 3))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (lambda y: np.full(len(y), -1), "no row has a label"),
        (lambda y: np.where(y == 2, 7, y), "does not know"),
        (lambda y: np.array(["a", "b", "c"])[y], "numbers and the source's are text"),
        (lambda y: np.where(y == 2, None, y), "None"),
        (lambda y: y[:-1], "inconsistent"),
    ],
)
def test_bad_labels_are_one_line(labels, message, source, rng) -> None:
    X, y = blobs(rng, 30)
    with pytest.raises(InvalidInputError, match=message) as caught:
        TransferClassifier(source).fit(X, labels(y))
    assert "\n" not in str(caught.value)


def test_labels_are_not_shortened_to_those_of_the_source(rng) -> None:
    X, y = blobs(rng, 60)
    source = PrivateSource.fit(X, np.array(["a", "b", "c"])[y], OptimalNoise(8.0))
    with pytest.raises(InvalidInputError, match="does not know"):
        TransferClassifier(source).fit(X, np.array(["a", "b", "cat"])[y])


def test_one_labelled_row_cannot_weigh_a_source(source, rng) -> None:
    X, y = blobs(rng, 30)
    with pytest.raises(InvalidInputError, match="one labelled row"):
        TransferClassifier(source, allow_missing=True).fit(X, np.where(np.arange(30) == 0, y, -1))


def test_numbers_of_numpy_as_parameters_can_be_saved(source, rng) -> None:
    X, y = blobs(rng, 60)
    model = TransferClassifier(source, random_state=np.int64(3)).fit(X, hide(y, 3))
    loaded = TransferClassifier.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(loaded.distances(X), model.distances(X))


def test_queries_must_fit(source, rng) -> None:
    X, y = blobs(rng, 30)
    model = TransferClassifier(source).fit(X, hide(y, 3))
    for queries in (X[:, :3], X * np.nan, X[0]):
        with pytest.raises(InvalidInputError) as caught:
            model.predict(queries)
        assert "\n" not in str(caught.value)


def test_a_function_as_map_cannot_be_saved(source, rng) -> None:
    X, y = blobs(rng, 30)
    model = TransferClassifier(source, to_source=lambda rows: rows).fit(X, hide(y, 3))
    with pytest.raises(InvalidInputError, match="fixed"):
        model.to_bytes()


def test_damaged_files_are_refused(source, rng, tmp_path) -> None:
    X, y = blobs(rng, 30)
    model = TransferClassifier(source).fit(X, hide(y, 3))
    path = tmp_path / "m"
    model.save(path)
    places = rng.integers(path.stat().st_size, size=40)
    found = refusals(path, places, lambda: TransferClassifier.load(path).distances(X))
    assert len(found) > 25
    assert not any("\n" in message for message in found)
    source.save(path)
    with pytest.raises(FileFormatError, match="does not hold a transfer classifier"):
        TransferClassifier.load(path)
    with pytest.raises(InvalidInputError, match="no transfer classifier at"):
        TransferClassifier.load(tmp_path / "absent")


@pytest.mark.parametrize(
    "change",
    [
        lambda about, parts: about.update(n_features=7),
        lambda about, parts: about.update(classes=[0, 1]),
        lambda about, parts: about["parameters"].update(strategy="documented"),
        lambda about, parts: (
            about["flags"].update(view=None, mapping=False, own_rows="?") or parts.pop("weights")
        ),
        lambda about, parts: parts.pop("source"),
        lambda about, parts: parts.update({"target/means": parts["target/offsets"]}),
    ],
)
def test_contents_that_do_not_fit_are_refused(change, source, rng) -> None:
    from onefold.transfer._archive import pack, unpack

    X, y = blobs(rng, 30)
    model = TransferClassifier(source).fit(X, hide(y, 3))
    about, parts = unpack("transfer classifier", 1, model.to_bytes())
    change(about, parts)
    with pytest.raises(FileFormatError) as caught:
        TransferClassifier.from_bytes(pack("transfer classifier", 1, about, parts))
    assert "\n" not in str(caught.value)
