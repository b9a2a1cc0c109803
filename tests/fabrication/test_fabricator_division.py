"""Dividing rows under noise: groups that are there are found, and only what may be looked at is used."""

import numpy as np
import pytest

from onefold.fabrication.fabricator import divide_noisy, divide_raw

Rows = np.ndarray


def clusters(n_each: int, n_features: int, noise: float) -> tuple[Rows, Rows, Rows]:
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(3), n_each)
    centres = np.zeros((3, n_features))
    centres[[0, 1, 2], [0, 1, 2]] = 10.0
    rows = centres[truth] + 0.1 * rng.normal(size=(len(truth), n_features))
    order = rng.permutation(len(rows))
    return rows[order], rows[order] + noise * rng.normal(size=rows.shape), truth[order]


def purity(parts: list[Rows], truth: Rows) -> float:
    return sum(np.bincount(truth[part]).max() for part in parts) / len(truth)


@pytest.mark.parametrize(("n_each", "n_features"), [(100, 40), (100, 400)])
def test_divide_noisy_finds_clusters_under_noise(n_each: int, n_features: int) -> None:
    raw, noisy, truth = clusters(n_each, n_features, noise=1.5)
    everything = [np.arange(len(raw))]
    parts = divide_noisy(noisy, everything, n_each, 1.5**2)
    assert sorted(np.concatenate(parts)) == list(range(len(raw)))
    assert purity(parts, truth) > 0.95
    # Rows that are nothing but noise have no clusters to find: the same call tells them apart.
    shuffled = np.random.default_rng(0).permutation(truth)
    assert purity(parts, shuffled) < 0.6


def test_divide_noisy_is_purer_than_k_means_on_noisy_rows() -> None:
    found: list[tuple[float, float]] = []
    for n_features, noise in ((600, 1.5), (2000, 1.5)):
        raw, noisy, truth = clusters(300, n_features, noise)
        everything = [np.arange(len(raw))]
        assert purity(divide_raw(raw, everything, 300), truth) > 0.99
        plain = divide_raw(noisy, everything, 300)
        denoised = divide_noisy(noisy, everything, 300, noise**2)
        found.append((purity(plain, truth), purity(denoised, truth)))
    plain_mean, denoised_mean = np.mean(found, axis=0)
    assert denoised_mean > plain_mean + 0.05


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_divide_noisy_covers_degenerate_rows_once_and_keeps_groups_apart(dtype: type) -> None:
    for rows in (np.zeros((30, 4)), np.ones((30, 40)), np.eye(30)[:, :1]):
        parts = divide_noisy(rows.astype(dtype), [np.arange(10), np.arange(10, 30)], 5, 1.0)
        assert sorted(np.concatenate(parts)) == list(range(30))
        assert all((part < 10).all() or (part >= 10).all() for part in parts)


def test_divide_noisy_keeps_small_groups_whole() -> None:
    groups = [np.array([4, 1]), np.array([0, 2, 3])]
    parts = divide_noisy(np.random.default_rng(0).normal(size=(5, 3)), groups, 5, 1.0)
    for part, group in zip(parts, groups, strict=True):
        np.testing.assert_array_equal(part, group)


def test_divide_noisy_takes_consecutive_rows_where_noise_hides_clusters() -> None:
    raw, _, _ = clusters(100, 40, noise=0.5)
    widest = float(np.linalg.eigvalsh(np.cov(raw.T))[-1])
    batches = [list(range(100)), list(range(100, 200)), list(range(200, 300))]
    rng = np.random.default_rng(0)
    for ratio, ordered in ((3.0, True), (30.0, False)):
        variance = widest / ratio
        noisy = raw + np.sqrt(variance) * rng.normal(size=raw.shape)
        found = divide_noisy(noisy, [np.arange(300)], 100, variance)
        assert ([part.tolist() for part in found] == batches) is ordered


def test_divide_noisy_divides_each_group_by_itself() -> None:
    _, noisy, _ = clusters(100, 40, noise=1.0)
    groups = [np.arange(150), np.arange(150, 300)]
    together = divide_noisy(noisy, groups, 50, 1.0)
    apart = [part for group in groups for part in divide_noisy(noisy, [group], 50, 1.0)]
    assert [part.tolist() for part in together] == [part.tolist() for part in apart]
