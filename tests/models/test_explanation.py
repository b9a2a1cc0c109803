"""Which columns decided: weights against the definition, words, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, MomentClassifier
from onefold.exceptions import InvalidInputError
from onefold.models import explain
from onefold.models.reasons import compared_with
from onefold.tables import Field, Schema
from reference.shapley import shapley

CLASSES = np.array(["no", "yes"])


def scores(rows: np.ndarray) -> np.ndarray:
    """With an interplay of the first two columns; the last does nothing."""
    lead = rows[:, 0] * rows[:, 1] + 0.5 * rows[:, 2]
    return np.stack([-lead, lead], axis=1)


class Scored:
    """A classifier that is nothing but its scores."""

    def __init__(self, decision_function: Any = scores, classes: np.ndarray = CLASSES) -> None:
        self.decision_function, self.classes_ = decision_function, classes


def test_weights_are_shapley_values(rng: np.random.Generator) -> None:
    others, row = rng.normal(size=(6, 4)), np.array([[1.5, 2.0, -1.0, 3.0]])
    (found,) = explain(Scored(), row, others, n_orders=4000)
    weights = {reason.column: reason.weight for reason in found.reasons}
    expected = shapley(lambda x: 2.0 * (x[0] * x[1] + 0.5 * x[2]), row[0], others)
    np.testing.assert_allclose([weights[f"x{k}"] for k in range(4)], expected, atol=0.15)
    assert weights["x3"] == 0.0
    assert found.predicted == "yes"
    assert found.lead == pytest.approx(5.0)


def test_weights_add_up_to_the_lead_over_the_usual_one(rng: np.random.Generator) -> None:
    X = rng.normal(size=(20, 4))
    for found in explain(Scored(), X, n_orders=6):
        assert sum(reason.weight for reason in found.reasons) == pytest.approx(found.lead - found.usual)
        assert [reason.weight for reason in found.reasons] == sorted(
            (reason.weight for reason in found.reasons), reverse=True
        )


def test_row_costs_one_batch_of_orders_times_columns(rng: np.random.Generator) -> None:
    asked = []

    def counted(rows: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        return scores(rows)

    explain(Scored(counted), rng.normal(size=(3, 4)), rng.normal(size=(9, 4)), n_orders=7)
    assert asked == [1 + 8 * (4 + 1)] * 3


SCHEMA = Schema(
    [
        Field("bmi", low=10, high=60, unit="kg/m2"),
        Field("colour", "string", levels=("red", "blue"), missing="indicator"),
        Field("seen", "date", low=18000, high=19000),
        Field("noise", low=0, high=1, missing="indicator"),
        Field("ill", "string", role="label", levels=("no", "yes")),
    ]
)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n_rows = 240
    frame = pd.DataFrame({"bmi": rng.uniform(15, 45, n_rows).round(1)})
    frame["colour"] = rng.choice(["red", "blue"], n_rows)
    days = np.datetime64("2019-06-01") + rng.integers(0, 700, n_rows)
    frame["seen"] = days.astype(str)
    frame["noise"] = rng.random(n_rows)
    frame["ill"] = np.where(frame["bmi"] + 8.0 * (frame["colour"] == "red") > 34.0, "yes", "no")
    return frame


def test_reasons_are_told_in_the_columns_and_units_of_the_table(table: pd.DataFrame) -> None:
    model = AutoencoderClassifier(schema=SCHEMA).fit(table)
    rows = pd.DataFrame(
        {"bmi": [44.0, 16.0], "colour": ["red", None], "seen": ["2020-01-01"] * 2, "noise": [0.5, np.nan]}
    )
    heavy, light = model.explain(rows, table)
    assert str(heavy).startswith("yes rather than no because bmi is high (44 kg/m2)")
    assert "colour is red" in str(heavy)
    assert str(light).startswith("no rather than yes because bmi is low (16 kg/m2)")
    told = {reason.column: reason.value for reason in light.reasons}
    assert told == {"bmi": "16 kg/m2", "colour": "missing", "seen": "2020-01-01", "noise": "missing"}


def test_categories_of_numbers_are_told_by_their_numbers() -> None:
    schema = Schema([Field("stage", "integer", levels=(3, 5, 7)), Field("age", low=0, high=100)])
    rows = {"stage": [3, 5, 7, 5, 3], "age": [20.0, 30.0, 40.0, 50.0, 60.0]}
    found = explain(Scored(lambda table: schema.transform(table)[:, :2]), rows, schema=schema)
    values = [{reason.column: reason.value for reason in each.reasons} for each in found]
    assert values[:3] == [{"stage": str(k), "age": str(a)} for k, a in ((3, 20), (5, 30), (7, 40))]


def test_private_model_explains_itself_from_the_release_alone(table: pd.DataFrame) -> None:
    model = MomentClassifier(50.0, schema=SCHEMA).fit(table)
    assert model.explain(table[:1], table)[0].reasons[0].column in {"bmi", "colour"}
    assert not any(isinstance(value, pd.DataFrame) for value in vars(model).values())


@pytest.mark.filterwarnings("error")
def test_names_of_a_frame_are_used(rng: np.random.Generator) -> None:
    X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["weight", "height"])
    X["weight"] += np.where(np.arange(80) % 2, 6.0, -6.0)
    model = FoldingClassifier().fit(X, X["weight"] > 0)
    found = model.explain(X[:6], X)
    assert {reason.column for each in found for reason in each.reasons} == {"weight", "height"}
    assert {each.reasons[0].column for each in found} == {"weight"}
    with pytest.raises(InvalidInputError, match="in their order"):
        model.explain(X[["height", "weight"]])


def test_row_like_all_others_has_no_reason() -> None:
    X = np.ones((6, 2))
    (found,) = explain(Scored(lambda rows: np.stack([rows[:, 0], rows[:, 1] - 1.0], 1)), X[:1], X)
    assert "no column speaks for it more than usual" in str(found)


def test_rows_to_compare_with_are_spread_over_the_table() -> None:
    chosen = compared_with(np.arange(1000.0)[:, None])
    assert len(chosen) == 64
    assert chosen[0] == 0.0
    assert chosen[-1] == 999.0
    assert len(compared_with({"a": np.arange(3)})["a"]) == 3


@pytest.mark.parametrize(
    ("X", "background", "classes", "words"),
    [
        (np.ones((1, 4)), None, CLASSES, "at least 5 rows"),
        (np.ones((9, 4)), np.ones((9, 3)), CLASSES, "other columns"),
        (np.ones((9, 201)), None, CLASSES, "at most 200"),
        (np.ones((9, 4)), None, CLASSES[:1], "one class only"),
        (np.ones(4), None, CLASSES, "of numbers"),
        (np.full((9, 2), "a"), None, CLASSES, "of numbers"),
    ],
)
def test_bad_input_gets_one_clear_line(X: Any, background: Any, classes: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        explain(Scored(classes=classes), X, background)


def test_model_without_scores_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="has no scores"):
        explain(object(), np.ones((9, 2)))
