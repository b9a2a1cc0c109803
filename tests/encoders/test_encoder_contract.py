"""What all encoders promise: rows of norm one, no learning from data, float32, one line on bad input."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from onefold.encoders import (
    ContrastHistograms,
    FourierLift,
    GradientHistograms,
    LowFrequencyDCT,
    RandomFeatures,
    WhitenedHistograms,
)
from onefold.exceptions import InvalidInputError

SHAPE = (12, 10)
ENCODERS = [
    GradientHistograms(SHAPE),
    GradientHistograms(SHAPE, n_cells=(3, 2), n_orientations=5, signed=False, margin=1, power=1.0),
    GradientHistograms((6, 5, 4)),
    LowFrequencyDCT(SHAPE, 20),
    LowFrequencyDCT((6, 5, 4), 7, constant=False),
    ContrastHistograms(SHAPE, n_cells=4),
    ContrastHistograms((6, 5, 4), n_cells=(3, 2), n_orientations=3, signed=False, margin=1, damping=2.0),
    WhitenedHistograms(SHAPE, n_cells=4, n_orientations=4),
    WhitenedHistograms((6, 5, 4), n_cells=(3, 2), n_orientations=3, signed=False, margin=1, ridge=0.5),
    RandomFeatures(30),
    RandomFeatures(30, kind="fourier"),
    RandomFeatures(30, kind="projection"),
]


WIDE_ENCODERS = [
    GradientHistograms(),
    ContrastHistograms(),
    WhitenedHistograms(),
    LowFrequencyDCT(),
    RandomFeatures(500),
]


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).random((50, 120))


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_rows_have_norm_one(encoder: Any, images: np.ndarray) -> None:
    np.testing.assert_allclose(np.linalg.norm(encoder.fit_transform(images), axis=1), 1.0, rtol=1e-12)


@pytest.mark.exact
@pytest.mark.parametrize("encoder", WIDE_ENCODERS, ids=repr)
def test_encoded_rows_do_not_depend_on_the_number_of_threads(encoder: Any) -> None:
    rows = np.random.default_rng(0).random((1200, 784))
    found = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append(encoder.fit(rows).transform(rows))
    np.testing.assert_array_equal(*found)


@pytest.mark.exact
@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_the_map_is_the_same_whatever_data_it_was_fitted_on(encoder: Any, images: np.ndarray) -> None:
    elsewhere = clone(encoder).fit(np.full((2, 120), 1e3)).transform(images)
    np.testing.assert_array_equal(encoder.fit_transform(images), elsewhere)


@pytest.mark.exact
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("encoder", [*ENCODERS, *WIDE_ENCODERS, FourierLift(20)], ids=repr)
def test_a_record_is_encoded_by_itself(encoder: Any, dtype: Any) -> None:
    """To the last bit: noise for one record hides no change of another that comes with it."""
    width = 784 if encoder in WIDE_ENCODERS else 120
    rows = np.random.default_rng(0).random((53, width)).astype(dtype)
    fitted = clone(encoder).fit(rows)
    together = fitted.transform(rows)
    for first, last in ((0, 1), (7, 8), (52, 53), (0, 2), (1, 4), (3, 8), (0, 9), (5, 22), (0, 52), (1, 53)):
        np.testing.assert_array_equal(fitted.transform(rows[first:last]), together[first:last])


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_rows_of_several_blocks_are_encoded_alike(
    encoder: Any, images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = encoder.fit_transform(images)
    monkeypatch.setattr("onefold.encoders.base.BLOCK_VALUES", 120 * 7)
    np.testing.assert_allclose(encoder.transform(images), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_float32_stays_float32(encoder: Any, images: np.ndarray) -> None:
    single = encoder.fit_transform(images.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, encoder.fit_transform(images), atol=2e-3)


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
def test_only_the_direction_counts(encoder: Any, images: np.ndarray, size: float) -> None:
    np.testing.assert_allclose(encoder.fit_transform(images * size), encoder.transform(images), atol=1e-9)


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_without_content_stay_finite(encoder: Any, dtype: Any) -> None:
    flat = np.vstack([np.zeros(120), np.ones(120), np.full(120, np.finfo(dtype).max)]).astype(dtype)
    encoded = encoder.fit_transform(flat)
    assert np.isfinite(encoded).all()
    norms = np.linalg.norm(encoded, axis=1)
    assert np.all((np.abs(norms - 1.0) < 1e-5) | (norms == 0.0))
    if not (isinstance(encoder, RandomFeatures) and encoder.kind == "fourier"):
        np.testing.assert_array_equal(encoded[0], 0.0)


@pytest.mark.parametrize("encoder", ENCODERS[:7], ids=repr)
def test_wrong_image_shape_is_refused_in_one_line(encoder: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^X has 121 features, but images of [\dx ]+ have 120$"):
        encoder.fit(np.ones((2, 121)))


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (GradientHistograms((12,)), "image_shape must be"),
        (GradientHistograms(120), "image_shape must be"),
        (GradientHistograms((12, 10.5)), "every part of image_shape"),
        (GradientHistograms((0, 10)), "every part of image_shape"),
        (GradientHistograms(SHAPE, n_cells=0), "n_cells must be a whole number"),
        (GradientHistograms(SHAPE, n_cells=(1, 2, 3)), "n_cells must be"),
        (GradientHistograms(SHAPE, n_orientations=0), "n_orientations"),
        (GradientHistograms(SHAPE, margin=-1), "margin"),
        (GradientHistograms(SHAPE, margin=5), "margin leaves nothing"),
        (GradientHistograms(SHAPE, power=0.0), "power must be"),
        (GradientHistograms(SHAPE, power=float("nan")), "power must be"),
        (ContrastHistograms(SHAPE, damping=0.0), "damping"),
        (WhitenedHistograms(SHAPE, ridge=0.0), "ridge"),
        (WhitenedHistograms(SHAPE, random_state=None), "random_state"),
        (WhitenedHistograms(SHAPE, margin=5), "margin leaves nothing"),
        (LowFrequencyDCT(SHAPE, 0), "n_coefficients"),
        (RandomFeatures(0), "n_outputs"),
        (RandomFeatures(kind="sigmoid"), "kind must be one of"),
        (RandomFeatures(kind="fourier", bandwidth=float("nan")), "bandwidth"),
        (RandomFeatures(random_state=None), "random_state"),
    ],
)
def test_invalid_parameters_are_refused_in_one_line(encoder: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        encoder.fit(np.ones((2, 120)))
    assert "\n" not in str(caught.value)
