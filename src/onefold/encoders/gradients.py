"""Histograms of oriented gradients: the directions of the edges in each part of an image."""

import math

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import Entry, Flag, Number, Whole, check_parameter, check_parameters
from onefold.encoders._encoder import Encoder, ImageShape, as_image_shape
from onefold.exceptions import InvalidInputError

__all__ = ["GradientHistograms"]

CONSTRAINTS: dict[str, Entry] = {
    "n_orientations": Whole(1),
    "signed": Flag(),
    "margin": Whole(0),
    "power": Number(above=0, at_most=1),
}


class GradientHistograms(Encoder):
    """Histograms of gradient directions in a grid of overlapping cells, for images.

    Every pixel adds the size of its gradient to the two nearest directions and to the (up to four) nearest
    cells, shared in proportion to nearness: neither a small shift nor a small turn makes a value jump.

    Parameters
    ----------
    image_shape : tuple of int or None, default=None
        (height, width) or (height, width, channels) of the image that a row holds, in C order. The
        gradients of the channels are added up. None takes every row as an image one pixel high: a signal.
    n_cells : int or tuple of two int, default=4
        Cells down and across; at most as many as there are pixels.
    n_orientations : int, default=8
        Number of directions of the gradient.
    signed : bool, default=True
        Whether dark-to-bright and bright-to-dark are different directions, so that directions cover the full
        circle.
    margin : int, default=0
        Pixels on every side that the grid of cells leaves out: its outer cells fade out there. For images
        that are known to have an empty border.
    power : float, default=0.5
        Exponent applied to every value of the histogram, above 0 and at most 1: below 1, strong edges no
        longer hide weak ones.

    Attributes
    ----------
    entry_span : float
        Largest difference between two values of an encoded entry.
    n_features_in_ : int
        Number of features of the rows.

    See Also
    --------
    LowFrequencyDCT : The coarse shape of an image.

    Notes
    -----
    The map depends on nothing but its parameters. Rows have norm one; an image without edges gives zeros.
    ``n_cells[0] * n_cells[1] * n_orientations`` values come out, cell by cell.

    References
    ----------
    N. Dalal and B. Triggs, "Histograms of oriented gradients for human detection", CVPR 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.encoders import GradientHistograms
    >>> images = np.random.default_rng(0).random((3, 28 * 28))
    >>> GradientHistograms((28, 28)).fit_transform(images).shape
    (3, 128)
    """

    entry_span = 1.0  # histograms are never negative

    def __init__(
        self,
        image_shape: ImageShape | None = None,
        *,
        n_cells: int | tuple[int, int] = 4,
        n_orientations: int = 8,
        signed: bool = True,
        margin: int = 0,
        power: float = 0.5,
    ) -> None:
        self.image_shape = image_shape
        self.n_cells = n_cells
        self.n_orientations = n_orientations
        self.signed = signed
        self.margin = margin
        self.power = power

    def _prepare(self, n_features: int) -> int:
        check_parameters(self, CONSTRAINTS)
        cells = self.n_cells if isinstance(self.n_cells, (tuple, list)) else (self.n_cells, self.n_cells)
        if len(cells) != 2:
            raise InvalidInputError("n_cells must be a whole number or two: cells down and across")
        for count in cells:
            check_parameter("n_cells", count, Whole(1))
        self._shape = as_image_shape(self.image_shape, n_features)
        down, across = (
            _windows(size, count, int(self.margin))
            for size, count in zip(self._shape[:2], cells, strict=True)
        )
        # Weight of every pixel in every cell, (height * width, cells).
        self._pooling = np.einsum("iy,jx->yxij", down, across).reshape(down.shape[1] * across.shape[1], -1)
        return int(self._pooling.shape[1]) * int(self.n_orientations)

    def _encode(self, rows: Array) -> Array:
        height, width, channels = self._shape
        images = rows.reshape(len(rows), height, width, channels)
        pooling = self._pooling.astype(rows.dtype)
        histograms = np.zeros((len(rows), pooling.shape[1], int(self.n_orientations)), rows.dtype)
        for channel in range(channels):
            dy, dx = _gradient(images[..., channel], axis=1), _gradient(images[..., channel], axis=2)
            size = np.sqrt(dy * dy + dx * dx).reshape(len(rows), -1)
            position = self._position(dy, dx).reshape(len(rows), -1)
            for direction in range(int(self.n_orientations)):
                share = _nearness(position, direction, int(self.n_orientations))
                histograms[:, :, direction] += (size * share) @ pooling
        return np.asarray(histograms.reshape(len(rows), -1) ** rows.dtype.type(self.power))

    def _position(self, dy: Array, dx: Array) -> Array:
        """Return the direction of the gradient in units of the distance between two directions."""
        circle = 2.0 * math.pi if self.signed else math.pi
        angle = np.mod(np.arctan2(dy, dx), dy.dtype.type(circle))
        return np.asarray(angle * dy.dtype.type(int(self.n_orientations) / circle))


def _gradient(images: Array, axis: int) -> Array:
    """Compute central differences, with the border pixels continued outwards."""
    size = images.shape[axis]
    after = images.take(np.minimum(np.arange(size) + 1, size - 1), axis)
    before = images.take(np.maximum(np.arange(size) - 1, 0), axis)
    return np.asarray(after - before)


def _nearness(position: Array, direction: int, n_orientations: int) -> Array:
    """Return one on the direction itself, falling to zero at its neighbours on the circle."""
    distance = np.abs(position - position.dtype.type(direction))
    return np.asarray(np.maximum(1.0 - np.minimum(distance, n_orientations - distance), 0.0))


def _windows(size: int, count: int, margin: int) -> Array:
    """Return triangular weights of ``size`` pixels in ``count`` cells along one axis, (count, size).

    Between the outer centres they add up to one at every pixel; beyond, they fade out over one cell.
    """
    length = size - 2 * margin
    if length < 1 and margin:
        raise InvalidInputError("margin leaves nothing of the image")
    count = min(count, length)
    centres = margin + (np.arange(count) + 0.5) * length / count - 0.5
    return np.maximum(1.0 - np.abs(np.arange(size) - centres[:, None]) * count / length, 0.0)
