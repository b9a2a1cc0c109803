r"""Ridge regression in closed form from the sums of pairs (x, y), without the pairs.

Known are the number of pairs, the sum of :math:`z = (x, y)` and the sum of :math:`z z^T`, exactly or with
Gaussian noise of public levels. With :math:`S = U \mathrm{diag}(w) U^T` the covariance of x, :math:`c` its
covariance with y and :math:`q = 1 / (w + \lambda t)` for a ridge of :math:`\lambda` times the mean eigenvalue
:math:`t`, the weights are :math:`U \mathrm{diag}(q) U^T c`.

Without noise the ridge comes from generalised cross-validation, which needs the same sums only. With noise
the sums say too much good about weights that fit the noise. How much is known on average (Stein's lemma), and
the ridge is the one whose error is smallest once that is added.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from onefold._base.arrays import Array, Floats
from onefold._base.parallel import one_blas_thread
from onefold.exceptions import InvalidInputError

__all__ = ["LinearMap", "PairSpectrum", "PairSums", "ridge_of"]

# Ridges that are tried, in units of the mean eigenvalue.
RIDGES = tuple(10.0 ** (exponent / 2.0) for exponent in range(-14, 5))
# Where a fit has more degrees of freedom than this share of the pairs, residuals and what they are divided
# by both vanish, and their ratio says nothing about other pairs.
MOST_FREEDOM = 0.5
LARGEST_LEVERAGE = 0.95
# Variances below this share of the largest are the rounding of a constant column.
ROUNDING = 1e-10
# With noise: ridges in units of what noise alone does to an eigenvalue.
NOISE_RIDGES = tuple(2.0 ** (exponent / 2.0) for exponent in range(20, -9, -1))
SMALLEST = 0.1  # eigenvalue that is inverted, in the same units: smaller ones are those of noise


@dataclass(frozen=True)
class PairSums:
    """Sums over pairs (x, y), and the standard deviations of the noise in them.

    Parameters
    ----------
    count : float
        Number of pairs.
    sums : ndarray of shape (d + 1,)
        Sum of the vectors (x, y).
    products : ndarray of shape (d + 1, d + 1)
        Sum of their outer products.
    count_noise : float, default=0.0
        Standard deviation of the noise in the count.
    sum_noise : float, default=0.0
        The same of each sum.
    product_noise : float, default=0.0
        The same on the diagonal of the products; beside it there is half the variance.

    See Also
    --------
    ridge_of : Makes a regression of them.

    Examples
    --------
    >>> PairSums.of(np.array([[0.0], [1.0]]), np.array([1.0, 3.0])).sums.tolist()
    [1.0, 4.0]
    """

    count: float
    sums: Floats
    products: Floats
    count_noise: float = 0.0
    sum_noise: float = 0.0
    product_noise: float = 0.0

    @classmethod
    def of(cls, rows: Array, outputs: Array) -> "PairSums":
        """Return the sums of pairs.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            The x.
        outputs : ndarray of shape (n,)
            The y.

        Returns
        -------
        PairSums
            Their sums, without noise.
        """
        pairs = np.column_stack([rows, outputs]).astype(np.float64)
        return cls(float(len(pairs)), pairs.sum(axis=0), pairs.T @ pairs)

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise in the sums."""
        return self.product_noise > 0.0


@dataclass(frozen=True)
class LinearMap:
    """A linear function of a row, and what is known about its errors.

    Parameters
    ----------
    weights : ndarray of shape (d,)
        Weights of the columns.
    offset : float
        What is added.
    ridge : float
        The ridge: in units of the mean eigenvalue, with noise of what noise alone does to an eigenvalue.
    error : float
        Estimated mean squared error on other pairs; infinite where nothing is known. Noise can make it
        negative.
    error_noise : float, default=0.0
        Standard deviation of what noise in the sums adds to this estimate.

    See Also
    --------
    ridge_of : Makes it.

    Examples
    --------
    >>> LinearMap(np.array([2.0]), 1.0, 0.1, 0.0).of(np.array([[3.0]])).tolist()
    [7.0]
    """

    weights: Floats
    offset: float
    ridge: float
    error: float
    error_noise: float = 0.0

    @one_blas_thread()
    def of(self, rows: Array) -> Floats:
        """Return the outputs of rows (n, d)."""
        return np.asarray(rows @ self.weights + self.offset)


