"""The global classifier: the documents' rule, and joining and leaving without a trace."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel


@pytest.fixture(scope="module")
def data():
    return load("digits")


@pytest.fixture(scope="module")
def owners(data) -> dict[str, LocalModel]:
    parts = partition(data.y_train, 4, "dirichlet", alpha=0.3, random_state=0)
    names = ["north", "east", "south", "west"]
    return {
        name: LocalModel(FoldingClassifier(n_components=8)).fit(data.X_train[rows], data.y_train[rows])
        for name, rows in zip(names, parts, strict=True)
    }


def _federation(owners: dict[str, LocalModel], *names: str) -> GlobalClassifier:
    server = GlobalClassifier()
    for name in names:
        server.add(name, owners[name])
    return server


def test_prediction_equals_the_rule_of_the_document(data, owners) -> None:
    """000 eq. 104: argmin over classes of the minimum over clients, by loops."""
    server = _federation(owners, *owners)
    queries = data.X_test[:100]
    answers = [(model.classes_.tolist(), model.answers(queries)) for model in owners.values()]
    for i, label in enumerate(server.predict(queries)):
        best, smallest = None, np.inf
        for c in server.classes_:
            for own, values in answers:
                if c in own and values[i, own.index(c)] < smallest:
                    best, smallest = c, values[i, own.index(c)]
        assert label == best


@pytest.mark.exact
def test_site_that_left_changes_no_bit(data, owners) -> None:
    everyone = _federation(owners, *owners)
    for gone in owners:
        rest = [name for name in owners if name != gone]
        from_scratch = _federation(owners, *rest).measures(data.X_test)
        np.testing.assert_array_equal(everyone.remove(gone).measures(data.X_test), from_scratch)
        everyone.add(gone, owners[gone])
    np.testing.assert_array_equal(
        everyone.predict(data.X_test), _federation(owners, *owners).predict(data.X_test)
    )


@pytest.mark.exact
def test_the_order_of_joining_does_not_matter(data, owners) -> None:
    first = _federation(owners, *owners).measures(data.X_test[:20])
    for names in itertools.permutations(owners):
        np.testing.assert_array_equal(_federation(owners, *names).measures(data.X_test[:20]), first)


def test_federation_of_one_site_equals_its_model(data, owners) -> None:
    alone = owners["north"]
    predicted = _federation(owners, "north").predict(data.X_test)
    np.testing.assert_array_equal(predicted, alone.estimator_.predict(data.X_test))


def test_answers_may_be_added_instead_of_models(data, owners) -> None:
    """Whether the server holds models or answers: the same decisions."""
    classes = np.arange(10)
    expected = _federation(owners, *owners).predict(data.X_test)
    answers = {name: model.answers(data.X_test, classes) for name, model in owners.items()}
    server = GlobalClassifier(classes=classes)
    for name, array in answers.items():
        server.add(name, array)
    np.testing.assert_array_equal(server.predict(), expected)
    server.remove("east").add("east", owners["east"])
    np.testing.assert_array_equal(server.predict(data.X_test), expected)


def test_sites_with_whole_classes_equal_the_pooled_model(data) -> None:
    """000 Sec. 6.3, scenario 1: when no class is shared the federation is the pooled classifier."""
    estimator = AutoencoderClassifier(WideKAHM(n_components=8, n_layers=2, branch_size=1000))
    server = GlobalClassifier()
    for number, classes in enumerate([(0, 1, 2), (3,), (4, 5, 6, 7), (8, 9)]):
        mine = np.isin(data.y_train, classes)
        server.add(number, LocalModel(estimator).fit(data.X_train[mine], data.y_train[mine]))
    pooled = LocalModel(estimator).fit(data.X_train, data.y_train)
    np.testing.assert_allclose(server.measures(data.X_test), pooled.answers(data.X_test), rtol=1e-6)
    np.testing.assert_array_equal(server.predict(data.X_test), pooled.estimator_.predict(data.X_test))


def test_sites_with_whole_batches_equal_the_pooled_folding_classifier(data) -> None:
    """004 eq. 122: minima over batches and over owners are one minimum."""
    rows = np.concatenate([np.flatnonzero(data.y_train == c)[:100] for c in range(10)])
    X, y = data.X_train[rows], data.y_train[rows]
    estimator = FoldingClassifier(n_components=6, batch_size=50)
    server = GlobalClassifier()
    for owner in range(2):
        mine = np.concatenate([np.flatnonzero(y == c)[50 * owner : 50 * owner + 50] for c in range(10)])
        server.add(owner, LocalModel(estimator).fit(X[mine], y[mine]))
    pooled = LocalModel(estimator).fit(X, y)
    np.testing.assert_allclose(server.measures(data.X_test), pooled.answers(data.X_test), rtol=1e-6)


def test_class_leaves_with_its_only_site(data) -> None:
    server = GlobalClassifier()
    for number, classes in enumerate([(0, 1), (1, 2)]):
        mine = np.isin(data.y_train, classes)
        model = LocalModel(FoldingClassifier(n_components=5)).fit(data.X_train[mine], data.y_train[mine])
        server.add(number, model)
    assert server.classes_.tolist() == [0, 1, 2]
    assert server.remove(1).classes_.tolist() == [0, 1]
    assert set(server.predict(data.X_test)) == {0, 1}
    assert server.clients == (0,)


def test_models_that_cannot_be_compared_are_refused(data) -> None:
    X, y = data.X_train[:200], data.y_train[:200]
    server = GlobalClassifier().add("a", LocalModel(FoldingClassifier(n_components=4)).fit(X, y))
    with pytest.raises(InvalidInputError, match="same measure"):
        server.add("b", LocalModel(FoldingClassifier(n_components=4, measure="max")).fit(X, y))
    with pytest.raises(InvalidInputError, match="different scales"):
        server.add("b", LocalModel(FoldingClassifier(n_components=4, scale=2.0)).fit(X, y))
    # The distance has the units of the data, so its scale may differ.
    distances = GlobalClassifier()
    for scale in (1.0, 2.0):
        estimator = FoldingClassifier(n_components=4, measure="euclidean", scale=scale)
        distances.add(scale, LocalModel(estimator).fit(X, y))
    assert len(distances.predict(data.X_test)) == len(data.X_test)


def test_invalid_calls_are_refused(data, owners) -> None:
    with pytest.raises(InvalidInputError, match="rule"):
        GlobalClassifier(rule="magic")
    with pytest.raises(InvalidInputError, match="distinct"):
        GlobalClassifier(classes=[1, 1])
    server = _federation(owners, "north")
    with pytest.raises(InvalidInputError, match="takes part already"):
        server.add("north", owners["north"])
    with pytest.raises(InvalidInputError, match="no site"):
        server.remove("nobody")
    with pytest.raises(InvalidInputError, match="constructor's classes"):
        server.add("answers", np.zeros((2, 10)))
    with pytest.raises(InvalidInputError, match="pass X"):
        server.predict()
    with pytest.raises(InvalidInputError, match="no site takes part"):
        server.remove("north").predict(data.X_test)
    with pytest.raises(InvalidInputError, match="classes are unknown"):
        server.classes_  # noqa: B018
    with pytest.raises(NotFittedError):
        server.add("new", LocalModel())


def test_answers_of_the_wrong_shape_or_value_are_refused() -> None:
    server = GlobalClassifier(classes=["a", "b"]).add("one", [[0.1, 0.2], [0.3, 0.1]])
    assert server.predict().tolist() == ["a", "b"]
    for bad in ([[0.1, np.nan]], [[0.1, -1.0]], [[0.1, 0.2, 0.3]], [0.1, 0.2]):
        with pytest.raises(InvalidInputError):
            server.add("two", bad)
    assert server.clients == ("one",)
    server.add("two", [[0.1, 0.2]])
    with pytest.raises(InvalidInputError, match="different numbers"):
        server.predict()


def test_a_model_with_a_foreign_class_is_refused(data) -> None:
    model = LocalModel(FoldingClassifier(n_components=4)).fit(data.X_train[:200], data.y_train[:200])
    with pytest.raises(InvalidInputError, match="not among the classes"):
        GlobalClassifier(classes=[0, 1]).add("a", model)


def overlapping(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    X = rng.normal(size=(n_rows, 4))
    X[np.arange(n_rows), y] += 1.6
    return X, y


def test_probabilities_are_calibrated_and_follow_joining_and_leaving() -> None:
    server = GlobalClassifier()
    with pytest.raises(InvalidInputError, match="call calibrate"):
        server.predict_proba(np.zeros((1, 4)))
    for number in range(3):
        server.add(number, LocalModel(FoldingClassifier(4, 30, scale=0.3)).fit(*overlapping(120, number)))
    server.calibrate(*overlapping(300, 7))
    queries, truth = overlapping(600, 8)
    before = server.predict_proba(queries)
    np.testing.assert_allclose(before.sum(axis=1), 1.0)
    np.testing.assert_array_equal(before.argmax(axis=1), server.predict(queries))
    assert abs(before.max(axis=1).mean() - np.mean(server.predict(queries) == truth)) < 0.07
    covered = server.uncertainty_.prediction_sets(server.measures(queries), 0.1)
    assert 0.85 < covered[np.arange(600), truth].mean() < 0.95
    server.remove(2)
    alone = GlobalClassifier().add(0, server._members[0]).add(1, server._members[1])
    expected = alone.calibrate(*overlapping(300, 7)).predict_proba(queries)
    np.testing.assert_array_equal(server.predict_proba(queries), expected)
    assert not np.array_equal(before, expected)
