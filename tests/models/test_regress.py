"""Regression by space folding: the mixture, the choice of settings, intervals, files and mistakes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import DeepFuzzyModel, FoldingRegressor, MembershipMapping, io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.models.regress import mixed_outputs
from reference.forging import with_array


@parametrize_with_checks([FoldingRegressor()])
def test_regressor_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks([FoldingRegressor("outputs", 3, 4.0, 2)])
def test_variant_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def friedman() -> list:
    X, y = make_friedman1(900, noise=1.0, random_state=0)
    return train_test_split(X, y, test_size=0.4, random_state=0)


def test_mixture_is_the_literal_one() -> None:
    rng = np.random.default_rng(0)
    distances, outputs = rng.uniform(size=(7, 5)), rng.normal(size=(7, 5, 2))
    found = mixed_outputs(distances, outputs, 3.0, 2)
    for row in range(7):
        near = np.argsort(distances[row])[:2]
        shares = (1.0 - distances[row, near]) ** 3.0
        literal = (shares[:, None] * outputs[row, near]).sum(axis=0) / shares.sum()
        np.testing.assert_allclose(found[row], literal, rtol=1e-9)


def test_rows_far_from_everything_get_the_nearest_output() -> None:
    found = mixed_outputs(np.array([[1.0, 1.0 - 1e-9]]), np.array([[[1.0], [2.0]]]), 64.0, 2)
    assert found[0, 0] == pytest.approx(2.0, abs=1e-6)


def test_held_out_rows_choose_what_is_better_than_one_line(friedman: list) -> None:
    X, test, y, truth = friedman
    model = FoldingRegressor().fit(X, y)
    straight = Ridge().fit(X, y).score(test, truth)
    assert (model.partition_, len(model.offsets_) > 1) == ("inputs", True)
    assert model.score(test, truth) > straight + 0.03


def test_clusters_of_outputs_answer_with_their_means(friedman: list) -> None:
    X, test, y, truth = friedman
    model = FoldingRegressor("outputs", 10).fit(X, y)
    assert not model.weights_.any()
    assert np.all(np.diff(model.offsets_[:, 0]) > 0.0)
    assert model.score(test, truth) > 0.5
    nearest = FoldingRegressor("outputs", 10, n_nearest=1).fit(X, y)
    assert set(nearest.predict(test).round(9)) <= set(nearest.offsets_[:, 0].round(9))


def test_one_cluster_is_a_ridge_regression(friedman: list) -> None:
    X, test, y, truth = friedman
    model = FoldingRegressor("inputs", 1).fit(X, y)
    assert abs(model.score(test, truth) - Ridge().fit(X, y).score(test, truth)) < 0.02


def test_several_outputs_are_mixed_by_the_same_shares(friedman: list) -> None:
    X, test, y, truth = friedman
    both = FoldingRegressor("outputs").fit(X, np.column_stack([y, -2.0 * y])).predict(test)
    assert both.shape == (len(test), 2)
    np.testing.assert_allclose(both[:, 1], -2.0 * both[:, 0], rtol=1e-6)
    assert np.corrcoef(both[:, 0], truth)[0, 1] > 0.7


def test_intervals_hold_about_the_stated_share(friedman: list) -> None:
    X, test, y, truth = friedman
    low, high = FoldingRegressor().fit(X, y).predict_interval(test, 0.8).T
    assert abs(np.mean((low <= truth) & (truth <= high)) - 0.8) < 0.1
    two = FoldingRegressor().fit(X[:100], np.column_stack([y, y])[:100])
    with pytest.raises(InvalidInputError, match="one output"):
        two.predict_interval(test)


def test_distance_of_an_answer_is_small_near_the_rows_only(friedman: list) -> None:
    X, test, y, _ = friedman
    model = FoldingRegressor().fit(X, y)
    near, _ = model.answers(test)
    far, outputs = model.answers(test + 20.0)
    assert near.max() < far.min() <= far.max() <= 1.0
    assert y.min() <= outputs.min() <= outputs.max() <= y.max()


@pytest.mark.parametrize("compact", [False, True])
def test_file_holds_the_whole_regressor(friedman: list, tmp_path: Path, compact: bool) -> None:
    X, test, y, _ = friedman
    model = FoldingRegressor("inputs", 4).fit(X[:200], y[:200])
    io.save(model, tmp_path / "model", compact=compact)
    loaded = io.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    np.testing.assert_array_equal(loaded.predict_interval(test), model.predict_interval(test))
    content = io.to_bytes(model, compact=compact)
    for name in ("offsets_", "weights_", "_ranges", "preparation_/scale"):
        with pytest.raises(FileFormatError):
            io.from_bytes(with_array(content, name, lambda array: array[:-1]))


@pytest.mark.parametrize(
    "given", [{"partition": "pairs"}, {"n_clusters": 0}, {"power": np.nan}, {"n_nearest": 0}]
)
def test_parameters_that_make_no_sense_are_refused(given: dict) -> None:
    with pytest.raises(InvalidInputError, match="must be"):
        FoldingRegressor(**given).fit(np.eye(5), np.arange(5))


@pytest.mark.parametrize("model", [FoldingRegressor(), DeepFuzzyModel(), MembershipMapping()])
def test_outputs_that_are_texts_are_refused_without_one(model: Any) -> None:
    with pytest.raises(InvalidInputError, match="y must hold") as caught:
        model.fit(np.eye(2)[[0, 1] * 30], ["SECRETa", "b"] * 30)
    assert "SECRET" not in str(caught.value)
