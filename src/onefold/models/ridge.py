r"""Ridge regression and linear classifiers in closed form from sums over rows, without the rows.

Everything here needs one eigendecomposition of a covariance :math:`S = U \mathrm{diag}(w) U^T` and, for a
ridge of :math:`\lambda` times the mean eigenvalue :math:`t`, the diagonal :math:`q = 1 / (w + \lambda t)`.

**Numbers.** Known are the number of pairs, the sum of :math:`z = (x, y)` and the sum of :math:`z z^T`,
exactly or with Gaussian noise of public levels. With :math:`S` the covariance of x and :math:`c` its
covariance with y, the weights are :math:`U \mathrm{diag}(q) U^T c`.

Without noise the ridge comes from generalised cross-validation, which needs the same sums only. With noise
every number is first replaced by what is to be expected of it, given its noise and the range it must lie in.
Then all strengths with which y may depend on x are mixed, each as far as it is likely. One of them is not at
all: where noise drowns the rest the mean of y is left, and where it drowns that too, the middle of its range.

**Classes.** Known are counts, class sums and one Gram matrix. With :math:`\pi` the shares of the classes,
:math:`m` the mean of all rows, :math:`M_c` the class means less :math:`m` and :math:`S` the covariance of
all rows, let :math:`P = M U`: the small matrices :math:`K = (P q) P^T` and :math:`E = (P q w q) P^T` hold
what the scores of the class means and their variances within classes are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from onefold._base.arrays import Array, ArrayField, Floats, Index
from onefold._base.fixed_point import denoised_spectrum, mean_inside
from onefold._base.parallel import one_blas_thread, run_parallel
from onefold.exceptions import InvalidInputError

__all__ = [
    "RIDGES",
    "TAILS",
    "LinearMap",
    "LinearScores",
    "PairSpectrum",
    "PairSums",
    "PooledSpectrum",
    "QuadraticScores",
    "fold_ridge",
    "ridge_of",
]

BLOCK_VALUES = 4_000_000  # values of rows that are looked at together
# Ridges that are tried, in units of the mean eigenvalue: of numbers and of classes.
PAIR_RIDGES = tuple(10.0 ** (exponent / 2.0) for exponent in range(-14, 5))
RIDGES = tuple(10.0 ** (exponent / 2.0) for exponent in range(-8, 5))
# Where a fit has more degrees of freedom than this share of the rows, residuals and what they are divided by
# both vanish, and their ratio says nothing about other rows.
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


# Share of the log odds of normal scores that real ones have: the median over training rows of four datasets.
TAILS = 0.4


class _RowSpectrum:
    """Rows in the coordinates in which their covariance is diagonal."""

    size: float

    def _turn(self, covariance: Floats) -> None:
        """Find these coordinates; the matrix is overwritten."""
        values, self.vectors = scipy.linalg.eigh(
            covariance, overwrite_a=True, check_finite=False, driver="evd"
        )
        self.values = np.maximum(values, 0.0)
        # Where no column varies any positive unit will do.
        self.unit = float(self.values.mean()) or 1.0

    def _inverse(self, ridge: float) -> Floats:
        """The diagonal q."""
        return np.asarray(1.0 / (self.values + ridge * self.unit))

    def _leverage(self, centred: Floats, inverse: Floats) -> Floats:
        """Weight of each row in its own score, kept away from one."""
        return np.asarray(np.minimum((1.0 + (centred**2) @ inverse) / self.size, LARGEST_LEVERAGE))


# --- numbers ----------------------------------------------------------------------------------------------


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


class PairSpectrum(_RowSpectrum):
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
        self._turn(covariance[:-1, :-1] * self.scale[:, None] * self.scale)
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
        errors = np.array([[spectrum.error(ridge) for ridge in PAIR_RIDGES] for spectrum in spectra])
        if not np.isfinite(errors).any():
            return spectra[1], PAIR_RIDGES[-1], float("inf")
        which, place = np.unravel_index(np.argmin(errors), errors.shape)
        return spectra[which], PAIR_RIDGES[place], float(errors[which, place])

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
        fitted = self.middle + centred @ (inverse * self.across)
        return np.asarray((outputs - fitted) / (1.0 - self._leverage(centred, inverse)))


# --- numbers behind noise ---------------------------------------------------------------------------------


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


# --- classes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearScores:
    """Scores of classes that are linear in a row; a class without rows has minus infinity.

    Parameters
    ----------
    weights : ndarray of shape (d, C)
        Weights of the columns of a row.
    offsets : ndarray of shape (C,)
        What is added.
    temperature : float, default=1.0
        What scores are multiplied by before they become probabilities.

    See Also
    --------
    PooledSpectrum : Makes them.

    Examples
    --------
    >>> LinearScores(np.eye(2), np.zeros(2)).of(np.array([[1.0, 3.0]])).tolist()
    [[1.0, 3.0]]
    """

    weights: Floats
    offsets: Annotated[NDArray[np.float64], ArrayField("f", (1,), finite=False, n_bytes=8)]
    temperature: float = 1.0

    def of(self, rows: Array) -> Floats:
        """Return the scores of rows (n, d) for each class, (n, C)."""
        return np.asarray(rows @ self.weights + self.offsets)


@dataclass(frozen=True)
class QuadraticScores:
    """Log densities of one Gaussian for each class, up to a constant, plus what is known of its size.

    Parameters
    ----------
    means : ndarray of shape (C, d)
        Mean of each class.
    whitening : ndarray of shape (C, d, d)
        Matrices W with x^T Sigma^-1 x = |x^T W|^2.
    offsets : ndarray of shape (C,)
        What is added.

    See Also
    --------
    LinearScores : Gaussians with one covariance.

    Examples
    --------
    >>> means, covariances = np.array([[0.0], [2.0]]), np.ones((2, 1, 1))
    >>> QuadraticScores.of_gaussians(means, covariances, 0.0).of(np.array([[0.5]])).tolist()
    [[-0.125, -1.125]]
    """

    means: Floats
    whitening: Floats
    offsets: Floats

    @classmethod
    def of_gaussians(cls, means: Floats, covariances: Floats, sizes: Floats | float) -> "QuadraticScores":
        """Return the scores of Gaussians, plus ``sizes``."""
        values, vectors = np.linalg.eigh(covariances)  # W = U diag(1 / sqrt(w)) of the eigendecomposition
        offsets = sizes - 0.5 * np.log(values).sum(axis=1)
        return cls(means, vectors / np.sqrt(values)[:, None, :], offsets)

    def of(self, rows: Array) -> Floats:
        """Return the scores of rows (n, d) for each class, (n, C)."""
        scores = np.empty((len(rows), len(self.means)))
        step = max(1, BLOCK_VALUES // rows.shape[1])

        def score(start: int) -> None:
            block = slice(start, start + step)
            for code, (mean, whitening) in enumerate(zip(self.means, self.whitening, strict=True)):
                scores[block, code] = np.sum(((rows[block] - mean) @ whitening) ** 2, axis=1)

        run_parallel(score, range(0, len(rows), step))
        return np.asarray(self.offsets - 0.5 * scores)


class PooledSpectrum(_RowSpectrum):
    """One eigendecomposition of the covariance of all rows, and the classifiers that follow from it.

    Parameters
    ----------
    counts : ndarray of shape (C,)
        Rows of each class; classes without rows get no score.
    sums : ndarray of shape (C, d)
        Sums of the rows of each class.
    gram : ndarray of shape (d, d)
        Sum of the outer products of all rows.

    See Also
    --------
    onefold.fabrication.MomentClassifier : The classifier.

    Notes
    -----
    The same numbers give the same bits on one machine, whatever the number of BLAS threads.

    References
    ----------
    Golub, Heath and Wahba, "Generalized cross-validation as a method for choosing a good ridge parameter",
    1979.

    Examples
    --------
    >>> rows, codes = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.2]]), np.array([0, 0, 1, 1])
    >>> sums = np.array([rows[codes == c].sum(axis=0) for c in (0, 1)])
    >>> spectrum = PooledSpectrum(np.array([2.0, 2.0]), sums, rows.T @ rows)
    >>> spectrum.scores("ridge", 0.1).of(rows).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    @one_blas_thread()
    def __init__(self, counts: Floats, sums: Floats, gram: Floats) -> None:
        self.counts = np.asarray(counts, dtype=np.float64)
        self.present: Index = np.flatnonzero(self.counts > 0.0)
        if not self.present.size:
            raise InvalidInputError("there are no rows to learn from")
        counts = self.counts[self.present]
        self.size = float(counts.sum())
        self.shares = counts / self.size
        sums = np.asarray(sums)[self.present]
        self.mean = sums.sum(axis=0) / self.size
        covariance = gram / self.size
        covariance -= np.outer(self.mean, self.mean)
        self._turn(covariance)
        self.means = (sums / counts[:, None] - self.mean) @ self.vectors  # P

    def _between(self, inverse: Floats) -> tuple[Floats, Floats]:
        """K and E: scores of the class means by each class, and covariances of the scores over all rows."""
        weighted = self.means * inverse
        return weighted @ self.means.T, (weighted * self.values) @ weighted.T

    # --- how large the ridge should be ------------------------------------------------------------------

    def error(self, ridge: float) -> float:
        r"""Estimate the squared error of ridge regression on rows that it has not seen.

        Class-aware generalised cross-validation: within a class all rows get the mean leverage
        :math:`h_c = (1 + d_1 + K_{cc}) / N`, and residuals are divided by :math:`1 - h_c`.

        Parameters
        ----------
        ridge : float
            In units of the mean eigenvalue.

        Returns
        -------
        float
            Mean squared error per row; infinite where the fit has more degrees of freedom than half
            the number of rows.
        """
        inverse, shares = self._inverse(ridge), self.shares
        freedom = float(np.sum(self.values * inverse)) + 1.0
        if freedom >= MOST_FREEDOM * self.size:
            return float("inf")
        K, E = self._between(inverse)
        leverage = self.leverages(ridge)
        if np.any(leverage >= 1.0):
            return float("inf")
        scores = shares + K * shares  # mean scores of the rows of each class, one row per class
        bias = np.sum((scores - np.eye(len(shares))) ** 2, axis=1)
        spread = float(np.sum(shares**2 * np.diag(E)) - np.sum(shares[:, None] * (K * shares) ** 2))
        return float(np.sum(shares * (bias + max(spread, 0.0)) / (1.0 - leverage) ** 2))

    def leverages(self, ridge: float) -> Floats:
        """Return the mean weight of a row in its own score, for each class that has rows.

        Parameters
        ----------
        ridge : float
            In units of the mean eigenvalue.

        Returns
        -------
        ndarray of shape (n_present,)
            Mean leverages.
        """
        inverse = self._inverse(ridge)
        own = np.sum(self.means**2 * inverse, axis=1)
        within = float(np.sum(self.values * inverse) - np.sum(self.shares * own))
        return np.asarray((1.0 + within + own) / self.size)

    @cached_property
    def chosen(self) -> tuple[float, float]:
        """The ridge of the smallest estimated error, and this error."""
        errors = [self.error(ridge) for ridge in RIDGES]
        best = int(np.argmin(errors))
        if not np.isfinite(errors[best]):  # too few rows for an estimate: the strongest ridge
            return RIDGES[-1], float("inf")
        return RIDGES[best], errors[best]

    # --- the classifiers --------------------------------------------------------------------------------

    def scores(self, rule: str, ridge: float) -> LinearScores:
        """Return the scores of a classifier.

        Parameters
        ----------
        rule : {"ridge", "lda", "average", "balanced"}
            ``ridge``: regression on one-hot labels. ``lda``: linear discriminant analysis, logarithms of
            densities times shares up to a common term. ``average``: the sum of both, each in units of its
            deviation within classes. ``balanced``: discriminant scores for classes that are equally likely,
            corrected for rare ones.
        ridge : float
            In units of the mean eigenvalue.

        Returns
        -------
        LinearScores
            Scores.
        """
        mixing, offsets = self._rule(rule, ridge)
        temperature = self._temperature(ridge, mixing, offsets)
        with one_blas_thread():
            own = self.vectors @ (self._inverse(ridge)[:, None] * (self.means.T @ mixing))
            constants = np.full(len(self.counts), -np.inf)
            constants[self.present] = offsets - self.mean @ own
        weights = np.zeros((len(self.mean), len(self.counts)))
        weights[:, self.present] = own
        return LinearScores(weights, constants, temperature)

    @one_blas_thread()
    def left_out(self, rule: str, ridge: float, rows: Floats, codes: Index) -> Floats:
        """Return the scores of fitted rows as if each had been left out when the ridge was fitted.

        Exact for ``ridge``; the other rules take their small matrices from all rows.

        Parameters
        ----------
        rule : {"ridge", "lda", "average", "balanced"}
            See :meth:`scores`.
        ridge : float
            In units of the mean eigenvalue.
        rows : ndarray of shape (n, d)
            Rows that were fitted.
        codes : ndarray of int of shape (n,)
            Numbers of their classes.

        Returns
        -------
        ndarray of shape (n, C)
            Scores; minus infinity for classes without rows.
        """
        mixing, offsets = self._rule(rule, ridge)
        inverse = self._inverse(ridge)
        centred = (rows - self.mean) @ self.vectors
        weight = self._leverage(centred, inverse)[:, None]
        fitted = self.shares * (1.0 + (centred * inverse) @ self.means.T)
        right = self.present == np.asarray(codes)[:, None]
        alone = (fitted - weight * right) / (1.0 - weight)
        found = np.full((len(rows), len(self.counts)), -np.inf)
        found[:, self.present] = (alone / self.shares - 1.0) @ mixing + offsets
        return found

    def _rule(self, rule: str, ridge: float) -> tuple[Floats, Floats]:
        """M and o of scores z M + o, where z = G^T (x - m)."""
        shares = self.shares
        if rule == "ridge":
            return np.diag(shares), shares
        inverse = self._inverse(ridge)
        K, E = self._between(inverse)
        # Of the covariance within classes: (I - diag(pi) K)^-1 by Woodbury's formula.
        mixing: Floats = np.asarray(np.linalg.pinv(np.eye(len(K)) - shares[:, None] * K), dtype=np.float64)
        half = np.diag(K @ mixing) / 2.0  # half the squared lengths of the class means
        if rule == "lda":
            return mixing, np.log(shares) - half
        if rule == "balanced":
            within = float(np.sum(self.values * inverse) - np.sum(shares * np.diag(K)))
            rest = max(1.0 - within / self.size, 1.0 - LARGEST_LEVERAGE)
            # The squared mean of a class of few rows is too large by what the rows scatter.
            return mixing, within / (2.0 * self.counts[self.present] * rest) - half
        inside = E - (K * shares) @ K
        of_ridge, of_lda = (
            float(np.sum(shares**2 * np.diag(inside))),
            float(np.sum(mixing * (inside @ mixing))),
        )
        if not of_ridge > 0.0 or not of_lda > 0.0:  # the rows of every class are equal: either will do
            return np.diag(shares), shares
        one, other = np.sqrt(len(K) / of_ridge), np.sqrt(len(K) / of_lda)
        return one * np.diag(shares) + other * mixing, one * shares + other * (np.log(shares) - half)

    def _temperature(self, ridge: float, mixing: Floats, offsets: Floats) -> float:
        """Find the factor that turns scores into logarithms of odds, for rows that were not fitted.

        Between two classes, a normal score whose means are ``gap`` apart and whose variance is ``spread``
        has log odds of slope gap / spread. Means and variances are those of rows that are left out, by the
        mean leverage of their class; pairs count as far as they overlap. Scores of real rows have heavier
        tails than normal ones, for which a constant allows.
        """
        shares, n_classes = self.shares, len(self.shares)
        K, E = self._between(self._inverse(ridge))
        rest = 1.0 - np.minimum(self.leverages(ridge), LARGEST_LEVERAGE)
        means = (1.0 + K) / rest[:, None] - 1.0
        means[np.diag_indices(n_classes)] -= (1.0 / rest - 1.0) / shares
        scores = means @ mixing + offsets  # mean scores of the rows of each class
        inside = mixing.T @ (E - (K * shares) @ K) @ mixing
        own = np.diag(scores)[:, None] - scores  # advantage of the right class over each other one
        gap = own + own.T
        spread = np.diag(inside)[:, None] + np.diag(inside) - 2.0 * inside
        spread = (
            spread * (shares[:, None] / rest[:, None] ** 2 + shares / rest**2) / (shares[:, None] + shares)
        )
        apart = (gap > 0.0) & (spread > 0.0)
        if not apart.any():
            return 1.0
        gap, spread = gap[apart], spread[apart]
        weights = np.outer(shares, shares)[apart] * np.exp(-np.minimum(gap**2 / (8.0 * spread), 50.0))
        return float(TAILS * np.sum(weights * gap) / np.sum(weights * spread))


