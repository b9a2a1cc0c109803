"""Moments of persons: everybody counts once, and is covered with all records."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold._base.fixed_point import exact_gram
from onefold.exceptions import InvalidInputError
from onefold.privacy import PrivateMoments
from onefold.privacy.guarantee import FLOAT_SAMPLER, SEEDED
from onefold.privacy.moments._release import SENSITIVITIES, Noise, class_sums

CLASSES = 3


def blocks(rows, labels, person, sampler="hardened"):
    """The five blocks before noise, from the code that makes a release; records on the unit ball."""
    codes = np.unique(person, return_inverse=True)[1]
    noise = Noise.of(0, sampler, codes)
    totals, seconds = class_sums(noise.firsts(rows), noise.roots(rows), labels, CLASSES)
    together = exact_gram(noise.roots(rows))  # of the first of two releases
    return noise.firsts(rows).sum(axis=0), noise.sizes(labels, CLASSES), totals, seconds, together


def literal_blocks(rows, labels, person):
    """The same, one record after the other."""
    names = list(person)
    centre, sizes = np.zeros(rows.shape[1]), np.zeros(CLASSES)
    totals = np.zeros((CLASSES, rows.shape[1]))
    seconds = np.zeros((CLASSES, rows.shape[1], rows.shape[1]))
    for row, label, name in zip(rows, labels, names, strict=True):
        weight = 1.0 / names.count(name)
        centre += weight * row
        sizes[label] += weight
        totals[label] += weight * row
        seconds[label] += weight * np.outer(row, row)
    return centre, sizes, totals, seconds, seconds.sum(axis=0)


def some_people(seed, n_people=4, most=6, p=3):
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_people), rng.integers(1, most, n_people))
    rows = rng.normal(size=(len(person), p)) * 10.0 ** rng.integers(-3, 3)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0) * (1 + 1e-12)
    return rows, rng.integers(0, CLASSES, len(person)), person


@given(st.integers(0, 2**32))
def test_weighted_sums_are_the_literal_ones(seed: int) -> None:
    people = some_people(seed)
    for ours, literal in zip(blocks(*people), literal_blocks(*people), strict=True):
        np.testing.assert_allclose(ours, literal, atol=len(people[0]) * 2.0**-12)
    for ours, literal in zip(blocks(*people, "float"), literal_blocks(*people), strict=True):
        np.testing.assert_allclose(ours, literal, rtol=1e-9, atol=1e-11)


@given(st.integers(0, 2**32))
def test_no_person_moves_a_block_farther_than_a_record_may(seed: int) -> None:
    rows, labels, person = some_people(seed)
    other_rows, other_labels, other = some_people(seed + 1, n_people=1, most=9)
    gone = person == 0
    without = blocks(rows[~gone], labels[~gone], person[~gone])
    first = blocks(rows, labels, person)
    second = blocks(
        np.vstack([rows[~gone], other_rows]),
        np.concatenate([labels[~gone], other_labels]),
        np.concatenate([person[~gone], np.full(len(other), 99)]),
    )
    for relation, one, two in (("add-remove", without, first), ("replace", first, second)):
        for bound, a, b in zip(SENSITIVITIES[relation], one, two, strict=True):
            assert np.linalg.norm((a - b).ravel()) <= bound


def test_a_person_with_many_equal_records_moves_the_sums_by_all_that_is_allowed() -> None:
    rows, labels = np.tile([1.0, 0.0, 0.0], (50, 1)) * (1 - 2.0**-14), np.zeros(50, dtype=int)
    moved = blocks(rows, labels, np.zeros(50))
    for block in moved:
        assert 0.99 < np.linalg.norm(block.ravel()) <= 1.0


def patients(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 2)) / 10 + y[:, None] / 2, y, rng.integers(0, n // 5, n)


def test_persons_are_promised_what_records_were_and_records_less() -> None:
    X, y, person = patients()
    promise = PrivateMoments(1.0, classes=[0, 1], rows_per_person=3).fit(X, y, person).guarantee_
    assert promise.holds
    assert (promise.unit, promise.person, promise.rows_per_person) == ("person", (1.0, 1e-5), 3)
    # A record more can take the place of one that was kept: computed for a replaced one.
    assert promise.record == promise.replaced == promise.entry
    assert promise.record[0] > 1.0
    assert promise.conditions == ("a changed record stays with its person",)
    assert "One person with at most 3 records, more or less" in str(promise)


def test_counts_are_numbers_of_persons() -> None:
    X, y, person = patients()
    person = np.arange(len(y)) % 100 + 100 * y  # two hundred persons, each with records of one class
    model = PrivateMoments(1e5, classes=[0, 1]).fit(X, y, person)
    np.testing.assert_allclose(model.counts_, [100, 100], atol=2)
    np.testing.assert_allclose(model.means_, PrivateMoments(None).fit(X, y).means_, atol=0.2)


def test_a_release_of_persons_survives_its_file() -> None:
    X, y, person = patients()
    model = PrivateMoments(1.0, classes=[0, 1], rows_per_person=4).fit(X, y, person)
    again = PrivateMoments.from_bytes(model.to_bytes())
    assert again.guarantee_ == model.guarantee_
    assert again.rows_per_person == 4
    both = model.add(again) if np.array_equal(model.centre_, again.centre_) else None
    assert both is not None
    assert both.guarantee_.person == (1.0, 1e-5)


def test_persons_must_be_told_completely() -> None:
    X, y, person = patients(60)
    with pytest.raises(InvalidInputError, match="needs person"):
        PrivateMoments(1.0, classes=[0, 1], rows_per_person=3).fit(X, y)
    with pytest.raises(InvalidInputError, match="needs rows_per_person"):
        PrivateMoments(1.0).fit(X, y, person)
    with pytest.raises(InvalidInputError, match="one for each row"):
        PrivateMoments(1.0, classes=[0, 1]).fit(X, y, person[:-1])


# --- what a release does not show, and does not claim ------------------------------------------------------


def test_classes_that_are_left_out_do_not_show_in_the_type_of_the_others() -> None:
    X, y, _ = patients()
    words = np.array(["no", "yes"])[y]
    longer = np.where(np.arange(len(y)) == 5, "a rare disease with a long name", words)
    numbers = np.where(np.arange(len(y)) == 5, 7.0, y.astype(float))
    for labels, usual in ((longer, words), (numbers, y)):
        one, other = (PrivateMoments(2.0).fit(X, given) for given in (labels, usual))
        assert one.classes_.dtype == other.classes_.dtype
        np.testing.assert_array_equal(one.classes_, other.classes_)
        assert len(one.to_bytes()) == len(other.to_bytes())


def test_seeds_and_float_samplers_promise_nothing() -> None:
    X, y, _ = patients(300)
    assert PrivateMoments(1.0, classes=[0, 1]).fit(X, y).guarantee_.holds
    for options, reason in (({"random_state": 0}, SEEDED), ({"sampler": "float"}, FLOAT_SAMPLER)):
        model = PrivateMoments(1.0, classes=[0, 1], **options).fit(X, y)
        assert model.guarantee_.voided_by == (reason,)
        assert PrivateMoments.from_bytes(model.to_bytes()).guarantee_.voided_by == (reason,)


def test_a_parameter_changed_after_the_release_changes_no_claim() -> None:
    X, y, _ = patients(300)
    model = PrivateMoments(1.0, classes=[0, 1]).fit(X, y)
    model.epsilon, model.sampler, model.delta = 0.01, "float", 1e-9
    again = PrivateMoments.from_bytes(model.to_bytes())
    assert (again.epsilon, again.delta, again.sampler) == (1.0, 1e-5, "hardened")


def test_a_given_centre_is_a_condition() -> None:
    X, y, _ = patients(300)
    promise = PrivateMoments(1.0, classes=[0, 1], centre=[0.1, 0.1]).fit(X, y).guarantee_
    assert promise.conditions == ("the given centre is public or was released before",)
    assert math.isfinite(promise.record[0])
