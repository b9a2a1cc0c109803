"""What all encoders share: checking of rows, working in blocks, rows of norm one."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array
from onefold._base.validation import check_rows, check_whole_number
from onefold.exceptions import InvalidInputError

__all__ = ["Encoder", "as_image_shape", "unit_rows"]

ImageShape = tuple[int, ...]

# Rows encoded at once: a block of intermediate values stays within a few megabytes.
BLOCK_VALUES = 400_000


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A map of single records that depends on its parameters only.

    ``fit`` looks at the *shape* of ``X`` and never at its values; the map is the same for every owner with
    the same parameters. Rows come out with Euclidean norm one, or zero when nothing is left of the record.
    """

    _n_features_out: int
    entry_span: float = 2.0  # how much one value can change with the record: from -1 to 1 at most

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Prepare the map for rows as long as those of ``X``."""
        rows = check_rows(self, X)
        self._n_features_out = self._prepare(rows.shape[1])
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Encoded rows of norm one, (n, number of values); float32 stays float32."""
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False)
        encoded = np.empty((len(rows), self._n_features_out), rows.dtype)
        step = max(1, BLOCK_VALUES // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            block = unit_rows(rows[start : start + step])  # only the direction counts, and nothing overflows
            encoded[start : start + step] = unit_rows(self._encode(block))
        return encoded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_n_features_out")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.requires_fit = True
        return tags

    @abstractmethod
    def _prepare(self, n_features: int) -> int:
        """Check the parameters, set up the map for rows of this length, and tell how long its rows are."""

    @abstractmethod
    def _encode(self, rows: Array) -> Array:
        """The map itself, before its rows are scaled to norm one."""


def unit_rows(rows: Array) -> Array:
    """Rows scaled to Euclidean norm one; rows of zeros stay as they are.

    The largest entry is divided out first, so that squares neither overflow nor vanish.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0.0, largest, 1.0).astype(rows.dtype)
    norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return np.asarray(scaled / np.where(norms > 0.0, norms, 1.0).astype(rows.dtype))


def as_image_shape(image_shape: Any, n_features: int) -> tuple[int, int, int]:
    """Height, width and channels of the images held by rows of this length."""
    if image_shape is None:
        return 1, n_features, 1
    try:
        sizes = tuple(image_shape)
    except TypeError:
        sizes = ()
    if len(sizes) not in (2, 3):
        raise InvalidInputError("image_shape must be (height, width) or (height, width, channels)")
    for size in sizes:
        check_whole_number("every part of image_shape", size)
    height, width, channels = (*sizes, 1)[:3]
    if height * width * channels != n_features:
        given = " x ".join(str(size) for size in sizes)
        raise InvalidInputError(
            f"X has {n_features} features, but images of {given} have {height * width * channels}"
        )
    return int(height), int(width), int(channels)
