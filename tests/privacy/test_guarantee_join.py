"""Joins of guarantees lose nothing: no number shrinks, no condition or reason disappears."""

import math
import re

import pytest
from hypothesis import given, settings

from onefold.privacy import AnalyticGaussian, Box, Guarantee, Laplace
from onefold.privacy.wording import UNSTATED, assumptions
from reference.guarantees import guarantees, of_two_sites

NUMBERS = ("entry", "record", "replaced", "labels", "person", "record_with_label")
many = settings(max_examples=60, deadline=None)


def no_smaller(joined: tuple[float, float] | None, part: tuple[float, float] | None) -> bool:
    """Nothing is promised any more (None), or both numbers are at least as large."""
    return joined is None or (part is not None and joined[0] >= part[0] and joined[1] >= part[1])


def assert_nothing_lost(joined: Guarantee, part: Guarantee) -> None:
    alike = joined.neighbours == part.neighbours
    for name in NUMBERS:
        if alike or name not in ("record", "record_with_label"):
            assert no_smaller(getattr(joined, name), getattr(part, name)), name
    for relation in ("replace", "add-remove"):
        assert no_smaller(joined.record_under(relation), part.record_under(relation))
    assert set(part.voided_by) <= set(joined.voided_by)
    assert set(part.conditions) <= set(joined.conditions)
    assert joined.holds <= part.holds
    assert (joined.labels is None) or part.labels is not None  # raw labels are never covered
    assert joined.labels_in_record <= part.labels_in_record
    assert joined.clipped <= part.clipped
    assert joined.n_features >= part.n_features
    assert joined.n_owners >= part.n_owners
    assert joined.untouched_entries is None or joined.untouched_entries >= (part.untouched_entries or 0.0)
    if joined.person is not None and part.rows_per_person is not None:
        assert joined.rows_per_person <= part.rows_per_person  # no larger groups than the part covers
    if joined.rows_per_person == part.rows_per_person:
        assert no_smaller(joined.person_with_labels, part.person_with_labels)
    text = str(joined)
    for words in part.conditions:
        assert f"Provided that {words}." in text
    for words in part.voided_by:
        assert f"VOID: {words}." in text
    assert_change_is_limited(joined, part)


def assert_change_is_limited(joined: Guarantee, part: Guarantee) -> None:
    """What a part assumes about changes that nobody checked, the joined guarantee assumes as well."""
    if part.clipped or part.sensitivity is None:
        return
    what = "entry" if part.unit == "entry" else "record" if part.unit != "label" else "label"
    limits = re.findall(rf"no {what} changes by more than ([\d.]+)", " ".join(assumptions(joined)))
    assert limits, "the declared change disappeared"
    assert min(map(float, limits)) <= part.sensitivity


@many
@given(guarantees, guarantees)
def test_join_loses_nothing_of_either_part(one: Guarantee, other: Guarantee) -> None:
    joined = one.join(other)
    for part in (one, other):
        assert_nothing_lost(joined, part)


@many
@given(of_two_sites())
def test_among_owners_loses_nothing_and_counts_sites(parts: tuple[Guarantee, Guarantee]) -> None:
    joined = parts[0].among_owners(parts[1])
    for part in parts:
        assert_nothing_lost(joined, part)
    assert joined.n_owners == parts[0].n_owners + parts[1].n_owners


@many
@given(guarantees, guarantees)
def test_sites_that_know_a_person_are_not_counted_as_less(one: Guarantee, other: Guarantee) -> None:
    joined = one.join(other)
    alike = joined.neighbours == one.neighbours == other.neighbours
    covered = [part.person is None for part in (joined, one, other)]
    if not alike or len(set(covered)) > 1:
        return  # the joined guarantee speaks of another unit or relation
    for n_sites in (1, 2, 5):
        for shared in (False, True):
            together = joined.at_sites(n_sites, shared)
            for part in (one, other):
                alone = part.at_sites(n_sites, shared)
                # Without mu the losses are added up: a larger delta, and a true, perhaps smaller epsilon.
                if (joined.mu is None) == (part.mu is None):
                    assert no_smaller(together, alone)
                assert together[0] >= part.person[0] if part.person else together[0] >= part.record[0]


