"""Two releases under one promise: the first whitens the records of the second."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2
from tests.tiers import thinned
from threadpoolctl import threadpool_limits

from onefold import MomentClassifier, io
from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError
from onefold.fabrication import MomentFabricator
from onefold.federated import MomentFederation
from onefold.federated.moments import release_moments
from onefold.privacy import Ledger, PrivateMoments
from onefold.privacy.calibration import mu_of
from onefold.privacy.moments import MomentRounds
from onefold.privacy.moments._budget import Budget
from onefold.privacy.moments._release import (
    FLOOR,
    SENSITIVITIES,
    divided,
    given_whitening,
    whitened,
    whitening_of,
)
from reference.clouds import cloud
from reference.moment_files import changed_moments

RELATIONS = ("add-remove", "replace")
SHARES = (0.05, 0.02, 0.28, 0.55, 0.1)


def accepts(values: np.ndarray, sigma: float) -> bool:
    """Does a chi-square test at level 1e-6 believe in this standard deviation?"""
    return bool(5e-7 < chi2.cdf(np.sum(values**2) / sigma**2, values.size) < 1 - 5e-7)


def first_moment(matrix: np.ndarray, sigma: float) -> np.ndarray:
    """The noisy second moment that a whitening matrix was made of, if none of its eigenvalues was raised."""
    values, vectors = np.linalg.eigh(matrix)
    floor = FLOOR * sigma * math.sqrt(2.0 * len(matrix))
    return (vectors * (floor / values**2)) @ vectors.T


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_of_the_first_release_has_the_right_scale(relation: Any) -> None:
    # Unit vectors, each equally often: all eigenvalues are far above the noise, so the matrix shows it.
    p, each = 4, 300
    X, y = np.tile(np.eye(p), (each, 1)), np.zeros(p * each)
    options = {"classes": [0], "centre": None, "neighbours": relation, "shares": SHARES}
    sigma = SENSITIVITIES[relation].whitening / (mu_of(1.0, 1e-5) * math.sqrt(0.1 / 0.95))
    diagonal, above = [], []
    for seed in range(100):
        model = PrivateMoments(1.0, 1e-5, whitening="private", random_state=seed, **options).fit(X, y)
        extra = first_moment(model.whitening_, sigma) - each * np.eye(p)  # type: ignore[arg-type]
        diagonal.append(np.diag(extra))
        above.append(extra[np.triu_indices(p, 1)] * math.sqrt(2.0))
    for values in (np.array(diagonal), np.array(above)):
        assert accepts(values, sigma)
        assert not accepts(values, sigma * 2 / 3)
        assert not accepts(values, sigma * 3 / 2)


@pytest.mark.parametrize(("relation", "kind"), thinned(RELATIONS, ["class", "pooled"]))
def test_noise_of_the_second_release_has_the_right_scale(kind: Any, relation: Any) -> None:
    X, y = cloud(60, 4, 3, seed=4)
    options = {"classes": range(3), "neighbours": relation, "second_moments": kind, "shares": SHARES}
    bounds, mu = SENSITIVITIES[relation], mu_of(1.0, 1e-5)
    right = [
        bound / (mu * math.sqrt(share))
        for bound, share in zip((bounds.number, bounds.total, bounds.second), SHARES[1:4], strict=True)
    ]
    found: list[list[np.ndarray]] = [[], [], []]
    for seed in range(60):
        model = PrivateMoments(1.0, 1e-5, whitening="private", random_state=seed, **options).fit(X, y)
        seen = np.ldexp(np.trunc(np.ldexp(model.embed(X), 14)), -14)
        parts = [seen[y == label] for label in range(3)]
        grams = np.array([part.T @ part for part in parts])
        found[0].append(model.counts_ - np.bincount(y))
        found[1].append(model.sums_ - [part.sum(axis=0) for part in parts])
        extra = model.second_moments_ - (grams if kind == "class" else grams.sum(axis=0))
        found[2].append(np.diagonal(extra, axis1=1, axis2=2))
    for values, sigma in zip(map(np.array, found), right, strict=True):
        assert accepts(values, sigma)
        assert not accepts(values, sigma * 2 / 3)
        assert not accepts(values, sigma * 3 / 2)


@pytest.mark.parametrize(
    ("relation", "kind", "shares"),
    thinned(RELATIONS, ["class", "pooled", "auto"], [None, SHARES, (0.01, 0.01, 0.1, 0.8)]),
)
def test_all_five_blocks_cost_the_budget_together(shares: Any, kind: Any, relation: Any) -> None:
    for centre in ("private", None):
        moments = PrivateMoments(
            1.0,
            classes=range(3),
            centre=centre,
            shares=shares,
            second_moments=kind,
            neighbours=relation,
            whitening="private",
        )
        for sigma in Budget.of(moments, False).levels:
            pairs = zip(SENSITIVITIES[relation], sigma, strict=True)
            spent = math.sqrt(sum((bound / level) ** 2 for bound, level in pairs if level > 0.0))
            assert spent == pytest.approx(mu_of(1.0, 1e-5))
            assert sigma.whitening > 0.0


def test_whitening_gets_a_tenth_unless_shares_name_it_and_nothing_if_it_is_given() -> None:
    assert divided((1, 1, 1, 1), True, True).whitening == pytest.approx(0.1)
    assert divided((1, 1, 1, 1), False, True).whitening == pytest.approx(0.1)
    assert divided((1, 1, 1, 1, 4), True, True).whitening == pytest.approx(0.5)
    assert divided((1, 1, 1, 1, 4), True, False) == pytest.approx((0.25, 0.25, 0.25, 0.25, 0.0))
    for shares in ((1, 1, 1), (1, 1, 1, 1, 0), (1, 1, 1, 1, 1e-9), (1,) * 6, (1, 1, 1, 1, math.nan)):
        with pytest.raises(InvalidInputError, match="share"):
            divided(shares, True, True)


def test_both_releases_are_charged_once_and_never_beyond_the_limit() -> None:
    X, y = cloud()
    ledger = Ledger(1.0, 1e-5, neighbours="add-remove")
    model = MomentClassifier(1.0, classes=range(3), whitening="private", ledger=ledger).fit(X, y)
    assert [(event.epsilon, event.delta) for event in ledger.events] == [(1.0, 1e-5)]
    assert model.guarantee_.record == (1.0, 1e-5)
    assert model.guarantee_.mu == pytest.approx(mu_of(1.0, 1e-5))
    assert "two releases that the numbers cover together" in str(model.guarantee_)
    assert "whitens the records" in str(model.guarantee_)
    with pytest.raises(BudgetExceededError):
        MomentClassifier(0.1, classes=range(3), whitening="private", ledger=ledger).fit(X, y)
    assert len(ledger.events) == 1


def test_replaced_record_is_promised_what_all_five_blocks_cost() -> None:
    moments = PrivateMoments(1.0, classes=range(3), whitening="private", shares=SHARES)
    replaced = moments.promise(4).replaced
    assert replaced is not None
    squares = [share * bound**2 for share, bound in zip(SHARES, SENSITIVITIES["replace"], strict=True)]
    assert mu_of(*replaced) == pytest.approx(mu_of(1.0, 1e-5) * math.sqrt(sum(squares)), rel=1e-6)


def test_given_matrix_is_a_condition_of_the_guarantee_and_costs_nothing() -> None:
    X, y = cloud()
    found = PrivateMoments(1.0, classes=range(3), whitening="private").fit(X, y)
    options: dict[str, Any] = {"classes": range(3), "centre": found.centre_, "second_moments": "pooled"}
    again = PrivateMoments(1.0, whitening=found.whitening_, **options).fit(X, y)
    np.testing.assert_array_equal(again.embed(X), found.embed(X))
    assert any("whitening is public" in words for words in again.guarantee_.conditions)
    without = PrivateMoments(1.0, **options).fit(X, y)
    assert again.sum_noise_[0] == without.sum_noise_[0]


@pytest.mark.exact
def test_a_record_is_whitened_alone_to_the_last_bit() -> None:
    X, y = cloud(500, 60)
    model = PrivateMoments(1.0, classes=range(3), whitening="private", random_state=0).fit(X, y)
    whole = model.embed(X)
    with threadpool_limits(3, user_api="blas"):
        np.testing.assert_array_equal(model.embed(X[::-1])[::-1], whole)
    for number in (0, 17, 499):
        np.testing.assert_array_equal(model.embed(X[number : number + 1])[0], whole[number])
    assert np.linalg.norm(whole, axis=1).max() <= 1.0
    assert model.has_unit_rows


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 0.02, 1.0, 1e3, 1e300])
def test_scale_of_a_given_matrix_does_not_matter_and_twice_is_once(scale: float) -> None:
    rng = np.random.default_rng(0)
    matrix, rows = rng.normal(size=(40, 40)), rng.normal(size=(9, 40)) / 8
    found = given_whitening(matrix * scale, 40)
    np.testing.assert_array_equal(given_whitening(found, 40), found)
    expected = rows @ matrix
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(whitened(rows, found), expected, atol=1e-3)


def test_whitening_makes_all_known_directions_equally_long() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 6)) * np.logspace(0, -1, 6) / 10
    gram = rows.T @ rows
    seen = rows @ whitening_of(gram, 0.0)
    values = np.linalg.eigvalsh(seen.T @ seen)
    assert values.max() / values.min() < 1.001
    # What is below the noise is not made larger than what is known.
    seen = rows @ whitening_of(gram, float(np.linalg.eigvalsh(gram)[3]) / (FLOOR * math.sqrt(12.0)))
    values = np.linalg.eigvalsh(seen.T @ seen)
    np.testing.assert_allclose(values[3:], values[-1], rtol=1e-3)
    assert values[0] < 0.5 * values[-1]
    np.testing.assert_array_equal(whitening_of(np.zeros((3, 3)), 0.0), np.eye(3))


def test_whitening_pays_where_a_few_directions_hold_the_variance() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 12_000)
    spread = np.logspace(0, -1.5, 20)
    X = (rng.normal(size=(3, 20))[y] / 2 + rng.normal(size=(12_000, 20))) * spread / 8
    options: dict[str, Any] = {"classes": range(3), "head": "qda", "random_state": 0}
    once = MomentClassifier(1.0, **options).fit(X[:10_000], y[:10_000])
    twice = MomentClassifier(1.0, whitening="private", **options).fit(X[:10_000], y[:10_000])
    assert twice.score(X[10_000:], y[10_000:]) > once.score(X[10_000:], y[10_000:]) + 0.01


@pytest.mark.exact
@pytest.mark.parametrize("head", ["lda", "qda"])
def test_whitened_classifier_survives_its_file(tmp_path: Path, head: Any) -> None:
    X, y = cloud(300, 5)
    model = MomentClassifier(2.0, classes=range(3), whitening="private", head=head).fit(X, y)
    io.save(model, tmp_path / "model.onefold")
    again = io.load(tmp_path / "model.onefold")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.guarantee_ == model.guarantee_
    again.save(tmp_path / "again.onefold")
    twice = MomentClassifier.load(tmp_path / "again.onefold")
    np.testing.assert_array_equal(twice.predict_proba(X), model.predict_proba(X))


def test_file_with_another_kind_of_matrix_is_refused() -> None:
    X, y = cloud()
    model = PrivateMoments(2.0, classes=range(3), whitening="private", random_state=0).fit(X, y)
    packed = model.to_bytes()
    odd = (np.eye(2), np.eye(3) * np.nan, np.eye(3) / 3, np.eye(3, dtype=np.float32), np.zeros((3, 3)))
    for matrix in odd:
        with pytest.raises(FileFormatError):
            PrivateMoments.from_bytes(changed_moments(packed, whitening=matrix))


def test_sites_whiten_by_one_public_matrix_or_not_at_all() -> None:
    X, y = cloud(600)
    matrix = np.diag([1.0, 2.0, 3.0])
    federation = MomentFederation(epsilon=4.0, classes=range(3), whitening=matrix)
    for name, part in (("north", slice(0, 300)), ("south", slice(300, 600))):
        federation.add(name, federation.release(X[part], y[part]))
    total = federation.moments()
    np.testing.assert_array_equal(total.whitening_, given_whitening(matrix, 3))
    assert federation.fitted(MomentClassifier).score(X, y) > 0.7
    for other in (None, np.eye(3)):
        sent = MomentFederation(epsilon=4.0, classes=range(3), whitening=other).release(X, y)
        with pytest.raises(InvalidInputError, match="differently whitened"):
            federation.add("west", sent)
    with pytest.raises(InvalidInputError, match="public matrix"):
        MomentFederation(epsilon=1.0, classes=range(3), whitening="private")  # type: ignore[arg-type]
    agreed = PrivateMoments(1.0, classes=range(3), centre=None, whitening="private")
    with pytest.raises(InvalidInputError, match="whitened by itself"):
        release_moments(X, y, agreed)
    with pytest.raises(InvalidInputError, match="with noise"):
        MomentFederation(whitening=matrix).release(X, y)


def test_sums_of_sites_whiten_by_a_public_matrix_only() -> None:
    X, y = cloud(60)
    with pytest.raises(InvalidInputError, match="public whitening"):
        MomentRounds(PrivateMoments(1.0, classes=range(3), whitening="private"), 3)
    agreed = PrivateMoments(None, classes=range(3), whitening=np.diag([1.0, 2.0, 3.0]))
    rounds = MomentRounds(agreed, 3)
    later = rounds.after(rounds.first_vector(X, y))
    found = later.finished(later.second_vector(X, y), 1.0, rounds.promise)
    alone = PrivateMoments(**agreed.get_params()).fit(X, y)
    np.testing.assert_array_equal(found.sums_, alone.sums_)
    np.testing.assert_array_equal(found.embed(X), alone.embed(X))


@pytest.mark.parametrize(
    "whitening", ["public", np.eye(2), np.zeros((3, 3)), [[1, "a"]], np.full((3, 3), np.inf)]
)
def test_what_is_no_matrix_is_refused_in_one_line(whitening: Any) -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match=r"^whitening must") as caught:
        PrivateMoments(1.0, classes=range(3), whitening=whitening).fit(X, y)
    assert "\n" not in str(caught.value)


def test_without_noise_the_default_head_takes_no_whitening() -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match="with noise"):
        MomentClassifier(None, whitening="private").fit(X, y)
    assert MomentClassifier(None, head="qda", whitening="private").fit(X, y).score(X, y) > 0.7


def test_synthetic_records_of_a_whitened_release_have_norm_one() -> None:
    X, y = cloud()
    moments = PrivateMoments(8.0, classes=range(3), centre=None, whitening=np.eye(3)).fit(X, y)
    drawn, _ = MomentFabricator.from_moments(moments).sample(50, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1.0)


def test_persons_are_covered_by_both_releases() -> None:
    X, y = cloud(300)
    person = np.arange(300) // 3
    model = PrivateMoments(1.0, classes=range(3), whitening="private").fit(X, y, person)
    assert model.guarantee_.person == (1.0, 1e-5)
    assert model.counts_.sum() == pytest.approx(100, abs=150)
