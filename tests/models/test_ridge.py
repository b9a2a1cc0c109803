"""Ridge regression from sums of pairs: the literal one, errors of rows left out, and what noise does."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from onefold.exceptions import InvalidInputError
from onefold.models.ridge import PairSpectrum, PairSums, _noise_of_residuals, ridge_of
from reference import noisy_pairs

RTOL = 1e-7  # other processors add up in other orders


@pytest.fixture(scope="module")
def pairs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * [1.0, 2.0, 0.5, 1.0, 1.0, 3.0]
    return X, X @ [1.0, -0.5, 2.0, 0.0, 0.0, 0.1] + 3.0 + rng.normal(size=200)


def test_weights_are_those_of_ridge_regression(pairs: tuple) -> None:
    X, y = pairs
    spectrum = PairSpectrum(PairSums.of(X, y), standardise=False)
    found = spectrum.at(0.3, 0.0)
    literal = Ridge(alpha=200 * 0.3 * spectrum.unit).fit(X, y)
    np.testing.assert_allclose(found.weights, literal.coef_, rtol=RTOL)
    np.testing.assert_allclose(found.of(X), literal.predict(X), rtol=RTOL)


def test_left_out_errors_are_those_of_fits_without_the_row(pairs: tuple) -> None:
    X, y = pairs
    spectrum = PairSpectrum(PairSums.of(X, y), standardise=False)
    alpha = 200 * 0.1 * spectrum.unit
    found = spectrum.left_out(0.1, X[:5], y[:5])
    for row in range(5):
        others = np.arange(200) != row
        # The penalised sum is the same; only the intercept is free, which the leverage of 1/n allows for.
        literal = Ridge(alpha=alpha).fit(X[others], y[others])
        assert found[row] == pytest.approx(y[row] - literal.predict(X[[row]])[0], rel=1e-6)


def test_estimated_error_is_on_average_that_of_fresh_pairs() -> None:
    rng = np.random.default_rng(1)
    fresh = rng.normal(size=(2000, 20))
    true, estimated, seen = [], [], []
    for _ in range(30):
        weights = rng.normal(size=20)
        X = rng.normal(size=(100, 20))
        y = X @ weights + 2.0 * rng.normal(size=100)
        model = ridge_of(PairSums.of(X, y))
        true.append(np.mean((fresh @ weights - model.of(fresh)) ** 2) + 4.0)
        estimated.append(model.error)
        seen.append(np.mean((y - model.of(X)) ** 2))
    assert 0.9 < np.mean(estimated) / np.mean(true) < 1.1
    assert np.mean(seen) < 0.7 * np.mean(true)  # which the fitted pairs do not show


def test_constant_and_doubled_columns_do_no_harm(pairs: tuple) -> None:
    X, y = pairs
    more = np.column_stack([X, np.full(200, 1e6), X[:, 0], np.zeros(200)])
    found = ridge_of(PairSums.of(more, y))
    assert found.weights[6] == 0.0
    assert np.mean((found.of(more) - y) ** 2) < 1.2 * np.mean((ridge_of(PairSums.of(X, y)).of(X) - y) ** 2)


def test_too_few_pairs_take_the_strongest_ridge_and_none_are_refused() -> None:
    found = ridge_of(PairSums.of(np.eye(2), np.array([1.0, 3.0])))
    assert found.error == np.inf
    assert abs(found.of(np.eye(2)) - 2.0).max() < 0.1
    with pytest.raises(InvalidInputError, match="no rows"):
        ridge_of(PairSums(0.0, np.zeros(3), np.zeros((3, 3))))


def noisy(sums: PairSums, level: float, rng: np.random.Generator) -> PairSums:
    size = len(sums.sums)
    above = np.triu(rng.normal(size=(size, size)) * level / np.sqrt(2.0), 1)
    matrix = above + above.T + np.diag(rng.normal(size=size) * level)
    return PairSums(
        sums.count + level * rng.normal(),
        sums.sums + level * rng.normal(size=size),
        sums.products + matrix,
        level,
        level,
        level,
    )


def test_estimated_error_allows_for_the_noise() -> None:
    """On average the estimate is the error on the true sums; that of the noisy sums is far too good."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, size=(400, 8)) / 4.0
    y = X @ rng.normal(size=8) + rng.normal(size=400) / 5.0
    sums = PairSums.of(X, y)
    true, estimated, seen = [], [], []
    for _ in range(60):
        given = noisy(sums, 4.0, rng)
        model = ridge_of(given)
        true.append(np.mean((y - model.of(X)) ** 2))
        estimated.append(model.error)
        w = np.append(model.offset, model.weights)
        M = np.block(
            [[given.count, given.sums[None, :-1]], [given.sums[:-1, None], given.products[:-1, :-1]]]
        )
        right = np.append(given.sums[-1], given.products[:-1, -1])
        seen.append((given.products[-1, -1] + w @ M @ w - 2 * w @ right) / given.count)
    spread = np.std(np.subtract(estimated, true)) / np.sqrt(60)
    # The best of several ridges looks a little too good, and few pairs add a little.
    assert abs(np.mean(estimated) - np.mean(true)) < 3.0 * spread + 0.1 * np.mean(true)
    assert np.mean(seen) < np.mean(estimated) - 3.0 * spread


