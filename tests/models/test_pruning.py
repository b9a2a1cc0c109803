"""Predicting without folding by every machine: the answers of folding by all, from fewer foldings."""

import numpy as np
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.models import _pruning
from onefold.models._layers import LayeredStack

Table = tuple[np.ndarray, np.ndarray, np.ndarray]


def clouds(n_classes: int = 12, per_class: int = 40, n_features: int = 90, apart: float = 1.0) -> Table:
    rng = np.random.default_rng(5)
    y = np.repeat(np.arange(n_classes), per_class)
    centres = apart * rng.normal(size=(n_classes, n_features))
    X = centres[y] + rng.normal(size=(len(y), n_features))
    queries = centres[rng.integers(n_classes, size=300)] + 1.5 * rng.normal(size=(300, n_features))
    return X, y, queries


def by_folding_with_all(model: FoldingClassifier | AutoencoderClassifier, queries: np.ndarray) -> np.ndarray:
    return np.asarray(model.classes_[model.distances(queries).argmin(axis=1)])


@pytest.mark.parametrize("measure", ["euclidean", "rms", "product", "min", "max"])
@pytest.mark.parametrize("apart", [0.0, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predictions_are_those_of_folding_by_all(measure: str, apart: float, dtype: type) -> None:
    X, y, queries = clouds(apart=apart)
    model = FoldingClassifier(batch_size=10, measure=measure, scale="auto").fit(X.astype(dtype), y)
    queries = queries.astype(dtype)
    np.testing.assert_array_equal(model.predict(queries), by_folding_with_all(model, queries))


@pytest.mark.parametrize("name", ["far", "zero", "shifted", "constant", "samples", "tiny", "huge"])
def test_of_unusual_queries_too(name: str) -> None:
    X, y, queries = clouds()
    shift = 1e4 if name == "shifted" else 0.0
    model = FoldingClassifier(batch_size=10, scale="auto").fit(X + shift, y)
    queries = {
        "far": queries * 1e8,
        "zero": np.zeros((3, X.shape[1])),
        "shifted": queries + shift,
        "constant": np.ones((3, X.shape[1])),
        "samples": X,
        "tiny": queries * 1e-200,
        "huge": queries * 1e200,
    }[name]
    np.testing.assert_array_equal(model.predict(queries), by_folding_with_all(model, queries))


@pytest.mark.parametrize("shorter", [1.0, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_image_is_nearer_or_at_a_smaller_angle_than_its_bound(shorter: float, dtype: type) -> None:
    X, y, queries = clouds(n_features=30)
    model = FoldingClassifier(batch_size=10, measure="rms", scale="auto").fit((X + 10.0).astype(dtype), y)
    rows = (shorter * queries).astype(dtype)
    search = _pruning._Search(model.pool_, rows, "rms", np.dtype(dtype))
    for stack, view, bounds in zip(search.stacks, search.views, search.bounds, strict=True):
        folding = stack.fold_view(view, angles=True)
        assert (bounds.distance2 <= folding.distance2).all()
        assert (bounds.cosine >= np.cos(np.pi * folding.angle)).all()


@pytest.mark.parametrize("shift", [0.0, 10.0, 1e4])
@pytest.mark.parametrize("shorter", [1.0, 1e-3, 1e-7])
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e4])
def test_bounds_of_half_the_digits_hold_too(shift: float, shorter: float, unit: float) -> None:
    X, y, queries = clouds(n_features=30)
    model = FoldingClassifier(batch_size=10, measure="rms", scale=1.0).fit(unit * (X + shift), y)
    rows = shorter * unit * (queries + shift)
    search = _pruning._Search(model.pool_, rows, "rms", np.dtype(np.float32))
    for stack, bounds in zip(search.stacks, search.bounds, strict=True):
        folding = stack.fold(search.queries, angles=True)
        assert folding.angle is not None
        assert (bounds.distance2 <= folding.distance2).all()
        assert (bounds.cosine >= np.cos(np.pi * folding.angle)).all()


@pytest.mark.parametrize("unit", [1e-30, 1e-19, 1.0, 1e25])  # squared, only 1.0 fits float32 with all digits
@pytest.mark.parametrize("measure", ["euclidean", "rms"])
@pytest.mark.parametrize("apart", [0.3, 4.0])
def test_many_rows_are_searched_with_half_the_digits(
    unit: float, measure: str, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pruning, "WORTH_A_TRIAL", 100)
    X, y, queries = clouds(n_classes=30, apart=apart)
    model = FoldingClassifier(batch_size=20, measure=measure, scale="auto").fit(unit * X, y)
    half = _pruning._dtype_of_bounds(model.pool_, unit * queries, measure) == np.float32
    assert half == (apart > 1.0 and unit == 1.0)
    found = model.predict(unit * queries)
    np.testing.assert_array_equal(found, by_folding_with_all(model, unit * queries))


@pytest.mark.parametrize("measure", ["euclidean", "rms"])
def test_rows_that_half_the_digits_cannot_hold_among_others(
    measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, queries = clouds(n_classes=30, apart=4.0)
    model = FoldingClassifier(batch_size=20, measure=measure, scale="auto").fit(X, y)
    queries[1::7] *= 1e30
    queries[2::7] *= 1e-30
    assert (
        _pruning._dtype_of_bounds(model.pool_, queries[::7], "rms") == np.float64
    )  # too few rows for a trial
    np.testing.assert_array_equal(model.predict(queries), by_folding_with_all(model, queries))


@pytest.mark.parametrize("n_classes", [3, 40])  # few machines are all folded by, of many only pairs
def test_equal_classes(n_classes: int) -> None:
    """Of two classes with the same rows either may win by rounding; nothing else may."""
    X, y, queries = clouds(n_classes, apart=3.0)
    model = FoldingClassifier(batch_size=10, scale="auto").fit(np.vstack([X, X]), np.append(y + 100, y))
    expected = by_folding_with_all(model, queries) % 100
    np.testing.assert_array_equal(model.predict(queries) % 100, expected)


def test_of_equal_values_the_first_group_is_kept() -> None:
    X, y, queries = clouds(n_classes=3)
    model = FoldingClassifier(batch_size=10, scale="auto").fit(X, y)
    owners = model.pool_.owners[0]
    first, last = int(np.flatnonzero(owners == 0)[0]), int(np.flatnonzero(owners == 2)[0])
    for order in ([first, last], [last, first]):
        search = _pruning._Search(model.pool_, queries[:1], "rms", model.pool_.dtype)
        for machine in order:
            search._keep(0, np.array([machine]), np.array([0]), *(np.array([0.5]) for _ in range(3)))
        assert search.group[0] == 0


def test_deep_machines_and_batches_of_unequal_size() -> None:
    X, y, queries = clouds(per_class=43)
    wide = WideKAHM(n_components=6, n_layers=3, branch_size=9, partition="contiguous", scale="auto")
    model = AutoencoderClassifier(wide, measure="rms").fit(X, y)
    assert len(model.pool_.stacks) > 1
    np.testing.assert_array_equal(model.predict(queries), by_folding_with_all(model, queries))


def test_few_machines_fold_where_classes_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, queries = clouds(apart=2.0)
    model = FoldingClassifier(batch_size=10, scale="auto").fit(X, y)
    folded = []
    original = LayeredStack.fold_view

    def counted(self: LayeredStack, view: _pruning.View, angles: bool = False) -> object:
        folded.append(view.total.size)
        return original(self, view, angles)

    monkeypatch.setattr(LayeredStack, "fold_view", counted)
    model.predict(queries)
    pruned, n_machines = sum(folded), sum(stack.n_machines for stack in model.pool_.stacks)
    folded.clear()
    model.distances(queries)
    assert sum(folded) == n_machines * len(queries)
    assert pruned < 0.2 * sum(folded)


def test_bounds_hold_for_every_image() -> None:
    X, y, queries = clouds(apart=0.5)
    model = FoldingClassifier(batch_size=10, scale="auto").fit(X, y)
    for stack in model.pool_.stacks:
        assert isinstance(stack, LayeredStack)
        bounds = _pruning._bounds(stack, stack.view(queries))
        folding = stack.fold(queries, angles=True)
        assert folding.angle is not None
        assert (bounds.distance2 <= folding.distance2).all()
        assert (bounds.cosine >= np.cos(np.pi * folding.angle)).all()
        # Bounds that told nothing would pass as well: these are within a fifth of the truth.
        assert np.median(bounds.distance2 / folding.distance2) > 0.8


def test_a_smaller_angle_beats_a_smaller_distance() -> None:
    """The nearest hull is folded by first; where distances saturate, a farther machine wins by its angle."""
    rng = np.random.default_rng(2)
    axes = np.eye(60)
    near, far = 30.0 * axes[0] + 20.0 * axes[1], 70.0 * axes[0]
    # Many machines are neither near nor at a small angle: so few are left that only those are folded by.
    centres = np.vstack([near, far, 100.0 * axes[2:40]])
    X, y = np.repeat(centres, 10, axis=0), np.repeat(np.arange(len(centres)), 10)
    X = X + 0.1 * rng.normal(size=X.shape)
    queries = 30.0 * axes[0] + 0.01 * rng.normal(size=(40, 60))
    model = FoldingClassifier(batch_size=10, scale=1.0).fit(X, y)
    assert len(model.pool_.stacks) == 1
    assert (model.predict(queries) == 1).all()
    assert (by_folding_with_all(model, queries) == 1).all()
    plain = FoldingClassifier(batch_size=10, scale=1.0, measure="euclidean").fit(X, y)
    assert (plain.predict(queries) == 0).all()
