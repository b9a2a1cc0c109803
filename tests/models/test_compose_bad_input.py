"""Bad input and bad parameters: one clear line, a ValueError, and never the data themselves."""

import numpy as np
import pytest
from sklearn.base import clone

from onefold import KAHM, AutoencoderClassifier, DeepKAHM, FoldingClassifier, WideKAHM
from onefold.exceptions import InvalidInputError

MODELS = [KAHM(), DeepKAHM(), WideKAHM(), AutoencoderClassifier(), FoldingClassifier()]
AUTOENCODERS, CLASSIFIERS = MODELS[:3], MODELS[3:]

every_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
every_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)

SECRET = 8675.309


@pytest.fixture
def data(rng: np.random.Generator):
    return rng.normal(size=(30, 5)), np.arange(30) % 3


def spoiled(X: np.ndarray, value: float) -> np.ndarray:
    X = X.copy()
    X[3, 2] = value
    X[4, 1] = SECRET
    return X


def with_text(X: np.ndarray) -> np.ndarray:
    mixed = X.astype(object)
    mixed[2, 1] = "8675 Jenny Street"
    return mixed


def query_methods(model) -> list[str]:
    if hasattr(model, "distances"):
        return ["distances", "predict", "decision_function", "matching_score"]
    return ["transform", "distance", "score_samples"]


def assert_one_line(error: pytest.ExceptionInfo[ValueError]) -> None:
    message = str(error.value)
    assert message
    assert "\n" not in message
    assert "8675" not in message


BAD = {
    "nan": (lambda X: spoiled(X, np.nan), "(?i)nan"),
    "infinity": (lambda X: spoiled(X, np.inf), "(?i)inf"),
    "negative infinity": (lambda X: spoiled(X, -np.inf), "(?i)inf"),
    "one dimension": (lambda X: np.full(5, SECRET), "(?i)2D|2-D|two-dim|dimension"),
    "three dimensions": (lambda X: np.full((4, 5, 2), SECRET), "(?i)dim|2D"),
    "no rows": (lambda X: X[:0], "(?i)sample"),
    "text": (lambda X: np.array([["8675", "b", "c", "d", "e"]] * 30), "."),
    "text among numbers": (lambda X: with_text(X), "."),
    "complex": (lambda X: X * 1j, "(?i)complex"),
}


@every_model
@pytest.mark.parametrize("kind", sorted(BAD))
def test_bad_training_data_is_refused(model, kind: str, data) -> None:
    spoil, pattern = BAD[kind]
    X, y = data
    bad = spoil(X)
    with pytest.raises(ValueError, match=pattern) as error:
        clone(model).fit(bad, np.resize(y, len(bad)))
    assert_one_line(error)


@every_model
def test_data_without_columns_is_refused(model, data) -> None:
    X, y = data
    with pytest.raises(ValueError, match="feature") as error:
        clone(model).fit(X[:, :0], y)
    assert_one_line(error)


@every_model
@pytest.mark.parametrize("kind", sorted(BAD))
def test_bad_queries_are_refused(model, kind: str, data) -> None:
    spoil, pattern = BAD[kind]
    fitted = clone(model).fit(*data)
    for method in query_methods(model):
        with pytest.raises(ValueError, match=pattern) as error:
            getattr(fitted, method)(spoil(data[0]))
        assert_one_line(error)


@every_model
def test_wrong_number_of_features_is_refused(model, data) -> None:
    X, y = data
    fitted = clone(model).fit(X, y)
    for method in query_methods(model):
        for wrong in (X[:, :4], np.hstack([X, X])):
            with pytest.raises(ValueError, match="features") as error:
                getattr(fitted, method)(wrong)
            assert_one_line(error)


PARAMETERS = [
    ("n_components", 0),
    ("n_components", -3),
    ("n_components", 2.5),
    ("n_components", "many"),
    ("n_components", None),
    ("n_components", True),
    ("n_layers", 0),
    ("n_layers", 1.5),
    ("branch_size", 0),
    ("branch_size", -1),
    ("branch_size", 10.5),
    ("batch_size", 0),
    ("batch_size", 2.5),
    ("partition", "x"),
    ("partition", None),
    ("n_probe", 0),
    ("n_probe", -1),
    ("n_probe", 1.5),
    ("scale", -1),
    ("scale", 0.0),
    ("scale", float("nan")),
    ("scale", float("inf")),
    ("scale", "big"),
    ("scale", True),
    ("measure", "foo"),
    ("measure", None),
]


@pytest.mark.parametrize(("parameter", "value"), PARAMETERS)
def test_invalid_parameters_are_refused(parameter: str, value: object, data) -> None:
    concerned = [model for model in MODELS if parameter in model.get_params(deep=False)]
    assert concerned
    for model in concerned:
        wrong = clone(model).set_params(**{parameter: value})  # constructors only store
        with pytest.raises(InvalidInputError, match=parameter) as error:
            wrong.fit(*data)
        assert_one_line(error)


@pytest.mark.parametrize("measure", ["foo", "", None, 3])
def test_invalid_measure_of_a_query_is_refused(measure: object, data) -> None:
    for model in AUTOENCODERS:
        with pytest.raises(InvalidInputError, match="measure") as error:
            clone(model).fit(data[0]).folding(data[0], measure)
        assert_one_line(error)


@pytest.mark.parametrize("value", [0, -7, 1.5, "x"])
def test_wrong_parameter_inside_a_classifier_is_refused(value: object, data) -> None:
    with pytest.raises(InvalidInputError, match="n_components") as error:
        AutoencoderClassifier(KAHM(n_components=value)).fit(*data)
    assert_one_line(error)


@pytest.mark.parametrize("estimator", [3, "KAHM", KAHM, FoldingClassifier()])
def test_estimator_that_is_no_autoencoder_is_refused(estimator: object, data) -> None:
    with pytest.raises((ValueError, TypeError), match="estimator") as error:
        AutoencoderClassifier(estimator).fit(*data)
    assert_one_line(error)


@every_classifier
def test_labels_of_another_length_are_refused(model, data) -> None:
    X, y = data
    with pytest.raises(ValueError) as error:
        clone(model).fit(X, y[:-1])
    assert_one_line(error)


@every_classifier
def test_continuous_labels_are_refused(model, data) -> None:
    X, _ = data
    with pytest.raises(ValueError, match=r"(?i)label|target|class") as error:
        clone(model).fit(X, X[:, 0] * np.pi)
    assert_one_line(error)


@every_classifier
def test_missing_labels_are_refused(model, data) -> None:
    X, y = data
    for wrong in (None, np.where(y == 1, np.nan, y)):
        with pytest.raises(ValueError) as error:
            clone(model).fit(X, wrong)
        assert_one_line(error)


@every_classifier
def test_one_class_is_answered_with_that_class(model, data) -> None:
    X, _ = data
    fitted = clone(model).fit(X, ["only"] * len(X))
    assert set(fitted.predict(X)) == {"only"}
    assert fitted.distances(X).shape == (len(X), 1)
    assert np.isfinite(fitted.matching_score(X)).all()
    assert np.isfinite(fitted.decision_function(X)).all()


@every_classifier
def test_query_far_from_every_class_still_gets_a_known_label(model, data) -> None:
    X, y = data
    fitted = clone(model).fit(X, np.array(["a", "b", "c"])[y])
    assert set(fitted.predict(1e6 * X)) <= {"a", "b", "c"}
