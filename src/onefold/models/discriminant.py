r"""Linear classifiers in closed form from counts, class sums and one Gram matrix, without the rows.

With :math:`\pi` the shares of the classes, :math:`m` the mean of all rows, :math:`M_c` the class means less
:math:`m` and :math:`S = U \mathrm{diag}(w) U^T` the covariance of all rows, everything here needs one
eigendecomposition and, for a ridge of :math:`\lambda` times the mean eigenvalue :math:`t`, the diagonal
:math:`q = 1 / (w + \lambda t)`. Where :math:`P = M U`, the small matrices :math:`K = (P q) P^T` and
:math:`E = (P q w q) P^T` hold what the scores of the class means and their variances within classes are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from onefold._base.arrays import Array, ArrayField, Floats, Index
from onefold._base.parallel import one_blas_thread
from onefold.exceptions import InvalidInputError

__all__ = ["RIDGES", "TAILS", "LinearScores", "PooledSpectrum", "fold_ridge"]

# Ridges that are tried, in units of the mean eigenvalue.
RIDGES = tuple(10.0 ** (exponent / 2.0) for exponent in range(-8, 5))
# Where a fit has more degrees of freedom than this share of the rows, residuals and what they are divided by
# both vanish, and their ratio says nothing about other rows.
MOST_FREEDOM = 0.5
LARGEST_LEVERAGE = 0.95
# Share of the log odds of normal scores that real ones have: the median over training rows of four datasets.
TAILS = 0.4


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


class PooledSpectrum:
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
        values, self.vectors = scipy.linalg.eigh(
            covariance, overwrite_a=True, check_finite=False, driver="evd"
        )
        self.values = np.maximum(values, 0.0)
        width = len(self.values)
        # Rows that are all equal have no spread at all: any positive unit then gives scores of zero.
        self.unit = float(self.values.sum()) / width or 1.0
        self.means = (sums / counts[:, None] - self.mean) @ self.vectors  # P

    def _inverse(self, ridge: float) -> Floats:
        """The diagonal q."""
        return np.asarray(1.0 / (self.values + ridge * self.unit))

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
        weight = np.minimum((1.0 + (centred**2) @ inverse) / self.size, LARGEST_LEVERAGE)[:, None]
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
