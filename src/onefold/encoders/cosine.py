"""The lowest cosine frequencies of an image: its coarse shape."""

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import Entry, Flag, Whole, check_parameters
from onefold.encoders._encoder import Encoder, ImageShape, as_image_shape, by_itself

__all__ = ["LowFrequencyDCT"]

CONSTRAINTS: dict[str, Entry] = {"n_coefficients": Whole(1), "constant": Flag()}


class LowFrequencyDCT(Encoder):
    """The lowest coefficients of the two-dimensional discrete cosine transform (type II, orthonormal).

    Parameters
    ----------
    image_shape : tuple of int or None, default=None
        (height, width) or (height, width, channels) of the image that a row holds, in C order. None takes
        every row as an image one pixel high: a signal.
    n_coefficients : int, default=64
        Coefficients kept per channel, those of the lowest frequencies first; at most as many as there are
        pixels.
    constant : bool, default=True
        Whether to keep the coefficient of the constant wave, the mean brightness.

    Attributes
    ----------
    entry_span : float
        Largest difference between two values of an encoded entry.
    n_features_in_ : int
        Number of features of the rows.

    See Also
    --------
    GradientHistograms : Histograms of gradient directions.

    Notes
    -----
    The map depends on nothing but its parameters. Rows have norm one; an image of zeros gives zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.encoders import LowFrequencyDCT
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
        check_parameters(self, CONSTRAINTS)
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
        pixels = np.ascontiguousarray(images.transpose(0, 2, 1))
        coefficients = by_itself(pixels, self._waves.astype(rows.dtype))
        return np.asarray(coefficients.transpose(0, 2, 1).reshape(len(rows), -1))


def _waves(size: int) -> Array:
    """Return orthonormal cosine waves as rows, the constant one first, (size, size)."""
    waves = np.cos(np.pi / size * np.outer(np.arange(size), np.arange(size) + 0.5)) * np.sqrt(2.0 / size)
    waves[0] /= np.sqrt(2.0)
    return np.asarray(waves)
