"""What is promised, in numbers, words and JSON."""

import math
from dataclasses import replace

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.privacy import AnalyticGaussian, Ball, Box, Gaussian, Guarantee, Laplace, OptimalNoise
from reference import mechanisms as literal


def test_per_entry_noise_is_weak_for_a_whole_record() -> None:
    assert Laplace(1.0, sensitivity=1.0).guarantee(784).record == (784.0, 0.0)
    epsilon, delta = OptimalNoise(1.0, 1e-5, sensitivity=1.0).guarantee(784).record
    assert epsilon == 784.0
    assert delta == pytest.approx(1 - (1 - 1e-5) ** 784)
    for kind in (Gaussian, AnalyticGaussian):
        noise = kind(0.5, 1e-5, 2.0, sampler="float")
        epsilon, delta = noise.guarantee(100).record
        assert delta == 1e-5
        # by the formula as printed: the row is ten times as far away
        assert literal.gaussian_delta(epsilon, noise.scale, 20.0) == pytest.approx(1e-5, rel=1e-6)
        assert noise.guarantee(100).entry == (0.5, 1e-5)


def test_unequal_features_are_not_counted_as_equal() -> None:
    box = Box([0, 0, 0], [10, 1, 1])
    assert Laplace(1.0, sensitivity=box, sampler="float").guarantee(3).record == (pytest.approx(1.2), 0.0)
    gaussian = AnalyticGaussian(1.0, sensitivity=box, sampler="float")
    expected = literal.gaussian_delta(gaussian.guarantee(3).record[0], gaussian.scale, math.sqrt(102))
    assert expected == pytest.approx(1e-5, rel=1e-6)
    hardened = Laplace(1.0, sensitivity=box).guarantee(3).record[0]
    assert 1.2 < hardened < 1.2 + 1e-5
    with pytest.raises(InvalidInputError, match="the domain has 3 features"):
        Laplace(1.0, sensitivity=box).guarantee(4)


@pytest.mark.parametrize("sampler", ["float", "hardened"])
def test_noise_calibrated_per_record_gives_that_record_guarantee(sampler: str) -> None:
    box = Box(0, 1, n_features=100)
    options = {"sensitivity": box, "unit": "record", "sampler": sampler}
    laplace = Laplace(2.0, **options)
    assert laplace.scale == pytest.approx(50, rel=1e-3)
    assert laplace.guarantee(100).record == (2.0, 0.0)
    assert laplace.guarantee(100).entry[0] == pytest.approx(0.02, rel=1e-3)
    optimal = OptimalNoise(2.0, 1e-3, **options).guarantee(100, 1000)
    assert optimal.record == (2.0, 1e-3)
    assert optimal.entry[1] == pytest.approx(1 - (1 - 1e-3) ** 0.01)
    assert optimal.untouched_entries == pytest.approx(1e5 * (1 - (1 - 1e-3) ** 0.01))
    gaussian = AnalyticGaussian(2.0, 1e-3, **options)
    assert gaussian.guarantee(100).record == (2.0, 1e-3)
    assert literal.gaussian_delta(2.0, gaussian.scale, 10.0) == pytest.approx(1e-3, rel=1e-2)
    assert literal.gaussian_delta(2.0, gaussian.scale, 10.0) <= 1e-3
    entry = gaussian.guarantee(100).entry[0]
    assert literal.gaussian_delta(entry, gaussian.scale, 1.0) == pytest.approx(1e-3, rel=1e-2)


def test_entry_guarantee_of_record_noise_without_a_domain_is_that_of_the_record() -> None:
    """Without a domain one entry may hold the whole change."""
    assert Laplace(1.0, sensitivity=3.0, unit="record").guarantee(5).entry == (1.0, 0.0)
    ball = AnalyticGaussian(1.0, sensitivity=Ball(0.5), unit="record")
    assert ball.scale == pytest.approx(AnalyticGaussian(1.0, sensitivity=1.0).scale)
    assert ball.guarantee(7).entry == (1.0, 1e-5)


def test_guarantee_counts_entries_released_without_noise() -> None:
    assert OptimalNoise(1.0, 1e-3, sensitivity=1.0).guarantee(10, 500).untouched_entries == pytest.approx(5)
    assert OptimalNoise(1.0, 1e-3, sensitivity=1.0).guarantee(10).untouched_entries is None
    assert Laplace(1.0, sensitivity=1.0).guarantee(10).untouched_entries == 0
    words = "Entries released without noise, expected number: 5."
    assert words in str(OptimalNoise(1.0, 1e-3, sensitivity=1.0).guarantee(10, 500))
    assert "released without noise" in str(OptimalNoise(1.0, 1e-3, sensitivity=1.0).guarantee(10))
    assert "released without noise" not in str(Laplace(1.0, sensitivity=1.0).guarantee(10, 500))


