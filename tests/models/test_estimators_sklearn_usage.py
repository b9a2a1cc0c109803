"""The estimators inside the tools people use around them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from onefold import KAHM, AutoencoderClassifier, DeepKAHM, FoldingClassifier, WideKAHM

AUTOENCODERS = [
    KAHM(n_components=5),
    DeepKAHM(n_components=5, n_layers=3),
    WideKAHM(n_components=5, n_layers=2, branch_size=40, random_state=0),
]
CLASSIFIERS = [
    AutoencoderClassifier(DeepKAHM(n_components=5, n_layers=2)),
    AutoencoderClassifier(
        WideKAHM(n_components=5, n_layers=2, branch_size=20, random_state=0), measure="rms"
    ),
    FoldingClassifier(n_components=5, batch_size=20),
]

by_name = pytest.mark.parametrize("model", AUTOENCODERS + CLASSIFIERS, ids=lambda m: type(m).__name__)
autoencoders = pytest.mark.parametrize("model", AUTOENCODERS, ids=lambda m: type(m).__name__)
classifiers = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)


@pytest.fixture(scope="module")
def digits():
    data = load_digits(n_class=4)
    return data.data[:240] / 16.0, data.target[:240]


@by_name
def test_clone_keeps_parameters_and_forgets_the_fit(model, digits) -> None:
    fitted = clone(model).fit(*digits)
    copy = clone(fitted)
    assert repr(copy) == repr(model)
    with pytest.raises(NotFittedError):
        copy.predict(digits[0]) if hasattr(copy, "predict") else copy.transform(digits[0])


@by_name
def test_fit_changes_no_parameter_and_refit_gives_the_same(model, digits) -> None:
    X, y = digits
    model = clone(model)
    before = repr(model.get_params())
    first = evaluate(model.fit(X, y), X)
    assert repr(model.get_params()) == before
    model.fit(X[::2] + 1.0, y[::2])
    np.testing.assert_array_equal(evaluate(model.fit(X, y), X), first)


def evaluate(model, X):
    return model.distances(X) if hasattr(model, "distances") else model.distance(X)


@classifiers
def test_classifier_works_in_pipelines_and_cross_validation(model, digits) -> None:
    pipeline = make_pipeline(MinMaxScaler(), clone(model))
    scores = cross_val_score(pipeline, *digits, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.9


@autoencoders
def test_autoencoder_works_as_a_pipeline_step(model, digits) -> None:
    X, y = digits
    pipeline = make_pipeline(clone(model), FoldingClassifier(n_components=4)).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    np.testing.assert_array_equal(clone(model).fit_transform(X), clone(model).fit(X).transform(X))


def test_grid_search_reaches_nested_parameters() -> None:
    data = load_digits()
    digits = data.data[:400] / 16.0, data.target[:400]
    search = GridSearchCV(
        AutoencoderClassifier(DeepKAHM()),
        {"estimator__n_components": [1, 12], "estimator__n_layers": [1, 2], "measure": ["euclidean", "rms"]},
        cv=2,
    ).fit(*digits)
    assert len(search.cv_results_["mean_test_score"]) == 8
    assert len(set(search.cv_results_["mean_test_score"])) > 1  # the parameters reach the machines
    assert search.best_score_ > 0.9
    grid = {"n_components": [2, 6], "batch_size": [10, 40]}
    assert GridSearchCV(FoldingClassifier(), grid, cv=2).fit(*digits).best_score_ > 0.9


@by_name
def test_data_frame_equals_array(model, digits) -> None:
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel {j}" for j in range(X.shape[1])])
    fitted = clone(model).fit(frame, pd.Series(y))
    np.testing.assert_array_equal(fitted.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(evaluate(fitted, frame), evaluate(clone(model).fit(X, y), X))
    with pytest.raises(ValueError, match="feature names"):
        evaluate(fitted, frame.rename(columns={"pixel 0": "other"}))


@autoencoders
def test_output_can_be_a_data_frame(model, digits) -> None:
    X, _ = digits
    names = [f"pixel {j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names, index=np.arange(len(X)) + 7)
    fitted = clone(model).set_output(transform="pandas").fit(frame)
    images = fitted.transform(frame)
    assert isinstance(images, pd.DataFrame)
    assert list(images.columns) == list(fitted.get_feature_names_out()) == names
    np.testing.assert_array_equal(images.index, frame.index)
    np.testing.assert_array_equal(images.to_numpy(), clone(model).fit(X).transform(X))


@autoencoders
def test_feature_names_exist_without_a_data_frame(model, digits) -> None:
    fitted = clone(model).fit(digits[0])
    assert list(fitted.get_feature_names_out()[:2]) == ["x0", "x1"]


@classifiers
def test_string_labels_are_predicted(model, digits) -> None:
    X, y = digits
    words = np.array(["zero", "one", "two", "three"])[y]
    fitted, numbers = clone(model).fit(X, words), clone(model).fit(X, y)
    np.testing.assert_array_equal(fitted.classes_, ["one", "three", "two", "zero"])
    np.testing.assert_array_equal(
        fitted.predict(X), np.array(["zero", "one", "two", "three"])[numbers.predict(X)]
    )
    np.testing.assert_allclose(fitted.distances(X), numbers.distances(X)[:, [1, 3, 2, 0]], rtol=1e-10)


@by_name
def test_single_precision_input_gives_single_precision_output(model, digits) -> None:
    X, y = digits
    fitted = clone(model).fit(X.astype(np.float32), y)
    assert evaluate(fitted, X.astype(np.float32)).dtype == np.float32
    assert evaluate(clone(model).fit(X, y), X).dtype == np.float64
    assert stored_double_matrices(fitted) == []


def stored_double_matrices(model) -> list[str]:
    """Names of big float64 arrays kept by a machine fitted in single precision: there should be none."""
    found, pending, seen = [], [("", model)], set()
    while pending:
        name, thing = pending.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray) and thing.dtype == np.float64 and thing.size > 400:
            found.append(name)
        elif isinstance(thing, list | tuple):
            pending += [(f"{name}[{i}]", part) for i, part in enumerate(thing)]
        elif type(thing).__module__.startswith("onefold"):
            pending += [(f"{name}.{key}", value) for key, value in vars(thing).items()]
    return found


@by_name
def test_integers_are_taken_as_numbers(model, digits) -> None:
    X, y = digits
    whole = (X * 4).astype(int)
    np.testing.assert_allclose(
        evaluate(clone(model).fit(whole, y), whole),
        evaluate(clone(model).fit(whole.astype(float), y), whole.astype(float)),
        rtol=1e-10,
    )


def test_standardised_data_is_separated(digits) -> None:
    X, y = digits
    assert make_pipeline(StandardScaler(), AutoencoderClassifier()).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize(
    "classifier", [AutoencoderClassifier(WideKAHM(scale="auto")), FoldingClassifier(scale="auto")]
)
def test_few_rows_of_many_classes_are_not_taken_for_a_regression(classifier) -> None:
    X = np.random.default_rng(0).normal(size=(24, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.fit(X, np.arange(24) % 20)