@many
@given(guarantees, guarantees)
def test_join_does_not_depend_on_the_order(one: Guarantee, other: Guarantee) -> None:
    here, there = one.join(other), other.join(one)
    for name in ("voided_by", "conditions"):
        assert sorted(getattr(here, name)) == sorted(getattr(there, name))
    assert sorted(here.mechanism.split(" / ")) == sorted(there.mechanism.split(" / "))
    for name in (
        *NUMBERS,
        "unit",
        "neighbours",
        "sensitivity",
        "clipped",
        "rows_per_person",
        "mu",
        "n_owners",
    ):
        assert getattr(here, name) == getattr(there, name), name


@many
@given(guarantees)
def test_join_with_itself_changes_only_the_count_of_untouched_entries(guarantee: Guarantee) -> None:
    joined = guarantee.join(guarantee)
    changed = {
        name for name in guarantee.__dataclass_fields__ if getattr(joined, name) != getattr(guarantee, name)
    }
    assert changed <= {"untouched_entries"}
    if guarantee.untouched_entries is not None:  # the entries of both releases
        assert joined.untouched_entries == 2 * guarantee.untouched_entries


def test_the_larger_delta_is_kept_with_the_larger_epsilon() -> None:
    one = Guarantee("record", (1.0, 1e-2), (1.0, 1e-2), 3, clipped=True)
    other = Guarantee("record", (1.1, 1e-9), (1.1, 1e-9), 3, clipped=True)
    assert one.join(other).record == (1.1, 1e-2)


def test_declared_changes_of_different_units_are_both_kept() -> None:
    """A bound of 3 on each entry would say less than a bound of 3 on the record."""
    entry = Laplace(1.0, sensitivity=1.0).guarantee(4)
    record = Laplace(1.0, sensitivity=3.0, unit="record").guarantee(4)
    clipped = Laplace(1.0, sensitivity=Box(0, 1), unit="record").guarantee(4)
    for joined in (entry.join(record), record.join(entry), entry.join(clipped).join(record)):
        assert any("no record changes by more than 3" in words for words in assumptions(joined))
        assert any("no entry changes by more than 1" in words for words in assumptions(joined))
        assert not joined.clipped
    assert entry.join(clipped).sensitivity == 1.0
    old = [Guarantee("record", (1.0, 0.0), (1.0, 0.0), 4, sensitivity=size) for size in (2.0, 5.0)]
    told = " ".join(assumptions(old[0].join(old[1])))
    assert "no record changes by more than 2" in told
    assert "no record changes by more than 5" in told


def test_a_change_that_one_part_leaves_open_is_not_hidden_by_the_words_of_the_other() -> None:
    unstated = Guarantee("record", (1.0, 0.0), (1.0, 0.0), 4)
    stated = unstated.provided("no record changes by more than 2, which nothing checks")
    for joined in (unstated.join(stated), stated.join(unstated)):
        assert set(assumptions(joined)) == {UNSTATED, *stated.conditions}


def test_gaussian_privacy_is_joined_only_where_it_means_the_same() -> None:
    record = AnalyticGaussian(1.0, 1e-5, Box(0, 1), unit="record").guarantee(4)
    weaker = AnalyticGaussian(2.0, 1e-5, Box(0, 1), unit="record").guarantee(4)
    assert record.join(weaker).mu == weaker.mu > record.mu
    person = AnalyticGaussian(1.0, 1e-5, Box(0, 1), unit="record").guarantee(4, rows_per_person=3)
    assert record.join(person).mu is None
    other_delta = AnalyticGaussian(1.0, 1e-3, Box(0, 1), unit="record").guarantee(4)
    assert record.join(other_delta).mu is None
    assert record.join(other_delta).at_sites(2) == (2.0, 2e-3)


def test_persons_are_joined_for_the_smaller_number_of_rows() -> None:
    """A part that covers two rows of a person says nothing about five."""
    two, five = (Laplace(1.0, sensitivity=Box(0, 1)).guarantee(3, rows_per_person=k) for k in (2, 5))
    joined = two.join(five)
    assert (joined.rows_per_person, joined.person) == (2, five.person)
    assert two.join(Laplace(1.0, sensitivity=Box(0, 1)).guarantee(3)).person is None


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_record_more_or_less_joined_with_a_replaced_one_is_replaced(neighbours: str) -> None:
    table = Laplace(1.0, sensitivity=Box(0, 1)).guarantee(3)
    moments = Guarantee("record", (1.0, 0.0), (1.0, 0.0), 3, neighbours="add-remove", replaced=(5.0, 0.0))
    joined = table.join(moments)
    assert joined.neighbours == "replace"
    expected = (5.0, 0.0) if neighbours == "replace" else (math.inf, 1.0)
    assert joined.record_under(neighbours) == expected
