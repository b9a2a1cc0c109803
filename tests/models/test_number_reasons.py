"""Which columns push a predicted number up or down: exact for sums of columns, Shapley values elsewhere."""

import numpy as np
import pytest

from onefold import FoldingRegressor, MomentRegressor
from onefold.exceptions import InvalidInputError
from onefold.models import explain_numbers
from onefold.tables import Field, Schema

SCHEMA = Schema(
    (
        Field("age", low=0, high=100, unit="years"),
        Field("ward", "string", levels=("a", "b")),
        Field("cost", role="label", low=0, high=1000, unit="EUR"),
    )
)


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    age, ward = rng.uniform(0, 100, 300), rng.choice(["a", "b"], 300)
    return {"age": age, "ward": ward, "cost": 100.0 + 4.0 * age + 200.0 * (ward == "b")}


def test_weights_of_a_linear_model_are_its_slopes_times_the_distance_from_the_mean() -> None:
    X = np.random.default_rng(0).uniform(size=(200, 3))
    y = 5.0 * X[:, 0] - 2.0 * X[:, 1]
    model = MomentRegressor(None, lift=None, x_range=(0, 1), y_range=(-3, 6)).fit(X, y)
    assert model.is_additive
    for row, found in zip(X[:5], explain_numbers(model, X[:5], X[:60]), strict=True):
        weights = {reason.column: reason.weight for reason in found.reasons}
        apart = row - X[:60].mean(axis=0)
        np.testing.assert_allclose(weights["x0"], 5.0 * apart[0], atol=1e-3)
        np.testing.assert_allclose(weights["x1"], -2.0 * apart[1], atol=1e-3)
        np.testing.assert_allclose(weights["x2"], 0.0, atol=1e-3)


@pytest.mark.parametrize("lift", [None, 16])
def test_weights_add_up_to_the_prediction_less_the_usual_one(
    table: dict[str, np.ndarray], lift: int | None
) -> None:
    model = MomentRegressor(None, schema=SCHEMA, lift=lift).fit(table)
    assert model.is_additive == (lift is None)
    (found,) = explain_numbers(model, {name: cells[:1] for name, cells in table.items()}, table)
    assert sum(reason.weight for reason in found.reasons) == pytest.approx(found.predicted - found.usual)
    assert found.predicted == pytest.approx(float(model.predict(table)[0]), abs=1e-6)


def test_sentence_has_columns_units_and_directions(table: dict[str, np.ndarray]) -> None:
    model = MomentRegressor(None, schema=SCHEMA, lift=None).fit(table)
    (found,) = explain_numbers(model, {"age": [95.0], "ward": ["b"]}, table)
    assert str(found).startswith("680 EUR, ")
    assert "age is high (95 years) adds" in str(found)
    assert "ward is b adds" in str(found)
    (other,) = explain_numbers(model, {"age": [5.0], "ward": ["a"]}, table)
    assert "below the usual" in str(other)
    assert "age is low (5 years) takes" in str(other)


def test_model_that_is_no_sum_of_columns_is_explained_too() -> None:
    X = np.random.default_rng(0).uniform(size=(200, 2))
    model = FoldingRegressor().fit(X, 10.0 * X[:, 0])
    (found,) = explain_numbers(model, [[0.9, 0.5]], X)
    assert found.reasons[0].column == "x0"
    assert found.reasons[0].weight > 1.0


def test_prediction_outside_the_declared_range_is_explained_before_it_is_clipped() -> None:
    X = np.random.default_rng(0).uniform(size=(200, 1))
    model = MomentRegressor(None, lift=None, x_range=(0, 1), y_range=(0, 5)).fit(X, 5.0 * X[:, 0] ** 0.5)
    high = float(model.unclipped([[1.0]])[0])
    assert high > float(model.predict([[1.0]])[0]) == 5.0
    assert explain_numbers(model, [[1.0]], X)[0].predicted == pytest.approx(high)


def test_too_few_rows_to_compare_with_are_refused() -> None:
    X = np.random.default_rng(0).uniform(size=(50, 2))
    model = FoldingRegressor().fit(X, X[:, 0])
    with pytest.raises(InvalidInputError, match="at least 5 rows"):
        explain_numbers(model, X[:1], X[:4])
