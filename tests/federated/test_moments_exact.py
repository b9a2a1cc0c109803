"""Sums of moments without noise: the same to the last bit wherever the rows are, whoever joined or left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from onefold import MomentClassifier
from onefold.exceptions import InvalidInputError
from onefold.federated import MomentFederation
from onefold.privacy import PrivateMoments
from onefold.tables import Field, Schema

pytestmark = pytest.mark.exact
DIGITS = load_digits(return_X_y=True)
ROWS, LABELS = DIGITS[0][:400], DIGITS[1][:400]


def joined(federation: MomentFederation, parts: list, groups: np.ndarray | None = None) -> MomentFederation:
    for number, rows in enumerate(parts):
        more = {} if groups is None else {"groups": groups[rows]}
        federation.add(number, federation.release(ROWS[rows], LABELS[rows], **more))
    return federation


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**31), n_sites=st.integers(1, 40), lift=st.sampled_from([None, 20]))
def test_sum_does_not_depend_on_how_rows_are_spread(seed: int, n_sites: int, lift: int | None) -> None:
    rng = np.random.default_rng(seed)
    parts = np.array_split(rng.permutation(400), np.sort(rng.integers(0, 401, n_sites - 1)))
    parts = [part for part in parts if part.size]
    whole = joined(MomentFederation(lift=lift), [np.arange(400)]).moments()
    spread = joined(MomentFederation(lift=lift), parts).moments()
    np.testing.assert_array_equal(spread.classes_, whole.classes_)
    np.testing.assert_array_equal(spread.vector, whole.vector)


def test_sites_with_equal_rows_all_count() -> None:
    rows, labels = np.array([[0.6, 0.8], [0.6, 0.8], [1.0, 0.0]]), np.array([0, 0, 1])
    federation = MomentFederation()
    for number in range(3):
        federation.add(number, federation.release(rows[[number]], labels[[number]]))
    np.testing.assert_array_equal(
        federation.moments().vector,
        MomentFederation().add(0, federation.release(rows, labels)).moments().vector,
    )


def test_order_of_joining_and_sites_that_left_leave_no_trace() -> None:
    parts = np.array_split(np.arange(400), 7)
    federation = joined(MomentFederation(lift=16), parts)
    other = joined(MomentFederation(lift=16), parts[:3][::-1] + parts[4:])
    federation.remove(3)
    np.testing.assert_array_equal(federation.moments().vector, other.moments().vector)
    one, two = (each.fitted(MomentClassifier) for each in (federation, other))
    np.testing.assert_array_equal(one.decision_function(ROWS), two.decision_function(ROWS))


def test_rows_that_are_forgotten_leave_no_trace() -> None:
    whole, some, rest = (
        joined(MomentFederation(lift=16, classes=range(10)), [rows]).moments()
        for rows in (np.arange(400), np.arange(90, 110), np.r_[np.arange(90), np.arange(110, 400)])
    )
    np.testing.assert_array_equal(whole.without(some).vector, rest.vector)
    with pytest.raises(InvalidInputError, match="do not hold all the records"):
        some.without(whole)
    noisy = MomentFederation(epsilon=1.0, classes=range(10), second_moments="pooled")
    sent = joined(noisy, [np.arange(400)]).moments()
    with pytest.raises(InvalidInputError, match="without noise only"):
        sent.without(sent)


def test_sum_of_vectors_is_the_vector_of_the_sum() -> None:
    federation = MomentFederation(classes=range(10))
    parts = [joined(MomentFederation(classes=range(10)), [rows]).moments() for rows in ([0, 5], [1, 2, 3])]
    both = joined(federation, [[0, 1, 2, 3, 5]]).moments()
    opened = both.with_vector(parts[0].vector + parts[1].vector, (0.0, 0.0, 0.0), both.guarantee_)
    np.testing.assert_array_equal(opened.vector, both.vector)
    with pytest.raises(InvalidInputError, match="whole numbers"):
        both.with_vector(both.vector[1:], (0.0, 0.0, 0.0), both.guarantee_)


@pytest.mark.parametrize("lift", [None, 16])
def test_folds_of_groups_do_not_depend_on_where_the_groups_are(lift: int | None) -> None:
    groups = np.repeat(np.arange(80), 5)
    rng = np.random.default_rng(0)
    spread = np.array_split(rng.permutation(400), 5)
    found = [
        joined(MomentFederation(lift=lift), parts, groups).fitted(MomentClassifier)
        for parts in ([np.arange(400)], spread)
    ]
    assert found[0].ridge_ == found[1].ridge_
    np.testing.assert_array_equal(found[0].decision_function(ROWS), found[1].decision_function(ROWS))
    central = MomentClassifier(None, lift=lift, radius=None).fit(np.tile(ROWS, 4), LABELS, groups=groups)
    assert central.held_out_error_ < 1.0


def test_persons_are_groups_and_whole_numbers_name_them_in_any_type() -> None:
    federation = MomentFederation()
    numbers = np.repeat(np.arange(80), 5)
    sent = [
        federation.release(ROWS, LABELS, **given)
        for given in ({"groups": numbers}, {"groups": numbers.astype(float)}, {"person": numbers})
    ]
    assert sent[0] == sent[1] == sent[2]
    assert sent[0] != federation.release(ROWS, LABELS)


def test_groups_that_repeat_rows_are_not_taken_for_independent_rows() -> None:
    # Ten copies of each row: left out one by one they seem to need no ridge, left out by group they do.
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.normal(size=(30, 25)) + y[:, None] / 2
    rows, labels, copies = np.repeat(X, 10, axis=0), np.repeat(y, 10), np.repeat(np.arange(30), 10)
    alone = MomentClassifier(None, lift=None, radius=10.0).fit(rows, labels)
    grouped = MomentClassifier(None, lift=None, radius=10.0).fit(rows, labels, groups=copies)
    assert grouped.ridge_ > 3.0 * alone.ridge_
    assert grouped.held_out_error_ > 2.0 * alone.held_out_error_


def test_message_of_1280_columns_and_101_classes_is_at_most_8_megabytes() -> None:
    X = np.random.default_rng(0).normal(size=(202, 1280))
    federation = MomentFederation(classes=range(101))
    sent = federation.release(X, np.arange(202) % 101)
    assert len(sent) <= 8e6
    assert federation.add("site", sent).moments().n_features_in_ == 1280


def test_tables_of_one_schema_add_up_and_others_are_refused() -> None:
    fields = [Field("a", low=0, high=16), Field("b", low=0, high=16)]
    schema = Schema([*fields, Field("sick", "string", "label", levels=("no", "yes"))])
    table = {"a": ROWS[:, 2], "b": ROWS[:, 20], "sick": np.where(LABELS > 4, "yes", "no")}
    half = [{name: column[part] for name, column in table.items()} for part in (slice(150), slice(150, 400))]
    whole, spread = MomentFederation(schema, lift=8), MomentFederation(schema, lift=8)
    whole.add("all", whole.release(table))
    for number, part in enumerate(half):
        spread.add(number, spread.release(part))
    np.testing.assert_array_equal(whole.moments().vector, spread.moments().vector)
    assert set(whole.fitted(MomentClassifier).predict(table)) <= {"no", "yes"}
    other = MomentFederation(Schema([fields[0], Field("c", low=0, high=16), schema.label]), lift=8)
    with pytest.raises(InvalidInputError, match="differs"):
        whole.add("other", other.release({"a": ROWS[:, 2], "c": ROWS[:, 20], "sick": table["sick"]}))


@pytest.mark.parametrize("kind", ["pooled", "class"])
def test_sums_that_no_rows_can_have_are_refused(kind: str) -> None:
    federation = MomentFederation(second_moments=kind)
    sent = federation.release(ROWS / 100.0, LABELS)
    forgeries = {
        "numbers of rows": ("counts_", -1.0),
        "no numbers of rows": ("counts_", 2.0**22),
        "sums of a site are larger": ("sums_", 128.0),
        "products of a site are larger": ("second_moments_", 128.0),
        "contradict its sums": ("second_moments_", 0.0),
        "whole numbers of steps": ("sums_", 0.999),
    }
    for message, (name, factor) in forgeries.items():
        forged = PrivateMoments.from_bytes(sent)
        setattr(forged, name, getattr(forged, name) * factor)
        with pytest.raises(InvalidInputError, match=message):
            federation.add("liar", forged)
    assert federation.add("honest", sent).owners == ("honest",)
    with pytest.raises(InvalidInputError, match="more rows than a site may contribute"):
        MomentFederation(second_moments=kind, most_rows=399).add("large", sent)


def test_a_federation_needs_the_number_of_directions() -> None:
    with pytest.raises(InvalidInputError, match="lift must be a number"):
        MomentFederation(lift="auto")  # type: ignore[arg-type]
