r"""Ridge regression in closed form from the sums of pairs (x, y), without the pairs.

Known are the number of pairs, the sum of :math:`z = (x, y)` and the sum of :math:`z z^T`, exactly or with
Gaussian noise of public levels. With :math:`S = U \mathrm{diag}(w) U^T` the covariance of x, :math:`c` its
covariance with y and :math:`q = 1 / (w + \lambda t)` for a ridge of :math:`\lambda` times the mean eigenvalue
:math:`t`, the weights are :math:`U \mathrm{diag}(q) U^T c`.

Without noise the ridge comes from generalised cross-validation, which needs the same sums only. With noise
every number is first replaced by what is to be expected of it, given its noise and the range it must lie in.
Then all strengths with which y may depend on x are mixed, each as far as it is likely. One of them is not at
all: where noise drowns the rest the mean of y is left, and where it drowns that too, the middle of its range.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from onefold._base.arrays import Array, Floats
from onefold._base.fixed_point import denoised_spectrum, mean_inside
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
# With noise: shares of the variance of y that the columns may explain, and how likely each is beforehand: a
# third is likeliest, nothing and everything are not likely.
EXPLAINED = (*(step / 20.0 for step in range(20)), 0.99)
LIKELY = tuple(max(share, EXPLAINED[1]) * (1.0 - share) ** 2 for share in EXPLAINED)
# Half of what drives eigenvalues apart is believed where it is this much, in squared deviations of noise.
DOUBT = 1.0
# Squared distance of the mean of y from zero that is to be expected, in units of the largest square of y.
MIDDLE = 1.0 / 12.0


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
    row_square : float, default=1.0
        Largest squared length of an x, known without the pairs. It matters with noise only.
    output_square : float, default=1.0
        The same of a y.

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
    row_square: float = 1.0
    output_square: float = 1.0

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
        The ridge, in units of the mean eigenvalue. With noise, where no single ridge was taken, the one that
        leaves as many degrees of freedom if all eigenvalues are equal; infinite where only the mean is left.
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
    """Return the ridge regression whose estimated error on other pairs is smallest; with noise, a mixture.

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
    1979; Stein, "Estimation of the mean of a multivariate normal distribution", 1981; Bun, Allez, Bouchaud
    and Potters, "Rotational invariant estimator for general noisy matrices", 2016.

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


class _Cleaned(NamedTuple):
    """What is believed about the true sums, in the coordinates of the eigenvectors of the covariance of x."""

    size: float  # number of pairs, n
    mean: Floats  # of x
    middle: float  # mean of y
    variance: float  # of y, v
    values: Floats  # eigenvalues of the covariance of x, d
    vectors: Floats
    across: Floats  # sums of the products of x and y, both seen from their means, c: as they were seen
    noise: Floats  # variances of the noise in them
    doubt: float  # squared error of a row of the covariance, for the sum over n pairs


def _noisy_ridge(pairs: PairSums) -> LinearMap:
    r"""Mix regressions of all strengths, each as far as the noisy sums speak for it (empirical Bayes).

    Let the columns explain the share :math:`\rho` of the variance v of y. Weights then have the variance
    :math:`\tau = \rho v / \sum_i d_i`. What was seen of :math:`c_i = n d_i w_i` has three variances besides:
    that of its noise, that of the rest of y, :math:`(1 - \rho) v n d_i`, and that of what is wrong in d. With
    :math:`A_i` the sum of all four, :math:`k_i c_i` with :math:`k_i = \tau n d_i / A_i` is to be expected of
    the weight, and the likelihood of the share is the normal one of all c. The share 0 is among those that
    are mixed, and wins where noise drowns the rest: what is left is the mean.

    The squared residuals of the result look too small on the noisy sums: by Stein's lemma on average by
    :math:`2 \sum_i k_i` times the variance of the noise in :math:`c_i`, which is added.
    """
    known = _cleaned(pairs)
    size, c, true = known.size, known.across, known.size * known.values
    likelihoods, factors = [], []
    for share, likely in zip(EXPLAINED, LIKELY, strict=True):
        spread = share * known.variance / (float(known.values.sum()) or 1.0)
        rest = (1.0 - share) * known.variance
        total = true**2 * spread + known.noise + known.doubt * spread + rest * true
        likelihoods.append(math.log(likely) - float(np.sum(np.log(total) + c**2 / total)) / 2.0)
        factors.append(spread * true / total)
    mixture = np.exp(np.array(likelihoods) - max(likelihoods))
    factor = mixture @ np.array(factors) / mixture.sum()
    turned = factor * c
    freedom = float(factor @ true)
    residual = float(pairs.products[-1, -1]) - size * known.middle**2
    residual += float(turned @ (true * turned) - 2.0 * turned @ c + 2.0 * factor @ known.noise)
    weights = known.vectors @ turned
    offset = known.middle - float(known.mean @ weights)
    left = size * (1.0 - min((1.0 + freedom) / size, MOST_FREEDOM)) ** 2
    noise = _noise_of_residuals(pairs, np.append(offset, weights))
    ridge = len(c) / freedom - 1.0 if freedom > 0.0 else math.inf
    return LinearMap(weights, offset, ridge, residual / left, noise / left)


