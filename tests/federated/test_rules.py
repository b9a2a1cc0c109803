"""The pure functions: a minimum over clients, a decision over classes, and nothing that is no measure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from onefold.exceptions import InvalidInputError
from onefold.federated.rules import (
    RULES,
    agreement,
    align,
    check_answers,
    checked,
    combine,
    decide,
    disagreeing,
    minimum,
    owned_classes,
    trimmed,
    weighted,
)

answers = npst.arrays(
    np.float64,
    npst.array_shapes(min_dims=3, max_dims=3, max_side=6),
    elements=st.floats(0, 1e6) | st.just(np.inf),
)


@given(answers, st.randoms(use_true_random=False))
def test_minimum_equals_a_loop_in_any_order_of_sites(array, random) -> None:
    combined = minimum(array)
    n_clients, n_queries, n_classes = array.shape
    for i in range(n_queries):
        for c in range(n_classes):
            assert combined[i, c] == min(array[q, i, c] for q in range(n_clients))
    order = list(range(n_clients))
    random.shuffle(order)
    np.testing.assert_array_equal(minimum(array[order]), combined)


@given(answers)
def test_sites_joined_one_by_one_or_at_once_give_the_same_minimum(array) -> None:
    running = array[0]
    for further in array[1:]:
        running = minimum(np.stack([running, further]))
    np.testing.assert_array_equal(running, minimum(array))


def test_site_without_the_class_never_changes_the_minimum() -> None:
    known = np.array([[[0.3, 0.9], [1.0, 0.2]]])
    np.testing.assert_array_equal(minimum(np.concatenate([known, np.ones((1, 2, 2))])), known[0])
    far = np.array([[[3.0, 90.0], [12.0, 7.0]]])
    np.testing.assert_array_equal(minimum(np.concatenate([far, np.full((1, 2, 2), np.inf)])), far[0])


def test_decide_takes_the_smallest_and_the_first_of_equals() -> None:
    assert decide([[3.0, 1.0, 2.0], [np.inf, np.inf, 5.0], [0.5, 0.5, 0.5]]).tolist() == [1, 2, 0]
    assert decide(np.zeros((0, 3))).tolist() == []


def test_float32_stays_float32() -> None:
    assert minimum(np.zeros((2, 3, 4), dtype=np.float32)).dtype == np.float32
    assert minimum(np.zeros((2, 3, 4), dtype=np.int8)).dtype == np.float64


@pytest.mark.parametrize(
    "bad",
    [
        [[[0.1, np.nan]]],
        [[[0.1, -0.1]]],
        [[[0.1, -np.inf]]],
        [[0.1, 0.2]],
        np.zeros((0, 1, 2)),
        np.zeros((1, 1, 0)),
        [[["near", "far"]]],
        [[[0.1], [0.2, 0.3]]],
        None,
    ],
)
def test_invalid_measures_are_refused_in_one_line(bad) -> None:
    with pytest.raises(InvalidInputError) as caught:
        minimum(bad)
    assert "\n" not in str(caught.value)


def test_a_folding_measure_above_one_is_refused() -> None:
    check_answers([[0.0, 1.0]], 2, largest=1.0)
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        check_answers([[0.0, 1.1]], 2, largest=1.0)


def test_query_without_any_finite_answer_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no finite answer"):
        decide([[0.1, 0.2], [np.inf, np.inf]])


@pytest.mark.parametrize(("owners", "place"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (9, 2)])
def test_class_is_trimmed_only_as_far_as_its_number_of_sites_allows(owners: int, place: int) -> None:
    values = np.arange(1.0, owners + 1.0)[:, None, None]
    assert trimmed(values, n_liars=2).item() == values[place].item()


def test_class_is_owned_by_whoever_answers_one_query_below_the_maximum() -> None:
    answers = [[[1.0, 1.0], [0.4, 1.0]], [[1.0, 0.2], [0.3, 0.1]]]
    assert owned_classes(answers, 1.0).tolist() == [[True, False], [True, True]]


def test_answers_stand_under_the_classes_asked_for_and_no_others_are_taken() -> None:
    given, own = np.array([[1.0, 2.0]]), np.array(["c", "a"])
    assert align(given, own, np.array(["b", "a", "c"]), 9.0).tolist() == [[9.0, 2.0, 1.0]]
    with pytest.raises(InvalidInputError, match="not among the classes asked for"):
        align(given, own, np.array(["a", "b"]), 9.0)


def test_only_the_minimum_takes_answers_above_the_maximum() -> None:
    above = [[[2.0]], [[3.0]]]
    assert combine(above, "min", largest=1.0).tolist() == [[2.0]]
    for rule in set(RULES) - {"min"}:
        with pytest.raises(InvalidInputError, match="between 0 and 1"):
            combine(above, rule, largest=1.0, weights=[1.0, 1.0])


def test_nobody_trusted_is_no_answer() -> None:
    with pytest.raises(InvalidInputError, match="no site is trusted"):
        combine([[[0.2]], [[0.3]]], "weighted", weights=[0.0, 0.0])
    with pytest.raises(InvalidInputError, match="needs weights"):
        combine([[[0.2]], [[0.3]]], "weighted")


@pytest.mark.parametrize("rule", [trimmed, checked, disagreeing])
def test_number_of_liars_is_one_unless_told_and_a_whole_number(rule) -> None:
    rng = np.random.default_rng(0)
    rows = np.sort(rng.random((7, 40, 3)), axis=1) + 0.01 * rng.random((7, 40, 3))
    rows[5:] = rng.random((2, 40, 3))  # two sites that follow nobody
    np.testing.assert_array_equal(rule(rows), rule(rows, 1))
    assert not np.array_equal(rule(rows), rule(rows, 2))
    for wrong in (-1, 1.5, True):
        with pytest.raises(InvalidInputError, match="n_liars"):
            rule(rows, wrong)


def test_weights_have_one_number_for_each_site_or_for_each_of_its_classes() -> None:
    answers = np.full((3, 2, 2), 0.5)
    assert weighted(answers, [1, 1, 0]).shape == weighted(answers, np.ones((3, 2))).shape == (2, 2)
    for wrong in ([1, 1], np.ones((3, 3)), np.ones((3, 2, 1)), [1, 1, 1.5], [1, 1, -0.1]):
        with pytest.raises(InvalidInputError, match="weights must"):
            weighted(answers, wrong)


def test_liar_is_found_beside_a_site_that_nobody_can_be_compared_with() -> None:
    rng = np.random.default_rng(0)
    answers = np.full((7, 50, 3), 9.0)
    answers[:6, :, :2] = rng.random((1, 50, 2)) + 0.1 * rng.random((6, 50, 2))
    answers[3, :, :2] = answers[3, :, 1::-1]  # swaps the classes
    answers[6, :, 2] = rng.random(50)  # the only one that has this class
    assert np.isnan(agreement(answers, 9.0)).tolist() == [False] * 6 + [True]
    assert disagreeing(answers, largest=9.0).tolist() == [3]


@pytest.mark.parametrize("n_dimensions, shape", [(3, r"\(Q, n, C\)"), (2, r"\(n, C\)")])
def test_answers_of_another_shape_are_refused_by_the_shape_that_is_wanted(
    n_dimensions: int, shape: str
) -> None:
    with pytest.raises(InvalidInputError, match=f"must have the shape {shape} with"):
        check_answers(np.ones(4), n_dimensions)


def test_nobody_may_lie_under_a_rule_that_looks_for_liars() -> None:
    array = np.random.default_rng(0).random((5, 7, 3))
    assert np.array_equal(combine(array, "trimmed", n_liars=0, largest=1.0), array.min(axis=0))
    assert np.array_equal(combine(array, "checked", n_liars=0, largest=1.0), array.min(axis=0))
    with pytest.raises(InvalidInputError):
        combine(array, "trimmed", n_liars=-1, largest=1.0)
