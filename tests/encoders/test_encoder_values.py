"""Encoders against literal versions and known images."""

import numpy as np
import pytest
from scipy.fft import dctn
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from onefold.encoders import (
    ContrastHistograms,
    GradientHistograms,
    LowFrequencyDCT,
    RandomFeatures,
    WhitenedHistograms,
)
from onefold.encoders.images import _shapes


def literal_histogram(image, cells, orientations, signed, margin):
    """Pixel by pixel: gradient, two nearest directions, triangular cells."""
    height, width = image.shape
    histogram = np.zeros((*cells, orientations))
    circle = 2 * np.pi if signed else np.pi
    lengths = [size - 2 * margin for size in image.shape]
    for r in range(height):
        for c in range(width):
            dy = image[min(r + 1, height - 1), c] - image[max(r - 1, 0), c]
            dx = image[r, min(c + 1, width - 1)] - image[r, max(c - 1, 0)]
            place = (np.arctan2(dy, dx) % circle) / circle * orientations
            below = int(np.floor(place)) % orientations
            share = place - np.floor(place)
            for i in range(cells[0]):
                for j in range(cells[1]):
                    weight = np.hypot(dy, dx)
                    for axis, (pixel, cell) in enumerate(((r, i), (c, j))):
                        spacing = lengths[axis] / cells[axis]
                        middle = margin + (cell + 0.5) * spacing - 0.5
                        weight *= max(0.0, 1 - abs(pixel - middle) / spacing)
                    histogram[i, j, below] += weight * (1 - share)
                    histogram[i, j, (below + 1) % orientations] += weight * share
    return histogram.ravel()


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("margin", "power"), [(0, 1.0), (1, 0.5)])
def test_gradient_histograms_against_pixel_loops(signed: bool, margin: int, power: float) -> None:
    images = np.random.default_rng(1).random((4, 9, 8))
    encoder = GradientHistograms(
        (9, 8), n_cells=(3, 2), n_orientations=6, signed=signed, margin=margin, power=power
    )
    found = encoder.fit_transform(images.reshape(4, -1))
    for image, row in zip(images, found, strict=True):
        expected = literal_histogram(image, (3, 2), 6, signed, margin) ** power
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("damping", [0.3, 5.0])
def test_contrast_histograms_against_loops_over_neighbours(damping: float) -> None:
    images = np.random.default_rng(8).random((4, 12, 9))
    encoder = ContrastHistograms((12, 9), n_cells=(4, 3), n_orientations=5, power=0.5, damping=damping)
    for image, row in zip(images, encoder.fit_transform(images.reshape(4, -1)), strict=True):
        cells = literal_histogram(image, (4, 3), 5, True, 0).reshape(4, 3, 5)
        sizes = np.linalg.norm(cells, axis=2)
        expected = np.empty_like(cells)
        for i in range(4):
            for j in range(3):
                around = sum(
                    (2 - abs(a - i)) * (2 - abs(b - j)) / 16 * sizes[a, b]
                    for a in range(max(i - 1, 0), min(i + 2, 4))
                    for b in range(max(j - 1, 0), min(j + 2, 3))
                )
                expected[i, j] = np.sqrt(cells[i, j] / (around + damping * sizes.mean()))
        np.testing.assert_allclose(row, expected.ravel() / np.linalg.norm(expected), rtol=1e-9, atol=1e-12)


def test_faint_edges_count_in_contrast_histograms_nearly_as_much_as_strong_ones() -> None:
    edges = np.zeros((16, 64))
    edges[:, 8:12], edges[:, 52:56] = 1.0, 0.05  # far from each other
    halves = []
    for kind in (GradientHistograms, ContrastHistograms):
        encoder = kind((16, 64), n_cells=(4, 16), power=1.0)
        row = encoder.fit_transform(edges.reshape(1, -1)).reshape(4, 16, -1)
        halves.append(np.linalg.norm(row[:, 8:]) / np.linalg.norm(row[:, :8]))
    assert halves[0] == pytest.approx(0.05)
    assert halves[1] > 0.3


def test_edges_of_different_directions_fill_different_bins() -> None:
    across = np.tile(np.linspace(0, 1, 8), (8, 1))
    images = np.stack([across, -across, across.T, -across.T]).reshape(4, -1)
    found = GradientHistograms((8, 8), n_cells=1, n_orientations=4).fit_transform(images)
    np.testing.assert_allclose(found, np.eye(4)[[0, 2, 1, 3]], atol=1e-7)
    unsigned = GradientHistograms((8, 8), n_cells=1, n_orientations=2, signed=False).fit_transform(images)
    np.testing.assert_allclose(unsigned, np.eye(2)[[0, 0, 1, 1]], atol=1e-7)


def test_channels_are_added_up() -> None:
    grey = np.random.default_rng(2).random((3, 6, 6))
    colour = np.repeat(grey[..., None], 3, axis=3).reshape(3, -1)
    np.testing.assert_allclose(
        GradientHistograms((6, 6, 3)).fit_transform(colour),
        GradientHistograms((6, 6)).fit_transform(grey.reshape(3, -1)),
        rtol=1e-9,
    )


