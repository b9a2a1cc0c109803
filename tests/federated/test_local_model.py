"""An owner's model: its answers, the classes it lacks, and its file."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn.utils.validation
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from onefold import KAHM, AutoencoderClassifier, FoldingClassifier, WideKAHM, io
from onefold.datasets import load
from onefold.exceptions import InvalidInputError
from onefold.federated import LocalModel
from onefold.privacy import OptimalNoise

MEASURES = ["euclidean", "rms", "product", "min", "max"]


@pytest.fixture(scope="module")
def data():
    return load("blobs")


@pytest.mark.exact
@pytest.mark.parametrize("measure", MEASURES)
def test_answers_are_the_distances_and_missing_classes_the_maximum(data, measure) -> None:
    mine = data.y_train < 2
    estimator = AutoencoderClassifier(KAHM(n_components=5), measure=measure)
    model = LocalModel(estimator).fit(data.X_train[mine], data.y_train[mine])
    expected = AutoencoderClassifier(KAHM(n_components=5), measure=measure).fit(
        data.X_train[mine], data.y_train[mine]
    )
    np.testing.assert_array_equal(model.answers(data.X_test), expected.distances(data.X_test))
    answers = model.answers(data.X_test, classes=[3, 1, 2, 0])
    np.testing.assert_array_equal(answers[:, [3, 1]], expected.distances(data.X_test))
    assert np.all(answers[:, [0, 2]] == (np.inf if measure == "euclidean" else 1.0))
    assert not hasattr(estimator, "classes_")  # cloned, not changed


def test_string_labels_are_answered_in_any_order_of_classes(data) -> None:
    labels = np.array(["d", "b", "c", "a"])[data.y_train]
    model = LocalModel(FoldingClassifier(n_components=4)).fit(data.X_train, labels)
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    shuffled = model.answers(data.X_test, ["c", "zebra", "a", "d", "b"])
    np.testing.assert_array_equal(shuffled[:, [2, 4, 0, 3]], model.answers(data.X_test))
    assert np.all(shuffled[:, 1] == 1.0)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_site_with_one_class_and_few_rows_answers(n_rows) -> None:
    X = np.array([[0.2, 0.4], [0.3, 0.1]])[:n_rows]
    model = LocalModel(AutoencoderClassifier(WideKAHM(n_components=2))).fit(X, ["only"] * n_rows)
    answers = model.answers(np.array([[0.2, 0.4], [5.0, 5.0]]), ["only", "other"])
    assert answers[0, 0] < answers[1, 0] < np.inf
    assert np.all(answers[:, 1] == np.inf)


@pytest.mark.parametrize("estimator", [None, FoldingClassifier(n_components=3, batch_size=50)])
def test_a_saved_model_answers_the_same(data, estimator, tmp_path: Path) -> None:
    model = LocalModel(estimator).fit(data.X_train, data.y_train)
    model.save(tmp_path / "owner.onefold")
    again = LocalModel.load(tmp_path / "owner.onefold")
    np.testing.assert_allclose(again.answers(data.X_test), model.answers(data.X_test), rtol=1e-9)
    assert again.measure == model.measure
    assert again.classes_.tolist() == model.classes_.tolist()
    # A loaded model can be fitted anew, like any other.
    again.fit(data.X_train[:50], data.y_train[:50])


def test_a_file_of_something_else_is_refused(data, tmp_path: Path) -> None:
    io.save(KAHM(n_components=3).fit(data.X_train), tmp_path / "machine.onefold")
    with pytest.raises(InvalidInputError, match="no classifier"):
        LocalModel.load(tmp_path / "machine.onefold")


def test_model_that_is_not_fitted_or_cannot_answer_is_refused(data, tmp_path: Path) -> None:
    for question in (
        lambda: LocalModel().answers(data.X_test),
        lambda: LocalModel().classes_,
        lambda: LocalModel().measure,
        lambda: LocalModel().save(tmp_path / "nothing"),
    ):
        with pytest.raises(NotFittedError):
            question()
    with pytest.raises(InvalidInputError, match="distances"):
        LocalModel(LogisticRegression()).fit(data.X_train, data.y_train)


def count_calls(monkeypatch, module, name: str) -> list[int]:
    """Count the calls of ``module.name``, wherever onefold has imported it; the count is the only entry."""
    count, original = [0], getattr(module, name)

    @functools.wraps(original)
    def counted(*args, **kwargs):
        count[0] += 1
        return original(*args, **kwargs)

    for each in [module, *(m for n, m in sys.modules.items() if n.startswith("onefold") and m is not None)]:
        if getattr(each, name, None) is original:
            monkeypatch.setattr(each, name, counted)
    return count


@pytest.mark.parametrize(
    "mechanism", [None, OptimalNoise(4.0, delta=1e-4, sensitivity=1.0)], ids=["raw", "private"]
)
def test_fit_validates_the_matrix_once_and_makes_no_unused_machine(data, mechanism, monkeypatch) -> None:
    estimator = AutoencoderClassifier(WideKAHM(n_components=3, branch_size=50, partition="contiguous"))
    model = LocalModel(estimator, mechanism)
    validations = count_calls(monkeypatch, sklearn.utils.validation, "validate_data")
    made = count_calls(monkeypatch, WideKAHM, "__init__")
    model.fit(data.X_train, data.y_train)
    # One machine is the model's own, the other goes to the workers, without anything fitted.
    assert (validations, made) == ([1], [2])
    model.forget([0])
    model.answers(data.X_test)
    # A query that is a plain array has a short check of its own; two machines are those of the new fit.
    assert (validations, made) == ([1], [4])


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2, 3, 3], [], [[0, 1, 2, 3]]])
def test_classes_must_be_distinct_and_include_those_of_the_site(data, classes) -> None:
    model = LocalModel(FoldingClassifier(n_components=3)).fit(data.X_train, data.y_train)
    with pytest.raises(InvalidInputError, match="class"):
        model.answers(data.X_test, classes)


def test_queries_with_nan_are_refused(data) -> None:
    model = LocalModel(FoldingClassifier(n_components=3)).fit(data.X_train, data.y_train)
    queries = data.X_test.copy()
    queries[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.answers(queries)
