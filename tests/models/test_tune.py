"""Settings chosen by held-out rows."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from onefold import AutoencoderClassifier, WideKAHM, io
from onefold.exceptions import InvalidInputError
from onefold.models.preparation import BATCHES, LAMBDAS, _turns, tuned


@pytest.mark.parametrize("batch_size", [20, 150])
def test_distances_at_several_lambdas_are_those_of_a_fit_at_each(batch_size) -> None:
    rng = np.random.default_rng(0)
    X, y, queries = rng.normal(size=(320, 30)), np.arange(320) % 2, rng.normal(size=(20, 30))
    settings = {"n_layers": 1, "branch_size": batch_size, "partition": "contiguous"}
    wide = WideKAHM(**settings)
    pool = AutoencoderClassifier(wide).fit(X, y).pool_
    for lam, found in zip(LAMBDAS, wide.distances_at(pool, queries, LAMBDAS), strict=True):
        fitted = AutoencoderClassifier(WideKAHM(regularisation=lam, **settings)).fit(X, y)
        np.testing.assert_allclose(found, fitted.distances(queries), rtol=1e-9)


def test_tuned_classifier_of_a_table_takes_the_head_and_beats_the_default(tmp_path) -> None:
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))
    train, test = rows[:100], rows[100:]
    default = AutoencoderClassifier().fit(X[train], y[train])
    model = AutoencoderClassifier(tune="auto").fit(X[train], y[train])
    assert model.tuned_["standardised"]
    assert model.tuned_["head"] == "ridge"
    assert model.score(X[test], y[test]) >= max(default.score(X[test], y[test]), 0.95)
    io.save(model, tmp_path / "model", compact=True)
    loaded = io.load(tmp_path / "model")
    assert loaded.tuned_ == model.tuned_
    np.testing.assert_allclose(loaded.predict_proba(X[test]), model.predict_proba(X[test]), atol=1e-9)


def test_tuned_settings_are_among_those_tried_and_used_by_the_machines() -> None:
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))  # digits come writer by writer
    X, y = X[rows], y[rows]
    model = AutoencoderClassifier(tune="auto", head=None).fit(X[:400], y[:400])
    assert model.tuned_["batch_size"] in BATCHES
    assert model.tuned_["regularisation"] in LAMBDAS
    assert not model.tuned_["standardised"]
    assert model.family.branch_size == model.tuned_["batch_size"]
    assert model.machines_[0].branches_[0].lambdas_ == [model.tuned_["regularisation"]]
    assert abs(model.score(X[400:900], y[400:900]) - model.tuned_["accuracy"]) < 0.05


def test_parts_hold_out_the_same_share_of_each_class_and_never_all_of_one() -> None:
    codes = np.repeat([0, 1, 2, 3], [50, 25, 2, 1])
    turn = _turns(codes, 5, np.random.default_rng(0))
    for part in range(5):
        assert np.sum((turn == part) & (codes == 0)) in (9, 10)
        assert set(codes[turn != part]) == {0, 1, 2, 3}
    assert np.sum(turn == -1) == 4


@pytest.mark.parametrize("sizes", [(1, 1), (3, 1), (1,), (2, 40)])
def test_few_rows_are_enough(sizes) -> None:
    codes = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).normal(size=(len(codes), 3))
    size, lam, _ = tuned(X, codes)
    assert size in BATCHES
    assert lam in LAMBDAS
    AutoencoderClassifier(tune="auto").fit(X, codes).predict(X)


def test_tune_is_refused_beside_an_estimator() -> None:
    with pytest.raises(InvalidInputError, match="tune goes without an estimator"):
        AutoencoderClassifier(WideKAHM(), tune="auto").fit(np.eye(4), [0, 0, 1, 1])
