"""The default strategy: helped by a good source, hardly harmed by a bad one."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from onefold import WideKAHM
from onefold.exceptions import InvalidInputError
from onefold.privacy import OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource, TransferClassifier
from reference.domains import blobs, hide
from tiers import thinned


def domain(rng, n_rows, n_classes=6, p=12, spread=0.55, move=0.0):
    X, y = blobs(rng, n_rows, n_classes, p, spread)
    return X + move, y


def source_of(X, y, epsilon=8.0):
    return PrivateSource.fit(X, y, PrivateMoments(epsilon, classes=range(6), radius=4.0), random_state=0)


def accuracies(source, rng, per_class, n_rows=240, move=0.0, **options):
    X, y = domain(rng, n_rows, move=move)
    queries, truth = domain(rng, 1500, move=move)
    model = TransferClassifier(source, **options).fit(X, hide(y, per_class))
    return (
        np.mean(model.predict(queries) == truth),
        np.mean(model.predict_target_alone(queries) == truth),
        model,
    )


@pytest.mark.parametrize("per_class", [1, 3])
def test_helpful_source_raises_accuracy(per_class, rng) -> None:
    source = source_of(*domain(rng, 6000))
    found = [accuracies(source, rng, per_class, random_state=seed) for seed in range(4)]
    together, alone = (np.mean([pair[i] for pair in found]) for i in (0, 1))
    assert together > alone + (0.05 if per_class == 1 else 0.02)
    assert any(model.source_gain_ > 0.0 and model.decisions_changed_ > 0 for _, _, model in found)
    assert any(name != "target" for _, _, model in found for name in model.deciders_)


@pytest.mark.parametrize(
    ("kind", "labels_and_loss"),
    thinned(["random labels", "noise", "turned labels"], [(1, 0.2), (3, 0.03), (10, 0.02)]),
)
def test_hostile_source_hardly_lowers_accuracy_from_three_labels_on(kind, labels_and_loss, rng) -> None:
    per_class, loss = labels_and_loss
    X, y = domain(rng, 3000)
    labels = {
        "random labels": rng.permutation(y),
        "noise": y,
        "turned labels": (y + 1) % 6,
    }[kind]
    rows = rng.normal(size=X.shape) if kind == "noise" else X
    source = source_of(rows, labels)
    found = [accuracies(source, rng, per_class, random_state=seed) for seed in range(3)]
    together, alone = (np.mean([pair[i] for pair in found]) for i in (0, 1))
    assert together > alone - loss
    assert all(model.weights_["source"] < 0.2 for _, _, model in found)


def test_source_decides_where_there_are_hardly_any_labels(rng) -> None:
    X, y = domain(rng, 3000, n_classes=2)
    source = PrivateSource.fit(X, y, PrivateMoments(8.0, classes=[0, 1], radius=4.0), random_state=0)
    target, truth = domain(rng, 200, n_classes=2)
    model = TransferClassifier(source).fit(target, hide(truth, 1))
    assert model.weights_["source"] > 0.1
    asked = source.predict(target)
    assert np.mean(model.predict(target) == truth) > np.mean(asked == truth) - 0.02


@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_source_of_pooled_moments_helps(epsilon, rng) -> None:
    X, y = domain(rng, 3000)
    moments = PrivateMoments(epsilon, classes=range(6), radius=4.0, second_moments="pooled")
    source = PrivateSource.fit(X, y, moments, random_state=None if epsilon is None else 0)
    found = [accuracies(source, rng, 1, random_state=seed) for seed in range(2)]
    together, alone = (np.mean([pair[i] for pair in found]) for i in (0, 1))
    assert together > max(0.8, alone + 0.02)


def test_source_gain_with_one_row_per_class_is_measured_against_guessing(rng) -> None:
    source = source_of(*domain(rng, 6000))
    gains = [accuracies(source, rng, 1, random_state=seed)[2].source_gain_ for seed in range(4)]
    assert max(gains) > 0.0
    assert all(gain <= 1.0 - 1.0 / 6.0 for gain in gains)


def test_shifted_source_is_aligned(rng) -> None:
    source = source_of(*domain(rng, 6000))
    moved, truth = domain(rng, 500, move=0.8)
    assert np.mean(source.predict(moved) == truth) < 0.6
    together, alone, model = accuracies(source, rng, 2, move=0.8)
    assert together > 0.8
    assert together > alone - 0.04
    assert model.weights_["source"] < model.weights_["refined"]


def test_class_means_are_used_where_noise_spoils_the_autoencoders(rng) -> None:
    X, y = domain(rng, 6000)
    source = PrivateSource.fit(
        X,
        y,
        OptimalNoise(0.25, sensitivity=1.0),
        estimator=WideKAHM(5, 1, 500, scale="auto", random_state=0),
        random_state=0,
    )
    assert source.description_.within(np.eye(12)) is None
    found = [accuracies(source, rng, 1, random_state=seed) for seed in range(3)]
    together, alone = (np.mean([pair[i] for pair in found]) for i in (0, 1))
    assert all(model.weights_["refined"] > model.weights_["source"] for _, _, model in found)
    assert together > alone + 0.02


def test_fit_without_a_source_uses_the_target_alone(rng) -> None:
    X, y = domain(rng, 240)
    model = TransferClassifier().fit(X, hide(y, 3))
    assert set(model.weights_) == {"target", "least squares"}
    assert (model.source_gain_, model.decisions_changed_, model.guarantee_) == (0.0, 0, None)
    assert set(model.deciders_) <= {"target", "least squares"}
    assert model.accuracy_ > 0.5


@pytest.mark.exact
@pytest.mark.parametrize("per_class", [1, 4])
def test_target_alone_is_the_classifier_that_is_fitted_without_a_source(per_class, rng) -> None:
    X, y = domain(rng, 240)
    with_source = TransferClassifier(source_of(*domain(rng, 1000))).fit(X, hide(y, per_class))
    without = TransferClassifier().fit(X, hide(y, per_class))
    np.testing.assert_array_equal(with_source.predict_target_alone(X), without.predict(X))


def test_target_alone_is_no_worse_than_logistic_regression(rng) -> None:
    ahead = []
    for per_class in (1, 3, 10):
        X, y = domain(rng, 240)
        queries, truth = domain(rng, 1500)
        seen = hide(y, per_class)
        known = seen >= 0
        plain = LogisticRegression().fit(X[known], seen[known])
        model = TransferClassifier().fit(X, seen)
        ahead.append(np.mean(model.predict(queries) == truth) - plain.score(queries, truth))
    assert min(ahead) > -0.01
    assert np.mean(ahead) > 0.01


@pytest.mark.parametrize("with_source", [False, True])
def test_units_of_columns_hardly_matter(with_source, rng) -> None:
    units = np.logspace(-3, 3, 12)
    found = []
    for factor in (np.ones(12), units):
        rows = np.random.default_rng(3)
        source = None
        if with_source:
            X, y = domain(rows, 1000)
            source = PrivateSource.fit(X * factor, y, None, estimator=WideKAHM(5, 1, 500, random_state=0))
        X, y = domain(rows, 240)
        queries, truth = domain(rows, 1000)
        model = TransferClassifier(source).fit(X * factor, hide(y, 3))
        found.append(np.mean(model.predict(queries * factor) == truth))
    assert found[1] > found[0] - 0.05
    assert found[1] > 0.8


def test_target_of_another_width_is_refused_unless_asked_for(rng) -> None:
    source = source_of(*domain(rng, 3000))
    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0][:12]
    X, y = domain(rng, 240)
    with pytest.raises(InvalidInputError, match=r"20 features and the source 12.*to_source"):
        TransferClassifier(source).fit(X @ turn, hide(y, 3))
    queries, truth = domain(rng, 1000)
    model = TransferClassifier(source, to_source="procrustes").fit(X @ turn, hide(y, 3))
    assert set(model.weights_) == {"target", "least squares", "source"}
    alone = np.mean(model.predict_target_alone(queries @ turn) == truth)
    assert np.mean(model.predict(queries @ turn) == truth) > alone - 0.02
    with pytest.raises(InvalidInputError, match='goes with the strategy "default"'):
        TransferClassifier(source, "documented", to_source="procrustes").fit(X @ turn, hide(y, 3))


def test_to_source_lets_a_target_of_another_width_use_the_source(rng) -> None:
    source = source_of(*domain(rng, 6000))
    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0][:12]
    X, y = domain(rng, 240)
    queries, truth = domain(rng, 1000)
    model = TransferClassifier(source, to_source=lambda rows: rows @ turn.T).fit(X @ turn, hide(y, 1))
    alone = np.mean(model.predict_target_alone(queries @ turn) == truth)
    assert np.mean(model.predict(queries @ turn) == truth) > alone + 0.03


def test_autoencoders_can_be_the_model_of_the_target(rng) -> None:
    source = source_of(*domain(rng, 3000))
    together, alone, _ = accuracies(
        source, rng, 3, estimator=WideKAHM(8, 1, scale="auto", random_state=0), components=(3, 6)
    )
    assert together > alone - 0.02
    assert together > 0.6


def test_same_data_gives_the_same_distances(rng) -> None:
    source = source_of(*domain(rng, 1000))
    X, y = domain(rng, 120)
    one, two = (TransferClassifier(source).fit(X, hide(y, 3)).distances(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_distances_are_logarithms_of_probabilities(rng) -> None:
    source = source_of(*domain(rng, 1000))
    X, y = domain(rng, 120)
    model = TransferClassifier(source).fit(X, hide(y, 3))
    np.testing.assert_allclose(np.exp(-model.distances(X)).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[model.distances(X).argmin(axis=1)], model.predict(X))
    labelled = hide(y, 3) >= 0
    np.testing.assert_array_equal(model.transduction_[labelled], y[labelled])
