"""Probabilities from folding measures: in order, calibrated in both directions, on rows left out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from onefold import (
    AutoencoderClassifier,
    DeepKAHM,
    FoldingClassifier,
    WideFuzzyAutoencoder,
    WideKAHM,
    WideMembershipAutoencoder,
    io,
)
from onefold.models import MEASURES
from onefold.models.probability import Beliefs, LeftOut, calibrated, softmax


def overlapping(n_rows: int, seed: int, apart: float = 1.6) -> tuple[np.ndarray, np.ndarray]:
    """Three classes in five columns whose rows overlap: about 80 % can be told."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    X = rng.normal(size=(n_rows, 5))
    X[np.arange(n_rows), y] += apart
    return X, np.array(["a", "b", "c"])[y]


def log_loss(probabilities: np.ndarray, codes: np.ndarray) -> float:
    return float(-np.log(probabilities[np.arange(len(codes)), codes]).mean())


@pytest.mark.parametrize("measure", MEASURES)
def test_probabilities_add_up_and_fall_with_the_measure(measure) -> None:
    X, y = overlapping(120, 0)
    model = FoldingClassifier(5, 20, measure, scale="auto").fit(X, y)
    queries = overlapping(100, 1)[0]
    found, distances = model.predict_proba(queries), model.distances(queries)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.min() > 0.0
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(queries))
    np.testing.assert_array_equal(np.argsort(-found, axis=1), np.argsort(distances, axis=1))


@pytest.mark.parametrize(
    "estimator",
    [
        DeepKAHM(3, n_layers=2, scale="auto"),
        WideKAHM(3, n_layers=1, branch_size=30, scale="auto"),
        WideMembershipAutoencoder(3, n_layers=1),
        WideFuzzyAutoencoder(3, n_layers=1),
    ],
)
def test_every_family_has_calibrated_probabilities(estimator) -> None:
    X, y = overlapping(180, 0)
    model = AutoencoderClassifier(estimator).fit(X, y)
    queries, truth = overlapping(600, 1)
    found = model.predict_proba(queries)
    gap = found.max(axis=1).mean() - np.mean(model.classes_[found.argmax(axis=1)] == truth)
    assert abs(gap) < 0.1


@pytest.mark.parametrize("unit", [0.05, 20.0])  # raw exponentials of these distances are unsure, and too sure
def test_calibration_repairs_probabilities_that_are_too_sure_and_too_unsure(unit) -> None:
    X, y = overlapping(400, 0)
    model = FoldingClassifier(5, 50, "euclidean", scale="auto").fit(unit * X, y)
    queries, truth = overlapping(800, 1)
    codes = np.searchsorted(model.classes_, truth)
    raw = softmax(-(model.distances(unit * queries) ** 2))
    found = model.predict_proba(unit * queries)
    right = np.mean(found.argmax(axis=1) == codes)
    too_sure = raw.max(axis=1).mean() - right
    assert too_sure < -0.2 if unit < 1 else too_sure > 0.1
    assert abs(found.max(axis=1).mean() - right) < 0.06
    assert log_loss(found, codes) < log_loss(np.maximum(raw, 1e-9), codes) - 0.1


def test_probabilities_do_not_depend_on_the_unit_of_the_measure() -> None:
    rng = np.random.default_rng(0)
    measures, codes = rng.random((200, 3)), rng.integers(0, 3, 200)
    measures[np.arange(200), codes] *= 0.6
    found = [
        calibrated(unit * measures, codes).probabilities(unit * measures) for unit in (1.0, 1e-150, 1e150)
    ]
    np.testing.assert_allclose(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2])