def unit_pairs(size: int, width: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of length at most one, of which the columns explain half."""
    X = rng.uniform(-1.0, 1.0, size=(size, width))
    linear = X @ rng.normal(size=width)
    y = linear / linear.std() + rng.normal(size=size)
    return X * math.sqrt(0.7 / width), np.clip(y / 4.0, -1.0, 1.0) * math.sqrt(0.3)


@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize(("size", "level"), [(60, 3.0), (400, 1.0), (400, 30.0), (5000, 0.3)])
def test_regression_on_noisy_sums_is_the_literal_one(size: int, width: int, level: float) -> None:
    rng = np.random.default_rng([size, width])
    X, y = unit_pairs(size, width, rng)
    for shift in (0.0, 0.2):  # means of x and y that count
        given = noisy(PairSums.of(X + shift / width, y + shift), level, rng)
        given = replace(given, row_square=0.7, output_square=0.3)
        found = ridge_of(given)
        weights, offset, error = noisy_pairs.regression(
            given.count, given.sums, given.products, (level, level, level), 0.7, 0.3
        )
        # Quadrature and other orders of adding up leave some digits.
        np.testing.assert_allclose(found.weights, weights, rtol=1e-4, atol=1e-6)
        assert found.offset == pytest.approx(offset, rel=1e-4, abs=1e-6)
        assert found.error == pytest.approx(error, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("width", [5, 30])
@pytest.mark.parametrize("level", [2.0, 5.0, 15.0])
def test_few_pairs_are_never_much_worse_than_their_noisy_mean(width: int, level: float) -> None:
    rng = np.random.default_rng(5)
    lost = []
    for _ in range(40):
        X, y = unit_pairs(2200, width, rng)
        given = noisy(PairSums.of(X[:200], y[:200]), level, rng)
        given = replace(given, row_square=0.7, output_square=0.3)
        found = np.clip(ridge_of(given).of(X[200:]), -math.sqrt(0.3), math.sqrt(0.3))
        mean = np.clip(given.sums[-1] / max(given.count, 1.0), -math.sqrt(0.3), math.sqrt(0.3))
        truth = y[200:]
        lost.append((np.mean((truth - found) ** 2) - np.mean((truth - mean) ** 2)) / np.var(truth))
    assert np.mean(lost) < 0.02
    assert np.quantile(lost, 0.9) < 0.2


def test_many_pairs_lose_nothing_to_little_noise() -> None:
    rng = np.random.default_rng(6)
    X, y = unit_pairs(20_000, 8, rng)
    sums = PairSums.of(X[:16_000], y[:16_000])
    exact = np.mean((y[16_000:] - ridge_of(sums).of(X[16_000:])) ** 2)
    for _ in range(5):
        found = ridge_of(replace(noisy(sums, 1.0, rng), row_square=0.7, output_square=0.3))
        assert np.mean((y[16_000:] - found.of(X[16_000:])) ** 2) < 1.01 * exact
        assert found.error == pytest.approx(exact, rel=0.1)
        assert found.ridge < 0.1


def test_noise_that_drowns_everything_leaves_the_mean() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, size=(50, 5)) / 3.0
    y = X[:, 0] + 0.5
    found = [ridge_of(noisy(PairSums.of(X, y), 20.0, rng)) for _ in range(20)]
    assert np.median([np.abs(model.weights).max() for model in found]) < 0.2  # of 1
    assert min(model.ridge for model in found) > 1.0


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e12])
def test_sums_that_no_pairs_have_give_finite_numbers(scale: float) -> None:
    """A foreign file may hold any sums."""
    found = ridge_of(PairSums(scale, np.full(4, scale), np.full((4, 4), -abs(scale)), 1.0, 1.0, 1e-3))
    assert np.isfinite([*found.weights, found.offset, found.error, found.error_noise]).all()


def test_noise_of_the_estimated_error_is_what_noise_does_to_residuals() -> None:
    rng = np.random.default_rng(4)
    w, levels = np.array([0.5, -0.7, 0.3]), (2.0, 0.6, 1.5)
    outside = np.append(w[1:], -1.0)
    found = []
    for _ in range(4000):
        square = rng.normal(size=(3, 3)) * levels[2] / math.sqrt(2.0)
        noise = np.triu(square, 1) + np.triu(square, 1).T + np.diag(rng.normal(size=3) * levels[2])
        sums = rng.normal(size=3) * levels[1]
        found.append(
            outside @ noise @ outside + 2.0 * w[0] * sums @ outside + w[0] ** 2 * rng.normal() * levels[0]
        )
    pairs = PairSums(100.0, np.zeros(3), np.eye(3), *levels)
    assert _noise_of_residuals(pairs, w) == pytest.approx(np.std(found), rel=0.05)
