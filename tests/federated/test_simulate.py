"""The whole federation in one process."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel, simulate
from onefold.federated.messages import Query
from onefold.privacy import Laplace, OptimalNoise
from onefold.tables import Field, Schema

ESTIMATOR = AutoencoderClassifier(WideKAHM(n_components=10, n_layers=2))


@pytest.fixture(scope="module")
def data():
    return load("digits")


@pytest.mark.merge
def test_sites_with_few_classes_gain_by_joining(data) -> None:
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
    assert result.federated > 0.97
    assert abs(result.federated - result.pooled) < 0.03
    assert result.class_counts.shape == (5, 10)
    assert result.class_counts.sum() == len(data.y_train)
    assert np.all((result.class_counts > 0).sum(axis=1) <= 3)
    assert result.n_test == len(data.y_test)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.pooled = 1.0  # type: ignore[misc]


def test_simulation_equals_the_same_steps_by_hand(data) -> None:
    """Against the same steps by hand, with a measure whose missing class answers 1."""
    estimator = FoldingClassifier(n_components=8)
    owners = partition(data.y_train, 3, "dirichlet", alpha=0.2, random_state=4)
    result = simulate(
        data.X_train,
        data.y_train,
        3,
        "dirichlet",
        method="folding",
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


@pytest.mark.parametrize("method", ["joined", "moments"])
def test_classes_that_surround_each_other_are_told_apart(method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 5))
    y = np.digitize((X**2).sum(axis=1), [3.0, 5.7])  # three shells of about one size
    found = simulate(X[:600], y[:600], 3, method=method, X_test=X[600:], y_test=y[600:], pooled=False)
    assert 0.75 < found.federated < 0.95


def test_missing_cells_are_refused_in_the_words_of_a_fit(data) -> None:
    X = data.X_train.copy()
    X[3, 0] = np.nan
    for method in ("joined", "moments", "folding"):
        with pytest.raises(InvalidInputError, match="contains NaN"):
            simulate(X, data.y_train, 3, method=method)


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


def test_sites_can_be_given_by_row_numbers(data) -> None:
    X, y = data.X_train[:300], data.y_train[:300]
    parts = [np.arange(0, 100), np.arange(100, 250)]
    options = {
        "X_test": data.X_test,
        "y_test": data.y_test,
        "estimator": FoldingClassifier(n_components=4),
        "method": "folding",
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


def test_sites_at_different_scales_are_refused(data) -> None:
    estimator = FoldingClassifier(n_components=4, scale="auto")
    with pytest.raises(InvalidInputError, match="different scales"):
        simulate(
            data.X_train,
            data.y_train,
            3,
            "classes",
            method="folding",
            estimator=estimator,
            classes_per_client=4,
        )


def test_test_features_without_test_labels_are_refused(data) -> None:
    with pytest.raises(InvalidInputError, match="go together"):
        simulate(data.X_train, data.y_train, 2, X_test=data.X_test)


def test_private_sites_are_simulated_beside_the_others(data) -> None:
    X, y = data.X_train[:400], data.y_train[:400]
    options = {
        "estimator": FoldingClassifier(n_components=5, batch_size=50),
        "X_test": data.X_test,
        "y_test": data.y_test,
        "random_state": 0,
    }
    plain = simulate(X, y, 4, **options)
    assert plain.private_federated is plain.private_alone is plain.guarantees is plain.model_bytes is None
    assert plain.honest == plain.federated
    generous = simulate(
        X, y, 4, mechanism=OptimalNoise(1e6, delta=1e-5, sensitivity=1.0), fabricate=False, **options
    )
    assert (generous.alone, generous.federated, generous.pooled) == (
        plain.alone,
        plain.federated,
        plain.pooled,
    )
    assert abs(generous.private_federated - plain.federated) < 0.02  # hardly any noise
    strict = simulate(
        X, y, 4, mechanism=OptimalNoise(0.01, delta=1e-5, sensitivity=1.0), fabricate=False, **options
    )
    assert strict.federated == plain.federated
    assert strict.private_federated < 0.6  # hardly anything but noise
    assert len(strict.guarantees) == len(strict.private_alone) == 4
    assert all(guarantee.entry == (0.01, 1e-5) and guarantee.holds for guarantee in strict.guarantees)
    # The seed is that of the partition, not of the noise.
    again = simulate(
        X, y, 4, mechanism=OptimalNoise(0.01, delta=1e-5, sensitivity=1.0), fabricate=False, **options
    )
    assert again.private_alone != strict.private_alone


def test_bytes_are_those_of_real_messages(data) -> None:
    X, y = data.X_train[:200], data.y_train[:200]
    parts = [np.arange(100), np.arange(100, 200)]
    estimator = FoldingClassifier(n_components=4)
    queries = data.X_test[:50].astype(np.float32)
    result = simulate(
        X,
        y,
        2,
        parts,
        method="folding",
        estimator=estimator,
        X_test=queries,
        y_test=data.y_test[:50],
        mechanism=Laplace(4.0, sensitivity=1.0),
    )
    query = Query("simulation", queries)
    assert result.query_bytes == 2 * len(query.to_bytes())
    models = [LocalModel(estimator).fit(X[rows], y[rows]) for rows in parts]
    answers = [model.answer(query, f"site-{number}") for number, model in enumerate(models)]
    assert result.answer_bytes == sum(len(each.to_bytes()) for each in answers)
    rows = sum(X[rows].nbytes for rows in parts)
    assert rows < result.model_bytes < 2 * rows + 100_000


@pytest.mark.nightly
def test_many_sites_need_the_memory_of_one() -> None:
    """The working memory does not grow with the number of sites of the same rows, under rules that stream."""
    rng = np.random.default_rng(0)
    X, y = rng.random((2000, 4)), np.arange(2000) % 10

    def peak(n_clients: int, rule: str) -> int:
        parts = np.array_split(np.arange(400), n_clients)  # the same rows: sums have one size
        tracemalloc.start()
        try:
            simulate(
                X,
                y,
                n_clients,
                parts,
                estimator=FoldingClassifier(n_components=2),
                X_test=X,
                y_test=y,
                rule=rule,
                n_liars=2,
                pooled=False,
            )
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    answers = 2000 * 10 * 8
    for rule in ("min", "trimmed"):
        few, many = peak(5, rule), peak(50, rule)
        assert many - few < 20 * answers  # keeping all answers would be 45 of them


def test_sums_of_a_table_see_directions_of_rows_and_not_their_lengths() -> None:
    """Rows a quarter as long, in training, in testing or in both, change nothing: a quarter is exact."""
    rng = np.random.default_rng(5)
    truth = rng.integers(3, size=600)
    rows = np.clip(0.4 * np.eye(5)[truth] + 0.6 * rng.random((600, 5)), 0.0, 1.0)
    rows[:, 0] = np.maximum(rows[:, 0], 0.1)  # no row of zeros
    names = [f"x{place}" for place in range(5)]
    label = Field("kind", "string", "label", levels=("0", "1", "2"))
    schema = Schema([*(Field(name, low=0.0, high=1.0) for name in names), label])

    def table(part: slice, length: float) -> dict[str, object]:
        columns = dict(zip(names, rows[part].T * length, strict=True))
        return {**columns, "kind": [str(each) for each in truth[part]]}

    def found(length: float, asked: float) -> tuple[object, ...]:
        test = table(slice(300, None), asked)
        result = simulate(
            table(slice(300), length), None, 3, method="moments", schema=schema, X_test=test, random_state=0
        )
        return result.alone, result.federated, result.pooled

    usual = found(1.0, 1.0)
    assert 0.5 < usual[1] < 0.99  # neither guessing nor too easy to tell a difference
    assert found(0.25, 1.0) == found(1.0, 0.25) == found(0.25, 0.25) == usual


@pytest.mark.parametrize("method", ["folding", "joined", "moments"])
def test_texts_among_rows_are_refused_without_a_cell(method: str) -> None:
    X, y = np.eye(2)[[0, 1] * 30], np.array([0, 1] * 30)
    named = X.astype(object)
    named[7, 1] = "SECRET0142"
    for given in ({"X": named, "y": y}, {"X": X, "y": y, "X_test": named, "y_test": y}):
        with pytest.raises(InvalidInputError, match="X holds text") as caught:
            simulate(**given, n_clients=2, method=method)
        assert "SECRET" not in str(caught.value)
