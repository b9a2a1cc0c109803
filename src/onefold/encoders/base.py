"""What all encoders share: checking of rows, working in blocks, rows of norm one, a description in words."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array
from onefold._base.parallel import run_parallel
from onefold._base.validation import check_parameters, check_rows

# What guarantees of rows behind an encoder take for granted.
TRAINED = "no encoder was trained on these records"

# Rows encoded at once: a block of intermediate values stays within a few megabytes.
BLOCK_VALUES = 400_000


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class of maps of single records that depend on their parameters only.

    ``fit`` looks at the *shape* of ``X`` and never at its values; the map is the same for every site with
    the same parameters. Rows come out with Euclidean norm one, or zero when nothing is left of the record;
    those of a lift are no longer than one. Each record is encoded by itself, to the last bit: those beside it
    make no difference.

    Attributes
    ----------
    entry_span : float
        Largest difference between two values of an encoded entry.
    trained : bool
        Whether the map was learned by whoever made it, which guarantees then mention.
    n_features_in_ : int
        Number of features of the rows.

    See Also
    --------
    GradientHistograms : Histograms of gradient directions, for images.
    LowFrequencyDCT : The lowest cosine coefficients, for images and signals.
    RandomFeatures : A fixed random layer, for data of any kind.

    Examples
    --------
    >>> from onefold.encoders import Encoder, RandomFeatures
    >>> isinstance(RandomFeatures(), Encoder)
    True
    """

    _n_features_out: int
    entry_span: float = 2.0  # from -1 to 1 at most
    trained: bool = False  # on data of whoever made it, before it came here

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Prepare the map for rows as long as those of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; only their number of features matters.
        y : object, default=None
            Ignored.

        Returns
        -------
        Encoder
            This object.
        """
        check_parameters(self)
        rows = self._checked(X, reset=True)
        self._n_features_out = self._prepare(rows.shape[1])
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Encode rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            Rows of norm one; float32 stays float32. The same bits for any number of BLAS threads.
        """
        check_is_fitted(self)
        rows = self._checked(X, reset=False)
        kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        encoded = np.empty((len(rows), self._n_features_out), kind)
        step = max(1, BLOCK_VALUES // max(1, rows.shape[1]))

        def encode(start: int) -> None:
            # In one layout: a single row has every layout at once, and would be added up in another order.
            block = self._before(np.ascontiguousarray(rows[start : start + step]))
            encoded[start : start + step] = self._after(self._encode(block))

        run_parallel(encode, range(0, len(rows), step))
        return encoded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_n_features_out")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.requires_fit = True
        return tags

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return the records as an array of rows; with ``reset`` their length becomes the one expected."""
        return check_rows(self, X, reset=reset)

    def _identity(self) -> dict[str, Any]:
        """What tells the map from others of its class, in the description."""
        return dict(self.get_params())

    def _before(self, rows: Array) -> Array:
        """Scale rows before the map: only their direction counts, and nothing overflows."""
        return unit_rows(rows)

    def _after(self, rows: Array) -> Array:
        """Scale encoded rows."""
        return unit_rows(rows)

    @abstractmethod
    def _prepare(self, n_features: int) -> int:
        """Check the parameters, set up the map for rows of this length, and return the length of its rows."""

    @abstractmethod
    def _encode(self, rows: Array) -> Array:
        """Apply the map itself, before its rows are scaled to norm one."""


def by_itself(rows: Array, matrix: Array) -> Array:
    """Multiply each row with a matrix: (..., n, p) with (p, k), every row in a product of its own.

    One product of all rows adds up the rows at the edge of a block in another order than the others. The last
    digits of a record would then depend on the records beside it, and a release that adds noise for one
    record would have to hide changes in several.
    """
    return np.asarray(np.matmul(rows[..., None, :], matrix)[..., 0, :])


def unit_rows(rows: Array) -> Array:
    """Scale rows to Euclidean norm one; rows of zeros stay as they are.

    The largest entry is divided out first, so that squares neither overflow nor vanish.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0.0, largest, 1.0).astype(rows.dtype)
    norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return np.asarray(scaled / np.where(norms > 0.0, norms, 1.0).astype(rows.dtype))


def learns(encoder: Any) -> bool:
    """Tell whether an encoder may look at the values of many rows, which makes it no public map.

    Parameters
    ----------
    encoder : transformer or None
        An encoder; None stands for no encoder.

    Returns
    -------
    bool
        False for None and for an :class:`Encoder` that has the ``fit`` and ``transform`` of that class.

    See Also
    --------
    Encoder : Maps of single records.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from onefold.encoders import RandomFeatures, learns
    >>> learns(RandomFeatures()), learns(StandardScaler())
    (False, True)
    """
    if encoder is None:
        return False
    inherited = ("fit", "transform", "fit_transform")
    kind = type(encoder)
    return not (
        isinstance(encoder, Encoder) and all(getattr(kind, n) is getattr(Encoder, n) for n in inherited)
    )


def condition(encoder: Any) -> str | None:
    """Return what a guarantee takes for granted about a public encoder, which no program can check.

    Parameters
    ----------
    encoder : transformer or None
        An encoder; None stands for no encoder.

    Returns
    -------
    str or None
        The condition; None where there is none, because the map follows from its parameters alone.

    See Also
    --------
    learns : Whether an encoder looks at rows itself.

    Examples
    --------
    >>> from onefold.encoders import RandomFeatures, condition
    >>> condition(RandomFeatures()) is None
    True
    """
    return TRAINED if getattr(encoder, "trained", False) else None


def description(encoder: Any) -> str:
    """Describe an encoder in words that are equal for all sites with the same parameters.

    Parameters
    ----------
    encoder : Encoder or None
        An encoder; None stands for no encoder.

    Returns
    -------
    str
        Class and parameters; empty for no encoder.

    See Also
    --------
    onefold.privacy.PrivateMoments : Keeps the description with a release (``encoding_``).

    Examples
    --------
    >>> from onefold.encoders import RandomFeatures, description
    >>> description(RandomFeatures(64)) == description(RandomFeatures(64, random_state=1))
    False
    """
    if encoder is None:
        return ""
    told = encoder._identity() if isinstance(encoder, Encoder) else encoder.get_params()
    kind, given = type(encoder), sorted(told.items())
    return f"{kind.__module__}.{kind.__qualname__}({', '.join(f'{name}={value!r}' for name, value in given)})"