def of_moments(record: tuple[float, float] = (1.0, 1e-5), neighbours: str = "add-remove") -> Guarantee:
    replaced = (1.9, 1e-5) if neighbours == "add-remove" else record
    return Guarantee(
        "record",
        replaced,
        record,
        5,
        0.0,
        labels=replaced,
        mechanism="Gaussian",
        neighbours=neighbours,
        replaced=replaced,
        labels_in_record=True,
        clipped=True,
    )


def test_private_labels_are_added_to_the_guarantee_of_features() -> None:
    base = Laplace(1.0, sensitivity=1.0).guarantee(3)
    assert base.labels is None
    assert base.record_with_label is None
    assert "Labels and class sizes: NOT covered." in str(base)
    covered = base.with_labels(0.5, 1e-6)
    assert covered.labels == (0.5, 1e-6)
    assert covered.record_with_label == (3.5, 1e-6)
    assert "epsilon 3.5 per record with label" in str(covered)


def test_record_guarantee_depends_on_the_neighbouring_relation() -> None:
    table = Laplace(1.0, sensitivity=1.0).guarantee(3)
    assert (table.neighbours, table.replaced) == ("replace", table.record)
    assert table.record_under("replace") == (3.0, 0.0)
    assert table.record_under("add-remove") == (math.inf, 1.0)  # how many records there are is not covered
    moments = of_moments()
    assert moments.record_under("add-remove") == moments.record == moments.record_with_label == (1.0, 1e-5)
    assert moments.record_under("replace") == moments.replaced == (1.9, 1e-5)
    text = str(moments)
    clipped = ", clipped to the declared domain"
    assert text.startswith("Noise: Gaussian, calibrated per record.\n")
    assert "Noise:" not in str(replace(moments, mechanism=""))
    assert f"one record and its label more or less{clipped}: epsilon 1 per record, delta 1e-05" in text
    assert f"one record and its label replaced{clipped}: epsilon 1.9 per record, delta 1e-05" in text
    assert "replaced, if no entry changes by more than 1 (not checked): epsilon 3 per record" in str(table)
    with pytest.raises(InvalidInputError, match="neighbours must be 'replace' or 'add-remove'"):
        table.record_under("friends")


def test_without_a_number_for_replaced_records_two_steps_are_counted() -> None:
    promise = Guarantee("record", (9.0, 1e-3), (1.0, 1e-5), 5, neighbours="add-remove")
    assert promise.replaced == (2.0, pytest.approx((1 + math.e) * 1e-5))
    for epsilon in (15.0, 1e6):  # (1 + e^epsilon) delta is beyond 1
        empty = Guarantee("record", (9.0, 1e-3), (epsilon, 1e-5), 5, neighbours="add-remove")
        assert empty.replaced == (math.inf, 1.0)
    with pytest.raises(InvalidInputError, match="replaced is what record says"):
        Guarantee("record", (1.0, 0.0), (1.0, 0.0), 5, replaced=(2.0, 0.0))


def test_descriptions_that_lack_a_field_are_refused() -> None:
    plain = Laplace(1.0, sensitivity=1.0).guarantee(3).with_labels(0.5).to_dict()
    for name in ("neighbours", "replaced", "labels_in_record", "n_owners", "clipped", "mu", "record"):
        with pytest.raises(InvalidInputError, match="not the description of a guarantee"):
            Guarantee.from_dict({key: value for key, value in plain.items() if key != name})


def test_sites_with_separate_records_share_the_weaker_promise() -> None:
    one, other = of_moments(), of_moments((0.5, 1e-4)).voided("raw data")
    both = one.among_owners(other)
    assert (both.record, both.n_owners, both.voided_by) == ((1.0, 1e-4), 2, ("raw data",))
    assert both.among_owners(one).n_owners == 3
    assert "each of 2 sites, if no record is at two sites" in str(both)
    assert both.mechanism == "Gaussian"
    hardened = replace(one, mechanism="Gaussian, hardened")
    assert both.among_owners(hardened).mechanism == "Gaussian / Gaussian, hardened"
    for stranger in (
        of_moments(neighbours="replace"),
        replace(one, n_features=6),
        Laplace(1.0, sensitivity=1.0).guarantee(5),
    ):
        with pytest.raises(InvalidInputError, match="different units, features or neighbouring relations"):
            one.among_owners(stranger)
    counted = OptimalNoise(1.0, 1e-3, sensitivity=1.0).guarantee(10, 500)
    assert counted.among_owners(counted).untouched_entries == pytest.approx(10)
    assert (
        counted.among_owners(OptimalNoise(1.0, 1e-3, sensitivity=1.0).guarantee(10)).untouched_entries is None
    )
    assert counted.with_labels(1.0).among_owners(counted).labels is None


