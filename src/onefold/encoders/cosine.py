"""The slowest cosine waves of an image: its coarse shape."""

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import check_whole_number
from onefold.encoders._encoder import Encoder, ImageShape, as_image_shape

__all__ = ["LowFrequencyDCT"]


class LowFrequencyDCT(Encoder):
    """The lowest coefficients of the two-dimensional discrete cosine transform (type II, orthonormal).

    Parameters
    ----------
    image_shape : (height, width) or (height, width, channels), or None
        Shape of the image that a row holds, in C order. None takes every row as an image one pixel high.
    n_coefficients : int, default=64
        Coefficients kept per channel, the slowest waves first; at most as many as there are pixels.
    constant : bool, default=True
        Keep the coefficient of the constant wave, the mean brightness?

    Notes
    -----
    The map depends on nothing but its parameters. Rows have norm one; an image of zeros gives zeros.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((3, 28 * 28))
    >>> LowFrequencyDCT((28, 28), 100).fit_transform(images).shape
    (3, 100)
    """

    def __init__(
        self, image_shape: ImageShape | None = None, n_coefficients: int = 64, *, constant: bool = True
    ) -> None:
        self.image_shape = image_shape
        self.n_coefficients = n_coefficients
        self.constant = constant

    def _prepare(self, n_features: int) -> int:
        check_whole_number("n_coefficients", self.n_coefficients)
        self._shape = as_image_shape(self.image_shape, n_features)
        height, width, channels = self._shape
        # Frequency in waves per pixel, so that an oblong image is treated alike in both directions.
        frequency = np.add.outer((np.arange(height) / height) ** 2, (np.arange(width) / width) ** 2).ravel()
        slowest = np.argsort(frequency, kind="stable")[0 if self.constant else 1 :]
        kept = slowest[: int(self.n_coefficients)] if len(slowest) else np.array([0])
        waves = np.einsum("iy,jx->yxij", _waves(height), _waves(width)).reshape(height * width, -1)
        self._waves = waves[:, kept]
        return len(kept) * channels

    def _encode(self, rows: Array) -> Array:
        height, width, channels = self._shape
        images = rows.reshape(len(rows), height * width, channels)
        coefficients = np.einsum("npc,pk->nkc", images, self._waves.astype(rows.dtype), optimize=True)
        return np.asarray(coefficients.reshape(len(rows), -1))


def _waves(size: int) -> Array:
    """Orthonormal cosine waves as rows, the constant one first, (size, size)."""
    waves = np.cos(np.pi / size * np.outer(np.arange(size), np.arange(size) + 0.5)) * np.sqrt(2.0 / size)
    waves[0] /= np.sqrt(2.0)
    return np.asarray(waves)
