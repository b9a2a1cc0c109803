"""What a site says about its rows is true: no number, reason or condition is lost on any way it can take."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import FoldingClassifier
from onefold._base.records import plain_of
from onefold.exceptions import InvalidInputError, MessageError
from onefold.fabrication import PrivateClassifier
from onefold.federated import LocalModel, MomentFederation, release_moments, simulate
from onefold.federated._rows import GIVEN_BATCHES, PUBLIC_BATCHES, with_more_rows
from onefold.federated.messages import Profile, Query, check_guarantee, from_bytes
from onefold.io import to_bytes as model_bytes
from onefold.privacy import (
    AnalyticGaussian,
    Box,
    Guarantee,
    Laplace,
    OptimalNoise,
    PrivateMoments,
    RandomisedLabels,
)
from onefold.privacy.guarantee import FLOAT_SAMPLER, SEEDED
from onefold.privacy.persons import SAME_PERSON
from reference.neighbours import RECORDS, in_containers, outline, replaced

FOLDING = FoldingClassifier(n_components=2, batch_size=10)
BOX = Box(0, 1, 3)
NOISE = Laplace(4.0, sensitivity=BOX)
PER_PERSON = OptimalNoise(4.0, 1e-2, BOX, unit="record", rows_per_person=2)
WHO = np.arange(60) // 5  # twelve persons of five rows


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    return rng.random((60, 3)) * 0.3 + 0.5 * y[:, None], y


def everywhere(model: LocalModel, path) -> dict[str, Guarantee]:
    """The guarantee of a model on every way that it can take."""
    model.save(path)
    profile = from_bytes(model.profile("north").to_bytes())
    assert isinstance(profile, Profile)
    assert profile.guarantee is not None
    return {
        "model": model.guarantee_,
        "classifier": model.estimator_.guarantee_,
        "file": LocalModel.load(path).guarantee_,
        "profile": Guarantee.from_dict(profile.guarantee),
        "header": Guarantee.from_dict(plain_of(profile, {})["guarantee"]),
    }


# --- joins ------------------------------------------------------------------------------------------------


def test_rows_that_come_later_never_make_a_number_smaller(rows) -> None:
    X, y = rows
    model = LocalModel(FOLDING, OptimalNoise(1.0, 1e-2, BOX)).fit(X, y)
    model._recipe.maker.mechanism = OptimalNoise(1.1, 1e-9, BOX)
    model.extend(X, y)
    assert model.guarantee_.entry == (1.1, 1e-2)
    assert model.guarantee_.record[0] == pytest.approx(3.3)
    assert model.guarantee_.record[1] >= OptimalNoise(1.0, 1e-2, BOX).guarantee(3).record[1]


def test_reasons_and_conditions_of_both_parts_are_kept() -> None:
    one = NOISE.guarantee(3).voided("first").provided("one is true")
    other = NOISE.guarantee(3).voided("second").provided("another is true")
    for joined in (with_more_rows(one, other), one.among_owners(other)):
        assert joined.voided_by == ("first", "second")
        assert joined.conditions[:2] == ("one is true", "another is true")


@pytest.mark.parametrize(
    "noise", [PER_PERSON, AnalyticGaussian(1.0, 1e-6, BOX, unit="person", rows_per_person=2)]
)
def test_a_person_among_old_and_new_rows_loses_both(rows, noise) -> None:
    X, y = rows
    model = LocalModel(FOLDING, noise).fit(X, y, person=WHO)
    before = model.guarantee_
    model.extend(X, y, person=WHO)
    after = model.guarantee_
    if before.mu is None:
        assert after.person == (2 * before.person[0], 2 * before.person[1])
    else:
        assert after.mu == pytest.approx(before.mu * np.sqrt(2))
        assert after.person == (pytest.approx(before.at_sites(2)[0]), before.person[1])
        assert before.person[0] < after.person[0] < 2 * before.person[0]
    assert (before.rows_per_person, after.rows_per_person) == (2, 4)
    assert after.record == before.record  # a record is among the ones or the others


def test_raw_model_gets_no_guarantee_from_noise_on_further_rows(rows, tmp_path) -> None:
    X, y = rows
    LocalModel(FOLDING).fit(X, y).save(tmp_path / "raw")
    model = LocalModel.load(tmp_path / "raw", like=LocalModel(FOLDING, NOISE))
    with pytest.raises(InvalidInputError, match="holds raw rows"):
        model.extend(X, y)
    assert model.guarantee_ is None


# --- what makes a guarantee void, on every way it can take --------------------------------------------------


def by_seed(X, y):
    return LocalModel(FOLDING, NOISE, random_state=1).fit(X, y)


def by_seed_of_a_private_classifier(X, y):
    return LocalModel(PrivateClassifier(FOLDING, NOISE, random_state=1)).fit(X, y)


def by_sampler(X, y):
    return LocalModel(FOLDING, Laplace(4.0, sensitivity=BOX, sampler="float")).fit(X, y)


def by_batches(X, y):
    return LocalModel(FOLDING, NOISE).fit(X, y, batches=(X[:, 0] > np.median(X[:, 0])).astype(int))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (by_seed, SEEDED),
        (by_seed_of_a_private_classifier, SEEDED),
        (by_sampler, FLOAT_SAMPLER),
        (by_batches, GIVEN_BATCHES),
    ],
)
def test_reason_that_voids_is_told_wherever_the_model_goes(make, reason, rows, tmp_path) -> None:
    X, y = rows
    model = make(X, y)
    for way, guarantee in everywhere(model, tmp_path / "model").items():
        assert reason in guarantee.voided_by, way
        assert not guarantee.holds
        assert str(guarantee).startswith("VOID")
    assert not model.is_private
    with pytest.raises(InvalidInputError, match="guarantee is void"):
        model.to_parcel("north")
    model.forget([3])
    assert reason in model.guarantee_.voided_by
    model.extend(X[:4], y[:4])
    assert reason in model.guarantee_.voided_by


def test_public_batches_are_a_condition_that_is_printed_everywhere(rows, tmp_path) -> None:
    X, y = rows
    model = LocalModel(FOLDING, NOISE).fit(X, y, batches=np.arange(60) // 20, batches_are_public=True)
    assert model.is_private
    for way, guarantee in everywhere(model, tmp_path / "model").items():
        assert guarantee.conditions == (PUBLIC_BATCHES,), way
        assert f"Provided that {PUBLIC_BATCHES}." in str(guarantee)
        assert "under the conditions below" in str(guarantee)
    arrived = LocalModel.from_parcel(from_bytes(model.to_parcel("north").to_bytes()))
    assert arrived.guarantee_.conditions == (PUBLIC_BATCHES,)
    assert LocalModel(FOLDING).fit(X, y, batches=np.arange(60) // 20).guarantee_ is None


def test_simulated_sites_keep_reasons_and_conditions(rows) -> None:
    X, y = rows
    noise = Laplace(4.0, sensitivity=1.0, sampler="float")
    found = simulate(X, y, 2, estimator=FOLDING, mechanism=noise, pooled=False, random_state=0)
    assert [guarantee.voided_by for guarantee in found.guarantees] == [(FLOAT_SAMPLER,)] * 2
    # The seed of the partition is not that of the noise.
    found = simulate(X, y, 2, estimator=FOLDING, mechanism=NOISE, pooled=False, random_state=0)
    assert all(guarantee.holds for guarantee in found.guarantees)


@pytest.mark.parametrize(
    "change",
    [
        {"conditions": ["\x1b[2Jeverything is fine"]},
        {"conditions": ["x" * 501]},
        {"conditions": ["true"] * 60, "voided_by": ["reason"] * 60},
        {"conditions": "all is true"},
        {"mu": "1"},
        {"mu": -1.0},
        {"person": {"epsilon": "much", "delta": 0.0}},
        {"person": {"epsilon": 1.0, "delta": 2.0}},
        {"rows_per_person": 0},
    ],
)
def test_conditions_from_elsewhere_are_checked_like_everything_else(change) -> None:
    plain = PER_PERSON.guarantee(3).to_dict()
    assert check_guarantee(plain) == plain
    with pytest.raises(MessageError, match="guarantee"):
        check_guarantee(plain | change)


# --- persons ------------------------------------------------------------------------------------------------


def test_rows_above_the_declared_number_are_dropped_before_anything_else(rows) -> None:
    X, y = rows
    model = LocalModel(FOLDING, PER_PERSON, fabricate=False).fit(X, y, person=WHO, ids=np.arange(60) + 100)
    kept = model.row_numbers_
    assert np.bincount(WHO[kept]).tolist() == [2] * 12
    assert len(model._rows.values) == 24
    model.forget([100 + kept[0]])  # rows keep their names
    again = LocalModel(FOLDING, PER_PERSON).fit(X, y, person=WHO).row_numbers_
    assert not np.array_equal(kept, again)  # which rows remain is drawn anew


def test_promise_to_persons_is_that_of_the_noise_and_its_group(rows) -> None:
    X, y = rows
    model = LocalModel(FOLDING, PER_PERSON).fit(X, y, person=WHO)
    stated = PER_PERSON.guarantee(3, rows_per_person=2)
    assert model.guarantee_ == stated.provided(SAME_PERSON)
    assert "A person known to several sites" in str(model.guarantee_)
    # How many entries got no noise would tell how many rows there are.
    assert model.guarantee_.untouched_entries is None
    assert model.profile("north").guarantee["untouched_entries"] is None


def test_persons_need_noise_and_a_limit(rows) -> None:
    X, y = rows
    for mechanism, person, message in (
        (PER_PERSON, None, "go together"),
        (NOISE, WHO, "go together"),
        (None, WHO, "needs a mechanism"),
        (PER_PERSON, WHO[:5], "one for each row"),
        (PER_PERSON, np.where(WHO == 3, np.nan, WHO), "missing"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            LocalModel(FOLDING, mechanism).fit(X, y, person=person)


def test_moments_of_persons_say_what_several_sites_cost(rows) -> None:
    X, y = rows
    agreed = PrivateMoments(1.0, classes=[0, 1], centre=None, rows_per_person=2)
    federation = MomentFederation()
    for name in ("north", "south"):
        federation.add(name, release_moments(X, y, agreed, person=WHO))
    found = federation.guarantee
    assert (found.unit, found.person, found.n_owners) == ("person", (1.0, 1e-5), 2)
    assert "A person known to several sites" in str(found)
    assert federation.moments().guarantee_ == found
    with pytest.raises(InvalidInputError, match="rows_per_person needs person"):
        release_moments(X, y, agreed)


def test_seed_voids_moments_on_their_way_through_a_federation(rows) -> None:
    X, y = rows
    agreed = PrivateMoments(1.0, classes=[0, 1], centre=None)
    seeded = PrivateMoments(1.0, classes=[0, 1], centre=None, random_state=3)
    federation = MomentFederation().add("north", release_moments(X, y, agreed))
    assert federation.guarantee.holds
    federation.add("south", release_moments(X, y, seeded))
    assert federation.guarantee.voided_by == (SEEDED,)
    assert PrivateMoments.from_bytes(federation.moments().to_bytes()).guarantee_.voided_by == (SEEDED,)


# --- types and lengths --------------------------------------------------------------------------------------


def told(model: LocalModel) -> tuple:
    """Everything that leaves a site, without the numbers that have noise."""
    header = plain_of(model.profile("north"), {})
    parcel = model.to_parcel("north")
    answers = model.answer(Query("q", np.full((5, 3), 0.5)), "north")
    header.pop("model_digest")
    numbers, plain = answers.values, plain_of(answers, {})
    return header, outline(parcel.content), plain, numbers.dtype, numbers.shape, len(answers.to_bytes())


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("fabricate", [False, True])
def test_what_leaves_a_site_has_one_outline_whatever_a_single_record_holds(fabricate, record, rows) -> None:
    pytest.importorskip("pandas")
    X, y = rows
    whole = np.rint(X * 10)
    labels = np.array(["no", "yes"])[y]
    for table in (X, whole):
        for name, container in in_containers(table).items():
            other = in_containers(replaced(table, 7, record))[name]
            one, two = (
                LocalModel(FOLDING, NOISE, fabricate=fabricate).fit(rows, labels)
                for rows in (container, other)
            )
            assert told(one) == told(two), name


def test_declared_labels_give_the_types_whatever_label_a_record_has(rows) -> None:
    X, y = rows
    declared = RandomisedLabels(1.0, ["no", "yes", "an illness that nobody here has"])
    labels = np.array(["no", "yes"])[y]
    rare = labels.astype(object)
    rare[7] = "an illness that nobody here has"
    for given in (labels, rare.astype(str)):
        model = LocalModel(FOLDING, NOISE, label_mechanism=declared).fit(X, given)
        assert model.classes_.tolist() == sorted(declared.classes.tolist())
        assert model.classes_.dtype == declared.classes.dtype


@pytest.mark.exact
def test_forgotten_class_leaves_no_trace_in_the_width_of_the_others(rows) -> None:
    X = rows[0]
    labels = np.array(["no", "yes", "a class of a long name"])[np.arange(60) % 3]
    never = labels != "a class of a long name"
    model = LocalModel(FOLDING).fit(X, labels)
    model.remove_class("a class of a long name")
    assert model_bytes(model.estimator_) == model_bytes(
        LocalModel(FOLDING).fit(X[never], labels[never]).estimator_
    )


def test_number_of_rows_of_persons_is_not_told(rows) -> None:
    X, y = rows
    few, many = np.repeat(np.arange(30), 2), np.arange(60)  # of 60 rows, all are kept; of 12 persons, 24
    told = [
        LocalModel(FOLDING, PER_PERSON).fit(X, y, person=who).profile("north").guarantee
        for who in (few, many, WHO)
    ]
    assert told[0] == told[1] == told[2]