Statistic = tuple[Floats, Floats, Floats]  # counts, sums, gram


def fold_ridge(folds: Sequence[Statistic]) -> tuple[float, float]:
    """Choose the ridge by rows that were held out, fold by fold, exactly: from their statistics alone.

    Parameters
    ----------
    folds : sequence of (counts, sums, gram)
        Statistics of disjoint parts of the rows; rows that belong together are in one part.

    Returns
    -------
    ridge : float
        The best of :data:`RIDGES`.
    error : float
        Its mean squared error per row.
    """
    together = [np.sum([fold[k] for fold in folds], axis=0) for k in range(3)]
    errors = np.zeros(len(RIDGES))
    for fold in folds:
        rest = [whole - part for whole, part in zip(together, fold, strict=True)]
        if not np.any(rest[0] > 0.0) or not np.any(fold[0] > 0.0):
            continue  # everything in one part: nothing was held out
        spectrum = PooledSpectrum(*rest)
        errors += [_held_out(spectrum.scores("ridge", ridge), *fold) for ridge in RIDGES]
    if not errors.any():
        raise InvalidInputError("all rows belong to one group: name smaller groups, or none")
    best = int(np.argmin(errors))
    return RIDGES[best], float(errors[best] / together[0].sum())


@one_blas_thread()
def _held_out(scores: LinearScores, counts: Floats, sums: Floats, gram: Floats) -> float:
    """Sum of |e_y - W^T x - b|^2 over rows that only their statistic describes."""
    known = np.isfinite(scores.offsets)
    W, b = scores.weights, np.where(known, scores.offsets, 0.0)
    return float(
        counts.sum()
        - 2.0 * np.sum(sums.T * W)
        - 2.0 * np.sum(counts * b)
        + np.sum(W * (gram @ W))
        + 2.0 * (sums.sum(axis=0) @ W) @ b
        + counts.sum() * (b @ b)
    )
