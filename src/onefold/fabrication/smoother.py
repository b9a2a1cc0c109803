"""The kernel smoother (000 Def. 13, 004 Def. 6), and the rules that say how often noisy rows are smoothed.

Every rule drives the same recursion (000 eq. 80-82): smooth, judge, go on or stop. They differ in what they
judge by. The documents' rules compare with raw rows, which voids the guarantee of the noise. The honest rule
looks at noisy rows and public numbers only: Stein's unbiased estimate of the error.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from onefold._base.arrays import Array
from onefold._base.parallel import one_blas_thread
from onefold._base.validation import Entry, Whole, check_parameters, check_rows
from onefold.models.kahm import Smoothing, smooth

__all__ = ["Smoother"]

MAXIMUM_STEPS = 100
# Size of the disturbance that measures the divergence, in standard deviations of the noise.
DISTURBANCE = 0.01
# A step must leave no more than this part of the estimated error. Many more steps, each of which removes a
# little of it, go on drawing rows together, and with them the classes: on 60000 digits at epsilon 1 a hundred
# steps halve the error that one step leaves and cost a point of accuracy.
WORTHWHILE = 0.8

Step = Callable[..., Smoothing]


@dataclass(eq=False, repr=False)
class Smoother(BaseEstimator):
    """Kernel smoother: folds every row of a table by the machine of the table itself.

    Each step multiplies the table by a symmetric matrix with eigenvalues in [0, 1): rows move towards what
    they have in common, and noise is averaged away. It changes the rows it is given and says nothing about
    other rows, so there is no ``transform``.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding.
    n_steps : int, default=1
        How often to smooth.

    See Also
    --------
    Fabricator : Add noise first and choose the number of steps from the noisy rows.

    References
    ----------
    Document 000, Definition 13; document 004, Definition 6 and Proposition 3.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> line = np.linspace(0, 1, 50)[:, None] * np.ones(4)
    >>> noisy = line + 0.1 * rng.normal(size=(50, 4))
    >>> smoothed = Smoother(n_components=1).smooth(noisy)
    >>> bool(np.abs(smoothed - line).mean() < np.abs(noisy - line).mean())
    True
    """

    constraints: ClassVar[dict[str, Entry]] = {"n_components": Whole(1), "n_steps": Whole(0)}

    n_components: int = 20
    n_steps: int = 1

    def smooth(self, X: ArrayLike) -> Array:
        """Smooth the rows of a table.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The smoothed rows, in the order of ``X``.
        """
        check_parameters(self)
        rows = check_rows(self, X)
        with one_blas_thread():
            return repeated(rows, stepper(self.n_components), self.n_steps)

    def fit(self, X: ArrayLike, y: Any = None) -> "Smoother":
        """Check the rows; there is nothing to learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : object, default=None
            Ignored; scikit-learn's pipelines pass it.

        Returns
        -------
        Smoother
            This object.
        """
        check_rows(self, X)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Array:
        """Smooth the rows of a table, as :meth:`smooth` does.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : object, default=None
            Ignored; scikit-learn's pipelines pass it.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The smoothed rows.
        """
        return np.asarray(self.smooth(X))


# --- fixed numbers of steps, and the documents' rules -----------------------------------------------------


@dataclass(frozen=True)
class Fabrication:
    """Smoothed rows, their images, and how many times they were smoothed."""

    smoothed: Array
    images: Array
    n_steps: int


def stepper(n_components: int) -> Step:
    """Return the smoother with its settings fixed."""
    return partial(smooth, n_components=n_components, factor=1.0)


def repeated(rows: Array, step: Step, n_steps: int) -> Array:
    """Smooth rows ``n_steps`` times."""
    for _ in range(n_steps):
        rows = step(rows).smoothed
    return rows


def fixed(noisy: Array, step: Step, n_steps: int) -> Fabrication:
    """Smooth a number of times that was chosen in advance."""
    rows = repeated(noisy, step, n_steps)
    return Fabrication(rows, step(rows).images, n_steps)


def documented_images(noisy: Array, step: Step, raw: Array) -> Fabrication:
    """Stop when the noisy rows are modelled no worse than the raw ones (000 eq. 92). Looks at raw rows."""
    allowed = _modelling_error(raw, step(raw).images)  # eq. 88
    return _smoothed_until(lambda rows, result: _modelling_error(rows, result.images) <= allowed, noisy, step)


def documented_smoothing(noisy: Array, step: Step, raw: Array) -> Fabrication:
    """Smooth as long as that brings rows closer to the raw ones (004 eq. 145). Looks at raw rows.

    Frobenius norms throughout; the document prints a spectral norm in the last place.
    """

    def is_farther(rows: Array, result: Smoothing) -> bool:
        return bool(np.linalg.norm(result.smoothed - raw) >= np.linalg.norm(rows - raw))

    return _smoothed_until(is_farther, step(noisy).smoothed, step, n_before=1)


def _smoothed_until(
    is_last: Callable[[Array, Smoothing], bool], rows: Array, step: Step, n_before: int = 0
) -> Fabrication:
    """Smooth rows until another step is not wanted; ``n_before`` steps were made already."""
    for n_steps in range(n_before, MAXIMUM_STEPS + 1):
        result = step(rows)
        if n_steps == MAXIMUM_STEPS or is_last(rows, result):
            break
        rows = result.smoothed
    return Fabrication(rows, result.images, n_steps)


def _modelling_error(rows: Array, images: Array) -> float:
    return float(np.linalg.norm(rows - images, axis=1).sum(dtype=np.float64))


# --- the honest rule --------------------------------------------------------------------------------------
# Smoothing depends on distances between rows only: where there are more features than rows, it is done on the
# rows' coordinates in a basis of the space they span.


@dataclass(frozen=True)
class _Pair:
    """Rows and a slightly disturbed copy, both as coordinates in one orthonormal basis."""

    rows: Array  # (N, r)
    disturbed: Array  # (N, r)
    basis: Array | None = None  # (p, r); None: the features themselves

    def features(self, coordinates: Array) -> Array:
        """Take coordinates to the space of the data."""
        if self.basis is None:
            return coordinates
        return np.asarray(coordinates @ self.basis.T, dtype=coordinates.dtype)

    def coordinates(self, features: Array) -> Array:
        """Take rows of the space of the data to the basis; what lies outside it is dropped."""
        return features if self.basis is None else np.asarray(features @ self.basis)

    def spanned(self) -> "_Pair":
        """Return the pair in a basis of no more dimensions than there are rows."""
        stacked = np.concatenate([self.rows, self.disturbed])
        n_rows, width = stacked.shape
        if width <= n_rows:
            return self
        basis, coordinates = np.linalg.qr(stacked.T.astype(np.float64))
        rows, disturbed = np.split(coordinates.T.astype(stacked.dtype), 2)
        return _Pair(rows, disturbed, basis)


def honest(noisy: Array, step: Step, variance: float) -> Fabrication:
    """Stop where another step removes less than a fifth of Stein's unbiased estimate of the error.

    For a result F(Y) from rows with noise of known variance v on each of the N p entries, the expected
    squared error is estimated by |Y - F|^2 - N p v + 2 v div F. The divergence is measured by smoothing a
    second, slightly disturbed copy along: the smoothers depend on the rows themselves, and taking them as
    given would underestimate it and stop too early. Only noisy rows and public numbers enter: this is
    post-processing.
    """
    n_features = noisy.shape[1]
    rng = np.random.default_rng(20230)  # the disturbance has nothing to do with the data and may be known
    signs = (rng.integers(0, 2, size=noisy.shape) * 2 - 1).astype(noisy.dtype)
    size = DISTURBANCE * math.sqrt(variance)
    pair = _Pair(noisy, noisy + noisy.dtype.type(size) * signs).spanned()
    noisy_inside, signs_inside = pair.coordinates(noisy), pair.coordinates(signs)
    constant = _product(noisy, noisy) - noisy.size * variance

    def risk(result: Array, beside: Array) -> float:
        divergence = _product(signs_inside, beside - result) / size
        misfit = _product(result, result) - 2.0 * _product(noisy_inside, result)
        return constant + misfit + 2.0 * variance * divergence

    lowest = noisy.size * variance  # of the noisy rows themselves
    near: Smoothing | None = None
    for n_steps in range(MAXIMUM_STEPS + 1):
        near = result = step(pair.rows, n_features=n_features, near=near)
        beside = step(pair.disturbed, n_features=n_features, near=near)
        found = risk(result.smoothed, beside.smoothed)
        if not found <= WORTHWHILE * lowest or n_steps == MAXIMUM_STEPS:
            break
        pair, lowest = _Pair(result.smoothed, beside.smoothed, pair.basis), found
    return Fabrication(pair.features(pair.rows), pair.features(result.images), n_steps)


def _product(a: Array, b: Array) -> float:
    return float(np.einsum("ij,ij->", a, b, dtype=np.float64))
