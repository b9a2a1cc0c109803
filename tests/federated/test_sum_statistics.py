"""Moments and counts of tables by encrypted sums: exact without noise, and one release's noise with it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier, TableCounts, TableSynthesizer
from onefold.federated import (
    EncryptedSum,
    HolderKey,
    MomentFederation,
    MomentSum,
    OpenedSum,
    SumHolder,
    SumParties,
    TableSum,
)
from onefold.privacy import PrivateMoments
from onefold.privacy.calibration import mu_of
from onefold.tables import Field, Schema
from reference.summing import DELTA

pytest.importorskip("cryptography")

KEYS = [HolderKey.new(f"holder{i}") for i in range(3)]
SITES = ("a", "b", "c", "d")


def parties(sites: tuple[str, ...] = SITES, **options: Any) -> SumParties:
    return SumParties(sites, tuple(key.public for key in KEYS), 2, **options)


def opened(total: EncryptedSum, vectors: dict[str, np.ndarray], **options: Any) -> OpenedSum:
    folder = Path(tempfile.mkdtemp())
    messages = [total.contribute(site, vector, folder, **options) for site, vector in vectors.items()]
    return total.together(messages, [SumHolder(total, key, folder) for key in KEYS])


def cloud(n: int = 700, p: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, p)) / 4 + np.eye(p)[y] / 2, y


def moments_of(
    agreed: PrivateMoments,
    data: Any,
    sites: tuple[str, ...] = SITES,
    person: Any = None,
    noise: Any = None,
    **options: Any,
) -> PrivateMoments:
    """Both rounds, with the rows spread over the sites."""
    X, y = data
    parts = dict(zip(sites, np.array_split(np.arange(len(X)), len(sites)), strict=True))
    whose = {site: None if person is None else person[part] for site, part in parts.items()}
    total = MomentSum("spring", parties(sites, **options), agreed, X.shape[1], of_persons=person is not None)
    first = {s: total.first_vector(X[part], y[part], whose[s]) for s, part in parts.items()}
    later = total.proceed(opened(total.first, first, random_state=noise))
    second = {s: later.second_vector(X[part], y[part], whose[s]) for s, part in parts.items()}
    return later.moments(opened(later.second, second, random_state=noise))


# --- moments ----------------------------------------------------------------------------------------------


@pytest.mark.exact
@pytest.mark.parametrize("centre", [None, "private"])
@pytest.mark.parametrize("kind", ["class", "pooled"])
def test_two_rounds_without_noise_have_the_bits_of_one_release(centre: Any, kind: Any) -> None:
    X, y = cloud()
    agreed = PrivateMoments(None, classes=range(3), centre=centre, second_moments=kind)
    found, alone = moments_of(agreed, (X, y)), PrivateMoments(**agreed.get_params()).fit(X, y)
    assert np.array_equal(found.vector, alone.vector)
    assert np.array_equal(found.centre_, alone.centre_)
    assert found.is_pooled == alone.is_pooled
    assert not found.guarantee_.holds
    if centre is None:
        parts = [
            PrivateMoments(**agreed.get_params()).fit(X[part], y[part])
            for part in np.array_split(np.arange(len(X)), 4)
        ]
        assert np.array_equal(found.vector, PrivateMoments.total(parts).vector)


@pytest.mark.parametrize("kind", ["class", "pooled", "auto"])
def test_noise_of_both_rounds_is_what_the_promise_needs(kind: Any) -> None:
    agreed = PrivateMoments(1.0, DELTA, classes=range(3), second_moments=kind)
    total = MomentSum("spring", parties(), agreed, 5)
    assert total.first.guarantee.holds
    rng = np.random.default_rng(0)
    zeros = {site: np.zeros(total.first.contract.length, dtype=np.int64) for site in SITES}
    zeros["a"][:3] = 2**28 * rng.integers(0, 10_000, 3)
    later = total.proceed(opened(total.first, zeros))
    mu = np.hypot(total.first.contract.mu, later.second.contract.mu)
    assert mu <= mu_of(1.0, DELTA) < mu * (1 + 1e-5)
    exact = dict(zip(("counts", "centre"), total.first.contract.blocks, strict=True))
    assert exact["counts"].change == exact["centre"].change == 2**28


def test_noise_of_moments_has_the_stated_levels() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 60)), np.arange(40) % 4
    agreed = PrivateMoments(1.0, classes=range(4), centre=None, second_moments="class")
    found = moments_of(agreed, (X, y), noise=rng)
    exact = PrivateMoments(None, classes=range(4), centre=None, second_moments="class").fit(X, y)
    sums = (found.sums_ - exact.sums_) / found.sum_noise_[:, None]
    seconds = (found.second_moments_ - exact.second_moments_) / found.second_noise_[:, None, None]
    assert abs(sums.std() - 1) < 0.15
    assert abs(np.diagonal(seconds, axis1=1, axis2=2).std() - 1) < 0.15
    beside = np.triu_indices(60, 1)
    assert abs(seconds[:, *beside].std() * 2**0.5 - 1) < 0.05
    one = PrivateMoments(1.0, classes=range(4), centre=None, second_moments="class").fit(X, y)
    assert np.allclose(found.sum_noise_ / one.sum_noise_, (4 / 3) ** 0.5, rtol=1e-5)  # one of four may fail


def test_release_can_be_saved_with_its_conditions() -> None:
    found = moments_of(PrivateMoments(1.0, classes=range(3)), cloud(), missing_sites=1)
    again = PrivateMoments.from_bytes(found.to_bytes())
    assert np.array_equal(again.vector, found.vector)
    assert again.guarantee_ == found.guarantee_
    assert found.guarantee_.holds
    assert found.guarantee_.n_owners == 4
    assert "key holders collude" in str(again.guarantee_)


def test_persons_count_once_in_both_rounds() -> None:
    X, y = cloud(120)
    person = np.repeat(np.arange(60), 2)
    agreed = PrivateMoments(None, classes=range(3), centre=None, second_moments="class")
    found = moments_of(agreed, (X, y), person=person)
    alone = PrivateMoments(**agreed.get_params()).fit(X, y, person)
    assert np.array_equal(found.vector, alone.vector)
    noisy = MomentSum("r", parties(), PrivateMoments(1.0, classes=range(3)), 5, of_persons=True)
    assert noisy.first.guarantee.unit == "person"
    assert "no person is at two sites" in str(noisy.first.guarantee)


def test_seeded_first_round_makes_the_result_void() -> None:
    X, y = cloud(40)
    total = MomentSum("spring", parties(), PrivateMoments(1.0, classes=range(3)), 5)
    zeros = dict.fromkeys(SITES, np.zeros(total.first.contract.length, dtype=np.int64))
    later = total.proceed(opened(total.first, zeros, random_state=0))
    second = {site: later.second_vector(X, y) for site in SITES}
    assert not later.moments(opened(later.second, second)).guarantee_.holds


def test_site_that_drops_out_between_the_rounds_is_named() -> None:
    X, y = cloud(40)
    agreed = PrivateMoments(1.0, classes=range(3), centre=None)
    total = MomentSum("spring", parties(missing_sites=2), agreed, 5)
    first = opened(total.first, {site: total.first_vector(X, y) for site in "abd"})
    later = total.proceed(first)
    contract = later.second.contract
    assert contract.sites == ("a", "b", "d")
    assert (contract.missing_sites, contract.least_adding) == (1, total.first.contract.least_adding)
    found = opened(later.second, {site: later.second_vector(X, y) for site in "ad"})
    with pytest.raises(InvalidInputError, match="site b dropped out between the two rounds"):
        later.moments(found)
    assert later.moments(found, anyway=True).guarantee_.holds


@pytest.mark.parametrize(
    "options, words",
    [
        ({"classes": None}, "needs classes"),
        ({"rows_per_person": 3}, "rows_per_person cannot be used"),
        ({"sampler": "float"}, "hardened sampler"),
        ({"random_state": 1}, "without a seed"),
    ],
)
def test_release_that_cannot_be_shared_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        MomentSum("r", parties(), PrivateMoments(**{"classes": range(3), **options}), 5, of_persons=True)


def test_rows_that_do_not_fit_are_refused_and_rounds_have_their_order() -> None:
    total = MomentSum("r", parties(), PrivateMoments(1.0, classes=range(3)), 5, most_rows=100)
    for X, y in (
        (np.zeros((2, 4)), [0, 1]),
        (np.zeros((2, 5)), [0]),
        (np.full((1, 5), np.nan), [0]),
        (np.zeros((1, 5)), [7]),
    ):
        with pytest.raises(InvalidInputError):
            total.first_vector(X, y)
    with pytest.raises(InvalidInputError, match="larger than declared"):
        total.first.contribute("a", total.first_vector(np.zeros((101, 5)), np.zeros(101)), tempfile.mkdtemp())
    with pytest.raises(InvalidInputError, match="first round before"):
        total._rounds.second_vector(np.zeros((2, 5)), [0, 1])


def test_contracts_of_different_settings_differ() -> None:
    def first(**options: Any) -> str:
        return MomentSum(
            "r", parties(), PrivateMoments(1.0, classes=range(3), **options), 5
        ).first.contract.digest

    assert len({first(), first(radius=2.0), first(neighbours="replace")}) == 3


@pytest.mark.parametrize("name", ["centre", "whitening"])
def test_contracts_about_other_public_points_differ(name: str) -> None:
    def digest(value: Any) -> str:
        agreed = PrivateMoments(1.0, classes=[0, 1], **({"centre": None} | {name: value}))
        return MomentSum("spring", parties(), agreed, 2).first.contract.digest

    points = ([0.1, 0.2], [0.2, 0.1]) if name == "centre" else (np.diag([1.0, 2.0]), np.diag([2.0, 1.0]))
    first, other = map(digest, points)
    assert first != other
    assert digest(np.array(points[0])) == first


def test_ten_sites_come_close_to_one_release_and_far_from_noise_of_their_own() -> None:
    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:1400], order[1400:]
    sites = tuple(f"site{i}" for i in range(10))
    scores: dict[str, list[float]] = {"shared": [], "one": [], "own": []}
    for _ in range(3):
        agreed = PrivateMoments(4.0, classes=range(10), second_moments="auto")
        shared = moments_of(agreed, (X[train], y[train]), sites)
        one = PrivateMoments(**agreed.get_params()).fit(X[train], y[train])
        federation = MomentFederation(epsilon=4.0, classes=range(10), second_moments="pooled")
        for site, part in zip(sites, np.array_split(train, 10), strict=True):
            federation.add(site, federation.release(X[part], y[part]))
        for name, moments in (("shared", shared), ("one", one), ("own", federation.moments())):
            scores[name].append(MomentClassifier.from_moments(moments).score(X[test], y[test]))
    mean = {name: float(np.mean(found)) for name, found in scores.items()}
    assert mean["shared"] > mean["one"] - 0.03
    assert mean["shared"] > mean["own"] + 0.03


# --- tables -----------------------------------------------------------------------------------------------


def table(n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    return {"a": np.array(["x", "y", "z"])[a], "b": rng.normal(a, 0.5), "c": rng.integers(0, 2, n)}


SCHEMA = Schema(
    [
        Field("a", "string", levels=("x", "y", "z")),
        Field("b", low=-3, high=5),
        Field("c", "integer", role="label", levels=(0, 1)),
    ],
    rows_about=2000,
)


def table_sum(epsilon: float | None, **options: Any) -> tuple[TableCounts, TableSum, list[TableCounts]]:
    """One round of counting: the opened tables, the sum, and the sites' own tables."""
    maker = TableSynthesizer(SCHEMA, epsilon, noise=False, **options)
    own = {site: maker.count_tables(table(500, place)) for place, site in enumerate(SITES)}
    summed = TableSum("tables", parties(), own["a"], most_rows=1000)
    assert {TableSum("tables", parties(), own[s], 1000).total.contract.digest for s in SITES} == {
        summed.total.contract.digest
    }
    found = summed.opened(own["a"], opened(summed.total, {s: summed.vector(own[s]) for s in SITES}))
    return found, summed, list(own.values())


