"""Randomised response: kept often enough and not too often, unbiased counts, labels of any kind."""

import math

import numpy as np
import pandas as pd
import pytest

from onefold.exceptions import InvalidInputError
from onefold.privacy import RandomisedLabels

N = 40_000


def deviation(share: float, probability: float, n: int = N) -> float:
    return abs(share - probability) / math.sqrt(probability * (1 - probability) / n)


@pytest.mark.parametrize("epsilon, k", [(0.5, 2), (1.0, 10), (3.0, 4)])
def test_labels_are_kept_with_their_probability(epsilon: float, k: int) -> None:
    labels = RandomisedLabels(epsilon, k)
    answers = labels.randomise(np.full(N, 1), random_state=0)
    kept = np.mean(answers == 1)
    assert labels.keep_probability == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + k - 1))
    assert deviation(kept, labels.keep_probability) < 4
    for wrong in (2 / 3 * epsilon, 3 / 2 * epsilon):
        assert deviation(kept, RandomisedLabels(wrong, k).keep_probability) > 8
    for other in set(range(k)) - {1}:  # all wrong answers are equally likely
        assert deviation(np.mean(answers == other), labels.switch_probability) < 4


def test_every_class_is_treated_alike() -> None:
    labels = RandomisedLabels(1.0, 3)
    for true in range(3):
        counts = np.bincount(labels.randomise(np.full(N, true), random_state=1), minlength=3) / N
        expected = np.full(3, labels.switch_probability)
        expected[true] = labels.keep_probability
        assert counts == pytest.approx(expected, abs=0.012)


def test_debiased_counts_are_unbiased() -> None:
    labels = RandomisedLabels(1.0, 4)
    true = np.array([10_000, 500, 0, 2000])
    y = np.repeat(np.arange(4), true)
    estimates = np.array(
        [labels.debias(np.bincount(labels.randomise(y, random_state=s), minlength=4)) for s in range(40)]
    )
    error = estimates.mean(axis=0) - true
    assert np.abs(error / (estimates.std(axis=0) / np.sqrt(40))).max() < 4
    assert estimates.sum(axis=1) == pytest.approx(true.sum())
    exact = true * labels.keep_probability + (true.sum() - true) * labels.switch_probability
    assert labels.debias(exact) == pytest.approx(true)


def test_randomise_accepts_labels_of_any_kind() -> None:
    names = RandomisedLabels(1.0, ["cat", "dog", "bird"])
    y = np.array(["dog"] * 200 + ["bird"] * 200)
    answers = names.randomise(y, random_state=0)
    assert set(answers) == {"cat", "dog", "bird"}
    assert np.mean(answers[:200] == "dog") > 0.4
    assert np.mean(answers[200:] == "bird") > 0.4
    series = names.randomise(pd.Series(["cat", "dog"], index=[7, 8], name="pet"), random_state=0)
    assert (series.name, list(series.index)) == ("pet", [0, 1])
    assert RandomisedLabels(1.0, [3, -1]).randomise([], random_state=0).shape == (0,)
    unsorted = RandomisedLabels(20.0, [5, 2, 9])
    assert unsorted.randomise([9, 5, 2], random_state=0).tolist() == [9, 5, 2]
    y = np.zeros(50, dtype=int)
    RandomisedLabels(0.1, 2).randomise(y, random_state=0)
    assert not y.any()  # the input is left alone


def test_the_guarantee_is_about_labels_only() -> None:
    guarantee = RandomisedLabels(2.0, 5).guarantee()
    assert guarantee.labels == (2.0, 0.0)
    assert math.isinf(guarantee.record[0])
    assert "epsilon 2 per label" in str(guarantee)
    assert "Features: not covered" in str(guarantee)
    assert "per label" in repr(RandomisedLabels(2.0, 5))


@pytest.mark.parametrize("epsilon", [0, -1, np.nan, np.inf, None])
def test_invalid_epsilon_is_refused(epsilon: object) -> None:
    with pytest.raises(InvalidInputError, match="epsilon must"):
        RandomisedLabels(epsilon, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("classes", [1, 0, -2, 1.5, True, [1], [1, 1], [[1, 2]], []])
def test_invalid_classes_are_refused(classes: object) -> None:
    with pytest.raises(InvalidInputError, match="classes must"):
        RandomisedLabels(1.0, classes)  # type: ignore[arg-type]


def test_invalid_labels_are_refused() -> None:
    labels = RandomisedLabels(1.0, 3)
    for y in ([3], [-1], [0, 1, 2, 7], [0.5], [np.nan]):
        with pytest.raises(InvalidInputError, match="not among the declared classes"):
            labels.randomise(y)
    for y in ([["a"]], 3):
        with pytest.raises(InvalidInputError, match=r"^y "):
            labels.randomise(y)
    with pytest.raises(InvalidInputError, match=r"^y "):
        labels.randomise(["secret name"])
    for counts in ([1, 2], [1, 2, -3], [1, 2, np.nan]):
        with pytest.raises(InvalidInputError, match="counts must be 3 numbers"):
            labels.debias(counts)


@pytest.mark.parametrize("epsilon", [999.0, 1e4, 1e6])
def test_huge_epsilon_is_fast_and_keeps_all_labels(epsilon: float) -> None:
    labels = RandomisedLabels(epsilon, 3)
    assert labels.keep_probability == 1.0
    np.testing.assert_array_equal(labels.randomise([0, 1, 2, 2]), [0, 1, 2, 2])


def test_labels_that_cannot_be_compared_are_one_line() -> None:
    with pytest.raises(InvalidInputError, match="at least two different labels"):
        RandomisedLabels(1.0, [None, 1])