def _cleaned(pairs: PairSums) -> _Cleaned:
    """Expect of every number what its noise and what was known without the pairs leave of it."""
    width = len(pairs.sums) - 1
    size = max(mean_inside(pairs.count, pairs.count_noise, 0.0, math.inf), 1.0)
    *_, middle = means = pairs.sums / size
    # That of x is shrunk to zero as a whole (James and Stein), that of y to the middle of its range.
    square = float(means[:-1] @ means[:-1])
    noise = width * (pairs.sum_noise / size) ** 2
    mean = means[:-1] * (1.0 - noise / square if square > noise else 0.0)
    usual = MIDDLE * pairs.output_square
    middle = (
        float(middle) * usual / (usual + (pairs.sum_noise**2 + (middle * pairs.count_noise) ** 2) / size**2)
    )
    level = pairs.product_noise / size
    variance = mean_inside(float(pairs.products[-1, -1]) / size - middle**2, level, 0.0, pairs.output_square)
    # What the mean is wrong by is in the covariance too: twice, once for either factor.
    level = math.hypot(level, 2.0 * pairs.sum_noise / size * math.sqrt(float(mean @ mean) / width))
    covariance = pairs.products[:-1, :-1] / size - np.outer(mean, mean)
    values, vectors, doubt = _spectrum(covariance, level, pairs.row_square)
    across = vectors.T @ (pairs.products[:-1, -1] - mean * pairs.sums[-1])
    of_means = pairs.sum_noise**2 * (middle**2 + (vectors.T @ mean) ** 2)
    of_across = pairs.product_noise**2 / 2.0 + of_means
    return _Cleaned(size, mean, middle, variance, values, vectors, across, of_across, doubt * size**2 / width)


def _spectrum(covariance: Floats, level: float, most: float) -> tuple[Floats, Floats, float]:
    """Eigenvalues less their noise, eigenvectors, and the squared error that is left in the whole matrix.

    Eigenvalues are drawn together as is best for noise of this level, and to their mean as far as noise
    alone could have driven them apart.
    """
    width = len(covariance)
    trace = mean_inside(float(np.trace(covariance)), level * math.sqrt(width), 0.0, most)
    values, vectors = scipy.linalg.eigh(covariance, check_finite=False, driver="evd")
    usual = trace / width
    square = float(np.sum((values - values.mean()) ** 2))
    of_noise = level**2 * width * (width + 1) / 2.0  # what noise adds to it, with deviations of it below
    surplus = max(square / of_noise - 1.0, 0.0) * math.sqrt(width * (width + 1)) / 2.0
    believed = surplus**2 / (surplus**2 + DOUBT)
    found = usual + believed * (denoised_spectrum(values, level, trace) - usual)
    wrong = square - of_noise - float(np.sum((found - usual) ** 2))
    return found, vectors, min(max(wrong, 0.0), of_noise)


def _noise_of_residuals(pairs: PairSums, w: Floats) -> float:
    """Standard deviation that the noise gives the squared residuals of weights that do not depend on it."""
    square = float(w[1:] @ w[1:]) + 1.0  # of the weights of x and of y, which is -1
    of_sums = 2.0 * float(w[0]) * pairs.sum_noise * math.sqrt(square)
    return math.hypot(pairs.product_noise * square, of_sums, float(w[0]) ** 2 * pairs.count_noise)