def test_cosines_against_scipy() -> None:
    images = np.random.default_rng(3).random((5, 7, 7))
    found = LowFrequencyDCT((7, 7), 6).fit_transform(images.reshape(5, -1))
    reference = np.stack([dctn(image, norm="ortho") for image in images])
    slowest = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0)]
    expected = np.stack([reference[:, i, j] for i, j in slowest], axis=1)
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-9)


def test_all_cosines_keep_all_angles_and_without_the_constant_brightness_does_not_count() -> None:
    images = np.random.default_rng(4).random((5, 30))
    unit = images / np.linalg.norm(images, axis=1, keepdims=True)
    found = LowFrequencyDCT((5, 6), 100).fit_transform(images)
    assert found.shape == (5, 30)
    np.testing.assert_allclose(found @ found.T, unit @ unit.T, rtol=1e-9)
    blind = LowFrequencyDCT((5, 6), 10, constant=False)
    np.testing.assert_allclose(blind.fit_transform(images), blind.transform(images + 3.0), atol=1e-9)


def test_fourier_features_approximate_a_gaussian_kernel() -> None:
    rows = np.random.default_rng(5).normal(size=(20, 4))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = RandomFeatures(40_000, kind="fourier", bandwidth=0.8).fit_transform(rows)
    squares = ((unit[:, None] - unit[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found @ found.T, np.exp(-squares / (2 * 0.8**2)), atol=0.03)


def test_projections_keep_angles_and_ramps_follow_the_arc_cosine_kernel() -> None:
    rows = np.random.default_rng(6).normal(size=(20, 30))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosine = np.clip(unit @ unit.T, -1, 1)
    projected = RandomFeatures(40_000, kind="projection").fit_transform(rows)
    np.testing.assert_allclose(projected @ projected.T, cosine, atol=0.03)
    ramps = RandomFeatures(40_000).fit_transform(rows)
    angle = np.arccos(cosine)
    kernel = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
    np.testing.assert_allclose(ramps @ ramps.T, kernel, atol=0.03)


def test_another_random_state_gives_another_map() -> None:
    rows = np.random.default_rng(7).normal(size=(3, 4))
    assert not np.allclose(
        RandomFeatures(9, random_state=0).fit_transform(rows),
        RandomFeatures(9, random_state=1).fit_transform(rows),
    )


def test_gradient_histograms_tell_digits_apart() -> None:
    X, y = load_digits(return_X_y=True)
    encoded = GradientHistograms((8, 8), n_cells=3).fit_transform(X)
    model = LinearDiscriminantAnalysis().fit(encoded[:1200], y[:1200])
    assert model.score(encoded[1200:], y[1200:]) > 0.93


def images_of_shapes() -> np.ndarray:
    """Random images that the encoder has not drawn: another seed."""
    return _shapes((20, 20, 1), 0, np.random.default_rng(5))


def spread(rows: np.ndarray) -> float:
    """Largest variance in units of the mean one."""
    variances = np.linalg.eigvalsh(np.cov(rows.T))
    return float(variances[-1] / variances.mean())


def test_whitening_makes_the_variances_of_other_random_images_alike() -> None:
    images = images_of_shapes()
    plain = GradientHistograms((20, 20), n_cells=4).fit_transform(images)
    whitened = WhitenedHistograms((20, 20), n_cells=4, ridge=0.1).fit_transform(images)
    mild = WhitenedHistograms((20, 20), n_cells=4, ridge=1e6).fit_transform(images)
    assert spread(whitened) < 0.4 * spread(plain)
    assert spread(mild) > 0.5 * spread(plain)


def test_whitened_histograms_are_a_linear_map_of_centred_histograms() -> None:
    images = images_of_shapes()[:200]
    plain = GradientHistograms((20, 20), n_cells=3).fit_transform(images)
    encoder = WhitenedHistograms((20, 20), n_cells=3).fit(images)
    expected = (plain - encoder._mean) @ encoder._whitening
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.transform(images), expected, rtol=1e-9, atol=1e-12)


def test_large_images_are_whitened_by_small_ones_with_the_same_cells() -> None:
    small = WhitenedHistograms((12, 12), n_cells=3).fit(np.zeros((1, 144)))
    large = WhitenedHistograms((96, 96), n_cells=3).fit(np.zeros((1, 96 * 96)))
    np.testing.assert_array_equal(small._whitening, large._whitening)


def test_another_seed_of_random_images_gives_nearly_the_same_whitening() -> None:
    images = images_of_shapes()[:50]
    first, second = (
        WhitenedHistograms((20, 20), n_cells=3, random_state=seed).fit_transform(images) for seed in (0, 1)
    )
    assert not np.array_equal(first, second)
    assert np.sum(first * second, axis=1).min() > 0.98


def test_whitened_histograms_tell_digits_apart() -> None:
    X, y = load_digits(return_X_y=True)
    encoded = WhitenedHistograms((8, 8), n_cells=3).fit_transform(X)
    model = LinearDiscriminantAnalysis().fit(encoded[:1200], y[:1200])
    assert model.score(encoded[1200:], y[1200:]) > 0.93
