"""Owners release their moments once; the server adds them up, and forgets an owner without a trace."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from onefold._base import records, stored
from onefold.encoders import GradientHistograms, RandomFeatures
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.fabrication import MomentClassifier, MomentFabricator
from onefold.federated import MomentFederation, release_moments
from onefold.federated.moments import moments_in
from onefold.models import KAHM
from onefold.privacy import PrivateMoments, calibration

ARRAYS = ("counts_", "sums_", "second_moments_", "count_noise_", "sum_noise_", "second_noise_", "classes_")


def cloud(n: int = 900, p: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, p)) / 4 + np.eye(p)[y] / 2, y


def agreed(epsilon: float | None = 1.0, **options) -> PrivateMoments:
    return PrivateMoments(epsilon, **{"classes": range(3), "centre": None, **options})


def releases(n_owners: int, moments: PrivateMoments, data=None) -> list[bytes]:
    X, y = data or cloud()
    return [
        release_moments(X[part], y[part], moments) for part in np.array_split(np.arange(len(X)), n_owners)
    ]


def federation_of(parts: dict) -> MomentFederation:
    federation = MomentFederation()
    for name, part in parts.items():
        federation.add(name, part)
    return federation


def assert_same(one: PrivateMoments, other: PrivateMoments) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.guarantee_ == other.guarantee_


# --- the sum ----------------------------------------------------------------------------------------------


def test_without_noise_the_sum_is_that_of_the_pooled_records() -> None:
    X, y = cloud()
    together = federation_of(dict(enumerate(releases(4, agreed(None), (X, y))))).moments()
    pooled = agreed(None).fit(X, y)
    for name in ARRAYS[:3]:
        np.testing.assert_allclose(getattr(together, name), getattr(pooled, name), rtol=1e-12)


@pytest.mark.parametrize("sampler", [pytest.param("float", marks=pytest.mark.merge), "hardened"])
def test_noise_of_the_sum_has_the_variance_of_one_release_times_the_sites(sampler: str) -> None:
    # Records of zeros: all that is released, but for the counts, is noise.
    n_owners, y = 5, np.arange(20) % 3
    moments = agreed(2.0, sampler=sampler)
    mu = calibration.mu_of(2.0, 1e-5)
    sigma = {"sums_": 1 / (mu * math.sqrt(0.28)), "diagonal": 1 / (mu * math.sqrt(0.70))}
    drawn: dict[str, list] = {"sums_": [], "diagonal": []}
    for _ in range(60):
        parts = {k: release_moments(np.zeros((20, 4)), y, moments) for k in range(n_owners)}
        total = federation_of(parts).moments()
        drawn["sums_"].append(total.sums_.ravel())
        drawn["diagonal"].append(np.diagonal(total.second_moments_, axis1=1, axis2=2).ravel())
        np.testing.assert_allclose(total.sum_noise_, sigma["sums_"] * math.sqrt(n_owners))
    for name, values in drawn.items():
        found = np.concatenate(values)

        def believed(scale: float, found=found) -> bool:
            return 5e-8 < chi2.cdf(np.sum(found**2) / scale**2, len(found)) < 1 - 5e-8

        right = sigma[name] * math.sqrt(n_owners)
        assert believed(right), name
        assert not believed(right * 2 / 3), name
        assert not believed(right * 3 / 2), name


def test_sites_may_lack_classes() -> None:
    X, y = cloud()
    parts = {code: release_moments(X[y == code], y[y == code], agreed(None)) for code in range(3)}
    pooled = agreed(None).fit(X, y)
    np.testing.assert_allclose(federation_of(parts).moments().second_moments_, pooled.second_moments_)
    # Classes that were not declared are not in the release at all.
    found = agreed(50.0, classes=None)
    own = {code: release_moments(X[y != code], y[y != code], found) for code in range(3)}
    assert all(len(PrivateMoments.from_bytes(part).classes_) == 2 for part in own.values())
    total = federation_of(own).moments()
    np.testing.assert_array_equal(total.classes_, [0, 1, 2])
    one = PrivateMoments.from_bytes(own[0])
    np.testing.assert_allclose(
        total.sum_noise_, one.sum_noise_[0] * math.sqrt(2)
    )  # two of three have a class


# --- membership -------------------------------------------------------------------------------------------


@pytest.mark.exact
def test_leaving_is_exact_to_the_last_bit() -> None:
    # Sums of hardened releases are exact anyway: float ones show whether the order is kept.
    parts = dict(zip("abcde", releases(5, agreed(sampler="float")), strict=True))
    never = federation_of({name: part for name, part in parts.items() if name != "c"})
    left = federation_of(parts).remove("c")
    assert left.owners == ("a", "b", "d", "e")
    assert_same(left.moments(), never.moments())
    queries = cloud(seed=1)[0]
    scores = [each.fitted(MomentClassifier).decision_function(queries) for each in (left, never)]
    np.testing.assert_array_equal(*scores)
    # Subtracting would not do: it leaves rounding behind, unless a site happens to be added last.
    everyone = federation_of(parts).moments()
    rounded = [
        np.any(everyone.sums_ - PrivateMoments.from_bytes(part).sums_ != rest.moments().sums_)
        for name, part in parts.items()
        for rest in [federation_of(parts).remove(name)]
    ]
    assert any(rounded)


def test_the_order_of_joining_does_not_matter() -> None:
    parts = dict(zip("abcde", releases(5, agreed()), strict=True))
    returned = federation_of(parts).remove("b").add("b", parts["b"])
    assert returned.owners == ("a", "c", "d", "e", "b")
    for order in (parts, dict(reversed(parts.items()))):
        assert_same(federation_of(order).moments(), returned.moments())


def test_changing_a_release_after_joining_changes_nothing() -> None:
    X, y = cloud()
    own = agreed().fit(X, y)
    federation = MomentFederation().add("a", own)
    before = federation.moments()
    own.sums_ += 1.0
    assert_same(federation.moments(), before)


# --- the promise ------------------------------------------------------------------------------------------


def test_each_site_keeps_its_own_guarantee() -> None:
    X, y = cloud()
    federation = federation_of({"a": release_moments(X, y, agreed(1.0))})
    assert federation.guarantee.n_owners == 1
    federation.add("b", release_moments(X, y, agreed(3.0, delta=1e-6)))
    joint = federation.guarantee
    assert (joint.record, joint.n_owners, joint.neighbours) == ((3.0, 1e-5), 2, "add-remove")
    assert "each of 2 sites, if no record is at two sites" in str(joint)
    assert joint == federation.moments().guarantee_ == federation.fitted(MomentClassifier).guarantee_
    assert federation.moments().epsilon == 3.0
    assert federation.remove("b").guarantee.record == (1.0, 1e-5)
    # The sum can itself be sent on.
    federation.add("b", release_moments(X, y, agreed(3.0)))
    assert_same(PrivateMoments.from_bytes(federation.moments().to_bytes()), federation.moments())


def test_a_release_without_noise_is_marked() -> None:
    parts = dict(enumerate(releases(2, agreed())))
    federation = federation_of(parts).add("open", release_moments(*cloud(), agreed(None)))
    assert federation.guarantee.record[0] == math.inf
    assert "nothing is promised" in str(federation.guarantee)
    assert_same(PrivateMoments.from_bytes(federation.moments().to_bytes()), federation.moments())


def test_no_seed_means_fresh_noise_and_the_agreement_is_not_changed() -> None:
    moments = agreed()
    one, other = (release_moments(*cloud(), moments) for _ in range(2))
    assert one != other
    assert not hasattr(moments, "sums_")


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 2.0}, "different features or radii"),
        ({"centre": [0.1, 0.1, 0.1]}, "different centres"),
        ({"neighbours": "replace"}, "neighbouring relations"),
    ],
)
def test_releases_with_other_parameters_are_refused_in_one_line(options: dict, message: str) -> None:
    X, y = cloud()
    federation = federation_of({"a": release_moments(X, y, agreed())})
    with pytest.raises(InvalidInputError, match=message) as caught:
        federation.add("b", release_moments(X, y, agreed(**options)))
    assert "\n" not in str(caught.value)
    assert federation.owners == ("a",)


def test_releases_of_other_features_or_labels_are_refused() -> None:
    X, y = cloud()
    encoders = [RandomFeatures(8, random_state=seed) for seed in (0, 1)]
    parts = [release_moments(X, y, agreed(), encoder) for encoder in encoders]
    with pytest.raises(InvalidInputError, match="differently encoded"):
        federation_of(dict(enumerate(parts)))
    with pytest.raises(InvalidInputError, match="different features"):
        federation_of({"a": parts[0], "b": release_moments(X, y, agreed())})
    words = np.array(["x", "y", "z"])
    named = release_moments(X, words[y], agreed(classes=words))
    with pytest.raises(InvalidInputError, match="labels are numbers at one site"):
        federation_of({"a": release_moments(X, y, agreed()), "b": named})
    with pytest.raises(InvalidInputError, match="another encoder or schema"):
        federation_of({"a": parts[0]}).fitted(MomentClassifier, encoders[1].fit(X))
    with pytest.raises(InvalidInputError, match="must be fitted"):
        federation_of({"a": parts[0]}).fitted(MomentClassifier, RandomFeatures(8))


def test_private_centres_and_fitted_encoders_are_refused() -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match="public centre or None"):
        release_moments(X, y, agreed(centre="private"))
    with pytest.raises(InvalidInputError, match="same public encoder"):
        release_moments(X, y, agreed(), PCA(2))  # type: ignore[arg-type]


def test_site_can_join_only_once() -> None:
    part, again = releases(2, agreed())
    federation = federation_of({"a": part})
    with pytest.raises(InvalidInputError, match="takes part already"):
        federation.add("a", again)
    with pytest.raises(InvalidInputError, match="added already, under another id"):
        federation.add("b", part)
    with pytest.raises(InvalidInputError, match="no site of this id"):
        federation.remove("b")
    for ask in (
        lambda: federation.guarantee,
        federation.moments,
        lambda: federation.fitted(MomentFabricator),
    ):
        ask()
        federation.remove("a")
        with pytest.raises(InvalidInputError, match="no site takes part"):
            ask()
        federation.add("a", part)


def test_bytes_that_are_no_release_are_refused_in_one_line() -> None:
    part = releases(1, agreed())[0]
    for bad in (b"", b"hello", part[:300], part[:-30], b"\x80\x04N."):
        with pytest.raises(FileFormatError) as caught:
            MomentFederation().add("a", bad)
        assert "\n" not in str(caught.value)


def test_sums_beyond_the_largest_number_are_refused() -> None:
    parts = [agreed().fit(*cloud(seed=seed)) for seed in range(2)]
    for part in parts:
        part.sums_[:] = 1e308
    with pytest.raises(InvalidInputError, match="beyond the largest number"):
        federation_of(dict(enumerate(parts))).moments()


# --- something useful -------------------------------------------------------------------------------------


def test_six_sites_classify_encoded_digits() -> None:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    X, y, queries, truth = (
        images[order[:1400]],
        labels[order[:1400]],
        images[order[1400:]],
        labels[order[1400:]],
    )
    encoder = GradientHistograms((8, 8))
    epsilon = 300.0  # 1400 images are few: this shows the plumbing, not the privacy
    moments = PrivateMoments(epsilon, classes=range(10), centre=None, random_state=0)
    federation = MomentFederation()
    for owner in range(6):  # each lacks some digits
        rows = np.flatnonzero((np.arange(1400) % 6 == owner) & (y != owner) & (y != owner + 3))
        moments.set_params(random_state=owner)
        federation.add(owner, release_moments(X[rows], y[rows], moments, encoder))
    fitted = encoder.fit(X[:1])
    model = federation.fitted(MomentClassifier, fitted)
    assert model.score(queries, truth) > 0.93
    assert federation.guarantee.n_owners == 6
    fabricator = federation.fitted(MomentFabricator, fitted, shrinkage=0.5)
    made, made_labels = fabricator.sample(1000, balanced=True, random_state=0)
    neighbours = KNeighborsClassifier(5).fit(made, made_labels)
    assert neighbours.score(fabricator.transform(queries), truth) > 0.85
    # Without the owners of most of its images a class is hardly known.
    for owner in (0, 1, 2, 4, 5):
        federation.remove(owner)
    alone = federation.fitted(MomentClassifier, fitted)
    lacking = np.isin(truth, (3, 6))
    assert alone.score(queries[lacking], truth[lacking]) < 0.5 < model.score(queries[lacking], truth[lacking])


def test_a_message_of_moments_that_holds_a_model_is_refused_before_it_is_made() -> None:
    rows = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)
    sent = records.pack("private moments", 1, stored.Contents.of(KAHM().fit(rows)), compact=True)
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="another class"):
        moments_in(sent)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4e6  # a machine of 1200 samples takes 11.5 MB


def test_a_message_of_moments_has_neither_parameters_nor_further_arrays() -> None:
    moments = PrivateMoments(1.0, classes=[0, 1], centre=None).fit(np.eye(2)[[0, 1] * 30], [0, 1] * 30)
    arrays = records._Places()
    plain = records.plain_of(stored.Contents.of(moments), arrays)
    plain["model"]["parameters"] = {"random_state": 7}
    with pytest.raises(FileFormatError, match="parameters"):
        moments_in(records.pack("private moments", 1, plain, dict(arrays)))
    more = stored.Contents.of(moments, {"anything": np.zeros(3)})
    with pytest.raises(FileFormatError, match="belong to nothing"):
        moments_in(records.pack("private moments", 1, more))


@pytest.mark.parametrize("setting", ["ledger", "neighbours", "radius", "rows_per_person", "centre", "shares"])
def test_a_federation_refuses_settings_that_its_releases_would_pass_over(setting: str) -> None:
    given: dict[str, Any] = {setting: 1}
    with pytest.raises(InvalidInputError, match=f"{setting} is no setting of a federation"):
        MomentFederation(epsilon=1.0, classes=[0, 1], **given)


def test_a_federation_takes_no_schema_as_numbers() -> None:
    assert MomentFederation(None, classes=[0, 1]).schema.plain
