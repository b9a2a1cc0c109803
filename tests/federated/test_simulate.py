"""The whole federation in one process."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel, simulate

ESTIMATOR = AutoencoderClassifier(WideKAHM(n_components=10, n_layers=2))


@pytest.fixture(scope="module")
def data():
    return load("digits")


def test_owners_of_few_classes_gain_by_joining(data) -> None:
    result = simulate(
        data.X_train,
        data.y_train,
        5,
        "classes",
        estimator=ESTIMATOR,
        X_test=data.X_test,
        y_test=data.y_test,
        classes_per_client=3,
        random_state=0,
    )
    assert len(result.alone) == 5
    assert max(result.alone) < 0.35  # three classes of ten
    assert result.federated > 0.93
    assert abs(result.federated - result.pooled) < 0.03
    assert result.class_counts.shape == (5, 10)
    assert result.class_counts.sum() == len(data.y_train)
    assert np.all((result.class_counts > 0).sum(axis=1) <= 3)
    assert result.n_test == len(data.y_test)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.pooled = 1.0  # type: ignore[misc]


def test_the_numbers_are_those_of_the_parts(data) -> None:
    """Against the same steps by hand, with a measure whose missing class answers 1."""
    estimator = FoldingClassifier(n_components=8)
    owners = partition(data.y_train, 3, "dirichlet", alpha=0.2, random_state=4)
    result = simulate(
        data.X_train,
        data.y_train,
        3,
        "dirichlet",
        estimator=estimator,
        X_test=data.X_test,
        y_test=data.y_test,
        alpha=0.2,
        random_state=4,
    )
    server = GlobalClassifier()
    for number, rows in enumerate(owners):
        model = LocalModel(estimator).fit(data.X_train[rows], data.y_train[rows])
        assert result.alone[number] == np.mean(model.estimator_.predict(data.X_test) == data.y_test)
        assert result.class_counts[number].tolist() == np.bincount(data.y_train[rows], minlength=10).tolist()
        server.add(number, model)
    assert result.federated == np.mean(server.predict(data.X_test) == data.y_test)
    pooled = FoldingClassifier(n_components=8).fit(data.X_train, data.y_train)
    assert result.pooled == pooled.score(data.X_test, data.y_test)


def test_without_a_test_part_a_quarter_is_set_aside(data) -> None:
    labels = np.array(list("abcdefghij"))[data.y_train[:400]]
    result = simulate(
        data.X_train[:400], labels, 2, estimator=FoldingClassifier(n_components=5), random_state=0
    )
    assert abs(result.n_test - 100) <= 5
    assert result.class_counts.sum() == 400 - result.n_test
    assert result.classes.tolist() == list("abcdefghij")
    assert result.federated > 0.8


def test_the_same_seed_gives_the_same_result(data) -> None:
    runs = [
        simulate(
            data.X_train[:300],
            data.y_train[:300],
            3,
            "dirichlet",
            estimator=FoldingClassifier(n_components=4),
            random_state=seed,
        )
        for seed in (1, 1, 2)
    ]
    assert runs[0].alone == runs[1].alone
    assert runs[0].federated == runs[1].federated
    np.testing.assert_array_equal(runs[0].class_counts, runs[1].class_counts)
    assert not np.array_equal(runs[0].class_counts, runs[2].class_counts)


def test_owners_given_by_row_numbers(data) -> None:
    X, y = data.X_train[:300], data.y_train[:300]
    parts = [np.arange(0, 100), np.arange(100, 250)]
    options = {
        "X_test": data.X_test,
        "y_test": data.y_test,
        "estimator": FoldingClassifier(n_components=4),
    }
    result = simulate(X, y, 2, parts, **options)
    assert result.class_counts.sum(axis=1).tolist() == [100, 150]
    pooled = FoldingClassifier(n_components=4).fit(X[:250], y[:250])
    assert result.pooled == pooled.score(data.X_test, data.y_test)
    for bad in ([parts[0]], [parts[0], []], [parts[0], [400]], [parts[0], [-1]], [parts[0], [0.5]]):
        with pytest.raises(InvalidInputError):
            simulate(X, y, 2, bad, **options)
    with pytest.raises(InvalidInputError, match="options"):
        simulate(X, y, 2, parts, alpha=0.1, **options)


def test_owners_at_different_scales_are_refused(data) -> None:
    estimator = FoldingClassifier(n_components=4, scale="auto")
    with pytest.raises(InvalidInputError, match="different scales"):
        simulate(data.X_train, data.y_train, 3, "classes", estimator=estimator, classes_per_client=4)


def test_features_and_labels_of_the_test_part_go_together(data) -> None:
    with pytest.raises(InvalidInputError, match="go together"):
        simulate(data.X_train, data.y_train, 2, X_test=data.X_test)
