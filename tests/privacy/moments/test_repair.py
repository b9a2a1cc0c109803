"""Covariances out of noisy moments: definite, shrunk by the known noise, unbiased."""

import math

import numpy as np
import pytest
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError
from onefold.privacy.moments import PrivateMoments
from onefold.privacy.moments import _release as repair
from onefold.privacy.moments._release import Noise
from reference.clouds import cloud


@pytest.mark.parametrize(("epsilon", "shrinkage"), thinned([0.01, 0.1, 1.0, 10.0], ["auto", 0.0, 0.5, 1.0]))
def test_covariances_are_positive_definite_at_any_noise(epsilon: float, shrinkage: str | float) -> None:
    X, y = cloud(300, 8)
    model = PrivateMoments(epsilon, classes=range(3), random_state=0).fit(X, y)
    found = model.covariances(shrinkage)
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(found).min() > 0.0
    assert np.all(np.linalg.norm(model.means_, axis=1) <= 1.0 + 1e-12)


def test_the_floor_is_a_multiple_of_the_known_noise() -> None:
    X, y = cloud(3000, 8)
    model = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y)
    levels, weights = model.second_noise_ / model.counts_, model.counts_ / model.counts_.sum()
    for share in (0.0, 0.4):
        mixtures = share * weights + (1.0 - share) * np.eye(3)
        edge = np.linalg.norm(mixtures * levels, axis=1) * math.sqrt(2.0 * 8)
        smallest = np.linalg.eigvalsh(model.covariances(share, floor=8.0, least=0.0)).min(axis=1)
        np.testing.assert_allclose(smallest, 8.0 * edge, rtol=1e-9)


def test_one_moment_for_all_classes_is_repaired_by_the_noise_on_all_records() -> None:
    X, y = cloud(3000, 8)
    model = PrivateMoments(1.0, classes=range(3), second_moments="pooled", random_state=0).fit(X, y)
    edge = model.second_noise_[0] / model.counts_.sum() * math.sqrt(2.0 * 8)
    found = model.covariances(floor=80.0, least=0.0)
    assert found.shape == (3, 8, 8)
    np.testing.assert_allclose(np.linalg.eigvalsh(found).min(axis=1), 80.0 * edge, rtol=1e-9)


def test_noise_alone_has_the_eigenvalues_that_the_floor_assumes() -> None:
    noise = Noise.of(0, False).to_matrices(np.zeros((3, 300, 300)), 2.0)
    largest = np.abs(np.linalg.eigvalsh(noise)).max(axis=1)
    np.testing.assert_allclose(largest, 2.0 * math.sqrt(2.0 * 300), rtol=0.05)
    np.testing.assert_allclose((noise**2).sum(axis=(1, 2)), 4.0 * 300 * 301 / 2, rtol=0.02)


def test_automatic_shrinkage_follows_from_the_noise_level() -> None:
    # Two classes with different spreads: much data is believed, of little data only the pool is left.
    rng = np.random.default_rng(0)

    def remaining(n):
        """Share of the classes' difference that automatic shrinkage leaves."""
        y = np.arange(n) % 2
        X = rng.normal(size=(n, 20)) * np.where(y[:, None], 0.05, 0.2)
        model = PrivateMoments(1.0, classes=[0, 1], centre=None, random_state=0).fit(X, y)
        kept, all_of_it = (model.covariances(share, floor=0.0, least=0.0) for share in ("auto", 0.0))
        return np.linalg.norm(kept[0] - kept[1]) / np.linalg.norm(all_of_it[0] - all_of_it[1])

    assert remaining(200_000) > 0.9
    assert remaining(400) < 0.4


def test_shrinkage_follows_the_share_of_the_noise_in_what_is_found() -> None:
    rng = np.random.default_rng(1)
    noise = Noise.of(0, False).to_matrices(np.zeros((5, 100, 100)), 0.3)
    signal = rng.normal(size=(5, 100, 100))
    signal += signal.transpose(0, 2, 1)
    signal -= signal.mean(axis=0)
    length = np.sqrt((noise - noise.mean(axis=0)).var() / signal.var())
    counts, levels = np.full(5, 1e12), np.full(5, 0.3)  # so many records that they add no noise of their own
    assert repair.noise_shares(noise, counts, levels).min() > 0.9
    for times, share in ((1.0, 1 / 2), (3.0, 1 / 10)):
        found = repair.noise_shares(noise + times * length * signal, counts, levels)
        np.testing.assert_allclose(found, share + share**2 * (1 - share), atol=0.03)
    assert repair.noise_shares(np.zeros((1, 2, 2)), np.ones(1), np.zeros(1)) == [1.0]


def test_classes_of_equal_size_are_shrunk_alike() -> None:
    # What is kept of the noise must not differ: it would decide for one class or the other.
    X, y = cloud(3000, 8)
    model = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y)
    raw = repair.raw_covariances(model.counts_, model.sums_, model.second_moments_, model.sum_noise_)
    shares = repair.noise_shares(raw, np.full(3, 1000.0), np.full(3, 0.001))
    assert 0.0 < shares[0] < 1.0
    np.testing.assert_allclose(shares, shares[0], rtol=1e-12)
    few = repair.noise_shares(raw, np.array([100.0, 1000.0, 1000.0]), np.array([0.01, 0.001, 0.001]))
    assert few[0] > few[1]


def test_too_few_records_are_noise_as_well() -> None:
    # No noise is added, and classes are alike: differences come from sampling, and are not believed.
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    same = PrivateMoments(None, centre=None, radius=30.0).fit(rng.normal(size=(200, 20)), y)
    kept, all_of_it = (same.covariances(share, floor=0.0, least=0.0) for share in ("auto", 0.0))
    spread = [np.linalg.norm(found - found.mean(axis=0)) for found in (kept, all_of_it)]
    assert spread[0] < 0.25 * spread[1]


def test_the_noise_of_the_mean_does_not_bias_the_covariance() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 4)) / 10
    total, second, counts = rows.sum(axis=0), rows.T @ rows, np.full(4000, 100.0)
    totals = total + rng.normal(0.0, 15.0, (4000, 4))
    seconds = np.repeat(second[None], 4000, axis=0)
    for moments in (seconds, seconds.sum(axis=0, keepdims=True)):  # one for each class, one for all
        found = repair.raw_covariances(counts, totals, moments, np.full(4000, 15.0)).mean(axis=0)
        np.testing.assert_allclose(found, np.cov(rows.T, bias=True), atol=0.002)  # the correction is 0.0225


@pytest.mark.parametrize(
    ("shrinkage", "floor"), [("no", 0.3), (-0.1, 0.3), (1.1, 0.3), (math.nan, 0.3), (None, 0.3), (True, 0.3)]
)
def test_invalid_shrinkage_is_refused_in_one_line(shrinkage: object, floor: float) -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match="shrinkage"):
        PrivateMoments(None).fit(X, y).covariances(shrinkage, floor)


@pytest.mark.parametrize("floor", [-1.0, math.nan, math.inf, None, "a", True])
def test_invalid_floor_is_refused_in_one_line(floor: float) -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match="floor"):
        PrivateMoments(None).fit(X, y).covariances("auto", floor)