@pytest.mark.parametrize("power", [0, 1, 2])
def test_calibration_finds_the_law_and_the_sharpness_of_drawn_classes(power) -> None:
    rng = np.random.default_rng(power)
    measures = rng.uniform(0.2, 2.0, size=(4000, 3))
    truth = Beliefs.of(power, 3.0, 1.0, np.zeros((3, 3), dtype=np.int64))
    chances = 2.0 * truth.probabilities(measures) - 1.0 / 3.0  # without the doubt, half and half here
    codes = (rng.random((4000, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    found = calibrated(measures, codes)
    assert np.abs(found.probabilities(measures) - chances).max() < 0.06
    # Half and twice the sharpness are worse: the minimum is one.
    for factor in (0.5, 2.0):
        other = Beliefs.of(found.power, factor * found.sharpness, found.unit, found.confusion)
        assert log_loss(other.probabilities(measures), codes) > log_loss(found.probabilities(measures), codes)


def test_rows_left_out_are_not_seen_by_any_machine() -> None:
    """Labels by chance: a machine that had seen the row would know it, and probabilities would be sure."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 30)), rng.integers(0, 2, 400)
    model = FoldingClassifier(20, 50, "euclidean", scale=1e-3).fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.9
    assert 0.38 < model.cross_validated_["accuracy"] < 0.62
    assert model.predict_proba(rng.normal(size=(200, 30))).max(axis=1).mean() < 0.65


def test_estimated_accuracy_is_that_of_new_rows() -> None:
    X, y = overlapping(450, 0)
    model = FoldingClassifier(5, 30, scale="auto").fit(X, y)
    assert model.cross_validated_["rows"] == 450
    assert abs(model.cross_validated_["accuracy"] - model.score(*overlapping(2000, 3))) < 0.06


def test_many_rows_are_calibrated_on_a_few_thousand_of_all_classes() -> None:
    y = np.repeat(np.arange(4), 5000)
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    kept = LeftOut.of(X, y, np.tile(np.repeat(np.arange(100), 50), 4))
    assert 4900 <= len(kept.rows) <= 5000
    assert np.bincount(kept.codes).min() >= 1200
    assert len(LeftOut.of(np.zeros((2000, 20_000)), y[::10], np.zeros(2000, dtype=int)).rows) <= 500


def test_file_keeps_probabilities_and_no_more_rows(tmp_path) -> None:
    X, y = overlapping(200, 0)
    model = FoldingClassifier(5, 20, scale="auto").fit(X, y)
    io.save(model, tmp_path / "m.onefold")
    loaded = io.load(tmp_path / "m.onefold")
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(loaded.cross_validated_["confusion"], model.cross_validated_["confusion"])
    assert len(loaded.left_out_.rows) == 0
    io.save(loaded, tmp_path / "again.onefold")
    np.testing.assert_allclose(io.load(tmp_path / "again.onefold").predict_proba(X), loaded.predict_proba(X))


def test_machines_without_calibration_have_no_probabilities() -> None:
    model = FoldingClassifier(5, 20).fit_checked(*overlapping(60, 0))
    assert not hasattr(model, "predict_proba")


def test_classes_of_one_row_get_unsure_probabilities() -> None:
    model = FoldingClassifier().fit([[0.0, 0.1], [1.0, 0.9], [0.5, 2.0]], ["a", "b", "c"])
    found = model.predict_proba([[0.0, 0.1]])
    assert model.predict([[0.0, 0.1]]) == ["a"]
    assert found.argmax() == 0
    assert found.max() <= 2.0 / 3.0


def test_rows_far_away_and_copies_get_finite_probabilities() -> None:
    X, y = overlapping(120, 0)
    model = FoldingClassifier(5, 20, "euclidean", scale="auto").fit(np.vstack([X, X]), np.append(y, y))
    found = model.predict_proba(np.vstack([X[:1], np.full((1, 5), 1e200), np.zeros((1, 5))]))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_fit_anew_forgets_the_calibration_of_earlier_rows() -> None:
    X, y = overlapping(60, 0)
    model = FoldingClassifier(5, 20, scale="auto").fit(X, y)
    before = model.predict_proba(X)
    model.fit(X, np.roll(y, 1))
    fresh = clone(model).fit(X, np.roll(y, 1))
    np.testing.assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
    assert not np.allclose(model.predict_proba(X), before)
