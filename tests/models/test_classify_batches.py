"""Fitting in given batches, and fitting again with what is known already."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.models import StackMemory

CLASSIFIERS = [
    FoldingClassifier(n_components=3, batch_size=10),
    AutoencoderClassifier(WideKAHM(n_components=3, branch_size=12, random_state=0)),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.random((90, 6)), rng.integers(0, 3, 90), rng.random((20, 6))


@pytest.mark.exact
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_batches_of_a_fit_reproduce_it(data, classifier) -> None:
    X, y, queries = data
    fitted = classifier.fit(X, y)
    expected, batches = fitted.distances(queries), fitted.batches_.copy()
    np.testing.assert_array_equal(classifier.divide(X, y, np.arange(90)), batches)
    np.testing.assert_array_equal(classifier.fit_checked(X, y, batches).distances(queries), expected)
    sizes = [np.bincount(batches[y == c]) for c in range(3)]
    assert all(np.all(size > 0) for size in sizes)  # numbered from zero, without gaps


def test_each_batch_is_fitted_alone(data) -> None:
    """One machine per batch: the minimum of classifiers fitted to one batch each."""
    X, y, queries = data
    batches = np.random.default_rng(1).integers(0, 2, 90) * 7 - 3  # any two numbers
    whole = FoldingClassifier(n_components=3, batch_size=1000).fit_checked(X, y, batches)
    assert sorted(set(whole.batches_)) == [0, 1]
    parts = [
        FoldingClassifier(n_components=3, batch_size=1000)
        .fit(X[batches == b], y[batches == b])
        .distances(queries)
        for b in (-3, 4)
    ]
    np.testing.assert_allclose(whole.distances(queries), np.minimum(*parts), rtol=1e-9)


@pytest.mark.exact
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_known_batches_are_not_fitted_again(data, classifier) -> None:
    X, y, queries = data
    memory = StackMemory()
    batches = classifier.fit_checked(X, y, memory=memory).batches_
    machines = memory.n_fitted
    assert memory.n_kept == 0
    classifier.fit_checked(X, y, batches, memory)
    assert (memory.n_fitted, memory.n_kept) == (0, machines)
    keep = np.arange(90) != np.flatnonzero(y == 2)[-1]
    classifier.fit_checked(X[keep], y[keep], batches[keep], memory)
    assert 0 < memory.n_fitted < machines
    fresh = classifier.fit_checked(X[keep], y[keep], batches[keep]).distances(queries)
    classifier.fit_checked(X[keep], y[keep], batches[keep], memory)
    assert memory.n_fitted == 0
    np.testing.assert_array_equal(classifier.distances(queries), fresh)


def test_batches_of_other_settings_are_not_used(data) -> None:
    X, y, queries = data
    memory = StackMemory()
    FoldingClassifier(n_components=3, batch_size=10).fit_checked(X, y, memory=memory)
    other = FoldingClassifier(n_components=2, batch_size=10).fit_checked(X, y, memory=memory)
    assert memory.n_kept == 0
    fresh = FoldingClassifier(n_components=2, batch_size=10).fit(X, y)
    np.testing.assert_array_equal(other.distances(queries), fresh.distances(queries))
    FoldingClassifier(n_components=2, batch_size=10).fit_checked(X.astype(np.float32), y, memory=memory)
    assert memory.n_kept == 0