def test_text_of_a_void_guarantee_starts_with_the_reason() -> None:
    base = Laplace(1.0, sensitivity=1.0).guarantee(3)
    assert base.holds
    spoilt = base.voided("the number of steps was chosen by looking at the raw data")
    assert base.holds  # nothing is changed in place
    assert not spoilt.holds
    assert str(spoilt).startswith("VOID: the number of steps")
    assert "do NOT hold" in str(spoilt)
    assert spoilt.voided("the number of steps was chosen by looking at the raw data") == spoilt
    assert len(spoilt.voided("another").voided_by) == 2
    assert "VOID" not in str(base)


def test_invalid_guarantees_are_refused() -> None:
    good = (1.0, 0.0)
    with pytest.raises(InvalidInputError, match="unit"):
        Guarantee("row", good, good, 3)
    for bad in ((-1.0, 0.0), (math.nan, 0.0), (1.0, 2.0), (1.0, math.nan), (1.0,), None, 1.0, ("a", "b")):
        with pytest.raises(InvalidInputError, match="entry: must"):
            Guarantee("entry", bad, good, 3)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="record: must"):
            Guarantee("entry", good, bad, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="must have epsilon"):
        Laplace(1.0, sensitivity=1.0).guarantee(3).with_labels(-1.0)
    with pytest.raises(InvalidInputError, match="needs a sentence"):
        Laplace(1.0, sensitivity=1.0).guarantee(3).voided(" ")
    with pytest.raises(InvalidInputError, match="voided_by: Input should be a valid tuple"):
        Guarantee("entry", good, good, 3, voided_by="reason")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="n_owners"):
        Guarantee("entry", good, good, 3, n_owners=0)
    with pytest.raises(InvalidInputError, match="labels_in_record"):
        Guarantee("record", good, good, 3, labels_in_record=True)
    with pytest.raises(InvalidInputError, match="covered already"):
        of_moments().with_labels(1.0)
    for plain in ({}, {"unit": "entry"}, {"entry": 3}):
        with pytest.raises(InvalidInputError, match="not the description"):
            Guarantee.from_dict(plain)


def test_labels_that_are_randomised_twice_lose_both() -> None:
    once = Laplace(1.0, sensitivity=1.0).guarantee(3).with_labels(8.0)
    assert once.labels == (8.0, 0.0)
    assert once.with_labels(0.5, 1e-6).labels == (8.5, 1e-6)


def test_a_description_that_contradicts_its_own_holds_is_refused() -> None:
    for guarantee in (of_moments(), of_moments().voided("of a seed")):
        plain = guarantee.to_dict()
        with pytest.raises(InvalidInputError, match="holds in two ways"):
            Guarantee.from_dict({**plain, "holds": not guarantee.holds})


@pytest.mark.parametrize("mechanism", [Laplace, OptimalNoise, AnalyticGaussian])
def test_an_entry_of_rows_that_are_shortened_is_promised_no_more_than_its_record(mechanism: type) -> None:
    # One large entry shortens the row: all of its entries change, by 8 of the 20 that the ball is wide.
    ball = Ball(1.0, n_features=100)
    before, after = np.full((1, 100), 0.1), np.full((1, 100), 0.1)
    after[0, 0] = 1e6
    assert np.abs(ball.clip(before) - ball.clip(after)).sum() > 8
    promise = mechanism(1.0, sensitivity=ball, unit="record").guarantee(100)
    assert promise.entry == promise.record


def test_a_person_is_told_about_with_all_labels() -> None:
    noise = Laplace(1.0, sensitivity=Box(0, 1), unit="person", rows_per_person=3)
    promise = noise.guarantee(4).with_labels(2.0)
    assert promise.person_with_labels == (7.0, 0.0)
    text = str(promise)
    assert "with their labels, clipped to the declared domain: epsilon 7 per person with labels" in text
    assert "1097 to 1" in promise.odds("person")  # exp(7) is 1096.6: rounded up
    assert "the features of the records of one person" in noise.guarantee(4).odds("person")
    unlimited = replace(promise, rows_per_person=None)
    assert "may become certain" in unlimited.odds("person")
