"""Moments without noise as a classifier: heads, lifts, groups, objectives, probabilities and files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import onefold
from onefold import MomentClassifier
from onefold.encoders import RandomFeatures
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier as FromFabrication
from onefold.privacy import PrivateMoments


@parametrize_with_checks([MomentClassifier(None)])
def test_moment_classifier_without_noise_passes_the_checks_of_scikit_learn(
    estimator: Any, check: Any
) -> None:
    check(estimator)


# Checks use a few dozen rows: hardly any noise, and a ball that holds them all.
@pytest.mark.nightly
@parametrize_with_checks(
    [MomentClassifier(None, head="lda", lift=8), MomentClassifier(1e6, radius=30.0, random_state=0)]
)
def test_other_moment_classifiers_pass_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def digits() -> list:
    X, y = load_digits(return_X_y=True)
    return train_test_split(X[:1200], y[:1200], test_size=0.4, random_state=0, stratify=y[:1200])


def test_the_classifier_is_the_same_object_at_top_level() -> None:
    assert onefold.MomentClassifier is FromFabrication


def test_defaults_are_accurate_and_calibrated_on_digits(digits: list) -> None:
    X, test, y, truth = digits
    model = MomentClassifier(None).fit(X, y)
    assert model.score(test, truth) > 0.97
    assert model.row_map_.n_directions > 0  # the lift is worth it here
    probabilities = model.predict_proba(test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    right = probabilities.argmax(axis=1) == np.searchsorted(model.classes_, truth)
    expected = probabilities.max(axis=1).sum()
    # As many hits as the probabilities say, in both directions.
    assert binom.ppf(1e-4, len(truth), expected / len(truth)) <= right.sum()
    assert right.sum() <= binom.ppf(1 - 1e-4, len(truth), expected / len(truth))
    for wrong in (0.25, 4.0):
        model.temperature_ *= wrong
        assert log_loss(truth, model.predict_proba(test)) > log_loss(truth, probabilities)
        model.temperature_ /= wrong


def test_columns_in_very_different_units_do_no_harm() -> None:
    X, y = load_wine(return_X_y=True)
    X = X * np.logspace(-6, 6, 13)
    rows, test, labels, truth = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    model = MomentClassifier(None).fit(rows, labels)
    assert model.row_map_.preparation is not None
    assert model.score(test, truth) > 0.93


@pytest.mark.parametrize("head", ["ridge", "lda", "qda"])
def test_every_head_classifies_and_says_what_it_is(head: str) -> None:
    X, y = load_iris(return_X_y=True)
    given = {"centre": None, "radius": 10.0, "lift": None, "least": 0.0, "floor": 0.0}
    model = MomentClassifier(None, head=head, **given).fit(X, y)
    assert model.rule_ == head
    assert model.score(X, y) > (0.8 if head == "ridge" else 0.95)
    assert model.moments_.is_pooled == (head != "qda")
    assert not model.guarantee_.holds


def test_balanced_objective_does_not_forget_a_rare_class() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [1500, 15])
    X = rng.normal(size=(1515, 20)) + 1.6 * y[:, None] * (np.arange(20) == 0)
    fresh = rng.normal(size=(300, 20))
    fresh[:, 0] += 1.6
    recall = {}
    for objective in ("accuracy", "balanced"):
        model = MomentClassifier(None, objective=objective, lift=None).fit(X, y)
        recall[objective] = np.mean(model.predict(fresh) == 1)
    assert recall["balanced"] > recall["accuracy"] + 0.3


@pytest.mark.exact
@pytest.mark.parametrize("given", [{}, {"lift": 20}, {"lift": None}, {"head": "qda"}, {"radius": 100.0}])
def test_loaded_classifier_answers_as_the_saved_one(tmp_path: Path, given: dict) -> None:
    X, y = load_iris(return_X_y=True)
    model = MomentClassifier(None, **given).fit(X, y)
    model.save(tmp_path / "model")
    loaded = MomentClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.rule_ == model.rule_
    assert loaded.n_features_in_ == 4


def test_encoded_rows_are_classified_without_noise(digits: list) -> None:
    X, test, y, truth = digits
    assert MomentClassifier(None, encoder=RandomFeatures(100)).fit(X, y).score(test, truth) > 0.9


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"head": "tree"}, "head"),
        ({"lift": 0}, "lift"),
        ({"lift": "yes"}, "lift"),
        ({"objective": "speed"}, "objective"),
        ({"second_moments": "all"}, "second_moments"),
        ({"head": "qda", "second_moments": "pooled"}, "needs the second moments of each class"),
        ({"head": "qda", "lift": 8}, "lift is for moments without noise"),
        ({"epsilon": 1.0, "lift": 8}, "lift is for moments without noise"),
        ({"epsilon": 1.0, "head": "ridge"}, "ridge.* is for moments without noise"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_line(given: dict, message: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInputError, match=message) as caught:
        MomentClassifier(**{"epsilon": None} | given).fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_rows_in_any_unit_are_classified_alike(unit: float) -> None:
    X, y = load_iris(return_X_y=True)
    one, other = MomentClassifier(None).fit(X, y), MomentClassifier(None).fit(unit * X, y)
    assert np.mean(one.predict(X) == other.predict(unit * X)) > 0.98


def test_refit_with_noise_keeps_nothing_of_exact_moments() -> None:
    X, y = load_iris(return_X_y=True)
    model = MomentClassifier(None).fit(X, y)
    assert model.held_out_error_ > 0.0
    model.set_params(epsilon=1.0, classes=[0, 1, 2]).fit(X, y)
    assert not {"held_out_error_", "ridge_"} & set(vars(model))
    assert model.guarantee_.holds


def test_groups_need_one_name_per_row_and_no_noise() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInputError, match="one name or number for each row"):
        MomentClassifier(None).fit(X, y, groups=[1, 2])
    with pytest.raises(InvalidInputError, match="without noise"):
        MomentClassifier(1.0).fit(X, y, groups=y)


def test_quadratic_head_cannot_be_made_of_one_pooled_moment() -> None:
    X, y = load_iris(return_X_y=True)
    pooled = PrivateMoments(None, centre=None, radius=10.0, second_moments="pooled").fit(X, y)
    with pytest.raises(InvalidInputError, match="second moments of each class"):
        MomentClassifier.from_moments(pooled, head="qda")
    assert MomentClassifier.from_moments(pooled).score(X, y) > 0.9
    each = PrivateMoments(None, centre=None, radius=10.0).fit(X, y)
    with pytest.raises(InvalidInputError, match="cannot be added"):
        each.add(pooled)
    assert MomentClassifier.from_moments(each, head="lda").score(X, y) > 0.95


def test_probabilities_of_equal_rows_are_those_of_the_classes() -> None:
    y = np.arange(40) % 2
    found = MomentClassifier(None, head="qda").fit(np.ones((40, 3)), y).predict_proba(np.ones((2, 3)))
    np.testing.assert_allclose(found, 0.5, atol=1e-3)
