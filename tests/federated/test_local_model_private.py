"""A private owner: what leaves it holds no raw row, says what it promises, and comes back with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM, io
from onefold.datasets import load
from onefold.exceptions import InvalidInputError, MessageError, PrivacyLeakWarning
from onefold.fabrication import PrivateClassifier
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.messages import ModelParcel, Profile, Query, from_bytes
from onefold.privacy import AnalyticGaussian, Laplace, OptimalNoise, RandomisedLabels

ESTIMATORS = [
    FoldingClassifier(n_components=5, batch_size=30),
    AutoencoderClassifier(WideKAHM(n_components=5, n_layers=2, branch_size=60, random_state=0)),
]


@pytest.fixture(scope="module")
def data():
    digits = load("digits")
    return digits.X_train[:300], digits.y_train[:300], digits.X_test[:60], digits.y_test[:60]


def holds_a_raw_row(content: bytes, X: np.ndarray) -> bool:
    """Whether any row is in the bytes as it is, or after centring any batch (its differences are)."""
    return any(row.tobytes() in content for row in X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("fabricate", [False, True])
def test_private_model_states_its_guarantee_and_survives_its_file(
    data, estimator, fabricate, tmp_path: Path
) -> None:
    X, y, queries, _ = data
    model = LocalModel(estimator, OptimalNoise(4.0, delta=1e-4, sensitivity=1.0), fabricate=fabricate).fit(
        X, y
    )
    assert model.is_private
    assert model.guarantee_.entry == (4.0, 1e-4)
    model.save(tmp_path / "private.onefold")
    LocalModel(estimator).fit(X, y).save(tmp_path / "raw.onefold")
    assert holds_a_raw_row((tmp_path / "raw.onefold").read_bytes(), X)  # the check can fail
    assert not holds_a_raw_row((tmp_path / "private.onefold").read_bytes(), X)
    for array in io.load_extras(tmp_path / "private.onefold").values():
        if array.shape == X.shape:
            assert not np.any(np.all(array == X, axis=1))
    again = LocalModel.load(tmp_path / "private.onefold")
    assert again.guarantee_ == model.guarantee_
    np.testing.assert_allclose(again.answers(queries), model.answers(queries), rtol=1e-9)


def test_noise_is_fresh_every_time(data) -> None:
    X, y, queries, _ = data
    model = LocalModel(ESTIMATORS[0], Laplace(2.0, sensitivity=1.0), fabricate=False)
    first = model.fit(X, y).answers(queries)
    assert not np.array_equal(model.fit(X, y).answers(queries), first)


def test_labels_may_be_private_too(data) -> None:
    X, y, _, _ = data
    labels = RandomisedLabels(0.5, classes=np.arange(10))
    model = LocalModel(
        ESTIMATORS[0], AnalyticGaussian(1.0, delta=1e-5, sensitivity=1.0), label_mechanism=labels
    ).fit(X, y)
    assert model.guarantee_.labels == (0.5, 0.0)
    assert np.mean(model._rows.labels == y) < 0.6
    with pytest.raises(InvalidInputError, match="mechanism"):
        LocalModel(ESTIMATORS[0], label_mechanism=labels).fit(X, y)


def test_a_parcel_travels_and_answers_the_same(data) -> None:
    X, y, queries, _ = data
    many = FoldingClassifier(n_components=5, batch_size=30, n_jobs=2)
    model = LocalModel(many, Laplace(6.0, sensitivity=1.0)).fit(X, y)
    parcel = from_bytes(model.to_parcel("north").to_bytes())
    assert isinstance(parcel, ModelParcel)
    assert not holds_a_raw_row(parcel.content, X)
    arrived = LocalModel.from_parcel(parcel)
    assert arrived.guarantee_ == model.guarantee_
    np.testing.assert_allclose(arrived.answers(queries), model.answers(queries), rtol=1e-9)
    assert model.digest() == model.profile("north").model_digest
    assert arrived.estimator_.n_jobs is None
    with pytest.raises(InvalidInputError, match="rows"):
        arrived.forget([0])  # the server has no rows to do it with
    with pytest.raises(InvalidInputError, match="like"):
        arrived.fit(X, y)
    server = GlobalClassifier().add("north", arrived)
    assert len(server.predict(queries)) == len(queries)


def test_only_a_private_model_travels(data) -> None:
    X, y, _, _ = data
    raw = LocalModel(ESTIMATORS[0]).fit(X, y)
    with pytest.raises(InvalidInputError, match="private"):
        raw.to_parcel("north")
    with pytest.raises(MessageError, match="guarantee"):
        LocalModel.from_parcel(ModelParcel("north", io.to_bytes(raw.estimator_)))
    with pytest.raises(MessageError):
        LocalModel.from_parcel(ModelParcel("north", b"anything else"))
    with pytest.warns(PrivacyLeakWarning):
        void = LocalModel(
            PrivateClassifier(ESTIMATORS[0], Laplace(6.0, sensitivity=1.0), stopping="documented")
        ).fit(X, y)
    assert not void.is_private
    with pytest.raises(InvalidInputError, match="private"):
        void.to_parcel("north")
    with pytest.raises(MessageError, match="guarantee"):
        LocalModel.from_parcel(ModelParcel("north", io.to_bytes(void.estimator_)))


def test_profile_states_classes_measure_and_guarantee(data) -> None:
    X, y, queries, _ = data
    private, raw = (
        LocalModel(ESTIMATORS[0], Laplace(6.0, sensitivity=1.0)).fit(X, y),
        LocalModel(ESTIMATORS[1]).fit(X, y),
    )
    profile = from_bytes(private.profile("north").to_bytes())
    assert isinstance(profile, Profile)
    assert (profile.classes, profile.measure, profile.n_features) == (tuple(range(10)), "rms", X.shape[1])
    assert profile.guarantee == private.guarantee_.to_dict()
    assert raw.profile("south").guarantee is None
    assert raw.profile("south").scale is None
    before = private.digest()
    private.forget([0])
    assert private.digest() != before
    answer = from_bytes(private.answer(Query("q", queries), "north").to_bytes())
    np.testing.assert_array_equal(answer.values, private.answers(queries))
    assert (answer.query_id, answer.site, answer.scale) == ("q", "north", private.scale)


def test_new_rows_get_noise_and_the_weaker_guarantee_counts(data) -> None:
    X, y, queries, _ = data
    model = LocalModel(ESTIMATORS[0], Laplace(6.0, sensitivity=1.0), fabricate=False).fit(X[:200], y[:200])
    model.extend(X[200:], y[200:])
    assert model.guarantee_.entry == (6.0, 0.0)
    assert "no row that was added had been there before" in str(model.guarantee_)
    assert not np.any(np.all(model._rows.values == X, axis=1))
    model._recipe.maker.mechanism = Laplace(9.0, sensitivity=1.0)
    model.extend(X[:10], y[:10])
    assert model.guarantee_.entry == (9.0, 0.0)
    assert model.estimator_.guarantee_ == model.guarantee_
    fabricated = LocalModel(ESTIMATORS[0], Laplace(6.0, sensitivity=1.0)).fit(X[:200], y[:200])
    fabricated.extend(X[200:], y[200:])
    assert fabricated._rows.noisy.shape == X.shape
    assert fabricated.answers(queries).shape == (60, 10)


def test_a_private_federation_still_works(data) -> None:
    """With generous noise five private owners are nearly as good as one that is not."""
    digits = load("digits")
    server = GlobalClassifier()
    for number in range(5):
        rows = np.arange(number, len(digits.y_train), 5)
        model = LocalModel(
            FoldingClassifier(n_components=10, batch_size=50), OptimalNoise(16.0, delta=1e-5, sensitivity=1.0)
        )
        server.add(number, model.fit(digits.X_train[rows], digits.y_train[rows]))
    assert np.mean(server.predict(digits.X_test) == digits.y_test) > 0.9


def test_feature_names_stay_through_forgetting(data) -> None:
    pandas = pytest.importorskip("pandas")
    X, y, queries, _ = data
    names = [f"pixel {number}" for number in range(X.shape[1])]
    frame = pandas.DataFrame(X, columns=names)
    model = LocalModel(ESTIMATORS[0]).fit(frame, y)
    plain = LocalModel(ESTIMATORS[0]).fit(X, y)
    model.forget([3])
    plain.forget([3])
    asked = pandas.DataFrame(queries, columns=names)
    np.testing.assert_array_equal(model.answers(asked), plain.answers(queries))
    with pytest.raises(ValueError, match="feature names"):
        model.answers(asked[names[::-1]])


def test_classifier_of_another_kind_answers_and_forgets(data) -> None:
    """Anything with distances and a measure: forgetting fits it anew on the rows that are left."""
    X, y, queries, _ = data

    class Nearest:
        measure = "euclidean"

        def get_params(self, deep: bool = True) -> dict:
            return {}

        def fit(self, X, y):
            self.classes_ = np.unique(y)
            self.means = np.stack([X[y == c].mean(axis=0) for c in self.classes_])
            self.n_features_in_ = X.shape[1]
            return self

        def distances(self, X):
            return np.linalg.norm(np.asarray(X)[:, None] - self.means, axis=2)

    model = LocalModel(Nearest()).fit(X, y)
    assert model.forget([0, 1]).exact
    np.testing.assert_array_equal(model.answers(queries), Nearest().fit(X[2:], y[2:]).distances(queries))


def test_a_fit_that_fails_changes_nothing(data) -> None:
    """A raw model must not come to a guarantee by a private fit that broke off."""
    X, y, queries, _ = data
    model = LocalModel(ESTIMATORS[0]).fit(X, y)
    before = model.answers(queries)
    model.mechanism, model.estimator = Laplace(6.0, sensitivity=1.0), FoldingClassifier(n_components=0)
    with pytest.raises(InvalidInputError):
        model.fit(X, y)
    assert model.guarantee_ is None
    assert not model.is_private
    np.testing.assert_array_equal(model.answers(queries), before)
    for bad in ((X[:, :5], y), (X, y[:-1]), (X, np.full(len(y), "text")), (np.full_like(X, np.nan), y)):
        with pytest.raises(ValueError):
            model.extend(*bad)
    assert len(model.row_numbers_) == len(y)
    np.testing.assert_array_equal(model.answers(queries), before)


def test_local_model_follows_scikit_learn(data) -> None:
    X, y, queries, _ = data
    model = LocalModel(ESTIMATORS[0], Laplace(6.0, sensitivity=1.0), random_state=1).fit(X, y)
    again = clone(model)
    assert not hasattr(again, "estimator_")
    assert again.get_params()["random_state"] == 1
    np.testing.assert_array_equal(again.fit(X, y).answers(queries), model.answers(queries))
    assert repr(model).startswith("LocalModel(estimator=FoldingClassifier(")
    assert again.set_params(estimator__n_components=3).estimator.n_components == 3


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_private_classifier_fitted_again_to_raw_rows_has_no_guarantee(data, estimator) -> None:
    """The old promise would let raw rows travel."""
    X, y, _, _ = data
    model = LocalModel(estimator, Laplace(6.0, sensitivity=1.0)).fit(X, y).estimator_
    loaded = io.from_bytes(io.to_bytes(model))
    assert loaded.guarantee_.holds
    loaded.fit(X, y)
    assert not hasattr(loaded, "guarantee_")
    assert not hasattr(io.from_bytes(io.to_bytes(loaded)), "guarantee_")
