"""Classifying by private moments, and drawing synthetic records from them."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold.encoders import GradientHistograms, RandomFeatures
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.fabrication.moments import MomentClassifier, MomentFabricator
from onefold.models.probability import softmax
from onefold.privacy import Ledger
from onefold.privacy.guarantee import FLOAT_SAMPLER, SEEDED
from onefold.privacy.moments import PrivateMoments
from onefold.tables import Schema
from reference.clouds import cloud


# Checks use a few dozen rows: hardly any noise, and a ball that holds them all.
@parametrize_with_checks([MomentFabricator(1e6, radius=30.0, random_state=0)])
def test_moment_fabricator_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(12_000, centers=5, n_features=6, cluster_std=1.5, random_state=3)
    return (X[:10_000], y[:10_000]), (X[10_000:], y[10_000:])


def test_moment_classifier_without_noise_is_quadratic_discriminant_analysis() -> None:
    # Classes of different sizes and spreads, close together: priors and determinants decide.
    rng = np.random.default_rng(0)
    y = rng.choice(3, 20_000, p=[0.75, 0.2, 0.05])
    X = rng.normal(size=(20_000, 3)) * np.array([1.0, 0.4, 2.0])[y, None] + y[:, None] / 2
    given = {"centre": None, "radius": 20.0, "shrinkage": 0.0, "floor": 0.0, "least": 0.0}
    model = MomentClassifier(None, head="qda", **given).fit(X, y)
    reference = QuadraticDiscriminantAnalysis().fit(X, y)
    np.testing.assert_allclose(softmax(model.decision_function(X)), reference.predict_proba(X), atol=0.005)
    assert len(np.unique(model.predict(X))) == 3


@pytest.mark.parametrize("sampler", ["hardened", pytest.param("float", marks=pytest.mark.nightly)])
def test_moment_classifier_is_accurate_at_epsilon_1_per_record(blobs, sampler: str) -> None:
    train, test = blobs
    model = MomentClassifier(1.0, radius=20.0, sampler=sampler).fit(*train)
    assert model.guarantee_.record == (1.0, 1e-5)
    assert model.guarantee_.voided_by == (() if sampler == "hardened" else (FLOAT_SAMPLER,))
    assert model.score(*test) > 0.95
    assert MomentClassifier(None, radius=20.0).fit(*train).score(*test) < model.score(*test) + 0.03


def test_moment_classifier_with_tiny_epsilon_is_inaccurate_and_finite(blobs) -> None:
    train, test = blobs
    model = MomentClassifier(1e-4, radius=20.0, classes=range(5), random_state=0).fit(*train)
    assert model.score(*test) < 0.6
    assert np.isfinite(model.predict_proba(test[0])).all()


def test_moment_classifier_probabilities_agree_with_decisions(blobs) -> None:
    train, (queries, _) = blobs
    model = MomentClassifier(1.0, radius=20.0, random_state=0).fit(*train)
    probabilities = model.predict_proba(queries)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(queries))
    assert model.decision_function(queries).shape == (len(queries), 5)
    two = train[1] < 2
    pair = MomentClassifier(1.0, radius=20.0, random_state=0).fit(train[0][two], train[1][two])
    np.testing.assert_array_equal(pair.decision_function(queries) > 0, pair.predict(queries) == 1)


def test_summed_moments_of_sites_give_nearly_the_pooled_classifier(blobs) -> None:
    (X, y), test = blobs
    given = {"classes": range(5), "centre": np.full(6, 0.01), "radius": 20.0}
    pooled = MomentClassifier.from_moments(PrivateMoments(1.0, random_state=9, **given).fit(X, y))
    sites = [PrivateMoments(1.0, random_state=q, **given).fit(X[q::10], y[q::10]) for q in range(10)]
    total = sites[0]
    for site in sites[1:]:
        total = total.add(site)
    together = MomentClassifier.from_moments(total)
    assert together.guarantee_.record == (1.0, 1e-5)
    assert together.guarantee_.n_owners == 10
    assert together.score(*test) > pooled.score(*test) - 0.01
    # On their own, sites do worse than together.
    assert np.mean([MomentClassifier.from_moments(site).score(*test) for site in sites]) < together.score(
        *test
    )


@pytest.mark.exact
def test_from_moments_equals_fit(blobs) -> None:
    train, (queries, _) = blobs
    encoder = RandomFeatures(20).fit(train[0])
    fitted = MomentClassifier(1.0, encoder=encoder, random_state=0, shrinkage=0.3, floor=0.5).fit(*train)
    moments = PrivateMoments(1.0, random_state=0).fit(encoder.transform(train[0]), train[1])
    made = MomentClassifier.from_moments(moments, encoder, shrinkage=0.3, floor=0.5)
    np.testing.assert_array_equal(made.decision_function(queries), fitted.decision_function(queries))
    with pytest.raises(NotFittedError):
        MomentClassifier.from_moments(moments, RandomFeatures(20))
    with pytest.raises(NotFittedError):
        MomentClassifier.from_moments(PrivateMoments())


def test_learned_encoder_voids_the_guarantee(blobs) -> None:
    train, _ = blobs
    with pytest.warns(PrivacyLeakWarning, match="encoder was fitted to the raw data"):
        model = MomentClassifier(1.0, encoder=PCA(3), radius=30.0).fit(*train)
    assert not model.guarantee_.holds
    assert str(model.guarantee_).startswith("VOID: the encoder")
    assert MomentClassifier(1.0, encoder=RandomFeatures(5)).fit(*train).guarantee_.holds


def test_learned_encoder_voids_the_guarantee_of_a_classifier_from_moments_too(blobs) -> None:
    """The moments cannot know of the encoder; whoever is handed both can."""
    (X, y), _ = blobs
    encoder = PCA(3).fit(X)
    moments = PrivateMoments(1.0, radius=30.0, classes=range(5)).fit(encoder.transform(X), y)
    with pytest.warns(PrivacyLeakWarning, match="encoder was fitted to the raw data"):
        model = MomentClassifier.from_moments(moments, encoder)
    assert not model.guarantee_.holds
    assert not model.moments_.guarantee_.holds
    assert moments.guarantee_.holds  # what was handed over stays as it was


def test_subclass_of_an_encoder_that_looks_at_values_voids_the_guarantee(blobs) -> None:
    class Learning(RandomFeatures):
        """An encoder by name only."""

        def fit(self, X, y=None):
            self.largest_ = np.max(X)
            return super().fit(X, y)

    with pytest.warns(PrivacyLeakWarning, match="encoder was fitted to the raw data"):
        assert not MomentClassifier(1.0, encoder=Learning(5)).fit(*blobs[0]).guarantee_.holds
    with pytest.raises(InvalidInputError, match="encoder was fitted to the raw data"):
        MomentClassifier(1.0, encoder=Learning(5), ledger=Ledger()).fit(*blobs[0])


@pytest.mark.parametrize("kind", [MomentClassifier, MomentFabricator])
def test_seed_and_float_sampler_void_the_guarantee_of_moments(blobs, kind: Any) -> None:
    given = {"radius": 20.0, "classes": range(5)}
    assert kind(1.0, **given).fit(*blobs[0]).guarantee_.holds
    assert kind(1.0, **given, random_state=0).fit(*blobs[0]).guarantee_.voided_by == (SEEDED,)
    assert kind(1.0, **given, sampler="float").fit(*blobs[0]).guarantee_.voided_by == (FLOAT_SAMPLER,)


@pytest.mark.parametrize("kind", [MomentClassifier, MomentFabricator])
def test_moments_of_persons_promise_persons_something(blobs, kind: Any) -> None:
    (X, y), _ = blobs
    people = np.arange(len(y)) // 4
    model = kind(1.0, radius=20.0, classes=range(5), rows_per_person=2).fit(X, y, people)
    assert model.guarantee_.person == (1.0, 1e-5)
    # A person counts once, whatever the number of its rows; the noise is many times smaller than a quarter.
    assert model.moments_.counts_.sum() == pytest.approx(len(y) / 4, rel=0.25)
    assert kind(1.0, radius=20.0, classes=range(5)).fit(X, y).guarantee_.person is None


def test_moment_classifier_with_an_encoder_is_accurate_on_digits() -> None:
    X, y = load_digits(return_X_y=True)
    encoder = GradientHistograms((8, 8), n_cells=3, n_orientations=6)
    model = MomentClassifier(50.0, encoder=encoder, classes=range(10), random_state=0).fit(X[:1300], y[:1300])
    assert model.score(X[1300:], y[1300:]) > 0.85
    assert model.n_features_in_ == 64


def test_odds_of_moments_are_about_the_presence_of_a_record_unless_it_is_replaced(blobs) -> None:
    """What a record holds is two steps away: odds of exp(epsilon) would be too small for that."""
    given = {"classes": range(5), "radius": 20.0}
    told = MomentClassifier(1.0, **given).fit(*blobs[0]).guarantee_.odds("record")
    assert "everything but whether one record is in the data" in told
    assert "at most 2.719 to 1" in told
    told = MomentClassifier(1.0, **given, neighbours="replace").fit(*blobs[0]).guarantee_.odds("record")
    assert "everything but one record," in told


# --- synthetic records ------------------------------------------------------------------------------------


def test_synthetic_records_have_the_released_moments(blobs) -> None:
    train, _ = blobs
    fabricator = MomentFabricator(None, centre=None, radius=100.0, shrinkage=0.0, floor=0.0, least=0.0).fit(
        *train
    )
    synthetic, labels = fabricator.sample(200_000, random_state=0)
    for code in range(5):
        own = synthetic[labels == code]
        np.testing.assert_allclose(own.mean(axis=0), fabricator.moments_.means_[code], atol=1e-3)
        covariance = fabricator.moments_.covariances(0.0, 0.0, 0.0)[code]
        np.testing.assert_allclose(np.cov(own.T), covariance, atol=0.05 * np.abs(covariance).max())


def test_classifier_trained_on_synthetic_records_works_on_real_ones(blobs) -> None:
    train, (queries, truth) = blobs
    fabricator = MomentFabricator(1.0, radius=20.0, random_state=0).fit(*train)
    synthetic, labels = fabricator.sample(3000, random_state=0)
    assert fabricator.guarantee_.record == (1.0, 1e-5)
    np.testing.assert_allclose(np.linalg.norm(synthetic, axis=1), 1.0)
    model = KNeighborsClassifier(5).fit(synthetic, labels)
    assert model.score(fabricator.transform(queries), truth) > 0.93


def test_sample_draws_classes_in_proportion_or_balanced(blobs) -> None:
    train, _ = blobs
    keep = (train[1] != 0) | (np.arange(len(train[1])) % 2 == 0)  # half of the first class
    fabricator = MomentFabricator(1.0, radius=20.0, random_state=0).fit(train[0][keep], train[1][keep])
    _, labels = fabricator.sample(1001, random_state=0)
    shares = np.bincount(labels) / 1001
    np.testing.assert_allclose(shares, np.array([1, 2, 2, 2, 2]) / 9, atol=0.02)
    _, labels = fabricator.sample(1001, balanced=True, random_state=0)
    assert len(labels) == 1001
    assert set(np.bincount(labels)) <= {200, 201}
    first, second = (fabricator.sample(10)[0] for _ in range(2))
    assert not np.array_equal(first, second)
    with pytest.raises(InvalidInputError, match="n_samples"):
        fabricator.sample(0)


def test_sample_without_a_centre_stays_in_the_ball() -> None:
    X, y = make_blobs(3000, centers=2, n_features=3, cluster_std=2.0, random_state=0)
    fabricator = MomentFabricator(1.0, centre=None, random_state=0).fit(X, y)
    norms = np.linalg.norm(fabricator.sample(500, random_state=0)[0], axis=1)
    assert norms.max() <= 1.0 + 1e-12
    assert norms.min() < 0.99


def test_probabilities_with_noise_keep_the_densities_of_few_normal_columns() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 9000)
    X = (rng.normal(size=(9000, 3)) + 0.7 * y[:, None]) / 8.0
    model = MomentClassifier(4.0, classes=[0, 1], random_state=0).fit(X[:6000], y[:6000])
    found = model.predict_proba(X[6000:])
    assert model.temperature_ == 0.85  # by the number of columns alone
    assert abs(found.max(axis=1).mean() - np.mean(found.argmax(axis=1) == y[6000:])) < 0.05


def test_probabilities_with_noise_do_not_take_densities_of_many_columns_at_their_word() -> None:
    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = MomentClassifier(8.0, classes=range(10), random_state=0).fit(X[:1200], y[:1200])
    assert model.temperature_ == 0.4
    rows, codes = np.arange(597), y[1200:]
    found, raw = model.predict_proba(X[1200:]), softmax(model.decision_function(X[1200:]))
    assert np.log(found[rows, codes]).mean() > np.log(np.maximum(raw[rows, codes], 1e-12)).mean() + 0.05


def test_private_classifier_takes_the_moments_that_the_noise_allows() -> None:
    X, y = cloud(3000, 20)
    noisy = MomentClassifier(0.5, classes=range(3), random_state=0).fit(X[:200], y[:200])
    clear = MomentClassifier(8.0, classes=range(3), random_state=0).fit(X, y)
    assert (noisy.moments_.is_pooled, noisy.rule_) == (True, "lda")
    assert (clear.moments_.is_pooled, clear.rule_) == (False, "qda")


def test_private_classifier_of_a_table_releases_one_second_moment() -> None:
    rng = np.random.default_rng(0)
    table = {"age": rng.integers(0, 90, 900), "ward": rng.choice(["a", "b", "c"], 900)}
    table["ill"] = np.where(table["age"] + 20 * (table["ward"] == "b") > 60, "yes", "no")
    schema = Schema.infer(table, label="ill")
    model = MomentClassifier(4.0, schema=schema, random_state=0).fit(table)
    assert model.moments_.is_pooled
    assert np.mean(model.predict(table) == table["ill"]) > 0.9