def test_counts_without_noise_are_the_plain_sum() -> None:
    found, _, own = table_sum(None)
    assert np.array_equal(found.vector, sum(counts.vector for counts in own))
    assert not found.guarantee.holds
    assert found.shared


@pytest.mark.parametrize("options", [{}, {"neighbours": "replace"}])
def test_counts_with_noise_have_one_releases_promise_and_noise(options: dict[str, Any]) -> None:
    found, summed, own = table_sum(1.0, **options)
    assert found.guarantee.holds
    assert found.guarantee.n_owners == 4
    mu = summed.total.contract.mu
    assert mu <= found.guarantee.mu < mu * (1 + 1e-5)
    noise = found.vector - sum(counts.vector for counts in own)
    parts = np.split(noise, [found.layout.singles_length])
    for part, sigma, alone in zip(parts, found.sigmas, own[0].sigmas, strict=True):
        assert sigma == pytest.approx(alone * (4 / 3) ** 0.5, rel=1e-5)
        assert 0.3 < part.std() / sigma < 2.2
    again = TableCounts.from_bytes(found.to_bytes())
    synthetic = TableSynthesizer.from_counts(SCHEMA, again)
    assert set(synthetic.sample(10, random_state=0)) == {"a", "b", "c"}
    with pytest.raises(InvalidInputError, match="cannot leave"):
        found - found


def test_counts_get_a_finer_grid_where_shares_would_be_too_small() -> None:
    found, summed, own = table_sum(50.0)
    assert summed._digits > 0
    assert all(block.shares(3)[0][0] >= 2 for block in summed.total.contract.blocks)
    noise = found.vector - sum(counts.vector for counts in own)
    assert np.abs(noise).max() < 50


def test_counts_with_noise_of_their_own_are_refused() -> None:
    counts = TableSynthesizer(SCHEMA, 1.0).count_tables(table(50, 0))
    with pytest.raises(InvalidInputError, match="wait for noise: use noise=False"):
        TableSum("r", parties(), counts, most_rows=100)
