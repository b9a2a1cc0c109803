"""The classifiers against the literal rules: 000 eq. 62-63, 004 eq. 102-104 and 119-122."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onefold import KAHM, AutoencoderClassifier, DeepKAHM, FoldingClassifier, WideKAHM
from reference import folding
from reference import kahm as literal
from tiers import thinned

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    X, y = data.data / 16.0, data.target
    keep = np.isin(y, [1, 4, 7, 8])
    X, y = X[keep], y[keep]
    return X[:150], y[:150], X[150:190], y[150:190]


@pytest.fixture(scope="module")
def literal_deep(digits):
    X, y, _, _ = digits
    return [literal.fit_deep(X[y == c], 6, 3) for c in np.unique(y)]


@pytest.mark.parametrize("measure", folding.MEASURES)
def test_classifier_of_deep_machines_equals_the_document(measure: str, digits, literal_deep) -> None:
    X, y, queries, _ = digits
    model = AutoencoderClassifier(
        DeepKAHM(n_components=6, n_layers=3, regularisation="documented"), measure=measure
    ).fit(X, y)
    expected = np.array(
        [[folding.measure(x, literal.deep_image(deep, x), measure) for deep in literal_deep] for x in queries]
    )
    np.testing.assert_allclose(model.distances(queries), expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(model.classes_, [1, 4, 7, 8])
    rule = [model.classes_[literal.classify(row)] for row in expected]
    np.testing.assert_array_equal(model.predict(queries), rule)
    np.testing.assert_allclose(model.decision_function(queries), -expected, rtol=0, atol=1e-6)
    assert len(model.machines_) == 4


def test_matching_score_equals_the_document(digits, literal_deep) -> None:
    X, y, queries, _ = digits
    model = AutoencoderClassifier(DeepKAHM(n_components=6, n_layers=3, regularisation="documented")).fit(X, y)
    expected = np.array(
        [literal.matching_score([literal.deep_distance(deep, x) for deep in literal_deep]) for x in queries]
    )
    scores = model.matching_score(queries)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(queries))


@pytest.mark.parametrize("measure", folding.MEASURES)
def test_classifier_of_wide_machines_equals_the_document(measure: str, digits) -> None:
    """The class value is the minimum over the branches of the class (004 eq. 121)."""
    X, y, queries, _ = digits
    wide = WideKAHM(
        n_components=5, n_layers=2, branch_size=12, partition="contiguous", regularisation="documented"
    )
    model = AutoencoderClassifier(wide, measure=measure).fit(X, y)
    expected = []
    for c in np.unique(y):
        rows = X[y == c]
        branches = literal.fit_wide(rows, folding.contiguous_batches(len(rows), 12), 5, 2)
        assert len(branches) > 1
        expected.append([folding.wide_minimum(branches, x, measure) for x in queries])
    np.testing.assert_allclose(model.distances(queries), np.transpose(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("measure", "batch_size"), thinned(folding.MEASURES, [9, 20, 100]))
def test_folding_classifier_equals_the_document(batch_size: int, measure: str, digits) -> None:
    X, y, queries, _ = digits
    model = FoldingClassifier(
        n_components=7, batch_size=batch_size, measure=measure, regularisation="documented"
    ).fit(X, y)
    machines = [folding.fit_batches(X[y == c], batch_size, 7) for c in np.unique(y)]
    expected = np.array([[folding.batch_minimum(c, x, measure) for c in machines] for x in queries])
    np.testing.assert_allclose(model.distances(queries), expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(
        model.predict(queries), [model.classes_[literal.classify(row)] for row in expected]
    )


def test_folding_classifier_with_unequal_classes_equals_the_document(rng: np.random.Generator) -> None:
    """Batches of several sizes side by side, among them one sample, two samples and copies of one sample."""
    sizes = {"a": 1, "b": 2, "c": 7, "d": 23, "e": 24, "f": 25, "g": 6}
    X = {c: rng.normal(size=(N, 11)) + 2.0 * k for k, (c, N) in enumerate(sizes.items())}
    X["g"][:] = X["g"][0]
    model = FoldingClassifier(n_components=4, batch_size=6, regularisation="documented")
    model.fit(np.vstack(list(X.values())), np.repeat(list(sizes), list(sizes.values())))
    queries = 6.0 * rng.normal(size=(15, 11))
    machines = [folding.fit_batches(rows, 6, 4) for rows in X.values()]
    expected = [[folding.batch_minimum(c, x, "rms") for c in machines] for x in queries]
    np.testing.assert_allclose(model.distances(queries), expected, rtol=0, atol=1e-6)


def test_folding_classifier_interleaved_labels_are_batched_per_class(digits) -> None:
    X, y, queries, _ = digits
    order = np.argsort(y, kind="stable")
    interleaved = FoldingClassifier(batch_size=10, regularisation="documented").fit(X, y)
    sorted_by_class = FoldingClassifier(batch_size=10, regularisation="documented").fit(X[order], y[order])
    np.testing.assert_allclose(interleaved.distances(queries), sorted_by_class.distances(queries), rtol=1e-10)


def test_folding_classifier_in_single_precision_is_close_to_double(digits) -> None:
    X, y, queries, _ = digits
    double = (
        FoldingClassifier(n_components=7, batch_size=20, regularisation="documented")
        .fit(X, y)
        .distances(queries)
    )
    single = FoldingClassifier(n_components=7, batch_size=20, regularisation="documented")
    single = single.fit(X.astype(np.float32), y).distances(queries.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=0, atol=2e-3)


@pytest.mark.parametrize("factor", [0.3, 2.0])
def test_scale_keeps_distances_in_the_units_of_the_data(factor: float, digits) -> None:
    X, y, queries, _ = digits
    model = FoldingClassifier(
        n_components=7, batch_size=20, measure="euclidean", scale=factor, regularisation="documented"
    ).fit(X, y)
    expected = FoldingClassifier(
        n_components=7, batch_size=20, measure="euclidean", regularisation="documented"
    ).fit(factor * X, y)
    np.testing.assert_allclose(
        model.distances(queries), expected.distances(factor * queries) / factor, rtol=1e-8
    )


def test_default_estimator_is_the_wide_machine(digits) -> None:
    X, y, queries, labels = digits
    size = int(np.unique(y, return_counts=True)[1].min())  # below 50
    wide = WideKAHM(n_layers=1, branch_size=size, partition="contiguous", regularisation=0.2)
    default, explicit = AutoencoderClassifier().fit(X, y), AutoencoderClassifier(wide).fit(X, y)
    np.testing.assert_allclose(default.distances(queries), explicit.distances(queries), rtol=1e-9)
    assert default.score(queries, labels) > 0.9


def test_workers_do_not_change_the_result(digits) -> None:
    X, y, queries, _ = digits
    for make in (
        lambda jobs: AutoencoderClassifier(KAHM(regularisation="documented"), n_jobs=jobs),
        lambda jobs: FoldingClassifier(n_jobs=jobs, regularisation="documented"),
    ):
        one, two = make(1).fit(X, y).distances(queries), make(2).fit(X, y).distances(queries)
        np.testing.assert_allclose(two, one, rtol=1e-9)


def test_binary_decision_function_follows_scikit_learn(digits) -> None:
    X, y, queries, _ = digits
    keep = np.isin(y, [1, 4])
    for model in (
        AutoencoderClassifier(KAHM(regularisation="documented")),
        FoldingClassifier(regularisation="documented"),
    ):
        model.fit(X[keep], y[keep])
        decision = model.decision_function(queries)
        assert decision.shape == (len(queries),)
        distances = model.distances(queries)
        np.testing.assert_allclose(decision, distances[:, 0] - distances[:, 1], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(model.predict(queries), np.where(decision > 0, 4, 1))
