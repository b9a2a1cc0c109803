"""The linear discriminant of one noisy second moment: as written out number by number, at any noise."""

import math

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from onefold._base.fixed_point import denoised_spectrum
from onefold.privacy.moments import _denoise
from onefold.privacy.moments._denoise import (
    denoised_discriminant,
    noise_of_moments,
    plain_discriminant,
    pooled_part,
    thinned,
)
from onefold.privacy.moments._release import Noise
from reference import denoised
from reference.linear_heads import lda_scores


def moments(n: int, p: int, n_classes: int, noise: float, seed: int = 0, unit: bool = True):  # type: ignore[no-untyped-def]
    """Counts, sums and second moment of classes that differ, with noise; and rows of their own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    middles = rng.normal(size=(n_classes, p)) * np.linspace(2.0, 0.5, p)
    rows = middles[y] + rng.normal(size=(n, p)) * np.linspace(3.0, 0.3, p)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / lengths if unit else rows / (2.0 * lengths.max())
    drawn = Noise.of(seed, "float")
    counts = drawn.to_counts(np.bincount(y, minlength=n_classes).astype(float), noise)
    totals = np.array([rows[y == code].sum(axis=0) for code in range(n_classes)])
    second = drawn.to_matrices((rows.T @ rows)[None], noise)[0]
    return counts, drawn.to_sums(totals, noise), second, np.full(n_classes, noise), rows, y


CASES = [
    (400, 6, 3, 1.0, True),
    (400, 6, 3, 20.0, True),
    (400, 6, 3, 1e6, True),
    (400, 6, 3, 0.0, True),
    (200, 9, 2, 3.0, True),
    (300, 1, 2, 1.0, True),
    (300, 1, 4, 2.0, True),
    (300, 2, 5, 2.0, True),
    (50, 5, 1, 2.0, True),
    (4, 7, 6, 1.0, True),
    (400, 6, 3, 1.0, False),
    (400, 6, 3, 1e4, False),
]


@pytest.mark.parametrize(("n", "p", "n_classes", "noise", "unit"), CASES)
def test_discriminant_equals_the_literal_version(
    n: int, p: int, n_classes: int, noise: float, unit: bool
) -> None:
    counts, sums, second, sum_noise, rows, _ = moments(n, p, n_classes, noise, unit=unit)
    head = denoised_discriminant(counts, sums, second, sum_noise, noise, unit_rows=unit)
    total = np.maximum(counts, 1.0).sum()
    trace = 1.0
    if not unit:
        trace = min(max(np.trace(second) / total, noise / total * math.sqrt(p), 1e-12), 1.0)
    literal = denoised.discriminant(counts, sums, *thinned(second, noise), sum_noise, noise, trace)
    found = rows[:20] @ head.weights + head.offsets
    np.testing.assert_allclose(found, [literal(x) for x in rows[:20]], rtol=1e-6, atol=1e-6)


HEADS = pytest.mark.parametrize("head_of", [denoised_discriminant, plain_discriminant])


@HEADS
def test_class_without_records_is_hardly_ever_predicted(head_of) -> None:
    counts, sums, second, sum_noise, rows, _ = moments(600, 6, 3, 1.0)
    counts, sums = np.append(counts, -2.0), np.vstack([sums, np.zeros(6)])
    head = head_of(counts, sums, second, np.append(sum_noise, 1.0), 1.0)
    assert np.all((rows @ head.weights + head.offsets).argmax(axis=1) < 3)


@HEADS
def test_nothing_but_noise_leaves_finite_scores(head_of) -> None:
    nothing = np.zeros((3, 4))
    head = head_of(np.zeros(3), nothing, np.zeros((4, 4)), np.full(3, 9.0), 9.0)
    assert np.isfinite(head.weights).all()
    assert np.isfinite(head.offsets).all()


@HEADS
def test_without_noise_it_decides_nearly_as_linear_discriminant_analysis(head_of) -> None:
    counts, sums, second, sum_noise, rows, y = moments(4000, 5, 3, 0.0)
    head = head_of(counts, sums, second, sum_noise, 0.0)
    own = np.mean((rows @ head.weights + head.offsets).argmax(axis=1) == y)
    theirs = LinearDiscriminantAnalysis().fit(rows, y).score(rows, y)
    assert abs(own - theirs) < 0.01


def test_unit_rows_with_and_without_their_known_trace_decide_alike() -> None:
    counts, sums, second, sum_noise, rows, _ = moments(2000, 6, 3, 1.0)
    known = denoised_discriminant(counts, sums, second, sum_noise, 1.0)
    estimated = denoised_discriminant(counts, sums, second, sum_noise, 1.0, unit_rows=False)
    same = (rows @ known.weights + known.offsets).argmax(axis=1) == (
        rows @ estimated.weights + estimated.offsets
    ).argmax(axis=1)
    assert same.mean() > 0.99


def test_denoising_and_flattening_keep_the_trace() -> None:
    values = np.sort(np.random.default_rng(0).normal(size=40))
    found = _denoise.flattened(denoised_spectrum(values, 0.1, 0.7), 0.1, 0.7, 100.0)
    assert found.sum() == pytest.approx(0.7)
    assert found.min() > 0.0
    assert np.all(np.diff(found) >= 0.0)


def test_denoised_eigenvalues_are_closer_to_those_of_the_truth_along_noisy_vectors() -> None:
    truth = np.diag(np.linspace(0.2, 1.8, 200)) / 200
    noisy = Noise.of(1, "float").to_matrices(truth[None], 0.0008)[0]
    values, vectors = np.linalg.eigh(noisy)
    best = np.diag(vectors.T @ truth @ vectors)
    found = denoised_spectrum(values, 0.0008, 1.0)
    assert np.linalg.norm(found - best) < 0.2 * np.linalg.norm(values - best)


def test_thinned_copies_have_independent_noise_of_the_stated_size() -> None:
    # The seed of thinning is fixed, so one large matrix stands for many: its entries are independent.
    size = 400
    noise = Noise.of(5, "float").to_matrices(np.zeros((1, size, size)), 3.0)[0]
    first, other = thinned(noise, 3.0)
    above = np.triu_indices(size, 1)
    n = len(above[0])
    assert np.var(first[above]) == pytest.approx(1.25 * 9.0 / 2.0, rel=5.0 * math.sqrt(2.0 / n))
    assert np.var(other[above]) == pytest.approx(5.0 * 9.0 / 2.0, rel=5.0 * math.sqrt(2.0 / n))
    assert abs(np.corrcoef(first[above], other[above])[0, 1]) < 5.0 / math.sqrt(n)
    assert np.var(np.diag(first)) == pytest.approx(1.25 * 9.0, rel=5.0 * math.sqrt(2.0 / size))
    np.testing.assert_array_equal(first, first.T)


@pytest.mark.parametrize("seed", [0, 1, _denoise.THINNING_SEED])
@pytest.mark.parametrize("sampler", ["float", "hardened"])
def test_thinning_is_not_the_noise_of_any_seeded_release(seed: int, sampler: str) -> None:
    size = 60
    noise = Noise.of(seed, sampler).to_matrices(np.zeros((1, size, size)), 3.0)[0]
    extra = (thinned(noise, 3.0)[0] - noise)[np.triu_indices(size)]
    assert abs(np.corrcoef(extra, noise[np.triu_indices(size)])[0, 1]) < 5.0 / math.sqrt(len(extra))


def test_thinning_does_not_depend_on_anything_but_size_and_level() -> None:
    one, another = np.eye(5), np.ones((5, 5))
    np.testing.assert_allclose(thinned(one, 2.0)[0] - one, thinned(another, 2.0)[0] - another, atol=1e-12)
    assert thinned(one, 0.0)[0] is one


def test_noise_of_moments_follows_its_formulas() -> None:
    found = noise_of_moments(1000.0, 8, 4, total=3.0, second=2.0)
    assert found.of_class == pytest.approx(8 * 4.0 * 4 * 2.0 / (math.sqrt(0.7) * 1000))
    assert found.of_pooled == pytest.approx(8 * 4.0 * 2.0 / (math.sqrt(0.4) * 1000))
    assert found.of_means == pytest.approx(4 * 3.0 / 1000)
    assert noise_of_moments(-3.0, 8, 4, 2.0, 2.0) == noise_of_moments(1.0, 8, 4, 2.0, 2.0)


def test_moment_that_noise_would_drown_gets_a_small_part() -> None:
    drowned = noise_of_moments(500.0, 512, 7, 4.0, 4.0)
    exact = noise_of_moments(1e6, 16, 2, 4.0, 4.0)
    assert [pooled_part(noise) for noise in (exact, drowned)] == list(_denoise.POOLED_PARTS)


def test_thinning_is_left_out_where_the_noise_is_moderate() -> None:
    counts = np.full(4, 1000.0)
    assert _denoise.noise_is_moderate(counts, 50, 50.0)
    assert not _denoise.noise_is_moderate(counts, 50, 60.0)


def test_without_noise_the_plain_head_is_the_literal_discriminant_of_rows_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [300, 150, 50])
    rows = 0.5 + 0.1 * rng.normal(size=(500, 3)) * [1.0, 0.5, 0.2] + 0.05 * np.eye(3)[y]
    sums = np.array([rows[y == code].sum(axis=0) for code in range(3)])
    head = plain_discriminant(np.bincount(y).astype(float), sums, rows.T @ rows, np.zeros(3), 0.0)
    inside = np.trace(np.cov((rows - (sums / np.bincount(y)[:, None])[y]).T, bias=True))
    ridge = (0.01 + 3 / 500) * inside / np.trace(np.cov(rows.T, bias=True))
    expected = lda_scores(rows, y, 3, ridge, rows)
    np.testing.assert_allclose(rows @ head.weights + head.offsets, expected, rtol=1e-6, atol=1e-8)
