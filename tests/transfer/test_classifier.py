"""What every strategy promises: labels, missing classes, clear errors, files."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import WideKAHM
from onefold.encoders import RandomFeatures
from onefold.exceptions import InvalidInputError
from onefold.privacy import OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource, TransferClassifier
from reference.domains import blobs, hide
from tiers import later, thinned

SMALL = {"estimator": WideKAHM(3, 1, scale="auto", random_state=0), "components": (2, 3), "max_inducing": 20}
STRATEGIES = {
    "default": {},
    "default with autoencoders": {**SMALL},
    "documented": {"strategy": "documented", **SMALL},
    "nonparametric": {"strategy": "nonparametric", **SMALL},
}
EACH = thinned(sorted(STRATEGIES), ["noise", "moments"])


def expected_failures(estimator) -> dict[str, str]:
    return {"check_classifiers_classes": "-1 is no class here: it means that there is no label"}


@parametrize_with_checks([TransferClassifier()], expected_failed_checks=expected_failures)
def test_transfer_classifier_passes_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(
    [
        TransferClassifier(None, "documented", components=(2,)),
        TransferClassifier(estimator=WideKAHM(3, 1, scale="auto"), components=(2,)),
    ],
    expected_failed_checks=expected_failures,
)
def test_variants_pass_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)


@pytest.mark.exact
@pytest.mark.parametrize(("name", "kind"), EACH)
def test_every_strategy_learns_saves_and_loads_with_every_source(name, source, rng, tmp_path) -> None:
    X, y = blobs(rng, 90)
    seen = hide(y, 6)
    model = TransferClassifier(source, **STRATEGIES[name]).fit(X, seen)
    queries, truth = blobs(rng, 300)
    assert np.mean(model.predict(queries) == truth) > 0.75
    assert model.transduction_.shape == y.shape
    np.testing.assert_array_equal(model.transduction_[seen >= 0], y[seen >= 0])
    assert set(model.deciders_) <= (
        set(model.weights_) if model.weights_ else {"target", "mapping", "source"}
    )
    assert model.guarantee_.record == source.guarantee_.record
    assert "rows of the target are in this model as they are" in str(model.guarantee_)
    assert model.distances(queries).shape == (300, 3)
    model.save(tmp_path / "m")
    loaded = TransferClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.distances(queries), model.distances(queries))
    np.testing.assert_array_equal(loaded.deciders(queries), model.deciders(queries))
    assert loaded.guarantee_ == model.guarantee_
    assert (loaded.source_gain_, loaded.weights_) == (model.source_gain_, model.weights_)
    assert loaded.decisions_changed_ == model.decisions_changed_


@pytest.mark.parametrize(("name", "kind"), EACH)
def test_missing_class_needs_allow_missing(name, source, rng) -> None:
    X, y = blobs(rng, 90)
    seen = np.where(hide(y, 6) == 2, -1, hide(y, 6))
    options = STRATEGIES[name]
    with pytest.raises(InvalidInputError, match=r"no row is labelled as 2.*allow_missing"):
        TransferClassifier(source, **options).fit(X, seen)
    model = TransferClassifier(source, allow_missing=True, **options).fit(X, seen)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert np.isfinite(model.distances(X)[:, :2]).all()


def test_missing_class_is_found_with_the_source(rng) -> None:
    X, y = blobs(rng, 3000)
    source = PrivateSource.fit(X, y, PrivateMoments(8.0, classes=[0, 1, 2], radius=3), random_state=1)
    X, y = blobs(rng, 300)
    seen = np.where(hide(y, 6) == 2, -1, hide(y, 6))
    model = TransferClassifier(source, allow_missing=True).fit(X, seen)
    assert np.mean(model.transduction_[y == 2] == 2) > 0.8
    assert not (model.predict_target_alone(X) == 2).any()


@pytest.mark.exact
@pytest.mark.parametrize(("name", "kind"), EACH)
def test_target_of_another_width_is_learned_and_saved(name, source, rng, tmp_path) -> None:
    X, y = blobs(rng, 90, p=9)
    turned = {"to_source": "procrustes"} if name.startswith("default") else {}
    model = TransferClassifier(source, **turned, **STRATEGIES[name]).fit(X, hide(y, 6))
    assert model.n_features_in_ == 9
    model.save(tmp_path / "m")
    assert TransferClassifier.load(tmp_path / "m").to_source == turned.get("to_source")
    np.testing.assert_array_equal(TransferClassifier.load(tmp_path / "m").distances(X), model.distances(X))


@pytest.mark.parametrize("name", ["default", "documented"])
def test_encoder_takes_the_target_to_an_encoded_source(name, rng, tmp_path) -> None:
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


def test_text_labels_are_learned_and_saved(rng, tmp_path) -> None:
    names = np.array(["ant", "bee", "cat"])
    X, y = blobs(rng, 300)
    source = PrivateSource.fit(X, names[y], OptimalNoise(8.0, sensitivity=1.0), random_state=0)
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


@pytest.mark.parametrize("kind", later(["noise", "moments"], ["moments"]))
def test_fit_works_with_all_rows_or_one_row_per_class_labelled(source, rng) -> None:
    X, y = blobs(rng, 60)
    for options in STRATEGIES.values():
        for labels in (y, hide(y, 1)):
            assert np.mean(TransferClassifier(source, **options).fit(X, labels).transduction_ == y) > 0.5


@pytest.mark.parametrize("kind", later(["noise", "moments"], ["moments"]))
def test_fit_works_with_duplicates_and_constant_columns(source) -> None:
    X = np.repeat(np.eye(3, 6), 8, axis=0)
    y = np.repeat([0, 1, 2], 8)
    for options in STRATEGIES.values():
        model = TransferClassifier(source, **options).fit(X, hide(y, 2))
        assert np.isfinite(model.distances(X)).all()
    assert (TransferClassifier(source).fit(X, hide(y, 2)).predict(X) == y).all()


@pytest.mark.parametrize("kind", later(["noise", "moments"], ["moments"]))
def test_distances_of_far_queries_are_never_nan(source, rng) -> None:
    X, y = blobs(rng, 90)
    for options in STRATEGIES.values():
        model = TransferClassifier(source, **options).fit(X.astype(np.float32), hide(y, 6))
        far = model.distances(np.full((2, 6), 1e30, dtype=np.float32))
        assert not np.isnan(far).any()
        assert not np.isnan(model.distances(np.array([[1e308, -1e308] * 3]))).any()


@pytest.mark.parametrize("size", [1e-300, 1e-20, 1e20, 1e59])
def test_fit_works_in_any_unit_without_a_source(size, rng) -> None:
    X, y = blobs(rng, 60)
    model = TransferClassifier().fit(X * size, hide(y, 3))
    assert np.isfinite(model.distances(X * size)).all()
    if size > 1e-100:
        assert np.mean(model.predict(X * size) == y) > 0.7


def test_fit_refuses_too_large_numbers(rng) -> None:
    X, y = blobs(rng, 30)
    with pytest.raises(InvalidInputError, match="rescale"):
        TransferClassifier().fit(X * 1e100, y)


def test_clones_share_the_source(source, rng) -> None:
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
def test_fit_refuses_bad_parameters_in_one_line(options, message, source, rng) -> None:
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
def test_fit_refuses_bad_labels_in_one_line(labels, message, source, rng) -> None:
    X, y = blobs(rng, 30)
    with pytest.raises(InvalidInputError, match=message) as caught:
        TransferClassifier(source).fit(X, labels(y))
    assert "\n" not in str(caught.value)


def test_longer_text_labels_are_not_shortened_to_those_of_the_source(rng) -> None:
    X, y = blobs(rng, 60)
    source = PrivateSource.fit(X, np.array(["a", "b", "c"])[y], OptimalNoise(8.0, sensitivity=1.0))
    with pytest.raises(InvalidInputError, match="does not know"):
        TransferClassifier(source).fit(X, np.array(["a", "b", "cat"])[y])


def test_fit_refuses_a_single_labelled_row_with_a_source(source, rng) -> None:
    X, y = blobs(rng, 30)
    with pytest.raises(InvalidInputError, match="one labelled row"):
        TransferClassifier(source, allow_missing=True).fit(X, np.where(np.arange(30) == 0, y, -1))


def test_predict_refuses_queries_that_do_not_fit(source, rng) -> None:
    X, y = blobs(rng, 30)
    model = TransferClassifier(source).fit(X, hide(y, 3))
    for queries in (X[:, :3], X * np.nan, X[0]):
        with pytest.raises(InvalidInputError) as caught:
            model.predict(queries)
        assert "\n" not in str(caught.value)


def test_probabilities_add_up_agree_with_predictions_and_are_about_right(source) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 900)
    X = rng.normal(size=(900, 4)) / 5
    X[np.arange(900), truth] += 0.3
    seen = np.where(np.arange(900) < 60, truth, -1)
    model = TransferClassifier().fit(X[:500], seen[:500])
    found = model.predict_proba(X[500:])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X[500:]))
    assert abs(found.max(axis=1).mean() - np.mean(model.predict(X[500:]) == truth[500:])) < 0.2
    assert not hasattr(TransferClassifier(source, "documented"), "predict_proba")
