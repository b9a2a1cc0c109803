"""Linear classifiers from sums against literal ones from rows; ridges that are chosen well."""

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.models.ridge import RIDGES, PooledSpectrum, fold_ridge
from reference.linear_heads import lda_scores, left_out_ridge, ridge_scores


def statistic(X, y, n_classes=3):
    counts = np.bincount(y, minlength=n_classes).astype(float)
    return counts, np.array([X[y == c].sum(axis=0) for c in range(n_classes)]), X.T @ X


def cloud(n=200, width=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.sort(rng.choice(3, n, p=[0.6, 0.3, 0.1]))
    return rng.normal(size=(n, width)) * rng.uniform(0.2, 2, width) + y[:, None] + 3.0, y


@pytest.mark.parametrize("ridge", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("width", [1, 6, 40])
def test_scores_are_those_of_the_literal_classifiers(ridge: float, width: int) -> None:
    X, y = cloud(width=width)
    queries = cloud(seed=1, width=width)[0]
    spectrum = PooledSpectrum(*statistic(X, y))
    for rule, literal in (("ridge", ridge_scores), ("lda", lda_scores)):
        found, expected = spectrum.scores(rule, ridge).of(queries), literal(X, y, 3, ridge, queries)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_rows_are_left_out_exactly_for_ridge_regression() -> None:
    X, y = cloud(60)
    found = PooledSpectrum(*statistic(X, y)).left_out("ridge", 0.03, X, y)
    np.testing.assert_allclose(found, left_out_ridge(X, y, 3, 0.03), rtol=1e-7, atol=1e-9)


def test_estimated_error_is_near_that_of_rows_left_out() -> None:
    X, y = cloud(400, 12)
    spectrum = PooledSpectrum(*statistic(X, y))
    for ridge in (1e-3, 0.1, 3.0):
        alone = left_out_ridge(X, y, 3, ridge)
        real = np.mean(np.sum((alone - np.eye(3)[y]) ** 2, axis=1))
        assert spectrum.error(ridge) == pytest.approx(real, rel=0.05)


def test_more_columns_than_rows_get_a_ridge_that_classifies() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 300)) + 0.3 * y[:, None]
    spectrum = PooledSpectrum(*statistic(X[:60], y[:60], 2))
    ridge, error = spectrum.chosen
    assert np.isfinite(error)
    hits = spectrum.scores("ridge", ridge).of(X[60:]).argmax(axis=1) == y[60:]
    assert hits.mean() > 0.85


def test_classes_without_rows_are_never_chosen() -> None:
    X, y = cloud()
    counts, sums, gram = statistic(X, y, 5)
    for rule in ("ridge", "lda", "average", "balanced"):
        scores = PooledSpectrum(counts, sums, gram).scores(rule, 0.1).of(X)
        assert np.all(scores[:, 3:] == -np.inf)
        assert np.isfinite(scores[:, :3]).all()
    with pytest.raises(InvalidInputError, match="no rows"):
        PooledSpectrum(np.zeros(2), np.zeros((2, 3)), np.zeros((3, 3)))


def test_balanced_rule_finds_rare_classes_more_often() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [2000, 60, 12])
    X = rng.normal(size=(len(y), 30)) + 0.45 * np.eye(30)[y] * 4
    fresh_y = np.repeat([0, 1, 2], 300)
    fresh = rng.normal(size=(900, 30)) + 0.45 * np.eye(30)[fresh_y] * 4
    spectrum = PooledSpectrum(*statistic(X, y))
    ridge = spectrum.chosen[0]
    recall = {
        rule: np.mean(spectrum.scores(rule, ridge).of(fresh).argmax(axis=1) == fresh_y)
        for rule in ("ridge", "lda", "balanced")
    }
    assert recall["balanced"] > recall["lda"] + 0.05 > recall["ridge"]


@pytest.mark.parametrize("rule", ["ridge", "lda", "average", "balanced"])
def test_degenerate_rows_give_finite_scores(rule: str) -> None:
    for X, y in (
        (np.ones((6, 3)), np.array([0, 0, 1, 1, 2, 2])),
        (np.zeros((4, 1)), np.array([0, 1, 1, 2])),
        (np.eye(3), np.array([0, 1, 2])),
        (np.array([[1.0, 2.0]]), np.array([1])),
        (cloud()[0] * 1e-120, cloud()[1]),
    ):
        spectrum = PooledSpectrum(*statistic(X, y))
        scores = spectrum.scores(rule, spectrum.chosen[0])
        assert np.isfinite(scores.of(X)[:, np.unique(y)]).all()
        assert np.isfinite(scores.temperature)
        assert scores.temperature > 0.0


def test_ridge_of_folds_is_the_one_with_the_smallest_error_on_rows_left_out() -> None:
    X, y = cloud(200, 20)
    parts = [np.flatnonzero(np.arange(200) % 4 == k) for k in range(4)]
    ridge, error = fold_ridge([statistic(X[part], y[part]) for part in parts])
    errors = []
    for candidate in RIDGES:
        lost = 0.0
        for part in parts:
            rest = np.setdiff1d(np.arange(200), part)
            scores = ridge_scores(X[rest], y[rest], 3, candidate, X[part])
            lost += np.sum((scores - np.eye(3)[y[part]]) ** 2)
        errors.append(lost / 200)
    assert ridge == RIDGES[int(np.argmin(errors))]
    assert error == pytest.approx(min(errors), rel=1e-6)
    with pytest.raises(InvalidInputError, match="one group"):
        fold_ridge([statistic(X, y)])


def test_temperature_of_normal_classes_is_a_constant_share_of_the_right_one() -> None:
    # Discriminant scores of normal classes are log odds: the right factor is one, the stated one TAILS of it.
    rng = np.random.default_rng(0)
    y = np.arange(20_000) % 3
    X = rng.normal(size=(20_000, 5)) + np.eye(5)[y]
    found = PooledSpectrum(*statistic(X, y)).scores("lda", 1e-4)
    assert found.temperature == pytest.approx(0.4, rel=0.05)