@one_blas_thread()
def ridge_of(pairs: PairSums) -> LinearMap:
    """Return the ridge regression whose estimated error on other pairs is smallest.

    Parameters
    ----------
    pairs : PairSums
        Sums of pairs, with or without noise.

    Returns
    -------
    LinearMap
        The regression.

    See Also
    --------
    onefold.fabrication.MomentRegressor : The estimator.

    Notes
    -----
    The same sums give the same bits on one machine, whatever the number of BLAS threads.

    References
    ----------
    Golub, Heath and Wahba, "Generalized cross-validation as a method for choosing a good ridge parameter",
    1979; Stein, "Estimation of the mean of a multivariate normal distribution", 1981.

    Examples
    --------
    >>> x = np.linspace(0.0, 1.0, 50)
    >>> found = ridge_of(PairSums.of(x[:, None], 3.0 * x + 1.0))
    >>> found.of(np.array([[0.5]])).round(2).tolist()
    [2.5]
    """
    if pairs.is_noisy:
        return _noisy_ridge(pairs)
    spectrum, ridge, error = PairSpectrum.chosen(pairs)
    return spectrum.at(ridge, error)


# --- without noise ----------------------------------------------------------------------------------------


class PairSpectrum:
    """Sums without noise, in the coordinates in which the covariance of x is diagonal.

    Parameters
    ----------
    pairs : PairSums
        Sums of at least one pair, without noise.
    standardise : bool
        Penalise the weights of columns that are standardised by their own variances, instead of the weights
        of columns as they are.

    See Also
    --------
    ridge_of : The regression with the smallest estimated error.

    Examples
    --------
    >>> x = np.linspace(0.0, 1.0, 50)
    >>> spectrum = PairSpectrum(PairSums.of(x[:, None], 3.0 * x), standardise=True)
    >>> spectrum.error(1e-4) < spectrum.error(1.0)
    True
    """

    @one_blas_thread()
    def __init__(self, pairs: PairSums, standardise: bool) -> None:
        if not pairs.count >= 1.0:
            raise InvalidInputError("there are no rows to learn from")
        self.size = pairs.count
        mean = pairs.sums / self.size
        covariance = pairs.products / self.size - np.outer(mean, mean)
        self.mean, self.middle = mean[:-1], float(mean[-1])
        self.variance = max(float(covariance[-1, -1]), 0.0)
        spreads = np.maximum(np.diag(covariance)[:-1], 0.0)
        # A constant column has a variance of rounding only, which must not be blown up.
        varies = spreads > ROUNDING * np.diag(pairs.products)[:-1] / self.size
        own = np.sqrt(np.where(varies, spreads, 1.0)) if standardise else np.ones(len(spreads))
        self.scale = np.where(varies, 1.0 / own, 0.0)
        values, self.vectors = scipy.linalg.eigh(
            covariance[:-1, :-1] * self.scale[:, None] * self.scale, check_finite=False, driver="evd"
        )
        self.values = np.maximum(values, 0.0)
        self.unit = float(self.values.mean()) or 1.0  # any will do where no column varies
        self.across = self.vectors.T @ (covariance[:-1, -1] * self.scale)

    @classmethod
    def chosen(cls, pairs: PairSums) -> "tuple[PairSpectrum, float, float]":
        """Compare both penalties and all ridges.

        Parameters
        ----------
        pairs : PairSums
            Sums without noise.

        Returns
        -------
        spectrum : PairSpectrum
            The one with the better penalty.
        ridge : float
            The ridge of the smallest estimated error.
        error : float
            This error; infinite if there are too few pairs for an estimate, and the ridge is the strongest.
        """
        spectra = [cls(pairs, standardise) for standardise in (False, True)]
        errors = np.array([[spectrum.error(ridge) for ridge in RIDGES] for spectrum in spectra])
        if not np.isfinite(errors).any():
            return spectra[1], RIDGES[-1], float("inf")
        which, place = np.unravel_index(np.argmin(errors), errors.shape)
        return spectra[which], RIDGES[place], float(errors[which, place])

    def _inverse(self, ridge: float) -> Floats:
        """The diagonal q."""
        return np.asarray(1.0 / (self.values + ridge * self.unit))

    def error(self, ridge: float) -> float:
        """Estimate the mean squared error on other pairs by generalised cross-validation.

        Parameters
        ----------
        ridge : float
            In units of the mean eigenvalue.

        Returns
        -------
        float
            The mean squared residual over the squared share of freedom that is left; infinite where the fit
            has more degrees of freedom than half the number of pairs.
        """
        inverse = self._inverse(ridge)
        freedom = (1.0 + float(np.sum(self.values * inverse))) / self.size
        if freedom >= MOST_FREEDOM:
            return float("inf")
        explained = float(np.sum(self.across**2 * inverse * (2.0 - self.values * inverse)))
        return max(self.variance - explained, 0.0) / (1.0 - freedom) ** 2

    @one_blas_thread()
    def at(self, ridge: float, error: float) -> LinearMap:
        """Return the regression with a ridge.

        Parameters
        ----------
        ridge : float
            In units of the mean eigenvalue.
        error : float
            What :meth:`error` says about it.

        Returns
        -------
        LinearMap
            The regression.
        """
        weights = self.scale * (self.vectors @ (self._inverse(ridge) * self.across))
        return LinearMap(weights, self.middle - float(self.mean @ weights), ridge, error)

    @one_blas_thread()
    def left_out(self, ridge: float, rows: Array, outputs: Array) -> Floats:
        """Return the errors of fitted pairs as if each had been left out when the ridge was fitted.

        Parameters
        ----------
        ridge : float
            In units of the mean eigenvalue.
        rows : ndarray of shape (n, d)
            The x of pairs that were fitted.
        outputs : ndarray of shape (n,)
            Their y.

        Returns
        -------
        ndarray of shape (n,)
            The y less what the others say about it: a residual over one minus the leverage of its pair.
        """
        inverse = self._inverse(ridge)
        centred = ((rows - self.mean) * self.scale) @ self.vectors
        leverage = (1.0 + (centred**2) @ inverse) / self.size
        fitted = self.middle + centred @ (inverse * self.across)
        return np.asarray((outputs - fitted) / (1.0 - np.minimum(leverage, LARGEST_LEVERAGE)))


