"""A few rows are asked of all machines side by side: the same answers, no more calls for more machines."""

import pickle
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.models.folding import MEASURES
from tiers import thinned

SHAPES = {"fewer columns than samples": 6, "more columns": 90, "both": 30}


def rows_of_classes(n_rows: int, n_features: int, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n_rows)
    mixing = rng.normal(size=(3, n_features, n_features)) / np.sqrt(n_features)
    X = np.einsum("np,npq->nq", rng.normal(size=(n_rows, n_features)), mixing[y]) + y[:, None]
    return X.astype(dtype), y


def classifier(measure: str, partition: str = "contiguous") -> AutoencoderClassifier:
    machine = WideKAHM(
        n_components=10, n_layers=1, branch_size=30, partition=partition, scale="auto", random_state=0
    )
    return AutoencoderClassifier(machine, measure)


@pytest.mark.parametrize(("measure", "n_features"), thinned(MEASURES, SHAPES.values()))
def test_single_rows_have_the_measures_of_a_block(n_features: int, measure: str) -> None:
    X, y = rows_of_classes(400, n_features)
    model = classifier(measure, "kmeans").fit(X[:350], y[:350])
    block = model.distances(X[350:])
    single = np.concatenate([model.distances(row[None]) for row in X[350:]])
    np.testing.assert_allclose(single, block, rtol=1e-7, atol=1e-8)
    nearest = np.concatenate([model.predict(row[None]) for row in X[350:]])
    assert np.array_equal(nearest, model.predict(X[350:]))


def test_float32_rows_have_the_measures_of_a_block_to_its_precision() -> None:
    X, y = rows_of_classes(400, 90, np.float32)
    model = classifier("euclidean").fit(X[:350], y[:350])
    single = np.concatenate([model.distances(row[None]) for row in X[350:]])
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, model.distances(X[350:]), rtol=1e-3)


KINDS = {
    "a large offset": lambda X, y: X + 1e6,
    "classes far apart": lambda X, y: X + 1e4 * y[:, None],
    "classes of all sizes": lambda X, y: X * np.array([1e-29, 1e-8, 1e12])[y, None],
    "columns of all sizes": lambda X, y: X * np.logspace(0, -5, X.shape[1]),
    "tiny spreads": lambda X, y: 1.0 + 1e-9 * X,
    "tiny": lambda X, y: 1e-25 * X,
    "huge": lambda X, y: 1e25 * X,
    "mostly zeros": lambda X, y: np.where(X > 1.5, X, 0.0),
    "equal rows": lambda X, y: X[np.arange(len(X)) // 16 * 16],
    "classes of one row each": lambda X, y: X[y] + (np.arange(len(X)) >= 300)[:, None],
}


@pytest.mark.parametrize("kind", KINDS)
def test_single_rows_of_unusual_data_have_the_nearest_class_of_a_block(kind: str) -> None:
    for n_features in SHAPES.values():
        X, y = rows_of_classes(320, n_features)
        X = KINDS[kind](X, y)
        model = classifier("euclidean").fit(X[:300], y[:300])
        away = X[-1] + (X[-1] - X[0]) * np.logspace(0, 11, 12)[:, None]
        rows = np.concatenate([X[300:308], X[:3], away])
        single = np.concatenate([model.predict(row[None]) for row in rows])
        block = model.distances(rows)
        chosen = block[np.arange(len(rows)), np.searchsorted(model.classes_, single)]
        # Another class only where rounding decides: distances come from squares around a common origin.
        size = np.ptp(X, axis=0).max()
        np.testing.assert_allclose(chosen, block.min(axis=1), rtol=1e-7, atol=1e-7 * size)


@pytest.mark.parametrize(("n_features", "measure"), list(zip((6, 30, 90, 6, 30, 90), MEASURES, strict=True)))
def test_first_of_equal_classes_is_the_nearest(n_features: int, measure: str) -> None:
    X, y = rows_of_classes(200, n_features)
    model = FoldingClassifier(batch_size=25, measure=measure)
    model.fit(np.concatenate([X[:150], X[:150]]), np.concatenate([y[:150], y[:150] + 3]))
    single = np.concatenate([model.predict(row[None]) for row in X[150:]])
    assert single.max() < 3
    assert np.array_equal(single, model.predict(X[150:]))


@pytest.mark.parametrize("factor", [1e4, 1e90, 1e200, 0.0])
def test_single_rows_far_away_have_the_measures_of_a_block(factor: float) -> None:
    X, y = rows_of_classes(400, 20)
    model = FoldingClassifier(batch_size=30).fit(X[:350], y[:350])
    rows = X[350:] * factor
    single = np.concatenate([model.distances(row[None]) for row in rows])
    np.testing.assert_allclose(single, model.distances(rows), rtol=1e-7, atol=1e-7)


def test_large_machines_are_asked_besides_the_small_ones() -> None:
    X, y = rows_of_classes(500, 250)
    y = np.where(np.arange(500) < 200, 0, 1 + y % 2)  # one class has a machine too large to be stacked
    batches = np.where(y == 0, 0, np.arange(500) // 40)
    model = FoldingClassifier(measure="euclidean").fit_checked(X[:480], y[:480], batches[:480])
    assert {stack.hull.lift is None for stack in model.pool_.stacks} == {True, False}
    single = np.concatenate([model.distances(row[None]) for row in X[480:]])
    np.testing.assert_allclose(single, model.distances(X[480:]), rtol=1e-7)


def test_what_single_rows_need_is_not_pickled() -> None:
    X, y = rows_of_classes(200, 6)
    model = classifier("euclidean").fit(X, y)
    before = pickle.dumps(model)
    model.predict(X[:1])
    assert len(pickle.dumps(model)) == len(before)


def calls(model: AutoencoderClassifier, row: np.ndarray) -> int:
    """Functions that a prediction calls, of Python and of C."""
    model.predict(row)
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        model.predict(row)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("n_features", [6, 90])
def test_single_rows_take_no_more_calls_for_more_machines(n_features: int) -> None:
    """What a query costs beside its arithmetic; seconds would depend on the machine."""
    X, y = rows_of_classes(4000, n_features)
    few, many = (classifier("euclidean").fit(X[:size], y[:size]) for size in (400, 4000))
    one = calls(few, X[:1])
    assert one < 400
    assert calls(many, X[:1]) < 1.5 * one + 100
