"""A few rows are asked of all machines side by side: the same answers, no more calls for more machines."""

import pickle
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.models.folding import MEASURES

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


@pytest.mark.parametrize("n_features", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("measure", [name for name in MEASURES if name != "joined"])
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
    model = FoldingClassifier(measure="euclidean").fit_batches(X[:480], y[:480], batches[:480])
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