# --- with noise -------------------------------------------------------------------------------------------


def _noisy_ridge(pairs: PairSums) -> LinearMap:
    r"""Choose the ridge by the error on the true sums, estimated from the noisy ones.

    With :math:`u = (1, x)`, noisy sums :math:`M` of :math:`u u^T` and :math:`r` of :math:`u y`,
    :math:`B = (M + \lambda D)^{-1}` and :math:`w = B r`, the squared residuals :math:`w^T M w - 2 w^T r` of
    the noisy sums are smaller than those of the true ones. By Stein's lemma and the derivative of an inverse,
    on average by :math:`2 \sum_i v_i B_{ii}` for the variances :math:`v` in r, and for the variances
    :math:`V` in M by :math:`2 \sum_{i \ne j} V_{ij} (B_{ii} w_j^2 + B_{ij} w_i w_j)
    + 2 \sum_i V_{ii} B_{ii} w_i^2`.
    """
    width = len(pairs.sums) - 1
    moments = _bordered(pairs.count, pairs.sums[:-1], pairs.products[:-1, :-1])
    right = np.append(pairs.sums[-1], pairs.products[:-1, -1])
    half = pairs.product_noise**2 / 2.0
    inner = np.full((width, width), half) - np.diag(np.full(width, half))
    beside = _bordered(0.0, np.full(width, pairs.sum_noise**2), inner)  # V without its diagonal
    diagonal = np.append(pairs.count_noise**2, np.full(width, 2.0 * half))
    of_right = np.append(pairs.sum_noise**2, np.full(width, half))
    size = max(pairs.count, 1.0)
    moments[0, 0] = size
    # The eigenvalues of the noise fill an interval around zero up to this (Wigner's semicircle).
    unit = pairs.product_noise * math.sqrt(2.0 * width)
    best: LinearMap | None = None
    for ridge in NOISE_RIDGES:
        values, vectors = np.linalg.eigh(moments + np.diag(np.append(0.0, np.full(width, ridge * unit))))
        if values[0] < SMALLEST * unit and best is not None:
            continue
        B = (vectors / np.maximum(values, SMALLEST * unit)) @ vectors.T
        w = B @ right
        lost = 2.0 * float(of_right @ np.diag(B))
        lost += 2.0 * float(np.diag(B) @ beside @ w**2 + w @ (beside * B) @ w)
        lost += 2.0 * float(np.sum(diagonal * np.diag(B) * w**2))
        residual = float(pairs.products[-1, -1] + w @ moments @ w - 2.0 * w @ right)
        freedom = min(float(np.sum(B * moments)) / size, MOST_FREEDOM)
        error = (residual + lost) / size / (1.0 - freedom) ** 2
        if best is None or error < best.error:
            noise = _noise_of_residuals(pairs, w) / size / (1.0 - freedom) ** 2
            best = LinearMap(w[1:], float(w[0]), ridge, error, noise)
    assert best is not None  # the first ridge is never passed over
    return best


def _noise_of_residuals(pairs: PairSums, w: Floats) -> float:
    """Standard deviation that the noise gives the squared residuals of weights that do not depend on it."""
    square = float(w[1:] @ w[1:]) + 1.0  # of the weights of x and of y, which is -1
    of_sums = 2.0 * float(w[0]) * pairs.sum_noise * math.sqrt(square)
    return math.hypot(pairs.product_noise * square, of_sums, float(w[0]) ** 2 * pairs.count_noise)


def _bordered(corner: float, border: Floats, inner: Floats) -> Floats:
    """A symmetric matrix with one row and column more."""
    return np.block([[np.array([[corner]]), border[None]], [border[:, None], inner]])
