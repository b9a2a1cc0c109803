"""Measures of predictions: equal to those of scikit-learn, complete in JSON, readable in words."""

import json

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, roc_auc_score

from onefold.report.evaluation import (
    Evaluation,
    evaluate,
    missed,
    numbers_of,
    rounded_down,
    rounded_up,
    with_references,
)


def test_measures_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(["a", "b"], 300, p=[0.7, 0.3])
    scores = np.round((labels == "b") + rng.normal(size=300), 1)  # with ties
    predicted = np.where(scores > 0.5, "b", "a")
    found = evaluate(predicted, labels, scores=scores)
    assert found.accuracy == np.mean(predicted == labels)
    assert found.majority == np.mean(labels == "a")
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(labels, predicted))
    assert found.confusion == confusion_matrix(labels, predicted).tolist()
    assert found.auc == pytest.approx(roc_auc_score(labels == "b", scores))
    assert {each.name: each.outcome for each in found.measures} == {
        "gain in accuracy": "not shown to differ",
        "balanced accuracy": "better",
        "AUC": "better",
    }
    json.dumps(numbers_of(found))


def test_majority_is_that_of_the_rows_that_were_learned_from() -> None:
    labels = np.array([0, 0, 0, 1])
    assert evaluate(labels, labels, common=1).majority == 0.25
    assert evaluate(labels, labels).majority == 0.75


def test_more_classes_have_no_area_and_labels_of_another_type_are_compared_as_text() -> None:
    found = evaluate(np.array([1, 2, 3]), np.array(["1", "2", "4"]), scores=np.zeros((3, 3)))
    assert found.auc is None
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.classes == ["1", "2", "3", "4"]
    assert "auc" not in numbers_of(found)


def test_words_show_a_matrix_of_few_classes_and_point_to_json_for_many() -> None:
    few = evaluate(np.array(["no", "yes", "no"]), np.array(["no", "yes", "yes"])).words("3 rows")
    assert few[0] == "accuracy 0.6667 on 3 rows (guessing the majority 0.6667)"
    assert [line.split() for line in few[-2:]] == [["no", "1", "0"], ["yes", "1", "1"]]
    many = evaluate(np.arange(40), np.arange(40)).words("40 rows")
    assert any("--json" in line for line in many)
    assert len(many) < 9


def test_words_bound_the_missed_rows_of_each_class() -> None:
    labels = np.repeat(["a", "b"], [100, 60])
    predicted = labels.copy()
    predicted[100:104] = "a"
    lines = evaluate(predicted, labels).words("160 rows")
    assert "class a: at most 3.0 % of its rows are missed, 95 % confidence (0 of 100 here)" in lines
    assert "class b: at most 14.7 % of its rows are missed, 95 % confidence (4 of 60 here)" in lines
    told = numbers_of(evaluate(predicted, labels))["missed"]
    assert [(each["class"], each["rows"], each["missed"]) for each in told] == [("a", 100, 0), ("b", 60, 4)]


def test_rows_of_persons_have_no_bounds_and_others_a_condition() -> None:
    labels = np.repeat(["a", "b"], 50)
    together = evaluate(labels, labels, bounded=False)
    assert "class a: about 0.0 % of its rows are missed (0 of 50)" in together.words("100 rows", "if new:")
    assert "if new:" not in together.words("100 rows", "if new:")
    assert "at_most" not in numbers_of(together)["missed"][0]
    lines = evaluate(labels, labels).words("100 rows", "if new:")
    assert lines.index("if new:") + 1 == lines.index(
        "class a: at most 5.9 % of its rows are missed, 95 % confidence (0 of 50 here)"
    )


def test_bounds_are_never_rounded_to_the_better_side() -> None:
    found = missed(["a"], [[50]], bounded=True)[0]["at_most"]
    assert 0.058 < found < 0.0585  # the nearest tenth of a percent would be below the bound
    assert rounded_up(found, 3) == 0.059
    assert rounded_down(0.0589, 3) == 0.058
    assert (rounded_up(0.3, 1), rounded_down(0.3, 1)) == (0.3, 0.3)  # 0.3 * 10 is not 3 in float64


def test_words_name_the_worst_of_many_classes() -> None:
    labels = np.repeat(np.arange(40), 30)
    predicted = np.where((labels == 7) & (np.arange(1200) % 2 == 0), 8, labels)
    lines = [line for line in evaluate(predicted, labels).words("1200 rows")[3:] if "class" in line]
    assert lines[0].startswith("class 7: at most 66.")
    assert len(lines) == 5  # three, the rest, and where the matrix is
    assert lines[3].startswith("the other 37 classes are no worse")  # some may be as bad


@pytest.mark.parametrize("share, better", [(0.5, True), (0.99, False)])
def test_boosting_is_better_only_beyond_two_points_and_chance(share: float, better: bool) -> None:
    rng = np.random.default_rng(1)
    X = rng.random((900, 2))
    labels = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)  # no linear model sees it
    right = rng.random(300) < share  # of a model that is right so often
    start = Evaluation(300, float(right.mean()), 0.5, 0.5, [0, 1], [[0, 0], [0, 0]])
    found = with_references(start, right, (X[:600], X[600:]), (labels[:600], labels[600:]))
    assert found.linear is not None
    assert found.linear < 0.65
    assert found.boosting is not None
    assert found.boosting > 0.95
    assert found.boosting_is_better is better
    assert any("boosting" in line for line in found.words("rows")) is better
