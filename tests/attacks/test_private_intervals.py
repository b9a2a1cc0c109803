"""Intervals of private regressors: every single release holds the stated share, and is not needlessly wide.

Rows are drawn anew for every release, and noise from seeds: the outcome is the same in every run.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom
from tests.tiers import later

from onefold.fabrication import MomentRegressor
from onefold.privacy.moments import PrivateMoments

RELEASES, QUERIES = 16, 4000
CHANCE = 3.0 * np.sqrt(0.09 / QUERIES)  # by which a share of the queries may be off
Rows = tuple[np.ndarray, np.ndarray]


def normal(rng: np.random.Generator, n: int) -> Rows:
    X = rng.uniform(-1.0, 1.0, (n, 8))
    return X, np.clip(X.sum(axis=1) / 2.0 + 0.5 * rng.normal(size=n), -4.0, 4.0)


def correlated(rng: np.random.Generator, n: int) -> Rows:
    """Columns that go together, of which some push up and some down: weights follow the noise."""
    X = np.clip((rng.normal(size=(n, 2)) @ MIXED + 0.15 * rng.normal(size=(n, 8))) / 3.0, -1.0, 1.0)
    return X, np.clip(3.0 * (X[:, 0] - X[:, 1]) + 0.7 * rng.normal(size=n), -4.0, 4.0)


def rare(rng: np.random.Generator, n: int) -> Rows:
    """Two numbers only, one of them seldom: errors are far from normal."""
    X = rng.uniform(-1.0, 1.0, (n, 4))
    return X, np.where(rng.random(n) < 0.2 + 0.1 * X[:, 0], 4.0, -4.0)


def skewed(rng: np.random.Generator, n: int) -> Rows:
    X = rng.uniform(-1.0, 1.0, (n, 6))
    return X, np.clip(np.exp(X[:, 0] + 0.6 * rng.normal(size=n)) - 4.0, -4.0, 4.0)


MIXED = np.random.default_rng(9).normal(size=(2, 8))
KINDS = {"normal": normal, "correlated": correlated, "rare": rare, "skewed": skewed}


def released(
    draw: Callable, rng: np.random.Generator, n: int, epsilon: float, n_sites: int
) -> MomentRegressor:
    """A regressor on the sum of the releases of sites with equal parts of new rows."""
    X, y = draw(rng, n)
    ranges = {"x_range": (-1.0, 1.0), "y_range": (-4.0, 4.0)}
    parts = [
        MomentRegressor(epsilon, **ranges, random_state=int(rng.integers(2**31)))
        .fit(X[part], y[part])
        .moments_
        for part in np.array_split(np.arange(n), n_sites)
    ]
    return MomentRegressor.from_moments(PrivateMoments.total(parts), **ranges)


def measured(kind: str, n: int, epsilon: float, n_sites: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """For each release the share of new rows inside, and the width over that of the narrowest interval."""
    rng = np.random.default_rng(n + n_sites)
    X, y = KINDS[kind](rng, QUERIES)
    shares, widths = [], []
    for _ in range(RELEASES):
        model = released(KINDS[kind], rng, n, epsilon, n_sites)
        low, high = model.predict_interval(X, level).T
        shares.append(np.mean((low <= y) & (y <= high)))
        widths.append(np.mean(high - low) / (2.0 * np.quantile(np.abs(model.predict(X) - y), level)))
    return np.array(shares), np.array(widths)


SIZES = [(200, 1.0, 1), (1000, 1.0, 1), (1000, 4.0, 10), (5000, 1.0, 1)]


@pytest.mark.parametrize(("kind", "size"), later(product(KINDS, SIZES), list(zip(KINDS, SIZES, strict=True))))
def test_each_release_holds_nine_of_ten_rows(kind: str, size: tuple[int, float, int]) -> None:
    n, epsilon, n_sites = size
    shares, widths = measured(kind, n, epsilon, n_sites, 0.9)
    missed = int(np.sum(shares < 0.9 - CHANCE))
    # At most 1 of 100 releases is below: more than 4 of 16 have a probability below 1e-6.
    assert missed <= binom.isf(1e-6, RELEASES, 0.01)
    assert np.median(shares) >= 0.9 - CHANCE
    assert np.mean(widths) < 3.0


@pytest.mark.parametrize("kind", later(KINDS, ["correlated"]))
def test_little_noise_leaves_intervals_that_are_hardly_wider_than_they_must_be(kind: str) -> None:
    """The width is at most 1.6 times that of the narrowest interval, and not all rows are inside."""
    shares, widths = measured(kind, 20_000, 4.0, 1, 0.9)
    assert np.all(shares >= 0.9 - CHANCE)
    assert np.mean(shares) < 0.985
    assert np.mean(widths) < 1.6


@pytest.mark.parametrize("level", later([0.5, 0.99], [0.99]))
def test_other_shares_are_held_too(level: float) -> None:
    for kind in KINDS:
        shares, _ = measured(kind, 3000, 2.0, 1, level)
        assert np.sum(shares < level - CHANCE) <= 2


def test_sums_without_noise_hold_the_share_for_errors_that_are_not_normal() -> None:
    rng = np.random.default_rng(5)
    for draw in KINDS.values():
        X, y = draw(rng, 3000)
        ranges = {"x_range": (-1.0, 1.0), "y_range": (-4.0, 4.0)}
        sums = MomentRegressor(None, lift=None, **ranges).fit(X, y).moments_
        model = MomentRegressor.from_moments(sums, **ranges)
        queries, truth = draw(rng, QUERIES)
        low, high = model.predict_interval(queries, 0.9).T
        assert np.mean((low <= truth) & (truth <= high)) >= 0.9 - CHANCE
